"""A backend that plays written replies back: for tests, demonstrations and bug reports. It needs no model.

    rkllm-chat --backend scripted --model replies.json

`replies.json` is a list, or `{"model": NAME, "replies": list}` for replies as the model of that name would write them,
by which its family is known. Each entry of the list is the text of a reply, or {"text": ..., "wait": true} for a reply
that stays open after its text until it is stopped. A call of the model plays the next entry. A saved session (`.jsonl`)
is a script too: what its model said is played, with what it cost then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from ..config import Generation, Settings
from ..errors import GenerationError, ModelError
from ..events import Usage
from ..families import UNKNOWN, Family, find_family
from ..formats import FORMATS
from ..grammar import CallGrammar
from ..journal import read_session
from ..messages import NOTHING_SAID, Message, Tool
from ..records import Entry, Setup, TurnDone

PIECE = 4
KEPT = 20
"""Prompts that are kept: all of a long talk would be most of its memory."""


@dataclass(frozen=True)
class Reply:
    """What is said; `wait`: and then nothing, until somebody stops it; `error`: and then the engine fails.

    `usage` is what it cost when it was recorded.
    """

    text: str
    wait: bool = False
    error: str = ""
    usage: Usage | None = None


class Scripted:
    """Plays replies in pieces of four characters. A "token" here is four characters of the prompt or the reply.

    `played` counts the calls; `prompts` keeps what the newest of them were given, so that a test can say what the model
    saw.
    """

    name = "scripted"
    template = ""
    native_tools = False
    prompt_language = ""
    tools_share: float | None = None
    few_tools: bool | None = None
    constrains = False

    def __init__(self, replies: Sequence[Reply | str], context_tokens: int = 4096, family: Family = UNKNOWN) -> None:
        self.replies = [reply if isinstance(reply, Reply) else Reply(reply) for reply in replies]
        self.context_tokens = context_tokens
        self.family = family
        self.played = 0
        self.prompts: list[list[Message]] = []
        self._held: list[str] = []

    async def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        _tools: Sequence[Tool] = (),
        _grammar: CallGrammar | None = None,
    ) -> AsyncGenerator[str | Usage, Any]:
        """The next reply, then its Usage. Raises GenerationError when there is none left."""
        if self.played >= len(self.replies):
            raise GenerationError(f"The script has {len(self.replies)} replies and was asked for one more.")
        reply = self.replies[self.played]
        self.played += 1
        self.prompts = [*self.prompts[1 - KEPT :], list(prompt)]
        pieces = cut(reply.text)
        asked = cut(write(prompt))
        reused = self._count_same(asked)
        said = is_enough = 0
        for piece in pieces if reply.usage else pieces[: generation.max_tokens]:
            await asyncio.sleep(0)
            said += 1
            is_enough = yield piece
            if is_enough:
                break
        self._held = asked + pieces[:said]
        if reply.wait and not is_enough:
            await asyncio.Event().wait()
        if reply.error and not is_enough:
            raise GenerationError(reply.error)
        if reply.usage:
            yield reply.usage
            return
        hit_limit = said < len(pieces) and not is_enough
        yield Usage(len(asked), reused, len(asked) - reused, said, hit_limit=hit_limit)

    async def prefill(self, _prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> int:
        """There is nothing to read."""
        return 0

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        return sum(len(message.text) for message in prompt) // PIECE

    def count_held(self, prompt: Sequence[Message]) -> int:
        """What a reply would reuse of it, without the roles, which `count_tokens` leaves out too."""
        same = PIECE * self._count_same(cut(write(prompt)))
        held = 0
        for message in prompt:
            room, text = same - len(write([replace(message, text="")])), message.text
            held += min(len(text), max(0, room))
            same = room - len(text)
        return held // PIECE

    def _count_same(self, asked: Sequence[str]) -> int:
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._held, asked, strict=False)))

    async def aclose(self) -> None:
        return


def write(prompt: Sequence[Message]) -> str:
    return "".join(f"{message.role}: {message.text}\n" for message in prompt)


def cut(text: str) -> list[str]:
    return [text[i : i + PIECE] for i in range(0, len(text), PIECE)]


def open_scripted(settings: Settings) -> Scripted:
    """Reads the script or the session that `settings.model` names."""
    path = Path(settings.model)
    if path.suffix == ".jsonl":
        entries = read_session(path)
        setups = [entry.record for entry in entries if isinstance(entry.record, Setup)] or [Setup()]
        context_tokens = settings.context_tokens or setups[0].context_tokens or 4096
        return Scripted(replies_of(entries), context_tokens, family_of(setups))
    try:
        written: Any = json.loads(path.read_text(encoding="utf-8"))
        model = ""
        if isinstance(written, dict):
            model, written = str(written.get("model", "")), written["replies"]
        replies = [Reply(**entry) if isinstance(entry, dict) else Reply(str(entry)) for entry in written]
    except OSError as error:
        raise ModelError(f"{settings.model}: {error.strerror}.", "A script is a JSON list of replies.") from None
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{settings.model}: not a list of replies: {error}.") from None
    return Scripted(replies, settings.context_tokens or 4096, find_family([model]))


def family_of(setups: Sequence[Setup]) -> Family:
    """The family that wrote a session: asked as it was at its beginning, understood as it was anywhere in it."""
    asked = setups[0].asks
    rows = dict.fromkeys(row for setup in setups for row in (setup.asks, *setup.accepts))
    return Family(setups[0].family, asks=asked if asked in FORMATS else "json", accepts=tuple(rows))


def replies_of(entries: Sequence[Entry]) -> list[Reply]:
    """What the model of a session said, in order; a reply without a cost was stopped, or the engine failed in it."""
    replies: list[Reply] = []
    records = [entry.record for entry in entries]
    for index, record in enumerate(records[:-1]):
        following = records[index + 1]
        if isinstance(record, Message) and record.role == "assistant" and isinstance(following, Usage):
            end = next((one for one in records[index:] if isinstance(one, TurnDone)), TurnDone("stopped"))
            text = "" if record.text == NOTHING_SAID else record.text
            cut_off = following == Usage()
            error = (end.error or "It failed.") if cut_off and end.reason == "failed" else ""
            replies.append(Reply(text, cut_off and not error, error, following))
    return replies
