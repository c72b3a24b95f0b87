"""Replay a saved session without its model and servers, for tests and bug reports.

    rkllm-chat --model SESSION.jsonl        then /replay, or the same lines typed again

The scripted backend returns the recorded replies; here the tools return the recorded results. The same events occur
again, except for progress and messages of engine and servers. A replayed session is not saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..calls.formats import FORMATS
from ..calls.model_families import AUTO
from ..config.policy import Policy
from ..config.settings import Generation, Settings
from ..core.events import Usage
from ..core.i18n import list_languages, load
from ..core.messages import Message, Tool, ToolResult
from ..core.protocols import CallPosition, Consent, Continuation, Decline, ProgressCallback
from ..storage.session_files import read_session
from ..storage.session_records import ContextTrimmed, HistoryEdited, LogEntry, Record, Setup, TurnFinished
from .builtin_tools import BUILTIN_TOOLS
from .conversation import Conversation


class Replay:
    """A toolbox of recorded results, each returned once.

    Attributes:
        setup: First setup of the session.
        tools: All tools of the session.
        steps: User messages that had a reply, and edits of the history, in order.
    """

    def __init__(self, entries: Sequence[LogEntry]) -> None:
        records = [entry.record for entry in entries]
        self.setup = next((record for record in records if isinstance(record, Setup)), Setup())
        self.tools = _find_tools(records)
        self.steps = _find_steps(records)
        self._continuations = _find_continuations(records, self.setup)
        self._trims = _find_trims(records)
        self._results = _group_results(records)

    def apply_settings(self, settings: Settings) -> Settings:
        """Return settings with those of the session applied, without servers."""
        recorded = self.setup.settings
        known: dict[str, Container[Any]] = {
            "language": list_languages(),
            "tool_format": (AUTO, *FORMATS),
            "max_steps": range(1, 1001),
            "few_tools": (False, True),
        }
        valid: dict[str, Any] = {key: recorded[key] for key in known if recorded.get(key) in known[key]}
        with suppress(TypeError, AttributeError, KeyError):  # the file may have been edited by hand
            generation = Generation(**recorded.get("generation", {}))
            policy_table = recorded.get("policy", {})
            policy = Policy(policy_table["approve"], tuple(policy_table["allow"]), tuple(policy_table["deny"]))
            settings = replace(settings, **valid, generation=generation, policy=policy)
        share = recorded.get("tools_share")
        if isinstance(share, int | float) and 0 <= share <= 1:
            settings = replace(settings, tools_share=share)
        context = settings.context_tokens or self.setup.context_tokens
        return replace(settings, servers=(), context_tokens=context, session="")

    async def approve(self, tool: Tool, arguments: Mapping[str, Any], _position: CallPosition) -> Consent | Decline:
        """Return the recorded answer."""
        position = self._find_result(tool, arguments)
        result = self._results[position[0]][position[1]] if position else None
        if position and result and result.status == "declined":
            self._take_result(*position)
            return Decline(recorded_text=result.text)
        return "stop" if result and result.status == "stopped" and result.server else "once"

    async def ask_to_continue(self, _rounds: int) -> Continuation:
        """Return the recorded continuation."""
        return self._continuations.pop(0) if self._continuations else "stop"

    def choose_trim(self, chat: Conversation, next_tokens: int) -> ContextTrimmed | None:
        """Return the recorded trimming of the history."""
        return self._trims.pop((len(chat.prompt_log.sent), next_tokens > 0), None)

    async def call(self, tool: Tool, arguments: Mapping[str, Any], _on_progress: ProgressCallback) -> ToolResult:
        """Return the recorded result; of concurrent calls, the faster one first."""
        position = self._find_result(tool, arguments)
        if position is None:
            return ToolResult(tool.server, tool.name, arguments, "failed", "The session has no result for this call.")
        result = self._take_result(*position)
        faster_calls = sum(other.seconds < result.seconds for other in self._results[position[0]])
        for _ in range(faster_calls):
            await asyncio.sleep(0)
        if result.status == "stopped":
            await asyncio.Event().wait()
        return result

    def _take_result(self, reply: int, index: int) -> ToolResult:
        """Return a result and mark it as used."""
        result = self._results[reply][index]
        self._results[reply][index] = replace(result, server="", tool="")
        return result

    def _find_result(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[int, int] | None:
        """Find the result of a call: the next of this tool with these arguments, else the next of this tool."""
        positions = [
            (reply, index)
            for reply, results in enumerate(self._results)
            for index, result in enumerate(results)
            if result.tool in (tool.name, tool.full_name) and result.server in (tool.server, "")
        ]
        same = (place for place in positions if self._results[place[0]][place[1]].arguments == arguments)
        return next(same, next(iter(positions), None))


def _find_tools(records: Sequence[Record]) -> list[Tool]:
    """Return all tools of the session: those of its setups, and the built-in ones that were called."""
    setups = [record for record in records if isinstance(record, Setup)]
    tools = {tool.full_name: tool for setup in setups for tool in setup.tools}
    results = [record.result for record in records if isinstance(record, Message) and record.result]
    builtin_names = {result.tool for result in results if not result.server}
    return [*tools.values(), *(tool for tool in BUILTIN_TOOLS if tool.name in builtin_names)]


def _group_results(records: Sequence[Record]) -> list[list[ToolResult]]:
    """Return the results of tools by the reply that called them."""
    replies: list[list[ToolResult]] = [[]]
    for record in records:
        if isinstance(record, Usage):
            replies.append([])
        elif isinstance(record, Message) and record.role == "tool" and record.result:
            replies[-1].append(record.result)
    return replies


def _find_steps(records: Sequence[Record]) -> list[tuple[Message, ...] | HistoryEdited]:
    """Return what the user contributed, turn by turn, including assistant messages that the model did not generate."""
    steps: list[tuple[Message, ...] | HistoryEdited] = []
    messages: list[Message] = []
    for record, following in zip(records, [*records[1:], None], strict=True):
        if isinstance(record, HistoryEdited):
            steps.append(record)
        elif isinstance(record, Message) and isinstance(following, Usage):
            steps.append(tuple(messages))
            messages = []
        elif isinstance(record, Message) and record.role != "tool":
            messages.append(record)
    return [step for step in steps if step]


def _find_trims(records: Sequence[Record]) -> dict[tuple[int, bool], ContextTrimmed]:
    """Return the recorded trims by the number of replies before them and whether they happened at the end of a turn."""
    trims: dict[tuple[int, bool], ContextTrimmed] = {}
    replies = 0
    for record, following in zip(records, [*records[1:], None], strict=True):
        replies += isinstance(record, Usage)
        if isinstance(record, ContextTrimmed):
            trims[replies, isinstance(following, TurnFinished)] = record
    return trims


def _find_continuations(records: Sequence[Record], setup: Setup) -> list[Continuation]:
    """Return how each turn that reached its limit of rounds continued, in order."""
    continuations: list[Continuation] = []
    wrap_up = [load(code)("prompt.wrap_up") for code in list_languages()]
    max_steps = setup.settings.get("max_steps", Settings.max_steps)
    rounds, wrapped_up = 0, False
    for record in records:
        match record:
            case Usage():
                rounds += 1
            case Message("tool", text, None) if text in wrap_up:
                continuations += [rounds - max_steps] if rounds > max_steps else []
                continuations.append("answer")
                wrapped_up = True
            case TurnFinished(reason):
                if not wrapped_up:
                    continuations += [rounds - max_steps] if rounds > max_steps else []
                    continuations += ["stop"] if reason == "steps" else []
                rounds, wrapped_up = 0, False
            case _:
                pass
    return continuations


def is_replay(settings: Settings) -> bool:
    """Return whether the model is a saved session."""
    return settings.backend in ("auto", "scripted") and Path(settings.model).suffix == ".jsonl"


def open_replay(path: Path) -> Replay:
    """Open a session file for replay; raise ModelError if it is none."""
    return Replay(read_session(path))
