"""What an aggregator could find out from all that it received, wrote and logged: a pattern that one client planted."""

import io
import logging
from pathlib import Path

import numpy as np
import pytest

from fedagem.aggregation.ring import Encoding, encode, model_bound
from fedagem.secagg.layout import short_encoding
from src.task_results import METRIC, TRAINED, WEIGHT
from src.task_results import MODEL as MODEL_KIND
from tests.support import in_process_federation
from tests.support.in_process_federation import Client, make_aggregator, run_all
from tests.support.secure_federation import NAMES, SecureFederation

SIZE = 4096
PIECE = slice(100, 108)
"""Eight numbers in a row are enough to be recognised, and never there by chance."""

pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.fixture(autouse=True)
def larger_model(monkeypatch):
    start = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
    monkeypatch.setitem(in_process_federation.MODEL, "w", start)
    monkeypatch.setattr(Client, "result", update_of)


def update_of(client, task, round_number):
    """Random changes of one size, other ones for each client; the first client's are the pattern."""
    if task.startswith("evaluate"):
        return {}
    w = client.link.fetch("w", round_number, MODEL_KIND)
    steps = client.link.fetch("steps", round_number, MODEL_KIND)
    return {
        TRAINED: {"w": (w + pattern_of(client.k)).astype(np.float32), "steps": steps + 1},
        METRIC: {"loss": np.float64(0.123456789 * client.k)},
        WEIGHT: {"weight": np.float32(1)},
    }


def pattern_of(k):
    return np.random.default_rng(k).standard_normal(SIZE).astype(np.float32)


def disguises():
    """The pattern's piece as it could turn up: moved or not, both signs, as numbers of any kind, encoded or not."""
    start, pattern = in_process_federation.MODEL["w"], pattern_of(1)
    trained = (start + pattern).astype(np.float32)
    moved = trained.astype(np.float64) - start
    members = len(NAMES)
    long = encode(trained, Encoding.of(np.float32, model_bound(members), members), start)
    short = encode(trained, short_encoding(8.0, members), start)
    for values in (pattern, trained, moved):
        for kind in (np.float32, np.float64):
            yield values.astype(kind)
            yield -values.astype(kind)
    yield from (long, -long, short, -short, short.astype(np.int32), -short.astype(np.int32))
    yield np.array([f"{value:.6g}" for value in trained])


def found_in(blobs):
    """How many of the blobs contain a disguise."""
    pieces = [values[PIECE].tobytes() for values in disguises() if values.dtype.kind != "U"]
    texts = [" ".join(values[PIECE][:3]).encode() for values in disguises() if values.dtype.kind == "U"]
    return sum(any(piece in blob for piece in (*pieces, *texts)) for blob in blobs)


def correlated(arrays):
    """Places of arrays that look like the first client's update, read as numbers with and without signs."""
    pattern, matches = pattern_of(1), []
    for array in arrays:
        signed = {np.dtype(np.uint32): np.int32, np.dtype(np.uint64): np.int64}.get(array.dtype, array.dtype)
        for view in (array, array.view(signed)):
            numbers = np.asarray(view, np.float64).reshape(-1)
            for start in range(max(0, len(numbers) - SIZE + 1)):
                part = numbers[start : start + SIZE]
                if part.std() > 0 and abs(np.corrcoef(part, pattern)[0, 1]) > 5 / np.sqrt(SIZE):
                    matches.append(start)
    return matches


def overheard(run):
    """Everything that the aggregator got, wrote and logged while something runs."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    try:
        arrays = run()
    finally:
        logging.getLogger().removeHandler(handler)
    written = [path.read_bytes() for path in Path().rglob("*") if path.is_file() and "local_state" not in path.parts]
    return arrays, [*(array.tobytes() for array in arrays), *written, heard.getvalue().encode()]


def run_plain(monkeypatch):
    aggregator = make_aggregator(NAMES, 1, fedagem=False)
    sent, receive = [], aggregator.receive

    def receiving(name, round_number, task, tensors):
        sent.extend(tensors.values())
        receive(name, round_number, task, tensors)

    monkeypatch.setattr(aggregator, "receive", receiving)
    run_all([Client(name, aggregator, k) for k, name in enumerate(NAMES, 1)])
    return [array for array in sent if array.size > 1]


def test_the_search_finds_the_pattern_in_a_plain_run(monkeypatch):
    arrays, blobs = overheard(lambda: run_plain(monkeypatch))
    assert found_in(blobs) >= 1
    assert correlated(arrays)


@pytest.mark.parametrize("bits", [64, 32])
def test_it_finds_nothing_in_a_secure_run(monkeypatch, bits):
    federation = SecureFederation(monkeypatch, bits=bits)

    def run():
        aggregator = federation.aggregator(1, fedagem=False)
        clients = federation.clients(aggregator)
        run_all(clients)
        arrays = [array for client in clients for answer in client.sent for array in answer.values()]
        assert sum(array.dtype.itemsize * 8 == bits and array.size > SIZE for array in arrays) == len(NAMES)
        return arrays

    arrays, blobs = overheard(run)
    assert len(blobs) > 20
    assert found_in(blobs) == 0
    assert not correlated([array for array in arrays if array.dtype.itemsize > 1])
    single = b"0.123456789"
    assert not any(single in blob or np.float64(0.123456789).tobytes() in blob for blob in blobs), "the first's loss"


def test_it_finds_the_pattern_if_nothing_is_masked(monkeypatch):
    """The same federation, with masks left out: what the search is worth."""
    monkeypatch.setattr("fedagem.secagg.member.apply_masks", lambda *_: None)
    monkeypatch.setattr("fedagem.secagg.combiner.apply_masks", lambda *_: None)
    federation = SecureFederation(monkeypatch)

    def run():
        clients = federation.clients(federation.aggregator(1, fedagem=False))
        run_all(clients)
        return [array for client in clients for answer in client.sent for array in answer.values()]

    arrays, blobs = overheard(run)
    assert found_in(blobs) >= 1
    assert correlated(arrays)
