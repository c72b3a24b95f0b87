"""A model of which nothing is known: the two taught forms and the common ones are accepted, and data stays data."""

from __future__ import annotations

from calls.case import CUT, OSLO, OSLO_JSON, TIDE, TIDE_JSON, Row, call, said, tide

row = Row("")

TAUGHT = f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]"
BARE = '{"name": "get_tide", "parameters": {"harbour": "Husum"}}'

CALLS = (
    row("the taught JSON", f"Yes.\n{TAUGHT}", said("Yes."), TIDE),
    row("the taught XML", '<tool_call name="get_tide"><argument name="harbour">Husum</argument></tool_call>', TIDE),
    row("Hermes", f"<tool_call>\n{TIDE_JSON}\n</tool_call>", TIDE),
    row(
        "Qwen3-Coder",
        "<tool_call>\n<function=get_tide>\n<parameter=harbour>\nHusum\n</parameter>\n</function>\n</tool_call>",
        TIDE,
    ),
    row("Llama's function", '<function=get_tide>{"harbour": "Husum"}</function>', TIDE),
    row("a bare object with parameters", BARE, TIDE),
    row("a bare object with arguments", TIDE_JSON, TIDE),
    row("two bare objects joined by a semicolon", f"{BARE}; {OSLO_JSON}", TIDE, OSLO),
    row("a bare object behind a Python tag", f"<|python_tag|>{BARE}<|eom_id|>", TIDE),
    row("a bare object behind white space", f"\n\n  {TIDE_JSON}\n", TIDE),
    row("Mistral", f"[TOOL_CALLS] [{TIDE_JSON}, {OSLO_JSON}]</s>", TIDE, OSLO),
    row("a Python list", '[get_tide(harbour="Husum"), get_weather(city="Oslo", days=3)]', TIDE, OSLO),
    row("a bare array", f"[{TIDE_JSON}, {OSLO_JSON}]", TIDE, OSLO),
    row("an object in a fence", f"```json\n{TIDE_JSON}\n```", tide("fence")),
    row("an object in a fence without a language", f"```\n{TIDE_JSON}\n```\n", tide("fence")),
    row("an array in a fence", f"```json\n[{TIDE_JSON}]\n```", tide("fence")),
    row("a taught call in a fence", f"```\n{TAUGHT}\n```", tide("fence")),
    row("a fence of tildes", f"~~~json\n{TIDE_JSON}\n~~~", tide("fence")),
    row("a fence and the end of a turn", f"```json\n{TIDE_JSON}\n```<|im_end|>", tide("fence")),
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
    row(
        "a tool that nobody has behind a marker",
        '<tool_call>{"name": "book_flight", "arguments": {}}</tool_call>',
        call("book_flight"),
    ),
    row(
        "a bare object with Chinese",
        '{"name": "get_tide", "arguments": {"harbour": "青岛"}}',
        call("get_tide", harbour="青岛"),
    ),
    row("a Python dictionary, bare", "{'name': 'get_tide', 'arguments': {'harbour': 'Husum'}}", tide("single quotes")),
    row(
        "a bare object, one comma too many",
        '{"name": "get_tide", "arguments": {"harbour": "Husum"},}',
        tide("trailing comma"),
    ),
)

CUT_OFF = (
    row("a bare object cut in a value", '{"name": "write_file", "arguments": {"path": "a.sh", "content": "rm -rf', CUT),
    row("a Python list cut in a value", '[get_tide(harbour="Hu', CUT),
    row("a bare array cut in a value", '[{"name": "get_tide", "arguments": {"harbour": "Hu', CUT),
    row("a bare object cut before its last brace", TIDE_JSON.removesuffix("}"), CUT),
)

TEXT = tuple(
    row(name, text, said(text))
    for name, text in {
        "an answer": "The tide at Husum is 2.4 m and rising.",
        "an answer in Japanese": "潮位は2.4mです。「満潮」は14時05分です。",
        "an answer with emoji": "🌊🌊🌊 2.4 m 👍🏽",
        "JSON data": '{"harbour": "Husum", "tide": 2.4}',
        "JSON data with a name and arguments": '{"name": "sort", "arguments": {"reverse": true}}',
        "JSON data with a tool's name": '{"name": "search", "kind": "button"}',
        "a list of people": '[{"name": "Anna", "age": 3}, {"name": "Ben", "age": 5}]',
        "a list of records that have arguments": '[{"name": "sort", "arguments": {}}]',
        "JSON data in a fence": '```json\n{"harbour": "Husum", "tide": 2.4}\n```',
        "an unknown tool in a fence": '```json\n{"name": "sort", "arguments": {"reverse": true}}\n```',
        "code in a fence": "```python\nprint('get_tide')\n```",
        "an object behind a word": f"Call: {TIDE_JSON}",
        "an object with a sentence behind it": f"{TIDE_JSON}\nThis is how I would call the tool.",
        "an array in a sentence": f"I would send [{TIDE_JSON}] to the server.",
        "a Python list in a sentence": 'Write [get_tide(harbour="Husum")] to call it.',
        "a Python call without brackets": 'get_tide(harbour="Husum") is a call in Python.',
        "Python values without names": '[get_tide("Husum")]',
        "a name line, which only some models mean": 'get_tide\n{"harbour": "Husum"}',
        "links and notes": "[1] see [the tables](https://example.org), [2] and [x].",
        "mathematics": "{1, 2} ⊂ {1, 2, 3}, and [0, 1) is half open; a < b < c.",
        "a template": "{{ name }} and {% if x %} are Jinja.",
        "three markers in one sentence": "Models write [TOOL_CALL], <tool_call> or [TOOL_CALLS] before a call.",
        "markers in a list": "- [TOOL_CALL]\n- <tool_call>\n- <function=...>\n- <tool_call name=...>",
        "a word that begins as a marker does": "[TOOL_CALLER] and <tool_callback> are no markers.",
        "nothing but brackets": "[[[{{{<<<",
    }.items()
)

EMPTY = (row("nothing", ""), row("nothing but white space", " \n\n\t\n"), row("an end of a turn alone", "<|im_end|>"))

CASES = (*CALLS, *CUT_OFF, *TEXT, *EMPTY)
