"""Runs in MLflow, Weights & Biases and TensorBoard, offline, read back by the trackers' own means."""

import contextlib
import importlib.util
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.cli.tracking import Tracking, track_finished
from fedagem.reports.tracking.tracked_run import TrackedRun
from tests.support.finished_runs import make_driving_run, row

mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
CURVE = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A finished run of six rounds, with a picture and a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    directory = make_driving_run(tmp_path / "run", "der", 0.0)
    with (directory / "metrics.jsonl").open("a") as log:
        for metric in ("loss", "loss/box"):
            log.write(json.dumps(row(5, "train", "vehicle_1", metric, 0.5)) + "\n")
    (directory / "plots").mkdir()
    (directory / "save").mkdir(exist_ok=True)
    picture = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001"
        "a5f645400000000049454e44ae426082"
    )
    (directory / "plots" / "map.png").write_bytes(picture)
    (directory / "save" / "last.safetensors").write_bytes(b"weights")
    return directory


def cut(directory: Path, rounds: int) -> list[str]:
    """Leave the rows of the first rounds in the log; the others come back."""
    path = directory / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["round"] < rounds]
    path.write_text("".join(kept))
    return lines


def refuse(sentence: str) -> None:
    raise AssertionError(sentence)


def mlflow_run(place: Path):
    client = mlflow.MlflowClient((place / "mlruns").as_uri())
    experiments = [found.experiment_id for found in client.search_experiments() if found.name != "Default"]
    (found,) = client.search_runs(experiments)
    return client, found


def curve_of(client, found):
    return [
        (point.step, point.value) for point in client.get_metric_history(found.info.run_id, "vehicle_1/map_50.city")
    ]


def test_mlflows_own_client_reads_a_run_back(run, tmp_path):
    tracked = TrackedRun(run, "mlflow", refuse)
    tracked.finish()
    client, found = mlflow_run(tmp_path)
    assert found.info.run_name == "run"
    assert found.info.status == "FINISHED"
    assert curve_of(client, found) == [(step, pytest.approx(value)) for step, value in enumerate(CURVE, start=1)]
    assert {"vehicle_1/loss", "vehicle_1/loss.box", "federation/seconds.train"} <= set(found.data.metrics)
    assert found.data.params["task_runner.settings.method"] == "der"
    assert found.data.params["aggregator.settings.rounds_to_train"] == "6"
    assert len(found.data.params["plan_digest"]) == 10
    below = {None: "metrics.jsonl", "plots": "plots/map.png", "save": "save/last.safetensors"}
    for folder, name in below.items():
        assert name in [file.path for file in client.list_artifacts(found.info.run_id, folder)]


def test_a_resumed_run_goes_on_in_the_same_place_without_repeats(run, tmp_path):
    lines = cut(run, 3)
    tracked = TrackedRun(run, "mlflow", refuse)
    tracked.update()
    client, found = mlflow_run(tmp_path)
    assert [step for step, _ in curve_of(client, found)] == [1, 2], "the third round may still be going on"
    tracked.stop()
    assert mlflow_run(tmp_path)[1].info.status == "KILLED"
    (run / "metrics.jsonl").write_text("".join(lines))
    again = TrackedRun(run, "mlflow", refuse)
    again.update()
    again.finish()
    client, found = mlflow_run(tmp_path)
    assert [step for step, _ in curve_of(client, found)] == [1, 2, 3, 4, 5, 6]
    assert found.info.status == "FINISHED"
    TrackedRun(run, "mlflow", refuse).finish()
    assert len(curve_of(*mlflow_run(tmp_path))) == 6


BLOCK, FILE_HEADER, HEADER = 32768, 7, struct.Struct("<IHB")
WHOLE, LAST = 1, 4


