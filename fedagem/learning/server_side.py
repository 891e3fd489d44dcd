"""What the server of a method does besides averaging: FedAvg's server does nothing more."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedagem.learning.exchange import Exchange, StageName

Array = NDArray[Any]
Model = Mapping[str, Array]
"""A model's parameters and statistics by name."""

SCORE = "score"
"""Names the exchange by which clients choose between models."""


class ServerSide:
    """One per federation, called by the aggregator under its lock; its state is part of the checkpoint.

    By default it carries over what the method's exchanges add up to, if later rounds need it.
    """

    def __init__(self, exchanges: list[Exchange]) -> None:
        self._kept: dict[str, Array] = {
            exchange.name: np.zeros(exchange.shape, np.float32) for exchange in exchanges if exchange.keep
        }

    def step(self, old: Model, averaged: Model) -> Model:
        """The next global model, from the one the round began with and the clients' average."""
        return averaged

    def take(self, stage: StageName, combined: Mapping[str, Array]) -> None:
        """What the exchanges of a finished stage add up to."""
        self._kept |= {name: array for name, array in combined.items() if name in self._kept}

    def end_task(self, model: Model) -> None:
        """A task is over: the stage `end_task` is complete, and `model` is the new global model."""

    def offers(self) -> Mapping[str, Array]:
        """What clients may ask for by name from now on; zeros until somebody has sent something."""
        return self._kept

    def previous_model(self) -> Model | None:
        """The model that clients learn from as a teacher during this task; None during the first one."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to continue from here: arrays, and plain values."""
        return {"kept": dict(self._kept)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` described."""
        self._kept = dict(state["kept"])


class RemembersPreviousModel(ServerSide):
    """Keeps the global model of the last task's end, which iCaRL and CFeD distil from."""

    def __init__(self, exchanges: list[Exchange]) -> None:
        super().__init__(exchanges)
        self._previous: dict[str, Array] | None = None

    def end_task(self, model: Model) -> None:
        self._previous = dict(model)

    def previous_model(self) -> Model | None:
        return self._previous

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "previous": self._previous}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._previous = state["previous"]


class RemembersBestModel(RemembersPreviousModel):
    """Keeps the best global model of a task, which GLFC distils from; of equally good ones, the latest.

    Clients score the model that a round begins with, and in the end the last one, by SCORE: right answers, and all.
    """

    def __init__(self, exchanges: list[Exchange]) -> None:
        super().__init__(exchanges)
        self._best: Model | None = None
        self._share_right = 0.0
        self._scored: Model = {}
        """What the clients of a round score while they train: the model that they began with."""
        self._last_score: Array = np.zeros(2, np.float32)

    def step(self, old: Model, averaged: Model) -> Model:
        self._scored = old
        return averaged

    def take(self, stage: StageName, combined: Mapping[str, Array]) -> None:
        super().take(stage, combined)
        if stage == "train":
            self._consider(self._scored, combined[SCORE])
        elif stage == "end_task":
            self._last_score = combined[SCORE]

    def end_task(self, model: Model) -> None:
        self._consider(model, self._last_score)
        super().end_task(self._best or model)
        self._best, self._share_right = None, 0.0

    def _consider(self, model: Model, score: Array) -> None:
        right, count = score.tolist()
        if count and right / count >= self._share_right:
            self._best, self._share_right = dict(model), right / count

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "best": self._best, "share_right": self._share_right}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._best, self._share_right = state["best"], state["share_right"]
