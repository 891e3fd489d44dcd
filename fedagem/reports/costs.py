"""What runs cost: time by stage, traffic, methods beside FedAvg, and recordings and warm-ups before the rounds."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.runs.folder import is_run, plan_of_run
from fedagem.runs.metrics_log import BYTES_DOWN, BYTES_UP, LOG_NAME, SECONDS, read_metrics, total
from fedagem.runs.results import Results

_MEGABYTE = 2**20


@dataclass(frozen=True)
class MethodCosts:
    """What a method costs, as means over clients, rounds and runs."""

    seconds: float
    """Of a client's work in a round: buffer gradient, training and its share of the ends of tasks."""
    bytes_up: float
    """That a client sends in a round."""
    bytes_down: float
    client_bytes: float | None
    """That a client keeps between rounds, in the end; None of runs that were not told."""
    server_bytes: float | None
    """That the server keeps between rounds, the model included."""

    @classmethod
    def of(cls, runs: Sequence[Results]) -> "MethodCosts":
        """Of runs that differ in nothing but their seed."""

        def kept(where: str) -> float | None:
            sizes = [run.kept_bytes[where] for run in runs if where in run.kept_bytes]
            return mean(sizes) if sizes else None

        turns = [max(run.clients * run.rounds, 1) for run in runs]
        seconds = [(run.client_seconds + run.end_task_seconds) / n for run, n in zip(runs, turns, strict=True)]
        up, down = (mean(run.bytes[direction] for run in runs) for direction in ("up", "down"))
        return cls(mean(seconds), up, down, kept("client"), kept("server"))


COLUMNS: dict[str, Callable[[MethodCosts], float | None]] = {
    "seconds": lambda costs: costs.seconds,
    "MB up": lambda costs: costs.bytes_up / _MEGABYTE,
    "MB down": lambda costs: costs.bytes_down / _MEGABYTE,
    "MB a client keeps": lambda costs: None if costs.client_bytes is None else costs.client_bytes / _MEGABYTE,
    "MB the server keeps": lambda costs: None if costs.server_bytes is None else costs.server_bytes / _MEGABYTE,
}
"""What a table of methods shows of each."""
EXPLAINED = (
    "seconds and traffic are those of one client in one round, on average; seconds are by the clock, so other work on "
    "the machine counts; what is kept is the size of the states on disk, buffers included; in brackets multiples of "
    "what FedAvg needs"
)


def cost_rows(methods: Mapping[str, MethodCosts], baseline: str | None) -> list[list[str]]:
    """The name of each method and its cells; in brackets how many times the baseline's, if that has anything."""
    reference = methods.get(baseline) if baseline is not None else None
    return [
        [name, *(_cell(column(costs), column(reference) if reference else None) for column in COLUMNS.values())]
        for name, costs in methods.items()
    ]


def _cell(value: float | None, reference: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" + (f" ({value / reference:.2f}x)" if reference else "")


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
