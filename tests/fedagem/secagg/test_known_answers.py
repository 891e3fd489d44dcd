"""Fixed roots give fixed bytes: labels, byte order and wire format stay as they are, or versions cannot talk."""

import hashlib

from fedagem.secagg import journal
from tests.support.secagg_parties import Parties, random_inputs

KNOWN = "7e69275aae0a7a182bc0007d75570f9c705da9bb777d3e535cb79650801179d6"


def test_masked_vectors_and_openings_of_fixed_roots(tmp_path, monkeypatch):
    roots = iter(bytes([number]) * 32 for number in range(1, 5))
    monkeypatch.setattr(journal, "new_root", lambda: next(roots))
    monkeypatch.setattr("os.urandom", bytes)
    parties = Parties(tmp_path, 4, 3)
    inputs = random_inputs(parties.names)
    header, vectors = parties.mask("m2", inputs["m2"])
    collected = parties.collect(inputs, ["m0", "m1", "m2"])
    parties.agree(collected, ["m0", "m1", "m2"])
    opening = parties.opening(collected, "m0")
    seen = hashlib.sha256()
    for part in (header, vectors[32].tobytes(), vectors[64].tobytes(), collected.agreed(), opening):
        seen.update(part)
    assert seen.hexdigest() == KNOWN
