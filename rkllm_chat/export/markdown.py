"""A talk as Markdown: readable as it stands, and safe where it is shown.

What the model wrote stays Markdown, but loads nothing and holds no HTML; what tools and servers wrote stands in fences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain

from ..clean import clean, clean_line
from ..language import Words
from .turns import Called, Forgotten, Part, Said, Shortened, Thinking, Told, Turn, Unreadable

FENCED = re.compile(r"(^```[^`\n]*\n.*?^```[ \t]*$)", re.DOTALL | re.MULTILINE)


def write_markdown(told: Told, words: Words) -> str:
    setup = told.setup
    head = [
        f"# {escape(told.title)}",
        f"- {words('export.session')}: {told.name}\n"
        f"- {words('export.model')}: {escape(clean_line(setup.model))}"
        f" ({words('export.context', tokens=setup.context_tokens)})",
    ]
    return "\n\n".join([*head, *chain.from_iterable(tell_turn(turn, told, words) for turn in told.turns)]) + "\n"


def tell_turn(turn: Turn, told: Told, words: Words) -> Iterator[str]:
    yield f"## {words('export.you')}, {told.moment(turn.at):%Y-%m-%d %H:%M}"
    yield quote(escape(clean(turn.asked)))
    for part in turn.parts:
        if text := tell_part(part, words).strip("\n"):
            yield text
    if turn.reason and turn.reason != "answered":
        yield f"*{words(f'export.end_{turn.reason}')} {escape(clean_line(turn.error))}".rstrip() + "*"


def tell_part(part: Part, words: Words) -> str:
    match part:
        case Said(text):
            return harmless(clean(text))
        case Thinking(text):
            return f"*{words('export.thinking')}*\n\n{quote(escape(clean(text).strip()))}"
        case Called(name, arguments, result):
            written = clean_line(json.dumps(dict(arguments), ensure_ascii=False, default=str))
            head = f"**{words('export.call')}** {code(clean_line(name) + written)}"
            if result is None:
                return head
            took = f", {result.seconds:.1f} s" if result.seconds else ""
            came = words(f"export.{result.status}") + took
            return f"{head}: {came}\n\n{fence(clean(result.text))}"
        case Unreadable(raw, detail):
            return f"**{words('export.unreadable')}** {escape(clean_line(detail))}\n\n{fence(clean(raw))}"
        case Forgotten(turns):
            return f"*{words('chat.forgot', turns=turns)}*"
        case Shortened(text):
            return f"*{words('export.shortened')}*\n\n{quote(escape(clean(text)))}"


def quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.strip("\n").split("\n"))


def escape(text: str) -> str:
    """Plain text for Markdown: every mark of it shown as it is."""
    return re.sub(r"([\\`*_\[\]#<>!|~&])", r"\\\1", text)


def harmless(text: str) -> str:
    """Markdown without HTML and without pictures, which would be loaded from wherever the model says."""
    pieces = FENCED.split(text)
    pieces[::2] = [re.sub(r"<(?=[A-Za-z/!?])", "&lt;", piece) for piece in pieces[::2]]
    return "".join(pieces).replace("![", "!\\[")


def fence(text: str) -> str:
    """A code block, its fence longer than any in the text."""
    mark = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{mark}text\n{text}\n{mark}"


def code(text: str) -> str:
    mark = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{mark} {text} {mark}" if "`" in text else f"`{text}`"
