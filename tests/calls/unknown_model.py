"""A model of which nothing is known: the two taught forms and the common ones are accepted, and data stays data."""

from __future__ import annotations

from calls.case import CUT, OSLO, OSLO_JSON, TIDE, TIDE_JSON, Row, call, tide

row = Row("")

TAUGHT = f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]"
BARE = '{"name": "get_tide", "parameters": {"harbour": "Husum"}}'

CALLS = (
    row("a bare array", f"[{TIDE_JSON}, {OSLO_JSON}]", TIDE, OSLO),
    row(
        "all the four marked forms in one reply",
        f'{TAUGHT}\n<tool_call>{OSLO_JSON}</tool_call>\n<function=search>{{}}</function>\n<tool_call name="search">'
        "</tool_call>",
        TIDE,
        OSLO,
        call("search"),
        call("search"),
    ),
    row("a bare object behind a marked call", f"{TAUGHT}\n{OSLO_JSON}", TIDE, OSLO),
    row("a Python dictionary, bare", "{'name': 'get_tide', 'arguments': {'harbour': 'Husum'}}", tide("single quotes")),
)

CUT_OFF = (
    row("a bare object cut in a value", '{"name": "write_file", "arguments": {"path": "a.sh", "content": "rm -rf', CUT),
    row("a Python list cut in a value", '[get_tide(harbour="Hu', CUT),
)

TEXT = tuple(
    row.prose(name, text)
    for name, text in {
        "an answer in Japanese": "潮位は2.4mです。「満潮」は14時05分です。",
        "JSON data": '{"harbour": "Husum", "tide": 2.4}',
        "JSON data with a tool's name": '{"name": "search", "kind": "button"}',
        "a list of records that have arguments": '[{"name": "sort", "arguments": {}}]',
        "JSON data in a fence": '```json\n{"harbour": "Husum", "tide": 2.4}\n```',
        "an unknown tool in a fence": '```json\n{"name": "sort", "arguments": {"reverse": true}}\n```',
        "code in a fence": "```python\nprint('get_tide')\n```",
        "an object with a sentence behind it": f"{TIDE_JSON}\nThis is how I would call the tool.",
        "an array in a sentence": f"I would send [{TIDE_JSON}] to the server.",
        "Python values without names": '[get_tide("Husum")]',
        "a name line, which only some models mean": 'get_tide\n{"harbour": "Husum"}',
        "three markers in one sentence": "Models write [TOOL_CALL], <tool_call> or [TOOL_CALLS] before a call.",
        "a word that begins as a marker does": "[TOOL_CALLER] and <tool_callback> are no markers.",
    }.items()
)


EMPTY = (row("nothing", ""), row("nothing but white space", " \n\n\t\n"), row("an end of a turn alone", "<|im_end|>"))

CASES = (*CALLS, *CUT_OFF, *TEXT, *EMPTY)
