"""Parse YAML files of other programs: plain data, without aliases, by which a small file can become a huge one."""

from __future__ import annotations

from typing import Any

import yaml


def load_yaml(text: str) -> Any:
    """Parse a YAML document; dates and other special values are texts. Raises ValueError."""
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise ValueError("aliases are not supported")
        return _stringify(yaml.safe_load(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark else ""
        raise ValueError(f"{getattr(error, 'problem', None) or 'unreadable'}{place}") from None


def _stringify(value: Any) -> Any:
    """Return the value as JSON has it: keys are texts, and so is what JSON does not know."""
    if isinstance(value, dict):
        return {str(key): _stringify(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_stringify(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
