"""Parse YAML of others: plain data, as JSON has it.

Aliases are refused, by which a small file can become a huge one, and tags, by which a value can be one that its type
has not. So is deep nesting: PyYAML 6.0 needs 53 s for 60,000 brackets, as its time grows with the square of the depth.
"""

from __future__ import annotations

from typing import Any

import yaml

_MAX_DEPTH, _MAX_NUMBER_BITS = 50, 1024
_OPENING_TOKENS = (
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockMappingStartToken,
)
_CLOSING_TOKENS = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)


_RESOLVERS = {
    letter: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
    for letter, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader: Any = type("_Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": _RESOLVERS})
"""The loader of plain data, for which dates are texts, as in JSON."""


def load_yaml(text: str) -> Any:
    """Parse a YAML document; keys are texts, and so is what JSON does not know. Raises ValueError."""
    try:
        _check_tokens(text)
        return _stringify(yaml.load(text, Loader=_Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark else ""
        raise ValueError(f"{getattr(error, 'problem', None) or 'unreadable'}{place}") from None


def _check_tokens(text: str) -> None:
    depth = 0
    for token in yaml.scan(text, Loader=_Loader):
        if isinstance(token, yaml.AliasToken):
            raise ValueError("aliases are not supported")
        if isinstance(token, yaml.TagToken):
            raise ValueError("tags are not supported")
        depth += isinstance(token, _OPENING_TOKENS) - isinstance(token, _CLOSING_TOKENS)
        if depth > _MAX_DEPTH:
            raise ValueError("it is nested too deep")


def _stringify(value: Any) -> Any:
    """Return the value as JSON has it: keys are texts, and so is what JSON does not know."""
    if isinstance(value, dict):
        return {str(key): _stringify(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_stringify(item) for item in value]
    if isinstance(value, int) and value.bit_length() > _MAX_NUMBER_BITS:
        raise ValueError("a number is too large")  # in base 60, which has no limit of digits
    return value if isinstance(value, str | int | float | bool | None) else str(value)
