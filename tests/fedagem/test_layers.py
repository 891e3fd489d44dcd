"""The layers of docs/architecture.md: an import, wherever it stands in a file, points to the left only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

BASE = ("errors", "seeding", "settings", "files", "system")
LAYERS = (
    "aggregation",
    "secagg",
    "learning",
    "tasks",
    "detection",
    "plans",
    "runs",
    "audit",
    "reports",
    "studies",
    "cli",
)
"""From left to right; each may import what stands to its left, and the base."""
BRIDGE_FROM = "detection"
"""The first layer that may use the bridge, which needs no CARLA for what it offers there."""
FOREIGN = ("openfl", "carla", "src", "panda3d", "chaos", "tests")
"""Nothing in `fedagem` imports these: OpenFL is known by its files and commands, CARLA by the bridge."""
WITHOUT_TORCH = ("aggregation", "secagg")
"""Plain arithmetic on arrays, which parties that learn nothing can use, too."""


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the dotted name of every import of a file, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports by a relative path"
            yield from ((node.lineno, f"{node.module}.{name.name}") for name in node.names)


def layer_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package).parts
    return parts[0] if len(parts) > 1 else parts[0].removesuffix(".py")


def faults_in(path: Path, package: Path) -> list[str]:
    """Imports of a file of `fedagem` that its layer may not have."""
    own = layer_of(path, package)
    place = LAYERS.index(own) if own in LAYERS else -1
    faults = []
    for line, name in imports_of(path):
        top, _, rest = name.partition(".")
        layer = rest.partition(".")[0]
        wrong = top in FOREIGN
        wrong |= top == "fedagem" and layer in LAYERS and LAYERS.index(layer) > place and own != "__init__"
        wrong |= top == "fedagem" and place == -1 and own in BASE and layer in LAYERS
        wrong |= top == "carla_bridge" and place < LAYERS.index(BRIDGE_FROM)
        wrong |= top == "models" and place == -1
        wrong |= top == "torch" and own in WITHOUT_TORCH
        if wrong:
            faults.append(f"{path.relative_to(package)}:{line} imports {name}")
    return faults


def test_every_import_points_to_the_left(repository):
    package = repository / "fedagem"
    files = sorted(package.rglob("*.py"))
    assert len(files) > 80
    assert not [fault for path in files for fault in faults_in(path, package)]


def test_the_folders_are_those_of_the_layers(repository):
    package = repository / "fedagem"
    folders = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    flat = {path.stem for path in package.glob("*.py")} - {"__init__"}
    assert folders == set(LAYERS)
    assert flat == set(BASE)


def test_models_import_no_room_of_ours(repository):
    for path in sorted((repository / "models").glob("*.py")):
        for line, name in imports_of(path):
            top = name.partition(".")[0]
            assert top not in {"fedagem", "carla_bridge", *FOREIGN}, f"{path.name}:{line} imports {name}"


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("learning/client.py", "from fedagem.plans.plan import Plan"),
        ("learning/client.py", "def f():\n    from fedagem.runs import folder"),
        ("learning/client.py", "import carla_bridge.frames"),
        ("aggregation/ring.py", "from fedagem.learning.exchange import Exchange"),
        ("aggregation/ring.py", "from fedagem.secagg.layout import Layout"),
        ("secagg/member.py", "from fedagem.learning.exchange import Exchange"),
        ("secagg/masks.py", "import torch"),
        ("plans/plan.py", "def f():\n    import openfl.federated"),
        ("settings.py", "from fedagem.learning.buffer import Batch"),
        ("reports/page.py", "import fedagem.cli.main"),
        ("runs/folder.py", "if True:\n    from src.aggregator import StagedAggregator"),
    ],
)
def test_a_wrong_import_is_seen(tmp_path, place, code):
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    assert faults_in(path, tmp_path)
