"""The chat in Japanese and Chinese on a real pseudo terminal, and what scripts get of a language."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from rich.cells import cell_len

from rkllm_chat.commands import COMMANDS
from rkllm_chat.language import load
from stage import Screen, call_text

OpenScreen = Callable[..., Screen]
Script = Callable[..., str]
Run = Callable[..., "CompletedProcess[str]"]

TALKS = {
    "ja_JP.UTF-8": """\
rkllm-chat: モデルとサーバーを開いています ...
モデル: scripted（コンテキスト 4096 トークン）。サーバー: board。
/help でコマンドの一覧、Ctrl+D で終了。
> 六かける七は？
[MCP: ツール呼び出しを 1 件検出]
board が calculate を実行しようとしています
  expression = "6 * 7"
実行しますか? [y] 今回だけ [a] このツールは常に [n] しない [q] 中止: y
[MCP: ツール 'calculate' を呼び出し中] expression="6 * 7"
[MCP: ツール 'calculate' 完了] 0.1 s
◆ 42 です。
""",
    "zh_CN.UTF-8": """\
rkllm-chat：正在打开模型和服务器 ...
模型：scripted（上下文 4096 个 token）。服务器：board。
/help 列出命令，Ctrl+D 退出。
> 六かける七は？
[MCP: 检测到 1 个工具调用]
board 要运行 calculate
  expression = "6 * 7"
