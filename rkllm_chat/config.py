"""Settings, and the two files they are read from: TOML with [[servers]] and JSON with mcpServers. It opens no file.

A reader takes text and gives settings or a ConfigError that names file, key and what would be right. What is nearer
to the user wins; a server named in two files is the nearer one, with env and headers merged key by key.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, get_args

from .errors import ConfigError
from .oauth import SECRETS, OAuth, find_mistake, read_other_names
from .policy import MODES, Policy

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LARGEST_FILE = 256 * 1024
MOST_SERVERS = 64
MOST_DOTS = 16
DEEPEST = 32
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
SERVER_NAME = re.compile(r"[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*")
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
VALUE_OR_COMMENT = re.compile(
    r""""{3}(?:\\.|[^\\])*?"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*""", re.DOTALL
)


@dataclass(frozen=True)
class Generation:
    """How the model writes. `temperature` None: what the model's file asks for, else 0.6; 0 is greedy.

    `max_tokens` bounds one reply; `seed` None draws one.
    """

    temperature: float | None = None
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    max_tokens: int = 1024
    repeat_penalty: float = 1.0
    seed: int | None = None


@dataclass(frozen=True)
class Rkllm:
    """How a Rockchip NPU is used. `library` "" searches the usual places for librkllmrt.so.

    `template` is a row of TEMPLATES, a Jinja file, "runtime" (the model's own, known to the runtime alone), or "auto"
    (by the model's file name). `history`: who keeps it; "client" sends the whole prompt each time and the runtime
    reuses what is equal, "runtime" sends what is new. `cpus`: the cores of the CPU part, as "4-7" or "0,2"; "" the
    big ones. `timeout_s`: how long the runtime may be silent, on top of what a long prompt takes.
    """

    library: str = ""
    template: str = "auto"
    history: str = "auto"
    native_tools: bool = False
    prompt_cache: bool = False
    base_domain_id: int = 0
    cpus: str = ""
    embed_flash: bool = True
    lora: str = ""
    lora_scale: float = 1.0
    timeout_s: float = 120.0


@dataclass(frozen=True)
class ServerConfig:
    """One MCP server: a command to start, or a URL. `source` is the file that names it.

    `timeout_s` bounds one call; `connect_s` the start. While nobody uses it, it is asked every `ping_s` whether it
    lives, and closed after `idle_s` until it is needed again; 0 is never. `log_level`: what it is to log from there on.
    `trust` "trusted" believes the server's annotations. What may hold secrets is left out of its `repr`.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    oauth: OAuth = field(default_factory=OAuth)
    transport: str = ""
    timeout_s: float = 60.0
    connect_s: float = 30.0
    ping_s: float = 30.0
    idle_s: float = 0.0
    log_level: LogLevel = "warning"
    enabled: bool = True
    trust: str = "ask"
    tools_allow: tuple[str, ...] = ()
    tools_deny: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Settings:
    """Everything a sitting needs. `model` "" is the small model that ships; `context_tokens` 0 the model's own.

    `session` is a session to go on with: an id, or "newest"; it comes from the command line alone.
    `written` names the keys that a file gives ("policy.approve"), so that a default somebody wrote wins too.
    """

    model: str = ""
    backend: str = "auto"
    language: str = "en"
    system: str = ""
    tool_format: str = "json"
    max_steps: int = 8
    context_tokens: int = 0
    thinking: str = "auto"
    prompt_language: str = "auto"
    generation: Generation = field(default_factory=Generation)
    rkllm: Rkllm = field(default_factory=Rkllm)
    policy: Policy = field(default_factory=Policy)
    servers: tuple[ServerConfig, ...] = ()
    session: str = ""
    written: frozenset[str] = field(default=frozenset(), compare=False)


SERVER_KEYS = tuple(entry.name for entry in fields(ServerConfig) if entry.name != "source")
NOT_CHAT = ("generation", "rkllm", "policy", "servers", "written", "session")
CHAT_KEYS = tuple(entry.name for entry in fields(Settings) if entry.name not in NOT_CHAT)
JSON_KEYS = {"serverUrl": "url", "type": "transport", "httpUrl": "url"}
TRANSPORT_NAMES = {"streamable-http": "http", "streamableHttp": "http", "streamable_http": "http", "ws": "websocket"}


def read_toml(text: str, source: str, environment: Mapping[str, str]) -> Settings:
    """The settings in a TOML file's text."""
    check_size(text, source)
    check_dots(text, source)
    tables = parse(tomllib.loads, "TOML", text, source)
    known = ("chat", "generation", "rkllm", "policy", "servers")
    check_keys(tables, known, source, "")
    tables = expand(tables, environment, source, "")
    chat = take(Settings, tables.get("chat", {}), source, "chat", CHAT_KEYS)
    generation = take(Generation, tables.get("generation", {}), source, "generation")
    rkllm = take(Rkllm, tables.get("rkllm", {}), source, "rkllm")
    policy = take(Policy, tables.get("policy", {}), source, "policy")
    check_values(chat, source, "chat")
    check_values(generation, source, "generation")
    check_values(rkllm, source, "rkllm")
    check_values(policy, source, "policy")
    entries = tables.get("servers", [])
    if not isinstance(entries, list):
        raise ConfigError(f"{source}: servers must be written as [[servers]].", path=source)
    servers = tuple(read_server(entry, source, f"servers[{i}]") for i, entry in enumerate(entries))
    check_names(servers, source)
    tables_of = {"generation": generation, "rkllm": rkllm, "policy": policy}
    written = [*chat, *(f"{name}.{key}" for name, table in tables_of.items() for key in table)]
    return Settings(
        **chat,
        generation=Generation(**generation),
        rkllm=Rkllm(**rkllm),
        policy=Policy(**policy),
        servers=servers,
        written=frozenset(written),
    )


def read_json(text: str, source: str, environment: Mapping[str, str]) -> Settings:
    """The servers in a JSON file with the root key mcpServers, as Claude Desktop, Cursor and others write it."""
    check_size(text, source)
    root = parse(lambda text: json.loads(text, object_pairs_hook=refuse_duplicates), "JSON", text, source)
    entries = root.get("mcpServers") if isinstance(root, dict) else None
    if not isinstance(entries, dict):
        raise ConfigError(f'{source}: no "mcpServers" object.', 'Try {"mcpServers": {"name": {"command": "..."}}}.')
    servers: list[ServerConfig] = []
    for name, entry in entries.items():
        place = f"mcpServers.{name}"
        if not isinstance(entry, dict):
            raise ConfigError(f"{source}: {place} must be an object.", path=source)
        table = {JSON_KEYS.get(key, key): value for key, value in expand(entry, environment, source, place).items()}
        if "disabled" in table:
            table["enabled"] = not typed(table["disabled"], "bool", source, f"{place}.disabled")
        # programs that share this file keep keys of their own in it
        ours = {key: value for key, value in table.items() if key in SERVER_KEYS}
        if isinstance(oauth := ours.get("oauth"), dict):
            ours["oauth"] = read_other_names(oauth)
        servers.append(read_server({**ours, "name": name}, source, place))
    check_names(tuple(servers), source)
    return Settings(servers=tuple(servers))


def read_server(table: Any, source: str, place: str) -> ServerConfig:
    """One server entry, checked: a name, and either a command or a URL."""
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {place} must be a table.", path=source)
    oauth = OAuth(**take(OAuth, table.get("oauth", {}), source, f"{place}.oauth"))
    table = {key: value for key, value in table.items() if key != "oauth"}
    values = {"name": "", **take(ServerConfig, table, source, place, SERVER_KEYS)}
    server = ServerConfig(**values, oauth=oauth, source=source)
    server = replace(server, transport=TRANSPORT_NAMES.get(server.transport, server.transport))
    if len(server.name) > 32 or not SERVER_NAME.fullmatch(server.name):
        hint = "Use at most 32 letters, digits, - and single _."
        raise ConfigError(f'{source}: {place}.name "{server.name}" cannot be a server name.', hint, path=source)
    if bool(server.command.strip()) == bool(server.url):
        wanted = "needs a command or a url" if not server.url else "has both a command and a url; keep one"
        raise ConfigError(f'{source}: server "{server.name}" {wanted}.', path=source)
    if " " in server.command and "args" not in table:
        hint = "Write the words behind the first one in args; if it is one path with a blank, write args = []."
        raise ConfigError(f'{source}: the command of server "{server.name}" holds blanks.', hint, path=source)
    check_values(vars(server), source, place)
    if mistake := find_mistake(oauth, server.url, server.headers):
        raise ConfigError(f"{source}: {place}.oauth{mistake[0]}.", mistake[1], path=source)
    return server


def merge(near: Settings, far: Settings) -> Settings:
    """`near` over `far`: each value that is written there wins; servers are joined by name."""
    servers = {server.name: server for server in far.servers}
    for server in near.servers:
        other = servers.pop(server.name, None)
        if other:
            env, headers = {**other.env, **server.env}, {**other.headers, **server.headers}
            server = replace(server, env=env, headers=headers)
        servers[server.name] = server
    written = {key.rpartition(".")[::2] for key in near.written}
    chat, generation, rkllm, policy = (
        {name: getattr(part, name) for table, name in written if table == wanted}
        for part, wanted in (
            (near, ""),
            (near.generation, "generation"),
            (near.rkllm, "rkllm"),
            (near.policy, "policy"),
        )
    )
    if "deny" in policy:  # what one file forbids, no other allows again
        policy["deny"] = (*far.policy.deny, *near.policy.deny)
    return replace(
        far,
        **chat,
        generation=replace(far.generation, **generation),
        rkllm=replace(far.rkllm, **rkllm),
        policy=replace(far.policy, **policy),
        servers=tuple(servers.values()),
        written=near.written | far.written,
    )


def expand(value: Any, environment: Mapping[str, str], source: str, place: str, depth: int = 0) -> Any:
    """`${VAR}` and `${VAR:-default}` in every text of a value; a missing variable is an error that names it."""
    if depth > DEEPEST:
        raise ConfigError(f"{source}: {place.partition('[')[0]} is nested too deep.", path=source)
    if isinstance(value, dict):
        return {
            key: expand(item, environment, source, f"{place}.{key}".lstrip("."), depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [expand(item, environment, source, f"{place}[{i}]", depth + 1) for i, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    if "\0" in value:
        raise ConfigError(f"{source}: {place} holds a NUL character.", path=source)

    def fill(match: re.Match[str]) -> str:
        found = environment.get(match[1]) or match[2]
        if found is None:
            hint = f"Set it, or write ${{{match[1]}:-default}}."
            raise ConfigError(f"{source}: {place} needs the variable {match[1]}, which is not set.", hint, path=source)
        return found

    return VARIABLE.sub(fill, value)


def take(
    kind: type[Settings | Generation | Rkllm | Policy | ServerConfig | OAuth],
    table: Any,
    source: str,
    place: str,
    known: Iterable[str] = (),
) -> dict[str, Any]:
    """The keys of a table that `kind` has, each of the right type; an unknown key or a wrong type is an error."""
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: [{place}] must be a table.", path=source)
    types = {entry.name: str(entry.type) for entry in fields(kind)}
    check_keys(table, tuple(known) or tuple(types), source, place)
    return {key: typed(value, types[key], source, f"{place}.{key}") for key, value in table.items()}


READERS: dict[str, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]] = {
    "str": ("a text", lambda value: isinstance(value, str), str),
    "LogLevel": ("a text", lambda value: isinstance(value, str), str),
    "Mode": ("a text", lambda value: isinstance(value, str), str),
    "bool": ("true or false", lambda value: isinstance(value, bool), bool),
    "int": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool), int),
    "float": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool), float),
    "tuple[str, ...]": (
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
        tuple,
    ),
    "Mapping[str, str]": (
        "a table of texts",
        lambda value: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
        dict,
    ),
}


