"""Messages that are replayed, cut off, changed or meant for somebody else are refused, and the sentence says why."""

from dataclasses import replace

import numpy as np
import pytest

from fedagem.secagg.combiner import Setup
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.messages import Call, Header, Mail, Several, Shares, Signed
from tests.support.secagg_parties import EVIDENCE, FEDERATION, Parties, random_inputs

AT = (0, "train")


@pytest.fixture
def parties(tmp_path):
    return Parties(tmp_path, 4, 3, [(0, "train"), (0, "buffer_gradient"), (1, "train")])


def fresh_call(parties, **changed):
    return replace(parties.setup.call, **changed).encode()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"federation": "another"}, "the aggregator follows another plan"),
        ({"pins": b"other"}, "has other fingerprints in plan/members.yaml"),
        ({"members": ("m1", "m2", "m3")}, "'m0' must be in the list of members once"),
        ({"members": ("m0", "m0", "m2", "m3")}, "must be in the list of members once"),
        ({"members": ("m0", "m1"), "helpers": 2}, "a sum over 2 members hides nobody: at least 3 are needed"),
        ({"helpers": 2}, "sums should be opened by 2 members, but the plan says 3"),
        ({"sums": ((0, "evaluate"),)}, "keys are wanted for stages that the plan does not name"),
        ({"sums": ((0, "train"), (0, "train"))}, "or twice for the same sum"),
        ({"sums": tuple((number, "train") for number in range(11))}, "keys are wanted for 11 rounds at once"),
    ],
)
def test_a_wrong_call_is_not_followed(parties, changed, sentence):
    with pytest.raises(ProtocolError, match=sentence):
        parties.members["m0"].join(fresh_call(parties, **changed))


def sent_by_members(parties):
    """A message of each kind that members send, with how the aggregator takes it."""
    setup = Setup(FEDERATION, parties.names, parties.sums, parties.settings, parties.local)
    call = setup.call.encode()
    keys = {name: parties.members[name].join(call) for name in parties.names}
    yield "keys", keys["m0"], lambda data, setup=setup: setup.take_keys("m0", data)
    for name, sent in keys.items():
        setup.take_keys(name, sent)
    shares = {name: parties.members[name].deal(call, setup.bulletin.encoded) for name in parties.names}
    yield "shares", shares["m0"], lambda data: setup.take_shares("m0", data)
    for name, sent in shares.items():
        setup.take_shares(name, sent)
    parties.setup = setup
    inputs = random_inputs(parties.names)
    header, vectors = parties.mask("m0", inputs["m0"])
    sizes = {bits: len(vector) for bits, vector in vectors.items()}
    yield "header", header, lambda data: parties.begin(sizes).add("m0", data, vectors)
    collected = parties.collect(inputs, parties.names[:3])
    parties.agree(collected, parties.names[:3])
    agreement = Several.decode(collected.agreed()).messages[0]
    yield "agreement", agreement, lambda data: collected.take_agreement("m0", data)
    yield "opening", parties.opening(collected, "m0"), lambda data: collected.take_opening("m0", data)


def sent_by_the_aggregator(parties):
    """A message of each kind that members get, with how a member takes it."""
    parties.set_up()
    member, material = parties.members["m0"], parties.material("m0")
    vectors = random_inputs(["m0"])["m0"]
    yield "call", material.call, lambda data: member.deal(data, material.bulletin)
    yield "bulletin", material.bulletin, lambda data: member.deal(material.call, data)
    yield "mail", material.mail, lambda data: member.mask(replace(material, mail=data), *AT, EVIDENCE, vectors, True)
    collected = parties.collect(random_inputs(parties.names), parties.names[:3])
    parties.agree(collected, parties.names[:3])
    yield "headers", collected.passed_on(), lambda data: member.agree(material, *AT, data)
    headers = collected.passed_on()
    yield "agreements", collected.agreed(), lambda data: member.open(material, *AT, headers, data)


