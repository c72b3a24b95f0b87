"""Prompt pieces to token ids; a reply of the model's own comes back as the very tokens it was written with.

Tokenizing the text of a reply again may give other tokens, and an engine's cache would end there. It knows no engine:
it is given the function that tokenizes a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import ModelError
from ..templates import Piece


class PromptTokens:
    """Tokenizes prompts. `encode` gives the ids of one piece, control tokens read only where it is special."""

    def __init__(self, encode: Callable[[Piece], list[int]]) -> None:
        self._encode = encode
        self._said: dict[str, list[int]] = {}

    def of(self, pieces: Sequence[Piece]) -> list[int]:
        """The ids of a prompt."""
        ids: list[int] = []
        for piece in pieces:
            own = None if piece.special else self._said.get(piece.text)
            ids += own or self._encode(piece)
        return ids

    def remember(self, thought: str, text: str, ids: Sequence[int]) -> None:
        """Keeps the ids of a reply; `thought` is what the prompt had already written of it."""
        self._said[thought + text] = self._encode(Piece(thought, special=True)) + list(ids)


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
