"""What entries of other programs switch off or leave out, and which of their keys are not understood.

A key with one meaning is read, whatever its spelling: switches of a server, lists of tools to use or to leave out.
Every other key is named. One that sounds like a restriction keeps the server off, because it would run without what its
owner took away, until the user says otherwise (`ignored_keys` of the entry, which `mcp enable` writes).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple


def fold_key(key: str) -> str:
    """Return a key in one spelling: `disabled_tools`, `disabledTools` and `disabled-tools` are one."""
    return "".join(character for character in key.lower() if character.isalnum() and character.isascii())


_ON = frozenset(("enabled", "enable", "isenabled", "active", "isactive", "on", "autostart", "startonlaunch"))
"""Switches of a server: off if false."""
_OFF = frozenset(
    (
        "disabled",
        "disable",
        "isdisabled",
        "inactive",
        "isinactive",
        "deactivated",
        "off",
        "paused",
        "suspended",
        "quarantined",
        "isquarantined",
        "muted",
        "archived",
        "stopped",
        "blocked",
        "isblocked",
    )
)
"""Switches of a server: off if true."""
_USED_WORDS = frozenset(
    (
        "include",
        "included",
        "allow",
        "allowed",
        "allowlist",
        "whitelist",
        "enabled",
        "enable",
        "available",
        "active",
        "only",
        "selected",
        "permitted",
        "exposed",
    )
)
"""Words for the tools to use."""
_UNUSED_WORDS = frozenset(
    (
        "exclude",
        "excluded",
        "deny",
        "denied",
        "denylist",
        "disabled",
        "disable",
        "disallowed",
        "disallow",
        "block",
        "blocked",
        "blocklist",
        "blacklist",
        "suppressed",
        "suppress",
        "hidden",
        "hide",
        "forbidden",
        "removed",
        "ignored",
        "inactive",
        "skipped",
        "banned",
        "rejected",
    )
)
"""Words for the tools to leave out."""
_USED, _UNUSED = (
    frozenset(key for how in words for tools in ("tool", "tools") for key in (how + tools, tools + how))
    for words in (_USED_WORDS, _UNUSED_WORDS)
)
"""Keys of lists of tools, such as `allowed_tools` and `toolsDenied`."""
_TOOL_TABLES = frozenset(
    ("tools", "toolfilter", "toolfilters", "toolaccess", "toolpermissions", "toolstates", "toolsettings")
)
_LIST_WORDS = frozenset(("list", "tools", "names", "toolnames", "patterns"))
_CONTAINERS = frozenset(
    ("options", "settings", "config", "anythingllm", "toolconfiguration", "toolconfig", "extra", "mcp")
)
"""Tables of an entry in which the keys above mean the same."""
_NO_TEXTS = (
    "false",
    "no",
    "off",
    "0",
    "deny",
    "denied",
    "disabled",
    "disable",
    "block",
    "blocked",
    "never",
    "none",
    "hidden",
)
_YES_TEXTS = (
    "true",
    "yes",
    "on",
    "1",
    "allow",
    "allowed",
    "enabled",
    "enable",
    "ask",
    "always",
    "auto",
    "prompt",
    "approve",
)

_RESTRICTION = (
    r"disab|enab|activ|block|den(y|ied)|exclud|includ|allow|suppress|filter|restrict|forbid|prohibit|hid(e|den)|readonly"
    r"|only$|whitelist|blacklist|permission|permit|quarantin|paused|muted|sandbox|isolat|polic|scope|limit|visib|expos"
    r"|suspend|revok|banned|stopped|offline|mustnot|donot|never|noaccess|reject|without|safemode|guard|skip|ignore|omit"
)
_GIVING = r"enab|activ|allow|includ|expos|visib|permi"
"""Of these words, those that take nothing away where the value is true."""
_NO_RESTRICTION = (
    None,
    "",
    "*",
    "all",
    "any",
    "full",
    "none",
    "auto",
    "default",
    "off",
    "false",
    "never",
    "unlimited",
    "user",
    "project",
    "local",
    "global",
    "workspace",
    "public",
)
_COVERED = r"^log|logging|debug|telemetr|cache|trace|metric|notif|toast|update|retry|retries|restart|reconnect|health"
_COVERED += r"|colou?r|theme|icon|menu|cors|^env(filter|allowlist)|inherit(parent)?env"
"""What such words are about takes nothing from a server: it gets a short list of variables in any case."""
_MAX_SHOWN = 120
_COMMENTS = ("_", "//", "#", "$")
_HARMLESS = ("approvalmode", "description", "title")
"""Keys inside a table of an entry that take nothing away: calls are asked about here in any case."""
_DESCRIPTIVE = frozenset(
    (
        "description",
        "descriptions",
        "name",
        "title",
        "displayname",
        "label",
        "id",
        "key",
        "icon",
        "icons",
        "version",
        "info",
        "summary",
        "iconurl",
        "tags",
        "tag",
        "category",
        "categories",
        "group",
        "homepage",
        "repository",
        "author",
        "license",
        "gallery",
        "official",
        "provider",
        "providerurl",
        "logourl",
        "reference",
        "searchkey",
        "installsource",
        "createdat",
        "updatedat",
        "timestamp",
        "note",
        "notes",
        "comment",
        "comments",
        "readme",
        "docs",
        "keywords",
        "documentation",
        "example",
        "examples",
        "color",
        "emoji",
        "order",
        "priority",
        "position",
        "schema",
        "summary",
        "registryurl",
        "registry",
        "source",
        "bundled",
        "cmd",
        "available",
        "ispinned",
        "dxtversion",
    )
)
"""Keys that say something to people and change nothing."""


class Switches(NamedTuple):
    """What an entry switches off and leaves out.

    Attributes:
        is_on: Whether the server is used; None if the entry does not say.
        used: The tools to use; None for all.
        unused: The tools to leave out.
        read: The keys that say so, by their places.
    """

    is_on: bool | None
    used: list[str] | None
    unused: list[str]
    read: set[str]


def read_switch(value: Any) -> bool | None:
    """Return a value of a switch, also as a text or a number; None if it is none."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    text = value.strip().lower() if isinstance(value, str) else ""
    return False if text in _NO_TEXTS else True if text in _YES_TEXTS else None


