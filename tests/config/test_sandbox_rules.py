"""What the user has allowed servers is kept by server."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from rkllm_chat.config.sandbox_rules import Allowance, find_allowance, find_own_rules, save_allowance
from rkllm_chat.config.servers import ServerConfig
from rkllm_chat.config.value_checks import MAX_FILE_BYTES
from rkllm_chat.core.errors import ConfigError


def test_what_one_server_is_allowed_replaces_only_what_it_was_allowed_before(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    servers = [ServerConfig(name, source=f"/{name}.json") for name in ("one", "two")]
    allowances = [Allowance("one", "/one.json", ("/one",)), Allowance("two", "/two.json", network=True)]
    for allowance in allowances:
        save_allowance(allowance, environment)
    assert [find_allowance(server, environment) for server in servers] == allowances
    nothing = Allowance("one", "/one.json")
    save_allowance(nothing, environment)
    assert [find_allowance(server, environment) for server in servers] == [nothing, allowances[1]]
    rules = Path(find_own_rules(environment))
    assert [row["server"] for row in json.loads(rules.read_text(encoding="utf-8"))["allowed"]] == ["two"]


def test_rules_that_are_too_large_are_refused_whatever_they_begin_with(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    rules = Path(find_own_rules(environment))
    rules.parent.mkdir(parents=True)
    for extra in (0, 1):
        rules.write_text("{}".ljust(MAX_FILE_BYTES + extra), encoding="utf-8")
        with pytest.raises(ConfigError) if extra else nullcontext():
            find_allowance(ServerConfig("one"), environment)
