"""[TOOL_CALL] {json} [END_TOOL_CALL], damaged in ways that leave one meaning.

`test_json_repair.py` tests the damage of the JSON itself; here are the reports of it, and damage around the JSON.
"""

from __future__ import annotations

from calls.case import OSLO, OSLO_JSON, TIDE, TIDE_JSON, Row, tide
from calls.seed_json import marked

row = Row("json")

CASES = (
    row("single quotes", marked("{'name': 'get_tide', 'arguments': {'harbour': 'Husum'}}"), tide("single quotes")),
    row("one brace too many", marked(TIDE_JSON + "}"), tide("extra brace")),
    row("one brace too few", marked(TIDE_JSON.removesuffix("}")), tide("missing brace")),
    row("a fence inside the markers", marked(f"```json\n{TIDE_JSON}\n```"), tide("fence")),
    row("the end marker with a slash", f"[TOOL_CALL]\n{TIDE_JSON}\n[/TOOL_CALL]", tide("wrong end marker")),
    row("no end marker at the end of the reply", f"[TOOL_CALL]\n{TIDE_JSON}", tide("missing end marker")),
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
        "arguments that are encoded twice",
        marked(r'{"name": "get_tide", "arguments": "{\"harbour\": \"Husum\"}"}'),
        tide("encoded arguments"),
    ),
    row("tool_name for name", marked('{"tool_name": "get_tide", "arguments": {"harbour": "Husum"}}'), TIDE),
    row("a call that is wrapped as a function", marked(f'{{"type": "function", "function": {TIDE_JSON}}}'), TIDE),
    row(
        "a JavaScript object",
        marked("{name: 'get_tide', arguments: {harbour: 'Husum',},}"),
        tide("unquoted key", "single quotes", "trailing comma"),
    ),
)
