"""Measures a GGUF on phrasings and values that training never saw: `python models/tiny-tools/evaluate.py FILE`.

Every sample is one turn of the real chat, greedy, through llama.cpp; only the tools are played: whatever is called
answers with the sample's result, which is made up in the board server's wording.
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from dialogues import Sample, Scene, ask_board, board_tools, chat, refuse, scene_of
from random_tools import draw_tools
from rkllm_chat import language
from rkllm_chat.backends import open_backend
from rkllm_chat.chat import Backend, Chat
from rkllm_chat.config import Generation, Settings
from rkllm_chat.events import CallFound, CallGarbled, Event
from rkllm_chat.messages import Tool, ToolCall, ToolResult
from rkllm_chat.policy import Policy


def board_samples(random: Random) -> Iterator[Sample]:
    """Questions for the board's tools, the whole list given, each tool equally often."""
    while True:
        for tool in board_tools():
            yield ask_board(board_tools(), tool.name, random, held_out=True)


def refused_samples(random: Random) -> Iterator[Sample]:
    """Requests that no tool fits: the whole board, a part of it, and random lists."""
    while True:
        yield refuse(board_tools(), [], random, held_out=True)
        part = tuple(random.sample(board_tools(), random.randint(2, 6)))
        yield refuse(part, [], random, held_out=True)
        drawn = draw_tools(random, held_out=True)
        yield refuse(tuple(one.tool for one in drawn), drawn, random, held_out=True)


def talk_samples(random: Random) -> Iterator[Sample]:
    while True:
        yield chat(board_tools(), random, held_out=True)


def random_samples(random: Random) -> Iterator[Sample]:
    """Questions for tools drawn at random, their things and values unseen in training."""
    while True:
        sample = random_scene(random).ask(random, True)
        if sample.question.tool:
            yield sample


def simple_samples(random: Random) -> Iterator[Sample]:
    """The same for a list of one or two tools with at most one parameter."""
    while True:
        sample = random_scene(random).ask(random, True)
        simple = len(sample.tools) <= 2 and all(len(tool.schema["properties"]) <= 1 for tool in sample.tools)
        if sample.question.tool and simple:
            yield sample


def random_scene(random: Random) -> Scene:
    return scene_of([], draw_tools(random, held_out=True))


SAMPLES: dict[str, Callable[[Random], Iterator[Sample]]] = {
    "board": board_samples,
    "refused": refused_samples,
    "talk": talk_samples,
    "random": random_samples,
    "simple": simple_samples,
}


@dataclass(frozen=True)
class PlayedTools:
    """A toolbox in which every call gives the sample's result."""

    sample: Sample

    @property
    def tools(self) -> Sequence[Tool]:
        return self.sample.tools

    async def call(self, tool: Tool, arguments: Mapping[str, Any], _on_progress: Callable[..., None]) -> ToolResult:
        status = "completed" if self.sample.worked else "failed"
        return ToolResult(tool.server, tool.name, arguments, status, self.sample.result)


async def judge(backend: Backend, settings: Settings, sample: Sample) -> tuple[dict[str, bool], str]:
    """What was right about one turn, and what the model said in it."""
    talk = Chat(backend, PlayedTools(sample), settings, language.load())
    calls = [event async for event in events_of(talk, sample) if isinstance(event, CallFound | CallGarbled)]
    said = [message.text for message in talk.history if message.role == "assistant"]
    question = sample.question
    if question.tool is None:
        return {"no call": not calls, "expected words": said == [sample.answer]}, " => ".join(said)
    wanted = ToolCall(question.tool, question.arguments)
    names = [call.call.name for call in calls if isinstance(call, CallFound)]
    return {
        "exact call": calls == [CallFound(wanted)],
        "right tool": names[:1] == [question.tool],
        "answer contains the result": sample.result in said[-1],
    }, " => ".join(said)


async def events_of(talk: Chat, sample: Sample) -> AsyncGenerator[Event, None]:
    async with aclosing(talk.send(sample.question.said)) as happened:
        async for event in happened:
            yield event


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--count", type=int, default=500, help="samples of each category")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--category", choices=SAMPLES, action="append")
    parser.add_argument("--failures", type=Path, help="a file that gets one JSON line for each failure")
    options = parser.parse_args()
    settings = Settings(
        model=str(options.model),
        max_steps=3,
        generation=Generation(temperature=0.0, max_tokens=600),
        policy=Policy(approve="all"),
    )
    names = options.category or SAMPLES
    samples = {name: list(islice(SAMPLES[name](Random(options.seed)), options.count)) for name in names}
    lines = asyncio.run(evaluate_all(settings, samples))
    if options.failures:
        options.failures.write_text(lines, encoding="utf-8")


async def evaluate_all(settings: Settings, samples: Mapping[str, Sequence[Sample]]) -> str:
    """Prints the figures of each category; gives the failures as JSON lines."""
    backend = open_backend(settings)
    try:
        return "".join([await evaluate(backend, settings, *category) for category in samples.items()])
    finally:
        await backend.aclose()


async def evaluate(backend: Backend, settings: Settings, category: str, samples: Sequence[Sample]) -> str:
    counts: Counter[str] = Counter()
    failures = ""
    for sample in samples:
        right, said = await judge(backend, settings, sample)
        counts.update({name: int(is_right) for name, is_right in right.items()})
        if not all(right.values()):
            failures += describe(category, sample, said)
    shares = ", ".join(f"{name} {100 * count / len(samples):.1f} %" for name, count in counts.items())
    print(f"{category}: {shares} ({len(samples)} samples)", flush=True)
    return failures


def describe(category: str, sample: Sample, said: str) -> str:
    question = sample.question
    wanted = [question.tool, question.arguments, sample.answer]
    tools = "" if len(sample.tools) > 5 else str([tool.name for tool in sample.tools])
    return json.dumps([category, question.said, wanted, said, tools], ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
