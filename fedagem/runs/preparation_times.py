"""What came before the rounds of a run, and how long it took: recorded drives, and a model that was warmed up."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedagem.runs.folder import plan_of_run
from fedagem.runs.results import read_metrics


def preparation_seconds(directories: Sequence[Path]) -> dict[str, float]:
    """Seconds by the name of each recording and warm-up that is still here; shared ones count once."""
    found: dict[Path, float] = {}
    for directory in directories:
        plan, _ = plan_of_run(directory)
        warmed_up = _warm_up_run(plan)
        if warmed_up is not None:
            found |= _recordings(plan_of_run(warmed_up)[0])
            found[warmed_up] = sum(row["value"] for row in read_metrics(warmed_up) if row["metric"] == "seconds")
        found |= _recordings(plan)
    return {place.name: seconds for place, seconds in found.items()}


def _warm_up_run(plan: dict[str, Any]) -> Path | None:
    """The run whose last model the plan begins with."""
    model = plan["task_runner"]["settings"].get("initial_model")
    if "warm_up" not in plan or model is None:
        return None
    run = Path(model).parent.parent
    return run if (run / "metrics.jsonl").exists() and (run / "plan" / "plan.yaml").exists() else None


def _recordings(plan: dict[str, Any]) -> dict[Path, float]:
    """Of every recording that the plan's frames come from, what `carla-bridge record` wrote down."""
    loader = plan["data_loader"]["settings"]
    paths = [path for legs in loader.get("snippets", {}).values() for leg in legs for path in leg["paths"]]
    paths += [path for folders in loader.get("evaluation", {}).get("paths", {}).values() for path in folders]
    found: dict[Path, float] = {}
    for place in dict.fromkeys(Path(path).parent for path in paths):
        try:
            found[place] = float(json.loads((place / "recording.json").read_text(encoding="utf-8"))["wall_seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
