"""Text from its files to a learned model: the plan of sequential YahooQA with a tiny encoder and few texts."""

import shutil

import pytest
import torch
from openfl.federated import Plan as OpenFLPlan

from fedagem.files import read_state
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from fedagem.runs.metrics_log import read_metrics
from src.simulate import build_federation, run_rounds
from tests.support.tiny_encoder import FEATURES, save_tiny_encoder


@pytest.fixture
def run(repository, tmp_path, monkeypatch):
    """One round for each of the five tasks, with two clients."""
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path / "data"))
    shutil.copytree(repository / "tests" / "fedagem" / "tasks" / "yahooqa", tmp_path / "data" / "yahooqa")
    save_tiny_encoder(tmp_path / "data" / "distilbert-base-uncased", (tmp_path / "data" / "yahooqa").glob("*.csv"))
    changes = {
        "task_runner.settings.model.settings.features": FEATURES,
        "data_loader.settings.clients": 2,
        "data_loader.settings.epochs": 40,
    }
    create_run(tmp_path / "run", Plan.load(repository / "plan" / "sequential_yahooqa.yaml").changed(changes, rounds=5))
    monkeypatch.chdir(tmp_path / "run")
    folder = tmp_path / "run" / "plan"
    run_rounds(*build_federation(OpenFLPlan.parse(folder / "plan.yaml", folder / "cols.yaml", folder / "data.yaml")))
    return tmp_path / "run"


def test_topics_are_learned_from_features_and_remembered_as_features(run):
    rows = read_metrics(run)
    accuracy = {
        kind: [row.several for row in rows if row.metric == f"accuracy/{kind}"] for kind in ("class_il", "task_il")
    }
    assert [len(values) for values in accuracy.values()] == [6, 6], "before learning, and after each task"
    losses = [row.value for row in rows if row.metric == "loss/classification"]
    assert len(losses) == 10
    assert min(losses) < 0.69, "better than guessing one of two topics"
    assert any(row.value > 0 for row in rows if row.metric == "refined_share")
    [state] = (run / "local_state" / "client_1").glob("after_round_000004.state")
    slots = read_state(state)["buffer"]["slots"]
    assert slots["x"].dtype == torch.float32
    assert slots["x"].shape[1:] == (FEATURES,)
    assert len({topic // 2 for topic in slots["y"].tolist()}) == 5, "topics of all tasks"
