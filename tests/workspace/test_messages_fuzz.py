"""What an authorised collaborator may send to the aggregator: anything, and the others notice nothing."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from openfl.protocols import utils
from openfl.protocols.base_pb2 import NamedTensor
from openfl.utilities import TensorKey

from src.link import ResultRefusedError, StaleTaskError
from src.task_results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT
from src.task_results import MODEL as MODEL_KIND
from tests.support.fuzzing import amounts, damaged, fuzz
from tests.support.in_process_federation import (
    TASKS,
    labelled,
    make_aggregator,
    make_clients,
    run_all,
    saved_model,
    to_stage,
)

pytestmark = pytest.mark.usefixtures("in_a_folder")

_texts = st.text(max_size=12) | st.sampled_from(["w", "g_ref", "loss", "weight", "../../escape", "\0"])
_integers = st.integers(-(2**31), 2**31 - 1)
_tags = st.lists(
    st.sampled_from([*EXCHANGE, *METRIC, *RATIO, *TRAINED, *WEIGHT, *MODEL_KIND, "compressed", ""]), max_size=4
)
_rounds = st.integers(-1, 2) | _integers


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """No process of these tests is killed, and nothing has to reach the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)


def wired(client: Any, task: str) -> list[NamedTensor]:
    """A client's result as it is sent."""
    named = []
    for key, array in labelled(0, client.result(task, 0)).items():
        data, metadata = client.aggregator.compression_pipeline.forward(array)
        wire = TensorKey(key.tensor_name, key.origin, 0, key.report, (*key.tags, "compressed"))
        named.append(utils.construct_named_tensor(wire, data, metadata, lossless=True))
    return named


@st.composite
def changed_tensors(draw: st.DrawFn, tensors: list[NamedTensor]) -> list[NamedTensor]:
    """A result of which tensors are missing, there twice, renamed, of another kind or shape, or damaged."""
    result = [NamedTensor.FromString(tensor.SerializeToString()) for tensor in tensors]
    for _ in range(draw(st.integers(1, 3))):
        if not result:
            break
        place = draw(st.integers(0, len(result) - 1))
        tensor = result[place]
        action = draw(st.sampled_from(["bytes", "shape", "name", "tags", "remove", "repeat"]))
        if action == "bytes":
            tensor.data_bytes = draw(damaged(tensor.data_bytes) | st.binary(max_size=24))
        elif action == "shape":
            del tensor.transformer_metadata[:]
            for _ in range(draw(st.integers(0, 2))):
                tensor.transformer_metadata.add().int_list.extend(draw(st.lists(_integers, max_size=4)))
        elif action == "name":
            tensor.name = draw(_texts)
        elif action == "tags":
            del tensor.tags[:]
            tensor.tags.extend(draw(_tags))
        elif action == "remove":
            del result[place]
        else:
            result.append(NamedTensor.FromString(tensor.SerializeToString()))
    return result


@pytest.mark.parametrize("stage", ["baseline", "train"])
@amounts(60, 5_000)
def test_a_changed_result_is_taken_or_refused_in_a_sentence_and_the_federation_ends(stage, examples):
    task = {"baseline": "evaluate_untrained", "train": "train"}[stage]

    def federation() -> list[Any]:
        shutil.rmtree("save", ignore_errors=True)
        Path("metrics.jsonl").unlink(missing_ok=True)
        clients = make_clients(make_aggregator(["a", "b", "c"], 1))
        to_stage(clients, stage)
        return clients

    message = wired(federation()[2], task)

    def check(sent: tuple[list[NamedTensor], str, int]) -> None:
        tensors, named, round_number = sent
        clients = federation()
        aggregator = clients[0].aggregator
        reason = None
        try:
            aggregator.send_local_task_results("c", round_number, named, 0, tensors)
        except ResultRefusedError as refusal:
            reason = refusal.reason
        if reason is not None:
            assert (named, round_number) == (task, 0), "nothing else is awaited"
            assert reason.startswith(f"refused {task} of c in round 0: ")
            assert "\n" not in reason
        run_all(clients)
        weights, rounds = saved_model("last")
        assert rounds == 1
        if reason is not None and stage == "train":
            assert weights == [2.5, 3.5, 4.5], "the mean of a's and b's"

    rounds = st.just(0) | _rounds
    tasks = st.just(task) | st.sampled_from(sorted(TASKS)) | _texts
    fuzz(st.tuples(changed_tensors(message), tasks, rounds), check, examples)


@amounts(200, 20_000)
def test_what_nobody_has_aggregated_is_not_there(examples):
    clients = make_clients(make_aggregator(["a", "b"], 1))
    to_stage(clients, "train")
    aggregator = clients[0].aggregator

    def check(asked: tuple[str, int, list[str], str]) -> None:
        name, round_number, tags, requested_by = asked
        try:
            tensor = aggregator.get_aggregated_tensor(name, round_number, False, tuple(tags), True, requested_by)
        except StaleTaskError:
            return
        assert tensor.name == name
        assert name in {"w", "steps", "g_ref"}

    names = _texts | st.sampled_from(["w", "steps", "g_ref"])
    fuzz(st.tuples(names, st.just(0) | _rounds, _tags, st.just("a") | _texts), check, examples)
    run_all(clients)
    np.testing.assert_allclose(saved_model("last")[0], [2.5, 3.5, 4.5])
