"""Calls whose values stand between tags: damaged tags run nothing wrong, and markup in a value is data."""

from __future__ import annotations

import pytest

from rkllm_chat.calls.formats import FORMATS, select_formats
from rkllm_chat.calls.scanner import Scanner
from rkllm_chat.core.events import CallFound, CallUnreadable
from rkllm_chat.core.messages import ToolCall

PARAMETERS = {"write_file": ("path", "content", "mode"), "get_weather": ("location", "days")}
CLOSERS = {
    "xml": "</argument>",
    "minicpm5": "</param>",
    "qwen3-coder": "</parameter>",
    "seed-oss": "</parameter>",
    "glm4.5": "</arg_value>",
    "hy3": "</arg_value:opensource>",
    "dsml": "</｜DSML｜parameter>",
    "gigachat3.5": "</｜GCML｜parameter>",
    "minimax-m2": "</parameter>",
    "dots": "</parameter>",
    "step3": "</steptml:parameter>",
    "muse": "</atem:parameter>",
    "kimi-k3": "<|close|>argument<|sep|>",
}
"""Closing tag of a value in each format with tags."""
FILE = {"path": "a.txt", "content": "hi", "mode": "new"}
HTML = [
    "<p>Price &lt; 5</p>",
    "<table>\n<tr><td>1</td></tr>\n</table>",
    '<object><param name="movie" value="a.swf"><param name="quality" value="high"></object>',
    "if a < b and b > c: print('<not a tag>')",
    "<invoke>x</invoke> <call>y</call>",
    "<think>no thought</think>",
]


def scan(format_name: str, reply: str) -> list[CallFound | CallUnreadable]:
    scanner = Scanner(
        select_formats(format_name), PARAMETERS.__contains__, parameters_of=lambda name: PARAMETERS.get(name, ())
    )
    events = [*scanner.feed(reply), *scanner.close()]
    return [event for event in events if isinstance(event, CallFound | CallUnreadable)]


def write(format_name: str, **arguments: str) -> str:
    return FORMATS[format_name].render_call("write_file", arguments or FILE)


def write_other(format_name: str) -> str:
    return FORMATS[format_name].render_call("get_weather", {"location": "Oslo"})


def damage(format_name: str) -> dict[str, str]:
    """Replies with one damaged tag, by what was done to them."""
    call, closer = write(format_name), CLOSERS[format_name]
    first, rest = call.split(closer, 1)
    misspelt = closer.replace("par", "bar").replace("arg", "ark")
    until_last, end = call.rsplit(closer, 1)
    without_end = until_last + closer
    return {
        "the first value has no end": first + rest,
        "the first value has a misspelt end": first + misspelt + rest,
        "two values have no end": call.replace(closer, "", 2),
        "the last value has no end, and a call follows": f"{until_last}{end}\n{write_other(format_name)}",
        "the call has no end, and a call follows": f"{without_end}\n{write_other(format_name)}",
        "the last value and the call have no end, and a call follows": f"{until_last}\n{write_other(format_name)}",
    }


@pytest.mark.parametrize("format_name", CLOSERS)
def test_a_call_with_a_damaged_tag_never_runs_with_other_arguments(format_name: str) -> None:
    intended = {"write_file": FILE, "get_weather": {"location": "Oslo"}}
    for what, reply in damage(format_name).items():
        for event in scan(format_name, reply):
            if isinstance(event, CallFound):
                assert dict(event.call.arguments) == intended[event.call.name], (what, reply)


@pytest.mark.parametrize("format_name", CLOSERS)
def test_the_model_is_told_where_an_end_tag_is_missing(format_name: str) -> None:
    (event, *_) = scan(format_name, damage(format_name)["the first value has no end"])
    assert isinstance(event, CallUnreadable) and event.fault == "bad_xml"
    assert '"path"' in event.detail and CLOSERS[format_name] in event.detail


def data(format_name: str) -> list[str]:
    """Values that look like markup: of others, of this format, and about this format."""
    opening = write(format_name).split("a.txt")[0].replace("write_file", "your_tool")
    return [
        *HTML,
        f"Write it so:\n{write_other(format_name)}\nand nothing else.",
        f"{write_other(format_name)}\n{write_other(format_name)}",
        f"It begins with {opening} and so on.",
        f"A value ends with {CLOSERS[format_name]} in this format.",
        "<content>\n<p>a</p></content></tool>\n",
        "<content>a</content></function>",
        "a < b <",
    ]


@pytest.mark.parametrize("format_name", CLOSERS)
def test_markup_in_a_value_is_data(format_name: str) -> None:
    for text in data(format_name):
        assert scan(format_name, write(format_name, path="notes.md", content=text)) == [
            CallFound(ToolCall("write_file", {"path": "notes.md", "content": text}))
        ], text


def test_both_kinds_have_enough_cases() -> None:
    assert sum(len(damage(format_name)) for format_name in CLOSERS) >= 60
    assert sum(len(data(format_name)) for format_name in CLOSERS) >= 60


@pytest.mark.parametrize(
    ("format_name", "reply", "arguments"),
    [
        ("xml", '<tool_call name="write_file"/> Done.', {}),
        ("minimax-m2", '<minimax:tool_call>\n<invoke name="write_file"/>\n</minimax:tool_call>', {}),
        ("dsml", '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="write_file">{"path": "a"}</｜DSML｜invoke>\n'
                 "</｜DSML｜tool_calls>", {"path": "a"}),
    ],
)  # fmt: skip
def test_a_call_without_value_tags_is_a_call(format_name: str, reply: str, arguments: dict[str, str]) -> None:
    assert scan(format_name, reply) == [CallFound(ToolCall("write_file", arguments))]


def test_text_in_place_of_the_elements_of_minimax_is_told_to_the_model() -> None:
    mark = "]<]minimax[>["
    reply = f'{mark}<tool_call>\n{mark}<invoke name="write_file">a.txt{mark}</invoke>\n{mark}</tool_call>'
    (event,) = scan("minimax-m3", reply)
    assert isinstance(event, CallUnreadable) and event.fault == "bad_xml"


@pytest.mark.parametrize(
    "reply",
    [
        'Use <tool_call name="write_file"> to write a file, and close it.',
        "Say <tool_call name='write_file'> and the path, then </tool_call>.",
        'A tag like <function name="write_file"> names the tool.',
    ],
)
def test_a_tag_in_a_sentence_is_no_call(reply: str) -> None:
    assert scan("xml", reply) == []


def test_a_broken_call_on_a_line_of_its_own_is_told_to_the_model() -> None:
    (event,) = scan("xml", 'I write it.\n<tool_call name="write_file">a.txt</tool_call>')
    assert isinstance(event, CallUnreadable)
