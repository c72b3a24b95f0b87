"""One conversation with the Claude CLI; each run resumes the session of the previous one.

    claude --dangerously-skip-permissions --output-format json [--resume SESSION] -p

The prompt is passed on standard input, so it appears in no process list and no shell parses it.
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

from ...core.errors import StartError
from ...core.programs import describe_exit
from ..job_queue import Activity, BusyError, JobQueue
from ..text_files import FileError, read_text
from . import process
from .cli_output import CliResult, OutputError, parse_output
from .find_cli import is_executable
from .history import MAX_RUNS, HistoryState, RunHistory, Totals

_DANGEROUS = "--dangerously-skip-permissions"
_MAX_RUN_S = 24 * 3600
_MAX_PROMPT_CHARS = 1 << 20
_MAX_STORED_CHARS = 10_000
_SHOWN_ERROR_CHARS = 2_000
_UNKNOWN_SESSION = "No conversation found with session ID"
_NOT_FOUND = 127

FindProgram = Callable[[], str]


@dataclass(frozen=True)
class RunRecord:
    """The record of one run.

    Attributes:
        response: The text of the answer; None on error.
        execution_time: In seconds.
        timestamp: Start in ISO 8601 with the offset.
        error: Why the run failed; None on success.
    """

    success: bool
    prompt: str
    response: str | None
    execution_time: float
    timestamp: str
    error: str | None
    session_id: str | None = None
    context_file: str | None = None


class RunRefusedError(Exception):
    """The run cannot be started; the message says why."""


class ClaudeSession:
    """Runs the CLI, one run at a time, and stores its session and history.

    Args:
        find: Returns the path of the CLI or raises StartError; the result is cached until the program disappears.
        folders: Context files must be inside.
        history: Stores the runs.
        permission_mode: The CLI's mode; "" skips its permission checks.
        environment: The environment of the CLI.
        work: The folder in which the CLI runs; by default the first of `folders`.
    """

    def __init__(
        self,
        find: FindProgram,
        folders: Sequence[Path],
        history: RunHistory,
        permission_mode: str = "",
        environment: Mapping[str, str] = os.environ,
        work: Path | None = None,
    ) -> None:
        self._find, self._folders, self._history = find, folders, history
        self._work = work or folders[0]
        self._permissions = ("--permission-mode", permission_mode) if permission_mode else (_DANGEROUS,)
        self._environment = environment
        self._program = ""
        self._queue = JobQueue()
        self._resets = 0
        self.session_id = history.read().session_id

    async def run(self, prompt: str, limit_s: float, activity: Activity, context_file: str | None = None) -> RunRecord:
        """Run the CLI once; every failure becomes a Run with `error`.

        Cancelling ends the CLI and its children.
        """
        timestamp = datetime.now().astimezone().isoformat(timespec="seconds")
        run = RunRecord(False, prompt, None, 0.0, timestamp, None, context_file=context_file)
        try:
            text = self._read_prompt(prompt, limit_s, context_file)
            async with self._queue.wait_turn(activity):
                return await self._run(run, text, limit_s, activity)
        except (RunRefusedError, FileError, BusyError, StartError) as error:
            return replace(run, error=str(error))

    def read_history(self) -> HistoryState:
        """Return the stored history."""
        return self._history.read()

    def clear_history(self) -> int:
        """Delete the stored runs, but not the session and the totals; return their number."""
        before: list[int] = []

        def forget(state: HistoryState) -> HistoryState:
            before.append(len(state.runs))
            return replace(state, runs=())

        self._history.update(forget)
        return before[-1]

    def reset_session(self) -> str | None:
        """Start a new conversation with the next run; return the previous session.

        Also applies to a run in progress: its session is not stored.
        """
        old, self.session_id = self.session_id, None
        self._resets += 1
        self._history.update(lambda state: replace(state, session_id=None))
        return old

    def _read_prompt(self, prompt: str, limit_s: float, context_file: str | None) -> str:
        if not prompt.strip():
            raise RunRefusedError("The prompt is empty.")
        if "\0" in prompt:
            raise RunRefusedError("The prompt holds a NUL character.")
        if len(prompt) > _MAX_PROMPT_CHARS:
            raise RunRefusedError(f"The prompt is {len(prompt)} characters long; at most {_MAX_PROMPT_CHARS} are sent.")
        if not 0 < limit_s <= _MAX_RUN_S:
            raise RunRefusedError(f"The timeout must be from 1 to {_MAX_RUN_S} seconds.")
        if context_file is None:
            return prompt
        text = read_text(self._folders, context_file)
        return f"{prompt}\n\nThe file {context_file}:\n\n```\n{text.rstrip()}\n```\n"

    async def _run(self, run: RunRecord, text: str, limit_s: float, activity: Activity) -> RunRecord:
        """Run the CLI while holding the turn; the run is stored whatever its outcome."""
        resets, answer, error = self._resets, None, "The run was cancelled."
        activity.report("looks for claude")
        program = await self._find_program()
        activity.report("claude runs")
        started = time.monotonic()
        try:
            answer, error = await self._ask(program, text, limit_s)
        finally:
            session = answer.session_id if answer and not error else None
            if session and resets == self._resets:
                self.session_id = session
            run = replace(
                run,
                success=not error,
                response=answer.result if answer and not error else None,
                execution_time=round(time.monotonic() - started, 3),
                error=error or None,
                session_id=session,
            )
            self._history.update(lambda state: add_run(state, run, answer, self.session_id))
        return run

    async def _find_program(self) -> str:
        """Return the path of the CLI. Raises StartError."""
        if not is_executable(Path(self._program)):
            self._program = await anyio.to_thread.run_sync(self._find)
        return self._program

    async def _ask(self, program: str, text: str, limit_s: float) -> tuple[CliResult | None, str]:
        """Return the answer, if any, and an error message, "" on success."""
        resumed = ("--resume", self.session_id) if self.session_id else ()
        words = (program, *self._permissions, "--output-format", "json", *resumed, "-p")
        try:
            done = await process.run_command(words, text, limit_s, self._make_environment(program), self._work)
        except OSError as error:
            self._program = ""
            return None, f"{program} cannot be started: {error.strerror}. It is searched for again by the next run."
        if done.exit_code == _NOT_FOUND:
            self._program = ""
        return interpret_result(done, limit_s)

    def _make_environment(self, program: str) -> dict[str, str]:
        """Return the environment with the CLI's folder on the PATH, because the node it needs is next to it."""
        folder, path = str(Path(program).parent), self._environment.get("PATH", os.defpath)
        if folder not in path.split(os.pathsep):
            path = f"{folder}{os.pathsep}{path}"
        return {**self._environment, "PATH": path}


