"""Run a server until a signal arrives: `rkllm-chat serve NAME`, a bundled MCP server or the API of the model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import api_server, mcp_servers
from ..core.command_line import Parser
from ..core.errors import StartError, UsageError
from .process_end import run_interface
from .setting_options import add_former_options, add_setting_options, parse_settings


def make_parser(plugin: str = "") -> Parser:
    """Build the parser of `serve`, with a parser of its own for each bundled server, and for a plugin if one is named.

    Raises:
        UsageError: There is no plugin with that name.
        ConfigError: The plugin cannot be loaded.
    """
    parser = Parser(prog="rkllm-chat serve", description="Run a bundled MCP server, or the API of the model.")
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    about = (api_server.__doc__ or "").partition("\n")[0]
    api_server.add_options(names.add_parser(api_server.NAME, help=about, description=about))
    mcp_servers.add_servers(names, plugin)
    for name in (api_server.NAME, "llm"):
        add_setting_options(names.choices[name])
    former = {f"--{limit.replace('_', '-')}": limit for limit in api_server.LIMITS}
    add_former_options(names.choices[api_server.NAME], "limit", former)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run `rkllm-chat serve` and return the exit code.

    Raises:
        ChatError: Options contradict each other, or the server cannot be started.
    """
    arguments = [*(mcp_servers.RENAMED.get(word, word) for word in arguments[:1]), *arguments[1:]]
    name = arguments[0] if arguments else ""
    is_plugin = not name.startswith("-") and name not in ("", api_server.NAME, *mcp_servers.BUNDLED)
    if not arguments:
        names = ", ".join([api_server.NAME, *mcp_servers.BUNDLED])
        raise UsageError("The name of a server is missing.", f"For example: rkllm-chat serve board. Names: {names}.")
    options = make_parser(name if is_plugin else "").parse(arguments)
    if hasattr(options, "set"):
        options.set = [*parse_settings(options.set)]
    if options.name == api_server.NAME:
        return _serve_api(options)
    mcp_servers.check_options(options)
    return _serve_mcp(options)


def _serve_api(options: argparse.Namespace) -> int:
    """Run the API of the model over HTTP."""
    from ..backends import check_model
    from ..mcp_servers import http
    from ..mcp_servers.server_log import start_server_log

    start_server_log()
    settings, limits = api_server.read_options(options)
    token, access = _find_token(options)
    if not options.no_check:
        check_model(settings)
    with http.open_listener(options.host, options.port) as listener:
        from ..api_server.server import serve_api
        from .model_download import make_pull_command

        url = http.find_url(listener, options.host, "/v1")
        serving = serve_api(settings, limits, listener, token, make_pull_command if options.allow_pull else None)
        print(f"rkllm-chat: {access}\nrkllm-chat: {options.name} listens at {url}", file=sys.stderr, flush=True)
        return run_interface(serving)


def _serve_mcp(options: argparse.Namespace) -> int:
    """Run a bundled MCP server on standard input and output, or over HTTP."""
    from ..mcp_servers.server_log import start_server_log

    start_server_log()
    if options.http is None:
        mcp_servers.build_server(options).run("stdio")
        return 0
    from ..mcp_servers import http

    token, access = _find_token(options)
    server = mcp_servers.build_server(options)
    with http.open_listener(options.host, options.http) as listener:
        url = http.find_url(listener, options.host)
        print(f"rkllm-chat: {access}\nrkllm-chat: {options.name} listens at {url}", file=sys.stderr, flush=True)
        return run_interface(http.serve(server, listener, options.host, token))


def _find_token(options: argparse.Namespace) -> tuple[str, str]:
    """Return the token of an HTTP server, "" for none, and a sentence that says what clients need.

    The token itself is shown on a terminal only: what else is written to standard error may end in a journal that
    others read.

    Raises:
        UsageError: The variable of --token-env has no token.
        StartError: The token can neither be stored nor shown.
    """
    from ..config.loader import state_folder
    from ..mcp_servers import http

    if options.no_token:
        return "", "no token is required: every program and every user of this machine can call this server"
    if options.token_env:
        return http.read_token(options.token_env), f"requests need the token in {options.token_env}"
    path: Path = state_folder() / "tokens" / options.name
    is_shown = sys.stderr.isatty()
    try:
        token, place = http.load_token(path), f"stored in {path}"
    except OSError as error:
        if not is_shown:
            hint = "Correct that, or name a variable with a token by --token-env."
            raise StartError(f"The token cannot be stored in {path}: {error.strerror}.", hint) from None
        token, place = http.make_token(), f"for this run; {path} cannot be used: {error.strerror}"
    return token, f"requests need the header Authorization: Bearer {token if is_shown else 'TOKEN'} ({place})"