def list_switches(entry: Mapping[str, Any]) -> list[str]:
    """Return the keys of an entry that switch it on or off."""
    return [key for key in entry if fold_key(key) in _ON | _OFF]


def means_on(key: str) -> bool:
    """Tell whether a switch is on where its value is true."""
    return fold_key(key) in _ON


def read_switches(entry: Mapping[str, Any]) -> Switches:
    """Return what an entry switches off and leaves out, by all keys that have one meaning."""
    reader = _Reader()
    reader.read_table(entry, "")
    for key, value in entry.items():
        if fold_key(key) in _CONTAINERS and isinstance(value, Mapping):
            reader.read_table(value, f"{key}.")
    return reader.finish()


class _Reader:
    """Reads the tables of one entry."""

    def __init__(self) -> None:
        self._answers, self._read = list[bool](), set[str]()
        self._used, self._unused = list[list[str]](), list[str]()

    def finish(self) -> Switches:
        """Return what was read; a tool is used if all lists have it."""
        used = None
        if self._used:
            first, *others = self._used
            used = [name for name in first if all(name in names for names in others)]
            if not used:
                self._answers.append(False)
        return Switches(all(self._answers) if self._answers else None, used, self._unused, self._read)

    def read_table(self, table: Mapping[str, Any], prefix: str) -> None:
        """Read the keys of a table that have one meaning."""
        for key, value in table.items():
            place, folded = f"{prefix}{key}", fold_key(key)
            if folded in _ON | _OFF:
                self._read_switch(place, value, folded in _ON)
            elif folded in _USED | _UNUSED or (folded == "tools" and isinstance(value, list)):
                self._read_list(place, value, folded not in _UNUSED)
                if folded == "tools" and value == []:
                    self._answers.append(False)
            elif folded in _TOOL_TABLES and isinstance(value, Mapping):
                self._read_tools(place, value)

    def _read_switch(self, place: str, value: Any, means_on: bool) -> None:
        if (answer := read_switch(value)) is not None:
            self._answers.append(answer is means_on)
            self._read.add(place)

    def _read_list(self, place: str, value: Any, is_used: bool) -> None:
        """Read a list of the tools to use, or to leave out; `*` means all."""
        if (names := _read_names(value)) is None:
            return
        self._read.add(place)
        if "*" in names:
            self._answers += [] if is_used else [False]
        elif is_used:
            self._used += [names] if names else []
        else:
            self._unused += names

    def _read_tools(self, place: str, table: Mapping[str, Any]) -> None:
        """Read a table of tools: `{mode, list}`, `{include, exclude}`, or a switch for each tool."""
        folded = {fold_key(key): key for key in table}
        lists = [key for word, key in folded.items() if word in _LIST_WORDS]
        mode = fold_key(str(table[folded["mode"]])) if "mode" in folded else ""
        if lists and mode in _USED_WORDS | _UNUSED_WORDS:
            self._read_list(f"{place}.{lists[0]}", table[lists[0]], mode in _USED_WORDS)
            self._read.add(f"{place}.{folded['mode']}")
            return
        on = list[str]()
        for key, value in table.items():
            one = fold_key(key)
            if one in _USED_WORDS | _UNUSED_WORDS and not isinstance(value, bool):
                self._read_list(f"{place}.{key}", value, one in _USED_WORDS)
            elif (is_on := self._read_tool(f"{place}.{key}", value)) is not None:
                on += [key] if is_on else []
                self._unused += [] if is_on or key == "*" else [key]
        if "*" in table and read_switch(table["*"]) is False:
            self._used.append(on)

    def _read_tool(self, place: str, value: Any) -> bool | None:
        """Return whether a tool is used, by its switch or its own table; None if neither says so."""
        if isinstance(value, Mapping):
            own = read_switches(value)
            self._read |= {f"{place}.{key}" for key in own.read}
            return own.is_on
        if (is_on := read_switch(value)) is not None:
            self._read.add(place)
        return is_on


