"""Folders of runs, written by hand: the plan, what was measured, and what a page needs besides."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from fedagem.detection.detector_file import save_detector
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan
from fedagem.runs.folder import freeze_plan, plan_of_run
from models.tiny_yolo import TinyYolo, TinyYoloConfig

CONFIG = TinyYoloConfig(classes=("vehicle",), anchors=((0.5, 0.5), (2.0, 1.0)), input_size=(96, 64), width=0.05)
MATRIX = [[0.1, 0.2], [0.9, 0.3], [0.6, 0.8]]
"""Before training, after task 1 (rounds 0 and 1) and after task 2 (rounds 2 and 3)."""


def row(round_number: int, stage: str, client: str, metric: str, value: Any) -> dict[str, Any]:
    return {"round": round_number, "stage": stage, "client": client, "metric": metric, "value": value}


def digits_rows() -> list[dict[str, Any]]:
    """What two clients measured in four rounds of two tasks; `MATRIX` holds the accuracies at the ends of tasks."""
    rows = [row(0, "baseline", "federation", "accuracy/domain_il", MATRIX[0])]
    for r in range(4):
        for client, up in (("client_1", 100), ("client_2", 300)):
            rows.append(row(r, "buffer_gradient", client, "bytes_up", up))
            rows.append(row(r, "train", client, "bytes_up", up))
            rows.append(row(r, "train", client, "bytes_down", 50))
            rows.append(row(r, "train", client, "train_seconds", 1.5))
            rows.append(row(r, "buffer_gradient", client, "buffer_gradient_seconds", 0.25))
        rows.append(row(r, "train", "federation", "seconds", 2.0))
        rows.append(row(r, "evaluate", "federation", "seconds", 0.25))
        # Evaluated in every round; only the task ends count.
        value = MATRIX[(r + 1) // 2] if r % 2 else [0.0, 0.0]
        rows.append(row(r, "evaluate", "federation", "accuracy/domain_il", value))
    return rows


def make_digits_run(
    directory: Path,
    rows: list[dict[str, Any]],
    seed: int = 0,
    fedagem: bool = True,
    method: str = "der",
    name: str = "rotated_digits",
) -> Path:
    """A run over two tasks of two rounds each with these rows."""
    changes = {
        "data_loader.settings.rounds_per_task": 2,
        "data_loader.settings.tasks.count": 2,
        "task_runner.settings.method": method,
        "task_runner.settings.fedagem": fedagem,
        "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
    }
    return write_run(directory, _plan("rotated_digits").changed(changes, seed=seed).renamed(name), rows)


def make_driving_run(
    directory: Path, method: str, losses_after_shift: float, rounds: int = 6, seed: int = 0, spread: float = 0.0
) -> Path:
    """A finished driving run as far as its page is concerned: plan and metrics.

    With a spread, the city's mAP on other draws of the frames reaches from so much below it to so much above.
    """
    changes = {
        "aggregator.settings.rounds_to_train": rounds,
        "data_loader.settings.seconds_per_round": 10,
        "data_loader.settings.snippets": {
            "vehicle_1": [{"paths": ["a"]}],
            "vehicle_2": [{"paths": ["a"]}, {"paths": ["b"], "from_round": 4}],
        },
        "data_loader.settings.domains": [],
        "data_loader.settings.holdout": None,
        "data_loader.settings.evaluation": {},
        "task_runner.settings.method": method,
        "task_runner.settings.method_settings": {},
        "task_runner.settings.fedagem": method == "der",
        "task_runner.settings.buffer.capacity": 200 if method == "der" else 0,
        "warm_up": None,
    }
    rows = []
    for number in range(rounds):
        city = 0.1 * (number + 1) - (losses_after_shift if number >= 4 else 0)
        for metric, value in (("map_50/city", city), ("map_50/highway", 0.05 * number), ("map_50/all", city / 2)):
            rows.append({"round": number, "stage": "evaluate", "client": "vehicle_1", "metric": metric, "value": value})
        if spread:
            drawn = [city + spread * (draw - 50) / 50 for draw in range(101)]
            rows.append(row(number, "evaluate", "vehicle_1", "drawn/map_50/city", drawn))
            rows.append(row(number, "evaluate", "vehicle_1", "objects/city/vehicle", 300))
            rows.append(row(number, "evaluate", "vehicle_1", "objects/city/bike", 3))
        rows.append({"round": number, "stage": "train", "client": "federation", "metric": "seconds", "value": 2.5})
        rows.append({"round": number, "stage": "train", "client": "vehicle_1", "metric": "bytes_up", "value": 2**20})
    plan = _plan("carla_snippets").changed(changes, seed=seed)
    return write_run(directory, plan.renamed("<carla & friends>"), rows)


def make_task_run(directory: Path, method: str, second_half: float) -> Path:
    """A run over two tasks of two rounds each; `second_half` is what the second leaves of the first."""
    changes = {
        "data_loader.settings.clients": 3,
        "data_loader.settings.rounds_per_task": 2,
        "data_loader.settings.tasks.count": 2,
        "task_runner.settings.method": method,
        "task_runner.settings.fedagem": False,
    }
    rows = [
        {"round": number, "stage": stage, "client": "federation", "metric": "accuracy/domain_il", "value": value}
        for number, stage, value in (
            (0, "baseline", [0.1, 0.1]),
            (1, "evaluate", [0.9, 0.2]),
            (3, "evaluate", [second_half, 0.8]),
        )
    ]
    return write_run(directory, _plan("rotated_digits").changed(changes).renamed("<carla & friends>"), rows)


def write_run(directory: Path, plan: Plan, rows: list[dict[str, Any]]) -> Path:
    """The folder of a run as far as its results and its page are concerned."""
    (directory / "plan").mkdir(parents=True)
    freeze_plan(directory, plan)
    (directory / "plan" / "name").write_text(f"{plan.name}\n")
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return directory


def write_drive(folder: Path, first: int, count: int) -> None:
    """So many frames, numbered from `first`, each with a vehicle."""
    folder.mkdir(parents=True)
    images = []
    for number in range(first, first + count):
        cv2.imwrite(str(folder / f"{number}.png"), np.zeros((64, 96, 3), dtype=np.uint8))
        images.append({"id": number, "file_name": f"{number}.png", "width": 96, "height": 64, "frame": number})
    boxes = [{"id": i["id"], "image_id": i["id"], "category_id": 1, "bbox": [20, 20, 40, 24]} for i in images]
    document = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "vehicle"}]}
    (folder / "annotations.json").write_text(json.dumps(document))


def change_plan_of(run: Path, section: str, **settings: Any) -> None:
    """Put settings into a section of the frozen plan of a run."""
    freeze_plan(
        run, plan_of_run(run).changed({f"{section}.settings.{name}": value for name, value in settings.items()})
    )


def add_pictures(run: Path, drives: Path) -> None:
    """Let a run have a last model, and frames that it was evaluated on."""
    save_detector(TinyYolo.of(CONFIG), run / "save" / "last.safetensors")
    change_plan_of(
        run, "task_runner", model={"template": "models.tiny_yolo.TinyYolo", "settings": CONFIG.to_settings()}
    )
    change_plan_of(run, "data_loader", evaluation={"paths": {"city": [str(drives)]}})


@cache
def _plan(name: str) -> Plan:
    """A plan of the package: a run's plan is complete, so one that is made up begins with a real one."""
    return Plan.load(find_plan(name))
