"""Refuses a plan whose sums cannot be protected as it says."""

from fedagem.errors import PlanError
from fedagem.plans.plan import Plan
from fedagem.plans.rounds import Stage
from fedagem.secagg.settings import FEWEST, SecureAggregation
from fedagem.settings import suggestion
from fedagem.tasks.settings import StreamSettings

SECURE_AGGREGATION = "aggregator.settings.secure_aggregation"

_WAITS_FOR_ALL = "WaitForAllPolicy"


def check_protection(plan: Plan) -> None:
    """Refuse secure aggregation of stages, members and settings that it cannot work with, in one sentence."""
    chosen = plan.aggregator.secure_aggregation
    if chosen is None:
        return
    for name in chosen.stages:
        _check_stage(plan, name)
    _check_members(plan, chosen)
    _check_means(plan)
    policy = plan.templates.get("straggler_handling_policy", _WAITS_FOR_ALL)
    if not policy.endswith(_WAITS_FOR_ALL):
        raise PlanError(
            f"straggler_handling_policy.template is {policy}, which does not know secure aggregation: leave it out, "
            f"and set {SECURE_AGGREGATION}.cutoff_seconds."
        )
    if plan.aggregator.absence.policy == "go_on":
        raise PlanError(
            f"aggregator.settings.absence.policy is go_on, but sums with {SECURE_AGGREGATION} go on without somebody "
            "after its cutoff_seconds: set that, and leave absence out."
        )
    if chosen.bits == 32 and plan.aggregator.weighting == "samples":
        raise PlanError(
            f"{SECURE_AGGREGATION}.bits is 32, but aggregator.settings.weighting is samples, whose weights would take "
            "24 of them: use 64."
        )
    if not (plan.network.use_tls and plan.network.require_client_auth):
        raise PlanError(
            f"{SECURE_AGGREGATION} needs the certificates of network.settings.use_tls and require_client_auth: set "
            "both to true."
        )


def _check_means(plan: Plan) -> None:
    """Refuse what needs single results, or sums of another kind than the members mask."""
    if plan.aggregator.robust is not None:
        raise PlanError(
            f"{SECURE_AGGREGATION} and aggregator.settings.robust exclude each other: a robust mean compares single "
            "results, which nobody sees."
        )
    if plan.aggregator.privacy is not None:
        raise PlanError(
            f"{SECURE_AGGREGATION} and aggregator.settings.privacy exclude each other so far: noise is added to plain "
            "sums only."
        )
    if plan.aggregator.weighs_buffers:
        raise PlanError(
            f"{SECURE_AGGREGATION} needs aggregator.settings.buffer_weighting: uniform: in masked sums all clients "
            "count as aggregator.settings.weighting says."
        )


def _check_stage(plan: Plan, name: str) -> None:
    path, stages = f"{SECURE_AGGREGATION}.stages", {stage.name: stage for stage in plan.rounds.stages}
    if name not in stages:
        raise PlanError(f"{path} names the stage {name!r}{suggestion(name, stages)}")
    tasks = stages[name].tasks
    if len(tasks) > 1:
        raise PlanError(f"{path} names {name}, which has the tasks {', '.join(tasks)}: a protected stage has one.")
    if shared := [other.name for other in plan.rounds.stages if other.name != name and tasks[0] in other.tasks]:
        raise PlanError(
            f"{path} names {name}, whose task {tasks[0]} is in {shared[0]}, too: give each a task of its own."
        )
    if plan.tasks[tasks[0]].function == "evaluate" and not isinstance(plan.data, StreamSettings):
        raise PlanError(f"{path} names {name}, but one vehicle evaluates for all: there is no sum to protect.")


def _check_members(plan: Plan, chosen: SecureAggregation) -> None:
    """All protected stages must have the same members, at least three of them."""
    clients = list(plan.workload.collaborators)
    participation = plan.rounds.participation
    present = participation.present(clients, 0)
    fewest = min(len(present), participation.per_round or len(present))
    if fewest < FEWEST:
        raise PlanError(
            f"{SECURE_AGGREGATION} needs at least {FEWEST} clients in every round, and this plan has {fewest}: with "
            "fewer, each would know the others' results from the sum."
        )
    for stage in plan.rounds.stages:
        if stage.name in chosen.stages and (reason := _has_other_members(plan, stage)):
            raise PlanError(
                f"{SECURE_AGGREGATION}.stages names {stage.name}, in which {reason} and not those who are drawn for a "
                "round: leave it out."
            )


def _has_other_members(plan: Plan, stage: Stage) -> str | None:
    """Why a stage's members are not the participants of a round; None if they are."""
    task, participation = plan.tasks[stage.tasks[0]], plan.rounds.participation
    if task.function == "end_task":
        return "all who have arrived work" if participation.per_round is not None else None
    sampled = participation.per_round is not None or participation.arrivals is not None
    return "all clients work" if not task.kwargs.publishes and sampled else None
