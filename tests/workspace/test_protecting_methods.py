"""GPM and FOT in whole federations: what is kept between tasks, what is reported, and crashes at the end of a task."""

import gc
import json
from pathlib import Path

import numpy as np
import pytest
from openfl.federated import Plan as OpenFLPlan

from fedagem.files import read_state
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from src.simulate import build_federation, run_rounds
from src.task_runner import FedAGemTaskRunner

ROTATED = {"data_loader.settings.tasks.kind": "rotated", "data_loader.settings.tasks.count": 2}
SEQUENTIAL = {
    "data_loader.settings.tasks": {"kind": "sequential", "count": 2},
    "data_loader.settings.partition": {"kind": "dirichlet", "alpha": 1.0, "scope": "task"},
}
LAYERS = ["features.0.weight", "features.3.weight", "head.1.weight", "head.4.weight"]


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def start(repository, tmp_path, monkeypatch):
    """Two tasks of two rounds for three clients; another start in the same folder goes on from what is there."""

    def begin(name, method, **changes):
        folder = tmp_path / name
        if not folder.exists():
            settings = {
                "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
                "task_runner.settings.method": method,
                "task_runner.settings.fedagem": False,
                "data_loader.settings.clients": 3,
                "data_loader.settings.partition.classes_per_client": 4,
                "data_loader.settings.samples_per_client": 32,
                "data_loader.settings.test_samples": 50,
                **(changes or ROTATED),
            }
            plan = Plan.load(repository / "plan" / "rotated_digits.yaml").changed(settings, rounds=4)
            create_run(folder, plan)
        monkeypatch.chdir(folder)
        parts = [folder / "plan" / part for part in ("plan.yaml", "cols.yaml", "data.yaml")]
        return build_federation(OpenFLPlan.parse(*parts))

    return begin


def outcome():
    """What a run leaves behind: the models, all numbers but those of time and traffic, and what is kept."""
    rows = [json.loads(line) for line in Path("metrics.jsonl").read_text().splitlines()]
    facts = [row for row in rows if "seconds" not in row["metric"] and not row["metric"].startswith("bytes")]
    kept = {str(path): read_state(path)["kept"] for path in sorted(Path("local_state").glob("*/*.state"))}
    bases = {
        f"{path} {name}": basis.numpy().tobytes() for path, own in kept.items() for name, basis in own["bases"].items()
    }
    server = read_state(Path("save/checkpoint.state"))["server"]
    bases |= {name: basis.numpy().tobytes() for name, basis in server.get("bases", {}).items()}
    return facts, bases, Path("save/last.safetensors").read_bytes()


def reported():
    rows = [json.loads(line) for line in Path("metrics.jsonl").read_text().splitlines()]
    return {row["metric"] for row in rows if row["metric"].startswith("accuracy")}


@pytest.mark.parametrize(
    ("changes", "layers"), [(ROTATED, LAYERS), (SEQUENTIAL, LAYERS[:-1])], ids=["domains", "classes"]
)
def test_fot_grows_its_subspaces_on_the_server_and_keeps_updates_out_of_them(start, changes, layers):
    aggregator, collaborators = start("fot", "fot", **changes)
    while aggregator.round_number < 2:
        for collaborator in collaborators:
            collaborator.step()
    first = dict(aggregator.server.bases)
    assert list(first) == layers
    old = {name: array.copy() for name, array in aggregator._model(2).items()}
    run_rounds(aggregator, collaborators)
    new = aggregator._model(4)
    for name, basis in first.items():
        assert aggregator.server.bases[name].shape[1] >= basis.shape[1] > 0
        bias = name.replace("weight", "bias")
        moved = np.concatenate(
            [(new[name] - old[name]).reshape(len(old[name]), -1), (new[bias] - old[bias])[:, None]], 1
        )
        assert np.linalg.norm(moved) > 0
        assert np.linalg.norm(moved @ basis.numpy()) <= 1e-4 * np.linalg.norm(moved)
    assert reported() == {"accuracy/domain_il" if changes is ROTATED else "accuracy/task_il"}


def test_gpm_keeps_bases_with_each_client(start):
    aggregator, collaborators = start("gpm", "gpm", **{**ROTATED, "task_runner.settings.fedagem": True})
    run_rounds(aggregator, collaborators)
    states = {path.parent.name: read_state(path) for path in Path("local_state").glob("*/after_task_000003.state")}
    assert len(states) == 3
    assert all(list(state["kept"]["bases"]) == LAYERS for state in states.values())
    one, other, _ = (state["kept"]["bases"][LAYERS[0]] for state in states.values())
    assert one.shape != other.shape or not np.allclose(one, other), "each client has seen something else"


def die_in_end_task(federation, moment):
    """Work until the second client ends its first task, and no further."""
    aggregator, collaborators = federation
    while aggregator.progress.stage.name != "end_task":
        for collaborator in collaborators:
            collaborator.step()
    collaborators[0].step()
    if moment == "after it is sent":
        collaborators[1].step()
        return
    save = FedAGemTaskRunner._save

    def crash(self, store, state, at):
        if moment == "after it is saved":
            save(self, store, state, at)
        raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FedAGemTaskRunner, "_save", crash)
        with pytest.raises(Crash):
            collaborators[1].step()


@pytest.mark.parametrize("method", ["gpm", "fot"])
def test_a_crash_at_the_end_of_a_task_changes_nothing(start, method):
    """A client dies, and the aggregator with it; both start again."""
    run_rounds(*start("undisturbed", method))
    undisturbed = outcome()
    for moment in ("before it is saved", "after it is saved", "after it is sent"):
        die_in_end_task(start(moment, method), moment)
        gc.collect()  # lets go of the folder, as the end of a process would
        run_rounds(*start(moment, method))
        assert outcome() == undisturbed, moment
