"""Methods with task boundaries in a federation: teachers, ends of tasks, and kills around them."""

import numpy as np
import pytest
import torch

from fedagem.files import read_state
from fedagem.learning.client_state import ClientStateStore
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.runs.folder import create_run
from fedagem.runs.metrics_log import read_metrics
from src.task_results import MODEL, PREVIOUS
from tests.support.fx_federations import assert_same_outcome
from tests.support.method_federation import MethodFederation, sequential_digits

END = 1
"""The last round of the first task."""


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def in_a_run(tmp_path, monkeypatch):
    def enter(plan):
        create_run(tmp_path / "run", plan)
        monkeypatch.chdir(tmp_path / "run")
        return tmp_path / "run"

    return enter


def model_at(aggregator, round_number, kind=MODEL):
    return {name: aggregator.lookup(name, round_number, kind, "client_1") for name in aggregator.expected.model}


def exemplars(run, moment):
    """How many exemplars of each class the clients have together."""
    counts = torch.zeros(10, dtype=torch.int64)
    for path in sorted((run / "local_state").rglob(f"{moment}.state")):
        counts += torch.bincount(read_state(path)["buffer"]["slots"]["y"], minlength=10)
    return counts.tolist()


def test_icarl_learns_with_a_teacher_and_answers_by_the_means_of_all_exemplars(in_a_run):
    run = in_a_run(sequential_digits("icarl", reduction="sum"))
    federation = MethodFederation()
    teachers = []
    train = federation.collaborators[0].task_runner.train

    def noticing(**arguments):
        names = {key for key in arguments["input_tensor_dict"] if key.startswith("previous")}
        teachers.append(bool(names))
        return train(**arguments)

    federation.collaborators[0].task_runner.train = noticing
    federation.until_stage(2, "buffer_gradient")
    end_of_first = model_at(federation.aggregator, 2)
    assert sum(exemplars(run, "after_task_000001")[5:]) == 0
    federation.until_stage(3, "train")
    previous = model_at(federation.aggregator, 2, PREVIOUS)
    assert all(np.array_equal(previous[name], array) for name, array in end_of_first.items())
    federation.run()
    assert teachers == [False, False, True, True]
    offers = federation.aggregator.server.offers()
    counts = exemplars(run, "after_task_000003")
    assert offers["class_counts"].tolist() == counts
    assert all(count > 0 for count in counts)
    lengths = np.linalg.norm(offers["class_sums"], axis=1) / offers["class_counts"]
    assert (lengths > 0.5).all()
    assert (lengths <= 1 + 1e-6).all(), "means of features of length 1"
    [first, _] = [row.several for row in read_metrics(run) if row.metric == "accuracy/class_il"][-1]
    assert first > 0.2, "the classes of the first task are not forgotten"


@pytest.fixture(scope="module", params=["icarl", "glfc", "cfed"])
def undisturbed(request, tmp_path_factory):
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    plan = sequential_digits(request.param)
    create_run(run, plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(run)
        MethodFederation().run()
    return plan, run


@pytest.mark.parametrize("restart", [MethodFederation.restart_clients, MethodFederation.restart_aggregator])
def test_a_kill_between_training_and_the_end_of_the_task_changes_nothing(undisturbed, in_a_run, restart):
    plan, reference = undisturbed
    run = in_a_run(plan)
    federation = MethodFederation()
    federation.until_stage(END, "end_task")
    restart(federation)
    federation.run()
    assert_same_outcome(run, reference)


@pytest.mark.parametrize("moment", ["before the state is saved", "before the result is sent"])
def test_a_client_that_dies_in_the_end_of_the_task_changes_nothing(undisturbed, in_a_run, monkeypatch, moment):
    plan, reference = undisturbed
    run = in_a_run(plan)
    federation = MethodFederation()
    federation.until_stage(END, "end_task")
    federation.collaborators[0].step()
    owner, name = (FedAGEM, "end_task") if moment == "before the state is saved" else (ClientStateStore, "save")
    work = getattr(owner, name)

    def dying(*arguments):
        work(*arguments)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dying)
        with pytest.raises(Crash):
            federation.collaborators[1].step()
    assert federation.aggregator.progress.stage.name == "end_task"
    federation.restart_clients()
    federation.run()
    assert_same_outcome(run, reference)


def test_an_aggregator_that_dies_in_the_end_of_the_task_changes_nothing(undisturbed, in_a_run):
    """One result of the stage is in; the clients have the end of the task behind them and go back."""
    plan, reference = undisturbed
    run = in_a_run(plan)
    federation = MethodFederation()
    federation.until_stage(END, "end_task")
    federation.collaborators[0].step()
    assert federation.aggregator.progress.completed() == 1
    federation.restart_aggregator()
    federation.run()
    assert_same_outcome(run, reference)
