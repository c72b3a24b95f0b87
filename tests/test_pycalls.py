"""Calls written as Python: read without being run, refused in one sentence, and written so that they are read back."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.exact import LONGEST_NUMBER
from rkllm_chat.formats.damaged import DEEPEST
from rkllm_chat.formats.pycalls import LARGEST, read_calls, write_call

light = settings(max_examples=examples(300))

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
    "f()": [("f", {})],
    "[f(x='a', y=1), g()]": [("f", {"x": "a", "y": 1}), ("g", {})],
    'f(x="v")\n\ng(y=2)\n': [("f", {"x": "v"}), ("g", {"y": 2})],
    "f(); g(), h()": [("f", {}), ("g", {}), ("h", {})],
    "[f(),\n  g(),\n]\n[h()]": [("f", {}), ("g", {}), ("h", {})],
    "# first\nf(x=1)  # ) then\n  g()": [("f", {"x": 1}), ("g", {})],
    "print(f(x=1))": [("f", {"x": 1})],
    "print(x=1)\nprint()": [("print", {"x": 1}), ("print", {})],
    "print(print(x=1))": [("print", {"x": 1})],
    "server.tool(a=1)": [("server.tool", {"a": 1})],
    "functions.f (a=1)": [("functions.f", {"a": 1})],
    "get-time/now(from='x', class=1, max-n=2)": [("get-time/now", {"from": "x", "class": 1, "max-n": 2})],
    "天気(都市='東京',)": [("天気", {"都市": "東京"})],
    "f(a=True, b=False, c=None)": [("f", {"a": True, "b": False, "c": None})],
    "f(a=true, b=false, c=null)": [("f", {"a": True, "b": False, "c": None})],
    "f(a=-1, b=1_000, c=0x1F, d=-.5, e=1e+3, f=2.)": [
        ("f", {"a": -1, "b": 1000, "c": 31, "d": -0.5, "e": 1e3, "f": 2.0})
    ],
    "f(x=[1, [2,],], y=(1, 2), z=(1,), w=(), v=(1))": [
        ("f", {"x": [1, [2]], "y": [1, 2], "z": [1], "w": [], "v": 1}),
    ],
    "f(x={'a': {'b': [None]}, \"c\": ()})": [("f", {"x": {"a": {"b": [None]}, "c": []}})],
    "f(x=('a' \"b\"\n 'c'), y='a' 'b')": [("f", {"x": "abc", "y": "ab"})],
    "f(x='it\\'s', y=\"a\\nb\", z='\\u00e9\\x41\\N{DEGREE SIGN}')": [("f", {"x": "it's", "y": "a\nb", "z": "éA°"})],
    "f(x=r'\\d\\n', y=u'x', z='\\d+', w='\\\n')": [("f", {"x": "\\d\\n", "y": "x", "z": "\\d+", "w": ""})],
    "f(x='''a\n'b' ''', y=\"\"\"\"c\n\"\"\")": [("f", {"x": "a\n'b' ", "y": '"c\n'})],
    "f(x='), g(y=1) # [')": [("f", {"x": "), g(y=1) # ["})],
    "f(**{'a b': 1}, c=2, **{})": [("f", {"a b": 1, "c": 2})],
    f"f(x=[{'[], ' * 100}])": [("f", {"x": [[]] * 100})],
    f"f(x={'[' * (DEEPEST - 1)}{']' * (DEEPEST - 1)})": [("f", {"x": json.loads("[" * 63 + "]" * 63)})],
}

NO_NAME = "an argument without a name (write name=value) stands at line 1, column"
NO_TEXT = "a string that is not plain text begins at line 1, column 5"
BAD_STRING = "a backslash or a character is wrong in the string that begins at line 1, column 5"
REFUSED: dict[str, str] = {
    "": "the end of the text stands where a call must at line 1, column 1",
    "[]": "no call stands in the brackets that end at line 1, column 3",
    "hello": "'hello' stands where a call must at line 1, column 1",
    "I call f(x=1)": "'I' stands where a call must at line 1, column 1",
    "f(x=1) and more": "'and' stands where the end of the line must at line 1, column 8",
    "f(x=1) g()": "a call stands where the end of the line must at line 1, column 8",
    "x = f()": "'x' stands where a call must at line 1, column 1",
    "import os": "'import' stands where a call must at line 1, column 1",
    "[[f()]]": "'[' stands where a call must at line 1, column 2",
    "(f)(x=1)": "'(' stands where a call must at line 1, column 1",
    "f()()": "'(' stands where the end of the line must at line 1, column 4",
    "f(x=1": "the end of the text stands where a comma or ) must at line 1, column 6",
    "f(x=[1, 2)": "')' stands where a comma or ] must at line 1, column 10",
    "[f(x=1)": "the end of the text stands where a comma or ] must at line 1, column 8",
    "f(x=1))": "')' stands where the end of the line must at line 1, column 7",
    "f(1)": f"{NO_NAME} 3",
    "f(x=1, 'a')": f"{NO_NAME} 8",
    "f(x)": f"{NO_NAME} 3",
    "f(x:=1)": f"{NO_NAME} 3",
    "f(,)": f"{NO_NAME} 3",
    "print('x')": f"{NO_NAME} 7",
    "print(print(f()))": f"{NO_NAME} 13",
    "print(f(), g())": "several calls stand in the print() that ends at line 1, column 16",
    "f(*x)": "a mark that no call has ('*') stands at line 1, column 3",
    "f(**x)": "'x' stands where a dict must at line 1, column 5",
    "f(x={**y})": "'**' stands where a key in quotes must at line 1, column 6",
    "f(x=f'{a}')": NO_TEXT,
    "f(x=b'a')": NO_TEXT,
    "f(x=rb'a')": NO_TEXT,
    "f(x=1+2)": "a mark that no call has ('+') stands at line 1, column 6",
    "f(x=1-2)": "'1-2' stands where a value must at line 1, column 5",
    "f(x='a' % 3)": "a mark that no call has ('%') stands at line 1, column 9",
    "f(x=not True)": "'not' stands where a value must at line 1, column 5",
    "f(x=1 if y else 2)": "'if' stands where a comma or ) must at line 1, column 7",
    "f(x=lambda: 1)": "'lambda' stands where a value must at line 1, column 5",
    "f(x=[y for y in z])": "'y' stands where a value must at line 1, column 6",
    "f(x=[1 for y in z])": "'for' stands where a comma or ] must at line 1, column 8",
    "f(x=g())": "a call stands where a value must at line 1, column 5",
    "f(x='a'.upper())": "a call stands where a comma or ) must at line 1, column 8",
    "f(x=[1][0])": "'[' stands where a comma or ) must at line 1, column 8",
    "f(x=y.z)": "'y.z' stands where a value must at line 1, column 5",
    "f(x=...)": "'...' stands where a value must at line 1, column 5",
    "f(x=1j)": "'1j' stands where a value must at line 1, column 5",
    "f(x={1, 2})": "'1' stands where a key in quotes must at line 1, column 6",
    "f(x={'a'})": "'}' stands where a colon must at line 1, column 9",
    "f(x={1: 2})": "'1' stands where a key in quotes must at line 1, column 6",
    "f(x=007)": "'007' stands where a value must at line 1, column 5",
    "f(x=--1)": "'--1' stands where a value must at line 1, column 5",
    "f(x=-True)": "'-True' stands where a value must at line 1, column 5",
    "f(x=nan)": "'nan' stands where a value must at line 1, column 5",
    "f(x=1e999)": "1e999 is too large a number",
    f"f(x={'1' * (LONGEST_NUMBER + 1)})": f"a number is longer than {LONGEST_NUMBER} digits",
    "f(x=1, x=2)": 'the key "x" stands twice in one object',
    "f(**{'a b': 1, 'x': 2})": "a dict with the name x (write x=value) stands at line 1, column 5",
    "f(**{'a b': 1}, **{'a b': 2})": 'the key "a b" stands twice in one object',
    "f(x={'a': 1, 'a': 2})": 'the key "a" stands twice in one object',
    "f(x='a)": "the string is not closed that begins at line 1, column 5",
    "f(x='a\nb')": "the string is not closed that begins at line 1, column 5",
    "f(x='''a')": "the string is not closed that begins at line 1, column 5",
    "f(x=“a”)": "'“a”' stands where a value must at line 1, column 5",
    "f(x='\\x4')": BAD_STRING,
    "f(x='\\ud800')": BAD_STRING,
    "f(x='\0')": BAD_STRING,
    "f(x='\ud800')": "half a surrogate pair is no character",
    f"f(x={'[' * DEEPEST}{']' * DEEPEST})": f"nested deeper than {DEEPEST} levels at line 1, column 68",
    f"f(x='{'a' * LARGEST}')": f"the calls are longer than {LARGEST} characters",
}


@pytest.mark.parametrize("text", READ, ids=lambda text: ascii(text[:40]))
def test_calls_are_read(text: str) -> None:
    assert repr(read_calls(text)) == repr(READ[text])


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: ascii(text[:40]))
def test_what_is_no_call_of_constants_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        read_calls(text)
    assert str(refused.value) == REFUSED[text]


def test_nothing_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("print('run')", "f(x=print('run'))", "f(x=f'{print(1)}')", "f(x=__import__('os').abort())"):
        with pytest.raises(ValueError):
            read_calls(text)
    assert capsys.readouterr().out == ""


@light
@given(name=names, arguments=st.dictionaries(keys, values, max_size=4))
@example(name="f", arguments={"x": "\n\r\0\x1b\x85\u2028'\"\\'''\"\"\" \\N #"})
def test_a_call_that_is_written_is_read_back(name: str, arguments: dict[str, Any]) -> None:
    assert repr(read_calls(write_call(name, arguments))) == repr([(name, arguments)])


def test_a_call_is_written_as_python_writes_it() -> None:
    arguments = {"x": "it's", "y": [1, 2.5], "z": True, "from": None, "a b": {"k": ""}}
    assert write_call("get_tide", arguments) == (
        "get_tide(x=\"it's\", y=[1, 2.5], z=True, from=None, **{'a b': {'k': ''}})"
    )


@pytest.mark.parametrize("name", ["", "a b", "f(", "a,b", "f\n"])
def test_a_name_that_cannot_begin_a_call_is_not_written(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be written as the name of a call"):
        write_call(name, {})


@light
@given(value=tuples, write=st.sampled_from([repr, ascii, "u{!r}".format]))
def test_values_are_read_as_python_reads_them(value: Any, write: Any) -> None:
    text = write(value) if isinstance(value, str) else repr(value)
    python = json.loads(json.dumps(ast.literal_eval(text)))  # tuples become lists
    assert repr(read_calls(f"f(x={text})")) == repr([("f", {"x": python})])


@light
@given(text=scrap_texts | st.text())
def test_any_text_gives_calls_or_a_sentence(text: str) -> None:
    try:
        calls = read_calls(text)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert read_calls("\n".join(write_call(name, arguments) for name, arguments in calls)) == calls


@light
@given(arguments=st.dictionaries(keys, values, max_size=4), data=st.data())
def test_a_call_that_is_cut_off_is_refused(arguments: dict[str, Any], data: st.DataObject) -> None:
    text = write_call("f", arguments)
    with pytest.raises(ValueError):
        read_calls(text[: data.draw(st.integers(0, len(text) - 1))])


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "piece", ["f()\n", "f(", "[", "()", "-1", "1", "1_1", "1e", "a", "'", "'''", "'a' ", "\\", "#", "not ", "elif x:"]
)
@pytest.mark.parametrize("start", ["", "f(x=", "f(x='", "f(x='''"])
def test_a_long_text_neither_hangs_nor_crashes(start: str, piece: str) -> None:
    """Each takes less than a second; Python's own parser runs out of stack on several."""
    text = start + piece * ((LARGEST - len(start)) // len(piece))
    try:
        assert read_calls(text)
    except ValueError as error:
        assert len(str(error)) < 200
