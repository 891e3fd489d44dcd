"""A run's metrics as TensorBoard events, derived from metrics.jsonl so that crashes and repeats leave no trace."""

import shutil
from pathlib import Path

from fedagem.runs.results import read_metrics


def write_tensorboard(directory: Path) -> Path:
    """Write `tensorboard/` anew: one series per client and metric, one per task of an accuracy."""
    from torch.utils.tensorboard import SummaryWriter

    place = directory / "tensorboard"
    shutil.rmtree(place, ignore_errors=True)
    with SummaryWriter(str(place)) as writer:
        for row in read_metrics(directory):
            series = f"{row['client']}/{row['metric']}"
            if isinstance(row["value"], list):
                for task, value in enumerate(row["value"], start=1):
                    writer.add_scalar(f"{series}/task_{task}", value, row["round"])
            else:
                metric = f"{series}/{row['stage']}" if row["metric"] == "seconds" else series
                writer.add_scalar(metric, row["value"], row["round"])
    return place
