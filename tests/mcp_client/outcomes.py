"""What a command says of a server, and what must hold of it whatever the server does.

`python -m mcp_client.outcomes FOLDER --seeds 0:2000` and `--sites` (in tests/) run the sweeps and print figures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))

from fork_server import connect, run  # noqa: E402
from mcp_client.chaos_http import HTTP_MODES, open_site  # noqa: E402
from mcp_client.faults import left_behind  # noqa: E402
from rkllm_chat.core import errors  # noqa: E402
from rkllm_chat.core.sanitize import UNSAFE  # noqa: E402
from stage import PROGRAM, call_text  # noqa: E402

TIMEOUT_S = 1.0
SLACK_S = 2.0
"""By how much a command may exceed its timeout; sweeps check it on an idle machine."""
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
    seconds: float
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
        [*PROGRAM, "-p", "act", "--model", "replies.json", "--allow", "*", "--output-format", "json"],
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
        begun = time.monotonic()
        done = run(words, env=self.environment, cwd=self.folder, timeout=HANG_S)
        seconds = time.monotonic() - begun
        output, errors_text = (part.decode("utf-8", "replace") for part in (done.stdout, done.stderr))
        faults = ["exit code is not documented"] * (done.returncode not in CODES)
        faults += [f"says {found[0]}" for found in [FAULT.search(output + errors_text)] if found]
        faults += ["control characters"] * bool(UNSAFE.search(output + errors_text))
        faults += [f"left process {pid}" for pid in left_behind(self.folder, SERVER)]
        try:
            kind, more = read(done.returncode, output, errors_text)
        except ValueError:
            kind, more = "?", ["no document"]
        return Outcome(name, done.returncode, kind, output + errors_text, seconds, (*faults, *more))


def choose_command(seed: int) -> str:
    """The command for a seed: `call-tool` for two of five, the others for one each."""
    return ("call-tool", "list-tools", "-p", "call-tool", "mcp-tool")[seed % 5]


def sweep(labelled: Iterable[tuple[str, Callable[[], Outcome]]]) -> int:
    """Run all, print faults and figures; gives the number of faults."""
    kinds: Counter[tuple[str, str]] = Counter()
    longest: list[tuple[float, str]] = []
    count = 0
    connect()  # so that its start counts for no command
    for label, act in labelled:
        try:
            outcome = act()
        except Exception as error:  # the sweep goes on
            print(f"FAULT {label}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            count += 1
            continue
        faults = [*outcome.faults, *["late"] * (outcome.seconds > TIMEOUT_S + SLACK_S)]
        kinds[outcome.command, outcome.kind] += 1
        longest.append((outcome.seconds, f"{label} {outcome.command}"))
        count += bool(faults)
        if faults:
            print(
                f"FAULT {label} {outcome.command}: {faults} {outcome.seconds:.1f} s {outcome.text[:600]!r}", flush=True
            )
    for (command, kind), number in sorted(kinds.items()):
        print(f"{number:6} {command} {kind}")
    print("longest:", *[f"{seconds:.2f} s {label}" for seconds, label in sorted(longest)[-5:]], sep="\n  ")
    print(f"{len(longest)} runs, {count} faults")
    return count


def list_mutated(stand: Stand, seeds: range) -> Iterable[tuple[str, Callable[[], Outcome]]]:
    for seed in seeds:
        stand.use_mutated(seed)
        yield f"seed {seed}", partial(stand.run, choose_command(seed))


def sweep_sites(stand: Stand, modes: Iterable[str]) -> int:
    """Run all through three commands, print faults and figures; gives the number of faults."""
    connect()
    count, longest = 0, 0.0
    pairs = [(mode, eras) for mode in modes for eras in eras_of(mode)]
    for mode, eras in pairs:
        outcomes = run_site(stand, mode, eras)
        faults = find_differences(outcomes)
        count += bool(faults)
        longest = max(longest, *(outcome.seconds for outcome in outcomes.values()))
        kinds = {name: (outcome.kind, round(outcome.seconds, 1)) for name, outcome in outcomes.items()}
        print(*["FAULT"] * bool(faults), mode, eras, kinds, *faults, flush=True)
    print(f"{len(pairs)} servers, {count} faults, longest {longest:.2f} s")
    return count


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


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", metavar="FROM:TO")
    parser.add_argument("--sites", nargs="*", metavar="MODE")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "RKLLM_CHAT_SANDBOX": "off"}
        stand = Stand(Path(folder), {**environment, "RKLLM_CHAT_TRUST_PROJECT": "1"})
        count = 0
        if chosen.seeds:
            count += sweep(list_mutated(stand, range(*map(int, chosen.seeds.split(":")))))
        if chosen.sites is not None:
            count += sweep_sites(stand, chosen.sites or HTTP_MODES)
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
