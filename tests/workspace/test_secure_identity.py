"""Whose keys are accepted: OpenFL's own certificates, of the federation's authority, pinned, valid and of the name."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from openfl.cryptography.ca import generate_root_cert, generate_signing_csr, sign_certificate
from openfl.cryptography.participant import generate_csr

from fedagem.cli.main import main
from fedagem.errors import FederationError
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.identity import (
    CertificateSigner,
    CertificateVerifier,
    digest_of_pins,
    pins_of,
    read_pins,
)


@dataclass
class Authority:
    """OpenFL's: a root and an authority below it that signs."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir()
        root_key, root = generate_root_cert()
        self._key, request = generate_signing_csr()
        self._certificate = sign_certificate(request, root_key, root.subject, ca=True)
        self.chain = self.folder / "cert_chain.crt"
        self.chain.write_bytes(b"".join(each.public_bytes(Encoding.PEM) for each in (root, self._certificate)))

    def certify(self, name: str, days: int = 365) -> tuple[Path, Path]:
        key, request = generate_csr(name, server=False)
        certificate = sign_certificate(request, self._key, self._certificate.subject, days_to_expiration=days)
        paths = self.folder / f"col_{name}.key", self.folder / f"col_{name}.crt"
        paths[0].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
        paths[1].write_bytes(certificate.public_bytes(Encoding.PEM))
        return paths


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority") / "ours")


@pytest.fixture(scope="module")
def lookalike(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority") / "theirs")


@pytest.fixture(scope="module")
def client(authority):
    return authority.certify("client_1")


def test_a_members_signature_is_accepted_pinned_or_not(authority, client):
    signed = CertificateSigner(*client).sign(b"keys")
    CertificateVerifier(authority.chain, {}).verify("client_1", signed)
    CertificateVerifier(authority.chain, pins_of([client[1]])).verify("client_1", signed)


def test_other_payloads_and_names_are_refused(authority, client):
    signed = CertificateSigner(*client).sign(b"keys")
    verifier = CertificateVerifier(authority.chain, {})
    with pytest.raises(ProtocolError, match="the certificate is for client_1, not 'client_2'"):
        verifier.verify("client_2", signed)
    with pytest.raises(ProtocolError, match="the keys of 'client_1' are not signed by its certificate"):
        verifier.verify("client_1", type(signed)(b"other", signed.certificate, signed.signature))
    with pytest.raises(ProtocolError, match="the certificate of 'client_1' cannot be read"):
        verifier.verify("client_1", type(signed)(b"keys", signed.certificate[:-9], signed.signature))


def test_a_certificate_of_another_authority_is_refused(authority, lookalike):
    """Both authorities have the same names, as all of OpenFL's have."""
    signed = CertificateSigner(*lookalike.certify("client_1")).sign(b"keys")
    with pytest.raises(ProtocolError, match="is not a valid one of the federation's authority"):
        CertificateVerifier(authority.chain, {}).verify("client_1", signed)


def test_an_expired_certificate_is_refused(authority):
    signed = CertificateSigner(*authority.certify("client_4", days=0)).sign(b"keys")
    time.sleep(1.1)
    with pytest.raises(ProtocolError, match="is not a valid one of the federation's authority"):
        CertificateVerifier(authority.chain, {}).verify("client_4", signed)


def test_a_second_certificate_for_a_pinned_name_is_refused(authority, client):
    """Whoever runs the authority can make one: pins are against exactly that."""
    pins = pins_of([client[1]])
    second = CertificateSigner(*Authority.certify(authority, "client_1")).sign(b"keys")
    CertificateVerifier(authority.chain, {}).verify("client_1", second)
    with pytest.raises(ProtocolError, match=r"has the fingerprint [0-9a-f]{64}, not [0-9a-f]{64}: see plan/members"):
        CertificateVerifier(authority.chain, pins).verify("client_1", second)
    with pytest.raises(ProtocolError, match="and it is not pinned at all"):
        CertificateVerifier(authority.chain, {"client_2": pins["client_1"]}).verify("client_1", second)


def test_the_command_prints_lines_of_the_file_of_pins(authority, client, tmp_path):
    other = authority.certify("client_2")
    lines = [CliRunner().invoke(main, ["members", str(path)], catch_exceptions=False) for _, path in (client, other)]
    assert [line.exit_code for line in lines] == [0, 0]
    path = tmp_path / "members.yaml"
    path.write_text("".join(line.output for line in lines))
    assert read_pins(path) == pins_of([client[1], other[1]])
    failed = CliRunner().invoke(main, ["members", str(authority.chain.with_name("missing.crt"))])
    assert failed.exit_code == 2
    assert "missing.crt cannot be read: No such file or directory." in failed.output


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"does not exist: with secure_aggregation\.trust pinned"),
        ("", "must map the name of each member to the fingerprint"),
        ("client_1: abc", "has no fingerprint for client_1, but 'abc': use what `fedagem members` prints"),
        ("client_1: [", "cannot be read"),
    ],
)
def test_pins_that_are_none(tmp_path, content, sentence):
    path = tmp_path / "members.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(FederationError, match=sentence):
        read_pins(path)


def test_pins_do_not_depend_on_their_order(tmp_path):
    path = tmp_path / "members.yaml"
    path.write_text(f"b: {'1' * 64}\na: {'a' * 64}\n")
    assert digest_of_pins(read_pins(path)) == digest_of_pins({"a": "a" * 64, "b": "1" * 64})
    assert digest_of_pins({}) != digest_of_pins(read_pins(path))
