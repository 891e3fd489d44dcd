"""What secure aggregation costs: ResNet-18, 10 members with certificates of OpenFL, one protected stage after another.

CPU seconds of one thread, plain and secure in turns, the median of several repetitions. `--federation` also runs a tiny
plan as processes of `fx`, plain and secure, and compares the seconds of a round.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from benchmarks.measurement import Measurement
from fedagem.runs.metrics_log import SECONDS, read_metrics
from fedagem.secagg.combiner import MaskedSum, Setup
from fedagem.secagg.identity import CertificateSigner, CertificateVerifier, pins_of
from fedagem.secagg.masks import Vector
from fedagem.secagg.member import Evidence, Material, Member
from fedagem.secagg.settings import SecureAggregation
from models.resnet_cifar import resnet18_cifar

_REPOSITORY = Path(__file__).resolve().parent.parent
_MEMBERS = 10
_REPETITIONS = 3
_ROUNDS = 10
_EVIDENCE = Evidence(b"model", 0, b"shown")

Model = dict[str, Any]


def main() -> None:
    """Print all figures; with --federation also those of real processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--federation", action="store_true", help="Also measure rounds of `fx` processes.")
    options = parser.parse_args()
    sys.path.insert(0, str(_REPOSITORY / "workspace"))
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("plan").mkdir()
        model = {name: tensor.numpy() for name, tensor in resnet18_cifar().state_dict().items()}
        bench = _Bench(model, _certified(Path(folder)))
        bench.show_setup()
        stage = bench.show_stages()
        bench.show_error()
        bench.show_memory()
        _show_share_of_training(stage)
        if options.federation:
            _show_rounds(Path(folder))
        os.chdir(_REPOSITORY)


