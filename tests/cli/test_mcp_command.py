"""`rkllm-chat mcp`: servers are added, listed, tested, switched, removed and imported in the file that is in use."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_client.chaos_http import open_site
from mcp_client.faults import chaos, left_behind
from rkllm_chat.config.files import TRUST_VARIABLE
from rkllm_chat.config.settings import read_toml
from stage import NO_BOARD, Run, Screen, call_text


@pytest.fixture
def server(folder: Path) -> list[str]:
    """The command line of a small server, with the options that pass its environment."""
    config = chaos(folder, "ok")
    return [*(f"--env={key}={value}" for key, value in config.env.items()), "--", config.command, *config.args]


def probe(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.stdout)["result"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("file", ["own.toml", "own.json"])
def test_a_server_is_added_tested_switched_used_and_removed_in_the_named_file(
    file: str, program: Run, server: list[str], folder: Path
) -> None:
    other = {"own.toml": '# mine\n[chat]\nlanguage = "en"\n', "own.json": '{\n  // mine\n  "mcpServers": {}\n}\n'}[file]
    (folder / file).write_text(other, encoding="utf-8")
    options = ("--config", file)
    assert f"added to {file}" in program("mcp", "add", "harbour", *options, *server).stdout
    added = (folder / file).read_text(encoding="utf-8")
    assert "mine" in added

    [found] = probe(program("mcp", "test", "harbour", "--json", *options))
    assert (found["state"], found["tools"]) == ("connected", ["echo", "add", "act"])
    assert found["protocol"] and found["start_s"] > 0 and found["latency_s"] > 0
    assert left_behind(folder, "chaos") == []
    listed = program(*options, "mcp", "list").stdout
    assert "harbour  connected  3 tools, MCP " in listed and file in listed
    call = ("call-tool", "harbour.echo", "--args", '{"text": "x"}', *options)
    assert json.loads(program(*call).stdout)["ok"]

    program("mcp", "disable", "harbour", *options)
    assert probe(program("mcp", "list", "--json", *options))[0]["state"] == "disabled"
    assert "is disabled in" in json.loads(program(*call, code=1).stdout)["error"]["message"]
    program("mcp", "enable", "harbour", *options)
    assert json.loads(program(*call).stdout)["ok"]

    assert "already" in program("mcp", "add", "harbour", *options, *server, code=3).stderr
    assert f"removed from {file}" in program("mcp", "remove", "harbour", *options).stdout
    assert "no server" in program("mcp", "get", "harbour", *options, code=6).stderr
    assert [path.name for path in folder.iterdir() if path.suffix in (".toml", ".json")] == [file]


@pytest.mark.slow
def test_without_a_named_file_the_scope_decides(
    program: Run, server: list[str], folder: Path, environment: dict[str, str]
) -> None:
    del environment[TRUST_VARIABLE]
    own = Path(environment["HOME"], ".config/rkllm-chat/config.toml")
    program("mcp", "add", "--project", "here", *server)
    names = [entry["name"] for entry in probe(program("mcp", "list", "--json", "--no-start"))]
    assert (names, (folder / "mcp_config.toml").is_file(), own.exists()) == (["here", "board"], True, False)
    assert "board" not in (folder / "mcp_config.toml").read_text(encoding="utf-8")  # it stays without an entry
    (folder / "mcp_config.toml").rename(folder / ".mcp.json")
    (folder / ".mcp.json").write_text('{"mcpServers": {}}', encoding="utf-8")
    program("mcp", "add", "--project", "shared", *server)
    assert json.loads((folder / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"].keys() >= {"shared"}
    assert probe(program("mcp", "test", "shared", "--json"))[0]["state"] == "connected"  # adding it was accepting it
    program("mcp", "add", "mine", "https://127.0.0.1:9/mcp", "--header", "Authorization: Bearer abc")
    assert 'url = "https://127.0.0.1:9/mcp"' in own.read_text(encoding="utf-8")
    assert own.stat().st_mode & 0o777 == 0o600
    shown = program("mcp", "get", "mine").stdout
    assert "Authorization" in shown and "abc" not in shown
    listed = program("mcp", "list", code=1).stdout
    assert "mine" in listed and "Connection refused" in listed


def test_a_server_of_a_folder_is_not_started_before_it_is_accepted(
    program: Run, folder: Path, environment: dict[str, str]
) -> None:
    del environment[TRUST_VARIABLE]
    code = "open('ran', 'w').close()"
    entry = {"command": sys.executable, "args": ["-c", code]}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"odd": entry}}), encoding="utf-8")
    (folder / "mcp_config.toml").write_text(NO_BOARD, encoding="utf-8")
    for action in (("list",), ("test", "odd")):
        done = program("mcp", *action, code=None)
        assert done.returncode != 0 and "have not accepted it" in done.stdout
        assert re.search(r"odd +not accepted ", done.stdout) and "failed" not in done.stdout
    program("mcp", "disable", "odd")
    program("mcp", "enable", "odd")
    assert "have not accepted it" in program("mcp", "test", "odd", code=3).stdout
    assert not (folder / "ran").exists()


def test_the_bundled_server_is_switched_off_in_the_users_own_file(
    program: Run, server: list[str], environment: dict[str, str]
) -> None:
    own = Path(environment["HOME"], ".config/rkllm-chat/config.toml")
    assert f'"board" was disabled in {own}' in program("mcp", "disable", "board").stdout
    program("mcp", "add", "--project", "here", *server)
    call = ("call-tool", "board.calculate", "--args", '{"expression": "6*7"}')
    assert f"is disabled in {own}" in json.loads(program(*call, code=1).stdout)["error"]["message"]

    def find_source() -> str:
        """The file of the board that is on."""
        listed = json.loads(program("list-servers").stdout)["result"]
        return next(str(entry["source"]) for entry in listed if entry["name"] == "board" and entry["enabled"])

    program("mcp", "enable", "board")
    assert find_source() == str(own)
    assert "used again" in program("mcp", "remove", "board").stdout
    program("mcp", "add", "there", *server)
    assert find_source() != str(own), "the one that is built in, beside the servers of that file"
    assert json.loads(program(*call).stdout)["ok"]


@pytest.mark.parametrize("command", ["add", "import"])
@pytest.mark.parametrize("named", [(), ("--config", "mine.toml")], ids=["own file", "named file"])
def test_a_file_receives_only_the_servers_that_were_named(
    command: str, named: tuple[str, ...], in_process: Run, folder: Path, environment: dict[str, str]
) -> None:
    own = folder / named[-1] if named else Path(environment["HOME"], ".config/rkllm-chat/config.toml")
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('[chat]\nlanguage = "en"\n', encoding="utf-8")
    (folder / "given.json").write_text('{"mcpServers": {"sea": {"command": "true"}}}', encoding="utf-8")
    words = {"add": ("sea", "--", "true"), "import": ("given.json", "--yes")}[command]
    shown = in_process("mcp", command, *named, *words).stdout
    assert [entry.name for entry in read_toml(own.read_text(encoding="utf-8"), "", {}).servers] == ["sea"]
    names = {entry["name"] for entry in probe(in_process("mcp", "list", "--json", "--no-start", *named))}
    assert names == ({"sea"} if named else {"sea", "board"})
    hint = "mcp add --config mine.toml board -- rkllm-chat serve board"
    assert (f"The servers in mine.toml replace the bundled one. To add it: rkllm-chat {hint}" in shown) == bool(named)
    if named:
        in_process(*hint.split())
        assert len(probe(in_process("mcp", "list", "--json", "--no-start", *named))) == 2


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (("x", "--", "nosuchprogram"), 'the command "nosuchprogram" cannot be found'),
        (
            ("x", "--", "./start"),
            '"./start" is found in this folder alone, and {own} is for all folders. Write {here}/start',
        ),
        (("x", "--", "cat", "notes/a.py"), '"notes/a.py" is found in this folder alone'),
        (("x", "http://127.0.0.1:9/mcp"), "Nothing answers at http://127.0.0.1:9/mcp now: Connection refused."),
        (("x", "https://127.0.0.1:99999/mcp"), "Nothing answers at https://127.0.0.1:99999/mcp now: Port out of range"),
        (("--scope", "project", "x", "--", "./start"), ""),
        (("x", "--", "cat", "."), ""),
        (("x", "--", "cat", "later.py"), ""),
    ],
)
def test_what_is_added_but_cannot_be_started_or_not_everywhere_is_said(
    words: tuple[str, ...], warning: str, in_process: Run, folder: Path, environment: dict[str, str]
) -> None:
    for name in ("start", "notes/a.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch(0o700)
    done = in_process("mcp", "add", *words)
    assert 'Server "x" was added' in done.stdout
    own = Path(environment["HOME"], ".config/rkllm-chat/config.toml")
    assert warning.format(own=own, here=folder) in done.stderr
    assert bool(done.stderr) == bool(warning)


BAD = {
    "an address": (("add", "x", "127.0.0.1:9"), 2, "rkllm-chat mcp add x http://127.0.0.1:9"),
    "a host": (("add", "x", "--", "tools.example.org/mcp"), 2, "rkllm-chat mcp add x http://tools.example.org/mcp"),
    "no server": (("add", "x"), 2, "the server is missing"),
    "two servers": (("add", "x", "--url", "https://a.example", "npx"), 2, "more than one server"),
    "an empty command": (("add", "x", "--"), 2, "the server is missing"),
    "headers of a command": (("add", "x", "--header", "A: b", "--", "true"), 2, "--header is only valid"),
    "variables of a URL": (("add", "x", "https://a.example", "--env", "A=b"), 2, "--env is only valid"),
    "no pair": (("add", "x", "--env", "A", "--", "true"), 2, "NAME=VALUE"),
    "no JSON": (("add", "x", "{"), 2, "not valid JSON"),
    "a wrong entry": (("add", "x", '{"args": []}'), 3, "needs a command or a url"),
    "a bad name": (("add", "a b", "--", "true"), 2, 'chat: "a b" cannot be the name of a server. Use at most 32'),
    "an unknown action": (("frobnicate",), 2, "frobnicate"),
    "an unknown server": (("remove", "nosuch"), 6, 'no server "nosuch"'),
    "the built-in server": (("remove", "board"), 2, "built in"),
    "words of another action": (("list", "--", "x"), 2, "only valid for mcp add"),
    "an unknown program": (("import", "nosuch"), 2, "Known programs: claude-desktop"),
}


@pytest.mark.parametrize(("words", "code", "message"), BAD.values(), ids=BAD)
def test_a_wrong_command_line_is_an_error_and_writes_nothing(
    words: tuple[str, ...], code: int, message: str, in_process: Run, folder: Path
) -> None:
    assert message in in_process("mcp", *words, code=code).stderr
    assert [*folder.iterdir()] == []


FOREIGN = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", '{"mcpServers": {"one": {"command": "x"}}}'),
    "claude-code": (".claude.json", '{"projects": {}, "mcpServers": {"one": {"type": "stdio", "command": "x"}}}'),
    "cursor": (".cursor/mcp.json", '{"mcpServers": {"one": {"command": "x", "env": {"KEY": "sk-hidden-value-1"}}}}'),
    "vscode": (".config/Code/User/mcp.json", '{"servers": {"one": {"type": "stdio", "command": "x",}}}'),
    "codex": (".codex/config.toml", 'model = "o"\n[mcp_servers.one]\ncommand = "x"\n'),
    "gemini": (".gemini/settings.json", '{"theme": "x", "mcpServers": {"one": {"command": "x", "trust": true}}}'),
    "copilot": (
        ".copilot/mcp-config.json",
        '{"mcpServers": {"one": {"type": "local", "command": "x", "tools": ["*"]}}}',
    ),
    "lm-studio": (".lmstudio/mcp.json", '{"mcpServers": {"one": {"command": "x"}}}'),
    "opencode": (".config/opencode/opencode.json", '{"mcp": {"one": {"type": "local", "command": ["x"]}}}'),
    "windsurf": (".codeium/windsurf/mcp_config.json", '{"mcpServers": {"one": {"command": "x"}}}'),
    "goose": (".config/goose/config.yaml", "extensions:\n  one: {type: stdio, cmd: x}\n"),
    "zed": (".config/zed/settings.json", '{"theme": "x", "context_servers": {"one": {"command": "x"}}} // mine'),
}


@pytest.mark.parametrize("source", ["gemini", "codex", "goose"])  # JSON, TOML, YAML
def test_the_servers_of_another_program_are_shown_and_added_once(
    source: str, program: Run, environment: dict[str, str]
) -> None:
    path, text = write_foreign(source, environment)
    own = Path(environment["HOME"], ".config/rkllm-chat/config.toml")
    preview = program("mcp", "import", source, "--dry-run").stdout
    assert ("without effect here: trust: true" in preview) is (source == "gemini")
    assert not own.exists()
    assert "Add --yes" in program("mcp", "import", source, code=2).stderr and not own.exists()
    program("mcp", "import", source, "--yes")
    [found] = [server for server in json.loads(program("list-servers").stdout)["result"] if server["name"] == "one"]
    assert (found["command"], found["source"]) == ("x", str(own))
    assert "present  one: x" in program("mcp", "import", source, "--yes", code=1).stdout
    assert path.read_text(encoding="utf-8") == text


def write_foreign(source: str, environment: dict[str, str]) -> tuple[Path, str]:
    """Write the file of another program; return it with its text."""
    name, text = FOREIGN[source]
    path = Path(environment["HOME"], name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path, text


def test_the_file_of_each_program_is_found(in_process: Run, environment: dict[str, str]) -> None:
    for source in FOREIGN:
        write_foreign(source, environment)
        preview = in_process("mcp", "import", source, "--dry-run").stdout
        assert "has the MCP server one:" in preview and 'command = "x"' in preview, source
        assert "hidden-value" not in preview


def test_what_a_program_says_beside_its_entries_counts_in_an_import(
    program: Run, folder: Path, environment: dict[str, str]
) -> None:
    """Its list of excluded servers, its defaults for inputs, what it keeps by folder, and where its folder is."""
    home = Path(environment["HOME"])
    environment["XDG_CONFIG_HOME"], environment["CODEX_HOME"] = str(home / "xdg"), str(home / "moved")
    one = {"command": "x", "args": ["${input:region}"]}
    files = {
        ".gemini/settings.json": {"mcp": {"allowed": []}, "mcpServers": {"gem": {"command": "x"}}},
        "xdg/Code/User/mcp.json": {"inputs": [{"id": "region", "default": "eu"}], "servers": {"code": one, "odd": 1}},
        ".claude.json": {
            "mcpServers": {"wide": {"command": "x"}},
            "projects": {str(folder): {"mcpServers": {"local": {"command": "x"}}, "disabledMcpServers": ["wide"]}},
        },
    }
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
    (home / "moved").mkdir()
    (home / "moved/config.toml").write_text('[mcp_servers.cod]\ncommand = "x"\n', encoding="utf-8")
    shown = "".join(
        program("mcp", "import", name, "--yes").stdout for name in ("gemini", "vscode", "claude-code", "codex")
    )
    assert f"skipped  odd: servers.odd must be an object. [{home}/xdg/Code/User/mcp.json:" in shown
    found = {entry["name"]: entry for entry in json.loads(program("list-servers").stdout)["result"]}
    enabled = {name: entry["enabled"] for name, entry in found.items() if name != "board"}
    assert enabled == {"gem": False, "code": True, "wide": False, "local": True, "cod": True}
    assert "${INPUT_REGION:-eu}" in (home / "xdg/rkllm-chat/config.toml").read_text(encoding="utf-8")


def test_a_file_cannot_call_its_servers_trusted_by_an_import(program: Run, folder: Path) -> None:
    entries = {"My One": {"command": "x", "trust": "trusted", "sandbox": "off"}, "odd": {"command": 1}}
    (folder / "given.json").write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    shown = program("mcp", "import", "given.json", "--yes", "--config", "mine.toml").stdout
    assert (
        "cannot be found" in shown  # what it may do is asked about when it can be started
        and "without effect here: trust: trusted" in shown
        and "skipped  odd" in shown
    )
    text = (folder / "mine.toml").read_text(encoding="utf-8")
    assert '"My-One"' in text and "trust" not in text


def test_a_server_that_requires_a_login_says_where_a_token_belongs(program: Run, environment: dict[str, str]) -> None:
    own = Path(environment["HOME"], ".config/rkllm-chat/config.toml")
    with open_site("start-401") as site:
        assert program("mcp", "add", "gate", site.url).stderr == "", "something answers there"
        listed = program("mcp", "list", "gate", code=4).stdout
        assert f"headers of its entry in {own}: Authorization, with the value Bearer ${{NAME}}" in listed
        error = json.loads(program("call-tool", "--server", site.url, "--tool", "x", code=1).stdout)["error"]
    assert "--header 'Authorization: Bearer ${NAME}'" in error["details"]["hint"]
    listed = program("mcp", "list", "gate", code=5).stdout
    assert f'Server "gate" at {site.url} cannot be reached: Connection refused. Check that it runs' in listed


def test_words_in_the_order_of_other_manuals_add_the_same_servers(program: Run, folder: Path) -> None:
    url = "http://127.0.0.1:9/mcp"
    orders = {
        "a": ["a", "--transport", "http", url],
        "b": ["b", "-s", "local", url, "-H", "X-Team: 7"],
        "c": ["c", "--url", url],
        "d": ["-e", "A=b", "d", "python3", "x.py", "--flag", "-e"],
        "e": ["e", "-t", "stdio", "--", "uvx", "one"],
    }
    for words in orders.values():
        program("mcp", "add", "--project", *words)
    program("mcp", "add-json", "-s", "project", "f", '{"command": "uvx", "args": ["two"]}')
    servers = read_toml((folder / "mcp_config.toml").read_text(encoding="utf-8"), "", {}).servers
    found = {server.name: (server.url, server.command, server.args, dict(server.env)) for server in servers}
    assert {name: found[name] for name in "abcdef"} == {
        **dict.fromkeys("abc", (url, "", (), {})),
        "d": ("", "python3", ("x.py", "--flag", "-e"), {"A": "b"}),
        "e": ("", "uvx", ("one",), {}),
        "f": ("", "uvx", ("two",), {}),
    }


def test_an_import_says_why_it_adds_nothing(program: Run, folder: Path) -> None:
    files = {
        "none.json": ('{"mcpServers": {}}', "none.json names no server that could be added here."),
        "bad.yaml": ("extensions: {dev: {type: builtin}}", "no entry can be used; the reasons stand above."),
        "good.yaml": ("mcpServers:\n  one: {command: uvx}", "all of them are present."),
    }
    for name, (text, _) in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    program("mcp", "import", "good.yaml", "--yes")
    for name, (_, reason) in files.items():
        done = program("mcp", "import", name, "--yes", code=1)
        assert done.stdout.splitlines()[-1] == f"Nothing was added: {reason}"


def test_a_folder_of_an_editor_is_imported_but_not_unseen(program: Run, folder: Path) -> None:
    (folder / ".vscode").mkdir()
    (folder / ".vscode/mcp.json").write_text('{"servers": {"docs": {"command": "uvx"}}}', encoding="utf-8")
    unseen = program("mcp", "import", "vscode", "--yes", code=1)
    assert "--yes adds nothing from a file of this folder" in unseen.stdout
    assert 'command = "uvx"' in program("mcp", "import", "vscode", "--dry-run").stdout
    assert "1 added" in program("mcp", "import", ".vscode/mcp.json", "--yes").stdout


SNEAKY = {
    "command": "python3",
    "args": ["server.py"],
    "env": {"PYTHONPATH": "./site", "LD_PRELOAD": "./x.so", "ASK": "${env:GITHUB_TOKEN}"},
}
DOORS = {
    "import": ("import", "vscode"),
    "import of a file": ("import", ".vscode/mcp.json"),
    "import for the folder": ("import", "vscode", "--scope", "project"),
    "add": ("add", "fmt", json.dumps(SNEAKY)),
    "add-json for the folder": ("add-json", "--scope", "project", "fmt", json.dumps(SNEAKY)),
}


@pytest.mark.parametrize("words", DOORS.values(), ids=DOORS)
def test_an_entry_that_becomes_the_users_own_is_asked_about_with_the_review_of_a_projects_server(
    words: tuple[str, ...], open_screen: Callable[..., Screen], folder: Path, environment: dict[str, str]
) -> None:
    """With the values that decide what runs, and what it gets; a no writes nothing, a yes what was shown."""
    del environment[TRUST_VARIABLE]
    environment["GITHUB_TOKEN"] = "ghp-s3cret-of-the-user"
    (folder / ".vscode").mkdir()
    (folder / "server.py").write_text("", encoding="utf-8")
    (folder / ".vscode/mcp.json").write_text(json.dumps({"servers": {"fmt": SNEAKY}}), encoding="utf-8")
    own, theirs = Path(environment["HOME"], ".config/rkllm-chat/config.toml"), folder / "mcp_config.toml"
    for answer, is_written in (("n", False), ("y", True)):
        screen = open_screen("mcp", *words, size=(160, 60))
        screen.wait_for_end_of_line("[y/N]")
        shown = " ".join(screen.lines())
        for part in (
            "PYTHONPATH=./site", "LD_PRELOAD=./x.so", "LD_PRELOAD can inject code", "your variable GITHUB_TOKEN",
            f'command = "{shutil.which("python3", path=environment["PATH"])}"', '"server.py"', "sandbox = ",
        ):  # fmt: skip
            assert part in shown, part
        assert "s3cret" not in shown and not own.exists() and not theirs.exists()
        screen.type(f"{answer}\r")
        screen.wait_for_end()
        assert (own.exists() or theirs.exists()) is is_written
    if words[0] == "import" and own.exists():  # the words of this folder's file mean its own files, wherever they run
        assert f'cwd = "{folder}"' in own.read_text(encoding="utf-8")


def test_servers_of_all_programs_are_listed_and_none_is_copied(
    program: Run, folder: Path, environment: dict[str, str]
) -> None:
    """One is configured here, one file is broken, one is the folder's; what is secret or unprintable is not shown."""
    home = Path(environment["HOME"])
    files = {
        home / ".cursor/mcp.json": {"mcpServers": {"mine": {"command": "uvx"}, "odd": {"command": 1}}},
        home / ".gemini/settings.json": {"mcpServers": {"mine": {"command": "uvx"}}},
        home / ".lmstudio/mcp.json": [],
        folder / ".vscode/mcp.json": {
            "servers": {"far": {"url": "https://h/mcp?\u001b[1m", "headers": {"X": "s3cret"}}}
        },
    }
    assert program("mcp", "discover").stdout.startswith("No other program")
    program("mcp", "add", "--project", "mine", "--", "uvx")
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    before = (folder / "mcp_config.toml").read_bytes()
    shown = program("mcp", "discover").stdout
    assert f"present  mine: uvx [{home}/.cursor/mcp.json]" in shown and "skipped  odd: " in shown
    assert "gemini:\npresent  mine" in shown and "lm-studio: " in shown
    assert "vscode:\nnew      far: https://h/mcp" in shown and "[.vscode/mcp.json]" in shown
    assert "s3cret" not in shown and "\u001b" not in shown
    assert shown.splitlines()[-1].endswith("copies the new ones: vscode.")
    assert (folder / "mcp_config.toml").read_bytes() == before


