"""Which files are found, in which order, and what is said of one that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rkllm_chat.config import Settings
from rkllm_chat.discover import BOARD, find_settings, read_settings, state_folder
from rkllm_chat.errors import ConfigError

# the farthest first, as the contract lists them
FILES = [
    "home/.mcp.json",
    "home/.config/rkllm-chat/config.toml",
    "work/.claude/mcp.json",
    "work/mcp.json",
    "work/mcp_servers.json",
    "work/mcp_config.toml",
]


def write_server(path: Path, name: str, command: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f'[[servers]]\nname = "{name}"\ncommand = "{command}"\n'
    if path.suffix == ".json":
        text = json.dumps({"mcpServers": {name: {"command": command}}})
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An empty home and an empty current folder."""
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return {"HOME": str(tmp_path / "home")}


def test_without_any_file_the_board_server_is_there(environment: dict[str, str]) -> None:
    assert find_settings(environment=environment) == Settings(servers=(BOARD,))


@pytest.mark.parametrize("nearest", range(len(FILES)), ids=FILES)
def test_the_nearest_file_wins(nearest: int, tmp_path: Path, environment: dict[str, str]) -> None:
    for name in FILES[: nearest + 1]:
        write_server(tmp_path / name, "sea", name)
    assert [server.command for server in find_settings(environment=environment).servers] == [FILES[nearest]]


def test_the_servers_of_all_files_are_joined_and_know_their_file(tmp_path: Path, environment: dict[str, str]) -> None:
    for i, name in enumerate(FILES):
        write_server(tmp_path / name, f"s{i}", "x")
    found = {server.name: server.source for server in find_settings(environment=environment).servers}
    home = {f"s{i}": str(tmp_path / name) for i, name in enumerate(FILES[:2])}
    work = {f"s{i + 2}": name.removeprefix("work/") for i, name in enumerate(FILES[2:])}
    assert found == {**home, **work}


def test_a_file_that_names_no_server_leaves_the_board_server(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "work/mcp_config.toml").write_text('[chat]\nmodel = "m.gguf"\n', encoding="utf-8")
    assert find_settings(environment=environment) == Settings(model="m.gguf", servers=(BOARD,))


@pytest.mark.parametrize("by_variable", [False, True], ids=["by option", "by variable"])
def test_a_named_file_is_read_alone(by_variable: bool, tmp_path: Path, environment: dict[str, str]) -> None:
    write_server(tmp_path / "work/mcp_config.toml", "near", "x")
    write_server(tmp_path / "named.json", "named", "x")
    named = str(tmp_path / "named.json")
    if by_variable:
        found = find_settings(environment={**environment, "RKLLM_CHAT_CONFIG": named})
    else:
        found = find_settings(named, {**environment, "RKLLM_CHAT_CONFIG": str(tmp_path / "nothing.toml")})
    assert [server.name for server in found.servers] == ["named"]


def test_a_bad_file_is_never_passed_over(tmp_path: Path, environment: dict[str, str]) -> None:
    write_server(tmp_path / "home/.mcp.json", "far", "x")
    (tmp_path / "work/mcp.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^mcp\.json: not valid JSON"):
        find_settings(environment=environment)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'[chat]\nmodel = "\xff"', "not UTF-8 (byte 16)"),
        ('model = "x"'.encode("utf-16"), "not UTF-8 (byte 0)"),
        (None, "No such file"),
    ],
    ids=["one bad byte", "UTF-16", "no file"],
)
def test_a_file_that_cannot_be_read_is_named_with_the_cause(content: bytes | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_settings(path, {})
    assert caught.value.message.startswith(f"{path}: {words}")
    assert caught.value.details["path"] == str(path)


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        read_settings(tmp_path, {})


@pytest.mark.parametrize("name", ["c.toml", "c.json"])
def test_a_byte_order_mark_is_no_fault(name: str, tmp_path: Path) -> None:
    write_server(tmp_path / name, "sea", "x")
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [server.name for server in read_settings(path, {}).servers] == ["sea"]


def test_state_is_kept_where_the_desktop_rules_say() -> None:
    assert state_folder({"HOME": "/home/me"}) == Path("/home/me/.local/state/rkllm-chat")
    assert state_folder({"HOME": "/home/me", "XDG_STATE_HOME": "/state"}) == Path("/state/rkllm-chat")
