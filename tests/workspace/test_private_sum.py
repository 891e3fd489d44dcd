"""Differential privacy in the aggregator: noise on every release, the same again after a crash, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedagem.aggregation.ring import OutOfRangeError
from fedagem.aggregation.settings import PrivacySettings
from fedagem.errors import CorruptStateError, PlanError
from fedagem.learning.exchange import Exchange
from src.link import ResultRefusedError
from src.private_sum import PrivateSum
from src.task_results import EXCHANGE, MODEL, TRAINED, WEIGHT, Expected, split_by_kind
from tests.support import in_process_federation as federation
from tests.support.in_process_federation import Client, make_aggregator, rows, run_all, to_stage

pytestmark = pytest.mark.usefixtures("in_a_folder")

PRIVACY = {"model_clip": 1.0, "g_ref_clip": 2.0, "noise": 0.5}
NAMES = ["a", "b", "c", "d"]


class CarefulClient(Client):
    """A client whose model has no counters; it moves every weight by 0.1 k, and its gradient is 0.1 k."""

    def result(self, task, round_number):
        if task.startswith("evaluate"):
            return super().result(task, round_number)
        if task == "buffer_gradient":
            buffered = float(round_number > 0)
            gradient = np.full(3, 0.1 * self.k * buffered, np.float32)
            return {EXCHANGE: {"g_ref": gradient}, WEIGHT: {"weight": np.float32(buffered)}}
        w = self.link.fetch("w", round_number, MODEL)
        return {TRAINED: {"w": (w + 0.1 * self.k).astype(np.float32)}, WEIGHT: {"weight": np.float32(5)}}


@pytest.fixture(autouse=True)
def _no_counters(monkeypatch):
    monkeypatch.delitem(federation.MODEL, "steps")


def start(privacy=PRIVACY, rounds=3, **settings):
    aggregator = make_aggregator(NAMES, rounds, privacy=dict(privacy), **settings)
    return aggregator, [CarefulClient(name, aggregator, k) for k, name in enumerate(NAMES, 1)]


def weights(aggregator, round_number):
    return aggregator.lookup("w", round_number, MODEL, "test")


def end_process(aggregator):
    """What a kill would leave: the files. A lock of a dead process is free."""
    if aggregator._lock is not None:
        aggregator._lock.close()


def fill(total, size, value=0.001, clients=4):
    for number in range(clients):
        result = {**split_by_kind({}), TRAINED: {"w": np.full(size, value, np.float32)}}
        total.add(result, str(number))
    return total


def test_the_noise_has_the_deviation_of_the_plan_and_is_divided_by_all_members():
    size, members = 40_000, 8
    chosen = PrivacySettings(model_clip=3.0, noise=0.7)
    asked = Expected({"w": np.zeros(size, np.float32)}, ())
    total = fill(PrivateSum(asked, members, chosen, lambda digest: b"key" + digest), size)
    released = total.model()["w"].astype(np.float64)
    expected = 4 * 0.001 / members
    deviation = 0.7 * 3.0 / members
    assert released.mean() == pytest.approx(expected, abs=5 * deviation / size**0.5)
    assert stats.kstest((released - expected) / deviation, "norm").pvalue > 1e-6
    assert total.noise_length() == pytest.approx(0.7 * size**0.5 / members)
    assert np.array_equal(total.model()["w"], total.model()["w"])


def test_another_sum_has_independent_noise():
    """With the same noise on both, their difference would be that of the exact sums."""
    size = 10_000
    asked = Expected({"w": np.zeros(size, np.float32)}, ())
    chosen = PrivacySettings(model_clip=3.0, noise=1.0)
    first = fill(PrivateSum(asked, 4, chosen, lambda digest: digest), size).model()["w"]
    second = fill(PrivateSum(asked, 4, chosen, lambda digest: digest), size, clients=3).model()["w"]
    assert (first - second).std() == pytest.approx(2**0.5 * 3 / 4, rel=0.05)


def test_a_federation_releases_noise_in_every_stage_but_the_first_buffers():
    aggregator, clients = start()
    to_stage(clients, "train", 0)
    assert not aggregator.lookup("g_ref", 0, EXCHANGE, "test").any(), "nobody can have a buffer yet"
    to_stage(clients, "train", 1)
    first = weights(aggregator, 1)
    assert not np.allclose(first, [1.25, 2.25, 3.25], atol=1e-4)
    assert np.abs(first - [1.25, 2.25, 3.25]).max() < 8.6 * 0.5 / 4
    g_ref = aggregator.lookup("g_ref", 1, EXCHANGE, "test")
    assert len(set((g_ref - 0.25).tolist())) == 3, "each coordinate has noise of its own"
    run_all(clients)
    spent = [row["value"] for row in rows() if row["metric"] == "epsilon"]
    assert len(spent) == 5, "three models and two g_ref"
    assert spent == sorted(set(spent))
    assert {row["value"] for row in rows() if row["metric"] == "noise_length"} == {0.5 * 3**0.5 / 4}


def test_a_repeated_round_is_the_same_release():
    aggregator, clients = start()
    to_stage(clients, "evaluate", 1)
    released = weights(aggregator, 2)
    journal = Path("save/releases.jsonl").read_text()
    end_process(aggregator)
    aggregator, clients = start()
    assert aggregator.round_number == 1, "round 1 was not finished and is repeated"
    to_stage(clients, "evaluate", 1)
    assert np.array_equal(weights(aggregator, 2), released)
    assert Path("save/releases.jsonl").read_text() == journal
    run_all(clients)
    assert len(Path("save/releases.jsonl").read_text().splitlines()) == 5


def test_a_repeated_round_of_other_clients_is_another_release_with_other_noise():
    aggregator, clients = start()
    to_stage(clients, "train", 1)
    for client in clients:
        client.step()
    released = weights(aggregator, 2)
    end_process(aggregator)
    aggregator, clients = start()
    to_stage(clients, "train", 1)
    for client in clients[:3]:
        client.step()
    w = clients[3].link.fetch("w", 1, MODEL)
    clients[3].send("train", 1, {TRAINED: {"w": w}, WEIGHT: {"weight": np.float32(5)}})
    exact = 0.1 * 4 / 4
    assert np.abs(weights(aggregator, 2) - released + exact).max() > 1e-3, "the difference is not that of the sums"
    assert len(Path("save/releases.jsonl").read_text().splitlines()) == 4


def test_a_checkpoint_without_its_key_is_not_continued():
    aggregator, clients = start()
    to_stage(clients, "train", 1)
    end_process(aggregator)
    Path("save/noise.key").unlink()
    with pytest.raises(CorruptStateError, match=r"noise\.key is missing"):
        start()


def test_what_was_not_shortened_is_refused():
    _, clients = start()
    to_stage(clients, "train", 0)
    w = clients[0].link.fetch("w", 0, MODEL)
    with pytest.raises(ResultRefusedError, match=r"its change of the model is 1\.73205 long, but .*model_clip is 1"):
        clients[0].send("train", 0, {TRAINED: {"w": w + 1}, WEIGHT: {"weight": np.float32(5)}})
    for client in clients[1:]:
        client.step()
    to_stage(clients, "buffer_gradient", 1)
    long = {EXCHANGE: {"g_ref": np.full(3, 2, np.float32)}, WEIGHT: {"weight": np.float32(1)}}
    with pytest.raises(ResultRefusedError, match=r"its buffer gradient is 3\.4641 long, but .*g_ref_clip is 2"):
        clients[0].send("buffer_gradient", 1, long)


def test_a_refused_result_leaves_nothing_in_the_sum():
    asked = Expected({"w": np.zeros(5, np.float32)}, ())
    chosen = PrivacySettings(model_clip=1.0, noise=0.5)
    total = PrivateSum(asked, 4, chosen, lambda digest: digest)
    with pytest.raises(OutOfRangeError):
        fill(total, 5, value=1.0, clients=1)
    assert np.array_equal(fill(total, 5).model()["w"], fill(PrivateSum(asked, 4, chosen, bytes), 5).model()["w"])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"weighting": "samples"}, r"privacy needs aggregator\.settings\.weighting: uniform"),
        ({"buffer_weighting": "seen"}, r"privacy needs aggregator\.settings\.buffer_weighting: uniform"),
        ({"robust": {"kind": "median"}}, r"privacy and aggregator\.settings\.robust exclude each other"),
        ({"privacy": {**PRIVACY, "noise": 0}}, r"aggregator\.settings\.privacy\.noise must be positive, not 0"),
        ({"privacy": {"noise": 1}}, r"aggregator\.settings\.privacy\.model_clip is missing"),
        (
            {
                "exchanges": [Exchange("fisher", (3,), "train", "sum")],
                "stages": [
                    {"name": "buffer_gradient", "tasks": ["buffer_gradient"]},
                    {"name": "train", "tasks": ["train"]},
                ],
            },
            r"aggregator\.settings\.privacy is for the model and g_ref, but the method exchanges 'fisher' too",
        ),
    ],
)
def test_what_it_cannot_protect_is_refused(settings, sentence):
    with pytest.raises(PlanError, match=sentence):
        make_aggregator(NAMES, **{"privacy": PRIVACY, **settings})
