"""Pieces of a prompt: texts that say whether control tokens are recognized in them.

So a `<|im_end|>` in a user's text stays ten characters and never ends a turn. For a runtime that takes one string, the
control tokens in plain pieces are broken. Knows neither models nor tokenizers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from ..core.messages import Media, Message
from ..core.sanitize import normalize_for_search


@dataclass(frozen=True)
class Piece:
    """A part of a prompt.

    Attributes:
        text: Its text; "" for a picture or sound.
        special: Whether the template wrote it, so that control tokens count; otherwise it is plain text.
        media: The picture or sound.
    """

    text: str
    special: bool
    media: Media | None = None


class Template(Protocol):
    """Renders a conversation and opens the assistant's turn."""

    @property
    def stop_sequences(self) -> tuple[str, ...]:
        """Texts with which the model ends its turn."""

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """Control tokens that the template uses."""

    def __call__(self, messages: Sequence[Message], thinking: bool | None = None) -> list[Piece]:
        """Render a conversation.

        Args:
            messages: Messages with roles system, user and assistant.
            thinking: Turn the model's reasoning on or off; None leaves the default. Families without the switch ignore
                it.
        """


def split_content(message: Message) -> list[Piece]:
    """Return the texts and media of a message."""
    return [
        Piece(part, special=False) if isinstance(part, str) else Piece("", special=False, media=part)
        for part in message.parts
    ]


def join_pieces(pieces: Iterable[Piece]) -> list[Piece]:
    """Merge neighbouring pieces of the same kind and drop empty ones."""
    joined: list[Piece] = []
    for piece in pieces:
        if not piece.text and not piece.media:
            continue
        if joined and joined[-1].special == piece.special and not (piece.media or joined[-1].media):
            joined[-1] = Piece(joined[-1].text + piece.text, piece.special)
        else:
            joined.append(piece)
    return joined


def find_controls(text_around: str) -> tuple[str, ...]:
    """Return the distinct control tokens in text written by a template: everything in angle or square brackets."""
    candidates = re.findall(r"<[^<>\s]+>|\[[^\[\]\s]+\]", text_around)
    return tuple(dict.fromkeys(text for text in candidates if not re.search("think|tool", text, re.IGNORECASE)))


_OPENED_THOUGHT = re.compile(r"<think>\s*(?:</think>\s*)?\Z")


def find_reply_prefix(pieces: Sequence[Piece]) -> str:
    """Return the start of the reply that the prompt already contains: an open or immediately closed `<think>`.

    It is emitted as the first piece of the reply, so that parser and history see the complete reply.
    """
    match = _OPENED_THOUGHT.search(pieces[-1].text) if pieces and pieces[-1].special else None
    return match[0] if match else ""


# Control tokens of common models. `<think>`, `<tool_call>` and our `[TOOL_CALL]` are excluded: ordinary text has them.
_CONTROL_TOKEN = "|".join(
    (
        # <|im_end|>, <｜User｜>; no brackets, or it would span [/INST]; no ";", as "a <| f; x |> g" is program code
        r"<[|｜](?!\s)[^][<>\n;,()=]*(?<!\s)[|｜]>",
        r"<[|｜][^][<>\s]+>|<[^][<>\s|｜]+[|｜]>",  # <|turn> and <turn|> of Gemma 4
        r"\[\|\w+\|\]",  # [|user|] of EXAONE
        r"</?(?:s|bos|eos|pad|unk|sop|eop|AI|用户|(?:start|end)_of_(?:turn|image))>",
        r"<</?SYS>>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]",
        r"\[[gs]?MASK\]",
    )
)


_BRACKETS = re.compile(
    "[<\\[\ufe47\ufe64\uff1c\uff3b]"
)  # every character that NFKC maps to < or [, the first character of each token


def neutralize_control_tokens(
    text: str, template: Template | None = None, is_live: Callable[[str], bool] = lambda _control: True
) -> str:
    """Break control tokens in text for a runtime without pieces: insert a space after the first character of each.

    Nothing is removed, since the rest could join to a new token.

    Args:
        text: Untrusted text.
        template: Its control tokens are broken too.
        is_live: Whether the tokenizer treats a text as a control token; others stay.
    """
    return join_text([Piece(text, special=False)], template, is_live) if _BRACKETS.search(text) else text


def neutralize_value(value: Any) -> Any:
    """Apply `neutralize_control_tokens` to all strings and keys of a JSON value."""
    if isinstance(value, str):
        return neutralize_control_tokens(value)
    if isinstance(value, Mapping):
        return {neutralize_value(key): neutralize_value(item) for key, item in value.items()}
    return [neutralize_value(item) for item in value] if isinstance(value, list | tuple) else value


def join_text(
    pieces: Iterable[Piece],
    template: Template | None = None,
    is_live: Callable[[str], bool] = lambda _control: True,
    more_controls: Sequence[str] = (),
) -> str:
    """Join pieces to one string: special ones as they are, control tokens in plain ones broken.

    Tokens that would form where a plain piece meets a special one are broken too. Arguments as for
    `neutralize_control_tokens`; `more_controls` are broken like the template's.
    """
    joined = join_pieces(pieces)
    text = "".join(piece.text for piece in joined)
    is_plain = [not piece.special for piece in joined for _ in piece.text]
    folded, positions = normalize_for_search(text)
    controls = (*(template.control_tokens if template else ()), *more_controls)
    literals = sorted({normalize_for_search(control)[0] for control in controls}, key=len, reverse=True)
    cuts: set[int] = set()
    # a lookahead, because tokens may overlap; ignoring case, because a tokenizer may lowercase the text
    pattern = re.compile(f"(?=({'|'.join([*map(re.escape, literals), _CONTROL_TOKEN])}))", re.IGNORECASE)
    for match in pattern.finditer(folded):
        start, last = positions[match.start()], positions[match.end(1) - 1]
        if not is_live(text[start : last + 1]):
            continue
        if is_plain[start]:
            cuts.add(start + 1)
        elif True in is_plain[start : last + 1]:
            cuts.add(is_plain.index(True, start))
    edges = [0, *sorted(cuts), len(text)]
    return " ".join(text[start:end] for start, end in pairwise(edges))
