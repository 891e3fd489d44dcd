"""The sections of a plan that say how the federation itself behaves: aggregator, collaborator, tasks and network."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from fedagem.aggregation.settings import Means
from fedagem.errors import PlanError
from fedagem.secagg.settings import SecureAggregation, not_openfls
from fedagem.settings import Settings, Several, parse_settings


class OpenFLSwitches(Settings):
    """Settings that OpenFL's aggregator and collaborator share."""

    use_delta_updates: bool = False
    """OpenFL's own; must be false, because deltas cannot be recovered after a crash."""
    write_logs: bool = False
    """OpenFL's own, the aggregator's only: write the seconds of each round to logs/aggregator_metrics.txt."""
    log_memory_usage: bool = False
    """OpenFL's own, the aggregator's only: log the memory in use after every round."""

    @field_validator("use_delta_updates")
    @classmethod
    def _no_deltas(cls, chosen: bool) -> bool:
        if chosen:
            raise ValueError("must be false: deltas cannot be recovered after a crash.")
        return chosen


class AbsenceSettings(Settings):
    """What happens if a collaborator is awaited and not heard of."""

    policy: Literal["wait", "go_on", "stop"] = "wait"
    """`wait` for it as long as it takes, `go_on` without it until it comes back, or `stop` the federation."""
    after_seconds: float | None = Field(None, gt=0)
    """For `go_on` and `stop`: how long nothing is heard of it before; more than any of its tasks takes."""

    @model_validator(mode="after")
    def _a_time_if_it_matters(self) -> "AbsenceSettings":
        if (self.policy == "wait") != (self.after_seconds is None):
            raise PlanError(
                "aggregator.settings.absence takes after_seconds together with the policy go_on or stop; to wait for "
                "everybody as long as it takes, leave both out."
            )
        return self


class AggregatorSettings(OpenFLSwitches, Means):
    """What the aggregator does, apart from what OpenFL gives it."""

    rounds_to_train: int = Field(ge=1)
    """How many rounds the federation learns."""
    init_state_path: str
    """The model that the federation begins with, in OpenFL's format."""
    best_state_path: str
    """The model with the best score so far, in OpenFL's format."""
    last_state_path: str
    """The model of the last round, in OpenFL's format."""
    poll_seconds: float = Field(20.0, ge=0)
    """How long a collaborator's question for tasks is held while there are none."""
    snapshots: Several[int] = ()
    """After how many rounds a copy of the model is kept."""
    absence: AbsenceSettings = Field(default_factory=AbsenceSettings)
    """What happens if a collaborator stays away."""
    keep_received: bool = False
    """Keep the buffer gradients that were received in the newest round, in received/, for `fedagem audit`."""
    secure_aggregation: SecureAggregation | None = None
    """How sums are protected from the aggregator; without it, averages are made in the clear."""

    @field_validator("secure_aggregation", mode="before")
    @classmethod
    def _ours(cls, chosen: Any) -> Any:
        return not_openfls(chosen)


def parse_protection(given: Any) -> SecureAggregation | None:
    """`secure_aggregation` as OpenFL hands it to the aggregator and to every collaborator; None if there is none."""
    if given is None:
        return None
    try:
        not_openfls(given)
    except ValueError as problem:
        raise PlanError(f"aggregator.settings.secure_aggregation {problem}") from problem
    return parse_settings(SecureAggregation, given, "aggregator.settings.secure_aggregation")


class CollaboratorSettings(OpenFLSwitches):
    """What every collaborator does, apart from what OpenFL gives it."""

    connect_seconds: float = Field(60.0, ge=0)
    """How long a collaborator waits for an aggregator that it has never reached."""
    retry_seconds: float = Field(600.0, ge=0)
    """How long it waits for an aggregator that went away."""

    @field_validator("write_logs", "log_memory_usage")
    @classmethod
    def _not_here(cls, chosen: bool) -> bool:
        if chosen:
            raise ValueError(
                "must be false: collaborators work in stages, and OpenFL writes this after its own rounds."
            )
        return chosen


class TaskArguments(Settings):
    """What a task of a round is called with."""

    publishes: list[Literal["model", "method"]] = Field(default_factory=list)
    """What the task sends to be added up: `model`, and `method` for all that the method exchanges in its stage."""
    wants: list[Literal["method"]] = Field(default_factory=list)
    """What the task needs besides the model: `method` for all that the method asks for there."""
    after_rounds: int | None = None
    """Which model the task works with: 0 the one that the round begins with, 1 the one that it made."""

    @field_validator("publishes", "wants", mode="before")
    @classmethod
    def _no_single_tensors(cls, words: Any) -> Any:
        if isinstance(words, list) and "g_ref" in words:
            raise ValueError("names g_ref, which is one of the tensors that a method exchanges: write method instead.")
        return words


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
