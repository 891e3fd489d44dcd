"""Studies are data: every one of them resolves into plans that can run, and its tables say what was measured."""

import csv
import dataclasses
import io
import json
import re
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from fedagem.errors import PlanError
from fedagem.plan import collaborators
from fedagem.studies.comparison import Line, compare
from fedagem.studies.curves import csv_curves, curves_of, markdown_curves
from fedagem.studies.estimate import Estimator
from fedagem.studies.plots import draw_curves
from fedagem.studies.study import Figure, Part, Row, Scale, Study, load_scale, load_study, plan_folder, study_names
from fedagem.studies.study_runs import runs_of
from fedagem.studies.tables import csv_table, latex_tables, markdown_tables, terminal_tables

PLANS = plan_folder()


@pytest.mark.parametrize("name", study_names(PLANS))
@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_every_study_of_the_repository_can_run(name, scale, tmp_path):
    runs = runs_of(load_study(PLANS, name), scale, 1, PLANS, tmp_path)
    assert runs
    for run in runs:
        loader = run.plan["data_loader"]["settings"]
        stages = run.plan["assigner"]["settings"]["stages"]
        assert run.plan["task_runner"]["settings"]["fedagem"] == (run.side == "with")
        assert [stage["every"] for stage in stages if "every" in stage] == [loader["rounds_per_task"]]


def one_part(**row):
    return Study("s", "t", "p", [Part("sequential_cifar100", ["accuracy.class_il"], [Row("FL", with_=[1.0], **row)])])


def plan_of(tmp_path, scale="paper", **row):
    [run] = runs_of(one_part(**row), scale, 1, PLANS, tmp_path)
    return run.plan


def test_the_paper_scale_is_the_plan_as_it_stands(tmp_path):
    plan = plan_of(tmp_path)
    loader, training = plan["data_loader"]["settings"], plan["task_runner"]["settings"]
    assert (loader["clients"], loader["epochs"], loader["batch_size"], loader["rounds_per_task"]) == (10, 5, 32, 20)
    assert (loader["tasks"], loader["partition"]["alpha"]) == ({"kind": "sequential", "count": 10}, 0.3)
    assert (training["optimizer"]["lr"], training["buffer"]["capacity"]) == (0.1, 200)


@pytest.mark.parametrize(("fewer", "rounds", "epochs"), [(1, 20, 5), (2, 10, 10), (4, 5, 20), (10, 2, 50)])
def test_less_communication_is_fewer_rounds_with_the_same_local_work(tmp_path, fewer, rounds, epochs):
    plan = plan_of(tmp_path, fewer_rounds=fewer)
    loader = plan["data_loader"]["settings"]
    assert (loader["rounds_per_task"], loader["epochs"]) == (rounds, epochs)
    assert plan["aggregator"]["settings"]["rounds_to_train"] == 10 * rounds


def test_rows_that_could_not_learn_equally_much_are_refused(tmp_path):
    study = load_study(PLANS, "communication")
    for scale in ("smoke", "paper"):
        for number, part in enumerate(study.parts):
            runs = [run for run in runs_of(study, scale, 1, PLANS, tmp_path) if run.part == number]
            loaders = [run.plan["data_loader"]["settings"] for run in runs]
            assert len({loader["rounds_per_task"] * loader["epochs"] for loader in loaders}) == 1, part.plan
    with pytest.raises(PlanError, match=r"rounds_per_task is 10, but the row FL \(0.5x\) runs 4 times fewer"):
        runs_of(study, "smoke", 1, PLANS, tmp_path, ("data_loader.settings.rounds_per_task=10",))


def test_the_number_of_tasks_changes_the_rounds_in_all(tmp_path):
    plan = plan_of(tmp_path, set={"data_loader.settings.tasks.count": 5})
    assert plan["aggregator"]["settings"]["rounds_to_train"] == 100


