"""Puts samples together: a list of tools and conversations about it, written in the prompt of the chat itself.

The words of the prompt come from `rkllm_chat`, the descriptions from its board server; nothing is copied here.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

from board_questions import Question, board_question
from board_results import board_result
from random_tools import Drawn, draw_tool, draw_tools, random_question, random_result
from rkllm_chat.bundled.board.server import build_server
from rkllm_chat.formats import show_json
from rkllm_chat.messages import Message, Tool, ToolResult
from rkllm_chat.prompt import compose
from rkllm_chat.templates import Piece, render_chatml
from talk import JAPANESE_REFUSAL, REFUSAL, hopeless, small_talk
from vocabulary import place, word

CALL_ONLY_SHARE = 0.6
LEAD, JAPANESE_LEAD = "Here it is:\n", "結果はこちらです。\n"

# The system message of the whole board list that the shipped model was trained with; export.py stores it in the GGUF.
PROMPT_SHA256 = "b762fe4466801a5f87c92b2faba428183fdf4ba3439a712ce0bf85957475683f"


@dataclass(frozen=True)
class Sample:
    """One question about a list of tools: the call that is right (None: no call) and what is answered in the end."""

    tools: tuple[Tool, ...]
    question: Question
    result: str
    worked: bool
    answer: str


@dataclass(frozen=True)
class Scene:
    """A list of tools, and what makes one more question about it."""

    tools: tuple[Tool, ...]
    ask: Callable[[Random, bool], Sample]


@cache
def board_tools() -> tuple[Tool, ...]:
    """The tools of the board server as it lists them."""
    listed = asyncio.run(build_server(Path()).list_tools())
    return tuple(Tool(tool.name, tool.description or "", tool.input_schema, "board") for tool in listed)


def board_prompt_sha256() -> str:
    """The fingerprint of the system message that the chat composes for the whole board list now."""
    return hashlib.sha256(compose([], board_tools())[0].text.encode("utf-8")).hexdigest()


def draw_scene(random: Random, held_out: bool = False) -> Scene:
    """A list of tools, half of the time the board's, whole or in part."""
    makers = [whole_board, board_and_more, part_of_board, only_random_tools, no_tools]
    make = random.choices(makers, [32, 9, 11, 46, 2])[0]
    return make(random, held_out)


def whole_board(_random: Random, _held_out: bool) -> Scene:
    return scene_of(board_tools(), [])


def board_and_more(random: Random, held_out: bool) -> Scene:
    """The board's tools beside those of a server of somebody's own, which is listed before or behind."""
    server = word(random)
    own = [replace(one, tool=replace(one.tool, server=server)) for one in draw_tools(random, held_out)[:3]]
    return scene_of(board_tools(), own)


def part_of_board(random: Random, held_out: bool) -> Scene:
    """Some tools of the board, in another order (the order follows the servers' names), at times beside others."""
    chosen = random.sample(board_tools(), random.randint(1, len(board_tools())))
    renamed = [Tool(tool.name, tool.description, tool.schema, word(random)) for tool in chosen]
    return scene_of(renamed, draw_tools(random, held_out)[:3] if random.random() < 0.4 else [])


def only_random_tools(random: Random, held_out: bool) -> Scene:
    return scene_of([], draw_tools(random, held_out))


# What has most to copy is hardest, and asked for more often.
ASKED_OFTEN = {"read_file": 5, "list_files": 2, "calculate": 2}


def no_tools(_random: Random, _held_out: bool) -> Scene:
    return scene_of([], [])


def scene_of(board: Sequence[Tool], drawn: Sequence[Drawn]) -> Scene:
    tools = (*board, *(one.tool for one in drawn))

    def ask(random: Random, held_out: bool) -> Sample:
        kind = random.random()
        if kind < 0.1:
            return chat(tools, random, held_out)
        if kind < 0.24 or not tools:
            return refuse(tools, drawn, random, held_out)
        if drawn and (not board or random.random() < 0.5):
            return ask_random(tools, random.choice(drawn), random, held_out)
        weights = [ASKED_OFTEN.get(tool.name, 1) for tool in board]
        return ask_board(tools, random.choices(board, weights)[0].name, random, held_out)

    return Scene(tools, ask)


