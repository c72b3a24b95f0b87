"""Settings, and the two files they are read from: TOML with [[servers]] and JSON with mcpServers. It opens no file.

A reader takes text and gives settings or a ConfigError that names file, key and what would be right. What is nearer
to the user wins; a server named in two files is the nearer one, with env and headers merged key by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from . import entries
from .entries import read_json_entries, read_toml_entries, read_toml_tables
from .errors import ConfigError
from .oauth import OAuth, find_mistake
from .policy import Policy
from .values import check_values, expand, find_variables

if TYPE_CHECKING:
    from .values import LogLevel


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
class Openai:
    """How a model behind a URL is used. `model` is its name there, "" the only one; `key_env` names the environment
    variable with the key. `api`: "completions" sends prompts of ours, "chat" messages, "auto" what the service is for.

    `template` is a row of TEMPLATES, a Jinja file, or "auto". `first_s` bounds the wait for the first word, `timeout_s`
    that for each further one.
    """

    model: str = ""
    key_env: str = ""
    api: str = "auto"
    template: str = "auto"
    native_tools: bool = False
    first_s: float = 600.0
    timeout_s: float = 120.0


@dataclass(frozen=True)
class ServerConfig:
    """One MCP server: a command to start, or a URL. `source` is the file that names it; `is_project`: that file lies in
    the current folder and may be anybody's, so the user is asked first.

    `timeout_s` bounds one call; `connect_s` the start. While nobody uses it, it is asked every `ping_s` whether it
    lives, and closed after `idle_s` until it is needed again; 0 is never. `log_level`: what it is to log from there on.
    `trust` "trusted" believes the server's annotations. What may hold secrets is left out of its `repr`.
    `sandbox` "auto" is one where there can be one, but none for servers that ship; `write` what it may write there,
    None what `args` and `env` name; `network` None: only where a package runner needs one. `allow_insecure` lets
    headers go to another machine without TLS.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    allow_insecure: bool = False
    oauth: OAuth = field(default_factory=OAuth)
    transport: str = ""
    timeout_s: float = 60.0
    connect_s: float = 30.0
    ping_s: float = 30.0
    idle_s: float = 0.0
    log_level: LogLevel = "warning"
    enabled: bool = True
    trust: str = "ask"
    sandbox: str = "auto"
    write: tuple[str, ...] | None = None
    network: bool | None = None
    tools_allow: tuple[str, ...] = ()
    tools_deny: tuple[str, ...] = ()
    source: str = ""
    is_project: bool = False


@dataclass(frozen=True)
class Settings:
    """Everything a sitting needs. `model` "" is the small model that ships; `context_tokens` 0 the model's own.

    `language` "auto" is that of the locale, `tool_format` "auto" that of the model's family, else a row of FORMATS.
    `tools_share`: how much of the window the tools may take at the beginning of a prompt, where the model's file does
    not say another; where they do not fit there, they are listed in short, and with each question come the likeliest of
    them, with `few_tools` those alone that its words speak for. `constrained`: where the engine can be held to a
    grammar while it writes a call, it is.
    `prefill_ahead`: while nobody waits, the engine reads what it can of the next prompt. `keep_prefix`: what llama.cpp
    made of system text and tools is kept in a file for the next start; the NPU has a setting of its own.
    `session` is a session to go on with: an id, or "newest"; it comes from the command line alone. `keep_secrets` lets
    what looks like a key into sessions and exports. `variables` are those that the files name, and what they hold.
    `written` names the keys that a file gives ("policy.approve"), so that a default somebody wrote wins too; `ignored`
    are (file, key) of what a project's file may not say.
    """

    model: str = ""
    backend: str = "auto"
    language: str = "auto"
    system: str = ""
    tool_format: str = "auto"
    constrained: bool = True
    max_steps: int = 8
    context_tokens: int = 0
    tools_share: float = 0.25
    few_tools: bool = False
    thinking: str = "auto"
    prompt_language: str = "auto"
    generation: Generation = field(default_factory=Generation)
    rkllm: Rkllm = field(default_factory=Rkllm)
    openai: Openai = field(default_factory=Openai)
    policy: Policy = field(default_factory=Policy)
    servers: tuple[ServerConfig, ...] = ()
    keep_secrets: bool = False
    prefill_ahead: bool = True
    keep_prefix: bool = True
    session: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    written: frozenset[str] = field(default=frozenset(), compare=False)
    ignored: tuple[tuple[str, str], ...] = field(default=(), compare=False)


