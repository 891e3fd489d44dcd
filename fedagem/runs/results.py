"""What a run has shown: results.json and results.csv, derived from its metrics.jsonl and its plan and nothing else."""

import csv
import dataclasses
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedagem.errors import FedAGemError
from fedagem.files import write_file
from fedagem.learning.metrics import summarise
from fedagem.learning.trainer import method_label
from fedagem.plans.plan import Plan
from fedagem.runs.folder import plan_of_run
from fedagem.runs.metrics_log import (
    ACCURACY,
    AP_50,
    BUFFER_GRADIENT_SECONDS,
    BYTES_DOWN,
    BYTES_UP,
    END_TASK_SECONDS,
    EPSILON,
    FEDERATION,
    LOG_NAME,
    MAP_50,
    NOISE_LENGTH,
    OBJECTS,
    REFINED_SHARE,
    SECONDS,
    TRAIN_SECONDS,
    MetricRow,
    class_curves_of,
    curves_of,
    draws_of,
    last_evaluation,
    levels,
    read_metrics,
    scenarios,
    total,
)
from fedagem.runs.uncertainty import Interval, drawn_levels, interval
from fedagem.tasks.settings import StreamSettings

_COUNTED = ("rounds", "clients", "seconds", "train_seconds", "client_seconds", "end_task_seconds")
CONTINUAL_METRICS = ("accuracy", "forgetting", "bwt", "fwt")
"""The paper's metrics of continual learning, as fields of `Results`."""


@dataclass(frozen=True)
class Results:
    """Everything that results.json holds; parts that the run has not measured are empty, and absent from the file."""

    plan: str
    method: str
    fedagem: bool
    seed: int
    rounds: int
    clients: int
    model: str
    seconds: float
    """Of all stages."""
    train_seconds: float
    """Of training, summed over the clients."""
    client_seconds: float
    """Of training and of the buffer gradient, which only Fed-A-GEM needs, summed over the clients."""
    refined_share: float
    bytes: dict[str, float]
    """Mean bytes that one client moves `down` and `up` in one round."""
    end_task_seconds: float = 0.0
    """Of what the method does at the ends of tasks, summed over the clients."""
    kept_bytes: dict[str, float] = field(default_factory=dict)
    """What is on disk after the last round: of a `client` on average, buffer and method; of the `server`, with the
    model."""
    accuracy_matrix: dict[str, list[list[float]]] = field(default_factory=dict)
    """By scenario: the accuracy on each task after each task, beginning with the untrained model."""
    accuracy: dict[str, float] = field(default_factory=dict)
    """By scenario, like the next three; None if the paper defines no value."""
    forgetting: dict[str, float | None] = field(default_factory=dict)
    bwt: dict[str, float | None] = field(default_factory=dict)
    fwt: dict[str, float | None] = field(default_factory=dict)
    shift_round: int | None = None
    map_50: dict[str, dict[str, float]] = field(default_factory=dict)
    """By domain and moment: `before` and `after` the shift, what was `lost` between them, and at the `end`; only at the
    end if no evaluation followed a shift."""
    ap_50: dict[str, dict[str, float]] = field(default_factory=dict)
    """The same by domain and class, such as `city/vehicle`."""
    objects: dict[str, int] = field(default_factory=dict)
    """How many objects there were to find, by domain and class."""
    privacy: dict[str, float] = field(default_factory=dict)
    """With differential privacy: the `epsilon` that was spent and its `delta`, the settings `noise`, `model_clip` and
    `g_ref_clip`, and `noise_length`, how long the noise is compared with all that clients could contribute."""
    intervals: dict[str, dict[str, Interval]] = field(default_factory=dict)
    """Where 95 % of other draws of the evaluation frames are, by metric, such as `map_50/city`, and moment."""

    @property
    def label(self) -> str:
        """What the run's method is called in tables and legends."""
        return method_label(self.method, self.fedagem)

    def interval(self, name: str, scope: str, moment: str) -> Interval | tuple[()]:
        """The interval of a level; empty if the run has none."""
        return self.intervals.get(f"{name}/{scope}", {}).get(moment, ())

    def to_json(self) -> dict[str, Any]:
        """The content of results.json."""
        content = dataclasses.asdict(self)
        for name in ("accuracy_matrix", *CONTINUAL_METRICS, "map_50", "ap_50", "objects", "privacy", "intervals"):
            if not content[name]:
                del content[name]
        if not self.map_50:
            del content["shift_round"]
        return content


