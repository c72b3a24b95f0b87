"""One entry that cannot be used is skipped alone, and every command names it with file, line and reason."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_client.faults import chaos
from rkllm_chat.config.entry_edits import render_toml_entry
from rkllm_chat.config.loader import load_settings
from rkllm_chat.core.errors import ConfigError
from stage import PROGRAM, OpenScreen, Run, call_text

REASON = "mcpServers.odd.args must be a list of texts, not 3."
GOOD = "name = 'good'\ncommand = 'x'\n"
PLACE = 'mcp.json:4: server "odd" is skipped'


@pytest.fixture
def mixed(folder: Path) -> Path:
    """A file of the user's own with a good server of an unusual name, and one that cannot be used."""
    good = chaos(folder, "ok")
    entry = {"command": good.command, "args": list(good.args), "env": dict(good.env)}
    entry["autoApprove"] = ["echo"]
    lines = ['{"mcpServers": {', f'"My Weather": {json.dumps(entry)},', "", '"odd": {"command": "x", "args": 3}', "}}"]
    (folder / "mcp.json").write_text("\n".join(lines), encoding="utf-8")
    return folder


# What is wrong, the file, and the place that is named for it.
PLACES = {
    "a value of an entry": ("c.toml", "\n[[servers]]\nname = 'one'\ncommand = 3\n", "c.toml:4: "),
    "an unknown key of an entry": ("c.toml", "[[servers]]\nname = 'one'\n# command\ncomand = 'x'\n", "c.toml:4: "),
    "the name of the second entry": ("c.toml", f"[[servers]]\n{GOOD}[[servers]]\n\nname = 'a b'\n", "c.toml:6: "),
    "an entry without a command": ("c.toml", f"[[servers]]\n{GOOD}\n[[servers]]\nname = 'one'\n", "c.toml:5: "),
    "a value of a JSON entry": ("c.json", '{"mcpServers": {\n"a.b": {\n"args": [],\n"command": 3}}}', "c.json:4: "),
    "a key that no entry has": ("c.json", '{"mcpServers": {\n"one":\n3}}', "c.json:2: "),
    "a setting": ("c.toml", "# chat\n[chat]\n\nmax_steps = 'x'\n", "c.toml:4: chat.max_steps must be"),
    "a number out of its range": ("c.toml", "[chat]\n[generation]\ntop_k = -5\n", "c.toml:3: generation.top_k must be"),
    "an unknown setting": ("c.toml", "[chat]\nbell = true\nmodle = 'x'\n", 'c.toml:3: unknown key "chat.modle"'),
    "a word that is no choice": ("c.toml", "[chat]\ntheme = 'x'\n", "c.toml:2: chat.theme is"),
}


@pytest.mark.parametrize(("name", "text", "place"), PLACES.values(), ids=PLACES)
def test_an_error_names_the_line_of_what_is_wrong(name: str, text: str, place: str, folder: Path) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    try:
        (skipped,) = load_settings(str(folder / name)).skipped
        said = str(skipped.make_error())
    except ConfigError as error:
        said = str(error)
    assert said.startswith(f"{folder}/{place}"), said


