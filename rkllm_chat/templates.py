"""How a model family wants a conversation written: TEMPLATES, and the Jinja template inside a GGUF.

It knows no model and no tokenizer. What comes out are pieces that say whether control tokens may be read in them,
so that a `<|im_end|>` in somebody's text stays seven characters and never ends a turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, NoReturn

from .errors import ModelError
from .messages import Message


@dataclass(frozen=True)
class Piece:
    """A stretch of prompt. `special`: written by the template, control tokens count; else plain text."""

    text: str
    special: bool


Template = Callable[[Sequence[Message]], list[Piece]]


def render_chatml(messages: Sequence[Message]) -> list[Piece]:
    """ChatML (Qwen and many others), ending in an open assistant turn."""
    pieces: list[Piece] = []
    for message in messages:
        pieces += [
            Piece(f"<|im_start|>{message.role}\n", special=True),
            Piece(message.text, special=False),
            Piece("<|im_end|>\n", special=True),
        ]
    return join_pieces([*pieces, Piece("<|im_start|>assistant\n", special=True)])


def join_pieces(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbours of the same kind become one; empty ones go."""
    joined: list[Piece] = []
    for piece in pieces:
        if not piece.text:
            continue
        if joined and joined[-1].special == piece.special:
            joined[-1] = Piece(joined[-1].text + piece.text, piece.special)
        else:
            joined.append(piece)
    return joined


def jinja_template(source: str, bos: str = "", eos: str = "", today: date | None = None) -> Template:
    """The template inside a GGUF, as `transformers` would render it (apply_chat_template, add_generation_prompt).

    It is rendered with a mark in place of each text, and the texts are put in afterwards as plain pieces: what they
    hold can neither be taken for control tokens nor run in the template. Raises ModelError if it cannot be used.
    """
    from jinja2 import TemplateError

    try:
        compiled = make_environment(today).from_string(source)
    except TemplateError as error:
        raise ModelError(f"The model's chat template cannot be read: {error}.") from error

    def render(messages: Sequence[Message]) -> list[Piece]:
        marked = [{"role": message.role, "content": mark(i)} for i, message in enumerate(messages)]
        text = compiled.render(messages=marked, add_generation_prompt=True, bos_token=bos, eos_token=eos)
        return fill_marks(text, messages)

    # a template may also add a number to a text or count too far
    broken = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)

    def render_any(messages: Sequence[Message]) -> list[Piece]:
        try:
            return render(messages)
        except broken:  # families such as Gemma have no system role
            try:
                return render(fold_system(messages))
            except broken as error:
                raise ModelError(f"The model's chat template turns the conversation down: {error}.") from error

    return render_any


def make_environment(today: date | None) -> Any:
    """What templates may use; they are somebody's program, so they run in a sandbox."""
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    environment.globals["raise_exception"] = raise_exception
    if today:
        environment.globals["strftime_now"] = today.strftime
    return environment


_MARK = re.compile("\ue000(\\d+)\ue001")


def mark(index: int) -> str:
    return f"\ue000{index}\ue001"


def fill_marks(text: str, messages: Sequence[Message]) -> list[Piece]:
    """The rendered text cut at its marks, each mark replaced by the text of its message."""
    parts = _MARK.split(text)
    return join_pieces(
        Piece(messages[int(part)].text, special=False) if i % 2 else Piece(part, special=True)
        for i, part in enumerate(parts)
    )


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """The system text in front of the first user message, for templates without a system role."""
    if len(messages) < 2 or messages[0].role != "system":
        return list(messages)
    first = replace(messages[1], text=f"{messages[0].text}\n\n{messages[1].text}")
    return [first, *messages[2:]]


TEMPLATES: dict[str, Template] = {"chatml": render_chatml}
