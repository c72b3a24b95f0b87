"""One conversation with the Claude CLI: each run goes on where the last one ended. It knows no MCP.

    claude --dangerously-skip-permissions --output-format json [--resume SESSION] -p

The prompt goes by standard input, so it is in no process list and no shell reads it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio

from ...errors import StartError
from ..textfiles import FileError, read_text
from ..turns import BusyError, Doing, Turns
from . import process
from .answers import Answer, AnswerError, read_answer
from .history import MOST_RUNS, History, Kept, Totals
from .search import is_program

DANGEROUS = "--dangerously-skip-permissions"
LONGEST_RUN_S = 24 * 3600
LARGEST_PROMPT = 1 << 20
LONGEST_KEPT = 10_000
ERRORS_SHOWN = 2_000
UNKNOWN_SESSION = "No conversation found with session ID"
NOT_FOUND = 127

Find = Callable[[], tuple[str, ...]]


@dataclass(frozen=True)
class Run:
    """One run. `response` is the answer's text alone, None where there is an error; the time is in seconds."""

    success: bool
    prompt: str
    response: str | None
    execution_time: float
    timestamp: str
    error: str | None
    session_id: str | None = None
    context_file: str | None = None


class FailedError(Exception):
    """A run gives no answer; the text says why. `session_id`: where the talk goes on all the same."""


