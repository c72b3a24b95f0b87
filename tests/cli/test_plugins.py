"""Plugins of other packages: the example is built by pip, installed and used; broken ones are named and skipped."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stage import PROGRAM, Screen, Script

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
Use = Callable[..., "subprocess.CompletedProcess[str]"]
NO_SERVERS = ("--no-servers",)


@pytest.fixture
def use(environment: dict[str, str], folder: Path, tmp_path: Path) -> Use:
    """Run `rkllm-chat` with the packages of the folder `packages` installed."""
    (tmp_path / "packages").mkdir()

    def run(*arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            env={**environment, "PYTHONPATH": str(tmp_path / "packages")},
            cwd=folder,
            timeout=30,
            check=False,
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    return run


def announce(tmp_path: Path, entry_points: str, package: str = "spoilt") -> None:
    """Install a package without files that announces these entry points."""
    information = tmp_path / "packages" / f"{package}-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n", encoding="utf-8")
    (information / "entry_points.txt").write_text(entry_points, encoding="utf-8")


def install_example(tmp_path: Path) -> Path:
    """Build the example with pip, install it into the folder `packages` and return that."""
    source = shutil.copytree(EXAMPLE, tmp_path / "source")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", tmp_path / "packages", source], check=True, timeout=60)
    return tmp_path / "packages"


@pytest.mark.slow
def test_the_example_is_installed_and_used(use: Use, tmp_path: Path, folder: Path) -> None:
    packages = install_example(tmp_path)
    listed = json.loads(use("plugins", "--json").stdout)["result"]["lines"]
    assert [(line["state"], line["name"], line["value"].partition(":")[0]) for line in listed] == [
        ("ok", "plugin", "backend parrot"),
        ("ok", "plugin", "format angle"),
        ("ok", "plugin", "command greet"),
        ("ok", "plugin", "server dice"),
        ("ok", "plugin", "slash command shout"),
        ("ok", "plugin", "export questions"),
        ("ok", "plugin", "transport dice"),
    ]
    for words, completed in (
        (["gr"], "greet"),
        (["serve", "di"], "dice"),
        (["--set", "backend=par"], "backend=parrot"),
        (["--set", "tool_format=ang"], "tool_format=angle"),
    ):
        assert use("completion", "words", "--", *words).stdout == f"{completed}\n"
    assert use("greet", "Ada").stdout == "Hello, Ada!\n"
    assert "who is greeted" in use("help", "greet").stdout
    assert use("-p", "Polly wants a cracker", "--backend", "parrot", *NO_SERVERS).stdout == "Polly wants a cracker\n"
    (folder / "own.toml").write_text('[chat]\nbackend = "parrot"\n', encoding="utf-8")
    rows = json.loads(use("doctor", "--json", "--config", "own.toml", code=None).stdout)["result"]["lines"]
    assert [(row["state"], row["value"]) for row in rows if row["name"] == "model"] == [
        ("ok", "engine parrot, parrot, repeats what is said")
    ]
    assert not [row for row in rows if row["name"] in ("engine", "instructions", "template", "context")]
    assert "\nparrot: parrot\n" in use("doctor", "--speed", "--config", "own.toml").stdout
    call = '<<call {"name": "calculate", "arguments": {"expression": "6 * 7"}} call>>'
    result = json.loads(
        use("-p", call, "--backend", "parrot", "--tool-format", "angle", "--output-format", "json").stdout
    )["result"]
    assert result["calls"][0]["text"].endswith("= 42")
    server = f"{sys.executable} -m rkllm_chat serve dice --sides 1"
    options = ("--args", '{"count": 3}', "--select", "structured", "--stdio", server)
    rolled = use("call-tool", *options, "--env", f"PYTHONPATH={packages}", "--tool", "roll")
    assert json.loads(rolled.stdout)["result"] == {"result": [1, 1, 1]}
    entry = {"url": "dice://1", "type": "dice", "env": {"PYTHONPATH": str(packages)}}
    for name, answer in (("dice", '"structuredContent": {"result": [1, 1]}'), ("disc", "there is no transport")):
        (folder / "own.json").write_text(json.dumps({"mcpServers": {"d": {**entry, "type": name}}}), encoding="utf-8")
        assert answer in use("call-tool", "d.roll", "count:=2", "--config", "own.json", code=None).stdout


@pytest.mark.slow
def test_a_chat_has_the_commands_and_exports_of_the_example(
    open_screen: Callable[..., Screen], environment: dict[str, str], folder: Path, tmp_path: Path
) -> None:
    """A terminal, as slash commands are typed."""
    (tmp_path / "packages").mkdir()
    environment["PYTHONPATH"] = str(install_example(tmp_path))
    screen = open_screen("--backend", "parrot", *NO_SERVERS)
    screen.wait_for_prompt()
    screen.enter("/shout quiet", "QUIET")
    screen.enter("/help shout", "show a text in capital letters")
    screen.enter("Who is there?", "◆ Who is there?")
    screen.enter("/export questions asked.txt", "asked.txt")
    assert (folder / "asked.txt").read_text(encoding="utf-8") == "Who is there?\n"
    screen.enter("/export question", "md, json, questions")


@pytest.mark.slow
def test_a_broken_plugin_is_named_and_the_rest_works(use: Use, tmp_path: Path) -> None:
    announce(
        tmp_path,
        "[rkllm_chat.commands]\ngone = no_such_module\nempty = json\nchat = antigravity\n"
        "[rkllm_chat.backends]\nlost = json:no_such_function\n",
    )
    lines = use("plugins", code=1).stdout.splitlines()
    assert [line.split()[:4] for line in lines[:2]] == [
        ["ok", "plugin", "backend", "lost:"],
        ["wrong", "plugin", "command", "chat:"],
    ]
    assert "spoilt 0.1" in lines[0] and "The name is built in; the plugin is not used." in lines[2] and len(lines) == 5
    assert "  backend lost: spoilt 0.1 (json:no_such_function) (not tried)\n" in use("doctor", code=1).stdout
    assert use("gone", code=3).stderr == (
        'rkllm-chat: The command "gone" of spoilt 0.1 cannot be loaded: ModuleNotFoundError: '
        "No module named 'no_such_module'. Install another version of that package, or remove it.\n"
    )
    assert "no make_parser and no main" in use("empty", code=3).stderr
    assert "no_such_function" in use("-p", "x", "--backend", "lost", *NO_SERVERS, code=3).stderr
    assert "Did you mean gone?" in use("gones", code=2).stderr
    assert json.loads(use("list-servers").stdout)["ok"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
        ("raise RuntimeError('\\x1b[2Jgone\\u202e')", "RuntimeError: "),
        ("def f(): f()\nf()", "RecursionError"),
        ("def __getattr__(name): raise ValueError(name)", "ValueError: make_parser"),
        ("x = ", "SyntaxError"),
        ("class Odd(BaseException): ...\nraise Odd('x')", "Odd: x"),
        ("raise ValueError('x' * 5000)", "ValueError: xxx"),
        ("print('NOISE')", "odd_module has no make_parser"),
    ],
)
def test_whatever_a_plugin_does_at_import_is_an_error_with_its_name(
    source: str, reason: str, use: Use, tmp_path: Path
) -> None:
    """Processes, as a module that exits would end the one of the test."""
    announce(tmp_path, "[rkllm_chat.commands]\nodd = odd_module\n")
    (tmp_path / "packages/odd_module.py").write_text(source, encoding="utf-8")
    done = use("odd", code=3)
    assert f'The command "odd" of spoilt 0.1 cannot be loaded: {reason}' in done.stderr
    assert (done.stdout, "Traceback" in done.stderr, "\x1b" in done.stderr) == ("", False, False)
    assert len(done.stderr) < 700


FUNCTION = """
from rkllm_chat.backends import BaseBackend, Engine
from rkllm_chat.core.errors import ModelError

