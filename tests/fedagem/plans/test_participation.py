"""Who takes part in a round."""

from collections import Counter

import pytest

from fedagem.errors import PlanError
from fedagem.plans.rounds import Participation
from fedagem.settings import parse_settings
from fedagem.tasks.settings import Arrivals

CLIENTS = [f"client_{rank:02d}" for rank in range(50)]
GOLDEN_DRAW = ["client_03", "client_04", "client_06"]


def test_without_settings_everybody_takes_part():
    assert Participation().draw(CLIENTS, 7, seed=0) == CLIENTS


def test_a_draw_follows_from_the_seed_and_the_round_alone():
    half = Participation(per_round=25)
    assert half.draw(CLIENTS, 3, seed=1) == half.draw(CLIENTS, 3, seed=1)
    assert half.draw(CLIENTS, 3, seed=1) != half.draw(CLIENTS, 4, seed=1)
    assert half.draw(CLIENTS, 3, seed=1) != half.draw(CLIENTS, 3, seed=2)
    assert Participation(per_round=3).draw(CLIENTS[:10], 5, seed=0) == GOLDEN_DRAW


def test_everyone_is_drawn_about_equally_often_and_in_order():
    half = Participation(per_round=25)
    draws = [half.draw(CLIENTS, round_number, seed=0) for round_number in range(400)]
    assert all(draw == sorted(set(draw)) and len(draw) == 25 for draw in draws)
    counts = Counter(name for draw in draws for name in draw)
    assert len(counts) == 50
    assert all(140 < count < 260 for count in counts.values())


def test_only_those_who_have_arrived_are_drawn():
    incremental = Participation(per_round=10, arrivals=Arrivals(first=30, then=10), rounds_per_task=20)
    first_task = {name for r in range(20) for name in incremental.draw(CLIENTS, r, seed=0)}
    second_task = {name for r in range(20, 40) for name in incremental.draw(CLIENTS, r, seed=0)}
    assert max(first_task) <= "client_29"
    assert "client_29" < max(second_task) <= "client_39"
    assert max(incremental.draw(CLIENTS, 1000, seed=0)) <= "client_49"


def test_arrivals_without_a_draw_are_all_who_are_there():
    growing = Participation(arrivals=Arrivals(first=2, then=1), rounds_per_task=3)
    assert [len(growing.draw(CLIENTS[:4], r, seed=0)) for r in (0, 2, 3, 6, 9)] == [2, 2, 3, 4, 4]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"per_round": 0}, "per_round must be at least 1, not 0"),
        ({"arrivals": {"first": 3, "then": 1}}, "takes arrivals and rounds_per_task together"),
        ({"rounds_per_task": 5}, "takes arrivals and rounds_per_task together"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, sentence):
    with pytest.raises(PlanError, match=sentence):
        parse_settings(Participation, settings, "assigner.settings.participation")
