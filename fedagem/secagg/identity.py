"""Who is who: a member signs its keys with its certificate, and everybody checks the certificate.

OpenFL's certificates are made by an authority that usually lives on the aggregator's machine, so whoever runs that
machine could certify itself as any member. Pins prevent it: the certificates' fingerprints, which the members give each
other without the aggregator.
"""

import datetime
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store, VerificationError

from fedagem.errors import FederationError
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.messages import Certified, digest

MEMBERS_FILE = Path("plan/members.yaml")
"""Where pins are kept in a workspace: made after the plan is shared, so not part of its hash."""

_FINGERPRINT = re.compile("[0-9a-f]{64}")


class Signer(Protocol):
    """Signs as one member."""

    def sign(self, payload: bytes) -> Certified:
        """The payload with a signature that everybody can check."""


class Verifier(Protocol):
    """Checks what members have signed."""

    pins: Mapping[str, str]
    """The certificates' fingerprints by member; empty if all certificates of the authority are accepted."""

    def verify(self, name: str, certified: Certified) -> None:
        """Refuse, by a ProtocolError, what the member of this name has not signed."""


class CertificateSigner:
    """Signs with the private key of a member's OpenFL certificate."""

    def __init__(self, key: Path, certificate: Path) -> None:
        loaded = load_pem_private_key(_read(key), None)
        if not isinstance(loaded, RSAPrivateKey):
            raise FederationError(f"{key} is not an RSA key, as `fx collaborator generate-cert-request` makes them.")
        self._key = loaded
        self._certificate = _load(certificate).public_bytes(Encoding.DER)

    def sign(self, payload: bytes) -> Certified:
        """The payload with a signature that everybody can check."""
        return Certified(payload, self._certificate, self._key.sign(payload, _PADDING, SHA256()))


class CertificateVerifier:
    """Accepts certificates of the federation's authority; with pins, only those that are pinned."""

    def __init__(self, chain: Path, pins: Mapping[str, str]) -> None:
        self.pins = pins
        self._intermediates = x509.load_pem_x509_certificates(_read(chain))
        roots = [each for each in self._intermediates if each.issuer == each.subject]
        if not roots:
            raise FederationError(f"{chain} has no certificate of an authority: run `fx workspace certify`.")
        self._store = Store(roots)

    def verify(self, name: str, certified: Certified) -> None:
        """Refuse, by a ProtocolError, what the member of this name has not signed."""
        try:
            certificate = x509.load_der_x509_certificate(certified.certificate)
        except ValueError as problem:
            raise ProtocolError(f"the certificate of {name!r} cannot be read") from problem
        if self.pins and self.pins.get(name) != (given := fingerprint(certificate)):
            pinned = f"not {self.pins[name]}" if name in self.pins else "and it is not pinned at all"
            raise ProtocolError(
                f"the certificate of {name!r} has the fingerprint {given}, {pinned}: see {MEMBERS_FILE}"
            )
        self._check_chain(name, certificate)
        if names_of(certificate) != [name]:
            raise ProtocolError(f"the certificate is for {', '.join(names_of(certificate)) or 'nobody'}, not {name!r}")
        key = certificate.public_key()
        if not isinstance(key, RSAPublicKey):
            raise ProtocolError(f"the certificate of {name!r} has no RSA key")
        try:
            key.verify(certified.signature, certified.payload, _PADDING, SHA256())
        except InvalidSignature as problem:
            raise ProtocolError(f"the keys of {name!r} are not signed by its certificate") from problem

    def _check_chain(self, name: str, certificate: x509.Certificate) -> None:
        """OpenFL's certificates have few of the extensions that the library would ask for."""
        authority = ExtensionPolicy.permit_all().require_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
        member = ExtensionPolicy.permit_all().require_present(x509.SubjectAlternativeName, Criticality.AGNOSTIC, None)
        policy = PolicyBuilder().store(self._store).time(datetime.datetime.now(datetime.timezone.utc))
        verifier = policy.extension_policies(ca_policy=authority, ee_policy=member).build_client_verifier()
        try:
            verifier.verify(certificate, self._intermediates)
        except (VerificationError, UnsupportedAlgorithm) as problem:
            raise ProtocolError(
                f"the certificate of {name!r} is not a valid one of the federation's authority ({problem})"
            ) from problem


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` shows it, without colons and in lower case."""
    return certificate.fingerprint(SHA256()).hex()


def names_of(certificate: x509.Certificate) -> list[str]:
    """Whom a certificate is for."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    return extension.value.get_values_for_type(x509.DNSName)


def pins_of(certificates: Iterable[Path]) -> dict[str, str]:
    """The fingerprints of some certificates by the names of their members."""
    pins = {}
    for path in certificates:
        certificate = _load(path)
        if len(names := names_of(certificate)) != 1:
            raise FederationError(f"{path} is for {', '.join(names) or 'nobody'}, and should be for one member.")
        pins[names[0]] = fingerprint(certificate)
    return pins


def read_pins(path: Path = MEMBERS_FILE) -> dict[str, str]:
    """The fingerprints of all members' certificates."""
    if not path.exists():
        raise FederationError(
            f"{path} does not exist: with secure_aggregation.trust pinned, it has to name the fingerprint of every "
            "member's certificate, as `fedagem members` prints them."
        )
    try:
        # As strings, whatever else a row of digits may be taken for.
        pins = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise FederationError(f"{path} cannot be read: {' '.join(str(problem).split())}.") from problem
    if not isinstance(pins, dict) or not pins:
        raise FederationError(f"{path} must map the name of each member to the fingerprint of its certificate.")
    for name, pin in pins.items():
        if not isinstance(pin, str) or not _FINGERPRINT.fullmatch(pin):
            raise FederationError(
                f"{path} has no fingerprint for {name}, but {pin!r}: use what `fedagem members` prints."
            )
    return {str(name): pin for name, pin in pins.items()}


def digest_of_pins(pins: Mapping[str, str]) -> bytes:
    """Part of the name of every setup: members with different pins do not work together."""
    return digest("".join(f"{name} {pin}\n" for name, pin in sorted(pins.items())).encode())


_PADDING = PSS(MGF1(SHA256()), PSS.DIGEST_LENGTH)


def _load(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError as problem:
        raise FederationError(f"{path} is not a certificate.") from problem


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise FederationError(f"{path} cannot be read: {problem.strerror}.") from problem
