"""The clients of a simulation's process: made for their turns, few of them in memory at a time.

They share one model and one data set. What a client remembers between its turns is on disk, so one that has not
worked for a while can be forgotten; only which tensors it has fetched is kept for all, because it counts as traffic.
"""

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, overload

from openfl.federated import Plan

from fedagem.runs.folder import plan_of_run
from src.collaborator import StagedCollaborator
from src.link import Link
from src.tensor_store import TensorStore

_IN_MEMORY = 64
"""How many clients keep their samples and their state in memory."""


class Clients(Sequence[StagedCollaborator]):
    """The collaborators of some names, by their position or by name."""

    def __init__(self, plan: Plan, names: list[str], link_of: Callable[[str], Link]) -> None:
        self.names = names
        self._plan = plan
        self._link_of = link_of
        self._fetched: dict[str, TensorStore] = {}
        first = names[0]
        self.runner = plan.get_task_runner(plan.get_data_loader(first))
        self._pattern = _build_collaborator(plan, first, self.runner)
        self._working: OrderedDict[str, StagedCollaborator] = OrderedDict()

    def named(self, name: str) -> StagedCollaborator:
        """The collaborator of a name; the one that has not worked for the longest time makes room for it."""
        if name not in self._working:
            self._working[name] = self._make(name)
            if len(self._working) > _IN_MEMORY:
                self._working.popitem(last=False)
        self._working.move_to_end(name)
        return self._working[name]

    def _make(self, name: str) -> StagedCollaborator:
        loader = self.runner.data_loader.for_client(self._plan.cols_data_paths[name])
        fetched = self._fetched.setdefault(name, TensorStore(weakref.WeakValueDictionary()))
        return self._pattern.for_client(name, self._link_of(name), self.runner.for_loader(loader), fetched)

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> StagedCollaborator: ...

    @overload
    def __getitem__(self, index: slice) -> list[StagedCollaborator]: ...

    def __getitem__(self, index: int | slice) -> StagedCollaborator | list[StagedCollaborator]:
        if isinstance(index, slice):
            return [self.named(name) for name in self.names[index]]
        return self.named(self.names[index])


def _build_collaborator(plan: Plan, name: str, runner: Any) -> StagedCollaborator:
    followed = plan_of_run(Path())
    collaborator: StagedCollaborator = Plan.build(
        followed.template_of("collaborator"),
        followed.collaborator.model_dump(),
        collaborator_name=name,
        aggregator_uuid=plan.aggregator_uuid,
        federation_uuid=plan.federation_uuid,
        client=None,
        task_runner=runner,
        task_config={task: chosen.model_dump(exclude_unset=True) for task, chosen in followed.tasks.items()},
        compression_pipeline=plan.get_tensor_pipe(),
        callbacks=[],
    )
    return collaborator
