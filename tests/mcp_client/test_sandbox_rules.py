"""What a sandbox permits beyond a server's configuration: the needs of known servers, and what the user has allowed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.chat.server_approval import describe_review
from rkllm_chat.config.servers import ServerConfig
from rkllm_chat.config.trust_rules import Origin
from rkllm_chat.core.i18n import load
from rkllm_chat.mcp_client.acceptance import review_start
from stage import call_text

from .enclosed import LIMIT_S, OWN, PROBE, SECRET, Stage, find_python, listening

pytestmark = pytest.mark.sandbox
OWN_RULES = ".config/rkllm-chat/sandbox-rules.json"


def add_module(stage: Stage, name: str, *arguments: str, **entry: Any) -> None:
    """Configure the probing server as a Python module of a name."""
    shutil.copy(PROBE, stage.project / f"{name}.py")
    stage.add(args=["-m", name, *arguments], **entry)


def write_rules(stage: Stage, rules: str) -> None:
    path = stage.home / OWN_RULES
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rules, encoding="utf-8")
    for place in (path, *path.parents[:2]):
        os.chown(place, stage.uid, -1)


@pytest.mark.slow
def test_a_database_gets_its_folder_unless_the_configuration_says_what_is_writable(stage: Stage) -> None:
    for arguments, written in (
        (["--db-path", "data/t.db"], "data/t.db-journal"),
        (["--db-path=t.db"], "t.db-journal"),
        ([], "sqlite_mcp_server.db"),
    ):
        entries: list[tuple[dict[str, Any], str]] = [({}, "ok"), ({"write": []}, "OSError")]
        for entry, expected in entries:
            add_module(stage, "mcp_server_sqlite", *arguments, **entry)
            assert stage.try_out(["write", written])[0].startswith(expected), (arguments, entry)


def test_a_fetching_server_gets_the_network_unless_the_configuration_denies_it(stage: Stage) -> None:
    with listening() as (tcp, _):
        for entry, expected in (({}, "ok heard"), ({"network": False}, "ConnectionRefusedError")):
            add_module(stage, "mcp_server_fetch", **entry)
            assert stage.try_out(["connect", tcp])[0].startswith(expected)


def test_a_memory_is_kept_in_a_folder_of_its_own_and_an_earlier_one_is_copied(stage: Stage) -> None:
    program = stage.project / "node_modules/mcp-server-memory/dist/index.py"
    program.parent.mkdir(parents=True)
    shutil.copy(PROBE, program)
    for text, place in (("Husum", program.parent), ("not of the server", stage.project)):
        (place / "memory.jsonl").write_text(text, encoding="utf-8")
    for file in (stage.project / "node_modules").rglob("*"):
        os.chown(file, stage.uid, -1)
    stage.add(args=[str(program)])
    (about,) = stage.try_out(["about"])
    path: str = about["environment"]["MEMORY_FILE_PATH"]
    assert path == str(stage.home / ".local/share/rkllm-chat/servers/probe-own/memory.jsonl")
    written = stage.try_out(["write", path], ["write", f"{path}.tmp"], ["write", str(program)])
    assert [line.split()[0] for line in written] == ["ok", "ok", "OSError:"]
    assert Path(path).read_text(encoding="utf-8").startswith("Husum")


def test_a_memory_that_is_named_in_the_home_folder_is_kept_there(stage: Stage) -> None:
    program = stage.project / "node_modules/mcp-server-memory/dist/index.py"
    program.parent.mkdir(parents=True)
    shutil.copy(PROBE, program)
    path, other = stage.home / "memory.jsonl", stage.home / "other.jsonl"
    stage.add(args=[str(program)], env={"MEMORY_FILE_PATH": "~/memory.jsonl"})
    written = stage.try_out(["write", str(path)], ["write", str(other)])
    assert written[0].startswith("ok") and path.stat().st_size > 0 and not other.exists()
    path.write_text("kept", encoding="utf-8")
    stage.try_out(["write", str(other)])
    assert path.read_text(encoding="utf-8") == "kept"


def test_a_link_beside_the_program_is_no_earlier_memory(stage: Stage) -> None:
    program = stage.project / "node_modules/mcp-server-memory/dist/index.py"
    program.parent.mkdir(parents=True)
    shutil.copy(PROBE, program)
    (program.parent / "memory.jsonl").symlink_to(stage.home / ".ssh/id_ed25519")
    stage.add(args=[str(program)])
    (about,) = stage.try_out(["about"])
    assert not Path(about["environment"]["MEMORY_FILE_PATH"]).exists()


@pytest.mark.slow
def test_what_is_allowed_is_written_unless_a_link_has_taken_its_place(stage: Stage) -> None:
    (notes := stage.home / "notes").mkdir(exist_ok=True)
    stage.add()
    rows = [{"server": "probe", "file": str(stage.project / "mcp.json"), "write": [str(notes)]}]
    for allowed, expected in (
        (rows, "ok"),
        ([{**rows[0], "file": "/other/mcp.json"}], "FileNotFoundError"),
        ([{**rows[0], "server": "other"}], "FileNotFoundError"),
    ):
        write_rules(stage, json.dumps({"allowed": allowed}))
        assert stage.try_out(["write", str(notes / "a.txt")])[0].startswith(expected)
    write_rules(stage, json.dumps({"allowed": rows}))
    notes.rename(stage.home / "elsewhere")
    notes.symlink_to(stage.home / "elsewhere")
    for place in ("notes", "elsewhere"):
        assert stage.try_out(["write", str(stage.home / place / "b.txt")])[0].startswith("FileNotFoundError")


def test_the_user_adds_known_servers_and_a_broken_file_is_named(stage: Stage) -> None:
    add_module(stage, "tide")
    with listening() as (tcp, _):
        rules = {"known": [{"names": ["tide"], "reason": "reads tide tables", "network": True}]}
        write_rules(stage, json.dumps(rules))
        assert stage.try_out(["connect", tcp]) == ["ok heard"]
    for broken in ("{", '{"known": [{"names": "tide"}]}', '{"knwon": []}', '{"allowed": {}}'):
        write_rules(stage, broken)
        error = stage.call(["about"])["error"]
        assert (error["type"], error["details"]["path"]) == ("ConfigError", str(stage.home / OWN_RULES)), broken


def test_the_approval_of_a_known_server_shows_what_it_may_do_and_why(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    arguments = ("-m", "mcp_server_fetch")
    server = ServerConfig("f", command=sys.executable, args=arguments, sandbox="on", origin=Origin.PROJECT)
    shown = describe_review(review_start(server), load())
    assert "  network = true" in shown and "  ! it can use the network" in shown
    assert "  known to need this: mcp-server-fetch (it opens web pages)" in shown


def test_a_named_file_opens_its_folder_before_and_after_it_exists(stage: Stage) -> None:
    entries: tuple[dict[str, Any], ...] = (
        {"args": ["probe.py", "--store", "data/m.db"]},
        {"env": {"STORE": "./data/m.db"}},
    )
    for number, entry in enumerate(entries):
        stage.add(**entry)
        for _ in range(2):
            denied, *written = stage.try_out(
                ["write", "../outside/x"], ["write", "data/m.db"], ["write", f"data/m.db.{number}.tmp"]
            )
            assert denied.startswith("FileNotFoundError") and written == ["ok", "ok"]


def test_a_key_opens_only_itself(stage: Stage) -> None:
    (stage.project / "data/client.pem").write_text("x", encoding="utf-8")
    os.chown(stage.project / "data/client.pem", stage.uid, -1)
    stage.add(args=["probe.py", "--tls", "data/client.pem"])
    key, other = stage.try_out(["read", "data/client.pem"], ["write", "data/other"])
    assert key == "ok x" and other.startswith("OSError")


NETWORK = {"HTTPS_PROXY": "http://proxy.example:3128", "no_proxy": "localhost", "TZ": "Asia/Tokyo"}


def test_what_the_network_needs_here_reaches_a_server_that_has_it(stage: Stage) -> None:
    certificate = stage.folder / "outside/company.pem"
    certificate.write_text("a certificate", encoding="utf-8")
    (stage.home / ".npmrc").write_text(
        f"//npm.example/:_authToken={SECRET}\nregistry=https://npm.example/\n", encoding="utf-8"
    )
    for path in (certificate, stage.home / ".npmrc"):
        os.chown(path, stage.uid, -1)
    stage.environment |= {**NETWORK, "SSL_CERT_FILE": str(certificate)}
    runner = stage.project / "npx"
    runner.write_text(f"#!{find_python(stage.uid)}\n{PROBE.read_text(encoding='utf-8')}", encoding="utf-8")
    runner.chmod(0o755)
    expected = {**NETWORK, "SSL_CERT_FILE": str(certificate), "npm_config_registry": "https://npm.example/"}
    for has_network in (True, False):
        stage.add(command="./npx", network=has_network)
        environment, read = stage.try_out(["read", "/proc/self/environ"], ["read", str(certificate)])
        found = dict(line.split("=", 1) for line in environment.removeprefix("ok ").split("\0") if "=" in line)
        assert {name: found[name] for name in expected if name in found} == (
            expected if has_network else {"TZ": NETWORK["TZ"]}
        )
        assert (read == "ok a certificate") is has_network and SECRET not in environment


def test_the_approval_names_the_variables_that_are_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:hidden@proxy.example:3128")
    server = ServerConfig("x", sys.executable, sandbox="on", source="mcp.json", origin=Origin.PROJECT)
    for has_network in (True, False):
        lines = describe_review(review_start(replace(server, network=has_network)), load("en"))
        passed = "".join(line for line in lines if line.startswith("  passes = "))
        assert ('"HTTPS_PROXY"' in passed) is has_network and "hidden" not in str(lines)


def test_a_call_that_was_denied_the_network_says_so_although_it_succeeded(stage: Stage) -> None:
    replies = [call_text("do", probes=[["connect", 9]]), "Nothing found."]
    (stage.project / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    turn = (
        "-p",
        "go",
        "--model",
        "replies.json",
        "--server",
        "probe",
        "--allow",
        "probe__*",
        "--output-format",
        "json",
    )
    denied = 'The sandbox of "probe" has no network.'
    for entry, is_said in (({}, True), ({"network": False}, False), ({"network": True}, False)):
        stage.add(**entry)
        document = stage.call(["connect", 9])
        assert document["ok"] and any(denied in notice for notice in document.get("notices", ())) is is_said
        if stage.uid != OWN:
            continue  # the Python of another user has none of the packages that a turn needs
        with stage.start(*turn) as process:
            output, errors = process.communicate(timeout=LIMIT_S)
            assert output, errors
            result = json.loads(output)["result"]
        [call] = result["calls"]
        assert (call["status"], denied in call["text"]) == ("completed", False)
        assert any("no network" in notice for notice in result["notices"]) is (entry.get("network") is not True)
