"""FedCurv needs what it sent, and what everybody sent, in the round before: both outlive their processes."""

import contextlib
import gc
import shutil
from pathlib import Path

import pytest
from openfl.federated import Plan as OpenFLPlan

from fedagem.files import read_state
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from src.link import LocalLink
from src.simulate import build_federation, build_some, run_rounds

ROUNDS = 5
CHANGES = {
    "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
    "task_runner.settings.method": "fedcurv",
    "task_runner.settings.method_settings": {"fisher_samples": 8},
    "task_runner.settings.fedagem": False,
    "data_loader.settings.clients": 2,
    "data_loader.settings.partition.classes_per_client": 5,
    "data_loader.settings.samples_per_client": 16,
    "data_loader.settings.test_samples": 20,
}


def build():
    """The federation of the current folder, where it stands."""
    gc.collect()  # an aggregator that is gone has let go of its lock
    return build_federation(OpenFLPlan.parse(*(Path("plan") / f"{part}.yaml" for part in ("plan", "cols", "data"))))


def outcome():
    return {name: Path("save", name).read_bytes() for name in ("last.safetensors", "best.safetensors")}


@pytest.fixture(scope="module")
def plan(repository):
    return Plan.load(repository / "plan" / "rotated_digits.yaml").changed(CHANGES, rounds=ROUNDS)


@pytest.fixture(scope="module")
def undisturbed(plan, tmp_path_factory):
    run = tmp_path_factory.mktemp("fedcurv") / "undisturbed"
    create_run(run, plan)
    with contextlib.chdir(run):
        run_rounds(*build())
        return outcome()


@pytest.fixture(autouse=True)
def in_a_run(plan, tmp_path, monkeypatch):
    create_run(tmp_path / "run", plan)
    monkeypatch.chdir(tmp_path / "run")


def until(aggregator, collaborators, round_number, results=0):
    """Up to a round, and some results into it."""
    while aggregator.round_number < round_number:
        for collaborator in collaborators:
            if aggregator.round_number < round_number:
                collaborator.step()
    for step in range(results):
        collaborators[step % len(collaborators)].step()


@pytest.mark.parametrize(("round_number", "results"), [(1, 0), (2, 1), (3, 0)])
def test_everybody_who_starts_again_goes_on_with_the_same_numbers(undisturbed, round_number, results):
    aggregator, collaborators = build()
    until(aggregator, collaborators, round_number, results)
    del aggregator, collaborators
    aggregator, collaborators = build()
    assert aggregator.round_number == round_number
    assert aggregator.server.offers()["fisher"].any()
    run_rounds(aggregator, collaborators)
    assert outcome() == undisturbed


def test_a_client_that_starts_again_goes_on_with_what_it_sent(undisturbed):
    aggregator, collaborators = build()
    until(aggregator, collaborators, 2)
    names = [collaborator.collaborator_name for collaborator in collaborators]
    saved = read_state(Path("local_state") / names[0] / "after_round_000001.state")["kept"]
    assert saved["fisher_round"] == 1
    assert (saved["fisher"] >= 0).all()
    assert saved["fisher"].any()
    del collaborators
    run_rounds(aggregator, build_some(names, lambda name: LocalLink(aggregator, name)))
    assert outcome() == undisturbed


def test_a_client_that_lost_what_it_sent_is_another_client(undisturbed):
    """Otherwise the tests above would show nothing."""
    aggregator, collaborators = build()
    until(aggregator, collaborators, 2)
    names = [collaborator.collaborator_name for collaborator in collaborators]
    del collaborators
    shutil.rmtree("local_state")
    run_rounds(aggregator, build_some(names, lambda name: LocalLink(aggregator, name)))
    assert outcome() != undisturbed
