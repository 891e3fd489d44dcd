"""The collaborator: what it fetches and does, and what it makes of an aggregator that goes away or refuses."""

import numpy as np
import pytest
from openfl.utilities import TensorKey

from fedagem.errors import FederationError
from src.collaborator import StagedCollaborator
from src.link import ResultRefusedError, StaleTaskError, answer_in
from src.pipeline import ExactPipeline
from src.task_results import EXCHANGE, MODEL, PREVIOUS


class Script:
    """A link that answers from a list and notes what it was sent."""

    def __init__(self, answers, missing=()):
        self.answers, self.missing, self.sent, self.refuse = list(answers), set(missing), [], set()
        self.fetched = []

    def get_tasks(self):
        return self.answers.pop(0)

    def fetch(self, name, round_number, kind):
        if (name, round_number) in self.missing:
            raise StaleTaskError(f"there is no {kind[0]} tensor {name!r} of round {round_number}")
        self.fetched.append((name, round_number))
        return np.zeros(1, np.float32)

    def send(self, round_number, task, tensors):
        if (round_number, task) in self.refuse:
            raise ResultRefusedError("refused")
        self.sent.append((round_number, task))


WANTED = {
    "buffer_gradient": [("w", 0, MODEL)],
    "train": [("w", 0, MODEL), ("g_ref", 0, EXCHANGE)],
    "evaluate": [("w", 1, MODEL)],
}


class Runner:
    """Wants the model to learn, g_ref beside it to train, and the next model to evaluate."""

    def get_required_tensorkeys_for_function(self, function, round_number, **_):
        if function == "distil":
            return [TensorKey("teacher", "GLOBAL", 4 * (round_number // 4) - round_number, False, PREVIOUS)]
        return [TensorKey(name, "GLOBAL", offset, False, kind) for name, offset, kind in WANTED[function]]

    def set_optimizer_treatment(self, _):
        pass

    def train(self, **_):
        return {}, {}

    buffer_gradient = evaluate = distil = train


def collaborator(link):
    return StagedCollaborator(
        collaborator_name="a",
        aggregator_uuid="aggregator",
        federation_uuid="federation",
        client=link,
        task_runner=Runner(),
        task_config={name: {"function": name} for name in ("train", "evaluate", "buffer_gradient", "distil")},
        compression_pipeline=ExactPipeline(),
        callbacks=[],
    )


QUIT: tuple[list[str], int, int, bool] = ([], 9, 0, True)


def test_a_task_that_is_out_of_date_is_dropped_and_the_next_one_done():
    """The aggregator was killed after it had handed out `train`, and begins the round again."""
    link = Script(
        [(["train"], 3, 0, False), (["buffer_gradient"], 3, 0, False), (["train"], 3, 0, False), QUIT],
        missing={("g_ref", 3)},
    )
    subject = collaborator(link)
    assert subject.step()
    assert link.sent == []
    assert subject.step()
    link.missing.clear()
    assert subject.step()
    assert not subject.step()
    assert link.sent == [(3, "buffer_gradient"), (3, "train")]


def test_an_aggregator_killed_twice_in_one_round_is_no_reason_to_give_up():
    link = Script(
        [(["train"], 3, 0, False), (["buffer_gradient"], 3, 0, False), (["train"], 3, 0, False), QUIT],
        missing={("g_ref", 3)},
    )
    subject = collaborator(link)
    while subject.step():
        pass
    assert link.sent == [(3, "buffer_gradient")]


def test_a_tensor_that_no_stage_makes_ends_with_a_sentence():
    link = Script([(["train"], 0, 0, False)] * 3, missing={("g_ref", 0)})
    subject = collaborator(link)
    assert subject.step()
    with pytest.raises(FederationError, match="train cannot be done: there is no exchange tensor 'g_ref' of round 0"):
        subject.step()


def test_a_refused_client_goes_on_with_the_next_stage(caplog):
    link = Script([(["train", "evaluate"], 0, 0, False), (["buffer_gradient"], 1, 0, False), QUIT])
    link.refuse = {(0, "train")}
    collaborator(link).run()
    assert link.sent == [(1, "buffer_gradient")]
    assert "goes on with the next stage" in caplog.text


def test_the_model_of_a_round_is_fetched_once():
    link = Script([(["buffer_gradient"], 3, 0, False), (["train"], 3, 0, False), QUIT])
    collaborator(link).run()
    assert link.fetched == [("w", 3), ("g_ref", 3)]


def test_the_previous_model_is_fetched_once_a_task():
    rounds = [([task], r, 0, False) for r in range(4, 10) for task in ("distil", "train")]
    link = Script([*rounds, QUIT])
    collaborator(link).run()
    assert [fetched for fetched in link.fetched if fetched[0] == "teacher"] == [("teacher", 4), ("teacher", 8)]


def test_a_client_that_cannot_be_held_asks_ever_more_rarely_until_there_is_work(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr("src.collaborator.time.sleep", pauses.append)
    busy, held = ((*QUIT[:2], sleep, False) for sleep in (1, 0))
    link = Script([*[busy] * 7, held, busy, (["evaluate"], 0, 0, False), busy, QUIT])
    collaborator(link).run()
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1, 1, 1, 0.05]


def test_what_a_restarted_aggregator_may_make_anew_is_fetched_anew():
    """It was killed before the round was on disk; without the same stragglers g_ref and the next model are others."""
    once = [(["train"], 3, 0, False), (["evaluate"], 3, 0, False)]
    link = Script([*once, *once, (["buffer_gradient"], 4, 0, False), QUIT])
    collaborator(link).run()
    assert link.fetched == [("w", 3), *[("g_ref", 3), ("w", 4)] * 2, ("w", 4)]


def test_answers_travel_with_a_code():
    """OpenFL's server sends the text of an exception and nothing else."""
    for answer in (ResultRefusedError("refused train of a"), StaleTaskError("there is no tensor")):
        arrived = answer_in(str(answer))
        assert type(arrived) is type(answer)
        assert arrived is not None
        assert arrived.reason == answer.reason
    assert answer_in("refused train of a") is None
    assert answer_in("there is no room on the disk") is None
