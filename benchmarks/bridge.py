"""How fast the bridge is: annotation, the whole path from simulator to batches, recording, and what it holds.

    python benchmarks/bridge.py [--json FILE]

Everything runs at 416 x 256 with two vehicles, against the embedded simulator, through the real CARLA client.
"""

import json
import multiprocessing
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from carla_bridge.config.plan_file import parse_config
from carla_bridge.config.section import CarlaSettings
from carla_bridge.fleet_process.embedded import EmbeddedSimulator
from carla_bridge.fleet_process.process import FleetProcess
from carla_bridge.fleet_process.recorder import record
from carla_bridge.stream.client import StreamClient
from carla_bridge.stream.server import StreamServer

SECTION: dict[str, Any] = {
    "simulator": "embedded",
    "seed": 1,
    "fixed_delta_seconds": 0.1,
    "regions": {"city": {"max_speed": 55}, "highway": {"min_speed": 80}},
    "vehicles": [{"name": "vehicle_1", "region": "city"}, {"name": "vehicle_2", "region": "highway"}],
    "traffic": {"city": {"vehicles": 15, "two_wheelers": 5, "walkers": 10}, "highway": {"vehicles": 8}},
}
INPUT = (416, 416)
WINDOW, WINDOWS = 20.0, 4
RECORDED_SECONDS = 60.0


def take_masks(config: CarlaSettings, connection: Any) -> None:
    """Instance masks of real frames, with the ego vehicle's id."""
    from carla_bridge.fleet.fleet import Fleet

    with EmbeddedSimulator.start(config) as server, Fleet(config.at(server.host, server.port)) as fleet:
        captures = [capture for _ in range(20) for capture in fleet.capture()]
        connection.send([(capture.shot.mask_bgra().copy(), capture.ego_id) for capture in captures])
    os._exit(0)


def annotation_milliseconds(config: CarlaSettings) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=take_masks, args=(config, theirs))
    process.start()
    masks = mine.recv()
    process.join()
    from carla_bridge.fleet.fleet import annotator_of

    annotator = annotator_of(config)
    times = []
    for _ in range(20):
        for mask, ego in masks:
            began = time.perf_counter()
            annotator.annotate(mask, ego)
            times.append(1e3 * (time.perf_counter() - began))
    boxes = np.mean([len(annotator.annotate(mask, ego)) for mask, ego in masks])
    return {
        "median_ms": round(float(np.median(times)), 3),
        "p99_ms": round(float(np.percentile(times, 99)), 3),
        "boxes_per_frame": round(float(boxes), 1),
    }


def collaborate(address: tuple[str, int], vehicle: str, results: Any) -> None:
    """A collaborator: every window becomes a letterboxed batch, as the data loader makes it."""
    from fedagem.detection.samples import make_batch

    with StreamClient(address[0], address[1], vehicle) as client:
        count = 0
        for number in range(WINDOWS):
            frames = list(client.window(WINDOW * number, WINDOW * (number + 1)))
            make_batch(frames, INPUT, 64)
            count += len(frames)
            results.put((number, time.monotonic(), len(frames)))


def cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def whole_path(config: CarlaSettings) -> dict[str, float]:
    """Frames per second from the simulator's renderer to the collaborators' batches, and the memory on the way."""
    context = multiprocessing.get_context("spawn")
    with FleetProcess(config) as fleet:
        server = StreamServer(fleet)
        serving = threading.Thread(target=server.run)
        serving.start()
        results = context.Queue()
        names = [vehicle.name for vehicle in config.vehicles]
        clients = [context.Process(target=collaborate, args=(server.address, name, results)) for name in names]
        for client in clients:
            client.start()
        parts = {"simulator": fleet.simulator_pid, "fleet": fleet.worker_pid, "stream": os.getpid()}
        processes = {name: psutil.Process(pid) for name, pid in parts.items()}
        # The simulator's children draw for it; collaborators are children of this process, but no part of the bridge.
        families = {name: [process] for name, process in processes.items()}
        families["simulator"] += processes["simulator"].children()
        before = {name: cpu_seconds(family) for name, family in families.items()}
        rows, held, memory = [], [], []
        for _ in range(len(names) * WINDOWS):
            rows.append(results.get(timeout=600))
            held.append(server.retention.count())
            memory.append(processes["fleet"].memory_info().rss / 2**20)
        used = {name: cpu_seconds(family) - before[name] for name, family in families.items()}
        for client in clients:
            client.join()
        server.stop()
        serving.join()
    # The first window includes the start of the collaborators; the others are the steady state.
    began = max(when for number, when, _ in rows if number == 0)
    ended = max(when for _, when, _ in rows)
    frames = sum(count for number, _, count in rows if number > 0)
    per_window = WINDOW / config.frame_seconds * len(names)
    return {
        "frames_per_second": round(frames / (ended - began), 1),
        "frames_held_at_most": max(held),
        "frames_per_window": per_window,
        "fleet_memory_mb_first": round(memory[0], 1),
        "fleet_memory_mb_last": round(memory[-1], 1),
        **{f"{name}_cpu_ms_per_frame": round(1e3 * spent / per_window / WINDOWS, 2) for name, spent in used.items()},
    }


def recording_minutes(config: CarlaSettings) -> dict[str, float]:
    """How long 3,000 simulation seconds of two vehicles take at one frame per second, from a shorter drive."""
    with tempfile.TemporaryDirectory() as directory:
        times: list[float] = []
        record(config, Path(directory) / "out", RECORDED_SECONDS, on_frame=lambda _: times.append(time.monotonic()))
    speed = (len(times) / 2 - 1) * config.frame_seconds / (times[-1] - times[0])
    return {"simulated_seconds_per_second": round(speed, 1), "minutes_for_3000_s": round(3000 / speed / 60, 2)}


@click.command()
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures here.")
def main(file: Path | None) -> None:
    """Measure the bridge on this machine."""
    often = parse_config({**SECTION, "frames_per_second": 10, "stream": {"window_seconds": WINDOW, "port": 0}})
    seldom = parse_config({**SECTION, "frames_per_second": 1})
    figures = {
        "annotation": annotation_milliseconds(seldom),
        "whole path": whole_path(often),
        "recording": recording_minutes(seldom),
    }
    table = Table(title=f"The bridge on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for column in ("part", "figure", "value"):
        table.add_column(column)
    for part, values in figures.items():
        for name, value in values.items():
            table.add_row(part, name.replace("_", " "), f"{value:g}")
    Console().print(table)
    if file is not None:
        file.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
