"""A prompt that only grows: what each shares with the one before, and the cause of a divergence."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.scripted_app import backend_of, open_scripted_app
from fuzzing import examples
from rkllm_chat.backends.scripted import ScriptedReply
from rkllm_chat.backends.shared.prompt_tokens import PromptTokenizer
from rkllm_chat.chat.app import App
from rkllm_chat.chat.prefix_changes import (
    BLOCK_TOKENS,
    DivergenceCause,
    HistoryChange,
    PrefixDivergence,
    PromptSent,
    PromptSnapshot,
    compare_prompts,
    find_cache_miss,
    find_divergent_lines,
)
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.settings import Settings
from rkllm_chat.core.errors import ChatError
from rkllm_chat.core.events import Event, Table, Usage
from rkllm_chat.core.i18n import list_languages, load
from rkllm_chat.core.messages import Message
from rkllm_chat.prompt.chat_templates import TEMPLATES, Piece
from rkllm_chat.tui import slash_commands as commands
from stage import GREEDY, Box, call_text, collect, make_chat, take_turn

HEAD, ONE, TWO, THREE = (
    Message(*pair) for pair in (("system", "Be."), ("user", "1"), ("assistant", "2"), ("user", "3"))
)


def sent(*shown: Message, head: str = "Be.", **inputs: Any) -> PromptSnapshot:
    return PromptSnapshot([Message("system", head), *shown], shown, **inputs)


def sent_result(text: str, language: str) -> PromptSnapshot:
    return PromptSnapshot([HEAD, Message("user", text)], [Message("tool", "a")], language=language)


UNDONE, COMPACTED = HistoryChange(0, "undone"), HistoryChange(0, "compacted")
FORGOT, TALK = HistoryChange(-1, "forgot"), HistoryChange(-2, "talk")
WHOLE = sent(ONE, TWO, THREE)
CASES: dict[str, tuple[PromptSnapshot | None, PromptSnapshot, tuple[HistoryChange, ...], PrefixDivergence]] = {
    "the first": (None, sent(ONE), (TALK,), PrefixDivergence(0, 0, ("first",))),
    "one that grew": (sent(ONE), WHOLE, (), PrefixDivergence(2, 4)),
    "the same again": (sent(ONE), sent(ONE), (UNDONE,), PrefixDivergence(2, 4)),
    "another engine": (sent(ONE, engine=1), sent(ONE, engine=2), (), PrefixDivergence(0, 0, ("model",))),
    "other system text, tools and format": (
        sent(ONE, head="Be\n- a", system="Be", tools=("a",), call_format="json"),
        sent(ONE, head="Be\n- b", system="Bf", tools=("b",), call_format="xml"),
        (),
        PrefixDivergence(0, 5, ("system", "form", "tools"), "- a", "- b"),
    ),
    "another language, whatever else": (
        sent(ONE, head="Be", language="en"),
        sent(ONE, head="Sei", language="de"),
        (FORGOT,),
        PrefixDivergence(0, 0, ("language",), "Be", "Sei"),
    ),
    "a result in another language": (
        sent_result("Result of a", "en"),
        sent_result("Ergebnis von a", "de"),
        (),
        PrefixDivergence(1, 3, ("language",), "Result of a", "Ergebnis von a"),
    ),
    "a turn taken back": (
        WHOLE,
        sent(ONE, TWO, Message("user", "34")),
        (HistoryChange(2, "undone"),),
        PrefixDivergence(3, 6, ("undone",), "3", "34"),
    ),
    "a shorter prompt": (
        WHOLE,
        sent(ONE),
        (HistoryChange(0, "retried"),),
        PrefixDivergence(2, 4, ("retried",), "2", ""),
    ),
    "the change that is nearest to the beginning": (
        WHOLE,
        sent(Message("user", "Summary")),
        (COMPACTED, HistoryChange(1, "undone")),
        PrefixDivergence(1, 3, ("compacted",), "1", "Summary"),
    ),
    "another conversation": (sent(ONE), sent(THREE), (FORGOT, TALK), PrefixDivergence(1, 3, ("talk",), "1", "3")),
    "turns left out": (WHOLE, sent(THREE), (UNDONE, FORGOT), PrefixDivergence(1, 3, ("forgot",), "1", "3")),
    "another speaker": (
        sent(ONE),
        sent(Message("assistant", "1")),
        (TALK,),
        PrefixDivergence(1, 3, ("talk",), "1", "1"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_prompt_shares_this_with_the_one_before(case: str) -> None:
    before, after, changes, divergence = CASES[case]
    assert compare_prompts(before, after, changes) == divergence


def test_the_place_is_a_line_from_a_little_before_the_difference_on() -> None:
    before, after = "one\n" + "x" * 50, "y" * 200
    assert find_divergent_lines(f"{before}HERE{after}", f"{before}!\n{after}", 54) == (
        "x" * 20 + "HERE" + "y" * 96,
        "x" * 20 + "!",
    )
    assert find_divergent_lines("one\ntwo", "one\n", 4) == ("two", "")
    assert find_divergent_lines("one\n\ntwo\nthree", "one\nthree", 4) == ("two", "three")
    assert find_divergent_lines("one", "one\n\ntwo\nthree", 3) == ("", "two")
    assert find_divergent_lines("", "one\ntwo", 0) == ("", "one")


def sent_prompt(prompt: int, reused: int, *causes: DivergenceCause) -> PromptSent:
    return PromptSent(Usage(prompt, reused, prompt - reused), PrefixDivergence(causes=causes))


def test_a_lost_cache_is_reported_where_nothing_else_broke_the_prompt() -> None:
    full, lost = BLOCK_TOKENS * 2, BLOCK_TOKENS - 1
    usages = ((full, 0, "first"), (full, lost), (full, lost, "undone"), (0, 0), (full, 0))
    prompts = [sent_prompt(*usage) for usage in usages]
    causes = [find_cache_miss(prompts, index) for index in range(len(prompts))]
    assert causes == [("first",), ("engine",), ("undone",), (), ()]
    assert find_cache_miss([prompts[0], sent_prompt(full, lost + 1)], 1) == ()


def test_a_reply_repeated_in_other_tokens_leaves_the_prompt_before_it_as_it_was() -> None:
    tokens = PromptTokenizer(lambda piece: [ord(letter) for letter in piece.text])
    tokens.remember_reply("", "ab", [1, 2])
    prompt = [Piece("<", special=True), Piece("ab", special=False)]
    before = tokens.encode(prompt)
    tokens.remember_reply("", "ab", [3])
    assert tokens.encode(prompt) == before == [60, 1, 2]


async def tide(**_: Any) -> str:
    return "user: two metres"


async def wind(**_: Any) -> str:
    return "line\n" * 30 + "[TOOL_CALL]"


Step = tuple[str, str, list[str]]
SUMMARY = "Sum: long, high, tide."  # of any conversation below that is long enough to be summarized
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
ACTS: dict[str, DivergenceCause] = {
    **dict.fromkeys(("/system Be brief.", "/system Be kind."), "system"),
    **dict.fromkeys(("/language ja", "/language en"), "language"),
    **dict.fromkeys(("/tools off tide", "/tools all", "late server", "other order"), "tools"),
    "/undo": "undone",
    "/retry": "retried",
    "/compact": "compacted",
    "/clear": "talk",
    "/thinking on": "model",
}
MESSAGES = st.tuples(st.sampled_from(["say", "say", "stop"]), st.sampled_from(LINES), st.sampled_from(REPLIES))
OTHERS = st.tuples(st.sampled_from(list(ACTS)), st.just(""), st.sampled_from(REPLIES))


class Recorder:
    """An app with scripted replies; records the text of each prompt and what was done before it."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.app.toolbox.toolbox = Box(dict(TOOLS))
        self.texts: list[str] = []
        self.done: list[set[DivergenceCause]] = []
        self.since: set[DivergenceCause] = {"first", "talk"}

    async def do(self, act: str, line: str, replies: list[str]) -> None:
        backend, chat = backend_of(self.app.chat), self.app.chat
        shown = chat.first_shown, chat.retained_count
        start = backend.played
        backend.replies[start:] = [ScriptedReply(text) for text in ([SUMMARY] if act == "/compact" else replies)]
        self.since |= {ACTS[act]} if act in ACTS else set()
        try:
            await self._act(act, line)
        except ChatError:
            assert act in ("/undo", "/retry")  # there was nothing to take back
        played = backend.played - start
        prompts = backend.prompts[-played:] if played else []  # the backend keeps only the newest
        forgot: set[DivergenceCause] = {"forgot"} if shown != (chat.first_shown, chat.retained_count) else set()
        for prompt in prompts if act in ("say", "stop", "/retry") else ():
            self.texts.append("".join(piece.text for piece in TEMPLATES["chatml"](prompt)))
            self.done.append(self.since | forgot)
            self.since = set()
        self.since |= forgot  # at the end of a turn it is the next prompt that shows it

    async def _act(self, act: str, line: str) -> None:
        box = self.app.toolbox.toolbox
        assert isinstance(box, Box)
        if act == "say":
            await collect(Turn(self.app.chat).run(line))
        elif act == "stop":
            async with aclosing(Turn(self.app.chat).run(line)) as events:
                await anext(events)
        elif act == "late server":
            box.functions = {**box.functions, "depth": tide}
        elif act == "other order":
            box.functions = dict(reversed(list(box.functions.items())))
        else:
            await collect(commands.run(self.app, act))


