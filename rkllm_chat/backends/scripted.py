"""A backend that plays written replies back: for tests, demonstrations and bug reports. It needs no model.

    rkllm-chat --backend scripted --model replies.json

`replies.json` is a list; each entry is the text of a reply, or {"text": ..., "wait": true} for a reply that stays
open after its text until it is stopped. A call of the model plays the next entry. A saved session (`.jsonl`) is a
script too: what its model said is played, with what it cost then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from ..config import Generation, Settings
from ..errors import GenerationError, ModelError
from ..events import Usage
from ..journal import read_session
from ..messages import NOTHING_SAID, Message, Tool
from ..records import Entry, Forgot, Setup, TurnDone

PIECE = 4


@dataclass(frozen=True)
class Reply:
    """What is said; `wait`: and then nothing, until somebody stops it; `error`: and then the engine fails.

    `usage` is what it cost when it was recorded; `forgets`: so many turns were left out of its prompt for it.
    """

    text: str
    wait: bool = False
    error: str = ""
    usage: Usage | None = None
    forgets: int = 0


class Scripted:
    """Plays replies in pieces of four characters. A "token" here is four characters of the prompt or the reply.

    `prompts` keeps what each call was given, so that a test can say what the model saw.
    """

    name = "scripted"
    template = ""
    native_tools = False
    prompt_language = ""

    def __init__(self, replies: Sequence[Reply | str], context_tokens: int = 4096) -> None:
        self.replies = [reply if isinstance(reply, Reply) else Reply(reply) for reply in replies]
        self.context_tokens = context_tokens
        self.prompts: list[list[Message]] = []
        self._held: list[str] = []
        self._counted = 0

    async def stream(
        self, prompt: Sequence[Message], generation: Generation, _tools: Sequence[Tool] = ()
    ) -> AsyncGenerator[str | Usage, None]:
        """The next reply, then its Usage. Raises GenerationError when there is none left."""
        if len(self.prompts) >= len(self.replies):
            raise GenerationError(f"The script has {len(self.replies)} replies and was asked for one more.")
        reply = self.replies[len(self.prompts)]
        self.prompts.append(list(prompt))
        self._counted = 0
        pieces = cut(reply.text)
        asked = cut("".join(f"{message.role}: {message.text}\n" for message in prompt))
        reused = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._held, asked, strict=False)))
        self._held = asked + pieces
        for piece in pieces if reply.usage else pieces[: generation.max_tokens]:
            await asyncio.sleep(0)
            yield piece
        if reply.wait:
            await asyncio.Event().wait()
        if reply.error:
            raise GenerationError(reply.error)
        if reply.usage:
            yield reply.usage
            return
        hit_limit = len(pieces) > generation.max_tokens
        yield Usage(len(asked), reused, len(asked) - reused, len(pieces), hit_limit=hit_limit)

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """A recorded reply is asked before whether all fits, once more than turns were forgotten for it then."""
        tokens = sum(len(message.text) for message in prompt) // PIECE
        reply = self.replies[len(self.prompts)] if len(self.prompts) < len(self.replies) else Reply("")
        if reply.usage is None or prompt[0].role != "system":
            return tokens
        self._counted += 1
        return self.context_tokens if reply.forgets and self._counted <= reply.forgets + 1 else 0

    async def aclose(self) -> None:
        return


def cut(text: str) -> list[str]:
    return [text[i : i + PIECE] for i in range(0, len(text), PIECE)]


def open_scripted(settings: Settings) -> Scripted:
    """Reads the script or the session that `settings.model` names."""
    path = Path(settings.model)
    if path.suffix == ".jsonl":
        entries = read_session(path)
        setup = next((entry.record for entry in entries if isinstance(entry.record, Setup)), Setup())
        return Scripted(replies_of(entries), settings.context_tokens or setup.context_tokens or 4096)
    try:
        written: Any = json.loads(path.read_text(encoding="utf-8"))
        replies = [Reply(**entry) if isinstance(entry, dict) else Reply(str(entry)) for entry in written]
    except OSError as error:
        raise ModelError(f"{settings.model}: {error.strerror}.", "A script is a JSON list of replies.") from None
    except (ValueError, TypeError) as error:
        raise ModelError(f"{settings.model}: not a list of replies: {error}.") from None
    return Scripted(replies, settings.context_tokens or 4096)


def replies_of(entries: Sequence[Entry]) -> list[Reply]:
    """What the model of a session said, in order; a reply without a cost was stopped, or the engine failed in it."""
    replies: list[Reply] = []
    records = [entry.record for entry in entries]
    forgets = 0
    for index, record in enumerate(records[:-1]):
        if isinstance(record, Forgot):
            forgets = record.turns
        following = records[index + 1]
        if isinstance(record, Message) and record.role == "assistant" and isinstance(following, Usage):
            end = next((one for one in records[index:] if isinstance(one, TurnDone)), TurnDone("stopped"))
            text = "" if record.text == NOTHING_SAID else record.text
            cut_off = following == Usage()
            error = (end.error or "It failed.") if cut_off and end.reason == "failed" else ""
            replies.append(Reply(text, cut_off and not error, error, following, forgets))
            forgets = 0
    return replies