要运行吗？ [y] 仅此一次 [a] 始终允许此工具 [n] 不运行 [q] 停止: y
[MCP: 正在调用工具 'calculate'] expression="6 * 7"
[MCP: 工具 'calculate' 已完成] 0.1 s
◆ 42 です。
""",
}
LOCALES = list(TALKS)


@pytest.fixture
def asking(folder: Path) -> Path:
    """A board server whose tools run only when the person says so; gives the folder."""
    arguments = json.dumps(["-m", "rkllm_chat", "serve", "board"])
    text = f'[[servers]]\nname = "board"\ncommand = "{sys.executable}"\nargs = {arguments}\n'
    (folder / "mcp_config.toml").write_text(text, encoding="utf-8")
    return folder


def open_in(open_screen: OpenScreen, locale: str, *arguments: str, **options: object) -> Screen:
    screen = open_screen(*arguments, LANG=locale, **options)
    screen.wait_for("Ctrl+D")
    screen.wait_for_prompt()
    return screen


def say(screen: Screen, line: str, seen: str) -> list[str]:
    screen.type(line + "\r")
    screen.wait_for(seen)
    return screen.wait_for_prompt()


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.usefixtures("asking")
def test_a_talk_with_a_tool_and_a_question_is_in_the_language_of_the_locale(
    locale: str, open_screen: OpenScreen, script: Script
) -> None:
    words = load(locale[:2])
    model = script(call_text("calculate", expression="6 * 7"), "42 です。")
    screen = open_in(open_screen, locale, "--model", model)
    screen.type("六かける七は？\r")
    screen.wait_for("[q]")
    screen.type("y")
    screen.wait_for("◆ 42")
    lines = screen.wait_for_prompt()
    told = [re.sub(r"[\d.e-]+ s$", "0.1 s", line) for line in lines[:-2]]
    told[0] = re.sub(r" [\d.]+\w*", "", told[0], count=1)
    assert told == [re.sub(r" *\r?$", "", line) for line in TALKS[locale].splitlines()]
    assert words("status.servers", up=1, all=1) in lines[-1] and words("status.tools", count=9) in lines[-1]
    lines = say(screen, "/tools", words("tools.sum", on=9, all=9, tokens="?", time="").partition(" ?")[0])
    assert any(line.split()[:3] == [words(f"tools.{key}") for key in ("number", "on", "server")] for line in lines)
    lines = say(screen, "/history", f"  {words('export.completed')}  ")
    screen.type("\x03")
    screen.wait_for(words("repl.leave_hint"))


@pytest.mark.parametrize("locale", LOCALES)
def test_the_help_stands_in_columns_at_each_width(locale: str, open_screen: OpenScreen, script: Script) -> None:
    words = load(locale[:2])
    screen = open_in(open_screen, locale, "--model", script("x"), "--no-servers", size=(110, 50))
    say(screen, "/help", words("help.more")[:30])
    rows = {command.names[0]: words(f"commands.{command.names[0][1:]}") for command in COMMANDS.values()}
    lines = screen.lines()
    places = {name: [line for line in lines if line.startswith(name) and line.endswith(rows[name])] for name in rows}
    assert {name for name, found in places.items() if not found} == set()
    starts = {cell_len(found[-1].removesuffix(rows[name])) for name, found in places.items()}
    assert len(starts) == 1
    narrow = open_in(open_screen, locale, "--model", "replies.json", "--no-servers", size=(40, 24))
    say(narrow, "/help", words("help.more")[-6:])
    shown = re.sub(r"\s", "", "".join(narrow.lines()))
    assert re.sub(r"\s", "", rows["/call"] + words("help.more")) in shown


@pytest.mark.usefixtures("asking")
def test_after_the_language_is_changed_the_next_line_is_in_the_new_one(open_screen: OpenScreen, script: Script) -> None:
    ja, zh, en = (load(code) for code in ("ja", "zh", "en"))
    model = script(call_text("calculate", expression="1 + 1"), "2.", call_text("calculate", expression="2 + 2"), "4.")
    screen = open_in(open_screen, "ja_JP.UTF-8", "--model", model)
    screen.type("一足す一は？\r")
    screen.wait_for(ja("question.run"))
    screen.type("n")
    screen.wait_for("◆ 2.")
    screen.wait_for_prompt()
    lines = say(screen, "/language zh", zh("language.name"))
    assert lines[-3] == zh("language.name")
    assert zh("status.servers", up=1, all=1) in lines[-1]
    screen.type("二加二？\r")
    screen.wait_for(zh("question.run"))
    lines = screen.lines()
    begun = lines[lines.index("> 二加二？") :]
    assert begun[1:3] == [zh("terminal.detected_one"), zh("question.call", server="board", tool="calculate")]
    screen.type("y")
    screen.wait_for(zh("terminal.completed", tool="calculate"))
    screen.wait_for("◆ 4.")
    screen.wait_for_prompt()
    say(screen, "/language en", en("language.name"))
    screen.type("\x03")
    screen.wait_for(en("repl.leave_hint"))


def test_the_command_line_wins_over_the_configuration_and_that_over_the_locale(
    open_screen: OpenScreen, script: Script, folder: Path
) -> None:
    model = script("x")
    (folder / "mcp_config.toml").write_text('[chat]\nlanguage = "zh"\n', encoding="utf-8")
    screen = open_in(open_screen, "ja_JP.UTF-8", "--model", model, "--no-servers")
    screen.wait_for(load("zh")("repl.hint"))
    screen = open_in(open_screen, "ja_JP.UTF-8", "--model", model, "--no-servers", "--language", "en")
    screen.wait_for(load("en")("repl.hint"))
    screen = open_in(open_screen, "ja_JP.UTF-8", "--model", model, "--no-servers", "--language", "auto")
    screen.wait_for(load("ja")("repl.hint"))


def test_a_terminal_that_cannot_move_its_cursor_speaks_it_too(open_screen: OpenScreen, script: Script) -> None:
    screen = open_screen("--model", script("はい。"), "--no-servers", TERM="dumb", LANG="ja_JP.UTF-8")
    screen.wait_for(load("ja")("repl.hint"))
    screen.type("東京？\n")
    screen.wait_for("◆ はい。")


def test_wide_characters_are_typed_wrapped_and_taken_back_whole(open_screen: OpenScreen, script: Script) -> None:
    screen = open_in(open_screen, "ja_JP.UTF-8", "--model", script("うん。"), "--no-servers", size=(21, 16))
    screen.type("東京の今")
    screen.wait_for("> 東京の今")
    assert screen.emulator.cursor.x == 2 + 8
    screen.type("の天気は何ですか")
    screen.wait_for("ですか")
    lines = screen.lines()
    start = next(number for number, line in enumerate(lines) if line.startswith("> 東京"))
    assert [line.strip() for line in lines[start : start + 2]] == ["> 東京の今の天気は何", "ですか"]
    screen.type("\x7f" * 4 + "\x1b[D\x1b[D\x7f気も\r")
    screen.wait_for("> 東京の今の気も気は")
    screen.wait_for("◆ うん。")


def test_an_answer_for_scripts_has_notices_in_the_language_and_keys_that_never_change(
    environment: dict[str, str], program: Run, script: Script
) -> None:
    model = script(call_text("calculate", expression="6 * 7"), "42 です。")
    asked = ("-p", "六かける七は？", "--model", model)
    plain = program(*asked)
    assert "[MCP: Tool 'calculate' completed]" in plain.stderr
    english = json.loads(program(*asked, "--output-format", "json").stdout)
    environment["LANG"] = "ja_JP.UTF-8"
    spoken = program(*asked)
    assert (spoken.stdout, plain.stdout) == ("42 です。\n",) * 2
    assert spoken.stderr.splitlines()[-1] == "[MCP: ツール 'calculate' 完了]"
    japanese = json.loads(program(*asked, "--output-format", "json").stdout)
    assert japanese["result"]["calls"][0]["status"] == english["result"]["calls"][0]["status"] == "completed"
    assert keys_of(japanese) == keys_of(english)


def keys_of(value: object) -> object:
    """A JSON value with its keys alone."""
    if isinstance(value, dict):
        return {key: keys_of(child) for key, child in value.items()}
    return [keys_of(child) for child in value] if isinstance(value, list) else None
