"""Translate the servers of other programs' JSON files to our keys.

The facts are those of the programs' documentation: Claude Desktop and Claude Code, Cursor, VS Code, GitHub Copilot,
Gemini CLI, Cline, Roo Code, Kiro, Windsurf, Zed, opencode, Amp, Cherry Studio, goose, Continue, LibreChat, mcphost,
fast-agent, fastmcp and others. What cannot be translated without changing its meaning is an error of that entry alone.
A key that could give access and is not understood is named, without its value.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ..core.errors import ConfigError
from ..core.programs import PACKAGE_RUNNERS, find_program
from ..core.working_folder import find_working_folder
from .oauth import translate_keys
from .value_checks import MAX_DEPTH, decode_value

ROOTS = (
    *(("mcpServers",), ("servers",), ("mcp", "servers"), ("context_servers",), ("amp.mcpServers",), ("mcp_servers",)),
    *(("customizations", "vscode", "mcp", "servers"), ("experimental", "modelContextProtocolServers")),
    *(("mcp",), ("extensions",)),
)
"""Keys that lead to the servers of a file, an object or a list of objects; the first that does is used."""
_UNMARKED_ROOTS = (("mcp",), ("extensions",))
"""Roots that other files have for other things: every entry must be an object."""
_START_KEYS = ("command", "cmd", "url", "serverUrl", "httpUrl", "baseUrl", "uri")
_KEYS = {
    "serverUrl": "url",
    "httpUrl": "url",
    "uri": "url",
    "baseUrl": "url",
    "cmd": "command",
    "type": "transport",
    "environment": "env",
    "envs": "env",
    "http_headers": "headers",
    "tool_timeout_sec": "timeout_s",
    "startup_timeout_sec": "connect_s",
}
"""Keys of other programs -> our keys. Of several keys for one thing, the later in a file counts."""
_SECONDS = {"timeout": "timeout_s", "startupTimeout": "connect_s", "initTimeout": "connect_s"}
"""Keys in seconds or milliseconds, by program -> our keys in seconds."""
_MAX_SECONDS = 3600
"""The longest timeout of programs that count seconds (Cline, Roo Code); a greater number is in milliseconds."""
_ALLOW_KEYS = ("includeTools", "enabledTools", "enabled_tools", "available_tools", "allowedTools", "tools")
_DENY_KEYS = ("excludeTools", "disabledTools", "disabled_tools")
_FREE_KEYS = ("autoApprove", "alwaysAllow", "autoApproveTools", "trust")
"""Keys that let tools run without a question; these are shown, and our own rules decide."""
_FREE_MODE = "approve"
"""The value of `approval_mode` that does so, for a server's tools in `default_tools_approval_mode` (Codex)."""
_UNKNOWN_SOURCES = {
    "envFile": "write the variables to env",
    "headersHelper": "write the header with a variable to headers",
}
_BUILT_IN_TYPES = ("builtin", "platform", "frontend", "inline_python")
"""Types of goose's extensions that are parts of goose and no servers."""
_TOKEN_KEYS = ("bearer_token", "bearerToken")
_ACCESS_WORDS = re.compile("auth|token|api_?key|secret|passw|credential|bearer", re.IGNORECASE)
_UNDERSTOOD_ACCESS = (
    *("oauth", "authProviderType", "bearer_token_env_var", *_TOKEN_KEYS),
    *("autoApprove", "autoApproveTools", "requiresOAuth", "google_credentials"),
)
"""Keys with such words that are translated, or that give no access."""
_MAX_TIMEOUT_S = 86_400
_FOREIGN_LOGINS = ("google_credentials", "service_account_impersonation")
"""Values of `authProviderType` (Gemini CLI) for credentials that only Google's libraries can get."""
"""Keys for values that only their program can get, without which the server would not work; what to do instead."""
_FOREIGN_TABLES = ("sandbox", "network")
"""Keys under which other programs keep tables with another meaning; these are ignored."""
_TRANSPORTS = {
    "local": "",
    "remote": "",
    "streamablehttp": "http",
    "streamable-http": "http",
    "streamable_http": "http",
}
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_OPENCODE_VARIABLE = re.compile(r"(?<!\$)\{((?:env|file):[^{}]*)\}")
_BARE_VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)(?=$|/)")
_UNKNOWN_VARIABLES = ("file", "command", "config", "cmd", "user_config", "extensionInstallFolder", "secret")
_MAX_SHOWN = 200


