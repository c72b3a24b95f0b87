"""How one-shot commands fail: one row for each thing that can go wrong, with its type and what a program can act on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from servers.chaos_http import open_site
from servers.chaos_sse import open_event_site
from shell import Shell

# command line, type, part of the message, some of the details
USAGE: list[tuple[list[str], str, str, dict[str, Any]]] = [
    (["list-tools"], "UsageError", "which server?", {"available": ["chaos"]}),
    (["call-tool", "--server", "chaos"], "UsageError", "which tool?", {}),
    (["call-tool", "chaos"], "UsageError", '"chaos" names no server', {"got": "chaos"}),
    (["call-tool", "chaos.echo", "--tool", "echo"], "UsageError", "both name a tool", {}),
    (["get-prompt", "--server", "chaos"], "UsageError", "which prompt?", {}),
    (["read-resource", "--server", "chaos"], "UsageError", "name one resource", {}),
    (["list-tools", "--sever", "chaos"], "UsageError", 'no option "--sever"', {"closest": ["--server"]}),
    (["list-servers", "--timeout", "1"], "UsageError", 'no option "--timeout"', {"available": ["--config", "--help"]}),
    (["list-tools", "--server"], "UsageError", "--server needs a value", {"expected": "NAME"}),
    (["list-tools", "--server", "--meta"], "UsageError", "--server needs a value", {}),
    (["list-tools", "--server", "a", "--server", "b"], "UsageError", "given twice", {"got": "b"}),
    (["list-tools", "--meta=yes", "--server", "a"], "UsageError", "--meta takes no value", {"got": "--meta=yes"}),
    (["list-tools", "chaos"], "UsageError", '"chaos" is one word too many', {"got": "chaos"}),
    (["list-tools", "--server", "chaos", "--url", "http://x/"], "UsageError", "cannot be combined", {}),
    (["list-tools", "--server", "chaos", "--header", "A: b"], "UsageError", "--header goes with --url", {}),
    (["list-tools", "--server", "chaos", "--env", "A=b"], "UsageError", "--env goes with --stdio", {}),
    (["list-tools", "--url", "http://127.0.0.1:9/", "--header", "secret"], "UsageError", "wants NAME:VALUE", {}),
    (["list-tools", "--stdio", "'open"], "UsageError", "--stdio is no command", {}),
    (["list-tools", "--stdio", " "], "UsageError", "--stdio is empty", {}),
    (["call-tool", "chaos.echo", "--select", "all"], "UsageError", '"all" is unknown', {"got": "all"}),
    *(
        (["list-tools", "--server", "chaos", "--timeout", text], "UsageError", "no number of seconds", {"got": text})
        for text in ("0", "-1", "soon", "nan", "inf")
    ),
    (["init", "a", "b"], "UsageError", '"b" is one word too many', {"got": "b"}),
]

ARGUMENTS: list[tuple[str, str, dict[str, Any]]] = [
    ("{bad", "at line 1, column 2, near '{bad'", {"line": 1, "column": 2, "near": "{bad"}),
    ('{"a": 1,\n "b": }', "at line 2, column 7", {"line": 2, "column": 7}),
    ("", "--args is empty", {"line": 1, "column": 1}),
    ("[1]", "is a list, not a JSON object", {"expected": "object", "got": "a list"}),
    ('"x"', "is a text, not a JSON object", {"got": "a text"}),
    ("null", "is null, not a JSON object", {"got": "null"}),
    ("7", "is a number, not a JSON object", {"got": "a number"}),
    ('{"a": NaN}', "is not JSON: NaN is not JSON.", {}),
    ('{"a": 1e999}', "1e999 is too large a number", {}),
    ('{"a": 1, "a": 2}', 'the key "a" stands twice', {}),
    ('{"a": "\\ud800"}', "half a surrogate pair is no character", {}),
    ("[" * 100_000, "nested too deep", {}),
    ("@no-such-file", "no-such-file cannot be read: No such file", {"path": "no-such-file"}),
    ("@.", ". cannot be read: Is a directory", {"path": "."}),
    ("@latin1.json", "latin1.json is not UTF-8 (byte 7)", {}),
]

SERVERS: list[tuple[str, str, str, dict[str, Any]]] = [
    (
        "exit-at-start",
        "ConnectionError",
        "ended before it answered (it exited with 3)",
        {"phase": "start", "exit_code": 3},
    ),
    ("crash-mid-call", "ConnectionError", "I am dying", {"phase": "call", "exit_code": 7, "stderr": "I am dying"}),
    ("die-after-list", "ConnectionError", "it exited with 4", {"phase": "call", "exit_code": 4}),
    ("killed-mid-call", "ConnectionError", "it was ended by SIGKILL", {"exit_code": -9}),
    ("hang-on-init", "TimeoutError", "did not start within 0.7 s", {"phase": "start", "limit_s": 0.7}),
    ("list-hang", "TimeoutError", "did not list what it has within 0.7 s", {"phase": "list"}),
    ("hang-call", "TimeoutError", "did not answer the call within 0.7 s", {"phase": "call", "server": "chaos"}),
    ("init-bad-version", "ProtocolError", "protocol version '1999-12-31'", {"got": "1999-12-31"}),
    ("rpc-error", "ProtocolError", "answered with error -32002", {"code": -32002, "method": "tools/call"}),
    ("huge-result", "ProtocolError", "result too large (95 MB), limit 4 MB", {}),
    ("deep-json", "ProtocolError", "nested too deep", {}),
    ("unknown-type", "ProtocolError", "of an unknown type, 'prophecy'", {"got": "prophecy"}),
    ("is-error", "ToolError", 'The tool "act" failed: the disk is full', {"tool": "act", "server": "chaos"}),
    ("is-error-empty", "ToolError", "it does not say why", {"content": []}),
    ("no-tools-capability", "ToolNotFound", 'has no tool "act"', {"available": []}),
]


def assert_error(error: dict[str, Any], kind: str, message: str, details: dict[str, Any]) -> None:
    assert (error["type"], message in error["message"]) == (kind, True), error
    assert {key: error["details"].get(key) for key in details} == details
    assert all(value is not None for value in error["details"].values())


@pytest.mark.parametrize(("line", "kind", "message", "details"), USAGE, ids=[" ".join(row[0]) for row in USAGE])
def test_a_wrong_command_line_is_an_error_that_says_what_would_be_right(
    line: list[str], kind: str, message: str, details: dict[str, Any], shell: Shell
) -> None:
    shell.add_chaos()
    assert_error(shell.error(*line), kind, message, details)
    assert shell.events("start") == []


@pytest.mark.parametrize(("text", "message", "details"), ARGUMENTS, ids=[row[1] for row in ARGUMENTS])
def test_arguments_that_are_no_object_are_refused_with_the_place_before_anything_starts(
    text: str, message: str, details: dict[str, Any], shell: Shell
) -> None:
    shell.add_chaos()
    (shell.folder / "latin1.json").write_bytes(b'{"a": "\xe9"}')
    assert_error(shell.error("call-tool", "chaos.echo", "--args", text), "UsageError", message, details)
    assert shell.events("start") == []


@pytest.mark.parametrize(("mode", "kind", "message", "details"), SERVERS, ids=[row[0] for row in SERVERS])
def test_what_a_server_does_wrong_is_told_with_its_type_and_phase(
    mode: str, kind: str, message: str, details: dict[str, Any], shell: Shell
) -> None:
    shell.add_chaos(mode)
    patience = "0.7" if kind == "TimeoutError" else "20"
    assert_error(shell.error("call-tool", "chaos.act", "--timeout", patience), kind, message, details)


def test_the_last_words_of_a_server_that_dies_are_in_the_details(shell: Shell) -> None:
    shell.add_chaos("exit-at-start")
    stderr = shell.error("list-tools", "--server", "chaos")["details"]["stderr"]
    assert stderr.splitlines()[-2:] == ["last word 6", "last word 7"]


def test_an_unknown_server_is_told_with_those_there_are_and_where_they_were_looked_for(shell: Shell) -> None:
    shell.add_chaos()
    error = shell.error("list-tools", "--server", "choas")
    assert_error(error, "ServerNotFound", 'no server "choas"', {"available": ["chaos"], "closest": ["chaos"]})
    assert error["details"]["searched"][2:] == [".claude/mcp.json", "mcp.json", "mcp_servers.json", "mcp_config.toml"]


def test_without_any_configuration_there_is_the_board_server(shell: Shell) -> None:
    error = shell.error("list-tools", "--server", "x")
    assert_error(error, "ServerNotFound", 'no server "x"', {"available": ["board"]})


def test_a_server_that_is_switched_off_is_not_started(shell: Shell) -> None:
    shell.add("off", command=sys.executable, disabled=True)
    assert_error(
        shell.error("list-tools", "--server", "off"), "UsageError", "switched off in mcp.json", {"server": "off"}
    )


def test_an_unknown_tool_is_told_with_the_nearest_and_not_called(shell: Shell) -> None:
    shell.add_chaos()
    details = {"server": "chaos", "available": ["echo", "add", "act"], "closest": ["echo"]}
    assert_error(shell.error("call-tool", "chaos.ecko"), "ToolNotFound", 'no tool "ecko"', details)
    assert shell.heard("tools/call") == []


@pytest.mark.parametrize(
    ("arguments", "message", "details"),
    [
        ({"a": 1}, '"b" is required.', {"path": "b", "expected": "number"}),
        ({"a": "1", "b": 2}, '"a" must be a number, not "1".', {"path": "a", "expected": "number", "got": "1"}),
        ({"a": True, "b": 2}, "must be a number, not true", {"path": "a", "got": True}),
        ({"a": [], "b": 2}, "must be a number, not []", {"path": "a", "got": []}),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_their_path_and_not_sent(
    arguments: dict[str, Any], message: str, details: dict[str, Any], shell: Shell
) -> None:
    shell.add_chaos()
    error = shell.error("call-tool", "chaos.add", "--args", json.dumps(arguments))
    assert_error(error, "ValidationError", message, details)
    assert shell.heard("tools/call") == []


def test_no_check_sends_them_all_the_same(shell: Shell) -> None:
    shell.add_chaos()
    shell.error("call-tool", "chaos.add", "--args", '{"a": 1}', "--no-check")
    assert [message["params"]["arguments"] for message in shell.heard("tools/call")] == [{"a": 1}]
    assert shell.heard("tools/list") == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mcp.json", '{"mcpServers": {"a": {"command": "x"},}}', "not valid JSON"),
        ("mcp.json", "[]", 'no "mcpServers" object'),
        ("mcp.json", '{"mcpServers": {"a": {}}}', "needs a command or a url"),
        ("mcp.json", '{"mcpServers": {"a": {"command": "x", "env": {"K": 5}}}}', "env must be a table of texts"),
        ("mcp_config.toml", "[[servers]\n", "not valid TOML"),
        ("mcp_config.toml", '[[servers]]\nname = "a"\ncommand = "x"\ntimeout = 5\n', 'Did you mean "timeout_s"'),
        ("mcp_config.toml", '[[servers]]\nname = "a"\ncommand = "x"\ntransport = "pigeon"\n', 'no transport "pigeon"'),
    ],
)
def test_a_configuration_that_is_wrong_is_told_with_its_file(name: str, text: str, message: str, shell: Shell) -> None:
    (shell.folder / name).write_text(text, encoding="utf-8")
    error = shell.error("list-tools", "--server", "a")
    assert error["type"] == "ConfigError"
    assert message in f"{error['message']} {error['details'].get('hint')}"


def test_a_missing_variable_is_named_and_those_of_other_servers_are_not_needed(shell: Shell) -> None:
    shell.add("locked", command=sys.executable, env={"TOKEN": "${NO_SUCH_TOKEN}"})
    shell.add_chaos()
    error = shell.error("list-tools", "--server", "locked")
    assert_error(
        error, "ConfigError", "mcpServers.locked.env.TOKEN needs the variable NO_SUCH_TOKEN", {"path": "mcp.json"}
    )
    assert shell.result("list-tools", "--server", "chaos")


def test_a_configuration_file_that_is_not_there_is_told(shell: Shell) -> None:
    error = shell.error("list-servers", "--config", "none.json")
    assert_error(error, "ConfigError", "none.json: No such file", {"path": "none.json"})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"command": "no-such-command"}, 'the command "no-such-command" cannot be found'),
        ({"command": "/"}, "is a folder"),
        ({"command": sys.executable, "cwd": "/no/such"}, "there is no folder /no/such"),
        ({"url": "http://127.0.0.1:1/mcp"}, "Connection refused"),
        ({"url": "http://169.254.169.254/mcp"}, "link-local"),
    ],
)
def test_a_server_that_cannot_be_started_or_reached_is_a_connection_error(
    entry: dict[str, str], message: str, shell: Shell
) -> None:
    shell.add("some", **entry)
    assert_error(shell.error("list-tools", "--server", "some"), "ConnectionError", message, {"server": "some"})


def test_a_site_that_wants_a_token_is_an_auth_error_that_says_where_to_put_it(shell: Shell) -> None:
    with open_site("start-401") as site:
        shell.add("site", url=site.url)
        error = shell.error("list-tools", "--server", "site")
    assert_error(error, "AuthError", "HTTP 401", {"status": 401, "url": site.url, "phase": "start"})
    assert "Authorization" in error["details"]["hint"] and "mcp.json" in error["details"]["hint"]


def test_where_somebody_has_logged_in_a_site_is_asked_with_what_was_kept(shell: Shell) -> None:
    kept = Path(shell.environment["HOME"], ".local/state/rkllm-chat/logins")
    kept.mkdir(parents=True, mode=0o700)
    (kept / "other.json").touch(0o600)
    with open_site("start-401") as site:
        error = shell.error("list-tools", "--url", site.url)
    assert_error(error, "AuthError", "wants a login, and nobody is here to log in", {"phase": "start"})


def test_a_login_in_the_configuration_is_not_shown(shell: Shell) -> None:
    oauth = {"grant": "client_credentials", "client_id": "me", "client_secret": "s3cr3t-of-ours"}
    shell.add("site", url="http://127.0.0.1:1/s3cr3t-of-ours", oauth=oauth)
    error = shell.error("list-tools", "--server", "site")
    assert error["type"] == "ConnectionError" and "s3cr3t" not in json.dumps(error), error


def test_a_mistake_in_a_login_is_a_mistake_of_the_configuration(shell: Shell) -> None:
    shell.add("site", url="http://127.0.0.1:9/", oauth={"grant": "client_credentials"})
    error = shell.error("list-tools", "--server", "site")
    assert_error(error, "ConfigError", 'client_id is needed for the grant "client_credentials"', {"path": "mcp.json"})


@pytest.mark.parametrize(
    ("mode", "kind", "details"),
    [
        ("call-silent", "TimeoutError", {"phase": "call"}),
        ("call-500", "ProtocolError", {"phase": "call"}),
        ("call-cut", "ConnectionError", {"phase": "call"}),
        ("call-no-json", "TimeoutError", {"phase": "call"}),
        ("start-nowhere", "TimeoutError", {"phase": "start"}),
    ],
)
def test_the_way_through_the_sdk_fails_with_the_same_types(
    mode: str, kind: str, details: dict[str, Any], shell: Shell
) -> None:
    with open_event_site(mode) as site:
        shell.add("site", url=site.url, transport="sse")
        error = shell.error("call-tool", "site.act", "--timeout", "3")
    assert_error(error, kind, '"site"', details)


def test_an_argument_of_a_prompt_must_be_a_text(shell: Shell) -> None:
    shell.add_chaos()
    error = shell.error("get-prompt", "chaos.greet", "--args", '{"name": 7}')
    assert_error(error, "ValidationError", '"name" of a prompt must be a text', {"path": "name", "got": 7})


def test_init_refuses_a_folder_that_is_not_empty_and_leaves_it_alone(shell: Shell) -> None:
    (shell.folder / "mine").write_text("x", encoding="utf-8")
    details = {"path": str(shell.folder), "got": ["mine"]}
    assert_error(shell.error("init"), "UsageError", "is not empty: mine", details)
    assert [path.name for path in shell.folder.iterdir()] == ["mine"]


@pytest.mark.parametrize("dest", ["mine", "mine/below", "/proc/none"])
def test_init_refuses_what_cannot_be_a_folder(dest: str, shell: Shell) -> None:
    (shell.folder / "mine").write_text("x", encoding="utf-8")
    assert_error(shell.error("init", dest), "UsageError", "cannot be used", {"path": str(shell.folder / dest)})


def test_output_that_cannot_be_written_is_told(shell: Shell) -> None:
    shell.add_chaos("large-image")
    (shell.folder / "file").write_text("x", encoding="utf-8")
    error = shell.error("call-tool", "chaos.act", "--output-dir", "file")
    assert_error(error, "UsageError", "cannot be written", {"path": str(shell.folder / "file")})


def test_a_fault_of_ours_is_a_document_too(shell: Shell) -> None:
    shell.add_chaos()
    broken = shell.folder / "broken"
    broken.mkdir()
    (broken / "select.py").write_text("raise RuntimeError('on purpose')", encoding="utf-8")
    shell.environment["PYTHONPATH"] = f"{broken}:{Path(__file__).parents[1]}"
    error = shell.error("list-tools", "--server", "chaos")
    assert_error(error, "InternalError", "RuntimeError: on purpose", {"where": "select.py:1"})
