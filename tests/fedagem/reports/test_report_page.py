"""The page of a run, as a browser shows it."""

import html
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import cv2
import pytest
import yaml
from rich.console import Console

from fedagem.plans.plan import load_plan
from fedagem.reports.page import write_page
from fedagem.reports.setting import setting_of
from fedagem.reports.summary import Summary, summarise_runs
from fedagem.reports.tables import comparison_table
from fedagem.reports.tensorboard import write_tensorboard
from models.tiny_yolo import TinyYolo
from tests.fedagem.reports.test_before_and_after import CONFIG, write_drive


def make_run(directory: Path, method: str, losses_after_shift: float, rounds: int = 6, seed: int = 0) -> Path:
    """A finished driving run as far as its page is concerned: plan and metrics."""
    plan = {
        "aggregator": {"settings": {"rounds_to_train": rounds}},
        "data_loader": {
            "settings": {
                "seed": seed,
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
                "buffer": {"capacity": 200 if method == "der" else 0},
                "optimizer": {"lr": 0.01},
            }
        },
    }
    rows = []
    for number in range(rounds):
        city = 0.1 * (number + 1) - (losses_after_shift if number >= 4 else 0)
        for metric, value in (("map_50/city", city), ("map_50/highway", 0.05 * number), ("map_50/all", city / 2)):
            rows.append({"round": number, "stage": "evaluate", "client": "vehicle_1", "metric": metric, "value": value})
        rows.append({"round": number, "stage": "train", "client": "federation", "metric": "seconds", "value": 2.5})
        rows.append({"round": number, "stage": "train", "client": "vehicle_1", "metric": "bytes_up", "value": 2**20})
    return write_run(directory, plan, rows)


def make_task_run(directory: Path, method: str, second_half: float) -> Path:
    """A run over two tasks of two rounds each; `second_half` is what the second leaves of the first."""
    plan = {
        "aggregator": {"settings": {"rounds_to_train": 4}},
        "data_loader": {"settings": {"seed": 0, "clients": 3, "rounds_per_task": 2, "tasks": {"count": 2}}},
        "task_runner": {
            "settings": {"method": method, "fedagem": False, "model": {"template": "m.CNN"}, "optimizer": {"lr": 0.1}}
        },
    }
    rows = [
        {"round": number, "stage": stage, "client": "federation", "metric": "accuracy/domain_il", "value": value}
        for number, stage, value in (
            (0, "baseline", [0.1, 0.1]),
            (1, "evaluate", [0.9, 0.2]),
            (3, "evaluate", [second_half, 0.8]),
        )
    ]
    return write_run(directory, plan, rows)


def write_run(directory: Path, plan: dict[str, Any], rows: list[dict[str, Any]]) -> Path:
    (directory / "plan").mkdir(parents=True)
    (directory / "plan" / "plan.yaml").write_text(yaml.safe_dump(plan))
    (directory / "plan" / "name").write_text("<carla & friends>\n")
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return directory


def shown_table(runs: list[Path]) -> str:
    """What the terminal says of a comparison."""
    console = Console(width=250, file=io.StringIO(), record=True)
    console.print(comparison_table(summarise_runs(runs)))
    return console.export_text()


def change_plan_of(run: Path, section: str, **settings: Any) -> None:
    """Put settings into a section of the frozen plan of a run."""
    frozen = run / "plan" / "plan.yaml"
    plan = yaml.safe_load(frozen.read_text())
    plan.setdefault(section, {}).setdefault("settings", {}).update(settings)
    frozen.write_text(yaml.safe_dump(plan))


def add_pictures(run: Path, drives: Path) -> None:
    """Let a run have a last model, and frames that it was evaluated on."""
    from openfl.protocols import utils

    from src.pipeline import ExactPipeline

    arrays = {name: value.numpy() for name, value in TinyYolo.of(CONFIG).state_dict().items()}
    (run / "save").mkdir()
    utils.dump_proto(utils.construct_model_proto(arrays, 3, ExactPipeline()), str(run / "save" / "last.pbuf"))
    change_plan_of(
        run, "task_runner", model={"template": "models.tiny_yolo.TinyYolo", "settings": CONFIG.to_settings()}
    )
    change_plan_of(run, "data_loader", evaluation={"paths": {"city": [str(drives)]}})


