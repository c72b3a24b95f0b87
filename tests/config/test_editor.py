"""Servers and settings written into a configuration file and taken out of it; all else stays to the byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat.config.editor import (
    add_server,
    remove_server,
    save_setting,
    set_enabled,
)
from rkllm_chat.config.loader import read_settings
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
    started = {"url": server.url} if server.url else {"command": server.command, "args": [*server.args]}
    add_server({"name": server.name, **started}, path, {"HOME": str(tmp_path)})
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
    remove_server(name, path, {"HOME": str(tmp_path)})
    assert path.read_text(encoding="utf-8") == left
    assert path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["mcp_config.toml"]


@pytest.mark.parametrize(
    ("name", "text", "file"),
    [
        ("four", THREE, "mcp_config.toml"),
        ("one", 'servers = [{name = "one", command = "one-server"}]\n', "mcp_config.toml"),
        ("two", '{"mcpServers": {"one": {"command": "one-server"}}}', "mcp.json"),
        ("one", "{mcpServers: {one: {command: 'one-server'}}}", "mcp.json"),
    ],
    ids=["unknown", "an inline table", "unknown in JSON", "JSON5"],
)
def test_what_cannot_be_taken_out_is_left_as_it_is(name: str, text: str, file: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=name):
        remove_server(name, path, {"HOME": str(tmp_path)})
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
    save_setting(table, name, value, path, {"HOME": str(tmp_path)})
    assert path.read_bytes().decode() == (SETTINGS.replace(old, new, 1) if old else SETTINGS)


def test_the_first_setting_creates_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    for key, value in (("top_k", 3), ("seed", 4)):
        save_setting("generation", key, value, path, {"HOME": str(tmp_path)})
    assert path.read_text(encoding="utf-8") == "[generation]\nseed = 4\ntop_k = 3\n"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_folder_that_cannot_be_made_is_an_error_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"config\.toml cannot be written: Not a directory"):
        save_setting("generation", "top_k", 3, tmp_path / "file/new/config.toml", {"HOME": str(tmp_path)})


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


NEW = {"name": "new", "command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "${TOKEN}", "a b": 'quote "\\'}}
NEW_TOML = """[[servers]]
name = "new"
command = "npx"
args = ["-y", "server"]
env = { TOKEN = "${TOKEN}", "a b" = "quote \\"\\\\" }
"""
TWO_SPACES = """{
  // of the team
  "mcpServers": {
    "one": {"command": "one-server"}, // first
    "two": {
      "command": "two-server",
      "args": ["{", "}", "//"]
    } /* last */
  },
  "theme": "dark"
}
"""
NEW_TWO_SPACES = """
    "new": {
      "command": "npx",
      "args": [
        "-y",
        "server"
      ],
      "env": {
        "TOKEN": "${TOKEN}",
        "a b": "quote \\"\\\\"
      }
    }"""
TABS = '{\r\n\t"servers": {\r\n\t\t"one": {"command": "one-server"},\r\n\t},\r\n}\r\n'
INLINE = '{"mcpServers": {"one": {"command": "one-server"}, "two": {"command": "two-server"}}}'
NEW_INLINE = '"new": {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "${TOKEN}", "a b": "quote \\"\\\\"}}'


def edit(path: Path, before: str, change: Callable[[Path], None]) -> str:
    """The text of a file after a change."""
    path.write_bytes(before.encode())
    change(path)
    return path.read_bytes().decode()


ADDITIONS = {
    "TOML": ("c.toml", THREE, f"{THREE}\n{NEW_TOML}"),
    "TOML without a line break at its end": ("c.toml", THREE[:-1], f"{THREE}\n{NEW_TOML}"),
    "TOML of Windows": (
        "c.toml",
        THREE.replace("\n", "\r\n"),
        f"{THREE}\n{NEW_TOML}".replace("\n", "\r\n"),
    ),
    "JSON with comments": (
        "c.json",
        TWO_SPACES,
        TWO_SPACES.replace("} /* last */", "}, /* last */" + NEW_TWO_SPACES),
    ),
    "tabs, a trailing comma and CRLF": (
        "c.json",
        TABS,
        TABS.replace('server"},', 'server"},' + NEW_TWO_SPACES.replace("\n", "\r\n").replace("  ", "\t") + ","),
    ),
    "one line": ("c.json", INLINE, INLINE.replace("}}}", "}, " + NEW_INLINE + "}}")),
    "no server yet": (
        "c.json",
        '{\n  "mcpServers": {}\n}\n',
        '{\n  "mcpServers": {' + NEW_TWO_SPACES + "\n  }\n}\n",
    ),
}


@pytest.mark.parametrize(("name", "before", "after"), ADDITIONS.values(), ids=ADDITIONS)
def test_an_added_server_follows_the_style_of_its_file_and_can_be_removed(
    name: str, before: str, after: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    assert edit(path, before, lambda path: add_server(NEW, path, {"HOME": str(tmp_path)})) == after
    with pytest.raises(ConfigError, match='a server "new" already'):
        add_server(NEW, path, {"HOME": str(tmp_path)})
    assert path.read_bytes().decode() == after
    remove_server("new", path, {"HOME": str(tmp_path)})
    left = path.read_bytes().decode()
    if name == "c.json" and before != ADDITIONS["no server yet"][1]:
        assert left == before
    else:
        assert left.strip() == before.strip() or left == '{\n  "mcpServers": {\n  }\n}\n'


def test_a_name_of_another_program_is_kept_in_json(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    add_server({"name": "My Weather", "command": "x"}, path, {"HOME": str(tmp_path)})
    [server] = read_settings(path, {}).servers
    assert (server.name, server.original_name) == ("My-Weather", "My Weather")


def test_a_missing_file_is_made_for_its_user_alone(tmp_path: Path) -> None:
    for name in ("new/c.toml", "new/c.json"):
        path = tmp_path / name
        add_server(NEW, path, {"HOME": str(tmp_path)})
        assert path.stat().st_mode & 0o777 == 0o600
        set_enabled("new", False, path, {"HOME": str(tmp_path)})
        assert not read_settings(path, {"TOKEN": "x"}).servers[0].enabled


REMOVALS = {
    "first of many lines": (
        TWO_SPACES,
        "one",
        TWO_SPACES.replace('    "one": {"command": "one-server"}, // first\n', ""),
    ),
    "last of many lines": (
        TWO_SPACES,
        "two",
        TWO_SPACES[: TWO_SPACES.index('    "two"')].replace("}, // first", "} // first")
        + TWO_SPACES[TWO_SPACES.index('  },\n  "theme') :],
    ),
    "first of a line": (INLINE, "one", '{"mcpServers": {"two": {"command": "two-server"}}}'),
    "last of a line": (INLINE, "two", '{"mcpServers": {"one": {"command": "one-server"}}}'),
    "only one": (TABS, "one", '{\r\n\t"servers": {\r\n\t},\r\n}\r\n'),
}


@pytest.mark.parametrize(("before", "server", "after"), REMOVALS.values(), ids=REMOVALS)
def test_a_server_is_taken_out_of_json_and_the_rest_stays(before: str, server: str, after: str, tmp_path: Path) -> None:
    assert edit(tmp_path / "c.json", before, lambda path: remove_server(server, path, {"HOME": str(tmp_path)})) == after


SWITCHES = {
    "a new key in TOML": ("c.toml", THREE, "two", THREE.replace('name = "two"\n', 'name = "two"\nenabled = false\n')),
    "a new key in JSON": (
        "c.json",
        TWO_SPACES,
        "two",
        TWO_SPACES.replace('"//"]\n', '"//"],\n      "disabled": true\n'),
    ),
    "a new key on one line": ("c.json", INLINE, "one", INLINE.replace('one-server"', 'one-server", "disabled": true')),
    "a key in JSON": (
        "c.json",
        '{"mcpServers": {"one": {"disabled": false /* why */, "command": "x"}}}',
        "one",
        '{"mcpServers": {"one": {"disabled": true /* why */, "command": "x"}}}',
    ),
    "the key of another program": (
        "c.json",
        '{"mcp": {"one": {"type": "local", "command": ["x"], "enabled": true}}}',
        "one",
        '{"mcp": {"one": {"type": "local", "command": ["x"], "enabled": false}}}',
    ),
    "an unusual name": (
        "c.json",
        '{"mcpServers": {"My Weather": {"command": "x"}}}',
        "My-Weather",
        '{"mcpServers": {"My Weather": {"command": "x", "disabled": true}}}',
    ),
}


@pytest.mark.parametrize(("name", "before", "server", "after"), SWITCHES.values(), ids=SWITCHES)
def test_a_server_is_disabled_and_enabled_by_one_key(
    name: str, before: str, server: str, after: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    assert edit(path, before, lambda path: set_enabled(server, False, path, {"HOME": str(tmp_path)})) == after
    set_enabled(server, True, path, {"HOME": str(tmp_path)})
    assert path.read_bytes().decode() == after.replace("true", "false").replace(
        "enabled = false", "enabled = true"
    ).replace('"enabled": false', '"enabled": true')


def test_a_comment_above_the_next_entry_stays_and_subtables_go(tmp_path: Path) -> None:
    text = THREE.replace('\n[[servers]]\nname = "three"', '\n# the third\n[[servers]]\nname = "three"')
    left = edit(tmp_path / "c.toml", text, lambda path: remove_server("two", path, {"HOME": str(tmp_path)}))
    assert left == text[: text.index('[[servers]]\nname = "two"')] + text[text.index("# the third") :]


@pytest.mark.parametrize("text", ["{", '{"mcpServers": []}', '{"theme": 1}', "{mcpServers: {a: {command: 'x'}}}"])
def test_a_file_that_cannot_be_read_is_not_written(text: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError):
        add_server(NEW, path, {"HOME": str(tmp_path)})
    assert path.read_text(encoding="utf-8") == text
