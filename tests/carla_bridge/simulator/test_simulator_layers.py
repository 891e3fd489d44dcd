"""The simulator's folders are layers: each imports only from itself and from the layers before it.

The imports are read from the source, so those inside functions and type-checking blocks count too.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "carla_bridge.simulator"
LAYERS = (
    ("errors", "scene", "episode"),
    ("catalogue",),
    ("town",),
    ("actors",),
    ("traffic",),
    ("world",),
    ("protocol",),
    ("rendering",),
    ("pictures",),
    ("server",),
)
"""First to last; modules of one layer may import each other."""
THIRD_PARTY = {"cv2", "msgpack", "numpy", "panda3d"}
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def modules(repository: Path) -> list[Path]:
    return sorted((repository / PACKAGE.replace(".", "/")).rglob("*.py"))


def imported(source: str) -> Iterator[str]:
    """The dotted names that a module imports; of `from a import b` both a and a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(module: str) -> str | None:
    """The part of a module's name that stands in LAYERS; None outside the simulator and for its root."""
    return module.removeprefix(f"{PACKAGE}.").split(".")[0] if module.startswith(f"{PACKAGE}.") else None


def violations(layer: str, source: str) -> list[str]:
    """What a module of a layer imports but must not."""
    found = []
    for name in imported(source):
        other = layer_of(name)
        if other is not None:
            allowed = RANKS.get(other, len(LAYERS)) <= RANKS[layer]
        else:
            allowed = name == PACKAGE or name.split(".")[0] in sys.stdlib_module_names | THIRD_PARTY
        if not allowed:
            found.append(name)
    return found


def test_every_module_belongs_to_a_layer(repository):
    root = repository / PACKAGE.replace(".", "/")
    found = {path.relative_to(root).parts[0].removesuffix(".py") for path in modules(repository)}
    assert found - {"__init__"} == set(RANKS)


def test_no_module_imports_from_a_later_layer_or_from_outside(repository):
    root = repository / PACKAGE.replace(".", "/")
    wrong = {
        str(path.relative_to(root)): found
        for path in modules(repository)
        if path.name != "__init__.py"
        and (found := violations(path.relative_to(root).parts[0].removesuffix(".py"), path.read_text()))
    }
    assert wrong == {}


def test_packages_import_nothing(repository):
    inits = [path for path in modules(repository) if path.name == "__init__.py"]
    assert [path for path in inits if list(imported(path.read_text()))] == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (f"from {PACKAGE}.world import World", [f"{PACKAGE}.world", f"{PACKAGE}.world.World"]),
        (f"from {PACKAGE} import server", [f"{PACKAGE}.server"]),
        (f"def f():\n    import {PACKAGE}.pictures.render_pool", [f"{PACKAGE}.pictures.render_pool"]),
        ("from carla_bridge.frames import Frame", ["carla_bridge.frames", "carla_bridge.frames.Frame"]),
        ("import torch", ["torch"]),
        (f"import numpy as np\nfrom {PACKAGE}.town.path import Floats", []),
    ],
    ids=["a later layer", "a module of the root", "inside a function", "the bridge", "another package", "allowed"],
)
def test_the_check_sees(source, names):
    assert violations("traffic", source) == names
