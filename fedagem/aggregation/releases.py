"""What a private federation has released: the key of its noise, a journal that survives every crash, and epsilon.

A round that is repeated after a crash must not be released with other noise: two releases of one sum, or of two sums
that differ in one client, tell more than one. So the noise follows from a key that lasts for the run and from the sum
itself: the same sum gets the same noise and is the same release; another sum, from other clients for instance, gets
noise of its own and counts as another release. Every release is in the journal before anybody can ask for it.
"""

import hmac
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedagem.aggregation.settings import PrivacySettings
from fedagem.errors import CorruptStateError, FedAGemError
from fedagem.files import write_file

KEY_NAME = "noise.key"
JOURNAL_NAME = "releases.jsonl"
_KEY_BYTES = 32


class Releases:
    """The releases of a run, kept in its folder `save`."""

    def __init__(self, folder: Path, privacy: PrivacySettings, spent: Mapping[str, int]) -> None:
        """`spent` is what the checkpoint knows of: how many releases each client had a part in; none for a new run."""
        check_installed()
        self._privacy = privacy
        self._journal = folder / JOURNAL_NAME
        self._known: set[str] = set()
        self._spent: Counter[str] = Counter()
        self._read_journal()
        self._key = _read_key(folder / KEY_NAME, must_exist=bool(spent or self._known))
        for client, count in spent.items():
            if self._spent[client] < count:
                raise CorruptStateError(
                    f"{self._journal} has {self._spent[client]} releases of {client}, but {count} were made: put the "
                    "whole journal back, or start again in another folder."
                )

    def key_of(self, stage: str, round_number: int, digest: bytes, clients: Iterable[str]) -> bytes:
        """The key of the noise of a sum, whose exact value has this digest; the release is on disk afterwards."""
        what = f"{stage}/{round_number}/".encode() + digest
        name = hmac.digest(self._key, b"name/" + what, "sha256").hex()
        if name not in self._known:
            self._note(round_number, stage, name, sorted(clients))
        return hmac.digest(self._key, b"noise/" + what, "sha256")

    def spent(self) -> dict[str, int]:
        """How many releases each client had a part in, for the checkpoint."""
        return dict(self._spent)

    def epsilon(self) -> float:
        """What was spent of the privacy of the client that took part most often.

        Who takes part in which round follows from the plan and is no secret, so that drawing clients adds nothing.
        """
        return epsilon_of(max(self._spent.values(), default=0), self._privacy)

    def _read_journal(self) -> None:
        if not self._journal.exists():
            _write_privately(self._journal, b"")
        lines = self._journal.read_bytes().split(b"\n")
        if lines[-1]:  # cut off by a crash, before anybody could ask for it
            os.truncate(self._journal, self._journal.stat().st_size - len(lines[-1]))
        for line in lines[:-1]:
            try:
                record = json.loads(line)
                self._known.add(record["name"])
                self._spent.update(record["clients"])
            except (ValueError, KeyError, TypeError) as problem:
                raise CorruptStateError(f"{self._journal} is damaged: restore it from a copy.") from problem

    def _note(self, round_number: int, stage: str, name: str, clients: list[str]) -> None:
        record = {"round": round_number, "stage": stage, "name": name, "clients": clients}
        try:
            with self._journal.open("ab") as file:
                file.write(json.dumps(record).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as problem:
            raise FedAGemError(f"{self._journal} cannot be written: {problem.strerror or problem}.") from problem
        self._known.add(name)
        self._spent.update(clients)


def epsilon_of(releases: int, privacy: PrivacySettings) -> float:
    """The epsilon of so many releases with Gaussian noise, by Renyi differential privacy."""
    if releases == 0:
        return 0.0
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    accountant.compose(GaussianDpEvent(privacy.noise), releases)
    return float(accountant.get_epsilon(privacy.delta))


def check_installed() -> None:
    """Refuse to go on without the package that keeps the account."""
    import importlib.util

    if importlib.util.find_spec("dp_accounting") is None:
        raise FedAGemError(
            "aggregator.settings.privacy needs dp-accounting: install it with `pip install 'fedagem[privacy]'`."
        )


def _read_key(path: Path, must_exist: bool) -> bytes:
    """The secret of the run's noise, which only its owner may read; made the first time."""
    if not path.exists():
        if must_exist:
            raise CorruptStateError(
                f"{path} is missing: rounds that are repeated would be released again with other noise; put it back, "
                "or start again in another folder."
            )
        _write_privately(path, secrets.token_bytes(_KEY_BYTES))
    if path.stat().st_mode & 0o077:
        raise CorruptStateError(f"{path} can be read by others, who could take the noise away: chmod 600 {path}.")
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise CorruptStateError(f"{path} has {len(key)} bytes instead of {_KEY_BYTES}: restore it from a copy.")
    return key


def _write_privately(path: Path, content: bytes) -> None:
    """A file that only its owner may read."""
    mask = os.umask(0o077)
    try:
        write_file(path, content)
    finally:
        os.umask(mask)
