"""JSON as small models write it: read exactly, repaired and named, or rejected; never guessed."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzing import examples
from rkllm_chat.calls.json_repair import MAX_DEPTH, REPAIRS, parse_lenient_json
from rkllm_chat.core.strict_json import MAX_NUMBER_DIGITS

light = settings(max_examples=examples(60))

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
    "unknown escape": (r'"j": "\d+\.\w* \u00e9\n"', "j", "\\d+\\.\\w* é\n"),
    "unquoted key": ("$g-1 : [{ключ: 1}]", "$g-1", [{"ключ": 1}]),
    "comment": ('/* " */ "h": // }\n # ]\n8 #', "h", 8),
    "extra brace": ('"i": 9', "i", 9),
}

REPAIRED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "None": (None, ("Python literal",)),
    '{"a": {}"b": 2}': ({"a": {}, "b": 2}, ("missing comma",)),
    "{a: 1 b: 2}": ({"a": 1, "b": 2}, ("missing comma", "unquoted key")),
    '{"a": "x"\n"b": 2}': ({"a": "x", "b": 2}, ("missing comma",)),
    '{"a": [1]}]\n': ({"a": [1]}, ("extra brace",)),
    '{"a": {"b": {}}}}': ({"a": {"b": {}}}, ("extra brace",)),
    '[{"a": {}}, {}]}': ([{"a": {}}, {}], ("extra brace",)),
    '{"a": 1} // }': ({"a": 1}, ("comment",)),
    '{"a": "// no # comment /* at */ all",}': ({"a": "// no # comment /* at */ all"}, ("trailing comma",)),
    '{“a”: "“b”, ‘c’"}': ({"a": "“b”, ‘c’"}, ("curly quotes",)),
    "{'a': \"it's\", 'b': \"\"}": ({"a": "it's", "b": ""}, ("single quotes",)),
    "{'a': '\\ud83c\\udf0a\\n\\/', 'b': -0, 'c': 1E5}": ({"a": "🌊\n/", "b": 0, "c": 1e5}, ("single quotes",)),
    "[" * MAX_DEPTH + "]" * MAX_DEPTH: (json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH), ()),
    "[" * MAX_DEPTH + "1," + "]" * MAX_DEPTH: (
        json.loads("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH),
        ("trailing comma",),
    ),
}

# Each is rejected whether or not an end marker follows: a word of the reason, and the column in the first line.
REJECTED: dict[str, tuple[str, int]] = {
    "": ("value", 1),
    "hello": ("'hello'", 1),
    '{"code": "print("hi")"}': ("quote", 18),
    '{"a": "A" b: "C"}': ("quote", 11),
    "{'a': 'it's'}": ("quote", 11),
    '{"a": "see "//host" x", "b": 1}': ("quote", 13),
    "{“a”: “say “hi””}": ("“", 12),
    '{“a": 1, "b”: 2}': ('"', 4),
    "”a”": ("'”'", 1),
    '{"a": "x\\': ("not closed", 7),
    "{'a': 'x\\'}": ("not closed", 7),
    '{"a": 1,': ("key", 9),
    '{"a"': ("colon", 5),
    '{"a": {"b": 1': ("} is missing", 14),
    '{"a": 1 // x }': ("} is missing", 15),
    '{"a": [1}': ("]", 9),
    '["a": 1]': ("':'", 5),
    '{"a": 1}}}': ("'}'", 10),
    '{"a": {}, "b": 2}}': ("'}'", 18),
    "[[1] 2]]": ("']'", 8),
    '{"a": 1} and more': ("'a'", 10),
    "1}": ("'}'", 2),
    '{"a": 1 /* 2, */ "b": 3}': ("comma", 18),
    "[1 234]": ("comma", 4),
    '[1"a"]': ("comma", 3),
    "[1,,2]": ("','", 4),
    "{1: 2}": ("'1'", 2),
    "{null: 2}": ("'null'", 6),
    "{a b: 2}": ("'a'", 4),
    "{'a': yes}": ("'yes'", 7),
    "{'a': 01}": ("'01'", 7),
    "['a', #fff,'b']": ("'#fff'", 7),
    "[1, /* 2]": ("'/*'", 5),
    "{'a': '\\x41'}": ("escape", 7),
    "[" * (MAX_DEPTH + 1) + "1," + "]" * (MAX_DEPTH + 1): (f"{MAX_DEPTH} levels", MAX_DEPTH + 1),
}
# Whole JSON that is rejected has no place.
REJECTED_VALUES = {
    '{"a": NaN}': "NaN",
    "{'a': -Infinity}": "-Infinity",
    '{"a": 1e999}': "1e999",
    "{'a': 1e999}": "1e999",
    "1" * (MAX_NUMBER_DIGITS + 1): str(MAX_NUMBER_DIGITS),
    f"['', {'1' * (MAX_NUMBER_DIGITS + 1)}]": str(MAX_NUMBER_DIGITS),
    '{"a": 1, "a": 2}': '"a" occurs twice',
    "{'\\n': 1, \"\\n\": 2}": '"\\n" occurs twice',
    '["\\ud800"]': "surrogate",
    "['\\ud800']": "surrogate",
    "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1): f"{MAX_DEPTH} levels",
    "[" * 100_000: "too deep",
}


def test_each_damage_is_repaired_and_named() -> None:
    for name, (text, key, value) in PIECES.items():
        extra = "}" if name == "extra brace" else ""
        assert parse_lenient_json(f"{{{text}\n}}{extra}") == ({key: value}, (name,))


def test_two_damages_in_one_text_are_repaired_and_named_in_order() -> None:
    for first, second in permutations(PIECES, 2):
        (text, key, value), (other_text, other_key, other_value) = PIECES[first], PIECES[second]
        extra = "}" if "extra brace" in (first, second) else ""
        names = tuple(name for name in REPAIRS if name in (first, second))
        repaired = {key: value, other_key: other_value}
        assert parse_lenient_json(f"{{{text}\n, {other_text}\n}}{extra}") == (repaired, names)


@pytest.mark.parametrize("text", REPAIRED)
def test_damage_that_leaves_one_meaning_is_repaired(text: str) -> None:
    value, repairs = REPAIRED[text]
    assert repr(parse_lenient_json(text)) == repr((value, repairs))


@pytest.mark.parametrize("text", REJECTED, ids=lambda text: ascii(text[:40]))
def test_text_without_one_meaning_is_rejected_with_its_place(text: str) -> None:
    reason, column = REJECTED[text]
    for may_close in (False, True):
        with pytest.raises(ValueError) as rejected:
            parse_lenient_json(text, may_close=may_close)
        assert reason in str(rejected.value) and str(rejected.value).endswith(f" at line 1, column {column}")


@pytest.mark.parametrize("text", REJECTED_VALUES, ids=lambda text: ascii(text[:40]))
def test_a_value_that_is_not_json_is_rejected(text: str) -> None:
    with pytest.raises(ValueError) as rejected:
        parse_lenient_json(text, may_close=True)
    assert REJECTED_VALUES[text] in str(rejected.value)


def test_a_fault_in_a_later_line_names_that_line() -> None:
    with pytest.raises(ValueError, match=r"at line 2, column 2$"):
        parse_lenient_json('{"a": 1 // 2,\n "b": 3}')


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('{"a": [1]', {"a": [1]}, ("missing brace",)),
        ('[{"a": 1}, 2\n', [{"a": 1}, 2], ("missing brace",)),
        ("{'a': 1", {"a": 1}, ("single quotes", "missing brace")),
    ],
)
def test_one_last_brace_is_added_only_where_the_end_of_the_text_is_known(
    text: str, value: Any, repairs: tuple[str, ...]
) -> None:
    assert parse_lenient_json(text, may_close=True) == (value, repairs)
    with pytest.raises(ValueError, match=r"[}\]] is missing at line \d"):
        parse_lenient_json(text)


@pytest.mark.slow
@light
@given(value=values, indent=st.sampled_from([None, 1]), ascii_only=st.booleans(), may_close=st.booleans())
def test_json_is_read_as_json_reads_it(value: Any, indent: int | None, ascii_only: bool, may_close: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert repr(parse_lenient_json(text, may_close=may_close)) == repr((json.loads(text), ()))


@pytest.mark.slow
@light
@given(value=values, data=st.data())
def test_a_value_written_with_any_damage_is_read_back(value: Any, data: st.DataObject) -> None:
    assert repr(parse_lenient_json(write_damaged(value, data))[0]) == repr(value)


def test_a_text_truncated_anywhere_is_rejected() -> None:
    text = "{" + "\n, ".join(piece for piece, _, _ in PIECES.values()) + "\n}"
    assert parse_lenient_json(text)[0] == {key: value for _, key, value in PIECES.values()}
    for cut in range(len(text)):
        with pytest.raises(ValueError):
            parse_lenient_json(text[:cut])


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(value=objects, data=st.data())
def test_a_truncated_object_is_rejected(value: dict[str, Any], data: st.DataObject) -> None:
    for text in (json.dumps(value, ensure_ascii=False, indent=1), write_damaged(value, data)):
        with pytest.raises(ValueError):
            parse_lenient_json(text[: data.draw(st.integers(0, len(text) - 1))])


@light
@given(text=scraps, may_close=st.booleans())
def test_any_text_gives_a_value_or_a_sentence(text: str, may_close: bool) -> None:
    try:
        value, repairs = parse_lenient_json(text, may_close=may_close)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert repairs or value == json.loads(text)


@pytest.mark.slow
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        "[" + "'x', True, {a: 1,} // c\n," * 4_000 + "]",
        "{" + ",".join(f"'{number}': 1" for number in range(10_000)) + ", '9999': 2}",
        "['" + "\\'" * 50_000,
        "[" + "1 " * 20_000 + "/*" * 20_000,
        "['" + '"' * 100_000 + "' " + " " * 100_000,
        "['', " + "1" * 100_000,
        "{" + "a" * 100_000,
    ],
    ids=lambda text: text[:12],
)
def test_the_time_for_a_long_text_grows_with_its_length(text: str) -> None:
    """A fifth of a second or less each; a step that looks back over the text would take hours."""
    try:
        parse_lenient_json(text)
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


@pytest.mark.parametrize("text", [r"\bword\d", r"C:\Program\new", r"it\'s", r"\x41", r"\u12", r"\0", "\\\n"])
def test_an_unknown_escape_that_may_mean_something_else_is_rejected(text: str) -> None:
    assert parse_lenient_json(r'["C:\Program\Acme"]')[0] == [r"C:\Program\Acme"]
    with pytest.raises(ValueError, match="escape"):
        parse_lenient_json(f'["{text}"]')
