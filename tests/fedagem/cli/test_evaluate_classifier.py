"""`fedagem evaluate` for a classifier: the tasks come from the plan of its run, the network from its file."""

import json

import pytest
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.learning.model_file import ModelDescription, write_model
from fedagem.learning.trainer import Component
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from models.mnist_cnn import SmallCNN


@pytest.fixture
def model(repository, tmp_path):
    """The last model of a run whose plan names another network: only the model's file counts."""
    return make_run(repository, tmp_path)


def make_run(repository, tmp_path, **changes):
    fewer = {"data_loader.settings.samples_per_client": 10, "data_loader.settings.test_samples": 20}
    create_run(tmp_path / "run", Plan.load(repository / "plan" / "rotated_digits.yaml").changed({**fewer, **changes}))
    return describe(tmp_path / "run" / "save" / "last.safetensors", "models.mnist_cnn.SmallCNN")


def describe(path, template):
    arrays = {name: tensor.numpy() for name, tensor in SmallCNN().state_dict().items()}
    write_model(path, arrays, ModelDescription(network=Component(template=template)))
    return path


def evaluate(*arguments):
    return CliRunner().invoke(main, ["evaluate", *map(str, arguments)])


def test_every_task_is_scored(model):
    result = evaluate("--model", model)
    assert result.exit_code == 0, result.output
    [accuracy] = json.loads((model.parent / "last-evaluation" / "scores.json").read_text())["accuracy"].values()
    assert len(accuracy) == 5
    assert all(0 <= value <= 1 for value in accuracy)
    assert "mean" in result.output


@pytest.mark.parametrize("classifier", ["nearest_mean", "head"])
def test_a_method_that_answers_by_more_than_its_model_is_told_of(repository, tmp_path, classifier):
    changes = {
        "data_loader.settings.tasks.kind": "sequential",
        "task_runner.settings.method": "icarl",
        "task_runner.settings.method_settings": {"classifier": classifier},
    }
    model = make_run(repository, tmp_path, **changes)
    result = evaluate("--model", model)
    assert result.exit_code == 0, result.output
    sentence = "method icarl answers by class_sums and class_counts, which a model file does not hold"
    scores = json.loads((model.parent / "last-evaluation" / "scores.json").read_text())
    assert (sentence in " ".join(result.output.split())) == (classifier == "nearest_mean")
    assert (sentence in scores.get("note", "")) == (classifier == "nearest_mean")


def test_a_moved_model_needs_the_plan(model, tmp_path):
    moved = model.rename(tmp_path / "moved.safetensors")
    result = evaluate("--model", moved)
    assert result.exit_code == 2
    assert "name it with --plan" in result.output
    assert evaluate("--model", moved, "--plan", tmp_path / "run" / "plan" / "plan.yaml").exit_code == 0


def test_foreign_classes_are_refused(model):
    result = evaluate("--model", describe(model, "os.system"))
    assert result.exit_code == 2
    assert "names 'os.system', which is not part of this project" in " ".join(result.output.split())
