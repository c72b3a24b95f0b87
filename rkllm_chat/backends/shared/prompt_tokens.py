"""Tokenize prompts; a reply of the model returns in later prompts as exactly the tokens it was generated with.

Tokenizing the text of a reply again may give other tokens, and the engine's KV cache would be useless from there on.
The function that tokenizes a piece is a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import TypeVar

from ...core.errors import ModelError
from ...core.messages import Media
from ...prompt.pieces import Piece, Template, neutralize_control_tokens

_MAX_REPLIES = 4096
"""Number of replies whose tokens are kept: more than fit into one conversation; a server writes on for months."""
_MAX_CACHED_TEXTS, _MAX_CACHED_LENGTH = 1024, 4096
"""Limits of the cache of tokenized texts: number of texts, and characters of one."""
Item = TypeVar("Item")

_MAX_CONTROL_IDS = 2
"""Number of ids of a control token and of the blank that SentencePiece puts before it; spelt as text it has more."""


class PromptTokenizer:
    """Tokenizes prompts.

    Some vocabularies keep tokens of the template among their ordinary ones and recognize them anywhere (`<｜User｜>` of
    DeepSeek R1, `<用户>` of MiniCPM): in text that is not from the template those are broken up.
    """

    def __init__(
        self,
        encode: Callable[[Piece], list[int]],
        template: Template | None = None,
        encode_media: Callable[[Media], list[int]] | None = None,
    ) -> None:
        """Create a tokenizer of prompts.

        Args:
            encode: Returns the ids of one piece; control tokens are recognized only in special pieces.
            template: The chat template of the prompts.
            encode_media: Returns the ids of a picture or sound; None if the model understands none.
        """
        self._encode_media = encode_media
        self._encode, self._template = encode, template
        self._controls = template.control_tokens if template else ()
        self._replies: dict[str, list[int]] = {}
        self._active: dict[str, bool] = {}
        self._cached_plain = lru_cache(_MAX_CACHED_TEXTS)(self._encode_plain)

    def encode(self, pieces: Sequence[Piece], is_new: bool = False) -> list[int]:
        """Return the token ids of a prompt.

        Args:
            pieces: The prompt.
            is_new: Return those of a program that has generated none of its replies.
        """
        ids: list[int] = []
        for piece in pieces:
            if piece.media and self._encode_media:
                ids += self._encode_media(piece.media)
            else:
                ids += self._encode(piece) if piece.special else self._plain(piece.text, is_new)
        return ids

    def _plain(self, text: str, is_new: bool) -> list[int]:
        """Return the ids of text that is not from the template; short texts are cached, because prompts repeat them."""
        reply_ids = None if is_new else self._replies.get(text)
        return reply_ids or (self._cached_plain(text) if len(text) <= _MAX_CACHED_LENGTH else self._encode_plain(text))

    def _encode_plain(self, text: str) -> list[int]:
        return self._encode(self._neutralize(Piece(text, special=False)))

    def remember_reply(self, reply_prefix: str, text: str, ids: Sequence[int]) -> None:
        """Store the token ids of a reply.

        A text that was stored before keeps its first ids: other ids would change a prompt in its middle.

        Args:
            reply_prefix: The beginning of the reply that the prompt already contained.
            text: The generated text.
            ids: The generated tokens.
        """
        if reply_prefix + text not in self._replies:
            self._replies[reply_prefix + text] = self._encode(Piece(reply_prefix, special=True)) + list(ids)
            if len(self._replies) > _MAX_REPLIES:
                del self._replies[next(iter(self._replies))]

    def list_replies(self, pieces: Sequence[Piece]) -> dict[str, list[int]]:
        """Return the ids of the replies in a prompt, by text, that tokenizing their text again would change."""
        texts = {piece.text for piece in pieces if not (piece.special or piece.media)}
        replies = {text: self._replies[text] for text in texts & self._replies.keys()}
        return {text: ids for text, ids in replies.items() if ids != self._plain(text, is_new=True)}

    def _neutralize(self, piece: Piece) -> Piece:
        return Piece(neutralize_control_tokens(piece.text, self._template, self._is_active_in_text), special=False)

    def _is_active_in_text(self, control: str) -> bool:
        """Return whether a control token is recognized in plain text too."""
        if control not in self._active:
            ids = self._encode(Piece(control, special=True))
            is_same = self._encode(Piece(control, special=False)) == ids
            self._active[control] = is_same and (len(ids) <= _MAX_CONTROL_IDS or control in self._controls)
        return self._active[control]


def load_tokenizer(path: Path) -> Callable[[Piece], list[int]] | None:
    """Load the encoder of a `tokenizer.json`.

    Returns:
        None if the file or the package `tokenizers` is missing, or for a tokenizer that puts a blank before every text
        (SentencePiece as in Llama 2): prompts could not be tokenized in pieces.

    Raises:
        ModelError: The file cannot be read.
    """
    if not path.is_file():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises nothing narrower
        hint = "Download it again from the source of the model, or remove it."
        raise ModelError(f"{path}: not a tokenizer: {error}.", hint) from error

    lock = Lock()  # a prompt is counted while another thread plans one: it must not change the switch of this one

    def encode(piece: Piece) -> list[int]:
        with lock:
            tokenizer.encode_special_tokens = not piece.special
            ids: list[int] = tokenizer.encode(piece.text, add_special_tokens=False).ids
        return ids

    tokenizer.no_truncation()
    tokenizer.no_padding()
    puts_blanks = tokenizer.encode("b", add_special_tokens=False).tokens[0].startswith("▁")
    return None if puts_blanks else encode


def common_prefix(one: list[Item], other: list[Item]) -> list[Item]:
    """Return the common beginning of two lists."""
    return one[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))]
