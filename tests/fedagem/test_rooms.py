"""Each room imports only what it may: the algorithm could serve another engine, the bridge needs no torch."""

import pkgutil
import subprocess
import sys

import pytest

FORBIDDEN = {
    "fedagem": ["openfl", "carla", "src"],
    "models": ["openfl", "carla", "fedagem", "src"],
    "carla_bridge": ["torch", "torchvision", "openfl", "models"],
}


def modules_of(room, repository):
    found = pkgutil.walk_packages([str(repository / room)], f"{room}.")
    return [room, *(module.name for module in found)]


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_keeps_to_itself(room, repository):
    modules = [name for name in modules_of(room, repository) if not name.endswith("__main__")]
    assert len(modules) > 5
    code = f"""
import importlib, sys
for name in {modules!r}:
    importlib.import_module(name)
    loaded = [f for f in {FORBIDDEN[room]!r} if f in sys.modules]
    if loaded:
        sys.exit(f"{{name}} imports {{loaded}}")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