TABLES = {"generation": Generation, "rkllm": Rkllm, "openai": Openai, "policy": Policy}
NOT_CHAT = (*TABLES, "servers", "variables", "written", "ignored", "session")
CHAT_KEYS = tuple(entry.name for entry in fields(Settings) if entry.name not in NOT_CHAT)


def read_toml(text: str, source: str, environment: Mapping[str, str]) -> Settings:
    """The settings in a TOML file's text."""
    raw = read_toml_tables(text, source)
    tables = expand(raw, environment, source, "")
    chat = take(Settings, join_urls(tables.get("chat", {})), source, "chat", CHAT_KEYS)
    given = {name: take(kind, tables.get(name, {}), source, name) for name, kind in TABLES.items()}
    servers = tuple(make_server(table, place) for table, place in read_toml_entries(tables, source))
    written = [*chat, *(f"{name}.{key}" for name, table in given.items() for key in table)]
    parts: dict[str, Any] = {name: kind(**given[name]) for name, kind in TABLES.items()}
    return Settings(
        **chat, **parts, servers=servers, variables=find_variables(raw, environment), written=frozenset(written)
    )


def join_urls(chat: Any) -> Any:
    """The table with a list of models, which only URLs can be, written as one text."""
    models = chat.get("model") if isinstance(chat, dict) else None
    urls = isinstance(models, list) and all(isinstance(model, str) for model in models)
    return {**chat, "model": " ".join(models or ())} if urls else chat


def read_json(text: str, source: str, environment: Mapping[str, str]) -> Settings:
    """The servers in a JSON file with the root key mcpServers."""
    found = read_json_entries(text, source)
    servers = tuple(make_server(expand(table, environment, source, at), at) for table, at in found)
    return Settings(servers=servers, variables=find_variables(found, environment))


def make_server(table: Mapping[str, Any], place: str) -> ServerConfig:
    """The server of an entry that is checked and expanded. Raises ConfigError for what is wrong in its `oauth`."""
    source = table["source"]
    oauth = OAuth(**take(OAuth, table.get("oauth", {}), source, f"{place}.oauth"))
    server = ServerConfig(**{**table, "oauth": oauth})
    if mistake := find_mistake(oauth, server.url, server.headers):
        raise ConfigError(f"{source}: {place}.oauth{mistake[0]}.", mistake[1], path=source)
    return server


def take(
    kind: type[Settings | Generation | Rkllm | Openai | Policy | OAuth],
    table: Any,
    source: str,
    place: str,
    known: Iterable[str] = (),
) -> dict[str, Any]:
    """The keys of a table that `kind` has, each of the right type and within its range."""
    types = {entry.name: str(entry.type) for entry in fields(kind)}
    taken = entries.take(types, table, source, place, known)
    check_values(taken, source, place)
    return taken


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

    def written_in(part: Any, place: str) -> dict[str, Any]:
        return {name: getattr(part, name) for table, name in written if table == place}

    tables = {name: written_in(getattr(near, name), name) for name in TABLES}
    if "deny" in tables["policy"]:  # what one file forbids, no other allows again
        tables["policy"]["deny"] = (*far.policy.deny, *near.policy.deny)
    parts = {name: replace(getattr(far, name), **table) for name, table in tables.items()}
    return replace(
        far,
        **written_in(near, ""),
        **parts,
        servers=tuple(servers.values()),
        variables={**far.variables, **near.variables},
        written=near.written | far.written,
        ignored=(*far.ignored, *near.ignored),
    )
