"""Memory of `fedagem simulate`: one model per process, so 10 clients take little more than 2."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measurement import Measurement
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run

_MODEL_MEGABYTES = 1_663_370 * 4 / 2**20


def main() -> None:
    """Print how many models' worth of memory eight more clients take."""
    peaks = {clients: _peak_megabytes(clients) for clients in (2, 10)}
    print(f"peak memory: {peaks}")
    models = (peaks[10] - peaks[2]) / 8 / _MODEL_MEGABYTES
    # Results are added up as they arrive, so that a client takes the memory of its samples and its buffer.
    Measurement("memory of one more client, in models", models, "models", 1.0).show()


def _peak_megabytes(clients: int) -> float:
    plan = Plan.load(Path(__file__).resolve().parent.parent / "plan" / "rotated_digits.yaml").changed(
        {
            "data_loader.settings.clients": clients,
            "data_loader.settings.partition": {"kind": "dirichlet", "alpha": 100.0},
        },
        rounds=5,
    )
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        create_run(run, plan)
        child = subprocess.Popen(
            [sys.executable, "-m", "src.simulate"], cwd=run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit(f"the simulation of {clients} clients failed with status {status}")
    return usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
