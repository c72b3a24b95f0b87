"""A chat template that teaches no known format gives one: its own calls are read, asked for and constrained."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calls.grammar.matcher import Matcher
from fuzzing import examples
from rkllm_chat.backends.llama.engine import render_or_reject
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.grammar import build_call_grammar
from rkllm_chat.calls.model_families import FAMILIES, UNKNOWN, Family, find_family, make_scanner
from rkllm_chat.calls.scanner import InventedResult, ScannerEvent
from rkllm_chat.core.events import CallFound, Text
from rkllm_chat.core.messages import Tool, ToolCall

BEFORE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
AFTER = "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
NAME, ARGUMENTS = "{{ c.function.name }}", "{{ c.function.arguments | tojson }}"
OBJECT = "{{ {'tool': c.function.name, 'args': c.function.arguments} | tojson }}"
PAIRS = "{%% for k, v in c.function.arguments.items() %%}%s{%% endfor %%}"
VALUES, ATTRIBUTES = PAIRS % "<val={{ k }}>\n{{ v }}\n</val>\n", PAIRS % '<arg name="{{ k }}">{{ v }}</arg>\n'
QUOTED = "{{ %s ~ v ~ %s if v is string else v }}{{ ',' if not loop.last }}"
PYTHON = PAIRS % ("{{ k }}=" + QUOTED % ('"\'"', '"\'"'))
GEMMA = PAIRS % ("{{ k }}:" + QUOTED % ("'<|q|>'", "'<|q|>'"))
KEYS = PAIRS % "<k>{{ k }}</k>\n<v>{{ v }}</v>\n"


def template(call: str, before: str = "", after: str = "", separator: str = "\n") -> str:
    """A chat template that writes calls so."""
    further = f"{{{{ {separator!r} if not loop.last }}}}"
    calls = f"{{% for c in m.tool_calls %}}{call}{further}{{% endfor %}}"
    return f"{BEFORE}{{% if m.tool_calls %}}{before}{calls}{after}{{% endif %}}{AFTER}"


PLAIN = {
    "an object in marks": template(f"<ask>{OBJECT}</ask>"),
    "an object with an id": template("<ask>{{ {'id': c.id, 'name': c.function.name, 'arguments': c.function.arguments}"
                                     " | tojson }}</ask>"),
    "a list": template(OBJECT, "<asks>[", "]</asks>", ", "),
    "a name and an object": template(f"<ask>{NAME}<with>{ARGUMENTS}</ask>"),
    "names in a group": template(f"<ask>{NAME}<with>{ARGUMENTS}</ask>", "<all>", "</all>", ""),
    "tags with their names": template(f"<do={NAME}>\n{VALUES}</do>", "<jobs>\n", "\n</jobs>"),
    "tags with attributes": template(f'<job name="{NAME}">\n{ATTRIBUTES}</job>'),
    "a block of tags": template(f'<job name="{NAME}">\n{ATTRIBUTES}</job>', "<jobs>\n", "\n</jobs>"),
    "tags behind their names": template(f"<job>{NAME}\n{KEYS}</job>"),
}  # fmt: skip
CONTROL = {
    "ids before names": template(f"<|do|>{{{{ c.id }}}}<|fn|>{NAME}<|in|>{ARGUMENTS}<|did|>", "<|all|>", "<|end|>", ""),
    "Python": template(f"{NAME}({PYTHON})", "<|py|>[", "]<|yp|>", ", "),
    "Gemma's notation": template(f"<|go|>call:{NAME}{{{{ '{{' }}}}{GEMMA}{{{{ '}}' }}}}<go|>", separator=""),
}
KNOWN = template("{{ '<' }}tool_call>\n{{ c.function | tojson }}\n</tool_call>")
OTHERS = {
    "no marker": template(OBJECT),
    "a marker that is prose": template(f"Action: {OBJECT}"),
    "values that are hidden": template(f"<ask>{NAME}</ask>"),
    "a long call": template("<ask>" + "x" * 3000 + OBJECT + "</ask>"),
    "calls that end in an error": template("{{ raise_exception('no calls') }}"),
    "a syntax error": template("{% nonsense %}"),
}
ENDLESS = template("{% for i in range(10**5) %}{% for j in range(10**5) %}{% endfor %}{% endfor %}")
TOOL = Tool("save", "", {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}})
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("save", {"path": "ä.txt", "text": 'a "b" </b> [c] {d}'}),
    ("now", {"z": "1"}),
]
TOOLS = [TOOL, Tool("now", "", {"type": "object", "properties": {"z": {"type": "string"}}})]


def write(source: str, *calls: tuple[str, dict[str, Any]], result: str = "") -> str:
    """What the template writes of a turn with these calls."""
    functions = [
        {"id": f"x{i}", "function": {"name": name, "arguments": given}} for i, (name, given) in enumerate(calls)
    ]
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": "", "tool_calls": functions}]
    messages += [{"role": "tool", "content": result}] if result else []
    return render_or_reject(source, {"messages": messages}).removeprefix("<|im_start|>assistant\n")


@pytest.fixture(autouse=True)
def formats_as_before() -> Iterator[None]:
    before = dict(FORMATS)
    yield
    FORMATS.clear()
    FORMATS.update(before)


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    return Matcher()


def find(source: str, name: str = "model") -> Family:
    return find_family([name], source, partial(render_or_reject, source))


def read(family: Family, text: str, size: int) -> list[ScannerEvent]:
    scanner = make_scanner(family.preferred_format, family.accepted_formats, TOOLS)
    pieces = (text[at : at + size] for at in range(0, len(text), size))
    return [*(event for piece in pieces for event in scanner.feed(piece)), *scanner.close()]


@pytest.mark.model
@pytest.mark.parametrize("kind", PLAIN | CONTROL)
def test_the_calls_of_a_new_template_are_read_written_and_constrained(kind: str, matcher: Matcher) -> None:
    source = (PLAIN | CONTROL)[kind]
    family = find(source)
    own = FORMATS[family.accepted_formats[0]]
    assert family.preferred_format == (own.name if kind in PLAIN else "json")
    for text in (write(source, *CALLS), "".join(own.render_call(*call) for call in CALLS)):
        for size in (1, 3, len(text)):
            events = read(family, text, size)
            assert [(e.call.name, e.call.arguments) for e in events if isinstance(e, CallFound)] == CALLS, text
            assert not "".join(e.text for e in events if isinstance(e, Text)).strip()
    grammar = build_call_grammar(TOOLS, own.name)
    assert grammar
    rest = own.render_call(*CALLS[1]).removeprefix(grammar.trigger)
    assert matcher.read(grammar.rules, rest) == f"{rest}$"


def test_a_row_of_the_table_is_taken_where_both_agree() -> None:
    assert find(KNOWN) == replace(UNKNOWN, preferred_format="hermes", accepted_formats=("hermes",))


def test_what_stands_before_a_result_is_known_to_begin_an_invented_one() -> None:
    source = "{# <tool_call> #}" + KNOWN.replace(
        "{{ m.content }}", "{{ '<outcome>' if m.role == 'tool' }}{{ m.content }}"
    )
    family = find(source, "Qwen3-8B")
    assert (family.name, family.preferred_format) == ("qwen3", "hermes")
    events = read(family, write(source, CALLS[1], result="noon").replace("<|im_end|>\n<|im_start|>tool", ""), 5)
    assert "".join(e.text for e in events if isinstance(e, InventedResult)) == "<outcome>noon<|im_end|>\n"


@pytest.mark.parametrize(
    "source", [*OTHERS.values(), pytest.param(ENDLESS, marks=pytest.mark.slow)], ids=[*OTHERS, "a loop without end"]
)
def test_a_template_of_another_kind_leaves_the_default_format(source: str) -> None:
    assert find(source) == UNKNOWN
    assert find(source, "Qwen3-8B") == FAMILIES["qwen3"]


PIECES = [
    "",
    "",
    "\n",
    " ",
    '"',
    "'",
    "=",
    ">",
    "<",
    ",",
    ":",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "x",
    "<a>",
    "</a>",
    "<b>",
    "</b>",
    "<a=",
    '<a name="',
    '">',
    "<|a|>",
    "<|b|>",
    "[A_B]",
    "```\n",
    "call:",
    '{"name": "',
    '", "args": ',
]
fragments = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)


@settings(max_examples=examples(60))
@given(st.lists(fragments, min_size=9, max_size=9), st.booleans())
@example(["<all>", '<a name="', '">', '<b name="', '">', "</b>", "\n", "</a>", "</all>"], False)
@example(["", "<a>", "", "<b>", "", "", "", "", ""], False)
def test_whatever_a_template_writes_around_a_call_is_read_or_left(around: list[str], as_json: bool) -> None:
    def write_reply(calls: list[tuple[str, dict[str, Any]]]) -> str:
        before, begin, behind_name, opening, behind_key, closing, end, separator, after = around
        written = []
        for name, given_values in calls:
            pairs = (f"{opening}{key}{behind_key}{value}{closing}" for key, value in given_values.items())
            body = json.dumps(given_values) if as_json else "".join(pairs)
            written.append(f"{begin}{name}{behind_name}{body}{end}")
        return f"{before}{separator.join(written)}{after}"

    def render(variables: Mapping[str, Any]) -> str:
        text = ""
        for message in variables["messages"]:
            calls = [call["function"] for call in message.get("tool_calls", ())]
            reply = write_reply([(call["name"], call["arguments"]) for call in calls]) if calls else message["content"]
            text += f"<|im_start|>{message['role']}\n{reply}<|im_end|>\n"
        return f"{text}<|im_start|>assistant\n" if variables["add_generation_prompt"] else text

    family = find_family(["model"], f"tool_calls{around}{as_json}", render)
    if family.accepted_formats:
        events = read(family, write_reply([("now", {"z": "12:30"})]), 3)
        assert [event.call for event in events if isinstance(event, CallFound)] == [ToolCall("now", {"z": "12:30"})]
