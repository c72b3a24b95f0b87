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


def scan(form: str, reply: str) -> list[CallFound | CallUnreadable]:
    scanner = Scanner(
        select_formats(form), PARAMETERS.__contains__, parameters_of=lambda name: PARAMETERS.get(name, ())
    )
    events = [*scanner.feed(reply), *scanner.close()]
    return [event for event in events if isinstance(event, CallFound | CallUnreadable)]


def write(form: str, **arguments: str) -> str:
    return FORMATS[form].render_call("write_file", arguments or FILE)


def write_other(form: str) -> str:
    return FORMATS[form].render_call("get_weather", {"location": "Oslo"})


def damage(form: str) -> dict[str, str]:
    """Replies with one damaged tag, by what was done to them."""
    call, closer = write(form), CLOSERS[form]
    first, rest = call.split(closer, 1)
    misspelt = closer.replace("par", "bar").replace("arg", "ark")
    until_last, end = call.rsplit(closer, 1)
    without_end = until_last + closer
    return {
        "the first value has no end": first + rest,
        "the first value has a misspelt end": first + misspelt + rest,
        "two values have no end": call.replace(closer, "", 2),
        "the last value has no end, and a call follows": f"{until_last}{end}\n{write_other(form)}",
        "the call has no end, and a call follows": f"{without_end}\n{write_other(form)}",
        "the last value and the call have no end, and a call follows": f"{until_last}\n{write_other(form)}",
    }


@pytest.mark.parametrize("form", CLOSERS)
def test_a_call_with_a_damaged_tag_never_runs_with_other_arguments(form: str) -> None:
    intended = {"write_file": FILE, "get_weather": {"location": "Oslo"}}
    for what, reply in damage(form).items():
        for event in scan(form, reply):
            if isinstance(event, CallFound):
                assert dict(event.call.arguments) == intended[event.call.name], (what, reply)


@pytest.mark.parametrize("form", CLOSERS)
def test_the_model_is_told_where_an_end_tag_is_missing(form: str) -> None:
    (event, *_) = scan(form, damage(form)["the first value has no end"])
    assert isinstance(event, CallUnreadable) and event.fault == "bad_xml"
    assert '"path"' in event.detail and CLOSERS[form] in event.detail


def data(form: str) -> list[str]:
    """Values that look like markup: of others, of this format, and about this format."""
    opening = write(form).split("a.txt")[0].replace("write_file", "your_tool")
    return [
        *HTML,
        f"Write it so:\n{write_other(form)}\nand nothing else.",
        f"{write_other(form)}\n{write_other(form)}",
        f"It begins with {opening} and so on.",
        f"A value ends with {CLOSERS[form]} in this format.",
        "<content>\n<p>a</p></content></tool>\n",
        "<content>a</content></function>",
        "a < b <",
    ]


@pytest.mark.parametrize("form", CLOSERS)
def test_markup_in_a_value_is_data(form: str) -> None:
    for text in data(form):
        assert scan(form, write(form, path="notes.md", content=text)) == [
            CallFound(ToolCall("write_file", {"path": "notes.md", "content": text}))
        ], text


def test_both_kinds_have_enough_cases() -> None:
    assert sum(len(damage(form)) for form in CLOSERS) >= 60
    assert sum(len(data(form)) for form in CLOSERS) >= 60


@pytest.mark.parametrize(
    ("form", "reply", "arguments"),
    [
        ("xml", '<tool_call name="write_file"/> Done.', {}),
        ("minimax-m2", '<minimax:tool_call>\n<invoke name="write_file"/>\n</minimax:tool_call>', {}),
        ("dsml", '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="write_file">{"path": "a"}</｜DSML｜invoke>\n'
                 "</｜DSML｜tool_calls>", {"path": "a"}),
    ],
)  # fmt: skip
def test_a_call_without_value_tags_is_a_call(form: str, reply: str, arguments: dict[str, str]) -> None:
    assert scan(form, reply) == [CallFound(ToolCall("write_file", arguments))]


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
