"""The embedded simulator for the tests of the bridge, and a way to use the CARLA client away from the test process.

The client library can abort its process at exit; what uses it runs in a process of its own.
"""

import multiprocessing
import os
from pathlib import Path

import pytest

from carla_bridge.config.section import CarlaSettings
from carla_bridge.fleet_process.embedded import EmbeddedSimulator
from tests.support.isolation import answer_call

REPOSITORY = Path(__file__).parents[2]
ISOLATED_SECONDS = 120.0


@pytest.fixture(scope="session")
def simulator():
    """One server for all tests that leave it as they found it."""
    with EmbeddedSimulator.start(CarlaSettings(seed=5)) as running:
        yield running


@pytest.fixture
def environment():
    """For child processes started by command line."""
    path = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture
def isolated():
    """Call a module-level function in a fresh process and return what it returns."""

    def call(function, *arguments):
        context = multiprocessing.get_context("spawn")
        mine, theirs = context.Pipe()
        process = context.Process(target=answer_call, args=(theirs, function, arguments))
        process.start()
        theirs.close()
        try:
            if not mine.poll(ISOLATED_SECONDS):
                pytest.fail(f"{function.__name__} did not return within {ISOLATED_SECONDS:g} s")
            try:
                succeeded, result = mine.recv()
            except EOFError:
                process.join()
                pytest.fail(f"{function.__name__} died with exit code {process.exitcode}")
        finally:
            process.kill()
            process.join()
        if not succeeded:
            pytest.fail(result)
        return result

    return call
