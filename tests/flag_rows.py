"""Schemas, flags and the arguments that must arrive; what a tool's own names may be; and what is refused, and how.

`test_flags.py` reads each with the rules alone, `test_toolcommands.py` through a server that records what it is sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
TREE = {
    "type": "object",
    "properties": {"name": TEXT, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
}
DEFS = {"colour": COLOUR, "point": POINT, "level": {"enum": [1, 2, 3]}, "tree": TREE, "count": INTEGER}


class Row(NamedTuple):
    """What it shows; the schema of the arguments; the words behind the tool's name; the arguments that arrive."""

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
    # text stays as it is
    one("text", TEXT, ["--x", "hello"], "hello"),
    one("text with =", TEXT, ["--x=hello"], "hello"),
    one("text keeps leading zeros", TEXT, ["--x", "007"], "007"),
    one("text keeps a timestamp", TEXT, ["--x", "1712345678.123450"], "1712345678.123450"),
    one("text that says true", TEXT, ["--x", "true"], "true"),
    one("text that says null", TEXT, ["--x", "null"], "null"),
    one("empty text", TEXT, ["--x="], ""),
    one("empty text as a word", TEXT, ["--x", ""], ""),
    one("text that looks like JSON", TEXT, ["--x", '{"a": 1}'], '{"a": 1}'),
    one("text that looks like a list", TEXT, ["--x", "[1]"], "[1]"),
    one("text with quotes", TEXT, ["--x", '"quoted"'], '"quoted"'),
    one("text with = inside", TEXT, ["--x=a=b=c"], "a=b=c"),
    one("text with = inside, as a word", TEXT, ["--x", "a=b"], "a=b"),
    one("text that begins with a dash", TEXT, ["--x", "-v"], "-v"),
    one("text that is a dash", TEXT, ["--x", "-"], "-"),
    one("text that is two dashes", TEXT, ["--x", "--"], "--"),
    one("text that begins with two dashes", TEXT, ["--x=--force"], "--force"),
    one("text with lines, as front matter", TEXT, ["--x", "---\ntitle: a\n---\n"], "---\ntitle: a\n---\n"),
    one("text that begins with an at sign", TEXT, ["--x", "@channel"], "@channel"),
    one("text in other scripts", TEXT, ["--x", "東京 🗼"], "東京 🗼"),
    one("text with a comma", TEXT, ["--x", "a,b"], "a,b"),
    # numbers stay exact
    one("whole number", INTEGER, ["--x", "3"], 3),
    one("negative whole number", INTEGER, ["--x", "-3"], -3),
    one("zero", INTEGER, ["--x", "0"], 0),
    one("large whole number", INTEGER, ["--x", "12345678901234567890123"], 12345678901234567890123),
    one("whole number with a sign and zeros", INTEGER, ["--x", "+007"], 7),
    one("number that is whole", NUMBER, ["--x", "1"], 1),
    one("number", NUMBER, ["--x", "-0.5"], -0.5),
    one("number without a leading zero", NUMBER, ["--x", ".5"], 0.5),
    one("number with an exponent", NUMBER, ["--x", "1e-7"], 1e-7),
    one("large number", NUMBER, ["--x", "9007199254740993"], 9007199254740993),
    # booleans are sent when they are given
    one("true", BOOLEAN, ["--x"], True),
    one("false", BOOLEAN, ["--no-x"], False),
    one("false as a value", BOOLEAN, ["--x=false"], False),
    one("false as a word", BOOLEAN, ["--x", "false"], False),
    one("true as a word", BOOLEAN, ["--x", "True"], True),
    one("a boolean that is true by default", {**BOOLEAN, "default": True}, ["--no-x"], False),
    many("a boolean before another flag", {"x": BOOLEAN, "y": TEXT}, ["--x", "--y", "z"], {"x": True, "y": "z"}),
    one("nothing given, nothing sent", {**TEXT, "default": "d"}, []),
    # null, empty, zero and false are different
    one("null for a number", {"type": ["integer", "null"]}, ["--x", "null"], None),
    one("a number where null may be", {"type": ["integer", "null"]}, ["--x", "5"], 5),
    one("null by anyOf", any_of(NUMBER, NULL), ["--x=null"], None),
    one("text where null may be needs no quotes", any_of(TEXT, NULL), ["--x", "hello"], "hello"),
    one("text where null may be stays text", any_of(TEXT, NULL), ["--x", "null"], "null"),
    one("null before text leaves text alone", any_of(NULL, TEXT), ["--x", "null"], "null"),
    one("null where text may be", any_of(TEXT, NULL), ["--x:=null"], None),
    one("null for a boolean", {"type": ["boolean", "null"]}, ["--x", "null"], None),
    one("null alone", NULL, ["--x", "null"], None),
    # choices are typed
    one("a choice", COLOUR, ["--x", "green"], "green"),
    one("a choice behind a reference", ref("colour"), ["--x", "blue"], "blue"),
    one("a number among choices", ref("level"), ["--x", "2"], 2),
    one("choices of all kinds: true", {"enum": ["auto", 1, True, None]}, ["--x", "true"], True),
    one("choices of all kinds: null", {"enum": ["auto", 1, True, None]}, ["--x", "null"], None),
    one("choices of all kinds: text", {"enum": ["auto", 1, True, None]}, ["--x", "auto"], "auto"),
    one("the text among equal choices", {"enum": ["1", 1]}, ["--x", "1"], "1"),
    one("a constant", {"const": 3}, ["--x", "3"], 3),
    one("a choice by allOf", {"allOf": [ref("colour")], "default": "red"}, ["--x", "red"], "red"),
    one("choices by oneOf", {"oneOf": [{"const": "a"}, {"const": 2}]}, ["--x", "2"], 2),
    # lists
    one("a list by repetition", list_of(TEXT), ["--x", "a", "--x", "b"], ["a", "b"]),
    one("a list of one", list_of(TEXT), ["--x", "a,b"], ["a,b"]),
    one("a list as JSON", list_of(TEXT), ["--x", '["a", "b"]'], ["a", "b"]),
    one("an empty list", list_of(TEXT), ["--x", "[]"], []),
    one("an entry that begins with a bracket", list_of(TEXT), ["--x", "[draft] a"], ["[draft] a"]),
    one("a list of numbers", list_of(INTEGER), ["--x", "1", "--x", "-2"], [1, -2]),
    one("a list of numbers that look like text", list_of(TEXT), ["--x", "01", "--x", "2"], ["01", "2"]),
    one("a list of choices", list_of(ref("colour")), ["--x", "red", "--x", "blue"], ["red", "blue"]),
    one("a list of booleans", list_of(BOOLEAN), ["--x", "true", "--x", "false"], [True, False]),
    one("a list of objects", list_of(POINT), ["--x", '{"x": 1}', "--x", '{"x": 2}'], [{"x": 1}, {"x": 2}]),
    one("a list of objects as JSON", list_of(ref("point")), ["--x", '[{"x": 1}]'], [{"x": 1}]),
    one("a list of lists", list_of(list_of(INTEGER)), ["--x", "[1, 2]", "--x", "[3]"], [[1, 2], [3]]),
    one("a list of lists as JSON", list_of(list_of(INTEGER)), ["--x", "[[1], [2]]"], [[1], [2]]),
    one("pieces of a list", list_of(INTEGER), ["--x", "[1, 2]", "--x", "3"], [1, 2, 3]),
    one("places of a list", {"type": "array", "prefixItems": [TEXT, INTEGER]}, ["--x", "7", "--x", "7"], ["7", 7]),
    one("a list or null", any_of(list_of(TEXT), NULL), ["--x", "a"], ["a"]),
    one("null for a list", any_of(list_of(TEXT), NULL), ["--x", "null"], None),
    one("a list of a set", list_of(TEXT, uniqueItems=True, minItems=1), ["--x", "a", "--x", "b"], ["a", "b"]),
    # objects
    one("an object as JSON", POINT, ["--x", '{"x": 1, "y": 0.5}'], {"x": 1, "y": 0.5}),
    one("an object behind a reference", ref("point"), ["--x", '{"x": 1}'], {"x": 1}),
    one("an object by dots", ref("point"), ["--x.x", "1", "--x.label", "01"], {"x": 1, "label": "01"}),
    one("dots over JSON", POINT, ["--x.x", "2", "--x", '{"x": 1, "y": 5}'], {"x": 2, "y": 5}),
    one("an object by entries", POINT, ["--x", "x=1", "--x", "label=a=b"], {"x": 1, "label": "a=b"}),
    one("an object in an object", object_of(p=POINT), ["--x.p.x", "1"], {"p": {"x": 1}}),
    one("an object or null", any_of(ref("point"), NULL), ["--x.x=1"], {"x": 1}),
    one("an empty object", POINT | {"required": []}, ["--x", "{}"], {}),
    one("a boolean in an object", object_of(on=BOOLEAN), ["--no-x.on"], {"on": False}),
    one("a list in an object", object_of(n=list_of(INTEGER)), ["--x.n=1", "--x.n=2"], {"n": [1, 2]}),
    one("a tree", ref("tree"), ["--x.children", '[{"name": "b"}]'], {"children": [{"name": "b"}]}),
    # maps
    one("a map of texts", map_of(TEXT), ["--x", "a=1", "--x", "b="], {"a": "1", "b": ""}),
    one("a map of numbers", map_of(INTEGER), ["--x", "a=1", "--x.b.c", "2"], {"a": 1, "b.c": 2}),
    one("a map as JSON", map_of(NUMBER), ["--x", '{"a=b": 1}'], {"a=b": 1}),
    one("a map of objects", map_of(POINT), ["--x.here.x", "1"], {"here": {"x": 1}}),
    one("a map by a pattern of names", {"patternProperties": {"^n_": INTEGER}}, ["--x.n_a", "1"], {"n_a": 1}),
    one("an object that says nothing", {"type": "object"}, ["--x", "a=5", "--x", "b=true"], {"a": "5", "b": True}),
    many("further arguments", {"x": TEXT}, ["--x", "1", "--other", "2"], {"x": "1", "other": 2},
         additionalProperties=INTEGER),
    # unions
    one("a number or text: a number", any_of(INTEGER, TEXT), ["--x", "5"], 5),
    one("a number or text: zeros stay", any_of(INTEGER, TEXT), ["--x", "007"], "007"),
    one("a number or text: text", any_of(INTEGER, TEXT), ["--x", "all"], "all"),
    one("text or a number: text", any_of(TEXT, INTEGER), ["--x", "5"], "5"),
    one("text or a number: the number", any_of(TEXT, INTEGER), ["--x:=5"], 5),
    one("text or a list: a list", any_of(TEXT, list_of(TEXT)), ["--x", '["a", "b"]'], ["a", "b"]),
    one("text or a list: text", any_of(TEXT, list_of(TEXT)), ["--x", "a"], "a"),
    one("text or a list: repeated", any_of(TEXT, list_of(TEXT)), ["--x", "a", "--x", "b"], ["a", "b"]),
    one("text or an object", any_of(TEXT, POINT), ["--x", '{"x": 1}'], {"x": 1}),
    one("choices or a number", any_of({"enum": ["auto"]}, INTEGER), ["--x", "9"], 9),
    one("a boolean or text: alone", any_of(BOOLEAN, TEXT), ["--x"], True),
    one("a boolean or text: text", any_of(BOOLEAN, TEXT), ["--x", "yes"], "yes"),
    one("one of two objects", {"oneOf": [CIRCLE, BOX]}, ["--x", '{"kind": "box", "width": 2}'],
        {"kind": "box", "width": 2}),
    one("one of two objects by dots", {"oneOf": [CIRCLE, BOX]}, ["--x.kind", "circle", "--x.radius", "1.5"],
        {"kind": "circle", "radius": 1.5}),
    Row("arguments in branches", {"oneOf": [CIRCLE, BOX]}, ["--kind=box", "--width=3"], {"kind": "box", "width": 3}),
    Row("all arguments behind a reference", {"$ref": "#/$defs/point", "$defs": DEFS}, ["--x", "1"], {"x": 1}),
    # anything
    one("anything: a number stays text", {}, ["--x", "5"], "5"),
    one("anything: an object", {}, ["--x", '{"a": [1]}'], {"a": [1]}),
    one("anything: JSON is forced", True, ["--x:=5"], 5),
    one("a value with a description alone", {"description": "d"}, ["--x", "a"], "a"),
    # names
    many("snake case", {"max_items": INTEGER}, ["--max_items", "1"], {"max_items": 1}),
    many("snake case as kebab", {"max_items": INTEGER}, ["--max-items", "1"], {"max_items": 1}),
    many("camel case", {"maxItems": INTEGER}, ["--maxItems", "1"], {"maxItems": 1}),
    many("camel case as kebab", {"maxItems": INTEGER}, ["--max-items=1"], {"maxItems": 1}),
    many("false in kebab", {"dryRun": BOOLEAN}, ["--no-dry-run"], {"dryRun": False}),
    many("a name in another script", {"都市": TEXT}, ["--都市", "東京"], {"都市": "東京"}),
    many("a name with a dot", {"a.b": TEXT, "a": POINT}, ["--a.b", "1", "--a.x", "2"], {"a.b": "1", "a": {"x": 2}}),
    many("a name with a blank", {"full name": TEXT}, ["--full name", "A B"], {"full name": "A B"}),
    many("a name with =", {"a=b": TEXT, "a": TEXT}, ["--a=b=c", "--a=c"], {"a=b": "c", "a": "c"}),
    many("a shorter name beside it", {"a": TEXT, "a=b": TEXT}, ["--a=b=c", "--a", "c"], {"a=b": "c", "a": "c"}),
    many("a shorter name beside a dot", {"a": POINT, "a.x": TEXT}, ["--a.x", "1"], {"a.x": "1"}),
    many("a name that ends in :", {"a:": TEXT}, ["--a:=5"], {"a:": "5"}),
    many("an empty name", {"": TEXT}, ["--=v"], {"": "v"}),
    many("a name that begins with dashes", {"--y": TEXT}, ["----y", "1"], {"--y": "1"}),
    many("a name of digits", {"0": TEXT, "-1": TEXT}, ["--0", "a", "---1", "b"], {"0": "a", "-1": "b"}),
    many("names that begin alike", {"a": TEXT, "ab": TEXT}, ["--ab", "1", "--a", "2"], {"ab": "1", "a": "2"}),
    many("no-x beside x", {"x": BOOLEAN, "no-x": TEXT}, ["--no-x", "5", "--x=false"], {"no-x": "5", "x": False}),
    many("a boolean called no", {"no": BOOLEAN}, ["--no-no"], {"no": False}),
    many("our options as names", {"json": TEXT, "help": BOOLEAN, "server": TEXT, "output": COLOUR},
         ["--json", "{}", "--help", "--server", "s", "--output", "red"],
         {"json": "{}", "help": True, "server": "s", "output": "red"}),
    many("two dashes end the flags", {"x": TEXT}, ["--x", "1", "--"], {"x": "1"}),
]  # fmt: skip
"""Nothing here is refused."""


