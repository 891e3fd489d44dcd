"""What this machine lacks to render a CARLA world: the usual reasons why a server ends as soon as it is started."""

import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

DRIVER_FOLDERS = (Path("/usr/share/vulkan/icd.d"), Path("/etc/vulkan/icd.d"))
"""Where a Vulkan driver registers itself."""
SECONDS = 10.0
SOFTWARE = ("llvmpipe", "lavapipe", "swiftshader")


def is_this_machine(host: str) -> bool:
    return host in {"localhost", "127.0.0.1", "::1", socket.gethostname()}


def missing_here(folders: Sequence[Path] = DRIVER_FOLDERS) -> list[str]:
    """A sentence with a remedy for each thing that is wrong; empty if a CARLA server can be expected to render."""
    return [sentence for sentence in (_driver(), _vulkan_driver(folders), _vulkan_device()) if sentence]


def _driver() -> str | None:
    told = _output("nvidia-smi", "-L")
    if told is None:
        return (
            "this machine has no nvidia-smi: CARLA needs the driver of an NVIDIA GPU, so install it, or in a container "
            "set `runtime: nvidia` (the embedded simulator needs none)"
        )
    if "GPU " not in told:
        said = told.strip().splitlines()
        return (
            f"nvidia-smi finds no GPU ({said[0] if said else 'it says nothing'}): load the driver's kernel module, or "
            "restart the machine after an update of the driver"
        )
    return None


def _vulkan_driver(folders: Sequence[Path]) -> str | None:
    found = sorted(file.name for folder in folders if folder.is_dir() for file in folder.glob("*.json"))
    if any("nvidia" in name for name in found):
        return None
    there = ", ".join(found) or "no driver at all"
    return (
        f"Vulkan knows {there} in {folders[0]}, and none of NVIDIA: install the driver's graphics libraries, or in a "
        "container set NVIDIA_DRIVER_CAPABILITIES=all"
    )


def _vulkan_device() -> str | None:
    """Nothing without vulkaninfo, which few machines have."""
    told = _output("vulkaninfo", "--summary")
    if told is None:
        return None
    names = [line.partition("=")[2].strip() for line in told.splitlines() if line.strip().startswith("deviceName")]
    if not names:
        return "vulkaninfo finds no device: install the Vulkan driver of the GPU"
    if all(any(word in name.lower() for word in SOFTWARE) for name in names):
        return (
            f"Vulkan only finds {names[0]}, which draws on the processor: CARLA would start and be far too slow, so "
            "install the Vulkan driver of the GPU"
        )
    return None


def _output(*command: str) -> str | None:
    """What a program says, or None if there is no such program."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout + done.stderr
