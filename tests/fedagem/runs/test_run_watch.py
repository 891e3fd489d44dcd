"""What is known of a run comes from a metrics file that grows, and that a restarted aggregator writes again."""

import io
import json

import pytest
from rich.console import Console

from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan
from fedagem.runs.live.many_runs import BatchView
from fedagem.runs.live.one_run import LiveView
from fedagem.runs.live.run_watch import RunWatch

STAGES = [
    {"name": "baseline", "tasks": ["evaluate"], "rounds": "first"},
    {"name": "buffer_gradient", "tasks": ["buffer_gradient"]},
    {"name": "train", "tasks": ["train"]},
    {"name": "evaluate", "tasks": ["evaluate"], "every": 2},
]


def row(round_number, client, metric, value):
    return {"round": round_number, "stage": "train", "client": client, "metric": metric, "value": value}


def append(path, rows):
    with path.open("a") as file:
        file.write("".join(f"{json.dumps(r)}\n" for r in rows))


def round_of_two(round_number):
    return [row(round_number, client, "samples", 10) for client in ("client_1", "client_2")]


def write_plan(directory, name, epochs):
    changes = {
        "aggregator.settings.rounds_to_train": 20,
        "assigner.settings.stages": STAGES,
        "data_loader.settings.epochs": epochs,
    }
    (directory / "plan").mkdir(parents=True)
    (directory / "plan" / "plan.yaml").write_text(Plan.load(find_plan(name)).changed(changes).to_yaml())


@pytest.fixture
def watch(tmp_path):
    write_plan(tmp_path, "rotated_digits", epochs=3)
    return RunWatch(tmp_path)


def seen(watch):
    return {client: facts["samples"] for client, facts in watch.clients.items()}


def test_rows_are_taken_in_once(watch, tmp_path):
    watch.look()
    append(tmp_path / "metrics.jsonl", round_of_two(0))
    watch.look()
    watch.look()
    append(tmp_path / "metrics.jsonl", round_of_two(1))
    watch.look()
    assert seen(watch) == {"client_1": 20, "client_2": 20}


def test_half_a_row_waits_for_its_other_half(watch, tmp_path):
    path = tmp_path / "metrics.jsonl"
    append(path, round_of_two(0))
    line = json.dumps(row(1, "client_1", "samples", 5))
    with path.open("a") as file:
        file.write(line[:20])
    watch.look()
    assert seen(watch) == {"client_1": 10, "client_2": 10}
    with path.open("a") as file:
        file.write(f"{line[20:]}\n")
    watch.look()
    assert seen(watch) == {"client_1": 15, "client_2": 10}


@pytest.mark.parametrize("written_before_the_look", [0, 1, 2, 5])
def test_a_file_written_anew_is_read_anew(watch, tmp_path, written_before_the_look):
    """Rounds 0 to 2 were there; round 2 is repeated and more rounds follow, however fast."""
    path = tmp_path / "metrics.jsonl"
    for r in range(3):
        append(path, round_of_two(r))
    watch.look()
    assert seen(watch) == {"client_1": 30, "client_2": 30}
    fresh = tmp_path / ".metrics.jsonl.partial"
    for r in range(2):
        append(fresh, round_of_two(r))
    fresh.replace(path)
    for r in range(2, 2 + written_before_the_look):
        append(path, round_of_two(r))
    watch.look()
    total = 10 * (2 + written_before_the_look)
    assert seen(watch) == {"client_1": total, "client_2": total}


def test_a_run_in_one_line(watch, tmp_path):
    assert watch.summary() == "starting"
    score = {"round": 3, "stage": "evaluate", "client": "client_1", "metric": "map_50/city", "value": 0.25}
    losses = [row(3, "client_1", "loss", 1.0), row(3, "client_2", "loss", 2.0)]
    append(tmp_path / "metrics.jsonl", [*losses, row(3, "client_1", "refined_share", 0.3), score])
    watch.look()
    assert watch.summary() == "round 5: buffer_gradient  loss 1.500  refined 30%  mAP@0.5 city 0.250"
    assert watch.rounds == 4


@pytest.mark.parametrize(
    ("over", "under_way", "rounds"),
    [
        ((0, "baseline"), "round 1: buffer_gradient", 0),
        ((0, "buffer_gradient"), "round 1: train", 0),
        ((0, "train"), "round 2: buffer_gradient", 1),
        ((1, "train"), "round 2: evaluate", 1),
        ((1, "evaluate"), "round 3: buffer_gradient", 2),
        ((19, "evaluate"), "all rounds done", 20),
    ],
)
def test_the_stage_that_follows_the_last_row_is_under_way(watch, tmp_path, over, under_way, rounds):
    number, stage = over
    append(tmp_path / "metrics.jsonl", [row(number, "federation", "seconds", 1.0) | {"stage": stage}])
    watch.look()
    assert (watch.stage, watch.rounds) == (under_way, rounds)


