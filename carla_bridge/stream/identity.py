"""How the two sides of a stream prove who they are: by a shared secret on one machine, by certificates beyond it.

Frames train a model and are worth protecting: whoever could pose as the server would choose what the model learns, and
whoever could pose as a collaborator would take its place.
"""

import hmac
import ipaddress
import os
import secrets
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

from carla_bridge.errors import StreamClosedError, StreamError
from fedagem.errors import FedAGemError
from fedagem.files import replacing

TOKEN_VARIABLE = "CARLA_BRIDGE_TOKEN"
"""The environment variable that hands a token to both sides; without it, the server leaves one in a file."""
SHORTEST_TOKEN = 16
CERTIFICATES = Path("cert")
"""Where OpenFL keeps certificates, in the workspace in which its commands are run."""

Side = Literal["server", "client"]


class Identity(Protocol):
    """One side of a stream, as far as the other one has to believe it."""

    def secure(self, connection: socket.socket) -> socket.socket:
        """The connection, encrypted if it leaves the machine."""

    def proof(self, side: Side, nonces: bytes, vehicle: str) -> bytes:
        """What convinces the other side, after both have drawn a nonce."""

    def check(self, side: Side, connection: socket.socket, nonces: bytes, vehicle: str, proof: object) -> None:
        """Refuse the other side if it is not who it says it is."""


def is_this_machine(host: str) -> bool:
    """Whether a host can only be this machine: its name decides, because what a name resolves to differs by machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def server_identity(host: str, port: int) -> Identity:
    """What `carla-bridge serve` proves itself with; on one machine it makes a token for as long as it serves."""
    given = _token_of_environment(host)
    if not is_this_machine(host):
        return ServerCertificate(CERTIFICATES, host)
    return given or FileToken.made(_token_file(port))


def client_identity(host: str, port: int, vehicle: str) -> Identity:
    """What the collaborator of a vehicle proves itself with."""
    given = _token_of_environment(host)
    if not is_this_machine(host):
        return ClientCertificate(CERTIFICATES, host, vehicle)
    return given or FileToken(_token_file(port))


def new_token() -> str:
    """A secret for one run."""
    return secrets.token_urlsafe(32)


class Token:
    """A secret that both sides know; they prove it to each other and never send it."""

    def __init__(self, token: str) -> None:
        if len(token) < SHORTEST_TOKEN:
            raise StreamError(
                f"the token in {TOKEN_VARIABLE} has {len(token)} characters; use at least {SHORTEST_TOKEN}"
            )
        self._token = token

    @property
    def token(self) -> str:
        return self._token

    def secure(self, connection: socket.socket) -> socket.socket:
        return connection

    def proof(self, side: Side, nonces: bytes, vehicle: str) -> bytes:
        return hmac.digest(self.token.encode(), f"{side} {vehicle} ".encode() + nonces, "sha256")

    def check(self, side: Side, connection: socket.socket, nonces: bytes, vehicle: str, proof: object) -> None:
        if not isinstance(proof, bytes) or not hmac.compare_digest(self.proof(side, nonces, vehicle), proof):
            raise StreamError(f"the {side} does not know the token of this stream")


class FileToken(Token):
    """A token in a file that only this user can read; a server that is started again writes another one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def made(cls, path: Path) -> "FileToken":
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(path) as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(new_token().encode())
        except (OSError, FedAGemError) as error:
            raise StreamError(f"the token cannot be kept in {path} ({error}); set {TOKEN_VARIABLE} instead") from error
        return cls(path)

    @property
    def token(self) -> str:
        try:
            return self._path.read_text()
        except OSError as error:
            raise StreamClosedError(
                f"there is no token in {self._path}: only the user who serves has it, others need {TOKEN_VARIABLE}"
            ) from error

    def remove(self) -> None:
        with suppress(OSError):
            self._path.unlink()


