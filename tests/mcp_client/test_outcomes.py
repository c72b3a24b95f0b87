"""Whatever a server does, each command ends in time with an outcome that is documented, the same for all commands.

The servers' answers are damaged at random, or they misbehave over HTTP. `RKLLM_CHAT_FUZZ=2000` damages as many, and
tries every mode of a site instead of a dozen.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fork_server import run
from fuzzing import BUDGET, examples
from rkllm_chat.core import errors
from rkllm_chat.core.sanitize import UNSAFE
from stage import PROGRAM, call_text

from .chaos_http import HTTP_MODES, open_site
from .faults import TESTS, left_behind

TIMEOUT_S = 1.0
HANG_S = 40.0
SERVER = "odd"
TOOL = [sys.executable, "-m", "rkllm_chat.cli.mcp_tool"]
ERRORS = {
    kind.type_name: kind.exit_code
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.ChatError) and kind.type_name != errors.ChatError.type_name
}
"""Error type -> exit code of those that a server may cause: all but internal errors."""
CODES = (0, 1, *ERRORS.values())
FAULT = re.compile(
    r"Traceback|InternalError|bug in rkllm-chat"
    r"|\b(Attribute|Key|Type|Value|Index|Recursion|Assertion|Unicode\w*|Memory|Runtime)Error\b"
)


@dataclass(frozen=True)
class Outcome:
    """What a command did: `kind` is "ok", the type of the error, or the status of the call in a turn."""

    command: str
    code: int
    kind: str
    text: str
    faults: tuple[str, ...]


Read = Callable[[int, str, str], tuple[str, list[str]]]


def read_document(code: int, output: str, errors_text: str) -> tuple[str, list[str]]:
    """The outcome of a JSON command, and what is wrong with it."""
    faults = ["standard error is not empty"] if errors_text else []
    document = json.loads(output)
    if document["ok"]:
        return "ok", faults + ["exit code"] * (code != 0)
    kind = document["error"]["type"]
    return kind, faults + ["error type"] * (kind not in ERRORS) + ["exit code"] * (code != 1)


def read_turn(code: int, output: str, errors_text: str) -> tuple[str, list[str]]:
    """The outcome of `-p --output-format json`: the status of its call."""
    faults = ["standard error is not empty"] if errors_text else []
    document = json.loads(output)
    if not document["ok"]:
        kind = document["error"]["type"]
        return kind, faults + ["exit code"] * (code != ERRORS.get(kind))
    statuses = [call["status"] for call in document["result"]["calls"]]
    has_reason = statuses or document["result"]["notices"]
    return "".join(statuses) or "no tool", faults + ["no reason is given"] * (not has_reason) + ["exit code"] * (
        code != 0
    )


def read_lines(code: int, output: str, errors_text: str) -> tuple[str, list[str]]:
    """The outcome of `mcp-tool`."""
    faults = ["no reason is given"] if code and not (output + errors_text).strip() else []
    return "ok" if code == 0 else f"exit {code}", faults


COMMANDS: dict[str, tuple[list[str], Read]] = {
    "call-tool": ([*PROGRAM, "call-tool", f"{SERVER}.act"], read_document),
    "list-tools": ([*PROGRAM, "list-tools", "--server", SERVER], read_document),
    "mcp-tool": ([*TOOL, f"{SERVER}__act"], read_lines),
    "-p": (
        [*PROGRAM, "-p", "act", "--server", SERVER, "--model", "replies.json",
         "--allow", "*", "--output-format", "json"],
        read_turn,
    ),
}  # fmt: skip


class Stand:
    """A folder of an isolated user with one server, through which commands are run."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, {**environment, "TMPDIR": str(folder)}
        replies = [call_text("act", text="x"), "Done."]
        (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")

    def use(self, timeout_s: float = TIMEOUT_S, **entry: Any) -> None:
        """Make a server the only one."""
        entry = {"timeout_s": timeout_s, "connect_s": timeout_s, **entry}
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": {SERVER: entry}}), encoding="utf-8")

    def use_mutated(self, seed: int, timeout_s: float = TIMEOUT_S) -> None:
        """Make the mutated server of a seed the only one."""
        args = ["-S", "-m", "mcp_client.mutated_server", str(seed), "--log", str(self.folder / f"{SERVER}.jsonl")]
        self.use(timeout_s, command=sys.executable, args=args, env={"PYTHONPATH": str(TESTS)})

    def run(self, name: str) -> Outcome:
        """Run a command, and find what no server may cause: a hang is an error of this function."""
        words, read = COMMANDS[name]
        log = self.folder / f"{SERVER}.jsonl"
        log.unlink(missing_ok=True)
        done = run(words, env=self.environment, cwd=self.folder, timeout=HANG_S)
        output, errors_text = (part.decode("utf-8", "replace") for part in (done.stdout, done.stderr))
        faults = ["exit code is not documented"] * (done.returncode not in CODES)
        faults += [f"says {found[0]}" for found in [FAULT.search(output + errors_text)] if found]
        faults += ["control characters"] * bool(UNSAFE.search(output + errors_text))
        faults += [f"left process {pid}" for pid in left_behind(self.folder, SERVER)]
        try:
            kind, more = read(done.returncode, output, errors_text)
        except ValueError:
            kind, more = "?", ["no document"]
        return Outcome(name, done.returncode, kind, output + errors_text, (*faults, *more))


def choose_command(seed: int) -> str:
    """The command for a seed: `call-tool` for two of five, the others for one each."""
    return ("call-tool", "list-tools", "-p", "call-tool", "mcp-tool")[seed % 5]


def eras_of(mode: str) -> tuple[str, ...]:
    """The eras in which a mode has a meaning: stateless servers have no session to forget."""
    return ("handshake",) if mode == "session-gone" else ("handshake", "modern")


SITE_COMMANDS = ("call-tool", "mcp-tool", "-p")


def run_site(stand: Stand, mode: str, eras: str, timeout_s: float = TIMEOUT_S) -> dict[str, Outcome]:
    """Call a tool of a server that misbehaves over HTTP through three commands, each with a server of its own."""
    outcomes = {}
    for command in SITE_COMMANDS:
        with open_site("ok") as elsewhere, open_site(mode, eras=eras, elsewhere=elsewhere.url) as site:
            stand.use(timeout_s, url=site.url, transport="http")
            outcomes[command] = stand.run(command)
    return outcomes


def find_differences(outcomes: dict[str, Outcome]) -> list[str]:
    """What is wrong with the outcomes of one server: a fault, or that commands disagree on whether the call worked."""
    faults = [f"{name}: {fault}" for name, outcome in outcomes.items() for fault in outcome.faults]
    documented = outcomes["call-tool"].kind
    if outcomes["mcp-tool"].code != ERRORS.get(documented, 0):
        faults.append(f"mcp-tool exits with {outcomes['mcp-tool'].code} for {documented}")
    is_too_large = "limit 4 MB" in outcomes["-p"].text  # a model could not read as much as a file can hold
    if (outcomes["-p"].kind == "completed") != (documented == "ok") and not is_too_large:
        faults.append(f"-p says {outcomes['-p'].kind} for {documented}")
    return faults


PART = 10
"""Seeds in one test, so that they are spread over the processes."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(examples(60) // PART))
def test_any_damaged_answer_gives_a_documented_outcome(part: int, environment: dict[str, str], folder: Path) -> None:
    stand = Stand(folder, environment)
    found = {}
    for seed in range(part * PART, (part + 1) * PART):
        stand.use_mutated(seed, timeout_s=0.5)
        if faults := (outcome := stand.run(choose_command(seed))).faults:
            found[seed] = (outcome.command, faults, outcome.text[:300])
    assert found == {}


DOZEN = (
    "ok",
    "start-503",
    "start-html",
    "start-trickle-header",
    "call-401",
    "call-302",
    "call-no-http",
    "call-short",
    "call-bad-chunk",
    "call-trickle-trailers",
    "call-open-event",
    "call-bomb",
)


@pytest.mark.slow
@pytest.mark.parametrize("mode", HTTP_MODES if BUDGET else DOZEN)
def test_any_site_gives_a_documented_outcome_which_is_the_same_through_three_commands(
    mode: str, environment: dict[str, str], folder: Path
) -> None:
    stand = Stand(folder, environment)
    eras = eras_of(mode) if BUDGET else ("handshake",)
    outcomes = {era: run_site(stand, mode, era, timeout_s=3.0) for era in eras}
    assert [fault for outcome in outcomes.values() for fault in find_differences(outcome)] == [], outcomes
