"""The start of `fedagem simulate rotated_digits --workers 1`, to its first batch: CPU seconds of all processes."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from torch import Tensor

from benchmarks.cpu_time import Cost, Family
from benchmarks.measurement import Measurement
from models.mnist_cnn import McMahanCNN

_REPOSITORY = Path(__file__).resolve().parent.parent
_SIGN = "FEDAGEM_FIRST_BATCH"


class StopsAtFirstBatch(McMahanCNN):
    """The plan's network; the first batch that it learns from is as far as it goes."""

    def forward(self, x: Tensor) -> Tensor:
        """Leave a sign and wait to be ended."""
        if self.training:
            Path(os.environ[_SIGN]).touch()
            signal.pause()
        scores: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return scores


def main() -> None:
    """Print the median."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=7)
    runs = options.parse_args().runs
    _start()  # what Python compiles and the system reads for the first time
    costs = []
    for _ in range(runs):
        costs.append(_start())
        print(f"{costs[-1].cpu:.2f} CPU s, {costs[-1].wall:.2f} s, steal {100 * costs[-1].steal:.1f} %", flush=True)
    Measurement.median("start to the first batch", [cost.cpu for cost in costs], "CPU s", 8).show()


def _start() -> Cost:
    """Start it, and end it at the first batch."""
    family = Family()
    with tempfile.TemporaryDirectory() as folder:
        sign = Path(folder) / "first_batch"
        network = f"task_runner.settings.model.template={__spec__.name}.StopsAtFirstBatch"
        fedagem = str(Path(sys.executable).with_name("fedagem"))
        command = [fedagem, "simulate", "rotated_digits", "--workers", "1", "--out", f"{folder}/run", "--set", network]
        environment = family.environment(PYTHONPATH=str(_REPOSITORY), **{_SIGN: str(sign)})

        def start() -> None:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
            while not sign.exists():
                if process.poll() is not None:
                    raise SystemExit(f"it ended with {process.returncode} before its first batch")
                time.sleep(0.01)

        try:
            return family.cost_of(start)
        finally:
            family.end()


if __name__ == "__main__":
    main()
