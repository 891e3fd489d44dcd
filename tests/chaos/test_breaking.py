"""The harness itself can fail: it finds bits that differ, ends without a sentence, tracebacks, and what hangs."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaos import breaking
from chaos.breaking import Breaking
from chaos.outcome import differences
from fedagem.files import write_state


@dataclass
class Pretended:
    """Stands for a federation: processes that do what a test wants."""

    reference: Path
    scripts: dict[str, str]
    name: str = "pretended"
    by_hand: bool = True
    collaborators: list[str] = field(default_factory=list)

    def commands(self, run):
        return {role: [sys.executable, "-c", script] for role, script in self.scripts.items()}


@pytest.fixture
def folders(tmp_path):
    for name in ("run", "reference"):
        (tmp_path / name / "save").mkdir(parents=True)
        (tmp_path / name / "metrics.jsonl").write_text('{"metric": "loss", "value": 1}\n')
    return tmp_path / "run", tmp_path / "reference"


def attempt(folders, tmp_path, **scripts):
    run, reference = folders
    return Breaking(Pretended(reference, scripts), run, 0, warm=False).attempt(0, tmp_path / "evidence")


def test_what_ends_well_has_the_same_bits(folders, tmp_path):
    record = attempt(folders, tmp_path, aggregator="", client_1="")
    assert (record.outcome, record.problems, record.starts) == ("same bits", [], 2)
    assert not (tmp_path / "evidence").exists()


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("raise SystemExit(3)", "aggregator ended with 3 and without a sentence"),
        ("1 / 0", "aggregator ended with a traceback"),
        ("import os; os.abort()", "aggregator ended with -6 and without a sentence"),
    ],
)
def test_an_end_without_a_sentence_is_a_problem_with_evidence(folders, tmp_path, script, problem):
    record = attempt(folders, tmp_path, aggregator=script)
    assert record.problems == [problem]
    assert record.outcome == "problem"
    assert "== aggregator ended with" in (tmp_path / "evidence" / "said.txt").read_text()
    assert (tmp_path / "evidence" / "run" / "metrics.jsonl").exists()


def test_who_has_said_why_is_started_again_but_not_for_ever(folders, tmp_path):
    record = attempt(folders, tmp_path, aggregator="print('Error: the disk is full.'); raise SystemExit(2)")
    assert record.problems == ["aggregator has not come up in 10 starts"]
    assert len(record.sentences) == record.starts == 11
    once = "import os; from pathlib import Path; p = Path('once'); there = p.exists(); p.touch()\n"
    record = attempt(folders, tmp_path, aggregator=f"{once}if not there: raise SystemExit('Error: try again.')")
    assert (record.outcome, record.sentences) == ("same bits", ["aggregator: Error: try again."])


WRITES_UNTIL_KILLED = """
import time
from pathlib import Path
started = Path("started")
if started.exists():
    raise SystemExit
started.touch()
with Path("metrics.jsonl").open("a") as file:
    file.write('{"metric": "seconds", "value": 1}\\n')
while True:
    Path("save/.state.partial").touch()
    time.sleep(0.001)
    Path("save/.state.partial").unlink()
"""


def test_a_process_killed_in_a_write_is_started_again_however_soon_it_is_dead(folders, tmp_path):
    run, reference = folders
    subject = Pretended(reference, {"aggregator": WRITES_UNTIL_KILLED})
    record = Breaking(subject, run, 0, warm=False, kinds=["kill in a write"]).attempt(1, tmp_path / "evidence")
    assert (record.outcome, record.problems) == ("same bits", [])
    assert [kill.process for kill in record.kills] == ["aggregator"]
    assert record.starts == 2


def test_what_does_nothing_is_hung(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(breaking, "_HUNG_SECONDS", 0.5)
    record = attempt(folders, tmp_path, aggregator="import time; time.sleep(600)")
    assert record.outcome == "hung"
    assert "still running" in (tmp_path / "evidence" / "said.txt").read_text()


def test_every_kind_of_difference_is_found(folders):
    run, reference = folders
    assert differences(run, reference) == []
    for folder, value in ((run, 1.0), (reference, 2.0)):
        (folder / "save" / "last.pbuf").write_text(str(value))
        write_state(folder / "local_state" / "client_1" / "after_round_000001.state", {"value": value})
    (reference / "save" / "best.pbuf").touch()
    (run / "metrics.jsonl").write_text('{"metric": "loss", "value": 2}\n{"metric": "seconds", "value": 9}\n')
    assert differences(run, reference) == [
        "metrics.jsonl",
        "best.pbuf",
        "last.pbuf",
        "local_state/client_1/after_round_000001.state",
    ]
    (run / "metrics.jsonl").write_text('{"metric": "loss", "value": 1}\n{"metric": "seconds", "value": 9}\n')
    assert "metrics.jsonl" not in differences(run, reference), "time is nobody's"
