"""Translate an entry of another program's file to our keys.

`foreign_roots` finds the entries in a file, `foreign_switches` reads what switches servers and tools off, and
`foreign_values` the texts.

The facts are those of the programs' documentation: Claude Desktop and Claude Code, Cursor, VS Code, GitHub Copilot,
Gemini CLI, Cline, Roo Code, Kiro, Windsurf, Zed, opencode, Amp, Cherry Studio, goose, Continue, LibreChat, mcphost,
fast-agent, fastmcp and others. What cannot be translated without changing its meaning is an error of that entry alone.
A key that is not understood is named, without its value; one that may be a restriction keeps the server off.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from ..core.errors import ConfigError
from ..core.programs import PACKAGE_RUNNERS, find_program
from .foreign_roots import START_KEYS, ForeignFile
from .foreign_switches import fold_key, list_unknown, read_switch, read_switches
from .foreign_values import MAX_SHOWN, list_remarks, to_text, translate_variables, write_texts
from .oauth import translate_keys
from .transports import COMMAND_TRANSPORT, URL_PREFIXES, find_transport_name
from .trust_rules import RULES

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
_FREE_KEYS = ("autoApprove", "alwaysAllow", "autoApproveTools", "trust")
"""Keys that let tools run without a question; these are shown, and our own rules decide."""
_FREE_MODE = "approve"
"""The value of `approval_mode` that does so, for a server's tools in `default_tools_approval_mode` (Codex)."""
_UNKNOWN_SOURCES = {
    "envFile": "write the variables to env",
    "headersHelper": "write the header with a variable to headers",
}
"""Keys for values that only their program can get, without which the server would not work; what to do instead."""
_BUILT_IN_TYPES = ("builtin", "platform", "frontend", "inline_python")
"""Types of goose's extensions that are parts of goose and no servers."""
_TOKEN_KEYS = ("bearer_token", "bearerToken")
_SWITCHES = ("enabled", "disabled", "active", "isactive", "enable", "disable")
"""Switches whose value must be one, in one spelling."""
_SPELLINGS = {
    **dict.fromkeys(("workingdirectory", "workingdir", "workdir", "currentdirectory"), "cwd"),
    **dict.fromkeys(("serverurl", "httpurl", "baseurl", "endpoint", "sseurl", "endpointurl"), "url"),
    **dict.fromkeys(("transporttype", "protocol", "connectiontype"), "transport"),
    **dict.fromkeys(("environment", "envs", "environmentvariables", "envvariables"), "env"),
    **dict.fromkeys(("httpheaders", "customheaders", "staticheaders", "requestheaders", "extraheaders"), "headers"),
    **dict.fromkeys(("arguments", "argv", "commandargs"), "args"),
}
"""Further keys of other programs, in one spelling -> our keys."""
_TIMEOUT = (
    r"(?P<start>connect(?:ion)?|start(?:up)?|init(?:iali[sz]ation)?)?(?:tool|toolcall|request|call|read|execution|mcp)?"
    r"timeout(?P<unit>ms|millis|milliseconds|s|secs?|seconds)?"
)
"""A timeout of another program, in one spelling."""
_LOGIN_KEYS = ("type", "clientid", "clientsecret", "scope", "scopes", "redirecturi", "issuer", "callbackport", "grant")
_TOKENS = ("token", "key", "value", "bearertoken", "accesstoken", "authvalue", "apikey", "authtoken")
_MAX_TIMEOUT_S = 86_400
_FOREIGN_LOGINS = ("google_credentials", "service_account_impersonation")
"""Values of `authProviderType` (Gemini CLI) for credentials that only Google's libraries can get."""
_FOREIGN_TABLES = ("sandbox", "network")
"""Keys under which other programs keep tables with another meaning; these are ignored."""
_NO_TRANSPORTS = ("local", "remote")
"""Values of that key that name none."""


class Translation(NamedTuple):
    """An entry in our keys.

    Attributes:
        table: The entry.
        not_obeyed: What it allows beyond our rules, and what is not understood, as text.
        kept_off: Places of what is not understood and keeps the server off.
        disabled_by: Path of another file that switches the server off, or "".
    """

    table: dict[str, Any]
    not_obeyed: tuple[str, ...]
    kept_off: tuple[str, ...] = ()
    disabled_by: str = ""


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
    table = {_find_key(key, value): value for key, value in _flatten(entry).items() if value is not None}
    write_texts(table)
    read = _translate_switches(table, entry, file, name, source, place)
    dropped = _translate_timeouts(table, entry)
    _choose_transport(table, entry)
    _split_command(table)
    read |= _list_login_keys(entry) | {key for key in entry if _match_timeout(key)}
    unknown, kept_off = _list_unknown(table, entry, read, file, name)
    not_obeyed = (*_list_freedoms(table), *dropped, *_translate_sandbox(table, entry), *unknown)
    if isinstance(table.get("trust"), bool):
        del table["trust"]
    _translate_login(table, entry, source, place)
    _check_typo(table, entry, source, name)
    table = translate_variables(table, file.inputs, source, place)
    remarks = (*not_obeyed, *list_remarks(table, entry))
    return Translation(table, remarks, tuple(kept_off), file.disabled_by.get(name, ""))


