"""The page of a run, as a browser shows it."""

import html
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import cv2
import pytest
from rich.console import Console

from fedagem.plans.driving import DriveSettings
from fedagem.plans.plan import Plan
from fedagem.reports.answer import answer
from fedagem.reports.page import write_page
from fedagem.reports.setting import setting_of
from fedagem.reports.summary import Summary, summarise_runs
from fedagem.reports.tables import comparison_table
from fedagem.reports.tensorboard import write_tensorboard
from fedagem.runs.folder import freeze_plan, plan_of_run
from tests.support.finished_runs import add_pictures, change_plan_of, make_driving_run, make_task_run, write_drive


def shown_table(runs: list[Path]) -> str:
    """What the terminal says of a comparison."""
    console = Console(width=250, file=io.StringIO(), record=True)
    console.print(comparison_table(summarise_runs(runs)))
    return console.export_text()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    runs = [make_driving_run(tmp_path / "fedavg", "fedavg", 0.3), make_driving_run(tmp_path / "der", "der", 0.0)]
    write_drive(tmp_path / "drives" / "short", 1, 4)
    for run in runs:
        add_pictures(run, tmp_path / "drives")
    return write_page(runs, tmp_path / "report.html")


def test_the_page_tells_what_was_lost(page: Path) -> None:
    text = page.read_text()
    answer = text[text.index('<p class="lead">') : text.index("<h2>Setting")]
    assert "mAP@0.5 city: fedavg forgets: it loses 0.050 of 0.300; der + Fed-A-GEM does not forget" in answer
    assert "it gains 0.250 of 0.300.<br>At the end, compared with fedavg: der + Fed-A-GEM is 0.300 above.<br>" in answer
    assert "This is a single seed" in answer
    table = text[text.index("<h2>mAP@0.5 city") : text.index("<h2>mAP@0.5 highway")]
    assert re.findall(r"<th rowspan=2>(.*?)</th>", table) == ["method", "before", "after", "lost", "at the end"]
    assert "<tr><td>fedavg</td><td>0.300</td><td>0.250</td><td>0.050</td><td>0.250</td></tr>" in table
    assert "<td>der + Fed-A-GEM</td><td>0.300</td><td>0.550</td><td>-0.250</td><td>0.550</td>" in table
    assert "<td>train 15 s</td><td>6 MB up, 0 MB down</td>" in re.sub(r"<tr><td>\w+</td>", "", text)
    assert "warming up a model come before the rounds and are not in these times" in text
    assert "&lt;carla &amp; friends&gt;" in text
    assert "<carla" not in text


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [
        ((0.3, 0.35), "forgets: it loses 0.075 of 0.300."),
        ((0.0, 0.6), "may forget: it loses 0.050 of 0.300."),
        ((0.0, 0.1), "does not forget: it gains 0.200 of 0.300."),
    ],
)
def test_a_loss_counts_if_it_is_larger_than_the_spread_of_the_seeds(
    tmp_path: Path, losses: tuple[float, float], verdict: str
) -> None:
    runs = [make_driving_run(tmp_path / f"{seed}", "fedavg", loss, seed=seed) for seed, loss in enumerate(losses)]
    text = write_page(runs, tmp_path / "report.html").read_text()
    assert f"mAP@0.5 city: fedavg {verdict}" in text
    assert "single seed" not in text


def test_intervals_decide_if_there_are_any(tmp_path: Path) -> None:
    """The draws of the rounds are the same, so those of differences are not wide: that is what pairing is for."""
    runs = [
        make_driving_run(tmp_path / method, method, loss, spread=0.1)
        for method, loss in (("fedavg", 0.3), ("der", 0.1))
    ]
    summary = summarise_runs(runs)
    assert summary.intervals["fedavg"]["map_50/city"]["end"] == pytest.approx((0.155, 0.345))
    assert summary.differences["der + Fed-A-GEM"]["map_50/city"]["end"].value == pytest.approx(0.2)
    text = write_page(runs, tmp_path / "report.html").read_text()
    assert "fedavg forgets: it loses 0.050 [0.050, 0.050] of 0.300" in text
    assert "(brackets are 95 % intervals over the frames)" in text
    assert "der + Fed-A-GEM is 0.200 [0.200, 0.200] above." in text
    assert "Bands hold 95 % of other draws of the frames." in text
    assert "<td>0.300 [0.205, 0.395]</td>" in text
    assert "mean over classes with objects: city over vehicle (300), bike (3)" in text
    change_plan_of(runs[1], "data_loader", evaluation={"least_objects": 100})
    text = write_page(runs, tmp_path / "report.html").read_text()
    assert "classes with at least 100 objects: city over vehicle (300), without bike (3)" in text


