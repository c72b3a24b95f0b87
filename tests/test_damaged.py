"""JSON as small models write it: read exactly, mended and named, or refused; never guessed."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.exact import LONGEST_NUMBER
from rkllm_chat.formats.damaged import DEEPEST, REPAIRS, read_json

light = settings(max_examples=examples(300))

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)
objects = st.dictionaries(st.text(), values)
scraps = st.text() | st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", ":", ",", '"', "'", "“", "”", "\\", "\n", " ", "a", "True", "null", "1", "//x\n"]
    )
).map("".join)

# A damaged member of an object each, by the name of its repair: the member's text, its key and its value.
PIECES: dict[str, tuple[str, str, Any]] = {
    "trailing comma": ('"a": [1, ]', "a", [1]),
    "missing comma": ('"b": [1 2 "3" {"x": 4}["y"]\n-5]', "b", [1, 2, "3", {"x": 4}, ["y"], -5]),
    "single quotes": (r"""'c': 'it\'s "so", \\ \u00e9'""", "c", 'it\'s "so", \\ é'),
    "curly quotes": ("“d”: [“it's”, ‘x, y’]", "d", ["it's", "x, y"]),
    "Python literal": ('"e": [True, False, None, true]', "e", [True, False, None, True]),
    "raw newline": ('"f": "1\n2\t3"', "f", "1\n2\t3"),
    "unquoted key": ("$g-1 : [{ключ: 1}]", "$g-1", [{"ключ": 1}]),
    "comment": ('/* " */ "h": // }\n # ]\n8 #', "h", 8),
    "extra brace": ('"i": 9', "i", 9),
}

MENDED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "'x'": ("x", ("single quotes",)),
    "None": (None, ("Python literal",)),
    '"a\nb"': ("a\nb", ("raw newline",)),
    '{"a": 1,}': ({"a": 1}, ("trailing comma",)),
    '{"a": 1 "b": 2}': ({"a": 1, "b": 2}, ("missing comma",)),
    '{"a": "x"\n"b": 2}': ({"a": "x", "b": 2}, ("missing comma",)),
    '{"a": {}"b": 2}': ({"a": {}, "b": 2}, ("missing comma",)),
    "{a: 1 b: 2}": ({"a": 1, "b": 2}, ("missing comma", "unquoted key")),
    '{"a": [1]}}': ({"a": [1]}, ("extra brace",)),
    '{"a": [1]}]\n': ({"a": [1]}, ("extra brace",)),
    '{"a": {"b": {}}}}': ({"a": {"b": {}}}, ("extra brace",)),
    '[{"a": {}}, {}]}': ([{"a": {}}, {}], ("extra brace",)),
    '{"a": 1} // }': ({"a": 1}, ("comment",)),
    '{"a": 1 // one\n}': ({"a": 1}, ("comment",)),
    '{"a": "// no # comment /* at */ all",}': ({"a": "// no # comment /* at */ all"}, ("trailing comma",)),
    '{“a”: "“b”, ‘c’"}': ({"a": "“b”, ‘c’"}, ("curly quotes",)),
    "{'a': \"it's\", 'b': \"\"}": ({"a": "it's", "b": ""}, ("single quotes",)),
    "{'a': '\\ud83c\\udf0a\\n\\/'}": ({"a": "🌊\n/"}, ("single quotes",)),
    "{'a': -0, 'b': 1E5, 'c': 0.1, 'd': -0.0}": ({"a": 0, "b": 1e5, "c": 0.1, "d": -0.0}, ("single quotes",)),
    "[" + "[]" * 100 + "]": ([[]] * 100, ("missing comma",)),
    "[" * DEEPEST + "]" * DEEPEST: (json.loads("[" * DEEPEST + "]" * DEEPEST), ()),
    "[" * DEEPEST + "1," + "]" * DEEPEST: (json.loads("[" * DEEPEST + "1" + "]" * DEEPEST), ("trailing comma",)),
}

INNER = 'a comma is missing, or a quote inside the string before is not written \\",'
# Each is refused whether or not an end marker follows.
REFUSED: dict[str, str] = {
    "": "the end of the text stands where a value must at line 1, column 1",
    " \n": "the end of the text stands where a value must at line 2, column 1",
    "hello": "'hello' stands where a value must at line 1, column 1",
    '{"code": "print("hi")"}': f"{INNER} at line 1, column 18",
    '{"a": "say "hi" now"}': f"{INNER} at line 1, column 13",
    '{"a": "x = " + y + ""}': f"{INNER} at line 1, column 14",
    '{"a": "the 5" screw"}': f"{INNER} at line 1, column 15",
    '{"a": "A" b: "C"}': f"{INNER} at line 1, column 11",
    '{"a": """x"""}': f"{INNER} at line 1, column 9",
    '["say ""hi"""]': f"{INNER} at line 1, column 8",
    "{'a': 'it's'}": f"{INNER} at line 1, column 11",
    '{"a": "see "//host" x"\n, "b": 1}': f"{INNER} at line 1, column 13",
    "{“a”: “say “hi””}": "“ stands inside a string in curly quotes at line 1, column 12",
    '{“a": 1, "b”: 2}': '" stands inside a string in curly quotes at line 1, column 4',
    "{‘a': 1, 'b’: 2}": "' stands inside a string in curly quotes at line 1, column 4",
    "”a”": "'”' stands where a value must at line 1, column 1",
    '{"a": "x': "the string is not closed that begins at line 1, column 7",
    '{"a": "x\\': "the string is not closed that begins at line 1, column 7",
    "{'a': 'x\\'}": "the string is not closed that begins at line 1, column 7",
    '{"a": 1,': "the end of the text stands where a key must at line 1, column 9",
    '{"a":': "the end of the text stands where a value must at line 1, column 6",
    '{"a"': "no colon follows the key 'a' at line 1, column 5",
    "{": "the end of the text stands where a key must at line 1, column 2",
    '{"a": {"b": 1': "the text ends where a } is missing at line 1, column 14",
    '{"a": 1 // x }': "the text ends where a } is missing at line 1, column 15",
    '{"a": [1}': "'}' stands where a comma or ] must at line 1, column 9",
    '["a": 1]': "':' stands where a comma or ] must at line 1, column 5",
    '{ "a" : "{ b": {} }" }': "':' stands where a comma or } must at line 1, column 14",
    '{"a": 1}}}': "'}' follows the end of the JSON at line 1, column 10",
    '{"a": {}, "b": 2}}': "'}' follows the end of the JSON at line 1, column 18",
    "[[1] 2]]": "']' follows the end of the JSON at line 1, column 8",
    '{"a": 1}, {"b": 2}': "',' follows the end of the JSON at line 1, column 9",
    '{"a": 1} and more': "'a' follows the end of the JSON at line 1, column 10",
    "1}": "'}' follows the end of the JSON at line 1, column 2",
    '{"a": 1 // 2,\n "b": 3}': "a comma is missing at line 2, column 2",
    "[1 234]": "a comma is missing at line 1, column 4",
    '[1"a"]': "a comma is missing at line 1, column 3",
    "[,]": "',' stands where a value must at line 1, column 2",
    "[1,,2]": "',' stands where a value must at line 1, column 4",
    "{,}": "',' stands where a key must at line 1, column 2",
    "{1: 2}": "'1' stands where a key must at line 1, column 2",
    "{null: 2}": "'null' stands where a key must at line 1, column 6",
    "{a b: 2}": "no colon follows the key 'a' at line 1, column 4",
    '{"a" 1}': "no colon follows the key 'a' at line 1, column 6",
    "{'a': yes}": "'yes' stands where a value must at line 1, column 7",
    "{'a': undefined}": "'undefined' stands where a value must at line 1, column 7",
    "{'a': 01}": "'01' stands where a value must at line 1, column 7",
    "{'a': +1}": "'+1' stands where a value must at line 1, column 7",
    "{'a': .5}": "'.5' stands where a value must at line 1, column 7",
    "{'a': 1/2}": "'1/2' stands where a value must at line 1, column 7",
    "['a', #fff,\n'b']": "'#fff' stands where a value must at line 1, column 7",
    "[1, /* 2]": "'/*' stands where a value must at line 1, column 5",
    "{'a': '\\x41'}": "JSON knows no such escape as stands in the string at line 1, column 7",
    '{"a": "it\\\'s"}': "JSON knows no such escape as stands in the string at line 1, column 7",
    "\ufeff{}": "'\\ufeff' stands where a value must at line 1, column 1",
    '{"a": NaN}': "NaN is not JSON",
    "{'a': -Infinity}": "-Infinity is not JSON",
    '{"a": 1e999}': "1e999 is too large a number",
    "{'a': 1e999}": "1e999 is too large a number",
    "1" * (LONGEST_NUMBER + 1): f"a number is longer than {LONGEST_NUMBER} digits",
    f"['', {'1' * (LONGEST_NUMBER + 1)}]": f"a number is longer than {LONGEST_NUMBER} digits",
    '{"a": 1, "a": 2}': 'the key "a" stands twice in one object',
    '{"\\n": 1, "\\n": 2}': 'the key "\\n" stands twice in one object',
    "{'a': 1, \"a\": 2}": 'the key "a" stands twice in one object',
    '["\\ud800"]': "half a surrogate pair is no character",
    "['\\ud800']": "half a surrogate pair is no character",
    '["\ud800"]': "half a surrogate pair is no character",
    "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1): f"nested deeper than {DEEPEST} levels",
    "[" * (DEEPEST + 1) + "1," + "]" * (DEEPEST + 1): f"nested deeper than {DEEPEST} levels at line 1, column 65",
    "[" * 100_000: "nested too deep",
}


