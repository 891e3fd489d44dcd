"""Plans whose sums cannot be protected as they say are refused, each in one sentence."""

import pytest

from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan

PATH = "aggregator.settings.secure_aggregation"


def check(name, **changes):
    plan = Plan.load(find_plan(name)).changed({path.replace("__", "."): value for path, value in changes.items()})
    check_plan(plan)
    return plan


def secure(**settings):
    return {f"aggregator__settings__{'secure_aggregation'}": settings}


def test_the_defaults_protect_what_the_paper_protects():
    chosen = check("rotated_digits", **secure()).aggregator.secure_aggregation
    assert chosen is not None
    assert chosen.stages == ("buffer_gradient", "train")
    assert (chosen.bits, chosen.trust, chosen.metrics) == (64, "pinned", "mean")
    assert Plan.load(find_plan("rotated_digits")).aggregator.secure_aggregation is None


def test_evaluations_of_benchmarks_can_be_protected():
    check("rotated_digits", **secure(stages=["buffer_gradient", "train", "evaluate", "baseline"]))


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        (
            "rotated_digits",
            {**secure(), "data_loader__settings__clients": 2},
            f"{PATH} needs at least 3 clients in every",
        ),
        (
            "carla_demo",
            secure(),
            f"{PATH} needs at least 3 clients in every round, and this plan has 2: with fewer, each",
        ),
        (
            "rotated_digits",
            {**secure(), "assigner__settings__participation": {"per_round": 2}},
            f"{PATH} needs at least 3 clients in every round, and this plan has 2",
        ),
        ("rotated_digits", secure(stages=["trian"]), f"{PATH}.stages names the stage 'trian'; did you mean train?"),
        (
            "rotated_digits",
            {
                **secure(stages=["train", "evaluate"]),
                "assigner__settings__participation": {"per_round": 3},
            },
            f"{PATH}.stages names evaluate, in which all clients work and not those who are drawn for a round",
        ),
        (
            "rotated_digits",
            {**secure(bits=32), "aggregator__settings__weighting": "samples"},
            f"{PATH}.bits is 32, but aggregator.settings.weighting is samples",
        ),
        (
            "rotated_digits",
            {**secure(), "network__settings__use_tls": False},
            f"{PATH} needs the certificates of network.settings.use_tls",
        ),
        (
            "rotated_digits",
            {
                **secure(),
                "straggler_handling_policy": {
                    "template": "openfl.component.aggregator.straggler_handling.CutoffTimePolicy",
                    "settings": {},
                },
            },
            "straggler_handling_policy.template is openfl.component.aggregator.straggler_handling.CutoffTimePolicy",
        ),
        (
            "rotated_digits",
            {**secure(), "aggregator__settings__robust": {"kind": "median"}},
            f"{PATH} and aggregator.settings.robust exclude each other: a robust mean compares single results",
        ),
        (
            "rotated_digits",
            {**secure(), "aggregator__settings__privacy": {"model_clip": 1.0, "noise": 1.0}},
            f"{PATH} and aggregator.settings.privacy exclude each other so far",
        ),
        (
            "rotated_digits",
            {**secure(), "aggregator__settings__buffer_weighting": "seen"},
            f"{PATH} needs aggregator.settings.buffer_weighting: uniform",
        ),
        (
            "rotated_digits",
            {**secure(), "aggregator__settings__absence": {"policy": "go_on", "after_seconds": 60}},
            "aggregator.settings.absence.policy is go_on, but sums with",
        ),
    ],
)
def test_what_cannot_be_protected_is_refused(name, changes, sentence):
    with pytest.raises(PlanError) as refusal:
        check(name, **changes)
    assert refusal.value.message.startswith(sentence)


@pytest.mark.parametrize("switch", [True, False])
def test_openfls_own_switch_is_refused(switch):
    with pytest.raises(PlanError) as refusal:
        check("rotated_digits", aggregator__settings__secure_aggregation=switch)
    assert refusal.value.message.startswith(f"{PATH} is {str(switch).lower()}, which is OpenFL's own form and protects")


@pytest.mark.parametrize("setting", ["write_logs", "log_memory_usage"])
def test_what_collaborators_do_not_do_is_refused(setting):
    check("rotated_digits", **{f"aggregator__settings__{setting}": True})
    with pytest.raises(PlanError) as refusal:
        check("rotated_digits", **{f"collaborator__settings__{setting}": True})
    assert refusal.value.message.startswith(f"collaborator.settings.{setting} must be false")


def test_protection_is_part_of_what_a_round_computes():
    plan = check("rotated_digits")
    assert check("rotated_digits", **secure()).origin != plan.origin
