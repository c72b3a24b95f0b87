"""What the NPU runtime is sent for a prompt: all of it or only what is new, as text, as token ids, or by roles.

Each way knows what the runtime holds and plans the next run from that. It is pure: nothing is sent here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ModelError
from ..messages import Message, Tool
from ..slim import slim
from ..templates import Piece, harmless, harmless_value, opened_thought
from .counts import Estimate
from .tokens import PromptTokens, common


@dataclass(frozen=True)
class Plan:
    """One run. `thought` is what the prompt's end has written of the reply already; `tokens` the prompt's size.

    `clear`: the runtime must forget what it holds. `tools`: system text and tools (JSON) to set before, or None.
    """

    prompt: str | list[int]
    tokens: int
    role: str = "user"
    keep_history: bool = False
    clear: bool = False
    thought: str = ""
    tools: tuple[str, str] | None = None


class Rendered:
    """We render the prompt. `tokens` None sends text, in which control tokens of others are made harmless.

    `only_new`: the runtime keeps the history and is sent what follows what it holds (keep_history 1); else it is sent
    everything, and reuses the beginning that it knows (keep_history 0).
    """

    def __init__(
        self,
        template: Callable[[Sequence[Message]], list[Piece]],
        join: Callable[[Sequence[Piece]], str],
        tokens: PromptTokens | None,
        only_new: bool,
    ) -> None:
        self._template, self._join, self._tokens, self._only_new = template, join, tokens, only_new
        self._estimate = Estimate()
        self._held: str | list[int] = ""
        self._asked: str | list[int] = ""

    def plan(self, prompt: Sequence[Message], _tools: Sequence[Tool]) -> Plan:
        pieces = self._template(prompt)
        whole: Any = self._tokens.of(pieces) if self._tokens else self._join(pieces)
        self._asked = whole
        count, thought = self._count(whole), opened_thought(pieces)
        if not self._only_new:
            return Plan(whole, count, thought=thought)
        held = len(self._held)
        fits = bool(held) and whole[:held] == self._held and len(whole) > held
        return Plan(whole[held:] if fits else whole, count, keep_history=True, clear=not fits, thought=thought)

    def count(self, prompt: Sequence[Message]) -> int:
        """The size of a prompt in tokens: exact with a tokenizer, else an estimate."""
        pieces = self._template(prompt)
        return self._count(self._tokens.of(pieces) if self._tokens else self._join(pieces))

    def count_held(self, prompt: Sequence[Message]) -> int | None:
        """How many tokens of a prompt the runtime holds; None where it has read something and nobody knows what."""
        pieces = self._template(prompt)
        whole: Any = self._tokens.of(pieces) if self._tokens else self._join(pieces)
        if not self._held:
            return None if self._asked else 0
        same = len(common(list(whole), list(self._held)))
        if self._only_new and same < len(self._held):
            return 0
        return self._count(whole[:same]) if same else 0

    def beginning(self, prompt: Sequence[Message]) -> str | list[int]:
        """What stays the same whatever is said: the prompt up to its first user message."""
        return self.lasting([message for message in prompt[:1] if message.role == "system"])

    def lasting(self, messages: Sequence[Message]) -> str | list[int]:
        """What stays of messages whatever a user says next; nothing where no user may speak."""
        try:
            one, other = (self._template([*messages, Message("user", text)]) for text in "ab")
        except ModelError:
            return ""
        if self._tokens:
            return common(self._tokens.of(one), self._tokens.of(other))
        return "".join(common(list(self._join(one)), list(self._join(other))))

    def count_new(self, whole: str | list[int]) -> int:
        """How many tokens of it the runtime does not hold, as far as that is known."""
        same = len(common(list(whole), list(self._held))) if type(whole) is type(self._held) else 0
        return self._count(whole[same:]) if same < len(whole) else 0

    def was_read(self, whole: str | list[int]) -> None:
        """Notes what the runtime holds after it has read this."""
        self._held = whole

    def answered(self, plan: Plan, text: str, ids: Sequence[int], whole: bool) -> None:
        """Notes what the runtime holds after a run; `whole`: the reply ended by itself."""
        if self._tokens:
            self._tokens.remember(plan.thought, text, ids)
        said: Any = list(ids) if self._tokens else text
        # after a cut the last token may or may not be held: better all anew than one token wrong
        self._held = self._asked + said if whole else ""

    def learn(self, tokens: int) -> None:
        """What the runtime counted for the last prompt."""
        if isinstance(self._asked, str):
            self._estimate.learn(self._asked, tokens)

    def forget(self) -> None:
        """The runtime holds nothing any more."""
        self._held = self._asked = ""

    def _count(self, whole: str | list[int]) -> int:
        return self._estimate.count(whole) if isinstance(whole, str) else len(whole)


class Roles:
    """The runtime's own template: it is sent the newest turn with its role and keeps the rest (keep_history 1).

    It takes text, in which control tokens of others are made harmless.

    With `native`, tools go through rkllm_set_function_tools; that needs the runtime's template and excludes ours,
    because a template set by us switches its tools off (rkllm.h from 1.2.1 on). Results are one JSON array then.
    `thought` is what that template has written of each reply, as far as can be known: a thought that it opens.
    """

    def __init__(self, native: bool, thought: str = "") -> None:
        self._native, self._thought = native, thought
        self._estimate = Estimate()
        self._held: list[Message] = []
        self._asked: list[Message] = []
        self._set: tuple[str, str] | None = None

    def plan(self, prompt: Sequence[Message], tools: Sequence[Tool]) -> Plan:
        prompt = [replace(message, text=harmless(message.text)) for message in prompt]
        system = prompt[0].text if prompt and prompt[0].role == "system" else ""
        wanted = (system, describe(tools)) if self._native and tools else None
        self._asked = list(prompt)
        held = len(self._held)
        fits = bool(held) and self._asked[:held] == self._held and wanted == self._set
        news = self._asked[held if fits else 0 :]
        role, text = self._say(news, first=not fits, with_system=wanted is None)
        changed = wanted if wanted != self._set else None
        self._set = wanted
        thought = self._thought
        return Plan(text, self.count(prompt), role, keep_history=True, clear=not fits, thought=thought, tools=changed)

    def count(self, prompt: Sequence[Message]) -> int:
        return sum(self._estimate.count(message.text) + 8 for message in prompt)

    def count_held(self, prompt: Sequence[Message]) -> int:
        """About how many tokens of a prompt the runtime holds: all that was said, or nothing."""
        safe = [replace(message, text=harmless(message.text)) for message in prompt]
        return self.count(self._held) if self._held and safe[: len(self._held)] == self._held else 0

    def answered(self, plan: Plan, text: str, _ids: Sequence[int], whole: bool) -> None:
        """Notes what the runtime holds after a run."""
        self._held = [*self._asked, Message("assistant", harmless(plan.thought + text))] if whole else []

    def learn(self, tokens: int) -> None:
        """What the runtime counted for the last prompt, its own template included."""
        self._estimate.learn("".join(message.text for message in self._asked), tokens)

    def forget(self) -> None:
        """The runtime holds nothing any more."""
        self._held, self._set = [], None

    def _say(self, news: list[Message], first: bool, with_system: bool) -> tuple[str, str]:
        """Role and text of a run. When the runtime has lost the talk, it is told as a record before the new line."""
        results = [message for message in news if message.role == "tool"]
        if not first and results and len(results) == len(news):
            return "tool", json.dumps([result_value(message.text) for message in results], ensure_ascii=False)
        head = [news.pop(0).text] if news and news[0].role == "system" else []
        *before, last = news
        record = [f"{message.role}: {message.text}" for message in before]
        return "user", "\n\n".join([*(head if with_system else []), *record, last.text])


def describe(tools: Sequence[Tool]) -> str:
    """The tools as the JSON array that rkllm_set_function_tools takes (the form of OpenAI's API), made harmless."""
    functions = [
        {"name": tool.name, "description": tool.description, "parameters": slim(tool.schema)} for tool in tools
    ]
    written = [{"type": "function", "function": function} for function in harmless_value(functions)]
    return json.dumps(written, ensure_ascii=False)


def result_value(text: str) -> Any:
    """A result as JSON if it is JSON, else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
