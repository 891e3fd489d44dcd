"""Studies are data: every one of them resolves into plans that can run, or is refused in one sentence."""

import json
from pathlib import Path

import pytest
import yaml

from fedagem.errors import PlanError
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import plan_folder
from fedagem.studies.estimate import Estimator
from fedagem.studies.runs import runs_of
from fedagem.studies.study import Part, Row, Scale, Study, load_scale, load_study, study_names
from fedagem.tasks.settings import Arrivals, StreamSettings, TaskSettings

PLANS = plan_folder()


def data_of(plan: Plan) -> StreamSettings:
    assert isinstance(plan.data, StreamSettings)
    return plan.data


def rarer_stages(plan: Plan) -> dict[str, int]:
    """After how many rounds each stage runs that does not run in all of them."""
    return {stage.name: stage.every for stage in plan.rounds.stages if stage.every > 1}


@pytest.mark.parametrize("name", study_names(PLANS))
@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_every_study_of_the_repository_can_run(name, scale, tmp_path):
    runs = runs_of(load_study(PLANS, name), scale, 1, PLANS, tmp_path)
    assert runs
    for run in runs:
        assert run.plan.training.fedagem == (run.side == "with")
        assert run.plan.rounds.stages[-1].name == "evaluate"
        assert run.plan.rounds.stages[-1].every == data_of(run.plan).rounds_per_task
        assert rarer_stages(run.plan).keys() <= {"end_task", "evaluate"}


def one_part(**row):
    return Study(
        name="s",
        title="t",
        paper="p",
        parts=[
            Part(plan="sequential_cifar100", metrics=["accuracy.class_il"], rows=[Row(label="FL", with_=[1.0], **row)])
        ],
    )


def plan_of(tmp_path, scale="paper", **row):
    [run] = runs_of(one_part(**row), scale, 1, PLANS, tmp_path)
    return run.plan


def test_the_paper_scale_is_the_plan_as_it_stands(tmp_path):
    plan = plan_of(tmp_path)
    data, training = data_of(plan), plan.training
    assert (data.clients, data.epochs, data.batch_size, data.rounds_per_task) == (10, 5, 32, 20)
    assert (data.tasks, data.partition.alpha) == (TaskSettings(kind="sequential", count=10), 0.3)
    assert (training.optimizer.lr, training.buffer.capacity) == (0.1, 200)


@pytest.mark.parametrize(("fewer", "rounds", "epochs"), [(1, 20, 5), (2, 10, 10), (4, 5, 20), (10, 2, 50)])
def test_less_communication_is_fewer_rounds_with_the_same_local_work(tmp_path, fewer, rounds, epochs):
    plan = plan_of(tmp_path, fewer_rounds=fewer)
    assert (data_of(plan).rounds_per_task, data_of(plan).epochs) == (rounds, epochs)
    assert plan.aggregator.rounds_to_train == 10 * rounds


def test_rows_that_could_not_learn_equally_much_are_refused(tmp_path):
    study = load_study(PLANS, "communication")
    for scale in ("smoke", "paper"):
        runs = runs_of(study, scale, 1, PLANS, tmp_path)
        for number, part in enumerate(study.parts):
            settings = [data_of(run.plan) for run in runs if run.part == number]
            assert len({data.rounds_per_task * data.epochs for data in settings}) == 1, part.plan
    with pytest.raises(PlanError, match=r"rounds_per_task is 10, but the row FL \(0.5x\) runs 4 times fewer"):
        runs_of(study, "smoke", 1, PLANS, tmp_path, ("data_loader.settings.rounds_per_task=10",))


def test_the_number_of_tasks_changes_the_rounds_in_all(tmp_path):
    plan = plan_of(tmp_path, set={"data_loader.settings.tasks.count": 5})
    assert plan.aggregator.rounds_to_train == 100


def test_arriving_clients_agree_for_data_and_rounds(tmp_path):
    runs = runs_of(load_study(PLANS, "client-incremental"), "paper", 1, PLANS, tmp_path)
    for plan in (run.plan for run in runs):
        participation = plan.rounds.participation
        assert (participation.per_round, participation.rounds_per_task) == (10, 200)
        assert participation.arrivals == data_of(plan).arrivals == Arrivals(first=30, then=10)
        assert len(plan.workload.collaborators) == 120