class Refused(NamedTuple):
    """The schema of the arguments, the words behind the tool's name, and the sentence that says what is wrong."""

    schema: dict[str, Any]
    words: list[str]
    sentence: str


def no(x: Any, words: list[str], sentence: str) -> Refused:
    """A row about one argument `x` that is refused."""
    return Refused(one("", x, []).schema, words, sentence)


STRAY = "belongs to no flag. Arguments are written as --name VALUE."
SLIP = {"type": "object", "properties": {"colour": TEXT, "maxItems": TEXT}}

REFUSED = [
    Refused({"properties": {"x": TEXT}, "required": ["x", "y"]}, [], "--x is required. --y is required."),
    no(INTEGER, ["--x", "abc"], '--x must be a whole number, not "abc".'),
    no(INTEGER, ["--x", "1.5"], '--x must be a whole number, not "1.5".'),
    no(INTEGER, ["--x", ""], '--x must be a whole number, not "".'),
    no(INTEGER, ["--x", "1_000"], '--x must be a whole number, not "1_000".'),
    no(INTEGER, ["--x", "null"], '--x must be a whole number, not "null".'),
    no(INTEGER, ["--x:=1.5"], "--x must be a whole number, not 1.5."),
    no(NUMBER, ["--x", "NaN"], '--x must be a number, not "NaN".'),
    no(NUMBER, ["--x", "1e999"], '--x must be a number, not "1e999".'),
    no(NUMBER, ["--x:=1e999"], "--x is not valid JSON (1e999 is too large a number)."),
    no(BOOLEAN, ["--x=1"], '--x must be true or false, not "1".'),
    no(BOOLEAN, ["--x", "yes"], f'"yes" {STRAY}'),
    no(COLOUR, ["--x", "purple"], '--x must be one of red, green, blue, not "purple".'),
    no(ref("colour"), ["--x", "gren"], '--x must be one of red, green, blue, not "gren" (did you mean "green"?).'),
    no(ref("level"), ["--x", "4"], "--x must be one of 1, 2, 3, not 4."),
    no(INTEGER | {"minimum": 1}, ["--x", "0"], "--x must be at least 1, not 0."),
    no(NUMBER | {"exclusiveMaximum": 1}, ["--x", "1"], "--x must be less than 1, not 1."),
    no(TEXT | {"pattern": "^[a-z]+$"}, ["--x", "A"], '--x must fit the pattern ^[a-z]+$, not "A".'),
    no(TEXT | {"maxLength": 2}, ["--x", "abc"], "--x must have at most 2 characters, not 3."),
    no(TEXT | {"minLength": 1}, ["--x", ""], "--x must have at least 1 character, not 0."),
    no(list_of(INTEGER), ["--x", "1", "--x", "b"], '--x must be a whole number, not "b".'),
    no(list_of(INTEGER, maxItems=1), ["--x=1", "--x=2"], "--x must have at most 1 entry, not 2."),
    no(list_of(POINT), ["--x", '{"y": 1}'], "--x[0].x is required."),
    no(POINT, ["--x", "[1]"], '--x must be an object, not "[1]" (it is written as JSON).'),
    no(POINT, ["--x", '{"x": 1'],
       '--x must be an object, not "{"x": 1" (Expecting \',\' delimiter at line 1, column 8).'),
    no(POINT, ["--x", '{"x": 1, "x": 2}'],
       '--x must be an object, not "{"x": 1, "x": 2}" (the key "x" stands twice in one object).'),
    no(POINT, ["--x.label", "a"], "--x.x is required."),
    no(POINT, ["--x", "z=1"], '--x has no "z". It has x, y, label.'),
    no(POINT, ["--x.labl", "a"], "There is no flag --x.labl. Did you mean --x.label?"),
    no(TEXT, ["--x", "1", "--x", "2"], "--x is given 2 times, and takes one value."),
    no(TEXT, ["--x"], "--x needs a value."),
    no(TEXT, ["--x", "--force"], "--x needs a value. A value that begins with -- is written --x=--force."),
    no(TEXT, ["--x", "1", "y"], f'"y" {STRAY}'),
    no(TEXT, ["-x", "1"], f'"-x" {STRAY}'),
    no(TEXT, ["--x", "1", "--", "y"], f'"y" {STRAY}'),
    no(TEXT, ["--y", "1"], "There is no flag --y. The tool's flags are: --x."),
    no(TEXT, ["--no-x"], "There is no flag --no-x. Did you mean --x?"),
    no(BOOLEAN, ["--no-x=true"], "There is no flag --no-x. Did you mean --x?"),
    no(TEXT, ["--x:=[1"], "--x is not valid JSON (Expecting ',' delimiter at line 1, column 3)."),
    no(TEXT, ['--x:="\\ud800"'], "--x is not valid JSON (half a surrogate pair is no character)."),
    no({"type": "object"}, ["--x:=5", "--x.n=1"], "--x.n lies inside --x, which is given as another value."),
    no({"oneOf": [CIRCLE, BOX]}, ["--x.kind=circle"], "--x.radius is required."),
    no({"oneOf": [CIRCLE, BOX]}, ["--x.kind=cone"], '--x.kind must be circle, not "cone". --x.radius is required.'),
    no(False, ["--x", "1"], "--x must not be given."),
    Refused(SLIP, ["--color", "1"], "There is no flag --color. Did you mean --colour?"),
    Refused(SLIP, ["--max-item", "1"], "There is no flag --max-item. Did you mean --maxItems?"),
    Refused(SLIP | {"additionalProperties": True}, ["--color", "1"],
            'The name "color" is not known. Did you mean "colour"? If not, give it by --json.'),
    Refused({"type": "object"}, ["--x", "1"], "There is no flag --x. The tool's flags are: none."),
    Refused({"type": "object", "properties": {}}, ["--jsn", "{}"], "There is no flag --jsn. Did you mean --json?"),
]  # fmt: skip