def _find_key(key: str, value: Any) -> str:
    """Return our key for one of another program."""
    ours = _KEYS.get(key) or _SPELLINGS.get(fold_key(key), key)
    if ours == "headers" and not isinstance(value, dict | list):
        return key
    return key if ours == "transport" and not isinstance(value, str | dict) else ours


def _translate_sandbox(table: dict[str, Any], entry: dict[str, Any]) -> list[str]:
    """Use our sandbox where another program has one of its own; return what is named of that one."""
    texts = [f"{key} (our own sandbox is used)" for key in _FOREIGN_TABLES if isinstance(table.get(key), dict)]
    wants = [entry.get(key) for key in ("sandboxEnabled", "sandbox")]
    for key in _FOREIGN_TABLES:
        if isinstance(table.get(key), dict) or (key == "sandbox" and isinstance(table.get(key), bool)):
            del table[key]
    if table.get("command") and (wants[0] is True or wants[1] is True or (wants[1] and isinstance(wants[1], dict))):
        table["sandbox"] = "on"
    return texts


def _check_typo(table: Mapping[str, Any], entry: Mapping[str, Any], source: str, name: str) -> None:
    """Raise ConfigError for an entry without command and URL that has a key of nearly such a name."""
    if table.get("command") or table.get("url"):
        return
    from difflib import get_close_matches

    for key in entry:
        if key not in START_KEYS and (near := get_close_matches(key, START_KEYS, n=1, cutoff=0.75)):
            text = f'{source}: server "{name}" needs a command or a url, and has the unknown key "{key}".'
            raise ConfigError(text, f'Did you mean "{near[0]}"?', path=source, closest=near)


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
    added |= _read_auth(flat)
    if isinstance(variables := flat.get("env_http_headers"), dict):
        added |= {key: f"${{{variable}}}" for key, variable in variables.items()}
    if isinstance(variable := flat.get("bearer_token_env_var"), str):
        added["Authorization"] = f"Bearer ${{{variable}}}"
    if added and isinstance(headers, dict | None):
        flat["headers"] = {**(headers or {}), **added}
        flat.pop("http_headers", None)


