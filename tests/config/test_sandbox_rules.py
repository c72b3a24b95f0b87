"""What the user has allowed servers is kept by server; a known server is found by how it is started."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from rkllm_chat.config.files import find_state_folder
from rkllm_chat.config.project_trust import TrustStore
from rkllm_chat.config.sandbox_rules import Allowance, find_allowance, find_known, find_own_rules, save_allowance
from rkllm_chat.config.servers import ServerConfig
from rkllm_chat.config.tool_pins import ToolPins
from rkllm_chat.config.value_checks import MAX_FILE_BYTES
from rkllm_chat.core.errors import ConfigError

MEMORY = "@modelcontextprotocol/server-memory"


def test_what_one_server_is_allowed_replaces_only_what_it_was_allowed_before(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    servers = [ServerConfig(name, source=file) for name, file in (("one", "/1"), ("one", "/2"), ("two", "/1"))]
    nothing = [Allowance(server.name, server.source) for server in servers]
    allowances = [
        replace(nothing[0], write=("/a",)),
        replace(nothing[1], network=True),
        replace(nothing[2], write=("/b",)),
    ]
    for server, allowance in zip(servers, allowances, strict=True):
        save_allowance(server, allowance, environment)
    assert [find_allowance(server, environment) for server in servers] == allowances
    save_allowance(servers[0], nothing[0], environment)
    assert [find_allowance(server, environment) for server in servers] == [nothing[0], *allowances[1:]]


def test_what_was_allowed_in_the_users_file_stays_until_it_is_changed(tmp_path: Path) -> None:
    """Where an earlier version stored it. Known servers in the file stay in any case."""
    environment = {"HOME": str(tmp_path)}
    one, two = (ServerConfig(name, source="/file") for name in ("one", "two"))
    known = [{"names": ["tide", "t"], "reason": "reads tide tables"}]
    rows = [{"server": "one", "file": "/file", "write": ["/a"]}, {"server": "two", "file": "/file", "network": True}]
    rules = Path(find_own_rules(environment))
    rules.parent.mkdir(parents=True)
    rules.write_text(json.dumps({"known": known, "allowed": rows}), encoding="utf-8")
    assert find_allowance(one, environment) == Allowance("one", "/file", ("/a",))
    save_allowance(one, Allowance("one", "/file", ("/a", "/b")), environment)
    assert find_allowance(one, environment).write == ("/a", "/b")
    assert find_allowance(two, environment).network
    assert json.loads(rules.read_text(encoding="utf-8")) == {"known": known, "allowed": rows[1:]}
    assert find_known(["tide"], environment) and find_known(["npx", "t@1"], environment)


def test_what_the_user_decided_of_one_server_is_in_one_record(tmp_path: Path) -> None:
    """Its acceptance, its pins and what its sandbox allows; each decision leaves the others as they are."""
    environment = {"HOME": str(tmp_path)}
    server, store = ServerConfig("one", command="x", source="/file"), TrustStore(find_state_folder(environment))
    ToolPins(store, server).pin_tools({"t": {"name": "t"}})
    save_allowance(server, allowed := Allowance("one", "/file", ("/a",)), environment)
    store.accept_server(server, {"command": "x"}, {"reads": []})
    assert ToolPins(store, server).find_changes({"t": {"name": "t"}, "u": {}}) == {"u": "new"}
    assert find_allowance(server, environment) == allowed
    assert store.find_accepted(server, {"command": "x"}) == {"reads": []}
    folder = Path(find_state_folder(environment), "trust")
    assert sorted(path.name.partition("-")[0] for path in folder.iterdir()) == ["key.json", "one"]


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
