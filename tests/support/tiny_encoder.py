"""A text encoder that is small enough for tests."""

import re
from collections.abc import Iterable
from pathlib import Path

import tokenizers
import torch
import transformers

FEATURES = 16


def save_tiny_encoder(folder: Path, texts: Iterable[Path]) -> None:
    """A tiny DistilBERT with random weights and the words of some files, saved as a real one is."""
    words = {word for path in texts for word in re.findall(r"\w+", path.read_text())}
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(words)])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.DistilBertConfig(
        vocab_size=len(vocabulary), dim=FEATURES, hidden_dim=32, n_layers=1, n_heads=2
    )
    transformers.DistilBertModel(config).save_pretrained(folder)