def test_arriving_clients_agree_for_data_and_rounds(tmp_path):
    runs = runs_of(load_study(PLANS, "client-incremental"), "paper", 1, PLANS, tmp_path)
    for plan in (run.plan for run in runs):
        participation = plan["assigner"]["settings"]["participation"]
        assert participation == {"per_round": 10, "arrivals": {"first": 30, "then": 10}, "rounds_per_task": 200}
        assert plan["data_loader"]["settings"]["arrivals"] == participation["arrivals"]
        assert len(collaborators(plan)) == 120


def test_seeds_reach_data_and_participants(tmp_path):
    runs = runs_of(load_study(PLANS, "client-sampling"), "smoke", 2, PLANS, tmp_path)
    seeds = {(r.seed, r.plan["data_loader"]["settings"]["seed"], r.plan["assigner"]["settings"]["seed"]) for r in runs}
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
        tasks = run.plan["data_loader"]["settings"]["tasks"]["count"]
        assert run.plan["aggregator"]["settings"]["rounds_to_train"] == 3 * tasks
        assert [s["every"] for s in run.plan["assigner"]["settings"]["stages"] if "every" in s] == [3]
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
    buffers = [run.plan["task_runner"]["settings"]["buffer"] for run in runs]
    assert {buffer["policy"] for buffer in buffers} == {"sliding_window"}
    assert {buffer["capacity"] for buffer in buffers} == {200, 500, 5120}


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


def line(paper=(60.0, 70.0), ours=((50.0, 2.0), (55.0, 1.0))):
    paper_without, paper_with = (Figure(value) for value in paper)
    ours_without, ours_with = (Figure(*value) for value in ours)
    return Line(
        "plan",
        "accuracy.task_il",
        "A & B_1",
        paper_without,
        ours_without,
        paper_with,
        ours_with,
        paper_without,
        ours_without,
    )


@pytest.mark.parametrize(
    ("subject", "verdict"),
    [
        (line(), "yes"),
        (line(ours=((50.0, 2.0), (45.0, 1.0))), "no"),
        (line(ours=((50.0, 2.0), (51.0, 1.0))), "yes (within spread)"),
        (line(ours=((50.0, 2.0), (49.0, 1.0))), "no (within spread)"),
        (line(paper=(70.0, 60.0), ours=((50.0, 2.0), (40.0, 1.0))), "yes"),
        (line(ours=((50.0, 2.0), (50.0, 1.0))), "no difference"),
        (line(paper=(70.0, 60.0), ours=((50.0, 0.0), (50.0, 0.0))), "no difference"),
        (line(ours=((50.0, 0.0), (50.1, 0.0))), "yes"),
    ],
)
def test_the_direction_is_judged_and_small_differences_are_marked(subject, verdict):
    assert subject.verdict == verdict


def finished_study(tmp_path):
    study = Study(
        "mine",
        "Mine",
        "Table 0",
        [
            Part(
                "rotated_mnist",
                ["accuracy.domain_il", "train_seconds"],
                [
                    Row("FL", without=["60±1", None], with_=["70±1.95", None]),
                    Row("Other", set={"task_runner.settings.buffer.policy": "sliding_window"}, with_=[]),
                ],
                baseline="FL",
            )
        ],
        plots=["progress", "first_task", "current_task"],
    )
    runs = runs_of(study, "smoke", 2, PLANS, tmp_path)
    for run in runs:
        accuracy = {"without": 0.5, "with": 0.6}[run.side] + 0.02 * run.seed
        matrix = [[0.1, 0.1], [accuracy, 0.1], [accuracy - 0.1, accuracy]]
        results = {
            "rounds": run.plan["aggregator"]["settings"]["rounds_to_train"],
            "accuracy": {"domain_il": accuracy},
            "train_seconds": 10 + run.seed,
            "seconds": 11,
        }
        run.directory.mkdir(parents=True)
        (run.directory / "results.json").write_text(json.dumps({**results, "accuracy_matrix": {"domain_il": matrix}}))
    return study, runs


