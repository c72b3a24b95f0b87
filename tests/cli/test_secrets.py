"""Secrets of each kind are redacted in every output of the program; ordinary text is not."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import fork_server
from rkllm_chat.cli.chat_command import print_traceback
from rkllm_chat.config.secrets import make_redactor
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.redact import KEY_FORMATS, REDACTED, Redactor, StreamRedactor, redact_keys
from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.storage.session_files import SessionDirectory
from shell import Shell
from stage import PROGRAM, Run, Screen, call_text

KEY = "\n".join(["-----BEGIN {0}-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "b64b64b64b64", "-----END {0}-----"])
CONFIGURED = {
    "an env by its name": "tok-4711",
    "an env of eight characters": "plain-4711-words",
    "a header": "head-4711",
    "a variable in an argument": "argument-4711",
    "a password of a URL": "pass-4711",
    "a query of a URL": "query-4711",
    "a client's secret": "client-4711",
}
SHAPED = {
    "bearer": ("Bearer {}", "abc.def4711.ghi", "Bearer of good news"),
    "basic": ("Basic {}", "bWU6NDcxMTQ3MTE=", "Basic authentication"),
    "authorization": ("Authorization: {}", "hush-hush-4711", "authorization is asked for"),
    "sk-": ("{}", "sk-proj-4711abcdefghijkl", "sk-learn-contrib-package-of-mine"),
    "GitHub": ("{}", "ghp_4711456789abcdefghijABCDEFGHIJ012345", "ghp_short"),
    "GitLab": ("{}", "glpat-4711456789abcdefghij", "glpat-x"),
    "AWS": ("{}", "AKIAIOSF4711NN7EXAMP", "AKIAKO is a name"),
    "Google": ("{}", "AIzaSy4711456789abcdefghijABCDEFGHIJ012", "AIza is short"),
    "Slack": ("{}", "xoxb-4711456789-abcdef", "xoxb-words-of-mine"),
    "JWT": ("{}", "eyJhbGciOiJub25lIn0.eyJzdWIiOiI0NzExIn0.4711", "eyJ has no dots"),
    "URL": ("https://me:{}@husum.example/", "pw4711", "https://husum.example:8080/a@b"),
    "name": ("password={}", "hunter4711", "token=production, max_tokens=4096"),
    "PEM": ("{}", KEY.format("RSA PRIVATE KEY"), KEY.format("CERTIFICATE").partition("\n")[0]),
}
ORDINARY = ["true", "en", "/srv/harbour", "20260728", "production", *(row[2] for row in SHAPED.values())]
SECRETS = {**CONFIGURED, **{name: row[1] for name, row in SHAPED.items()}}
LEAKED_TEXT = "\n".join([*CONFIGURED.values(), *(row[0].format(row[1]) for row in SHAPED.values()), *ORDINARY])
"""The text that the server sends in results, errors and on standard error."""

SERVER = """
import json, os, sys
leak = open("leak.txt", encoding="utf-8").read()
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params") or {}
    if "id" not in message:
        continue
    if method == os.environ.get("FAILS_AT"):
        reply = {"error": {"code": -1, "message": leak, "data": {leak: [leak]}}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
        sys.exit(leak)
    reply = {"error": {"code": -32601, "message": "no such method"}}
    if method == "initialize":
        reply = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "leaky", "version": "1"}}}
    elif method == "tools/list":
        names = ("tell", "fail", "refuse", "die", "look")
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        reply = {"result": {"tools": [{"name": name, "inputSchema": schema} for name in names]}}
    elif method == "tools/call":
        name = params["name"]
        text = params.get("arguments", {}).get("text") or leak
        if name == "look":
            umask = os.umask(0o077)
            files = [int(fd) for fd in os.listdir("/dev/fd") if os.path.exists("/dev/fd/" + fd)]
            seen = {"environment": dict(os.environ), "files": sorted(files), "umask": umask,
                    "session": os.getsid(0) == os.getpid(), "group": os.getpgid(0) == os.getpid()}
            text = json.dumps(seen)
        sys.stderr.write(text + "\\n")
        sys.stderr.flush()
        if name == "die":
            sys.exit(3)
        reply = {"result": {"content": [{"type": "text", "text": text}], "isError": name == "fail"}}
        if name == "refuse":
            reply = {"error": {"code": -1, "message": text}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
"""

CONFIG = """
[chat]
model = "replies.json"
[[servers]]
name = "leaky"
command = {python}
args = ["leaky.py", "${{MY_ARGUMENT}}"]
env = {{ TOKEN = "${{MY_VALUE}}", WORDS = "plain-4711-words", PLAIN = "true", LOCALE = "en", PLACE = "/srv/harbour" }}
connect_s = 20
[[servers]]
name = "far"
enabled = false
url = "http://me:pass-4711@127.0.0.1:9/mcp?key=query-4711"
headers = {{ Authorization = "Bearer head-4711" }}
[[servers]]
name = "other"
enabled = false
url = "http://127.0.0.1:9/mcp"
oauth = {{ grant = "client_credentials", client_id = "me", client_secret = "client-4711" }}
"""
SERVER_ONLY = ("a header", "a password of a URL", "a query of a URL", "a client's secret")
"""Secrets of other servers, which a command for one server does not read."""


@pytest.fixture
def stage(folder: Path, environment: dict[str, str]) -> Path:
    """A folder with a server that sends secrets, and its configuration."""
    (folder / "leaky.py").write_text(SERVER, encoding="utf-8")
    (folder / "leak.txt").write_text(LEAKED_TEXT, encoding="utf-8")
    (folder / "mcp_config.toml").write_text(CONFIG.format(python=json.dumps(sys.executable)), encoding="utf-8")
    (folder / "mcp_config.toml").chmod(0o600)
    environment |= {"MY_VALUE": "tok-4711", "MY_ARGUMENT": "argument-4711"}
    return folder


def test_the_end_of_a_private_key_is_hidden_where_its_beginning_was_cut_off() -> None:
    text = KEY.format("PRIVATE KEY").partition("\n")[2]
    assert redact_keys(f"some words\n{text}\nmore") == f"some words\n{REDACTED}\nmore"


def find_leaks(outputs: dict[str, str], but: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """(output, kind) of each secret that is found, if only its beginning; of a private key each line counts."""
    kinds = {kind: secret.split("\n")[1:3] if kind == "PEM" else [secret] for kind, secret in SECRETS.items()}
    return [
        (output, kind)
        for output, text in outputs.items()
        for kind, parts in kinds.items()
        if kind not in but and any(part[:9] in text for part in parts)
    ]


def test_each_shape_of_key_is_redacted_and_similar_ordinary_text_is_not() -> None:
    assert SHAPED.keys() == {*KEY_FORMATS, "PEM"}
    for frame, secret, ordinary in SHAPED.values():
        assert redact_keys(f"a {frame.format(secret)} b") == f"a {frame.format(REDACTED)} b"
        assert redact_keys(f"a {ordinary} b") == f"a {ordinary} b"


@pytest.mark.parametrize("size", [1, 7])
def test_a_secret_is_redacted_in_chunks_of_any_size(size: int) -> None:
    redactor = Redactor()
    redactor.add(*CONFIGURED.values())
    lines, data = StreamRedactor(redactor), f"{LEAKED_TEXT}\n".encode()
    shown = b"".join(lines.feed(data[at : at + size]) for at in range(0, len(data), size)) + lines.close()
    assert find_leaks({"pieces": shown.decode()}) == []
    assert [text for text in ORDINARY if text not in shown.decode()] == []


def test_a_short_value_or_an_ordinary_one_is_no_secret() -> None:
    env = {"TOKEN": "on", "API_KEY": "12345", "DEBUG": "true", "LANG": "en", "MODE": "production", "PORT": "20260728"}
    redactor = make_redactor(ServerConfig("s", env={**env, "PLACE": "/srv/harbour", "MY_TOKEN": "longer"}))
    ordinary = "on 12345 true en production 20260728 /srv/harbour prolonger"
    assert redactor.redact_all(f"{ordinary} longer x_longer.") == f"{ordinary} {REDACTED} x_{REDACTED}."


@pytest.mark.parametrize("mark", [" eyJ", "-eyJ", "sk-", "://a:", 'token="', "-----BEGIN PRIVATE KEY", "Bearer "])
def test_redaction_takes_linear_time(mark: str) -> None:
    text = mark * (250_000 // len(mark))
    started = time.process_time()
    redact_keys(text)
    assert time.process_time() - started < 5  # quadratic patterns take minutes


@pytest.mark.slow
def test_a_chat_writes_no_secret_to_any_file(
    open_screen: Callable[..., Screen], stage: Path, script: Callable[..., str], shelf: SessionDirectory
) -> None:
    script(call_text("tell", text=""), f"Done with {SECRETS['sk-']} and {SECRETS['a header']}, in production.")
    log = ("--log-file", "log.jsonl", "--log-bodies", "-v")
    screen = open_screen("--allow", "tell", *log, size=(200, 100))
    screen.wait_for("Type /help", 60)
    screen.type(f"Say {SECRETS['GitHub']}!\r")
    screen.wait_for("in production.", 30)
    screen.wait_for_prompt()
    for suffix in ("md", "json"):
        screen.type(f"/export chat.{suffix}\r")
        screen.wait_for(f"exported to chat.{suffix}")
        screen.wait_for_prompt()
    before = len(screen.bytes)
    screen.type("/mcp log leaky\r")
    screen.wait_for("leaky.log")
    screen.wait_for_prompt()
    shown = screen.bytes[before:].decode()
    screen.type("\x04")
    assert screen.wait_for_end(30) == 0
    (session,) = shelf.path.iterdir()
    files = {
        "session": session,
        **{suffix: stage / f"chat.{suffix}" for suffix in ("md", "json")},
        "log": stage / "log.jsonl",
        "server's log": shelf.path.parent / "logs/leaky.log",
    }
    outputs = {**{name: path.read_text("utf-8") for name, path in files.items()}, "/mcp log": shown}
    assert find_leaks(outputs) == []
    assert [output for output, text in outputs.items() if REDACTED not in text] == []
    ordinary = ("production", "Bearer of good news", "sk-learn-contrib-package-of-mine", "max_tokens=4096")
    assert [(output, word) for output, text in outputs.items() for word in ordinary if word not in text] == []


@pytest.mark.parametrize("keeps", [False, True], ids=["by default", "with keep_secrets"])
def test_keep_secrets_keeps_text_that_looks_like_a_key(
    keeps: bool, program: Run, stage: Path, script: Callable[..., str], shelf: SessionDirectory
) -> None:
    config = stage / "mcp_config.toml"
    config.write_text(config.read_text("utf-8").replace("[chat]", f"[chat]\nkeep_secrets = {str(keeps).lower()}"))
    script(call_text("tell", text=f"{SECRETS['GitHub']} and tok-4711"), "Done.")
    log = ("--log-file", "log.jsonl", "--log-bodies")
    program("-p", "Tell!", "--server", "leaky", "--continue", "--allow", "tell", *log)
    (session,) = shelf.path.iterdir()
    written, logged = session.read_text("utf-8"), (stage / "log.jsonl").read_text("utf-8")
    assert (SECRETS["GitHub"] in written, "tok-4711" in written, SECRETS["GitHub"] in logged) == (keeps, False, False)


@pytest.mark.parametrize("tool", ["refuse", "die"])
def test_an_error_of_a_server_is_redacted_before_it_is_truncated(tool: str, stage: Path) -> None:
    env = {"TOKEN": "tok-4711"}
    server = ServerConfig("leaky", sys.executable, ("leaky.py",), env, str(stage))
    shaped = {kind: row[0].format(row[1]) for kind, row in SHAPED.items() if kind != "PEM"}
    texts = {"an env by its name": "tok-4711", **shaped}

    async def call_with_all() -> dict[str, str]:
        results: dict[str, str] = {}
        async with Toolbox([server], stage / "logs") as toolbox:
            for kind, text in list(texts.items())[: None if tool == "refuse" else 3]:
                # at the limit of what is shown: a secret that is truncated first is not recognized
                padded = "x " * ((295 - len(text) // 2) // 2) + text
                (called,) = (offered for offered in toolbox.tools if offered.name == tool)
                results[kind] = (await toolbox.call(called, {"text": padded}, lambda *_: None)).text
                if tool == "die":
                    await toolbox.restart("leaky")
        return results

    results = asyncio.run(call_with_all())
    assert len(results) >= 3 and all("x x x" in text for text in results.values())
    assert [kind for kind, text in results.items() if SECRETS[kind][:6] in text] == []


@pytest.mark.parametrize("tool", ["fail", "refuse", "die"])
def test_one_shot_commands_print_no_secret(tool: str, stage: Path, environment: dict[str, str]) -> None:
    shell = Shell(stage, environment)
    document = json.dumps(shell.run("call-tool", f"leaky.{tool}"), ensure_ascii=False)
    command = [sys.executable, "-m", "rkllm_chat.cli.mcp_tool", "--verbose", f"leaky__{tool}"]
    done = fork_server.run(command, cwd=stage, env=environment, encoding="utf-8")
    assert done.returncode != 0
    outputs = {"call-tool": document, "mcp-tool": done.stdout + done.stderr}
    assert find_leaks(outputs, SERVER_ONLY) == []
    ordinary = "max_tokens=4096" if tool != "refuse" else "with error -1"  # which is cut
    assert [output for output, text in outputs.items() if REDACTED not in text or ordinary not in text] == []


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
def test_an_error_before_the_call_shows_no_secret(method: str, stage: Path, environment: dict[str, str]) -> None:
    config = stage / "mcp_config.toml"
    config.write_text(config.read_text("utf-8").replace("env = { TOKEN", f'env = {{ FAILS_AT = "{method}", TOKEN'))
    document = Shell(stage, environment).run("list-tools", "--server", "leaky")
    shown = json.dumps(document, ensure_ascii=False)
    assert not document["ok"] and REDACTED in shown
    assert find_leaks({"list-tools": shown}, SERVER_ONLY) == []


def test_reports_about_servers_show_no_secret(stage: Path, environment: dict[str, str], program: Run) -> None:
    findings, report = program("doctor", "--json"), program("doctor", "--board-report")
    listed = json.dumps(Shell(stage, environment).run("list-servers"))
    outputs = {"list-servers": listed, "doctor": findings.stdout + findings.stderr, "report": report.stdout}
    assert find_leaks(outputs) == []
    assert all("leaky" in text for text in outputs.values())


def test_the_traceback_of_an_internal_error_is_redacted(
    stage: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stage)
    redactor = Redactor()
    redactor.add("tok-4711")
    try:
        raise RuntimeError(Path("leak.txt").read_text("utf-8"))
    except RuntimeError as error:
        print_traceback(redactor, type(error), error, error.__traceback__)
    errors = capsys.readouterr().err
    assert "RuntimeError: [redacted]" in errors and "good news" in errors
    assert find_leaks({"traceback": errors}, tuple(set(CONFIGURED) - {"an env by its name"})) == []


def test_a_server_inherits_only_the_listed_variables_and_those_of_its_entry(
    stage: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    names = ("MY_SECRET", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "PYTHONSTARTUP")
    environment |= {"LD_PRELOAD": "", **{name: f"hidden-{name}" for name in names}}
    with (tmp_path / "inherited").open("w") as inherited:
        os.set_inheritable(inherited.fileno(), True)
        done = subprocess.run(
            [*PROGRAM, "call-tool", "leaky.look", "--select", "text"],
            cwd=stage,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=True,
            close_fds=False,
        )
    seen = json.loads(json.loads(done.stdout)["result"])
    listed = {"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER", "LC_CTYPE", "RKLLM_CHAT_SERVER"}
    named = {"TOKEN", "WORDS", "PLAIN", "LOCALE", "PLACE"}
    assert named <= set(seen["environment"]) <= listed | named
    assert (seen["files"], seen["umask"], seen["session"], seen["group"]) == ([0, 1, 2], 0o077, True, True)
