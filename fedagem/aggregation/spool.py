"""Results of many clients on disk, in rows of equal length, to be read column by column."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fedagem.aggregation.ring import Array
from fedagem.errors import FedAGemError


class Spool:
    """A file that has no name: it is gone when it is closed and when its process ends, even by a kill."""

    def __init__(self, folder: Path, row_bytes: int) -> None:
        self._folder = folder
        self._row_bytes = row_bytes
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        except OSError as problem:
            raise self._unwritable(problem) from problem

    def put(self, key: str, arrays: Iterable[Array]) -> None:
        """Write a row, all of whose arrays make `row_bytes`; one that cannot be written leaves nothing behind."""
        place = self._free.pop() if self._free else len(self._places)
        offset = place * self._row_bytes
        try:
            for array in arrays:
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                while data:
                    written = os.pwrite(self._file.fileno(), data, offset)
                    data, offset = data[written:], offset + written
        except OSError as problem:
            self._free.append(place)
            raise self._unwritable(problem) from problem
        self._places[key] = place

    def drop(self, key: str) -> None:
        """Forget a row; the next one takes its place."""
        self._free.append(self._places.pop(key))

    def keys(self) -> list[str]:
        """The rows there are, sorted."""
        return sorted(self._places)

    def read(self, key: str, offset: int, out: Array) -> None:
        """Fill a contiguous array with the bytes of a row from `offset` on."""
        buffer = out.reshape(-1).view(np.uint8).data
        place = self._places[key] * self._row_bytes + offset
        while buffer:
            count = os.preadv(self._file.fileno(), [buffer], place)
            if count == 0:
                raise FedAGemError(f"the results that were kept in {self._folder} are not complete.")
            buffer, place = buffer[count:], place + count

    def close(self) -> None:
        """Give the disk space back."""
        self._file.close()

    def _unwritable(self, problem: OSError) -> FedAGemError:
        return FedAGemError(f"{self._folder} cannot hold the results of a stage: {problem.strerror or problem}.")
