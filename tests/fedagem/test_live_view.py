"""The live view keeps up with a metrics file that grows, and that a restarted aggregator writes anew."""

import json

import pytest

from fedagem.live_view import LiveView


def row(round_number, client, metric, value):
    return {"round": round_number, "stage": "train", "client": client, "metric": metric, "value": value}


def append(path, rows):
    with path.open("a") as file:
        file.write("".join(f"{json.dumps(r)}\n" for r in rows))


def round_of_two(round_number):
    return [row(round_number, client, "samples", 10) for client in ("client_1", "client_2")]


@pytest.fixture
def view(tmp_path):
    return LiveView(tmp_path, "run", 20)


def seen(view):
    return {client: facts["samples"] for client, facts in view._clients.items()}


def test_rows_are_taken_in_once(view, tmp_path):
    view.refresh()
    append(tmp_path / "metrics.jsonl", round_of_two(0))
    view.refresh()
    view.refresh()
    append(tmp_path / "metrics.jsonl", round_of_two(1))
    view.refresh()
    assert seen(view) == {"client_1": 20, "client_2": 20}


def test_half_a_row_waits_for_its_other_half(view, tmp_path):
    path = tmp_path / "metrics.jsonl"
    append(path, round_of_two(0))
    line = json.dumps(row(1, "client_1", "samples", 5))
    with path.open("a") as file:
        file.write(line[:20])
    view.refresh()
    assert seen(view) == {"client_1": 10, "client_2": 10}
    with path.open("a") as file:
        file.write(f"{line[20:]}\n")
    view.refresh()
    assert seen(view) == {"client_1": 15, "client_2": 10}


@pytest.mark.parametrize("written_before_the_look", [0, 1, 2, 5])
def test_a_file_written_anew_is_read_anew(view, tmp_path, written_before_the_look):
    """Rounds 0 to 2 were there; round 2 is repeated and more rounds follow, however fast."""
    path = tmp_path / "metrics.jsonl"
    for r in range(3):
        append(path, round_of_two(r))
    view.refresh()
    assert seen(view) == {"client_1": 30, "client_2": 30}
    fresh = tmp_path / ".metrics.jsonl.partial"
    for r in range(2):
        append(fresh, round_of_two(r))
    fresh.replace(path)
    for r in range(2, 2 + written_before_the_look):
        append(path, round_of_two(r))
    view.refresh()
    total = 10 * (2 + written_before_the_look)
    assert seen(view) == {"client_1": total, "client_2": total}