class Translation(NamedTuple):
    """An entry in our keys.

    Attributes:
        table: The entry.
        not_obeyed: What it allows beyond our rules, as text.
    """

    table: dict[str, Any]
    not_obeyed: tuple[str, ...]


class ForeignFile(NamedTuple):
    """The servers of a file.

    Attributes:
        place: The keys that lead to them, joined by dots; "" for the root.
        entries: The entries by name.
        inputs: Defaults of the values that the program would ask for (`inputs` of VS Code), by their ids.
        disabled: Names of servers that the file excludes elsewhere.
    """

    place: str
    entries: dict[str, Any]
    inputs: Mapping[str, str]
    disabled: frozenset[str]
    is_list: bool = False

    def place_of(self, name: str) -> str:
        """Return the place of an entry."""
        if self.is_list:
            return f"{self.place}[{[*self.entries].index(name)}]"
        return f"{self.place}.{name}" if self.place else name


def find_entries(root: Any, may_be_bare: bool = True) -> ForeignFile | None:
    """Find the servers in the root of a JSON or YAML file; None if there are none.

    Args:
        root: The root of the file.
        may_be_bare: The file may be a table of servers without a key above them. Plugins bring such files along in
            folders, where they are not meant for every program.
    """
    for keys in ROOTS:
        parent: Any = root
        for key in keys[:-1]:
            parent = parent.get(key) if isinstance(parent, dict) else None
        if not isinstance(parent, dict) or keys[-1] not in parent:
            continue
        entries, is_list = parent[keys[-1]], False
        if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries):
            entries, is_list = _name_entries(entries), True
        elif entries is None and keys not in _UNMARKED_ROOTS:
            entries = {}
        is_usable = keys not in _UNMARKED_ROOTS or (
            isinstance(entries, dict) and all(isinstance(entry, dict) for entry in entries.values())
        )
        if isinstance(entries, dict) and is_usable:
            inputs = _read_inputs(root if len(keys) == 1 else parent)
            return ForeignFile(".".join(keys), entries, inputs, _find_disabled(root, entries), is_list)
    is_bare = may_be_bare and isinstance(root, dict) and root and all(map(_can_start, root.values()))
    return ForeignFile("", root, {}, frozenset()) if is_bare else None


def _can_start(entry: Any) -> bool:
    return isinstance(entry, dict) and any(isinstance(entry.get(key), str) for key in _START_KEYS)


