"""A short form of `make chaos`: a federation by hand is broken a few times and ends as an undisturbed one."""

import random

from chaos.breaking import Breaking
from chaos.ledger import SAME
from chaos.subjects import Subject, hold_port


def test_a_federation_that_is_broken_again_and_again_ends_as_an_undisturbed_one(federated, plan_path, tmp_path):
    subject = Subject("digits, by hand", federated, plan_path, by_hand=True)
    seed = random.SystemRandom().randrange(10**6)
    with hold_port() as port:
        subject.lay_out(tmp_path / "run", port.number)
        record = Breaking(subject, tmp_path / "run", seed).attempt(4, tmp_path / "evidence")
    assert record.outcome == SAME, (record, (tmp_path / "evidence" / "said.txt").read_text()[-5000:])
    assert record.problems == []
    assert record.starts >= 3
