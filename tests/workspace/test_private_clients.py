"""Differential privacy with real clients: what they send is limited, and results and report tell what it is worth."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan
from fedagem.reports.page import write_page
from fedagem.reports.privacy import privacy_note
from fedagem.runs.folder import create_run
from fedagem.runs.results import Results, write_results
from src.aggregator import StagedAggregator
from src.task_results import EXCHANGE, MODEL, TRAINED
from tests.support.method_federation import MethodFederation

PRIVACY = {"model_clip": 0.05, "g_ref_clip": 0.25, "noise": 0.1}


def private_digits(**settings):
    changes = {
        "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
        "task_runner.settings.method": "fedavg",
        "data_loader.settings.tasks.count": 1,
        "data_loader.settings.samples_per_client": 64,
        "data_loader.settings.test_samples": 50,
        "aggregator.settings.privacy": PRIVACY,
        **settings,
    }
    plan = Plan.load(find_plan("rotated_digits")).changed(changes, rounds=2)
    check_plan(plan)
    return plan


@pytest.fixture
def in_run(tmp_path, monkeypatch):
    def start(plan):
        create_run(tmp_path / "run", plan)
        monkeypatch.chdir(tmp_path / "run")

    return start


def test_clients_limit_what_they_send_and_the_report_says_what_it_is_worth(in_run, monkeypatch):
    sent: list[tuple[str, float]] = []
    receive = StagedAggregator.receive

    def watched(self, collaborator, round_number, task, tensors):
        for kind in (TRAINED, EXCHANGE):
            given = {key.tensor_name: array for key, array in tensors.items() if key.tags == kind}
            origin = {name: self.lookup(name, round_number, MODEL, "test") if kind == TRAINED else 0 for name in given}
            moved = [(array - origin[name]).astype(np.float64).ravel() for name, array in given.items()]
            if moved:
                sent.append((task, float(np.linalg.norm(np.concatenate(moved)))))
        receive(self, collaborator, round_number, task, tensors)

    monkeypatch.setattr(StagedAggregator, "receive", watched)
    in_run(private_digits())
    MethodFederation().run()
    models = [length for task, length in sent if task == "train"]
    gradients = [length for task, length in sent if task == "buffer_gradient"]
    assert len(models) == len(gradients) == 10
    assert max(models) <= 0.05
    assert max(gradients) <= 0.25
    assert min(models) > 0.0499, "training moves further, so that all of them were shortened"
    results = write_results(Path())
    written = json.loads(Path("results.json").read_text())["privacy"]
    assert written["epsilon"] == results.privacy["epsilon"] > 100
    assert (written["delta"], written["model_clip"]) == (1e-5, 0.05)
    assert written["noise_length"] == pytest.approx(0.1 * 21840**0.5 / 5)
    assert "epsilon,privacy,,end" in Path("results.csv").read_text()
    page = write_page([Path()], Path("page.html")).read_text()
    assert "Every client has an epsilon of" in page
    assert "With 5 clients it is meaningless anyway" in page


def test_a_network_with_statistics_is_refused(in_run):
    network = {"template": "models.resnet_cifar.resnet18_cifar", "settings": {"width": 8}}
    in_run(private_digits(**{"task_runner.settings.model": network}))
    with pytest.raises(PlanError, match=r"needs a model all of whose tensors are trained, but '.*running_mean' is not"):
        MethodFederation()


def test_a_method_that_is_told_of_the_end_of_tasks_is_refused():
    with pytest.raises(PlanError, match=r"aggregator\.settings\.privacy is for the model and g_ref, but the method"):
        private_digits(**{"task_runner.settings.method": "fedcurv"})


def results_with(epsilon, noise_length, clients):
    account = {"epsilon": epsilon, "noise_length": noise_length, "delta": 1e-5}
    return Results("p", "fedavg", True, 0, 100, clients, "m", 1, 1, 1, 0, {}, privacy=account)


def test_the_note_says_when_the_number_means_something():
    good = privacy_note(results_with(2.5, 0.2, 1000))
    assert good.startswith("Every client has an epsilon of 2.5 at a delta of 1e-05 after 100 rounds. Metrics and")
    assert "next to nothing" in privacy_note(results_with(42, 0.2, 1000))
    assert "With 10 clients it is meaningless" in privacy_note(results_with(2, 130, 10))
