"""Help is there at once: what takes seconds to import is imported when a command runs, not when it is described."""

import json
import subprocess
import sys

import pytest

from fedagem.cli.main import COMMANDS

HEAVY = ["torch", "torchvision", "openfl", "matplotlib", "numpy", "pandas", "pydantic", "yaml", "rich", "carla_bridge"]
ASK = """
import contextlib, io, json, sys
from fedagem.cli.main import main
with contextlib.redirect_stdout(io.StringIO()) as help, contextlib.suppress(SystemExit):
    main(sys.argv[1:], prog_name="fedagem")
print(json.dumps({"help": help.getvalue(), "modules": list(sys.modules)}))
"""


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_nothing_heavy(command, tmp_path):
    arguments = [*command.split(), "--help"]
    done = subprocess.run(
        [sys.executable, "-c", ASK, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    seen = json.loads(done.stdout)
    assert seen["help"].startswith(f"Usage: fedagem {command}".rstrip())
    assert not set(HEAVY) & set(seen["modules"])
