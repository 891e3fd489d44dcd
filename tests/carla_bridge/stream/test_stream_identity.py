"""Who may talk on a stream: a token on one machine, certificates beyond it, and idle strangers in nobody's way."""

import socket
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from openfl.cryptography.ca import generate_root_cert, generate_signing_csr, sign_certificate
from openfl.cryptography.io import write_crt, write_key
from openfl.cryptography.participant import generate_csr

from carla_bridge.errors import StreamError
from carla_bridge.stream import server as server_module
from carla_bridge.stream.client import StreamClient
from carla_bridge.stream.identity import ClientCertificate, ServerCertificate, Token, is_this_machine
from carla_bridge.stream.wire import LENGTH, MAX_REQUEST, NONCE_SIZE, PROTOCOL, Channel
from tests.support.streams import NAMES, TOKEN, CountingWorld, client_of, seconds, server_of, serving
from tests.support.waiting import wait_for


class Federation:
    """The certificates of a federation, laid out and made as OpenFL does it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        root_key, root = generate_root_cert()
        self._key, request = generate_signing_csr()
        self._authority = sign_certificate(request, root_key, root.subject, ca=True)
        for part in ("server", "client"):
            (folder / part).mkdir(parents=True)
        for number, certificate in enumerate((root, self._authority)):
            write_crt(certificate, folder / f"{number}.crt")
        chain = b"".join((folder / f"{number}.crt").read_bytes() for number in (0, 1))
        (folder / "cert_chain.crt").write_bytes(chain)

    def certify(self, place: str, name: str, server: bool = False) -> None:
        key, request = generate_csr(name, server=server)
        write_key(key, self.folder / f"{place}.key")
        write_crt(sign_certificate(request, self._key, self._authority.subject), self.folder / f"{place}.crt")


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = Federation(tmp_path_factory.mktemp("federation") / "cert")
    made.certify("server/agg_localhost", "localhost", server=True)
    for name in NAMES:
        made.certify(f"client/col_{name}", name)
    return made.folder


@pytest.fixture(scope="module")
def other_federation(tmp_path_factory):
    made = Federation(tmp_path_factory.mktemp("other") / "cert")
    made.certify("server/agg_localhost", "localhost", server=True)
    made.certify("client/col_vehicle_1", "vehicle_1")
    return made.folder


# On one machine: a token


def test_whoever_does_not_know_the_token_is_refused_and_disturbs_nobody():
    with serving(CountingWorld()) as server, client_of(server, "vehicle_1") as one:
        frames = one.window(0, 10)
        got = [next(frames).timestamp]
        with pytest.raises(StreamError, match="the client does not know the token"):
            client_of(server, "vehicle_1", Token("another shared secret"))
        stranger = Channel(socket.create_connection(server.address), MAX_REQUEST)
        assert stranger.receive(10).keys() == {"protocol", "nonce"}
        stranger.send({"vehicle": "vehicle_1", "nonce": bytes(NONCE_SIZE)})
        assert "does not know the token" in stranger.receive(10)["error"]
        stranger.close()
        assert one._channel is not None, "the vehicle's own connection is still the same"
        assert got + seconds(frames) == list(range(10))


def test_a_newer_connection_that_proves_itself_takes_the_older_ones_place():
    with (
        serving(CountingWorld()) as server,
        client_of(server, "vehicle_1") as old,
        client_of(server, "vehicle_1") as new,
    ):
        assert seconds(new.window(0, 3)) == [0, 1, 2]
        wait_for(lambda: len(server._serving) == 1)
        assert seconds(old.window(0, 3)) == [0, 1, 2], "the older one connects again"


def test_a_server_that_does_not_know_the_token_cannot_choose_what_is_learned():
    """It may even send back the client's own proof."""
    for answer in ({}, {"proof": b""}, None):
        with socket.create_server(("127.0.0.1", 0)) as impostor:

            def pose(answer=answer, impostor=impostor):
                channel = Channel(impostor.accept()[0], MAX_REQUEST)
                channel.send({"protocol": PROTOCOL, "nonce": bytes(NONCE_SIZE)})
                greeting = channel.receive(10)
                proof = {"proof": greeting["proof"]} if answer is None else answer
                channel.send({**proof, "classes": [], "frame_seconds": 1.0})

            thread = threading.Thread(target=pose)
            thread.start()
            with pytest.raises(StreamError, match="the server does not know the token"):
                StreamClient("127.0.0.1", impostor.getsockname()[1], "vehicle_1", TOKEN, patience=5)
            thread.join()


