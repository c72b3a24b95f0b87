"""Long lists as the chat tells them: a catalogue first, with each question how those tools are called that may help.

The words, the lines and the ranking are the product's own; only how much fits is drawn here, for there is no engine to
count. It knows no question and no training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from exchanges import WORDS, Exchange, Step, Told
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.tool_names import DESCRIBE, shown_names
from rkllm_chat.chat.tool_selection import make_name_lines, skip_visible_signatures
from rkllm_chat.core.messages import Tool
from rkllm_chat.prompt.tool_catalogue import Catalogue, Level, make_catalogue
from rkllm_chat.prompt.tool_listing import render_tool
from rkllm_chat.prompt.tool_ranking import ToolIndex, select_few_tools

LEVELS: dict[Level, float] = {"about": 6, "names": 2}
SERVERS_SHARE = 0.97
"""Of all lists. What may help is then found by the product's ranking, and stands beside the question, the likeliest
first; finding a tool in a whole list was not learnt by this network in 14 million tokens."""
CHARACTERS = (300, 900)
"""What the lines with a question may take: an eighth of a window of 2,048 tokens, and what is around that."""
HELPED_SHARE, MISSED_SHARE = 0.8, 0.12
"""How often the right tool is among the likeliest in any case, as the ranking finds it for most questions of people;
and how often it is not, so that it must be asked for by its name. A list that says no names leaves nothing to ask for:
there the right tool is always among them."""


def draw_level(tools: Sequence[Tool], random: Random) -> Level:
    """How a list stands in the system text: mostly by its servers alone, without signatures; else in full, or,
    the longer it is the more often, as a richer catalogue."""
    if random.random() < SERVERS_SHARE:
        return "servers"
    if random.random() > 0.05 * len(tools) - 0.1:
        return "full"
    return random.choices(list(LEVELS), list(LEVELS.values()))[0]


def catalogue_at(level: Level, tools: Sequence[Tool], form: str) -> Catalogue:
    return make_catalogue(tools, WORDS, FORMATS[form], 0, lambda _text: 1, (level,))


class Telling:
    """What was told of a list in one conversation, question by question.

    `lines`: shown name -> how a tool is called; `has_names`: whether the catalogue says what tools there are.
    """

    def __init__(self, lines: Mapping[str, str], index: ToolIndex, has_names: bool, random: Random) -> None:
        self.lines, self.index, self.has_names, self.random = lines, index, has_names, random
        self.names = {id(tool): name for name, tool in shown_names(index.tools).items()}
        self.short = make_name_lines(lines)
        self.room = random.randint(*CHARACTERS)
        self.told: set[str] = set()

    def tell(self, exchange: Exchange) -> tuple[Exchange, tuple[str, ...]]:
        """The exchange with what must be asked first, and the lines that come with its question."""
        wanted = [name for step in exchange.steps if not step.is_wrong for name, _ in step.calls]
        known = [name for name in dict.fromkeys(wanted) if name in self.lines]
        likely = self.likeliest(exchange.said, known)
        told = skip_visible_signatures(likely, self.told, self.short)
        self.told |= set(likely)
        asked = [self.describe(name) for name in known if self.lines[name] not in self.told]
        return replace(exchange, steps=(*asked, *exchange.steps)), told

    def likeliest(self, said: str, wanted: Sequence[str]) -> list[str]:
        is_missed = self.has_names and self.random.random() < MISSED_SHARE
        is_helped = not self.has_names or (not is_missed and self.random.random() < HELPED_SHARE)
        helped = wanted if is_helped else []
        ranked = [self.names[id(tool)] for tool in select_few_tools(self.index, said, {})]
        chosen: list[str] = []
        for name in dict.fromkeys([*ranked[:1], *helped, *ranked[1:]]):
            if is_missed and name in wanted:
                continue
            if chosen and sum(map(len, chosen)) + len(self.lines[name]) > self.room and name not in helped:
                break
            chosen.append(self.lines[name])
        return chosen

    def describe(self, name: str) -> Step:
        """A question to the chat how a tool is called, and its answer."""
        line = self.lines[name]
        self.told.add(line)
        text = "\n".join([WORDS("prompt.may_help"), line])
        return Step(((DESCRIBE, {"name": name}),), (Told(text),))


def lines_of(tools: Sequence[Tool], form: str) -> dict[str, str]:
    return {name: render_tool(name, tool, FORMATS[form]) for name, tool in shown_names(tools).items()}
