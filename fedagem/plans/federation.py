"""The sections of a plan that say how the federation itself behaves: aggregator, collaborator, tasks and network."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from fedagem.errors import PlanError
from fedagem.settings import Settings, Several, parse_settings


class OpenFLSwitches(Settings):
    """Settings that OpenFL's aggregator and collaborator share."""

    use_delta_updates: bool = False
    """OpenFL's own; must be false, because deltas cannot be recovered after a crash."""
    write_logs: bool = False
    """OpenFL's own: write TensorBoard logs while running."""
    log_memory_usage: bool = False
    """OpenFL's own: log the memory in use after every round."""

    @field_validator("use_delta_updates")
    @classmethod
    def _no_deltas(cls, chosen: bool) -> bool:
        if chosen:
            raise ValueError("must be false: deltas cannot be recovered after a crash.")
        return chosen


class AggregatorSettings(OpenFLSwitches):
    """What the aggregator does, apart from what OpenFL gives it."""

    rounds_to_train: int = Field(ge=1)
    """How many rounds the federation learns."""
    init_state_path: str
    """The model that the federation begins with, in OpenFL's format."""
    best_state_path: str
    """The model with the best score so far, in OpenFL's format."""
    last_state_path: str
    """The model of the last round, in OpenFL's format."""
    weighting: Literal["uniform", "samples"] = "uniform"
    """Whether all clients count the same, as in the paper, or by their number of samples."""
    poll_seconds: float = Field(20.0, ge=0)
    """How long a collaborator's question for tasks is held while there are none."""
    snapshots: Several[int] = ()
    """After how many rounds a copy of the model is kept."""


class CollaboratorSettings(OpenFLSwitches):
    """What every collaborator does, apart from what OpenFL gives it."""

    connect_seconds: float = Field(60.0, ge=0)
    """How long a collaborator waits for an aggregator that it has never reached."""
    retry_seconds: float = Field(600.0, ge=0)
    """How long it waits for an aggregator that went away."""


class TaskArguments(Settings):
    """What a task of a round is called with."""

    publishes: list[str] = Field(default_factory=list)
    """What the task sends to be averaged: `model`, `g_ref`."""
    wants: list[str] = Field(default_factory=list)
    """Averages of an earlier stage that the task needs: `g_ref`."""
    after_rounds: int | None = None
    """Which model an evaluation scores: 0 the one that the round begins with, 1 the one that it made."""


class FederatedTask(Settings):
    """A function of the task runner that a stage names."""

    function: str
    """The method of the task runner."""
    kwargs: TaskArguments = Field(default_factory=TaskArguments)
    """What it is called with."""

    @property
    def arguments(self) -> dict[str, Any]:
        """What the function is called with, as far as the plan says."""
        return self.kwargs.model_dump(exclude_unset=True)


def parse_tasks(section: Mapping[str, Any]) -> dict[str, FederatedTask]:
    """The section `tasks` by name, without the empty `settings` and the aggregation objects that OpenFL adds."""
    tasks = {}
    for name, task in section.items():
        if name == "settings":
            continue
        if not (isinstance(task, Mapping) and isinstance(task.get("function"), str)):
            raise PlanError(f"tasks.{name} must be a mapping with a function, not {task!r}.")
        own = {key: value for key, value in task.items() if key != "aggregation_type" or isinstance(value, Mapping)}
        tasks[name] = parse_settings(FederatedTask, own, f"tasks.{name}")
    return tasks


class NetworkSettings(Settings):
    """How collaborators reach the aggregator; OpenFL's `network.settings`."""

    agg_addr: str = "auto"
    """The aggregator's host name; `auto` is this machine's."""
    agg_port: int | str = "auto"
    """The aggregator's port; `auto` is derived from the plan."""
    use_tls: bool = True
    """Whether connections are encrypted."""
    require_client_auth: bool = True
    """Whether collaborators need certificates, too."""
    client_reconnect_interval: int = Field(5, ge=0)
    """Seconds before a collaborator tries again to reach the aggregator."""
    cert_folder: str = "cert"
    """Where certificates are kept in the workspace."""
    hash_salt: str = "auto"
    """OpenFL's own: goes into the port that it derives from the plan."""
