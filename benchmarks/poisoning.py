"""What a few lying clients do to a federation, and how much of it robust means undo.

Real clients learn rotated digits in one process; the liars compute like the others and change what they send for both
stages: they turn the sign of their change of the model and of their buffer gradient, multiply both by ten, or send
values that are not numbers. One of five clients lies, or two of ten. The table compares every mean with the clean run:

    python -m benchmarks.poisoning --seeds 3 --out runs/poisoning

Finished runs are kept, and the same command goes on with the others.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import click
import numpy as np

from fedagem.errors import FederationError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run
from fedagem.runs.results import collect_results

_REPOSITORY = Path(__file__).resolve().parent.parent
Array = Any

ATTACKS: dict[str, Callable[[Array], Array]] = {
    "none": lambda change: change,
    "sign turned": lambda change: -change,
    "ten times": lambda change: 10 * change,
    "not numbers": lambda change: np.full_like(change, np.nan),
}
"""What a liar makes of its change of the model and of its buffer gradient."""
MEANS: dict[str, dict[str, Any] | None] = {
    "mean": None,
    "trimmed mean": {"kind": "trimmed_mean", "trim": 0.2},
    "median": {"kind": "median"},
    "clipped mean": {"kind": "clipped_mean"},
}
FEDERATIONS = {5: 1, 10: 2}
"""How many lie, by the number of clients."""


class LyingLink:
    """A link that changes what its client sends."""

    def __init__(self, link: Any, lie: Callable[[Array], Array]) -> None:
        self._link = link
        self._lie = lie

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def send(self, round_number: int, task: str, tensors: dict[Any, Array]) -> None:
        """Send a lie in place of the model and of g_ref; counts and metrics stay."""
        from src.task_results import EXCHANGE, MODEL, TRAINED

        told = dict(tensors)
        for key, array in tensors.items():
            if key.tags == EXCHANGE:
                told[key] = self._lie(array)
            elif key.tags == TRAINED and array.dtype.kind == "f":
                old = self._link.fetch(key.tensor_name, round_number, MODEL)
                told[key] = old + self._lie(array - old)
        self._link.send(round_number, task, told)


@click.command()
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/poisoning"), show_default=True)
@click.option("--rounds-per-task", type=click.IntRange(min=1), default=4, show_default=True)
def main(seeds: int, out: Path, rounds_per_task: int) -> None:
    """Run every attack against every mean, and print the table."""
    sys.path.insert(0, str(_REPOSITORY / "workspace"))
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    log = out / "accuracies.jsonl"
    cases = [
        (clients, attack, kind, seed)
        for seed in range(seeds)
        for clients in FEDERATIONS
        for attack in ATTACKS
        for kind in MEANS
    ]
    known = _read(log)
    for number, case in enumerate(cases, start=1):
        if case not in known:
            known[case] = _accuracy(out, rounds_per_task, *case)
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps([*case, known[case]]) + "\n")
        click.echo(f"{number} of {len(cases)}: {case}: {_cell([known[case]])} %", err=True)
    click.echo(_table(known, seeds))


def _accuracy(out: Path, rounds_per_task: int, clients: int, attack: str, kind: str, seed: int) -> float | None:
    """The mean accuracy over all tasks at the end of a run; None if the federation could not go on."""
    from openfl.federated import Plan as OpenFLPlan

    from src.simulate import build_federation, run_rounds

    plan = Plan.load(_REPOSITORY / "plan" / "rotated_digits.yaml").changed(
        {
            "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
            "task_runner.settings.optimizer.lr": 0.1,
            "task_runner.settings.method": "fedavg",
            "data_loader.settings.clients": clients,
            "data_loader.settings.tasks.count": 3,
            "aggregator.settings.robust": MEANS[kind],
        },
        seed=seed,
        rounds=3 * rounds_per_task,
    )
    check_plan(plan)
    directory = out / f"{clients}-{attack}-{kind}-{seed}".replace(" ", "_")
    shutil.rmtree(directory, ignore_errors=True)
    create_run(directory, plan)
    os.chdir(directory)
    parsed = OpenFLPlan.parse(*(Path("plan") / f"{name}.yaml" for name in ("plan", "cols", "data")))
    aggregator, members = build_federation(parsed)
    for name in members.names[: FEDERATIONS[clients] if attack != "none" else 0]:
        liar = members.named(name)
        liar.link = LyingLink(liar.link, ATTACKS[attack])
    try:
        run_rounds(aggregator, members)
    except FederationError as stopped:
        click.echo(stopped.message, err=True)
        return None
    finally:
        assert aggregator._lock is not None
        aggregator._lock.close()
    return float(collect_results(directory).accuracy["domain_il"])


def _read(log: Path) -> dict[tuple[int, str, str, int], float | None]:
    if not log.exists():
        return {}
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return {(clients, attack, kind, seed): value for clients, attack, kind, seed, value in rows}


def _table(known: dict[tuple[int, str, str, int], float | None], seeds: int) -> str:
    lines = [f"| clients | attack | {' | '.join(MEANS)} |", f"|---|---|{'---:|' * len(MEANS)}"]
    for clients, liars in FEDERATIONS.items():
        for attack in ATTACKS:
            cells = [_cell([known[clients, attack, kind, seed] for seed in range(seeds)]) for kind in MEANS]
            who = f"{clients}, {'nobody lies' if attack == 'none' else f'{liars} lie' + 's' * (liars == 1)}"
            lines.append(f"| {who} | {attack} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: list[float | None]) -> str:
    """Mean and deviation of those that came to their end, and how many did not."""
    ended = [100 * value for value in values if value is not None]
    stopped = f"{len(values) - len(ended)} stopped" if len(ended) < len(values) else ""
    if not ended:
        return stopped
    spread = f" ± {stdev(ended):.1f}" if len(ended) > 1 else ""
    return f"{mean(ended):.1f}{spread}{f' ({stopped})' if stopped else ''}"


if __name__ == "__main__":
    main()
