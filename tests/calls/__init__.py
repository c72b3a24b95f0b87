"""CASES: replies as engines give them, and what must be seen in each. It knows no reader of replies.

The cases come from what models are documented to write and from faults that other programs had with it; a module per
family of formats. To add one is to add a row.
"""

from __future__ import annotations

from calls import (
    arrays,
    gemma,
    hermes,
    json_damage,
    llama,
    name_lines,
    python_calls,
    quoting,
    qwen,
    seed_json,
    seed_xml,
    thinking,
    unknown_model,
)
from calls.case import Case

CASES: tuple[Case, ...] = tuple(
    case
    for module in (
        *(seed_json, json_damage, seed_xml, hermes, qwen, llama, python_calls, arrays, name_lines, gemma),
        *(unknown_model, thinking, quoting),
    )
    for case in module.CASES
)
