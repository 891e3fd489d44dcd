"""Replays snippets by simulation time, through the same interface as the live stream."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from carla_bridge import images
from carla_bridge.config.image_rule import ImageRule
from carla_bridge.errors import EndOfSnippetsError, NoImageFitsError, SnippetError
from carla_bridge.frames import Frame
from carla_bridge.snippets.journal import read_document
from carla_bridge.snippets.layout import (
    Aliases,
    Faults,
    ImageRecord,
    OnError,
    SnippetIndex,
    category_names,
    parse_index,
)

Timeline = Literal["recorded", "consecutive", "even"]


@dataclass(frozen=True)
class _Entry:
    timestamp: float
    snippet: SnippetIndex
    image: ImageRecord


class SnippetSource:
    """One or more snippets as one timeline.

    `timeline="recorded"` keeps the recorded time stamps, so that pieces of one drive join again and drives
    recorded at the same time interleave; `"consecutive"` lays the snippets end to end in the order given, from
    second 0; `"even"` does the same with one image in every `frame_period` seconds, so that gaps close. Snippets
    without time stamps are always even. The default is "recorded" if all snippets have time stamps.

    `classes` fixes the labels, by name; without it they are the snippets' categories in order of appearance.
    `aliases` renames categories before that, and leaves out those that it names None. `select` leaves out the images
    whose number within their snippet it refuses, to keep some for an evaluation; `seconds` keeps only images with
    time stamps in one of these spans [from, to), and `rule` only images whose attributes it fits.
    `repeat` starts again at the end; without it a window that begins after the end is refused. With
    `on_error="skip"` a fault costs the box, image or snippet it is in, and a warning; by default it raises.
    """

    def __init__(
        self,
        directories: Sequence[Path | str],
        *,
        classes: Sequence[str] | None = None,
        on_error: OnError = "refuse",
        timeline: Timeline | None = None,
        frame_period: float = 1.0,
        repeat: bool = False,
        select: Callable[[int], bool] | None = None,
        aliases: Aliases = MappingProxyType({}),
        seconds: Sequence[tuple[float, float]] = (),
        rule: ImageRule | None = None,
    ) -> None:
        if not frame_period > 0:
            raise SnippetError(f"frame_period is {frame_period!r}; it must be a positive number of seconds")
        if timeline not in (None, "recorded", "consecutive", "even"):
            raise SnippetError(f"timeline is {timeline!r}; valid values: 'recorded', 'consecutive', 'even'")
        self._faults = Faults(on_error)
        self._period = frame_period
        self._repeat = repeat
        self.snippets, self._classes = _open_all([Path(path) for path in directories], classes, aliases, self._faults)
        if select is not None or seconds:
            self.snippets = [_selected(snippet, select or _every_one, seconds) for snippet in self.snippets]
        if rule is not None:
            self.snippets = _fitting(self.snippets, rule)
        count = sum(len(snippet.images) for snippet in self.snippets)
        if count == 0:
            raise SnippetError(f"no frame is left in {', '.join(map(str, directories)) or 'an empty list of snippets'}")
        self._entries, self.start, self.end = self._lay_out(timeline)
        self._times = np.array([entry.timestamp for entry in self._entries])

    @property
    def classes(self) -> tuple[str, ...]:
        return self._classes

    @property
    def skipped(self) -> list[str]:
        """One sentence per fault that was skipped so far."""
        return self._faults.skipped

    @property
    def last_timestamp(self) -> float:
        return float(self._times[-1])

    def __len__(self) -> int:
        return len(self._entries)

    def frames(self, numbers: Iterable[int] | None = None) -> Iterator[Frame]:
        """Every frame once, in order of time, or only some, by their numbers in that order."""
        yield from self._read(range(len(self._entries)) if numbers is None else numbers, 0.0)

    def window(self, start: float, end: float) -> Iterator[Frame]:
        """The frames with start <= timestamp < end; with `repeat`, time stamps keep rising with every repetition."""
        if not (math.isfinite(start) and math.isfinite(end) and start <= end):
            raise SnippetError(f"the window [{start}, {end}) is not a span of time")
        if not self._repeat:
            if start >= self.end and end > start:
                raise EndOfSnippetsError(
                    f"the snippets end at second {self.end:g}, so the window [{start:g}, {end:g}) has no "
                    "frames; record more or let the snippets repeat"
                )
            return self._read(self._between(start, end), 0.0)
        return self._repeated(start, end)

    def close(self) -> None:
        """Does nothing: no file stays open between frames."""

    def _lay_out(self, timeline: Timeline | None) -> tuple[list[_Entry], float, float]:
        untimed = [s for s in self.snippets if any(image.timestamp is None for image in s.images)]
        if timeline == "recorded" and untimed:
            raise SnippetError(f"{untimed[0].directory} has no time stamps; replay it with a consecutive timeline")
        if timeline == "recorded" or (timeline is None and not untimed):
            entries = [
                _Entry(image.timestamp, snippet, image)
                for snippet in self.snippets
                for image in snippet.images
                if image.timestamp is not None
            ]
            entries.sort(key=lambda entry: entry.timestamp)
            return entries, entries[0].timestamp, entries[-1].timestamp + _spacing(entries, self._period)
        entries, begin = [], 0.0
        for snippet in self.snippets:
            part = self._from_zero(snippet, even=timeline == "even")
            entries += [_Entry(begin + entry.timestamp, snippet, entry.image) for entry in part]
            if part:
                begin = entries[-1].timestamp + _spacing(part, self._period)
        return entries, 0.0, begin

    def _from_zero(self, snippet: SnippetIndex, even: bool) -> list[_Entry]:
        times = [image.timestamp for image in snippet.images]
        if even or any(time is None for time in times):
            times = [number * self._period for number in range(len(times))]
        first = times[0] if times else 0.0
        return [
            _Entry((time or 0.0) - (first or 0.0), snippet, image)
            for time, image in zip(times, snippet.images, strict=True)
        ]

    def _between(self, start: float, end: float) -> range:
        low, high = np.searchsorted(self._times, [start, end], side="left")
        return range(int(low), int(high))

    def _repeated(self, start: float, end: float) -> Iterator[Frame]:
        length = self.end - self.start
        lap = math.floor((start - self.start) / length)
        while self.start + lap * length < end:
            shift = lap * length
            yield from self._read(self._between(start - shift, end - shift), shift)
            lap += 1

    def _read(self, numbers: Iterable[int], shift: float) -> Iterator[Frame]:
        for number in numbers:
            try:
                frame = _load(self._entries[number], shift)
            except SnippetError as fault:
                self._faults.report(fault)
                continue
            yield frame


def _selected(
    snippet: SnippetIndex, select: Callable[[int], bool], seconds: Sequence[tuple[float, float]]
) -> SnippetIndex:
    if seconds and any(image.timestamp is None for image in snippet.images):
        raise SnippetError(f"{snippet.directory} has no time stamps, so seconds of it cannot be chosen")

    def within(image: ImageRecord) -> bool:
        time = image.timestamp
        return not seconds or (time is not None and any(begin <= time < end for begin, end in seconds))

    chosen = (image for number, image in enumerate(snippet.images) if select(number) and within(image))
    return replace(snippet, images=tuple(chosen))


def _fitting(snippets: list[SnippetIndex], rule: ImageRule) -> list[SnippetIndex]:
    """The images that a rule fits; refuses a rule that fits none of them."""
    chosen = [
        replace(snippet, images=tuple(image for image in snippet.images if rule.fits(image.attributes)))
        for snippet in snippets
    ]
    if any(snippet.images for snippet in snippets) and not any(snippet.images for snippet in chosen):
        places = ", ".join(str(snippet.directory) for snippet in snippets)
        found = rule.found(image.attributes for snippet in snippets for image in snippet.images)
        raise NoImageFitsError(f"the rule of its domain fits no image of {places}: {found}")
    return chosen


def _every_one(_: int) -> bool:
    return True


def _spacing(entries: list[_Entry], period: float) -> float:
    """How long the last frame lasts: as long as the median one before it."""
    gaps = np.diff([entry.timestamp for entry in entries])
    gaps = gaps[gaps > 0]
    return float(np.median(gaps)) if len(gaps) else period


def _open_all(
    directories: list[Path], classes: Sequence[str] | None, aliases: Aliases, faults: Faults
) -> tuple[list[SnippetIndex], tuple[str, ...]]:
    documents: list[tuple[Path, dict[str, Any]]] = []
    found: dict[str, None] = {}
    for directory in directories:
        try:
            document = read_document(directory)
            names_here = category_names(directory, document).values()
            found.update(dict.fromkeys(name for name in (aliases.get(n, n) for n in names_here) if name is not None))
            documents.append((directory, document))
        except SnippetError as fault:
            faults.report(fault)
    names = tuple(found) if classes is None else tuple(classes)
    snippets = []
    for directory, document in documents:
        try:
            snippets.append(parse_index(directory, document, names, aliases, faults))
        except SnippetError as fault:
            faults.report(fault)
    return snippets, names


def _load(entry: _Entry, shift: float) -> Frame:
    image = entry.image
    try:
        data = image.path.read_bytes()
    except OSError as error:
        raise SnippetError(f"{image.path}: the image cannot be read ({error.strerror})") from error
    pixels = images.decode(data)
    if pixels is None:
        raise SnippetError(f"{image.path}: the image is truncated or not an image")
    if pixels.shape[:2] != (image.height, image.width):
        raise SnippetError(
            f"{image.path}: the image is {pixels.shape[1]} x {pixels.shape[0]}, "
            f"its annotation says {image.width} x {image.height}"
        )
    return Frame(
        image=pixels,
        frame=image.frame,
        timestamp=entry.timestamp + shift,
        annotations=image.annotations,
        vehicle=entry.snippet.vehicle,
        domain=entry.snippet.domain,
    )
