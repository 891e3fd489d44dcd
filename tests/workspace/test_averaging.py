"""How the results of a stage are added up as they arrive, and what they have counted together."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from fedagem.aggregation.ring import OutOfRangeError
from fedagem.learning.exchange import Exchange
from fedagem.runs.metrics_log import ALL_DOMAINS
from src.averaging import StageSums, TaskSum, add_ratios, score_of, shares, weight_of
from src.task_results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT, Expected, Result, split_by_kind

G_REF = Exchange("g_ref", (3,), "train")
FISHER = Exchange("fisher", (3,), "train", "sum", bound=100)
MODEL = {"w": np.array([1.0, -2.0], np.float32), "steps": np.array(5)}


def result(w=(0, 0), steps=5, g_ref=0.0, fisher=0.0, weight=None) -> Result:
    return {
        **split_by_kind({}),
        TRAINED: {"w": np.array(w, np.float32), "steps": np.array(steps)},
        EXCHANGE: {"g_ref": np.full(3, g_ref, np.float32), "fisher": np.full(3, fisher, np.float32)},
        WEIGHT: {} if weight is None else {"weight": np.array(weight, np.float32)},
    }


def task_sum(*results, weighting="uniform", members=4):
    total = TaskSum(Expected(MODEL, (G_REF, FISHER)), members, weighting)
    for given in results:
        total.add(given)
    return total


def values(arrays):
    return {name: array.tolist() for name, array in arrays.items()}


def test_clients_count_by_their_samples_or_alike_and_never_without_data():
    for weight, by_samples, alike in ((5, 5, 1), (0, 0, 0), (None, 1, 1)):
        assert weight_of(result(weight=weight), "samples") == by_samples
        assert weight_of(result(weight=weight), "uniform") == alike
    assert weight_of(result(weight=0.5), "uniform") == 1


@pytest.mark.parametrize("weight", [0.5, 2.0**25])
def test_a_weight_that_is_no_number_of_samples_is_refused(weight):
    with pytest.raises(OutOfRangeError, match=r"its weight is .*, but should be a whole number of at most 16,777,216"):
        weight_of(result(weight=weight), "samples")


def test_models_and_gradients_are_averaged_and_sums_are_summed():
    total = task_sum(result((1, 2), 6, 1, 10), result((3, 6), 7, 2, 20), result((9, 9), 9, 9, 9, weight=0))
    assert values(total.model()) == {"w": [2, 4], "steps": 6}
    assert values(total.combined()) == {"g_ref": [1.5] * 3, "fisher": [30] * 3}
    assert total.model()["w"].dtype == total.combined()["fisher"].dtype == np.float32
    assert total.model()["steps"].dtype == np.int64
    assert total.contributors == 2


def test_weighted_by_samples_means_are_and_sums_are_not():
    total = task_sum(result((1, 2), 5, 1, 10, 1), result((3, 6), 9, 2, 20, 3), weighting="samples")
    assert values(total.model()) == {"w": [2.5, 5], "steps": 8}
    assert values(total.combined()) == {"g_ref": [1.75] * 3, "fisher": [30] * 3}


def test_buffer_gradients_count_by_what_clients_hold_or_by_its_root():
    given = result((0, 0), 5, 1, 0, 1), result((0, 0), 5, 2, 0, 9)
    for weighting, mean in (
        ("uniform", 1.5),
        ("buffer", 1.9),
        ("seen", 1.9),
        ("sqrt_buffer", 1.75),
        ("sqrt_seen", 1.75),
    ):
        assert values(task_sum(*given, weighting=weighting).combined())["g_ref"] == pytest.approx([mean] * 3)
    uneven = task_sum(result(g_ref=1, weight=2), result(g_ref=0, weight=3), weighting="sqrt_seen").combined()
    assert uneven["g_ref"][0] == pytest.approx(2**0.5 / (2**0.5 + 3**0.5), abs=1e-3)


def test_nobody_leaves_the_model_and_adds_up_to_zeros():
    total = task_sum(result((9, 9), weight=0))
    assert total.model() == {}
    assert values(total.combined()) == {"g_ref": [0] * 3, "fisher": [0] * 3}


def test_shares_are_of_all_that_was_counted_and_nought_of_nothing_is_nought():
    results: dict[str, Result] = {
        "a": {RATIO: {"il": np.array([[1, 2], [0, 0]])}},
        "b": {RATIO: {"il": np.array([[5, 6], [0, 0]])}},
    }
    assert shares(results) == {"il": [0.75, 0]}
    assert shares({"a": {RATIO: {}}}) == {}


def random_results(count, seed=0):
    draw = np.random.default_rng(seed)
    model = {"w": draw.normal(size=(50, 7)).astype(np.float32), "steps": np.array(40)}
    given = [
        {
            **split_by_kind({}),
            TRAINED: {
                "w": (model["w"] + draw.normal(size=(50, 7)) * 10.0 ** draw.integers(-6, 3)).astype(np.float32),
                "steps": np.array(40 + draw.integers(100)),
            },
            WEIGHT: {"weight": np.float32(draw.integers(0, 600))},
        }
        for _ in range(count)
    ]
    return model, given


def mean_of(model, given, weighting):
    total = TaskSum(Expected(model, ()), len(given), weighting)
    for one in given:
        total.add(one)
    return total.model()


@pytest.mark.parametrize("weighting", ["uniform", "samples"])
@pytest.mark.parametrize("clients", [1, 2, 10, 60])
def test_the_mean_is_that_of_exact_arithmetic_and_the_same_in_any_order(clients, weighting):
    model, given = random_results(clients, seed=clients)
    mean = mean_of(model, given, weighting)
    weights = [weight_of(one, weighting) for one in given]
    for place in np.ndindex(model["w"].shape):
        terms = (w * Fraction(float(one[TRAINED]["w"][place])) for w, one in zip(weights, given, strict=True))
        exact = sum(terms) / sum(weights)
        assert abs(mean["w"][place] - np.float32(exact)) <= np.spacing(np.abs(np.float32(exact))), place
    steps = sum(Fraction(w * int(one[TRAINED]["steps"])) for w, one in zip(weights, given, strict=True)) / sum(weights)
    assert mean["steps"] == round(steps)
    for seed in range(5):
        shuffled = [given[i] for i in np.random.default_rng(seed).permutation(clients)]
        again = mean_of(model, shuffled, weighting)
        assert {name: array.tobytes() for name, array in again.items()} == {
            name: array.tobytes() for name, array in mean.items()
        }


def test_the_mean_of_one_client_is_that_client_to_the_bit():
    model, [given] = random_results(1)
    assert mean_of(model, [given], "uniform")["w"].tobytes() == given[TRAINED]["w"].tobytes()


def test_the_inputs_of_a_mean_are_left_alone():
    model, given = random_results(3)
    before = [one[TRAINED]["w"].tobytes() for one in given]
    mean_of(model, given, "samples")
    assert [one[TRAINED]["w"].tobytes() for one in given] == before


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (result(fisher=100.5), "tensor 'fisher' has the value 100.5: more than ±100 cannot be added up"),
        (result(g_ref=5000), "tensor 'g_ref' has the value 5000: more than ±1,024 cannot be added up"),
        (result((2**20, 0)), r"tensor 'w' has the value 1.04858e\+06, which was 1 before: more than ±262,144 cannot"),
        (result((1, 2), weight=0.5), "its weight is 0.5"),
    ],
)
def test_a_result_out_of_range_leaves_no_trace(bad, sentence):
    good = [result((1.25, 2), 6, 0.1, 10, 3), result((3, 6), 7, 0.2, 20, 1)]
    weighting = "samples" if "weight" in bad[WEIGHT] else "uniform"
    undisturbed, disturbed = task_sum(*good, weighting=weighting), task_sum(good[0], weighting=weighting)
    with pytest.raises(OutOfRangeError, match=sentence):
        disturbed.add(bad)
    disturbed.add(good[1])
    assert values(disturbed.model()) == values(undisturbed.model())
    assert values(disturbed.combined()) == values(undisturbed.combined())


def two_tasks():
    return StageSums({name: TaskSum(Expected(MODEL, (G_REF, FISHER)), 3, "uniform") for name in ("one", "two")})


def test_the_results_of_a_client_count_together_or_not_at_all():
    sums = two_tasks()
    sums.add("a", "one", result((1, 1), g_ref=1))
    assert sums["one"].contributors == 0
    sums.add("b", "one", result((3, 3), g_ref=3))
    sums.add("b", "two", result((5, 5), g_ref=5))
    sums.add("c", "one", result((7, 7), g_ref=7))
    with pytest.raises(OutOfRangeError):
        sums.add("c", "two", result(fisher=1000))
    sums.add("d", "one", result())
    sums.forget("d")
    assert [sums[name].contributors for name in ("one", "two")] == [1, 1]
    assert [values(sums[name].model())["w"] for name in ("one", "two")] == [[3, 3], [5, 5]]


def test_a_result_that_waits_for_another_is_kept_as_it_was_sent():
    """In a simulation the arrays are the model that the next client trains with."""
    sums, first = two_tasks(), result((1, 1))
    sums.add("a", "one", first)
    first[TRAINED]["w"].fill(9)
    sums.add("a", "two", result())
    assert values(sums["one"].model())["w"] == [1, 1]


def test_memory_does_not_grow_with_the_clients():
    def peak(clients):
        size = 300_000
        model = {"w": np.zeros(size, np.float32)}
        tracemalloc.start()
        total = TaskSum(Expected(model, ()), clients, "uniform")
        for k in range(clients):
            total.add({**split_by_kind({}), TRAINED: {"w": np.full(size, k, np.float32)}})
        total.model()
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest / model["w"].nbytes

    few, many = peak(3), peak(60)
    assert many < 5, "a sum of twice the model's size, one or two results, the mean, and chunks"
    assert abs(many - few) < 0.5


def test_counts_are_added_over_clients():
    counts = np.array([[1, 2], [3, 4]])
    assert add_ratios({"a": {"il": counts}, "b": {"il": counts}})["il"].tolist() == [[2, 4], [6, 8]]
    assert add_ratios({"a": {}, "b": {}}) == {}


def test_counts_of_something_else_are_left_out_and_reported(caplog):
    usual = {"il": np.array([[1, 2]])}
    added = add_ratios({"odd": {"il": np.array([[9, 9], [9, 9]])}, "b": usual, "c": usual, "silent": {}})
    assert added["il"].tolist() == [[2, 4]]
    assert "counts of odd are left out" in caplog.text
    assert "counts of silent are left out" in caplog.text


def test_a_model_is_ranked_by_its_map_over_all_domains_or_by_its_mean_accuracy():
    loss = np.array(9.0)
    results: dict[str, Result] = {"a": {METRIC: {ALL_DOMAINS: np.array(0.4), "loss": loss}}, "b": {METRIC: {}}}
    assert score_of(results, {}) == 0.4
    assert score_of({"a": {METRIC: {"loss": loss}}}, {"class_il": [0.25, 0.75], "task_il": [1.0]}) == 0.5
    assert score_of({"a": {METRIC: {}}}, {}) is None
