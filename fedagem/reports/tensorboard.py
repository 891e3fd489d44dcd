"""A run's metrics as TensorBoard events: derived from metrics.jsonl at its end, or followed while it goes on."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedagem.plans.plan import Plan
from fedagem.runs.metrics_log import read_metrics, series_of

FOLDER = "tensorboard"


def write_tensorboard(directory: Path) -> Path:
    """Replace `tensorboard/`: crashes and repeats leave no trace.

    Steps count the rounds that a model was trained for: 0 is the model before any training.
    """
    from torch.utils.tensorboard import SummaryWriter

    place = directory / FOLDER
    shutil.rmtree(place, ignore_errors=True)
    with SummaryWriter(str(place)) as writer:
        for row in read_metrics(directory):
            for name, value in series_of(row).items():
                writer.add_scalar(name, value, row.trained)
    return place


class TensorboardTracker:
    """Writes events while the run goes on; at its end `write_tensorboard` replaces them."""

    run_id = FOLDER

    def __init__(self, directory: Path, plan: Plan, parameters: Mapping[str, Any], run_id: str | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._place = directory / FOLDER
        self._parameters = parameters
        self._writer = SummaryWriter(str(self._place))

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def add_files(self, pictures: list[Path], models: list[Path], others: list[Path]) -> None:
        """The plan's settings as text, and pictures; it has no place for other files."""
        import cv2
        from torch.utils.tensorboard import SummaryWriter

        rows = "\n".join(f"| {name} | {value} |" for name, value in self._parameters.items())
        with SummaryWriter(str(self._place)) as writer:
            writer.add_text("plan", f"| setting | value |\n|---|---|\n{rows}")
            for path in pictures:
                if (picture := cv2.imread(str(path))) is not None:
                    writer.add_image(f"plots/{path.stem}", picture[..., ::-1].copy(), dataformats="HWC")

    def close(self, succeeded: bool) -> None:
        self._writer.close()