def play(steps: list[Step], share: float = Settings.tools_share) -> tuple[Recorder, list[PromptSent], Event]:
    """Take the steps in a new app; return the recorder, the prompts sent, and the table of `/context cache`.

    With a `share` of 0 the prompt has a catalogue of the tools, and each question signatures of those that may help.
    """

    async def take_steps(folder: Path) -> tuple[Recorder, list[PromptSent], Event]:
        chosen = {"context_tokens": 900, "policy": Policy("all"), "tools_share": share, "generation": GREEDY}
        async with open_scripted_app(folder, [], **chosen) as app:
            recorder = Recorder(app)
            for step in steps:
                await recorder.do(*step)
            (table,) = await collect(commands.run(app, "/context cache"))
            return recorder, app.chat.prompt_log.sent, table

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(take_steps(Path(folder)))


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(st.lists(st.one_of(MESSAGES, MESSAGES, OTHERS), max_size=14), st.sampled_from([Settings.tools_share, 0.0]))
def test_each_prompt_extends_the_last_or_what_was_done_is_named(steps: list[Step], share: float) -> None:
    recorder, prompts, _ = play(steps, share)
    before = ""
    for text, done, prompt in zip(recorder.texts, recorder.done, prompts, strict=True):
        causes = prompt.divergence.causes
        if causes and causes[0] not in ("first", "model"):
            assert not text.startswith(before)
        assert causes or (before and text.startswith(before))
        assert set(causes) <= done
        before = text


