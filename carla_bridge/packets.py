"""Frames packed as bytes, the form in which they leave the fleet's process and travel over the stream.

A frame is packed once, by the process that annotates it; the stream passes the bytes on without unpacking them.
"""

from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from carla_bridge import images
from carla_bridge.errors import StreamError
from carla_bridge.frames import Annotations, Frame


@dataclass(frozen=True)
class Packet:
    """One annotated frame of one vehicle, packed."""

    vehicle: str
    timestamp: float
    packed: bytes


@dataclass(frozen=True)
class Gap:
    """The world was lost, or left, and replaced before the frame at `at`; the timeline goes on.

    The drive goes on only in the embedded simulator, which repeats it up to `at`; elsewhere the vehicles are in other
    places after the gap.
    """

    at: float
    reason: str
    seconds: float
    """Wall-clock time until the fleet was driving again; 0 if another command had left the world."""


def encode_frame(frame: Frame, encoding: str, jpeg_quality: int) -> bytes:
    """Pack a frame with its image as raw pixels, png or jpeg; the first two lose nothing."""
    if encoding == "raw":
        image = np.ascontiguousarray(frame.image).tobytes()
    else:
        image = images.encode(frame.image, jpeg_quality if encoding == "jpeg" else None).tobytes()
    notes = frame.annotations
    packed: bytes = msgpack.packb(
        {
            "frame": frame.frame,
            "timestamp": frame.timestamp,
            "vehicle": frame.vehicle,
            "domain": frame.domain,
            "encoding": encoding,
            "shape": frame.image.shape[:2],
            "image": image,
            "boxes": notes.boxes.astype("<f4").tobytes(),
            "labels": notes.labels.astype("<i8").tobytes(),
            "truncated": notes.truncated.astype("?").tobytes(),
            "pixels": notes.pixels.astype("<i8").tobytes(),
            "object_ids": notes.object_ids.astype("<i8").tobytes(),
        }
    )
    return packed


def decode_frame(entry: dict[str, Any]) -> Frame:
    """A frame that owns its arrays, from an unpacked message; a malformed message raises StreamError."""
    try:
        return Frame(
            image=_image(entry),
            frame=int(entry["frame"]),
            timestamp=float(entry["timestamp"]),
            annotations=_annotations(entry),
            vehicle=str(entry["vehicle"]),
            domain=str(entry["domain"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise StreamError(f"a frame of the stream is malformed ({error})") from error


def _image(entry: dict[str, Any]) -> NDArray[np.uint8]:
    height, width = entry["shape"]
    if entry["encoding"] == "raw":
        return _column(entry, "image", "u1").reshape(height, width, 3).copy()
    image = images.decode(_column(entry, "image", "u1"))
    if image is None or image.shape != (height, width, 3):
        raise ValueError("the image is broken")
    return image


def _annotations(entry: dict[str, Any]) -> Annotations:
    found = Annotations(
        boxes=_column(entry, "boxes", "<f4").reshape(-1, 4).astype(np.float32),
        labels=_column(entry, "labels", "<i8").astype(np.int64),
        truncated=_column(entry, "truncated", "?").astype(np.bool_),
        pixels=_column(entry, "pixels", "<i8").astype(np.int64),
        object_ids=_column(entry, "object_ids", "<i8").astype(np.int64),
    )
    if {len(found.labels), len(found.truncated), len(found.pixels), len(found.object_ids)} != {len(found)}:
        raise ValueError("its boxes have different numbers of properties")
    return found


def _column(entry: dict[str, Any], name: str, kind: str) -> NDArray[Any]:
    if not isinstance(data := entry[name], bytes):
        raise TypeError(f"{name} must be bytes")
    return np.frombuffer(data, kind)


def unpack(packed: bytes) -> dict[str, Any]:
    """The mapping in a packed message; anything else raises StreamError."""
    try:
        message = msgpack.unpackb(packed)
    except (ValueError, msgpack.UnpackException) as error:
        raise StreamError(f"a message is not msgpack ({error})") from error
    if not isinstance(message, dict):
        raise StreamError(f"a message is a {type(message).__name__}, not a mapping")
    return message
