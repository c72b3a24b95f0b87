"""An embedding model of random weights, made for tests: BERT, whose texts are evaluated without a KV cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy

from vision_models import build_gguf

WIDTH = 32
_HEADS, _INNER, _BLOCKS, _CONTEXT = 2, 64, 2, 64
_MEAN = 1  # LLAMA_POOLING_TYPE_MEAN
_NORMAL, _CONTROL = 1, 3
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write_bert(path: Path, seed: int = 7) -> Path:
    """Write a GGUF with mean pooling, whose words are tokenized by letters.

    Args:
        path: The new file.
        seed: Seed of the weights.
    """
    random = numpy.random.default_rng(seed)
    words = [*_SPECIAL, *(f"▁{letter}" for letter in _LETTERS), *_LETTERS]
    tensors: dict[str, Any] = {
        "token_embd.weight": random.normal(0, 1, (len(words), WIDTH)),
        "token_types.weight": random.normal(0, 0.1, (2, WIDTH)),
        "position_embd.weight": random.normal(0, 0.1, (_CONTEXT, WIDTH)),
    }

    def add_layer(name: str, rows: int, columns: int) -> None:
        tensors[f"{name}.weight"] = random.normal(0, columns**-0.5, (rows, columns))
        tensors[f"{name}.bias"] = random.normal(0, 0.1, rows)

    def add_norm(name: str) -> None:
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = numpy.ones(WIDTH), numpy.zeros(WIDTH)

    add_norm("token_embd_norm")
    for block in range(_BLOCKS):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add_layer(f"blk.{block}.{part}", WIDTH, WIDTH)
        add_layer(f"blk.{block}.ffn_up", _INNER, WIDTH)
        add_layer(f"blk.{block}.ffn_down", WIDTH, _INNER)
        add_norm(f"blk.{block}.attn_output_norm")
        add_norm(f"blk.{block}.layer_output_norm")
    fields: dict[str, Any] = {
        "general.architecture": "bert",
        "bert.context_length": _CONTEXT,
        "bert.embedding_length": WIDTH,
        "bert.feed_forward_length": _INNER,
        "bert.block_count": _BLOCKS,
        "bert.attention.head_count": _HEADS,
        "bert.attention.layer_norm_epsilon": 1e-5,
        "bert.attention.causal": False,
        "bert.pooling_type": _MEAN,
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [_CONTROL] * len(_SPECIAL) + [_NORMAL] * (len(words) - len(_SPECIAL)),
        "tokenizer.ggml.token_type_count": 2,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.eos_token_id": 3,
        "tokenizer.ggml.seperator_token_id": 3,
    }
    path.write_bytes(build_gguf(fields, tensors))
    return path
