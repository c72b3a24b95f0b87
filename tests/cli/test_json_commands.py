"""How one-shot commands fail: the type of each error, and the details that a program can act on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_client.chaos_http import open_site
from mcp_client.chaos_sse import open_event_site
from rkllm_chat.cli.json_commands.invocation import Invocation
from rkllm_chat.cli.json_commands.run import run_json_command
from rkllm_chat.config.loader import load_settings
from shell import Shell
from stage import live_as

# command line, part of the message, some of the details
TARGET, TOOLS = "Write SERVER.NAME, or add --server NAME.", "Its tools: rkllm-chat mcp list chaos"
KNOWN = "Known options: --server, --stdio, --header, --env, --config, --timeout, --verbose, --help."
USAGE: list[tuple[list[str], str, dict[str, Any]]] = [
    (["list-tools"], "no server", {"available": ["chaos", "board"]}),
    (["call-tool", "--server", "chaos"], "no tool", {}),
    (["call-tool", "chaos"], "names a server and not", {"got": "chaos", "hint": TARGET + f" {TOOLS}"}),
    (["call-tool", "choas."], '"choas."', {"hint": TARGET + " Did you mean the server chaos? " + TOOLS}),
    (["call-tool", "chaos.echo", "--tool", "echo"], "both name a tool", {}),
    (["read-resource", "--server", "chaos"], "one resource", {}),
    (["list-tools", "--sever", "chaos"], '"--sever"', {"closest": ["--server"]}),
    (["list-servers", "--timeout", "1"], '"--timeout"', {"available": ["--config", "--help"]}),
    (
        ["list-tools", "--select", "text"],
        '"--select"',
        {"hint": f"It is an option of rkllm-chat call-tool. {KNOWN}"},
    ),
    (["list-tools", "--server"], "--server needs a value", {"expected": "NAME|URL"}),
    (["list-tools", "--server", "a", "--server", "b"], "--server", {"got": "b"}),
    (["list-tools", "--verbose=yes", "--server", "a"], "takes no value", {"got": "--verbose=yes"}),
    (["list-tools", "--server", "chaos", "--url", "http://x/"], "--server and --url", {}),
    (["list-tools", "--server", "chaos", "--header", "A: b"], "--server URL", {}),
    (["list-tools", "--server", "chaos", "--env", "A=b"], "--stdio", {}),
    (["list-tools", "--url", "http://127.0.0.1:9/", "--header", "secret"], "", {"expected": "NAME:VALUE"}),
    (["list-tools", "--stdio", "'open"], "--stdio", {"got": "'open"}),
    (["call-tool", "chaos.echo", "--select", "all"], '"all"', {"got": "all"}),
    *((["list-tools", "--server", "chaos", "--timeout", text], "seconds", {"got": text}) for text in ("0", "x", "inf")),
    (["init", "a", "b"], '"b"', {"got": "b"}),
    (["list-tools", "chaos"], '"chaos"', {"hint": "Write rkllm-chat list-tools --server chaos"}),
    (["list-tools", "--server", "python3 server.py"], '"python3 server.py" is no name', {"got": "python3 server.py"}),
    (["call-tool", "chaos.echo", "--output", "json"], '"--output"', {"got": "--output", "closest": []}),
]

ARGUMENTS: list[tuple[str, str, dict[str, Any]]] = [
    ("{bad", "at line 1, column 2, near '{bad'", {"line": 1, "column": 2, "near": "{bad"}),
    ("", "--args is empty", {"line": 1}),
    ('"x"', "not a JSON object", {"expected": "object"}),
    ("@no-such-file", "no-such-file cannot be read: No such file", {"path": "no-such-file"}),
    ("@latin1.json", "latin1.json is not UTF-8 (byte 7)", {}),
]

SERVERS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("exit-at-start", "ConnectionError", "last word 7", {"phase": "start", "exit_code": 3}),
    ("crash-mid-call", "ConnectionError", "I am dying", {"phase": "call", "exit_code": 7, "stderr": "I am dying"}),
    ("killed-mid-call", "ConnectionError", "it was ended by SIGKILL", {"exit_code": -9}),
    ("hang-on-init", "TimeoutError", "did not start within 0.7 s", {"phase": "start", "limit_s": 0.7}),
    ("list-hang", "TimeoutError", "did not list what it has within 0.7 s", {"phase": "list"}),
    ("hang-call", "TimeoutError", "did not answer the call within 0.7 s", {"phase": "call", "server": "chaos"}),
    ("init-bad-version", "ProtocolError", "protocol version '1999-12-31'", {"got": "1999-12-31"}),
    ("rpc-error", "ProtocolError", "answered with error -32002", {"code": -32002, "method": "tools/call"}),
    ("deep-json", "ProtocolError", "nested too deep", {}),
    ("unknown-type", "ProtocolError", "'prophecy'", {"got": "prophecy"}),
    ("is-error", "ToolError", 'The tool "act" failed: the disk is full', {"tool": "act", "server": "chaos"}),
    ("is-error-empty", "ToolError", "no reason", {"content": []}),
    ("no-tools-capability", "ToolNotFound", 'has no tool "act"', {"available": []}),
]


def assert_error(error: dict[str, Any], kind: str, message: str, details: dict[str, Any]) -> None:
    assert (error["type"], message in error["message"]) == (kind, True), error
    assert {key: error["details"].get(key) for key in details} == details
    assert all(value is not None for value in error["details"].values())


def read_error(shell: Shell, *line: str) -> dict[str, Any]:
    """Return the error of a command that runs in this process."""
    with live_as(shell.environment, shell.folder):
        error: dict[str, Any] = run_json_command(line, Invocation())["error"]
    return error


@pytest.mark.parametrize(("line", "message", "details"), USAGE, ids=[" ".join(row[0]) for row in USAGE])
def test_an_invalid_command_line_is_a_usage_error(
    line: list[str], message: str, details: dict[str, Any], shell: Shell
) -> None:
    shell.add_chaos()
    assert_error(read_error(shell, *line), "UsageError", message, details)
    assert shell.events("start") == []


@pytest.mark.parametrize(("text", "message", "details"), ARGUMENTS, ids=[row[1] for row in ARGUMENTS])
def test_arguments_that_are_not_an_object_are_rejected_before_a_server_starts(
    text: str, message: str, details: dict[str, Any], shell: Shell
) -> None:
    shell.add_chaos()
    (shell.folder / "latin1.json").write_bytes(b'{"a": "\xe9"}')
    assert_error(read_error(shell, "call-tool", "chaos.echo", "--args", text), "UsageError", message, details)
    assert shell.events("start") == []


@pytest.mark.parametrize(("mode", "kind", "message", "details"), SERVERS, ids=[row[0] for row in SERVERS])
def test_each_fault_of_a_server_has_its_type_and_phase(
    mode: str, kind: str, message: str, details: dict[str, Any], shell: Shell
) -> None:
    shell.add_chaos(mode)
    patience = "0.7" if kind == "TimeoutError" else "20"
    assert_error(shell.error("call-tool", "chaos.act", "--timeout", patience), kind, message, details)


def test_a_tool_that_an_entry_leaves_out_is_reported_with_the_file_and_the_key(shell: Shell) -> None:
    shell.add_chaos(tools_deny=["act"])
    error = shell.error("call-tool", "chaos.act")
    assert_error(error, "ToolNotFound", 'leaves the tool "act" out', {"hint": "Change its tools_deny in mcp.json."})


def test_a_missing_argument_is_reported_with_the_near_one_that_was_given(shell: Shell) -> None:
    shell.add_chaos()
    error = shell.error("call-tool", "chaos.add", "--args", '{"aa": 1, "b": 2}')
    assert_error(error, "ValidationError", '"a" is required, and "aa" is not known', {"path": "a"})
    assert shell.received("tools/call") == []


def test_an_unknown_server_is_reported_with_the_known_ones_and_the_searched_files(shell: Shell) -> None:
    shell.add_chaos()
    error = shell.error("list-tools", "--server", "choas")
    assert_error(error, "ServerNotFound", 'no server "choas"', {"available": ["chaos", "board"], "closest": ["chaos"]})
    assert error["details"]["searched"][2:] == [
        ".claude/mcp.json",
        ".mcp.json",
        "mcp.json",
        "mcp_servers.json",
        "mcp_config.toml",
    ]


def test_an_unknown_tool_is_reported_with_the_closest_and_not_called(shell: Shell) -> None:
    shell.add_chaos()
    details = {"server": "chaos", "available": ["echo", "add", "act"], "closest": ["echo"]}
    assert_error(shell.error("call-tool", "chaos.ecko"), "ToolNotFound", 'no tool "ecko"', details)
    assert shell.received("tools/call") == []


def test_arguments_are_also_written_as_pairs_and_converted_to_the_types_of_the_tool(shell: Shell) -> None:
    shell.add_chaos()

    def call(*words: str) -> str:
        return str(shell.result("call-tool", *words)["content"][0]["text"])

    assert call("chaos.add", "a=1", "b:=2") == "3"
    assert call("--server", "chaos", "--tool", "add", "a=1", "--args", '{"b": 2}') == "3"
    assert call("chaos.echo", "text=1=2") == "1=2"
    assert call("chaos.echo", "text=7") == "7"
    assert (
        shell.error("call-tool", "chaos.add", "a=1", "a:=2")["message"] == 'The argument "a" is given more than once.'
    )
    assert "b is not valid JSON" in shell.error("call-tool", "chaos.add", "a=1", "b:=x")["message"]
    assert shell.error("call-tool", "chaos.add", "a=x", "b=2")["type"] == "ValidationError"


def test_no_check_sends_arguments_that_do_not_fit(shell: Shell) -> None:
    shell.add_chaos()
    shell.error("call-tool", "chaos.add", "--args", '{"a": 1}', "--no-check")
    assert [message["params"]["arguments"] for message in shell.received("tools/call")] == [{"a": 1}]
    assert shell.received("tools/list") == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mcp.json", '{"mcpServers": {"a": {"command": "x"},}', "not valid JSON"),
        ("mcp_config.toml", '[[servers]]\nname = "a"\ncommand = "x"\ntimeout = 5\n', 'Did you mean "timeout_s"'),
        ("mcp_config.toml", '[[servers]]\nname = "a"\ncommand = "x"\ntransport = "pigeon"\n', 'no transport "pigeon"'),
    ],
)
def test_an_invalid_configuration_is_a_config_error(name: str, text: str, message: str, shell: Shell) -> None:
    (shell.folder / name).write_text(text, encoding="utf-8")
    error = shell.error("list-tools", "--server", "a")
    assert error["type"] == "ConfigError"
    assert message in f"{error['message']} {error['details'].get('hint')}"


def test_a_missing_variable_matters_to_its_server_alone(shell: Shell) -> None:
    shell.add("locked", command=sys.executable, env={"TOKEN": "${NO_SUCH_TOKEN}"})
    shell.add_chaos()
    error = shell.error("list-tools", "--server", "locked")
    assert_error(error, "ConfigError", "NO_SUCH_TOKEN", {"path": "mcp.json"})
    assert "mcpServers.locked.env.TOKEN" in error["message"]
    assert shell.result("list-tools", "--server", "chaos")


INCOMPLETE = {"url": "http://127.0.0.1:9/", "oauth": {"grant": "client_credentials"}}


@pytest.mark.parametrize(
    ("entry", "kind", "message"),
    [
        ({"command": "no-such-command"}, "ConnectionError", '"no-such-command"'),
        ({"command": "/"}, "ConnectionError", "folder"),
        ({"command": sys.executable, "cwd": "/no/such"}, "ConnectionError", "/no/such"),
        ({"url": "http://127.0.0.1:1/mcp"}, "ConnectionError", "Connection refused"),
        ({"url": "http://169.254.169.254/mcp"}, "ConnectionError", "link-local"),
        ({"command": sys.executable, "disabled": True}, "UsageError", "disabled in mcp.json"),
        (INCOMPLETE, "ConfigError", "client_id"),
    ],
)
def test_a_server_that_cannot_be_used_has_its_type_of_error(
    entry: dict[str, Any], kind: str, message: str, shell: Shell
) -> None:
    shell.add("some", **entry)
    details = {"path": "mcp.json"} if kind == "ConfigError" else {"server": "some"}
    assert_error(shell.error("list-tools", "--server", "some"), kind, message, details)


def test_a_missing_token_is_an_auth_error_with_a_hint(shell: Shell) -> None:
    with open_site("start-401") as site:
        shell.add("site", url=site.url)
        error = shell.error("list-tools", "--server", "site")
    assert_error(error, "AuthError", "HTTP 401", {"status": 401, "url": site.url, "phase": "start"})
    assert "Authorization" in error["details"]["hint"] and "mcp.json" in error["details"]["hint"]


def test_a_stored_login_is_used_and_none_is_started(shell: Shell) -> None:
    logins = Path(shell.environment["HOME"], ".local/state/rkllm-chat/logins")
    logins.mkdir(parents=True, mode=0o700)
    (logins / "other.json").touch(0o600)
    with open_site("start-401") as site:
        error = shell.error("list-tools", "--server", site.url)
    assert_error(error, "AuthError", "login", {"phase": "start"})


def test_a_login_in_the_configuration_is_not_shown(shell: Shell) -> None:
    oauth = {"grant": "client_credentials", "client_id": "me", "client_secret": "s3cr3t-value"}
    shell.add("site", url="http://127.0.0.1:1/s3cr3t-value", oauth=oauth)
    error = shell.error("list-tools", "--server", "site")
    assert error["type"] == "ConnectionError" and "s3cr3t" not in json.dumps(error), error


@pytest.mark.parametrize(
    ("mode", "kind", "phase"),
    [
        ("call-500", "ProtocolError", "call"),
        ("call-cut", "ConnectionError", "call"),
        pytest.param("call-silent", "TimeoutError", "call", marks=pytest.mark.slow),
        pytest.param("start-nowhere", "TimeoutError", "start", marks=pytest.mark.slow),
    ],
)
def test_calls_through_the_sdk_fail_with_the_same_types(mode: str, kind: str, phase: str, shell: Shell) -> None:
    with open_event_site(mode) as site:
        shell.add("site", url=site.url, transport="sse")
        error = shell.error("call-tool", "site.act", "--timeout", "3")
    assert_error(error, kind, '"site"', {"phase": phase})


def test_an_argument_of_a_prompt_must_be_a_string(shell: Shell) -> None:
    shell.add_chaos()
    error = shell.error("get-prompt", "chaos.greet", "--args", '{"name": 7}')
    assert_error(error, "ValidationError", '"name" of a prompt', {"path": "name", "got": 7})


def test_init_rejects_a_folder_that_is_not_empty_or_cannot_be_made(shell: Shell) -> None:
    (shell.folder / "mine").write_text("x", encoding="utf-8")
    details = {"path": str(shell.folder), "got": ["mine"]}
    assert_error(shell.error("init"), "UsageError", "is not empty: mine", details)
    for dest in ("mine", "/proc/none"):
        path = str(shell.folder / dest)
        assert_error(shell.error("init", dest), "UsageError", "cannot be used", {"path": path})
    assert [path.name for path in shell.folder.iterdir()] == ["mine"]


def test_an_output_folder_that_cannot_be_written_is_a_usage_error(shell: Shell) -> None:
    shell.add_chaos("large-image")
    (shell.folder / "file").write_text("x", encoding="utf-8")
    error = shell.error("call-tool", "chaos.act", "--output-dir", "file")
    assert_error(error, "UsageError", "cannot be written", {"path": str(shell.folder / "file")})


def test_an_internal_error_is_a_document(shell: Shell) -> None:
    shell.add_chaos()
    broken = shell.folder / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text("import sys\nsys.modules['select'] = None\n", encoding="utf-8")
    shell.environment["PYTHONPATH"] = f"{broken}:{Path(__file__).parents[2]}"
    error = shell.error("list-tools", "--server", "chaos")
    assert error["type"] == "InternalError" and "import of select halted" in error["message"]
    assert error["details"]["where"].startswith("process_tree.py:")


def test_a_variable_may_choose_a_setting_of_a_server(shell: Shell) -> None:
    """The chat reads the same server; until its variable is expanded, a choice is not checked."""
    shell.add_chaos()
    shell.add("chaos", **shell.servers["chaos"], sandbox="${MODE:-off}")
    assert shell.result("list-servers")[0]["sandbox"] == "${MODE:-off}"
    assert shell.result("call-tool", "chaos.echo", "--args", '{"text": "x"}')["content"]
    shell.environment["MODE"] = "maybe"
    error = shell.error("call-tool", "chaos.echo", "--args", '{"text": "x"}')
    assert_error(error, "ConfigError", 'mcpServers.chaos.sandbox is "maybe"', {"path": "mcp.json"})
    [skipped] = load_settings(str(shell.folder / "mcp.json"), shell.environment).skipped
    assert (skipped.name, 'sandbox is "maybe"' in skipped.reason) == ("chaos", True)
