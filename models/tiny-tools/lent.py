"""The board's tools as other servers would have them: under other names, with parameters of other names.

Without these a question of the board's would always mean the board's own tool, and be refused where another server has
one like it. It knows no prompt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from board_questions import Question, board_question
from board_results import board_result
from parameters import Parameter, camel, schema_of
from rkllm_chat.core.messages import Tool
from vocabulary import word
from words import load_words

INVENTED_SHARE = 0.15
OWN_SHARE, TERSE_SHARE = 0.4, 0.4
"""Of lent tools, those under the board's own name; of these, those whose descriptions say nothing."""


@dataclass(frozen=True)
class Alias:
    """Names of a tool, descriptions, and for each of its parameters the kind and names, parted by bars.

    Each description has a word that is no verb, by which `misfits` sees that they are about the same.
    """

    names: str
    abouts: str
    parameters: Mapping[str, Sequence[str]]


ALIASES = {tool: Alias(**texts) for tool, texts in load_words("lent").items()}


@dataclass(frozen=True)
class Lent:
    """A tool of the board under another name. `names`: the board's name of a parameter -> the one here."""

    tool: Tool
    kept: str
    names: Mapping[str, str]
    parameters: tuple[Parameter, ...]

    def ask(self, random: Random, language: str, held_out: bool, _named: bool | None = None) -> Question:
        while True:
            question = board_question(self.kept, random, held_out)
            if question.language == language:
                arguments = {self.names[name]: value for name, value in question.arguments.items()}
                return replace(question, tool=self.tool.name, arguments=arguments, style="lent")

    def result(self, arguments: Mapping[str, Any], random: Random) -> str:
        kept = {name: arguments[here] for name, here in self.names.items() if here in arguments}
        return board_result(self.kept, kept, random)[0]


def lent_server(random: Random, size: int) -> list[Lent]:
    """Some tools of the board, all from one server with a style of its own."""
    server, is_camel = word(random), random.random() < 0.25
    return [lend(kept, server, is_camel, random) for kept in random.sample(list(ALIASES), min(size, len(ALIASES)))]


def own(tool: Tool) -> Lent:
    """A tool of the board as it is, to be asked for like any other."""
    return Lent(tool, tool.name, {name: name for name in ALIASES[tool.name].parameters}, parameters_of(tool.name))


def lend(kept: str, server: str, is_camel: bool, random: Random) -> Lent:
    alias = ALIASES[kept]
    names = {one: draw_name(others, random) for one, (_, others) in alias.parameters.items()}
    parameters = tuple(replace(one, name=names[one.name]) for one in parameters_of(kept))
    name, about = (random.choice(text.split("|")) for text in (alias.names, alias.abouts))
    if random.random() < OWN_SHARE:
        name, terse = kept, random.choice(["", f"Does {kept}", kept.replace("_", " ").capitalize()])
        about = terse if random.random() < TERSE_SHARE else about
    name = camel(name) if is_camel else name
    return Lent(Tool(name, about, schema_of(parameters, random), server), kept, names, parameters)


def parameters_of(kept: str) -> tuple[Parameter, ...]:
    """Those of the board's own tool."""
    return tuple(
        Parameter(name, kind, is_optional=name == "lines" or kept in ("get_disk", "list_files"))
        for name, (kind, _) in ALIASES[kept].parameters.items()
    )


def draw_name(names: str, random: Random) -> str:
    return word(random) if random.random() < INVENTED_SHARE else random.choice(names.split("|"))
