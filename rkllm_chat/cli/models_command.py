"""List the model files of this machine and what is known of each, and download some: `rkllm-chat models`."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..backends.rkllm.model_file import find_model_template, read_toolkit_release
from ..backends.shared.model_files import ModelFile, find_models, list_model_folders
from ..calls.model_families import find_family_by_name
from ..config.loader import load_settings
from ..config.settings import Settings, replace_model
from ..core.command_line import Parser
from ..core.sanitize import sanitize_line
from ..tui.tried_models import list_tried
from .doctor.board import Board, CheckState, format_size, run_check
from .doctor.model import (
    check_engine,
    check_model_file,
    check_pair,
    find_media_file,
    read_stated_target,
    read_trained_context,
)
from .output import write_output, write_result

_DESCRIPTION = (
    "List the model files in the models folders: the configured one, ~/.local/share/rkllm-chat/models, those beside "
    "the configuration, ./models and ~/models. Without ACTION they are listed."
)
_PULL = (
    "Download a model from the Hugging Face Hub into the first models folder, with the tokenizer and templates that a "
    "model for the NPU needs. A download that was stopped is continued. Without MODEL, some are listed."
)


@dataclass(frozen=True)
class ModelRow:
    """What is known of a model file.

    Attributes:
        name: Short name to call it by.
        path: What `--model` takes.
        kind: "gguf" or "rkllm".
        size_bytes: Its size.
        target: Chip and quantization that the name states, for the NPU.
        toolkit: Release of the toolkit that converted it, for the NPU; "" if unknown.
        context_tokens: Context that it was trained on; 0 if the file does not tell.
        template: Where its chat template is: "gguf", a file's name, or "" if only the name of the model tells it.
        family: Model family by its name; "" if unknown.
        media_file: Path of the file with which it sees pictures or hears; "" without one.
        state: Whether it runs here: "ok", "warn" or "wrong".
        findings: What was found about that.
    """

    name: str
    path: str
    kind: str
    size_bytes: int
    target: str
    toolkit: str
    context_tokens: int
    template: str
    family: str
    media_file: str
    state: CheckState
    findings: tuple[str, ...]


def main(arguments: Sequence[str]) -> int:
    """Run the command. Raises ChatError."""
    words = list(arguments)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "list")
    options = make_parser().parse(words)
    settings = load_settings(options.config)
    if options.action == "pull":
        return _pull(options.model, settings.models_folder)
    return _list(settings, options)


def _pull(name: str | None, folder: str) -> int:
    if name is None:
        for row in list_tried():
            memory = f", {row['memory']} of memory" if row["memory"] else ""
            write_output(f"{row['name']:<20}{row['size']:>7}{memory}  {row['engine']}, license: {row['license']}\n")
            write_output(f"    tools: {row['tools']}\n")
        write_output('Download one: rkllm-chat models pull NAME. "-" is shown before the download.\n')
        return 0
    from .model_download import pull_model  # imports the HTTP client

    path = pull_model(name, folder, write_output)
    write_output(f"{path}\nChat with it: rkllm-chat --model {shlex.quote(str(path))}\n")
    return 0


def _list(settings: Settings, options: argparse.Namespace) -> int:
    """Print what is known of the models."""
    board = Board(Path("/"), settings, os.environ)
    rows = [_describe(file, board) for file in find_models(settings.models_folder, settings.model)]
    if options.json:
        folders = [*map(str, list_model_folders(settings.models_folder))]
        write_result({"folders": folders, "models": [*map(asdict, rows)]})
    else:
        write_output("".join(f"{line}\n" for row in rows for line in _format(row)) + "More: rkllm-chat models pull\n")
    return 0


def make_parser() -> Parser:
    """Build the argument parser of the command."""
    parser = Parser(prog="rkllm-chat models", description=_DESCRIPTION)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    summary = "list the model files; this is the default"
    listing = actions.add_parser("list", help=summary, description=_DESCRIPTION)
    listing.add_argument("--json", action="store_true", help="print one JSON document")
    pull = actions.add_parser("pull", help="download a model from the Hugging Face Hub", description=_PULL)
    about = "a listed name, such as qwen3:0.6b; or OWNER/NAME, and :FILE if it has several models"
    pull.add_argument("model", metavar="MODEL", nargs="?", help=about)
    for action in (listing, pull):
        action.add_argument("--config", metavar="FILE", default="", help="read only this configuration file")
    return parser


def _describe(file: ModelFile, board: Board) -> ModelRow:
    """Return what is known of a file."""
    path, is_for_npu = file.path.absolute(), file.kind == "rkllm"
    board = replace(board, settings=replace_model(board.settings, str(path)))
    findings = [
        line for check in (check_model_file, check_engine, check_pair) for line in run_check("model", check, board)
    ]
    states = [line.state for line in findings]
    state: CheckState = "wrong" if "wrong" in states else "warn" if "warn" in states else "ok"
    family, template = find_family_by_name(path.name), find_model_template(path) if is_for_npu else None
    return ModelRow(
        file.name,
        file.name if file.is_shipped else str(path),
        file.kind,
        file.size_bytes,
        read_stated_target(path.name) if is_for_npu else "",
        read_toolkit_release(path) if is_for_npu else "",
        0 if is_for_npu else read_trained_context(path),
        (template.path.name if template else "") if is_for_npu else "gguf",
        family.name if family else "",
        str(find_media_file(board, path) or ""),
        state,
        tuple(f"{line.value} {line.advice}".strip() for line in findings if line.state != "ok"),
    )


def _format(row: ModelRow) -> list[str]:
    """Return the lines of a model."""
    facts = [
        format_size(row.size_bytes),
        row.target,
        f"toolkit {row.toolkit}" if row.toolkit else "",
        f"{row.context_tokens} tokens" if row.context_tokens else "",
        f"template {row.template}" if row.template else "",
        row.family,
        f"pictures or sound by {Path(row.media_file).name}" if row.media_file else "",
    ]
    lines = [f"{row.state:<5} {row.name}: {', '.join(filter(None, facts))}"]
    if row.path != row.name:
        lines.append(f"      {row.path}")
    return [sanitize_line(line) for line in [*lines, *(f"      {finding}" for finding in row.findings)]]
