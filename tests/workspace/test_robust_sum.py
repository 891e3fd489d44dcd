"""Robust means in the aggregator: of models and of g_ref, from disk, in any order, and what they say of each client."""

import os
import random
import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

from fedagem.aggregation.ring import OutOfRangeError
from fedagem.aggregation.settings import RobustSettings
from fedagem.errors import PlanError
from fedagem.learning.exchange import Exchange
from fedagem.settings import parse_settings
from src import robust_sum
from src.link import ResultRefusedError
from src.refined_share import RefinedShareWatch
from src.robust_sum import RobustSum
from src.task_results import EXCHANGE, METRIC, TRAINED, WEIGHT, Expected, split_by_kind
from tests.support.in_process_federation import make_aggregator, make_clients, model_of, rows, run_all, to_stage

G_REF = Exchange("g_ref", (5,), "train")
CLIENTS = 7

pytestmark = pytest.mark.usefixtures("in_a_folder")


def robust(**chosen):
    return parse_settings(RobustSettings, chosen, "robust")


def random_results(seed=0, size=1000):
    draw = np.random.default_rng(seed)
    model = {"w": draw.standard_normal((size // 10, 10)).astype(np.float32), "steps": np.array(5)}
    results = {}
    for number in range(CLIENTS):
        results[f"client_{number}"] = {
            **split_by_kind({}),
            TRAINED: {
                "w": model["w"] + draw.standard_normal(model["w"].shape).astype(np.float32),
                "steps": np.array(5 + number),
            },
            EXCHANGE: {"g_ref": draw.standard_normal(5).astype(np.float32)},
        }
    return model, results


def added(model, results, chosen, folder, order=None):
    total = RobustSum(Expected(model, (G_REF,)), CLIENTS, chosen, folder)
    for name in order or results:
        total.add(results[name], name)
    return total


@pytest.mark.parametrize("block_bytes", [2**24, 8 * CLIENTS * 33])
def test_the_means_are_those_of_numpy_in_blocks_of_any_size(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(robust_sum, "_BLOCK_BYTES", block_bytes)
    model, results = random_results()
    given = np.stack([one[TRAINED]["w"] for one in results.values()]).astype(np.float64)
    gradients = np.stack([one[EXCHANGE]["g_ref"] for one in results.values()]).astype(np.float64)
    total = added(model, results, robust(kind="median", g_ref={"kind": "trimmed_mean", "trim": 0.25}), tmp_path)
    np.testing.assert_array_equal(total.model()["w"], np.median(given, axis=0).astype(np.float32))
    assert total.model()["steps"] == 8
    assert total.model()["steps"].dtype == np.int64
    middle = np.sort(gradients, axis=0)[2:5].mean(axis=0)
    np.testing.assert_allclose(total.combined()["g_ref"], middle, rtol=1e-7)
    total = added(model, results, robust(kind="clipped_mean", clip=0.9, g_ref={"kind": "mean"}), tmp_path)
    moved = (given - model["w"]).reshape(CLIENTS, -1)
    lengths = np.linalg.norm(moved, axis=1)
    shortened = moved * np.minimum(1, 0.9 * np.median(lengths) / lengths)[:, None]
    expected = model["w"] + shortened.mean(axis=0).reshape(model["w"].shape)
    np.testing.assert_allclose(total.model()["w"], expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(total.combined()["g_ref"], gradients.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("kind", ["trimmed_mean", "median", "clipped_mean"])
def test_the_order_of_arrival_changes_no_bit(tmp_path, kind):
    model, results = random_results()
    order = list(results)
    first = added(model, results, robust(kind=kind), tmp_path)
    for _ in range(5):
        random.shuffle(order)
        again = added(model, results, robust(kind=kind), tmp_path, order)
        assert np.array_equal(again.model()["w"], first.model()["w"])
        assert np.array_equal(again.combined()["g_ref"], first.combined()["g_ref"])
        assert again.agreement() == first.agreement()


def test_each_clients_cosine_to_the_mean(tmp_path):
    model, results = random_results()
    results["client_3"][TRAINED]["w"] = model["w"].copy()
    results["client_3"][EXCHANGE]["g_ref"] = np.zeros(5, np.float32)
    total = added(model, results, robust(kind="median"), tmp_path)
    mean = np.concatenate([(total.model()["w"] - model["w"]).ravel(), total.combined()["g_ref"]]).astype(np.float64)
    for name, one in results.items():
        own = np.concatenate([(one[TRAINED]["w"] - model["w"]).ravel(), one[EXCHANGE]["g_ref"]]).astype(np.float64)
        length = np.linalg.norm(own) * np.linalg.norm(mean)
        assert total.agreement()[name] == pytest.approx(own @ mean / length if length else 0.0, abs=1e-6)


def test_what_is_refused_or_taken_back_leaves_nothing(tmp_path):
    model, results = random_results()
    huge = {**results["client_0"], EXCHANGE: {"g_ref": np.full(5, 2e6, np.float32)}}
    total = added(model, results, robust(kind="median"), tmp_path)
    with pytest.raises(OutOfRangeError):
        total.add(huge, "liar")
    total.add(results["client_1"], "twice")
    total.take_back(results["client_1"], "twice")
    idle = {**results["client_2"], WEIGHT: {"weight": np.float32(0)}}
    total.add(idle, "idle")
    undisturbed = added(model, results, robust(kind="median"), tmp_path)
    assert np.array_equal(total.model()["w"], undisturbed.model()["w"])
    assert total.contributors == CLIENTS
    assert total.agreement().keys() == results.keys()


def test_memory_does_not_grow_with_the_clients(tmp_path, monkeypatch):
    monkeypatch.setattr(robust_sum, "_BLOCK_BYTES", 2**18)
    size, draw = 50_000, np.random.default_rng(0)
    model = {"w": np.zeros(size, np.float32)}

    def peak(clients):
        total = RobustSum(Expected(model, ()), clients, robust(kind="median"), tmp_path)
        tracemalloc.start()
        for number in range(clients):
            given = {**split_by_kind({}), TRAINED: {"w": draw.standard_normal(size).astype(np.float32)}}
            total.add(given, f"client_{number}")
        total.model()
        total.agreement()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        total.close()
        return most

    few, many = peak(10), peak(100)
    assert many < 1.2 * few
    assert many < 100 * size * 4 / 4


def test_a_killed_process_leaves_no_file(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path; import numpy as np\n"
        "from fedagem.aggregation.spool import Spool\n"
        "spool = Spool(Path(sys.argv[1]), 8000); spool.put('a', [np.zeros(1000)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    (folder := tmp_path / "results").mkdir()
    ended = subprocess.run([sys.executable, "-c", code, str(folder)], check=False, env=os.environ)
    assert ended.returncode == -9
    assert not list(folder.iterdir())


# In a federation

NAMES = ["a", "b", "c", "d", "e"]


def test_a_liar_does_not_move_the_median_and_its_cosine_tells():
    aggregator = make_aggregator(NAMES, robust={"kind": "median"})
    clients = make_clients(aggregator)
    to_stage(clients, "buffer_gradient", 1)
    for client in clients[:4]:
        client.step()
    lie: dict[tuple[str, ...], dict[str, Any]] = {
        EXCHANGE: {"g_ref": np.full(3, -1000, np.float32)},
        WEIGHT: {"weight": np.float32(1)},
    }
    clients[4].send("buffer_gradient", 1, lie)
    run_all(clients)
    assert model_of(aggregator, 2).tolist() == [9, 10, 11], "medians: 3 in round 0; in round 1 g_ref is 2, and 3 again"
    cosines = {(row["client"], row["round"], row["stage"]): row["value"] for row in rows() if row["metric"] == "cosine"}
    assert cosines["e", 1, "buffer_gradient"] == pytest.approx(-1)
    assert cosines["a", 1, "buffer_gradient"] == pytest.approx(1)
    assert cosines["a", 0, "train"] == pytest.approx(1)
    assert ("a", 0, "buffer_gradient") not in cosines, "nobody had a buffer"


def test_results_that_are_not_numbers_are_refused_as_before():
    aggregator = make_aggregator(NAMES, robust={"kind": "trimmed_mean"})
    clients = make_clients(aggregator)
    to_stage(clients, "train", 0)
    bad = clients[0].result("train", 0)
    bad[TRAINED]["w"] = np.full(3, np.nan, np.float32)
    with pytest.raises(ResultRefusedError, match="not finite"):
        clients[0].send("train", 0, bad)
    for client in clients[1:]:
        client.step()
    assert model_of(aggregator, 1).tolist() == [4.5, 5.5, 6.5]


def test_robust_means_are_refused_if_they_make_no_sense():
    with pytest.raises(PlanError, match=r"aggregator\.settings\.robust needs .*weighting: uniform"):
        make_aggregator(NAMES, robust={"kind": "median"}, weighting="samples")
    with pytest.raises(PlanError, match=r"aggregator\.settings\.robust\.kind is 'mode'; did you mean"):
        make_aggregator(NAMES, robust={"kind": "mode"})
    stages = [{"name": "buffer_gradient", "tasks": ["buffer_gradient"]}, {"name": "train", "tasks": ["train"]}]
    fisher = Exchange("fisher", (3,), "train", "sum")
    with pytest.raises(PlanError, match=r"the method exchanges 'fisher' too"):
        make_aggregator(NAMES, robust={"kind": "median"}, exchanges=[fisher], stages=stages)


@pytest.mark.parametrize(
    ("shares", "warned"),
    [
        ([0.0, 0.4, 0.3, 0.35, 0.95], ["Round 4: 95 % of the gradients conflicted with g_ref, 35 % in the rounds"]),
        ([0.0, 0.4, 0.5, 0.6, 0.7, 0.75], []),
        ([0.0, 0.0, 0.6], []),
        ([0.9, 0.9, 0.2, 0.3], []),
    ],
)
def test_a_jump_of_the_refined_share_is_told(caplog, shares, warned):
    watch = RefinedShareWatch()
    for number, share in enumerate(shares):
        watch.look(number, {name: {METRIC: {"refined_share": np.array(share)}} for name in "ab"})
        watch.look(number, {"a": {METRIC: {}}})
    assert [message.partition(" before.")[0] for message in caplog.messages] == warned
