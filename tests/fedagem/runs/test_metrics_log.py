"""metrics.jsonl as typed rows, and the curves that they make."""

import json
import subprocess
import sys

import pytest

from fedagem.errors import FedAGemError
from fedagem.runs.metrics_log import MetricRow, curves_of, last_evaluation, levels, read_metrics, scenarios, total
from tests.support.finished_runs import digits_rows, make_digits_run, make_driving_run, row


@pytest.fixture
def run(tmp_path):
    return make_digits_run(tmp_path / "run", digits_rows())


def test_rows_say_how_long_their_model_was_trained(run):
    accuracies = [measured for measured in read_metrics(run) if measured.metric == "accuracy/domain_il"]
    assert [measured.trained for measured in accuracies] == [0, 1, 2, 3, 4], "the baseline comes before round 0"
    assert accuracies[0].several == (0.1, 0.2)
    assert accuracies[0].value == pytest.approx(0.15), "the mean over the tasks"
    assert accuracies[0].part == "domain_il"
    plain = MetricRow.parse(json.dumps(row(3, "train", "client_1", "samples", 10)))
    assert plain == MetricRow(3, "train", "client_1", "samples", 10)
    assert (plain.several, plain.part, plain.trained) == ((), "", 4)


def test_a_row_that_is_still_being_written_is_left_out(run):
    complete = read_metrics(run)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"round": 4, "stage": "tr')
    assert read_metrics(run) == complete


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not json", "Expecting value"),
        ("[1, 2]", "TypeError"),
        ('{"round": 0, "stage": "train", "client": "a", "value": 1}', "'metric'"),
        (json.dumps(row(0, "train", "a", "loss", None)), "value must be a number or a list of numbers, not None"),
        (json.dumps(row(0, "train", "a", "loss", "x")), "value must be a number or a list of numbers, not 'x'"),
        (json.dumps(row(0, "train", "a", "accuracy/domain_il", [])), "mean"),
    ],
)
def test_a_damaged_line_is_named(run, line, problem):
    with (run / "metrics.jsonl").open("a") as file:
        file.write(f"{line}\n")
    number = len(digits_rows()) + 1
    with pytest.raises(FedAGemError, match=rf"metrics\.jsonl is damaged: .* line {number} does not") as refused:
        read_metrics(run)
    assert problem in refused.value.message


def test_rows_are_summed_by_metric(run):
    rows = read_metrics(run)
    assert total(rows, "seconds") == pytest.approx(9.0)
    assert total(rows, "train_seconds", "buffer_gradient_seconds") == pytest.approx(14.0)
    assert scenarios(rows) == ["domain_il"]


def test_curves_have_levels_on_both_sides_of_a_shift(tmp_path):
    curves = curves_of(read_metrics(make_driving_run(tmp_path / "run", "fedavg", 0.3)))
    assert sorted(curves) == ["map_50/all", "map_50/city", "map_50/highway"]
    assert last_evaluation([curves]) == 6
    assert last_evaluation([curves, {"map_50/city": {0: 0.0, 4: 0.4}}]) == 4
    assert last_evaluation([]) is None
    city = curves["map_50/city"]
    assert levels("map_50/city", city, 4) == {
        "before": pytest.approx(0.3),
        "after": pytest.approx(0.25),
        "end": pytest.approx(0.25),
        "lost": pytest.approx(0.05),
    }
    longer = {**city, 7: 0.0, 8: 0.0, 9: 0.0}
    assert levels("map_50/city", longer, 4)["after"] == pytest.approx((0.2 + 0.3) / 5), "all evaluations"
    assert levels("map_50/city", longer, 4)["end"] == 0, "the last three"
    assert levels("map_50/city", city, None) == {"end": pytest.approx((0.4 + 0.2 + 0.3) / 3)}
    assert levels("accuracy/domain_il", city, None) == {"end": pytest.approx(0.3)}, "accuracies are not averaged"


def test_the_names_can_be_had_without_torch():
    """The processes that write the log may use them, and start no slower."""
    code = "import sys, fedagem.runs.metrics_log; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
