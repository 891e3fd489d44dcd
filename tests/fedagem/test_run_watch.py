"""What is known of a run comes from a metrics file that grows, and that a restarted aggregator writes anew."""

import json

import pytest

from fedagem.live_view import LiveView
from fedagem.run_watch import RunWatch


def row(round_number, client, metric, value):
    return {"round": round_number, "stage": "train", "client": client, "metric": metric, "value": value}


def append(path, rows):
    with path.open("a") as file:
        file.write("".join(f"{json.dumps(r)}\n" for r in rows))


def round_of_two(round_number):
    return [row(round_number, client, "samples", 10) for client in ("client_1", "client_2")]


@pytest.fixture
def watch(tmp_path):
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
    score = {"round": 2, "stage": "evaluate", "client": "client_1", "metric": "map_50/city", "value": 0.25}
    losses = [row(2, "client_1", "loss", 1.0), row(2, "client_2", "loss", 2.0)]
    append(tmp_path / "metrics.jsonl", [*losses, row(2, "client_1", "refined_share", 0.3), score])
    watch.look()
    assert watch.summary() == "evaluate done  loss 1.500  refined 30%  mAP@0.5 city 0.250"
    assert watch.rounds == 3


def test_the_view_shows_clients_and_scores(tmp_path, capsys):
    with LiveView(tmp_path, "the run", 20):
        append(tmp_path / "metrics.jsonl", [*round_of_two(0), row(0, "client_2", "loss/boxes", 1.25)])
    shown = capsys.readouterr().err
    for word in ("the run", "1/20", "train done", "client_1", "boxes", "1.250"):
        assert word in shown
