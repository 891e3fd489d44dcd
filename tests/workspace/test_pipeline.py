"""What travels arrives as it was sent: dtype, shape and every bit."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openfl.protocols import utils
from openfl.utilities import TensorKey

from src.pipeline import ExactPipeline
from src.tensor_store import TensorStore

DTYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]


def round_trip(array):
    pipeline = ExactPipeline()
    data, metadata = pipeline.forward(array)
    proto = utils.construct_named_tensor(TensorKey("x", "a", 0, False, ("model",)), data, metadata, lossless=True)
    received = type(proto).FromString(proto.SerializeToString())
    return pipeline.backward(
        received.data_bytes, [{"int_list": entry.int_list} for entry in received.transformer_metadata]
    )


def assert_same(array, other):
    assert other.dtype == array.dtype
    assert other.shape == array.shape
    assert other.tobytes() == array.tobytes()


@settings(max_examples=80, deadline=None)
@given(
    array=st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    )
)
def test_any_array_survives_the_wire(array):
    assert_same(array, round_trip(array))


@pytest.mark.parametrize(
    "array",
    [
        np.float32(1.5),
        np.array(7, np.int64),
        np.zeros((0, 3), np.float32),
        np.arange(12, dtype=np.float32).reshape(3, 4).T,
        np.arange(20)[::3],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([np.nan, np.inf, -0.0], np.float32),
    ],
    ids=["scalar", "0-d", "empty", "transposed", "strided", "fortran", "special"],
)
def test_odd_arrays_survive_the_wire(array):
    assert_same(np.asarray(array), round_trip(array))


def test_a_dtype_that_cannot_travel_is_refused():
    with pytest.raises(ValueError, match="not in tuple"):
        ExactPipeline().forward(np.zeros(2, np.complex64))


def key(name="w", round_number=0, tags=("model",)):
    return TensorKey(name, "aggregator", round_number, False, tags)


def test_a_store_finds_by_key_and_by_round_and_tags():
    store = TensorStore()
    store.cache_tensor({key(): np.array(1), key("b"): np.array(2), key(tags=("exchange",)): np.array(3)})
    store.cache_tensor({key(): np.array(4), key(round_number=1): np.array(5)})
    assert store.get_tensor_from_cache(key()) == 4
    assert store.get_tensor_from_cache(key("missing")) is None
    assert {k.tensor_name: int(v) for k, v in store.get_tensors_by_round_and_tags(0, ("model",)).items()} == {
        "w": 4,
        "b": 2,
    }


def test_a_store_forgets_earlier_rounds():
    store = TensorStore()
    store.cache_tensor({key(round_number=r): np.array(r) for r in range(5)})
    store.drop_before(3)
    assert [r for r in range(5) if store.get_tensor_from_cache(key(round_number=r)) is not None] == [3, 4]
