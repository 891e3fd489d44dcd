"""The wheel by itself: built from the source archive, installed in a fresh environment, run from an empty folder.

Installing torch again would take minutes, so the environment borrows the packages of the one that runs the tests. Their
folder is on its path, but no `.pth` file in it is read, so the editable install there cannot be what is imported. The
packages of the extras are hidden, as in an installation without them.
"""

import json
import os
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

PATIENCE = 600
SITE_PACKAGES = [path for path in sys.path if Path(path).name == "site-packages"]
HIDE = "import sys; sys.modules.update(dict.fromkeys(['carla', 'panda3d', 'transformers', 'timm']))"


def run(*command: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**environment, "COLUMNS": "300"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(repository, tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, repository, cwd=out)
    assert done.returncode == 0, done.stdout
    [built] = out.glob("fedagem-*.whl")
    return built


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """The folder of programs of the fresh environment; it borrows after the installation, which must not see others."""
    place = tmp_path_factory.mktemp("fresh")
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    offline = ("--no-deps", "--no-index", "--disable-pip-version-check")
    done = run(sys.executable, "-m", "pip", "--python", python, "install", *offline, wheel, cwd=place)
    assert done.returncode == 0, done.stdout
    [own] = place.glob("lib/python*/site-packages")
    (own / "borrowed.pth").write_text("\n".join([*SITE_PACKAGES, HIDE, ""]))
    return python.parent


@pytest.fixture
def empty(tmp_path_factory):
    return tmp_path_factory.mktemp("empty")


def test_what_is_imported_is_the_wheel(fresh, empty):
    code = "import fedagem, models, carla_bridge as b; print(fedagem.__file__, models.__file__, b.__file__, sep='\\n')"
    done = run(fresh / "python", "-c", code, cwd=empty)
    assert done.returncode == 0, done.stdout
    assert all(Path(line).is_relative_to(fresh.parent) for line in done.stdout.split())


def test_a_plan_is_simulated_by_name_from_an_empty_folder(fresh, empty):
    small = ["task_runner.settings.model.template=models.mnist_cnn.SmallCNN", "data_loader.settings.test_samples=50"]
    options = [part for setting in small for part in ("--set", setting)]
    done = run(fresh / "fedagem", "simulate", "rotated_digits", "--rounds", "5", *options, cwd=empty)
    assert done.returncode == 0, done.stdout
    [results] = empty.glob("runs/rotated_digits-*/results.json")
    assert json.loads(results.read_text())["rounds"] == 5
    assert results.with_name("report.html").exists()


def test_driving_names_the_extra_that_it_needs(fresh, empty):
    done = run(fresh / "fedagem", "run", "carla_demo", cwd=empty)
    assert done.returncode == 2
    assert "run `pip install 'fedagem[carla]'`" in done.stdout
    assert list(empty.iterdir()) == []


def test_it_holds_every_plan_study_and_file_of_the_workspace(wheel, repository):
    names = zipfile.ZipFile(wheel).namelist()
    by_hand = {"plan/plan.yaml", *(f"plan/{path.name}" for path in (repository / "plan").glob("plan_*.yaml"))}
    files = [*(repository / "plan").rglob("*.yaml"), *(repository / "workspace").rglob("*.py")]
    shared = {str(path.relative_to(repository)) for path in files} - by_hand
    expected = {*shared, "workspace/.workspace", "workspace/requirements.txt"}
    assert {name.removeprefix("fedagem/share/") for name in names if name.startswith("fedagem/share/")} == expected
    assert {name.split("/")[0] for name in names} == {"fedagem", "models", "carla_bridge", Path(names[-1]).parts[0]}


def test_the_environment_of_the_tests_was_installed_for_these_requirements(wheel):
    """`make install` was run since pyproject.toml changed."""
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = archive.read(metadata).decode().partition("\n\n")[0].splitlines()
    needed = {line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")}
    installed = next(iter(distributions(name="fedagem", path=SITE_PACKAGES)))
    assert set(installed.requires or []) == needed, "run `make install`"
