"""The processes of a run: started together, watched together, and ended together."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType

from fedagem.errors import FedAGemError
from fedagem.files import Lock
from fedagem.system import HeldPort

_REFRESH_SECONDS = 0.25
_GRACE_SECONDS = 10.0
_END_WITH_PARENT = str(Path(__file__).with_name("end_with_parent.py"))
_LOCK_VARIABLE = "FEDAGEM_RUN_LOCK"
"""The environment variable by which a run's processes know the open file of the lock that they inherit."""


class RunBusyError(FedAGemError):
    """Another process is at work in the run's folder."""


class ProcessKilledError(FedAGemError):
    """A signal has ended a process of a run: somebody killed it, or the memory was not enough."""


def stop_on_sigterm() -> None:
    """Let a polite request to end do what Ctrl-C does, so that no process of a run is left behind."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def lock_run(directory: Path) -> Lock:
    """Be the only command at work in a run's folder: two would overwrite each other's states.

    A process that was started by the command that holds the lock has inherited it, and shares it.
    """
    path = directory / "run.lock"
    lock, taken = _try_lock(path)
    if not taken and not _inherited(path):
        lock.close()
        raise RunBusyError(
            f"{directory.resolve()} is being run by another process: wait until it has ended, then resume it."
        )
    return lock


def lock_client(directory: Path, name: str) -> Lock:
    """Be the only collaborator of a name in a workspace: two would overwrite each other's states."""
    path = directory / "logs" / f"{name}.lock"
    path.parent.mkdir(exist_ok=True)
    lock, taken = _try_lock(path)
    if not taken:
        lock.close()
        raise RunBusyError(f"{name} of {directory.resolve()} is at work in another process: end that one first.")
    return lock


def _try_lock(path: Path) -> tuple[Lock, bool]:
    lock = Lock(path)
    try:
        return lock, lock.take()
    except OSError as problem:
        lock.close()
        raise FedAGemError(
            f"{path.resolve()} cannot be locked ({problem.strerror}): mount its file system with locks, or run in a "
            "folder of another one."
        ) from problem


def _inherited(lock: Path) -> bool:
    """Whether this process holds the lock's open file from the command that started it."""
    try:
        return os.path.samestat(os.fstat(int(os.environ[_LOCK_VARIABLE])), lock.stat())
    except (KeyError, ValueError, OSError):
        return False


@dataclass
class Member:
    """One process of a run and its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    log_begin: int
    """Where this process begins in a log that an earlier one of its name may have begun."""
    service: bool = False
    """Runs until the others have ended."""


class ProcessGroup:
    """A context in which processes run; whatever is left at its end is stopped."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.members: list[Member] = []
        self._lock: Lock | None = None
        self._ports: list[HeldPort] = []

    def claim(self) -> None:
        """Be the only group at work in this run's folder; its processes share the lock."""
        self._lock = lock_run(self.directory)

    def hold_port(self) -> int:
        """A port for one of the processes, which nobody else can take until this context ends."""
        self._ports.append(HeldPort())
        return self._ports[-1].number

    def start(
        self,
        name: str,
        command: list[str],
        service: bool = False,
        keep_open: Sequence[int] = (),
        secrets: Mapping[str, str] = MappingProxyType({}),
    ) -> Member:
        """Start a process in the run's directory with its output in logs/NAME.log; it does not outlive this one.

        It keeps the files of `keep_open` and, unless it is a service, the run's lock open: what they lock is only free
        when this process, too, has ended. It finds `secrets` in its environment, which other users cannot read.
        """
        environment = {**os.environ, **secrets}
        if self._lock is not None and not service:
            keep_open = [*keep_open, self._lock.fileno()]
            environment[_LOCK_VARIABLE] = str(self._lock.fileno())
        log = self.directory / "logs" / f"{name}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as output:
            log_begin = output.tell()
            process = subprocess.Popen(
                [sys.executable, "-S", _END_WITH_PARENT, str(os.getpid()), *command],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=keep_open,
                env=environment,
            )
        member = Member(name, process, log, log_begin, service)
        self.members.append(member)
        return member

    def wait(self, refresh: Callable[[], None]) -> None:
        """Wait until all but the services have ended well, refreshing the view meanwhile."""
        while any(not member.service and member.process.poll() is None for member in self.members):
            self._look()
            refresh()
        self._look()

    def wait_for_service(self, ready: Callable[[], bool]) -> None:
        """Wait until a service that was just started is ready."""
        while not ready():
            self._look()

    def _look(self) -> None:
        """Give the youngest running process a moment, and end the run if any process has failed."""
        running = [member for member in self.members if member.process.poll() is None]
        if running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running[-1].process.wait(_REFRESH_SECONDS)
        for member in self.members:
            if code := member.process.poll():
                problem = ProcessKilledError if code < 0 else FedAGemError
                raise problem(_obituary(member, code))

    def __enter__(self) -> "ProcessGroup":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        alive = [member for member in self.members if member.process.poll() is None]
        for member in alive:
            member.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_SECONDS
        for member in alive:
            try:
                member.process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
        for port in self._ports:
            port.close()
        if self._lock is not None:
            self._lock.close()


def _obituary(member: Member, code: int) -> str:
    """Which process ended, why, and the end of its log."""
    cause = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    if not member.log.exists():
        return f"{member.name} {cause}, and its log {member.log} is gone: was the run's folder removed?"
    lines = member.log.read_bytes()[member.log_begin :].decode(errors="replace").splitlines()
    errors = [line for line in lines if line.startswith("Error: ")]
    if code > 0 and errors:
        return f"{member.name} {cause}: {errors[-1].removeprefix('Error: ')} (its log: {member.log})"
    tail = "\n".join(f"  | {line.rstrip()}" for line in lines[-15:])
    return f"{member.name} {cause}; the end of {member.log}:\n{tail}"
