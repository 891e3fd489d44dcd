"""Rounds with masked sums: the numbers of a plain run, whoever is killed and whoever is missing."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import src.secure_steps as steps
from fedagem.errors import PlanError
from fedagem.files import write_file
from fedagem.secagg import journal
from src.link import StaleTaskError
from src.task_results import EXCHANGE, MASKED, METRIC, RATIO, TRAINED
from tests.support.in_process_federation import Client, make_aggregator, make_clients, rows, run_all
from tests.support.secure_federation import NAMES, SecureFederation, received

pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """No process of these tests is really killed, and nothing has to reach the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)


CLOCK = {"seconds", "secagg_seconds", "bytes_down", "bytes_up"}
ROUNDS = 4


def outcome():
    facts = [row for row in rows() if row["metric"] not in CLOCK]
    models = [f"save/{name}.{kind}" for name in ("last", "best") for kind in ("pbuf", "safetensors")]
    return facts, {name: Path(name).read_bytes() for name in models}


def of_the_federation(facts):
    return [row for row in facts if row["client"] == "federation" and row["metric"].startswith("accuracy")]


def elsewhere(tmp_path, monkeypatch, name, run):
    """The outcome of a run in a folder of its own."""
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    run()
    result = outcome()
    monkeypatch.chdir(tmp_path)
    return result


def run_plain(weights=(), **settings):
    run_all(make_clients(make_aggregator(NAMES, ROUNDS, **settings), weights))


@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_64_bits_give_the_bits_of_a_plain_run(tmp_path, monkeypatch, weighting):
    weights = (1.0, 5.0, 7.0, 2.0)
    plain = elsewhere(tmp_path, monkeypatch, "plain", lambda: run_plain(weights, weighting=weighting))
    federation = SecureFederation(monkeypatch)
    clients = federation.clients(federation.aggregator(ROUNDS, weighting=weighting), weights)
    run_all(clients)
    secure = outcome()
    assert secure[1] == plain[1]
    assert of_the_federation(secure[0]) == of_the_federation(plain[0])
    assert [task for _, task in clients[0].done][:8] == [
        "setup:keys",
        "setup:shares",
        "evaluate_untrained",
        "buffer_gradient",
        "train",
        "train:open",
        "buffer_gradient",
        "buffer_gradient:open",
    ], "nobody has a buffer in the first round, and nobody is missing"
    losses = [row["value"] for row in secure[0] if row["metric"] == "loss"]
    assert losses == [2.5] * ROUNDS
    assert {row["client"] for row in secure[0] if row["metric"] == "loss"} == {"federation"}


@pytest.mark.parametrize(
    "settings", [{}, {"bits": 32}, {"metrics": "none"}, {"metrics": "each"}, {"stages": ["train"]}, {"rekey_every": 1}]
)
def test_a_simulation_without_masks_gives_the_same(tmp_path, monkeypatch, settings):
    federation = SecureFederation(monkeypatch, **settings)
    simulated = elsewhere(
        tmp_path, monkeypatch, "simulated", lambda: run_all(make_clients(federation.aggregator(ROUNDS, masked=False)))
    )
    run_all(federation.clients(federation.aggregator(ROUNDS)))
    assert outcome() == simulated
    told = {row["client"] for row in simulated[0] if row["metric"] == "loss"}
    assert told == {"none": set(), "each": set(NAMES)}.get(settings.get("metrics"), {"federation"})


def test_32_bits_take_the_bytes_of_a_plain_run_and_round(tmp_path, monkeypatch):
    plain = elsewhere(tmp_path, monkeypatch, "plain", run_plain)
    federation = SecureFederation(monkeypatch, bits=32)
    clients = federation.clients(federation.aggregator(ROUNDS))
    run_all(clients)
    short = [array for array in received(clients) if array.dtype == np.uint32]
    assert {array.nbytes for array in short} == {(4 + 3) * 4}, "canaries and the three weights"
    facts, models = outcome()
    assert of_the_federation(facts) == of_the_federation(plain[0])
    assert models.keys() == plain[1].keys()


def kept_gradients():
    [folder] = Path("received").iterdir()
    return {path.stem: np.load(path) for path in folder.glob("*.npy")}


