"""llama.cpp held to the tools' schemas while it writes a call: the GGUF that ships, real tokens."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import llama_cpp
import numpy
import pytest
from jsonschema import Draft202012Validator

from bench.constrained import QUESTIONS, TOOLS, judge, judge_calls
from calls.grammar import KINDS
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.engine import get_log_callback
from rkllm_chat.backends.llama.grammar_sampler import CallConstraint, CallProhibition, Constraint, read_vocabulary
from rkllm_chat.calls.arguments import validate_arguments
from rkllm_chat.calls.formats import select_formats
from rkllm_chat.calls.grammar import (
    GRAMMARS,
    CallGrammar,
    NoCalls,
    build_call_grammar,
    build_reply_grammar,
    forbid_calls,
    require_call,
)
from rkllm_chat.calls.scanner import Scanner
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.core.events import CallFound, Usage
from rkllm_chat.core.messages import Message, Tool
from rkllm_chat.prompt.compose import compose_prompt
from stage import FakeToolbox, collect

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]
GREEDY = Generation(temperature=0, max_tokens=120)
GRAMMAR = build_call_grammar(TOOLS, "json")
CALLS, FEWER = 8, 3
PROMPT_END = "assistant\n"


@pytest.fixture(scope="module")
def llama(shipped_model: Path) -> Iterator[LlamaBackend]:
    backend = LlamaBackend(shipped_model, 0)
    yield backend
    asyncio.run(backend.aclose())


def write(
    backend: LlamaBackend, prompt: Sequence[Message], grammar: CallGrammar | NoCalls | None, wanted: Generation = GREEDY
) -> tuple[str, Usage]:
    async def listen() -> tuple[str, Usage]:
        items = [item async for item in backend.stream(prompt, wanted, (), grammar)]
        (usage,) = [item for item in items if isinstance(item, Usage)]
        return "".join(item for item in items if isinstance(item, str)), usage

    return asyncio.run(listen())


def asked(line: str) -> list[Message]:
    return compose_prompt([Message("user", line)], TOOLS)


@pytest.mark.slow
def test_calls_at_temperature_one_are_valid_only_with_the_grammar(llama: LlamaBackend) -> None:
    held = judge_calls(llama, GRAMMAR, CALLS)
    assert (held["valid"], held["saved"], held["lost"]) == (CALLS, 0, 0)
    assert judge_calls(llama, None, FEWER)["valid"] < FEWER


def test_the_grammar_does_not_change_a_reply_without_a_call(llama: LlamaBackend) -> None:
    wanted = Generation(temperature=1, seed=7, max_tokens=60)
    free = write(llama, asked("Hello!"), None, wanted)[0]
    assert free and write(llama, asked("Hello!"), GRAMMAR, wanted)[0] == free


def test_the_grammar_does_not_change_a_valid_call(llama: LlamaBackend) -> None:
    tool = Tool("get_time", "Time in a city", {"type": "object", "properties": {"place": {"type": "string"}}})
    prompt = compose_prompt([Message("user", "What time is it in Tokyo?")], [tool])
    free = write(llama, prompt, None)[0]
    assert '{"name": "get_time", "arguments": {"place": "Tokyo"}}' in free
    assert write(llama, prompt, build_call_grammar([tool], "json"))[0] == free


def test_a_call_truncated_by_the_limit_stays_truncated(llama: LlamaBackend) -> None:
    text, usage = write(llama, asked(QUESTIONS[0]), GRAMMAR, Generation(temperature=0, max_tokens=14))
    assert usage.hit_limit and usage.generated_tokens == 14
    assert judge(text) == "cut off"


@pytest.mark.parametrize("constrained", [True, False])
def test_a_constrained_chat_calls_with_all_required_arguments(llama: LlamaBackend, constrained: bool) -> None:
    toolbox = FakeToolbox(
        {"get_time": tell_time}, schemas={"get_time": {**TOOLS[0].schema, "required": ["place", "clock"]}}
    )
    settings = Settings(constrained=constrained, generation=GREEDY, max_steps=1)
    events = asyncio.run(
        collect(Turn(Conversation(llama, toolbox, settings, language.load())).run("What time is it in Tokyo?"))
    )
    (found,) = [event.call for event in events if isinstance(event, CallFound)]
    assert (found.name, found.arguments["place"]) == ("get_time", "Tokyo")
    assert (found.arguments.get("clock") in ("12h", "24h")) == constrained
    assert toolbox.called == ([("get_time", found.arguments)] if constrained else [])


CHOSEN = {
    "type": "object",
    "properties": {
        "place": {"enum": ["Oslo", "Tokyo"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "clock": {"enum": ["12h", "24h"]},
    },
    "required": ["place", "days", "clock"],
}


@pytest.mark.slow
def test_a_constrained_chat_calls_in_a_format_that_the_model_never_learnt(llama: LlamaBackend) -> None:
    """What is read back of each kind of format is below."""

    def called(constrained: bool) -> list[tuple[str, dict[str, Any]]]:
        toolbox = FakeToolbox({"get_time": tell_time}, schemas={"get_time": CHOSEN})
        settings = Settings(tool_format="xml", constrained=constrained, generation=GREEDY, max_steps=1)
        asyncio.run(
            collect(Turn(Conversation(llama, toolbox, settings, language.load())).run("What time is it in Tokyo?"))
        )
        return toolbox.called

    ((name, arguments),) = called(constrained=True)
    assert (name, arguments["place"]) == ("get_time", "Tokyo")
    Draft202012Validator(CHOSEN).validate(arguments)
    assert called(constrained=False) == []


@pytest.mark.slow
@pytest.mark.parametrize("format_name", KINDS)
def test_a_constrained_call_of_any_format_is_read_back(llama: LlamaBackend, format_name: str) -> None:
    tool = Tool("get_time", "Time in a city", CHOSEN)
    grammar = build_call_grammar([tool], format_name)
    assert grammar
    # the reply is constrained from its beginning, as if the prompt ended in the marker, which the model may not know
    starts_inside = bool(GRAMMARS[format_name].layout.instead)
    rule = "inner" if starts_inside else grammar.triggers[grammar.trigger]
    begun = replace(grammar, triggers={PROMPT_END: rule}, unmarked={})
    prompt = compose_prompt([Message("user", "What time is it in Tokyo?")], [tool], tool_format=format_name)
    for seed in range(FEWER):
        text = write(llama, prompt, begun, Generation(temperature=1, seed=seed, max_tokens=600))[0]
        scanner = Scanner(select_formats(format_name))
        found, *_ = scanner.feed(grammar.trigger + text) + scanner.close()
        assert isinstance(found, CallFound) and found.call.name == "get_time" and not found.call.repairs
        Draft202012Validator(CHOSEN).validate(validate_arguments(found.call.arguments, CHOSEN).arguments)


async def tell_time(**_arguments: str) -> str:
    return "20:26"


def test_an_unreadable_grammar_is_logged_once_and_not_used(
    llama: LlamaBackend, caplog: pytest.LogCaptureFixture
) -> None:
    free = write(llama, asked(QUESTIONS[0]), None)[0]
    caplog.set_level(logging.DEBUG, "rkllm_chat.backends.llama.grammar_sampler")
    assert write(llama, asked(QUESTIONS[0]), CallGrammar('root: "a" | (', {"[TOOL_CALL]": "root"}))[0] == free
    assert len([record for record in caplog.records if "unconstrained" in record.message]) == 1


def test_a_tool_too_complex_for_a_grammar_can_be_called(llama: LlamaBackend, caplog: pytest.LogCaptureFixture) -> None:
    endless = {"allOf": [{"$ref": "#/properties/zone"}] * 9}
    schema = {"type": "object", "properties": {"place": {"type": "string"}, "zone": endless}, "required": ["place"]}
    toolbox = FakeToolbox({"get_time": tell_time}, schemas={"get_time": schema})
    caplog.set_level(logging.DEBUG, "rkllm_chat.calls.grammar")
    chat = Conversation(llama, toolbox, Settings(generation=GREEDY, max_steps=1), language.load())
    asyncio.run(collect(Turn(chat).run("What time is it in Tokyo?")))
    assert toolbox.called == [("get_time", {"place": "Tokyo"})]
    (record,) = caplog.records
    assert "BudgetExceededError" in record.message


class Writing:
    """A guard that is told what somebody else writes: tokens of the shipped vocabulary, given as text."""

    def __init__(self, engine: llama_cpp.Llama, grammar: CallGrammar, thought: str = "", opened: str = "") -> None:
        self.engine = engine
        vocabulary = cache(lambda: read_vocabulary(self.engine))
        self.guard: Constraint = CallConstraint(self.engine, vocabulary, grammar, thought, opened)

    def write(self, *pieces: str) -> None:
        for piece in pieces:
            self.guard.add_token(self.token(piece), piece)

    def token(self, piece: str) -> int:
        (token,) = self.engine.tokenize(piece.encode(), add_bos=False, special=piece == CONTROL)
        return int(token)

    def permits(self, piece: str, likely: str = "") -> bool:
        logits = numpy.zeros(self.engine.n_vocab(), dtype=numpy.float32)
        if likely:
            logits[self.token(likely)] = 20
        return bool(self.guard.mask_logits(None, logits)[self.token(piece)] >= 0)

    def permits_end(self) -> bool:
        logits = numpy.zeros(self.engine.n_vocab(), dtype=numpy.float32)
        return bool(self.guard.mask_logits(None, logits)[self.engine.token_eos()] == 0)


@pytest.fixture(scope="module")
def engine(shipped_model: Path) -> llama_cpp.Llama:
    llama_cpp.llama_log_set(get_log_callback(), ctypes.c_void_p(0))
    return llama_cpp.Llama(str(shipped_model), vocab_only=True, verbose=False)


CONTROL = "<|im_start|>"
MARKED = CallGrammar('root: "\\"a" "]"', {"[{": "root"})


def test_text_between_two_calls_is_unconstrained(engine: llama_cpp.Llama, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rkllm_chat.backends.llama.grammar_sampler")
    writing = Writing(engine, MARKED)
    for _ in range(2):
        assert writing.permits("b") and writing.permits("]")
        writing.write("x", "[", "{")
        assert writing.permits('"') and not writing.permits("b")
        writing.write('"', "a")
        assert writing.permits("]") and not writing.permits("b")
        writing.write("]")
    assert writing.permits("b")
    assert not caplog.records


def test_a_token_may_end_the_marker_and_begin_the_call(engine: llama_cpp.Llama) -> None:
    writing = Writing(engine, MARKED)
    writing.write("[", '{"')
    assert writing.permits("a") and not writing.permits("b") and not writing.permits('"')


def test_a_token_that_continues_otherwise_leaves_the_call_unconstrained(engine: llama_cpp.Llama) -> None:
    writing = Writing(engine, CallGrammar('root: "a"', {"[{": "root"}))
    writing.write("[", '{"')
    assert writing.permits("b")
    writing.write("b", "[", "{")
    assert writing.permits("a") and not writing.permits("b")


def test_a_marker_in_a_thought_begins_no_call(engine: llama_cpp.Llama) -> None:
    writing = Writing(engine, MARKED, thought="<think>\n")
    writing.write("[", "{")
    assert writing.permits("b")
    writing.write(*"</think>", "[", "{")
    assert not writing.permits("b")


def test_a_call_may_begin_with_the_inner_marker_alone(engine: llama_cpp.Llama) -> None:
    grammar = CallGrammar('root: "{" inner "]"\ninner: "a"', {"[": "root", "{": "inner"})
    writing = Writing(engine, grammar)
    writing.write("[", "{", "a")
    assert writing.permits("]") and not writing.permits("b")
    writing.write("]", "{")
    assert writing.permits("a") and not writing.permits("b")
    writing.write("a")
    assert writing.permits("b")


UNMARKED = build_call_grammar(
    [Tool("add", schema={"properties": {"x": {"type": "integer"}}, "required": ["x"]})], "json"
)
BEHIND_PROSE = build_call_grammar([Tool("add", schema={"type": "object"})], "json", writes_unmarked=True)
OPENED = ("{", '"', *"name", '"', ":", " ", '"')


def starts_call(engine: llama_cpp.Llama, grammar: CallGrammar | None, *before: str) -> bool:
    """Whether the grammar holds a call without a marker behind this text, where its tool is likely."""
    assert grammar
    writing = Writing(engine, grammar)
    writing.write(*before, *OPENED)
    return not writing.permits("b", likely="a")


def test_a_call_without_a_marker_is_held_where_it_can_be_meant(engine: llama_cpp.Llama) -> None:
    assert starts_call(engine, UNMARKED)
    assert starts_call(engine, UNMARKED, "`", "`", "`", *"json", "\n")
    assert starts_call(engine, UNMARKED, *"<think>Hm.</think>", "\n")
    assert starts_call(engine, UNMARKED, *OPENED, *'add", "arguments": {"x": 1}}', ";", " ")
    for before in (("a", "\n"), ("a", "\n", "`", "`", "`", "\n")):
        assert not starts_call(engine, UNMARKED, *before) and starts_call(engine, BEHIND_PROSE, *before)
    assert not starts_call(engine, BEHIND_PROSE, "a", " ")


def test_what_begins_like_a_call_without_a_marker_may_be_other_data(engine: llama_cpp.Llama) -> None:
    assert UNMARKED
    writing = Writing(engine, UNMARKED)
    writing.write(*OPENED)
    assert writing.permits("b", likely="b")
    writing.write("b")
    assert writing.permits("x")


def test_a_reply_without_calls_begins_with_a_word_and_no_opener_follows(engine: llama_cpp.Llama) -> None:
    def prohibit(*written: str, prefix: str = "") -> Writing:
        writing = Writing(engine, MARKED)
        writing.guard = CallProhibition(engine, forbid_calls("json", ("hermes",)), prefix)
        writing.write(*written)
        return writing

    first = prohibit()
    assert [piece for piece in ("a", "7", "{", "[", "<", " ", "`", '"') if first.permits(piece, likely=piece)] == [
        "a",
        "7",
    ]
    assert prohibit("a").permits("{", likely="{") and prohibit("a", "{").permits("x", likely="x")
    for written in (("a", "\n", "{"), ("a", "{", "\n", " "), ("a", "{", " ")):
        assert not prohibit(*written).permits('"', likely='"')
    assert not prohibit("a", *"[TOOL_CALL").permits("]", likely="]")
    assert prohibit("a", *"[TOOL_CAL").permits("]", likely="]")
    assert not prohibit("a", *"<tool_cal").permits("l", likely="l")
    assert prohibit(prefix="<think>\n").permits("{", likely="{")
    assert not prohibit(*"a</think>", "\n", prefix="<think>\n").permits("{", likely="{")


def test_the_shipped_model_calls_no_tool_where_calls_are_forbidden(llama: LlamaBackend) -> None:
    assert "[TOOL_CALL]" in write(llama, asked(QUESTIONS[0]), None)[0]
    text = write(llama, asked(QUESTIONS[0]), forbid_calls("json", ()))[0]
    assert text[0].isalnum() and "[TOOL_CALL]" not in text and '{"' not in "".join(text.split())


def test_a_prompt_that_ends_in_the_marker_opens_the_call(engine: llama_cpp.Llama) -> None:
    writing = Writing(engine, MARKED, opened="[{")
    assert writing.permits('"') and not writing.permits("b")


def test_the_marker_of_a_call_may_be_the_end_of_the_prompt(llama: LlamaBackend) -> None:
    opened = CallGrammar('root: "seven" | "eight"', {PROMPT_END: "root"})
    assert write(llama, asked("Hello!"), opened)[0][:5] in ("seven", "eight")
    other = CallGrammar('root: "seven" | "eight"', {"user\n": "root"})
    assert write(llama, asked("Hello!"), other)[0][:5] not in ("seven", "eight")


def test_a_required_call_begins_the_reply_and_is_valid(llama: LlamaBackend) -> None:
    assert GRAMMAR
    assert "[TOOL_CALL]" not in write(llama, asked("Hello!"), GRAMMAR)[0]
    reply = write(llama, asked("Hello!"), require_call(GRAMMAR))[0]
    scanner = Scanner(select_formats("json"))
    events = [*scanner.feed(reply), *scanner.close()]
    assert isinstance(events[0], CallFound)
    (tool,) = [tool for tool in TOOLS if tool.name == events[0].call.name]
    validate_arguments(events[0].call.arguments, tool.schema)


SHAPE = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "colour": {"enum": ["red", "blue"]}},
    "required": ["name", "colour"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_reply_of_a_schema_is_valid_json_and_ends_with_it(llama: LlamaBackend, temperature: float) -> None:
    wanted = Generation(temperature=temperature, seed=7, max_tokens=60)
    free = write(llama, asked("Describe a ball."), None, wanted)[0]
    with pytest.raises(json.JSONDecodeError):
        json.loads(free)
    reply, usage = write(llama, asked("Describe a ball."), build_reply_grammar(SHAPE), wanted)
    Draft202012Validator(SHAPE).validate(json.loads(reply))
    assert not usage.hit_limit


def test_a_reply_of_a_schema_begins_after_the_thought_that_the_prompt_opens(engine: llama_cpp.Llama) -> None:
    grammar = build_reply_grammar({"const": 7})
    assert grammar
    for thought in ("", "<think>\n\n</think>\n\n"):
        closed = Writing(engine, grammar, thought)
        assert closed.permits("7") and not closed.permits("b")
        closed.write("7")
        assert closed.permits_end() and not closed.permits("7")
    opened = Writing(engine, grammar, "<think>\n")
    assert opened.permits("b")
    opened.write("b", *"</think>")
    assert opened.permits("7") and not opened.permits("b") and not opened.permits_end()


def nested(levels: int) -> dict[str, Any]:
    return {"items": nested(levels - 1)} if levels else {"type": "null"}


@pytest.mark.parametrize("schema", [{"enum": []}, {"const": {1, 2}}, nested(70)], ids=["no value", "no JSON", "deep"])
def test_a_schema_without_a_usable_value_has_no_grammar_of_a_reply(schema: dict[str, Any]) -> None:
    assert build_reply_grammar(schema) is None
    assert build_reply_grammar(nested(8))


@pytest.mark.parametrize("marks", [(), (f"x{CONTROL}",)])
def test_a_control_token_may_be_written_only_as_a_mark_of_the_form(
    engine: llama_cpp.Llama, marks: tuple[str, ...]
) -> None:
    writing = Writing(engine, CallGrammar('root: /[^x]*/ "x"', {"[{": "root"}, marks=marks))
    writing.write("[", "{")
    assert writing.permits("a")
    assert writing.permits(CONTROL) == bool(marks)


def test_a_rejected_token_is_replaced_by_its_longest_valid_beginning(engine: llama_cpp.Llama) -> None:
    writing = Writing(engine, CallGrammar('root: "\\"" /[a-z]+/? "\\"" "]"', {"[{": "root"}))
    writing.write("[", "{", '"')
    logits = numpy.zeros(engine.n_vocab(), dtype=numpy.float32)
    logits[writing.token("a")] = 1
    logits[writing.token('"}}')] = 9
    assert int(writing.guard.mask_logits(None, logits).argmax()) == writing.token('"')


def test_a_grammar_that_becomes_too_large_leaves_the_call_unconstrained(engine: llama_cpp.Llama) -> None:
    remembers_each_a = "root: TEXT\nTEXT: /[ab]*/ & ~/[ab]*a[ab]{40}b[ab]*/"
    writing = Writing(engine, CallGrammar(remembers_each_a, {"[{": "root"}))
    writing.write("[", "{")
    assert not writing.permits("x")
    for _ in range(60):
        writing.permits("x")
        writing.write("a")
    assert writing.permits("x")
