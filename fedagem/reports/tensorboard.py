"""A run's metrics as TensorBoard events, derived from metrics.jsonl so that crashes and repeats leave no trace."""

import shutil
from pathlib import Path

from fedagem.runs.metrics_log import SECONDS, read_metrics


def write_tensorboard(directory: Path) -> Path:
    """Replace `tensorboard/`: one series per client and metric, one per task of an accuracy."""
    from torch.utils.tensorboard import SummaryWriter

    place = directory / "tensorboard"
    shutil.rmtree(place, ignore_errors=True)
    with SummaryWriter(str(place)) as writer:
        for row in read_metrics(directory):
            series = f"{row.client}/{row.metric}"
            for task, value in enumerate(row.by_task, start=1):
                writer.add_scalar(f"{series}/task_{task}", value, row.round)
            if not row.by_task:
                writer.add_scalar(f"{series}/{row.stage}" if row.metric == SECONDS else series, row.value, row.round)
    return place
