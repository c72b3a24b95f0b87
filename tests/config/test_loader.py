"""Which configuration files are found, in which order, and the errors of those that cannot be read."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from rkllm_chat.config.files import find_servers
from rkllm_chat.config.loader import load_settings, read_settings, state_folder
from rkllm_chat.config.servers import BOARD_SERVER
from rkllm_chat.config.settings import Settings
from rkllm_chat.config.trust_rules import Origin
from rkllm_chat.core.errors import ConfigError, ServerNotFoundError

# the farthest first
FILES = [
    "home/.mcp.json",
    "home/.config/rkllm-chat/config.toml",
    "work/.claude/mcp.json",
    "work/.mcp.json",
    "work/mcp.json",
    "work/mcp_servers.json",
    "work/mcp_config.toml",
]


def write_server(path: Path, name: str, command: str, variable: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f'[[servers]]\nname = "{name}"\ncommand = "{command}"\n'
    env = {variable: command} if variable else {}
    if env:
        text += f'env = {{ {variable} = "{command}" }}\n'
    if path.suffix == ".json":
        text = json.dumps({"mcpServers": {name: {"command": command, "env": env}}})
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An empty home and an empty current folder."""
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return {"HOME": str(tmp_path / "home")}


def test_the_nearest_file_wins(tmp_path: Path, environment: dict[str, str]) -> None:
    for name in FILES:
        write_server(tmp_path / name, "sea", name)
        assert load_settings(environment=environment).servers[0].command == name


def test_the_servers_of_all_files_are_merged_with_their_source(tmp_path: Path, environment: dict[str, str]) -> None:
    for i, name in enumerate(FILES):
        write_server(tmp_path / name, f"s{i}", "x")
    found = {server.name: server.source for server in load_settings(environment=environment).servers}
    home = {f"s{i}": str(tmp_path / name) for i, name in enumerate(FILES[:2])}
    work = {f"s{i + 2}": name.removeprefix("work/") for i, name in enumerate(FILES[2:])}
    assert found == {**home, **work, "board": BOARD_SERVER.source}