@pytest.mark.parametrize(("fedagem", "next_round"), [(True, "round 3: buffer_gradient"), (False, "round 3: train")])
def test_stages_without_work_are_never_under_way(tmp_path, fedagem, next_round):
    plan = Plan.load(find_plan("rotated_digits")).changed({"task_runner.settings.fedagem": fedagem}, rounds=10)
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "plan.yaml").write_text(plan.to_yaml())
    watch = RunWatch(tmp_path)
    for over, under_way in (("train", "round 2: evaluate"), ("evaluate", next_round)):
        append(tmp_path / "metrics.jsonl", [row(1, "federation", "seconds", 1.0) | {"stage": over}])
        watch.look()
        assert watch.stage == under_way


def test_the_view_shows_clients_and_scores(watch, tmp_path, capsys):
    with LiveView(tmp_path, "the run", 20):
        append(tmp_path / "metrics.jsonl", [*round_of_two(0), row(0, "client_2", "loss/boxes", 1.25)])
    shown = capsys.readouterr().err
    for word in ("the run", "1/20", "round 2: buffer_gradient", "client_1", "boxes", "1.250", "samples × epochs"):
        assert word in shown


def test_samples_of_a_benchmark_are_counted_once_for_each_epoch(watch, tmp_path):
    append(tmp_path / "metrics.jsonl", [*round_of_two(0), *round_of_two(1)])
    view = LiveView(tmp_path, "run", 20)
    view.refresh()
    assert ["client_2", "20", "0%", "0"] in lines_on_a_screen(view)


FACTS = {"loss/box": 1.234, "loss/classification": 0.5, "loss/confidence": 2.25, "loss/replay": 0.125, "samples": 240}
FACTS |= {"refined_share": 0.25, "buffer": 200, "buffer/city": 120, "buffer/highway": 80}
SHOWN = ["vehicle_1", "1.234", "0.500", "2.250", "0.125", "60", "25%", "200", "120", "80"]


def drive(directory):
    """A round of two vehicles that go over their 60 frames four times."""
    write_plan(directory, "carla_snippets", epochs=4)
    rows = [row(0, f"vehicle_{n}", metric, value) for n in (1, 2) for metric, value in FACTS.items()]
    scores = [row(0, "vehicle_1", f"map_50/{domain}", 0.125) for domain in ("all", "city", "highway")]
    append(directory / "metrics.jsonl", [*rows, *scores])
    return directory


def lines_on_a_screen(view):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(view._live.renderable)
    return [line.split() for line in console.export_text().splitlines()]


def test_vehicles_fit_on_a_screen_with_the_frames_they_saw(tmp_path):
    view = LiveView(drive(tmp_path / "run"), "carla_demo-der+fedagem-seed0", 10)
    view.refresh()
    lines = lines_on_a_screen(view)
    assert SHOWN in lines
    assert ["client", "box", "class", "conf.", "replay", "frames", "refined", "buffer", "city", "highway"] in lines
    assert lines[0][-3:] == ["0:00:00", "left", "-:--:--"]


def test_a_batch_shows_the_vehicles_of_few_runs_and_a_line_for_each_of_many(tmp_path):
    view = BatchView(8, 1)
    with view.run("der, seed 0", RunWatch(drive(tmp_path / "a")), 10) as bar:
        view.refresh(bar)
        lines = lines_on_a_screen(view)
        assert SHOWN in lines
        assert ["der,", "seed", "0"] in lines
        others = [view.run(name, RunWatch(drive(tmp_path / name)), 10) for name in ("b", "c")]
        for other in others:
            view.refresh(other.__enter__())
        lines = lines_on_a_screen(view)
        assert SHOWN not in lines
        assert sum("25%" in line for line in lines) == 3
        for other in others:
            other.__exit__(None, None, None)
    [line] = lines_on_a_screen(view)
    assert "4/8" in line


def test_clients_whose_metrics_are_summed_are_shown_as_one(watch, tmp_path):
    """Secure aggregation shows means; what clients upload says nothing of what they learn."""
    append(
        tmp_path / "metrics.jsonl",
        [
            row(0, "federation", "loss", 1.5),
            row(0, "federation", "samples", 30),
            row(0, "federation", "secagg_seconds", 0.1),
            row(0, "federation", "seconds", 2.0),
            row(0, "client_1", "bytes_up", 1000),
        ],
    )
    watch.look()
    assert dict(watch.clients) == {"mean": {"loss": 1.5, "samples": 30}}
    assert "loss 1.500" in watch.summary()
