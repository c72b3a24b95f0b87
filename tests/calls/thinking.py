"""Thoughts: nothing in them is a call, whatever it looks like."""

from __future__ import annotations

from calls.case import CUT, OSLO, OSLO_JSON, TIDE, TIDE_JSON, Row, garbled, said, thought, tide

unknown, json, xml, hermes, coder, deepseek = map(Row, ("", "json", "xml", "hermes", "qwen3-coder", "deepseek"))

JSON = f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]"
XML = '<tool_call name="get_tide">\n<argument name="harbour">Husum</argument>\n</tool_call>'
HERMES = f"<tool_call>\n{TIDE_JSON}\n</tool_call>"
HERMES_OSLO = f"<tool_call>\n{OSLO_JSON}\n</tool_call>"
CODER = "<tool_call>\n<function=get_tide>\n<parameter=harbour>\nHusum\n</parameter>\n</function>\n</tool_call>"
IN_THINKING = garbled("call_in_thinking")

PLAIN = (
    unknown("an empty thought", "<think>\n\n</think>\n\nIt is 2.4 m.", said("It is 2.4 m.")),
    unknown(
        "two thoughts with text between",
        "<think>One.</think>First.\n<think>Two.</think>Second.",
        thought("One."),
        said("First."),
        thought("Two."),
        said("Second."),
    ),
    unknown("a bare object behind a thought", f"<think>Hm.</think>\n\n{TIDE_JSON}", thought("Hm."), TIDE),
    unknown(
        "a fence behind a thought, and nothing else",
        f"<think>Hm.</think>\n```json\n{TIDE_JSON}\n```",
        thought("Hm."),
        tide("fence"),
    ),
    unknown("a Python list behind a thought", '<think>Hm.</think>\n[get_tide(harbour="Husum")]', thought("Hm."), TIDE),
    json(
        "a thought between a call and text",
        f"{JSON}<think>Now I wait.</think>Please wait.",
        TIDE,
        thought("Now I wait."),
        said("Please wait."),
    ),
    hermes(
        "a thought that was cut in its end tag",
        "<think>\nThe user asks 1 < 2</thi",
        thought("The user asks 1 < 2</thi"),
    ),
    hermes(
        "braces and tags in a thought",
        '<think>{"name": [1, <b>]} </thinking></think>Yes.',
        thought('{"name": [1, <b>]} </thinking>'),
        said("Yes."),
    ),
)

CALLS_INSIDE = (
    json("a call in a thought, then a call", f"<think>{JSON}</think>\n{JSON}", thought(JSON), TIDE),
    hermes(
        "a call in a thought, then another one",
        f"<think>\n{HERMES}\nNo, the weather.\n</think>\n{HERMES_OSLO}",
        thought(f"{HERMES}\nNo, the weather."),
        OSLO,
    ),
    hermes(
        "half a call in a thought",
        '<think>I open <tool_call>\n{"name": "get_tide", </think>\nHm.',
        thought('I open <tool_call>\n{"name": "get_tide",'),
        said("Hm."),
    ),
    hermes(
        "a call in a thought, then one that is cut",
        f'<think>{HERMES}</think>\n<tool_call>\n{{"name": "get_we',
        thought(HERMES),
        CUT,
    ),
)

ONLY_THOUGHT = (
    json(
        "a call in a thought, and nothing behind",
        f"<think>\nI call it.\n{JSON}\n</think>",
        thought(f"I call it.\n{JSON}"),
        IN_THINKING,
    ),
    xml("a call in a thought, and nothing behind", f"<think>{XML}</think>\n", thought(XML), IN_THINKING),
    hermes(
        "a call in a thought, and the end of the turn",
        f"<think>\nSo:\n{HERMES}\nDone.\n</think>\n<|im_end|>",
        thought(f"So:\n{HERMES}\nDone."),
        IN_THINKING,
    ),
)

OPENED_BY_THE_PROMPT = (
    coder(
        "all is thought until the end tag",
        "Hm, the tide.\n</think>\n\nIt is 2.4 m.",
        thought("Hm, the tide."),
        said("It is 2.4 m."),
        starts_in_thought=True,
    ),
    coder(
        "an opened thought with a call, and nothing behind",
        f"{CODER}\n</think>\n",
        thought(CODER),
        IN_THINKING,
        starts_in_thought=True,
    ),
    hermes(
        "an opened thought with a call, then a call",
        f"{HERMES_OSLO}\n</think>\n{HERMES}",
        thought(HERMES_OSLO),
        TIDE,
        starts_in_thought=True,
    ),
)

CASES = (*PLAIN, *CALLS_INSIDE, *ONLY_THOUGHT, *OPENED_BY_THE_PROMPT)
