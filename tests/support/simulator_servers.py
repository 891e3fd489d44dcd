"""A simulator without pictures for the tests of the protocol, and a place for what the client caches."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Server:
    """A running server and where it listens."""

    process: "subprocess.Popen[str]"
    port: int
    stream_port: int


def start_server(seed: int) -> Server:
    path = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.blank_server", str(seed)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    words = process.stdout.readline().split()
    assert words[:2] == ["listening", "on"], f"the server did not start: {words}"
    return Server(process, int(words[2]), int(words[3]))


@pytest.fixture(scope="session")
def client_home(tmp_path_factory):
    """The client keeps navigation meshes under HOME: not under the user's."""
    before = os.environ.get("HOME")
    os.environ["HOME"] = str(tmp_path_factory.mktemp("home"))
    yield
    if before is not None:
        os.environ["HOME"] = before


@pytest.fixture(scope="session")
def blank_server(client_home):
    server = start_server(seed=0)
    yield server
    server.process.kill()
    server.process.wait()


@pytest.fixture
def new_server(client_home):
    """Makes servers that only one test uses."""
    running = []

    def make(seed: int = 0) -> Server:
        running.append(start_server(seed))
        return running[-1]

    yield make
    for server in running:
        server.process.kill()
        server.process.wait()
