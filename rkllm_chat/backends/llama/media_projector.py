"""Pictures and sounds for llama.cpp: its library `mtmd` turns them into embeddings of the language model.

A model that understands media consists of two files: the language model and its projector (`mmproj`). In the token ids
of a prompt, a picture is one or more chunks between the control tokens of its family; each chunk has an id of its own,
a negative number, that is repeated once for each of its tokens. Equal files have equal ids, so whatever compares,
counts or caches lists of token ids does the same with pictures. Tried with mtmd of llama-cpp-python 0.3.36.

Not supported: HunyuanVL and DeepSeek V4, whose pictures depend on what precedes them in the prompt.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import llama_cpp
import numpy
from llama_cpp import mtmd_cpp

from ...core.errors import GenerationError, ModelError
from ...core.messages import Media, MediaKind
from ..shared.model_files import PROJECTOR_HINT

_FIRST_ID = -2
"""Ids of chunks are this and below; -1 is llama.cpp's "no token"."""
_CONTEXT_FRACTION = 1 / 4
"""Maximum fraction of the context window for one picture, where the family has pictures of any size."""
_LARGEST_SIDE = 2048
_MAX_MEDIA = 4096
"""Number of pictures whose layout is kept: more than fit into all kept states together."""
_NODES_BETWEEN_STOPS = 32
"""Number of steps of the encoder's graph that are computed together; after them it can be stopped."""
_ERROR_LEVEL = 4

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Chunk:
    """A part of a picture or sound that is evaluated at once.

    Attributes:
        media: What it belongs to.
        index: Its index among the chunks that mtmd makes of the media, texts included.
        is_last: Whether it is the media's last one.
        tokens: Number of tokens.
        positions: Number of positions of the sequence that it takes; fewer than tokens for M-RoPE (Qwen-VL).
    """

    media: Media
    index: int
    is_last: bool
    tokens: int
    positions: int


