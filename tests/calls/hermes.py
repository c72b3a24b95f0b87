"""<tool_call>{json}</tool_call>: Qwen 2.5 and 3, QwQ, Hermes, SmolLM3."""

from __future__ import annotations

from calls.case import BAD_JSON, CUT, OSLO, OSLO_JSON, TIDE, TIDE_JSON, Row, call, said, thought, tide

row = Row("hermes")


def marked(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


CALL = marked(TIDE_JSON)
LONG = "日本語 <b>&amp;</b> 'x' }\\n" * 700

PLAIN = (
    row("a call and nothing else", CALL, TIDE),
    row("no white space", f"<tool_call>{TIDE_JSON}</tool_call>", TIDE),
    row("text before", f"Let me check the tide for you.\n\n{CALL}", said("Let me check the tide for you."), TIDE),
    row(
        "text before, between and behind",
        f"Tide:{CALL}Weather:\n{marked(OSLO_JSON)}\nThat is it.",
        said("Tide:"),
        TIDE,
        said("Weather:"),
        OSLO,
        said("That is it."),
    ),
    row("two calls on lines of their own", f"{CALL}\n{marked(OSLO_JSON)}", TIDE, OSLO),
    row("the end of a turn behind a call", f"{CALL}<|im_end|>", TIDE),
    row("the end of a turn behind each of two calls", f"{CALL}<|im_end|>\n{marked(OSLO_JSON)}<|im_end|>\n", TIDE, OSLO),
    row(
        "a thought, text and a call",
        f"<think>\nThe user wants the tide.\n</think>\n\nOne moment.\n{CALL}",
        thought("The user wants the tide."),
        said("One moment."),
        TIDE,
    ),
    row("a thought and a call", f"<think>\n\n</think>\n\n{CALL}", TIDE),
    row("arguments before the name", marked('{"arguments": {"city": "Oslo", "days": 3}, "name": "get_weather"}'), OSLO),
    row(
        "an id beside the name", marked('{"id": "call_1", "name": "get_tide", "arguments": {"harbour": "Husum"}}'), TIDE
    ),
    row("no arguments", marked('{"name": "search", "arguments": {}}'), call("search")),
    row(
        "a tool that nobody has",
        marked('{"name": "book_flight", "arguments": {"to": "Oslo", "seats": 2}}'),
        call("book_flight", to="Oslo", seats=2),
    ),
    row(
        "nested values keep their types",
        marked('{"name": "search", "arguments": {"where": {"a": [1, 2.0, -3, true, null, "x"]}, "limit": 10}}'),
        call("search", where={"a": [1, 2.0, -3, True, None, "x"]}, limit=10),
    ),
    row(
        "CRLF line ends",
        f"Yes.\r\n<tool_call>\r\n{TIDE_JSON}\r\n</tool_call>\r\nDone.\r\n",
        said("Yes."),
        TIDE,
        said("Done."),
    ),
    row(
        "Chinese around and in a value",
        "让我查一下。\n" + marked('{"name": "get_weather", "arguments": {"city": "北京", "days": 1}}') + "\n请稍候。",
        said("让我查一下。"),
        call("get_weather", city="北京", days=1),
        said("请稍候。"),
    ),
    row(
        "a value of 20 kB",
        marked('{"name": "write_file", "arguments": {"path": "a", "content": "' + LONG + '"}}'),
        call("write_file", path="a", content="日本語 <b>&amp;</b> 'x' }\n" * 700),
    ),
)

INSIDE_STRINGS = (
    row(
        "the end tag in a string",
        marked('{"name": "write_file", "arguments": {"path": "a.md", "content": "ends with </tool_call> here"}}'),
        call("write_file", path="a.md", content="ends with </tool_call> here"),
    ),
    row(
        "a whole call in a string",
        marked(
            '{"name": "write_file", "arguments": {"path": "a.md", "content": '
            '"<tool_call>{\\"name\\": \\"search\\", \\"arguments\\": {}}</tool_call>"}}'
        )
        + " Done.",
        call("write_file", path="a.md", content='<tool_call>{"name": "search", "arguments": {}}</tool_call>'),
        said("Done."),
    ),
    row(
        "the beginning of a seed call in a string",
        marked('{"name": "search", "arguments": {"words": "[TOOL_CALL] <tool_call name=\\"x\\">"}}'),
        call("search", words='[TOOL_CALL] <tool_call name="x">'),
    ),
    row(
        "braces in a string",
        marked('{"name": "search", "arguments": {"words": "{ b: {} }"}}'),
        call("search", words="{ b: {} }"),
    ),
    row(
        "a backslash before the closing quote",
        marked(r'{"name": "write_file", "arguments": {"path": "C:\\", "content": "\\\"}"}}'),
        call("write_file", path="C:\\", content='\\"}'),
    ),
    row(
        "entities are no business of JSON",
        marked('{"name": "search", "arguments": {"words": "a &lt; b"}}'),
        call("search", words="a &lt; b"),
    ),
)

DAMAGE = (
    row("trailing commas", marked('{"name": "get_tide", "arguments": {"harbour": "Husum",},}'), tide("trailing comma")),
    row(
        "a missing comma",
        marked('{"name": "get_weather", "arguments": {"city": "Oslo" "days": 3}}'),
        call("get_weather", "missing comma", city="Oslo", days=3),
    ),
    row("single quotes", marked("{'name': 'get_tide', 'arguments': {'harbour': 'Husum'}}"), tide("single quotes")),
    row(
        "single quotes, and an end tag between them",
        marked("{'name': 'search', 'arguments': {'words': 'a </tool_call> b'}}"),
        call("search", "single quotes", words="a </tool_call> b"),
    ),
    row("curly quotes", marked("{“name”: “get_tide”, “arguments”: {“harbour”: “Husum”}}"), tide("curly quotes")),
    row(
        "Python's False",
        marked('{"name": "set_light", "arguments": {"room": "hall", "state": False, "level": None}}'),
        call("set_light", "Python literal", room="hall", state=False, level=None),
    ),
    row(
        "raw newlines in a string",
        marked('{"name": "write_file", "arguments": {"path": "a.py", "content": "def f():\n    return 1\n"}}'),
        call("write_file", "raw newline", path="a.py", content="def f():\n    return 1\n"),
    ),
    row(
        "unquoted keys",
        marked('{name: "get_weather", arguments: {city: "Oslo", days: 3}}'),
        call("get_weather", "unquoted key", city="Oslo", days=3),
    ),
    row(
        "a comment",
        marked('{"name": "get_tide", /* the only one */ "arguments": {"harbour": "Husum"}}'),
        tide("comment"),
    ),
    row("one brace too many", marked(TIDE_JSON + "}"), tide("extra brace")),
    row(
        "one brace too many, then another call",
        f"{marked(TIDE_JSON + '}')}\n{marked(OSLO_JSON)}",
        tide("extra brace"),
        OSLO,
    ),
    row("one brace too few", marked(TIDE_JSON.removesuffix("}")), tide("missing brace")),
    row(
        "one brace too few, then another call",
        f"{marked(TIDE_JSON.removesuffix('}'))}\n{marked(OSLO_JSON)}",
        tide("missing brace"),
        OSLO,
    ),
    row("a fence inside the tags", marked(f"```json\n{TIDE_JSON}\n```"), tide("fence")),
    row("a fence around the whole reply", f"```xml\n{CALL}\n```", tide("fence")),
    row(
        "closed as a function_invocation", f"<tool_call>\n{TIDE_JSON}\n</function_invocation>", tide("wrong end marker")
    ),
    row(
        "closed as a tool",
        f"<tool_call>\n{TIDE_JSON}\n</tool>\nOne moment.",
        tide("wrong end marker"),
        said("One moment."),
    ),
    row("no end tag at the end of the reply", f"<tool_call>\n{TIDE_JSON}", tide("missing end marker")),
    row("no end tag before the end of the turn", f"<tool_call>\n{TIDE_JSON}<|im_end|>", tide("missing end marker")),
    row(
        "no end tag before text",
        f"<tool_call>\n{TIDE_JSON}\nI am waiting for the result.",
        tide("missing end marker"),
        said("I am waiting for the result."),
    ),
    row(
        "no end tag before the next call",
        f"<tool_call>\n{TIDE_JSON}\n{marked(OSLO_JSON)}",
        tide("missing end marker"),
        OSLO,
    ),
    row(
        "parameters for arguments",
        marked('{"name": "get_tide", "parameters": {"harbour": "Husum"}}'),
        tide("parameters for arguments"),
    ),
    row(
        "args for arguments",
        marked('{"name": "get_tide", "args": {"harbour": "Husum"}}'),
        tide("parameters for arguments"),
    ),
    row(
        "arguments that are encoded twice",
        marked(r'{"name": "get_weather", "arguments": "{\"city\": \"Oslo\", \"days\": 3}"}'),
        call("get_weather", "encoded arguments", city="Oslo", days=3),
    ),
    row("tool_name for name", marked('{"tool_name": "get_tide", "arguments": {"harbour": "Husum"}}'), TIDE),
    row("a call that is wrapped as a function", marked(f'{{"type": "function", "function": {OSLO_JSON}}}'), OSLO),
    row(
        "a Python dictionary with a trailing comma",
        marked("{'name': 'set_light', 'arguments': {'room': 'hall', 'state': True,}}"),
        call("set_light", "single quotes", "Python literal", "trailing comma", room="hall", state=True),
    ),
    row(
        "a fence and a trailing comma",
        marked('```json\n{"name": "get_tide", "arguments": {"harbour": "Husum",}}\n```'),
        tide("fence", "trailing comma"),
    ),
)

GARBLED = (
    row("an empty name", marked('{"name": "", "arguments": {}}'), BAD_JSON),
    row("no name", marked('{"arguments": {"harbour": "Husum"}}') + "\nSo.", BAD_JSON, said("So.")),
    row("a list for arguments", marked('{"name": "get_tide", "arguments": ["Husum"]}'), BAD_JSON),
    row("a text for arguments", marked('{"name": "get_tide", "arguments": "Husum"}'), BAD_JSON),
    row(
        "quotes in a string that are not escaped",
        marked('{"name": "write_file", "arguments": {"path": "a.py", "content": "print("hi")"}}'),
        BAD_JSON,
    ),
    row("two braces too few", marked(TIDE_JSON.removesuffix("}}")), BAD_JSON),
    row("a garbled call, then a good one", f"{marked('{}')}\n{CALL}", BAD_JSON, TIDE),
    row(
        "a call that begins before the former is whole",
        f'<tool_call>\n{{"name": "get_weather", "arguments": {{"city": \n{CALL}',
        BAD_JSON,
        TIDE,
    ),
)

CUT_OFF = (
    row("cut behind the first brace", "<tool_call>\n{", CUT),
    row("cut in a key", '<tool_call>\n{"name": "get_tide", "argum', CUT),
    row(
        "cut in a value",
        '<think>Hm.</think>\n<tool_call>\n{"name": "get_tide", "arguments": {"harbour": "Hus',
        thought("Hm."),
        CUT,
    ),
    row("cut behind a number", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3', CUT),
    row("cut before the last brace", f"<tool_call>\n{TIDE_JSON.removesuffix('}')}", CUT),
    row(
        "cut behind an end tag in a string",
        '<tool_call>\n{"name": "write_file", "arguments": {"content": "see </tool_call>',
        CUT,
    ),
    row("cut in the second call", f'{CALL}\n<tool_call>\n{{"name": "wri', TIDE, CUT),
)

PROSE = (
    *(
        row(name, text, said(text))
        for name, text in {
            "a sentence about the tag": "Qwen opens a call with <tool_call> and then writes JSON.",
            "the tag alone": "<tool_call>",
            "a type in C++": "Declare vector<tool_call> calls; and push into it.",
            "a tag that was cut": "The tag is <tool_ca",
            "another tag": '<tool_response>{"tide": 2.4}</tool_response> is what comes back.',
        }.items()
    ),
    row(
        "a sentence about the tag, then a call",
        f"I open <tool_call> as I was told.\n{CALL}\nDone.",
        said("I open <tool_call> as I was told."),
        TIDE,
        said("Done."),
    ),
    row("the tag twice", f"<tool_call>\n{CALL}", said("<tool_call>"), TIDE),
    row("the taught form", f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]", TIDE),
    row("both forms in one reply", f"{CALL}\n[TOOL_CALL]\n{OSLO_JSON}\n[END_TOOL_CALL]", TIDE, OSLO),
)

CASES = (*PLAIN, *INSIDE_STRINGS, *DAMAGE, *GARBLED, *CUT_OFF, *PROSE)
