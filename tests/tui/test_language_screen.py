"""The chat in Japanese and Chinese on a real pseudo terminal, and which output of scripts is translated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from rich.cells import cell_len

from rkllm_chat.core.i18n import load
from rkllm_chat.tui.slash_commands import COMMANDS
from stage import Screen, call_text

from .server_configs import HARBOUR

OpenChat = Callable[..., Screen]
JA, ZH = "ja_JP.UTF-8", "zh_CN.UTF-8"


@pytest.mark.parametrize("locale", [JA, ZH])
@pytest.mark.usefixtures("harbour")
def test_a_turn_with_a_question_is_in_the_language_of_the_locale(locale: str, open_chat: OpenChat) -> None:
    words = load(locale[:2])
    screen = open_chat(HARBOUR, call_text("get_tide", harbour="Husum"), "42 です。", LANG=locale, size=(120, 30))
    screen.say("六かける七は？\r", "[q]")
    screen.say("y", "◆ 42")
    lines = screen.wait_for_prompt()
    shown = [re.sub(r" [\d.e-]+ s$", "", line) for line in lines[lines.index("> 六かける七は？") + 1 : -2]]
    assert shown == [
        words("question.call", server="harbour", tool="get_tide"),
        '  harbour = "Husum"',
        f"{words('question.run', tool='get_tide')} y",
        f'{words("terminal.completed", tool="get_tide")} harbour="Husum"',
        "  The tide at Husum is 2.4 metres and rising.",
        "◆ 42 です。",
    ]
    assert words("status.servers", up=1, all=1) in lines[-1] and words("status.tools", count=5) in lines[-1]
    lines = screen.enter("/tools list", words("tools.sum", on=7, all=7, tokens="?", time="").partition(" ?")[0])
    assert any(line.split()[:3] == [words(f"tools.{key}") for key in ("number", "on", "server")] for line in lines)
    screen.enter("/history", f"  {words('export.completed')}  ")
    screen.say("\x03", words("repl.leave_hint"))


def test_the_help_is_aligned_at_each_width(open_chat: OpenChat) -> None:
    words = load("ja")
    rows = {command.names[0]: command.describe(words) for command in COMMANDS.values()}
    screen = open_chat("--no-servers", "x", LANG=JA, size=(110, 50))
    lines = screen.enter("/help", words("help.more")[:30])
    places = {name: [line for line in lines if line.startswith(name) and line.endswith(rows[name])] for name in rows}
    assert {name for name, found in places.items() if not found} == set()
    assert len({cell_len(found[-1].removesuffix(rows[name])) for name, found in places.items()}) == 1
    narrow = open_chat("--no-servers", "x", LANG=JA, size=(40, 24))
    shown = re.sub(r"\s", "", "".join(narrow.enter("/help", words("help.more")[-4:])))
    assert re.sub(r"\s", "", rows["/quit"] + words("help.more")) in shown


def test_the_next_line_is_in_a_language_that_was_just_selected(open_chat: OpenChat) -> None:
    zh, en = load("zh"), load("en")
    screen = open_chat("--no-servers", call_text("nosuch"), "2.", LANG=JA)
    screen.enter("/set language zh", "chat.language  zh")
    screen.enter("二加二？", zh("terminal.no_such_tool", name="nosuch"), "◆ 2.")
    screen.enter("/set language en", "chat.language  en")
    screen.say("\x03", en("repl.leave_hint"))


@pytest.mark.parametrize(("argument", "expected"), [("", "zh"), ("--language en", "en"), ("--language auto", "ja")])
def test_the_command_line_wins_over_the_configuration_and_that_over_the_locale(
    argument: str, expected: str, open_chat: OpenChat, folder: Path
) -> None:
    (folder / "mcp_config.toml").write_text('[chat]\nlanguage = "zh"\n', encoding="utf-8")
    screen = open_chat(f"--no-servers {argument}", "x", LANG=JA)
    screen.wait_for(load(expected)("repl.hint"))


def test_a_dumb_terminal_uses_the_language_too(open_chat: OpenChat) -> None:
    screen = open_chat("--no-servers", "はい。", TERM="dumb", LANG=JA)
    screen.wait_for(load("ja")("repl.hint"))
    screen.say("東京？\n", "◆ はい。")


@pytest.mark.slow
@pytest.mark.usefixtures("harbour")
def test_notices_for_scripts_are_translated_and_json_keys_are_not(
    environment: dict[str, str], program: Callable[..., CompletedProcess[str]], script: Callable[..., str]
) -> None:
    model = script(call_text("get_tide", harbour="Husum"), "42 です。")
    command = ("-p", "六かける七は？", *HARBOUR.split(), "--allow", "get_tide", "--model", model)
    english = json.loads(program(*command, "--output-format", "json").stdout)
    environment["LANG"] = JA
    plain = program(*command)
    assert (plain.stdout, plain.stderr.splitlines()[-1]) == ("42 です。\n", "[MCP: ツール 'get_tide' 完了]")
    japanese = json.loads(program(*command, "--output-format", "json").stdout)
    assert japanese["result"]["calls"][0]["status"] == english["result"]["calls"][0]["status"] == "completed"
    assert keys_of(japanese) == keys_of(english)


def keys_of(value: object) -> object:
    """Return a JSON value without its leaves."""
    if isinstance(value, dict):
        return {key: keys_of(child) for key, child in value.items()}
    return [keys_of(child) for child in value] if isinstance(value, list) else None
