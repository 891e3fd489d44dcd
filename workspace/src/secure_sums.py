"""A stage's results as vectors that can be masked, and what an opened sum of such vectors stands for."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedagem.aggregation.ring import HEAVIEST, Encoding, OutOfRangeError, model_bound
from fedagem.learning.methods import find_method
from fedagem.plans.plan import Plan
from fedagem.runs.metrics_log import BUFFER, LOSS, REFINED_SHARE, SAMPLES
from fedagem.secagg.layout import Layout, Slot, Total, short_encoding
from fedagem.secagg.masks import RINGS, Vector
from fedagem.secagg.settings import SecureAggregation
from fedagem.tasks.settings import StreamSettings
from src.averaging import Weighting, weight_of
from src.task_results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT, Array, Expected, Result

logger = logging.getLogger(__name__)

_METRICS = {"train": (LOSS, REFINED_SHARE, SAMPLES, BUFFER)}
"""By the function of a task, the metrics that are summed: those that all clients have, and that a repeated round gives
again. How long something took is another number each time, and two of them under one mask would show their difference.
"""
_LARGEST_METRIC = 2.0**30
_COARSE = 0.05
"""Steps of so much of a gradient's size turn it by more than a degree."""
_STATISTICS = ("running_mean", "running_var")
"""What batch normalisation keeps: not weights that move a little, and few, so that they are summed in 64 bits."""


@dataclass(frozen=True)
class SumShape:
    """Everything that the vectors of a stage depend on; the same on the aggregator and on every member."""

    function: str
    asked: Expected
    """What each client sends, with the model that the round began with."""
    members: int
    weighting: Weighting
    settings: SecureAggregation
    counted: Mapping[str, tuple[int, int]]
    """What an evaluation counts, by name: as many pairs as there are tasks."""

    def layout(self) -> Layout:
        """Where each tensor goes; with 64 bits, encoded as a plain sum encodes it."""
        heaviest = HEAVIEST if self.weighting == "samples" else 1
        bound, members, short = model_bound(self.members, heaviest), self.members, self.settings.bits == 32
        slots = []
        for name, array in sorted(self.asked.model.items()):
            if short and array.dtype == np.float32 and not name.endswith(_STATISTICS):
                moved = short_encoding(self.settings.range.model, members)
                slots.append(Slot(f"model/{name}", array.shape, array.dtype, moved, 32))
            else:
                exact = Encoding.of(array.dtype, bound, members, heaviest)
                slots.append(Slot(f"model/{name}", array.shape, array.dtype, exact))
        for exchange in self.asked.exchanges:
            slot = f"exchange/{exchange.name}"
            if short and exchange.name == "g_ref":
                gradient = short_encoding(self.settings.range.g_ref, members)
                slots.append(Slot(slot, exchange.shape, np.float32, gradient, 32))
            else:
                times = heaviest if exchange.combine == "mean" else 1
                encoding = Encoding.of(np.float32, exchange.bound, members, times)
                counts: Literal["weighted", "once"] = "weighted" if exchange.combine == "mean" else "once"
                slots.append(Slot(slot, exchange.shape, np.float32, encoding, counts=counts))
        return Layout([*slots, *self._measured_slots()])

    def _measured_slots(self) -> list[Slot]:
        slots, whole = [], Encoding.of(np.int64, 1.0, self.members)
        if self.settings.metrics == "mean":
            value = Encoding.of(np.float64, _LARGEST_METRIC, self.members)
            for name in _METRICS.get(self.function, ()):
                slots.append(Slot(f"metric/{name}", (), np.float64, value, counts="always"))
                slots.append(Slot(f"measured/{name}", (), np.int64, whole, counts="always"))
        if self.function == "evaluate":
            slots += [Slot(f"ratio/{name}", shape, np.int64, whole, counts="always") for name, shape in self._counted()]
        return slots

    def _counted(self) -> list[tuple[str, tuple[int, int]]]:
        return sorted(self.counted.items())

    def encode(self, result: Result | None) -> tuple[dict[int, Vector], bool]:
        """A client's vectors, and whether it contributes; zeros if it has no result.

        Raises OutOfRangeError, with the tensor and its value, if one is too large.
        """
        layout = self.layout()
        if result is None:
            return layout.encode({}, 0), False
        weight = weight_of(result, self.weighting)
        values: dict[str, Array] = {f"model/{name}": array for name, array in result[TRAINED].items()}
        values |= {f"exchange/{name}": array for name, array in result[EXCHANGE].items()}
        values |= {f"ratio/{name}": array for name, array in result[RATIO].items() if name in self.counted}
        for name, array in result[METRIC].items():
            if array.size == 1 and np.isfinite(array).all() and abs(float(array)) < _LARGEST_METRIC:
                values |= {f"metric/{name}": array.reshape(()), f"measured/{name}": np.array(1)}
        references = {f"model/{name}": array for name, array in self.asked.model.items()}
        return layout.encode(values, weight, references), weight > 0

    def fault_of(self, result: Result) -> str | None:
        """Why the counts of an evaluation cannot be summed, in a few words; None if they can."""
        given = {name: array.shape for name, array in result[RATIO].items()}
        if self.function == "evaluate" and given != dict(self.counted):
            return f"it counts {given} instead of {dict(self.counted)}"
        return None


