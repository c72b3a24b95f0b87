"""[TOOL_CALL] {json} [END_TOOL_CALL]: the form that is taught where the model has none of its own."""

from __future__ import annotations

from calls.case import BAD_JSON, CUT, OSLO, OSLO_JSON, TIDE, TIDE_JSON, Row, call, said

row = Row("json")


def marked(body: str) -> str:
    return f"[TOOL_CALL]\n{body}\n[END_TOOL_CALL]"


CALL = marked(TIDE_JSON)
LONG = 'A line of a long file, with \\"quotes\\" and {braces}.\\n' * 400

PLAIN = (
    row("a call and nothing else", CALL, TIDE),
    row("a call on one line", f"[TOOL_CALL] {TIDE_JSON} [END_TOOL_CALL]", TIDE),
    row("no white space", '[TOOL_CALL]{"name":"get_tide","arguments":{"harbour":"Husum"}}[END_TOOL_CALL]', TIDE),
    row("text before", f"Let me look that up.\n\n{CALL}", said("Let me look that up."), TIDE),
    row("text behind", f"{CALL}\nOne moment, please.", TIDE, said("One moment, please.")),
    row(
        "text before, between and behind two calls",
        f"First the tide.\n{CALL}\nThen the weather.\n{marked(OSLO_JSON)}\nThat is all.",
        said("First the tide."),
        TIDE,
        said("Then the weather."),
        OSLO,
        said("That is all."),
    ),
    row("text that touches the markers", f"Here:{CALL}Done.", said("Here:"), TIDE, said("Done.")),
    row("two calls, one behind the other", f"{CALL}\n{marked(OSLO_JSON)}", TIDE, OSLO),
    row("three calls without space between", CALL + CALL + marked(OSLO_JSON), TIDE, TIDE, OSLO),
    row(
        "pretty-printed JSON",
        marked('{\n  "name": "get_weather",\n  "arguments": {\n    "city": "Oslo",\n    "days": 3\n  }\n}'),
        OSLO,
    ),
    row("arguments before the name", marked('{"arguments": {"harbour": "Husum"}, "name": "get_tide"}'), TIDE),
    row(
        "a tool that nobody has",
        marked('{"name": "book_flight", "arguments": {"to": "Oslo"}}'),
        call("book_flight", to="Oslo"),
    ),
    row(
        "a tool with its server's name",
        marked('{"name": "board__get_time", "arguments": {"place": "Tokyo"}}'),
        call("board__get_time", place="Tokyo"),
    ),
    row("no arguments", marked('{"name": "search", "arguments": {}}'), call("search")),
    row(
        "JSON values keep their types",
        marked('{"name": "set_light", "arguments": {"room": "7", "state": true, "level": 0.5}}'),
        call("set_light", room="7", state=True, level=0.5),
    ),
    row(
        "lists, objects and null",
        marked('{"name": "search", "arguments": {"words": ["a", 1, null], "where": {"deep": {"er": []}}}}'),
        call("search", words=["a", 1, None], where={"deep": {"er": []}}),
    ),
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
        "Japanese around and in a value",
        "調べてみます。\n"
        + marked('{"name": "get_weather", "arguments": {"city": "東京", "days": 2}}')
        + "\nお待ちください。",
        said("調べてみます。"),
        call("get_weather", city="東京", days=2),
        said("お待ちください。"),
    ),
    row(
        "Chinese around and in a value",
        "好的，我来查一下。" + marked('{"name": "get_tide", "arguments": {"harbour": "青岛港（东）"}}'),
        said("好的，我来查一下。"),
        call("get_tide", harbour="青岛港（东）"),
    ),
    row(
        "emoji around and in a value",
        "🌊 Moment… " + marked('{"name": "get_tide", "arguments": {"harbour": "Husum 🏖️👨‍👩‍👧"}}') + " ✅",
        said("🌊 Moment…"),
        call("get_tide", harbour="Husum 🏖️👨‍👩‍👧"),
        said("✅"),
    ),
    row(
        "a value of 20 kB",
        marked('{"name": "write_file", "arguments": {"path": "a.txt", "content": "' + LONG + '"}}'),
        call("write_file", path="a.txt", content='A line of a long file, with "quotes" and {braces}.\n' * 400),
    ),
)

