"""An OpenFL collaborator that works through stages and ends with a sentence when it cannot go on."""

import copy
import logging
import time
from pathlib import Path
from typing import Any

from openfl.component.collaborator.collaborator import Collaborator
from openfl.transport.grpc.aggregator_client import AggregatorGRPCClient
from openfl.utilities import TensorKey

from fedagem.errors import FederationError
from fedagem.plans.federation import CollaboratorSettings, parse_protection, parse_tasks
from fedagem.runs.folder import checked_plan
from fedagem.runs.processes import lock_client
from src.link import GrpcLink, Link, ResultRefusedError, StaleTaskError
from src.secure_client import SecureClient
from src.task_results import MODEL, PREVIOUS, Array, input_name
from src.tensor_store import KeepsTensorStore, TensorStore

logger = logging.getLogger(__name__)

_DEFAULTS = CollaboratorSettings()
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two questions for tasks if the aggregator cannot hold them; OpenFL can say whole seconds only."""


class StagedCollaborator(KeepsTensorStore, Collaborator):  # type: ignore[misc]
    """Fetches what a task wants, runs it, sends what it publishes."""

    def __init__(
        self,
        connect_seconds: float = _DEFAULTS.connect_seconds,
        retry_seconds: float = _DEFAULTS.retry_seconds,
        secure_aggregation: Any = None,
        **settings: Any,
    ) -> None:
        super().__init__(**{"use_delta_updates": False, **settings})
        self._tasks = parse_tasks(self.task_config)
        self._missed: tuple[str, int] | None = None
        self._pause = _SHORTEST_PAUSE
        self.link: Link = self.client
        if isinstance(self.client, AggregatorGRPCClient):
            self._lock = lock_client(Path(), self.collaborator_name)
            self.link = GrpcLink(self.client, self.compression_pipeline, connect_seconds, retry_seconds)
            checked_plan(Path())
        self.secure: SecureClient | None = None
        """What masks the results; None if sums are made in the clear, or all is in one process."""
        # OpenFL says False if the plan says nothing.
        given = None if secure_aggregation is False else secure_aggregation
        if (protection := parse_protection(given)) is not None:
            plan = checked_plan(Path())
            self.secure = SecureClient.of_collaborator(self.collaborator_name, plan, protection, self.link, self.client)

    def for_client(self, name: str, link: Link, runner: Any, fetched: TensorStore) -> "StagedCollaborator":
        """The collaborator of another client of this process, with what it has fetched so far."""
        other = copy.copy(self)
        other.collaborator_name, other.link, other.task_runner = name, link, runner
        other._tensor_store = fetched
        return other

    def run(self) -> None:
        """Work until the aggregator says that the federation is over."""
        self.callbacks.on_experiment_begin()
        while self.step():
            pass
        self.callbacks.on_experiment_end()

    def step(self) -> bool:
        """Ask once for tasks and do them; False when the federation is over."""
        tasks, round_number, sleep_seconds, quit_now = self.link.get_tasks()
        if quit_now:
            return False
        if tasks:
            self._pause = _SHORTEST_PAUSE
        elif sleep_seconds:
            time.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self.tensor_db.drop_before(round_number)
        for task in tasks:
            try:
                self.do_task(task, round_number)
            except ResultRefusedError as refusal:
                logger.error("%s: this client goes on with the next stage", refusal.reason)
                break
            except StaleTaskError as stale:
                self._ask_again(task, round_number, stale)
                break
        return True

    def _ask_again(self, task: str, round_number: int, stale: StaleTaskError) -> None:
        """Poll again: the stage ended without this client, or the aggregator has begun the round again."""
        if self._missed == (task, round_number):
            raise FederationError(f"{task} cannot be done: {stale.reason}; no earlier stage of the plan publishes it.")
        logger.warning("%s of round %s is out of date (%s): asking again", task, round_number, stale.reason)
        self._missed = (task, round_number)

    def do_task(self, task: str, round_number: int) -> dict[str, float]:
        """Run one task of the plan and send its result."""
        if self.secure is not None and self.secure.is_step(task):
            self.link.send(round_number, task, self.secure.answer(task, round_number))
            self._missed = None
            return {}
        chosen = self._tasks[task]
        arguments = chosen.arguments
        wanted = self.task_runner.get_required_tensorkeys_for_function(
            chosen.function, round_number=round_number, **arguments
        )
        fetched = {key: self._resolve(key, round_number) for key in wanted}
        inputs = {input_name(key): array for key, array in fetched.items()}
        result, _ = getattr(self.task_runner, chosen.function)(
            col_name=self.collaborator_name, round_num=round_number, input_tensor_dict=inputs, **arguments
        )
        if self.secure is not None and self.secure.protects(task):
            exchanges = self.task_runner.exchanges
            result = self.secure.protect(task, chosen, round_number, fetched, result, exchanges)
        self.link.send(round_number, task, result)
        self._missed = None
        return {}

    def _resolve(self, relative: TensorKey, round_number: int) -> Array:
        """The tensor itself; the key's round is an offset from the current one.

        Only the model that the round began with is kept, and the previous one, which is the same all task long: what
        is exchanged and the next model are not on the aggregator's disk yet, and one that starts again may make others
        if stragglers are not waited for.
        """
        key = TensorKey(
            relative.tensor_name, self.aggregator_uuid, relative.round_number + round_number, False, relative.tags
        )
        if key.tags != PREVIOUS and (key.tags != MODEL or key.round_number != round_number):
            return self.link.fetch(key.tensor_name, key.round_number, key.tags)
        array = self.tensor_db.get_tensor_from_cache(key)
        if array is None:
            array = self.link.fetch(key.tensor_name, key.round_number, key.tags)
            self.tensor_db.cache_tensor({key: array})
        return array
