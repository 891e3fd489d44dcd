"""Where the OpenFL workspace and the plans that come with this package are, in a wheel and in a checkout alike."""

import re
from pathlib import Path

import fedagem
from fedagem.errors import FedAGemError, PlanError
from fedagem.settings import suggestion


def workspace_source() -> Path:
    """The OpenFL workspace: every run copies it, and plans name its classes."""
    return _shared("workspace")


def plan_folder() -> Path:
    """Where plans and studies are."""
    return _shared("plan")


def find_plan(name_or_path: str | Path) -> Path:
    """The file of a plan: one of the user's by its path, or one of the package by its name."""
    path, names = Path(name_or_path), plan_names()
    if path.is_file():
        return path
    if str(path) in names:
        return plan_folder() / f"{path}.yaml"
    if path.exists():
        raise PlanError(f"the plan {path} cannot be read: it is not a file.")
    raise PlanError(f"there is no plan {path}, neither a file nor a plan of the package{suggestion(path.stem, names)}")


def plan_names() -> list[str]:
    """The plans of the package; the folder also holds files that are not plans, such as lists of collaborators."""
    files = sorted(plan_folder().glob("*.yaml"))
    return [file.stem for file in files if re.search("^aggregator:", file.read_text(encoding="utf-8"), re.MULTILINE)]


def _shared(name: str) -> Path:
    """A folder that a wheel installs in `fedagem/share/` and a checkout has at its root."""
    package = Path(fedagem.__file__).resolve().parent
    for folder in (package / "share" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FedAGemError(f"the folder {name}/ of fedagem is missing in {package}: install the package again.")
