"""Help answers at once: nothing heavy is loaded before a command runs."""

import json
import subprocess
import sys

import pytest

from carla_bridge.cli.main import COMMANDS

HEAVY = {"carla", "cv2", "fedagem", "matplotlib", "msgpack", "numpy", "panda3d", "pydantic", "rich", "torch", "yaml"}

CODE = """
import json, sys
from carla_bridge.cli.main import main
try:
    main([*sys.argv[1:], "--help"])
finally:
    print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_loads_nothing_heavy(command, environment):
    program = [sys.executable, "-c", CODE, *command.split()]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=True)
    *shown, loaded = done.stdout.splitlines()
    assert shown[0].startswith("Usage:")
    assert not HEAVY & set(json.loads(loaded))
