"""A member opens one kind of secret of a peer, for one list of survivors and one input, whatever it is asked for."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from fedagem.errors import CorruptStateError
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.journal import Journal
from fedagem.secagg.messages import Header, Opening, Several, Signed
from tests.support.secagg_parties import EVIDENCE, NOBODY_AGREED, Parties, plain_sum, random_inputs

AT = (0, "train")


def headers_of(collected, names):
    return Several(tuple(collected.headers[name][0] for name in names)).encode()


def ask(parties, name, collected, survivors, agreements=NOBODY_AGREED):
    """A member's opening of the sum over some survivors, as kinds of secrets by peer."""
    material = parties.material(name, collected.setup)
    signed = parties.members[name].open(material, *AT, headers_of(collected, survivors), agreements)
    opening = Opening.decode(Signed.decode(signed).payload)
    return {peer: "self" for peer, _ in opening.self_shares} | {peer: "pair" for peer, _ in opening.pair_shares}


def agreements_to(parties, collected, survivors, names):
    signed = [
        parties.members[name].agree(parties.material(name, collected.setup), *AT, headers_of(collected, survivors))
        for name in names
    ]
    return Several(tuple(signed)).encode()


@pytest.mark.parametrize("restarted", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize("first_missing", [False, True], ids=["survived, then dropped", "dropped, then survived"])
def test_never_both_kinds(tmp_path, first_missing, restarted):
    parties = Parties(tmp_path, 5, 3)
    collected = parties.collect(random_inputs(parties.names), parties.names)
    everybody, some = tuple(parties.names), tuple(parties.names[:4])
    others = [name for name in some if name != "m0"]
    agreed = agreements_to(parties, collected, some, others)
    requests = [(everybody, NOBODY_AGREED), (some, agreed)]
    first, second = reversed(requests) if first_missing else requests
    opened = ask(parties, "m0", collected, *first)
    assert opened["m4"] == ("pair" if first_missing else "self")
    if restarted:
        parties.restart("m0")
    with pytest.raises(ProtocolError, match=r"was opened as the sum over .* and is never opened over"):
        ask(parties, "m0", collected, *second)
    assert ask(parties, "m0", collected, *first) == opened, "the same request is answered again"


def test_who_has_agreed_opens_nothing_else(tmp_path):
    parties = Parties(tmp_path, 5, 3)
    collected = parties.collect(random_inputs(parties.names), parties.names)
    agreements_to(parties, collected, tuple(parties.names[:4]), ["m0"])
    with pytest.raises(ProtocolError, match="is never opened over"):
        ask(parties, "m0", collected, tuple(parties.names))


def test_a_repeated_round_is_opened_over_the_same_list_only(tmp_path):
    parties = Parties(tmp_path, 5, 3)
    inputs = random_inputs(parties.names)
    assert parties.open(parties.collect(inputs, parties.names), parties.names) is not None
    parties.set_up()
    repeated = parties.collect(inputs, parties.names[:4])
    with pytest.raises(ProtocolError, match="is never opened over m0, m1, m2, m3"):
        parties.agree(repeated, ["m0"])
    parties.set_up()
    again = parties.collect(inputs, parties.names)
    opened = parties.open(again, parties.names[2:])
    assert opened is not None
    assert all((opened[bits] == vector).all() for bits, vector in plain_sum(inputs, parties.names).items())


def test_an_opened_sum_is_repeated_with_the_same_input_only(tmp_path):
    parties = Parties(tmp_path, 4, 3)
    inputs, others = random_inputs(parties.names), random_inputs(parties.names, seed=1)
    parties.open(parties.collect(inputs, parties.names), parties.names)
    parties.set_up()
    changes: list[tuple[dict[str, Any], str]] = [
        ({"vectors": others["m0"]}, "another result of this client"),
        ({"evidence": replace(EVIDENCE, model=b"other")}, "another global model"),
        ({"evidence": replace(EVIDENCE, shown=b"other")}, "other tensors beside the model"),
        ({"contributes": False}, "another result of this client"),
    ]
    for changed, sentence in changes:
        with pytest.raises(ProtocolError, match=f"was opened already, and now there is {sentence}"):
            parties.mask("m0", **{"vectors": inputs["m0"], **changed})
    parties.mask("m0", inputs["m0"])


def test_two_inputs_never_get_one_mask(tmp_path):
    parties = Parties(tmp_path, 4, 3)
    inputs, others = random_inputs(parties.names), random_inputs(parties.names, seed=1)
    _, masked = parties.mask("m0", inputs["m0"])
    parties.restart("m0")
    _, again = parties.mask("m0", inputs["m0"])
    assert all((masked[bits] == again[bits]).all() for bits in masked), "a restarted client sends the same bytes"
    with pytest.raises(ProtocolError, match="was masked with the same keys already, and now there is another result"):
        parties.mask("m0", others["m0"])
    parties.set_up()
    parties.mask("m0", others["m0"])


def test_one_global_model_for_all_stages_of_a_round_that_was_opened(tmp_path):
    parties = Parties(tmp_path, 3, 3, [(4, "buffer_gradient"), (4, "train")])
    inputs = random_inputs(parties.names)
    collected = parties.collect(inputs, parties.names, at=(4, "buffer_gradient"))
    parties.open(collected, parties.names)
    with pytest.raises(ProtocolError, match="shows another global model than stage buffer_gradient of round 4"):
        parties.mask("m0", inputs["m0"], (4, "train"), replace(EVIDENCE, model=b"other"))


def test_rounds_that_are_over_stay_over(tmp_path):
    parties = Parties(tmp_path, 3, 3, [(number, "train") for number in range(6)])
    inputs = random_inputs(parties.names)
    parties.mask("m0", inputs["m0"], (4, "train"))
    parties.mask("m0", inputs["m0"], (3, "train"))
    with pytest.raises(ProtocolError, match="stage train of round 2 is over: this client has come to round 4"):
        parties.mask("m0", inputs["m0"], (2, "train"))


def test_a_new_setup_closes_the_one_before(tmp_path):
    parties = Parties(tmp_path, 4, 3)
    collected = parties.collect(random_inputs(parties.names), parties.names)
    parties.set_up()
    for name in parties.names:
        parties.restart(name)
        with pytest.raises(ProtocolError, match="has no keys for this setup any more"):
            parties.opening(collected, name)


@pytest.mark.parametrize("colluding", range(5))
def test_a_lying_aggregator_gets_both_kinds_only_if_the_bound_says_so(tmp_path, colluding, monkeypatch):
    """It shows some honest members that m6 survived and the others that it is missing; colluders answer both."""
    members, helpers = 7, 5
    parties = Parties(tmp_path, members, helpers)
    collected = parties.collect(random_inputs(parties.names), parties.names)
    colluders, honest = parties.names[:colluding], parties.names[colluding:]
    for name in colluders:
        journal = parties.members[name]._journal
        monkeypatch.setattr(journal, "promise_survivors", lambda *_: None)
    everybody, some = tuple(parties.names), tuple(parties.names[:-1])
    best = {"self": 0, "pair": 0}
    told_missing = honest[: max(0, helpers - colluding)]
    if len(told_missing) > len(honest) - 1:
        told_missing = honest[:-1]
    told_survived = [name for name in honest if name not in told_missing]
    agreed = agreements_to(parties, collected, some, [*colluders, *told_missing])
    for name, survivors in [
        *((name, some) for name in (*colluders, *told_missing)),
        *((name, everybody) for name in (*colluders, *told_survived)),
    ]:
        try:
            best[ask(parties, name, collected, survivors, agreed)["m6"]] += 1
        except ProtocolError:
            continue
    assert (min(best.values()) >= helpers) == (2 * helpers <= members + colluding), best


def test_pair_secrets_need_the_agreement_of_enough(tmp_path):
    parties = Parties(tmp_path, 5, 3)
    collected = parties.collect(random_inputs(parties.names), parties.names[:4])
    some = tuple(parties.names[:4])
    two = agreements_to(parties, collected, some, ["m1", "m2"])
    with pytest.raises(ProtocolError, match=r"2 members agree on who is missing .* 3 are needed"):
        ask(parties, "m0", collected, some, two)
    repeated = Several((*Several.decode(two).messages, Several.decode(two).messages[0])).encode()
    with pytest.raises(ProtocolError, match="the agreement of 'm1' is there twice"):
        ask(parties, "m0", collected, some, repeated)


def test_nobody_opens_if_somebody_was_shown_another_model(tmp_path):
    parties = Parties(tmp_path, 4, 3)
    inputs = random_inputs(parties.names)
    collected = parties.collect(inputs, parties.names[:3])
    signed, _ = parties.mask("m3", inputs["m3"], evidence=replace(EVIDENCE, shown=b"other"))
    header = Header.decode(Signed.decode(signed).payload)
    collected.headers["m3"] = signed, header
    for name in parties.names:
        with pytest.raises(ProtocolError, match="was shown another model or other tensors than"):
            ask(parties, name, collected, tuple(parties.names))


@pytest.mark.parametrize("contributors", [0, 1, 2])
def test_nobody_opens_a_sum_of_fewer_than_three(tmp_path, contributors):
    parties = Parties(tmp_path, 4, 3)
    inputs = random_inputs(parties.names)
    collected = parties.begin({bits: len(vector) for bits, vector in inputs["m0"].items()})
    for place, name in enumerate(parties.names):
        collected.add(name, *parties.mask(name, inputs[name], contributes=place < contributors))
    assert collected.contributors == contributors
    for name in parties.names:
        with pytest.raises(ProtocolError, match=f"only {contributors} members contribute .* fewer than 3 are not"):
            parties.opening(collected, name)


def test_a_member_whose_vector_is_left_out_does_not_help(tmp_path):
    parties = Parties(tmp_path, 4, 3)
    collected = parties.collect(random_inputs(parties.names), parties.names)
    with pytest.raises(ProtocolError, match="the header of 'm3' is not among those"):
        agreements_to(parties, collected, tuple(parties.names[:3]), ["m3"])


def test_fewer_survivors_than_helpers_are_not_summed(tmp_path):
    parties = Parties(tmp_path, 5, 4)
    collected = parties.collect(random_inputs(parties.names), parties.names)
    with pytest.raises(ProtocolError, match="only 3 members would be summed: at least 4 are needed"):
        agreements_to(parties, collected, tuple(parties.names[:3]), ["m0"])


def test_other_keys_for_one_member_are_noticed(tmp_path):
    """The aggregator shows m0 a bulletin in which m3 is missing, and the others all of them."""
    parties = Parties(tmp_path, 4, 3)
    call = parties.setup.call.encode()
    short = Several(Several.decode(parties.setup.bulletin.encoded).messages[:3]).encode()
    parties.members["m0"].deal(call, short)
    material = replace(parties.material("m0"), bulletin=short)
    with pytest.raises(ProtocolError, match="was shown other keys than 'm0'"):
        parties.members["m0"].mask(material, *AT, EVIDENCE, random_inputs(["m0"])["m0"], True)


# On disk


def test_keys_and_promises_are_for_their_owner_alone(tmp_path):
    parties = Parties(tmp_path, 3, 3)
    parties.mask("m0", random_inputs(["m0"])["m0"])
    folder = tmp_path / "m0" / "secagg"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "setup.key": 0o600,
        "promises": 0o600,
    }
    (folder / "setup.key").chmod(0o644)
    parties.restart("m0")
    with pytest.raises(CorruptStateError, match=r"setup.key may be read by others \(mode 0644\): make it 0600"):
        parties.mask("m0", random_inputs(["m0"])["m0"])