class ClaudeSession:
    """Runs the CLI, one run at a time, and keeps its session and its history.

    `find` gives the words that start it, or raises StartError; it is asked once, and again when the program is gone.
    """

    def __init__(
        self,
        find: Find,
        folders: Sequence[Path],
        history: History,
        permission_mode: str = "",
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._find, self._folders, self._history = find, folders, history
        self._permissions = ("--permission-mode", permission_mode) if permission_mode else (DANGEROUS,)
        self._environment = environment
        self._command: tuple[str, ...] = ()
        self._turns = Turns()
        self._resets = 0
        self.session_id = history.read().session_id

    async def run(self, prompt: str, limit_s: float, doing: Doing, context_file: str | None = None) -> Run:
        """Runs the CLI once; every failure is a Run that says why. Cancelling it ends the CLI with its children."""
        timestamp = datetime.now().astimezone().isoformat(timespec="seconds")
        run = Run(False, prompt, None, 0.0, timestamp, None, context_file=context_file)
        try:
            text = self._read_prompt(prompt, limit_s, context_file)
            async with self._turns.turn(doing):
                return await self._run(run, text, limit_s, doing)
        except (FailedError, FileError, BusyError, StartError) as error:
            return replace(run, error=str(error))

    def read_history(self) -> Kept:
        return self._history.read()

    def clear(self) -> int:
        """Forgets the runs, not the session and not the totals; gives how many there were."""
        before: list[int] = []

        def forget(kept: Kept) -> Kept:
            before.append(len(kept.runs))
            return replace(kept, runs=())

        self._history.change(forget)
        return before[-1]

    def reset(self) -> str | None:
        """The next run begins a new talk, also where one is under way; gives the session there was."""
        old, self.session_id = self.session_id, None
        self._resets += 1
        self._history.change(lambda kept: replace(kept, session_id=None))
        return old

    def _read_prompt(self, prompt: str, limit_s: float, context_file: str | None) -> str:
        if not prompt.strip():
            raise FailedError("The prompt is empty.")
        if "\0" in prompt:
            raise FailedError("The prompt holds a NUL character.")
        if len(prompt) > LARGEST_PROMPT:
            raise FailedError(f"The prompt is {len(prompt)} characters long; at most {LARGEST_PROMPT} are sent.")
        if not 0 < limit_s <= LONGEST_RUN_S:
            raise FailedError(f"The timeout must be from 1 to {LONGEST_RUN_S} seconds.")
        if context_file is None:
            return prompt
        text = read_text(self._folders, context_file)
        return f"{prompt}\n\nThe file {context_file}:\n\n```\n{text.rstrip()}\n```\n"

    async def _run(self, run: Run, text: str, limit_s: float, doing: Doing) -> Run:
        """One run that has the turn; whatever comes of it is in the history afterwards."""
        resets, answer, error = self._resets, None, "The run was cancelled."
        doing.say("looks for claude")
        command = await self._find_command()
        doing.say("claude runs")
        begun = time.monotonic()
        try:
            answer, error = await self._ask(command, text, limit_s)
        finally:
            session = answer.session_id if answer and not error else None
            if session and resets == self._resets:
                self.session_id = session
            run = replace(
                run,
                success=not error,
                response=answer.result if answer and not error else None,
                execution_time=round(time.monotonic() - begun, 3),
                error=error or None,
                session_id=session,
            )
            self._history.change(lambda kept: remember(kept, run, answer, self.session_id))
        return run

    async def _find_command(self) -> tuple[str, ...]:
        """The words that start it. Raises StartError."""
        if len(self._command) == 1 and not is_program(Path(self._command[0])):
            self._command = ()
        if not self._command:
            self._command = await anyio.to_thread.run_sync(self._find)
        return self._command

    async def _ask(self, command: tuple[str, ...], text: str, limit_s: float) -> tuple[Answer | None, str]:
        """The CLI's answer, if it gave one, and what went wrong, "" where nothing did."""
        resumed = ("--resume", self.session_id) if self.session_id else ()
        words = (*command, *self._permissions, "--output-format", "json", *resumed, "-p")
        try:
            done = await process.run(words, text, limit_s, self._make_environment(command), self._folders[0])
        except OSError as error:
            self._command = ()
            return None, f"{command[-1]} cannot be started: {error.strerror}. It is searched for again by the next run."
        if done.exit_code == NOT_FOUND:
            self._command = ()
        return judge(done, limit_s)

    def _make_environment(self, command: tuple[str, ...]) -> dict[str, str]:
        """Ours; the folder of a CLI that is not on the PATH is put there, because the node it needs lies beside it."""
        folder, path = str(Path(command[-1]).parent), self._environment.get("PATH", os.defpath)
        if len(command) == 1 and folder not in path.split(os.pathsep):
            path = f"{folder}{os.pathsep}{path}"
        return {**self._environment, "PATH": path}


def judge(done: process.Done, limit_s: float) -> tuple[Answer | None, str]:
    """What a run has come to: its answer, and what went wrong."""
    if done.exit_code is None:
        return None, f"The time limit of {limit_s:g} seconds ran out; claude was ended."
    if done.is_cut:
        return None, f"claude wrote more than {process.LARGEST_OUTPUT >> 20} MB."
    said = done.errors.decode("utf-8", errors="replace").strip()[-ERRORS_SHOWN:]
    try:
        answer = read_answer(done.output)
    except AnswerError as error:
        cause = f"claude ended with exit code {done.exit_code}" if done.exit_code else str(error)
        head = done.output.decode("utf-8", errors="replace").strip()[:ERRORS_SHOWN]
        return None, explain(cause, said or (head if done.exit_code else ""))
    if done.exit_code:
        return answer, explain(f"claude ended with exit code {done.exit_code}", said or answer.result or answer.subtype)
    if answer.is_error:
        return answer, explain("claude reports an error", answer.result or answer.subtype or said)
    return answer, ""


def explain(cause: str, said: str) -> str:
    text = f"{cause}: {said}" if said else f"{cause}."
    return f"{text} (reset_session begins a new one.)" if UNKNOWN_SESSION in said else text


def remember(kept: Kept, run: Run, answer: Answer | None, session_id: str | None) -> Kept:
    """What is remembered after a run: texts are cut, so that a hundred runs stay small."""
    entry = asdict(replace(run, prompt=cut(run.prompt), response=run.response and cut(run.response)))
    if run.context_file is None:
        del entry["context_file"]
    before = kept.totals
    totals = Totals(
        runs=before.runs + 1,
        failed=before.failed + (not run.success),
        seconds=round(before.seconds + run.execution_time, 3),
        cost_usd=round(before.cost_usd + (answer.cost_usd if answer else 0), 6),
        input_tokens=before.input_tokens + (answer.input_tokens if answer else 0),
        output_tokens=before.output_tokens + (answer.output_tokens if answer else 0),
    )
    return Kept((*kept.runs, entry)[-MOST_RUNS:], session_id, totals)


def cut(text: str) -> str:
    left_out = len(text) - LONGEST_KEPT
    return text if left_out <= 0 else f"{text[:LONGEST_KEPT]}\n[{left_out} characters left out]"


def list_runs(kept: Kept, limit: int) -> list[dict[str, Any]]:
    """The newest runs, the oldest of them first."""
    return [dict(run) for run in kept.runs[-limit:]] if limit > 0 else []