def test_seeds_reach_data_and_participants(tmp_path):
    runs = runs_of(load_study(PLANS, "client-sampling"), "smoke", 2, PLANS, tmp_path)
    seeds = {(run.seed, run.plan.data.seed, run.plan.rounds.seed) for run in runs}
    assert seeds == {(0, 0, 0), (1, 1, 1)}


def test_studies_share_the_runs_they_have_in_common(tmp_path):
    directories = [
        {run.directory for run in runs_of(load_study(PLANS, name), "smoke", 1, PLANS, tmp_path)}
        for name in ("rotated-mnist", "refinement-mnist", "buffer-policy-mnist")
    ]
    assert len(directories[0] & directories[1] & directories[2]) == 2, "FL, alone and with Fed-A-GEM"
    changed = runs_of(
        load_study(PLANS, "rotated-mnist"), "smoke", 1, PLANS, tmp_path, ("data_loader.settings.epochs=2",)
    )
    assert not directories[0] & {run.directory for run in changed}


def test_the_command_line_has_the_last_word_on_rounds(tmp_path):
    given = ("data_loader.settings.rounds_per_task=3",)
    for run in runs_of(load_study(PLANS, "rotated-mnist"), "smoke", 1, PLANS, tmp_path, given):
        assert run.plan.aggregator.rounds_to_train == 3 * data_of(run.plan).tasks.count
        assert rarer_stages(run.plan) == {"end_task": 3, "evaluate": 3}
    with pytest.raises(PlanError, match="rounds_per_task must be a whole number, not 'x'"):
        runs_of(
            load_study(PLANS, "rotated-mnist"), "smoke", 1, PLANS, tmp_path, ("data_loader.settings.rounds_per_task=x",)
        )


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("task_runner.settings.buffer.capacity=50", r"rows of this study vary task_runner\.settings\.buffer\.capacity"),
        ("task_runner.settings.buffer={capacity: 50}", r"rows of this study vary task_runner\.settings\.buffer\.capac"),
        ("task_runner.settings.method=der", r"rows of this study vary the method\."),
        ("task_runner.settings.method_settings.coefficient=1", r"vary the settings of the method"),
        ("task_runner.settings.fedagem=false", r"every row of this study is run without and with Fed-A-GEM"),
        ("data_loader.settings.seed=7", r"say how many with --seeds"),
        ("assigner.settings.seed=7", r"say how many with --seeds"),
        ("data_loader.settings={seed: 7}", r"say how many with --seeds"),
        ("aggregator.settings.rounds_to_train=7", r"set data_loader\.settings\.rounds_per_task"),
    ],
)
def test_what_tells_rows_apart_cannot_be_set_for_all_of_them(tmp_path, assignment, sentence):
    with pytest.raises(PlanError, match=sentence) as refusal:
        runs_of(load_study(PLANS, "buffer-size"), "smoke", 1, PLANS, tmp_path, (assignment,))
    assert refusal.value.message.startswith(f"--set {assignment} cannot be used here")


