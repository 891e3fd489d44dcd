"""Two hundred collaborators on OpenFL's eight server threads: everybody gets its turn, and nobody waits for long."""

import socket
import threading
import time

import numpy as np
import pytest
from openfl.transport.grpc.aggregator_client import AggregatorGRPCClient
from openfl.transport.grpc.aggregator_server import AggregatorGRPCServer
from openfl.utilities import TensorKey

from src.collaborator import StagedCollaborator
from src.pipeline import ExactPipeline
from src.task_results import EXCHANGE, MODEL, TRAINED, WEIGHT
from tests.support.in_process_federation import STAGES, TASKS, make_aggregator, model_of

COUNT = 200
pytestmark = pytest.mark.usefixtures("in_a_folder")


class Runner:
    """Two stages without any computing."""

    def set_optimizer_treatment(self, _):
        pass

    def get_required_tensorkeys_for_function(self, function, **_):
        return [TensorKey("w", "GLOBAL", 0, False, MODEL)]

    def buffer_gradient(self, round_num, **_):
        return self._labelled(round_num, EXCHANGE, {"g_ref": np.ones(3, np.float32)})

    def train(self, round_num, input_tensor_dict, **_):
        trained = {"w": input_tensor_dict["w"] + np.float32(1), "steps": np.array(round_num + 1)}
        return self._labelled(round_num, TRAINED, trained)

    def _labelled(self, round_number, kind, arrays):
        weight = {TensorKey("weight", "LOCAL", round_number, False, WEIGHT): np.array(1, np.float32)}
        return {TensorKey(name, "LOCAL", round_number, False, kind): a for name, a in arrays.items()} | weight, {}


def collaborator(name, port):
    client = AggregatorGRPCClient("localhost", port, "aggregator", "federation", name, use_tls=False)
    return StagedCollaborator(
        collaborator_name=name,
        aggregator_uuid="aggregator",
        federation_uuid="federation",
        client=client,
        task_runner=Runner(),
        task_config=TASKS,
        compression_pipeline=ExactPipeline(),
        callbacks=[],
    )


def test_nobody_starves():
    """Without TLS: what is scarce, the threads that hold questions, is the same."""
    names = [f"client_{number:03d}" for number in range(COUNT)]
    aggregator = make_aggregator(names, rounds=2, stages=STAGES[1:3], poll_seconds=20)
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    server = threading.Thread(target=AggregatorGRPCServer(aggregator, port, use_tls=False).serve, daemon=True)
    server.start()
    collaborators = [collaborator(name, port) for name in names]
    threads = [threading.Thread(target=one.run, daemon=True) for one in collaborators]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not [thread for thread in threads if thread.is_alive()]
    assert time.monotonic() - began < 60, "it takes about one second per stage"
    server.join(30)
    assert model_of(aggregator, 2).tolist() == [3, 4, 5]
