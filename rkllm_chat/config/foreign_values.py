"""Texts in the entries of other programs: write their variables as ours, and name what would be replaced elsewhere."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..core.errors import ConfigError
from ..core.working_folder import find_working_folder
from .value_checks import MAX_DEPTH

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish", "wsl", "env")
"""Programs that replace variables in their arguments themselves."""
_TEMPLATE = r"\{\{[^{}]*\}\}|(?<![\w$])\$[A-Za-z_]\w*"
"""What other programs, or a shell, would replace."""
_MARKS = ("{{", "$", "<", "your", "path/to/", "xxxx", "change", "replace")
"""One of these is in every text that the two patterns find."""
_PLACEHOLDER = (
    r"^<[^<>]+>$|^\[?your[-_ ][\w -]*\]?$|\bYOUR_[A-Z_]+|/(?:absolute/)?path/to/|^x{4,}$|^(?:change|replace)[-_ ]?me"
)
"""What the manual of a server leaves to its user."""
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_OPENCODE_VARIABLE = re.compile(r"(?<!\$)\{((?:env|file):[^{}]*)\}")
_BARE_VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)(?=$|/)")
_UNKNOWN_VARIABLES = ("file", "command", "config", "cmd", "user_config", "extensionInstallFolder", "secret")
MAX_SHOWN = 200


def write_texts(table: dict[str, Any]) -> None:
    """Write numbers in args, env and headers as texts; a variable of null is not set."""
    if isinstance(arguments := table.get("args"), list):
        table["args"] = [to_text(value) for value in arguments]
    for key in ("env", "headers"):
        if isinstance(values := table.get(key), dict):
            table[key] = {name: _refer(name, to_text(value)) for name, value in values.items() if value is not None}
    for key in ("command", "url", "cwd"):
        if isinstance(text := table.get(key), str):
            table[key] = text.strip()
        if table.get(key) == "":
            del table[key]


def translate_variables(value: Any, inputs: Mapping[str, str], source: str, place: str, depth: int = 0) -> Any:
    """Write the variables of other programs in every text as ours: `${NAME}` and `${NAME:-default}`."""
    if depth > MAX_DEPTH:
        raise ConfigError(f"{source}: {place} is nested too deep.", path=source)
    if isinstance(value, dict):
        return {
            key: translate_variables(item, inputs, source, f"{place}.{key}", depth + 1) for key, item in value.items()
        }
    if isinstance(value, list):
        return [translate_variables(item, inputs, source, place, depth + 1) for item in value]
    if isinstance(value, str) and place.startswith("mcp."):
        value = _OPENCODE_VARIABLE.sub(r"${\1}", value)
    if not isinstance(value, str) or "$" not in value:
        return value
    if match := _BARE_VARIABLE.match(value):
        value = f"${{{match[1]}}}{value[match.end() :]}"
    elif ".headers." in place and " $" in value:  # "Bearer $TOKEN"
        value = re.sub(rf"(?<= ){_BARE_VARIABLE.pattern}", r"${\1}", value)
    return _VARIABLE.sub(lambda match: _translate_variable(match, inputs, source, place), value)


def list_remarks(table: Mapping[str, Any], entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield what stands in the values as if another program, or its user, was to replace it."""
    for name, value in entry["env"].items() if isinstance(entry.get("env"), dict) else ():
        if value is None and name not in (table.get("env") or {}):
            yield f"env.{name}: null (the variable is not set)"
    is_shell = os.path.basename(str(table.get("command"))).removesuffix(".exe") in _SHELLS
    texts = [(f"args[{i}]", word) for i, word in enumerate(table.get("args") or ())] if _is_list(table, "args") else []
    for key in ("env", "headers"):
        if isinstance(values := table.get(key), dict):
            texts += [(f"{key}.{name}", value) for name, value in values.items()]
    for place, text in [*texts, ("url", table.get("url"))]:
        if not isinstance(text, str) or not any(mark in text.lower() for mark in _MARKS):
            continue  # most texts need no pattern
        for match in () if place.startswith("args") and is_shell else re.finditer(_TEMPLATE, text):
            yield f"{place}: {match[0]} is passed on unchanged"[:MAX_SHOWN]
        if found := re.search(_PLACEHOLDER, text, re.IGNORECASE):
            yield f"{place}: {found[0]} looks like a placeholder"[:MAX_SHOWN]


def to_text(value: Any) -> Any:
    """Return a number or a switch as text; anything else as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _refer(name: str, value: Any) -> Any:
    """Return a value with the variables that it names in other ways: itself (`/opt/bin:$PATH`), a secret of Copilot."""
    if isinstance(value, str) and value.startswith("COPILOT_MCP_") and re.fullmatch(r"[A-Z0-9_]+", value):
        return f"${{{value}}}"
    return re.sub(rf"\$({re.escape(name)})(?!\w)", r"${\1}", value) if isinstance(value, str) else value


def _is_list(table: Mapping[str, Any], key: str) -> bool:
    return isinstance(table.get(key), list)


def _translate_variable(match: re.Match[str], inputs: Mapping[str, str], source: str, place: str) -> str:
    kind, colon, name = match[1].partition(":")
    if not colon:
        return _PREDEFINED[kind]() if kind in _PREDEFINED else match[0]
    if kind == "env":
        return f"${{{name.removeprefix('//')}}}"  # mcphost writes env://NAME
    if kind == "input":
        variable = f"INPUT_{re.sub('[^A-Za-z0-9]', '_', name).upper()}"
        return f"${{{variable}:-{inputs[name]}}}" if name in inputs else f"${{{variable}}}"
    if kind in _UNKNOWN_VARIABLES:
        raise ConfigError(
            f"{source}: {place} uses {match[0]}, which is not supported.", "Write the value.", path=source
        )
    return match[0]


_PREDEFINED: dict[str, Callable[[], str]] = {
    **dict.fromkeys(("workspaceFolder", "workspaceRoot", "cwd"), find_working_folder),
    "workspaceFolderBasename": lambda: os.path.basename(find_working_folder()),
    "userHome": lambda: "${HOME}",
    **dict.fromkeys(("pathSeparator", "/"), lambda: os.sep),
}
"""Variables of editors, whose workspace is the current folder."""
