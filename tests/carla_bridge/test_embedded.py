"""The simulator as a child process of whoever drives in it."""

import os
import select
import subprocess
import sys

from carla_bridge.config import FleetConfig
from carla_bridge.embedded import EmbeddedSimulator


def test_it_ends_without_complaint_when_it_is_stopped():
    simulator = EmbeddedSimulator.start(FleetConfig(seed=5))
    process = simulator._process
    simulator.stop()
    assert process.returncode == 0


def test_it_ends_with_a_parent_that_is_killed():
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from carla_bridge.config import FleetConfig\n"
            "from carla_bridge.embedded import EmbeddedSimulator\n"
            "simulator = EmbeddedSimulator.start(FleetConfig(seed=5))\n"
            "print(simulator.pid, flush=True)\n"
            "simulator._process.wait()",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    ended, _, _ = select.select([child], [], [], 20.0)
    os.close(child)
    assert ended
