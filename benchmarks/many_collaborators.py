"""Two hundred collaborators over gRPC and mutual TLS: seconds of one round of two stages with a tiny model.

The aggregator has a process of its own, the collaborators share four: each is a thread with its own connection and
certificate, and OpenFL's stock server has eight threads for all. Collaborators compute nothing. Everybody is counted:
the round is over when the last one knows that the federation has ended.
"""

import argparse
import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from benchmarks.cpu_time import Family
from benchmarks.measurement import Measurement
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from fedagem.system import HeldPort

_REPOSITORY = Path(__file__).resolve().parent.parent
_PROCESSES = 4
_AGGREGATOR = "localhost"


def main() -> None:
    """Print the seconds of the round."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--collaborators", type=int, default=200)
    count = options.parse_args().collaborators
    spawn, family = multiprocessing.get_context("spawn"), Family()
    os.environ.update(family.environment())
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        plan = _plan(count)
        create_run(run, plan)
        names = list(plan.workload.collaborators)
        certify([_AGGREGATOR, *names], run / "cert")
        port = HeldPort()
        ready, begin, ended = spawn.Queue(), spawn.Event(), spawn.Queue()
        processes = [spawn.Process(target=_serve, args=(run, port.number, ready), daemon=True)]
        for number in range(_PROCESSES):
            arguments = (run, port.number, names[number::_PROCESSES], ready, begin, ended)
            processes.append(spawn.Process(target=_collaborate, args=arguments, daemon=True))
        for process in processes:
            process.start()
        for _ in processes:
            ready.get(timeout=300)
        _wait_for(port.number)
        began = time.monotonic()
        turns: list[float] = []

        def one_round() -> None:
            begin.set()
            turns.extend(_end_of(ended) - began for _ in names)

        cost = family.cost_of(one_round)
        Measurement(f"one round of {count} collaborators", max(turns), "s", 20).show()
        print(f"the first one knew of the end after {min(turns):.1f} s, the last one after {max(turns):.1f} s")
        print(f"{cost.cpu:.1f} CPU s of all processes, steal {100 * cost.steal:.1f} %, load {os.getloadavg()[0]:.0f}")
        for process in processes:
            process.join(60)


def _wait_for(port: int) -> None:
    """Wait until somebody listens."""
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((_AGGREGATOR, port)) == 0:
                return
        time.sleep(0.05)


def _end_of(ended: Any) -> float:
    """When the next collaborator ended; one that failed ends the measurement."""
    name, moment, problem = ended.get(timeout=300)
    if problem:
        raise SystemExit(f"{name} failed: {problem}")
    return float(moment)


def _plan(count: int) -> Plan:
    return Plan.load(_REPOSITORY / "plan" / "rotated_digits.yaml").changed(
        {
            "data_loader.settings.clients": count,
            "data_loader.settings.tasks.count": 1,
            "task_runner.settings.model.template": "models.mnist_cnn.LogisticRegression",
            "task_runner.settings.method": "fedavg",
            "assigner.settings.stages": [
                {"name": "buffer_gradient", "tasks": ["buffer_gradient"]},
                {"name": "train", "tasks": ["train"]},
            ],
        },
        rounds=1,
    )


# The two sides


def _serve(run: Path, port: int, ready: Any) -> None:
    """OpenFL's server with the plan's aggregator."""
    _enter(run)
    from openfl.federated import Plan as OpenFLPlan
    from openfl.transport.grpc.aggregator_server import AggregatorGRPCServer
    from openfl.utilities.dataloading import initialize_minimal_dataloader

    plan = OpenFLPlan.parse(*(Path("plan") / f"{name}.yaml" for name in ("plan", "cols", "data")))
    runner = plan.get_task_runner(initialize_minimal_dataloader(plan))
    aggregator = plan.get_aggregator(tensor_dict={n: array.copy() for n, array in runner.get_tensor_dict().items()})
    server = AggregatorGRPCServer(
        aggregator,
        port,
        use_tls=True,
        require_client_auth=True,
        certificate=f"cert/{_AGGREGATOR}.crt",
        private_key=f"cert/{_AGGREGATOR}.key",
        root_certificate="cert/authority.crt",
    )
    ready.put("aggregator")
    server.serve()


def _collaborate(run: Path, port: int, names: list[str], ready: Any, begin: Any, ended: Any) -> None:
    """Some collaborators, a thread for each."""
    _enter(run)
    from openfl.federated import Plan as OpenFLPlan

    from fedagem.runs.folder import plan_of_run

    plan = OpenFLPlan.parse(*(Path("plan") / f"{name}.yaml" for name in ("plan", "cols", "data")))
    tasks = {name: task.model_dump(exclude_unset=True) for name, task in plan_of_run(Path()).tasks.items()}
    collaborators = [_collaborator(plan, tasks, name, port) for name in names]
    ready.put("collaborators")
    begin.wait()

    def take_part(collaborator: Any) -> None:
        problem = None
        try:
            collaborator.run()
        except Exception as error:
            problem = str(error)
        ended.put((collaborator.collaborator_name, time.monotonic(), problem))

    threads = [threading.Thread(target=take_part, args=(one,)) for one in collaborators]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _enter(run: Path) -> None:
    sys.path.insert(0, str(run))
    os.chdir(run)


def _collaborator(plan: Any, tasks: dict[str, Any], name: str, port: int) -> Any:
    from openfl.transport.grpc.aggregator_client import AggregatorGRPCClient

    from src.collaborator import StagedCollaborator

    client = AggregatorGRPCClient(
        _AGGREGATOR,
        port,
        plan.aggregator_uuid,
        plan.federation_uuid,
        name,
        use_tls=True,
        require_client_auth=True,
        certificate=f"cert/{name}.crt",
        private_key=f"cert/{name}.key",
        root_certificate="cert/authority.crt",
    )
    return StagedCollaborator(
        collaborator_name=name,
        aggregator_uuid=plan.aggregator_uuid,
        federation_uuid=plan.federation_uuid,
        client=client,
        task_runner=_NothingToCompute(),
        task_config=tasks,
        compression_pipeline=plan.get_tensor_pipe(),
        callbacks=[],
    )


class _NothingToCompute:
    """A task runner that sends the model back as it came, and zeros as its buffer gradient."""

    def set_optimizer_treatment(self, _: str) -> None:
        """OpenFL asks for it."""

    def get_required_tensorkeys_for_function(self, function: str, **_: Any) -> list[Any]:
        """The model."""
        from openfl.utilities import TensorKey

        from src.task_results import MODEL

        return [TensorKey(name, "GLOBAL", 0, False, MODEL) for name in ("1.weight", "1.bias")]

    def buffer_gradient(self, round_num: int, input_tensor_dict: dict[str, Any], **_: Any) -> Any:
        """A buffer gradient as long as the model."""
        from src.task_results import EXCHANGE

        size = sum(array.size for array in input_tensor_dict.values())
        return self._labelled(round_num, EXCHANGE, {"g_ref": np.zeros(size, np.float32)})

    def train(self, round_num: int, input_tensor_dict: dict[str, Any], **_: Any) -> Any:
        """The same model."""
        from src.task_results import TRAINED

        return self._labelled(round_num, TRAINED, input_tensor_dict)

    def _labelled(self, round_number: int, kind: tuple[str, ...], arrays: dict[str, Any]) -> Any:
        from openfl.utilities import TensorKey

        from src.task_results import WEIGHT

        tensors = {kind: arrays, WEIGHT: {"weight": np.asarray(1, np.float32)}}
        keys = {(name, part): array for part, given in tensors.items() for name, array in given.items()}
        return {TensorKey(name, "LOCAL", round_number, False, part): a for (name, part), a in keys.items()}, {}


# Certificates


def certify(names: list[str], folder: Path) -> None:
    """An authority, and a certificate of each name; a few RSA keys of OpenFL's length serve all."""
    folder.mkdir()
    keys = [rsa.generate_private_key(65537, 3072) for _ in range(_PROCESSES)]
    authority = rsa.generate_private_key(65537, 3072)
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
    (folder / "authority.crt").write_bytes(_certificate(issuer, issuer, authority, authority, is_authority=True))
    for number, name in enumerate(names):
        key = keys[number % len(keys)]
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        (folder / f"{name}.crt").write_bytes(_certificate(subject, issuer, key, authority))
        plain = (serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
        (folder / f"{name}.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: rsa.RSAPrivateKey,
    authority: rsa.RSAPrivateKey,
    is_authority: bool = False,
) -> bytes:
    now = datetime.now(timezone.utc)
    name = str(subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)
    builder = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
    return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


if __name__ == "__main__":
    main()
