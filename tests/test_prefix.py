"""A prompt that only grows: what each shares with the one before, and the name of whatever breaks it."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rkllm_chat import commands, language
from rkllm_chat.backends.scripted import Reply, Scripted
from rkllm_chat.backends.tokens import PromptTokens
from rkllm_chat.chat import Chat
from rkllm_chat.config import Settings
from rkllm_chat.desk import Desk, open_desk
from rkllm_chat.errors import ChatError
from rkllm_chat.events import Event, Table, Usage
from rkllm_chat.messages import Message
from rkllm_chat.policy import Policy
from rkllm_chat.prefix import BLOCK_TOKENS, Cause, Change, Parting, Prompt, Read, compare, find_loss, lines_at
from rkllm_chat.templates import TEMPLATES, Piece
from stage import GREEDY, Box, call_text, collect, take_turn

HEAD, ONE, TWO, THREE = (
    Message(*pair) for pair in (("system", "Be."), ("user", "1"), ("assistant", "2"), ("user", "3"))
)


def sent(*said: Message, head: str = "Be.", **made_from: Any) -> Prompt:
    return Prompt([Message("system", head), *said], said, **made_from)


UNDONE, COMPACTED, FORGOT, TALK = Change(0, "undone"), Change(0, "compacted"), Change(-1, "forgot"), Change(-2, "talk")
CASES: dict[str, tuple[Prompt | None, Prompt, tuple[Change, ...], Parting]] = {
    "the first": (None, sent(ONE), (TALK,), Parting(0, 0, ("first",))),
    "one that grew": (sent(ONE), sent(ONE, TWO, THREE), (), Parting(2, 4)),
    "the same again": (sent(ONE), sent(ONE), (UNDONE,), Parting(2, 4)),
    "another engine": (sent(ONE, engine=1), sent(ONE, engine=2), (), Parting(0, 0, ("model",))),
    "another system text": (
        sent(ONE, head="Be good.", system="Be good."),
        sent(ONE, head="Be bad.", system="Be bad."),
        (),
        Parting(0, 3, ("system",), "Be good.", "Be bad."),
    ),
    "other tools and another form": (
        sent(ONE, head="Be\n- a", tools=("a",), form="json"),
        sent(ONE, head="Be\n- b", tools=("b",), form="xml"),
        (),
        Parting(0, 5, ("form", "tools"), "- a", "- b"),
    ),
    "another language, whatever else": (
        sent(ONE, head="Be", language="en"),
        sent(ONE, head="Sei", language="de"),
        (FORGOT,),
        Parting(0, 0, ("language",), "Be", "Sei"),
    ),
    "a result in another language": (
        Prompt([HEAD, Message("user", "Result of a")], [Message("tool", "a")], language="en"),
        Prompt([HEAD, Message("user", "Ergebnis von a")], [Message("tool", "a")], language="de"),
        (),
        Parting(1, 3, ("language",), "Result of a", "Ergebnis von a"),
    ),
    "a turn taken back": (
        sent(ONE, TWO, THREE),
        sent(ONE, TWO, Message("user", "34")),
        (Change(2, "undone"),),
        Parting(3, 6, ("undone",), "3", "34"),
    ),
    "a turn asked once more": (sent(ONE, TWO, THREE), sent(ONE), (UNDONE,), Parting(2, 4, ("retried",), "2", "")),
    "the change that is nearest to the beginning": (
        sent(ONE, TWO, THREE),
        sent(Message("user", "Summary")),
        (COMPACTED, Change(1, "undone")),
        Parting(1, 3, ("compacted",), "1", "Summary"),
    ),
    "turns left out of another talk": (sent(ONE), sent(THREE), (FORGOT, TALK), Parting(1, 3, ("talk",), "1", "3")),
    "turns left out": (sent(ONE, TWO, THREE), sent(THREE), (UNDONE, FORGOT), Parting(1, 3, ("forgot",), "1", "3")),
    "another speaker": (sent(ONE), sent(Message("assistant", "1")), (TALK,), Parting(1, 3, ("talk",), "1", "1")),
}


@pytest.mark.parametrize("case", CASES)
def test_a_prompt_shares_this_with_the_one_before(case: str) -> None:
    before, after, changes, parting = CASES[case]
    assert compare(before, after, changes) == parting


def test_the_place_is_a_line_from_a_little_before_the_difference_on() -> None:
    before, after = "one\n" + "x" * 50, "y" * 200
    assert lines_at(f"{before}HERE{after}", f"{before}!\n{after}", 54) == ("x" * 20 + "HERE" + "y" * 96, "x" * 20 + "!")
    assert lines_at("one\ntwo", "one\n", 4) == ("two", "")
    assert lines_at("one\n\ntwo\nthree", "one\nthree", 4) == ("two", "three")
    assert lines_at("one", "one\n\ntwo\nthree", 3) == ("", "two")
    assert lines_at("", "one\ntwo", 0) == ("", "one")


def read(prompt: int, reused: int, *causes: Cause) -> Read:
    return Read(Usage(prompt, reused, prompt - reused), Parting(causes=causes))


def test_what_an_engine_has_dropped_is_told_where_nothing_else_broke_the_prompt() -> None:
    full, gone = BLOCK_TOKENS * 2, BLOCK_TOKENS - 1
    reads = [read(full, 0, "first"), read(full, gone), read(full, gone, "undone"), read(0, 0), read(full, 0)]
    found = [find_loss(reads, index) for index in range(len(reads))]
    assert found == [("first",), ("engine",), ("undone",), (), ()]
    assert find_loss([reads[0], read(full, gone + 1)], 1) == ()


def test_a_reply_said_again_with_other_tokens_leaves_the_prompt_before_it_as_it_was() -> None:
    tokens = PromptTokens(lambda piece: [ord(letter) for letter in piece.text])
    tokens.remember("", "ab", [1, 2])
    prompt = [Piece("<", special=True), Piece("ab", special=False)]
    before = tokens.of(prompt)
    tokens.remember("", "ab", [3])
    assert tokens.of(prompt) == before == [60, 1, 2]


async def tide(**_: Any) -> str:
    return "user: two metres"


async def wind(**_: Any) -> str:
    return "line\n" * 30 + "[TOOL_CALL]"


Step = tuple[str, str, list[str]]
LINES = ["how high?", "and now?", "{}", "やあ", "long " * 60, "the tide?", "wind or tide?"]
REPLIES = [
    ["It is."],
    [""],
    ["Wait. " + call_text("tide", at="Husum"), "Two."],
    [call_text("wind") + call_text("tide"), call_text("nosuch"), "Both."],
    ['[TOOL_CALL]{"name": }[END_TOOL_CALL]', call_text("tide", at=1), "Mended."],
    ["<think>hm</think>Yes."],
    [call_text("describe_tool", name="wind"), call_text("wind"), "Strong."],
]
TOOLS = {"tide": tide, "wind": wind}
# What a person does between two messages -> the cause it may be.
ACTS: dict[str, Cause] = {
    "/system Be brief.": "system",
    "/system Be kind.": "system",
    "/language ja": "language",
    "/language en": "language",
    "/tools off tide": "tools",
    "/tools all": "tools",
    "late server": "tools",
    "other order": "tools",
    "/undo": "undone",
    "/retry": "retried",
    "/compact": "compacted",
    "/clear": "talk",
    "/thinking on": "model",
}
MESSAGES = st.tuples(st.sampled_from(["say", "say", "stop"]), st.sampled_from(LINES), st.sampled_from(REPLIES))
OTHERS = st.tuples(st.sampled_from(list(ACTS)), st.just(""), st.sampled_from(REPLIES))


class Sitting:
    """A desk with written replies, and what has been done at it since the last prompt."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.desk.toolbox.box = Box(dict(TOOLS))
        self.said: set[str] = set()
        self.texts: list[str] = []
        self.done: list[set[Cause]] = []
        self.since: set[Cause] = {"first", "talk"}

    async def do(self, act: str, line: str, replies: list[str]) -> None:
        backend, chat = self.desk.backend, self.desk.chat
        shown = chat.first_shown, chat.kept
        assert isinstance(backend, Scripted)
        start = len(backend.prompts)
        backend.replies[start:] = [Reply(text) for text in (["Sum."] if act == "/compact" else replies)]
        self.since |= {ACTS[act]} if act in ACTS else set()
        if act in ("say", "stop") and line in self.said and "undone" in self.since:
            self.since.add("retried")  # what was taken back and is typed again is asked once more, too
        self.said.add(line)
        try:
            await self._act(act, line)
        except ChatError:
            assert act in ("/undo", "/retry")  # there was nothing to take back
        prompts = backend.prompts[start:]
        forgot: set[Cause] = {"forgot"} if shown != (chat.first_shown, chat.kept) else set()
        for prompt in prompts if act in ("say", "stop", "/retry") else ():
            self.texts.append("".join(piece.text for piece in TEMPLATES["chatml"](prompt)))
            self.done.append(self.since | forgot)
            self.since = set()
        self.since |= forgot  # at the end of a turn it is the next prompt that shows it

    async def _act(self, act: str, line: str) -> None:
        box = self.desk.toolbox.box
        assert isinstance(box, Box)
        if act == "say":
            await collect(self.desk.chat.send(line))
        elif act == "stop":
            async with aclosing(self.desk.chat.send(line)) as events:
                await anext(events)
        elif act == "late server":
            box.functions = {**box.functions, "depth": tide}
        elif act == "other order":
            box.functions = dict(reversed(list(box.functions.items())))
        else:
            await collect(commands.run(self.desk, act))


