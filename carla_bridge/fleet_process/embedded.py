"""The embedded simulator as a child process: it starts if a plan asks for it and ends with its parent."""

import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO

from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import ServerUnreachableError

START_SECONDS = 120.0
STOP_SECONDS = 15.0
LISTENING = re.compile(r"listening on (\S+):(\d+)")


class EmbeddedSimulator:
    """A running embedded simulator; a context manager."""

    def __init__(self, process: "subprocess.Popen[str]", log: IO[str], host: str, port: int) -> None:
        self._process = process
        self._log = log
        self.host = host
        self.port = port

    @classmethod
    def start(cls, config: CarlaSettings) -> "EmbeddedSimulator":
        """Start it on free ports with the plan's seed, and wait until it listens."""
        packages = str(Path(__file__).parents[2])
        path = os.pathsep.join([packages, *filter(None, [os.environ.get("PYTHONPATH")])])
        log = tempfile.TemporaryFile("w+", prefix="carla-simulator-")  # noqa: SIM115 - lives as long as the process
        process = subprocess.Popen(
            [sys.executable, "-m", "carla_bridge.fleet_process.simulator_server", str(config.seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert process.stdout is not None
        watchdog = threading.Timer(START_SECONDS, process.kill)
        watchdog.start()
        try:
            for line in process.stdout:
                found = LISTENING.search(line)
                if found:
                    return cls(process, log, found[1], int(found[2]))
        finally:
            watchdog.cancel()
        process.wait()
        log.seek(0)
        lines = [line.strip() for line in log if line.strip()]
        reason = lines[-1] if lines else f"exit code {process.returncode}"
        raise ServerUnreachableError(f"the embedded simulator did not start ({reason})")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """Terminate it, and kill it if it does not end in time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self.running:
            self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> "EmbeddedSimulator":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
