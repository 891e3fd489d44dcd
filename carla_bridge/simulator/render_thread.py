"""The one thread that makes and uses the renderer, so that the network stays responsive while it draws."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from carla_bridge.simulator.pictures import Shot, take
from carla_bridge.simulator.scene import Moment, Renderer


class RenderThread:
    """Makes the renderer in the background; drawing waits for it."""

    def __init__(self, make: Callable[[], Renderer]) -> None:
        self._make = make
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="renderer")
        self._renderer: Future[Renderer] = Future()

    def start(self) -> None:
        self._renderer = self._executor.submit(self._make)

    async def ready(self) -> None:
        """Wait until the renderer exists; raises what its maker raised."""
        await asyncio.wrap_future(self._renderer)

    async def take(self, moment: Moment, shots: Sequence[Shot], frame: int, elapsed: float) -> list[tuple[int, bytes]]:
        def work() -> list[tuple[int, bytes]]:
            return take(self._renderer.result(), moment, shots, frame, elapsed)

        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """Release the renderer in its own thread, if it was ever made."""

        def finish() -> None:
            if self._renderer.done() and self._renderer.exception() is None:
                self._renderer.result().close()

        self._executor.submit(finish)
        self._executor.shutdown(wait=True)
