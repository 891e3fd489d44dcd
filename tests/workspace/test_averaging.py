"""How the results of a stage are averaged, and what they have counted together."""

import numpy as np

from fedagem.runs.metrics_log import ALL_DOMAINS
from src.averaging import add_ratios, mean_tensors, score_of, shares, weighted_mean, weights_of
from src.task_results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT, Result


def test_clients_count_by_their_samples_or_alike_and_never_without_data():
    results: dict[str, Result] = {
        "a": {WEIGHT: {"weight": np.array(5.0)}},
        "b": {WEIGHT: {"weight": np.array(0.0)}},
        "c": {WEIGHT: {}},
    }
    assert weights_of(results, "samples") == [5, 0, 1]
    assert weights_of(results, "uniform") == [1, 0, 1]


def test_the_mean_is_of_one_kind_of_tensors():
    results: dict[str, Result] = {
        client: {TRAINED: {"w": np.full(2, value, np.float32)}, EXCHANGE: {"g_ref": np.full(3, -value, np.float32)}}
        for client, value in {"a": 1, "b": 5}.items()
    }
    assert {name: mean.tolist() for name, mean in mean_tensors(results, TRAINED, [3, 1]).items()} == {"w": [2, 2]}
    assert mean_tensors(results, EXCHANGE, [1, 1])["g_ref"].tolist() == [-3, -3, -3]


def test_shares_are_of_all_that_was_counted_and_nought_of_nothing_is_nought():
    results: dict[str, Result] = {
        "a": {RATIO: {"il": np.array([[1, 2], [0, 0]])}},
        "b": {RATIO: {"il": np.array([[5, 6], [0, 0]])}},
    }
    assert shares(results) == {"il": [0.75, 0]}
    assert shares({"a": {RATIO: {}}}) == {}


def test_the_mean_is_weighted_and_keeps_the_dtype():
    arrays = [np.array([1, 2], np.float32), np.array([3, 6], np.float32), np.array([100, 100], np.float32)]
    mean = weighted_mean(arrays, [1, 3, 0])
    assert mean.dtype == np.float32
    assert mean.tolist() == [2.5, 5.0]


def test_whole_numbers_stay_whole():
    mean = weighted_mean([np.array(3), np.array(4), np.array(4)], [1, 1, 1])
    assert mean.dtype == np.int64
    assert mean.shape == ()
    assert int(mean) == 4
    large = 2**40 + 1
    assert int(weighted_mean([np.array(large)] * 2, [1, 1])) == large


def test_the_mean_of_one_client_is_that_client_to_the_bit():
    array = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    assert weighted_mean([array], [17.0]).tobytes() == array.tobytes()


def test_nobody_counts_for_nothing():
    assert weighted_mean([np.ones(2, np.float32)] * 2, [0, 0]).tolist() == [0, 0]


def test_the_inputs_of_a_mean_are_left_alone():
    arrays = [np.ones(2, np.float32), np.ones(2, np.float32)]
    weighted_mean(arrays, [1, 1])
    assert [array.tolist() for array in arrays] == [[1, 1], [1, 1]]


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
