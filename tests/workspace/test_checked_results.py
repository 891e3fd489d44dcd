"""What a good result looks like, and why others are refused."""

from typing import Any

import numpy as np
import pytest

from fedagem.learning.exchange import Exchange
from fedagem.plans.federation import FederatedTask, TaskArguments
from src.task_results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT, Expected, find_fault, split_by_kind

EXPECTED = Expected(
    model={"w": np.zeros((2, 3), np.float32), "n": np.array(0, np.int64)},
    exchanges=(
        Exchange("g_ref", (6,), "buffer_gradient"),
        Exchange("fisher", (6,), "train", "sum"),
        Exchange("count", (), "end_task", "sum"),
    ),
)
W, N, G = np.ones((2, 3), np.float32), np.array(4), np.ones(6, np.float32)


def fault(publishes, function="buffer_gradient", **kinds):
    empty: Any = split_by_kind({})
    names = {"trained": TRAINED, "exchange": EXCHANGE, "ratio": RATIO, "metric": METRIC, "weight": WEIGHT}
    given: dict[Any, Any] = {names.get(kind, (kind,)): arrays for kind, arrays in kinds.items()}
    task = FederatedTask(function=function, kwargs=TaskArguments(publishes=publishes))
    return find_fault({**empty, **given}, EXPECTED.asked_of(task))


def test_good_results_have_no_fault():
    assert fault(["model"], trained={"w": W, "n": N}, metric={"loss": np.float64(1)}) is None
    assert fault(["method"], exchange={"g_ref": G}, weight={"weight": np.float32(0)}) is None
    assert fault(["model", "method"], trained={"w": W, "n": N}, exchange={"g_ref": G}) is None
    assert fault([], ratio={"domain_il": np.array([[1, 2], [0, 0]])}) is None
    assert fault([], metric={"loss": np.float64(1), "drawn/map_50/city": np.ones(3)}) is None


def test_what_a_method_exchanges_depends_on_the_stage():
    assert fault(["model", "method"], "train", trained={"w": W, "n": N}, exchange={"fisher": G}) is None
    assert fault(["method"], "end_task", exchange={"count": np.zeros((), np.float32)}) is None
    assert fault(["method"], "evaluate") is None
    assert "tensor 'fisher' is missing" in fault(["method"], "train", exchange={"g_ref": G})
    assert "tensor 'fisher' was not asked for" in fault(
        ["model"], "train", trained={"w": W, "n": N}, exchange={"fisher": G}
    )


@pytest.mark.parametrize(
    ("publishes", "kinds", "words"),
    [
        (["model"], {"trained": {"w": W}}, "tensor 'n' is missing (1 in all)"),
        (["model"], {}, "tensor 'n' is missing (2 in all)"),
        (["model"], {"trained": {"w": W, "n": N, "x": N, "y": N}}, "tensor 'x' was not asked for (2 in all)"),
        ([], {"trained": {"w": W, "n": N}}, "tensor 'n' was not asked for (2 in all)"),
        (["model"], {"trained": {"w": W.T, "n": N}}, "'w' is float32 (3, 2), but should be float32 (2, 3)"),
        (["model"], {"trained": {"w": W[:1, :1], "n": N}}, "'w' is float32 (1, 1), but should be"),
        (["model"], {"trained": {"w": W.astype(np.float64), "n": N}}, "'w' is float64 (2, 3), but should be float32"),
        (["model"], {"trained": {"w": W, "n": np.array([4])}}, "'n' is int64 (1,), but should be int64 ()"),
        (["model"], {"trained": {"w": W * np.float32("nan"), "n": N}}, "tensor 'w' has values that are not finite"),
        (["method"], {"exchange": {"g_ref": G * np.float32("inf")}}, "tensor 'g_ref' has values that are not finite"),
        (["method"], {"exchange": {"fisher": G}}, "tensor 'g_ref' is missing"),
        (["method"], {"exchange": {"g_ref": G[:5]}}, "'g_ref' is float32 (5,), but should be float32 (6,)"),
        ([], {"metric": {"loss": np.float64("inf")}}, "tensor 'loss' has values that are not finite"),
        ([], {"metric": {"loss": np.ones(3)}}, "metric 'loss' is float64 (3,), but should be one number"),
        ([], {"metric": {"drawn/map_50/city": np.float64(1)}}, "is float64 (), but should be a row of numbers"),
        ([], {"metric": {"drawn/map_50/city": np.ones((2, 2))}}, "is float64 (2, 2), but should be a row of numbers"),
        ([], {"weight": {"weight": np.float32(-2)}}, "its weight is negative"),
        ([], {"weight": {"wait": np.float32(2)}}, "weight 'wait' was not asked for"),
        ([], {"ratio": {"r": np.ones((2, 3), np.int64)}}, "ratio 'r' is int64 (2, 3), but should be whole numbers"),
        ([], {"ratio": {"r": np.ones((2, 2))}}, "ratio 'r' is float64 (2, 2), but should be whole numbers"),
        ([], {"model": {"w": W}}, "tensors of unknown kinds [('model',)]"),
    ],
)
def test_a_fault_is_named(publishes, kinds, words):
    assert words in fault(publishes, **kinds)