@pytest.mark.parametrize("bits", [32, 64])
def test_what_the_aggregator_keeps_for_an_audit_is_masked_and_only_the_mean_is_open(tmp_path, monkeypatch, bits):
    elsewhere(tmp_path, monkeypatch, "plain", lambda: run_plain(keep_received=True))
    monkeypatch.chdir(tmp_path / "plain")
    plain = kept_gradients()
    monkeypatch.chdir(tmp_path)
    federation = SecureFederation(monkeypatch, bits=bits)
    run_all(federation.clients(federation.aggregator(ROUNDS, keep_received=True)))
    secure = kept_gradients()
    assert secure.keys() == plain.keys() == {*NAMES, "mean"}
    np.testing.assert_allclose(secure["mean"], plain["mean"], atol=1e-6)
    for name in NAMES:
        assert secure[name].shape == plain[name].shape
        assert not np.isclose(secure[name], plain[name], atol=1e-6).any()


def test_a_simulation_keeps_no_gradients_that_a_run_would_mask(monkeypatch):
    federation = SecureFederation(monkeypatch)
    with pytest.raises(PlanError, match="keep_received would keep gradients that nothing masks in a simulation"):
        federation.aggregator(masked=False, keep_received=True)


def test_nothing_that_is_sent_in_a_protected_stage_is_a_result(monkeypatch):
    federation = SecureFederation(monkeypatch)
    clients = federation.clients(federation.aggregator())
    run_all(clients)
    for client in clients:
        for (_, task), answer in zip(client.done, client.sent, strict=True):
            kinds = {key.tags for key in answer}
            if not task.startswith("evaluate"):
                assert not kinds & {TRAINED, METRIC}, task
            if task == "train":
                assert MASKED in kinds


def test_a_client_that_does_not_mask_is_refused(monkeypatch):
    federation = SecureFederation(monkeypatch)
    aggregator = federation.aggregator()
    plain = make_clients(aggregator)[0]
    with pytest.raises(Exception, match="this client does not protect its results"):
        plain.link.send(0, "setup:keys", {})


def test_fewer_than_three_clients_are_refused_by_name(monkeypatch):
    federation = SecureFederation(monkeypatch, names=["a", "b"])
    with pytest.raises(PlanError, match="secure aggregation needs at least 3 clients, and round 0 has 2"):
        federation.aggregator()


@pytest.mark.parametrize("switch", [True, False])
def test_the_switch_of_openfl_is_refused(switch):
    with pytest.raises(PlanError, match=r"secure_aggregation is (true|false), which is OpenFL's own form"):
        make_aggregator(NAMES, secure_aggregation=switch)


# Kills


UNDISTURBED: list[Any] = []
"""The outcome of two rounds in which nobody is killed, and how many results they take: the same for all tests."""


def count_steps(monkeypatch, tmp_path):
    if not UNDISTURBED:
        federation = SecureFederation(monkeypatch)

        def run():
            clients = federation.clients(federation.aggregator(2))
            run_all(clients)
            UNDISTURBED.append(sum(len(client.done) for client in clients))

        UNDISTURBED.insert(0, elsewhere(tmp_path, monkeypatch, "undisturbed", run))
    return UNDISTURBED


def steps_of(clients, number):
    """Let clients take turns for so many turns."""
    for turn in range(number):
        clients[turn % len(clients)].step()


def kill_aggregator(federation, clients):
    restarted = federation.aggregator(2)
    for client in clients:
        client.aggregator = restarted


def kill_client(federation, clients):
    """Before it asks for its task, and again after the answer was made and before it is sent."""
    victim = clients[sum(len(client.done) for client in clients) % len(clients)]
    victim.start()
    tasks, round_number, _ = victim.poll()
    for task in tasks:
        victim.answer_of(task, round_number)
    victim.start()


def kill_both(federation, clients):
    kill_aggregator(federation, clients)
    for client in clients:
        client.start()


KILLS = [kill_aggregator, kill_client, kill_both]


def check_kills(tmp_path, monkeypatch, kill, every):
    undisturbed, total = count_steps(monkeypatch, tmp_path)
    assert total > 40
    for turns in range(KILLS.index(kill), total, every):
        folder = tmp_path / str(turns)
        folder.mkdir()
        monkeypatch.chdir(folder)
        federation = SecureFederation(monkeypatch)
        clients = federation.clients(federation.aggregator(2))
        steps_of(clients, turns)
        kill(federation, clients)
        run_all(clients)
        assert outcome() == undisturbed, turns