@pytest.mark.parametrize("side", [sent_by_members, sent_by_the_aggregator])
def test_cut_off_and_changed_messages_are_refused(parties, side):
    kinds = 0
    for kind, message, take in side(parties):
        kinds += 1
        for size in {0, 1, len(message) // 2, len(message) - 1}:
            with pytest.raises(ProtocolError):
                take(message[:size])
        with pytest.raises(ProtocolError):
            take(message + b"\x00")
        for place in np.linspace(0, len(message) - 1, 60).astype(int):
            flipped = bytearray(message)
            flipped[place] ^= 1 << (place % 8)
            with pytest.raises(ProtocolError) as refusal:
                take(bytes(flipped))
            assert len(str(refusal.value)) > 20, kind
        take(message)
    assert kinds == 5


def test_messages_of_another_setup_are_refused(parties):
    """The same members, sums and round: only the setup is another."""
    earlier = {kind: message for kind, message, _ in sent_by_members(parties)}
    later = {kind: take for kind, _, take in sent_by_members(parties)}
    for kind, message in earlier.items():
        with pytest.raises(ProtocolError, match="another setup"):
            later[kind](message)


def test_messages_of_another_sender_are_refused(parties):
    inputs = random_inputs(parties.names)
    header, vectors = parties.mask("m1", inputs["m1"])
    collected = parties.begin({bits: len(vector) for bits, vector in vectors.items()})
    with pytest.raises(ProtocolError, match="'m0' has sent the header of somebody else"):
        collected.add("m0", header, vectors)
    collected = parties.collect(inputs, parties.names)
    with pytest.raises(ProtocolError, match="has opened something else"):
        collected.take_opening("m0", parties.opening(collected, "m1"))
    setup = Setup(FEDERATION, parties.names, parties.sums, parties.settings, parties.local)
    with pytest.raises(ProtocolError, match="has sent the keys of somebody else"):
        setup.take_keys("m0", parties.members["m1"].join(setup.call.encode()))


def test_messages_of_another_round_or_stage_are_refused(parties):
    inputs = random_inputs(parties.names)
    sizes = {bits: len(vector) for bits, vector in inputs["m0"].items()}
    for other in ((0, "buffer_gradient"), (1, "train")):
        header, vectors = parties.mask("m0", inputs["m0"], other)
        with pytest.raises(ProtocolError, match=rf"is for stage {other[1]} of round {other[0]}, not for stage train"):
            parties.begin(sizes).add("m0", header, vectors)
    with pytest.raises(ProtocolError, match="this setup has no keys for stage train of round 7"):
        parties.mask("m0", inputs["m0"], (7, "train"))


def test_an_envelope_for_somebody_else_does_not_open(parties):
    letters = Mail.decode(parties.setup.mail("m0")).letters
    others = Mail.decode(parties.setup.mail("m1")).letters
    swapped = Mail((*letters[:2], (letters[2][0], others[2][1]), letters[3])).encode()
    material = replace(parties.material("m0"), mail=swapped)
    with pytest.raises(ProtocolError, match="the envelope from 'm2' to 'm0' does not open"):
        parties.members["m0"].mask(material, *AT, EVIDENCE, random_inputs(["m0"])["m0"], True)


def test_a_forged_signature_is_refused(parties):
    header, vectors = parties.mask("m0", random_inputs(["m0"])["m0"])
    signed = Signed.decode(header)
    forged = replace(Header.decode(signed.payload), contributes=False).encode()
    with pytest.raises(ProtocolError, match="the header of 'm0' is not signed by its key of this setup"):
        parties.begin({bits: len(vector) for bits, vector in vectors.items()}).add(
            "m0", replace(signed, payload=forged).encode(), vectors
        )


def test_keys_that_the_aggregator_made_up_are_refused(parties):
    bulletin = Several.decode(parties.setup.bulletin.encoded).messages
    parties.local.signer("intruder")
    stranger = type(parties)(parties.folder / "elsewhere", 4, 3)
    theirs = Several.decode(stranger.setup.bulletin.encoded).messages
    with pytest.raises(ProtocolError, match="the keys of 'm3' are of another setup"):
        parties.members["m0"].deal(parties.setup.call.encode(), Several((*bulletin[:3], theirs[3])).encode())


def test_vectors_of_another_shape_are_refused(parties):
    header, vectors = parties.mask("m0", random_inputs(["m0"])["m0"])
    sizes = {bits: len(vector) for bits, vector in vectors.items()}
    for wrong in ({64: vectors[64]}, {**vectors, 32: vectors[32][1:]}, {**vectors, 32: vectors[32].view(np.int32)}):
        collected = parties.begin(sizes)
        with pytest.raises(ProtocolError, match="have other shapes than those asked for"):
            collected.add("m0", header, wrong)
        assert not collected.headers
        assert not any(vector.any() for vector in collected.total.values())


def test_a_message_of_another_kind_is_refused():
    shares = Shares(b"", ()).encode()
    with pytest.raises(ProtocolError, match="a message of kind 'shares', version 1, came instead of 'call'"):
        Call.decode(shares)
    with pytest.raises(ProtocolError, match="a message of 16,777,217 bytes is too long"):
        Call.decode(bytes(2**24 + 1))