def _name_entries(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the entries of a list by their names; of several with one name, the later ones get a number."""
    named: dict[str, Any] = {}
    for number, entry in enumerate(entries, 1):
        name = entry.get("name") or entry.get("id")
        name = name if isinstance(name, str) and name else f"server-{number}"
        named[name if name not in named else f"{name}-{number}"] = entry
    return named


def _read_inputs(parent: Mapping[str, Any]) -> dict[str, str]:
    inputs = parent.get("inputs")
    found = [entry for entry in inputs if isinstance(entry, dict)] if isinstance(inputs, list) else []
    return {str(entry.get("id")): entry["default"] for entry in found if isinstance(entry.get("default"), str)}


def _find_disabled(root: Mapping[str, Any], entries: Mapping[str, Any]) -> frozenset[str]:
    """Return the servers that `mcp.excluded` and `mcp.allowed` of Gemini CLI switch off."""
    switches = root.get("mcp")
    lists = {key: switches.get(key) for key in ("allowed", "excluded")} if isinstance(switches, dict) else {}
    allowed, excluded = (
        [*map(str, one)] if isinstance(one, list) else None for one in map(lists.get, ("allowed", "excluded"))
    )
    return frozenset(
        name for name in entries if name in (excluded or ()) or (allowed is not None and name not in allowed)
    )


def translate_entry(name: str, entry: Any, file: ForeignFile, source: str) -> Translation:
    """Translate one entry to our keys; unknown keys belong to other programs and are dropped by the caller.

    Args:
        name: Name of the server.
        entry: The entry.
        file: The servers of the file.
        source: Path of the file.

    Raises:
        ConfigError: The entry cannot be translated.
    """
    place = file.place_of(name)
    if not isinstance(entry, dict):
        raise ConfigError(f"{source}: {place} must be an object.", path=source)
    if entry.get("type") in _BUILT_IN_TYPES:
        raise ConfigError(f"{source}: {place} is a part of goose, not a server.", path=source)
    for key, advice in _UNKNOWN_SOURCES.items():
        if entry.get(key):
            raise ConfigError(f"{source}: {place}.{key} is not supported.", f"Instead, {advice}.", path=source)
    table = {_KEYS.get(key, key): value for key, value in _flatten(entry).items() if value is not None}
    _translate_values(table)
    _translate_switches(table, entry, file, name, source, place)
    dropped = _translate_timeouts(table, entry)
    _choose_transport(table, entry)
    _split_command(table)
    not_obeyed = (*_list_freedoms(table), *dropped, *_list_unknown_access(entry))
    if isinstance(table.get("trust"), bool):
        del table["trust"]
    for key in _FOREIGN_TABLES:
        if isinstance(table.get(key), dict):
            del table[key]
    _translate_login(table, entry, source, place)
    return Translation(_translate_variables(table, file.inputs, source, place), not_obeyed)


def _translate_login(table: dict[str, Any], entry: dict[str, Any], source: str, place: str) -> None:
    if (login := entry.get("authProviderType")) in _FOREIGN_LOGINS:
        raise ConfigError(f"{source}: {place}: the login {login} is not supported.", path=source)
    if isinstance(table.get("oauth"), bool):  # opencode: whether to log in where the server requires it, as here
        del table["oauth"]
    if isinstance(oauth := table.get("oauth"), dict):
        table["oauth"] = translate_keys(oauth)
    elif isinstance(auth := entry.get("auth"), dict) and "oauth" not in table:  # of Cursor
        table["oauth"] = translate_keys({key.lower(): value for key, value in auth.items()})
    scopes, oauth = entry.get("scopes"), table.get("oauth", {})
    if isinstance(scopes, list) and isinstance(oauth, dict) and "bearer_token_env_var" not in entry:  # of Codex
        table["oauth"] = {**translate_keys({"scopes": scopes}), **oauth}


def _flatten(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with its command, headers and variables where we have them."""
    flat = {**entry}
    if isinstance(transport := entry.get("transport"), dict):  # Continue
        flat |= {"transport": transport.get("type"), **{key: transport[key] for key in transport if key != "type"}}
    _flatten_command(flat)
    _flatten_headers(flat)
    if isinstance(names := flat.get("env_vars", flat.get("env_keys")), list):
        env = flat.pop("envs", flat.get("env"))
        plain = [str(name.get("name") if isinstance(name, dict) else name) for name in names]
        passed = {name: f"${{{name}}}" for name in plain}
        flat["env"] = {**passed, **(env if isinstance(env, dict) else {})}
    return flat


def _flatten_command(flat: dict[str, Any]) -> None:
    """Write a command that is an object (Zed) or a list (opencode) as command and arguments."""
    command = flat.get("command")
    if isinstance(command, dict):
        flat |= {"command": command.get("path"), "args": command.get("args"), "env": command.get("env")}
    elif isinstance(command, list) and command:
        arguments = flat.get("args")
        flat |= {"command": command[0], "args": [*command[1:], *(arguments if isinstance(arguments, list) else ())]}


def _flatten_headers(flat: dict[str, Any]) -> None:
    """Write the headers of all places as one table, with those that a token or a variable stands for."""
    headers = flat.get("headers", flat.get("http_headers"))
    if isinstance(headers, list):  # mcphost
        headers = flat["headers"] = _split_headers(headers)
    request = flat.get("requestInit", flat.get("requestOptions"))
    added = dict(request["headers"]) if isinstance(request, dict) and isinstance(request.get("headers"), dict) else {}
    for token in (*map(flat.get, _TOKEN_KEYS), flat.get("auth")):  # fastmcp: auth is a token, or "oauth"
        if isinstance(token, str) and token and token != "oauth":
            added["Authorization"] = f"Bearer {token}"
    if isinstance(variables := flat.get("env_http_headers"), dict):
        added |= {key: f"${{{variable}}}" for key, variable in variables.items()}
    if isinstance(variable := flat.get("bearer_token_env_var"), str):
        added["Authorization"] = f"Bearer ${{{variable}}}"
    if added and isinstance(headers, dict | None):
        flat["headers"] = {**(headers or {}), **added}
        flat.pop("http_headers", None)


def _split_headers(pairs: list[Any]) -> Any:
    """Return headers such as "Name: value" as a table; what is no list of them as it is."""
    if not all(isinstance(pair, str) and ":" in pair for pair in pairs):
        return pairs
    return {name.strip(): value.strip() for name, _, value in (pair.partition(":") for pair in pairs)}


def _translate_values(table: dict[str, Any]) -> None:
    """Write numbers in args, env and headers as texts; a variable of null is not set."""
    if isinstance(arguments := table.get("args"), list):
        table["args"] = [_to_text(value) for value in arguments]
    for key in ("env", "headers"):
        if isinstance(values := table.get(key), dict):
            table[key] = {name: _to_text(value) for name, value in values.items() if value is not None}
    for key in ("command", "url", "cwd"):
        if isinstance(text := table.get(key), str):
            table[key] = text.strip()
        if table.get(key) == "":
            del table[key]


def _to_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _translate_switches(
    table: dict[str, Any], entry: dict[str, Any], file: ForeignFile, name: str, source: str, place: str
) -> None:
    """Translate what switches the server and its tools off."""
    if "disabled" in table:
        table["enabled"] = not decode_value(table["disabled"], bool, source, f"{place}.disabled")
    if table.get("isActive") is False or name in file.disabled:
        table["enabled"] = False
    for keys, ours in ((_ALLOW_KEYS, "tools_allow"), (_DENY_KEYS, "tools_deny")):
        for key in keys:
            if key == "tools" and not isinstance(entry.get(key), list):
                continue  # a table of settings by tool in some programs
            if entry.get(key) is not None:
                names = decode_value(entry[key], tuple[str, ...], source, f"{place}.{key}")
                if key == "tools" and not names:
                    table["enabled"] = False
                if names and "*" not in names:
                    table[ours] = [*table.get(ours, ()), *names]


def _translate_timeouts(table: dict[str, Any], entry: dict[str, Any]) -> list[str]:
    """Write timeouts in seconds; return those that are no time, which count as not written."""
    found: dict[str, tuple[str, Any]] = {}
    for key, ours in _SECONDS.items():
        value = entry.get(key)
        if isinstance(value, dict):  # opencode: milliseconds to start and of a request
            for part, name in (("request", "timeout_s"), ("startup", "connect_s")):
                if value.get(part) is not None and name not in table:
                    found[name] = f"{key}.{part}", _read_seconds(value[part], 1000)
        elif value and ours not in entry:
            seconds = _read_seconds(value)
            found[ours] = key, seconds / 1000 if seconds and seconds > _MAX_SECONDS else seconds
    if (milliseconds := entry.get("startup_timeout_ms")) and "connect_s" not in table:  # of Codex
        found["connect_s"] = "startup_timeout_ms", _read_seconds(milliseconds, 1000)
    for ours in ("timeout_s", "connect_s"):
        if ours in table and ours not in found and ours not in entry:
            found[ours] = ours, _read_seconds(table[ours])
    is_time = {ours: seconds is not None and 0 < seconds <= _MAX_TIMEOUT_S for ours, (_, seconds) in found.items()}
    table |= {ours: seconds for ours, (_, seconds) in found.items() if is_time[ours]}
    for ours in (ours for ours, fits in is_time.items() if not fits):
        table.pop(ours, None)
    return [f"{key}: no time that can be used" for ours, (key, _) in found.items() if not is_time[ours]]


def _read_seconds(value: Any, divisor: int = 1) -> float | None:
    """Return a number, also of a text; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value) / divisor
    except (ValueError, OverflowError):
        return None


def _choose_transport(table: dict[str, Any], entry: dict[str, Any]) -> None:
    """Decide between a command and a URL by the transport; of the two URLs of Gemini CLI, `httpUrl` counts."""
    transport = table.get("transport")
    if isinstance(transport, str):
        transport = _TRANSPORTS.get(transport.lower(), transport.lower())
        if transport:
            table["transport"] = transport
        else:
            del table["transport"]
    if entry.get("httpUrl"):
        table["url"] = entry["httpUrl"]
    if table.get("command") and table.get("url") and transport:
        del table["url" if transport == "stdio" else "command"]
        if "command" not in table:
            table.pop("args", None)


def _split_command(table: dict[str, Any]) -> None:
    """Split a command line in `command`, unless it is the path of a program with blanks."""
    command, arguments = table.get("command"), table.get("args", [])
    if not isinstance(command, str) or " " not in command.strip() or not isinstance(arguments, list):
        return
    if find_program(os.path.expanduser(command), None):
        table.setdefault("args", [])
        return
    try:
        program, *words = shlex.split(command)
    except ValueError:
        return
    if program in PACKAGE_RUNNERS or find_program(os.path.expanduser(program), None):
        table |= {"command": program, "args": [*words, *arguments]}


def _list_freedoms(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that let tools run without a question, with their values."""
    for key in _FREE_KEYS:
        value = table.get(key)
        if value is True or (isinstance(value, str) and key not in ("trust",)):
            yield f"{key}: {_to_text(value)}"
        elif isinstance(value, list) and value:
            yield f"{key}: {', '.join(map(str, value))}"[:_MAX_SHOWN]
    if table.get("default_tools_approval_mode") == _FREE_MODE:
        yield f"default_tools_approval_mode: {_FREE_MODE}"
    modes = table.get("tools")
    for tool, mode in modes.items() if isinstance(modes, dict) else ():
        if isinstance(mode, dict) and mode.get("approval_mode") == _FREE_MODE:
            yield f"approval_mode: {_FREE_MODE} for {tool}"[:_MAX_SHOWN]


def _list_unknown_access(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that could give access to the server and are not understood, without their values."""
    for key, value in entry.items():
        is_known = key in _UNDERSTOOD_ACCESS or (key == "auth" and isinstance(value, str | dict))
        if value and not is_known and _ACCESS_WORDS.search(key) and not key.endswith("_headers"):
            yield f"{key} (not understood)"[:_MAX_SHOWN]


def _translate_variables(value: Any, inputs: Mapping[str, str], source: str, place: str, depth: int = 0) -> Any:
    """Write the variables of other programs in every text as ours: `${NAME}` and `${NAME:-default}`."""
    if depth > MAX_DEPTH:
        raise ConfigError(f"{source}: {place} is nested too deep.", path=source)
    if isinstance(value, dict):
        return {
            key: _translate_variables(item, inputs, source, f"{place}.{key}", depth + 1) for key, item in value.items()
        }
    if isinstance(value, list):
        return [_translate_variables(item, inputs, source, place, depth + 1) for item in value]
    if isinstance(value, str) and place.startswith("mcp."):
        value = _OPENCODE_VARIABLE.sub(r"${\1}", value)
    if not isinstance(value, str) or "$" not in value:
        return value
    if match := _BARE_VARIABLE.match(value):
        value = f"${{{match[1]}}}{value[match.end() :]}"
    elif ".headers." in place and " $" in value:  # "Bearer $TOKEN"
        value = re.sub(rf"(?<= ){_BARE_VARIABLE.pattern}", r"${\1}", value)
    return _VARIABLE.sub(lambda match: _translate_variable(match, inputs, source, place), value)


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