@pytest.mark.parametrize("kill", KILLS)
def test_kills_between_some_results_change_nothing(tmp_path, monkeypatch, kill):
    check_kills(tmp_path, monkeypatch, kill, every=15)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kill", KILLS)
def test_kills_between_any_two_results_change_nothing(tmp_path, monkeypatch, kill):
    check_kills(tmp_path, monkeypatch, kill, every=1)


@pytest.mark.parametrize("task", ["setup:shares", "buffer_gradient"])
def test_who_is_at_work_when_the_aggregator_is_killed_finds_nothing_that_is_half_collected(tmp_path, monkeypatch, task):
    """The next aggregator makes a new setup, and has the keys of one client when the other asks for all of them."""
    undisturbed, _ = count_steps(monkeypatch, tmp_path)
    federation = SecureFederation(monkeypatch)
    clients = federation.clients(federation.aggregator(2))
    first, *_, at_work = clients
    while at_work.poll()[0] != [task]:
        for client in clients:
            client.step()
    tasks, round_number, _ = at_work.poll()
    kill_aggregator(federation, clients)
    first.step()
    assert first.done[-1][1] == "setup:keys"
    with pytest.raises(StaleTaskError):
        at_work.answer_of(tasks[0], round_number)
    run_all(clients)
    assert outcome() == undisturbed


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("write", [0, 3, 5, 9, 10, 13])
def test_a_crash_around_any_write_to_disk_changes_nothing(tmp_path, monkeypatch, write, moment):
    """Of a client's keys and promises, and of the aggregator's list of survivors."""
    undisturbed, _ = count_steps(monkeypatch, tmp_path)
    federation = SecureFederation(monkeypatch)
    clients = federation.clients(federation.aggregator(2))
    original, writes = write_file, iter(range(10**6))

    def crash(*given, **settings):
        if next(writes) != write:
            return original(*given, **settings)
        if moment == "after":
            original(*given, **settings)
        raise Crash

    monkeypatch.setattr(journal, "write_file", crash)
    monkeypatch.setattr(steps, "write_file", crash)
    with pytest.raises(Crash):
        run_all(clients)
    restarted = federation.aggregator(2)
    for client in clients:
        client.aggregator = restarted
        client.start()
    run_all(clients)
    assert outcome() == undisturbed


# Drop-outs


def missing_in(task):
    """Everybody but the last client works; the last one is gone once it is asked for a task."""
    return lambda client: client.poll()[0] == [task]


@pytest.mark.parametrize("task", ["setup:keys", "setup:shares", "buffer_gradient", "train", "train:open"])
def test_with_a_cutoff_a_missing_client_is_survived(monkeypatch, task):
    federation = SecureFederation(monkeypatch, cutoff_seconds=0.2)
    aggregator = federation.aggregator(1, poll_seconds=0.05)
    clients = federation.clients(aggregator)
    lost, gone = clients[3], False
    for _ in range(400):
        for client in clients[:3]:
            client.step()
        gone = gone or missing_in(task)(lost)
        if not gone:
            lost.step()
        if aggregator._time_to_quit():
            break
    summed = json.loads(Path("save/survivors.json").read_text())["0/train"]
    alive = 4 if task == "train:open" else 3
    assert summed == NAMES[:alive]
    expected = np.mean([1, 2, 3, 4][:alive])
    weights = aggregator._model(1)["w"]
    np.testing.assert_allclose(weights, np.array([1, 2, 3]) + expected, rtol=1e-6)
    assert [row["value"] for row in rows() if row["metric"] == "loss"] == [expected]
    if task == "train":
        late = lost.answer_of("train", 0) if lost.poll()[0] == ["train"] else None
        assert late is None, "a late vector is not awaited"


def test_a_late_client_takes_part_in_the_next_round(monkeypatch):
    federation = SecureFederation(monkeypatch, cutoff_seconds=1.5)
    aggregator = federation.aggregator(2, poll_seconds=0.05)
    clients = federation.clients(aggregator)
    for _ in range(400):
        active = clients if aggregator.round_number else clients[:3]
        alive = [client.step() for client in active]
        if not any(alive):
            break
    lists = json.loads(Path("save/survivors.json").read_text())
    assert (lists["0/train"], lists["1/train"]) == (NAMES[:3], NAMES)


