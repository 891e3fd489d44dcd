"""The classes that a plan names, looked for without importing OpenFL."""

import functools
import importlib.util
import re
from typing import Any

from fedagem.errors import PlanError
from fedagem.plans.workspace import workspace_source
from fedagem.settings import suggestion


def check_template(section: str, template: Any) -> None:
    """Refuse a class that is not there."""
    if not isinstance(template, str):
        raise PlanError(f"{section}.template must be the dotted path of a class, not {template!r}.")
    package = template.partition(".")[0]
    if package == "src":
        if template not in _workspace_classes():
            raise PlanError(f"{section}.template is {template!r}{suggestion(template, _workspace_classes())}")
    elif package and importlib.util.find_spec(package) is None:
        raise PlanError(f"{section}.template is {template!r}, but there is no package {package!r} here.")


@functools.cache
def _workspace_classes() -> list[str]:
    return [
        f"src.{file.stem}.{found}"
        for file in sorted((workspace_source() / "src").glob("*.py"))
        for found in re.findall(r"^class ([A-Z]\w*)", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
