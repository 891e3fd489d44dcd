"""The whole chain, small: simulator, fleet, two vehicles as collaborators, aggregator, evaluation, page."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from chaos.subjects import DRIVE
from fedagem.plans.plan import Plan
from fedagem.runs.folder import plan_of_run
from fedagem.runs.metrics_log import MetricRow, read_metrics

FEDAGEM = str(Path(sys.executable).with_name("fedagem"))


@pytest.fixture
def small_plan(tmp_path: Path, repository: Path) -> Path:
    """The demo's plan with three rounds of two seconds, small pictures and a thin network."""
    changes = {
        **DRIVE,
        "carla.schedule": [{"at": 4, "vehicle": "vehicle_2", "region": "highway"}],
        "driving.snippets": str(tmp_path / "snippets"),
        "warm_up": {"seconds": 3, "rounds": 2},
        "aggregator.settings.snapshots": [2],
    }
    plan = Plan.load(repository / "plan" / "carla_demo.yaml").changed(changes, rounds=3)
    path = tmp_path / "small.yaml"
    path.write_text(plan.to_yaml())
    return path


def fedagem(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FEDAGEM, *arguments], cwd=folder, capture_output=True, text=True, timeout=600, check=False)


def initial_model(run: Path) -> Path:
    path = plan_of_run(run).training.initial_model
    assert path is not None
    return Path(path)


def values(rows: list[MetricRow], metric: str, client: str) -> list[float]:
    return [row.value for row in rows if row.metric == metric and row.client == client]


@pytest.mark.timeout(900)
def test_two_vehicles_drive_and_learn(small_plan: Path, tmp_path: Path) -> None:
    done = fedagem(tmp_path, "run", str(small_plan), "--out", "run")
    assert done.returncode == 0, done.stdout + done.stderr

    run = tmp_path / "run"
    rows = read_metrics(run)
    for vehicle in ("vehicle_1", "vehicle_2"):
        assert values(rows, "samples", vehicle) == [2, 2, 2], "each round learns from each of its seconds, once"
    assert values(rows, "buffer/city", "vehicle_1") == [2, 4, 6]
    assert values(rows, "buffer/highway", "vehicle_2") == [0, 0, 2], "vehicle_2 takes the highway at second 4"
    assert len(values(rows, "map_50/all", "vehicle_1")) == 4, "of the warmed-up model, and after each round"
    page = (run / "report.html").read_text()
    assert "The same frames" in page
    assert "after round 2" in page
    assert "warmed up by 2 passes over 3 s" in page
    left = [
        p.info["cmdline"] for p in psutil.process_iter(["cmdline"]) if str(run) in " ".join(p.info["cmdline"] or [])
    ]
    assert left == [], "nothing that was started is still running"

    compared = fedagem(tmp_path, "compare", str(small_plan), "--methods", "fedavg", "--out", "comparison")
    assert compared.returncode == 0, compared.stdout + compared.stderr
    drives = list((tmp_path / "snippets").glob("*/recording.json"))
    assert len(drives) == 3, "the drives of evaluation and warm-up are used again, the training drive recorded once"
    beginnings = {initial_model(folder) for folder in (run, *(tmp_path / "comparison").glob("*-seed0"))}
    assert len(beginnings) == 1, "every method begins with the same warmed-up model"
    warmed = read_metrics(beginnings.pop().parent.parent)
    assert values(warmed, "samples", "vehicle_2") == [3, 3], "each round of the warm-up sees its whole drive"
    assert values(read_metrics(tmp_path / "comparison" / "fedavg-seed0"), "samples", "vehicle_2") == [2, 2, 2]
    assert "shift" in (tmp_path / "comparison" / "report.html").read_text()
