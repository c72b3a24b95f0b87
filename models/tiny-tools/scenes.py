"""Lists of tools that conversations are about: the board's, servers made up, written by hand or lent, or several."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

from board_list import board_tools
from catalogued import Level, catalogue_at, draw_level, lines_of
from invented import Made, invent_server, is_apart
from lent import lent_server
from misfits import things_of
from rkllm_chat.core.messages import Message, Tool
from rkllm_chat.prompt.chat_templates import render_chatml
from rkllm_chat.prompt.compose import compose_prompt
from rkllm_chat.prompt.pieces import Piece
from rkllm_chat.prompt.tool_ranking import ToolIndex
from vocabulary import word
from written import Item, written_server

LENT_SHARE = 0.7
"""Of lists with a part of the board, those that other servers have under other names."""
FORMS = {"json": 5, "hermes": 2.5, "xml": 2.5}
TRAINED_FORMS = {"json": 3.5, "hermes": 2, "xml": 4.5}
SIZES = ([1, 2, 3, 4, 5, 6, 8, 10, 12], [5, 8, 9, 9, 8, 7, 5, 2, 2])


@dataclass(frozen=True)
class Scene:
    """A list of tools, the form that calls are asked for in, and what people know of each tool.

    `board` are tools of the board, `items` all others, `missing` those that are not in the list.
    """

    board: tuple[Tool, ...]
    items: tuple[Item, ...]
    missing: tuple[Item, ...] = ()
    form: str = "json"
    level: Level = "full"

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        return (*self.board, *(one.tool for one in self.items))

    @cached_property
    def head(self) -> Message:
        """The system message; composed once, as disarming a long list takes a while."""
        return compose_prompt([], (), tool_format=self.form, catalogue=catalogue_at(self.level, self.tools, self.form))[
            0
        ]

    @cached_property
    def lines(self) -> dict[str, str]:
        return lines_of(self.tools, self.form)

    @cached_property
    def index(self) -> ToolIndex:
        return ToolIndex(self.tools)

    def pieces(self, history: Sequence[Message]) -> list[Piece]:
        """The prompt as the chat writes it, up to the answer that the model is to give next."""
        return render_chatml([self.head, *compose_prompt(history, (), tool_format=self.form)[1:]])


def draw_scene(random: Random, held_out: bool = False, most_tools: int = 12) -> Scene:
    """A list of tools: the board's, servers made up or written by hand, or several servers."""
    makers = [whole_board, part_of_board, invented_only, written_only, mixed, no_tools]
    make = random.choices(makers, [15, 12, 35, 26, 12, 2] if held_out else [16, 22, 31, 20, 9, 2])[0]
    size = min(most_tools, random.choices(*SIZES)[0])
    scene = make(random, size, held_out)
    scene = replace(scene, items=unlike(scene.items, scene.board))
    scene = replace(scene, missing=tuple(one for one in scene.missing if not could_be(one, scene.items)))
    scene = replace(scene, form="json" if scene.board and random.random() < 0.7 else draw_form(random, held_out))
    return replace(scene, level=draw_level(scene.tools, random))


def draw_form(random: Random, held_out: bool) -> str:
    shares = FORMS if held_out else TRAINED_FORMS
    return random.choices(list(shares), list(shares.values()))[0]


def whole_board(random: Random, _size: int, held_out: bool) -> Scene:
    """All tools of the board, now and then beside those of another server."""
    more = invent_server(random, random.randint(1, 3), held_out) if random.random() < 0.3 else []
    return Scene(board_tools(), tuple(more))


def part_of_board(random: Random, size: int, held_out: bool) -> Scene:
    """Some tools of the board, in another order (the order follows the servers' names), at times beside others; in
    training mostly as other servers have them."""
    if not held_out and random.random() < LENT_SHARE:
        return Scene((), (*lent_server(random, size), *invent_server(random, random.choice([0, 0, 3]), held_out)))
    chosen = random.sample(board_tools(), random.randint(1, min(size, len(board_tools()))))
    renamed = [Tool(tool.name, tool.description, tool.schema, word(random)) for tool in chosen]
    more = invent_server(random, 3, held_out) if random.random() < 0.4 else []
    return Scene(tuple(renamed), tuple(more))


def invented_only(random: Random, size: int, held_out: bool) -> Scene:
    drawn = invent_server(random, size + 1, held_out)
    return Scene((), tuple(drawn[:size]), tuple(drawn[size:]))


def written_only(random: Random, size: int, held_out: bool) -> Scene:
    drawn = written_server(random, size + 1, held_out)
    return Scene((), tuple(drawn[:size]), tuple(drawn[size:]))


def mixed(random: Random, size: int, held_out: bool) -> Scene:
    """Tools of several servers."""
    items: list[Item] = []
    while len(items) < size:
        make = random.choice([invent_server, written_server])
        items += make(random, random.randint(1, max(1, size - len(items))), held_out)
    return Scene((), tuple(items[:size]))


def no_tools(_random: Random, _size: int, _held_out: bool) -> Scene:
    return Scene((), ())


def unlike(items: Sequence[Item], board: Sequence[Tool]) -> tuple[Item, ...]:
    """Those whose names are their own, and which are about other things than the tools of other servers."""
    kept: list[Item] = []
    for one in items:
        others = [tool for tool in (*board, *(item.tool for item in kept)) if tool.server != one.tool.server]
        names = {tool.name for tool in (*board, *(item.tool for item in kept))}
        if one.tool.name not in names and "tide" not in one.tool.name and not things_of(others) & things_of([one.tool]):
            kept.append(one)
    return tuple(kept)


def could_be(missing: Item, items: Sequence[Item]) -> bool:
    """Whether a request for a tool that is not in the list could mean one that is."""
    if not isinstance(missing, Made):
        return False
    thing = missing.noun.english.split()[-1]
    near = [one.verb.key for one in items if isinstance(one, Made) and one.noun.english.split()[-1] == thing]
    return not is_apart(missing.verb.key, near)
