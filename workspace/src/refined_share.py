"""Notices when suddenly many more gradients conflict with g_ref than before, as if a client had sent a wrong one."""

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import mean, median

from fedagem.runs.metrics_log import REFINED_SHARE
from src.task_results import METRIC, Result

logger = logging.getLogger(__name__)

_JUMP = 0.3
_REMEMBERED = 5


class RefinedShareWatch:
    """Compares the share of refined batches of a round with that of the rounds before it."""

    def __init__(self) -> None:
        self._before: deque[float] = deque(maxlen=_REMEMBERED)

    def look(self, round_number: int, results: Mapping[str, Result]) -> None:
        """Warn of a jump; rounds in which nothing was refined, such as those without g_ref, are left out."""
        shares = list(_shares(results.values()))
        if not shares or not (share := mean(shares)):
            return
        usual = median(self._before) if self._before else share
        if share - usual > _JUMP:
            logger.warning(
                "Round %s: %.0f %% of the gradients conflicted with g_ref, %.0f %% in the rounds before. A new task "
                "can do that, and so can a client that sends a wrong buffer gradient: aggregator.settings.robust "
                "protects against the latter and logs each client's cosine.",
                round_number,
                100 * share,
                100 * usual,
            )
        self._before.append(share)


def _shares(results: Iterable[Result]) -> Iterable[float]:
    return (float(result[METRIC][REFINED_SHARE]) for result in results if REFINED_SHARE in result[METRIC])
