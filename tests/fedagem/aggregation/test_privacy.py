"""Differential privacy: how contributions are shortened, where the noise comes from, and what it costs."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedagem.aggregation.clipping import length_of, shortened
from fedagem.aggregation.noise import LARGEST, standard_normal
from fedagem.aggregation.releases import Releases, epsilon_of
from fedagem.aggregation.settings import PrivacySettings
from fedagem.errors import CorruptStateError, FedAGemError

PRIVACY = PrivacySettings(model_clip=1.0, noise=1.1, delta=1e-5)


# Shortening


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.floats(1e-6, 100), st.floats(0.01, 1000), st.booleans())
def test_what_is_sent_is_never_longer_and_points_the_same_way(seed, longest, scale, with_origin):
    draw = np.random.default_rng(seed)
    origin = {"a": draw.standard_normal((5, 4)).astype(np.float32), "b": draw.standard_normal(7).astype(np.float32)}
    given = {
        name: (array * with_origin + scale * draw.standard_normal(array.shape)).astype(np.float32)
        for name, array in origin.items()
    }
    start = origin if with_origin else None
    sent = shortened(given, longest, start)
    assert length_of(sent, start) <= longest
    if length_of(given, start) <= longest:
        assert all(np.array_equal(sent[name], given[name]) for name in given)
    elif longest > 1e-3:
        assert length_of(sent, start) > 0.999 * longest
        zero = {name: np.zeros_like(array) for name, array in given.items()}
        moved = np.concatenate([(sent[name] - (start or zero)[name]).ravel() for name in given]).astype(np.float64)
        wanted = np.concatenate([(given[name] - (start or zero)[name]).ravel() for name in given]).astype(np.float64)
        assert moved @ wanted > 0.9999 * np.linalg.norm(moved) * np.linalg.norm(wanted)


def test_a_clip_below_the_precision_of_the_model_leaves_the_model_as_it_was():
    origin = {"w": np.array([1e6], np.float32)}
    assert shortened({"w": np.array([1e6 + 1], np.float32)}, 1e-9, origin)["w"] == origin["w"]


# Noise


def test_noise_is_normal_independent_and_repeatable():
    noise = standard_normal(b"key", 300_000)
    assert np.array_equal(noise, standard_normal(b"key", 300_000))
    assert np.array_equal(noise[:1000], standard_normal(b"key", 1000))
    other = standard_normal(b"another", 300_000)
    assert stats.kstest(noise, "norm").pvalue > 1e-6
    assert abs(stats.skew(noise)) < 0.03
    assert abs(stats.kurtosis(noise)) < 0.06
    for correlated in (other, np.roll(noise, 1), np.roll(noise, 2**15), np.roll(noise, 2**16)):
        assert abs(float(noise @ correlated)) / len(noise) < 5 / math.sqrt(len(noise))
    assert np.abs(noise).max() < LARGEST
    assert math.sqrt(2 * 53 * math.log(2)) < LARGEST, "the largest number that the method can make"


# The account


def test_epsilon_is_that_of_zero_concentrated_privacy_or_better():
    for noise, releases in ((10.0, 200), (1.1, 40), (50.0, 2)):
        chosen = PrivacySettings(model_clip=1.0, noise=noise)
        rho = releases / (2 * noise**2)
        assert 0 < epsilon_of(releases, chosen) <= rho + 2 * math.sqrt(rho * math.log(1e5))
    assert epsilon_of(0, PRIVACY) == 0
    assert epsilon_of(2, PRIVACY) > epsilon_of(1, PRIVACY)


def test_the_same_sum_is_one_release_and_another_sum_is_another(tmp_path):
    releases = Releases(tmp_path, PRIVACY, {})
    key = releases.key_of("train", 0, b"sum", ["a", "b"])
    assert releases.key_of("train", 0, b"sum", ["a", "b"]) == key
    assert releases.spent() == {"a": 1, "b": 1}
    others = [
        releases.key_of("train", 0, b"another sum", ["a"]),
        releases.key_of("train", 1, b"sum", ["a"]),
        releases.key_of("buffer_gradient", 0, b"sum", ["a"]),
    ]
    assert len({key, *others}) == 4
    assert releases.spent() == {"a": 4, "b": 1}
    assert releases.epsilon() == epsilon_of(4, PRIVACY)
    again = Releases(tmp_path, PRIVACY, releases.spent())
    assert again.key_of("train", 0, b"sum", ["a", "b"]) == key
    assert again.spent() == {"a": 4, "b": 1}


def test_two_runs_have_different_noise(tmp_path):
    keys = [Releases(tmp_path / name, PRIVACY, {}).key_of("train", 0, b"sum", "a") for name in ("one", "two")]
    assert keys[0] != keys[1]


def test_neither_key_nor_journal_can_be_read_by_others_and_the_journal_tells_no_key(tmp_path):
    releases = Releases(tmp_path, PRIVACY, {})
    key = releases.key_of("train", 0, b"sum", ["a"])
    for name in ("noise.key", "releases.jsonl"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    journal = (tmp_path / "releases.jsonl").read_text()
    assert key.hex() not in journal
    assert b"sum".hex() not in journal
    assert json.loads(journal)["clients"] == ["a"]


def test_a_line_that_a_crash_cut_off_was_never_released(tmp_path):
    Releases(tmp_path, PRIVACY, {}).key_of("train", 0, b"sum", ["a"])
    journal = tmp_path / "releases.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"round": 1, "st')
    again = Releases(tmp_path, PRIVACY, {"a": 1})
    again.key_of("train", 1, b"sum", ["a"])
    assert Releases(tmp_path, PRIVACY, {}).spent() == {"a": 2}


def test_a_lost_key_or_journal_ends_in_a_sentence(tmp_path):
    releases = Releases(tmp_path, PRIVACY, {})
    releases.key_of("train", 0, b"sum", ["a"])
    key = (tmp_path / "noise.key").read_bytes()
    (tmp_path / "noise.key").unlink()
    with pytest.raises(CorruptStateError, match=r"noise\.key is missing: rounds that are repeated would"):
        Releases(tmp_path, PRIVACY, {"a": 1})
    (tmp_path / "noise.key").write_bytes(key)
    (tmp_path / "noise.key").chmod(0o644)
    with pytest.raises(CorruptStateError, match=r"can be read by others, who could take the noise away: chmod 600"):
        Releases(tmp_path, PRIVACY, {"a": 1})
    (tmp_path / "noise.key").chmod(0o600)
    with pytest.raises(CorruptStateError, match=r"has 1 releases of a, but 2 were made"):
        Releases(tmp_path, PRIVACY, {"a": 2})
    (tmp_path / "releases.jsonl").write_text("{}\n")
    with pytest.raises(CorruptStateError, match=r"releases\.jsonl is damaged"):
        Releases(tmp_path, PRIVACY, {})
    (tmp_path / "noise.key").write_bytes(b"short")
    (tmp_path / "releases.jsonl").unlink()
    with pytest.raises(CorruptStateError, match=r"noise\.key has 5 bytes instead of 32"):
        Releases(tmp_path, PRIVACY, {})


def test_without_the_package_nothing_begins(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FedAGemError, match=r"needs dp-accounting: install it with `pip install 'fedagem\[privacy\]'`"):
        Releases(tmp_path, PRIVACY, {})