def test_each_damage_alone_is_mended_and_named() -> None:
    for name, (text, key, value) in PIECES.items():
        extra = "}" if name == "extra brace" else ""
        assert read_json(f"{{{text}\n}}{extra}") == ({key: value}, (name,))


@pytest.mark.parametrize(("first", "second"), list(permutations(PIECES, 2)))
def test_two_damages_in_one_text_are_mended_and_named_in_order(first: str, second: str) -> None:
    (text, key, value), (other_text, other_key, other_value) = PIECES[first], PIECES[second]
    extra = "}" if "extra brace" in (first, second) else ""
    mended = {key: value, other_key: other_value}
    names = tuple(name for name in REPAIRS if name in (first, second))
    assert read_json(f"{{{text}\n, {other_text}\n}}{extra}") == (mended, names)


@pytest.mark.parametrize("text", MENDED)
def test_damage_that_leaves_one_meaning_is_mended(text: str) -> None:
    value, repairs = MENDED[text]
    assert repr(read_json(text)) == repr((value, repairs))


@pytest.mark.parametrize("may_close", [False, True])
@pytest.mark.parametrize("text", REFUSED, ids=lambda text: ascii(text[:40]))
def test_what_has_no_meaning_or_two_is_refused_in_one_sentence(text: str, may_close: bool) -> None:
    with pytest.raises(ValueError) as refused:
        read_json(text, may_close=may_close)
    assert str(refused.value) == REFUSED[text]


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('{"a": [1]', {"a": [1]}, ("missing brace",)),
        ('{"a": {"b": "x"}\n', {"a": {"b": "x"}}, ("missing brace",)),
        ('[{"a": 1}, 2', [{"a": 1}, 2], ("missing brace",)),
        ("{'a': 1", {"a": 1}, ("single quotes", "missing brace")),
    ],
)
def test_one_last_brace_is_added_only_where_the_end_of_the_text_is_known(
    text: str, value: Any, repairs: tuple[str, ...]
) -> None:
    assert read_json(text, may_close=True) == (value, repairs)
    with pytest.raises(ValueError, match=r"^the text ends where a [}\]] is missing at line \d, column \d+$"):
        read_json(text)