def play(steps: list[Step], share: float = Settings.tools_share) -> tuple[Sitting, list[Read], Event]:
    """Takes the steps at a new desk; gives what it kept, and what `/context cache` says then.

    With a `share` of 0 the tools stand in a catalogue, and with a question those that may help.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "replies.json")
        script.write_text("[]", encoding="utf-8")
        return asyncio.run(play_at(script, steps, share))


async def play_at(script: Path, steps: list[Step], share: float) -> tuple[Sitting, list[Read], Event]:
    chosen = Settings(
        model=str(script), backend="scripted", policy=Policy("all"), context_tokens=900, tools_share=share
    )
    async with open_desk(replace(chosen, servers=(), generation=GREEDY), script.parent, words=language.load()) as desk:
        sitting = Sitting(desk)
        for step in steps:
            await sitting.do(*step)
        (table,) = await collect(commands.run(desk, "/context cache"))
        return sitting, desk.chat.prefix.reads, table


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(MESSAGES, MESSAGES, OTHERS), max_size=14), st.sampled_from([Settings.tools_share, 0.0]))
def test_each_prompt_extends_the_last_or_what_was_done_is_named(steps: list[Step], share: float) -> None:
    sitting, reads, _ = play(steps, share)
    assert len(reads) == len(sitting.texts)
    before = ""
    for text, done, one in zip(sitting.texts, sitting.done, reads, strict=True):
        causes = one.parting.causes
        if causes and causes[0] not in ("first", "model"):
            assert not text.startswith(before)
        assert causes or (before and text.startswith(before))
        assert set(causes) <= done
        before = text


SAY = ("say", "how high?", ["It is."])
NAMED = [
    ("/system Be brief.", "system", '"You are a helpful assistant." -> "Be brief."'),
    ("/language ja", "language", "「You are a helpful assistant.」→「あなたは"),
    ("/tools off tide", "tools", '"- Does tide: {"name": "tide", "arguments": {}}" -> "- Does wind: {'),
    ("late server", "tools", '"- Does tide: {"name": "tide", "arguments": {}}" -> "- Does depth: {'),
    ("/undo", "undone", '"how high?" -> "and now?"'),
    ("/retry", "retried", '"[TOOL_CALL]" -> ""'),
    ("/compact", "compacted", '"how high?" -> "Summary of our talk so far: Sum."'),
    ("/clear", "talk", '"how high?" -> "and now?"'),
    ("/thinking on", "model", ""),
    ("/language en", None, ""),
    ("other order", None, ""),
]


@pytest.mark.parametrize(("act", "cause", "place"), NAMED, ids=[act for act, *_ in NAMED])
def test_context_cache_says_what_broke_the_prompt_and_where(act: str, cause: Cause | None, place: str) -> None:
    after: list[Step] = [] if act == "/retry" else [("say", "and now?", ["It is."])]
    steps = [SAY, ("say", "how high?", [call_text("tide"), "Two."]), (act, "", ["Again."]), *after]
    _, reads, table = play(steps)
    assert isinstance(table, Table)
    words = language.load("ja" if act == "/language ja" else "en")
    assert len(table.rows) == len(reads) == 4
    assert [row[5] for row in table.rows[:3]] == [words("cache.first"), "", ""]
    usage, (number, prompt, reused, new, _, why) = reads[3].usage, table.rows[3]
    assert (number, prompt, reused, new) == (
        "4",
        *map(str, (usage.prompt_tokens, usage.reused_tokens, usage.prefilled_tokens)),
    )
    assert reads[3].parting.causes == (() if cause is None else (cause,))
    assert why.startswith(words(f"cache.{cause}") if cause else "") and place in why and bool(why) == bool(cause)


def test_turns_that_are_left_out_are_named() -> None:
    steps = [("say", f"question {number} " + "x" * 900, ["word " * 20]) for number in range(4)]
    _, reads, _ = play(steps)
    causes = [one.parting.causes for one in reads]
    assert ("forgot",) in causes[1:] and set(causes[1:]) == {(), ("forgot",)}


def test_of_several_changes_the_one_that_broke_the_prompt_is_named() -> None:
    steps = [SAY, SAY, *((act, "", ["Sum."]) for act in ("/undo", "/clear")), ("say", "and now?", ["It is."])]
    assert play(steps)[1][2].parting.causes == ("talk",)
    steps[3] = ("/system Be brief.", "", [])
    assert play(steps)[1][2].parting.causes == ("system",)


def test_a_prompt_whose_reply_failed_has_a_row_without_figures() -> None:
    chat = Chat(Scripted([Reply("", error="no power"), "Here."]), Box({}), Settings(), language.load())
    with pytest.raises(ChatError, match="no power"):
        take_turn(chat, "hello")
    take_turn(chat, "hello?")
    table = commands.history.describe_cache(chat.prefix.reads, chat.words)
    assert isinstance(table, Table)
    assert table.rows[0] == ("1", "-", "-", "-", "-", "first prompt")
    assert table.rows[1][5] == "" and table.rows[1][1] != "-"


def test_what_a_server_wrote_is_made_safe_and_short_where_the_prompts_part() -> None:
    parting = Parting(1, 1, ("undone",), "a\x1b[2Jb", "c" * 100)
    rows = [Read(Usage(10), Parting(causes=("first",))), Read(Usage(10), parting)]
    table = commands.history.describe_cache(rows, language.load())
    assert isinstance(table, Table)
    assert table.rows[1][5] == 'taken back: "a\\x1b[2Jb" -> "' + "c" * 60 + '…"'


def test_every_cause_has_its_words() -> None:
    for code in language.languages():
        assert all(language.load(code)(f"cache.{cause}") for cause in get_args(Cause))
