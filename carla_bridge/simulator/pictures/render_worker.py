"""A process that draws its share of the pictures for the server that started it.

It reads pickled jobs from a socket, draws into shared memory and answers each job with two lines, one when the identity
images are complete and one when all are: empty, or the error. When the server ends, however it ends, the socket closes
and the process ends too.
"""

import gc
import mmap
import pickle
import pkgutil
import socket
import sys

import cv2

from carla_bridge.simulator.pictures.render_jobs import RenderJob, draw_tasks
from carla_bridge.simulator.scene import Renderer

FAILED = 3
"""Exit code after an error that stands in the last answer."""


def main(connection: socket.socket, memory_file: int, strip: int, strips: int, renderer_name: str) -> int:
    """Make a renderer with the arguments that arrive first, draw until the socket closes, return the exit code."""
    cv2.setNumThreads(1)  # the other cores have their own processes
    memory = mmap.mmap(-1, 1)
    with connection, connection.makefile("rb") as jobs:
        try:
            make = pkgutil.resolve_name(renderer_name)
            renderer: Renderer = make(*pickle.load(jobs))
        except EOFError:
            return 0
        except Exception as error:
            connection.sendall(_line(error))
            return FAILED
        gc.freeze()  # the town's objects stay; the collector need not visit them again
        while True:
            try:
                job: RenderJob = pickle.load(jobs)
            except EOFError:
                return 0
            if job.size > len(memory):
                memory = mmap.mmap(memory_file, job.size)
            due = 2
            try:
                for _ in draw_tasks(renderer, job, memoryview(memory), strip, strips):
                    connection.sendall(b"\n")
                    due -= 1
            except Exception as error:
                connection.sendall(due * _line(error))


def _line(error: Exception) -> bytes:
    return (" ".join(str(error).split()) or type(error).__name__).encode() + b"\n"


if __name__ == "__main__":
    own, shared, number, count = map(int, sys.argv[1:5])
    sys.exit(main(socket.socket(fileno=own), shared, number, count, sys.argv[5]))
