"""Break federations for a chosen time: `python -m chaos --minutes 30 --out runs/chaos`; called again, it adds up."""

import contextlib
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from chaos.breaking import HAND_FAULTS, Breaking
from chaos.clock import Clock
from chaos.ledger import attempts_table, faults_line, kills_table, read_ledger
from chaos.subjects import Subject, hold_port, make_digits, make_drive, make_live, make_reference
from fedagem.learning import LEARNING_VERSION
from fedagem.runs.processes import stop_on_sigterm

_ROUNDS = {"digits": 30, "drive": 12, "live": 12}
_DISK = "size=96m"
_ON_SMALL_DISK = 0.25
"""How many of the attempts by hand: writes take longer on a real one, so that more kills fall into them."""
_WITH_CLOCK = 0.1
"""How many of the attempts by hand: their processes cannot be forked from one that has imported the libraries."""
_WEIGHTS = {"digits, by hand": 5, "digits, run": 2, "drive, by hand": 2, "drive, run": 1, "live, run": 1}


@click.command()
@click.option("--minutes", type=float, default=30.0, show_default=True, help="How long new attempts are begun.")
@click.option("--faults", type=click.IntRange(min=1), default=8, show_default=True, help="In each attempt.")
@click.option("--only", multiple=True, type=click.Choice(list(_WEIGHTS)), help="Break only these.")
@click.option("--fault", "kinds", multiple=True, type=click.Choice(list(HAND_FAULTS)), help="Cause only these.")
@click.option("--seed", type=int, help="Of the first attempt; the next has the next one.")
@click.option("--rounds", type=click.IntRange(min=5), help="Of digits, instead of 30.")
@click.option("--cold", is_flag=True, help="Start every process from nothing.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/chaos"), show_default=True)
def main(
    minutes: float,
    faults: int,
    only: tuple[str, ...],
    kinds: tuple[str, ...],
    seed: int | None,
    rounds: int | None,
    cold: bool,
    out: Path,
) -> None:
    """Break federations, write a ledger and evidence to OUT, and end with exit code 1 if anything went wrong."""
    stop_on_sigterm()
    out = out.resolve()
    began = time.monotonic()
    number = random.SystemRandom().randrange(10**6) if seed is None else seed
    ledger, failed = out / "ledger.jsonl", 0
    with _workshop() as (folder, disk):
        subjects = _make_subjects(out / "undisturbed", only or tuple(_WEIGHTS), rounds or _ROUNDS["digits"])
        while True:
            subject, small = _chosen(subjects, number)
            disk_of_it = disk if small or "full disk" in kinds else None
            run = (disk_of_it or folder) / f"attempt-{number}"
            with hold_port() as port:
                subject.lay_out(run, port.number)
                clock = Clock(folder) if _gets_a_clock(subject, number, kinds) else None
                breaking = Breaking(subject, run, number, disk_of_it, warm=not cold, kinds=kinds, clock=clock)
                attempt = breaking.attempt(faults, out / "evidence" / str(number))
            shutil.rmtree(run, ignore_errors=True)
            attempt.append_to(ledger)
            failed += bool(attempt.problems)
            said = ", ".join([f"{len(attempt.kills)} kills", *attempt.problems]) or "undisturbed"
            click.echo(f"{attempt.subject}, seed {number}: {attempt.outcome} in {attempt.seconds:g} s, {said}")
            number += 1
            if time.monotonic() - began > 60 * minutes:
                break
    attempts = read_ledger(ledger)
    click.echo(f"\n{kills_table(attempts)}\n\n{attempts_table(attempts)}\n\nother faults: {faults_line(attempts)}")
    if failed:
        raise SystemExit(f"{failed} attempts went wrong: see {out / 'evidence'}")


def _chosen(subjects: list[Subject], seed: int) -> tuple[Subject, bool]:
    """What is broken next, and whether on the small file system."""
    chance = random.Random(f"subject {seed}")
    subject = chance.choices(subjects, [_WEIGHTS[one.name] for one in subjects])[0]
    return subject, subject.by_hand and chance.random() < _ON_SMALL_DISK


def _gets_a_clock(subject: Subject, seed: int, kinds: tuple[str, ...]) -> bool:
    """Whether the clock of the processes can jump in an attempt."""
    if not (subject.by_hand and Clock.available()):
        return False
    return "clock jump" in kinds or (not kinds and random.Random(f"clock {seed}").random() < _WITH_CLOCK)


def _make_subjects(folder: Path, names: tuple[str, ...], rounds: int) -> list[Subject]:
    """Run each plan once undisturbed, unless an earlier call of this version has done so."""
    subjects = []
    makers = {"digits": make_digits, "drive": make_drive, "live": make_live}
    for kind, make in makers.items():
        length = rounds if kind == "digits" else _ROUNDS[kind]
        wanted = [name for name in names if name.startswith(kind)]
        if wanted:
            place = folder / f"{kind}-{length}-rounds-version-{LEARNING_VERSION}"
            plan = make(place, length)
            reference = make_reference(plan, place / "reference")
            subjects += [Subject(name, reference, plan, by_hand=name.endswith("by hand")) for name in wanted]
    return subjects


@contextlib.contextmanager
def _workshop() -> Iterator[tuple[Path, Path | None]]:
    """A folder to work in, and a small file system in it that can be filled, if this user may make one."""
    with tempfile.TemporaryDirectory(prefix="fedagem-chaos-") as name:
        disk = Path(name) / "disk"
        disk.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", _DISK, "tmpfs", disk], capture_output=True, check=False)
        try:
            yield Path(name), disk if made.returncode == 0 else None
        finally:
            if made.returncode == 0:
                subprocess.run(["umount", "--lazy", disk], check=False)


if __name__ == "__main__":
    main()
