"""A process that draws its share of the pictures, on the order of the server that started it.

It reads pickled orders from a socket, draws into shared memory and answers each with two lines, when the images that
only say who is where are there and when all are: empty, or what went wrong. When the server is gone, by whatever way,
the socket closes and the process ends.
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
"""Exit code after an error that the last answer tells."""


def main(connection: socket.socket, memory_file: int, strip: int, strips: int, renderer_name: str) -> int:
    """Make a renderer with the arguments that come first, then draw; returns the exit code when the socket closes."""
    cv2.setNumThreads(1)  # the other cores have processes of their own
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
        gc.freeze()  # what the town is made of stays; not to be looked through again and again
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
