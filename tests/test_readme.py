"""The blocks of the README run, and its session is reproduced by the model."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from fork_server import run
from rkllm_chat.config.settings import Settings, read_json, read_toml
from rkllm_chat.core.i18n import list_languages
from rkllm_chat.mcp_servers import BUNDLED
from rkllm_chat.tui.slash_commands import COMMANDS
from stage import PROGRAM, Screen

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
BLOCKS = FENCE.findall(README)
FOREIGN = {"--check", "--no-x", "--place", "--expression", "--dangerously-skip-permissions"}
TRANSLATED = {code: ROOT / f"README.{code}.md" for code in list_languages() if code != "en"}
MOMENT = re.compile(r"\d\d:\d\d on \w+, \d+ \w+ \d{4}|[\d.e-]+ s$")


def blocks(kind: str) -> list[str]:
    found = [text for name, text in BLOCKS if name == kind]
    assert found, f"the README has no {kind} block"
    return found


def test_the_first_screen_has_the_two_commands() -> None:
    assert blocks("bash")[0].splitlines() == ["pip install . && rkllm-chat", "pip install '.[test]' && pytest"]
    assert README.index("```bash") < README.index("\n## ")


@pytest.mark.parametrize("text", [*blocks("toml"), (ROOT / "mcp_config.toml").read_text(encoding="utf-8")])
def test_configuration_examples_are_valid(text: str) -> None:
    assert read_toml(text, "README.md", {"HOME": "/home/someone"}) != Settings()


@pytest.mark.parametrize("text", blocks("json"))
def test_configuration_examples_of_other_programs_are_valid(text: str) -> None:
    assert read_json(text, "README.md", {}).servers


@pytest.mark.model
def test_the_recorded_session_is_reproduced(environment: dict[str, str], folder: Path) -> None:
    recorded = blocks("console")[0].splitlines()
    screen = Screen([], environment, folder)
    try:
        screen.wait_for("for commands, Ctrl+D to exit")
        if any("is still starting]" in line for line in screen.lines()):  # on a busy machine
            screen.wait_for("is connected]", 30)
        lines = screen.wait_for_prompt()
        for question in [line for line in recorded if line.startswith("> ")]:
            screen.type(question[2:] + "\r")
            screen.wait_for(question)
            lines = screen.wait_for_prompt()
        session = lines[lines.index(recorded[0]) : -2]
    finally:
        screen.close()
    assert [MOMENT.sub("NOW", line) for line in session] == [MOMENT.sub("NOW", line) for line in recorded]


@pytest.mark.model
@pytest.mark.parametrize("command", [line for text in blocks("bash")[1:] for line in text.splitlines()])
def test_shell_commands_run(command: str, environment: dict[str, str], folder: Path) -> None:
    (folder / "harbour.py").write_text(next(text for text in blocks("python") if "harbour" in text), encoding="utf-8")
    own = next(text for text in blocks("toml") if "harbour.py" in text)
    (folder / "own.toml").write_text(own.replace('"python"', json.dumps(sys.executable)), encoding="utf-8")
    if "harbour" in command:
        environment = {**environment, "RKLLM_CHAT_CONFIG": "own.toml"}
    program, *arguments = shlex.split(command)
    assert program == "rkllm-chat"
    done = run([*PROGRAM, *arguments], env=environment, cwd=folder, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("2.4 metres" if "harbour" in command else "Asia/Tokyo") in done.stdout


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("Chat.sync", ["6 * 7 = 42"]),
        ("MCPClient", ["get_time", "42"]),
        ("ToolCallScanner", ["CallFound", "'city': 'Oslo'"]),
    ],
)
def test_the_library_examples_run(name: str, output: list[str], environment: dict[str, str], folder: Path) -> None:
    code = next(text for text in blocks("python") if name in text)
    done = run([sys.executable, "-c", code], env=environment, cwd=folder, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stderr
    assert all(text in done.stdout for text in output)


def test_contributing_lists_every_package() -> None:
    _, listed, *_ = re.split(r"^```(?:text)?$", CONTRIBUTING.partition("## Architecture")[2], flags=re.MULTILINE)
    packages = {f"{path.parent.name}/" for path in (ROOT / "rkllm_chat").glob("*/__init__.py")}
    assert {line.split()[0] for line in listed.splitlines() if line} == {"__main__", *packages}


@pytest.mark.slow
def test_every_option_in_the_examples_exists() -> None:
    names = [["serve", name] for name in BUNDLED]
    helps = [[], *names, ["new-server"], ["call-tool"], ["bench"], ["doctor"]]
    others = [[sys.executable, "-m", module] for module in ("tests.bench", "rkllm_chat.cli.mcp_tool")]
    commands = [[*one, "--help"] for one in (*([*PROGRAM, *one] for one in helps), *others)]
    shown = [run(one, cwd=ROOT, encoding="utf-8") for one in commands]
    assert [done.stderr for done in shown if done.returncode] == []
    help_text = "".join(done.stdout for done in shown)
    for option in set(re.findall(r"(?<![\w-])--[a-z][\w-]+", README)) - FOREIGN:
        assert option in help_text, option


@pytest.mark.parametrize("code", TRANSLATED)
def test_a_translated_first_page_shows_the_same_commands_and_the_same_session(code: str) -> None:
    text = TRANSLATED[code].read_text(encoding="utf-8")
    own = FENCE.findall(text)
    shown, first_page = ([block for block in page if block[0] in ("bash", "console")] for page in (own, BLOCKS))
    assert shown[:3] == first_page[:3]
    assert shown == [block for block in first_page if block in shown]
    assert all(read_toml(block, "README", {"HOME": "/home/someone"}).servers for kind, block in own if kind == "toml")


@pytest.mark.parametrize("code", TRANSLATED)
def test_a_translated_first_page_names_only_what_exists(code: str) -> None:
    text = TRANSLATED[code].read_text(encoding="utf-8")
    assert set(re.findall(r"`(/\w+)[ `]", text)) <= set(COMMANDS)
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]+", text)) <= set(re.findall(r"--[a-z][\w-]+", README))
    assert all((ROOT / path).exists() for path in re.findall(r"\]\(([^)]+)\)", text))


@pytest.mark.parametrize("code", list_languages())
def test_each_first_page_links_to_the_others(code: str) -> None:
    pages = {"en": ROOT / "README.md", **TRANSLATED}
    links = pages[code].read_text(encoding="utf-8").splitlines()[2]
    assert re.findall(r"\]\(([^)]+)\)", links) == [page.name for other, page in pages.items() if other != code]