@dataclass(frozen=True)
class Scalar:
    """One number of the results: a row of results.csv.

    The first four columns say which run it is, so the files of many runs can be concatenated. `name` is the number's
    name in results.json, with `_low` and `_high` for the bounds of its interval. `scope` is the scenario of an
    accuracy, the domain of a mAP, the domain and class of an AP, the direction of bytes or who keeps
    them. `task` (from 1) is only for
    `accuracy_matrix`. `moment` says when a score was measured: `before` or `after` the shift, `lost` between them,
    `end`, or `after_task_2` for `accuracy_matrix`, of which `after_task_0` is the untrained model. What does not apply
    is empty; numbers that are not defined have no row.
    """

    plan: str
    method: str
    fedagem: bool
    seed: int
    name: str
    scope: str
    task: int | None
    moment: str
    value: float


def accuracy_matrix(rows: Iterable[MetricRow], scenario: str, rounds_per_task: int) -> list[list[float]]:
    """a[t][i] at the task ends, row 0 being the untrained model."""
    by_rounds = {row.trained: list(row.several) for row in rows if row.metric == f"{ACCURACY}{scenario}"}
    matrix: list[list[float]] = []
    while len(matrix) * rounds_per_task in by_rounds:
        matrix.append(by_rounds[len(matrix) * rounds_per_task])
    return matrix


def collect_results(directory: Path) -> Results:
    """Derive the results from what the run has measured so far."""
    plan, rows = plan_of_run(directory), read_metrics(directory)
    return Results(
        plan=plan.name,
        method=plan.training.method,
        fedagem=plan.training.fedagem,
        seed=plan.seed,
        rounds=1 + max((row.round for row in rows), default=-1),
        clients=len({row.client for row in rows} - {FEDERATION}),
        model=plan.training.model.template,
        seconds=total(rows, SECONDS),
        train_seconds=total(rows, TRAIN_SECONDS),
        client_seconds=total(rows, TRAIN_SECONDS, BUFFER_GRADIENT_SECONDS),
        refined_share=_mean_or_zero([row.value for row in rows if row.metric == REFINED_SHARE]),
        bytes=_bytes_per_client_and_round(rows),
        end_task_seconds=total(rows, END_TASK_SECONDS),
        kept_bytes=_kept_bytes(directory),
        privacy=_privacy(rows, plan),
        **_continual_metrics(rows, plan),
        **_detection_metrics(rows, plan),
    )


def write_results(directory: Path) -> Results:
    """Derive the results and write results.csv and results.json, each replaced as a whole.

    results.json comes last: its rounds say whether a run is finished.
    """
    results = collect_results(directory)
    write_file(directory / "results.csv", csv_of(scalars(results)))
    write_file(directory / "results.json", json.dumps(results.to_json(), indent=2))
    return results


def write_final_results(directory: Path) -> Results:
    """Write the results of a run that has come to its end; refuses a run without all of its rounds."""
    results = write_results(directory)
    wanted = plan_of_run(directory).aggregator.rounds_to_train
    if results.rounds < wanted:
        raise FedAGemError(
            f"{directory / LOG_NAME} holds {results.rounds} of {wanted} rounds although the run has ended: "
            "its rows were lost; start it again in another folder (--out)."
        )
    return results