@pytest.mark.slow
def test_every_command_uses_the_good_server_and_names_the_other(
    mixed: Path, program: Run, environment: dict[str, str], script: Callable[..., str]
) -> None:
    environment["RKLLM_CHAT_CONFIG"] = "mcp.json"
    note = f"{PLACE}: {REASON}"

    done = program("-p", "hi", "--model", script("Hello."))
    assert (done.stdout, done.returncode) == ("Hello.\n", 0)
    assert note in done.stderr
    listed = json.loads(program("list-servers").stdout)
    assert [(server["name"], server["original_name"]) for server in listed["result"]] == [("My-Weather", "My Weather")]
    assert (listed["notices"], listed["result"][0]["not_obeyed"]) == ([note], ["autoApprove: echo"])
    for name in ("My-Weather", "My Weather"):
        called = json.loads(program("call-tool", "--server", name, "--tool", "echo", "--args", '{"text": "x"}').stdout)
        assert called["ok"] is True and called["notices"][0] == note
    assert json.loads(program("call-tool", "My Weather.echo", "--args", '{"text": "x"}').stdout)["ok"] is True
    broken = json.loads(program("call-tool", "odd.echo", code=1).stdout)["error"]
    assert (broken["type"], broken["message"], broken["details"]["line"]) == ("ConfigError", note, 4)

    command = [*PROGRAM[:-1], "rkllm_chat.cli.mcp_tool", "My-Weather__echo", "--text", "x"]
    tool = subprocess.run(command, cwd=mixed, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (tool.returncode, tool.stderr.splitlines()[0]) == (0, f"mcp-tool: {note}")
    checked = program("doctor", code=1).stdout
    assert "wrong server odd" in checked and f"mcp.json:4: the entry is skipped: {REASON}" in checked
    assert "autoApprove: echo" in checked


@pytest.mark.slow
@pytest.mark.usefixtures("mixed")
def test_the_chat_names_the_skipped_entry_and_the_original_name(
    open_screen: OpenScreen, script: Callable[..., str]
) -> None:
    screen = open_screen("--config", "mcp.json", "--model", script("Hello."))
    screen.wait_for('mcp.json:4: server "odd" is skipped')
    screen.wait_for("Servers: My-Weather.")
    screen.say("/mcp list\r", "My-Weather (My Weather)", "skipped")
    screen.wait_for("[MCP: of server 'My-Weather' has no effect here: autoApprove: echo]")


@pytest.mark.slow
@pytest.mark.usefixtures("mixed")
def test_what_another_program_approves_is_still_asked_about(program: Run, script: Callable[..., str]) -> None:
    model = script(call_text("echo", text="x"), "Done.")
    done = program("-p", "hi", "--model", model, "--config", "mcp.json", code=None)
    assert "not called: it needs your permission" in done.stderr and "completed" not in done.stderr
    done = program("-p", "hi", "--model", model, "--config", "mcp.json", "--allow", "echo")
    assert "Tool 'echo' completed" in done.stderr


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("My Weather", "My-Weather"),
        ("io.github.x/y", "io-github-x-y"),
        ("a__b", "a_b"),
        ("x" * 33, "x" * 23 + "-6fbfd3ac"),
        ("天気", "天気"),
        ("天 気 🚀", "天-気"),
        ("ｍｃｐ", "mcp"),
        ("🚀", "server-377bd7c6"),
        ("", "server-00000000"),
        ("-v", "v"),
        ("plain_name-1", "plain_name-1"),
    ],
)
def test_a_server_of_any_name_gets_one_that_tools_can_have(name: str, slug: str, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {name: {"command": "x"}}}), encoding="utf-8")
    [server] = load_settings(str(path), {}).servers
    assert (server.name, server.original_name) == (slug, name if slug != name else "")


def test_two_names_that_become_one_stay_two_servers(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    entries = {"a.b": {"command": "first"}, "a b": {"command": "second"}}
    path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    found = {server.original_name: server for server in load_settings(str(path), {}).servers}
    assert {name: server.command for name, server in found.items()} == {"a.b": "first", "a b": "second"}
    assert found["a.b"].name == "a-b" and found["a b"].name.startswith("a-b-")


TOML = """
[[servers]]
name = "good"
command = "x"

[[servers]]  # comments may stand here
name = "bad name"
command = "y"

[[servers]]
name = "good"
command = "z"

[[servers]]
name = "unset"
command = "x"
env = { A = "${NOT_SET}" }
"""


def test_each_entry_of_a_toml_file_stands_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(TOML, encoding="utf-8")
    settings = load_settings(str(path), {})
    assert [(server.name, server.command) for server in settings.servers] == [("good", "x")]
    assert [(entry.original_name, entry.line) for entry in settings.skipped] == [
        ("bad name", 7),
        ("good", 10),
        ("unset", 14),
    ]
    assert "uses the variable NOT_SET, which is not set" in settings.skipped[2].reason


def test_an_entry_that_cannot_be_used_still_replaces_a_farther_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the nearer entry meant to change is unknown, so the farther one does not run in its place."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    own = tmp_path / ".config/rkllm-chat/config.toml"
    own.parent.mkdir(parents=True)
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "far"}}}', encoding="utf-8")
    own.write_text('[[servers]]\nname = "a"\ncommand = "near"\nenabled = "no"\n', encoding="utf-8")
    settings = load_settings(environment={"HOME": str(tmp_path)})
    assert ([server.name for server in settings.servers], [entry.name for entry in settings.skipped]) == (
        ["board"],
        ["a"],
    )
    own.unlink()
    Path("mcp.json").write_text('{"mcpServers": {"a": {"command": 1}}}', encoding="utf-8")  # a project's hides nothing
    settings = load_settings(environment={"HOME": str(tmp_path)})
    assert [server.command for server in settings.servers] == ["far", "rkllm-chat"]
    assert [entry.location for entry in settings.skipped] == ["mcp.json:1"]