def test_the_variables_of_a_server_are_merged_among_the_files_of_one_owner(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    variables = {f"V{i}": name for i, name in enumerate(FILES)}
    for variable, name in variables.items():
        write_server(tmp_path / name, "sea", name, variable)
    server, _ = load_settings(environment=environment).servers
    assert server.env == {variable: name for variable, name in variables.items() if name.startswith("work/")}
    assert server.replaces == str(tmp_path / FILES[1])
    for name in FILES[2:]:
        (tmp_path / name).unlink()
    server, _ = load_settings(environment=environment).servers
    assert (server.env, server.replaces) == ({"V0": FILES[0], "V1": FILES[1]}, "")


@pytest.mark.parametrize("place", FILES)
def test_the_board_server_stays_unless_it_is_named_or_the_only_file_lists_others(
    place: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    """Who wrote a server into a file named it not to be rid of the bundled one."""
    write_server(tmp_path / place, "sea", "x")
    assert BOARD_SERVER in load_settings(environment=environment).servers
    found = find_servers(environment=environment)
    assert [*found.servers.values()] == [*load_settings(environment=environment).servers]
    alone = str(tmp_path / place)
    assert BOARD_SERVER not in load_settings(alone, environment).servers
    with pytest.raises(ServerNotFoundError) as caught:
        find_servers(alone, environment).get("board")
    assert f"{alone} replace" in caught.value.hint
    assert f"mcp add --config {alone} board -- rkllm-chat serve board" in caught.value.hint
    write_server(tmp_path / place, "board", "")  # skipped: it has no command
    assert load_settings(environment=environment).servers == ()


def test_without_servers_in_files_the_board_server_is_used(tmp_path: Path, environment: dict[str, str]) -> None:
    assert load_settings(environment=environment) == Settings(servers=(BOARD_SERVER,))
    (tmp_path / "work/mcp_config.toml").write_text('[chat]\nmodel = "m.gguf"\n', encoding="utf-8")
    assert load_settings(environment=environment) == Settings(model="m.gguf", servers=(BOARD_SERVER,))


@pytest.mark.parametrize("by_variable", [False, True], ids=["by option", "by variable"])
def test_a_named_file_is_read_alone(by_variable: bool, tmp_path: Path, environment: dict[str, str]) -> None:
    write_server(tmp_path / "work/mcp_config.toml", "near", "x")
    write_server(tmp_path / "named.json", "named", "x")
    named = str(tmp_path / "named.json")
    if by_variable:
        found = load_settings(environment={**environment, "RKLLM_CHAT_CONFIG": named})
    else:
        found = load_settings(named, {**environment, "RKLLM_CHAT_CONFIG": str(tmp_path / "nothing.toml")})
    assert [server.name for server in found.servers] == ["named"]


def test_an_invalid_file_is_never_skipped(tmp_path: Path, environment: dict[str, str]) -> None:
    write_server(tmp_path / "home/.mcp.json", "far", "x")
    (tmp_path / "work/mcp.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^mcp\.json: not valid JSON"):
        load_settings(environment=environment)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'[chat]\nmodel = "\xff"', "not UTF-8 (byte 16)"),
        ('model = "x"'.encode("utf-16"), "not UTF-8 (byte 0)"),
        (None, "No such file"),
        ("folder", "Is a directory"),
    ],
    ids=["one bad byte", "UTF-16", "no file", "a folder"],
)
def test_a_file_that_cannot_be_read_is_an_error_with_its_cause(
    content: bytes | str | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.toml"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_settings(path, {})
    assert caught.value.message.startswith(f"{path}: {words}")
    assert caught.value.details["path"] == str(path)


@pytest.mark.parametrize("name", ["c.toml", "c.json"])
def test_a_byte_order_mark_is_ignored(name: str, tmp_path: Path) -> None:
    write_server(tmp_path / name, "sea", "x")
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [server.name for server in read_settings(path, {}).servers] == ["sea"]


def test_the_state_folder_follows_the_xdg_specification_and_lies_where_others_cannot_make_it() -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir
    for environment in (dict[str, str](), {"HOME": ""}):
        assert state_folder(environment) == Path(f"{home}/.local/state/rkllm-chat")
    assert state_folder({"HOME": "/home/me"}) == Path("/home/me/.local/state/rkllm-chat")
    assert state_folder({"HOME": "/home/me", "XDG_STATE_HOME": "/state"}) == Path("/state/rkllm-chat")
    assert state_folder({"HOME": "/home/me", "XDG_STATE_HOME": "state"}) == Path("/home/me/.local/state/rkllm-chat")


def test_a_shared_file_of_a_folder_is_the_projects_and_that_of_the_home_the_users(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_server(tmp_path / "work/.mcp.json", "sea", "project")
    write_server(tmp_path / "home/.mcp.json", "lake", "own")
    found = {server.name: server.origin for server in load_settings(environment=environment).servers[:-1]}
    assert found == {"sea": Origin.PROJECT, "lake": Origin.OTHER_PROGRAM}
    monkeypatch.chdir(tmp_path / "home")
    found = {server.name: server.origin for server in load_settings(environment=environment).servers[:-1]}
    assert found == {"lake": Origin.OTHER_PROGRAM}


def test_the_users_own_file_follows_the_xdg_specification(tmp_path: Path, environment: dict[str, str]) -> None:
    write_server(tmp_path / "xdg/rkllm-chat/config.toml", "sea", "xdg")
    write_server(tmp_path / "home/.config/rkllm-chat/config.toml", "sea", "home")
    for value, command in ((str(tmp_path / "xdg"), "xdg"), ("xdg", "home"), ("", "home")):
        server, _ = load_settings(environment={**environment, "XDG_CONFIG_HOME": value}).servers
        assert (server.command, server.origin) == (command, Origin.USER)
