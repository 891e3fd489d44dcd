"""What a user can get wrong on the command line of the bridge ends in one sentence; no simulator is needed."""

import numpy as np
import pytest
from click.testing import CliRunner

from carla_bridge.cli.main import main
from carla_bridge.frames import Frame
from carla_bridge.snippets import SnippetWriter
from carla_bridge.snippets.recording import last_timestamps


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    (tmp_path / "binary.yaml").write_bytes(bytes(range(256)))
    (tmp_path / "plan.yaml").write_text("carla: {simulator: embedded}\n")
    write(tmp_path / "drive", [0.0])
    return tmp_path


def write(place, times):
    with SnippetWriter(place, ["vehicle"], vehicle="v", domain="city") as writer:
        for number, time in enumerate(times):
            writer.write(Frame(np.zeros((32, 32, 3), np.uint8), number, time))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("record --plan binary.yaml --seconds 1 --out o", "the plan binary.yaml is not YAML"),
        ("record --plan plan.yaml --seconds 1 --out file", "file: "),
        ("record --plan plan.yaml --seconds 1 --out file/o", "file/o: Not a directory"),
        ("stats drive --out file", "file: File exists"),
        ("preview drive --out picture.jpg", "--out is picture.jpg, but the contact sheet is a .png"),
        ("preview drive --out file/sheet.png", "file: File exists"),
        ("preview 127.0.0.1:abc --out x.png", "127.0.0.1:abc is neither a folder nor HOST:PORT"),
        ("preview 127.0.0.1:0 --out x.png", "127.0.0.1:0 is neither a folder nor HOST:PORT"),
    ],
)
def test_a_mistake_is_named_in_one_sentence(folder, words, sentence):
    result = CliRunner().invoke(main, words.split())
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 1
    assert sentence in " ".join(result.output.split())


def test_a_recording_that_began_for_some_vehicles_only_repeats_none_of_their_frames(tmp_path):
    write(tmp_path / "a" / "000_city", [0.0, 1.0])
    assert last_timestamps(tmp_path, ["a", "b"]) == {"a": 1.0}


def test_a_recording_stopped_before_a_vehicles_first_frame_can_go_on(tmp_path):
    write(tmp_path / "a" / "000_city", [0.0, 1.0])
    write(tmp_path / "b" / "000_city", [])
    assert last_timestamps(tmp_path, ["a", "b"]) == {"a": 1.0}
