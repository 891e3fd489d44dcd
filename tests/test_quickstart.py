"""The notebook runs from top to bottom, and shows what it says: Fed-A-GEM keeps more of all rotations."""

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path("examples") / "quickstart.ipynb"


def test_the_notebook_is_kept_without_outputs(repository):
    cells = nbformat.read(repository / NOTEBOOK, as_version=4).cells
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]


@pytest.mark.timeout(600)
def test_the_notebook_runs_and_its_table_shows_the_gain(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(repository / NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    (table,) = [data["text/html"] for data in outputs if "text/html" in data]
    numbers = [float(number) for number in re.findall(r">(-?\d+\.\d)%<", table)]
    (plain_accuracy, plain_forgetting, unrefined), (accuracy, forgetting, refined) = numbers[:3], numbers[3:]
    assert accuracy > plain_accuracy + 5
    assert forgetting < plain_forgetting
    assert unrefined == 0 < refined
    assert len([data for data in outputs if "image/png" in data]) == 1