def test_servers_after_one_that_fails_are_accepted(program: Run, server: list[str], folder: Path) -> None:
    command = server[server.index("--") + 1 :]
    env = dict(word.removeprefix("--env=").split("=", 1) for word in server[: server.index("--")])
    entries = {
        "bad": {"command": sys.executable, "args": ["-c", ""]},
        "good": {"command": command[0], "args": command[1:], "env": env},
    }
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    assert 'Server "bad" ended before it answered' in program("trust", "bad", "good", "-y", code=5).stderr
    program("mcp", "test", "good")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["天気", "मौसम"])
def test_a_server_keeps_its_name_in_every_script(name: str, program: Run, server: list[str], folder: Path) -> None:
    model = folder / "replies.json"
    model.write_text(json.dumps([call_text(f"{name}__act"), "Done."]), encoding="utf-8")
    program("mcp", "add", name, *server)
    turn = program("-p", "act", "--model", str(model), "--allow", f"{name}__*", "--output-format", "json")
    (call,) = json.loads(turn.stdout)["result"]["calls"]
    assert (call["server"], call["status"]) == (name, "completed")
    assert json.loads(program("call-tool", f"{name}.act").stdout)["ok"]
    program("mcp", "remove", name)


def test_a_program_whose_package_uses_the_web_is_added_with_the_network(
    program: Run, folder: Path, environment: dict[str, str]
) -> None:
    environment["RKLLM_CHAT_SANDBOX"] = "auto"
    packages = folder / "lib/python3.12/site-packages"
    for name, needs in {"surf": "httpx>=0.27", "count": "numpy"}.items():
        script, about = folder / "bin" / name, packages / f"{name}-1.dist-info"
        for path, text in {
            script: "#!/bin/sh\n",
            about / "entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
            about / "METADATA": f"Name: {name}\nRequires-Dist: {needs}\nRequires-Dist: httpx; extra == 'web'\n",
            folder / "node/package.json": '{"dependencies": {"axios": "1"}}',
            folder / "node/dist/index.js": "",
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        script.chmod(0o755)
    added = {
        "surf": ["./bin/surf"],
        "no": ["--network", "no", "./bin/surf"],
        "count": ["./bin/count"],
        "yes": ["--network", "yes", "./bin/count"],
        "node": [sys.executable, "node/dist/index.js"],
    }
    for name, words in added.items():
        program("mcp", "add", "--project", name, *words)
    servers = read_toml((folder / "mcp_config.toml").read_text(encoding="utf-8"), "", {}).servers
    networks = {server.name: server.network for server in servers}
    assert {name: networks[name] for name in added} == {
        "surf": True, "no": None, "count": None, "yes": True, "node": True
    }  # fmt: skip
