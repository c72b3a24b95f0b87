"""llama.cpp held to the tools' schemas while it writes a call: the GGUF that ships, real tokens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy
import pytest

from bench.constrained import QUESTIONS, TOOLS, judge, judge_calls
from grammar.matcher import Matcher
from rkllm_chat import language
from rkllm_chat.backends.llama import Llama
from rkllm_chat.backends.llama_calls import CallGuard, read_vocabulary
from rkllm_chat.chat import Chat
from rkllm_chat.config import Generation, Settings
from rkllm_chat.events import CallFound, Usage
from rkllm_chat.grammar import CallGrammar, call_grammar
from rkllm_chat.messages import Message, Tool
from rkllm_chat.prompt import compose
from stage import Box, collect

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]
GREEDY = Generation(temperature=0, max_tokens=120)
GRAMMAR = call_grammar(TOOLS, "json")
EVERYTHING = Generation(top_k=0, min_p=0)
CALLS, FEWER = 40, 8


@pytest.fixture(scope="module")
def llama(shipped_model: Path) -> Iterator[Llama]:
    backend = Llama(shipped_model, 0)
    yield backend
    asyncio.run(backend.aclose())


def write(
    backend: Llama, prompt: Sequence[Message], grammar: CallGrammar | None, wanted: Generation = GREEDY
) -> tuple[str, Usage]:
    async def listen() -> tuple[str, Usage]:
        items = [item async for item in backend.stream(prompt, wanted, (), grammar)]
        (usage,) = [item for item in items if isinstance(item, Usage)]
        return "".join(item for item in items if isinstance(item, str)), usage

    return asyncio.run(listen())


def asked(line: str) -> list[Message]:
    return compose([Message("user", line)], TOOLS)


def test_forty_calls_at_temperature_one_are_all_valid_and_without_the_grammar_they_are_not(llama: Llama) -> None:
    held = judge_calls(llama, GRAMMAR, CALLS)
    assert (held["valid"], held["saved"], held["lost"]) == (CALLS, 0, 0)
    assert judge_calls(llama, None, FEWER)["valid"] < FEWER


def test_a_reply_without_a_call_is_the_same_with_the_grammar(llama: Llama) -> None:
    wanted = Generation(temperature=1, seed=7, max_tokens=60)
    free = write(llama, asked("Hello!"), None, wanted)[0]
    assert free and write(llama, asked("Hello!"), GRAMMAR, wanted)[0] == free


def test_a_call_that_is_valid_anyway_is_the_same_with_the_grammar(llama: Llama) -> None:
    tool = Tool("get_time", "Time in a city", {"type": "object", "properties": {"place": {"type": "string"}}})
    prompt = compose([Message("user", "What time is it in Tokyo?")], [tool])
    free = write(llama, prompt, None)[0]
    assert '{"name": "get_time", "arguments": {"place": "Tokyo"}}' in free
    assert write(llama, prompt, call_grammar([tool], "json"))[0] == free


def test_a_call_that_the_limit_cuts_off_stays_cut_off(llama: Llama) -> None:
    text, usage = write(llama, asked(QUESTIONS[0]), GRAMMAR, Generation(temperature=0, max_tokens=14))
    assert usage.hit_limit and usage.generated_tokens == 14
    assert judge(text) == "cut off"


@pytest.mark.parametrize("constrained", [True, False])
def test_a_chat_calls_a_tool_with_what_it_requires_only_when_it_is_constrained(llama: Llama, constrained: bool) -> None:
    box = Box({"get_time": tell_time}, schemas={"get_time": {**TOOLS[0].schema, "required": ["place", "clock"]}})
    settings = Settings(constrained=constrained, generation=GREEDY, max_steps=1)
    events = asyncio.run(collect(Chat(llama, box, settings, language.load()).send("What time is it in Tokyo?")))
    (found,) = [event.call for event in events if isinstance(event, CallFound)]
    assert (found.name, found.arguments["place"]) == ("get_time", "Tokyo")
    assert (found.arguments.get("clock") in ("12h", "24h")) == constrained
    assert box.called == ([("get_time", found.arguments)] if constrained else [])


async def tell_time(**_arguments: str) -> str:
    return "20:26"


def test_a_grammar_that_llama_cannot_read_leaves_the_call_free_and_says_so_once(
    llama: Llama, caplog: pytest.LogCaptureFixture
) -> None:
    free = write(llama, asked(QUESTIONS[0]), None)[0]
    caplog.set_level(logging.DEBUG, "rkllm_chat.backends.llama_calls")
    assert write(llama, asked(QUESTIONS[0]), CallGrammar("[TOOL_CALL]", 'root ::= "a" | ('))[0] == free
    assert [record.message for record in caplog.records if "unconstrained" in record.message] == [
        "llama.cpp cannot read the grammar; the call goes unconstrained."
    ]


def test_a_tool_that_is_too_much_for_a_grammar_can_be_called_all_the_same(
    llama: Llama, caplog: pytest.LogCaptureFixture
) -> None:
    endless = {"allOf": [{"$ref": "#/properties/zone"}] * 9}
    schema = {"type": "object", "properties": {"place": {"type": "string"}, "zone": endless}, "required": ["place"]}
    box = Box({"get_time": tell_time}, schemas={"get_time": schema})
    caplog.set_level(logging.DEBUG, "rkllm_chat.grammar")
    chat = Chat(llama, box, Settings(generation=GREEDY, max_steps=1), language.load())
    asyncio.run(collect(chat.send("What time is it in Tokyo?")))
    assert box.called == [("get_time", {"place": "Tokyo"})]
    assert [record.message for record in caplog.records] == [
        "There is no grammar for the calls, which go unconstrained: TooCostlyError()."
    ]


class Writing:
    """A guard that is told what somebody else writes: tokens of the shipped vocabulary, given as text."""

    def __init__(
        self,
        matcher: Matcher,
        grammar: CallGrammar,
        thought: str = "",
        wanted: Generation = EVERYTHING,
    ) -> None:
        self.engine = matcher.engine
        vocabulary = cache(lambda: read_vocabulary(self.engine))
        self.guard = CallGuard(self.engine, vocabulary, grammar, wanted, 1.0, thought)

    def write(self, *pieces: str) -> None:
        for piece in pieces:
            self.guard.note(self.token(piece), piece)

    def token(self, piece: str) -> int:
        (token,) = self.engine.tokenize(piece.encode(), add_bos=False, special=False)
        return int(token)

    def permits(self, piece: str) -> bool:
        logits = numpy.zeros(self.engine.n_vocab(), dtype=numpy.float32)
        return bool(self.guard.mask(None, logits)[self.token(piece)] == 0)


@pytest.fixture(scope="module")
def matcher(shipped_model: Path) -> Matcher:
    return Matcher(shipped_model)


MARKED = CallGrammar("[{", 'root ::= "\\"a" "]"')


def test_between_two_calls_of_a_reply_everything_may_be_written(
    matcher: Matcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rkllm_chat.backends.llama_calls")
    writing = Writing(matcher, MARKED)
    for _ in range(2):
        assert writing.permits("b") and writing.permits("]")
        writing.write("x", "[", "{")
        assert writing.permits('"') and not writing.permits("b")
        writing.write('"', "a")
        assert writing.permits("]") and not writing.permits("b")
        writing.write("]")
    assert writing.permits("b")
    assert not caplog.records


def test_a_token_may_hold_the_end_of_the_marker_and_the_beginning_of_the_call(matcher: Matcher) -> None:
    writing = Writing(matcher, MARKED)
    writing.write("[", '{"')
    assert writing.permits("a") and not writing.permits("b") and not writing.permits('"')


def test_a_token_that_goes_on_with_something_else_leaves_the_call_free(matcher: Matcher) -> None:
    writing = Writing(matcher, CallGrammar("[{", 'root ::= "a"'))
    writing.write("[", '{"')
    assert writing.permits("b")
    writing.write("b", "[", "{")
    assert writing.permits("a") and not writing.permits("b")


def test_a_marker_in_a_thought_is_no_call(matcher: Matcher) -> None:
    writing = Writing(matcher, MARKED, thought="<think>\n")
    writing.write("[", "{")
    assert writing.permits("b")
    writing.write(*"</think>", "[", "{")
    assert not writing.permits("b")


def test_what_the_model_wanted_goes_to_the_beginning_of_it_that_fits(matcher: Matcher) -> None:
    writing = Writing(matcher, CallGrammar("[{", 'root ::= "\\"" [a-z]* "\\"" "]"'))
    writing.write("[", "{", '"')
    logits = numpy.zeros(matcher.engine.n_vocab(), dtype=numpy.float32)
    logits[writing.token("a")] = 1
    logits[writing.token('"}}')] = 9
    assert int(writing.guard.mask(None, logits).argmax()) == writing.token('"')


@pytest.mark.parametrize("wanted", [Generation(top_k=40, min_p=0), Generation(top_k=0, min_p=0.05)], ids=["k", "p"])
def test_trying_the_likeliest_first_loses_nothing_that_could_be_chosen(matcher: Matcher, wanted: Generation) -> None:
    for seed in range(30):
        logits = numpy.random.default_rng(seed).normal(0, 4, matcher.engine.n_vocab()).astype(numpy.float32)
        masks = []
        for one in (wanted, replace(wanted, repeat_penalty=1.1)):  # with a penalty all tokens are tried
            writing = Writing(matcher, CallGrammar("[{", 'root ::= [a-c ]* "]"'), wanted=one)
            writing.write("[", "{")
            masks.append(writing.guard.mask(None, logits.copy()))
        quick, whole = masks
        least = whole.max() + numpy.log(0.05) if wanted.min_p else numpy.sort(whole)[-40]
        assert (quick[whole >= least] == whole[whole >= least]).all()
        assert (numpy.isneginf(quick) | (quick == whole)).all()
