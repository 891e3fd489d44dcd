"""What a start does not pay for: libraries that are imported with their first use."""

import subprocess
import sys

import pytest

from src.imports import imported_on_use

SCRIPT = """
import sys
{imports}
print([name for name in {heavy!r} if name in sys.modules])
"""


def imported_by(repository, imports, heavy):
    """Which of some libraries a fresh process has imported."""
    command = [sys.executable, "-c", SCRIPT.format(imports=imports, heavy=heavy)]
    folder = repository / "workspace"
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def test_a_simulation_imports_no_scikit_learn(repository):
    assert imported_by(repository, "import src.simulate", ["openfl", "sklearn", "scipy"]) == "['openfl']"


def test_a_plan_without_drives_is_checked_without_torchvision(repository):
    imports = """
from fedagem.plans.checks import check_plan, check_snippet_paths
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan
plan = Plan.load(find_plan("rotated_digits"))
check_plan(plan)
check_snippet_paths(plan)
"""
    assert imported_by(repository, imports, ["torch", "torchvision", "cv2", "openfl"]) == "['torch']"


def test_a_module_is_imported_with_the_first_use_of_its_stand_in(tmp_path, monkeypatch):
    (tmp_path / "heavy").mkdir()
    (tmp_path / "heavy" / "__init__.py").write_text("")
    (tmp_path / "heavy" / "part.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    with imported_on_use("heavy.part"):
        from heavy import part  # type: ignore[import-not-found]
    assert "heavy" not in sys.modules
    assert part.answer == 42
    assert sys.modules["heavy.part"].answer == 42
    with pytest.raises(AttributeError, match="question"):
        _ = part.question


def test_a_module_that_is_there_already_is_left_alone():
    import json

    with imported_on_use("json.decoder"):
        assert sys.modules["json"] is json
    assert sys.modules["json"] is json
