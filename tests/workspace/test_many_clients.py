"""Thousands of clients in one process: those who do not work cost next to nothing."""

import json
import time
from pathlib import Path

import psutil
import pytest
from openfl.federated import Plan as OpenFLPlan

from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from src import clients as module
from src.simulate import build_federation, run_rounds

CLIENTS, PER_ROUND = 5000, 50
SPARE = {
    "task_runner.settings.model.template": "models.mnist_cnn.LogisticRegression",
    "data_loader.settings.tasks": {"kind": "permuted", "count": 1},
    "data_loader.settings.test_samples": 20,
    "assigner.settings.stages": [
        {"name": "buffer_gradient", "tasks": ["buffer_gradient"]},
        {"name": "train", "tasks": ["train"]},
        {"name": "evaluate", "tasks": ["evaluate"], "every": "task"},
    ],
}


def simulate(repository, directory, clients, **changes):
    partition = {"data_loader.settings.clients": clients, "assigner.settings.participation.per_round": PER_ROUND}
    plan = Plan.load(repository / "plan" / "rotated_digits.yaml").changed({**SPARE, **partition, **changes}, rounds=3)
    create_run(directory, plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        parsed = OpenFLPlan.parse(*(Path("plan") / f"{name}.yaml" for name in ("plan", "cols", "data")))
        aggregator, clients_of_run = build_federation(parsed)
        yield clients_of_run
        run_rounds(aggregator, clients_of_run)
    yield clients_of_run


def test_five_thousand_clients_take_seconds_and_little_memory(repository, tmp_path):
    process, began = psutil.Process(), time.process_time()
    before = process.memory_info().rss
    run = simulate(repository, tmp_path / "run", CLIENTS, **{"data_loader.settings.partition.classes_per_client": 1})
    next(run)
    started = time.process_time() - began
    clients = next(run)
    finished = time.process_time() - began
    grown = (process.memory_info().rss - before) / 2**20
    assert started < 15, "seconds of the processor: only the first client is made"
    assert finished < 90, "everybody is tested once, and 50 learn in each of three rounds"
    assert grown < 400, "MiB"
    assert len(clients) == CLIENTS
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    learned = [row["client"] for row in rows if row["metric"] == "samples"]
    assert len(learned) == 3 * PER_ROUND
    tested = {row["client"] for row in rows if row["stage"] == "evaluate" and row["metric"] == "bytes_down"}
    assert len(tested) == CLIENTS


def test_clients_that_were_forgotten_between_turns_give_the_same_bits(repository, tmp_path, monkeypatch):
    """What a client remembers is on disk, and what it has fetched still counts as fetched."""

    def outcome(directory):
        rows = (directory / "metrics.jsonl").read_text().splitlines()
        facts = [line for line in rows if "seconds" not in json.loads(line)["metric"]]
        return facts, (directory / "save" / "last.pbuf").read_bytes()

    [*_] = simulate(repository, tmp_path / "all", 8, **{"task_runner.settings.method": "der"})
    monkeypatch.setattr(module, "_IN_MEMORY", 1)
    *_, clients = simulate(repository, tmp_path / "one", 8, **{"task_runner.settings.method": "der"})
    assert len(clients._working) == 1
    assert outcome(tmp_path / "one") == outcome(tmp_path / "all")