def test_a_repeated_key_spoils_its_entry_alone_but_a_repeated_server_or_root_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"a": {"command": "x"},\n"b": {"command": "x", "command": "y"}}}', encoding="utf-8")
    settings = load_settings(str(path), {})
    assert [server.name for server in settings.servers] == ["a"]
    assert [(entry.name, entry.line) for entry in settings.skipped] == [("b", 2)]
    assert '"command" occurs twice' in settings.skipped[0].reason
    for text in (
        '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}',
        '{"mcpServers": {}, "mcpServers": {"a": {"command": "y"}}}',
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match="occurs twice"):
            load_settings(str(path), {})


def test_entries_beyond_the_limit_are_skipped_together(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {f"s{i}": {"command": "x"} for i in range(70)}}), encoding="utf-8")
    settings = load_settings(str(path), {})
    assert len(settings.servers) == 64
    assert [entry.original_name for entry in settings.skipped] == ["6 more"]


def test_a_folders_file_that_is_meant_for_something_else_stops_nothing(
    program: Run, folder: Path, script: Callable[..., str], environment: dict[str, str]
) -> None:
    """A plugin's entries without a root key, or another program's file of the same name."""
    environment["RKLLM_CHAT_TRUST_PROJECT"] = "0"
    good = chaos(folder, "ok")
    entry = {"name": "good", "command": good.command, "args": good.args, "env": good.env}
    (folder / ".mcp.json").write_text(json.dumps({"plugin": {"command": "${PLUGIN_ROOT}/x"}}), encoding="utf-8")
    (folder / "mcp.json").write_text("[]", encoding="utf-8")
    (folder / "mcp_servers.json").write_text("{}", encoding="utf-8")
    (folder / "mcp_config.toml").write_text(render_toml_entry(entry), encoding="utf-8")
    notes = [f'{name}: the file is skipped: no "mcpServers" object.' for name in (".mcp.json", "mcp.json")]
    done = program("-p", "hi", "--model", script("Hello."), "--server", "good")
    assert done.stdout == "Hello.\n" and [note for note in notes if note not in done.stderr] == []
    program("trust", "--yes", "good")
    called = json.loads(program("call-tool", "good.echo", "--args", '{"text": "x"}').stdout)
    assert called["ok"] and [note.rpartition(" Try")[0] for note in called["notices"]] == notes
    assert "warn  server" in program("doctor", "--model", "replies.json", code=None).stdout
    named = program("list-servers", "--config", "mcp.json", code=1)
    assert (
        'no "mcpServers" object' in json.loads(named.stdout)["error"]["message"]
    )  # a file that is named explicitly is meant to be read


def test_a_server_is_added_to_an_empty_object(in_process: Run, folder: Path) -> None:
    (folder / ".mcp.json").write_text("{}\n", encoding="utf-8")
    in_process("mcp", "add", "--project", "one", "--", "true")
    entries = json.loads((folder / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    assert entries["one"] == {"command": "true", "args": []}
