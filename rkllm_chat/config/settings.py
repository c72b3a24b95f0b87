"""Settings of the program, parsed from TOML ([[servers]]) or JSON (mcpServers) text. Opens no file.

Parsers return settings or raise a ConfigError that names file, key and the expected value. `merge_settings` joins two
sources: the nearer one wins; a server defined in both is taken from the nearer one, with env and headers merged by key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from ..core.errors import ConfigError
from .policy import Policy
from .servers import (
    ServerConfig,
    SkippedServer,
    locate_skipped,
    merge_servers,
    names_hidden_by,
    prepare_server,
    read_json_servers,
    read_toml_servers,
    read_toml_tables,
    skip_server,
)
from .trust_rules import Origin
from .value_checks import decode_table, expand_variables, find_variables

__all__ = [
    "CHAT_KEYS",
    "SETTINGS_TABLES",
    "Generation",
    "Openai",
    "Rkllm",
    "ServerConfig",
    "Settings",
    "Thinking",
    "merge_settings",
    "read_json",
    "read_toml",
]

Thinking = Literal["auto", "on", "off"]


@dataclass(frozen=True)
class Generation:
    """Sampling parameters of the model.

    Attributes:
        temperature: None uses the value of the model file, else 0.6; 0 is greedy.
        top_k: Number of candidate tokens; 0 disables the limit.
        top_p: Cumulative probability of the candidates.
        min_p: Minimum probability relative to the best candidate.
        max_tokens: Maximum length of one reply.
        repeat_penalty: Penalty for repeated tokens; 1 is none.
        seed: None draws a random seed.
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
    """Settings of the Rockchip NPU backend.

    Attributes:
        library: Path of librkllmrt.so; "" searches the usual places.
        layout: Release whose data layout is used for a library of an unknown release; "" refuses such a library.
        template: A row of TEMPLATES, a Jinja file, "runtime" (the model's own, applied by the runtime) or "auto" (by
            the model's file name, else from chat_template.jinja or tokenizer_config.json beside the model).
        history: Who keeps the history: with "client" each request sends the whole prompt and the runtime reuses the
            common prefix; with "runtime" only new messages are sent.
        native_tools: Pass tools to the runtime's own tool support.
        prompt_cache: Store the KV cache of the prompt prefix in a file for the next start.
        base_domain_id: Memory domain of the NPU, about 4 GB each (rkllm.h); 0 to 15.
        cpus: CPU cores to use, as "4-7" or "0,2"; "" leaves the choice to the library.
        embed_flash: Read embeddings from storage instead of memory.
        encoder: Path of the vision encoder of a model that sees, a .rknn file; "" looks for it beside the model, "none"
            uses none. It needs librknnrt.so beside librkllmrt.so or in the usual places.
        lora: Path of a LoRA adapter.
        lora_scale: Scale of the LoRA adapter.
        timeout_s: Maximum time without output, in addition to the time that a long prompt needs.
    """

    library: str = ""
    layout: str = ""
    template: str = "auto"
    history: Literal["auto", "client", "runtime"] = "auto"
    native_tools: bool = False
    prompt_cache: bool = False
    base_domain_id: int = 0
    cpus: str = ""
    embed_flash: bool = True
    encoder: str = ""
    lora: str = ""
    lora_scale: float = 1.0
    timeout_s: float = 120.0


PictureDisplay = Literal["auto", "kitty", "iterm2", "sixel", "blocks", "none"]


@dataclass(frozen=True)
class Openai:
    """Settings of a model behind an OpenAI-compatible API.

    Attributes:
        model: Model name in the API; "" if there is only one.
        key_env: Name of the environment variable that holds the API key.
        api: "completions" sends prompts built here, "chat" sends messages, "auto" selects by the server.
        template: A row of TEMPLATES, a Jinja file, or "auto".
        native_tools: Pass tools in the request instead of in the prompt; None: where the service says that its model
            supports it.
        images: Send pictures to the model; None: where the service says that its model understands them.
        first_s: Timeout for the first chunk of a reply.
        timeout_s: Timeout for each further chunk.
    """

    model: str = ""
    key_env: str = ""
    api: Literal["auto", "completions", "chat"] = "auto"
    template: str = "auto"
    native_tools: bool | None = None
    images: bool | None = None
    first_s: float = 600.0
    timeout_s: float = 120.0