def ask_board(tools: tuple[Tool, ...], tool: str, random: Random, held_out: bool) -> Sample:
    question = board_question(tool, random, held_out)
    text, worked = board_result(tool, question.arguments, random)
    return Sample(tools, question, text, worked, answer_with(text, question))


def ask_random(tools: tuple[Tool, ...], drawn: Drawn, random: Random, held_out: bool) -> Sample:
    question = random_question(drawn, random, held_out)
    text, worked = random_result(drawn, dict(question.arguments), random)
    return Sample(tools, question, text, worked, answer_with(text, question))


def answer_with(result: str, question: Question) -> str:
    """The result whole, behind a short lead where it has several lines or the question was Japanese."""
    if question.japanese:
        return JAPANESE_LEAD + result
    return LEAD + result if "\n" in result else result


def chat(tools: tuple[Tool, ...], random: Random, held_out: bool) -> Sample:
    said, answer = small_talk(random, held_out)
    return Sample(tools, Question(said, None, {}), "", True, answer)


def refuse(tools: tuple[Tool, ...], drawn: Sequence[Drawn], random: Random, held_out: bool) -> Sample:
    """A request that none of the tools fits: something else altogether, or a tool that is not in this list."""
    names = {tool.name for tool in tools}
    things = {part for one in drawn for part in one.thing.split()}
    missing = [tool.name for tool in board_tools() if tool.name not in names]
    while True:
        said, japanese = misfit(missing, bool(drawn), random, held_out)
        if not any(thing in said.lower() for thing in things):
            answer = JAPANESE_REFUSAL if japanese else REFUSAL
            return Sample(tools, Question(said, None, {}, japanese), "", True, answer)


def misfit(missing: Sequence[str], beside_random: bool, random: Random, held_out: bool) -> tuple[str, bool]:
    kind = random.random()
    if missing and kind < 0.35:
        question = board_question(random.choice(missing), random, held_out)
    elif kind < (0.7 if beside_random else 0.55):
        question = random_question(draw_tool(random, held_out), random, held_out)
    else:
        said, answer = hopeless(random, held_out)
        return said, answer == JAPANESE_REFUSAL
    return question.said, question.japanese


def follow_up(tools: tuple[Tool, ...], before: Sample, random: Random) -> Sample | None:
    """ "And in Oslo?" behind a question for the time, now and then."""
    if before.question.tool != "get_time" or before.question.japanese or random.random() < 0.6:
        return None
    value = place(random)
    said = random.choice(["and in {}?", "And in {}?", "what about {}?", "And {}?", "and {}", "How about {}?", "in {}?"])
    question = Question(said.format(value), "get_time", {"place": value})
    text, worked = board_result("get_time", question.arguments, random)
    return Sample(tools, question, text, worked, answer_with(text, question))


def conversation(scene: Scene, random: Random) -> list[Message]:
    """One to four questions one after the other, as the history of the chat keeps them."""
    history: list[Message] = []
    sample: Sample | None = None
    for _ in range(random.choices([1, 2, 3, 4], [12, 3, 1.5, 0.7])[0]):
        sample = (follow_up(scene.tools, sample, random) if sample else None) or scene.ask(random, False)
        history += turn_of(sample)
    # Which tool to call is harder to learn than copying its result: many talks end with the call, so more fit a row.
    ends_with_call = random.random() < CALL_ONLY_SHARE and len(history) > 2 and history[-2].role == "tool"
    return history[:-2] if ends_with_call else history


def turn_of(sample: Sample) -> list[Message]:
    """What one sample adds to the history: the question, the call and its result if there is one, the answer."""
    question = sample.question
    asked, answered = Message("user", question.said), Message("assistant", sample.answer)
    if question.tool is None:
        return [asked, answered]
    status = "completed" if sample.worked else "failed"
    result = ToolResult("", question.tool, question.arguments, status, sample.result)
    call = Message("assistant", show_json(question.tool, question.arguments))
    return [asked, call, Message("tool", sample.result, result), answered]


def pieces_of(history: Sequence[Message], tools: Sequence[Tool]) -> list[Piece]:
    """The prompt as the chat writes it, up to the answer that the model is to give next."""
    return render_chatml(compose(history, tools))
