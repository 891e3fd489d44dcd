"""Files that a run left behind, damaged in any way: what was written is read, or one sentence says that it is not."""

import hashlib
import io
import json
import pickle

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from fedagem.errors import FedAGemError
from fedagem.files import read_state, write_state
from fedagem.learning.model_file import ModelDescription, read_model, write_model
from fedagem.learning.trainer import Component
from fedagem.runs.metrics_log import LOG_NAME, read_metrics
from tests.support.fuzzing import amounts, changed, damaged, fuzz, refused_in_a_sentence, values

STATE = {"round": 3, "model": {"w": torch.arange(6.0).reshape(2, 3)}, "origin": "abc", "score": None}
DESCRIPTION = ModelDescription(network=Component(template="models.mnist_cnn.SmallCNN"))
ROW = {"round": 0, "stage": "train", "client": "client_1", "metric": "loss", "value": 0.5, "time": 1.0}
MAGIC = b"FEDAGEM1"


def read_or_refused(read, path):
    """What a file holds; None if a sentence says that it is not read."""
    with refused_in_a_sentence(FedAGemError):
        return read(path)
    return None


@pytest.fixture
def state(tmp_path):
    write_state(tmp_path / "a.state", STATE)
    return (tmp_path / "a.state").read_bytes()


@amounts(400, 20_000)
def test_a_damaged_state_is_not_loaded(tmp_path, state, examples):
    path = tmp_path / "damaged.state"

    def check(content):
        path.write_bytes(content)
        assert read_or_refused(read_state, path) is None or content == state

    fuzz(damaged(state) | st.binary(max_size=100) | st.binary(max_size=100).map(MAGIC.__add__), check, examples)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")  # some of these are meant to be strange
@amounts(200, 20_000)
def test_a_state_that_somebody_else_has_made_is_read_or_refused(tmp_path, state, examples):
    """With a checksum that fits: only what torch calls safe to load is loaded."""
    path = tmp_path / "made.state"
    body = state[len(MAGIC) + 32 :]
    zipped = io.BytesIO()
    torch.save([1, 2], zipped)

    def check(content):
        path.write_bytes(MAGIC + hashlib.sha256(content).digest() + content)
        read_or_refused(read_state, path)

    others = st.sampled_from([zipped.getvalue(), pickle.dumps(STATE["round"]), pickle.dumps(print), b""])
    fuzz(damaged(body) | others.flatmap(damaged) | others | st.binary(max_size=100), check, examples)


@amounts(200, 20_000)
def test_a_damaged_model_file_is_refused(tmp_path, examples):
    path = tmp_path / "last.safetensors"
    write_model(path, {"w": np.arange(6.0, dtype=np.float32)}, DESCRIPTION)
    whole = path.read_bytes()
    (size,) = np.frombuffer(whole[:8], "<u8")
    header = json.loads(whole[8 : 8 + size])

    def with_header(document):
        text = json.dumps(document).encode()
        return len(text).to_bytes(8, "little") + text + whole[8 + size :]

    def check(content):
        path.write_bytes(content)
        read_or_refused(read_model, path)

    described = changed(json.loads(header["__metadata__"]["fedagem"])) | values
    inputs = described.map(lambda document: with_header({**header, "__metadata__": {"fedagem": json.dumps(document)}}))
    fuzz(damaged(whole) | changed(header).map(with_header) | inputs | st.binary(max_size=60), check, examples)


@amounts(200, 20_000)
def test_a_damaged_log_of_metrics_is_read_or_refused(tmp_path, examples):
    path = tmp_path / LOG_NAME
    lines = "".join(json.dumps({**ROW, "round": number}) + "\n" for number in range(3)).encode()

    def check(content):
        path.write_bytes(content)
        read_or_refused(read_metrics, tmp_path)

    rows = st.lists(changed(ROW) | values, max_size=3)
    texts = rows.map(lambda some: "".join(json.dumps(row) + "\n" for row in some).encode())
    fuzz(damaged(lines) | texts | st.binary(max_size=60), check, examples)