def typed(value: Any, kind: str, source: str, place: str) -> Any:
    wanted, fits, convert = READERS[kind.removesuffix(" | None")]
    if not fits(value):
        # a table of texts, and what is a secret by its name, are not shown
        got = "" if isinstance(value, dict) or place.endswith(SECRETS) else f", not {value!r}"
        raise ConfigError(f"{source}: {place} must be {wanted}{got}.", path=source, expected=wanted)
    try:
        return convert(value)
    except OverflowError:
        raise ConfigError(f"{source}: {place} is too large a number.", path=source) from None


def check_keys(table: Mapping[str, Any], known: tuple[str, ...], source: str, place: str) -> None:
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f'Did you mean "{near[0]}"?' if near else f"Known are {', '.join(known)}."
            where = f"{place}.{key}" if place else key
            raise ConfigError(f'{source}: unknown key "{where}".', hint, path=source)


# What a number may be, both ends included.
RANGES: dict[str, tuple[float, float]] = {
    "timeout_s": (0.001, 86_400),
    "connect_s": (0.001, 86_400),
    "ping_s": (0, 86_400),
    "idle_s": (0, 86_400),
    "max_steps": (1, 1000),
    "context_tokens": (0, 1_000_000),
    "max_tokens": (1, 1_000_000),
    "temperature": (0, 100),
    "top_k": (0, 1_000_000),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repeat_penalty": (0, 100),
    "base_domain_id": (0, 15),
    "lora_scale": (0, 100),
}