def test_a_difference_that_may_be_chance_is_called_that(tmp_path: Path) -> None:
    runs = [
        make_driving_run(tmp_path / f"{method}{seed}", method, loss, seed=seed, spread=0.01)
        for method, losses in (("fedavg", (0.3, 0.3)), ("der", (0.1, 0.5)))
        for seed, loss in enumerate(losses)
    ]
    [_, end] = answer(plan_of_run(runs[0]).workload, summarise_runs(runs))
    assert end.endswith("is 0.000 [-0.200, 0.200] above, which may be chance.")


def test_the_answer_is_about_the_domain_that_vehicles_begin_in(tmp_path: Path) -> None:
    run = make_driving_run(tmp_path / "run", "fedavg", 0.3)
    change_plan_of(run, "data_loader", domains=["highway", "city"])
    text = write_page([run], tmp_path / "report.html").read_text()
    assert "mAP@0.5 highway: fedavg does not forget: it gains 0.125 of 0.100." in text


def test_what_came_before_the_rounds_is_among_the_costs(tmp_path: Path) -> None:
    """The drives are as long as their recorder wrote down, the warm-up as its own rounds."""
    for name, seconds in (("drive", 95.4), ("evaluation", 60.2), ("first-region", 40.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recording.json").write_text(json.dumps({"wall_seconds": seconds}))
    warm_up, run = (make_driving_run(tmp_path / name, "fedavg", 0.0) for name in ("warm-up", "run"))
    change_plan_of(
        warm_up,
        "data_loader",
        snippets={v: [{"paths": [str(tmp_path / "first-region" / v)]}] for v in ("vehicle_1", "vehicle_2")},
    )
    change_plan_of(
        run,
        "data_loader",
        snippets={v: [{"paths": [str(tmp_path / "drive" / v)]}] for v in ("vehicle_1", "vehicle_2")},
        evaluation={"paths": {"city": [str(tmp_path / "evaluation" / "city_1")]}},
    )
    change_plan_of(run, "task_runner", initial_model=str(warm_up / "save" / "last.safetensors"))
    freeze_plan(run, plan_of_run(run).changed({"warm_up": {"rounds": 6, "seconds": 40}}))
    text = write_page([run], tmp_path / "report.html").read_text()
    assert "are not in these times: first-region 40 s, warm-up 15 s, drive 95 s, evaluation 60 s." in text


def test_the_setting_of_a_drive_is_shown(repository: Path) -> None:
    der = Plan.load(repository / "plan" / "carla_demo.yaml")
    summary = Summary(4, True, 10, [0], methods={}, tasks={})
    shown = setting_of([der], summary)
    assert shown["frames from"] == "the embedded simulator"
    assert shown["seed of the drive"] == "11"
    assert shown["evaluated on"] == "about 300 frames each of city and highway: 3 x 100 s of driving"
    assert shown["method's settings"] == "replay batch 8, coefficient 2"
    assert shown["samples of a buffer gradient"] == "32"
    assert shown["samples in a step"] == "16"
    without_memory = {"method": "fedavg", "method_settings": {}, "fedagem": False}
    fedavg = der.changed({f"task_runner.settings.{k}": v for k, v in without_memory.items()})
    assert setting_of([fedavg, der], summary)["samples in a step"] == "8 (fedavg); 16 (der + Fed-A-GEM)"
    elsewhere = {"simulator": None, "host": "far", "port": 2000, "town": "Town04"}
    server = Plan.load(repository / "plan" / "carla.yaml").changed({f"carla.{k}": v for k, v in elsewhere.items()})
    assert setting_of([server], summary)["frames from"] == "CARLA at far:2000, Town04"
    recorded = Plan.load(repository / "plan" / "carla_snippets.yaml")
    shown = setting_of([recorded], summary)
    assert shown["frames from"] == "carla_drives/city_day, carla_drives/highway_hills"
    assert shown["evaluated on"].endswith("Town04, carla_snippets/Town04_b (only frames kept out of training)")


def test_a_replay_batch_is_shown_for_methods_that_replay(tmp_path: Path) -> None:
    runs = [make_driving_run(tmp_path / method, method, 0.0) for method in ("fedavg", "der")]
    change_plan_of(runs[1], "task_runner", method_settings={"replay_batch": 8})
    text = write_page(runs, tmp_path / "report.html").read_text()
    assert "<dd>replay batch 8 (der + Fed-A-GEM)</dd>" in text
    assert "replay batch" not in write_page(runs[:1], tmp_path / "report.html").read_text()


def test_regions_that_a_plan_leaves_to_the_default_are_those_that_are_driven(repository: Path) -> None:
    plan = Plan.load(repository / "plan" / "carla_demo.yaml")
    summary = Summary(4, True, 10, [0], methods={}, tasks={})
    plan = plan.changed({"driving": {"evaluation_seconds": 100}})
    default = " and ".join(DriveSettings(evaluation_seconds=1).evaluation_regions)
    assert f"frames each of {default}:" in setting_of([plan], summary)["evaluated on"]
    plan = plan.changed({"driving.evaluation_regions": ["harbour", "bridge", "dock"]})
    assert "frames each of harbour and bridge and dock:" in setting_of([plan], summary)["evaluated on"]


def test_what_a_plan_is_made_of_cannot_become_markup(tmp_path: Path) -> None:
    run = make_driving_run(tmp_path / "<b>run", "fedavg", 0.3)
    legs = [{"paths": ["a"]}, {"paths": ["b"], "from_round": 4}]
    change_plan_of(run, "data_loader", domains=["<i>city", 'high"way'], vehicles=["one"], snippets={"one": legs})
    text = write_page([run], tmp_path / "report.html").read_text()
    assert "from &lt;i&gt;city to high&#34;way: does the federation forget &lt;i&gt;city?</h1>" in text
    assert not re.search("<(b|i|u)>", text)


def test_frames_that_are_on_another_machine_are_missed_in_a_sentence(page: Path, tmp_path: Path) -> None:
    assert page.read_text().count("<img ") == 2 * 2, "two frames, and what each of two methods sees at the end"
    shutil.rmtree(tmp_path / "drives")
    text = write_page([tmp_path / "der"], page).read_text()
    assert "There are no pictures: " in text
    assert "<img " not in text


def test_what_belongs_to_one_method_is_not_shown_as_everybodys(page: Path) -> None:
    text = page.read_text()
    assert "<dt>buffer</dt><dd>0 (fedavg); 200 (der + Fed-A-GEM)</dd>" in text
    assert "<h2>The plan of the last run, der</h2>" in text


def test_bands_and_spreads_are_explained_where_there_are_several_seeds(page: Path, tmp_path: Path) -> None:
    explained = "± in the tables is a standard deviation. Bands reach from the lowest seed to the highest."
    assert explained not in page.read_text()
    runs = [make_driving_run(tmp_path / f"seed{seed}", "der", 0.1 * seed, seed=seed) for seed in range(2)]
    assert explained in write_page(runs, tmp_path / "seeds.html").read_text()
    assert "mean ± standard deviation over the seeds 0, 1; the shift is at round 4; before is" in " ".join(
        shown_table(runs).split()
    )


@pytest.mark.parametrize("rounds", [3, 4])
def test_a_shift_that_no_evaluation_follows_was_not_reached(tmp_path: Path, rounds: int) -> None:
    runs = [make_driving_run(tmp_path / method, method, 0.3, rounds=rounds) for method in ("fedavg", "der")]
    sentence = f"he shift at round 4 was not reached: the last evaluation is after {rounds} rounds"
    text = write_page(runs, tmp_path / "report.html").read_text()
    assert f"T{sentence}. So there is nothing to say yet" in text
    assert "<dd>4 (not reached)</dd>" in text
    assert "before" not in re.sub("<style>.*</style>", "", text).replace("come before the rounds", "")
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
        make_driving_run(tmp_path / f"{method}-seed{seed}", method, 0.1 * seed, seed=seed)
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
    assert len(ends) == 3 + 3, "a panel for each domain, and tables of the results, the frames and the costs"
    assert max(ends) <= width


def test_tensorboard_reads_what_is_written_beside_the_page(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = make_driving_run(tmp_path / "run", "der", 0.0)
    for _ in range(2):
        events = EventAccumulator(str(write_tensorboard(run)))
    events.Reload()
    series = events.Scalars("vehicle_1/map_50/city")
    assert [event.step for event in series] == list(range(1, 7))
    assert series[-1].value == pytest.approx(0.6)
