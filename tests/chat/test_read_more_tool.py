"""A result that is too long for the model: what is shown of it, and how the model pages in the rest."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from chat.scripted_app import backend_of
from rkllm_chat.backends.scripted import ScriptedBackend, ScriptedReply
from rkllm_chat.calls.grammar import CallGrammar, NoCalls
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.sessions import SessionManager
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.core.events import ReplyDiscarded
from rkllm_chat.core.i18n import load
from rkllm_chat.core.messages import Message
from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.storage.session_files import SessionDirectory
from stage import FakeToolbox, call_text, collect, make_chat, take_turn

LOG = "".join(f"{number:04} the tide at Husum is {number * 7 % 91} cm\n" for number in range(1, 1601))
JSON = '{"rows": [' + ", ".join(f'{{"id": {number}, "tide": "{number * 7 % 91} cm"}}' for number in range(1500)) + "]}"
TEXTS = {"lines": LOG, "one long line": JSON, "few letters": "潮位\n\n\n" * 10_000, "blank ends": f"\n\n{LOG}\n\n"}
CALL = re.compile(r"\[TOOL_CALL\]\n.*\n\[END_TOOL_CALL\]")
NOTE = re.compile(r"\n?\[lines (\d+) to (\d+) of (\d+) left out; this result is (r\d+)\]\n")


def make_toolbox(text: str, *names: str) -> FakeToolbox:
    async def answer(**_arguments: Any) -> str:
        return text

    return FakeToolbox(dict.fromkeys(names or ("log",), answer))


def more(handle: str = "r1", **arguments: Any) -> str:
    return call_text("more", handle=handle, **arguments)


def read_log(*replies: str, text: str = LOG, context: int = 4096, **settings: Any) -> Conversation:
    """A chat whose model has called `log` and then given these replies."""
    chat = make_chat([call_text("log"), *replies, "Read."], make_toolbox(text), context=context, **settings)
    take_turn(chat, "What does the log say?")
    return chat


def last_message(chat: Conversation) -> str:
    """The last message of the newest prompt."""
    return backend_of(chat).prompts[-1][-1].text


def go_on(chat: Conversation, *replies: str) -> None:
    backend_of(chat).replies += map(ScriptedReply, replies)
    take_turn(chat, "Go on.")


def read_all_pages(chat: Conversation) -> None:
    """Let the model make the call that the newest message shows, until none is shown."""
    while call := CALL.search(last_message(chat)):
        go_on(chat, call[0], "Read.")


def results(chat: Conversation) -> list[Message]:
    return [message for message in chat.history if message.role == "tool"]


def last_result(chat: Conversation) -> tuple[str, str]:
    result = results(chat)[-1].result
    assert result is not None
    return result.status, result.text


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_the_model_can_page_together_is_the_whole_result(text: str) -> None:
    chat = read_log(text=text, context=16_384)
    read_all_pages(chat)
    cut, *pages = results(chat)
    note = NOTE.search(cut.text)
    assert note
    head, tail = cut.text[: note.start()], cut.text[note.end() :]
    head += "\n" if note[0].startswith("\n") and text.startswith(head + "\n") else ""
    assert head + "".join(page.text.partition("\n")[2] for page in pages) + tail == text
    assert cut.result is not None and cut.result.text == text
    assert head and tail and len(pages) > 1


def test_only_a_cut_result_says_what_was_left_out_and_how_it_is_read() -> None:
    text = last_message(read_log())
    note = NOTE.search(text)
    assert note and note[3] == "1600" and note[4] == "r1"
    assert f"\n{int(note[1]) - 1:04} the tide" in text and f"]\n{int(note[2]) + 1:04} the tide" in text
    assert more(range=f"{note[1]}-{note[2]}") in text
    short = last_message(read_log(text="calm\n" * 10))
    assert "calm\n" * 10 in short and "more" not in short


@pytest.mark.parametrize("call_format", ["json", "xml", "pythonic"])
def test_the_call_that_is_shown_has_the_requested_format(call_format: str) -> None:
    chat = read_log(tool_format=call_format)
    go_on(chat, last_message(chat).rpartition("finds a text:\n")[2].partition("\nAnswer")[0], "Read.")
    assert last_result(chat)[1].startswith("Lines ")


def test_prompts_only_grow_while_the_model_pages_and_its_tools_stay_as_they_are() -> None:
    calls = [more(range="100-140"), more(search="TIDE at Husum is 90"), more(range="7000-"), more(handle="r2")]
    prompts = backend_of(read_log(*calls, context=16_384)).prompts
    assert len(prompts) == 6
    for before, after in pairwise(prompts):
        assert after[: len(before)] == before
    assert "- more(" not in prompts[-1][0].text


def test_a_search_returns_the_matching_lines_with_their_numbers_and_neighbours() -> None:
    head, *lines = last_result(read_log(more(search="0777 THE tide")))[1].splitlines()
    assert head == "Lines of r1 that match: 1 of 1600"
    assert [line.partition(" the")[0] for line in lines] == ["776: 0776", "777: 0777", "778: 0778"]
    across_pieces = "x" * 115 + "the anchor" + "y" * 60_000
    _, *lines = last_result(read_log(more(search="The Anchor"), text=across_pieces))[1].splitlines()
    assert [line[:2] for line in lines] == ["1:", "2:", "3:"]


def test_a_search_that_finds_too_much_continues_where_it_ended() -> None:
    chat = read_log(more(search="husum"), context=16_384)
    read_all_pages(chat)
    pages = "\n".join(page.text for page in results(chat)[1:])
    numbers = map(int, re.findall(r"^(\d+): ", pages, re.MULTILINE))
    assert list(dict.fromkeys(numbers)) == list(range(1, 1601))


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"handle": "r2"}, "r1"),
        ({"handle": "log", "search": "x"}, "r1"),
        ({"range": "1601-1700"}, "lines 1 to 1600"),
        ({"range": "20-10"}, "lines 1 to 1600"),
        ({"range": "all"}, "lines 1 to 1600"),
    ],
)
def test_an_unknown_handle_or_range_fails_and_says_which_there_are(arguments: dict[str, str], hint: str) -> None:
    status, text = last_result(read_log(more(**arguments)))
    assert status == "failed" and hint in text


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [(30, 30, 30), ("30-30", 30, 30), (" 30 ", 30, 30), ("30-33", 30, 33), ("1598-", 1598, 1600)],
)
def test_lines_can_be_asked_for_in_several_ways_and_come_whole_if_they_fit(
    asked: object, first: int, last: int
) -> None:
    chat = read_log(more(range=asked))
    assert last_result(chat)[1].splitlines()[1:] == LOG.splitlines()[first - 1 : last]
    assert not CALL.search(last_message(chat))


def test_it_runs_whatever_the_policy_says_and_counts_as_a_round() -> None:
    policy = Policy("none", allow=("log",), deny=("more",), max_calls=1)
    chat = read_log(more(range="7"), more(range="8"), policy=policy, max_steps=2)
    assert [message.result.status for message in results(chat) if message.result] == ["completed"] * 2


def test_it_is_a_tool_once_something_was_cut() -> None:
    unmarked = '{"name": "more", "arguments": {"handle": "r1", "range": "7"}}'
    chat = make_chat([unmarked, "Well."], make_toolbox(LOG))
    assert ReplyDiscarded("more") in take_turn(chat, "Hello")
    assert last_result(read_log(unmarked))[1].endswith("0007 the tide at Husum is 49 cm\n")


def test_a_removed_result_is_gone_and_its_handle_is_not_reused() -> None:
    chat = read_log()
    del chat.history[:]
    go_on(chat, more(), call_text("log"), more("r2", range="7"), "Read.")
    gone, again, page = results(chat)
    assert gone.text == 'There is no result "r1" to see more of.'
    assert again.more is not None and again.more["handle"] == "r2"
    assert page.result is not None and page.result.status == "completed"


def test_a_resumed_conversation_pages_in_what_was_cut_before(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    chat = make_chat([call_text("log"), "Read."], make_toolbox(LOG))
    sessions = SessionManager(directory, chat, print)
    take_turn(chat, "Read the log.")
    sessions.close()
    later = make_chat([more(range="700"), call_text("log"), "Read."], make_toolbox(LOG))
    SessionManager(directory, later, print).resume(sessions.name)
    take_turn(later, "Go on.")
    assert later.history[: len(chat.history)] == chat.history
    page, again = results(later)[1:]
    assert page.text.endswith("\n0700 the tide at Husum is 77 cm\n")
    assert again.more is not None and again.more["handle"] == "r2"


@pytest.mark.parametrize("context", [2048, 32_768])
def test_eight_large_results_of_one_reply_share_what_is_free(context: int) -> None:
    names = [f"log{number}" for number in range(8)]
    calls = "".join(map(call_text, names))
    pages = "".join(more(f"r{number}", range="200-") for number in range(1, 9))
    chat = make_chat([calls, pages, "Read."], make_toolbox(LOG, *names), context=context)
    take_turn(chat, "Read them all.")
    sizes = [chat.backend.count_tokens(prompt) for prompt in backend_of(chat).prompts]
    lengths = [len(message.text) for message in results(chat)[:8]]
    limit = context - min(chat.settings.generation.max_tokens, context // 4)
    assert max(lengths) - min(lengths) < 80
    assert sizes[1] - sizes[0] <= (limit - sizes[0]) // 2 + len(calls) // 4
    assert sizes[2] <= limit


def test_a_large_result_in_each_round_of_a_turn_does_not_overflow_the_window() -> None:
    prompts = backend_of(read_log(*(call_text("log", n=number) for number in range(10)), max_steps=12)).prompts
    assert len(prompts) == 12
    assert len("".join(message.text for message in prompts[-1])) // 4 < 4096


def test_a_small_result_leaves_the_others_what_it_does_not_need() -> None:
    async def log(size: int) -> str:
        return LOG[:size]

    large, lengths = call_text("log", size=50_000), []
    for calls in (large, call_text("log", size=40) + large):
        chat = make_chat([calls, "Read."], FakeToolbox({"log": log}))
        take_turn(chat, "Read.")
        lengths.append([len(result.text) for result in results(chat)])
    (alone,), (small, beside) = lengths
    assert small == 40 and beside > 0.9 * alone


def test_in_a_long_conversation_a_result_may_take_the_space_of_older_turns() -> None:
    chat = make_chat([" ".join(map(str, range(1000, 1350)))] * 6 + [call_text("log"), "Read."], make_toolbox(LOG))
    for number in range(6):
        take_turn(chat, f"Say something, {number}.")
    take_turn(chat, "Read the log.")
    assert len(results(chat)[0].text) // 4 > 500
    assert chat.backend.count_tokens(backend_of(chat).prompts[-1]) <= 4096


def test_a_tool_of_a_server_with_the_same_name_is_called_by_its_full_name() -> None:
    toolbox = make_toolbox(LOG, "log", "more")
    chat = make_chat([call_text("more"), call_text("log"), more(range="7"), call_text("box__more"), "Read."], toolbox)
    take_turn(chat, "Read.")
    assert toolbox.called == [("more", {}), ("log", {}), ("more", {})]
    assert results(chat)[2].text.endswith("0007 the tide at Husum is 49 cm\n")
    system_text = backend_of(chat).prompts[0][0].text
    assert "- box__more(" in system_text and "- more(" not in system_text


def test_a_grammar_permits_the_call_once_something_was_cut() -> None:
    grammars: list[CallGrammar | NoCalls | None] = []

    class GrammarBackend(ScriptedBackend):
        supports_grammar = True

        def stream(
            self, prompt: Any, generation: Any, _tools: Any = (), grammar: CallGrammar | NoCalls | None = None
        ) -> Any:
            grammars.append(grammar)
            return super().stream(prompt, generation)

    chat = make_chat([], make_toolbox(LOG))
    chat.backend = GrammarBackend([call_text("log"), "Read."])
    take_turn(chat, "Read.")
    assert [isinstance(grammar, CallGrammar) and "more" in grammar.rules for grammar in grammars] == [False, True]


def test_an_engine_with_native_tools_is_shown_the_call_too() -> None:
    chat = make_chat([call_text("log"), more(range="7"), "Read."], make_toolbox(LOG))
    backend_of(chat).native_tools = True
    take_turn(chat, "Read.")
    message = backend_of(chat).prompts[1][-1]
    assert message.role == "tool" and CALL.search(message.text)
    assert last_result(chat)[0] == "completed"


def test_a_result_cannot_pass_for_the_line_that_explains_the_call() -> None:
    explanation = load()("prompt.read_on")
    assert "```" not in last_message(read_log(text="calm\nas above:"))
    assert f"```\ncalm\n{explanation}\n```" in last_message(read_log(text=f"calm\n{explanation}"))


def test_a_long_result_of_a_real_server_is_paged_in() -> None:
    server = MCPServer("stage")

    @server.tool()
    def log() -> str:
        """The log of the harbour."""
        return LOG

    chat = make_chat([call_text("log"), more(search="1234 the"), "Read."], policy=Policy("all"))

    async def play() -> None:
        async with Toolbox.from_servers({"stage": server}) as chat.toolbox:
            await collect(Turn(chat).run("Read the log."))

    assert len(LOG) > 50_000
    asyncio.run(play())
    assert "\n1234: 1234 the tide at Husum is 84 cm\n" in last_result(chat)[1]
