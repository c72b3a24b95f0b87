"""CASES: replies as engines give them, and what must be seen in each. It knows no reader of replies.

The cases come from what models are documented to write and from faults that other programs had with it. To add one is
to add a row.
"""

from __future__ import annotations

from calls import families, hermes, json_damage, quoting, qwen, seed_json, seed_xml, thinking, unknown_model
from calls.case import Case

MODULES = (seed_json, json_damage, seed_xml, hermes, qwen, families, unknown_model, thinking, quoting)
CASES: tuple[Case, ...] = tuple(case for module in MODULES for case in module.CASES)