@dataclass(frozen=True)
class Settings:
    """All settings of a session.

    Attributes:
        model: Path or URL of the model; "" or "tiny-tools" is the small model that ships.
        models_folder: Folder where models are looked for before the usual ones, and downloaded to; "" for none.
        backend: Row of BACKENDS, or "auto".
        language: Language code of the interface; "auto" uses the locale.
        system: Additional system prompt.
        tool_format: Row of FORMATS; "auto" selects it by the model's family.
        constrained: Constrain tool calls with a grammar where the engine supports it.
        max_steps: Maximum number of model requests per turn.
        context_tokens: Size of the context window; 0 uses the model's own.
        prompt_profile: Row of PROFILES: how the model is asked; "auto" selects it by the model's file and family.
        thinking: Reasoning mode: "auto", "on" or "off".
        generation: Sampling parameters.
        rkllm: Settings of the NPU backend.
        openai: Settings of the API backend.
        policy: Approval of tool calls.
        servers: MCP servers.
        keep_secrets: Do not redact text that looks like a key in session files and exports.
        prefill_ahead: Prefill the known part of the next prompt while idle.
        keep_prefix: Store llama.cpp's state after system text and tools in a file for the next start; the NPU backend
            has its own setting.
        llama_library: Path of another libllama.so for llama-cpp-python, or its folder; "" uses the package's own.
        mmproj: Path of the projector with which a model of llama.cpp sees pictures or hears; "" looks for it beside the
            model, "none" uses none.
        key_bindings: Keys that edit the input line: "emacs" or "vi".
        theme: Colours of the screen: "auto", "light", "dark" or "none".
        pictures: How the screen shows pictures: "kitty", "iterm2", "sixel", "blocks" or "none"; "auto" for what the
            terminal says.
        bell: Ring the terminal's bell when a question waits.
        session: Session to resume: an id, "newest", or "pick" to ask. Set only by the command line.
        variables: Environment variables that the files reference, with their values.
        origins: Origin by key, for all keys that a file sets explicitly ("policy.approve"): an explicit default also
            wins in `merge_settings`. All others are built in.
        ignored: Pairs (file, key) of settings that a project file may not make.
        skipped: Entries of servers that cannot be used.
    """

    model: str = ""
    models_folder: str = ""
    backend: str = "auto"
    language: str = "auto"
    system: str = ""
    tool_format: str = "auto"
    constrained: bool = True
    max_steps: int = 8
    context_tokens: int = 0
    prompt_profile: str = "auto"
    thinking: Thinking = "auto"
    generation: Generation = field(default_factory=Generation)
    rkllm: Rkllm = field(default_factory=Rkllm)
    openai: Openai = field(default_factory=Openai)
    policy: Policy = field(default_factory=Policy)
    servers: tuple[ServerConfig, ...] = ()
    keep_secrets: bool = False
    prefill_ahead: bool = True
    keep_prefix: bool = True
    llama_library: str = ""
    mmproj: str = ""
    key_bindings: Literal["emacs", "vi"] = "emacs"
    theme: Literal["auto", "light", "dark", "none"] = "auto"
    pictures: PictureDisplay = "auto"
    bell: bool = True
    session: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    origins: Mapping[str, Origin] = field(default_factory=dict[str, Origin], compare=False)
    ignored: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    skipped: tuple[SkippedServer, ...] = field(default=(), compare=False)


SETTINGS_TABLES = {"generation": Generation, "rkllm": Rkllm, "openai": Openai, "policy": Policy}
_NOT_CHAT = (*SETTINGS_TABLES, "servers", "variables", "origins", "ignored", "skipped", "session")
CHAT_KEYS = tuple(entry.name for entry in fields(Settings) if entry.name not in _NOT_CHAT)
"""Keys of table `[chat]`."""


