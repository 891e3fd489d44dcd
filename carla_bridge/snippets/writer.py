"""Writes one snippet frame by frame; if the process is stopped, everything recorded until then can be read."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from carla_bridge import images
from carla_bridge.errors import SnippetError
from carla_bridge.frames import Annotations, Box, Frame
from carla_bridge.snippets.journal import read_journal
from carla_bridge.snippets.layout import ANNOTATIONS, JOURNAL
from fedagem.files import link_or_copy, write_file


class SnippetWriter:
    """A context manager; `jpeg_quality=None` writes PNG, which replays bit for bit."""

    def __init__(
        self,
        directory: Path | str,
        classes: Sequence[str],
        *,
        vehicle: str,
        domain: str,
        jpeg_quality: int | None = None,
    ) -> None:
        if jpeg_quality is not None and not 1 <= jpeg_quality <= 100:
            raise SnippetError(f"JPEG quality {jpeg_quality} is not between 1 and 100")
        self.directory = Path(directory)
        for name in (ANNOTATIONS, JOURNAL):
            if (self.directory / name).exists():
                raise SnippetError(f"{self.directory} already holds a snippet; record into another directory")
        self.directory.mkdir(parents=True, exist_ok=True)
        self.count = 0
        self._classes = tuple(classes)
        self._jpeg_quality = jpeg_quality
        self._boxes = 0
        self._last = (-1, float("-inf"))
        self._closed = False
        self._journal = self._start_journal(vehicle, domain)

    def _start_journal(self, vehicle: str, domain: str) -> Any:
        header = {
            "info": {
                "description": f"driving snippet of {vehicle} in {domain}",
                "vehicle": vehicle,
                "domain": domain,
            },
            "categories": [
                {"id": number, "name": name, "supercategory": "none"}
                for number, name in enumerate(self._classes, start=1)
            ],
        }
        write_file(self.directory / JOURNAL, json.dumps(header) + "\n")
        return (self.directory / JOURNAL).open("ab")

    def write(self, frame: Frame) -> None:
        """Append a frame; the image is on disk before the journal names it."""
        if frame.frame <= self._last[0] or frame.timestamp <= self._last[1]:
            raise SnippetError(
                f"{self.directory}: frame {frame.frame} at {frame.timestamp} s comes after "
                f"frame {self._last[0]} at {self._last[1]} s; frames and times must rise"
            )
        name = f"{frame.frame:08d}{images.suffix(self._jpeg_quality)}"
        (self.directory / name).write_bytes(images.encode(frame.image, self._jpeg_quality).tobytes())
        height, width = frame.image.shape[:2]
        row = {"file_name": name, "width": width, "height": height, "frame": frame.frame, "timestamp": frame.timestamp}
        self._append(row, frame.annotations)
        self._last = (frame.frame, frame.timestamp)

    def adopt(self, image: Path, size: tuple[int, int], annotations: Annotations, **details: Any) -> None:
        """Append an image file as it is, without a time; it shares its bytes with the original if they share a disk."""
        name = f"{self.count:08d}{image.suffix.lower()}"
        link_or_copy(image, self.directory / name)
        row = {"file_name": name, "width": size[0], "height": size[1], "frame": self.count, **details}
        self._append(row, annotations)

    def _append(self, row: dict[str, Any], annotations: Annotations) -> None:
        self.count += 1
        entry = {"image": {"id": self.count, **row}, "annotations": [self._annotation(box) for box in annotations]}
        self._journal.write(json.dumps(entry).encode() + b"\n")
        self._journal.flush()

    def _annotation(self, box: Box) -> dict[str, Any]:
        self._boxes += 1
        return {
            "id": self._boxes,
            "image_id": self.count,
            "category_id": box.label + 1,
            "bbox": [box.x, box.y, box.width, box.height],
            "area": box.width * box.height,
            "iscrowd": 0,
            "truncated": int(box.truncated),
            "pixels": box.pixels,
            "object_id": box.object_id,
        }

    def close(self) -> None:
        """Turn the journal into `annotations.json` in one step, then delete it."""
        if self._closed:
            return
        self._closed = True
        self._journal.close()
        journal = self.directory / JOURNAL
        write_file(self.directory / ANNOTATIONS, json.dumps(read_journal(journal)))
        journal.unlink()

    def __enter__(self) -> "SnippetWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
