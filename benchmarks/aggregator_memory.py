"""Peak memory of an aggregator of ResNet-18 with Fed-A-GEM, in models, with 10 and with 1,000 clients that all answer.

Clients ask for the model and for g_ref and send their results one after the other, encoded as on the wire. What counts
is the peak above what the aggregator had before the first result. Results are those of one client, over and over: how
much memory they take does not depend on their numbers. 1,000 clients take some minutes.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measurement import Measurement
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run

_REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> None:
    """Print the peaks and their difference."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", nargs=2, type=int, default=[10, 1000])
    options.add_argument("--only", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.only:
        print(_peak(chosen.only))
        return
    peaks = {}
    for clients in chosen.clients:
        command = [sys.executable, "-m", "benchmarks.aggregator_memory", "--only", str(clients)]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=_REPOSITORY).stdout
        peaks[clients] = float(told.splitlines()[-1])
        Measurement(f"aggregator's peak with {clients:,} clients", peaks[clients], "models", 8).show()
    few, many = peaks.values()
    Measurement("difference between the two", abs(many - few), "models", 1).show()


def _peak(clients: int) -> float:
    """Run a round of an aggregator in this process, and say how much its memory grew."""
    sys.path.insert(0, str(_REPOSITORY / "workspace"))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        create_run(run, _plan(clients))
        os.chdir(run)
        aggregator, model = _build()
        uploads = {task: _upload(aggregator, task, tensors) for task, tensors in _results(model).items()}
        before = _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak so far
        for task, upload in uploads.items():
            for name in aggregator.authorized_cols:
                _turn(aggregator, name, task, upload)
        assert aggregator.round_number == 1, "the round is over when everybody has answered"
        grown = _memory("VmHWM") - before
        os.chdir(_REPOSITORY)
    size: int = sum(array.nbytes for array in model.values())
    return grown / size


def _plan(clients: int) -> Plan:
    return Plan.load(_REPOSITORY / "plan" / "sequential_cifar100.yaml").changed(
        {
            "data_loader.settings.clients": clients,
            "assigner.settings.stages": [
                {"name": "buffer_gradient", "tasks": ["buffer_gradient"]},
                {"name": "train", "tasks": ["train"]},
            ],
        }
    )


def _build() -> tuple[Any, dict[str, Any]]:
    """The aggregator of the current folder, as `fedagem simulate` builds it, and its model."""
    from openfl.federated import Plan as OpenFLPlan
    from openfl.utilities.dataloading import initialize_minimal_dataloader

    plan = OpenFLPlan.parse(*(Path("plan") / f"{name}.yaml" for name in ("plan", "cols", "data")))
    runner = plan.get_task_runner(initialize_minimal_dataloader(plan))
    initial = {name: array.copy() for name, array in runner.get_tensor_dict().items()}
    aggregator = plan.get_aggregator(tensor_dict=initial)
    aggregator.poll_seconds = 0
    return aggregator, {name: array for name, array in initial.items() if not name.startswith("exchange/")}


def _results(model: dict[str, Any]) -> dict[str, dict[Any, Any]]:
    """What a client sends in each stage, by task."""
    from fedagem.learning.methods.fedagem import G_REF
    from src.task_results import EXCHANGE, TRAINED, WEIGHT

    trained = {name: array + np.asarray(1e-3).astype(array.dtype) for name, array in model.items()}
    size = sum(array.size for name, array in model.items() if not re.search(r"running_|num_batches", name))
    weight = {WEIGHT: {"weight": np.float32(32)}}
    return {
        "buffer_gradient": {EXCHANGE: {G_REF: np.full(size, 1e-3, np.float32)}, **weight},
        "train": {TRAINED: trained, **weight},
    }


def _upload(aggregator: Any, task: str, kinds: dict[Any, dict[str, Any]]) -> bytes:
    """A result as bytes of the wire."""
    from openfl.protocols import aggregator_pb2, utils
    from openfl.utilities import TensorKey

    named = []
    for kind, arrays in kinds.items():
        for name, array in arrays.items():
            data, metadata = aggregator.compression_pipeline.forward(np.asarray(array))
            key = TensorKey(name, "LOCAL", 0, False, (*kind, "compressed"))
            named.append(utils.construct_named_tensor(key, data, metadata, lossless=True))
    result: bytes = aggregator_pb2.TaskResults(round_number=0, task_name=task, tensors=named).SerializeToString()
    return result


def _turn(aggregator: Any, name: str, task: str, upload: bytes) -> None:
    """What OpenFL's server does for a client in a stage."""
    from openfl.protocols import aggregator_pb2, base_pb2, utils

    from fedagem.learning.methods.fedagem import G_REF
    from src.task_results import EXCHANGE, MODEL

    assert aggregator.get_tasks(name)[0] == [task]
    wanted: Iterable[tuple[str, Any]] = [(tensor, MODEL) for tensor in aggregator.expected.model]
    for tensor, kind in [*wanted, *([(G_REF, EXCHANGE)] if task == "train" else [])]:
        aggregator.get_aggregated_tensor(tensor, 0, False, kind, True, name).SerializeToString()
    chunks = (base_pb2.DataStream(npbytes=upload[at : at + 2**21]) for at in range(0, len(upload), 2**21))
    proto = utils.datastream_to_proto(aggregator_pb2.TaskResults(), chunks)
    aggregator.send_local_task_results(name, 0, task, 0, proto.tensors)


def _memory(field: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at the most."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"{field}:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    main()
