"""Models that see, made for tests: projectors of random weights for the shipped language model, as GGUF files."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy

from rkllm_chat.core.messages import Media

Family = Literal["mlp", "tiles", "qwen2vl_merger"]
"""Families of projectors: "mlp" has pictures of one size, a token per patch (LLaVA); "tiles" cuts large ones into
several of that size, beside a small one of the whole (LLaVA 1.6); "qwen2vl_merger" has pictures of any size, a token
per 2 × 2 patches."""
SIDE, PATCH = 56, 14
"""Size in pixels of the picture of a fixed-size encoder, and of a patch."""
WIDTH, HEADS, INNER, BLOCKS = 32, 2, 64, 2
MODEL_WIDTH = 256
ALIGNMENT = 32
_MAGIC, _VERSION = b"GGUF", 3
_UINT32, _INT32, _FLOAT32, _BOOLEAN, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Sizes of the values of GGUF by their type; strings and arrays have none."""


class Tensors(dict[str, Any]):
    """Random weights by their names."""

    def __init__(self, seed: int) -> None:
        self.random = numpy.random.default_rng(seed)

    def add_layer(self, name: str, rows: int, columns: int) -> None:
        self[f"{name}.weight"] = self.random.normal(0, columns**-0.5, (rows, columns))
        self[f"{name}.bias"] = self.random.normal(0, 0.1, rows)

    def add_norm(self, name: str) -> None:
        self[f"{name}.weight"], self[f"{name}.bias"] = numpy.ones(WIDTH), numpy.zeros(WIDTH)


def write_projector(path: Path, family: Family = "mlp", model_width: int = MODEL_WIDTH, seed: int = 7) -> Path:
    """Write a projector of random weights.

    Args:
        path: The new file.
        family: Its family.
        model_width: Width of the language model.
        seed: Seed of the weights.
    """
    tensors = Tensors(seed)
    has_one_size = family != "qwen2vl_merger"
    merged = WIDTH if has_one_size else 4 * WIDTH
    for name in ["v.patch_embd.weight"] if has_one_size else ["v.patch_embd.weight", "v.patch_embd.weight.1"]:
        tensors[name] = tensors.random.normal(0, 0.1, (WIDTH, 3, PATCH, PATCH))
    if has_one_size:
        tensors["v.position_embd.weight"] = tensors.random.normal(0, 0.1, ((SIDE // PATCH) ** 2, WIDTH))
    tensors.add_norm("v.pre_ln")
    tensors.add_norm("v.post_ln")
    for block in range(BLOCKS):
        for part in ("attn_q", "attn_k", "attn_v", "attn_out"):
            tensors.add_layer(f"v.blk.{block}.{part}", WIDTH, WIDTH)
        tensors.add_norm(f"v.blk.{block}.ln1")
        tensors.add_norm(f"v.blk.{block}.ln2")
        tensors.add_layer(f"v.blk.{block}.ffn_up", INNER, WIDTH)
        tensors.add_layer(f"v.blk.{block}.ffn_down", WIDTH, INNER)
    tensors.add_layer("mm.0", INNER, merged)
    tensors.add_layer("mm.2", model_width, INNER)
    fields: dict[str, Any] = {
        "general.architecture": "clip",
        "clip.projector_type": "mlp" if has_one_size else family,
        "clip.has_vision_encoder": True,
        "clip.use_gelu": True,
        "clip.vision.embedding_length": WIDTH,
        "clip.vision.feed_forward_length": INNER,
        "clip.vision.block_count": BLOCKS,
        "clip.vision.projection_dim": model_width,
        "clip.vision.attention.head_count": HEADS,
        "clip.vision.attention.layer_norm_epsilon": 1e-5,
        "clip.vision.image_size": SIDE,
        "clip.vision.patch_size": PATCH,
        "clip.vision.image_mean": [0.5, 0.5, 0.5],
        "clip.vision.image_std": [0.5, 0.5, 0.5],
    }
    if family == "tiles":
        fields["clip.vision.image_grid_pinpoints"] = [SIDE, 2 * SIDE, 2 * SIDE, SIDE, 2 * SIDE, 2 * SIDE]
    path.write_bytes(build_gguf(fields, tensors))
    return path


def with_mrope(gguf: bytes) -> bytes:
    """Return the shipped model as one whose pictures take fewer positions than tokens (M-RoPE, as in Qwen3-VL).

    What it writes about texts does not change.
    """
    tensor_count, field_count = struct.unpack_from("<QQ", gguf, 8)
    fields: dict[str, bytes] = {}
    place = 24
    for _ in range(field_count):
        start = _skip_string(gguf, place)
        key = gguf[place + 8 : start].decode().replace("qwen3.", "qwen3vl.")
        place = _skip_value(gguf, start + 4, int.from_bytes(gguf[start : start + 4], "little"))
        fields[key] = gguf[start:place]
    infos = place
    for _ in range(tensor_count):
        place = _skip_string(gguf, place)
        place += 4 + 8 * int.from_bytes(gguf[place : place + 4], "little") + 4 + 8
    fields["general.architecture"] = pack("qwen3vl")
    fields["qwen3vl.rope.dimension_sections"] = pack([12, 10, 10, 0])
    header = _build_header(fields, tensor_count) + gguf[infos:place]
    return _align(header) + gguf[place + -place % ALIGNMENT :]


def write_picture(path: Path, width: int = 140, height: int = 84, seed: int = 0) -> Media:
    """Write a PNG of random pixels."""
    pixels = numpy.random.default_rng(seed).integers(0, 256, (height, 3 * width), numpy.uint8)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
    path.write_bytes(data)
    sha256 = hashlib.sha256(data).hexdigest()
    return Media("image", str(path), "image/png", sha256, len(data), width, height, path.name)


def build_gguf(fields: Mapping[str, Any], tensors: Mapping[str, Any]) -> bytes:
    """Return a GGUF of metadata and float32 tensors."""
    infos, data = b"", b""
    for name, values in tensors.items():
        shape = values.shape[::-1]
        infos += pack_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data = _align(data + values.astype("<f4").tobytes())
    packed = {key: pack(value) for key, value in fields.items()}
    return _align(_build_header(packed, len(tensors)) + infos) + data


def _build_header(fields: Mapping[str, bytes], tensor_count: int) -> bytes:
    start = _MAGIC + struct.pack("<IQQ", _VERSION, tensor_count, len(fields))
    return start + b"".join(pack_string(key) + value for key, value in fields.items())


def pack(value: Any) -> bytes:
    """Return the type and the bytes of a value."""
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOLEAN, value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + pack_string(value)
    if isinstance(value, list):
        items = [struct.pack("<Ii", _INT32, item) if isinstance(item, int) else pack(item) for item in value]
        return struct.pack("<I", _ARRAY) + items[0][:4] + struct.pack("<Q", len(items)) + b"".join(i[4:] for i in items)
    return struct.pack(
        "<II" if isinstance(value, int) else "<If", _UINT32 if isinstance(value, int) else _FLOAT32, value
    )


def pack_string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _align(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def _skip_string(gguf: bytes, place: int) -> int:
    return place + 8 + int.from_bytes(gguf[place : place + 8], "little")


def _skip_value(gguf: bytes, place: int, kind: int) -> int:
    if kind == _STRING:
        return _skip_string(gguf, place)
    if kind != _ARRAY:
        return place + _SIZES[kind]
    item, count = struct.unpack_from("<IQ", gguf, place)
    place += 12
    for _ in range(count):
        place = _skip_value(gguf, place, item)
    return place
