"""Processes that need not import anything: they are forked from one that has imported the libraries already.

Importing them takes seconds of every start, and most of what the harness could do in an hour. What runs afterwards is
the same command, in a process and a session of its own.
"""

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

_LIBRARIES = [
    "openfl.interface.cli",
    "openfl.federated",
    "openfl.component.aggregator.aggregator",
    "openfl.component.collaborator.collaborator",
    "openfl.transport.grpc.aggregator_server",
    "torch._dynamo",
    "torchvision.transforms.v2",
    "torchvision.ops",
    "sklearn.datasets",
    "cv2",
    "fedagem.runs.folder",
    "fedagem.learning.trainer",
    "fedagem.tasks.stream",
    "fedagem.detection.drives",
    "fedagem.detection.objective",
]


class WarmProcess:
    """The part of `subprocess.Popen` that the harness uses, for a command of `fx`."""

    def __init__(self, *command: str, cwd: Path, environment: Mapping[str, str] | None = None) -> None:
        descriptor, self._output = tempfile.mkstemp(prefix="fedagem-chaos-said-")
        os.close(descriptor)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_LIBRARIES)
        arguments = (list(command), cwd, dict(environment or {}), self._output)
        self._process = context.Process(target=_become, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        """As that of a Popen: negative for a signal."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        return self._process.exitcode

    def wait(self) -> int:
        """The exit code, when it has ended."""
        self._process.join()
        return self._process.exitcode or 0

    def said(self) -> str:
        """Everything it has said so far; nothing after it was ended."""
        path = Path(self._output)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def end(self) -> None:
        """End whatever is left of it and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.join()
        Path(self._output).unlink(missing_ok=True)


def _become(command: list[str], directory: Path, environment: dict[str, str], output: str) -> None:
    """Do what the command does; what its name says is imported here, not looked up on the path."""
    os.setsid()
    os.chdir(directory)
    os.environ.update({"COLUMNS": "200", **environment})
    with Path(output).open("ab", buffering=0) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.argv = list(command)
    interface = importlib.import_module("openfl.interface.cli")
    interface.path[:] = [str(directory), *sys.path]
    sys.path = interface.path  # `fx` knows the list itself, and multiprocessing has put another one in its place
    interface.entry()