def test_too_few_helpers_give_the_stage_up_and_the_round_goes_on(monkeypatch):
    federation = SecureFederation(monkeypatch, cutoff_seconds=0.1)
    aggregator = federation.aggregator(1, poll_seconds=0.02)
    clients = federation.clients(aggregator)
    before = aggregator._model(0)["w"].copy()
    for _ in range(400):
        for client in clients:
            if client.poll()[0] != ["train:open"]:
                client.step()
        time.sleep(0.005)
        if aggregator._time_to_quit():
            break
    with aggregator._turn:
        pass  # the thread that gives up is done
    given_up = [row for row in rows() if row["metric"] == "given_up"]
    assert [(row["stage"], row["value"]) for row in given_up] == [("train", 4)]
    assert (aggregator._model(1)["w"] == before).all(), "the model stays"


def test_two_contributors_are_not_summed(tmp_path, monkeypatch):
    weights = (1.0, 1.0, 0.0, 0.0)
    federation = SecureFederation(monkeypatch)
    simulated = elsewhere(
        tmp_path,
        monkeypatch,
        "simulated",
        lambda: run_all(make_clients(federation.aggregator(2, masked=False), weights)),
    )
    run_all(federation.clients(federation.aggregator(2), weights))
    given_up = [(row["stage"], row["value"]) for row in rows() if row["metric"] == "given_up"]
    assert given_up == [("train", 2), ("buffer_gradient", 2), ("train", 2)]
    assert not [row for row in rows() if row["metric"] == "loss"]
    assert outcome() == simulated


def test_counts_of_an_evaluation_can_be_protected(tmp_path, monkeypatch):
    learn = Client.result

    def counting(client, task, round_number):
        if task != "evaluate":
            return learn(client, task, round_number)
        counts = np.array([[client.k + number, 10 + round_number] for number in range(5)])
        return {RATIO: {"domain_il": counts}}

    monkeypatch.setattr(Client, "result", counting)
    plain = elsewhere(tmp_path, monkeypatch, "plain", run_plain)
    federation = SecureFederation(monkeypatch, stages=["buffer_gradient", "train", "evaluate"])
    clients = federation.clients(federation.aggregator(ROUNDS))
    run_all(clients)
    facts, models = outcome()
    assert of_the_federation(facts) == of_the_federation(plain[0])
    assert models == plain[1]
    answers = [
        answer
        for client in clients
        for (_, task), answer in zip(client.done, client.sent, strict=True)
        if task == "evaluate"
    ]
    assert answers
    assert not any(key.tags == RATIO for answer in answers for key in answer)


def test_gradients_that_are_too_small_for_32_bits_are_reported(monkeypatch, caplog):
    federation = SecureFederation(monkeypatch, bits=32, range={"g_ref": 1024.0})
    learn = Client.result

    def tiny(client, task, round_number):
        kinds = learn(client, task, round_number)
        if task == "buffer_gradient":
            kinds[EXCHANGE]["g_ref"] = kinds[EXCHANGE]["g_ref"] * np.float32(1e-5)
        return kinds

    monkeypatch.setattr(Client, "result", tiny)
    run_all(federation.clients(federation.aggregator(2)))
    assert "of the size of g_ref: choose a smaller range, or 64 bits" in caplog.text


def test_a_value_out_of_range_is_named_and_left_out(monkeypatch, caplog):
    federation = SecureFederation(monkeypatch, bits=32)
    clients = federation.clients(federation.aggregator(1))
    clients[3].k = 100
    run_all(clients)
    assert "d contributes nothing to train: tensor 'model/w' has the value 101, which was 1 before" in caplog.text
    assert [row["value"] for row in rows() if row["metric"] == "loss"] == [2.0]


def test_keys_that_are_lost_are_made_again_with_the_next_round(monkeypatch):
    federation = SecureFederation(monkeypatch, cutoff_seconds=5)
    aggregator = federation.aggregator(2)
    clients = federation.clients(aggregator)
    steps_of(clients, 12)
    Path("local_state/d/secagg/setup.key").unlink()
    clients[3].start()
    run_all(clients)
    lists = json.loads(Path("save/survivors.json").read_text())
    assert (lists["0/train"], lists["1/train"]) == (NAMES[:3], NAMES)
