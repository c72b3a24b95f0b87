"""COMMANDS: what each one-shot command does. It takes options and gives a result, and prints nothing.

To add one: a function, a row here, and one in `options.py`.
"""

from __future__ import annotations

from ..errors import ProtocolError, ToolError, ToolNotFoundError, UsageError, ValidationError
from ..places import Found, find_entries, find_state, make_server
from ..trust import Accepted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..config import ServerConfig
    from ..faults import Fault
    from ..reach import Opened
    from .options import Options
    from .sitting import Sitting

    Command = Callable[[Options, Sitting], Any]

MARKS = (".", "/", "__")
"""What may stand between a server and its tool."""
NOT_FOUND = (-32601, -32602)


def list_tools(options: Options, sitting: Sitting) -> Any:
    opened = sitting.open(find_server(options, sitting))
    sitting.phase = "list"
    return opened.list_tools()


def call_tool(options: Options, sitting: Sitting) -> Any:
    from .values import read_arguments, select

    server, name = find_member(options, sitting, "tool", options.tool)
    arguments = read_arguments(options.args, "--args")
    opened = sitting.open(server)
    if not options.no_check:
        check_call(opened, sitting, name, arguments)
    sitting.phase = "call"
    result = opened.call_tool(name, arguments)
    if result.get("isError"):
        raise explain_failure(opened, name, result)
    if options.output_dir is not None:
        from .files import put_into_files

        result = put_into_files(result, options.output_dir, name)
    return select(result, options.select)


def check_call(opened: Opened, sitting: Sitting, name: str, arguments: dict[str, Any]) -> None:
    """Raises ToolNotFoundError or ValidationError for what need not be sent. Costs one more question to the server."""
    from ..faults import find_faults
    from .sitting import schema_limit

    opened.open()
    sitting.phase = "list"
    try:
        tools = {tool["name"]: tool for tool in opened.list_tools()}
    except ProtocolError:  # it lists nothing, and may have the tool all the same
        return
    server = opened.server.name
    if name not in tools:
        opened.check_held(name)
        from difflib import get_close_matches

        near = get_close_matches(name, list(tools), n=3, cutoff=0.4)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"It has {', '.join(tools) or 'no tools'}."
        raise ToolNotFoundError(
            f'Server "{server}" has no tool "{name}".', hint, server=server, available=list(tools), closest=near
        )
    schema = tools[name].get("inputSchema")
    with schema_limit():
        faults = list(find_faults(arguments, schema, schema))
    if faults:
        raise misfit(name, faults, arguments, schema)


def misfit(name: str, faults: list[Fault], arguments: dict[str, Any], schema: Any) -> ValidationError:
    """The error of arguments that do not fit; its details are of the first fault."""
    from ..schemas import expected_at

    said = [f'"{".".join(map(str, place))}" {sentence}' if place else sentence for place, sentence in faults]
    place = faults[0][0]
    got: Any = arguments
    for part in place:
        if isinstance(got, list) and isinstance(part, int):
            got = got[part]
        else:
            got = got.get(part) if isinstance(got, dict) else None
    return ValidationError(
        f'The arguments do not fit the tool "{name}": {"; ".join(said)}.',
        "Nothing was called. --no-check sends them all the same.",
        path=".".join(map(str, place)),
        expected=expected_at(place, schema),
        got=got,
    )


def explain_failure(opened: Opened, name: str, result: dict[str, Any]) -> ToolError:
    """The error that a tool's own answer is."""
    from .values import read_texts

    said = read_texts(result).strip() or "it does not say why."
    content, structured = result.get("content"), result.get("structuredContent")
    return ToolError(
        f'The tool "{name}" failed: {said}',
        opened.way.explain_denial(said),
        server=opened.server.name,
        tool=name,
        content=content,
        structuredContent=structured,
    )


def list_servers(options: Options, _sitting: Sitting) -> Any:
    found = find_entries(options.config or "")
    return [describe_server(table) for table, _ in found.entries.values()]


def describe_server(table: dict[str, Any]) -> dict[str, Any]:
    """An entry without what may be secret in it: nothing is expanded, of env and headers only the names are told."""
    from urllib.parse import urlsplit

    url = table.get("url", "")
    parts = urlsplit(url)
    transport = table.get("transport") or (
        "stdio" if "command" in table else "websocket" if url[:2] == "ws" else "http"
    )
    shown = {
        "name": table["name"],
        "transport": transport,
        "command": table.get("command"),
        "url": f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if url else None,
        "env": sorted(table.get("env", ())) or None,
        "headers": sorted(table.get("headers", ())) or None,
        "sandbox": table.get("sandbox", "auto") if "command" in table else None,
        "write": table.get("write"),
        "network": table.get("network"),
        "enabled": table.get("enabled", True),
        "source": table["source"],
    }
    return {key: value for key, value in shown.items() if value is not None}


