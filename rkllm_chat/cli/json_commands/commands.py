"""The functions of the JSON commands, in the registry COMMANDS.

Each takes options, returns the result and prints nothing. To add a command, write a function, register it in COMMANDS
and describe its options in `options.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...config.files import FoundServers, find_servers, find_state_folder
from ...config.project_trust import TrustStore, is_enabled
from ...config.servers import ServerConfig, prepare_server
from ...config.transports import guess_transport
from ...core.errors import (
    ProtocolError,
    ServerNotFoundError,
    ToolError,
    ToolNotFoundError,
    UsageError,
    ValidationError,
)
from ...core.records import replace
from ...mcp_client.acceptance import check_start

if TYPE_CHECKING:
    from ...calls.schema.wording import Violation
    from ...mcp_client.direct.open_server import OpenServer
    from .invocation import Invocation
    from .options import Options

    Command = Callable[[Options, Invocation], Any]

SEPARATORS = (".", "/", "__")
"""Separators between the name of a server and the name of its tool, in order of precedence."""
_MAX_LISTED_TOOLS = 20
_NOT_FOUND_CODES = (-32601, -32602)


def list_tools(options: Options, invocation: Invocation) -> Any:
    """Return the tools of the selected server."""
    opened = invocation.open(_find_server(options, invocation))
    invocation.phase = "list"
    return opened.list_tools()


def call_tool(options: Options, invocation: Invocation) -> Any:
    """Validate the arguments, call the tool and return the selected part of its result.

    Raises:
        ToolError: The tool reports an error.
        ChatError: The arguments are invalid, or the server cannot be used.
    """
    from .json_input import read_arguments, read_pairs, select_part
    from .terminal_forms import find_form_terminal

    server, name = _find_server_and_name(options, invocation, "tool", options.tool)
    arguments = read_arguments(options.args, "--args")
    texts = read_pairs(options.pairs, arguments)
    opened = invocation.open(server, find_form_terminal(server.name))
    if not options.no_check:
        _check_call(opened, invocation, name, arguments, texts)
    invocation.phase = "call"
    result = opened.call_tool(name, arguments)
    if result.get("isError"):
        raise make_tool_error(opened, name, result)
    if options.output_dir is not None:
        from .output_files import save_binary_data

        result = save_binary_data(result, options.output_dir, name)
    return select_part(result, options.select)


def _check_call(
    opened: OpenServer, invocation: Invocation, name: str, arguments: dict[str, Any], texts: dict[str, str]
) -> None:
    """Check the tool's name and arguments against the server's tool list, which costs one more request.

    Arguments that were given as `texts` are converted to the types that the tool expects.
    A server that does not support tools/list, or lists more tools than are read, is not checked.

    Raises:
        ProtocolError: The server's list is unusable, or the tool in it is.
        ToolNotFoundError: The server has no such tool.
        ValidationError: The arguments do not match the tool's schema.
    """
    from ...calls.schema.validate import iter_errors
    from .invocation import limit_schema_time
    from .json_input import convert_texts

    opened.open()
    invocation.phase = "list"
    try:
        tools = {tool["name"]: tool for tool in opened.list_tools()}
    except ProtocolError as error:  # a server without tools/list may still have the tool
        if error.details.get("expected") == "list":
            raise
        return
    if name not in tools:
        opened.check_quarantine(name)
        if opened.is_list_cut:
            return
        raise make_unknown_tool_error(name, list(tools), opened.server)
    schema = tools[name].get("inputSchema")
    with limit_schema_time():
        convert_texts(texts, arguments, schema)
        violations = list(iter_errors(arguments, schema, schema))
        if violations:
            raise _mismatch_error(name, violations, arguments, schema)


def make_unknown_tool_error(name: str, names: list[str], config: ServerConfig, prefix: str = "") -> ToolNotFoundError:
    """Build the error of a tool that a server does not have, or whose use its entry does not allow.

    Args:
        name: The tool.
        names: The tools that there are.
        config: The server.
        prefix: Stands before the names that the error suggests.
    """
    from difflib import get_close_matches

    server, near = config.name, get_close_matches(name, names, n=3)
    if not near and not config.offers(name):
        key = "tools_deny" if replace(config, tools_deny=()).offers(name) else "tools_allow"
        text = f'The entry of server "{server}" leaves the tool "{name}" out.'
        hint = f"Change its {key} in {config.source}."
        return ToolNotFoundError(text, hint, server=server, available=names, path=config.source)
    matches = [prefix + match for match in near]
    known = f"It has these tools: {', '.join(names[:_MAX_LISTED_TOOLS]) or 'none'}."
    hint = f"Did you mean {' or '.join(matches)}?" if matches else known
    text = f'Server "{server}" has no tool "{name}".'
    return ToolNotFoundError(text, hint, server=server, available=names, closest=matches)


def _mismatch_error(name: str, violations: list[Violation], arguments: dict[str, Any], schema: Any) -> ValidationError:
    """Build the error of invalid arguments; its details describe the first violation."""
    from ...calls.schema.resolve import Node

    sentences = [
        f'"{".".join(map(str, violation.path))}" {violation.message}' if violation.path else violation.message
        for violation in violations
    ]
    path = violations[0].path
    got: Any = arguments
    for key in path:
        if isinstance(got, list) and isinstance(key, int):
            got = got[key]
        else:
            got = got.get(key) if isinstance(got, dict) else None
    return ValidationError(
        f'The arguments do not match the schema of the tool "{name}": {"; ".join(sentences)}.',
        "The tool was not called. Correct the arguments, or send them unchecked with --no-check.",
        path=".".join(map(str, path)),
        expected=Node(schema).expected_at(path),
        got=got,
    )


def make_tool_error(opened: OpenServer, name: str, result: dict[str, Any]) -> ToolError:
    """Build the error of a tool result that has `isError` set."""
    from .json_input import read_texts

    text = read_texts(result).strip() or "the server gave no reason."
    content, structured = result.get("content"), result.get("structuredContent")
    return ToolError(
        f'The tool "{name}" failed: {text}',
        opened.explain_failure(text),
        server=opened.server.name,
        tool=name,
        content=content,
        structuredContent=structured,
    )


def list_servers(options: Options, invocation: Invocation) -> Any:
    """Return the configured servers."""
    return [describe_server(server) for server in find_configured_servers(options, invocation).servers.values()]


def describe_server(server: ServerConfig) -> dict[str, Any]:
    """Summarize a server without values that may be secret.

    Variables are not expanded; of `env` and `headers` only the names are included.
    """
    from urllib.parse import urlsplit

    from ...mcp_client.roots import configured_roots

    url = server.url
    parts = urlsplit(url)
    description = {
        "name": server.name,
        "original_name": server.original_name or None,
        "transport": server.transport or guess_transport(url),
        "command": server.command or None,
        "url": f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if url else None,
        "env": sorted(server.env) or None,
        "headers": sorted(server.headers) or None,
        "sandbox": server.sandbox if server.command else None,
        "write": server.write,
        "network": server.network,
        "roots": server.roots if server.roots is None else configured_roots(server),
        "sandbox_missing": _find_missing_sandbox(server),
        "enabled": server.enabled,
        "not_obeyed": server.not_obeyed or None,
        "disabled_by": server.disabled_by or None,
        "source": server.source,
    }
    return {key: value for key, value in description.items() if value is not None}


def _find_missing_sandbox(server: ServerConfig) -> str | None:
    """Return why a server that wants a sandbox would have none; None if it has one. bubblewrap is not run."""
    from ...core.programs import find_program
    from ...mcp_client.process.launch import wants_sandbox
    from ...mcp_client.process.start import NO_BUBBLEWRAP

    if not server.command or not wants_sandbox(server) or find_program("bwrap", None):
        return None
    return NO_BUBBLEWRAP


def list_resources(options: Options, invocation: Invocation) -> Any:
    """Return the resources and resource templates of the selected server."""
    opened = invocation.open(_find_server(options, invocation))
    invocation.phase = "list"
    resources = opened.list_resources()
    try:
        templates = opened.list_templates()
    except ProtocolError as error:  # servers may have resources and not know the method for templates
        if error.details.get("code") not in _NOT_FOUND_CODES:
            raise
        templates = []
    return {"resources": resources, "resourceTemplates": templates}


def read_resource(options: Options, invocation: Invocation) -> Any:
    """Read one resource; with `--output-dir` its binary data is written to files."""
    uri = options.uri or options.target
    if not uri or (options.uri and options.target):
        raise UsageError(
            "read-resource: exactly one resource URI is required.",
            "Write read-resource URI; list-resources lists them.",
        )
    opened = invocation.open(_find_server(options, invocation))
    invocation.phase = "read"
    result = opened.read_resource(uri)
    if options.output_dir is not None:
        from .output_files import save_binary_data

        result = save_binary_data(result, options.output_dir, "resource")
    return result


def list_prompts(options: Options, invocation: Invocation) -> Any:
    """Return the prompts of the selected server."""
    opened = invocation.open(_find_server(options, invocation))
    invocation.phase = "list"
    return opened.list_prompts()


def get_prompt(options: Options, invocation: Invocation) -> Any:
    """Expand a prompt with the given arguments, which MCP restricts to strings."""
    from .json_input import read_arguments

    server, name = _find_server_and_name(options, invocation, "prompt", options.prompt)
    arguments = read_arguments(options.args, "--args")
    for key, value in arguments.items():
        if not isinstance(value, str):
            raise ValidationError(
                f'The argument "{key}" of a prompt must be a string.', path=key, expected="string", got=value
            )
    opened = invocation.open(server)
    invocation.phase = "prompt"
    return opened.get_prompt(name, arguments)


def init(options: Options, _invocation: Invocation) -> Any:
    """Create a ready-to-use project folder."""
    from ..new_project import create_project

    return create_project(options.target or ".")


COMMANDS: dict[str, Command] = {
    "list-tools": list_tools,
    "call-tool": call_tool,
    "list-servers": list_servers,
    "list-resources": list_resources,
    "read-resource": read_resource,
    "list-prompts": list_prompts,
    "get-prompt": get_prompt,
    "init": init,
}


def _find_server_and_name(
    options: Options, invocation: Invocation, what: str, named: str | None
) -> tuple[ServerConfig, str]:
    """Return the server and the name of its tool or prompt, from the options or from one SERVER.NAME word.

    Args:
        options: The parsed command line.
        invocation: The state of this run.
        what: "tool" or "prompt".
        named: The value of the option `--tool` or `--prompt`.
    """
    target = options.target
    if named and target:
        raise UsageError(f'{options.command}: "{target}" and --{what} both name a {what}.', "Pass only one of them.")
    if named or (target and any((options.server, options.url, options.stdio))):
        return _find_server(options, invocation), named or target
    if not target:
        raise UsageError(
            f"{options.command}: no {what} is named.", f"Name it with --{what}, or as SERVER.{what.upper()}."
        )
    found = find_configured_servers(options, invocation)
    server, name = split_target(target, found)
    return select_server_to_start(found, server, options, invocation), name


def find_configured_servers(options: Options, invocation: Invocation) -> FoundServers:
    """Return the configured servers; skipped entries become notices."""
    found = find_servers(options.config or "")
    invocation.notices += [str(entry.make_error()) for entry in found.skipped]
    return found


def split_target(target: str, found: FoundServers) -> tuple[str, str]:
    """Split a SERVER.TOOL word into the names of the server and the tool.

    The longest configured server name followed by a separator wins; otherwise the first separator splits the word.

    Raises:
        UsageError: The word has no separator.
    """
    names = {*found.servers, *(server.original_name for server in found.servers.values() if server.original_name)}
    for server in sorted(names, key=len, reverse=True):
        for candidate in SEPARATORS:
            if target.startswith(server + candidate) and target != server + candidate:
                return server, target[len(server + candidate) :]
    for candidate in SEPARATORS:
        server, separator, name = target.partition(candidate)
        if separator and server and name:
            return server, name
    hint = f"Write SERVER.NAME, or add --server NAME.{explain_target(target, found, '.')}"
    what = "names a server and not what is wanted of it" if target in names else "does not name a server"
    raise UsageError(f'"{target}" {what}.', hint, got=target)


def explain_target(word: str, found: FoundServers, separator: str) -> str:
    """Return a sentence about a word that is no SERVER.TOOL, by the configured servers; "" if they do not tell."""
    from difflib import get_close_matches

    word, names = word.rstrip("".join(SEPARATORS)), [*found.servers]
    if word in names:
        return f" Its tools: rkllm-chat mcp list {word}"
    if near := get_close_matches(word, names, n=1):
        return f" Did you mean the server {near[0]}? Its tools: rkllm-chat mcp list {near[0]}"
    return f" Did you mean {names[0]}{separator}{word}?" if len(names) == 1 and word.isidentifier() else ""


def _find_server(options: Options, invocation: Invocation) -> ServerConfig:
    """Return the server that the options select, with its variables expanded.

    Raises:
        ServerNotFoundError: The configuration has no server of that name.
        UsageError: No server is selected.
    """
    if options.url is not None or options.stdio is not None:
        from .adhoc_server import make_server

        server = make_server(options)
        return select_server_to_start(FoundServers([], {server.name: server}), server.name, options, invocation)
    found = find_configured_servers(options, invocation)
    if options.server is None:
        names = list(found.servers)
        hint = f"Pass --server NAME; configured servers: {', '.join(names)}."
        raise UsageError(f"{options.command}: no server is selected.", hint, available=names, searched=found.searched)
    try:
        return select_server_to_start(found, options.server, options, invocation)
    except ServerNotFoundError:
        if " " not in options.server:
            raise
        hint = "A command that starts a server follows --stdio, not --server."
        text = f'{options.command}: "{options.server}" is no name of a server.'
        raise UsageError(text, hint, got=options.server) from None


def select_server_to_start(found: FoundServers, name: str, options: Options, invocation: Invocation) -> ServerConfig:
    """Create the configuration of a server and check that it may be started.

    Raises:
        UsageError: The server is disabled.
        ChatError: It is unknown, invalid or not trusted yet.
    """
    written = found.get(name)
    server = prepare_server(written)
    invocation.select_server(server, written)
    if not is_enabled(server):
        raise UsageError(
            f'The server "{name}" is disabled in {server.source}.',
            (f"Not understood: {', '.join(server.kept_off)}. " if server.kept_off else "")
            + f"rkllm-chat mcp enable {name} enables it.",
            server=name,
        )
    server = check_start(TrustStore(find_state_folder()), server)
    invocation.select_server(server, written)
    if options.timeout is not None:
        server = replace(server, timeout_s=options.timeout, tool_timeouts={}, connect_s=options.timeout)
    return server
