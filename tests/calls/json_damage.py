"""[TOOL_CALL] {json} [END_TOOL_CALL], damaged in ways that leave one meaning: what is read, and what was mended."""

from __future__ import annotations

from calls.case import OSLO, OSLO_JSON, TIDE, TIDE_JSON, Row, call, said, tide
from calls.seed_json import marked

row = Row("json")

CASES = (
    row(
        "a trailing comma in the arguments",
        marked('{"name": "get_tide", "arguments": {"harbour": "Husum",}}'),
        tide("trailing comma"),
    ),
    row(
        "a trailing comma behind the arguments",
        marked('{"name": "get_tide", "arguments": {"harbour": "Husum"},\n}'),
        tide("trailing comma"),
    ),
    row(
        "a trailing comma in a list",
        marked('{"name": "search", "arguments": {"words": ["a", "b", ]}}'),
        call("search", "trailing comma", words=["a", "b"]),
    ),
    row(
        "a missing comma between members",
        marked('{"name": "get_tide" "arguments": {"harbour": "Husum"}}'),
        tide("missing comma"),
    ),
    row(
        "a missing comma between lines",
        marked('{\n  "name": "get_weather",\n  "arguments": {\n    "city": "Oslo"\n    "days": 3\n  }\n}'),
        call("get_weather", "missing comma", city="Oslo", days=3),
    ),
    row("single quotes", marked("{'name': 'get_tide', 'arguments': {'harbour': 'Husum'}}"), tide("single quotes")),
    row(
        "single quotes, and an apostrophe in double ones",
        marked("{'name': 'get_tide', 'arguments': {'harbour': \"L'Aquila}\"}}"),
        call("get_tide", "single quotes", harbour="L'Aquila}"),
    ),
    row(
        "single quotes around double ones",
        marked("{'name': 'search', 'arguments': {'words': 'the \"best\" } place'}}"),
        call("search", "single quotes", words='the "best" } place'),
    ),
    row("curly quotes", marked("{“name”: “get_tide”, “arguments”: {“harbour”: “Husum”}}"), tide("curly quotes")),
    row(
        "Python's True",
        marked('{"name": "set_light", "arguments": {"room": "hall", "state": True}}'),
        call("set_light", "Python literal", room="hall", state=True),
    ),
    row(
        "Python's None and False",
        marked('{"name": "set_light", "arguments": {"room": None, "state": False}}'),
        call("set_light", "Python literal", room=None, state=False),
    ),
    row(
        "a raw newline in a string",
        marked('{"name": "write_file", "arguments": {"path": "a.txt", "content": "one\ntwo"}}'),
        call("write_file", "raw newline", path="a.txt", content="one\ntwo"),
    ),
    row(
        "a raw tab in a string",
        marked('{"name": "write_file", "arguments": {"path": "a.txt", "content": "one\ttwo"}}'),
        call("write_file", "raw newline", path="a.txt", content="one\ttwo"),
    ),
    row("unquoted keys", marked('{name: "get_tide", arguments: {harbour: "Husum"}}'), tide("unquoted key")),
    row(
        "a comment to the end of the line",
        marked('{\n  "name": "get_tide", // the tool\n  "arguments": {"harbour": "Husum"}\n}'),
        tide("comment"),
    ),
    row(
        "a comment between the values",
        marked('{"name": "get_tide", "arguments": {"harbour": /* port */ "Husum"}}'),
        tide("comment"),
    ),
    row(
        "a comment with an apostrophe",
        marked('{\n  "name": "get_tide", // the user\'s harbour\n  "arguments": {"harbour": "Husum"}\n}'),
        tide("comment"),
    ),
    row("one brace too many", marked(TIDE_JSON + "}"), tide("extra brace")),
    row("one brace too few", marked(TIDE_JSON.removesuffix("}")), tide("missing brace")),
    row(
        "one brace too few, on one line",
        f"[TOOL_CALL]{TIDE_JSON.removesuffix('}')}[END_TOOL_CALL] Yes.",
        tide("missing brace"),
        said("Yes."),
    ),
    row("a fence inside the markers", marked(f"```json\n{TIDE_JSON}\n```"), tide("fence")),
    row(
        "a fence without a language inside the markers",
        marked(f"```\n{TIDE_JSON}\n```") + "\nDone.",
        tide("fence"),
        said("Done."),
    ),
    row("the end marker with a slash", f"[TOOL_CALL]\n{TIDE_JSON}\n[/TOOL_CALL]", tide("wrong end marker")),
    row(
        "a short end marker",
        f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL]\nOne moment.",
        tide("wrong end marker"),
        said("One moment."),
    ),
    row("no end marker at the end of the reply", f"[TOOL_CALL]\n{TIDE_JSON}", tide("missing end marker")),
    row(
        "no end marker, and white space at the end",
        f"Yes.\n[TOOL_CALL]\n{TIDE_JSON}\n\n",
        said("Yes."),
        tide("missing end marker"),
    ),
    row(
        "no end marker before text",
        f"[TOOL_CALL]\n{TIDE_JSON}\nI will tell you the tide.",
        tide("missing end marker"),
        said("I will tell you the tide."),
    ),
    row(
        "no end marker before the next call",
        f"[TOOL_CALL]\n{TIDE_JSON}\n{marked(OSLO_JSON)}",
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
        marked(r'{"name": "get_tide", "arguments": "{\"harbour\": \"Husum\"}"}'),
        tide("encoded arguments"),
    ),
    row("tool_name for name", marked('{"tool_name": "get_tide", "arguments": {"harbour": "Husum"}}'), TIDE),
    row("a call that is wrapped as a function", marked(f'{{"type": "function", "function": {TIDE_JSON}}}'), TIDE),
    row(
        "a Python dictionary",
        marked("{'name': 'set_light', 'arguments': {'room': 'hall', 'state': True}}"),
        call("set_light", "single quotes", "Python literal", room="hall", state=True),
    ),
    row(
        "a JavaScript object",
        marked("{name: 'get_tide', arguments: {harbour: 'Husum',},}"),
        tide("unquoted key", "single quotes", "trailing comma"),
    ),
    row(
        "a trailing comma and no end marker",
        '[TOOL_CALL]{"name": "get_tide", "arguments": {"harbour": "Husum",}}',
        tide("trailing comma", "missing end marker"),
    ),
    row(
        "encoded parameters",
        marked(r'{"name": "get_tide", "parameters": "{\"harbour\": \"Husum\"}"}'),
        tide("parameters for arguments", "encoded arguments"),
    ),
)