# What a text may be.
CHOICES: dict[str, tuple[str, ...]] = {
    "approve": MODES,
    "log_level": LOG_LEVELS,
    "history": ("auto", "client", "runtime"),
    "thinking": ("auto", "on", "off"),
    "trust": ("off", "ask", "trusted"),
}


def check_values(table: Mapping[str, Any], source: str, place: str) -> None:
    """Numbers within their ranges, texts among their choices."""
    for key, known in CHOICES.items():
        if key in table and table[key] not in known:
            raise ConfigError(
                f'{source}: {place}.{key} is "{table[key]}".', f"Known are {', '.join(known)}.", path=source
            )
    for key, (least, most) in RANGES.items():
        if key in table and not least <= table[key] <= most:
            raise ConfigError(f"{source}: {place}.{key} must be from {least:g} to {most:g}.", path=source)


def check_names(servers: tuple[ServerConfig, ...], source: str) -> None:
    names = [server.name for server in servers]
    if len(names) > MOST_SERVERS:
        raise ConfigError(f"{source}: {len(names)} servers, at most {MOST_SERVERS} are read.", path=source)
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f'{source}: two servers are called "{name}".', path=source)


def parse(loads: Callable[[str], Any], language: str, text: str, source: str) -> Any:
    try:
        return loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ConfigError(f"{source}: not valid {language}: nested too deep.", path=source) from None
    except ValueError as error:
        raise ConfigError(f"{source}: not valid {language}: {error}.", "Nothing of it was used.", path=source) from None


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    for key in value:
        if len(value) < len(pairs) and [name for name, _ in pairs].count(key) > 1:
            raise ValueError(f'the key "{key}" stands twice in one object')
    return value


def check_size(text: str, source: str) -> None:
    if len(text) > LARGEST_FILE:
        raise ConfigError(f"{source}: larger than {LARGEST_FILE // 1024} KiB.", path=source)


def check_dots(text: str, source: str) -> None:
    """Bounds what tomllib is given: it takes 13.8 s for a dotted key of 40 kB (measured). Values are not looked at."""
    bare = VALUE_OR_COMMENT.sub("x", text)
    if any(part.count(".") > MOST_DOTS for part in re.split(r"[=,\[\]{}\n]", bare)):
        raise ConfigError(f"{source}: a key has more than {MOST_DOTS} dots.", path=source)
