"""Resizing in whole numbers gives the bytes that frames are scaled to for training."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.transforms.v2 import functional as transforms

from models.byte_resize import ByteResize

sides = st.integers(2, 120)
has_byte_kernels = pytest.mark.skipif(
    "AVX" not in torch.backends.cpu.get_cpu_capability(), reason="without AVX torchvision resizes bytes as floats"
)


@has_byte_kernels
@settings(deadline=None, max_examples=40)
@given(sides, sides, sides, sides, st.integers(0, 2**32))
def test_bytes_are_those_of_torchvision(width, height, new_width, new_height, seed):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (1, 3, height, width), dtype=torch.uint8, generator=generator)
    wanted = transforms.resize(pixels, [new_height, new_width], antialias=True)
    assert torch.equal(ByteResize((width, height), (new_width, new_height))(pixels.float()), wanted.float())


@has_byte_kernels
@pytest.mark.parametrize("factor", [3, 7, 19])
def test_large_factors_stay_exact(factor):
    pixels = torch.randint(0, 256, (1, 3, 11 * factor, 13 * factor), dtype=torch.uint8)
    wanted = transforms.resize(pixels, [11, 13], antialias=True)
    assert torch.equal(ByteResize((13 * factor, 11 * factor), (13, 11))(pixels.float()), wanted.float())
