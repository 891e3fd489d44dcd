"""Which tensor goes where in the vectors that are masked and summed, and how values become whole numbers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedagem.aggregation import ring
from fedagem.aggregation.ring import Encoding, OutOfRangeError
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.masks import RINGS, Vector

Array = NDArray[Any]

_CANARIES = 4
"""Numbers at the beginning of each vector that must be 0 in the sum, unless masks are left in it."""
_SIGNED: dict[int, np.dtype[Any]] = {32: np.dtype("<i4"), 64: np.dtype("<i8")}
"""How the numbers of a sum are read once no masks are left in it."""
_HEAD = {32: _CANARIES, 64: _CANARIES + 3}
"""The 64-bit vector also counts those who are summed, those who contribute, and their weights."""


@dataclass(frozen=True)
class Slot:
    """One tensor of the vectors."""

    name: str
    shape: tuple[int, ...]
    dtype: DTypeLike
    encoding: Encoding
    bits: int = 64
    counts: Literal["weighted", "once", "always"] = "weighted"
    """As often as its client's weight says, or once, in both cases unless the weight is 0; or once in any case."""

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return int(np.prod(self.shape, dtype=np.int64))


def short_encoding(largest: float, members: int) -> Encoding:
    """How values up to a power of two become numbers of 32 bits that so many members can add up."""
    spare = (members - 1).bit_length()
    return Encoding(31 - spare - (int(largest * 2**60).bit_length() - 61), 2 ** (31 - spare) - 1)


@dataclass(frozen=True)
class Layout:
    """The slots in their order; the same on all members and on the aggregator."""

    slots: Sequence[Slot]

    @property
    def sizes(self) -> dict[int, int]:
        """By the bits of a ring, the length of its vector; a ring without slots has none."""
        sizes = {64: _HEAD[64]}
        for slot in self.slots:
            sizes[slot.bits] = sizes.get(slot.bits, _HEAD[slot.bits]) + slot.size
        return sizes

    def encode(
        self, values: Mapping[str, Array], weight: int, references: Mapping[str, Array] | None = None
    ) -> dict[int, Vector]:
        """The vectors of one client; what it has no value for is 0. Raises OutOfRangeError for a value too large.

        With a reference, such as the global model's tensor, what is added up is the difference to it.
        """
        vectors = {bits: np.zeros(size, RINGS[bits]) for bits, size in self.sizes.items()}
        vectors[64][_CANARIES : _HEAD[64]] = 1, weight > 0, weight
        places = dict(_HEAD)
        for slot in self.slots:
            start = places[slot.bits]
            places[slot.bits] = start + slot.size
            if slot.name not in values or (slot.counts != "always" and weight == 0):
                continue
            origin = (references or {}).get(slot.name)
            try:
                times = weight if slot.counts == "weighted" else 1
                encoded = ring.encode(np.asarray(values[slot.name]), slot.encoding, origin, times)
            except OutOfRangeError as problem:
                raise OutOfRangeError(f"tensor {slot.name!r} has {problem}") from problem
            vectors[slot.bits][start : start + slot.size] = encoded.reshape(-1).view(np.uint64)
        return vectors

    def decode(self, vectors: Mapping[int, Vector], members: int) -> "Total":
        """What the sum over so many members holds; refuses one in which masks are left."""
        for bits, vector in vectors.items():
            if vector[:_CANARIES].any():
                raise ProtocolError(f"the masks of the {bits}-bit sum do not cancel")
        counted, contributors, weight = (int(number) for number in vectors[64][_CANARIES : _HEAD[64]])
        if counted != members or contributors > members:
            raise ProtocolError(f"the sum holds the vectors of {counted} members instead of {members}")
        sums = {}
        for slot, total in self._parts(vectors):
            largest = members * slot.encoding.limit
            if slot.bits == 32 and not -largest <= total.min(initial=0) <= total.max(initial=0) <= largest:
                raise ProtocolError(f"the sum of {slot.name!r} is larger than {members} members can make it")
            sums[slot.name] = total
        return Total(self, sums, contributors, weight)

    def read_as_plain(self, vectors: Mapping[int, Vector], name: str) -> Array | None:
        """A slot of one client's vectors for somebody who takes them for plain; None if there is no such slot.

        Of masked vectors this is noise, and all that an aggregator can make of them.
        """
        for slot, part in self._parts(vectors):
            if slot.name == name:
                return ring.decode(part.astype(np.int64), slot.encoding, slot.dtype)
        return None

    def _parts(self, vectors: Mapping[int, Vector]) -> Iterator[tuple[Slot, Array]]:
        """Each slot with its numbers: views of the vectors."""
        places = dict(_HEAD)
        for slot in self.slots:
            start = places[slot.bits]
            places[slot.bits] = start + slot.size
            part = vectors[slot.bits][start : start + slot.size]
            yield slot, part.view(_SIGNED[slot.bits]).reshape(slot.shape)


@dataclass(frozen=True)
class Total:
    """An opened sum."""

    layout: Layout
    sums: Mapping[str, Array]
    """By slot, the whole numbers that its values add up to: views of the vectors."""
    contributors: int
    weight: int

    def slot(self, name: str) -> Slot:
        """Where a tensor is, and how it is encoded."""
        return next(slot for slot in self.layout.slots if slot.name == name)

    def mean(self, name: str, divisor: int, reference: Array | None = None) -> Array:
        """A slot's sum divided by a number, rounded once."""
        slot = self.slot(name)
        return ring.decode(self.sums[name].astype(np.int64, copy=False), slot.encoding, slot.dtype, divisor, reference)
