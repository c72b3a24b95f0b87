"""Schemas of tools, flags with the arguments that they become, and flags that are rejected.

`test_flags.py` parses each row in process; `mcp_tool/test_calls.py` sends some of them to a server.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rkllm_chat.core.errors import ChatError, UsageError, ValidationError

TEXT, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
BOOLEAN, NULL = {"type": "boolean"}, {"type": "null"}
COLOUR = {"type": "string", "enum": ["red", "green", "blue"]}
POINT = {"type": "object", "properties": {"x": INTEGER, "y": NUMBER, "label": TEXT}, "required": ["x"]}
CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "radius": NUMBER},
    "required": ["kind", "radius"],
}
BOX = {"type": "object", "properties": {"kind": {"const": "box"}, "width": INTEGER}, "required": ["kind", "width"]}
DEFS = {"colour": COLOUR, "point": POINT, "level": {"enum": [1, 2, 3]}, "count": INTEGER}


class Row(NamedTuple):
    """A test id, the schema of the arguments, the words behind the tool's name, the arguments that they become."""

    name: str
    schema: dict[str, Any]
    words: list[str]
    arguments: dict[str, Any]


def one(name: str, x: Any, words: list[str], *value: Any) -> Row:
    """A row about one argument `x`; without a value, none arrives."""
    schema = {"type": "object", "properties": {"x": x}, "$defs": DEFS}
    return Row(name, schema, words, {"x": value[0]} if value else {})