def test_damaged_files_and_those_of_another_plan_are_refused(tmp_path):
    parties = Parties(tmp_path, 3, 3)
    parties.mask("m0", random_inputs(["m0"])["m0"])
    folder = tmp_path / "m0" / "secagg"
    (folder / "setup.key").write_bytes(b"short")
    with pytest.raises(CorruptStateError, match=r"setup\.key is damaged"):
        Journal(folder, "federation").root(bytes(32))
    with pytest.raises(CorruptStateError, match="promises is of another plan"):
        Journal(folder, "another")
    (folder / "promises").write_bytes((folder / "promises").read_bytes()[:-5])
    with pytest.raises(CorruptStateError, match="promises is damaged"):
        Journal(folder, "federation")


def test_promises_are_on_disk_before_anything_leaves(tmp_path, monkeypatch):
    """A write that fails stops the step: nothing was sent that is not on disk."""
    parties = Parties(tmp_path, 4, 3)
    inputs = random_inputs(parties.names)
    collected = parties.collect(inputs, parties.names)

    class FullError(Exception):
        pass

    def full(*_, **__):
        raise FullError

    parties.set_up()
    monkeypatch.setattr("fedagem.secagg.journal.write_file", full)
    with pytest.raises(FullError):
        parties.mask("m0", inputs["m0"])
    with pytest.raises(FullError):
        parties.members["m0"].join(replace(parties.setup.call, nonce=b"another").encode())
    assert collected.survivors == tuple(parties.names)


