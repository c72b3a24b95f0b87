"""Calls written as Python: read without being run, rejected with their place, written and read back."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.calls.json_repair import MAX_DEPTH
from rkllm_chat.calls.python_parser import MAX_LENGTH, parse_calls, write_python_call
from rkllm_chat.core.strict_json import MAX_NUMBER_DIGITS

light = settings(max_examples=examples(60))

names = st.from_regex(r"[A-Za-z0-9_./-]{1,64}", fullmatch=True)
keys = st.text() | st.sampled_from(
    ["from", "class", "None", "x", "max-n", "a b", "", "\ufb01", "0", "名", "हिंदी", "**", "self"]
)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)
tuples = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.tuples(inner), max_leaves=12
)
MARKS = "()[]{},=:;*-+'\"\\#r1 \n\r\0\ud800（"
scraps = st.lists(
    st.sampled_from([*MARKS, "f(", "g.h(", "print(", "x=", "**", ".5", "1e999", "true", "'a'", "'''", "if"])
)
scrap_texts = scraps.map("".join)

READ: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "[f(x='a', y=1), g()]": [("f", {"x": "a", "y": 1}), ("g", {})],
    "f(); g(), h()\n\ni()\n": [("f", {}), ("g", {}), ("h", {}), ("i", {})],
    "[f(),\n  g(),\n]\n[h()]": [("f", {}), ("g", {}), ("h", {})],
    "# first\nf(x=1)  # ) then\n  g()": [("f", {"x": 1}), ("g", {})],
    "print(f(x=1))": [("f", {"x": 1})],
    "print(x=1)\nprint()": [("print", {"x": 1}), ("print", {})],
    "print(print(x=1))": [("print", {"x": 1})],
    "functions.f (a=1)": [("functions.f", {"a": 1})],
    "get-time/now(from='x', class=1, max-n=2)": [("get-time/now", {"from": "x", "class": 1, "max-n": 2})],
    "天気(都市='東京',)": [("天気", {"都市": "東京"})],
    "f(a=True, b=None, c=false, d=null)": [("f", {"a": True, "b": None, "c": False, "d": None})],
    "f(a=-1, b=1_000, c=0x1F, d=-.5, e=1e+3, f=2.)": [
        ("f", {"a": -1, "b": 1000, "c": 31, "d": -0.5, "e": 1e3, "f": 2.0})
    ],
    "f(x=[1, [2,],], y=(1, 2), z=(1,), w=(), v=(1))": [("f", {"x": [1, [2]], "y": [1, 2], "z": [1], "w": [], "v": 1})],
    "f(x={'a': {'b': [None]}, \"c\": ()})": [("f", {"x": {"a": {"b": [None]}, "c": []}})],
    "f(x=('a' \"b\"\n 'c'), y='a' 'b')": [("f", {"x": "abc", "y": "ab"})],
    "f(x='it\\'s', y='\\u00e9\\x41\\N{DEGREE SIGN}')": [("f", {"x": "it's", "y": "éA°"})],
    "f(x=r'\\d\\n', y=u'x', z='\\d+', w='\\\n')": [("f", {"x": "\\d\\n", "y": "x", "z": "\\d+", "w": ""})],
    "f(x='''a\n'b' ''', y=\"\"\"\"c\n\"\"\")": [("f", {"x": "a\n'b' ", "y": '"c\n'})],
    "f(x='a\nb\\\\\n', y={'a', 'b'}, z={1}, w=007, v=-09)": [
        ("f", {"x": "a\nb\\\n", "y": ["a", "b"], "z": [1], "w": 7, "v": -9})
    ],
    "f(x='), g(y=1) # [')": [("f", {"x": "), g(y=1) # ["})],
    "f(**{'a b': 1}, c=2, **{})": [("f", {"a b": 1, "c": 2})],
    f"f(x={'[' * (MAX_DEPTH - 1)}{']' * (MAX_DEPTH - 1)})": [("f", {"x": json.loads("[" * 63 + "]" * 63)})],
}

# Text -> a word of the reason, and its column; 0 where it has none.
REJECTED: dict[str, tuple[str, int]] = {
    "": ("the end of the text", 1),
    "[]": ("no call", 3),
    "I call f(x=1)": ("'I'", 1),
    "f(x=1) and more": ("'and'", 8),
    "f(x=1) g()": ("end of the line", 8),
    "[[f()]]": ("'['", 2),
    "f()()": ("'('", 4),
    "f(x=1": ("comma or )", 6),
    "f(x=[1, 2)": ("comma or ]", 10),
    "f(1)": ("name=value", 3),
    "f(,)": ("name=value", 3),
    "print(f(), g())": ("several calls", 16),
    "f(*x)": ("'*'", 3),
    "f(**x)": ("a dict", 5),
    "f(x={**y})": ("'**'", 6),
    "f(x=f'{a}')": ("plain text", 5),
    "f(x=rb'a')": ("plain text", 5),
    "f(x=1+2)": ("'+'", 6),
    "f(x=1-2)": ("'1-2'", 5),
    "f(x=1 if y else 2)": ("'if'", 7),
    "f(x=g())": ("a call", 5),
    "f(x='a'.upper())": ("a call", 8),
    "f(x=[1][0])": ("'['", 8),
    "f(x=...)": ("'...'", 5),
    "f(x=['a' 'b'])": ("a comma is missing", 6),
    "f(x={'a': 1, 'b'})": ("a colon", 17),
    "f(x={1: 2})": ("key in quotes", 6),
    "f(x=-True)": ("'-True'", 5),
    "f(x=1e999)": ("1e999", 0),
    f"f(x={'1' * (MAX_NUMBER_DIGITS + 1)})": (str(MAX_NUMBER_DIGITS), 0),
    "f(x=1, x=2)": ('"x" occurs twice', 0),
    "f(**{'a b': 1, 'x': 2})": ("x=value", 5),
    "f(x={'a': 1, 'a': 2})": ('"a" occurs twice', 0),
    "f(x='a\n": ("not closed", 5),
    "f(x='''a')": ("not closed", 5),
    "f(x='LA''C')": ("touch each other", 9),
    "f(x=“a”)": ("'“a”'", 5),
    "f(x='\\x4')": ("backslash", 5),
    "f(x='\0')": ("backslash", 5),
    "f(x='\ud800')": ("surrogate", 0),
    f"f(x={'[' * MAX_DEPTH}{']' * MAX_DEPTH})": (f"{MAX_DEPTH} levels", 68),
    f"f(x='{'a' * MAX_LENGTH}')": (str(MAX_LENGTH), 0),
}


@pytest.mark.parametrize("text", READ, ids=lambda text: ascii(text[:40]))
def test_calls_are_read(text: str) -> None:
    assert repr(parse_calls(text)) == repr(READ[text])


@pytest.mark.parametrize("text", REJECTED, ids=lambda text: ascii(text[:40]))
def test_text_that_is_not_a_call_with_constants_is_rejected_with_its_place(text: str) -> None:
    reason, column = REJECTED[text]
    with pytest.raises(ValueError) as rejected:
        parse_calls(text)
    assert reason in str(rejected.value)
    assert not column or str(rejected.value).endswith(f" at line 1, column {column}")


def test_no_code_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("print('run')", "f(x=print('run'))", "f(x=f'{print(1)}')", "f(x=__import__('os').abort())"):
        with pytest.raises(ValueError):
            parse_calls(text)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
@light
@given(name=names, arguments=st.dictionaries(keys, values, max_size=4))
@example(name="f", arguments={"x": "\n\r\0\x1b\x85\u2028'\"\\'''\"\"\" \\N #"})
def test_a_call_that_is_written_is_read_back(name: str, arguments: dict[str, Any]) -> None:
    assert repr(parse_calls(write_python_call(name, arguments))) == repr([(name, arguments)])


def test_a_call_is_written_as_python_with_the_quotes_of_json() -> None:
    arguments = {"x": "it's", "y": [1, 2.5], "z": True, "from": None, "a b": {"k": ""}}
    assert write_python_call("get_tide", arguments) == (
        'get_tide(x="it\'s", y=[1, 2.5], z=True, from=None, **{"a b": {"k": ""}})'
    )


@pytest.mark.parametrize("name", ["", "a b", "f(", "a,b", "f\n"])
def test_a_name_that_cannot_begin_a_call_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be written as the name of a call"):
        write_python_call(name, {})


@light
@given(value=tuples, write=st.sampled_from([repr, ascii, "u{!r}".format]))
def test_values_are_read_as_python_reads_them(value: Any, write: Any) -> None:
    text = write(value) if isinstance(value, str) else repr(value)
    python = json.loads(json.dumps(ast.literal_eval(text)))  # tuples become lists
    assert repr(parse_calls(f"f(x={text})")) == repr([("f", {"x": python})])


@light
@given(text=scrap_texts | st.text())
def test_any_text_gives_calls_or_a_sentence(text: str) -> None:
    try:
        calls = parse_calls(text)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert parse_calls("\n".join(write_python_call(name, arguments) for name, arguments in calls)) == calls


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(arguments=st.dictionaries(keys, values, max_size=4), data=st.data())
def test_a_truncated_call_is_rejected(arguments: dict[str, Any], data: st.DataObject) -> None:
    text = write_python_call("f", arguments)
    with pytest.raises(ValueError):
        parse_calls(text[: data.draw(st.integers(0, len(text) - 1))])


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("start", "piece"),
    [
        ("", "f("),
        ("", "#"),
        ("f(x=", "["),
        ("f(x=", "1_1"),
        ("f(x='", "\\"),
        *(pytest.param("", piece, marks=pytest.mark.slow) for piece in ("f()\n", "[", "a", "elif x:")),
        *(pytest.param("f(x=", piece, marks=pytest.mark.slow) for piece in ("()", "-1", "1e", "'a' ", "not ")),
        *(pytest.param("f(x='''", piece, marks=pytest.mark.slow) for piece in ("'", "\\")),
    ],
)
def test_a_long_text_neither_hangs_nor_crashes(start: str, piece: str) -> None:
    """Each takes less than a second; Python's own parser runs out of stack on several."""
    text = start + piece * ((MAX_LENGTH - len(start)) // len(piece))
    try:
        assert parse_calls(text)
    except ValueError as error:
        assert len(str(error)) < 200
