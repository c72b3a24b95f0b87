"""Files as other programs write them, one shape each in `shapes`, and the servers that they give.

The shapes follow the documentation of the programs that their names begin with; names, addresses and keys are made up.
`expected.json` has for each file the values of its servers that are no defaults, and the entries that are skipped with
their lines.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config.files import find_servers
from rkllm_chat.config.foreign_files import read_foreign_servers
from rkllm_chat.config.loader import load_settings
from rkllm_chat.config.servers import ServerConfig
from rkllm_chat.core.errors import ConfigError

SHAPES = Path(__file__).parent / "shapes"
EXPECTED = json.loads((SHAPES / "expected.json").read_text(encoding="utf-8"))
ENVIRONMENT = {"HOME": "/home/me", "API_KEY": "s3cret", "DB_CONNECTION_STRING": "postgres://db", "PATH": "/usr/bin"}
HIDDEN = ("name", "source", "origin", "replaces", "place")


def describe(server: ServerConfig, folder: Path) -> dict[str, Any]:
    """The values of a server that are no defaults; the current folder is written as `<folder>`."""
    default = ServerConfig(server.name)
    names = [field.name for field in fields(server) if field.name not in HIDDEN]
    values = {name: getattr(server, name) for name in names if getattr(server, name) != getattr(default, name)}
    if "oauth" in values:
        values["oauth"] = {key: value for key, value in vars(values["oauth"]).items() if value}
    text = json.dumps(values, default=dict).replace(str(folder), "<folder>").replace(folder.name, "<name>")
    found: dict[str, Any] = json.loads(text)
    return found


NAMES = sorted(path.name for path in SHAPES.iterdir() if path.name != "expected.json")


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith(".toml")])
def test_a_file_of_another_program_gives_its_servers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ("given.yaml" if name.endswith(".yaml") else "given.jsonc")
    path.write_bytes((SHAPES / name).read_bytes())
    if "error" in EXPECTED[name]:
        with pytest.raises(ConfigError, match=EXPECTED[name]["error"]):
            load_settings(str(path), ENVIRONMENT)
        return
    settings = load_settings(str(path), ENVIRONMENT)
    found: dict[str, Any] = {
        "servers": {server.name: describe(server, tmp_path) for server in settings.servers},
        "skipped": [f"{entry.line} {entry.original_name}: {entry.reason}" for entry in settings.skipped],
    }
    assert found == EXPECTED[name]
    if not settings.skipped:  # a one-shot command reads the same servers
        assert {*find_servers(str(path), ENVIRONMENT).servers} == {server.name for server in settings.servers}
    imported, _ = read_foreign_servers(str(path), ENVIRONMENT)
    assert found["servers"].keys() - {"board"} <= {server.name for server in imported}


def test_the_tables_of_codex_are_imported(tmp_path: Path) -> None:
    servers, skipped = read_foreign_servers(str(SHAPES / "codex.toml"), ENVIRONMENT)
    found = {
        "servers": {server.name: describe(server, tmp_path) for server in servers},
        "skipped": [f"{entry.original_name}: {entry.reason}" for entry in skipped],
    }
    assert found == EXPECTED["codex.toml"]