@pytest.mark.parametrize("victim", ["m0", "m3"])
@pytest.mark.parametrize("moment", range(5))
def test_a_kill_between_any_two_steps_changes_nothing(tmp_path, moment, victim):
    parties = Parties(tmp_path, 4, 3)
    inputs = random_inputs(parties.names)
    killed = itertools.count()

    def maybe_kill():
        if next(killed) == moment:
            parties.restart(victim)

    parties.setup = setup = type(parties.setup)("federation", parties.names, [AT], parties.settings, parties.local)
    call = setup.call.encode()
    for name in parties.names:
        setup.take_keys(name, parties.members[name].join(call))
    maybe_kill()
    for name in parties.names:
        setup.take_shares(name, parties.members[name].deal(call, setup.bulletin.encoded))
    maybe_kill()
    collected = parties.begin({bits: len(vector) for bits, vector in inputs["m0"].items()})
    for name in parties.names[:3] if victim == "m3" else parties.names:
        collected.add(name, *parties.mask(name, inputs[name]))
    maybe_kill()
    if collected.missing:
        parties.agree(collected, collected.survivors)
    maybe_kill()
    opened = parties.open(collected, collected.survivors)
    maybe_kill()
    assert opened is not None
    for bits, vector in plain_sum(inputs, collected.survivors).items():
        assert (opened[bits] == vector).all()
