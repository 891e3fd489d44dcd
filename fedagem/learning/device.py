"""Where a client computes: the GPU that is there, or the processor."""

import os
import re

import torch

from fedagem.errors import PlanError

DEVICE_VARIABLE = "FEDAGEM_DEVICE"
"""Overrides the plan on one node: all nodes of a federation follow the same plan, but their hardware differs."""


def resolve_device(wanted: str) -> torch.device:
    """The device of this node for `auto`, `cpu`, `cuda` or `cuda:N`; refuses one that is not there."""
    override = os.environ.get(DEVICE_VARIABLE)
    if override:
        return find_device(override, DEVICE_VARIABLE)
    return find_device(wanted, "task_runner.settings.device")


def find_device(name: str, source: str) -> torch.device:
    """The device of a name; `source` is who named it, for the sentence that refuses one that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    if not re.fullmatch(r"cuda(:\d+)?", name):
        raise PlanError(f"{source} is {name!r}; valid values: auto, cpu, cuda, cuda:N.")
    device, count = torch.device(name), torch.cuda.device_count()
    if (device.index or 0) >= count:
        there = f"{count} CUDA device{'s' if count > 1 else ''}" if count else "no CUDA device"
        raise PlanError(f"{source} is {name}, but this machine has {there}: use auto, or name one that is there.")
    return device
