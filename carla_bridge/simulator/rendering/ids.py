"""The meaning of the alpha channel: which thing a pixel belongs to, in eight bits.

Colour and identity come from the same drawing pass, so that they cannot disagree. The engine stores the alpha of
opaque surfaces untouched, and that byte is a *code*:

    0..31     a semantic tag of CARLA; things that are not instances (the sky among them)
    32..63    a textured facade: the tag "building", and how brightly its window is lit at night
    64        an instance that has no code in this pass
    65..255   instances, each with a code that no other has in the same pass

A picture with more than 191 visible parts shows code 64 somewhere; only then is it drawn again with the codes given
to the next 191, until no pixel is left without a name. So the images are exact for any number of objects.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.simulator.catalogue.semantics import Tag
from carla_bridge.simulator.scene import identities

FACADE_LIT = 36
FACADE_DARK = 62
"""Textures lose one unit on the way, so both ends keep clear of their neighbours."""
FACADES = range(32, 64)
UNNAMED = 64
FIRST_INSTANCE = 65
CODES_PER_PASS = 256 - FIRST_INSTANCE


def code_book(
    codes: NDArray[np.uint16], part_tags: NDArray[np.uint16], part_ids: NDArray[np.uint16]
) -> NDArray[np.uint32]:
    """What each of the 256 codes of a drawing pass means when parts have the given codes."""
    tags, object_ids = np.zeros(256, np.uint8), np.zeros(256, np.uint16)
    tags[:32] = np.arange(32)
    tags[FACADES.start : FACADES.stop] = Tag.BUILDING
    tags[codes], object_ids[codes] = part_tags, part_ids
    return identities(tags, object_ids)


def look_up(codes: NDArray[np.uint8], book: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The identities that an image of codes stands for."""
    return np.asarray(cv2.LUT(codes, book.view(np.int32))).view(np.uint32)


def glow_of_codes() -> NDArray[np.float32]:
    """How far each code is a lit window, 0 to 1."""
    codes = np.arange(256, dtype=np.float32)
    glow = np.clip((FACADE_DARK - 4 - codes) / (FACADE_DARK - 4 - FACADE_LIT), 0, 1)
    glow[: FACADES.start] = 0
    glow[FACADES.stop :] = 0
    return glow.astype(np.float32)
