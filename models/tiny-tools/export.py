"""Writes weights as GGUF.

Matrices become Q8_0, norms stay float32; llama.cpp then gives the tokens that PyTorch gives.
"""

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import torch

from board_list import PROMPT_SHA256, board_prompt_sha256
from network import Shape
from tokenizer import CONTROLS, END, PAD, START, merges_of

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
BLOCK_NAMES = {
    "attention_norm": "attn_norm",
    "query": "attn_q",
    "query_norm": "attn_q_norm",
    "key": "attn_k",
    "key_norm": "attn_k_norm",
    "value": "attn_v",
    "output": "attn_output",
    "inner_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}
WHOLE_NAMES = {"embedding.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}


def check_prompt() -> None:
    """Ends the program where the chat says something else of the board's tools than PROMPT_SHA256 stands for."""
    if board_prompt_sha256() != PROMPT_SHA256:
        raise SystemExit("The prompt of the chat is not the one of board_list.PROMPT_SHA256: set it, then train again.")


def write_gguf(weights: Mapping[str, torch.Tensor], shape: Shape, tokenizer: Path, out: Path, tokens: int) -> None:
    """Writes a GGUF of the architecture `qwen3`; `tokens` is how many the training has seen."""
    writer = gguf.GGUFWriter(str(out), "qwen3")
    add_description(writer, tokens)
    add_shape(writer, shape)
    add_tokenizer(writer, tokenizer)
    for name, tensor in weights.items():
        add_tensor(writer, gguf_name(name), tensor.float().cpu().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_description(writer: gguf.GGUFWriter, tokens: int) -> None:
    writer.add_name("tiny-tools")
    writer.add_description("A very small model that calls tools; trained from nothing on synthetic dialogues.")
    writer.add_author("rkllm_chat")
    writer.add_license("mit")
    writer.add_languages(["en", "ja", "zh"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_float32("general.sampling.temp", 0.0)  # it has one right thing to say
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_string("rkllm_chat.profile", "tiny-tools")  # the row of PROFILES with the text that it was trained on
    writer.add_string("tiny_tools.prompt_sha256", PROMPT_SHA256)
    writer.add_uint64("tiny_tools.training_tokens", tokens)


def add_shape(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads)
    writer.add_layer_norm_rms_eps(shape.norm_epsilon)
    writer.add_key_length(shape.head_width)
    writer.add_value_length(shape.head_width)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_vocab_size(shape.vocabulary)


def add_tokenizer(writer: gguf.GGUFWriter, path: Path) -> None:
    pieces, merges = merges_of(path)
    kinds = [gguf.TokenType.CONTROL if piece in CONTROLS else gguf.TokenType.NORMAL for piece in pieces]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(pieces)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(pieces.index(START))
    writer.add_eos_token_id(pieces.index(END))
    writer.add_pad_token_id(pieces.index(PAD))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def add_tensor(writer: gguf.GGUFWriter, name: str, values: np.ndarray) -> None:
    if values.ndim == 1:
        writer.add_tensor(name, values)
        return
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)


def gguf_name(name: str) -> str:
    """`blocks.3.query.weight` -> `blk.3.attn_q.weight`."""
    if name in WHOLE_NAMES:
        return WHOLE_NAMES[name]
    _, block, part, ending = name.split(".")
    return f"blk.{block}.{BLOCK_NAMES[part]}.{ending}"