class MediaProjector:
    """The loaded projector of one engine.

    Attributes:
        kinds: Kinds of media that it understands.
        encoder_runs: Number of chunks that were encoded.
    """

    def __init__(self, path: Path, engine: Any, is_stopped: Callable[[], bool]) -> None:
        """Load a projector.

        Args:
            path: The file.
            engine: The engine with the language model.
            is_stopped: Returns whether to stop; asked again and again while a picture is encoded.

        Raises:
            ModelError: It cannot be loaded, or is the one of another model.
        """
        self._engine, self._is_stopped = engine, is_stopped
        self._should_continue = llama_cpp.ggml_backend_sched_eval_callback(self._check_stop)
        self._nodes = 0
        self._layouts: dict[str, list[int]] = {}
        self._layouts_lock = threading.Lock()  # tokens are counted while the engine's thread runs
        self._chunks: dict[int, _Chunk] = {}
        self._next_id = _FIRST_ID
        self._opened: tuple[str, Any] | None = None
        self.encoder_runs = 0
        self._context = self._load(path, 0)
        self.kinds = self._find_kinds()
        if self._probe(path) > (limit := int(engine.n_ctx() * _CONTEXT_FRACTION)):
            mtmd_cpp.mtmd_free(self._context)
            self._context = self._load(path, limit)
        self._has_mrope: bool = mtmd_cpp.mtmd_decode_use_mrope(self._context)

    def encode(self, media: Media) -> list[int]:
        """Return the token ids of a picture or sound, control tokens around it included.

        Only its size is needed, so this takes no time; a sound is decoded.

        Raises:
            GenerationError: It cannot be read, or its kind is not understood.
        """
        with self._layouts_lock:
            ids = self._layouts.pop(media.sha256, None) or self._make_layout(media)
            self._layouts[media.sha256] = ids
            if len(self._layouts) > _MAX_MEDIA:
                for dropped in {number for number in self._layouts.pop(next(iter(self._layouts))) if number < 0}:
                    del self._chunks[dropped]
            return ids

    def count_tokens(self, chunk_id: int) -> int:
        """Return the number of tokens of a chunk."""
        return self._chunks[chunk_id].tokens

    def count_saved_positions(self, ids: Any) -> int:
        """Return how many positions fewer than tokens a sequence takes.

        Args:
            ids: Token ids as an array, with whole chunks.
        """
        if not self._has_mrope:
            return 0
        numbers, counts = numpy.unique(ids[ids < 0], return_counts=True)
        chunks = [self._chunks[number] for number in numbers.tolist()]
        return sum(
            count // chunk.tokens * (chunk.tokens - chunk.positions)
            for chunk, count in zip(chunks, counts.tolist(), strict=True)
        )

    def evaluate(self, chunk_id: int, position: int) -> None:
        """Encode a chunk and evaluate it in the engine's sequence.

        Args:
            chunk_id: Its id.
            position: Its position in the sequence.

        Raises:
            RuntimeError: It failed or was stopped.
            GenerationError: The file cannot be read any more.
        """
        described = self._chunks[chunk_id]
        chunks = self._open(described.media)
        chunk = mtmd_cpp.mtmd_input_chunks_get(chunks, described.index)
        is_whole = mtmd_cpp.mtmd_decode_use_non_causal(self._context, chunk)
        if is_whole and described.tokens > self._engine.n_batch:
            raise RuntimeError(f"{described.media.name} has {described.tokens} tokens, which do not fit into one batch")
        self.encoder_runs += 1
        if mtmd_cpp.mtmd_encode_chunk(self._context, chunk) or self._is_stopped():
            raise RuntimeError(f"{described.media.name} was not encoded")
        embeddings, end = mtmd_cpp.mtmd_get_output_embd(self._context), ctypes.c_int32()
        status = mtmd_cpp.mtmd_helper_decode_image_chunk(
            self._context,
            self._engine.ctx,
            chunk,
            embeddings,
            position,
            0,
            self._engine.n_batch,
            ctypes.byref(end),
            mtmd_cpp.mtmd_helper_post_decode_callback(),
            None,
        )
        if status:
            raise RuntimeError(f"{described.media.name} was not evaluated ({status})")
        if described.is_last:
            self._close_opened()

    def close(self) -> None:
        """Free the projector."""
        self._close_opened()
        mtmd_cpp.mtmd_free(self._context)

    def _load(self, path: Path, max_tokens: int) -> Any:
        """Load the file. `max_tokens`: limit for pictures of any size; 0 for the model's own."""
        errors = _route_log()
        errors.clear()
        parameters = mtmd_cpp.mtmd_context_params_default()
        parameters.print_timings = False
        parameters.n_threads = self._engine.n_threads_batch
        parameters.cb_eval = self._should_continue
        if max_tokens:
            parameters.image_max_tokens = max_tokens
        context = mtmd_cpp.mtmd_init_from_file(os.fsencode(path), self._engine.model, parameters)
        if not context:
            cause = " ".join(" ".join(errors).split()) or "see --log-file"
            raise ModelError(f"{path}: llama.cpp cannot load this projector: {cause}.", PROJECTOR_HINT, path=str(path))
        return context

    def _find_kinds(self) -> frozenset[MediaKind]:
        kinds: set[MediaKind] = set()
        if mtmd_cpp.mtmd_support_vision(self._context):
            kinds.add("image")
        if mtmd_cpp.mtmd_support_audio(self._context):
            kinds.add("audio")
        return frozenset(kinds)

    def _probe(self, path: Path) -> int:
        """Return the number of tokens of a large picture; 0 without vision."""
        if "image" not in self.kinds:
            return 0
        with _made(mtmd_cpp.mtmd_bitmap_init(_LARGEST_SIDE, _LARGEST_SIDE, None)) as bitmap:
            chunks = self._tokenize(bitmap)
        try:
            if any(-1 in ids for _chunk, ids in _read_chunks(chunks) if ids):
                self.close()
                raise ModelError(f"{path}: the model has not the control tokens of this projector.", PROJECTOR_HINT)
            return sum(mtmd_cpp.mtmd_input_chunk_get_n_tokens(chunk) for chunk, _ in _read_chunks(chunks))
        finally:
            mtmd_cpp.mtmd_input_chunks_free(chunks)

    def _make_layout(self, media: Media) -> list[int]:
        """Return the ids of media that were not seen before."""
        if media.kind == "image":
            bitmap = mtmd_cpp.mtmd_bitmap_init(media.width, media.height, None)
        else:
            bitmap = mtmd_cpp.mtmd_helper_bitmap_init_from_file(self._context, os.fsencode(media.path), True)
        with _made(bitmap, media) as made:
            chunks = self._tokenize(made, media)
        try:
            parts = list(_read_chunks(chunks))
            last = max((index for index, (_, ids) in enumerate(parts) if ids is None), default=-1)
            layout: list[int] = []
            for index, (chunk, ids) in enumerate(parts):
                layout += self._number(chunk, media, index, index == last) if ids is None else ids
            return layout
        finally:
            mtmd_cpp.mtmd_input_chunks_free(chunks)

    def _number(self, chunk: Any, media: Media, index: int, is_last: bool) -> list[int]:
        """Give a chunk an id; return its token ids."""
        tokens = mtmd_cpp.mtmd_input_chunk_get_n_tokens(chunk)
        number, self._next_id = self._next_id, self._next_id - 1
        positions = mtmd_cpp.mtmd_input_chunk_get_n_pos(chunk)
        self._chunks[number] = _Chunk(media, index, is_last, tokens, positions)
        return [number] * tokens

    def _tokenize(self, bitmap: Any, media: Media | None = None) -> Any:
        """Return the chunks of a bitmap, which must be freed."""
        part = mtmd_cpp.mtmd_input_part(bitmap=bitmap)
        parts = (ctypes.POINTER(mtmd_cpp.mtmd_input_part) * 1)(ctypes.pointer(part))
        chunks = mtmd_cpp.mtmd_input_chunks_init()
        if mtmd_cpp.mtmd_tokenize_from_parts(self._context, chunks, parts, 1, False):
            mtmd_cpp.mtmd_input_chunks_free(chunks)
            raise GenerationError(f"llama.cpp cannot process {media.name if media else 'pictures'}; see --log-file.")
        return chunks

    def _open(self, media: Media) -> Any:
        """Return the chunks of media with their content; they stay open for the next chunk.

        Raises:
            GenerationError: The file cannot be read, or is not the one whose tokens were counted.
        """
        if self._opened and self._opened[0] == media.sha256:
            return self._opened[1]
        self._close_opened()
        path = os.fsencode(media.path)
        with _made(mtmd_cpp.mtmd_helper_bitmap_init_from_file(self._context, path, False), media) as bitmap:
            if mtmd_cpp.mtmd_bitmap_get_id(bitmap) != media.sha256.encode():
                raise GenerationError(f"{media.path} is not the file any more that was attached as {media.name}.")
            chunks = self._tokenize(bitmap, media)
        self._opened = media.sha256, chunks
        lengths = [mtmd_cpp.mtmd_input_chunk_get_n_tokens(chunk) for chunk, ids in _read_chunks(chunks) if ids is None]
        numbers = dict.fromkeys(number for number in self.encode(media) if number < 0)
        if lengths != [self._chunks[number].tokens for number in numbers]:
            raise GenerationError(f"{media.name} has not the size of {media.width} × {media.height} pixels.")
        return chunks

    def _close_opened(self) -> None:
        if self._opened:
            mtmd_cpp.mtmd_input_chunks_free(self._opened[1])
            self._opened = None

    def _check_stop(self, _tensor: Any, is_asked: bool, _data: Any) -> bool:
        """Say which steps of the encoder to compute together, and after them whether to continue."""
        if is_asked:
            self._nodes += 1
            return self._nodes % _NODES_BETWEEN_STOPS == 0
        return not self._is_stopped()


