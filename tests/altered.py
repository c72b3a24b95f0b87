"""Change one field of a GGUF file; the tensors after it keep their alignment."""

from __future__ import annotations

import struct

from vision_models import ALIGNMENT, pack, pack_string

CODES = {4: "<I", 5: "<i", 7: "<?"}
"""Kinds of numbers in a GGUF: 32 bits without and with a sign, and a Boolean."""


def with_template(gguf: bytes, template: str) -> bytes:
    """Return the file with another chat template, padded to the length of the original."""
    key = b"tokenizer.chat_template" + struct.pack("<I", 8)
    start = gguf.index(key) + len(key)
    size = int.from_bytes(gguf[start : start + 8], "little")
    padded = ("{#" + "-" * (size - len(template) - 4) + "#}" + template).encode()
    assert len(padded) == size
    return gguf[: start + 8] + padded + gguf[start + 8 + size :]


def without_template(gguf: bytes) -> bytes:
    """Return the file without a chat template: its key is renamed."""
    return gguf.replace(b"tokenizer.chat_template", b"tokenizer.chat_tempered")


def with_number(gguf: bytes, key: str, value: int, kind: int = 4, index: int | None = None) -> bytes:
    """Return the file with a number of a kind changed in place, or the one of an index in an array (9)."""
    found = pack_string(key) + (struct.pack("<I", kind) if index is None else struct.pack("<II", 9, kind))
    place = gguf.index(found) + len(found) + (0 if index is None else 8 + index * struct.calcsize(CODES[kind]))
    packed = struct.pack(CODES[kind], value)
    return gguf[:place] + packed + gguf[place + len(packed) :]


def with_token_type(gguf: bytes, token: int, kind: int = 3) -> bytes:
    """Return the file with another type of one token: 3 is control, 4 user-defined."""
    return with_number(gguf, "tokenizer.ggml.token_type", kind, 5, token)


def without_end(gguf: bytes, end: str = "<|im_end|>") -> bytes:
    """Return the file with a wrong end token, as after a faulty conversion: no token ends a reply."""
    gguf = with_number(gguf, "tokenizer.ggml.eos_token_id", 0)
    return gguf.replace(end.encode(), end.replace("end", "fin").encode())  # llama.cpp knows the usual ones by name


def with_field(gguf: bytes, key: str, value: str | float) -> bytes:
    """Return the file with one more field in front of the others; an existing one of that name is renamed."""
    entry, filler = pack_string(key) + pack(value), pack_string("filler")
    filler += pack(" " * (-(len(entry) + len(filler) + 12) % ALIGNMENT))
    gguf = gguf.replace(key.encode(), key[::-1].encode())
    count, start = 16, 24  # offsets: after magic, version and the number of tensors
    known = int.from_bytes(gguf[count:start], "little")
    return gguf[:count] + struct.pack("<Q", known + 2) + entry + filler + gguf[start:]


def with_pooling(gguf: bytes, pooling: int) -> bytes:
    """Return the shipped model as an embedding model; 3 is the state of the last token."""
    return with_field(gguf, "qwen3.pooling_type", pooling)
