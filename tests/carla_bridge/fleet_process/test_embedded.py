"""The simulator as a child process of whoever drives in it."""

import os
import select
import subprocess
import sys

from carla_bridge.config.section import CarlaSettings
from carla_bridge.fleet_process.embedded import EmbeddedSimulator

PARENT = """
import signal
from carla_bridge.config.section import CarlaSettings
from carla_bridge.fleet_process.embedded import EmbeddedSimulator
simulator = EmbeddedSimulator.start(CarlaSettings(seed=5))
print(simulator.pid, flush=True)
signal.pause()
"""


class WatchedSimulator(EmbeddedSimulator):
    """Keeps the process that it was given in sight."""

    def __init__(self, process, *more):
        super().__init__(process, *more)
        self.process = process


def test_it_ends_without_complaint_when_it_is_stopped():
    simulator = WatchedSimulator.start(CarlaSettings(seed=5))
    simulator.stop()
    assert isinstance(simulator, WatchedSimulator)
    assert simulator.process.returncode == 0


def test_it_ends_with_a_parent_that_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    ended, _, _ = select.select([child], [], [], 20.0)
    os.close(child)
    assert ended
