"""metrics.jsonl after a crash: finished rounds stay, the repeated one starts over."""

import json

import pytest

from src.round_log import RoundLog


def row(round_number, value=0.0):
    return {"round": round_number, "stage": "train", "client": "a", "metric": "loss", "value": value}


def rounds_in(path):
    return [json.loads(line)["round"] for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = RoundLog(path, 0)
    for r in range(4):
        log.write([row(r), row(r, 1.5)])
    return path


def test_rows_are_there_as_soon_as_they_are_written(path):
    assert rounds_in(path) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("first", [0, 2, 4])
def test_rows_of_rounds_to_be_repeated_are_taken_back(path, first):
    log = RoundLog(path, first)
    log.write([row(first)])
    log.sync()
    assert rounds_in(path) == [r for r in (0, 0, 1, 1, 2, 2, 3, 3) if r < first] + [first]


@pytest.mark.parametrize("half", ['{"round": 1, "sta', '{"round": 1', "{", '"round"', "7", "\ufffd"])
def test_a_row_cut_off_by_a_crash_is_taken_back(path, half):
    with path.open("a", encoding="utf-8") as file:
        file.write(half)
    RoundLog(path, 4).write([row(4)])
    assert rounds_in(path) == [0, 0, 1, 1, 2, 2, 3, 3, 4]
