"""A federation in one process: the clients share a model's memory, but never its contents."""

import numpy as np
import pytest
from openfl.federated import Plan as OpenFLPlan

from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from src.simulate import build_federation, run_rounds
from src.task_results import MODEL


@pytest.fixture
def federation(repository, tmp_path, monkeypatch):
    changes = {
        "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
        "data_loader.settings.samples_per_client": 64,
        "data_loader.settings.test_samples": 50,
    }
    plan = Plan.load(repository / "plan" / "rotated_digits.yaml").changed(changes, rounds=5)
    create_run(tmp_path / "run", plan)
    monkeypatch.chdir(tmp_path / "run")
    folder = tmp_path / "run" / "plan"
    return build_federation(OpenFLPlan.parse(folder / "plan.yaml", folder / "cols.yaml", folder / "data.yaml"))


def test_every_client_of_a_round_starts_from_the_same_global_model(federation):
    aggregator, collaborators = federation
    starts: dict[int, list[bytes]] = {}
    runner_class = type(collaborators[0].task_runner)
    load = runner_class._load_model

    def note(self, tensors):
        weights = np.concatenate([tensors[name].ravel() for name in sorted(aggregator.expected.model)])
        starts.setdefault(aggregator.round_number, []).append(weights.tobytes())
        load(self, tensors)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner_class, "_load_model", note)
        while aggregator.progress.stage.name != "evaluate":
            for collaborator in collaborators:
                if aggregator.progress.stage.name != "evaluate":
                    collaborator.step()
    assert len(starts[0]) == 3 * 5, "baseline, buffer gradient and training of five clients"
    assert len(set(starts[0])) == 1


def test_all_clients_share_one_model(federation):
    _, collaborators = federation
    assert len({id(collaborator.task_runner.trainer) for collaborator in collaborators}) == 1


def test_the_global_model_is_nobodys_memory(federation):
    """What a client does to its model must not reach the aggregator before the result is sent."""
    aggregator, collaborators = federation
    run_rounds(aggregator, collaborators)
    live = collaborators[0].task_runner.trainer.model.weights.detach().numpy()
    stored = aggregator.tensor_db.get_tensors_by_round_and_tags(aggregator.round_number, MODEL)
    assert stored
    assert not any(np.shares_memory(array, live) for array in stored.values())
