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
    "EXPERT_KEYS",
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
        temperature: How freely the model chooses its words; 0 always takes the likeliest. Left out: 0 to 0.1 while
            tools are listed, by the model's family; otherwise what the model file says, else 0.6.
        top_k: Choose among this many of the likeliest tokens; 0 for all.
        top_p: Choose among the likeliest tokens that together have this probability; 1 for all.
        min_p: Leave out tokens that are less likely than this share of the likeliest; 0 for none.
        max_tokens: Maximum length of one reply in tokens. A reply that reaches it is cut off.
        repeat_penalty: Make repetitions less likely; 1 changes nothing, 1.1 is usual.
        seed: The same number gives the same replies again. Left out: a new one for each reply.
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
        library: Path of librkllmrt.so. Left out: it is looked for in the usual places.
        layout: For a librkllmrt.so newer than this program: the release whose interface it has, such as "1.3.1". Left
            out: such a library is not used.
        template: How the conversation is written for the model: the name of a family such as "chatml", a Jinja file,
            "runtime" (the model's own, applied by the runtime) or "auto" (by the model's file name, else from
            chat_template.jinja or tokenizer_config.json beside the model).
        history: Who keeps the conversation: with "client" each request sends all of it and the runtime reuses what it
            has evaluated; with "runtime" only new messages are sent.
        native_tools: Describe the tools to the runtime, which puts them into the prompt in its own way.
        prompt_cache: Keep what was evaluated of the system prompt, the tools and a session in files, so that the next
            start is faster.
        base_domain_id: Memory domain of the NPU, about 4 GB each; another one for a second model in the same program.
        cpus: CPU cores to use, as "4-7" or "0,2". Left out: the library chooses.
        embed_flash: Read the table of tokens from storage instead of memory, which saves memory.
        encoder: Path of the vision encoder of a model that sees, a .rknn file; "none" uses none. Left out: it is looked
            for beside the model. It needs librknnrt.so beside librkllmrt.so or in the usual places.
        lora: Path of a LoRA adapter, a file that changes the model.
        lora_scale: How much the LoRA adapter changes the model; 1 is all.
        timeout_s: Give up when the model writes nothing for this many seconds, beside the time that a long prompt
            needs.
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
        model: Name of the model at the service. Left out: the only one there is.
        key_env: Name of the environment variable that holds the key of the service.
        api: "chat" sends messages, "completions" sends the text of the whole prompt, "auto" takes what the service
            supports.
        template: With "completions", how the conversation is written for the model: the name of a family such as
            "chatml", a Jinja file, or "auto" (by the name of the model).
        native_tools: Describe the tools in the request instead of in the prompt. Left out: where the service says that
            its model supports it.
        images: Send pictures to the model. Left out: where the service says that its model understands them.
        first_s: Give up when a reply has not begun after this many seconds.
        timeout_s: Give up when a reply that has begun does not go on for this many seconds.
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
        model: Path or URL of the model. Left out, or "tiny-tools": the small model that ships.
        family: What the model is, such as "qwen2.5", where neither its file name nor a file beside it says so.
        models_folder: Folder where models are looked for first, and downloaded to.
        backend: What runs the model: "rkllm" (the NPU), "llama" (llama.cpp), "openai" (a service), "scripted" (for
            tests), or "auto" (by the model).
        language: Language of the interface: "en", "ja", "zh", or "auto" (by the locale).
        system: System prompt, such as the role of the model.
        tool_format: How the model is asked to write tool calls, such as "hermes"; "auto" (by the model's family) is
            usually right. Tab lists the names behind `/set tool_format`.
        constrained: Keep the model to the form of a tool call while it writes one, where the engine can.
        max_steps: How many times the model may call tools and read their results before it must answer.
        context_tokens: How many tokens of the conversation the model can see; 0 for the model's own limit.
        prompt_profile: How tools and results are described to the model; "auto" (by the model's file and family) is
            usually right. Tab lists the names behind `/set prompt_profile`.
        thinking: Whether the model reasons before it answers; "auto" leaves it to the model.
        generation: Sampling parameters.
        rkllm: Settings of the NPU backend.
        openai: Settings of the API backend.
        policy: Approval of tool calls.
        servers: MCP servers.
        keep_secrets: Keep text that looks like a key in saved sessions and exports, instead of `[redacted]`.
        prefill_ahead: Let the model read what is known of the next question while you type, so that the answer begins
            earlier.
        keep_prefix: With llama.cpp, keep what was evaluated of the system prompt, the tools and a session in files, so
            that the next start is faster. For the NPU, see `prompt_cache`.
        llama_library: Path of another build of llama.cpp, a libllama.so or its folder. Left out: the one that is
            installed.
        gpu_layers: With a build of llama.cpp for a GPU, how many layers of the model it computes; -1 for all.
        mmproj: Path of the mmproj file with which a model of llama.cpp sees pictures or hears; "none" uses none. Left
            out: it is looked for beside the model.
        key_bindings: Which keys edit the input line.
        theme: Colours of the screen: for a light or a dark background, none, or what the terminal says.
        pictures: How the terminal shows pictures; "blocks" works in each, "auto" takes the best that yours says it
            understands.
        bell: Ring the bell of the terminal when a question waits for you.
        session: Session to resume: an id, "newest", or "pick" to ask. Set only by the command line.
        variables: Environment variables that the files reference, with their values.
        origins: Origin by key, for all keys that a file sets explicitly ("policy.approve"): an explicit default also
            wins in `merge_settings`. All others are built in.
        ignored: Pairs (file, key) of settings that a project file may not make.
        skipped: Entries of servers that cannot be used.
    """

    model: str = ""
    family: str = ""
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
    gpu_layers: int = 0
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
EXPERT_KEYS = ("constrained", "prefill_ahead", "keep_prefix", "llama_library", "gpu_layers", "pictures")
"""Keys of table `[expert]`, which hardly anybody needs; until version 0.3 they may stand in `[chat]`."""
CHAT_KEYS = tuple(entry.name for entry in fields(Settings) if entry.name not in (*_NOT_CHAT, *EXPERT_KEYS))
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
    try:
        return _read_tables(text, source, environment, origin, skips)
    except ConfigError as error:
        from .source_text import find_line  # 2 ms, which valid files need not spend

        line = find_line(text, str(error.details["place"])) if error.details.get("place") else 0
        if not line or not error.message.startswith(f"{source}: "):
            raise
        located = f"{source}:{line}: {error.message.removeprefix(f'{source}: ')}"
        raise ConfigError(located, error.hint, **{**error.details, "line": line}) from None


def _read_tables(text: str, source: str, environment: Mapping[str, str], origin: Origin, skips: bool) -> Settings:
    """Parse the text of a TOML configuration file; errors do not name lines."""
    raw = read_toml_tables(text, source)
    own = {name: table for name, table in raw.items() if name != "servers"}
    tables = expand_variables(own, environment if origin is not Origin.PROJECT else None, source, "")
    chat = decode_table(Settings, _join_urls(tables.get("chat", {})), source, "chat", (*CHAT_KEYS, *EXPERT_KEYS))
    chat |= decode_table(Settings, tables.get("expert", {}), source, "expert", EXPERT_KEYS)
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
    text: str,
    source: str,
    environment: Mapping[str, str],
    origin: Origin = Origin.USER,
    skips: bool = False,
    beside: Mapping[str, str] = {},
) -> Settings:
    """Parse the servers of a JSON file with the root key mcpServers.

    Arguments and errors are those of `read_toml`; `beside` are the `settings` of `read_json_servers`.
    """
    skipped: list[SkippedServer] | None = [] if skips else None
    servers = read_json_servers(text, source, origin, skipped, beside)
    return _add_servers(Settings(), servers, skipped, text, environment)


def replace_model(settings: Settings, model: str) -> Settings:
    """Return the settings for another model; those that describe the configured one are left to be found out."""
    rkllm = replace(settings.rkllm, encoder="")
    return replace(settings, model=model, backend="auto", family="", mmproj="", rkllm=rkllm)


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
