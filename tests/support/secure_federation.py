"""The federation of `in_process_federation` with clients that mask: real aggregator, real protocol, local keys."""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openfl.utilities import TensorKey

from fedagem.plans.federation import FederatedTask, parse_protection
from fedagem.runs.folder import requested_plan
from fedagem.settings import parse_settings
from src.aggregator import StagedAggregator
from src.link import ResultRefusedError
from src.secure_client import SecureClient
from src.task_results import EXCHANGE
from src.task_results import MODEL as MODEL_KIND
from tests.support.in_process_federation import G_REF, TASKS, Client, labelled, make_aggregator
from tests.support.secagg_parties import LocalKeys

NAMES = ["a", "b", "c", "d"]


@dataclass
class MaskingClient(Client):
    """The arithmetic of `Client`, sent through secure aggregation."""

    settings: Any = field(default_factory=dict)
    keys: LocalKeys = field(default_factory=LocalKeys)
    sent: list[dict[TensorKey, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin, or begin again after a kill: only what is on disk is known."""
        chosen = parse_protection(self.settings)
        assert chosen is not None
        signer = self.keys.signer(self.name)
        plan = requested_plan(Path())
        self.secure = SecureClient(self.name, plan, chosen, self.link, signer, self.keys)
        self.secure._plan = plan.changed({"aggregator.settings.weighting": self.aggregator.weighting})

    def answer_of(self, task: str, round_number: int) -> dict[TensorKey, Any]:
        """What is sent for a task."""
        self.secure._link = self.link
        if self.secure.is_step(task):
            return self.secure.answer(task, round_number)
        result = labelled(round_number, self.result(task, round_number))
        if not self.secure.protects(task):
            return result
        chosen = parse_settings(FederatedTask, TASKS[task], task)
        offset = chosen.kwargs.after_rounds or 0
        inputs = {
            TensorKey(name, "GLOBAL", 0, False, MODEL_KIND): self.link.fetch(name, round_number + offset, MODEL_KIND)
            for name in ("w", "steps")
        }
        if task == "train" and G_REF in self.aggregator.expected.exchanges:
            inputs[TensorKey("g_ref", "GLOBAL", 0, False, EXCHANGE)] = self.link.fetch("g_ref", round_number, EXCHANGE)
        return self.secure.protect(task, chosen, round_number, inputs, result, [G_REF])

    def send(self, task: str, round_number: int, kinds: Any = None) -> None:
        assert kinds is None
        answer = self.answer_of(task, round_number)
        self.done.append((round_number, task))
        self.sent.append(answer)
        with contextlib.suppress(ResultRefusedError):
            self.link.send(round_number, task, answer)


class SecureFederation:
    """Makes aggregators and clients of one federation, again and again if they are killed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: list[str] | None = None, **settings: Any) -> None:
        self.names = names or NAMES
        self.keys = LocalKeys()
        self.settings = settings
        monkeypatch.setattr("src.protected_stages.federation_verifier", lambda *_: self.keys)

    def aggregator(self, rounds: int = 2, masked: bool = True, **others: Any) -> StagedAggregator:
        return make_aggregator(self.names, rounds, secure_aggregation=self.settings, masked=masked, **others)

    def clients(self, aggregator: StagedAggregator, weights: tuple[float, ...] = ()) -> list[MaskingClient]:
        chosen = weights or (1.0,) * len(self.names)
        return [
            MaskingClient(name, aggregator, k, weight, settings=self.settings, keys=self.keys)
            for k, (name, weight) in enumerate(zip(self.names, chosen, strict=True), 1)
        ]


def received(clients: list[MaskingClient]) -> list[np.ndarray[Any, Any]]:
    """All arrays that the aggregator got."""
    return [array for client in clients for answer in client.sent for array in answer.values()]
