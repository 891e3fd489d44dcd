"""The recorded frames that a plan is scored on, folder by folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

from carla_bridge.errors import NoImageFitsError
from carla_bridge.snippets import SnippetError, SnippetSource, find_snippets
from fedagem.errors import DataError
from fedagem.plans.driving import DrivingSettings, Holdout
from fedagem.tasks.data_folder import resolve_root


def evaluation_sources(data: DrivingSettings) -> list[tuple[str, SnippetSource]]:
    """Each domain's folders as sources of the frames to score, so that consecutive frames are those of one vehicle."""
    try:
        return list(_sources(data))
    except SnippetError as problem:
        raise DataError(f"the evaluation frames cannot be read: {problem}.") from problem


def _sources(data: DrivingSettings) -> Iterator[tuple[str, SnippetSource]]:
    plan = data.evaluation
    learned = _learned_from(data) if plan.held_out_only else set()
    for domain, paths in plan.paths.items():
        places = [(path, directory) for path in paths for directory in find_snippets(resolve_root(path))]
        empty: NoImageFitsError | None = None
        found = []
        for path, directory in places:
            try:
                source = SnippetSource(
                    [directory],
                    classes=data.classes,
                    aliases=data.class_aliases,
                    select=_scored(plan.every, data.holdout if directory.resolve() in learned else None),
                    seconds=[(begin, end) for begin, end in plan.seconds.get(path, [])],
                    rule=data.rule_of(domain),
                )
            except NoImageFitsError as problem:
                empty = problem
                continue
            found.append((domain, source))
        if empty is not None and not found:
            raise empty
        yield from found


def _scored(every: int, holdout: Holdout | None) -> Callable[[int], bool]:
    return lambda number: number % every == 0 and (holdout is None or holdout.keeps_out(number))


def _learned_from(data: DrivingSettings) -> set[Path]:
    """The folders that vehicles replay."""
    paths = {path for legs in data.snippets.values() for leg in legs for path in leg.paths}
    return {directory.resolve() for path in paths for directory in find_snippets(resolve_root(path))}