def _read_names(value: Any) -> list[str] | None:
    """Return the names of a list of tools; None if it is none."""
    if isinstance(value, str):
        return [name for name in re.split(r"[,\s]+", value) if name]
    if isinstance(value, Mapping):
        lists = [items for key, items in value.items() if fold_key(key) in _LIST_WORDS]
        if len(value) == len(lists) == 1:
            return _read_names(lists[0])
        switches = {str(name): read_switch(switch) for name, switch in value.items()}
        return [name for name, is_on in switches.items() if is_on] if None not in switches.values() else None
    names = [_name_of(item) for item in value] if isinstance(value, list) else [None]
    return [str(name) for name in names] if all(isinstance(name, str) for name in names) else None


def _name_of(tool: Any) -> Any:
    return tool.get("name") if isinstance(tool, Mapping) else tool


def list_unknown(entry: Mapping[str, Any], known: Iterable[str], read: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield the places of keys that are not understood, and whether each sounds like a restriction.

    Args:
        entry: The entry.
        known: Keys that are read elsewhere, as `fold_key` returns them.
        read: Places that `read_switches` has read.
    """
    understood, places = frozenset(known) | _DESCRIPTIVE, frozenset(read)
    for key, value in entry.items():
        is_said = value in (None, "", [], {}) or key.startswith(_COMMENTS)
        if is_said or key in places or fold_key(key) in understood:
            continue
        inner = [*_list_inner(key, value, places)] if isinstance(value, Mapping) and value else [(key, value)]
        for place, item in inner:
            yield place[:_MAX_SHOWN], _is_restriction(place, item)


def _list_inner(
    place: str, table: Mapping[str, Any], read: frozenset[str], depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield the places and values of a table, and of those in it, that were not read."""
    for key, value in table.items():
        inner = f"{place}.{key}"
        if inner in read or value in (None, "", [], {}) or key.startswith(_COMMENTS) or fold_key(key) in _HARMLESS:
            continue
        if isinstance(value, Mapping) and value and depth < 1:
            yield from _list_inner(inner, value, read, depth + 1)
        else:
            yield inner, value


def _is_restriction(place: str, value: Any) -> bool:
    """Tell whether a key that is not understood sounds as if it took something away."""
    words = [fold_key(part) for part in place.split(".")]
    found = [match for word in words for match in re.finditer(_RESTRICTION, word)]
    if any(re.search(_COVERED, word) for word in words):
        return False
    if not found or value in ([], {}):
        return False
    if isinstance(value, str | None) and (value.strip().lower() if value else value) in _NO_RESTRICTION:
        return False
    is_on = read_switch(value) if not isinstance(value, str) else None
    if is_on is None:
        return True
    is_giving = all(re.search(_GIVING, match[0]) for match in found)
    return is_on is not is_giving


_OFF_LISTS = r"(disabled|disable|excluded|exclude|denied|blocked|inactive|off)(mcp)?(json)?(servers?)?"
_ON_LISTS = r"(enabled|allowed|allow|active)(mcp)?(json)?(servers?)?"
_ALL_ON, _ALL_OFF = ("mcpenabled", "enablemcp", "enablemcpservers"), ("disablemcp", "mcpdisabled")
_SKIPPED_KEYS = frozenset(("projects", "history", "mcpservers", "servers", "contextservers", "inputs", "extensions"))
_FREEDOMS = r"autoapprov|alwaysallow|enableallproject|allow$|ask$|approved|trusted"
_MAX_DEPTH = 4


class Beside(NamedTuple):
    """What a file says about its servers outside of their entries.

    Attributes:
        disabled: Names of servers that are switched off.
        unused: Tools to leave out, by server.
        unknown: Places of what names a server and sounds like a restriction, by server.
    """

    disabled: set[str]
    unused: dict[str, list[str]]
    unknown: dict[str, list[str]]


def read_beside(root: Mapping[str, Any], entries: Mapping[str, Any], value: Any) -> Beside:
    """Return what a file says about its servers outside of their entries.

    Args:
        root: The root of the file.
        entries: The servers.
        value: The value in the file that has them.
    """
    beside = Beside(set(), {}, {})
    for place, key, item in _walk(root, value):
        _read_beside(place, key, item, entries, beside)
    return beside


def _walk(table: Mapping[str, Any], entries: Any, place: str = "", depth: int = 0) -> Iterator[tuple[str, str, Any]]:
    for key, value in table.items():
        if value is entries or (depth == 0 and fold_key(key) in _SKIPPED_KEYS):
            continue
        inner = f"{place}.{key}".lstrip(".")
        yield inner, str(key), value
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            yield from _walk(value, entries, inner, depth + 1)


def _read_beside(place: str, key: str, value: Any, entries: Mapping[str, Any], beside: Beside) -> None:
    """Read one key, wherever it stands in the file."""
    if _is_all_off(fold_key(place), value):
        beside.disabled.update(entries)
    elif isinstance(value, list):
        _read_list_beside(place, key, value, entries, beside)
    elif subjects := _name_servers([key], entries):
        _read_rule_beside(place, key, value, subjects, beside)
    elif not isinstance(value, Mapping):
        _read_limit_beside(place, key, value, entries, beside)


def _is_all_off(place: str, value: Any) -> bool:
    """Tell whether a value switches all servers off (DeepChat, VS Code)."""
    if place.endswith("mcpaccess"):
        return bool(value == "none")
    return (place.endswith(_ALL_ON) and read_switch(value) is False) or (
        place.endswith(_ALL_OFF) and read_switch(value) is True
    )


def _read_list_beside(place: str, key: str, value: list[Any], entries: Mapping[str, Any], beside: Beside) -> None:
    """Read a list that may name servers, or tools of them."""
    folded, whole, named = fold_key(key.rpartition(".")[2]), fold_key(place), _name_servers(value, entries)
    is_of_servers = "mcp" in whole or "server" in folded
    if is_of_servers and re.fullmatch(_OFF_LISTS, folded):
        beside.disabled.update(server for server, tool in named if not tool)
    elif is_of_servers and re.fullmatch(_ON_LISTS, folded):
        if value or folded == "allowed":  # an empty list of what was approved says nothing
            beside.disabled.update(entries.keys() - {server for server, _ in named})
    elif folded in _UNUSED or folded in _UNUSED_WORDS:
        _leave_out(named, beside)
    elif not named:
        _read_limit_beside(place, key, value, entries, beside)
    elif re.search(_RESTRICTION, folded) and not re.search(_FREEDOMS, whole):
        for server in dict(named):
            beside.unknown.setdefault(server, []).append(place)


def _read_limit_beside(place: str, key: str, value: Any, entries: Mapping[str, Any], beside: Beside) -> None:
    """Read what names no server and may limit all of them (LibreChat: `mcpSettings.allowedDomains`)."""
    whole = fold_key(place)
    is_switch = isinstance(value, bool)  # of something else (VS Code: `chat.mcp.discovery.enabled`)
    if "mcp" in whole and not is_switch and not re.search(_FREEDOMS, whole) and _is_restriction(key, value):
        for server in entries:
            beside.unknown.setdefault(server, []).append(place)


def _read_rule_beside(place: str, key: str, value: Any, subjects: Iterable[tuple[str, str]], beside: Beside) -> None:
    """Read what a file says of a server or its tools by their name (opencode, Zed): `"NAME_*": false`, `"deny"`."""
    if isinstance(value, Mapping):
        value = next((value[name] for name in ("default", "action", "permission", "enabled") if name in value), value)
    is_of_tools = re.search(r"tool|permission", fold_key(place.removesuffix(f".{key}")))
    for server, tool in subjects:
        if is_of_tools and read_switch(value) is False:
            _leave_out([(server, tool)], beside)
        elif not isinstance(value, Mapping | str) and _is_restriction(place, value):
            beside.unknown.setdefault(server, []).append(place)


def _leave_out(named: Iterable[tuple[str, str]], beside: Beside) -> None:
    for server, tool in named:
        if tool and tool != "*":
            beside.unused.setdefault(server, []).append(tool)
        else:
            beside.disabled.add(server)


def _name_servers(value: Any, entries: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the servers that a list names, each with the tool that it names, or "": `mcp__NAME__TOOL`, `NAME_TOOL`."""
    found = list[tuple[str, str]]()
    for item in value if isinstance(value, list) else ():
        text = item.get("serverName", item.get("name")) if isinstance(item, Mapping) else item
        text = re.sub(r"^(?:mcp__|mcp:|Mcp\()(.*?)\)?$", r"\1", text) if isinstance(text, str) else ""
        for name in entries:
            if text == name:
                found.append((name, ""))
            elif text.startswith(name) and (match := re.match(r"(?:__|[_:./])([\w*.-]+)$", text[len(name) :])):
                found.append((name, match[1]))
    return found