@light
@given(value=values, indent=st.sampled_from([None, 1]), ascii_only=st.booleans(), may_close=st.booleans())
def test_json_is_read_as_json_reads_it(value: Any, indent: int | None, ascii_only: bool, may_close: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert repr(read_json(text, may_close=may_close)) == repr((json.loads(text), ()))


@light
@given(value=values, data=st.data())
def test_a_value_written_with_any_damage_is_read_back(value: Any, data: st.DataObject) -> None:
    assert repr(read_json(write_damaged(value, data))[0]) == repr(value)


def test_a_text_that_is_cut_off_anywhere_is_refused() -> None:
    text = "{" + "\n, ".join(piece for piece, _, _ in PIECES.values()) + "\n}"
    assert read_json(text)[0] == {key: value for _, key, value in PIECES.values()}
    for cut in range(len(text)):
        with pytest.raises(ValueError):
            read_json(text[:cut])


@light
@given(value=objects, data=st.data())
def test_an_object_that_is_cut_off_is_refused(value: dict[str, Any], data: st.DataObject) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1), write_damaged(value, data)):
        with pytest.raises(ValueError):
            read_json(text[: data.draw(st.integers(0, len(text) - 1))])


@light
@given(text=scraps, may_close=st.booleans())
def test_any_text_gives_a_value_or_a_sentence(text: str, may_close: bool) -> None:
    try:
        value, repairs = read_json(text, may_close=may_close)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert repairs or value == json.loads(text)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        "[" + "'x', True, {a: 1,} // c\n," * 20_000 + "]",
        "{" + ",".join(f"'{number}': 1" for number in range(50_000)) + ", '49999': 2}",
        "['" + "\\'" * 250_000,
        "[" + "1 " * 100_000 + "/*" * 100_000,
        "['" + '"' * 500_000 + "' " + " " * 500_000,
        "['', " + "1" * 500_000,
        "{" + "a" * 500_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_long_text_takes_no_longer_than_its_length_asks(text: str) -> None:
    """Measured at a second or less each; a step that looks back over the text would take hours."""
    try:
        read_json(text)
    except ValueError as error:
        assert len(str(error)) < 200


def write_damaged(value: Any, data: st.DataObject) -> str:
    """A value as Python or JavaScript might write it, with commas and comments where they do no harm."""
    pick = data.draw
    if isinstance(value, str):
        return pick(st.sampled_from([json.dumps(value), json.dumps(value, ensure_ascii=False), single_quoted(value)]))
    if value is None or isinstance(value, bool):
        return pick(st.sampled_from([json.dumps(value), repr(value)]))
    if not isinstance(value, list | dict):
        return json.dumps(value)
    comma = pick(st.sampled_from([",", ", ", " ,\n", ", // }\n", " /* ] */, ", ", # '\n"]))
    last = pick(st.sampled_from(["", " ", ",", ", ", " // \n", " /* */"])) if value else ""
    if isinstance(value, list):
        return f"[{comma.join(write_damaged(inner, data) for inner in value)}{last}]"
    members = [f"{write_key(key, data)}: {write_damaged(inner, data)}" for key, inner in value.items()]
    return f"{{{comma.join(members)}{last}}}"


def write_key(key: str, data: st.DataObject) -> str:
    is_bare = key.isascii() and key.isidentifier() and key not in ("true", "false", "null", "True", "False", "None")
    return key if is_bare and data.draw(st.booleans()) else write_damaged(key, data)


def single_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
