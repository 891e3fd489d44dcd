"""Work side by side ends with its first failure."""

import threading

import pytest

from fedagem.errors import FedAGemError
from fedagem.runs.parallel import side_by_side


def fails(check):
    raise FedAGemError("it went wrong.")


@pytest.mark.parametrize("repetition", range(20))
def test_nothing_begins_after_a_failure(repetition):
    begun: list[object] = []
    with pytest.raises(FedAGemError, match="it went wrong"):
        side_by_side([fails, begun.append, begun.append], parallel=1)
    assert not begun


def test_what_is_under_way_is_stopped_by_its_check_and_has_ended_when_the_failure_is_told():
    ended = threading.Event()

    def waits(check):
        try:
            while True:
                check()
        finally:
            ended.set()

    with pytest.raises(FedAGemError, match="it went wrong"):
        side_by_side([waits, fails], parallel=2)
    assert ended.is_set()


def test_everything_is_done_in_order():
    done: list[int] = []
    side_by_side([lambda _, number=number: done.append(number) for number in range(5)], parallel=1)  # type: ignore[misc]
    assert done == [0, 1, 2, 3, 4]