class OpenedSum:
    """What a stage's results add up to, as far as it was opened: the same answers as a plain sum gives."""

    def __init__(self, shape: SumShape, total: Total | None, withheld: int = 0) -> None:
        """Without a total nothing was opened, and nobody counts, whoever had something to contribute (`withheld`)."""
        self._shape = shape
        self._total = total
        self.withheld = withheld
        self.contributors = 0 if total is None else total.contributors

    @property
    def empty(self) -> bool:
        """Whether there is nothing to average."""
        return not self.contributors

    def model(self) -> dict[str, Array]:
        """The clients' average of the model; nothing if the task sends none, or if nobody counts."""
        if self._total is None or not self.contributors:
            return {}
        weight = self._total.weight
        return {
            name: self._total.mean(f"model/{name}", weight, array) for name, array in self._shape.asked.model.items()
        }

    def combined(self) -> dict[str, Array]:
        """What the exchanged tensors add up to, as each was announced; zeros if nobody counts."""
        combined = {}
        for exchange in self._shape.asked.exchanges:
            if self._total is None or not self.contributors:
                combined[exchange.name] = np.zeros(exchange.shape, np.float32)
            else:
                divisor = self._total.weight if exchange.combine == "mean" else 1
                combined[exchange.name] = self._total.mean(f"exchange/{exchange.name}", divisor)
                _warn_if_coarse(self._total, exchange.name, combined[exchange.name])
        return combined

    def measured(self) -> Result:
        """What all clients measured and counted together: means of metrics, and sums of counts."""
        metrics: dict[str, Array] = {}
        ratios: dict[str, Array] = {}
        if self._total is not None:
            for name in self._total.sums:
                kind, _, rest = name.partition("/")
                if kind == "metric" and (count := int(self._total.sums[f"measured/{rest}"])):
                    metrics[rest] = self._total.mean(name, count)
                elif kind == "ratio":
                    ratios[rest] = self._total.sums[name]
        return {RATIO: ratios, METRIC: metrics, WEIGHT: {}}


def _warn_if_coarse(total: Total, name: str, mean: Array) -> None:
    """Say that a gradient is so small that 32 bits change its direction."""
    slot = total.slot(f"exchange/{name}")
    size = float(np.sqrt(np.mean(np.square(mean, dtype=np.float64))))
    if slot.bits == 32 and size > 0 and (coarse := 2.0**-slot.encoding.bits / size) > _COARSE:
        logger.warning(
            "The steps of 32 bits are %.0f %% of the size of %s: choose a smaller range, or 64 bits", 100 * coarse, name
        )


class UnmaskedSums:
    """The sums of a protected stage in a simulation: the same arithmetic without masks, as all is in one process."""

    def __init__(self, task: str, shape: SumShape) -> None:
        self._task = task
        self._shape = shape
        self._layout = shape.layout()
        self._vectors = {bits: np.zeros(size, RINGS[bits]) for bits, size in self._layout.sizes.items()}
        self._members = 0
        self.contributors = 0

    def __getitem__(self, task: str) -> OpenedSum:
        assert task == self._task
        if self.contributors < self._shape.settings.min_contributors:
            return OpenedSum(self._shape, None, withheld=self.contributors)
        return OpenedSum(self._shape, self._layout.decode(self._vectors, self._members))

    def add(self, client: str, task: str, result: Result) -> None:
        """Add a checked result; raises OutOfRangeError, and leaves nothing of it, if it has a value too large."""
        if fault := self._shape.fault_of(result):
            raise OutOfRangeError(fault)
        vectors, contributes = self._shape.encode(result)
        for bits, vector in vectors.items():
            np.add(self._vectors[bits], vector, out=self._vectors[bits])
        self._members += 1
        self.contributors += contributes

    def forget(self, client: str) -> None:
        """A refused client has left nothing behind."""


def counted_in(plan: Plan) -> dict[str, tuple[int, int]]:
    """What evaluations of a plan count, by scenario: correct answers and samples for each task."""
    if not isinstance(plan.data, StreamSettings):
        return {}
    classes_differ = plan.data.tasks.kind == "sequential" and plan.data.tasks.count > 1
    names = ("class_il", "task_il") if classes_differ else ("domain_il",)
    scored = find_method(plan.training.method).scenarios
    return {name: (plan.data.tasks.count, 2) for name in names if name in scored}