def test_tables_show_the_paper_beside_ours(tmp_path):
    study, runs = finished_study(tmp_path)
    lines = compare(study, runs)
    rows = list(csv.DictReader(io.StringIO(csv_table(lines))))
    first = rows[0]
    assert (first["plan"], first["metric"], first["row"]) == ("rotated_mnist", "accuracy.domain_il", "FL")
    assert (first["paper_without"], first["paper_without_spread"], first["paper_difference"]) == ("60.0", "1.0", "10.0")
    assert float(first["ours_without"]) == pytest.approx(51)
    assert float(first["ours_with_spread"]) == pytest.approx(1.41, abs=0.01)
    assert float(first["our_difference"]) == pytest.approx(10)
    assert first["direction_agrees"] == "yes"
    assert rows[1]["row"] == "Other"
    assert float(rows[1]["our_difference"]) == pytest.approx(10), "compared with the baseline"
    assert rows[1]["direction_agrees"] == "-", "the paper has no number"
    assert float(rows[2]["ours_with"]) == pytest.approx(10.5), "seconds are no share"
    assert "| FL | 60.00 ± 1 | 51.00 ± 1.4 | 70.00 ± 1.95 | 61.00 ± 1.4 | +10.00 | +10.00 | yes |" in markdown_tables(
        lines
    )
    assert r"60.00$\pm$1 &" in latex_tables(lines)


def test_latex_has_no_bare_specials():
    assert r"A \& B\_1 &" in latex_tables([line()])


def test_unfinished_runs_leave_gaps_and_no_errors(tmp_path):
    study, runs = finished_study(tmp_path)
    for run in runs:
        if run.side == "with":
            (run.directory / "results.json").unlink()
    [first, *_] = compare(study, runs)
    assert first.ours_with is None
    assert first.ours_without is not None
    assert first.ours_without.mean == pytest.approx(51)
    assert first.verdict == "-"


def test_a_run_counts_only_with_the_results_of_all_its_rounds(tmp_path):
    study, runs = finished_study(tmp_path)
    for run in runs:
        if run.side == "with":
            path = run.directory / "results.json"
            results = json.loads(path.read_text())
            path.write_text(json.dumps({**results, "rounds": results["rounds"] - 1}))
    [first, *_] = compare(study, runs)
    assert first.ours_with is None
    assert first.ours_without is not None


def test_damaged_results_are_derived_again_from_what_was_measured(tmp_path):
    [run] = runs_of(one_part(), "smoke", 1, PLANS, tmp_path)
    (run.directory / "plan").mkdir(parents=True)
    (run.directory / "plan" / "plan.yaml").write_text(yaml.safe_dump(run.plan))
    row = {"round": 0, "stage": "train", "client": "federation", "metric": "seconds", "value": 2.5}
    (run.directory / "metrics.jsonl").write_text(f"{json.dumps(row)}\n")
    (run.directory / "results.json").write_text('{"plan": "seq')
    assert run.results()["seconds"] == 2.5
    assert json.loads((run.directory / "results.json").read_text())["seconds"] == 2.5


def test_pictures_of_every_kind(tmp_path):
    study, runs = finished_study(tmp_path)
    pictures = draw_curves(curves_of(study, runs), tmp_path / "plots")
    assert [path.stem.rpartition("-")[2] for path in pictures] == ["progress", "first_task", "current_task"]
    assert all(path.stat().st_size > 5000 for path in pictures)


def test_the_numbers_behind_the_pictures_are_kept(tmp_path):
    study, runs = finished_study(tmp_path)
    curves = curves_of(study, runs)
    rows = list(csv.DictReader(io.StringIO(csv_curves(curves))))
    chosen = [row for row in rows if (row["row"], row["side"], row["plot"]) == ("FL", "with", "first_task")]
    assert [row["task"] for row in chosen] == ["1", "2"]
    assert [float(row["mean"]) for row in chosen] == pytest.approx([61, 51])
    assert float(chosen[0]["spread"]) == pytest.approx(1.41, abs=0.01)
    assert {(row["plan"], row["scenario"]) for row in rows} == {("rotated_mnist", "domain_il")}
    forgotten = [row for row in rows if row["quantity"].startswith("Fgt") and row["side"] == "without"]
    assert [row["task"] for row in forgotten] == ["2"]
    assert float(forgotten[0]["mean"]) == pytest.approx(10)
    table = markdown_curves(curves)
    assert "### rotated_mnist: accuracy on task 1 after each task, domain-IL" in table
    assert "| FL + Fed-A-GEM | 61.00 | 51.00 |" in table
    assert "| Other | 61.00 | 51.00 |" in table, "a way of refining is not called Fed-A-GEM"
    assert "Acc" not in table, "the tables of results have it"


