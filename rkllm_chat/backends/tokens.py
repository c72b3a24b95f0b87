"""Prompt pieces to token ids; a reply of the model's own comes back as the very tokens it was written with.

Tokenizing the text of a reply again may give other tokens, and an engine's cache would end there. It knows no engine:
it is given the function that tokenizes a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from ..errors import ModelError
from ..templates import Piece, Template, harmless

MOST_KEPT, LONGEST_KEPT = 1024, 4096
"""Texts, and characters of one."""
Item = TypeVar("Item")

FEWEST_IDS = 2
"""Of a control token, and of the blank that SentencePiece puts before it; spelt as text it has more."""


class PromptTokens:
    """Tokenizes prompts. `encode` gives the ids of one piece, control tokens read only where it is special.

    Some vocabularies keep tokens of the template among their ordinary ones and read them anywhere (`<｜User｜>` of
    DeepSeek R1, `<用户>` of MiniCPM): in what others wrote those are broken.
    """

    def __init__(self, encode: Callable[[Piece], list[int]], template: Template | None = None) -> None:
        self._encode, self._template = encode, template
        self._controls = template.controls if template else ()
        self._said: dict[str, list[int]] = {}
        self._live: dict[str, bool] = {}
        self._kept = lru_cache(MOST_KEPT)(self._encode_plain)

    def of(self, pieces: Sequence[Piece]) -> list[int]:
        """The ids of a prompt."""
        ids: list[int] = []
        for piece in pieces:
            ids += self._encode(piece) if piece.special else self._plain(piece.text)
        return ids

    def _plain(self, text: str) -> list[int]:
        """The ids of what somebody wrote. A prompt has the same texts again and again: those of short ones are kept."""
        own = self._said.get(text)
        return own or (self._kept(text) if len(text) <= LONGEST_KEPT else self._encode_plain(text))

    def _encode_plain(self, text: str) -> list[int]:
        return self._encode(self._defuse(Piece(text, special=False)))

    def remember(self, thought: str, text: str, ids: Sequence[int]) -> None:
        """Keeps the ids of a reply; `thought` is what the prompt had already written of it.

        A text that was said before keeps its first ids: others would change a prompt in its middle.
        """
        if thought + text not in self._said:
            self._said[thought + text] = self._encode(Piece(thought, special=True)) + list(ids)

    def _defuse(self, piece: Piece) -> Piece:
        return Piece(harmless(piece.text, self._template, self._is_live), special=False)

    def _is_live(self, control: str) -> bool:
        """Whether plain text that holds it has the very ids that the template writes for it."""
        if control not in self._live:
            ids = self._encode(Piece(control, special=True))
            is_same = self._encode(Piece(control, special=False)) == ids
            self._live[control] = is_same and (len(ids) <= FEWEST_IDS or control in self._controls)
        return self._live[control]


def read_tokenizer(path: Path) -> Callable[[Piece], list[int]] | None:
    """The encoder in a `tokenizer.json`; None where the file or the package `tokenizers` is not there.

    None too for a tokenizer that puts a blank before whatever it is given (SentencePiece in the manner of Llama 2): a
    prompt in pieces would not be the prompt. Raises ModelError for a file that cannot be read.
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
        raise ModelError(
            f"{path}: not a tokenizer: {error}.", "Take it from the model's origin, or remove it."
        ) from error

    def encode(piece: Piece) -> list[int]:
        tokenizer.encode_special_tokens = not piece.special
        ids: list[int] = tokenizer.encode(piece.text, add_special_tokens=False).ids
        return ids

    tokenizer.no_truncation()
    tokenizer.no_padding()
    puts_blanks = tokenizer.encode("b", add_special_tokens=False).tokens[0].startswith("▁")
    return None if puts_blanks else encode


def common(one: list[Item], other: list[Item]) -> list[Item]:
    """The beginning that two lists share."""
    return one[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))]
