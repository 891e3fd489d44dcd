"""The recorded drives that a plan names, found on this machine or refused by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedagem.errors import DataError
from fedagem.tasks.data_folder import resolve_root


def find_drives(path: str) -> list[Path]:
    """The snippets at or below a plan's path: an absolute one, or one within the data folder."""
    from carla_bridge.snippets import SnippetError, find_snippets

    try:
        return find_snippets(resolve_root(path))
    except SnippetError as problem:
        raise DataError(f"{problem}: {_remedy(path)}.") from problem


def check_snippet_paths(plan: dict[str, Any]) -> None:
    """Refuse a plan whose recorded drives are not here; other machines may have them elsewhere, so a run asks this."""
    for setting, path in _named(plan["data_loader"]["settings"]):
        try:
            find_drives(path)
        except DataError as problem:
            raise DataError(f"data_loader.settings.{setting} names {path}, but {problem.message}") from problem


def _named(loader: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for vehicle, legs in loader.get("snippets", {}).items():
        yield from ((f"snippets.{vehicle}", path) for leg in legs for path in leg["paths"])
    for domain, paths in loader.get("evaluation", {}).get("paths", {}).items():
        yield from ((f"evaluation.paths.{domain}", path) for path in paths)


def _remedy(path: str) -> str:
    given = Path(path).expanduser()
    if given.is_absolute():
        return "name a folder with frames and their annotations.json, such as `carla-bridge record` makes"
    return (
        f"set FEDAGEM_DATA to the folder that holds {given.parts[0] if given.parts else path}, or give absolute paths"
    )
