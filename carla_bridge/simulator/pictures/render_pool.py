"""The processes that draw, each its share of every tick's pictures, as the server sees them.

The shares depend on the tick's views alone, so pictures do not depend on the machine. The moment is sent once as
bytes; pixels come back through shared memory, right behind the beginning of their image message, so that a message is
copied once and whole. The processes end with the server, however it ends, because their connection to it closes.
"""

import asyncio
import contextlib
import mmap
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from carla_bridge.simulator.errors import RendererLostError
from carla_bridge.simulator.pictures.render_jobs import ImageRequest, ImageTask, RenderJob, shares
from carla_bridge.simulator.pictures.render_worker import FAILED
from carla_bridge.simulator.scene import Moment

STRIPS = 2
_WORKER_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**28),
    "MALLOC_TRIM_THRESHOLD_": str(2**28),
}
"""One thread per process; and the memory of images is kept for the next ones, because new pages cost time."""


@dataclass(frozen=True)
class PendingImage:
    """An image message that is being drawn: its stream, and its place in the shared memory."""

    stream: int
    place: slice
    early: bool
    """Whether it is an identity image, which is drawn before the rest."""


class RenderPool:
    """Owns the processes and the shared memory; jobs wait until the renderers are made."""

    def __init__(self, renderer: str) -> None:
        """`renderer` names the class or function that makes a renderer, as module:name; only the workers load it."""
        self._renderer = renderer
        self._memory_file = os.memfd_create("pictures")
        self._memory = mmap.mmap(-1, 1)
        self._workers = [RenderWorker(number) for number in range(STRIPS)]
        self._busy: list[RenderWorker] = []
        """The workers that have a share of the last job."""

    async def start(self) -> None:
        """Start the processes, which then load their modules."""
        for worker in self._workers:
            await worker.start(self._memory_file, self._renderer)

    def make_renderers(self, *arguments: object) -> None:
        """Tell the workers to make their renderers with these arguments."""
        pickled = pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL)
        for worker in self._workers:
            worker.send(pickled)

    async def run(self) -> None:
        """Run until a process ends, and raise RendererLostError then."""
        await asyncio.gather(*(worker.listen() for worker in self._workers))

    def submit(
        self, moment: Moment, requests: Sequence[ImageRequest], frame: int, elapsed: float
    ) -> list[PendingImage]:
        """Let the workers draw the images; deliver them before submitting again."""
        starts = [request.message_start(frame, elapsed) for request in requests]
        pending, tasks, end = [], [], 0
        for request, start in zip(requests, starts, strict=True):
            first, pixels = end, end + len(start)
            end = pixels + request.pixel_bytes
            tasks.append(ImageTask(request.kind, request.view, pixels))
            pending.append(PendingImage(request.stream, slice(first, end), tasks[-1].early))
        self._grow(end)
        job = pickle.dumps(RenderJob(moment, tasks, end), pickle.HIGHEST_PROTOCOL)
        views = list(dict.fromkeys(request.view for request in requests))
        self._busy = [worker for worker in self._workers if any(shares(views, worker.number, STRIPS).values())]
        for worker in self._busy:
            worker.send(job)
        for message, start in zip(pending, starts, strict=True):  # the workers draw already, but write only pixels
            self._memory[message.place.start : message.place.start + len(start)] = start
        return pending

    async def deliver(self, pending: Sequence[PendingImage], publish: Callable[[int, memoryview], None]) -> None:
        """Publish first the identity images, then the others, as soon as each group is drawn; RuntimeError on failure.

        What is published must not be kept: the next job overwrites it.
        """
        failures: list[str] = []
        for early in (True, False):
            failures += [failure for worker in self._busy if (failure := await worker.answer())]
            with memoryview(self._memory) as memory:
                for message in pending:
                    if message.early is early and not failures:
                        with memory[message.place] as own:
                            publish(message.stream, own)
        if failures:
            raise RuntimeError(failures[0])

    def close(self) -> None:
        """Kill the processes; they hold nothing worth waiting for."""
        for worker in self._workers:
            worker.kill()
        self._memory.close()
        os.close(self._memory_file)

    def _grow(self, size: int) -> None:
        if size > len(self._memory):
            os.ftruncate(self._memory_file, size)
            self._memory.close()
            self._memory = mmap.mmap(self._memory_file, size)


class RenderWorker:
    """One drawing process, as the server sees it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def start(self, memory_file: int, renderer: str) -> None:
        ours, theirs = socket.socketpair()
        packages = str(Path(__file__).parents[3])
        path = os.pathsep.join([packages, *filter(None, [os.environ.get("PYTHONPATH")])])
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "carla_bridge.simulator.pictures.render_worker"),
                    *map(str, (theirs.fileno(), memory_file, self.number, STRIPS)),
                    renderer,
                ],
                pass_fds=(theirs.fileno(), memory_file),
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path, **_WORKER_ENVIRONMENT},
                start_new_session=True,
            )
        self._reader, self._writer = await asyncio.open_connection(sock=ours)

    def send(self, pickled: bytes) -> None:
        assert self._writer is not None
        self._writer.write(pickled)

    async def listen(self) -> None:
        """Collect answers until the process ends, which it should not."""
        assert self._process is not None
        last = b""
        with contextlib.suppress(ConnectionError):
            async for last in self._reader:
                self._answers.put_nowait(last)
        code = await asyncio.to_thread(self._process.wait)
        reason = last.decode().strip() if code == FAILED else f"exit code {code}"
        raise RendererLostError(f"a process that draws pictures has ended ({reason}); start the simulator again.")

    async def answer(self) -> str:
        """Wait for the next answer: empty if the images are drawn, otherwise the error."""
        return (await self._answers.get()).decode().strip()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._writer is not None:
            self._writer.close()
