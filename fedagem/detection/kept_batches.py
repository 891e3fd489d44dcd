"""Evaluation frames that are decoded once and kept for every round, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fedagem.detection.inference import ScoringBatch


class KeptBatches:
    """Batches from several places, kept after the first pass while they fit; the rest is read in every pass."""

    def __init__(self, places: Sequence[Callable[[], Iterator[ScoringBatch]]], most_bytes: int) -> None:
        """Each place is a function that opens its batches again; a place is kept whole or not at all."""
        self._places = list(places)
        self._kept: dict[int, list[ScoringBatch]] = {}
        self._room = most_bytes

    def __iter__(self) -> Iterator[ScoringBatch]:
        for number, place in enumerate(self._places):
            if number in self._kept:
                yield from self._kept[number]
            else:
                yield from self._first_pass(number, place)

    def _first_pass(self, number: int, place: Callable[[], Iterator[ScoringBatch]]) -> Iterator[ScoringBatch]:
        kept: list[ScoringBatch] = []
        room = self._room
        for part in place():
            yield part
            room -= sum(values.nbytes for values in part.batch.values())
            if room >= 0:
                kept.append(part)
            else:
                kept.clear()
        if room >= 0:
            self._kept[number], self._room = kept, room