class Echo(BaseBackend):
    async def generate(self, prompt, generation):
        yield prompt[-1].text

def open_echo(settings):
    return Echo()

class Missing(Engine):
    def check(self, settings):
        raise ModelError("The weights are missing.", "Get them.")

missing = Missing()
"""


@pytest.mark.slow
def test_an_engine_is_a_function_or_says_itself_what_it_lacks(use: Use, tmp_path: Path, folder: Path) -> None:
    announce(
        tmp_path, "[rkllm_chat.backends]\necho = echoes:open_echo\nmissing = echoes:missing\nnone = echoes:__doc__\n"
    )
    (tmp_path / "packages/echoes.py").write_text(FUNCTION, encoding="utf-8")
    assert use("-p", "Hello?", "--backend", "echo", *NO_SERVERS).stdout == "Hello?\n"
    (folder / "own.toml").write_text('[chat]\nbackend = "missing"\n', encoding="utf-8")
    shown = use("doctor", "--config", "own.toml", code=1).stdout
    assert "The weights are missing." in shown and "Get them." in shown and "tiny-tools" not in shown
    assert "is no function and has no open" in use("-p", "x", "--backend", "none", *NO_SERVERS, code=3).stderr


def test_without_plugins_the_list_is_empty(use: Use, script: Script) -> None:
    assert use("plugins").stdout == "Nothing was found.\n"
    assert "plugin" not in use("doctor", "--model", script("Hello.")).stdout