def _read_auth(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the header for a token that stands under `auth` (oterm) or beside `auth_type` (LiteLLM, Open WebUI)."""
    auth = entry.get("auth")
    given = {fold_key(key): value for key, value in (auth if isinstance(auth, dict) else entry).items()}
    kind = given.get("type") if isinstance(auth, dict) else given.get("authtype")
    token = next((given[key] for key in _TOKENS if isinstance(given.get(key), str) and given[key]), "")
    match fold_key(kind) if isinstance(kind, str) and token else "":
        case "bearer" | "bearertoken" | "token":
            return {"Authorization": f"Bearer {token}"}
        case "authorization":
            return {"Authorization": token}
        case "apikey" | "header":
            header = given.get("header") or given.get("headername") or "X-API-Key"
            return {str(header): token}
    return {}


def _list_login_keys(entry: Mapping[str, Any]) -> set[str]:
    """Return the places of the keys of a login that are read."""
    auth, has_token = entry.get("auth"), bool(_read_auth(entry))
    if isinstance(auth, dict):
        known = (*_LOGIN_KEYS, *(_TOKENS if has_token else ()))
        return {f"auth.{key}" for key in auth if fold_key(key) in known}
    beside = [key for key in entry if has_token and fold_key(key) in (*_TOKENS, "authtype", "headername")]
    return {*beside, *(["auth"] if isinstance(auth, str) else [])}


def _split_headers(pairs: list[Any]) -> Any:
    """Return headers such as "Name: value" as a table; what is no list of them as it is."""
    if not all(isinstance(pair, str) and ":" in pair for pair in pairs):
        return pairs
    return {name.strip(): value.strip() for name, _, value in (pair.partition(":") for pair in pairs)}


def _translate_switches(
    table: dict[str, Any], entry: dict[str, Any], file: ForeignFile, name: str, source: str, place: str
) -> set[str]:
    """Translate what switches the server and its tools off; return the places of the keys that say so."""
    for key, value in entry.items():
        if fold_key(key) in _SWITCHES and value is not None and read_switch(value) is None:
            raise ConfigError(f"{source}: {place}.{key} must be true or false.", path=source)
    switches = read_switches(entry)
    if name in file.disabled or name in file.disabled_by:
        table["enabled"] = False
    elif switches.is_on is not None:
        table["enabled"] = switches.is_on
    if switches.used is not None:
        table["tools_allow"] = [_strip_server(tool, name) for tool in switches.used]
    if unused := [*switches.unused, *file.unused.get(name, ())]:
        table["tools_deny"] = [_strip_server(tool, name) for tool in unused]
    return switches.read


def _strip_server(tool: str, name: str) -> str:
    """Return the name of a tool without that of its server, as Claude Code writes it before."""
    return tool.removeprefix(f"mcp__{name}__")


@cache
def _list_known() -> frozenset[str]:
    """Return the keys that are translated, or that take nothing away and give no access, in one spelling."""
    return frozenset(
        (
            *map(fold_key, RULES["servers"]),
            *map(
                fold_key,
                (*_KEYS, *_KEYS.values(), *START_KEYS, *_SECONDS, *_FREE_KEYS, *_UNKNOWN_SOURCES, *_TOKEN_KEYS),
            ),
            *(key for key in _SPELLINGS if key != "extraheaders"),
            "transporttype",
            "oauth",
            "scopes",
            "authprovidertype",
            "bearertokenenvvar",
            "requiresoauth",
            "googlecredentials",
            "defaulttoolsapprovalmode",
            "envvars",
            "envkeys",
            "envhttpheaders",
            "startuptimeoutms",
            "dev",
            "sandboxenabled",
            "requestinit",
            "requestoptions",
            "disabledautoapprovetools",
            "required",
            "target",
        )
    )


def _list_unknown(
    table: dict[str, Any], entry: dict[str, Any], read: set[str], file: ForeignFile, name: str
) -> tuple[list[str], list[str]]:
    """Return what is not understood of an entry as text, and the places of what keeps the server off."""
    ignored = entry.get("ignored_keys")
    accepted = {str(key) for key in ignored} if isinstance(ignored, list) else set()
    unknown = [*list_unknown(entry, _list_known(), read), *((place, True) for place in file.unknown.get(name, ()))]
    texts, restrictions = list[str](), list[str]()
    for place, is_restriction in unknown:
        if is_restriction and place not in accepted:
            restrictions.append(place)
            texts.append(f"{place} (not understood, may be a restriction: the server is off until mcp enable)")
        else:
            texts.append(f"{place} (not understood)")
    if restrictions:
        table["enabled"] = False
    return texts, restrictions


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
    found = {**_find_further_timeouts(entry), **found}
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


def _match_timeout(key: str) -> re.Match[str] | None:
    folded = fold_key(key)
    return re.fullmatch(_TIMEOUT, folded) if "timeout" in folded else None


def _find_further_timeouts(entry: Mapping[str, Any]) -> dict[str, tuple[str, float | None]]:
    """Return the timeouts whose keys only say what they are: our key -> their key, and seconds."""
    found: dict[str, tuple[str, float | None]] = {}
    for key, value in entry.items():
        match = None if key in _SECONDS or key in _KEYS or key in RULES["servers"] else _match_timeout(key)
        ours = "connect_s" if match and match["start"] else "timeout_s"
        if match and value and not isinstance(value, dict) and ours not in entry:
            seconds = _read_seconds(value, 1000 if (match["unit"] or "").startswith("m") else 1)
            is_long = not match["unit"] and seconds and seconds > _MAX_SECONDS
            found[ours] = key, seconds / 1000 if seconds and is_long else seconds
    return found


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
        transport = transport.lower()
        transport = "" if transport in _NO_TRANSPORTS else find_transport_name(transport)
        if transport:
            table["transport"] = transport
        else:
            del table["transport"]
    if isinstance(command := table.get("command"), str) and "url" not in table and command.startswith(URL_PREFIXES):
        table["url"] = table.pop("command")
        if not table.get("args"):
            table.pop("args", None)
    if entry.get("httpUrl"):
        table["url"] = entry["httpUrl"]
    if table.get("command") and table.get("url") and transport:
        del table["url" if transport == COMMAND_TRANSPORT else "command"]
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
        import shlex  # 0.4 ms, which an entry with args need not spend

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
            yield f"{key}: {to_text(value)}"
        elif isinstance(value, list) and value:
            yield f"{key}: {', '.join(map(str, value))}"[:MAX_SHOWN]
    if table.get("default_tools_approval_mode") == _FREE_MODE:
        yield f"default_tools_approval_mode: {_FREE_MODE}"
    modes = table.get("tools")
    for tool, mode in modes.items() if isinstance(modes, dict) else ():
        if isinstance(mode, dict) and mode.get("approval_mode") == _FREE_MODE:
            yield f"approval_mode: {_FREE_MODE} for {tool}"[:MAX_SHOWN]
