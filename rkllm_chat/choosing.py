"""Which tools a model is told of, and where: all in full, or a catalogue first and with each question what may help.

What is told with a question is remembered with its message, so a prompt only grows. Of what still stands in the talk
only names are told again. Nobody is asked, and nothing is run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .budget import LATE_SHARE
from .catalogue import LEVELS, Catalogue, make_catalogue
from .foreign import disarm_line
from .formats import FORMATS
from .messages import Message, Tool
from .names import find_tools, shown_names
from .prompt import is_description
from .ranking import Index, rank, rank_few
from .sketch import describe_tools, list_tool

if TYPE_CHECKING:
    from .chat import Backend, Chat
    from .config import Settings


WISHES = ("tools_share", "few_tools")
"""The settings that a model's file may ask for, by their names in a backend."""
MOST_NAMED = 3
"""Of the likely tools whose forms stand in the talk already, so many are named again."""


@dataclass
class Choice:
    """What was made of the tools last, and what it was `made_of`: it is made anew only when that has changed.

    `told` is what a model could read of each tool, in whatever form; `forms`: full name of a tool -> the line that says
    how it is called; `names`: that line -> one with the name alone; `index` finds tools by words.
    """

    made_of: object = None
    told: tuple[str, ...] = ()
    catalogue: Catalogue = field(default_factory=Catalogue)
    forms: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    index: Index = field(default_factory=lambda: Index(()))


def with_wishes(settings: Settings, backend: Backend) -> Settings:
    """The settings as the model's own file wishes them, where no file of the user says otherwise."""
    wishes = {key: getattr(backend, key) for key in WISHES if key not in settings.written}
    return replace(settings, **{key: wish for key, wish in wishes.items() if wish is not None})


def choice_of(chat: Chat) -> Choice:
    """The catalogue of the tools there are now, and what is needed to choose among them."""
    tools = list(chat.toolbox.tools)
    share = with_wishes(chat.settings, chat.backend).tools_share
    made_of = [chat.backend, share, chat.prompt_words.code, chat.form, tools]
    if chat.choice.made_of != made_of:
        chat.choice = choose_anew(chat, tools, made_of)
    return chat.choice


def catalogue_of(chat: Chat) -> Catalogue:
    return choice_of(chat).catalogue


def choose_anew(chat: Chat, tools: Sequence[Tool], made_of: object) -> Choice:
    """An engine that is told of tools in its own way is given their whole schemas, and those must fit the share."""
    limit = int(with_wishes(chat.settings, chat.backend).tools_share * chat.backend.context_tokens)
    form, native = FORMATS[chat.form], chat.backend.native_tools
    told = describe_tools(tools, whole=native)
    if native and (tokens := measure(chat, "\n".join(told))) <= limit:
        return Choice(made_of, told, Catalogue(tokens=tokens))
    levels = LEVELS[1:] if native else LEVELS
    catalogue = make_catalogue(tools, chat.prompt_words, form, limit, lambda text: measure(chat, text), levels)
    if catalogue.is_full:
        return Choice(made_of, told, catalogue)
    shown = shown_names(tools)
    lines = {name: list_tool(name, tool, form) for name, tool in shown.items()}
    forms = {tool.full_name: lines[name] for name, tool in shown.items()}
    return Choice(made_of, told, catalogue, forms, name_only(lines), Index(tools))


def likely_forms(chat: Chat, question: str, room_tokens: int) -> tuple[str, ...]:
    """How those tools are called that may help, the likeliest first: as many as their share of the window holds, at
    least one where there is room for it."""
    choice = choice_of(chat)
    limit = chat.backend.context_tokens // LATE_SHARE
    order = rank_few if with_wishes(chat.settings, chat.backend).few_tools else rank
    chosen: list[str] = []
    for tool in order(choice.index, question, chat.served.counts):
        grown = [*chosen, choice.forms[tool.full_name]]
        tokens = measure(chat, "\n".join(grown))
        if tokens > room_tokens or (tokens > limit and chosen):
            break
        chosen = grown
    return tuple(chosen)


def name_only(lines: Mapping[str, str]) -> dict[str, str]:
    """Line on a tool -> one with its name alone; `lines`: shown name -> line."""
    return {line: f"- {disarm_line(name)}" for name, line in lines.items()}


def tell_again(lines: Iterable[str], shown: Collection[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """The lines on likely tools, but of those that stand in the talk already the names alone, and only of a few."""
    told: list[str] = []
    named = 0
    for line in lines:
        if line not in shown:
            told.append(line)
        elif named < MOST_NAMED:
            told.append(names[line])
            named += 1
    return tuple(told)


def lines_for(chat: Chat, question: str, room_tokens: int) -> tuple[str, ...]:
    """What is told of tools with a question, where not all are told in full."""
    return tell_again(likely_forms(chat, question, room_tokens), forms_shown(chat.shown), choice_of(chat).names)


def describe(chat: Chat, asked: str) -> tuple[str, ...]:
    """How a tool is called, by a name in any spelling; for what is no name, those that may be meant."""
    choice = choice_of(chat)
    if named := find_tools(asked, chat.toolbox.tools):
        return tuple(choice.forms[tool.full_name] for tool in named)
    return likely_forms(chat, asked, chat.backend.context_tokens // LATE_SHARE)


def forms_shown(history: Iterable[Message]) -> set[str]:
    """The lines on tools that stand in a talk."""
    described = (line for one in history if one.result and is_description(one) for line in one.text.splitlines())
    return {*(line for one in history for line in one.tools), *described}


def measure(chat: Chat, text: str) -> int:
    """What a text takes within a prompt, in tokens."""
    return chat.count_text(text) - chat.count_text("") if text else 0