def rounds_in_results(directory: Path) -> int:
    """How many rounds results.json is about; 0 if there is none, or a damaged one."""
    try:
        return int(json.loads((directory / "results.json").read_text(encoding="utf-8"))["rounds"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def scalars(results: Results) -> list[Scalar]:
    """Every number of the results, in the order of results.json."""
    run = (results.plan, results.method, results.fedagem, results.seed)
    return [Scalar(*run, name, scope, task, moment, value) for name, scope, task, moment, value in _numbers(results)]


def csv_of(rows: Sequence[Scalar]) -> str:
    """A heading and a line for each number, with full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in dataclasses.fields(Scalar))
    writer.writerows(dataclasses.astuple(row) for row in rows)
    return text.getvalue()


def _numbers(results: Results) -> Iterator[tuple[str, str, int | None, str, float]]:
    """The name, scope, task, moment and value of each number."""
    for name in (*_COUNTED, "refined_share"):
        yield name, "", None, "", getattr(results, name)
    for name in ("bytes", "kept_bytes"):
        for scope, value in getattr(results, name).items():
            yield name, scope, None, "", value
    for scenario, matrix in results.accuracy_matrix.items():
        for learned, accuracies in enumerate(matrix):
            for task, accuracy in enumerate(accuracies, start=1):
                yield "accuracy_matrix", scenario, task, f"after_task_{learned}", accuracy
    for name in CONTINUAL_METRICS:
        for scenario, score in getattr(results, name).items():
            if score is not None:
                yield name, scenario, None, "end", score
    for name, value in results.privacy.items():
        yield name, "privacy", None, "end", value
    yield from _detection_numbers(results)


def _detection_numbers(results: Results) -> Iterator[tuple[str, str, None, str, float]]:
    if results.shift_round is not None:
        yield "shift_round", "", None, "", results.shift_round
    for name in ("map_50", "ap_50"):
        for scope, by_moment in getattr(results, name).items():
            for moment, level in by_moment.items():
                yield name, scope, None, moment, level
                for bound, limit in zip(("low", "high"), results.interval(name, scope, moment), strict=False):
                    yield f"{name}_{bound}", scope, None, moment, limit
    for scope, count in results.objects.items():
        yield "objects", scope, None, "", count


def _continual_metrics(rows: Sequence[MetricRow], plan: Plan) -> dict[str, Any]:
    if not isinstance(plan.data, StreamSettings):
        return {}
    metrics: dict[str, dict[str, Any]] = defaultdict(dict)
    for scenario in scenarios(rows):
        matrix = accuracy_matrix(rows, scenario, plan.data.rounds_per_task)
        metrics["accuracy_matrix"][scenario] = matrix
        if len(matrix) > 1:
            for metric, value in dataclasses.asdict(summarise(matrix)).items():
                metrics[metric][scenario] = value
    return dict(metrics)


def _detection_metrics(rows: Sequence[MetricRow], plan: Plan) -> dict[str, Any]:
    """mAP by domain and AP by class, before and after the shift if an evaluation followed it; nothing without mAP."""
    curves = {name: curve for name, curve in curves_of(rows).items() if name.startswith(MAP_50)}
    last = last_evaluation([curves])
    if last is None:
        return {}
    shift = plan.workload.shift_round
    divided = shift if shift is not None and last > shift else None
    drawn = {name: drawn_levels(name, draws, divided) for name, draws in draws_of(rows).items()}
    return {
        "shift_round": shift,
        "map_50": {name.removeprefix(MAP_50): levels(name, curve, divided) for name, curve in curves.items()},
        "ap_50": {
            name.removeprefix(AP_50): levels(name, curve, divided) for name, curve in class_curves_of(rows).items()
        },
        "objects": {row.part: int(row.value) for row in rows if row.metric.startswith(OBJECTS)},
        "intervals": {
            name: {moment: interval(values) for moment, values in by_moment.items()}
            for name, by_moment in drawn.items()
        },
    }


def _privacy(rows: Sequence[MetricRow], plan: Plan) -> dict[str, float]:
    """What the aggregator has logged of the account; nothing before the first release."""
    logged = {row.metric: row.value for row in rows if row.metric in {EPSILON, NOISE_LENGTH}}
    chosen = plan.aggregator.privacy
    return {} if chosen is None or not logged else {**logged, **chosen.model_dump()}


def _mean_or_zero(values: list[float]) -> float:
    return sum(values) / max(len(values), 1)


def _bytes_per_client_and_round(rows: Sequence[MetricRow]) -> dict[str, float]:
    clients = {row.client for row in rows if row.metric == BYTES_UP}
    turns = max(len(clients) * len({row.round for row in rows}), 1)
    return {direction: total(rows, metric) / turns for direction, metric in (("down", BYTES_DOWN), ("up", BYTES_UP))}


def _kept_bytes(directory: Path) -> dict[str, float]:
    """The newest state of each client, and the server's checkpoint; nothing of a run that has not begun."""
    checkpoint = directory / "save" / "checkpoint.state"
    if not checkpoint.exists():
        return {}
    states = [max(folder.glob("*.state"), default=None) for folder in (directory / "local_state").glob("*")]
    sizes = [state.stat().st_size for state in states if state is not None]
    return {"client": _mean_or_zero([float(size) for size in sizes]), "server": float(checkpoint.stat().st_size)}
