"""A federation that begins with the model of an earlier run."""

import numpy as np
import pytest

from fedagem.errors import DataError, PlanError
from fedagem.learning.model_file import ModelDescription, write_model
from fedagem.learning.trainer import Component
from fedagem.plans.checks import with_located_model
from fedagem.plans.plan import Plan
from src.data_loader import TaskStreamLoader
from src.task_runner import FedAGemTaskRunner

pytestmark = pytest.mark.usefixtures("in_a_folder")

INITIAL_MODEL = "task_runner.settings.initial_model"


@pytest.fixture
def plan(repository):
    return Plan.load(repository / "plan" / "rotated_digits.yaml").changed(
        {
            "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
            "data_loader.settings.samples_per_client": 32,
        }
    )


def runner(plan, initial_model, **changes):
    settings = {**plan.training.model_dump(), "initial_model": str(initial_model), **changes}
    return FedAGemTaskRunner(TaskStreamLoader("0", **plan.data.model_dump()), **settings)


@pytest.fixture
def earlier(plan, tmp_path):
    """The model that some run ended with, and its file."""
    other = plan.changed(seed=99)
    loader = TaskStreamLoader("0", **other.data.model_dump())
    model = FedAGemTaskRunner(loader, **other.training.model_dump()).get_tensor_dict()
    path = tmp_path / "last.safetensors"
    weights = {name: array for name, array in model.items() if not name.startswith("exchange/")}
    write_model(path, weights, ModelDescription(network=Component(template="models.mnist_cnn.SmallCNN")))
    return model, path


def test_the_federation_begins_with_the_model_of_the_file(plan, earlier):
    expected, path = earlier
    begun = runner(plan, path).get_tensor_dict()
    assert begun.keys() == expected.keys()
    assert all(np.array_equal(begun[name], expected[name]) for name in expected)


def test_a_collaborator_gets_the_global_model_and_needs_no_file(plan, earlier):
    model, _ = earlier
    given = {name: array + 1 for name, array in model.items() if "/" not in name}
    client = runner(plan, "on/another/machine.safetensors")
    client.evaluate("0", 0, dict(given), after_rounds=0)
    held = client.get_tensor_dict()
    assert all(np.array_equal(held[name], given[name]) for name in given)


def test_a_file_that_is_not_there_is_named(plan):
    with pytest.raises(PlanError, match=r"initial_model is nowhere\.safetensors, but there is no such file"):
        runner(plan, "nowhere.safetensors").get_tensor_dict()


def test_the_model_of_another_network_is_refused(plan, earlier):
    other = runner(plan, earlier[1], model={"template": "models.mnist_cnn.McMahanCNN"})
    with pytest.raises(DataError, match=r"last\.safetensors does not fit the model of the plan"):
        other.get_tensor_dict()


def test_a_damaged_file_is_refused(plan, earlier):
    path = earlier[1]
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"last\.safetensors is not a model file"):
        runner(plan, path).get_tensor_dict()


def test_the_path_holds_in_the_folder_of_the_run(plan, earlier):
    located = with_located_model(plan.changed({INITIAL_MODEL: "last.safetensors"}))
    assert located.training.initial_model == str(earlier[1])
    assert with_located_model(plan) is plan
    with pytest.raises(
        PlanError, match=r"initial_model is lost\.safetensors, but there is no such file: name the save"
    ):
        with_located_model(plan.changed({INITIAL_MODEL: "lost.safetensors"}))


def test_openfls_own_file_is_refused_and_the_right_one_named(plan, tmp_path):
    (tmp_path / "last.pbuf").write_bytes(b"weights")
    with pytest.raises(DataError, match=r"last\.pbuf is OpenFL's own model file: use .*last\.safetensors"):
        with_located_model(plan.changed({INITIAL_MODEL: "last.pbuf"}))
