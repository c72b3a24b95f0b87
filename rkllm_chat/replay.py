"""A saved session played again, without its model and its servers: for tests and bug reports. It shows nothing.

    rkllm-chat --model SESSION.jsonl        then /replay, or the same lines typed again

The scripted backend says what the model said; here the tools answer what they answered. The same events come out
again, but for progress and what engine and servers said beside the talk. A session that is played is not saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import language
from .chat import Chat, Onward
from .config import Generation, Settings
from .describing import TOOL as DESCRIBE
from .events import Usage
from .families import AUTO
from .formats import FORMATS
from .journal import read_session
from .messages import Message, Tool, ToolResult
from .more import TOOL as MORE
from .policy import Consent, Policy
from .records import Edit, Entry, Forgot, Record, Setup, TurnDone
from .rounds import OnProgress


class Replay:
    """A toolbox of recorded results, each given once. `steps`: what went into the history and had a reply, and what was
    taken back, in order."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        records = [entry.record for entry in entries]
        setups = [record for record in records if isinstance(record, Setup)]
        self.setup = setups[0] if setups else Setup()
        self.tools: Sequence[Tool] = list({tool.full_name: tool for setup in setups for tool in setup.tools}.values())
        self.steps = steps_of(records)
        self._limits = limits_of(records, self.setup)
        self._forgets = forgets_of(records)
        called = [record.result for record in records if isinstance(record, Message) and record.result]
        names = {result.tool for result in called if not result.server}
        self.tools = [*self.tools, *(tool for tool in (MORE, DESCRIBE) if tool.name in names)]
        self._replies: list[list[ToolResult]] = [[]]
        for record in records:
            if isinstance(record, Usage):
                self._replies.append([])
            elif isinstance(record, Message) and record.role == "tool" and record.result:
                self._replies[-1].append(record.result)

    def settings_of(self, settings: Settings) -> Settings:
        """The settings of the session, without servers."""
        kept = self.setup.settings
        known: dict[str, Container[Any]] = {
            "language": language.languages(),
            "tool_format": (AUTO, *FORMATS),
            "max_steps": range(1, 1001),
            "few_tools": (False, True),
        }
        plain: dict[str, Any] = {key: kept[key] for key in known if kept.get(key) in known[key]}
        with suppress(TypeError, AttributeError, KeyError):  # a file that somebody wrote by hand
            generation = Generation(**kept.get("generation", {}))
            said = kept.get("policy", {})
            policy = Policy(said["approve"], tuple(said["allow"]), tuple(said["deny"]))
            settings = replace(settings, **plain, generation=generation, policy=policy)
        share = kept.get("tools_share")
        if isinstance(share, int | float) and 0 <= share <= 1:
            settings = replace(settings, tools_share=share)
        context = settings.context_tokens or self.setup.context_tokens
        return replace(settings, servers=(), context_tokens=context, session="")

    async def approve(self, tool: Tool, arguments: Mapping[str, Any]) -> Consent:
        """The answer that was given then."""
        found = self._find(tool, arguments)
        result = self._replies[found[0]][found[1]] if found else None
        if found and result and result.status == "declined":
            self._take(*found)
            return "no"
        return "stop" if result and result.status == "stopped" and result.server else "once"

    async def at_limit(self, _rounds: int) -> Onward:
        """How it went on then."""
        return self._limits.pop(0) if self._limits else "stop"

    def make_room(self, chat: Chat, next_tokens: int) -> Forgot | None:
        """What was left out then."""
        return self._forgets.pop((len(chat.prefix.reads), next_tokens > 0), None)

    async def call(self, tool: Tool, arguments: Mapping[str, Any], _on_progress: OnProgress) -> ToolResult:
        """What the tool gave then; of calls that ran side by side, the quicker one first."""
        found = self._find(tool, arguments)
        if found is None:
            return ToolResult(tool.server, tool.name, arguments, "failed", "The session has no result of this call.")
        result = self._take(*found)
        quicker = sum(one.seconds < result.seconds for one in self._replies[found[0]])
        for _ in range(quicker):
            await asyncio.sleep(0)
        if result.status == "stopped":
            await asyncio.Event().wait()
        return result

    def _take(self, reply: int, index: int) -> ToolResult:
        """A result, which is not given again."""
        result = self._replies[reply][index]
        self._replies[reply][index] = replace(result, server="", tool="")
        return result

    def _find(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[int, int] | None:
        """Where the result of a call is: the next of this tool and these arguments, else the next of this tool."""
        places = [
            (reply, index)
            for reply, results in enumerate(self._replies)
            for index, result in enumerate(results)
            if result.tool in (tool.name, tool.full_name) and result.server in (tool.server, "")
        ]
        same = (place for place in places if self._replies[place[0]][place[1]].arguments == arguments)
        return next(same, next(iter(places), None))


def steps_of(records: Sequence[Record]) -> list[tuple[Message, ...] | Edit]:
    """What the user brought into the talk, turn by turn; a message of the model that it did not write now is part."""
    steps: list[tuple[Message, ...] | Edit] = []
    brought: list[Message] = []
    for record, following in zip(records, [*records[1:], None], strict=True):
        if isinstance(record, Edit):
            steps.append(record)
        elif isinstance(record, Message) and isinstance(following, Usage):
            steps.append(tuple(brought))
            brought = []
        elif isinstance(record, Message) and record.role != "tool":
            brought.append(record)
    return [step for step in steps if step]


def forgets_of(records: Sequence[Record]) -> dict[tuple[int, bool], Forgot]:
    """What was left out: behind so many replies, and whether at the end of a turn."""
    forgets: dict[tuple[int, bool], Forgot] = {}
    replies = 0
    for record, following in zip(records, [*records[1:], None], strict=True):
        replies += isinstance(record, Usage)
        if isinstance(record, Forgot):
            forgets[replies, isinstance(following, TurnDone)] = record
    return forgets


def limits_of(records: Sequence[Record], setup: Setup) -> list[Onward]:
    """How each turn went on that came to the limit of its rounds, in order."""
    limits: list[Onward] = []
    wrap_up = [language.load(code)("prompt.wrap_up") for code in language.languages()]
    most = setup.settings.get("max_steps", Settings.max_steps)
    rounds, wrapped_up = 0, False
    for record in records:
        match record:
            case Usage():
                rounds += 1
            case Message("tool", text, None) if text in wrap_up:
                limits += [rounds - most] if rounds > most else []
                limits.append("answer")
                wrapped_up = True
            case TurnDone(reason):
                if not wrapped_up:
                    limits += [rounds - most] if rounds > most else []
                    limits += ["stop"] if reason == "steps" else []
                rounds, wrapped_up = 0, False
            case _:
                pass
    return limits


def is_session(settings: Settings) -> bool:
    """Whether the model is a saved session."""
    return settings.backend in ("auto", "scripted") and Path(settings.model).suffix == ".jsonl"


def open_replay(path: Path) -> Replay:
    """Raises ModelError for a file that holds no session."""
    return Replay(read_session(path))