def test_rows_named_after_the_baseline_are_called_after_fedagem_too(tmp_path):
    names = {
        study: {run.name for run in runs_of(load_study(PLANS, study), "smoke", 1, PLANS, tmp_path)}
        for study in ("refinement", "first-task")
    }
    assert {"FL", "Average (always)", "Project (conflict), ours"} < names["refinement"]
    assert {"FL", "FL, B = 10 + Fed-A-GEM"} < names["first-task"]


def test_costs_compare_by_their_ratio(tmp_path):
    runs = runs_of(load_study(PLANS, "computation"), "smoke", 1, PLANS, tmp_path)
    for run in runs:
        costs = {"without": (100.0, 4e7), "with": (110.0, 8e7)}[run.side]
        results = {
            "rounds": run.plan["aggregator"]["settings"]["rounds_to_train"],
            "client_seconds": costs[0],
            "refined_share": 0.5,
            "bytes": {"up": costs[1], "down": costs[1]},
        }
        run.directory.mkdir(parents=True)
        (run.directory / "results.json").write_text(json.dumps(results))
    lines = {line.metric: line for line in compare(load_study(PLANS, "computation"), runs)}
    assert lines["client_seconds"].our_ratio == pytest.approx(1.1)
    assert lines["client_seconds"].paper_ratio == pytest.approx(1.072, abs=0.001)
    assert lines["bytes.down"].our_ratio == pytest.approx(2)
    assert lines["refined_share"].our_ratio is None
    shown = markdown_tables(list(lines.values()))
    assert "| FL | 4068.97 | 100.00 | 4362.23 | 110.00 | ×1.072 | ×1.100 | yes |" in shown
    assert "| 40,000,000 | - | 80,000,000 | - | ×2.000 |" in shown


@pytest.mark.parametrize("name", ["refinement", "communication", "computation"])
def test_tables_are_whole_in_a_narrow_terminal(name):
    study = load_study(PLANS, name)
    lines = [
        dataclasses.replace(
            line, ours_without=Figure(61.25, 12.5), ours_with=Figure(71.5, 2.5), ours_reference=Figure(61.25, 12.5)
        )
        for line in compare(study, [])
    ]
    console = Console(width=80, file=io.StringIO(), record=True)
    for table in terminal_tables(lines):
        console.print(table)
    shown = console.export_text()
    assert "…" not in shown
    assert all(len(text.rstrip()) <= 80 for text in shown.splitlines())
    assert re.search(r"ours +61\.25±12\.5 +71\.50±2\.5 ", shown), "numbers stay in one piece"
    words = shown.split()
    assert all(word in words for part in study.parts for row in part.rows for word in row.label.split())


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
    part = Part("rotated_mnist", [], [], scales={"smoke": {"set": {"data_loader.settings.clients": 20}}})
    scale = load_scale(Path(PLANS), part, "smoke")
    assert scale.set["data_loader.settings.clients"] == 20
    assert scale.set["task_runner.settings.model.template"] == "models.mnist_cnn.SmallCNN"


def test_a_scale_does_not_claim_what_the_command_line_has_changed():
    scale = Scale(2, {"a.b": 1, "a.bc": 2, "d": {"e": 1, "f": 2}, "g.h.i": 3, "j": 4})
    assert scale.besides(["a.b=7", "d.e=3", "g.h={}"]) == Scale(2, {"a.bc": 2, "j": 4})
