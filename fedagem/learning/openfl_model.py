"""Reads the model files that an OpenFL aggregator leaves behind, without OpenFL.

A `.pbuf` file is one protobuf message. Only the fields that matter here are declared: the others are skipped, as
protobuf promises. The arrays are those of the workspace's lossless pipeline: bytes, with the dtype's number and the
shape as metadata.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from torch import Tensor

from fedagem.errors import DataError

DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8", "bool")
EXCHANGED = "exchange/"
"""Begins the names of entries that describe what clients exchange and are no part of the model."""


def read_openfl_model(path: Path) -> dict[str, Tensor]:
    """The named tensors of a `.pbuf` model; a file that is truncated or something else is refused."""
    message = _model_message()
    try:
        message.ParseFromString(path.read_bytes())
        tensors = {t.name: _tensor(t) for t in message.tensors if not t.name.startswith(EXCHANGED)}
    except (DecodeError, IndexError, ValueError, TypeError) as error:
        raise DataError(f"{path} is not a model file of this project's federations: {error}") from error
    if not tensors:
        raise DataError(f"{path} is not a model file of this project's federations: it holds no tensors.")
    return tensors


def _tensor(named: Any) -> Tensor:
    code, *shape = named.metadata[0].integers
    return torch.from_numpy(np.frombuffer(named.data, dtype=DTYPES[code]).reshape(shape).copy())


def _model_message() -> Any:
    """An empty message of the type that OpenFL calls ModelProto, in a pool of its own."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="model_file.proto", package="model_file", syntax="proto3")
    metadata = file.message_type.add(name="Metadata")
    metadata.field.add(name="integers", number=2, type=field.TYPE_INT32, label=field.LABEL_REPEATED)
    tensor = file.message_type.add(name="NamedTensor")
    tensor.field.add(name="name", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    tensor.field.add(
        name="metadata",
        number=6,
        type=field.TYPE_MESSAGE,
        type_name=".model_file.Metadata",
        label=field.LABEL_REPEATED,
    )
    tensor.field.add(name="data", number=7, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    model = file.message_type.add(name="Model")
    model.field.add(
        name="tensors",
        number=1,
        type=field.TYPE_MESSAGE,
        type_name=".model_file.NamedTensor",
        label=field.LABEL_REPEATED,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("model_file.Model"))()
