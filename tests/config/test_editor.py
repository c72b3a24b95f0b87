"""Servers and settings written into a configuration file and taken out of it; all else stays to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from rkllm_chat.config.editor import append_entry, plan_addition, remove_server, render_entry, save_setting
from rkllm_chat.config.settings import ServerConfig, read_toml
from rkllm_chat.core.errors import ConfigError

THREE = """# mine
[chat]
language = "en"

[[servers]]  # the first
name = "one"
command = "one-server"

[[servers]]
name = "two"
command = "two-server"
args = ["[[servers]]", "name = 'one'"]
[servers.env]
TOKEN = "${TOKEN:-none}"

[[servers]]
name = "three"
url = "https://three.example.org/mcp"
"""
TWO_AT, THREE_AT = (THREE.index(f'[[servers]]\nname = "{name}"') for name in ("two", "three"))


@pytest.mark.parametrize(
    "server",
    [
        ServerConfig("plain", command="server"),
        ServerConfig("words", command="/opt/my server", args=("--flag", 'with "quotes"', "日本語", "\\back\x7f")),
        ServerConfig("remote", url="https://example.org/mcp?x=1"),
    ],
    ids=lambda server: server.name,
)
def test_what_is_added_is_read_back(server: ServerConfig, tmp_path: Path) -> None:
    path = tmp_path / "mcp_config.toml"
    path.write_text(THREE.rstrip("\n"), encoding="utf-8")
    append_entry(plan_addition(render_entry(server), server.name, path, {}), path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith(THREE.rstrip("\n"))
    found = read_toml(text, "", {}).servers[-1]
    assert found == server


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("one", THREE.replace('[[servers]]  # the first\nname = "one"\ncommand = "one-server"\n\n', "")),
        (
            "two",
            THREE[: THREE.index('[[servers]]\nname = "two"')] + THREE[THREE.index('[[servers]]\nname = "three"') :],
        ),
        ("three", THREE[: THREE.index('[[servers]]\nname = "three"')]),
    ],
)
def test_a_server_is_taken_out_and_the_rest_stays(name: str, left: str, tmp_path: Path) -> None:
    path = tmp_path / "mcp_config.toml"
    path.write_text(THREE, encoding="utf-8")
    path.chmod(0o600)
    remove_server(name, path, {})
    assert path.read_text(encoding="utf-8") == left
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["mcp_config.toml"]


@pytest.mark.parametrize(
    ("name", "text", "file"),
    [
        ("four", THREE, "mcp_config.toml"),
        ("one", 'servers = [{name = "one", command = "one-server"}]\n', "mcp_config.toml"),
        ("one", '{"mcpServers": {"one": {"command": "one-server"}}}', "mcp.json"),
    ],
    ids=["unknown", "an inline table", "JSON"],
)
def test_what_cannot_be_taken_out_is_left_as_it_is(name: str, text: str, file: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=name):
        remove_server(name, path, {})
    assert path.read_text(encoding="utf-8") == text


SETTINGS = (
    "[chat]  # mine\r\n"
    'system = "no # comment"  # a comment\r\n'
    "[generation]\n"
    "top_k = 3\n"
    "\n"
    "[policy]\n"
    "deny = [\n"
    '  "drop_*",  # top_k = 4\n'
    "]\n"
    "[[servers]]\n"
    'name = "one"\n'
    'command = "one-server"\n'
    "[servers.env]\n"
    'temperature = "1"\n'
    "top_p = '''\n"
    "max_tokens = 3\n"
    "'''"
)


@pytest.mark.parametrize(
    ("key", "value", "old", "new"),
    [
        ("chat.system", 'say "hi" \x7f', '"no # comment"', '"say \\"hi\\" \\u007f"'),
        ("chat.language", "ja", "# mine\r\n", '# mine\r\nlanguage = "ja"\n'),
        ("generation.top_k", 40, "top_k = 3", "top_k = 40"),
        ("generation.top_k", None, "top_k = 3\n", ""),
        ("generation.seed", None, "", ""),
        ("generation.temperature", 0.2, "[generation]", "[generation]\ntemperature = 0.2"),
        ("generation.max_tokens", 9, "[generation]", "[generation]\nmax_tokens = 9"),
        ("policy.deny", ("a", "b"), '[\n  "drop_*",  # top_k = 4\n]', '["a", "b"]'),
    ],
)
def test_a_setting_is_written_and_the_rest_stays(key: str, value: object, old: str, new: str, tmp_path: Path) -> None:
    path, (table, _, name) = tmp_path / "config.toml", key.partition(".")
    path.write_bytes(SETTINGS.encode())
    save_setting(table, name, value, path, {})
    assert path.read_bytes().decode() == (SETTINGS.replace(old, new, 1) if old else SETTINGS)


def test_the_first_setting_creates_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    for key, value in (("top_k", 3), ("seed", 4)):
        save_setting("generation", key, value, path, {})
    assert path.read_text(encoding="utf-8") == "[generation]\nseed = 4\ntop_k = 3\n"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize(
    ("text", "value"),
    [("generation.top_k = 3\n", 4), ("[generation]\nseed = 1\n", "${HOME}"), ("[generation", 4)],
    ids=["a dotted key", "a reference", "no TOML"],
)
def test_a_setting_that_cannot_be_written_changes_nothing(text: str, value: object, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    table, key = ("generation", "top_k") if value == 4 else ("chat", "system")
    with pytest.raises(ConfigError, match=r"config\.toml"):
        save_setting(table, key, value, path, {"HOME": "/home/someone"})
    assert path.read_text(encoding="utf-8") == text
