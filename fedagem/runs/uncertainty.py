"""How sure a level is: 95 % intervals over other draws of the evaluation frames and, with several runs, of these."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedagem.runs.metrics_log import LOST, moments
from fedagem.seeding import derive_seed

Drawn = NDArray[np.float64]
"""A value for each draw."""
Interval = tuple[float, float]

_TAILS = (0.025, 0.975)


def drawn_levels(name: str, draws: Mapping[int, Sequence[float]], shift: int | None) -> dict[str, Drawn]:
    """The levels of `metrics_log.levels` on each draw of the frames, from the draws by round."""
    levels = {
        moment: np.mean([draws[number] for number in rounds], axis=0)
        for moment, rounds in moments(name, draws, shift).items()
    }
    if {"before", "after"} <= levels.keys():
        levels[LOST] = levels["before"] - levels["after"]
    return levels


def drawn_mean(runs: Sequence[Drawn]) -> Drawn:
    """The mean over runs, for each draw of the frames on another draw of the runs; runs must share their frames.

    The draws of the runs are always the same, so that means over paired runs can be subtracted.
    """
    values = np.stack(runs)
    number, draws = values.shape
    chosen = np.random.default_rng(derive_seed(0, "drawn runs", number)).integers(number, size=(number, draws))
    mean: Drawn = values[chosen, np.arange(draws)].mean(axis=0)
    return mean


def interval(drawn: Drawn) -> Interval:
    """Where 95 % of the draws are."""
    low, high = np.quantile(drawn, _TAILS)
    return float(low), float(high)