INSIDE_STRINGS = (
    row(
        "the end marker in a string",
        marked('{"name": "write_file", "arguments": {"path": "a", "content": "x [END_TOOL_CALL] y"}}'),
        call("write_file", path="a", content="x [END_TOOL_CALL] y"),
    ),
    row(
        "the start marker in a string",
        marked('{"name": "write_file", "arguments": {"path": "a", "content": "[TOOL_CALL]{"}}'),
        call("write_file", path="a", content="[TOOL_CALL]{"),
    ),
    row(
        "a whole call in a string",
        marked(
            '{"name": "write_file", "arguments": {"path": "a", "content": '
            '"[TOOL_CALL]{\\"name\\": \\"get_tide\\"}[END_TOOL_CALL]"}}'
        ),
        call("write_file", path="a", content='[TOOL_CALL]{"name": "get_tide"}[END_TOOL_CALL]'),
    ),
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
    row(
        "escapes of characters",
        marked(r'{"name": "get_tide", "arguments": {"harbour": "\u6771\u4eac\t\ud83c\udf0a\n"}}'),
        call("get_tide", harbour="東京\t🌊\n"),
    ),
    row(
        "an address with two slashes is no comment",
        marked('{"name": "search", "arguments": {"url": "https://example.org/a /* b */ // c"}}'),
        call("search", url="https://example.org/a /* b */ // c"),
    ),
    row(
        "curly quotes in a string stay",
        marked('{"name": "search", "arguments": {"words": "he said “yes” and ‘no’"}}'),
        call("search", words="he said “yes” and ‘no’"),
    ),
    row(
        "a comma before a brace in a string stays",
        marked('{"name": "search", "arguments": {"words": "a,} b,] True None"}}'),
        call("search", words="a,} b,] True None"),
    ),
    row(
        "a fence in a string",
        marked('{"name": "write_file", "arguments": {"path": "a.md", "content": "```json\\n{}\\n```\\n"}}'),
        call("write_file", path="a.md", content="```json\n{}\n```\n"),
    ),
    row(
        "tags of thinking in a string",
        marked('{"name": "search", "arguments": {"words": "<think>x</think>"}}'),
        call("search", words="<think>x</think>"),
    ),
    row(
        "a control token in a string stays",
        marked('{"name": "search", "arguments": {"words": "a<|im_end|>b</s>"}}'),
        call("search", words="a<|im_end|>b</s>"),
    ),
)

GARBLED = (
    row("an empty name", marked('{"name": "", "arguments": {"harbour": "Husum"}}'), BAD_JSON),
    row("no name", marked('{"arguments": {"harbour": "Husum"}}'), BAD_JSON),
    row("a number for a name", marked('{"name": 3, "arguments": {}}'), BAD_JSON),
    row("an empty object", marked("{}"), BAD_JSON),
    row("a list for arguments", marked('{"name": "get_tide", "arguments": ["Husum"]}'), BAD_JSON),
    row("a text for arguments", marked('{"name": "get_tide", "arguments": "Husum"}'), BAD_JSON),
    row("a number for arguments", marked('{"name": "get_tide", "arguments": 3}'), BAD_JSON),
    row("an encoded list for arguments", marked('{"name": "get_tide", "arguments": "[1]"}'), BAD_JSON),
    row(
        "quotes in a string that are not escaped",
        marked('{"name": "write_file", "arguments": {"path": "a.py", "content": "print("hi")"}}'),
        BAD_JSON,
    ),
    row("a name without quotes", marked('{"name": get_tide, "arguments": {"harbour": "Husum"}}'), BAD_JSON),
    row(
        "a number that JSON does not have", marked('{"name": "add_numbers", "arguments": {"a": NaN, "b": 1}}'), BAD_JSON
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
    row("cut behind the first brace", "[TOOL_CALL]\n{", CUT),
    row("cut in the name", '[TOOL_CALL]\n{"name": "get_t', CUT),
    row("cut behind the name", 'Let me look.\n[TOOL_CALL]\n{"name": "get_tide",', said("Let me look."), CUT),
    row("cut behind the colon", '[TOOL_CALL]\n{"name": "get_tide", "arguments":', CUT),
    row(
        "cut in a dangerous value",
        '[TOOL_CALL]\n{"name": "write_file", "arguments": {"path": "a.sh", "content": "rm -rf /tmp/x',
        CUT,
    ),
    row("cut behind a backslash", '[TOOL_CALL]\n{"name": "write_file", "arguments": {"path": "a\\', CUT),
    row("cut before the last brace", f"[TOOL_CALL]\n{TIDE_JSON.removesuffix('}')}", CUT),
    row("cut before both braces", f"[TOOL_CALL]\n{TIDE_JSON.removesuffix('}}')}", CUT),
    row(
        "cut behind an end marker in a string",
        '[TOOL_CALL]{"name": "write_file", "arguments": {"content": "x [END_TOOL_CALL]',
        CUT,
    ),
    row("cut in the second call", f'{CALL}\n[TOOL_CALL]\n{{"name": "get_weather", "arguments": {{"ci', TIDE, CUT),
)

SENTENCES = tuple(
    row(name, text, said(text))
    for name, text in {
        "a sentence about both markers": "A call begins with [TOOL_CALL] and ends with [END_TOOL_CALL].",
        "the marker alone": "[TOOL_CALL]",
        "the marker at the end of a sentence": "The line before the JSON is [TOOL_CALL]",
        "a marker that was cut": "The marker is [TOOL_CA",
        "a marker in small letters": '[tool_call]{"name": "x", "arguments": {}}[end_tool_call]',
        "a marker of wide characters": "マーカーは［TOOL_CALL］です。{ }も使います。",
        "brackets in prose": "In C, a[0] is the first; [1, 2] and [TOOL_BOX] are others.",
        "an answer without any marker": "The tide at Husum is 2.4 m.\n\n- rising\n- until 14:05",
    }.items()
)

PROSE = (
    row(
        "a sentence about the marker, then a call",
        f"I write [TOOL_CALL] and then the JSON:\n{CALL}",
        said("I write [TOOL_CALL] and then the JSON:"),
        TIDE,
    ),
    row("a marker twice before the call", f"[TOOL_CALL]\n{CALL}", said("[TOOL_CALL]"), TIDE),
)

CASES = (*PLAIN, *INSIDE_STRINGS, *GARBLED, *CUT_OFF, *SENTENCES, *PROSE)