def read_toml(
    text: str, source: str, environment: Mapping[str, str], origin: Origin = Origin.USER, skips: bool = False
) -> Settings:
    """Parse the text of a TOML configuration file.

    Args:
        text: Content of the file.
        source: Path of the file for error messages.
        environment: Values for `${VAR}` references.
        origin: Whose file it is; in a project's, references are not expanded.
        skips: Entries of servers that cannot be used become `skipped` of the result; otherwise they are errors.

    Raises:
        ConfigError: The text is invalid or a referenced variable is not set.
    """
    raw = read_toml_tables(text, source)
    own = {name: table for name, table in raw.items() if name != "servers"}
    tables = expand_variables(own, environment if origin is not Origin.PROJECT else None, source, "")
    chat = decode_table(Settings, _join_urls(tables.get("chat", {})), source, "chat", CHAT_KEYS)
    sections = {name: decode_table(kind, tables.get(name, {}), source, name) for name, kind in SETTINGS_TABLES.items()}
    written = [*chat, *(f"{name}.{key}" for name, table in sections.items() for key in table)]
    parts: dict[str, Any] = {name: kind(**sections[name]) for name, kind in SETTINGS_TABLES.items()}
    settings = Settings(**chat, **parts, origins=dict.fromkeys(written, origin))
    if origin is not Origin.PROJECT:
        settings = replace(settings, variables=find_variables(own, environment))
    skipped: list[SkippedServer] | None = [] if skips else None
    servers = read_toml_servers(raw, source, origin, skipped)
    return _add_servers(settings, servers, skipped, text, environment)


def _add_servers(
    settings: Settings,
    servers: list[ServerConfig],
    skipped: list[SkippedServer] | None,
    text: str,
    environment: Mapping[str, str],
) -> Settings:
    """Return the settings of a file with its servers, and with the variables that these reference."""
    variables = {**settings.variables, **find_variables([asdict(server) for server in servers], environment)}
    expanded: list[ServerConfig] = []
    for server in servers:
        try:
            expanded.append(prepare_server(server, environment))
        except ConfigError as error:
            if skipped is None:
                raise
            name = server.original_name or server.name
            skipped.append(skip_server(server.name, name, server.source, error, server.origin, server.place))
    located = tuple(locate_skipped(skipped, text)) if skipped else ()
    return replace(settings, servers=tuple(expanded), variables=variables, skipped=located)


def _join_urls(chat: Any) -> Any:
    """Replace a list of models, allowed only for URLs, by one space-separated string."""
    models = chat.get("model") if isinstance(chat, dict) else None
    urls = isinstance(models, list) and all(isinstance(model, str) for model in models)
    return {**chat, "model": " ".join(models or ())} if urls else chat


def read_json(
    text: str, source: str, environment: Mapping[str, str], origin: Origin = Origin.USER, skips: bool = False
) -> Settings:
    """Parse the servers of a JSON file with the root key mcpServers.

    Arguments and errors are those of `read_toml`.
    """
    skipped: list[SkippedServer] | None = [] if skips else None
    servers = read_json_servers(text, source, origin, skipped)
    return _add_servers(Settings(), servers, skipped, text, environment)


def merge_settings(override: Settings, base: Settings) -> Settings:
    """Merge two settings: values written in `override` win; servers are joined by name; deny patterns accumulate."""
    hidden = names_hidden_by(override.skipped)
    base_servers = {server.name: server for server in base.servers if server.name not in hidden}
    servers = merge_servers(override.servers, base_servers)
    written = {key.rpartition(".")[::2] for key in override.origins}

    def written_in(part: Any, place: str) -> dict[str, Any]:
        return {name: getattr(part, name) for table, name in written if table == place}

    tables = {name: written_in(getattr(override, name), name) for name in SETTINGS_TABLES}
    if "deny" in tables["policy"]:  # a nearer file must not lift the prohibition of another
        tables["policy"]["deny"] = (*base.policy.deny, *override.policy.deny)
    parts = {name: replace(getattr(base, name), **table) for name, table in tables.items()}
    return replace(
        base,
        **written_in(override, ""),
        **parts,
        servers=tuple(servers.values()),
        variables={**base.variables, **override.variables},
        origins={**base.origins, **override.origins},
        ignored=(*base.ignored, *override.ignored),
        skipped=(*base.skipped, *override.skipped),
    )