def wandb_records(directory: Path) -> Iterator[Any]:
    """The messages of wandb's file, which is a log in the format of LevelDB."""
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

    (path,) = directory.glob("wandb/offline-run-*/*.wandb")
    data, place, parts = path.read_bytes(), FILE_HEADER, b""
    while place + HEADER.size <= len(data):
        if (left := BLOCK - place % BLOCK) < HEADER.size:
            place += left
            continue
        _, length, kind = HEADER.unpack_from(data, place)
        parts += data[place + HEADER.size : place + HEADER.size + length]
        place += HEADER.size + length
        if kind in {WHOLE, LAST}:
            yield Record.FromString(parts)
            parts = b""


def test_wandb_keeps_a_run_offline(run):
    pytest.importorskip("wandb", reason="needs the extra wandb")
    TrackedRun(run, "wandb", refuse).finish()
    records = list(wandb_records(run))
    (begun,) = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    assert begun.display_name == "run"
    config = {item.key: json.loads(item.value_json) for item in begun.config.update}
    assert config["task_runner.settings.method"] == "der"
    rows = [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]
    curve = [(row["_step"], row["vehicle_1/map_50/city"]) for row in rows if "vehicle_1/map_50/city" in row]
    assert curve == [(step, pytest.approx(value)) for step, value in enumerate(CURVE, start=1)]
    assert any("plots/map" in key for row in rows for key in row)
    kept = [record.request.log_artifact.artifact for record in records if record.request.HasField("log_artifact")]
    kept += [record.artifact for record in records if record.WhichOneof("record_type") == "artifact"]
    assert "last.safetensors" in {entry.path for artifact in kept for entry in artifact.manifest.contents}


def test_tensorboard_can_follow_a_run(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    lines = cut(run, 4)
    tracked = TrackedRun(run, "tensorboard", refuse)
    tracked.update()
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("vehicle_1/map_50/city")] == [1, 2, 3]
    (run / "metrics.jsonl").write_text("".join(lines))
    tracked.finish()
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("vehicle_1/map_50/city")] == [1, 2, 3, 4, 5, 6]
    assert "plots/map" in events.Tags()["images"]


def test_a_tracker_that_fails_stops_tracking_and_not_the_run(run, monkeypatch):
    said: list[str] = []
    tracked = TrackedRun(run, "mlflow", said.append)

    def gone(*_: object, **__: object) -> None:
        raise ConnectionError("the server is gone")

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", gone)
    tracked.update()
    tracked.update()
    tracked.finish()
    assert said == ["mlflow stopped tracking after round 0: the server is gone"]


def test_a_missing_package_is_named_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "wandb" else find(name, *more))
    for command in ("simulate", "run", "compare"):
        result = CliRunner().invoke(main, [command, "rotated_digits", "--track", "wandb"])
        assert result.exit_code == 2
        assert "--track wandb needs its package: `pip install 'fedagem[wandb]'`" in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_stops_leaves_a_run_that_was_stopped(run, tmp_path):
    seen: list[str] = []
    with contextlib.suppress(SystemExit), Tracking(run, ["mlflow"]) as tracking:
        tracking.following(lambda: seen.append("refreshed"))()
        raise SystemExit(130)
    client, found = mlflow_run(tmp_path)
    assert seen == ["refreshed"]
    assert [step for step, _ in curve_of(client, found)] == [1, 2, 3, 4, 5]
    assert found.info.status == "KILLED"
    track_finished(run, ["mlflow"])
    assert mlflow_run(tmp_path)[1].info.status == "FINISHED"


@pytest.mark.nightly
def test_a_command_hands_its_run_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    words = ["simulate", "rotated_digits", "--rounds", "1", "--track", "mlflow", "--workers", "1", "--out", "run"]
    for setting in ("tasks.count=1", "samples_per_client=20", "test_samples=20"):
        words += ["--set", f"data_loader.settings.{setting}"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    client, found = mlflow_run(tmp_path)
    wanted = {"federation/seconds.train", "client_1/bytes_up.train", "client_1/loss", "client_1/loss.classification"}
    assert wanted <= set(found.data.metrics)
    assert "save/last.safetensors" in [file.path for file in client.list_artifacts(found.info.run_id, "save")]
    assert "report.html" in [file.path for file in client.list_artifacts(found.info.run_id)]
