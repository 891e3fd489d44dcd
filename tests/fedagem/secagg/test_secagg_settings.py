"""`secure_aggregation` of a plan: what is refused, and how many helpers a sum needs."""

import pytest

from fedagem.errors import PlanError
from fedagem.secagg.settings import SecureAggregation
from fedagem.settings import parse_settings

PATH = "aggregator.settings.secure_aggregation"


@pytest.mark.parametrize(("members", "helpers"), [(3, 3), (4, 3), (5, 4), (6, 5), (7, 5), (10, 7), (30, 21), (100, 68)])
def test_more_than_two_thirds_open_a_sum(members, helpers):
    assert SecureAggregation().helpers(members) == helpers


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"threshold": 0.4}, f"{PATH}.threshold must be at least 0.5, not 0.4."),
        ({"threshold": 1.0}, f"{PATH}.threshold must be below 1, not 1.0."),
        ({"bits": 16}, f"{PATH}.bits is 16"),
        ({"min_contributors": 2}, f"{PATH}.min_contributors must be at least 3, not 2."),
        ({"range": {"model": 3.0}}, f"{PATH}.range.model is 3, but must be a power of two, such as 8."),
        ({"stages": ["train", "train"]}, f"{PATH}.stages names a stage twice: train, train."),
        ({"stages": []}, f"{PATH}.stages must be a list of at least 1 value"),
        ({"tresh": 1}, f"{PATH} has no setting 'tresh'"),
        ({"cutoff_seconds": 0}, f"{PATH}.cutoff_seconds must be positive, not 0."),
        ({"trust": "me"}, f"{PATH}.trust is 'me'"),
    ],
)
def test_what_cannot_be_is_refused(given, sentence):
    with pytest.raises(PlanError) as refusal:
        parse_settings(SecureAggregation, given, PATH)
    assert refusal.value.message.startswith(sentence)
