"""A lossless pipeline that keeps dtypes.

OpenFL's own casts everything to float32 (counters become floats) and fails on numpy 2.4; this one sends the bytes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from openfl.pipelines.pipeline import TransformationPipeline, Transformer

_NAMES = ("float32", "float64", "float16", "int64", "int32", "uint8", "bool", "uint32", "uint64")
_DTYPES = tuple(np.dtype(name) for name in _NAMES)


class _ArrayToBytes(Transformer):  # type: ignore[misc]
    def __init__(self) -> None:
        self.lossy = False

    def forward(self, data: NDArray[Any], **kwargs: Any) -> tuple[bytes, dict[str, Any]]:
        array = np.asarray(data)
        return array.tobytes(), {"int_list": [_DTYPES.index(array.dtype), *array.shape]}

    def backward(self, data: bytes, metadata: dict[str, Any], **kwargs: Any) -> NDArray[Any]:
        code, *shape = metadata["int_list"]
        array: NDArray[Any] = np.frombuffer(data, dtype=_DTYPES[code]).reshape(shape)
        return array


class ExactPipeline(TransformationPipeline):  # type: ignore[misc]
    """Arrays travel as they are."""

    def __init__(self) -> None:
        super().__init__(transformers=[_ArrayToBytes()])
