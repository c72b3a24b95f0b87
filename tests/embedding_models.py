"""An embedding model of random weights, made for tests: BERT, whose texts are evaluated without a KV cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vision_models import BLOCKS, HEADS, INNER, WIDTH, Tensors, build_gguf

_CONTEXT = 64
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
    words = [*_SPECIAL, *(f"▁{letter}" for letter in _LETTERS), *_LETTERS]
    tensors = Tensors(seed)
    for name, size, count in (("token_embd", 1, len(words)), ("token_types", 0.1, 2), ("position_embd", 0.1, _CONTEXT)):
        tensors[f"{name}.weight"] = tensors.random.normal(0, size, (count, WIDTH))
    tensors.add_norm("token_embd_norm")
    for block in range(BLOCKS):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensors.add_layer(f"blk.{block}.{part}", WIDTH, WIDTH)
        tensors.add_layer(f"blk.{block}.ffn_up", INNER, WIDTH)
        tensors.add_layer(f"blk.{block}.ffn_down", WIDTH, INNER)
        tensors.add_norm(f"blk.{block}.attn_output_norm")
        tensors.add_norm(f"blk.{block}.layer_output_norm")
    fields: dict[str, Any] = {
        "general.architecture": "bert",
        "bert.context_length": _CONTEXT,
        "bert.embedding_length": WIDTH,
        "bert.feed_forward_length": INNER,
        "bert.block_count": BLOCKS,
        "bert.attention.head_count": HEADS,
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
