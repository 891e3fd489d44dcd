"""OpenFL's TensorDB as a dictionary: a look-up is a hash instead of a scan of a pandas frame."""

from collections.abc import MutableMapping
from typing import Any

from numpy.typing import NDArray
from openfl.utilities import TensorKey

from src.task_results import PREVIOUS


class TensorStore:
    """The part of TensorDB's interface that a federation uses."""

    def __init__(self, tensors: MutableMapping[TensorKey, NDArray[Any]] | None = None) -> None:
        """Keeps tensors in `tensors`: a mapping of weak references forgets those that nobody else holds."""
        self._tensors: MutableMapping[TensorKey, NDArray[Any]] = {} if tensors is None else tensors

    def cache_tensor(self, tensors: dict[TensorKey, NDArray[Any]]) -> None:
        """Keep tensors under their keys; a newer value replaces an older one."""
        self._tensors.update(tensors)

    def get_tensor_from_cache(self, key: TensorKey) -> NDArray[Any] | None:
        """The tensor, or None."""
        return self._tensors.get(key)

    def get_tensors_by_round_and_tags(self, fl_round: int, tags: tuple[str, ...]) -> dict[TensorKey, NDArray[Any]]:
        """All tensors of a round with exactly these tags."""
        return {k: v for k, v in self._tensors.items() if k.round_number == fl_round and k.tags == tags}

    def drop_before(self, fl_round: int) -> None:
        """Forget what belongs to earlier rounds, but for the newest previous model: it serves a whole task."""
        newest = max((key.round_number for key in self._tensors if key.tags == PREVIOUS), default=fl_round)
        for key in [*self._tensors]:
            if key.round_number < (newest if key.tags == PREVIOUS else fl_round):
                self._tensors.pop(key, None)


class KeepsTensorStore:
    """For OpenFL's components: their constructors make a pandas TensorDB, and this takes its place."""

    @property
    def tensor_db(self) -> TensorStore:
        """The component's tensors."""
        return self._tensor_store

    @tensor_db.setter
    def tensor_db(self, _stock: object) -> None:
        self._tensor_store = TensorStore()
