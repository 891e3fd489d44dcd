"""`fedagem run --secure`: real processes over TLS with real certificates have the numbers of a plain simulation."""

import random
import stat
import time
from pathlib import Path

import pytest
import yaml

from chaos.outcome import outcome, rows_of
from chaos.processes import Process, end
from fedagem.secagg.identity import pins_of
from tests.support.fx_federations import (
    PATIENCE,
    SETTINGS,
    change_plan_file,
    fedagem,
    finish,
    fresh_copy,
    fx,
    reached,
    wait_until,
)

CLIENTS = ("client_1", "client_2", "client_3")
SECURE = [*SETTINGS, "--rounds", "5", "--set", "data_loader.settings.clients=3"]
MEMBERS = {"aggregator": ("aggregator", "start")} | {name: ("collaborator", "start", "-n", name) for name in CLIENTS}


@pytest.fixture(scope="module")
def secured(plan_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("secure") / "run"
    code, output = finish(fedagem("run", plan_path, "--secure", "--out", run, *SECURE))
    assert code == 0, output
    return run


@pytest.fixture(scope="module")
def plain(plan_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("plain") / "run"
    code, output = finish(fedagem("simulate", plan_path, "--out", run, *SECURE))
    assert code == 0, output
    return run


def facts(run: Path) -> dict[str, object]:
    """What must be the same with and without masks: models, scores and the clients' memories."""
    found = outcome(run)
    scores = [row for row in found["metrics"] if row["metric"].startswith("accuracy")]
    models = {name: content for name, content in found["models"].items() if name.endswith(".pbuf")}
    memories = {name: {**state, "origin": None} for name, state in found["states"].items()}
    return {"scores": scores, "models": models, "memories": memories}


def test_a_secure_run_has_the_numbers_of_a_plain_simulation(secured: Path, plain: Path) -> None:
    assert facts(secured) == facts(plain)
    losses = [(row["client"], row["value"]) for row in rows_of(secured) if row["metric"] == "loss"]
    theirs: dict[int, list[float]] = {}
    for row in rows_of(plain):
        if row["metric"] == "loss":
            theirs.setdefault(row["round"], []).append(row["value"])
    assert [client for client, _ in losses] == ["federation"] * 5
    means = [sum(values) / len(values) for values in theirs.values()]
    assert [value for _, value in losses] == pytest.approx(means, abs=1e-6)
    for name in CLIENTS:
        folder = secured / "local_state" / name / "secagg"
        assert stat.S_IMODE((folder / "setup.key").stat().st_mode) == 0o600
    pins = yaml.safe_load((secured / "plan" / "members.yaml").read_text())
    assert pins == pins_of((secured / "cert" / "client").glob("*.crt"))


def kill_members(run: Path, kills: list[tuple[int, str]]) -> None:
    """Start all members, and kill and restart some of them at random moments after a round began."""
    moments = random.Random()
    seed = moments.randrange(10**6)
    moments.seed(seed)
    processes: dict[str, Process] = {name: fx(run, *command) for name, command in MEMBERS.items()}
    try:
        for round_number, victim in kills:
            wait_until(reached(run, round_number), processes["aggregator"])
            time.sleep(moments.uniform(0, 0.6))
            processes[victim].kill()
            finish(processes[victim])
            processes[victim] = fx(run, *MEMBERS[victim])
        began = time.monotonic()
        for name, process in processes.items():
            code, output = finish(process, PATIENCE - (time.monotonic() - began))
            assert code == 0, (seed, name, output[-3000:])
    finally:
        end(*processes.values())


def test_kills_change_nothing(secured: Path, plain: Path, tmp_path: Path) -> None:
    run = fresh_copy(secured, tmp_path / "run")
    (run / "save" / "survivors.json").unlink()
    kill_members(run, [(0, "client_1"), (1, "aggregator"), (3, "client_3")])
    assert facts(run) == facts(plain)


@pytest.mark.nightly
@pytest.mark.parametrize("attempt", range(3))
def test_more_kills_change_nothing(secured: Path, plain: Path, tmp_path: Path, attempt: int) -> None:
    """Not in the last round: who is started again after the end finds nobody."""
    run = fresh_copy(secured, tmp_path / "run")
    (run / "save" / "survivors.json").unlink()
    victims = list(MEMBERS)
    kill_members(run, [(number, victims[(number + attempt) % 4]) for number in range(4) for _ in range(2)])
    assert facts(run) == facts(plain)


@pytest.mark.parametrize(
    ("section", "settings", "sentence"),
    [
        (
            "aggregator",
            {"secure_aggregation": True},
            "aggregator.settings.secure_aggregation is true, which is OpenFL's",
        ),
        ("collaborator", {"write_logs": True}, "collaborator.settings.write_logs must be false"),
    ],
)
def test_fx_refuses_what_is_not_honoured(secured, tmp_path, section, settings, sentence) -> None:
    run = fresh_copy(secured, tmp_path / "run")
    path = run / "plan" / "plan.yaml"
    document = yaml.safe_load(path.read_text())
    document[section]["settings"] |= settings
    path.write_text(yaml.safe_dump(document))
    (run / "plan" / "requested.yaml").unlink()
    for member in ("aggregator", "client_1"):
        code, output = finish(fx(run, *MEMBERS[member]))
        assert code != 0
        assert sentence in output.replace("\n", " ")
        assert "Traceback" not in output


def test_other_pins_stop_the_federation_with_a_sentence(secured: Path, tmp_path: Path) -> None:
    """One member's file has another fingerprint: nobody would notice an aggregator that pretends to be that member."""
    run = fresh_copy(secured, tmp_path / "run")
    (run / "save" / "survivors.json").unlink()
    change_plan_file(run, "collaborator", connect_seconds=PATIENCE)
    other = tmp_path / "other"
    other.mkdir()
    for part in ("plan", "cert", "src", ".workspace", "requirements.txt"):
        (other / part).symlink_to(run / part)
    (other / "plan").unlink()
    (other / "plan").mkdir()
    for file in (run / "plan").iterdir():
        (other / "plan" / file.name).write_bytes(file.read_bytes())
    pins = yaml.safe_load((run / "plan" / "members.yaml").read_text())
    (other / "plan" / "members.yaml").write_text(yaml.safe_dump({**pins, "client_1": "0" * 64}))
    processes = {name: fx(other if name == "client_3" else run, *MEMBERS[name]) for name in MEMBERS}
    try:
        for name, process in processes.items():
            code, output = finish(process)
            assert code != 0, name
            if name == "aggregator":
                assert "only 2 of 3 members can go on with setup:keys" in output.replace("\n", " ")
    finally:
        end(*processes.values())