def list_resources(options: Options, sitting: Sitting) -> Any:
    opened = sitting.open(find_server(options, sitting))
    sitting.phase = "list"
    resources = opened.list_resources()
    try:
        templates = opened.list_templates()
    except ProtocolError as error:  # resources without templates are allowed, and then nobody knows the question
        if error.details.get("code") not in NOT_FOUND:
            raise
        templates = []
    return {"resources": resources, "resourceTemplates": templates}


def read_resource(options: Options, sitting: Sitting) -> Any:
    uri = options.uri or options.target
    if not uri or (options.uri and options.target):
        raise UsageError("read-resource: name one resource, with --uri.", "list-resources says which there are.")
    opened = sitting.open(find_server(options, sitting))
    sitting.phase = "read"
    result = opened.read_resource(uri)
    if options.output_dir is not None:
        from .files import put_into_files

        result = put_into_files(result, options.output_dir, "resource")
    return result


def list_prompts(options: Options, sitting: Sitting) -> Any:
    opened = sitting.open(find_server(options, sitting))
    sitting.phase = "list"
    return opened.list_prompts()


def get_prompt(options: Options, sitting: Sitting) -> Any:
    from .values import read_arguments

    server, name = find_member(options, sitting, "prompt", options.prompt)
    arguments = read_arguments(options.args, "--args")
    for key, value in arguments.items():
        if not isinstance(value, str):
            raise ValidationError(
                f'The argument "{key}" of a prompt must be a text.', path=key, expected="string", got=value
            )
    opened = sitting.open(server)
    sitting.phase = "prompt"
    return opened.get_prompt(name, arguments)


def init(options: Options, _sitting: Sitting) -> Any:
    from .setup import lay_out

    return lay_out(options.target or ".")


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


def find_member(options: Options, sitting: Sitting, what: str, named: str | None) -> tuple[ServerConfig, str]:
    """The server, and the tool or prompt of it: from the options, or from SERVER.NAME in one word."""
    target = options.target
    if named and target:
        raise UsageError(f'{options.command}: "{target}" and --{what} both name a {what}.', "Keep one of them.")
    if named or (target and any((options.server, options.url, options.stdio))):
        return find_server(options, sitting), named or target
    if not target:
        raise UsageError(f"{options.command}: which {what}?", f"Name it with --{what}, or as SERVER.{what.upper()}.")
    found = find_entries(options.config or "")
    server, name = split_target(target, found)
    return prepare(found, server, options, sitting), name


def split_target(target: str, found: Found) -> tuple[str, str]:
    """Server and name: the longest configured name that a mark follows; else what stands before the first mark."""
    for server in sorted(found.entries, key=len, reverse=True):
        for mark in MARKS:
            if target.startswith(server + mark) and target != server + mark:
                return server, target[len(server + mark) :]
    for mark in MARKS:
        server, middle, name = target.partition(mark)
        if middle and server and name:
            return server, name
    raise UsageError(f'"{target}" names no server.', "Write SERVER.TOOL, or add --server NAME.", got=target)


def find_server(options: Options, sitting: Sitting) -> ServerConfig:
    """The server that the options name, with its variables expanded. Raises ServerNotFoundError, UsageError."""
    if options.url is not None or options.stdio is not None:
        from .adhoc import make_entry

        found = Found([])
        found.entries["adhoc"] = (make_entry(options), "command line")
        return prepare(found, "adhoc", options, sitting)
    found = find_entries(options.config or "")
    if options.server is None:
        names = list(found.entries)
        hint = f"Say --server NAME; there are {', '.join(names)}."
        raise UsageError(f"{options.command}: which server?", hint, available=names, searched=found.searched)
    return prepare(found, options.server, options, sitting)


def prepare(found: Found, name: str, options: Options, sitting: Sitting) -> ServerConfig:
    entry, place = found.get(name)
    server = make_server(entry, place)
    sitting.chosen = server, entry
    if not server.enabled or server.trust == "off":
        raise UsageError(f'The server "{name}" is switched off in {server.source}.', "Enable it there.", server=name)
    Accepted(find_state()).check_start(server)
    if options.timeout is not None:
        limits: Any = server
        limits.timeout_s = limits.connect_s = options.timeout
    return server
