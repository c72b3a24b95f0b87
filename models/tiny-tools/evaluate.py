"""Measures a GGUF by the goals it was made for: `python models/tiny-tools/evaluate.py FILE`.

Every sample is one turn of the real chat, greedy, through llama.cpp; only the tools are played: whatever is called
answers with the sample's results. `--constrained both` measures twice. With `--out FILE` each outcome is kept as a
line, and the same command goes on where it was stopped.
"""

import argparse
import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rkllm_chat.backends import open_backend
from rkllm_chat.backends.base import Backend
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.core.errors import GenerationError
from rkllm_chat.core.events import CallFound, CallUnreadable, Event, ToolStarted
from rkllm_chat.core.messages import Message, Tool, ToolResult
from samples import SAMPLES, Sample, draw_samples

GOALS = {
    "named": 95, "unnamed": 85, "unnamed plain": 85, "real": 85, "two": 85, "chain": 85, "two named": 85,
    "chain named": 85, "refused": 95, "talk": 95, "board": 95,
}  # fmt: skip
MOST_TOKENS = 600


@dataclass
class PlayedTools:
    """A toolbox in which the calls give the sample's results, one after the other."""

    sample: Sample
    called: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list[tuple[str, Mapping[str, Any]]])

    @property
    def tools(self) -> Sequence[Tool]:
        return self.sample.tools

    async def call(self, tool: Tool, arguments: Mapping[str, Any], _on_progress: Callable[..., None]) -> ToolResult:
        told = [one for step in self.sample.exchange.steps for one in step.told]
        self.called.append((tool.name, arguments))
        one = told[min(len(self.called), len(told)) - 1] if told else None
        text, worked = (one.text, one.worked) if one else ("There is nothing.", False)
        return ToolResult(tool.server, tool.name, arguments, "completed" if worked else "failed", text)


async def judge(backend: Backend, settings: Settings, sample: Sample) -> tuple[dict[str, bool], str]:
    """What was right about one turn, and what the model said in it."""
    talk = Conversation(backend, PlayedTools(sample), replace(settings, tool_format=sample.form), language.load())
    talk.restore(list(sample.history))
    try:
        events = [event async for event in events_of(talk, sample)]
    except GenerationError as error:  # a list that this window does not hold
        return {"exact call": False, "right tool": False}, str(error)
    said = [message.text for message in talk.history[len(sample.history) :] if message.role == "assistant"]
    tried = [event for event in events if isinstance(event, CallFound | CallUnreadable)]
    ran = [(event.call.name, dict(event.call.arguments)) for event in events if isinstance(event, ToolStarted)]
    wanted = [(name, dict(arguments)) for step in sample.exchange.steps for name, arguments in step.calls]
    if not wanted:
        return {"no call": not tried, "expected words": said == [sample.exchange.answer]}, " => ".join(said)
    right = {
        "exact call": ran == wanted and len(tried) == len(wanted),
        "right tool": [name for name, _ in ran[:1]] == [wanted[0][0]],
        "all tools told": are_told([name for name, _ in wanted], talk.history),
    }
    if right["exact call"]:
        right["answer contains the result"] = body_of(sample) in said[-1]
    return right, " => ".join(said)


def are_told(names: Sequence[str], history: Sequence[Message]) -> bool:
    """Whether the ranking chose all of these for the last question."""
    asked = next(message for message in reversed(history) if message.role == "user")
    lines = asked.tool_lines
    return all(any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", line) for line in lines) for name in names)


def body_of(sample: Sample) -> str:
    """The expected answer without its lead."""
    exchange = sample.exchange
    _, _, behind = exchange.answer.partition("\n")
    return behind if exchange.answer.count("\n") and behind else exchange.answer


def values_in(sample: Sample) -> int:
    return sum(len(arguments) for step in sample.exchange.steps for _, arguments in step.calls)


async def events_of(talk: Conversation, sample: Sample) -> AsyncGenerator[Event, None]:
    async with aclosing(Turn(talk).run(sample.exchange.said)) as happened:
        async for event in happened:
            yield event


def main() -> None:
    options = read_options()
    switches = {"on": [True], "off": [False], "both": [False, True]}[options.constrained]
    kept = read_kept(options.out)
    base = Settings(
        model=str(options.model),
        max_steps=4,
        generation=Generation(temperature=0.0, max_tokens=MOST_TOKENS),
        policy=Policy(approve="all"),
    )
    counts = {name: options.count if name != "real" else 10**6 for name in options.category or SAMPLES}
    samples = {name: draw_samples(name, count) for name, count in counts.items()}
    asyncio.run(evaluate_all(options, [replace(base, constrained=switch) for switch in switches], samples, kept))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--count", type=int, default=100, help="samples of each category; 500 for a claim")
    parser.add_argument("--category", choices=SAMPLES, action="append")
    parser.add_argument("--constrained", choices=("on", "off", "both"), default="off", help="calls held to a grammar")
    parser.add_argument("--out", type=Path, help="keeps each outcome as a JSON line, and goes on from there")
    return parser.parse_args()


def read_kept(path: Path | None) -> dict[tuple[str, int, bool], dict[str, bool]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
    known = (json.loads(line) for line in lines)
    return {(one["category"], one["index"], one["constrained"]): one["right"] for one in known}


async def evaluate_all(
    options: argparse.Namespace,
    settings: Sequence[Settings],
    samples: Mapping[str, Sequence[Sample]],
    kept: Mapping[tuple[str, int, bool], dict[str, bool]],
) -> None:
    backend = open_backend(settings[0])
    try:
        for one in settings:
            for category, drawn in samples.items():
                await evaluate(backend, one, category, drawn, options.out, kept)
    finally:
        await backend.aclose()


async def evaluate(
    backend: Backend,
    settings: Settings,
    category: str,
    samples: Sequence[Sample],
    out: Path | None,
    kept: Mapping[tuple[str, int, bool], dict[str, bool]],
) -> None:
    """Prints the figures of one category, of its forms and languages, and by how many values the calls have in all."""
    counts: dict[str, dict[str, Counter[bool]]] = {}
    for index, sample in enumerate(samples):
        right = kept.get((category, index, settings.constrained))
        if right is None:
            right, said = await judge(backend, settings, sample)
            keep(out, category, index, settings.constrained, sample, right, said)
        groups = ["", sample.form, sample.exchange.language, f"with {values_in(sample)} values"]
        for group in groups + ["where told"] * right.get("all tools told", False):
            for name, is_right in right.items():
                counts.setdefault(group, {}).setdefault(name, Counter()).update([is_right])
    goal = f", goal {GOALS[category]} %" if category in GOALS else ""
    print(f"{category}{' (constrained)' if settings.constrained else ''}: {len(samples)} samples{goal}")
    for group, named in sorted(counts.items()):
        shares = (f"{name} {100 * one[True] / one.total():.1f} % of {one.total()}" for name, one in named.items())
        print(f"  {group or 'all'}: {', '.join(shares)}", flush=True)


def keep(
    path: Path | None,
    category: str,
    index: int,
    is_constrained: bool,
    sample: Sample,
    right: dict[str, bool],
    said: str,
) -> None:
    if not path:
        return
    exchange = sample.exchange
    line = {
        "category": category,
        "index": index,
        "constrained": is_constrained,
        "right": right,
        "form": sample.form,
        "asked": exchange.said,
        "wanted": [call for step in exchange.steps for call in step.calls],
        "answer": exchange.answer,
        "said": said,
        "tools": [tool.name for tool in sample.tools],
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
