"""Five hundred rounds of a small federation over mutual TLS: do memory and open files of every process stay flat?

python -m benchmarks.federation_soak [--rounds 500]
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

from chaos.phases import kind_of, roles_of
from chaos.processes import BIN, Process
from chaos.subjects import DIGITS
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan

_LOOK_SECONDS = 0.5
_MEGABYTES = 4.0
"""How much a process may grow from the middle to the end: less than ten kilobytes a round."""


def main() -> None:
    """Print a JSON line for each process; exit code 1 if one of them grows."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rounds", type=int, default=500)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan.load(find_plan("rotated_digits")).changed(DIGITS, rounds=arguments.rounds)
        path = Path(folder) / "plan.yaml"
        path.write_text(plan.to_yaml(), encoding="utf-8")
        run = Path(folder) / "run"
        command = Process(BIN / "fedagem", "run", path, "--out", run)
        try:
            seen = watch(command, run)
            said = command.said()
        finally:
            command.end()
    if command.returncode:
        raise SystemExit(f"the federation ended with {command.returncode}:\n{said[-2000:]}")
    grown = []
    for role, samples in seen.items():
        figures = flatness(samples)
        print(json.dumps({"benchmark": "federation soak", "rounds": arguments.rounds, "process": role, **figures}))
        if figures["grown_mb"] > _MEGABYTES or figures["files_at_the_end"] > figures["files_in_the_middle"]:
            grown.append(role)
    if grown:
        raise SystemExit(f"these grow: {', '.join(grown)}")


def watch(command: "subprocess.Popen[bytes]", run: Path) -> dict[str, list[tuple[float, int]]]:
    """Megabytes and open files of each process while rounds are made, by its role.

    Only memory of its own: pages of libraries come and go with what else the machine does.
    """
    seen: dict[str, list[tuple[float, int]]] = {}
    while command.poll() is None:
        time.sleep(_LOOK_SECONDS)
        if not (run / "metrics.jsonl").exists():
            continue
        for role, pid in roles_of(command.pid).items():
            try:
                process = psutil.Process(pid)
                memory = process.memory_info()
                sample = (memory.rss - memory.shared) / 2**20, process.num_fds()
            except psutil.NoSuchProcess:
                continue
            seen.setdefault(f"{kind_of(role)} {role}" if kind_of(role) != role else role, []).append(sample)
    return seen


def flatness(samples: list[tuple[float, int]]) -> dict[str, float]:
    """The middle fifth of the time against the last but one: at the very end a process may be tidying up."""
    fifth = max(len(samples) // 5, 1)
    middle, late = samples[2 * fifth : 3 * fifth] or samples, samples[3 * fifth : 4 * fifth] or samples
    before, after = median(mb for mb, _ in middle), median(mb for mb, _ in late)
    return {
        "samples": len(samples),
        "mb_in_the_middle": round(before, 1),
        "mb_at_the_end": round(after, 1),
        "grown_mb": round(after - before, 2),
        "files_in_the_middle": max(files for _, files in middle),
        "files_at_the_end": max(files for _, files in late),
    }


if __name__ == "__main__":
    main()
