"""History and tools become what a backend is given. It is pure, and the result only ever grows at its end.

The system text comes first and depends on the system words, the tools and their room alone, so its bytes are the same
from turn to turn and an engine's cache holds them. What helps with one question only stands before that question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from . import language
from .catalogue import Catalogue, make_catalogue
from .foreign import disarm, disarm_line, frame
from .formats import FORMATS, Format
from .language import Words
from .memo import by_identity
from .messages import Message, Tool
from .names import DESCRIBE, MORE


def compose(
    history: Sequence[Message],
    tools: Iterable[Tool],
    words: Words | None = None,
    system: str = "",
    tool_format: str = "json",
    catalogue: Catalogue | None = None,
) -> list[Message]:
    """The messages to send, with roles system, user and assistant only: every model family knows those three.

    Results of the calls of one reply come as one user message. `tool_format` is a row of FORMATS; `system` replaces
    the first sentence of the system text; `catalogue` is what it says of the tools, by default all of them in full.
    """
    words = words or language.load()
    form = FORMATS[tool_format]
    catalogue = catalogue or make_catalogue(tools, words, form, 0, lambda _: 0)
    shown: list[Message] = []
    for of_tools, group in groupby(history, key=lambda message: message.role == "tool"):
        run = list(group)
        if of_tools:
            shown.append(tool_turn(run, words, form, words.code))
        else:
            shown += [with_forms(message, words) for message in run]
    return [Message("system", system_text(catalogue, words, system, form)), *shown]


def system_text(catalogue: Catalogue, words: Words, system: str, form: Format) -> str:
    """The system message: who the model is, which tools there are, and how a call is written."""
    parts = [system or words("prompt.system")]
    if catalogue.lines:
        parts.append(catalogue.text(words, form))
        parts.append(f"{words('prompt.call')}\n{form.example}")
    return "\n\n".join(parts)


def with_forms(message: Message, words: Words) -> Message:
    """What a user says, below the tools that may help with it."""
    if not message.tools:
        return message
    return replace(message, text="\n".join([words("prompt.may_help"), *message.tools, "", message.text]))


def compose_native(
    history: Sequence[Message],
    words: Words,
    system: str = "",
    tool_format: str = "json",
    catalogue: Catalogue | None = None,
) -> list[Message]:
    """The same for an engine that has its own ways to be told of tools and results, whose roles stay.

    Its tools stand at the beginning of what it makes of a prompt. So where they do not all fit there, it is given none
    but `describe_tool`, which keeps its ways open and never changes; the `catalogue` and the forms for a question stand
    in the text, as they do for every engine, and calls are read from the text.
    """
    form = FORMATS[tool_format]
    head = Message("system", system_text(catalogue or Catalogue(), words, system, form))
    return [head, *(with_forms(bare(one, teach([one], words, form)), words) for one in history)]


@by_identity(most=1024)
def tool_turn(run: Sequence[Message], words: Words, form: Format, _language: str) -> Message:
    """The results of one reply's calls, and remarks on calls that could not be read, as one message.

    `_language` is that of the words now: they may go on in another.
    """
    parts = [*(tool_text(message, words) for message in run), *teach(run, words, form)]
    if any(message.result for message in run):
        parts.append(words("prompt.answer"))
    return Message("user", "\n".join(parts))


def tool_text(message: Message, words: Words) -> str:
    """A result below a heading that names its tool, or a remark of ours as it is."""
    if message.result is None:
        return message.text
    if is_description(message):
        return message.text
    key = "prompt.result" if message.result.status == "completed" else "prompt.failed"
    heading = words(key, tool=disarm_line(message.result.tool))
    return f"{heading}\n{bare(message).text}" if is_correction(message) else frame(heading, message.text, words)


def teach(run: Iterable[Message], words: Words, form: Format) -> list[str]:
    """How to read on where results were cut, by the first of them: the tool for that is not listed."""
    cut = next((one.more for one in run if one.more), None)
    return [words("prompt.read_on"), form.show(MORE, cut)] if cut else []


def bare(message: Message, behind: Sequence[str] = ()) -> Message:
    """A message for an engine with a way of its own to show results: without a frame, but no call can be copied.
    `behind` are lines of ours."""
    if message.result is None or is_description(message):
        return message
    foreign = message.result.text if is_correction(message) else message.text
    return replace(message, text="\n".join([message.text.replace(foreign, disarm(foreign), 1), *behind]))


def is_description(message: Message) -> bool:
    """Whether it says how tools are called, as the system text would: in our words, with what is foreign made safe."""
    result = message.result
    return result is not None and (result.server, result.tool, result.status) == ("", DESCRIBE, "completed")


def is_correction(message: Message) -> bool:
    """Whether it shows a model how to write its call, around what was wrong; a result is at most cut."""
    result = message.result
    if result is None or message.more is not None:
        return False
    return result.text != message.text and result.text in message.text
