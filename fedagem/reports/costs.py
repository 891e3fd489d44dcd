"""What runs cost: time by stage, traffic, and the recordings and the warm-up that came before their rounds."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.runs.folder import is_run, plan_of_run
from fedagem.runs.metrics_log import BYTES_DOWN, BYTES_UP, LOG_NAME, SECONDS, read_metrics, total

_MEGABYTE = 2**20


@dataclass(frozen=True)
class Costs:
    """What the rounds of one run cost."""

    seconds: dict[str, float]
    """By stage."""
    megabytes_up: float
    megabytes_down: float


def costs_of(directory: Path) -> Costs:
    """Sum up what the run has measured."""
    rows = read_metrics(directory)
    seconds: dict[str, float] = defaultdict(float)
    for row in rows:
        if row.metric == SECONDS:
            seconds[row.stage] += row.value
    return Costs(dict(seconds), total(rows, BYTES_UP) / _MEGABYTE, total(rows, BYTES_DOWN) / _MEGABYTE)


def preparation_seconds(directories: Sequence[Path]) -> dict[str, float]:
    """Seconds by the name of each recording and warm-up that is still here; shared ones count once."""
    found: dict[Path, float] = {}
    for directory in directories:
        plan = plan_of_run(directory)
        warmed_up = _warm_up_run(plan)
        if warmed_up is not None:
            found |= _recordings(plan_of_run(warmed_up))
            found[warmed_up] = total(read_metrics(warmed_up), SECONDS)
        found |= _recordings(plan)
    return {place.name: seconds for place, seconds in found.items()}


def _warm_up_run(plan: Plan) -> Path | None:
    """The run whose last model the plan begins with."""
    model = plan.training.initial_model
    if plan.warm_up is None or model is None:
        return None
    run = Path(model).parent.parent
    return run if (run / LOG_NAME).exists() and is_run(run) else None


def _recordings(plan: Plan) -> dict[Path, float]:
    """How long each recording of the plan's frames took, as `carla-bridge record` wrote it down."""
    if not isinstance(plan.data, DrivingSettings):
        return {}
    paths = [path for legs in plan.data.snippets.values() for leg in legs for path in leg.paths]
    paths += [path for folders in plan.data.evaluation.paths.values() for path in folders]
    found: dict[Path, float] = {}
    for place in dict.fromkeys(Path(path).parent for path in paths):
        try:
            found[place] = float(json.loads((place / "recording.json").read_text(encoding="utf-8"))["wall_seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
