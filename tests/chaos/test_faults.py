"""What the harness does to processes and links, each with something that shows that it was done."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from chaos.clock import Clock
from chaos.link import Link
from chaos.phases import roles_of
from chaos.writes import WriteTrap

SLOW_WRITE = """
import sys
from pathlib import Path
from fedagem.files import replacing
print("ready", flush=True)
sys.stdin.readline()
for name in sys.argv[1:]:
    with replacing(Path(name)) as file:
        file.write(b"x")
        file.flush()
        if name.endswith("slow"):
            sys.stdin.readline()
"""


@pytest.fixture
def writer(tmp_path):
    """A process that writes some files one after the other, the slow one without an end."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITE, "first", "second", "slow"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


def test_a_process_is_killed_in_the_middle_of_a_write(writer, tmp_path):
    trap = WriteTrap(writer.pid, [tmp_path], skip=2)
    try:
        writer.stdin.write(b"\n")
        writer.stdin.flush()
        assert writer.wait(60) == -signal.SIGKILL
    finally:
        trap.close()
    assert trap.caught == tmp_path / ".slow.partial"
    assert (tmp_path / ".slow.partial").exists(), "the kill fell into the write"
    assert (tmp_path / "second").read_bytes() == b"x", "writes before it were let through"


def test_nobody_is_killed_if_nothing_is_written(writer, tmp_path):
    trap = WriteTrap(writer.pid, [tmp_path])
    (tmp_path / "other").touch()
    trap.close()
    assert trap.caught is None
    assert writer.poll() is None


@pytest.fixture
def echo():
    """A server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=repeat, args=(connection,), daemon=True).start()

        def repeat(connection):
            with connection:
                while piece := connection.recv(4096):
                    connection.sendall(piece)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def through(link, port):
    connection = socket.create_connection(("127.0.0.1", link.port), timeout=20)
    connection.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
    answer = connection.recv(4096)
    return connection, answer


def receive(connection, size):
    content = b""
    while len(content) < size and (piece := connection.recv(4096)):
        content += piece
    return content


def test_a_link_forwards_can_be_slow_and_can_be_cut(echo):
    link = Link()
    try:
        connection, answer = through(link, echo)
        assert answer.startswith(b"HTTP/1.1 200 ")
        with connection:
            connection.sendall(b"a" * 20_000)
            assert receive(connection, 20_000) == b"a" * 20_000
            link.bytes_per_second = 20_000
            began = time.monotonic()
            connection.sendall(b"b" * 10_000)
            assert receive(connection, 10_000) == b"b" * 10_000
            assert time.monotonic() - began >= 0.9, "half a second each way"
            link.cut()
            assert receive(connection, 1) == b""
        refused, answer = through(link, echo)
        refused.close()
        assert answer == b""
        link.mend()
        connection, answer = through(link, echo)
        connection.close()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert link.connections == 3
    finally:
        link.close()


@pytest.mark.skipif(not Clock.available(), reason="libfaketime is not installed: Debian's package is faketime")
def test_the_time_of_day_jumps_and_the_monotonic_clock_does_not(tmp_path):
    clock = Clock(tmp_path)
    script = "import time\nwhile True: input(); print(time.time(), time.monotonic(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **clock.environment},
    ) as process:
        ask, answers = process.stdin, process.stdout
        assert ask is not None
        assert answers is not None

        def shown():
            ask.write(b"\n")
            ask.flush()
            return [float(word) for word in answers.readline().split()]

        for seconds in (0, 86400, -3600):
            clock.jump(seconds)
            day, steady = shown()
            assert day - time.time() == pytest.approx(seconds, abs=30)
            assert steady - time.monotonic() == pytest.approx(0, abs=30)
        process.kill()


def test_fleet_and_simulator_of_a_live_run_are_found():
    """Stands for `fedagem run` on a live plan: processes with its command lines, one below the other."""
    wait = "import sys, time; print(flush=True); time.sleep(600)"
    simulator = [sys.executable, "-c", wait, "carla_bridge.fleet_process.simulator_server", "7"]
    fleet = f"import subprocess, sys; subprocess.run({simulator!r})"
    command = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {fleet!r}, 'serve', '--ready-file', 'r'])"
    with subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the innermost is there
        roles = roles_of(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
    assert list(roles) == ["command", "fleet", "simulator"]
