"""A round of rotated MNIST (10 clients, small CNN, two workers) over the same work in bare PyTorch and in Flower.

Contenders stay alive and do a round in turns, so that starts do not count and a busy machine slows all alike: `fedagem
simulate`, the same with `compile`, two bare eager processes, and Flower's simulation with two actors. CPU seconds of
all processes of a contender count. Flower gets an environment of its own on the first run, which borrows our torch.

`--samples-per-client` takes a part of the data; `--without flower` leaves a contender out.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import torch

from benchmarks.cpu_time import Contender, Family, Race
from benchmarks.measurement import Measurement
from benchmarks.peers.plain import BATCH, DONE, RATE
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from fedagem.tasks.settings import StreamSettings
from fedagem.tasks.stream import TaskStream

_REPOSITORY = Path(__file__).resolve().parent.parent
_FLOWER = "flwr[simulation]==1.41.0"
_FLOWER_HOME = Path.home() / ".cache" / "fedagem" / "benchmarks" / "flower"
_RAY = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "RAY_memory_monitor_refresh_ms": "0"}
"""On a busy machine Ray's workers would get no time, because they are nice, or be killed for the memory of others."""
_CLIENTS, _WORKERS = 10, 2
_OURS, _COMPILED, _BARE, _THEIRS = "fedagem", "compile", "bare", "flower"


class Simulation:
    """`python -m src.simulate --workers 2`, stopped between two rounds."""

    def __init__(self, name: str, directory: Path, plan: Plan) -> None:
        self.name, self.family, self._log = name, Family(), directory / "metrics.jsonl"
        create_run(directory, plan)
        command = [sys.executable, "-m", "src.simulate", "--workers", str(_WORKERS)]
        with (directory / "output").open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env=self.family.environment(),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def work(self) -> None:
        """Let it go on until another round of training is in its log."""
        before = self._rounds()
        os.killpg(self._process.pid, signal.SIGCONT)
        while self._rounds() == before:
            if self._process.poll() is not None:
                raise SystemExit(f"{self.name} ended: {self._log.with_name('output').read_text()[-2000:]}")
            time.sleep(0.01)
        os.killpg(self._process.pid, signal.SIGSTOP)

    def _rounds(self) -> int:
        if not self._log.exists():
            return 0
        wanted = '"stage": "train", "client": "federation", "metric": "seconds"'
        return self._log.read_text(encoding="utf-8").count(wanted)


class Peer:
    """Processes that do a round for each line of input."""

    def __init__(self, name: str, commands: list[list[str]], log: Path) -> None:
        self.name, self.family = name, Family()
        settings = {"FLWR_TELEMETRY_ENABLED": "0", **_RAY}
        with log.open("wb") as output:
            self._processes = [
                subprocess.Popen(
                    command,
                    cwd=_REPOSITORY,
                    env=self.family.environment(PYTHONPATH=str(_REPOSITORY), **settings),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    text=True,
                    start_new_session=True,
                )
                for command in commands
            ]
        self._log = log

    def work(self) -> None:
        """Begin a round everywhere, and wait until it is over everywhere."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in self._processes:
            assert process.stdout is not None
            while DONE not in (line := process.stdout.readline()):
                if not line:
                    raise SystemExit(f"{self.name} ended: {self._log.read_text()[-2000:]}")


def main() -> None:
    """Print the ratios."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--samples-per-client", type=int, default=6000)
    options.add_argument("--turns", type=int, default=7)
    options.add_argument("--without", nargs="*", default=[], choices=[_OURS, _COMPILED, _BARE, _THEIRS])
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a stopped contender would stay for ever
    contenders: list[Contender] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name in (_OURS, _BARE, _COMPILED, _THEIRS):
                if name not in chosen.without and (one := _start(name, Path(folder), chosen.samples_per_client)):
                    contenders.append(one)
            race = Race.run(contenders, chosen.turns)
    finally:
        for contender in contenders:
            contender.family.end()
    for ours, theirs, bound in (
        (_OURS, _BARE, 1.05),
        (_OURS, _THEIRS, 0.9),
        (_COMPILED, _THEIRS, 0.75),
        (_COMPILED, _OURS, 0.85),
    ):
        if ours in race.costs and theirs in race.costs:
            Measurement.median(f"a round, {ours} over {theirs}", race.ratios(ours, theirs), "x", bound).show()


def _start(name: str, folder: Path, samples: int) -> Contender | None:
    """A contender, ready for its first round; None if it is not to be had."""
    plan = _plan(samples, compiled=name == _COMPILED)
    if name in (_OURS, _COMPILED):
        return Simulation(name, folder / name, plan)
    data, log = _write_data(plan, folder / "clients.pt"), folder / f"{name}.log"
    if name == _BARE:
        parts = [range(_CLIENTS)[worker::_WORKERS] for worker in range(_WORKERS)]
        call = "from benchmarks.peers.plain import serve; serve({!r}, {!r})"
        return Peer(name, [[sys.executable, "-c", call.format(str(data), part)] for part in parts], log)
    if (python := _flower_python()) is None:
        return None
    call = f"from benchmarks.peers.flower import serve; serve({str(data)!r}, {_CLIENTS}, {_WORKERS})"
    return Peer(name, [[str(python), "-c", call]], log)


def _plan(samples: int, compiled: bool) -> Plan:
    return Plan.load(_REPOSITORY / "plan" / "rotated_mnist.yaml").changed(
        {
            "data_loader.settings.tasks.count": 1,
            "data_loader.settings.clients": _CLIENTS,
            "data_loader.settings.samples_per_client": samples,
            "data_loader.settings.test_samples": 100,
            "data_loader.settings.batch_size": BATCH,
            "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
            "task_runner.settings.optimizer.lr": RATE,
            "task_runner.settings.method": "fedavg",
            "task_runner.settings.fedagem": False,
            "task_runner.settings.compile": compiled,
        },
        rounds=1000,
    )


def _write_data(plan: Plan, path: Path) -> Path:
    """What the clients of the plan learn from, in a file that needs nothing but torch to be read."""
    if not path.exists():
        assert isinstance(plan.data, StreamSettings)
        stream = TaskStream(plan.data)
        torch.save([stream.client(rank).task_samples(0) for rank in range(_CLIENTS)], path)
    return path


def _flower_python() -> Path | None:
    """The interpreter of Flower's environment, made on the first call; None if it cannot be installed."""
    python = _FLOWER_HOME / "bin" / "python"
    if not (_FLOWER_HOME / "ready").exists():
        print(f"installing {_FLOWER} into {_FLOWER_HOME}", flush=True)
        venv.create(_FLOWER_HOME, with_pip=True, clear=True)
        install = subprocess.run([python, "-m", "pip", "install", "--quiet", _FLOWER], check=False)
        if install.returncode:
            print(f"{_FLOWER} cannot be installed here: the comparison with Flower is left out.", flush=True)
            return None
        place = "import sysconfig; print(sysconfig.get_path('purelib'))"
        theirs = subprocess.run([python, "-c", place], check=True, capture_output=True, text=True).stdout.strip()
        ours = Path(torch.__file__).resolve().parent.parent
        (Path(theirs) / "torch_of_fedagem.pth").write_text(f"{ours}\n", encoding="utf-8")
        (_FLOWER_HOME / "ready").touch()
    return python


if __name__ == "__main__":
    main()
