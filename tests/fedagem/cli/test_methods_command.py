"""`fedagem methods` tells what each method declares, one's own included."""

import json

import pytest
from click.testing import CliRunner

from fedagem.cli.methods import command
from fedagem.learning.methods import METHODS


def ask(*arguments):
    return CliRunner().invoke(command, list(arguments))


def test_every_method_is_described_with_its_settings():
    told = {method["name"]: method for method in json.loads(ask("--json").output)}
    assert told.keys() == METHODS.keys()
    for name, method in told.items():
        assert method["what"], name
        assert method["paper"], name
        assert method["keeps"], name
        assert method["scenarios"], name
        assert method["settings"].keys() == METHODS[name].Settings.model_fields.keys()
        assert all(not text.endswith(": ") for text in method["settings"].values()), f"{name} has a mute setting"


def test_the_text_fits_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = ask().output
    assert max(map(len, text.splitlines())) <= 80
    assert "der: DER: replays the buffer" in text


def test_ones_own_method_is_described_too(tmp_path, monkeypatch):
    (tmp_path / "my_methods.py").write_text(
        "from fedagem.learning.methods.fedavg import FedAvg\nclass Mine(FedAvg):\n    'My own.'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert ask("my_methods.Mine").output.startswith("my_methods.Mine: My own.")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("dar", "task_runner.settings.method is 'dar'; did you mean der"),
        ("no_such_package.Mine", "there is no package 'no_such_package' here."),
        ("json.JSONDecoder", "which is not a subclass of fedagem.learning.methods.method.Method."),
    ],
)
def test_what_is_no_method_is_refused(name, sentence):
    done = ask(name)
    assert done.exit_code != 0
    assert sentence in done.output
