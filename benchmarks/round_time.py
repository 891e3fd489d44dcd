"""Seconds per two-stage round of a real federation: 2 `fx` collaborators over mutual TLS with a tiny model."""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measurement import Measurement
from fedagem.runs.metrics_log import SECONDS, read_metrics

_SETTINGS = {
    "data_loader.settings.clients": "2",
    "data_loader.settings.partition.classes_per_client": "5",
    "data_loader.settings.batch_size": "1024",
    "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
    "task_runner.settings.method": "fedavg",
}


def main() -> None:
    """Run the federation, take the time of its rounds from its own log, and print the median."""
    repository = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        options = [part for path, value in _SETTINGS.items() for part in ("--set", f"{path}={value}")]
        fedagem = Path(sys.executable).with_name("fedagem")
        plan = repository / "plan" / "rotated_digits.yaml"
        command = [str(fedagem), "run", str(plan), "--rounds", "20", "--out", str(run), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = [row for row in read_metrics(run) if row.metric == SECONDS and row.stage != "evaluate"]
    rounds = [sum(row.value for row in rows if row.round == number) for number in range(2, 20)]
    Measurement("seconds per two-stage round, 2 fx collaborators", statistics.median(rounds), "s", 0.6).show()


if __name__ == "__main__":
    main()
