"""What a good result looks like, and why others are refused."""

from typing import Any

import numpy as np
import pytest

from src.task_results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT, Expected, find_fault, split_by_kind

EXPECTED = Expected(
    model={"w": np.zeros((2, 3), np.float32), "n": np.array(0, np.int64)}, exchange={"g_ref": (6,), "fisher": (6,)}
)
W, N, G = np.ones((2, 3), np.float32), np.array(4), np.ones(6, np.float32)


def fault(publishes, **kinds):
    empty: Any = split_by_kind({})
    names = {"trained": TRAINED, "exchange": EXCHANGE, "ratio": RATIO, "metric": METRIC, "weight": WEIGHT}
    given: dict[Any, Any] = {names.get(kind, (kind,)): arrays for kind, arrays in kinds.items()}
    return find_fault({**empty, **given}, publishes, EXPECTED)


def test_good_results_have_no_fault():
    assert fault(["model"], trained={"w": W, "n": N}, metric={"loss": np.float64(1)}) is None
    assert fault(["g_ref"], exchange={"g_ref": G}, weight={"weight": np.float32(0)}) is None
    assert fault(["model", "g_ref"], trained={"w": W, "n": N}, exchange={"g_ref": G}) is None
    assert fault([], ratio={"domain_il": np.array([[1, 2], [0, 0]])}) is None
    assert fault(["unknown here"]) is None, "a plan may name what this federation does not exchange"


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
        (["g_ref"], {"exchange": {"g_ref": G * np.float32("inf")}}, "tensor 'g_ref' has values that are not finite"),
        (["g_ref"], {"exchange": {"fisher": G}}, "tensor 'g_ref' is missing"),
        (["g_ref"], {"exchange": {"g_ref": G[:5]}}, "'g_ref' is float32 (5,), but should be float32 (6,)"),
        ([], {"metric": {"loss": np.float64("inf")}}, "tensor 'loss' has values that are not finite"),
        ([], {"metric": {"loss": np.ones(3)}}, "metric 'loss' is float64 (3,), but should be one number"),
        ([], {"weight": {"weight": np.float32(-2)}}, "its weight is negative"),
        ([], {"weight": {"wait": np.float32(2)}}, "weight 'wait' was not asked for"),
        ([], {"ratio": {"r": np.ones((2, 3), np.int64)}}, "ratio 'r' is int64 (2, 3), but should be whole numbers"),
        ([], {"ratio": {"r": np.ones((2, 2))}}, "ratio 'r' is float64 (2, 2), but should be whole numbers"),
        ([], {"model": {"w": W}}, "tensors of unknown kinds [('model',)]"),
    ],
)
def test_a_fault_is_named(publishes, kinds, words):
    assert words in fault(publishes, **kinds)
