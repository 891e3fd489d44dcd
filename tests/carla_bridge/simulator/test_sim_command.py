"""`carla-bridge simulator` as a user starts and stops it."""

import signal
import socket

import psutil
import pytest

from tests.support.raw_rpc import assert_alive
from tests.support.simulator_command import PATIENCE, port_of, simulator, workers_of

pytest_plugins = ("tests.support.simulator_servers",)


def stop(process, number):
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert out.strip() == "Simulator stopped."
    assert not err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly_and_does_not_wait_for_the_renderer(number, client_home):
    with simulator("--port", "0", "--seed", "3") as process:
        assert_alive(port_of(process))
        workers = workers_of(process)
        stop(process, number)
        assert not any(worker.is_running() for worker in workers)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly_while_it_starts(number, client_home):
    """As soon as there is something to leave behind: the processes that draw."""
    with simulator("--port", "0") as process:
        workers = workers_of(process, 1)
        stop(process, number)
        assert psutil.wait_procs(workers, timeout=PATIENCE)[1] == [], "no process is left behind"


def refusal(*options):
    with simulator(*options) as process:
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert len(err.strip().splitlines()) == 1
        return err


def test_a_port_in_use_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        err = refusal("--port", str(port - 1))
    assert err.startswith(f"Error: cannot listen on 127.0.0.1:{port - 1}")
    assert "--port" in err


@pytest.mark.parametrize("host", ["nonsense.invalid", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_one_sentence(host):
    err = refusal("--host", host, "--port", "0")
    assert err.startswith(f"Error: cannot listen on {host}:0")
    assert "--host" in err
    assert "--port" not in err
