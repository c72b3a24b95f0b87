"""Try what a model can do with tools: `rkllm-chat doctor --model X --tools`.

PROBES are eighteen questions with invented tools, run as turns of the chat, greedily: eight need one call, six none and
four two. They are tried with each prompt profile that may suit the model; the best one is remembered for its file. With
it, CONVERSATIONS are held: a model that calls tools in single questions may stop after a few turns in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...backends.base import Backend
from ...calls.model_families import AUTO
from ...chat.answer import Answer
from ...chat.conversation import Conversation, find_profile
from ...chat.model_loading import load_model, remember_profile
from ...chat.turn import Turn
from ...config.policy import Policy
from ...config.settings import Settings
from ...core import i18n
from ...core.messages import Message, Tool, ToolResult
from ...core.protocols import ProgressCallback
from ...prompt.profiles import DEFAULT, select_profile
from .board import Finding

_MAX_TOKENS, _MAX_STEPS = 96, 4


def _tool(name: str, description: str, *required: str) -> Tool:
    properties = {key: {"type": "string"} for key in required}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name, description, schema, "probe", read_only=True, trusted=True)


# Tools with what their results say.
_TOOLS: tuple[tuple[Tool, str], ...] = (
    (_tool("get_weather", "Current weather in a city", "city"), "{city}: 7 degrees Celsius, fog"),
    (_tool("get_time", "Current time in a city", "city"), "It is 16:45 in {city}."),
    (
        _tool("convert_units", "Convert a value", "value", "from_unit", "to_unit"),
        "{value} {from_unit} = 44.6 {to_unit}",
    ),
    (_tool("get_contact", "Telephone number of a person", "name"), "{name}: 555-2918"),
    (_tool("read_note", "Read a note", "title"), "Note {title}: the door code is 8842."),
    (_tool("get_stock_price", "Price of a stock", "symbol"), "{symbol}: 61.30 USD"),
    (_tool("get_train", "Next train between two stations", "origin", "destination"), "The next train leaves at 18:12."),
    (_tool("count_files", "Number of files in a folder", "folder"), "The folder has 37 files."),
)


@dataclass(frozen=True)
class Probe:
    """A question.

    Attributes:
        question: The question.
        calls: The calls that it needs, in order: a tool, and a pattern that one of its arguments matches.
        answer: Pattern of what the answer contains.
    """

    question: str
    calls: tuple[tuple[str, str], ...] = ()
    answer: str = r"\w"


PROBES: tuple[Probe, ...] = (
    Probe("What is the weather in Bergen?", (("get_weather", "Bergen"),), r"\b7\b|fog"),
    Probe("What time is it in Lisbon?", (("get_time", "Lisbon"),), r"16:45|4:45"),
    Probe("What is the phone number of Ada Brandt?", (("get_contact", "Brandt"),), r"555.?2918"),
    Probe("Read the note door and tell me the code.", (("read_note", "door"),), "8842"),
    Probe("How much does a share of QRT cost?", (("get_stock_price", "QRT"),), r"61[.,]3"),
    Probe("When does the next train from Bonn to Ulm leave?", (("get_train", "Bonn|Ulm"),), r"18:12|6:12"),
    Probe("大阪の天気はどうですか？", (("get_weather", "大阪|[Oo]saka"),), "7|霧|fog"),
    Probe("文件夹 photos 里有多少个文件？", (("count_files", "photos"),), "37"),
    Probe("Hello!"),
    Probe("Thank you, that was all."),
    Probe("What is the capital of Italy?", answer="Rome"),
    Probe("Write a short poem about the sea."),
    Probe("Explain in one sentence what a computer is."),
    Probe("こんにちは"),
    Probe(
        "Look up the temperature in Bergen, then convert it from Celsius to Fahrenheit.",
        (("get_weather", "Bergen"), ("convert_units", "7")),
        r"44[.,]6",
    ),
    Probe("What time is it in Lisbon and in Quito?", (("get_time", "Lisbon"), ("get_time", "Quito"))),
    Probe("What do QRT and LMN cost?", (("get_stock_price", "QRT"), ("get_stock_price", "LMN"))),
    Probe("Read the note door, then tell me the weather in Rome.", (("read_note", "door"), ("get_weather", "Rome"))),
)


@dataclass(frozen=True)
class ProbeConversation:
    """A conversation whose last question is a probe.

    Attributes:
        name: What it tries.
        turns: What the user says before.
        probe: The last question.
        said: What the model is shown to have said to the last of `turns`; "" for what it says itself.
    """

    name: str
    turns: tuple[str, ...]
    probe: Probe
    said: str = ""


_HONEST = r"(?is)^(?!.*\d).*(\bno\b|\bnot\b|n't|fail|unable|unknown|error)"
CONVERSATIONS: tuple[ProbeConversation, ...] = (
    ProbeConversation(
        "calls a tool behind three turns in words",
        ("Hi, my name is Mira.", "Which is larger, a horse or a cat?", "Tell me a joke."),
        Probe("What is the weather in Bergen?", (("get_weather", "Bergen"),), r"\b7\b|fog"),
    ),
    ProbeConversation(
        "calls a tool where its last call was only announced",
        ("What time is it in Quito?",),
        Probe("And in Lisbon?", (("get_time", "Lisbon"),), r"16:45|4:45"),
        "To get the current time in Quito, you can use the get_time function with the city Quito.",
    ),
    ProbeConversation(
        "says that a call has failed",
        ("Hello!",),
        Probe("What is the weather in Atlantis?", (("get_weather", "Atlantis"),), _HONEST),
    ),
    ProbeConversation(
        "looks up the second half of a question",
        ("Hello!",),
        Probe(
            "What is the weather in Bergen, and what does the note door say?",
            (("get_weather", "Bergen"), ("read_note", "door")),
            "8842",
        ),
    ),
    ProbeConversation(
        "answers in the language of the question",
        ("こんにちは",),
        Probe("リスボンは今何時ですか？", (("get_time", "リスボン|Lisbon"),), r"(?s)(?=.*45)(?=.*[ぁ-ん])"),
    ),
)


@dataclass(frozen=True)
class Ability:
    """What a model did with the probes under one prompt profile: pairs of successes and tries.

    Attributes:
        profile: Name of the profile.
        calls: It called the right tool where one was needed.
        leaves_alone: It answered without a tool where none was needed.
        answers: It answered from the result.
        second_calls: It made both calls where two were needed.
    """

    profile: str
    calls: tuple[int, int]
    leaves_alone: tuple[int, int]
    answers: tuple[int, int]
    second_calls: tuple[int, int]

    @property
    def score(self) -> float:
        """Mean of the four shares."""
        shares = (self.calls, self.leaves_alone, self.answers, self.second_calls)
        return sum(right / tries for right, tries in shares) / len(shares)

    def describe(self) -> str:
        """Return the abilities in words."""
        texts = {
            "calls a tool when it should": self.calls,
            "leaves tools alone": self.leaves_alone,
            "answers from a result": self.answers,
            "makes a second call": self.second_calls,
        }
        return "; ".join(f"{text}: {right} of {tries}" for text, (right, tries) in texts.items())


class _ProbeTools:
    """A toolbox of the invented tools."""

    tools: Sequence[Tool] = tuple(tool for tool, _ in _TOOLS)

    async def call(self, tool: Tool, arguments: Mapping[str, Any], _on_progress: ProgressCallback) -> ToolResult:
        """Return the invented result; there is no Atlantis."""
        if "Atlantis" in arguments.values():
            return ToolResult(tool.server, tool.name, arguments, "failed", "There is no place Atlantis.")
        text = next(text for known, text in _TOOLS if known.name == tool.name)
        return ToolResult(tool.server, tool.name, arguments, "completed", text.format_map(arguments))


async def probe_tools(settings: Settings, state: Path, report: Callable[[str], None]) -> list[Finding]:
    """Try the model with each profile that may suit it, and remember the best one for its file.

    Args:
        settings: Settings that name the model.
        state: Directory of the program's state.
        report: Shows a line of progress.

    Raises:
        ModelError: The model cannot be loaded.
        GenerationError: The engine failed.
    """
    settings = replace(
        settings,
        generation=replace(settings.generation, temperature=0.0, max_tokens=_MAX_TOKENS, seed=1),
        max_steps=_MAX_STEPS,
        policy=Policy(allow=("*",)),
    )
    backend = await load_model(settings, state)
    try:
        own = select_profile(AUTO, "", backend.family)
        names = dict.fromkeys((own.name, find_profile(backend, settings).name, DEFAULT.name))
        tried: list[Ability] = []
        for name in names:
            tried.append(await _try_profile(backend, replace(settings, prompt_profile=name), report))
        best = max(tried, key=lambda ability: ability.score)
        failed = await _hold_conversations(backend, replace(settings, prompt_profile=best.profile), report)
    finally:
        await backend.aclose()
    remember_profile(settings, state, best.profile)
    held = f"{len(CONVERSATIONS) - len(failed)} of {len(CONVERSATIONS)}"
    lost = f"; not: {'; '.join(failed)}" if failed else ""
    lines = [Finding(f"profile {ability.profile}", "ok", ability.describe()) for ability in tried]
    advice = "" if best.score > 1 / 2 else "This model is weak with tools: a larger one of its family does better."
    lines.append(Finding("conversations", "warn" if failed else "ok", held + lost))
    return [*lines, Finding("prompt profile", "warn" if advice else "ok", f"{best.profile} from now on", advice)]


async def _try_profile(backend: Backend, settings: Settings, report: Callable[[str], None]) -> Ability:
    counts: dict[str, list[bool]] = {"calls": [], "leaves_alone": [], "answers": [], "second_calls": []}
    for number, probe in enumerate(PROBES, 1):
        report(f"{settings.prompt_profile}: {number} of {len(PROBES)}: {probe.question}")
        answer = await _ask(Conversation(backend, _ProbeTools(), settings, i18n.load()), probe.question)
        is_right, says_it = _judge(answer, probe)
        match len(probe.calls):
            case 0:
                counts["leaves_alone"].append(not answer.results and says_it)
            case 1:
                counts["calls"].append(is_right)
                counts["answers"].append(is_right and says_it)
            case _:
                counts["second_calls"].append(is_right)
    return Ability(settings.prompt_profile, **{key: (sum(good), len(good)) for key, good in counts.items()})


async def _hold_conversations(backend: Backend, settings: Settings, report: Callable[[str], None]) -> list[str]:
    """Hold the conversations and return the names of those whose last turn is not right."""
    failed: list[str] = []
    for number, conversation in enumerate(CONVERSATIONS, 1):
        report(f"conversation {number} of {len(CONVERSATIONS)}: {conversation.name}")
        chat = Conversation(backend, _ProbeTools(), settings, i18n.load())
        for line in conversation.turns:
            if conversation.said:
                chat.history += [Message("user", line), Message("assistant", conversation.said)]
            else:
                await _ask(chat, line)
        if not all(_judge(await _ask(chat, conversation.probe.question), conversation.probe)):
            failed.append(conversation.name)
    return failed


async def _ask(chat: Conversation, question: str) -> Answer:
    answer = Answer()
    async with aclosing(Turn(chat).run(question)) as events:
        async for event in events:
            answer.add(event)
    return answer


def _judge(answer: Answer, probe: Probe) -> tuple[bool, bool]:
    """Return whether the calls are those that the question needs, and whether the model says what it asks for."""
    made = [_is_call(result, *call) for result, call in zip(answer.results, probe.calls, strict=False)]
    is_right = len(made) == len(probe.calls) and all(made)
    return is_right, bool(re.search(probe.answer, answer.text)) and answer.end.answered_by != "result"


def _is_call(result: ToolResult, tool: str, pattern: str) -> bool:
    values = " ".join(map(str, result.arguments.values()))
    return result.tool == tool and bool(re.search(pattern, values))
