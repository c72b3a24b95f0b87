"""What a model is measured on: questions that training never saw, by goal; and 200 about the tools of real servers.

`evaluate.py` asks them. It knows no model.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from board_list import board_tools
from dialogues import ask_board_tool, draw_turn, refuse, talk
from exchanges import Exchange, Step, Told, answer_with
from invented import Made
from rkllm_chat.core.messages import Message, Tool
from saying import draw_language
from scenes import FORMS, Scene, draw_scene
from turns import ask_in_chain, ask_two, called
from written import Item

QUESTIONS = Path(__file__).with_name("real_questions.tsv")
REAL_TOOLS = Path(__file__).parents[2] / "tests" / "real_tools.json"
MOST_CHARACTERS = 3600
"""Of a late question's prompt: about 1,800 tokens."""


@dataclass(frozen=True)
class Sample:
    """One question about a list of tools, in one form of calls, after a history."""

    tools: tuple[Tool, ...]
    exchange: Exchange
    form: str = "json"
    history: tuple[Message, ...] = ()


def drawn(random: Random, most_tools: int = 12) -> Scene:
    """A list of unseen tools that has any."""
    while True:
        scene = draw_scene(random, True, most_tools)
        if scene.items and not scene.board:
            return scene


def one_call(named: bool, plain: bool = False) -> Callable[[Random], Iterator[Sample]]:
    """Calls of unseen tools, the values told by name, or by type and position alone; `plain` ones are of invented tools
    whose parameters are called by what they hold."""

    def draw(random: Random) -> Iterator[Sample]:
        while True:
            scene = drawn(random)
            items = [one for one in scene.items if has_plain_names(one) or not plain]
            if not items:
                continue
            item = random.choice(items)
            question = item.ask(random, draw_language(random, True), True, named)
            if question.style in (("named", "words") if named else ("unnamed", "written")):
                yield Sample(scene.tools, called(item, question, random), scene.form)

    return draw


def has_plain_names(item: Item) -> bool:
    return isinstance(item, Made) and not any(one.is_invented for one in item.parameters)


def joined(ask: Callable[..., Exchange | None], named: bool = False) -> Callable[[Random], Iterator[Sample]]:
    """Questions of two calls, told as they come, or, of invented tools, all values by name."""

    def draw(random: Random) -> Iterator[Sample]:
        while True:
            scene = drawn(random)
            items = [one for one in scene.items if isinstance(one, Made) or not named]
            exchange = ask(items, random, draw_language(random, True), True, named or None) if items else None
            if exchange:
                yield Sample(scene.tools, exchange, scene.form)

    return draw


def refused(random: Random) -> Iterator[Sample]:
    """Requests that no tool fits: unseen lists, the whole board, and a part of it."""
    while True:
        scene = drawn(random)
        yield Sample(scene.tools, refuse(scene, random, True).exchange, scene.form)
        part = tuple(random.sample(board_tools(), random.randint(2, 6)))
        for board in (Scene(board_tools(), ()), Scene(part, ())):
            yield Sample(board.tools, refuse(board, random, True).exchange)


def small_talk(random: Random) -> Iterator[Sample]:
    while True:
        scene = drawn(random)
        yield Sample(scene.tools, talk(scene, random, True).exchange, scene.form)
        yield Sample(board_tools(), talk(scene, random, True).exchange)


def board(random: Random) -> Iterator[Sample]:
    """Questions for the board's tools, the whole list given, each tool equally often."""
    while True:
        for tool in board_tools():
            yield Sample(board_tools(), ask_board_tool(tool.name, random, True).exchange)


def late(random: Random) -> Iterator[Sample]:
    """A question late in a talk of up to twenty turns, the prompt up to 1,800 tokens long."""
    while True:
        scene = drawn(random, 4)
        history: list[Message] = []
        turn = draw_turn(scene, random, True)
        for _ in range(19):
            more = [message for message, _ in turn.exchange.messages(scene.tools, scene.form)]
            if len(scene.head.text) + sum(len(one.text) + 60 for one in (*history, *more)) > MOST_CHARACTERS:
                break
            history += more
            turn = draw_turn(scene, random, True, turn)
        if turn.exchange.steps and not turn.exchange.steps[0].is_wrong:
            yield Sample(scene.tools, turn.exchange, scene.form, tuple(history))


def real(_random: Random) -> Iterator[Sample]:
    """The written questions, each with the whole list of its server, once in each form of calls."""
    lists = {
        server: tuple(Tool(one["name"], one["description"], one["inputSchema"], server) for one in tools)
        for server, tools in json.loads(REAL_TOOLS.read_text(encoding="utf-8")).items()
    }
    for form in FORMS:
        for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
            server, said, tool, arguments = line.split("\t")
            told = Told(f"{tool} of {server} is done.")
            step = Step(((tool, json.loads(arguments)),), (told,))
            language = "en" if said.isascii() else "ja" if any("\u3040" <= one <= "\u30ff" for one in said) else "zh"
            exchange = Exchange(said, (step,), answer_with([told.text], language), language, "real")
            yield Sample(lists[server], exchange, form)


SAMPLES: dict[str, Callable[[Random], Iterator[Sample]]] = {
    "named": one_call(named=True),
    "unnamed": one_call(named=False),
    "unnamed plain": one_call(named=False, plain=True),
    "real": real,
    "two": joined(ask_two),
    "chain": joined(ask_in_chain),
    "two named": joined(ask_two, named=True),
    "chain named": joined(ask_in_chain, named=True),
    "late": late,
    "refused": refused,
    "talk": small_talk,
    "board": board,
}


def draw_samples(category: str, count: int) -> list[Sample]:
    """The same ones each time; fewer where there are no more."""
    return list(islice(SAMPLES[category](Random(f"measured {category}")), count))
