"""The data sets behind a study: where they belong, and whether they are there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedagem.studies.runs import StudyRun
from fedagem.tasks.data_folder import resolve_root
from fedagem.tasks.settings import StreamSettings
from fedagem.tasks.sources import load_source, missing_files


@dataclass(frozen=True)
class StudyData:
    """One data set as the plans of a study name it."""

    dataset: str
    root: str
    settings: dict[str, Any]

    @property
    def place(self) -> Path:
        """Where it belongs on this machine."""
        return resolve_root(self.root)

    def missing(self) -> list[Path]:
        """The files that it needs and that are not there."""
        return missing_files(self.dataset, self.root, self.settings)


def data_of(runs: Sequence[StudyRun]) -> list[StudyData]:
    """The data sets of some runs, each once."""
    found: list[StudyData] = []
    for stream in (run.plan.data for run in runs):
        assert isinstance(stream, StreamSettings)
        data = StudyData(stream.dataset, stream.root or stream.dataset, stream.dataset_settings)
        if data not in found:
            found.append(data)
    return found


def fetch_missing(runs: Sequence[StudyRun]) -> None:
    """Fetch what can be fetched once for all runs, and refuse the rest before any run is laid out."""
    for data in data_of([run for run in runs if not run.finished]):
        if data.missing():
            load_source(data.dataset, data.root, data.settings)
