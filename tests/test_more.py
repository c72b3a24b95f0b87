"""A result that is too long for the model: what it is shown of it, and how it pages in the rest."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from rkllm_chat import language
from rkllm_chat.backends.scripted import Reply, Scripted
from rkllm_chat.chat import Chat
from rkllm_chat.config import Settings
from rkllm_chat.events import Text
from rkllm_chat.grammar import CallGrammar
from rkllm_chat.journal import Shelf
from rkllm_chat.messages import Message
from rkllm_chat.policy import Policy
from rkllm_chat.servers.toolbox import Toolbox
from rkllm_chat.sessions import Sessions
from stage import Box, call_text, collect, make_chat, take_turn

LOG = "".join(f"{number:04} the tide at Husum is {number * 7 % 91} cm\n" for number in range(1, 1601))
JSON = '{"rows": [' + ", ".join(f'{{"id": {number}, "tide": "{number * 7 % 91} cm"}}' for number in range(3000)) + "]}"
TEXTS = {"lines": LOG, "one long line": JSON, "few letters": "潮位\n\n\n" * 10_000, "blank ends": f"\n\n{LOG}\n\n"}
CALL = re.compile(r"\[TOOL_CALL\]\n.*\n\[END_TOOL_CALL\]")
NOTE = re.compile(r"\n?\[lines (\d+) to (\d+) of (\d+) left out; this result is (r\d+)\]\n")


def box_of(text: str, *names: str) -> Box:
    async def tell(**_arguments: Any) -> str:
        return text

    return Box(dict.fromkeys(names or ("log",), tell))


def more(handle: str = "r1", **arguments: Any) -> str:
    return call_text("more", handle=handle, **arguments)


def read_log(*calls: str, text: str = LOG, context: int = 4096, **settings: Any) -> Chat:
    """A chat whose model has called `log`, and then these."""
    chat = make_chat([call_text("log"), *calls, "Read."], box_of(text), context=context, **settings)
    take_turn(chat, "What does the log say?")
    return chat


def script_of(chat: Chat) -> Scripted:
    assert isinstance(chat.backend, Scripted)
    return chat.backend


def shown_last(chat: Chat) -> str:
    """What the model was told last."""
    return script_of(chat).prompts[-1][-1].text


def go_on(chat: Chat, *replies: str) -> None:
    script_of(chat).replies += map(Reply, replies)
    take_turn(chat, "Go on.")


def results(chat: Chat) -> list[Message]:
    return [message for message in chat.history if message.role == "tool"]


def last_result(chat: Chat) -> tuple[str, str]:
    result = results(chat)[-1].result
    assert result is not None
    return result.status, result.text


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_the_model_can_page_together_is_the_whole_result(text: str) -> None:
    chat = read_log(text=text, context=16_384)
    while call := CALL.search(shown_last(chat)):
        go_on(chat, call[0], "Read.")
    cut, *pages = results(chat)
    note = NOTE.search(cut.text)
    assert note
    head, tail = cut.text[: note.start()], cut.text[note.end() :]
    head += "\n" if note[0].startswith("\n") and text.startswith(head + "\n") else ""
    assert head + "".join(page.text.partition("\n")[2] for page in pages) + tail == text
    assert cut.result is not None and cut.result.text == text
    assert head and tail and len(pages) > 1


def test_a_cut_result_says_what_was_left_out_and_how_it_is_read() -> None:
    told = shown_last(read_log())
    note = NOTE.search(told)
    assert note and note[3] == "1600" and note[4] == "r1"
    assert f"\n{int(note[1]) - 1:04} the tide" in told and f"]\n{int(note[2]) + 1:04} the tide" in told
    assert more(range=f"{note[1]}-{note[2]}") in told


def test_a_result_that_fits_is_told_as_it_is() -> None:
    told = shown_last(read_log(text="calm\n" * 10))
    assert "calm\n" * 10 in told and "more" not in told


@pytest.mark.parametrize("form", ["json", "xml", "hermes", "pythonic"])
def test_the_call_that_is_taught_is_one_in_the_form_that_is_asked_for(form: str) -> None:
    chat = read_log(tool_format=form)
    taught = shown_last(chat).rpartition("finds a text:\n")[2].partition("\nAnswer")[0]
    go_on(chat, taught, "Read.")
    assert last_result(chat)[1].startswith("Lines ")


def test_prompts_only_grow_while_the_model_pages_and_its_tools_stay_as_they_are() -> None:
    calls = [more(range="100-140"), more(search="TIDE at Husum is 90"), more(range="7000-"), more(handle="r2")]
    prompts = script_of(read_log(*calls, context=16_384)).prompts
    assert len(prompts) == 6
    for before, after in pairwise(prompts):
        assert after[: len(before)] == before
    assert "more" not in prompts[-1][0].text


def test_a_search_gives_the_lines_that_hold_a_text_with_their_numbers_and_neighbours() -> None:
    lines = last_result(read_log(more(search="0777 THE tide")))[1].splitlines()
    assert [line.partition(" the")[0] for line in lines[1:]] == ["776: 0776", "777: 0777", "778: 0778"]
    assert lines[0] == "Lines of r1 that match: 1 of 1600"


def test_a_search_finds_what_stands_across_the_pieces_of_a_long_line() -> None:
    text = "x" * 115 + "the anchor" + "y" * 60_000
    lines = last_result(read_log(more(search="The Anchor"), text=text))[1].splitlines()
    assert [line[:2] for line in lines[1:]] == ["1:", "2:", "3:"]


def test_a_search_that_finds_too_much_is_gone_on_with_from_where_it_ended() -> None:
    chat = read_log(more(search="husum"), context=16_384)
    found: list[str] = []
    while call := CALL.search(shown_last(chat)):
        found += re.findall(r"^(\d+): ", results(chat)[-1].text, re.MULTILINE)
        go_on(chat, call[0], "Read.")
    found += re.findall(r"^(\d+): ", results(chat)[-1].text, re.MULTILINE)
    assert list(dict.fromkeys(map(int, found))) == list(range(1, 1601))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"handle": "r2"}, "r1"),
        ({"handle": "log", "search": "x"}, "r1"),
        ({"range": "1601-1700"}, "lines 1 to 1600"),
        ({"range": "20-10"}, "lines 1 to 1600"),
        ({"range": "all"}, "lines 1 to 1600"),
    ],
)
def test_a_handle_or_a_range_that_is_not_there_fails_and_says_which_there_are(
    arguments: dict[str, str], told: str
) -> None:
    status, text = last_result(read_log(more(**arguments)))
    assert status == "failed" and told in text


@pytest.mark.parametrize("asked", ["30", 30, "30-30", " 30 "])
def test_a_line_can_be_asked_for_in_several_ways(asked: object) -> None:
    assert last_result(read_log(more(range=asked)))[1].splitlines()[1:] == ["0030 the tide at Husum is 28 cm"]


def test_it_is_run_without_asking_whatever_the_policy_says() -> None:
    policy = Policy("none", allow=("log",), deny=("more",), max_calls=1)
    assert last_result(read_log(more(range="7"), policy=policy))[0] == "completed"


def test_it_is_a_round_like_any_other() -> None:
    chat = make_chat([call_text("log"), more(range="7"), more(range="8")], box_of(LOG), max_steps=2)
    take_turn(chat, "Read.")
    assert len(results(chat)) == 2


def test_before_anything_was_cut_it_is_no_tool() -> None:
    chat = make_chat(['{"name": "more", "arguments": {"handle": "r1"}}', more(), "Well."], box_of(LOG))
    assert any(isinstance(event, Text) for event in take_turn(chat, "Hello"))
    take_turn(chat, "Go on.")
    assert last_result(chat) == ("failed", 'There is no tool "more".')


def test_a_call_of_it_without_a_marker_is_known_once_something_was_cut() -> None:
    chat = read_log('{"name": "more", "arguments": {"handle": "r1", "range": "7"}}')
    assert last_result(chat)[1].endswith("0007 the tide at Husum is 49 cm\n")


def test_what_was_taken_back_is_gone_and_its_handle_is_not_given_again() -> None:
    chat = read_log()
    del chat.history[:]
    go_on(chat, more(), call_text("log"), more("r2", range="7"), "Read.")
    gone, again, page = results(chat)
    assert gone.text == 'There is no result "r1" to see more of.'
    assert again.more is not None and again.more["handle"] == "r2"
    assert page.result is not None and page.result.status == "completed"


def test_a_resumed_talk_pages_in_what_was_cut_before(tmp_path: Any) -> None:
    shelf = Shelf(tmp_path)
    chat = make_chat([call_text("log"), "Read."], box_of(LOG))
    sessions = Sessions(shelf, chat, print)
    take_turn(chat, "Read the log.")
    sessions.close()
    later = make_chat([more(range="700"), call_text("log"), "Read."], box_of(LOG))
    Sessions(shelf, later, print).resume(sessions.name)
    take_turn(later, "Go on.")
    assert later.history[: len(chat.history)] == chat.history
    page, again = results(later)[1:]
    assert page.text.endswith("\n0700 the tide at Husum is 77 cm\n")
    assert again.more is not None and again.more["handle"] == "r2"


@pytest.mark.parametrize("context", [2048, 4096, 32_768])
def test_eight_large_results_of_one_reply_share_what_is_free(context: int) -> None:
    names = [f"log{number}" for number in range(8)]
    pages = "".join(more(f"r{number}", range="200-") for number in range(1, 9))
    chat = make_chat(["".join(map(call_text, names)), pages, "Read."], box_of(LOG, *names), context=context)
    take_turn(chat, "Read them all.")
    sizes = [chat.backend.count_tokens(prompt) for prompt in script_of(chat).prompts]
    lengths = [len(message.text) for message in results(chat)[:8]]
    room = context - min(chat.settings.generation.max_tokens, context // 4)
    assert max(lengths) - min(lengths) < 80
    assert sizes[1] - sizes[0] <= (room - sizes[0]) // 2 + len("".join(map(call_text, names))) // 4
    assert sizes[2] <= room


def test_a_large_result_in_each_round_of_a_turn_does_not_overflow_the_window() -> None:
    calls = [call_text("log", n=number) for number in range(10)]
    sizes = [
        len("".join(one.text for one in prompt)) // 4 for prompt in script_of(read_log(*calls, max_steps=12)).prompts
    ]
    assert len(sizes) == 12
    assert sizes[-1] < 4096


def test_a_small_result_leaves_the_others_what_it_does_not_need() -> None:
    async def tell(size: int) -> str:
        return LOG[:size]

    alone, beside = (
        make_chat([calls, "Read."], Box({"log": tell}))
        for calls in (call_text("log", size=50_000), call_text("log", size=40) + call_text("log", size=50_000))
    )
    for chat in (alone, beside):
        take_turn(chat, "Read.")
    assert results(beside)[0].text == LOG[:40]
    assert len(results(beside)[1].text) > 0.9 * len(results(alone)[0].text)


def test_in_a_long_talk_a_result_may_take_what_older_turns_hold() -> None:
    chat = make_chat(["word " * 350] * 6 + [call_text("log"), "Read."], box_of(LOG))
    for number in range(6):
        take_turn(chat, f"Say something, {number}.")
    take_turn(chat, "Read the log.")
    assert len(results(chat)[0].text) // 4 > 500
    assert chat.backend.count_tokens(script_of(chat).prompts[-1]) <= 4096


def test_a_tool_of_a_server_with_the_same_name_is_called_by_its_full_name() -> None:
    box = box_of(LOG, "log", "more")
    chat = make_chat([call_text("more"), call_text("log"), more(range="7"), call_text("box__more"), "Read."], box)
    take_turn(chat, "Read.")
    assert box.called == [("more", {}), ("log", {}), ("more", {})]
    assert results(chat)[2].text.endswith("0007 the tide at Husum is 49 cm\n")
    assert '"box__more"' in script_of(chat).prompts[0][0].text
    assert '"more"' not in script_of(chat).prompts[0][0].text


def test_an_engine_that_is_held_to_a_grammar_may_write_the_call_once_something_was_cut() -> None:
    grammars: list[CallGrammar | None] = []

    class Held(Scripted):
        constrains = True

        def stream(self, prompt: Any, generation: Any, _tools: Any = (), grammar: CallGrammar | None = None) -> Any:
            grammars.append(grammar)
            return super().stream(prompt, generation)

    chat = make_chat([], box_of(LOG))
    chat.backend = Held([call_text("log"), "Read."])
    take_turn(chat, "Read.")
    assert [grammar is not None and "more" in grammar.gbnf for grammar in grammars] == [False, True]


def test_an_engine_with_its_own_way_to_show_tools_is_taught_the_call_too() -> None:
    chat = make_chat([call_text("log"), more(range="7"), "Read."], box_of(LOG))
    script_of(chat).native_tools = True
    take_turn(chat, "Read.")
    told = script_of(chat).prompts[1][-1]
    assert told.role == "tool" and CALL.search(told.text)
    assert last_result(chat)[0] == "completed"


def test_a_result_cannot_pass_for_the_line_that_teaches_the_call() -> None:
    taught = language.load()("prompt.read_on")
    assert "```" not in shown_last(read_log(text="calm\nas above:"))
    assert f"```\ncalm\n{taught}\n```" in shown_last(read_log(text=f"calm\n{taught}"))


def test_a_long_result_of_a_real_server_is_paged_in() -> None:
    server = MCPServer("stage")

    @server.tool()
    def log() -> str:
        """The log of the harbour."""
        return LOG

    async def talk() -> Chat:
        backend = Scripted([call_text("log"), more(search="1234 the"), "Read."])
        async with Toolbox.of({"stage": server}) as box:
            chat = Chat(backend, box, Settings(policy=Policy("all")), language.load())
            await collect(chat.send("Read the log."))
        return chat

    assert len(LOG) > 50_000
    assert "\n1234: 1234 the tide at Husum is 84 cm\n" in last_result(asyncio.run(talk()))[1]