def _certified(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Keys and certificates of all members, as `fx` makes them."""
    from src.prepare import certify

    names = [f"client_{number:02d}" for number in range(_MEMBERS)]
    certify("localhost", names)
    place = folder / "cert" / "client"
    return {name: (place / f"col_{name}.key", place / f"col_{name}.crt") for name in names}


class _Bench:
    def __init__(self, model: Model, certificates: Mapping[str, tuple[Path, Path]]) -> None:
        self.model = model
        self.names = list(certificates)
        self.settings = SecureAggregation(cutoff_seconds=1.0)
        pins = pins_of(certificate for _, certificate in certificates.values())
        self.verifier = CertificateVerifier(Path("cert/cert_chain.crt"), pins)
        self.members = {
            name: Member(
                name, "benchmark", self.settings, CertificateSigner(*pair), self.verifier, Path("local_state") / name
            )
            for name, pair in certificates.items()
        }
        generator = np.random.default_rng(0)
        self.trained = [
            {
                name: array + 1
                if array.dtype.kind == "i"
                else (array + 0.01 * generator.standard_normal(array.shape)).astype(np.float32)
                for name, array in model.items()
            }
            for _ in self.names
        ]
        self.messages = 0
        """Bytes of keys, shares, headers and openings that one member sends."""

    def shape(self, bits: int) -> Any:
        from src.secure_sums import SumShape
        from src.task_results import Expected

        settings = self.settings.model_copy(update={"bits": bits})
        return SumShape("train", Expected(self.model, ()), _MEMBERS, "uniform", settings, {})

    def result(self, member: int) -> Any:
        from src.task_results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT

        weight = {"weight": np.float32(500)}
        return {TRAINED: self.trained[member], EXCHANGE: {}, RATIO: {}, METRIC: {}, WEIGHT: weight}

    def set_up(self, names: list[str] | None = None, first: int = 0) -> float:
        """A new setup from a round on; returns the CPU seconds of its slowest member and of the aggregator together."""
        names = names or self.names
        sums = [(number, stage) for number in range(first, first + _ROUNDS) for stage in self.settings.stages]
        began = time.process_time()
        self.setup = Setup("benchmark", names, sums, self.settings, self.verifier)
        call = self.setup.call.encode()
        aggregator = time.process_time() - began
        slowest, sent = 0.0, 0
        keys, seconds = _timed(lambda: {name: self.members[name].join(call) for name in names})
        slowest += seconds / len(names)
        sent += len(keys[names[0]])
        aggregator += _timed(lambda: _each(self.setup.take_keys, keys))[1]
        bulletin, seconds = _timed(lambda: self.setup.bulletin.encoded)
        aggregator += seconds
        shares, seconds = _timed(lambda: {name: self.members[name].deal(call, bulletin) for name in names})
        slowest += seconds / len(names)
        sent += len(shares[names[0]])
        aggregator += _timed(lambda: _each(self.setup.take_shares, shares))[1]
        self.messages = sent
        return slowest + aggregator

    def material(self, name: str) -> Material:
        return Material(self.setup.call.encode(), self.setup.bulletin.encoded, self.setup.mail(name))

    def show_setup(self) -> None:
        times = [self.set_up() for _ in range(_REPETITIONS)]
        Measurement("setup of 10 members for 20 sums", statistics.median(times), "CPU s", 0.5).show()
        Measurement("messages of a member in a setup", self.messages / 1024, "KB", 40).show()

    def show_stages(self) -> float:
        """Client and aggregator, 32 and 64 bits, nobody and three missing; returns the client's seconds at 32 bits."""
        rounds = itertools.count()
        clients: dict[int, list[float]] = {32: [], 64: []}
        secure: dict[tuple[int, int], list[float]] = {}
        plain: list[float] = []
        for _ in range(_REPETITIONS):
            plain.append(self._plain_stage())
            for bits, missing in ((32, 0), (64, 0), (32, 3)):
                client, aggregator, sent = self._secure_stage(bits, missing, next(rounds))
                clients[bits] += client
                secure.setdefault((bits, missing), []).append(aggregator)
                if bits == 32 and not missing and not clients[64]:
                    size = sum(array.nbytes for array in self.model.values())
                    per_round = self.messages / _ROUNDS + sent - size
                    Measurement("upload of 32 bits / plain", (sent + self.messages / _ROUNDS) / size, "x", 1.01).show()
                    Measurement("upload besides the plain one", per_round / 1024, "KB", 4 + 0.01 * size / 1024).show()
        for bits, times in clients.items():
            bound = 0.35 if bits == 32 else 0.7
            Measurement(f"client, one stage, {bits} bits", statistics.median(times), "CPU s", bound).show()
        base = statistics.median(plain)
        print(f"aggregator, plain stage: {base:.3f} CPU s, {min(plain):.3f} to {max(plain):.3f}")
        nobody = statistics.median(secure[32, 0])
        for bits in (32, 64):
            value = statistics.median(secure[bits, 0]) / base
            Measurement(f"aggregator, secure / plain, {bits} bits", value, "x", 1.5 if bits == 32 else 3).show()
        extra = statistics.median(secure[32, 3]) - nobody
        Measurement("aggregator, three of ten missing, more than nobody", extra, "CPU s", 1.0).show()
        return statistics.median(clients[32])

    def _plain_stage(self) -> float:
        from src.averaging import TaskSum
        from src.task_results import Expected, find_fault

        results = [self.result(member) for member in range(_MEMBERS)]
        expected = Expected(self.model, ())

        def work() -> None:
            total = TaskSum(expected, _MEMBERS, "uniform")
            for result in results:
                assert find_fault(result, expected) is None
                total.add(result)
            total.model()

        return _timed(work)[1]

    def _secure_stage(self, bits: int, missing: int, number: int) -> tuple[list[float], float, int]:
        """CPU seconds of each client and of the aggregator, and the bytes that one client sends."""
        if number % _ROUNDS == 0:
            self.set_up()
        at, shape = (number % _ROUNDS, "train"), self.shape(bits)
        sizes = shape.layout().sizes
        survivors = self.names[: _MEMBERS - missing]
        for name in self.names:  # members check a setup once, not in every stage
            self.members[name]._take_seat(self.material(name))
        clients, aggregator, sent = [], 0.0, 0
        collected, seconds = _timed(lambda: MaskedSum(self.setup, *at, sizes))
        aggregator += seconds
        for place, name in enumerate(survivors):
            result, material = self.result(place), self.material(name)

            def work(name: str = name, result: Any = result, material: Material = material) -> Any:
                vectors, contributes = shape.encode(result)
                return self.members[name].mask(material, *at, _EVIDENCE, vectors, contributes), vectors

            (header, vectors), seconds = _timed(work)
            clients.append(seconds)
            sent = len(header) + sum(vector.nbytes for vector in vectors.values())
            aggregator += _timed(_adding(collected, name, header, vectors))[1]
        headers = collected.passed_on()
        if missing:
            agreed = {name: self.members[name].agree(self.material(name), *at, headers) for name in survivors}
            aggregator += _timed(lambda: _each(collected.take_agreement, agreed))[1]
        agreements = collected.agreed()
        opened = {name: self.members[name].open(self.material(name), *at, headers, agreements) for name in survivors}
        sent += len(opened[survivors[0]])
        aggregator += _timed(lambda: _each(collected.take_opening, opened))[1]

        def finish() -> None:
            from src.secure_sums import OpenedSum

            vectors = collected.unmask()
            assert vectors is not None
            OpenedSum(shape, shape.layout().decode(vectors, len(survivors))).model()

        return clients, aggregator + _timed(finish)[1], sent

    def show_error(self) -> None:
        """How far the mean of 32 bits is from the exact one."""
        from src.secure_sums import OpenedSum, UnmaskedSums

        shape = self.shape(32)
        sums = UnmaskedSums("train", shape)
        for member in range(_MEMBERS):
            sums.add(self.names[member], "train", self.result(member))
        opened = sums["train"]
        assert isinstance(opened, OpenedSum)
        mean = opened._total
        assert mean is not None
        worst = 0.0
        for name, array in self.model.items():
            if array.dtype == np.float32 and not name.endswith(("running_mean", "running_var")):
                moved = np.mean([each[name].astype(np.float64) - array for each in self.trained], axis=0)
                slot = f"model/{name}"
                encoding = next(slot_.encoding for slot_ in mean.layout.slots if slot_.name == slot)
                exact = mean.sums[slot] * 2.0**-encoding.bits / _MEMBERS
                worst = max(worst, float(np.abs(exact - moved).max()))
        Measurement("mean of 32 bits, distance from the exact one", worst * 1e8, "1e-8", 3.0).show()

    def show_memory(self) -> None:
        """The aggregator's peak besides arriving results, of which three are enough: it does not grow with them."""
        from src.averaging import TaskSum
        from src.secure_sums import OpenedSum
        from src.task_results import Expected

        few = self.names[:3]

        def plain() -> None:
            total = TaskSum(Expected(self.model, ()), len(few), "uniform")
            for member in range(len(few)):
                total.add(self.result(member))
            total.model()

        base = _peak(plain)
        for number, bits in enumerate((32, 64), _ROUNDS):  # members mask nothing for rounds that they have passed
            self.set_up(few, number)
            at, shape = (number, "train"), self.shape(bits)
            layout, arrived = shape.layout(), {}
            for place, name in enumerate(few):
                vectors, contributes = shape.encode(self.result(place))
                header = self.members[name].mask(self.material(name), *at, _EVIDENCE, vectors, contributes)
                arrived[name] = header, vectors

            def secure(
                at: tuple[int, str] = at, arrived: Any = arrived, layout: Any = layout, shape: Any = shape
            ) -> None:
                collected = MaskedSum(self.setup, *at, layout.sizes)
                for name, (header, vectors) in arrived.items():
                    collected.add(name, header, vectors)
                for name in few:
                    headers, agreements = collected.passed_on(), collected.agreed()
                    material = self.material(name)
                    signed = self.members[name].open(material, *at, headers, agreements)
                    collected.take_opening(name, signed)
                vectors = collected.unmask()
                assert vectors is not None
                OpenedSum(shape, layout.decode(vectors, len(few))).model()

            peak = _peak(secure)
            bound = 1.0 if bits == 32 else 1.1
            Measurement(f"aggregator's memory, secure / plain, {bits} bits", peak / base, "x", bound).show()


def _each(take: Callable[[str, bytes], None], messages: Mapping[str, bytes]) -> None:
    for name, message in messages.items():
        take(name, message)


def _adding(collected: MaskedSum, name: str, header: bytes, vectors: Mapping[int, Vector]) -> Callable[[], None]:
    return lambda: collected.add(name, header, vectors)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def _peak(work: Callable[[], None]) -> int:
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def _show_share_of_training(stage: float, images: int = 320) -> None:
    """What two protected stages add to the CPU time of a client's 5,000 images, extrapolated from some of them."""
    model = resnet18_cifar()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(0)

    def train() -> None:
        for _ in range(images // 32):
            x = torch.randn(32, 3, 32, 32, generator=generator)
            loss = torch.nn.functional.cross_entropy(model(x), torch.randint(0, 10, (32,), generator=generator))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    seconds = _timed(train)[1] * 5000 / images
    Measurement("two protected stages / training on 5,000 images", 100 * 2 * stage / seconds, "%", 2.0).show()


def _show_rounds(folder: Path) -> None:
    """Rounds of four collaborators with a tiny network, over TLS, plain and secure in turns."""
    settings = [
        *("--rounds", "10"),
        *("--set", "task_runner.settings.model.template=models.mnist_cnn.SmallCNN"),
        *("--set", "data_loader.settings.clients=4"),
        *("--set", "data_loader.settings.partition.classes_per_client=5"),
        *("--set", "data_loader.settings.samples_per_client=64"),
        *("--set", "data_loader.settings.test_samples=100"),
    ]
    fedagem = Path(sys.executable).with_name("fedagem")
    medians: dict[str, list[float]] = {"plain": [], "secure": []}
    for attempt in range(2):
        for kind, options in (("plain", []), ("secure", ["--secure"])):
            run = folder / f"{kind}-{attempt}"
            command = [str(fedagem), "run", "rotated_digits", "--out", str(run), *options, *settings]
            subprocess.run(command, check=True, capture_output=True)
            stages = {"buffer_gradient", "train"}
            rounds: dict[int, float] = {}
            for row in read_metrics(run):
                if row.metric == SECONDS and row.stage in stages and row.round > 0:
                    rounds[row.round] = rounds.get(row.round, 0.0) + row.value
            medians[kind].append(statistics.median(rounds.values()))
    plain, secure = (min(medians[kind]) for kind in ("plain", "secure"))
    Measurement("two-stage round of 4 `fx` collaborators", secure, "s", 0.6).show()
    Measurement("two-stage round, secure / plain", secure / plain, "x", 2.5).show()


if __name__ == "__main__":
    main()