def test_the_token_is_in_a_file_for_this_user_alone_and_lives_as_long_as_the_server(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CARLA_BRIDGE_TOKEN", raising=False)
    with serving(CountingWorld(), None) as server:
        (path,) = tmp_path.rglob("*.token")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        first, port = path.read_text(), server.address[1]
        client = client_of(server, "vehicle_1", None)
        assert seconds(client.window(0, 3)) == [0, 1, 2]
    assert not path.exists()
    with serving(CountingWorld(), None, port=port):
        assert path.read_text() != first
        assert seconds(client.window(0, 4)) == [0, 1, 2, 3], "it finds the new token"
        client.close()
        monkeypatch.setenv("HOME", str(tmp_path / "another_user"))
        with pytest.raises(StreamError, match=r"no token in .*another_user.*others need CARLA_BRIDGE_TOKEN"):
            StreamClient("127.0.0.1", port, "vehicle_1", patience=0.2)


def test_a_token_of_the_environment_replaces_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CARLA_BRIDGE_TOKEN", "too short")
    with pytest.raises(StreamError, match="has 9 characters; use at least 16"):
        server_of(CountingWorld(), None)
    monkeypatch.setenv("CARLA_BRIDGE_TOKEN", "a token of the environment")
    with serving(CountingWorld(), None) as server, client_of(server, "vehicle_1", None) as one:
        assert seconds(one.window(0, 2)) == [0, 1]
        assert not list(tmp_path.rglob("*.token"))
        with pytest.raises(StreamError, match="does not know the token"):
            client_of(server, "vehicle_1")


# Strangers


def test_idle_connections_cannot_keep_a_collaborator_out():
    with serving(CountingWorld()) as server:
        idle = [socket.create_connection(server.address) for _ in range(10 * server_module.MOST_STRANGERS)]
        with client_of(server, "vehicle_1", patience=5) as one:
            assert seconds(one.window(0, 3)) == [0, 1, 2]
        assert len(server._strangers._handles) <= server_module.MOST_STRANGERS
        for connection in idle:
            connection.close()


@pytest.mark.parametrize("certified", [False, True])
def test_a_byte_now_and_then_does_not_keep_a_connection_open(monkeypatch, federation, certified):
    monkeypatch.setattr(server_module, "HANDSHAKE_SECONDS", 0.5)
    identity = ServerCertificate(federation, "localhost") if certified else TOKEN
    beginning = b"\x16\x03\x01\x00\xff" if certified else LENGTH.pack(1000)
    over = threading.Event()
    with serving(CountingWorld(), identity) as server, socket.create_connection(server.address) as slow:

        def feed():
            with suppress(OSError):
                for byte in beginning + bytes(1000):
                    slow.sendall(bytes([byte]))
                    if over.wait(0.01):
                        return

        feeder = threading.Thread(target=feed)
        feeder.start()
        began = time.monotonic()
        with suppress(ConnectionResetError):
            while slow.recv(1 << 16):
                pass
        took = time.monotonic() - began
        over.set()
        feeder.join()
    assert took < 5, "all of the message would take ten seconds"


def test_a_whole_fleet_of_collaborators_may_come_at_once():
    names = [f"vehicle_{number}" for number in range(1, 33)]
    with serving(CountingWorld(names=names)) as server:
        got = {}

        def collect(name):
            with client_of(server, name) as client:
                got[name] = seconds(client.window(0, 2))

        threads = [threading.Thread(target=collect, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert got == {name: [0, 1] for name in names}


# Beyond one machine: certificates


def vehicle(folder, name, host="localhost"):
    return ClientCertificate(folder, host, name)


def test_vehicles_are_served_over_tls_with_the_certificates_of_their_federation(federation):
    with (
        serving(CountingWorld(), ServerCertificate(federation, "localhost")) as server,
        client_of(server, "vehicle_1", vehicle(federation, "vehicle_1")) as one,
        client_of(server, "vehicle_2", vehicle(federation, "vehicle_2")) as two,
    ):
        assert seconds(one.window(0, 10)) == list(range(10))
        assert seconds(two.window(0, 10)) == list(range(10))
        with pytest.raises(StreamError, match="the certificate is of 'vehicle_2', not of the vehicle 'vehicle_1'"):
            client_of(server, "vehicle_1", vehicle(federation, "vehicle_2"))
        assert seconds(one.window(10, 12)) == [10, 11], "nobody has taken its place"


def test_nothing_readable_leaves_the_machine(federation):
    seen = bytearray()
    with (
        serving(CountingWorld(), ServerCertificate(federation, "localhost")) as server,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):

        def pass_on(source, target):
            with suppress(OSError):
                while data := source.recv(1 << 16):
                    seen.extend(data)
                    target.sendall(data)

        def relay():
            near = listener.accept()[0]
            far = socket.create_connection(server.address)
            threading.Thread(target=pass_on, args=(far, near), daemon=True).start()
            pass_on(near, far)
            far.close()

        thread = threading.Thread(target=relay)
        thread.start()
        port, identity = listener.getsockname()[1], vehicle(federation, "vehicle_1")
        with StreamClient("127.0.0.1", port, "vehicle_1", identity, patience=10) as one:
            frames = list(one.window(0, 3))
        thread.join(20)
    assert len(seen) > sum(frame.image.nbytes for frame in frames)
    assert b"vehicle_1" not in seen
    assert b"timestamp" not in seen
    assert all(frame.image.tobytes()[:64] not in seen for frame in frames[1:])


def test_strangers_to_the_federation_are_refused_by_both_sides(federation, other_federation):
    with serving(CountingWorld(), ServerCertificate(federation, "localhost")) as server:
        with pytest.raises(StreamError, match="certificate of localhost is not accepted"):
            client_of(server, "vehicle_1", vehicle(other_federation, "vehicle_1"))
        mixed = other_federation.parent / "mixed"
        (mixed / "client").mkdir(parents=True)
        for name in ("client/col_vehicle_1.crt", "client/col_vehicle_1.key"):
            (mixed / name).write_bytes((other_federation / name).read_bytes())
        (mixed / "cert_chain.crt").write_bytes((federation / "cert_chain.crt").read_bytes())
        with pytest.raises(StreamError, match="does not accept the certificate of vehicle_1"):
            client_of(server, "vehicle_1", vehicle(mixed, "vehicle_1"))
        with pytest.raises(StreamError, match=r"certificate of vehicle_2 is not accepted .*[Hh]ostname"):
            client_of(server, "vehicle_1", vehicle(federation, "vehicle_1", host="vehicle_2"))
        with client_of(server, "vehicle_1", vehicle(federation, "vehicle_1")) as one:
            assert seconds(one.window(0, 2)) == [0, 1]


def test_a_server_without_tls_is_refused(federation):
    with serving(CountingWorld()) as server, pytest.raises(StreamError, match="localhost does not speak TLS"):
        client_of(server, "vehicle_1", vehicle(federation, "vehicle_1"))


def test_beyond_this_machine_nothing_goes_without_certificates(tmp_path, monkeypatch, federation):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CARLA_BRIDGE_TOKEN", raising=False)
    with pytest.raises(StreamError, match=r"needs the certificate agg_0\.0\.0\.0\.crt .*found: none"):
        server_of(CountingWorld(), None, host="0.0.0.0")
    with pytest.raises(StreamError, match=r"needs the federation's certificates, and there is no .*cert_chain\.crt"):
        StreamClient("car.example.org", 4400, "vehicle_1", patience=0.1)
    (tmp_path / "cert").symlink_to(federation)
    server_of(CountingWorld(), None, host="0.0.0.0").close()
    monkeypatch.setenv("CARLA_BRIDGE_TOKEN", "a token of the environment")
    with pytest.raises(StreamError, match=r"for 0\.0\.0\.0 certificates are used: unset it"):
        server_of(CountingWorld(), None, host="0.0.0.0")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_hosts_of_this_machine(host):
    assert is_this_machine(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "car.example.org", "localhost.evil.org"])
def test_hosts_that_others_may_reach(host):
    assert not is_this_machine(host)


def test_a_port_that_is_taken_is_refused_before_the_fleet_is_started():
    with serving(CountingWorld()) as server, pytest.raises(StreamError, match="cannot listen at"):
        server_of(CountingWorld(), port=server.address[1])


def test_nobody_waits_for_ever_for_a_server_that_is_still_starting():
    """Its port is taken from the beginning; who connects is answered when it runs."""
    server = server_of(CountingWorld())
    got = []
    thread = threading.Thread(target=lambda: got.extend(seconds(client_of(server, "vehicle_1").window(0, 2))))
    thread.start()
    thread.join(0.2)
    assert got == []
    running = threading.Thread(target=server.run)
    running.start()
    thread.join(20)
    server.stop()
    running.join(20)
    assert got == [0, 1]
