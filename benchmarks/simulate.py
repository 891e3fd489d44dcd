"""Samples per second of `fedagem simulate`: one round of 10 clients on rotated MNIST (60,000 samples, CNN, batch 32).

The share of the training that is not forward, backward and step is measured within the same run, with timers around
these three; then the same round with two workers. `--samples-per-client` takes a part of the data.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.measurement import Measurement
from fedagem.learning.learner import Learner
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from fedagem.runs.metrics_log import SAMPLES, SECONDS, TRAIN, read_metrics, total

_REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> None:
    """Print samples per second with one and with two workers, and the share of everything else."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--samples-per-client", type=int, default=6000)
    plan = _one_round(options.parse_args().samples_per_client)
    with tempfile.TemporaryDirectory() as folder:
        arithmetic = _simulate_here(Path(folder) / "one", plan)
        samples, alone = _training(Path(folder) / "one")
        print(f"{samples / alone:.0f} samples per second, one client after the other", flush=True)
        Measurement("share of training that is not forward, backward and step", 1 - arithmetic / alone, "", 0.10).show()
        create_run(Path(folder) / "two", plan)
        command = [sys.executable, "-m", "src.simulate", "--workers", "2"]
        subprocess.run(command, cwd=Path(folder) / "two", check=True, stdout=subprocess.DEVNULL)
        samples, together = _training(Path(folder) / "two")
        print(f"{samples / together:.0f} samples per second, two workers")
        Measurement("speed of two workers", alone / together, "x", 1.0, at_least=True).show()


def _one_round(samples_per_client: int) -> Plan:
    return Plan.load(_REPOSITORY / "plan" / "rotated_mnist.yaml").changed(
        {
            "data_loader.settings.tasks.count": 1,
            "data_loader.settings.samples_per_client": samples_per_client,
            "data_loader.settings.test_samples": 100,
            "task_runner.settings.method": "fedavg",
            "task_runner.settings.fedagem": False,
        },
        rounds=1,
    )


def _simulate_here(directory: Path, plan: Plan) -> float:
    """Run the simulation in this process; the seconds spent in forward, backward and step while training."""
    sys.path.insert(0, str(_REPOSITORY / "workspace"))
    from openfl.federated import Plan as OpenFLPlan

    from src.simulate import build_federation, run_rounds

    create_run(directory, plan)
    os.chdir(directory)
    federation = build_federation(OpenFLPlan.parse(*(Path("plan") / f"{n}.yaml" for n in ("plan", "cols", "data"))))
    with _timed(Learner, "logits", "losses", "backward") as learning, _timed(torch.optim.SGD, "step") as stepping:
        run_rounds(*federation)
    os.chdir(_REPOSITORY)
    return learning[0] + stepping[0]


@contextlib.contextmanager
def _timed(owner: type, *names: str) -> Iterator[list[float]]:
    """Add up the time that some methods of a class take."""
    total = [0.0]
    originals: dict[str, Callable[..., Any]] = {name: getattr(owner, name) for name in names}

    def timed(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **settings: Any) -> Any:
            began = time.perf_counter()
            try:
                return original(*arguments, **settings)
            finally:
                total[0] += time.perf_counter() - began

        return call

    for name, original in originals.items():
        setattr(owner, name, timed(original))
    try:
        yield total
    finally:
        for name, original in originals.items():
            setattr(owner, name, original)


def _training(directory: Path) -> tuple[float, float]:
    """Samples and seconds of the training stage."""
    rows = [row for row in read_metrics(directory) if row.stage == TRAIN]
    return total(rows, SAMPLES), total(rows, SECONDS)


if __name__ == "__main__":
    main()
