"""Secrets come out by no door: each kind, each door, through real processes. Ordinary text passes all doors."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat.config import ServerConfig
from rkllm_chat.journal import Shelf
from rkllm_chat.redact import HIDDEN, SHAPES, Redacted, Redactor, hide_shapes
from rkllm_chat.servers.toolbox import Toolbox
from shell import Shell
from stage import PROGRAM, Screen, call_text

Run = Callable[..., "subprocess.CompletedProcess[str]"]

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
SAID = "\n".join([*CONFIGURED.values(), *(row[0].format(row[1]) for row in SHAPED.values()), *ORDINARY])
"""What the server says at every occasion."""

SERVER = """
import json, os, sys
said = open("said.txt", encoding="utf-8").read()
for line in sys.stdin:
    message = json.loads(line)
    method, asked = message["method"], message.get("params") or {}
    if "id" not in message:
        continue
    reply = {"error": {"code": -32601, "message": "no such method"}}
    if method == "initialize":
        reply = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "leaky", "version": "1"}}}
    elif method == "tools/list":
        names = ("tell", "fail", "refuse", "die", "look")
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        reply = {"result": {"tools": [{"name": name, "inputSchema": schema} for name in names]}}
    elif method == "tools/call":
        name = asked["name"]
        text = asked.get("arguments", {}).get("text") or said
        if name == "look":
            umask = os.umask(0o077)
            files = [int(one) for one in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + one)]
            told = {"environment": dict(os.environ), "files": sorted(files), "umask": umask,
                    "session": os.getsid(0) == os.getpid(), "group": os.getpgid(0) == os.getpid()}
            text = json.dumps(told)
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
"""What a command for one server alone does not read, as it is another server's."""


@pytest.fixture
def stage(folder: Path, environment: dict[str, str]) -> Path:
    """A folder with a server that says all it knows, and its configuration."""
    (folder / "leaky.py").write_text(SERVER, encoding="utf-8")
    (folder / "said.txt").write_text(SAID, encoding="utf-8")
    (folder / "mcp_config.toml").write_text(CONFIG.format(python=json.dumps(sys.executable)), encoding="utf-8")
    (folder / "mcp_config.toml").chmod(0o600)
    environment |= {"MY_VALUE": "tok-4711", "MY_ARGUMENT": "argument-4711"}
    return folder


def test_the_end_of_a_private_key_is_hidden_where_its_beginning_was_cut_off() -> None:
    text = KEY.format("PRIVATE KEY").partition("\n")[2]
    assert hide_shapes(f"some words\n{text}\nmore") == f"some words\n{HIDDEN}\nmore"


