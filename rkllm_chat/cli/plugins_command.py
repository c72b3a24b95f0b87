"""List the installed plugins: `rkllm-chat plugins`. Each is imported, so that a broken one is seen here."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from ..backends import BACKENDS
from ..calls.formats import FORMATS
from ..core.command_line import Parser
from ..core.errors import ConfigError
from ..core.plugins import KINDS, Plugin, PluginKind, find_plugins, load_plugin
from ..core.sanitize import sanitize_line
from ..mcp_servers import BUNDLED
from .commands import COMMANDS
from .output import write_output, write_result

_BUILT_IN: dict[PluginKind, Container[str]] = {
    "backends": ("auto", *BACKENDS),
    "formats": FORMATS,
    "commands": COMMANDS,
    "servers": BUNDLED,
}


def main(arguments: Sequence[str]) -> int:
    """Print the plugins and what is wrong with them; returns 1 if one cannot be used."""
    options = make_parser().parse(arguments)
    rows = [(plugin, _find_problem(plugin)) for kind in KINDS for plugin in find_plugins(kind).values()]
    if options.json:
        write_result([{**plugin._asdict(), "problem": problem} for plugin, problem in rows])
    else:
        write_output("".join(f"{line}\n" for line in _format(rows)))
    return int(any(problem for _, problem in rows))


def make_parser() -> Parser:
    """Build the argument parser of the command."""
    about = "List the backends, call formats, commands and MCP servers that other packages add."
    parser = Parser(prog="rkllm-chat plugins", description=about)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def _find_problem(plugin: Plugin) -> str:
    """Return why a plugin cannot be used; "" if it can."""
    if plugin.name in _BUILT_IN[plugin.kind]:
        return "The name is built in; the plugin is not used."
    try:
        load_plugin(plugin)
    except ConfigError as error:
        return error.message
    return ""


def _format(rows: Sequence[tuple[Plugin, str]]) -> Iterator[str]:
    """Yield one line for each plugin, and one for each problem below it."""
    if not rows:
        yield "No plugins are installed."
    for plugin, problem in rows:
        yield sanitize_line(f"{plugin.kind[:-1]:<8} {plugin.name:<20} {plugin.package} ({plugin.target})")
        if problem:
            yield sanitize_line(f"  {problem}")