class ServerCertificate:
    """Mutual TLS: the server has the certificate of its host, and collaborators those of their vehicles."""

    def __init__(self, folder: Path, host: str) -> None:
        name = _server_name(folder, host)
        self._context = _context(ssl.PROTOCOL_TLS_SERVER, folder, f"server/{name}")
        self._context.verify_mode = ssl.CERT_REQUIRED

    def secure(self, connection: socket.socket) -> socket.socket:
        return self._context.wrap_socket(connection, server_side=True)

    def proof(self, side: Side, nonces: bytes, vehicle: str) -> bytes:
        return b""

    def check(self, side: Side, connection: socket.socket, nonces: bytes, vehicle: str, proof: object) -> None:
        assert isinstance(connection, ssl.SSLSocket)
        certificate: dict[str, Any] = connection.getpeercert() or {}
        subject = dict(part for relative in certificate.get("subject", ()) for part in relative)
        if (name := subject.get("commonName")) != vehicle:
            raise StreamError(f"the certificate is of {name!r}, not of the vehicle {vehicle!r}")


class ClientCertificate:
    """Mutual TLS, as a vehicle's collaborator: the server must have the certificate of the host that was asked for."""

    def __init__(self, folder: Path, host: str, vehicle: str) -> None:
        self._host = host
        self._context = _context(ssl.PROTOCOL_TLS_CLIENT, folder, f"client/col_{vehicle}")

    def secure(self, connection: socket.socket) -> socket.socket:
        try:
            return self._context.wrap_socket(connection, server_hostname=self._host)
        except ssl.SSLCertVerificationError as error:
            raise StreamError(f"the certificate of {self._host} is not accepted ({error.verify_message})") from error
        except ssl.SSLEOFError:
            raise
        except ssl.SSLError as error:
            raise StreamError(
                f"{self._host} does not speak TLS with the federation's certificates ({error})"
            ) from error

    def proof(self, side: Side, nonces: bytes, vehicle: str) -> bytes:
        return b""

    def check(self, side: Side, connection: socket.socket, nonces: bytes, vehicle: str, proof: object) -> None:
        """The handshake has checked the server's certificate."""


def _token_of_environment(host: str) -> Token | None:
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None:
        return None
    if not is_this_machine(host):
        raise StreamError(f"{TOKEN_VARIABLE} is for streams on one machine; for {host} certificates are used: unset it")
    return Token(token)


def _token_file(port: int) -> Path:
    """Where this user's stream at a port of this machine keeps its token; machines may share the home folder."""
    try:
        home = Path.home()
    except RuntimeError as error:
        raise StreamError(f"this user has no home folder to keep a token in; set {TOKEN_VARIABLE} instead") from error
    return home / ".local" / "state" / "carla-bridge" / f"{socket.gethostname()}-{port}.token"


def _server_name(folder: Path, host: str) -> str:
    """The certificate for a host; a server that listens at all addresses takes the only one that there is."""
    names = sorted(path.stem for path in (folder / "server").glob("agg_*.crt"))
    own = f"agg_{host.lower()}"
    if own in names:
        return own
    if len(names) != 1:
        found = ", ".join(names) or "none"
        raise StreamError(
            f"{host} can be reached from other machines, so the stream needs the certificate {own}.crt of the "
            f"federation in {folder / 'server'} (found: {found}); make one with fx aggregator generate-cert-request "
            "and certify, or listen at 127.0.0.1"
        )
    return names[0]


def _context(protocol: int, folder: Path, own: str) -> ssl.SSLContext:
    """TLS with the federation's own authority, and nobody else's."""
    chain, certificate, key = folder / "cert_chain.crt", folder / f"{own}.crt", folder / f"{own}.key"
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    for path in (chain, certificate, key):
        if not path.is_file():
            raise StreamError(
                f"a stream beyond this machine needs the federation's certificates, and there is no {path.resolve()}: "
                "work in an OpenFL workspace whose certificates are signed"
            )
    try:
        context.load_verify_locations(chain)
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise StreamError(f"{chain}, {certificate} and {key} do not make an identity ({error})") from error
    return context