SAY = ("say", "how high?", ["It is " + "very " * 20 + "high."])
NAMED = [
    ("/system Be brief.", "system", '"You are a helpful assistant." -> "Be brief."'),
    ("/language ja", "language", "「You are a helpful assistant.」→「あなたは"),
    ("/tools off tide", "tools", '"- Does tide: {"name": "tide", "arguments": {}}" -> "- Does wind: {'),
    ("/undo", "undone", '"how high?" -> "and now?"'),
    ("/retry", "retried", '"[TOOL_CALL]" -> ""'),
    ("/compact", "compacted", f'"how high?" -> "Summary of our talk so far: {SUMMARY}"'),
    ("/clear", "talk", '"how high?" -> "and now?"'),
    ("/thinking on", "model", ""),
    ("other order", None, ""),
]


@pytest.mark.parametrize(("act", "cause", "place"), NAMED, ids=[act for act, *_ in NAMED])
def test_context_cache_shows_what_broke_the_prompt_and_where(
    act: str, cause: DivergenceCause | None, place: str
) -> None:
    after: list[Step] = [] if act == "/retry" else [("say", "and now?", ["It is."])]
    steps = [SAY, ("say", "how high?", [call_text("tide"), "Two."]), (act, "", ["Again."]), *after]
    _, prompts, table = play(steps)
    assert isinstance(table, Table)
    words = load("ja" if act == "/language ja" else "en")
    assert len(table.rows) == len(prompts) == 4
    assert [row[5] for row in table.rows[:3]] == [words("cache.first"), "", ""]
    usage, (*figures, _, why) = prompts[3].usage, table.rows[3]
    assert figures == ["4", *map(str, (usage.prompt_tokens, usage.reused_tokens, usage.prefilled_tokens))]
    assert prompts[3].divergence.causes == (() if cause is None else (cause,))
    assert why.startswith(words(f"cache.{cause}") if cause else "") and place in why and bool(why) == bool(cause)


def test_a_prompt_whose_reply_failed_has_a_row_without_figures() -> None:
    chat = make_chat([ScriptedReply("", error="no power"), "Here."])
    with pytest.raises(ChatError, match="no power"):
        take_turn(chat, "hello")
    take_turn(chat, "hello?")
    table = commands.history.describe_cache(chat.prompt_log.sent, chat.words)
    assert isinstance(table, Table)
    assert table.rows[0] == ("1", "-", "-", "-", "-", "first prompt")
    assert table.rows[1][5] == "" and table.rows[1][1] != "-"


def test_what_a_server_wrote_is_made_safe_and_short_where_the_prompts_part() -> None:
    parting = PrefixDivergence(1, 1, ("undone",), "a\x1b[2Jb", "c" * 100)
    rows = [PromptSent(Usage(10), PrefixDivergence(causes=("first",))), PromptSent(Usage(10), parting)]
    table = commands.history.describe_cache(rows, load())
    assert isinstance(table, Table)
    assert table.rows[1][5] == 'turn removed: "a\\x1b[2Jb" -> "' + "c" * 59 + '…"'


def test_every_cause_has_its_words() -> None:
    for code in list_languages():
        assert all(load(code)(f"cache.{cause}") for cause in get_args(DivergenceCause))