@contextmanager
def _made(bitmap: Any, media: Media | None = None) -> Iterator[Any]:
    """Free a bitmap at the end.

    Raises:
        GenerationError: There is none, because the file could not be read.
    """
    if not bitmap:
        raise GenerationError(f"{media.name if media else 'The picture'} cannot be read: {media and media.path}.")
    try:
        yield bitmap
    finally:
        mtmd_cpp.mtmd_bitmap_free(bitmap)


def _read_chunks(chunks: Any) -> Iterator[tuple[Any, list[int] | None]]:
    """Yield each chunk with its token ids if it is text, otherwise None."""
    for index in range(mtmd_cpp.mtmd_input_chunks_size(chunks)):
        chunk = mtmd_cpp.mtmd_input_chunks_get(chunks, index)
        if mtmd_cpp.mtmd_input_chunk_get_type(chunk) == mtmd_cpp.MTMD_INPUT_CHUNK_TYPE_TEXT:
            number = ctypes.c_size_t()
            ids = mtmd_cpp.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(number))
            yield chunk, ids[: number.value]
        else:
            yield chunk, None


@cache
def _route_log() -> deque[str]:
    """Send the log of mtmd to our log; return its last errors, which are updated."""
    errors: deque[str] = deque(maxlen=3)

    def pass_on(level: int, text: bytes, _data: Any) -> None:
        line = text.decode("utf-8", errors="replace").rstrip()
        log.debug("mtmd %d: %s", level, line)
        if level == _ERROR_LEVEL:
            with suppress(ValueError):
                errors.append(line)

    callback = llama_cpp.llama_log_callback(pass_on)
    _KEPT_CALLBACKS.append(callback)
    mtmd_cpp.mtmd_log_set(callback, ctypes.c_void_p(0))
    mtmd_cpp.mtmd_helper_log_set(callback, ctypes.c_void_p(0))
    return errors


_KEPT_CALLBACKS: list[Any] = []
"""The library calls them until the process ends."""
