"""Where pictures are made: processes beside the server, each of which draws its share of every tick's pictures.

Who draws what follows from the tick's views alone, so pictures do not depend on the machine. The moment is sent once
as bytes; pixels come back through memory that all processes share, right behind what comes before them in an image
message, so that it is copied once, whole. Processes end with the server, whatever way it ends, because their
connection to it closes.
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
_FRUGAL = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**28),
    "MALLOC_TRIM_THRESHOLD_": str(2**28),
}
"""No threads beside the other process; and memory of images is kept for the next, for new pages cost time."""


@dataclass(frozen=True)
class PendingImage:
    """An image message that is being drawn: whose it is, and where it lies in the shared memory."""

    stream: int
    place: slice
    early: bool
    """Whether it is drawn sooner than the rest."""


class RenderPool:
    """Owns the processes and the memory; drawing waits until the renderers are made."""

    def __init__(self, renderer: str) -> None:
        """`renderer` is what makes one, as module:name; it is loaded by the processes only."""
        self._renderer = renderer
        self._memory_file = os.memfd_create("pictures")
        self._memory = mmap.mmap(-1, 1)
        self._workers = [RenderWorker(number) for number in range(STRIPS)]
        self._busy: list[RenderWorker] = []
        """Those that have a share of the last order."""

    async def start(self) -> None:
        """Start the processes, which load what they need meanwhile."""
        for worker in self._workers:
            await worker.start(self._memory_file, self._renderer)

    def make_renderers(self, *arguments: object) -> None:
        """Have the renderers made with these arguments."""
        pickled = pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL)
        for worker in self._workers:
            worker.send(pickled)

    async def run(self) -> None:
        """Run as long as all processes do; raises RendererLostError when one has ended."""
        await asyncio.gather(*(worker.listen() for worker in self._workers))

    def submit(
        self, moment: Moment, requests: Sequence[ImageRequest], frame: int, elapsed: float
    ) -> list[PendingImage]:
        """Have the requests drawn; to be delivered before the next order."""
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
        for message, start in zip(pending, starts, strict=True):  # workers are at work already; they write pixels only
            self._memory[message.place.start : message.place.start + len(start)] = start
        return pending

    async def deliver(self, pending: Sequence[PendingImage], publish: Callable[[int, memoryview], None]) -> None:
        """Publish every message as soon as all like it are drawn; RuntimeError if one could not be.

        What is published must not be kept: the next order overwrites it.
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
        """End the processes at once; they keep nothing that is worth waiting for."""
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
                env={**os.environ, "PYTHONPATH": path, **_FRUGAL},
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
        """Wait until one order is carried out; says why not if it could not be."""
        return (await self._answers.get()).decode().strip()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._writer is not None:
            self._writer.close()
