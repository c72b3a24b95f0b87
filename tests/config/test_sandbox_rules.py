"""What the user has allowed servers is kept by server; a known server is found by how it is started."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from rkllm_chat.config.sandbox_rules import Allowance, find_allowance, find_known, find_own_rules, save_allowance
from rkllm_chat.config.servers import ServerConfig
from rkllm_chat.config.value_checks import MAX_FILE_BYTES
from rkllm_chat.core.errors import ConfigError

MEMORY = "@modelcontextprotocol/server-memory"


def test_what_one_server_is_allowed_replaces_only_what_it_was_allowed_before(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    servers = [ServerConfig(name, source=f"/{name}.json") for name in ("one", "two")]
    rules = Path(find_own_rules(environment))
    rules.parent.mkdir(parents=True)
    rules.write_text('{"known": [{"names": ["tide", "t"], "reason": "reads tide tables"}]}', encoding="utf-8")
    allowances = [Allowance("one", "/one.json", ("/one",)), Allowance("two", "/two.json", network=True)]
    for allowance in allowances:
        save_allowance(allowance, environment)
    assert [find_allowance(server, environment) for server in servers] == allowances
    nothing = Allowance("one", "/one.json")
    save_allowance(nothing, environment)
    assert [find_allowance(server, environment) for server in servers] == [nothing, allowances[1]]
    assert find_known(["tide"], environment) and find_known(["npx", "t@1"], environment)
    assert [row["server"] for row in json.loads(rules.read_text(encoding="utf-8"))["allowed"]] == ["two"]


@pytest.mark.parametrize(
    ("command", "is_known"),
    [
        (["npx", "-y", MEMORY], True),
        (["npx", f"{MEMORY}@1.2"], True),
        (["node", f"/srv/node_modules/{MEMORY}/dist/index.js"], True),
        (["node", f"/srv/{MEMORY}/dist/index.js"], False),
        (["node", MEMORY], False),
        (["uvx", "mcp-server-fetch==1.0"], True),
        (["python3", "-m", "mcp_server_fetch"], True),
        (["python3", "mcp_server_fetch"], False),
        (["mcp-server-fetch"], True),
    ],
    ids=str,
)
def test_a_known_server_is_found_by_its_program_package_or_module(
    command: list[str], is_known: bool, tmp_path: Path
) -> None:
    assert (find_known(command, {"HOME": str(tmp_path)}) is not None) is is_known


def test_rules_that_are_too_large_are_refused_whatever_they_begin_with(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    rules = Path(find_own_rules(environment))
    rules.parent.mkdir(parents=True)
    for extra in (0, 1):
        rules.write_text("{}".ljust(MAX_FILE_BYTES + extra), encoding="utf-8")
        with pytest.raises(ConfigError) if extra else nullcontext():
            find_known(["tide"], environment)