@pytest.fixture
def page(tmp_path: Path) -> Path:
    runs = [make_run(tmp_path / "fedavg", "fedavg", 0.3), make_run(tmp_path / "der", "der", 0.0)]
    write_drive(tmp_path / "drives" / "short", 1, 4)
    for run in runs:
        add_pictures(run, tmp_path / "drives")
    return write_page(runs, tmp_path / "report.html")


def test_the_page_tells_what_was_lost(page: Path) -> None:
    text = page.read_text()
    assert "fedavg: mAP@0.5 city ends 0.050 below its level before the shift, at 0.250.<br>" in text
    assert "der + Fed-A-GEM: mAP@0.5 city ends 0.250 above its level before the shift, at 0.550." in text
    assert "This is a single seed" in text
    lost = text[text.index("What was forgotten") :]
    assert re.findall(r"<th rowspan=2>(.*?)</th>", lost)[:4] == [
        "method",
        "mAP@0.5 all",
        "mAP@0.5 city",
        "mAP@0.5 highway",
    ]
    assert "<tr><td>fedavg</td><td>0.025</td><td>0.050</td><td>-0.125</td></tr>" in lost
    assert "<tr><td>der + Fed-A-GEM</td><td>-0.125</td><td>-0.250</td><td>-0.125</td></tr>" in lost
    assert "positive is a loss, negative a gain" in lost
    assert "<td>train 15 s</td><td>6 MB up, 0 MB down</td>" in re.sub(r"<tr><td>\w+</td>", "", text)
    assert "warming up a model come before the rounds and are not in these times" in text
    assert "&lt;carla &amp; friends&gt;" in text
    assert "<carla" not in text


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [
        ((0.3, 0.35), "yes, mAP@0.5 city ends 0.075 below its level before the shift, at 0.225."),
        ((0.0, 0.6), "not clearly, mAP@0.5 city ends 0.050 below"),
        ((0.0, 0.1), "no, mAP@0.5 city ends 0.200 above"),
    ],
)
def test_a_loss_counts_if_it_is_larger_than_the_spread_of_the_seeds(
    tmp_path: Path, losses: tuple[float, float], verdict: str
) -> None:
    runs = [make_run(tmp_path / f"{seed}", "fedavg", loss, seed=seed) for seed, loss in enumerate(losses)]
    text = write_page(runs, tmp_path / "report.html").read_text()
    assert f"fedavg: {verdict}" in text
    assert "single seed" not in text


def test_the_answer_is_about_the_domain_that_vehicles_begin_in(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "fedavg", 0.3)
    change_plan_of(run, "data_loader", domains=["highway", "city"])
    text = write_page([run], tmp_path / "report.html").read_text()
    assert "fedavg: mAP@0.5 highway ends 0.125 above" in text


