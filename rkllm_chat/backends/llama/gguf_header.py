"""Read the header of a GGUF without native code: metadata, lengths of arrays, shapes of tensors.

The format is ggml's docs/gguf.md, versions 2 and 3. What is read is bounded in size and number, so that a hostile file
costs a second and not the memory of the machine.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from ...config.accepted_files import open_regular
from ...core.errors import ModelError
from ..shared.model_files import read_beginning

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_KEYS, _MAX_TENSORS, _MAX_DIMENSIONS = 1 << 16, 1 << 16, 4
_MAX_STRINGS = 1 << 22
"""Of all arrays together; the largest vocabularies have 0.3 million tokens and 0.6 million merges."""
_MAX_BYTES = 1 << 28
_MAX_KEY_BYTES = 1 << 16  # gguf.md
_BLOCK_BYTES = 1 << 20
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_HINT = "Give a complete .gguf file with --model."

Value = int | float | bool | str


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF says of itself.

    Attributes:
        metadata: Values by key, without arrays.
        array_lengths: Number of elements of each array by key.
        tensors: Shape of each tensor by name.
        digest: SHA-256 of the beginning of the file, at least up to the end of the header.
        least_bytes: Where the data of the last tensor begins; a file that ends before it is incomplete.
    """

    metadata: dict[str, Value] = field(default_factory=dict[str, Value])
    array_lengths: dict[str, int] = field(default_factory=dict[str, int])
    tensors: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    digest: str = ""
    least_bytes: int = 0

    def get_text(self, key: str) -> str:
        """Return a text of the metadata; "" if there is none."""
        value = self.metadata.get(key, "")
        return value if isinstance(value, str) else ""

    def get_number(self, key: str) -> int | None:
        """Return a whole number of the architecture's own metadata, such as "block_count"; None if there is none."""
        value = self.metadata.get(self._own(key))
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def get_own_flag(self, key: str) -> bool | None:
        """Return a Boolean of the architecture's own metadata, such as "attention.causal"; None if there is none."""
        return self.get_flag(self._own(key))

    def get_flag(self, key: str) -> bool | None:
        """Return a Boolean of the metadata; None if there is none."""
        value = self.metadata.get(key)
        return value if isinstance(value, bool) else None

    def get_figure(self, key: str, least: float, most: float) -> float | None:
        """Return a number of the metadata; None if there is none, or none within these limits."""
        value = self.metadata.get(key)
        if isinstance(value, bool | str | None):
            return None
        return float(value) if least <= value <= most else None

    def _own(self, key: str) -> str:
        return f"{self.get_text('general.architecture')}.{key}"


def read_gguf_header(path: Path, hint: str = _HINT) -> GgufHeader:
    """Read the header of a GGUF.

    Raises:
        ModelError: The file cannot be read or is no GGUF, or its header is damaged or too large.
    """
    if (magic := read_beginning(path, hint)) != MAGIC:
        raise ModelError(f"{path}: not a GGUF file (it begins with {repr(magic)[1:]}).", hint, path=str(path))
    with open_regular(path, hint) as file:
        try:
            return _Reader(file).read_header()
        except (EOFError, ValueError) as error:
            raise ModelError(f"{path}: damaged GGUF: {error}.", hint, path=str(path)) from None
        except OSError as error:
            raise ModelError(f"{path}: {error.strerror}.", hint, path=str(path)) from None


class _Reader:
    """Reads a header from the beginning of a file. Raises EOFError and ValueError."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._data, self._place, self._read = b"", 0, 0
        self._strings = 0
        self._hash = hashlib.sha256()

    def read_header(self) -> GgufHeader:
        _, version, tensor_count, key_count = self._unpack("<4sIQQ")
        if version not in _VERSIONS:
            raise ValueError(f"its version is {version}, and {' and '.join(map(str, _VERSIONS))} are known")
        if key_count > _MAX_KEYS or tensor_count > _MAX_TENSORS:
            raise ValueError(f"it claims {key_count} keys and {tensor_count} tensors")
        header, last_offset = GgufHeader(), 0
        for _ in range(key_count):
            self._read_entry(header)
        for _ in range(tensor_count):
            name = self._read_text()
            (dimensions,) = self._unpack("<I")
            if dimensions > _MAX_DIMENSIONS:
                raise ValueError(f"the tensor {name[:64]!r} has {dimensions} dimensions")
            header.tensors[name] = self._unpack(f"<{dimensions}Q")
            last_offset = max(last_offset, self._unpack("<IQ")[1])  # behind the type
        end = self._read - len(self._data) + self._place
        return replace(header, digest=self._hash.hexdigest(), least_bytes=end + last_offset)

    def _read_entry(self, header: GgufHeader) -> None:
        key, (kind,) = self._read_text(), self._unpack("<I")
        if kind == _STRING:
            header.metadata[key] = self._read_text(_MAX_BYTES)
        elif kind == _ARRAY:
            header.array_lengths[key] = self._skip_array(key)
        elif kind in _NUMBERS:
            (header.metadata[key],) = self._unpack(f"<{_NUMBERS[kind]}")
        else:
            raise ValueError(f"the key {key[:64]!r} has the unknown type {kind}")

    def _skip_array(self, key: str) -> int:
        kind, count = self._unpack("<IQ")
        if kind in _NUMBERS:
            self._take(count * struct.calcsize(f"<{_NUMBERS[kind]}"))
        elif kind == _STRING:
            self._strings += count
            if self._strings > _MAX_STRINGS:
                raise ValueError(f"the key {key[:64]!r} claims {count} texts")
            self._skip_texts(count)
        else:
            raise ValueError(f"the key {key[:64]!r} is an array of the type {kind}")
        return count

    def _skip_texts(self, count: int) -> None:
        """Skip texts; there may be a million of them, so that the usual case calls nothing of ours."""
        data, place = self._data, self._place
        for _ in range(count):
            start = place + 8
            if start > len(data) or (end := start + int.from_bytes(data[place:start], "little")) > len(data):
                self._place = place
                (length,) = self._unpack("<Q")
                self._take(length)
                data, end = self._data, self._place
            place = end
        self._place = place

    def _read_text(self, limit_bytes: int = _MAX_KEY_BYTES) -> str:
        (length,) = self._unpack("<Q")
        if length > limit_bytes:
            raise ValueError(f"it claims a text of {length} bytes")
        return self._take(length).decode("utf-8", errors="replace")

    def _unpack(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def _take(self, count: int) -> bytes:
        if self._place + count > len(self._data):
            self._fill(count)
        start, self._place = self._place, self._place + count
        return self._data[start : self._place]

    def _fill(self, count: int) -> None:
        """Read at least so many bytes beyond the place."""
        rest = self._data[self._place :]
        if self._read + count > _MAX_BYTES:
            raise ValueError(f"its header is larger than {_MAX_BYTES >> 20} MB")
        new = self._file.read(max(_BLOCK_BYTES, count - len(rest)))
        self._read += len(new)
        self._hash.update(new)
        self._data, self._place = rest + new, 0
        if len(self._data) < count:
            raise EOFError("it ends within its header")
