"""An MCP server that lends a model to other programs: a local one, or one behind a URL.

`server.py` defines the MCP tools, `model.py` loads and runs the model, `summary.py` splits long texts. The model is
loaded at its first use: a server without calls uses no memory, and listing the tools is fast. The options of this
server are added to the parser of every server, so what reads them is imported in the functions.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ...core.errors import UsageError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from ...config.settings import Settings


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command line options of this server."""
    add_model_options(parser)
    parser.add_argument(
        "--folder",
        metavar="DIR",
        action="append",
        help="folder whose files may be summarized; may be repeated (default: none)",
    )
    for name in ("--url", "--timeout"):  # of the former server "remote", whose --model is the name at the service
        parser.add_argument(name, help=argparse.SUPPRESS)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select and set up the model."""
    add = parser.add_argument
    add(
        "-m",
        "--model",
        metavar="PATH|URL",
        help="a .gguf or .rkllm file, its folder, or a service as URL#MODEL (default: the configured one)",
    )
    add("--config", metavar="FILE", default="", help="use only this configuration file")


def build_server(options: argparse.Namespace) -> MCPServer:
    """Return the server; the model is loaded at its first use.

    Raises:
        ConfigError: The configuration is invalid, or the URL or key of a service.
        UsageError: A folder does not exist, or the backend is unknown.
    """
    from ...backends import find_engine_of

    if options.url:
        options.model = f"{options.url.rstrip('/').removesuffix('/chat/completions')}#{quote(options.model or '')}"
    settings = read_model_settings(options)
    engine = find_engine_of(settings)
    if engine.is_service:
        engine.check(settings)
    folders = [Path(folder).expanduser().absolute() for folder in options.folder or ()]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder}.")
    from . import server

    return server.build_server(settings, folders)


def read_model_settings(options: argparse.Namespace) -> Settings:
    """Return the configured settings, overridden by the options of `add_model_options` and `set`.

    Raises:
        ConfigError: The configuration is invalid.
        ModelError: The folder that is named has no model or several.
        UsageError: The backend is unknown, or a setting is invalid.
    """
    from ...backends import check_backend
    from ...backends.project_files import check_project_files
    from ...backends.shared.model_files import find_only_model
    from ...config.loader import load_settings
    from ...config.named_settings import replace_setting

    settings = load_settings(options.config)
    if options.model is not None:
        settings = replace_setting(settings, "model", find_only_model(options.model))
    for key, value in options.set:
        settings = replace_setting(settings, key, value)
    check_backend(settings.backend)
    check_project_files(settings)
    return settings
