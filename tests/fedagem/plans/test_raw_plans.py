"""After parsing nobody works with a plan's raw mapping: it exists in fedagem/plans and nowhere else."""

import ast
from pathlib import Path

import pytest

from fedagem.plans.schema import OPTIONAL_SECTIONS, SECTIONS

KEYS = {*SECTIONS, *OPTIONAL_SECTIONS, "settings", "template"} - {"tasks"}
"""What a plan's mapping is indexed with, under whatever name; `tasks` is a key of other mappings, too."""
RAW_SOURCES = {"yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load"}
READS_OTHER_YAML = {
    "fedagem/studies/study.py": "studies",
    "fedagem/secagg/identity.py": "pins of members",
    "carla_bridge/config/plan_file.py": "the carla section",
    "carla_bridge/datasets/yolo.py": "other people's data sets",
    "workspace/src/simulate.py": "what OpenFL made of a plan",
}


def places_in(path: Path) -> list[str]:
    """Where a file indexes a mapping with the key of a plan, reads YAML, or reaches for a plan's document."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Subscript) and _is_key(node.slice):
            found.append(f"{path}:{node.lineno} {ast.unparse(node)}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            takes_key = node.func.attr in {"get", "pop", "setdefault"} and node.args and _is_key(node.args[0])
            if takes_key or ast.unparse(node.func) in RAW_SOURCES:
                found.append(f"{path}:{node.lineno} {ast.unparse(node)}")
        if isinstance(node, ast.Attribute) and node.attr == "_document":
            found.append(f"{path}:{node.lineno} {ast.unparse(node)}")
        if isinstance(node, ast.ImportFrom) and "fedagem.plans.editing" in (node.module, *_imported(node)):
            found.append(f"{path}:{node.lineno} imports fedagem.plans.editing")
    return found


def _is_key(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in KEYS


def _imported(node: ast.ImportFrom) -> list[str]:
    return [f"{node.module}.{name.name}" for name in node.names]


def test_no_raw_plan_is_indexed_outside_plans(repository):
    rooms = ("fedagem", "workspace/src", "benchmarks", "models", "carla_bridge")
    files = [path for room in rooms for path in sorted((repository / room).rglob("*.py"))]
    others = [path for path in files if path.parent != repository / "fedagem" / "plans"]
    assert len(others) > 200
    found = [place for path in others for place in places_in(path)]
    allowed = [str(repository / name) for name in READS_OTHER_YAML]
    assert not [place for place in found if not place.startswith(tuple(allowed))]


@pytest.mark.parametrize(
    "code",
    [
        'loader = plan["data_loader"]',
        'x = anything.get("settings", {})',
        'x = anything.get("task_runner")["settings"]',
        "plan = yaml.safe_load(text)",
        "x = plan._document",
        "from fedagem.plans import editing",
        "from fedagem.plans.editing import load_document",
    ],
)
def test_an_indexed_plan_is_seen(tmp_path, code):
    (tmp_path / "file.py").write_text(code)
    assert places_in(tmp_path / "file.py")
