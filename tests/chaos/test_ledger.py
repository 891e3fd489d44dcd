"""The ledger adds up over runs of the harness, and its tables count what the documentation says they count."""

from chaos.ledger import Attempt, Kill, attempts_table, faults_line, kills_table, read_ledger

GOOD = Attempt(
    "digits, by hand",
    1,
    [Kill("aggregator", "write of state", 3, ".checkpoint.state.partial"), Kill("collaborator", "waiting", 4)],
    {"cut link": 2},
    ["aggregator: Error: the disk is full."],
    5,
    60.0,
    "same bits",
)
BAD = Attempt("digits, run", 2, [Kill("command", "rounds", 1)], outcome="hung", problems=["nothing has happened"])


def test_what_is_written_is_read_again_and_adds_up(tmp_path):
    ledger = tmp_path / "chaos" / "ledger.jsonl"
    assert read_ledger(ledger) == []
    GOOD.append_to(ledger)
    BAD.append_to(ledger)
    assert read_ledger(ledger) == [GOOD, BAD]


def test_kills_of_who_has_nothing_to_do_do_not_count():
    assert kills_table([GOOD, BAD]).splitlines() == [
        "| killed | write of state | rounds | all |",
        "| --- | ---: | ---: | ---: |",
        "| aggregator | 1 | 0 | 1 |",
        "| command | 0 | 1 | 1 |",
        "| all | 1 | 1 | 2 |",
    ]


def test_attempts_are_counted_by_how_they_ended():
    *_, hand, run, everything = attempts_table([GOOD, BAD]).splitlines()
    assert hand == "| digits, by hand | 1 | 1 | 2 | 1 | 1 | 0 | 0 | 0 |"
    assert run == "| digits, run | 1 | 1 | 0 | 0 | 0 | 0 | 1 | 0 |"
    assert everything == "| all | 2 | 2 | 2 | 1 | 1 | 0 | 1 | 0 |"
    assert faults_line([GOOD, BAD]) == "cut link 2"


def test_the_right_bits_with_a_traceback_on_the_way_are_a_problem():
    traced = Attempt("digits, run", 3, outcome="problem", problems=["command ended with a traceback"])
    assert attempts_table([traced]).splitlines()[-1] == "| all | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 1 |"
