"""Refuses a plan that asks for means or buffers which its clients or its method cannot have."""

from torch import nn

from fedagem.aggregation.releases import check_installed
from fedagem.errors import PlanError
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.methods import METHODS
from fedagem.plans.plan import Plan
from fedagem.settings import suggestion

_FEWEST = 3


def check_means(plan: Plan) -> None:
    """Refuse robust means of a method or of clients that they make no sense for."""
    if plan.training.method in METHODS:  # of one's own method the aggregator learns when the run begins
        plan.aggregator.check_exchanges(_exchanged(plan))
    _check_robust(plan)
    if plan.aggregator.privacy is not None:
        check_installed()
    _check_buffers(plan)


def _exchanged(plan: Plan) -> list[str]:
    """What the method exchanges, asked for a network of one layer, and the end of a task that it is told of."""
    method = plan.training.build_method()
    named = [exchange.name for exchange in method.exchanges(FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(4, 2))))]
    return [*named, *(["end_task"] if method.needs_boundaries else [])]


def _check_robust(plan: Plan) -> None:
    members = members_of(plan)
    if plan.aggregator.robust is not None and members < _FEWEST:
        raise PlanError(
            f"aggregator.settings.robust needs at least {_FEWEST} clients in a round, but there are {members}: nobody "
            "could tell which of two is wrong."
        )


def _check_buffers(plan: Plan) -> None:
    known = plan.workload.collaborators
    for name in plan.training.buffer.by_client:
        if name not in known:
            raise PlanError(f"task_runner.settings.buffer.by_client has {name!r}{suggestion(name, known)}")


def members_of(plan: Plan) -> int:
    """How many clients learn in a round, at most."""
    clients = len(plan.workload.collaborators)
    return min(plan.rounds.participation.per_round or clients, clients)
