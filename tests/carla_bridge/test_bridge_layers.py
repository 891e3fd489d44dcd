"""The bridge's layers: each may import only what stands to its left, also inside functions."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

LAYERS = (
    ("errors", "termination"),
    ("requirements",),
    ("frames", "images", "tags"),
    ("annotation", "packets"),
    ("config",),
    ("snippets",),
    ("datasets",),
    ("fleet",),
    ("fleet_process",),
    ("stream",),
    ("cli",),
)
"""From left to right; the first three rows are single modules."""

SIMULATOR = "carla_bridge.simulator"
STARTS_THE_SIMULATOR = "carla_bridge.fleet_process.simulator_server"
LOADS_CARLA_LAZILY = "carla_bridge.fleet.connection"

FEDAGEM = {"fedagem.errors", "fedagem.files", "fedagem.settings"}
"""What both rooms share."""
FORBIDDEN = {"torch", "torchvision", "openfl", "models", "src"}

RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ROOT = Path(__file__).parents[2]


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "carla_bridge").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if name != "carla_bridge" and not name.startswith(SIMULATOR):
            yield name, ast.parse(path.read_text())


def imported(node: ast.AST) -> list[str]:
    """The modules, or names in modules, that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute here"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def layer(name: str) -> str:
    return name.split(".")[1]


MODULES = dict(modules())
IMPORTS = {name: [target for node in ast.walk(tree) for target in imported(node)] for name, tree in MODULES.items()}


def test_every_module_has_a_layer():
    assert {layer(name) for name in MODULES} == set(RANK)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_what_stands_to_its_left(name):
    for target in IMPORTS[name]:
        if target.startswith(SIMULATOR):
            assert name == STARTS_THE_SIMULATOR, f"{name} imports {target}"
        elif target.startswith("carla_bridge."):
            same = layer(target) == layer(name)
            assert same or RANK[layer(target)] < RANK[layer(name)], f"{name} imports {target}"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_no_torch_and_of_fedagem_only_what_is_shared(name):
    for target in IMPORTS[name]:
        assert target.split(".")[0] not in FORBIDDEN, f"{name} imports {target}"
        if target.split(".")[0] == "fedagem":
            assert any(target == allowed or target.startswith(f"{allowed}.") for allowed in FEDAGEM), (
                f"{name} imports {target}"
            )


@pytest.mark.parametrize("name", MODULES)
def test_carla_and_the_simulator_are_loaded_only_where_they_are_used(name):
    """CARLA's client at the top only in `fleet`, whose modules others import lazily; the simulator never at the top."""
    runs_at_import = [node for node in MODULES[name].body if isinstance(node, ast.Import | ast.ImportFrom)]
    for target in (target for node in runs_at_import for target in imported(node)):
        assert not target.startswith(SIMULATOR), f"{name} imports {target}"
        if target.split(".")[0] == "carla":
            assert layer(name) == "fleet", f"{name} imports {target}"
            assert name != LOADS_CARLA_LAZILY
