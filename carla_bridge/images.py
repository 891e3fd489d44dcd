"""Converts between RGB arrays and the bytes of JPEG or PNG files."""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

PNG_COMPRESSION = 1


def suffix(jpeg_quality: int | None) -> str:
    return ".png" if jpeg_quality is None else ".jpg"


def encode(image: NDArray[np.uint8], jpeg_quality: int | None) -> NDArray[np.uint8]:
    """JPEG of the given quality (1 to 100), or PNG, which loses nothing, if the quality is None."""
    bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    options = (
        [cv2.IMWRITE_PNG_COMPRESSION, PNG_COMPRESSION]
        if jpeg_quality is None
        else [cv2.IMWRITE_JPEG_QUALITY, jpeg_quality]
    )
    done, data = cv2.imencode(suffix(jpeg_quality), bgr, options)
    if not done:
        raise ValueError(f"an image of shape {image.shape} and type {image.dtype} cannot be encoded")
    encoded: NDArray[np.uint8] = data
    return encoded


def decode(data: bytes | NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    """The RGB image, or None if the bytes are not a whole image."""
    raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
    if raw.size == 0:
        return None
    try:
        bgr: Any = cv2.imdecode(raw, cv2.IMREAD_COLOR)
    except cv2.error:  # a header that promises more pixels than OpenCV would ever read
        return None
    if bgr is None:
        return None
    rgb: NDArray[np.uint8] = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB, dst=bgr)
    return rgb