def many(name: str, properties: dict[str, Any], words: list[str], arguments: dict[str, Any], **more: Any) -> Row:
    schema = {"type": "object", "properties": properties, "$defs": DEFS, **more}
    return Row(name, schema, words, arguments)


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def any_of(*branches: Any) -> dict[str, Any]:
    return {"anyOf": list(branches)}


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def map_of(item: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": item}


def list_of(item: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, **more}


ROWS = [
    # text and numbers
    one("text keeps leading zeros", TEXT, ["--x", "007"], "007"),
    one("empty text", TEXT, ["--x="], ""),
    one("text that looks like JSON", TEXT, ["--x", '{"a": 1}'], '{"a": 1}'),
    one("text with = inside", TEXT, ["--x=a=b=c"], "a=b=c"),
    one("text that is two dashes", TEXT, ["--x", "--"], "--"),
    one("text that begins with two dashes", TEXT, ["--x=--force"], "--force"),
    one("large whole number", INTEGER, ["--x", "12345678901234567890123"], 12345678901234567890123),
    one("whole number with a sign and zeros", INTEGER, ["--x", "+007"], 7),
    one("number without a leading zero", NUMBER, ["--x", ".5"], 0.5),
    # booleans
    one("true", BOOLEAN, ["--x"], True),
    one("false", BOOLEAN, ["--no-x"], False),
    one("true as a word", BOOLEAN, ["--x", "True"], True),
    many("a boolean before another flag", {"x": BOOLEAN, "y": TEXT}, ["--x", "--y", "z"], {"x": True, "y": "z"}),
    one("nothing given, nothing sent", {**TEXT, "default": "d"}, []),
    # null
    one("null for a number", {"type": ["integer", "null"]}, ["--x", "null"], None),
    one("null where text may be", any_of(TEXT, NULL), ["--x:=null"], None),
    # choices
    one("a number among choices", ref("level"), ["--x", "2"], 2),
    one("choices of all kinds: null", {"enum": ["auto", 1, True, None]}, ["--x", "null"], None),
    one("the text among equal choices", {"enum": ["1", 1]}, ["--x", "1"], "1"),
    one("a choice by allOf", {"allOf": [ref("colour")], "default": "red"}, ["--x", "red"], "red"),
    # lists
    one("a list by repetition", list_of(TEXT), ["--x", "a", "--x", "b"], ["a", "b"]),
    one("a list as JSON", list_of(TEXT), ["--x", '["a", "b"]'], ["a", "b"]),
    one("an entry that begins with a bracket", list_of(TEXT), ["--x", "[draft] a"], ["[draft] a"]),
    one("a list of objects", list_of(POINT), ["--x", '{"x": 1}', "--x", '{"x": 2}'], [{"x": 1}, {"x": 2}]),
    one("pieces of a list", list_of(INTEGER), ["--x", "[1, 2]", "--x", "3"], [1, 2, 3]),
    one("places of a list", {"type": "array", "prefixItems": [TEXT, INTEGER]}, ["--x", "7", "--x", "7"], ["7", 7]),
    # objects
    one("an object as JSON", POINT, ["--x", '{"x": 1, "y": 0.5}'], {"x": 1, "y": 0.5}),
    one("an object by dots", ref("point"), ["--x.x", "1", "--x.label", "01"], {"x": 1, "label": "01"}),
    one("dots over JSON", POINT, ["--x.x", "2", "--x", '{"x": 1, "y": 5}'], {"x": 2, "y": 5}),
    one("an object by entries", POINT, ["--x", "x=1", "--x", "label=a=b"], {"x": 1, "label": "a=b"}),
    one("an object in an object", object_of(p=POINT), ["--x.p.x", "1"], {"p": {"x": 1}}),
    one("a boolean in an object", object_of(on=BOOLEAN), ["--no-x.on"], {"on": False}),
    # maps
    one("a map of numbers", map_of(INTEGER), ["--x", "a=1", "--x.b.c", "2"], {"a": 1, "b.c": 2}),
    one("a map of objects", map_of(POINT), ["--x.here.x", "1"], {"here": {"x": 1}}),
    one("a map by a pattern of names", {"patternProperties": {"^n_": INTEGER}}, ["--x.n_a", "1"], {"n_a": 1}),
    one("an object that says nothing", {"type": "object"}, ["--x", "a=5", "--x", "b=true"], {"a": "5", "b": True}),
    many("further arguments", {"x": TEXT}, ["--x", "1", "--other", "2"], {"x": "1", "other": 2},
         additionalProperties=INTEGER),
    # unions
    one("a number or text: a number", any_of(INTEGER, TEXT), ["--x", "5"], 5),
    one("text or a list: a list", any_of(TEXT, list_of(TEXT)), ["--x", '["a", "b"]'], ["a", "b"]),
    one("a boolean or text: alone", any_of(BOOLEAN, TEXT), ["--x"], True),
    one("one of two objects by dots", {"oneOf": [CIRCLE, BOX]}, ["--x.kind", "circle", "--x.radius", "1.5"],
        {"kind": "circle", "radius": 1.5}),
    Row("arguments in branches", {"oneOf": [CIRCLE, BOX]}, ["--kind=box", "--width=3"], {"kind": "box", "width": 3}),
    Row("all arguments behind a reference", {"$ref": "#/$defs/point", "$defs": DEFS}, ["--x", "1"], {"x": 1}),
    # anything
    one("anything: a number stays text", {}, ["--x", "5"], "5"),
    one("anything: an object", {}, ["--x", '{"a": [1]}'], {"a": [1]}),
    # names
    many("snake case as kebab", {"max_items": INTEGER}, ["--max-items", "1"], {"max_items": 1}),
    many("camel case as kebab", {"maxItems": INTEGER}, ["--max-items=1"], {"maxItems": 1}),
    many("a name with a dot", {"a.b": TEXT, "a": POINT}, ["--a.b", "1", "--a.x", "2"], {"a.b": "1", "a": {"x": 2}}),
    many("a name with =", {"a=b": TEXT, "a": TEXT}, ["--a=b=c", "--a=c"], {"a=b": "c", "a": "c"}),
    many("a name that ends in :", {"a:": TEXT}, ["--a:=5"], {"a:": "5"}),
    many("an empty name", {"": TEXT}, ["--=v"], {"": "v"}),
    many("a name that begins with dashes", {"--y": TEXT}, ["----y", "1"], {"--y": "1"}),
    many("no-x beside x", {"x": BOOLEAN, "no-x": TEXT}, ["--no-x", "5", "--x=false"], {"no-x": "5", "x": False}),
    many("our options as names", {"json": TEXT, "help": BOOLEAN, "server": TEXT, "output": COLOUR},
         ["--json", "{}", "--help", "--server", "s", "--output", "red"],
         {"json": "{}", "help": True, "server": "s", "output": "red"}),
    many("two dashes end the flags", {"x": TEXT}, ["--x", "1", "--"], {"x": "1"}),
]  # fmt: skip


class Rejected(NamedTuple):
    """The schema of the arguments, the words behind the tool's name, the type of the error, and what it names."""

    schema: dict[str, Any]
    words: list[str]
    error: type[ChatError]
    named: tuple[str, ...]


def bad(x: Any, words: list[str], *named: str) -> Rejected:
    """A row about one argument `x` whose value is rejected."""
    return Rejected(one("", x, []).schema, words, ValidationError, ("--x", *named))


def wrong(x: Any, words: list[str], *named: str) -> Rejected:
    """A row about one argument `x` and flags that cannot be parsed."""
    return Rejected(one("", x, []).schema, words, UsageError, named)


SLIP = {"type": "object", "properties": {"colour": TEXT, "maxItems": TEXT}}

REJECTED = [
    Rejected({"properties": {"x": TEXT}, "required": ["x", "y"]}, [], ValidationError, ("--x is", "--y is")),
    bad(INTEGER, ["--x", "1.5"], "whole number", '"1.5"'),
    bad(INTEGER, ["--x", "1_000"], '"1_000"'),
    bad(INTEGER, ["--x:=1.5"], "whole number", "not 1.5"),
    bad(NUMBER, ["--x:=1e999"], "JSON", "1e999 is too large"),
    bad(BOOLEAN, ["--x=1"], "true or false", '"1"'),
    bad(ref("colour"), ["--x", "gren"], "red, green, blue", '"gren"', 'did you mean "green"?'),
    bad(INTEGER | {"minimum": 1}, ["--x", "0"], "at least 1", "not 0"),
    bad(list_of(INTEGER), ["--x", "1", "--x", "b"], "whole number", '"b"'),
    bad(list_of(POINT), ["--x", '{"y": 1}'], "--x[0].x", "required"),
    bad(POINT, ["--x", '{"x": 1'], "an object", "line 1, column 8"),
    bad(POINT, ["--x.label", "a"], "--x.x", "required"),
    bad(TEXT, ["--x:=[1"], "JSON", "line 1, column 3"),
    bad(TEXT, ['--x:="\\ud800"'], "JSON", "surrogate"),
    bad({"oneOf": [CIRCLE, BOX]}, ["--x.kind=cone"], "--x.kind", "circle", '"cone"', "--x.radius"),
    bad(False, ["--x", "1"], "must not be given"),
    wrong(POINT, ["--x", "z=1"], "--x", '"z"', "x, y, label"),
    wrong(POINT, ["--x.labl", "a"], "--x.labl", "Did you mean --x.label?"),
    wrong(TEXT, ["--x", "1", "--x", "2"], "--x is given 2 times"),
    wrong(TEXT, ["--x"], "--x needs a value."),
    wrong(TEXT, ["--x", "--force"], "--x needs a value.", "--x=--force"),
    wrong(TEXT, ["-x", "1"], '"-x"', "--name VALUE"),
    wrong(BOOLEAN, ["--x", "yes"], '"yes"', "--name VALUE"),
    wrong(TEXT, ["--y", "1"], "--y", "flags are: --x."),
    wrong(TEXT, ["--no-x"], "--no-x", "Did you mean --x?"),
    wrong(BOOLEAN, ["--no-x=true"], "--no-x", "Did you mean --x?"),
    wrong({"type": "object"}, ["--x:=5", "--x.n=1"], "--x.n", "inside --x"),
    Rejected(SLIP, ["--max-item", "1"], UsageError, ("--max-item", "Did you mean --maxItems?")),
    Rejected(SLIP | {"additionalProperties": True}, ["--color", "1"], UsageError, ('"color"', '"colour"', "--json")),
    Rejected({"type": "object"}, ["--x", "1"], UsageError, ("--x", "flags are: none.")),
    Rejected({"type": "object", "properties": {}}, ["--jsn", "{}"], UsageError, ("--jsn", "Did you mean --json?")),
]