def interpret_result(finished: process.CompletedCommand, limit_s: float) -> tuple[CliResult | None, str]:
    """Return the answer of a finished process, if any, and an error message, "" on success."""
    if finished.exit_code is None:
        return None, f"The time limit of {limit_s:g} seconds ran out; claude was ended."
    if finished.is_truncated:
        return None, f"claude wrote more than {process.MAX_OUTPUT_BYTES >> 20} MB."
    stderr = finished.errors.decode("utf-8", errors="replace").strip()[-_SHOWN_ERROR_CHARS:]
    try:
        answer = parse_output(finished.output)
    except OutputError as error:
        cause = f"claude {describe_exit(finished.exit_code)}" if finished.exit_code else str(error)
        head = finished.output.decode("utf-8", errors="replace").strip()[:_SHOWN_ERROR_CHARS]
        return None, format_error(cause, stderr or (head if finished.exit_code else ""))
    if finished.exit_code:
        return answer, format_error(
            f"claude {describe_exit(finished.exit_code)}", stderr or answer.result or answer.subtype
        )
    if answer.is_error:
        return answer, format_error("claude reports an error", answer.result or answer.subtype or stderr)
    return answer, ""


def format_error(cause: str, detail: str) -> str:
    """Join a cause and its details, with a hint if the session is unknown."""
    text = f"{cause}: {detail}" if detail else f"{cause}."
    return f"{text} (reset_session begins a new one.)" if _UNKNOWN_SESSION in detail else text


def add_run(state: HistoryState, run: RunRecord, answer: CliResult | None, session_id: str | None) -> HistoryState:
    """Return the state with a run added; its texts are truncated to keep the file small."""
    entry = asdict(
        replace(run, prompt=truncate_text(run.prompt), response=run.response and truncate_text(run.response))
    )
    if run.context_file is None:
        del entry["context_file"]
    before = state.totals
    totals = Totals(
        runs=before.runs + 1,
        failed=before.failed + (not run.success),
        seconds=round(before.seconds + run.execution_time, 3),
        cost_usd=round(before.cost_usd + (answer.cost_usd if answer else 0), 6),
        input_tokens=before.input_tokens + (answer.input_tokens if answer else 0),
        output_tokens=before.output_tokens + (answer.output_tokens if answer else 0),
    )
    return HistoryState((*state.runs, entry)[-MAX_RUNS:], session_id, totals)


def truncate_text(text: str) -> str:
    """Truncate a text to _MAX_STORED_CHARS characters."""
    left_out = len(text) - _MAX_STORED_CHARS
    return text if left_out <= 0 else f"{text[:_MAX_STORED_CHARS]}\n[{left_out} characters left out]"


def list_runs(state: HistoryState, limit: int) -> list[dict[str, Any]]:
    """Return the newest `limit` runs, oldest first."""
    return [dict(run) for run in state.runs[-limit:]] if limit > 0 else []
