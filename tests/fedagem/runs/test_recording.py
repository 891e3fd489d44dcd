"""Drives that are recorded before the rounds: side by side or not, failing, interrupted, waited for."""

import hashlib
import signal
import sys
import threading

import pytest

from carla_bridge.config.section import CarlaSettings
from fedagem.errors import FedAGemError
from fedagem.runs.drives import Drive
from fedagem.runs.live.recording import RecordingWatch
from fedagem.runs.recording import record_drives
from tests.support.waiting import wait_for

BRIDGE = """#!{python}
# In place of the bridge: a process that does what the town of the drive says.
import pathlib, signal, sys, time
import yaml

def option(name):
    return sys.argv[sys.argv.index(name) + 1]

def finish(*_):
    (out / "ended").touch()
    sys.exit(143)

def wait_for_all():
    while len(list(out.parent.glob("*/begun"))) < int(drives):
        time.sleep(0.01)

carla = yaml.safe_load(pathlib.Path(option("--plan")).read_text())["carla"]
does, drives = carla["town"].split(" of ")
out = pathlib.Path(option("--out"))
signal.signal(signal.SIGTERM, finish)
out.mkdir(exist_ok=True)
(out / "begun").touch()
if does == "meet":
    wait_for_all()
elif does == "work alone":
    (out.parent / "at work").touch(exist_ok=False)
    time.sleep(0.3)
    (out.parent / "at work").unlink()
elif does == "fail":
    wait_for_all()
    sys.exit("Error: no such town")
elif does == "drive on":
    print("3 of 5 s", flush=True)
    while not (out.parent / "arrive").exists():
        time.sleep(0.01)
(out / "recording.json").write_text("{{}}")
"""

REAL = {
    "simulator": "embedded",
    "frames_per_second": 2,
    "fixed_delta_seconds": 0.1,
    "image": {"width": 96, "height": 64},
    "traffic": {"everywhere": {"vehicles": 6, "walkers": 2}},
    "vehicles": [{"name": "vehicle_1"}],
}


@pytest.fixture
def bridge(tmp_path, monkeypatch):
    """A stand-in for `carla-bridge`, on a machine with two cores."""
    script = tmp_path / "carla-bridge"
    script.write_text(BRIDGE.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setattr("fedagem.runs.bridge_commands._BRIDGE", str(script))
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def drives(folder, *deeds, simulator="embedded"):
    sections = [
        CarlaSettings(simulator=simulator, town=f"{deed} of {len(deeds)}", seed=n) for n, deed in enumerate(deeds)
    ]
    return [Drive(f"drive.{n}", section, 5, None, str(folder)) for n, section in enumerate(sections)]


def test_drives_with_a_simulator_of_their_own_are_recorded_side_by_side(tmp_path, bridge):
    both = drives(tmp_path / "snippets", "meet", "meet")
    record_drives(both)
    assert all(drive.recorded for drive in both)


def test_a_file_is_told_how_far_a_drive_is_while_it_is_recorded(tmp_path, bridge, capsys):
    (drive,) = drives(tmp_path / "snippets", "drive on")
    recording = threading.Thread(target=record_drives, args=([drive],))
    recording.start()
    said: list[str] = []

    def told():
        said.append(capsys.readouterr().err)
        return "recording drive.0: 3 of 5 s\n" in "".join(said)

    wait_for(told)
    assert not drive.recorded
    (tmp_path / "snippets" / "arrive").touch()
    recording.join()


def test_one_server_has_one_world(tmp_path, bridge):
    three = drives(tmp_path / "snippets", *["work alone"] * 3, simulator=None)
    record_drives(three)
    assert all(drive.recorded for drive in three)


def test_one_that_fails_ends_the_others_with_one_sentence(tmp_path, bridge):
    long, bad = drives(tmp_path / "snippets", "drive on", "fail")
    with pytest.raises(
        FedAGemError, match=r"the drive drive\.1 could not be recorded; .*: no such town \(its log"
    ) as said:
        record_drives([long, bad])
    assert "\n" not in said.value.message
    assert (long.place / "ended").exists()
    assert not long.recorded


def test_an_interrupt_ends_all(tmp_path, bridge):
    both = drives(tmp_path / "snippets", "drive on", "drive on")
    main = threading.get_ident()

    def interrupt():
        wait_for(lambda: all((drive.place / "begun").exists() for drive in both))
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        record_drives(both)
    assert all((drive.place / "ended").exists() for drive in both)


def test_who_needs_a_drive_that_is_being_recorded_waits_for_it(tmp_path, bridge):
    (drive,) = drives(tmp_path / "snippets", "drive on")
    threads = [threading.Thread(target=record_drives, args=([drive],)) for _ in range(2)]
    threads[0].start()
    wait_for((drive.place / "begun").exists)
    (drive.place / "begun").unlink()
    threads[1].start()
    threads[1].join(0.5)
    assert threads[1].is_alive(), "it waits"
    (tmp_path / "snippets" / "arrive").touch()
    for thread in threads:
        thread.join(60)
    assert drive.recorded
    assert not (drive.place / "begun").exists(), "nobody drove a second time"


def contents(drive):
    files = sorted(path for path in drive.place.rglob("*") if path.is_file() and path.name != "recording.json")
    return {str(path.relative_to(drive.place)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_side_by_side_gives_the_files_of_one_after_the_other(tmp_path):
    """The real bridge, each with its simulator."""
    driven = {seed: CarlaSettings.model_validate({**REAL, "seed": seed}) for seed in (1, 2)}
    together = [Drive(f"drive_{seed}", driven[seed], 4, 90, str(tmp_path / "together")) for seed in (1, 2)]
    record_drives(together)
    alone = Drive("drive_2", driven[2], 4, 90, str(tmp_path / "alone"))
    record_drives([alone])
    assert len([name for name in contents(alone) if name.endswith(".jpg")]) == 8
    assert contents(together[1]) == contents(alone)
    assert contents(together[0]) != contents(alone)
    watch = RecordingWatch(alone.place.parent / "logs" / f"{alone.place.name}.log", 0)
    watch.look()
    assert watch.second == 4
    assert "0 gaps" in watch.said
