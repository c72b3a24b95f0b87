"""An MCP server that lends the local model to other programs.

`server.py` speaks MCP; `model.py` has the engine, `summary.py` long texts. The model is loaded when it is first needed,
so that a server nobody asks costs no memory and whoever only lists its tools does not wait.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...backends import BACKENDS
from ...config import Settings
from ...discover import find_settings
from ...errors import UsageError
from ...values import check_values

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model", metavar="PATH", help="a .gguf or .rkllm file (default: that of the configuration)")
    add("--backend", metavar="NAME", help=f"auto, {', '.join(BACKENDS)} (default: auto)")
    add("--config", metavar="FILE", default="", help="read this configuration alone")
    add("--context", metavar="N", type=int, help="tokens of context (default: the model's own)")
    add("--max-tokens", metavar="N", type=int, help="tokens of one reply at most (default: 1024)")
    add("--temperature", metavar="X", type=float, help="0 is greedy (default: what the model asks for, else 0.6)")
    add(
        "--folder",
        metavar="DIR",
        action="append",
        help="files of it may be summed up; may be repeated (default: none)",
    )


def build_server(options: argparse.Namespace) -> MCPServer:
    """Raises ConfigError, and UsageError where there is no such folder or backend. The model is not looked at."""
    settings = read_settings(options)
    folders = [Path(folder).expanduser().absolute() for folder in options.folder or ()]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder}.")
    from . import server

    return server.build_server(settings, folders)


def read_settings(options: argparse.Namespace) -> Settings:
    """The settings of the configuration, with what the command line says over them."""
    settings = find_settings(options.config)
    chat = {"model": options.model, "backend": options.backend, "context_tokens": options.context}
    written = {"max_tokens": options.max_tokens, "temperature": options.temperature}
    chat, written = ({key: value for key, value in one.items() if value is not None} for one in (chat, written))
    for table in (chat, written):
        check_values(table, "the command line", "serve llm")
    settings = replace(settings, **chat, generation=replace(settings.generation, **written))
    if settings.backend not in ("auto", *BACKENDS):
        raise UsageError(f'There is no backend "{settings.backend}".', f"Known are auto, {', '.join(BACKENDS)}.")
    return settings
