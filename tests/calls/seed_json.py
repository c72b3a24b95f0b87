"""[TOOL_CALL] {json} [END_TOOL_CALL]: the form that is taught where the model has none of its own."""

from __future__ import annotations

from calls.case import BAD_JSON, CUT, OSLO, OSLO_JSON, TIDE, TIDE_JSON, Row, call, said

row = Row("json")


def marked(body: str) -> str:
    return f"[TOOL_CALL]\n{body}\n[END_TOOL_CALL]"


CALL = marked(TIDE_JSON)
LONG = 'A line of a long file, with \\"quotes\\" and {braces}.\\n' * 400

PLAIN = (
    row(
        "text before, between and behind two calls",
        f"First the tide.\n{CALL}\nThen the weather.\n{marked(OSLO_JSON)}\nThat is all.",
        said("First the tide."),
        TIDE,
        said("Then the weather."),
        OSLO,
        said("That is all."),
    ),
    row(
        "pretty-printed JSON",
        marked('{\n  "name": "get_weather",\n  "arguments": {\n    "city": "Oslo",\n    "days": 3\n  }\n}'),
        OSLO,
    ),
    row("arguments before the name", marked('{"arguments": {"harbour": "Husum"}, "name": "get_tide"}'), TIDE),
    row(
        "an argument that looks like a call",
        marked('{"name": "search", "arguments": {"example": {"name": "get_tide", "arguments": {"harbour": "x"}}}}'),
        call("search", example={"name": "get_tide", "arguments": {"harbour": "x"}}),
    ),
    row(
        "CRLF line ends",
        f"Let me look.\r\n[TOOL_CALL]\r\n{TIDE_JSON}\r\n[END_TOOL_CALL]\r\n",
        said("Let me look."),
        TIDE,
    ),
    row(
        "a value of 20 kB",
        marked('{"name": "write_file", "arguments": {"path": "a.txt", "content": "' + LONG + '"}}'),
        call("write_file", path="a.txt", content='A line of a long file, with "quotes" and {braces}.\n' * 400),
    ),
)

INSIDE_STRINGS = (
    row(
        "braces and brackets in a string",
        marked('{"name": "write_file", "arguments": {"path": "}]", "content": "if (a) { b[0] = \'}\'; "}}'),
        call("write_file", path="}]", content="if (a) { b[0] = '}'; "),
    ),
    row(
        "quotes and backslashes in a string",
        marked(r'{"name": "write_file", "arguments": {"path": "C:\\temp\\", "content": "say \"hi\" {"}}'),
        call("write_file", path="C:\\temp\\", content='say "hi" {'),
    ),
)

GARBLED = (
    row(
        "quotes in a string that are not escaped",
        marked('{"name": "write_file", "arguments": {"path": "a.py", "content": "print("hi")"}}'),
        BAD_JSON,
    ),
    row("two braces too few", marked(TIDE_JSON.removesuffix("}}")), BAD_JSON),
    row(
        "a string that the end marker's line cuts off",
        marked('{"name": "write_file", "arguments": {"path": "a.txt", "content": "one') + "\nDone.",
        BAD_JSON,
        said("Done."),
    ),
    row(
        "a garbled call, text, and a good one",
        marked('{"arguments": {}}') + f"\nAgain:\n{CALL}",
        BAD_JSON,
        said("Again:"),
        TIDE,
    ),
    row(
        "a call that begins before the former is whole",
        f'[TOOL_CALL]\n{{"name": "get_weather", "arguments": {CALL}',
        BAD_JSON,
        TIDE,
    ),
)

CUT_OFF = (
    row("cut behind the name", 'Let me look.\n[TOOL_CALL]\n{"name": "get_tide",', said("Let me look."), CUT),
    row("cut before the last brace", f"[TOOL_CALL]\n{TIDE_JSON.removesuffix('}')}", CUT),
    row(
        "cut behind an end marker in a string",
        '[TOOL_CALL]{"name": "write_file", "arguments": {"content": "x [END_TOOL_CALL]',
        CUT,
    ),
    row("cut in the second call", f'{CALL}\n[TOOL_CALL]\n{{"name": "get_weather", "arguments": {{"ci', TIDE, CUT),
)

SENTENCES = tuple(
    row.prose(name, text)
    for name, text in {
        "the marker alone": "[TOOL_CALL]",
        "a marker in small letters": '[tool_call]{"name": "x", "arguments": {}}[end_tool_call]',
        "a marker of wide characters": "マーカーは［TOOL_CALL］です。{ }も使います。",
    }.items()
)

PROSE = (
    row(
        "a sentence about the marker, then a call",
        f"I write [TOOL_CALL] and then the JSON:\n{CALL}",
        said("I write [TOOL_CALL] and then the JSON:"),
        TIDE,
    ),
    row("a marker twice before the call", f"[TOOL_CALL]\n{CALL}", TIDE),
)

CASES = (*PLAIN, *INSIDE_STRINGS, *GARBLED, *CUT_OFF, *SENTENCES, *PROSE)
