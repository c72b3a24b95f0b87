"""Llama 3: a bare JSON object, several joined by "; "; and <function=f>{json}</function>."""

from __future__ import annotations

from calls.case import BAD_JSON, CUT, OSLO, TIDE, Row, call, said, tide

row = Row("llama3")
function = Row("llama3-function")

CALL = '{"name": "get_tide", "parameters": {"harbour": "Husum"}}'
OSLO_CALL = '{"name": "get_weather", "parameters": {"city": "Oslo", "days": 3}}'

PLAIN = (
    row("a call and nothing else", CALL, TIDE),
    row("the end of a turn behind a call", f"{CALL}<|eot_id|>", TIDE),
    row("the end of a message behind a call", f"{CALL}<|eom_id|>", TIDE),
    row("a Python tag before a call", f"<|python_tag|>{CALL}<|eom_id|>", TIDE),
    row("white space around a call", f"\n\n{CALL}\n", TIDE),
    row("two calls joined by a semicolon", f"{CALL}; {OSLO_CALL}", TIDE, OSLO),
    row("three calls behind a Python tag", f"<|python_tag|>{CALL}; {OSLO_CALL}; {CALL}<|eom_id|>", TIDE, OSLO, TIDE),
    row("two calls on two lines", f"{CALL}\n{OSLO_CALL}", TIDE, OSLO),
    row("a type before the name", '{"type": "function", "name": "get_tide", "parameters": {"harbour": "Husum"}}', TIDE),
    row("arguments for parameters", '{"name": "get_tide", "arguments": {"harbour": "Husum"}}', TIDE),
    row(
        "pretty-printed JSON",
        '{\n    "name": "get_weather",\n    "parameters": {\n        "city": "Oslo",\n        "days": 3\n    }\n}',
        OSLO,
    ),
    row("no parameters", '{"name": "search", "parameters": {}}', call("search")),
    row(
        "semicolons and quotes in a statement",
        '{"name": "run_query", "parameters": {"sql": "SELECT \'a; b\'; SELECT \\"c\\";"}}',
        call("run_query", sql="SELECT 'a; b'; SELECT \"c\";"),
    ),
    row(
        "a brace and a semicolon in a string, then a call",
        '{"name": "search", "parameters": {"words": "}; {"}}; ' + CALL,
        call("search", words="}; {"),
        TIDE,
    ),
    row(
        "an end of a turn in a string stays",
        '{"name": "search", "parameters": {"words": "a<|eot_id|>b"}}',
        call("search", words="a<|eot_id|>b"),
    ),
    row(
        "Japanese in a value",
        '{"name": "get_weather", "parameters": {"city": "札幌", "days": 1}}',
        call("get_weather", city="札幌", days=1),
    ),
    row(
        "the name of a tool with its server",
        '{"name": "board__get_time", "parameters": {"place": "Tokyo"}}',
        call("board__get_time", place="Tokyo"),
    ),
    row(
        "the taught form", '[TOOL_CALL]\n{"name": "get_tide", "arguments": {"harbour": "Husum"}}\n[END_TOOL_CALL]', TIDE
    ),
)

DAMAGE = (
    row("a trailing comma", '{"name": "get_tide", "parameters": {"harbour": "Husum",}}', tide("trailing comma")),
    row(
        "Python's True",
        '{"name": "set_light", "parameters": {"room": "hall", "state": True}}',
        call("set_light", "Python literal", room="hall", state=True),
    ),
    row(
        "a raw newline in a string",
        '{"name": "write_file", "parameters": {"path": "a.txt", "content": "one\ntwo"}}',
        call("write_file", "raw newline", path="a.txt", content="one\ntwo"),
    ),
    row(
        "parameters that are encoded twice",
        r'{"name": "get_tide", "parameters": "{\"harbour\": \"Husum\"}"}',
        tide("encoded arguments"),
    ),
    row(
        "a fence around the whole reply",
        '```json\n{"name": "get_tide", "arguments": {"harbour": "Husum"}}\n```',
        tide("fence"),
    ),
)

CUT_OFF = (
    row("cut in a value", '{"name": "get_tide", "parameters": {"harbour": "Hus', CUT),
    row("cut before the last brace", '{"name": "get_tide", "parameters": {"harbour": "Husum"}', CUT),
    row("cut in the second call", f'{CALL}; {{"name": "write_file", "parameters": {{"path": "a', TIDE, CUT),
)

DATA = tuple(
    row(name, text, said(text))
    for name, text in {
        "data with a name": '{"name": "Anna", "age": 36}',
        "data with a name and parameters": '{"name": "Anna", "parameters": {"age": 36}}',
        "a tool's name without parameters": '{"name": "get_tide", "description": "the tide at a harbour"}',
        "an object later in the text": f"The call would be {CALL}",
        "an object on a line of its own behind text": f"This is what I would send:\n{CALL}",
        "an object with text behind it": f"{CALL}\nis what I would send.",
        "an empty object": "{}",
        "an object that is no JSON": "{x | x > 3} is a set.",
        "a list of numbers": "[1, 2, 3]",
        "a sentence about a set": "{get_tide, get_weather} are the tools that I have.",
    }.items()
)

FUNCTION = '<function=get_tide>{"harbour": "Husum"}</function>'

FUNCTIONS = (
    function("a call and nothing else", FUNCTION, TIDE),
    function("text before and the end of a turn", f"I will look.\n{FUNCTION}<|eot_id|>", said("I will look."), TIDE),
    function(
        "two calls keep their types",
        FUNCTION + '<function=get_weather>{"city": "Oslo", "days": 3}</function>',
        TIDE,
        OSLO,
    ),
    function("no arguments", "<function=search>{}</function>", call("search")),
    function(
        "a tool that nobody has", '<function=book_flight>{"to": "Oslo"}</function>', call("book_flight", to="Oslo")
    ),
    function(
        "the end tag in a string",
        '<function=search>{"words": "</function> and }"}</function>',
        call("search", words="</function> and }"),
    ),
    function("white space around the object", '<function=get_tide>\n{"harbour": "Husum"}\n</function>', TIDE),
    function("a trailing comma", '<function=get_tide>{"harbour": "Husum",}</function>', tide("trailing comma")),
    function("single quotes", "<function=get_tide>{'harbour': 'Husum'}</function>", tide("single quotes")),
    function("unquoted keys", '<function=get_tide>{harbour: "Husum"}</function>', tide("unquoted key")),
    function("curly quotes", "<function=get_tide>{“harbour”: “Husum”}</function>", tide("curly quotes")),
    function(
        "a missing comma",
        '<function=get_weather>{"city": "Oslo" "days": 3}</function>',
        call("get_weather", "missing comma", city="Oslo", days=3),
    ),
    function("one brace too many", '<function=get_tide>{"harbour": "Husum"}}</function>', tide("extra brace")),
    function("one brace too few", '<function=get_tide>{"harbour": "Husum"</function>', tide("missing brace")),
    function(
        "no end tag at the end of the reply", '<function=get_tide>{"harbour": "Husum"}', tide("missing end marker")
    ),
    function(
        "quotes in a string that are not escaped", '<function=search>{"words": "the "best" place"}</function>', BAD_JSON
    ),
    function("cut in a value", '<function=get_tide>{"harbour": "Hus', CUT),
    function(
        "a sentence about the tag",
        "Use <function=name> with JSON behind it.",
        said("Use <function=name> with JSON behind it."),
    ),
)

CASES = (*PLAIN, *DAMAGE, *CUT_OFF, *DATA, *FUNCTIONS)
