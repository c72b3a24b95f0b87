"""A GGUF of a larger model with random weights, which says nothing but costs what such a model costs.

It has the head of the small model (tokenizer, template) with other sizes, and tensors of its own behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy

from altered import with_number

WIDTH, LAYERS, HEADS, INNER = 1024, 16, 16, 2816  # 205 million parameters
ALIGNMENT, BLOCK = 32, 32
FLOAT32, Q8_0 = 0, 8


def write_random_model(small: Path, path: Path) -> None:
    """Writes `path`, in Q8_0; `small` is the GGUF whose head is taken."""
    head = small.read_bytes()
    head = head[: head.index(struct.pack("<Q", len("token_embd.weight")) + b"token_embd.weight")]
    sizes = {
        "block_count": LAYERS,
        "embedding_length": WIDTH,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": HEADS,
        **dict.fromkeys(("attention.key_length", "attention.value_length", "rope.dimension_count"), WIDTH // HEADS),
    }
    for key, size in sizes.items():
        head = with_number(head, f"qwen3.{key}", size)
    tensors = list(shapes(vocabulary(head)))
    head = head[:8] + struct.pack("<Q", len(tensors)) + head[16:]
    offset = 0
    for name, shape in tensors:
        kind = Q8_0 if len(shape) == 2 else FLOAT32
        head += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", kind, offset)
        offset += size_of(shape)
    with path.open("wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for _, shape in tensors:
            file.write(numbers(shape))


def vocabulary(head: bytes) -> int:
    """How many tokens there are (GGUF: an array, 9, of strings, 8)."""
    found = b"tokenizer.ggml.tokens" + struct.pack("<II", 9, 8)
    place = head.index(found) + len(found)
    return int.from_bytes(head[place : place + 8], "little")


def shapes(tokens: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "token_embd.weight", (WIDTH, tokens)
    yield "output_norm.weight", (WIDTH,)
    square, out, back = (WIDTH, WIDTH), (WIDTH, INNER), (INNER, WIDTH)
    names = {"attn_q": square, "attn_k": square, "attn_v": square, "attn_output": square}
    names |= {"ffn_gate": out, "ffn_up": out, "ffn_down": back}
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", (WIDTH,)
        for name in ("attn_q_norm", "attn_k_norm"):
            yield f"blk.{layer}.{name}.weight", (WIDTH // HEADS,)
        for name, shape in names.items():
            yield f"blk.{layer}.{name}.weight", shape


def size_of(shape: tuple[int, ...]) -> int:
    """Bytes of a tensor; a block of Q8_0 is a 16-bit scale and 32 numbers of 8 bits."""
    return 4 * shape[0] if len(shape) == 1 else shape[0] * shape[1] // BLOCK * (2 + BLOCK)


def numbers(shape: tuple[int, ...]) -> bytes:
    if len(shape) == 1:
        return numpy.ones(shape, numpy.float32).tobytes()
    blocks = numpy.zeros(shape[0] * shape[1] // BLOCK, dtype=[("scale", numpy.float16), ("numbers", numpy.int8, BLOCK)])
    blocks["scale"] = 0.0005
    blocks["numbers"] = numpy.random.default_rng(0).integers(-127, 128, (len(blocks), BLOCK), dtype=numpy.int8)
    return blocks.tobytes()
