"""A frozen text encoder: sentences become feature vectors, once."""

import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from fedagem.errors import DataError

logger = logging.getLogger(__name__)

_TEXTS_PER_LINE = 1024
"""After how many texts the log says how far the encoder has come: half a minute to two minutes on two cores."""


@torch.no_grad()
def encode_texts(encoder: Path, texts: Sequence[str], max_length: int, batch_size: int = 64) -> Tensor:
    """The encoder's last hidden state at the first token of each text, n x d of float32.

    `encoder` is a folder as `transformers` saves models with their tokenizer; nothing is downloaded.
    """
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError as problem:
        raise DataError("text needs the package `transformers`: install fedagem with its extra `text`.") from problem
    if not (encoder / "config.json").exists():
        raise DataError(
            f"{encoder} holds no text encoder: save distilbert-base-uncased there (its config.json, weights and "
            "tokenizer files), or set data_loader.settings.dataset_settings.encoder to the folder that has them."
        )
    tokenizer = AutoTokenizer.from_pretrained(str(encoder), local_files_only=True)
    model = AutoModel.from_pretrained(str(encoder), local_files_only=True).eval()
    features = []
    for start in range(0, len(texts), batch_size):
        if start % _TEXTS_PER_LINE == 0:
            logger.info("%s has encoded %s of %s texts.", encoder.name, f"{start:,}", f"{len(texts):,}")
        batch = tokenizer(
            list(texts[start : start + batch_size]),
            truncation=True,
            padding=True,
            max_length=max_length,
            return_tensors="pt",
        )
        features.append(model(**batch).last_hidden_state[:, 0].float())
    return torch.cat(features)