def find_leaks(doors: dict[str, str], but: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """(door, kind) of each secret that came out, were it only its beginning; of a private key each line counts."""
    kinds = {kind: secret.split("\n")[1:3] if kind == "PEM" else [secret] for kind, secret in SECRETS.items()}
    return [
        (door, kind)
        for door, text in doors.items()
        for kind, parts in kinds.items()
        if kind not in but and any(part[:9] in text for part in parts)
    ]


def test_every_shape_has_a_row_here() -> None:
    assert SHAPED.keys() == {*SHAPES, "PEM"}


@pytest.mark.parametrize("kind", SHAPED)
def test_a_shape_is_hidden_and_ordinary_text_like_it_is_not(kind: str) -> None:
    frame, secret, ordinary = SHAPED[kind]
    assert hide_shapes(f"a {frame.format(secret)} b") == f"a {frame.format(HIDDEN)} b"
    assert hide_shapes(f"a {ordinary} b") == f"a {ordinary} b"


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_a_secret_is_hidden_however_its_bytes_come(size: int) -> None:
    redactor = Redactor()
    redactor.add(*CONFIGURED.values())
    lines, data = Redacted(redactor), f"{SAID}\n".encode()
    shown = b"".join(lines.feed(data[at : at + size]) for at in range(0, len(data), size)) + lines.close()
    assert find_leaks({"pieces": shown.decode()}) == []
    assert [text for text in ORDINARY if text not in shown.decode()] == []


def test_a_short_value_or_an_ordinary_one_is_no_secret() -> None:
    env = {"TOKEN": "on", "API_KEY": "12345", "DEBUG": "true", "LANG": "en", "MODE": "production", "PORT": "20260728"}
    redactor = Redactor(ServerConfig("s", env={**env, "PLACE": "/srv/harbour", "MY_TOKEN": "longer"}))
    ordinary = "on 12345 true en production 20260728 /srv/harbour prolonger"
    assert redactor.hide_all(f"{ordinary} longer x_longer.") == f"{ordinary} {HIDDEN} x_{HIDDEN}."


@pytest.mark.parametrize("mark", [" eyJ", "-eyJ", "sk-", "://a:", 'token="', "-----BEGIN PRIVATE KEY", "Bearer "])
def test_a_megabyte_of_beginnings_is_looked_through(mark: str) -> None:
    code = (
        "import signal, sys; signal.alarm(20); from rkllm_chat.redact import hide_shapes; hide_shapes(sys.stdin.read())"
    )
    text = mark * (1_000_000 // len(mark))
    assert subprocess.run([sys.executable, "-c", code], input=text, encoding="utf-8", check=False).returncode == 0


@pytest.mark.parametrize("row", [pytest.param("F83", id="F83 what is kept of a chat")])
def test_a_talk_leaves_without_secrets(
    row: str, open_screen: Callable[..., Screen], stage: Path, script: Callable[..., str], shelf: Shelf
) -> None:
    assert row
    script(call_text("tell", text=""), f"Done with {SECRETS['sk-']} and {SECRETS['a header']}, in production.")
    log = ("--log-file", "log.jsonl", "--log-bodies", "-v")
    screen = open_screen("--allow", "tell", *log, size=(200, 100))
    screen.wait_for("/help lists", 60)
    screen.type(f"Say {SECRETS['GitHub']}!\r")
    screen.wait_for("in production.", 30)
    screen.wait_for_prompt()
    for form in ("md", "html", "json"):
        screen.type(f"/export talk.{form}\r")
        screen.wait_for(f"written to talk.{form}")
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
        **{form: stage / f"talk.{form}" for form in ("md", "html", "json")},
        "log": stage / "log.jsonl",
        "server's log": shelf.path.parent / "logs/leaky.log",
    }
    doors = {**{name: path.read_text("utf-8") for name, path in files.items()}, "/mcp log": shown}
    assert find_leaks(doors) == []
    assert [door for door, text in doors.items() if HIDDEN not in text] == []
    ordinary = ("production", "Bearer of good news", "sk-learn-contrib-package-of-mine", "max_tokens=4096")
    assert [(door, word) for door, text in doors.items() for word in ordinary if word not in text] == []


@pytest.mark.parametrize("keeps", [False, True], ids=["F83 by default", "F83 as the setting says"])
def test_a_session_keeps_what_looks_like_a_key_if_it_is_told_to(
    keeps: bool, program: Run, stage: Path, script: Callable[..., str], shelf: Shelf
) -> None:
    config = stage / "mcp_config.toml"
    config.write_text(config.read_text("utf-8").replace("[chat]", f"[chat]\nkeep_secrets = {str(keeps).lower()}"))
    script(call_text("tell", text=f"{SECRETS['GitHub']} and tok-4711"), "Done.")
    log = ("--log-file", "log.jsonl", "--log-bodies")
    program("-p", "Tell!", "--continue", "--allow", "tell", *log)
    (session,) = shelf.path.iterdir()
    written, logged = session.read_text("utf-8"), (stage / "log.jsonl").read_text("utf-8")
    assert (SECRETS["GitHub"] in written, "tok-4711" in written, SECRETS["GitHub"] in logged) == (keeps, False, False)


@pytest.mark.parametrize("tool", ["refuse", "die"])
def test_an_error_of_a_server_tells_no_secret_even_where_it_is_cut(tool: str, stage: Path) -> None:
    env = {"TOKEN": "tok-4711"}
    server = ServerConfig("leaky", sys.executable, ("leaky.py",), env, str(stage))
    asked = {kind: SAID_BY[kind] for kind in ("an env by its name", *SHAPED) if kind != "PEM"}

    async def ask_all() -> dict[str, str]:
        told: dict[str, str] = {}
        async with Toolbox([server], stage / "logs") as box:
            for kind, text in list(asked.items())[: None if tool == "refuse" else 3]:
                # at the limit of what is shown: a secret that is cut first is known no more
                filled = "x " * ((295 - len(text) // 2) // 2) + text
                (meant,) = (one for one in box.tools if one.name == tool)
                result = await box.call(meant, {"text": filled}, lambda *_: None)
                told[kind] = result.text
                if tool == "die":
                    await box.restart("leaky")
        return told

    told = asyncio.run(ask_all())
    assert len(told) >= 3 and all("x x x" in text for text in told.values())
    assert [kind for kind, text in told.items() if SECRETS[kind][:6] in text] == []


SAID_BY = {**CONFIGURED, **{name: row[0].format(row[1]) for name, row in SHAPED.items()}}


@pytest.mark.parametrize("tool", ["fail", "refuse", "die"])
def test_scripts_are_told_no_secret(tool: str, stage: Path, environment: dict[str, str]) -> None:
    shell = Shell(stage, environment)
    document = json.dumps(shell.run("call-tool", f"leaky.{tool}"), ensure_ascii=False)
    done = subprocess.run(
        [sys.executable, "-m", "rkllm_chat.toolcommands", "--verbose", f"leaky__{tool}"],
        cwd=stage,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    doors = {"call-tool": document, "mcp-tool": done.stdout + done.stderr}
    assert find_leaks(doors, SERVER_ONLY) == []
    ordinary = "max_tokens=4096" if tool != "refuse" else "with error -1"  # which is cut
    assert [door for door, text in doors.items() if HIDDEN not in text or ordinary not in text] == []


def test_what_tells_of_servers_tells_no_secret(stage: Path, environment: dict[str, str], program: Run) -> None:
    listed = json.dumps(Shell(stage, environment).run("list-servers"))
    looked = program("doctor", "--json")
    report = program("doctor", "--board-report")
    doors = {"list-servers": listed, "doctor": looked.stdout + looked.stderr, "report": report.stdout}
    assert find_leaks(doors) == []
    assert all("leaky" in text for text in doors.values())


def test_a_fault_of_ours_shows_its_trace_without_secrets(stage: Path, environment: dict[str, str]) -> None:
    code = (
        "import sys; from functools import partial; from rkllm_chat import cli\n"
        "secrets = cli.Redactor()\n"
        "secrets.add('tok-4711'); sys.excepthook = partial(cli.show_fault, secrets)\n"
        "raise RuntimeError(open('said.txt').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=stage, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 1 and "RuntimeError: [redacted]" in done.stderr and "good news" in done.stderr
    assert find_leaks({"trace": done.stderr}, tuple(set(CONFIGURED) - {"an env by its name"})) == []


@pytest.mark.parametrize("row", [pytest.param("F93", id="F93 what a server sees of us")])
def test_a_server_sees_what_is_listed_and_what_its_entry_names(
    row: str, stage: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    assert row
    names = [f"MY_SECRET_{number}" for number in range(10)] + [
        *("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD", "HF_TOKEN"),
        *("PYTHONSTARTUP", "DATABASE_URL", "NPM_TOKEN", "HTTPS_PROXY"),
    ]
    environment |= dict.fromkeys(names, "")
    environment |= {name: f"hidden-{name}" for name in names if name != "LD_PRELOAD"}
    with (tmp_path / "ours").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
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
