"""Write what is made from the program: man page, tables and pages of docs/, schemas of configurations.

    python .ci/manual.py            writes the files
    python .ci/manual.py --check    exits with 1 if a file is not what would be written

argparse-manpage would do, but its output depends on the version of Python.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from command_pages import TITLES
from command_pages import make_page as make_commands_page
from settings_pages import make_json_schema, make_page, make_schema

from rkllm_chat.cli import chat_options
from rkllm_chat.cli.commands import COMMANDS, EXIT_CODES, RENAMED, make_parser
from rkllm_chat.core.command_line import get_positionals, get_subparsers
from rkllm_chat.tui.question_search import read_page
from rkllm_chat.tui.tried_models import list_tried

DOCS = Path(__file__).parents[1] / "docs"
SIGNS = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "~": "\\(ti", "^": "\\(ha"})
MODELS = re.compile(r"(?<=<!-- models -->\n).*?(?=<!-- end -->)", re.DOTALL)
TABLE = re.compile(r"(?<=<!-- exit codes -->\n).*?(?=<!-- end -->)", re.DOTALL)


def make_manual() -> str:
    """Return the man page of `rkllm-chat` as roff."""
    parser = chat_options.make_parser()
    about = parser.description or ""
    lines = [
        '.TH RKLLM\\-CHAT 1 "" "rkllm\\-chat"',
        ".SH NAME",
        f"rkllm\\-chat \\- {escape(about[0].lower() + about[1:-1])}",
        ".SH SYNOPSIS",
        ".B rkllm\\-chat\n[\\fIOPTIONS\\fR] [\\fICOMMAND\\fR ...]",
        ".SH DESCRIPTION",
        escape("Without a command, rkllm-chat chats; with text from -p or a pipe, it runs one turn and exits."),
        escape("rkllm-chat COMMAND --help describes a command."),
        ".SH OPTIONS",
        *describe_arguments(parser),
        ".SH COMMANDS",
    ]
    for name in COMMANDS:
        if name not in ("chat", *RENAMED):  # its options are those above
            lines += describe_command(name, make_parser(name))
    lines.append(".SH EXIT STATUS")
    for code, meaning in EXIT_CODES.items():
        lines += [".TP", f".B {code}", escape(meaning)]
    lines.append(f".PP\n{escape('The commands that print one JSON document exit with 0 or 1.')}")
    return "\n".join(lines) + "\n"


def describe_command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the lines of a command and of its own subcommands."""
    positionals = [format_positional(action) for action in get_positionals(parser)]
    yield f".SS {escape(' '.join((name, *positionals)))}"
    yield escape(parser.description or "")
    yield from describe_arguments(parser)
    for own, subparser in get_subparsers(parser).items():
        yield from describe_command(f"{name} {own}", subparser)


def describe_arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the lines of the arguments that have a help text."""
    formatter = parser._get_formatter()  # noqa: SLF001 - argparse has no public way to read its options
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to read its options
        if action.help and action.help != argparse.SUPPRESS and "--help" not in action.option_strings:
            value = "" if action.nargs == 0 else f" \\fI{escape(format_value(action))}\\fR"
            names = ", ".join(f"\\fB{escape(name)}\\fR" for name in action.option_strings)
            yield f".TP\n{names}{value}" if names else f".TP\n{value.strip()}"
            yield escape(formatter._expand_help(action))  # noqa: SLF001 - argparse has no public way to read its options


def format_value(action: argparse.Action) -> str:
    """Return the placeholder of an argument's value, or its choices."""
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else (action.metavar or action.dest).upper()


def format_positional(action: argparse.Action) -> str:
    """Return a positional argument as it stands in a usage line."""
    text = format_value(action)
    repeated = f"{text} ..." if action.nargs in ("*", "+") else text
    return f"[{repeated}]" if action.nargs in ("*", "?") else repeated


def escape(text: str) -> str:
    """Return text as roff, which would take some characters for requests or typographic signs."""
    escaped = text.translate(SIGNS)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def make_table() -> str:
    """Return the exit codes as a Markdown table."""
    rows = [f"| {code} | {meaning} |\n" for code, meaning in EXIT_CODES.items()]
    return "".join(("| Code | Meaning |\n| ---: | --- |\n", *rows))


def make_model_table() -> str:
    """Return the models to download as a Markdown table."""
    columns = ("engine", "size", "memory", "license", "tools")
    rows = (f"| `{row['name']}` | {' | '.join(row[column] or '-' for column in columns)} |\n" for row in list_tried())
    head = "| Name | Engine | Size | Memory | License | Calling tools |\n| --- | --- | ---: | ---: | --- | --- |\n"
    return "".join((head, *rows))


def write_files(is_check: bool) -> int:
    """Write the files, or only compare them; returns the exit code."""
    page, models = DOCS / "scripting.md", DOCS / "models.md"
    wanted = {
        DOCS / "rkllm-chat.1": make_manual(),
        DOCS / "settings.md": make_page(),
        **{
            DOCS / f"commands{'' if language == 'en' else f'.{language}'}.md": make_commands_page(language)
            for language in TITLES
        },
        **{
            DOCS / f"questions{'' if language == 'en' else f'.{language}'}.md": read_page(language)
            for language in TITLES
        },
        DOCS.parent / "rkllm_chat/config/mcp_config.schema.json": make_schema(),
        DOCS.parent / "rkllm_chat/config/mcp_servers.schema.json": make_json_schema(),
        models: MODELS.sub(lambda _: make_model_table(), models.read_text(encoding="utf-8")),
        page: TABLE.sub(lambda _: make_table(), page.read_text(encoding="utf-8")),
    }
    outdated = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in outdated:
        if is_check:
            print(f"{path} is outdated: run python .ci/manual.py", file=sys.stderr)
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return int(is_check and bool(outdated))


if __name__ == "__main__":
    sys.exit(write_files(is_check=sys.argv[1:] == ["--check"]))
