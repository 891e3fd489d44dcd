"""The page of a run, as a browser shows it."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import cv2
import pytest
import yaml

from fedagem.report_page import write_page
from fedagem.tensorboard_log import write_tensorboard


def make_run(directory: Path, method: str, losses_after_shift: float) -> Path:
    """A finished driving run as far as its page is concerned: plan and metrics."""
    plan = {
        "aggregator": {"settings": {"rounds_to_train": 6}},
        "data_loader": {
            "settings": {
                "seed": 0,
                "vehicles": ["vehicle_1", "vehicle_2"],
                "seconds_per_round": 10,
                "snippets": {
                    "vehicle_1": [{"paths": ["a"]}],
                    "vehicle_2": [{"paths": ["a"]}, {"paths": ["b"], "from_round": 4}],
                },
            }
        },
        "task_runner": {
            "settings": {
                "method": method,
                "fedagem": method == "der",
                "model": {"template": "models.tiny_yolo.TinyYolo"},
                "optimizer": {"lr": 0.01},
            }
        },
    }
    (directory / "plan").mkdir(parents=True)
    (directory / "plan" / "plan.yaml").write_text(yaml.safe_dump(plan))
    (directory / "plan" / "name").write_text("<carla & friends>\n")
    rows = []
    for number in range(6):
        city = 0.1 * (number + 1) - (losses_after_shift if number >= 4 else 0)
        for metric, value in (("map_50/city", city), ("map_50/highway", 0.05 * number), ("map_50/all", city / 2)):
            rows.append({"round": number, "stage": "evaluate", "client": "vehicle_1", "metric": metric, "value": value})
        rows.append({"round": number, "stage": "train", "client": "federation", "metric": "seconds", "value": 2.5})
        rows.append({"round": number, "stage": "train", "client": "vehicle_1", "metric": "bytes_up", "value": 2**20})
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return directory


@pytest.fixture
def page(tmp_path: Path) -> Path:
    runs = [make_run(tmp_path / "fedavg", "fedavg", 0.3), make_run(tmp_path / "der", "der", 0.0)]
    return write_page(runs, tmp_path / "report.html")


def test_the_page_tells_what_was_lost(page: Path) -> None:
    text = page.read_text()
    assert "fedavg: mAP@0.5 city 0.300 before the shift, 0.250 at the end" in text
    assert "<td>fedavg</td><td>mAP@0.5 city</td><td>0.050</td>" in text
    assert "<td>der + Fed-A-GEM</td><td>mAP@0.5 city</td><td>-0.250</td>" in text
    assert "<td>train 15 s</td><td>6 MB up, 0 MB down</td>" in re.sub(r"<tr><td>\w+</td>", "", text)
    assert "&lt;carla &amp; friends&gt;" in text
    assert "<carla" not in text


def test_a_browser_shows_the_page_without_errors_or_requests(page: Path, tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed (Debian's package chromium)")
    picture = tmp_path / "page.png"
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    flags += " --disable-component-update --disable-quic --disable-default-apps --enable-logging=stderr"
    shown = subprocess.run(
        [
            chromium,
            *flags.split(),
            f"--user-data-dir={tmp_path / 'profile'}",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--window-size=390,2400",
            f"--screenshot={picture}",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "default-src 'none'" in page.read_text(), "the page itself forbids requests; one would be a console error"
    assert "CONSOLE" not in shown.stderr
    pixels = cv2.imread(str(picture))
    assert pixels is not None
    orange = (abs(pixels.astype(int) - (14, 127, 255)).max(axis=2) < 40).sum()
    blue = (abs(pixels.astype(int) - (180, 119, 31)).max(axis=2) < 40).sum()
    assert min(orange, blue) > 50, "the curves of both methods are visible, in matplotlib's first two colours"


def test_tensorboard_reads_what_is_written_beside_the_page(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = make_run(tmp_path / "run", "der", 0.0)
    for _ in range(2):
        events = EventAccumulator(str(write_tensorboard(run)))
    events.Reload()
    series = events.Scalars("vehicle_1/map_50/city")
    assert [event.step for event in series] == list(range(6))
    assert series[-1].value == pytest.approx(0.6)