def test_what_no_row_varies_can_be_set(tmp_path):
    given = ("task_runner.settings.buffer.policy=sliding_window", "task_runner.settings.buffer_gradient_samples=8")
    runs = runs_of(load_study(PLANS, "buffer-size"), "smoke", 1, PLANS, tmp_path, given)
    buffers = [run.plan.training.buffer for run in runs]
    assert {buffer.policy for buffer in buffers} == {"sliding_window"}
    assert {buffer.capacity for buffer in buffers} == {200, 500, 5120}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rowz": []}, r"has no setting 'rowz'; did you mean rows"),
        ({"baseline": "Fl"}, r"the baseline is 'Fl'; did you mean FL"),
        ({"rows": [{"label": "FL", "with": ["a lot"]}]}, r"FL, with is 'a lot', but should be a number"),
        ({"rows": [{"label": "FL", "with": [1, 2]}]}, r"FL, with has 2 numbers for 1 metrics"),
        ({"rows": [{"label": "FL"}, {"label": "FL"}]}, r"two rows .* have the same label"),
        ({"rows": [{"label": "FL", "set": {"data_loader.settings.client": 3}, "with": []}]}, r"no 'data_loader\.set"),
        ({"plan": "rotated_digits"}, r"has no scale 'smoke' for the plan rotated_digits"),
    ],
)
def test_a_study_that_cannot_run_is_refused_in_one_sentence(tmp_path, change, sentence):
    part = {"plan": "rotated_mnist", "metrics": ["seconds"], "rows": [{"label": "FL", "with": [1]}], **change}
    folder = tmp_path / "plan"
    (folder / "studies").mkdir(parents=True)
    for name in ("scales", "rotated_mnist"):
        (folder / f"{name}.yaml").write_text((PLANS / f"{name}.yaml").read_text())
    content = {"title": "t", "paper": "p", "parts": [part]}
    (folder / "studies" / "mine.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(PlanError, match=sentence):
        runs_of(load_study(folder, "mine"), "smoke", 1, folder, tmp_path)


def test_an_unknown_study_is_refused_with_the_nearest_name():
    with pytest.raises(PlanError, match=r"there is no study 'rotated-mnst'; did you mean rotated-mnist"):
        load_study(PLANS, "rotated-mnst")


def test_damaged_results_are_derived_again_from_what_was_measured(tmp_path):
    [run] = runs_of(one_part(), "smoke", 1, PLANS, tmp_path)
    (run.directory / "plan").mkdir(parents=True)
    (run.directory / "plan" / "plan.yaml").write_text(run.plan.to_yaml())
    row = {"round": 0, "stage": "train", "client": "federation", "metric": "seconds", "value": 2.5}
    (run.directory / "metrics.jsonl").write_text(f"{json.dumps(row)}\n")
    (run.directory / "results.json").write_text('{"plan": "seq')
    assert run.results()["seconds"] == 2.5
    assert json.loads((run.directory / "results.json").read_text())["seconds"] == 2.5


def test_rows_named_after_the_baseline_are_called_after_fedagem_too(tmp_path):
    names = {
        study: {run.name for run in runs_of(load_study(PLANS, study), "smoke", 1, PLANS, tmp_path)}
        for study in ("refinement", "first-task")
    }
    assert {"FL", "Average (always)", "Project (conflict), ours"} < names["refinement"]
    assert {"FL", "FL, B = 10 + Fed-A-GEM"} < names["first-task"]


def test_an_estimate_grows_with_the_work(tmp_path):
    estimator = Estimator()
    runs = runs_of(load_study(PLANS, "rotated-mnist"), "smoke", 1, PLANS, tmp_path)
    one, longer, side_by_side = (
        estimator.seconds(some, jobs) or 0 for some, jobs in ((runs[:1], 1), (runs, 1), (runs, 2))
    )
    assert 0 < one < longer
    assert side_by_side == pytest.approx(longer / 2)


def test_there_is_no_estimate_for_pictures_of_ones_own(tmp_path):
    given = ("data_loader.settings.dataset=image_folder", "data_loader.settings.root=mine")
    runs = runs_of(load_study(PLANS, "rotated-mnist"), "smoke", 1, PLANS, tmp_path, given)
    assert Estimator().seconds(runs, 1) is None


def test_scales_of_a_part_add_to_those_of_the_plan():
    part = Part(
        plan="rotated_mnist", metrics=[], rows=[], scales={"smoke": {"set": {"data_loader.settings.clients": 20}}}
    )
    scale = load_scale(Path(PLANS), part, "smoke")
    assert scale.set["data_loader.settings.clients"] == 20
    assert scale.set["task_runner.settings.model.template"] == "models.mnist_cnn.SmallCNN"


def test_a_scale_does_not_claim_what_the_command_line_has_changed():
    scale = Scale(rounds_per_task=2, set={"a.b": 1, "a.bc": 2, "d": {"e": 1, "f": 2}, "g.h.i": 3, "j": 4})
    assert scale.besides(["a.b=7", "d.e=3", "g.h={}"]) == Scale(rounds_per_task=2, set={"a.bc": 2, "j": 4})