def test_what_came_before_the_rounds_is_among_the_costs(tmp_path: Path) -> None:
    """The drives are as long as their recorder wrote down, the warm-up as its own rounds."""
    for name, seconds in (("drive", 95.4), ("evaluation", 60.2), ("first-region", 40.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recording.json").write_text(json.dumps({"wall_seconds": seconds}))
    warm_up, run = make_run(tmp_path / "warm-up", "fedavg", 0.0), make_run(tmp_path / "run", "fedavg", 0.0)
    change_plan_of(
        warm_up, "data_loader", snippets={"vehicle_1": [{"paths": [str(tmp_path / "first-region" / "vehicle_1")]}]}
    )
    change_plan_of(
        run,
        "data_loader",
        snippets={v: [{"paths": [str(tmp_path / "drive" / v)]}] for v in ("vehicle_1", "vehicle_2")},
        evaluation={"paths": {"city": [str(tmp_path / "evaluation" / "city_1")]}},
    )
    change_plan_of(run, "task_runner", initial_model=str(warm_up / "save" / "last.pbuf"))
    plan = yaml.safe_load((run / "plan" / "plan.yaml").read_text()) | {"warm_up": {"rounds": 6, "seconds": 40}}
    (run / "plan" / "plan.yaml").write_text(yaml.safe_dump(plan))
    text = write_page([run], tmp_path / "report.html").read_text()
    assert "are not in these times: first-region 40 s, warm-up 15 s, drive 95 s, evaluation 60 s." in text


def test_the_setting_of_a_drive_is_told(repository: Path) -> None:
    der = load_plan(repository / "plan" / "carla_demo.yaml")
    summary = Summary(4, True, 10, [0], methods={}, tasks={})
    told = setting_of([der], "carla_demo", summary)
    assert told["frames from"] == "the embedded simulator"
    assert told["seed of the drive"] == "11"
    assert told["evaluated on"] == "about 300 frames each of city and highway: 3 x 100 s of driving"
    assert told["method's settings"] == "replay batch 8, coefficient 2"
    assert told["samples of a buffer gradient"] == "32"
    server = load_plan(repository / "plan" / "carla.yaml")
    server["carla"] |= {"simulator": None, "host": "far", "port": 2000, "town": "Town04"}
    assert setting_of([server], "carla", summary)["frames from"] == "CARLA at far:2000, Town04"
    recorded = load_plan(repository / "plan" / "carla_snippets.yaml")
    told = setting_of([recorded], "carla_snippets", summary)
    assert "carla_snippets/Town04" in told["frames from"]
    assert told["evaluated on"].endswith("highway: carla_snippets/Town04 (only frames kept out of training)")


def test_frames_that_are_on_another_machine_are_missed_in_a_sentence(page: Path, tmp_path: Path) -> None:
    assert page.read_text().count("<img ") == 2 * 2 * 2, "two frames, the truth and what each of two methods sees"
    shutil.rmtree(tmp_path / "drives")
    text = write_page([tmp_path / "der"], page).read_text()
    assert "There are no pictures: " in text
    assert "<img " not in text


def test_what_belongs_to_one_method_is_not_shown_as_everybodys(page: Path) -> None:
    text = page.read_text()
    assert "<dt>buffer</dt><dd>0 (fedavg); 200 (der + Fed-A-GEM)</dd>" in text
    assert "<h2>The plan of the last run, der</h2>" in text


def test_bands_and_spreads_are_explained_where_there_are_several_seeds(page: Path, tmp_path: Path) -> None:
    explained = "bands reach from the lowest seed to the highest; ± in the tables is a standard deviation"
    assert explained not in page.read_text()
    runs = [make_run(tmp_path / f"seed{seed}", "der", 0.1 * seed, seed=seed) for seed in range(2)]
    assert explained in write_page(runs, tmp_path / "seeds.html").read_text()
    assert "mean ± standard deviation over the seeds 0, 1; the shift is at round 4; mAP is" in shown_table(runs)


@pytest.mark.parametrize("rounds", [3, 4])
def test_a_shift_that_no_evaluation_follows_was_not_reached(tmp_path: Path, rounds: int) -> None:
    runs = [make_run(tmp_path / method, method, 0.3, rounds=rounds) for method in ("fedavg", "der")]
    sentence = f"he shift at round 4 was not reached: the last evaluation is after {rounds} rounds"
    text = write_page(runs, tmp_path / "report.html").read_text()
    assert f"T{sentence}. So there is nothing to say yet" in text
    assert "<dd>4 (not reached)</dd>" in text
    assert "before" not in re.sub("<style>.*</style>", "", text).replace("come before the rounds", "")
    assert "What was forgotten" not in text
    shown = shown_table(runs)
    assert f"t{sentence}" in " ".join(shown.split())
    assert "before" not in shown


def test_runs_of_tasks_answer_whether_the_first_ones_were_forgotten(tmp_path: Path) -> None:
    runs = [make_task_run(tmp_path / "fedavg", "fedavg", 0.4), make_task_run(tmp_path / "der", "der", 0.92)]
    text = write_page(runs, tmp_path / "report.html").read_text()
    assert (
        "fedavg (domain-IL): yes, earlier tasks end 50.0 points below their previous best; 60.0 % over all tasks"
        in text
    )
    assert "der (domain-IL): no, earlier tasks end 2.0 points above their previous best; 86.0 % over all tasks" in text
    row = ("fedavg", "domain-IL", "60.0", "50.0", "-50.0", "10.0")
    assert f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" in text
    shown = shown_table(runs)
    assert row == tuple(
        cell.strip() for cell in next(ln for ln in shown.splitlines() if "fedavg" in ln).split("│")[1:-1]
    )
    for word in ("shift", "mAP", "None", "before"):
        assert word not in shown
        assert word not in re.sub("<(style|pre|svg).*?</\\1>", "", text, flags=re.DOTALL)


def browse(address: str, tmp_path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Open a page in a Chromium that reaches nothing but files."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed (Debian's package chromium)")
    usual = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    usual += " --disable-component-update --disable-quic --disable-default-apps --enable-logging=stderr"
    own = (f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND")
    return subprocess.run(
        [chromium, *usual.split(), *own, *flags, address], capture_output=True, text=True, timeout=120, check=True
    )


def test_a_browser_shows_the_page_without_errors_or_requests(page: Path, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    shown = browse(page.as_uri(), tmp_path, "--window-size=390,2400", f"--screenshot={picture}")
    assert "default-src 'none'" in page.read_text(), "the page itself forbids requests; one would be a console error"
    assert "data:image/jpeg" in page.read_text()
    assert "CONSOLE" not in shown.stderr
    pixels = cv2.imread(str(picture))
    assert pixels is not None
    orange = (abs(pixels.astype(int) - (14, 127, 255)).max(axis=2) < 40).sum()
    blue = (abs(pixels.astype(int) - (180, 119, 31)).max(axis=2) < 40).sum()
    assert min(orange, blue) > 50, "the curves of both methods are visible, in matplotlib's first two colours"


@pytest.mark.parametrize(("medium", "width"), [("screen", 390), ("print", 718)])
def test_every_table_and_every_panel_fits_on_a_phone_and_on_paper(tmp_path: Path, medium: str, width: int) -> None:
    runs = [
        make_run(tmp_path / f"{method}-seed{seed}", method, 0.1 * seed, seed=seed)
        for method in ("fedavg", "der")
        for seed in range(3)
    ]
    text = write_page(runs, tmp_path / "report.html").read_text()
    if medium == "print":
        text = text.replace("@media print", "@media all")
    frame = f'<iframe srcdoc="{html.escape(text)}" style="border:0" width="{width}" height="2000"></iframe>'
    measure = """<script>onload = () => {
        const inside = document.querySelector("iframe").contentDocument;
        const ends = [...inside.querySelectorAll("table, .panels svg")].map(part => part.getBoundingClientRect().right);
        document.title = JSON.stringify([inside.scrollingElement.scrollWidth, ...ends]);
    }</script>"""
    (tmp_path / "frame.html").write_text(f'<meta charset="utf-8"><title></title>{frame}{measure}')
    shown = browse((tmp_path / "frame.html").as_uri(), tmp_path, "--window-size=1000,2100", "--dump-dom")
    found = re.search("<title>(.+?)</title>", shown.stdout)
    assert found
    page_width, *ends = json.loads(found[1])
    assert page_width <= width
    assert len(ends) == 3 + 3, "tables, and a panel for everything and for each domain"
    assert max(ends) <= width


def test_tensorboard_reads_what_is_written_beside_the_page(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = make_run(tmp_path / "run", "der", 0.0)
    for _ in range(2):
        events = EventAccumulator(str(write_tensorboard(run)))
    events.Reload()
    series = events.Scalars("vehicle_1/map_50/city")
    assert [event.step for event in series] == list(range(6))
    assert series[-1].value == pytest.approx(0.6)
