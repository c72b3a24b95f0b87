"""Change one field of a GGUF file; the tensors after it keep their alignment."""

from __future__ import annotations

import struct

CONTROL = 3
ALIGNMENT = 32


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


def with_control(gguf: bytes, token: int) -> bytes:
    """Return the file with a token changed to a control token (GGUF: an array, 9, of 32-bit integers, 5)."""
    key = b"tokenizer.ggml.token_type" + struct.pack("<II", 9, 5)
    place = gguf.index(key) + len(key) + 8 + 4 * token
    return gguf[:place] + struct.pack("<i", CONTROL) + gguf[place + 4 :]


def with_bos(gguf: bytes) -> bytes:
    """Return the file whose tokenizer puts a BOS token in front (GGUF: a boolean, 7)."""
    key = b"tokenizer.ggml.add_bos_token" + struct.pack("<I", 7)
    place = gguf.index(key) + len(key)
    return gguf[:place] + b"\1" + gguf[place + 1 :]


def without_end(gguf: bytes, end: str = "<|im_end|>") -> bytes:
    """Return the file with a wrong end token, as after a faulty conversion: no token ends a reply."""
    key = b"tokenizer.ggml.eos_token_id" + struct.pack("<I", 4)
    place = gguf.index(key) + len(key)
    first = gguf[:place] + struct.pack("<I", 0) + gguf[place + 4 :]
    return first.replace(end.encode(), end.replace("end", "fin").encode())  # llama.cpp knows the usual ones by name


def with_text(gguf: bytes, key: str, text: str) -> bytes:
    """Return the file with one more string key (8), padded with blanks so that tensors stay aligned.

    An existing key of that name is renamed.
    """
    gguf = gguf.replace(key.encode(), key[::-1].encode())
    size = 8 + len(key) + 4 + 8 + len(text)
    text += " " * (-size % ALIGNMENT)
    return _insert(gguf, 1, _pack_key(key) + struct.pack("<IQ", 8, len(text)) + text.encode())


def with_tokenizer(gguf: bytes, name: str) -> bytes:
    """Return the file whose vocabulary claims to be of another kind."""
    key = "tokenizer.ggml.model"
    entry = _pack_key(key) + struct.pack("<IQ", 8, len(name)) + name.encode()
    filler = _pack_key("filler") + struct.pack("<I", 8)
    blanks = -(len(entry) + len(filler) + 8) % ALIGNMENT
    filler += struct.pack("<Q", blanks) + b" " * blanks
    return _insert(gguf.replace(key.encode(), key[::-1].encode()), 2, entry + filler)


def with_pooling(gguf: bytes, pooling: int) -> bytes:
    """Return the shipped model as an embedding model (a 32-bit number, 4; 3 is the state of the last token)."""
    entry = _pack_key("qwen3.pooling_type") + struct.pack("<II", 4, pooling)
    padding = _pack_key("padding") + struct.pack("<I", 8)
    size = -(len(entry) + len(padding) + 8) % ALIGNMENT
    return _insert(gguf, 2, entry + padding + struct.pack("<Q", size) + b" " * size)


def _pack_key(key: str) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode()


def _insert(gguf: bytes, number: int, entries: bytes) -> bytes:
    """Insert so many entries in front of the others."""
    count, start = 16, 24  # offsets: after magic, version and the number of tensors
    known = int.from_bytes(gguf[count:start], "little")
    return gguf[:count] + struct.pack("<Q", known + number) + entries + gguf[start:]
