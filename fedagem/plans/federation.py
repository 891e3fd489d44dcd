"""The `aggregator.settings` and `collaborator.settings` of a plan: how the federation itself behaves."""

from dataclasses import dataclass
from typing import Literal

from fedagem.errors import PlanError


@dataclass(frozen=True)
class AggregatorSettings:
    """What the aggregator is told, beside what OpenFL gives it."""

    rounds_to_train: int
    init_state_path: str
    best_state_path: str
    last_state_path: str
    weighting: Literal["uniform", "samples"] = "uniform"
    poll_seconds: float = 20.0
    """How long a collaborator's question for tasks is held while there are none."""
    snapshots: tuple[int, ...] = ()
    """After how many rounds a copy of the model is kept."""
    use_delta_updates: bool = False
    write_logs: bool = False
    log_memory_usage: bool = False

    def __post_init__(self) -> None:
        if self.rounds_to_train < 1:
            raise PlanError(f"aggregator.settings.rounds_to_train must be at least 1, not {self.rounds_to_train}.")
        if self.use_delta_updates:
            raise PlanError(
                "aggregator.settings.use_delta_updates must be false: deltas cannot be recovered after a crash."
            )


@dataclass(frozen=True)
class CollaboratorSettings:
    """What every collaborator is told, beside what OpenFL gives it."""

    connect_seconds: float = 60.0
    retry_seconds: float = 600.0
    use_delta_updates: bool = False
    write_logs: bool = False
    log_memory_usage: bool = False

    def __post_init__(self) -> None:
        for name in ("connect_seconds", "retry_seconds"):
            if not getattr(self, name) >= 0:
                raise PlanError(f"collaborator.settings.{name} must not be negative, but is {getattr(self, name)}.")
        if self.use_delta_updates:
            raise PlanError("collaborator.settings.use_delta_updates must be false, as in the aggregator.")
