"""The state of a conversation and views derived from it. It runs no turn and builds no prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, SupportsIndex

from typing_extensions import Self

from ..backends.base import Backend
from ..calls.formats import FORMATS, Format
from ..calls.grammar import CallGrammar
from ..calls.model_families import AUTO
from ..config.policy import Policy, SessionMode, decide_call, exact_pattern
from ..config.settings import Generation, Settings
from ..core.events import Notice, Reading, Sentence, Usage
from ..core.i18n import Words
from ..core.messages import SEPARATOR, Message, Tool
from ..core.protocols import ApprovalCallback, CallableTools, Continuation, answer_at_limit, decline_all
from ..prompt.profiles import PromptProfile, select_profile
from ..prompt.tool_catalogue import Catalogue
from ..prompt.tool_ranking import ToolIndex
from ..storage.local_statistics import ToolUsage
from ..storage.session_records import ContextTrimmed, HistoryEdited, OnRecord, Record, discard_record
from .builtin_tools import find_last_handle_number
from .skills import SkillLibrary


@dataclass
class ToolSelection:
    """What the prompt says of the tools; computed again only when `inputs` has changed.

    Attributes:
        inputs: The inputs that the selection was computed from.
        catalogue: What the system text says of the tools.
        signatures: Full name of a tool -> the line that says how it is called.
        name_lines: Such a line -> the line that has the name alone.
        index: Finds tools by words.
    """

    inputs: object = None
    catalogue: Catalogue = field(default_factory=Catalogue)
    signatures: dict[str, str] = field(default_factory=dict[str, str])
    name_lines: dict[str, str] = field(default_factory=dict[str, str])
    index: ToolIndex = field(default_factory=lambda: ToolIndex(()))


def find_profile(backend: Backend, settings: Settings) -> PromptProfile:
    """Return how the model is asked: as set, as its file says, or as its family is."""
    return select_profile(settings.prompt_profile, backend.profile, backend.family)


def select_call_format(backend: Backend, settings: Settings) -> str:
    """Return the row of FORMATS in which calls are requested: from the settings, the profile or the model's family."""
    if settings.tool_format != AUTO:
        return settings.tool_format
    return find_profile(backend, settings).call_format or backend.family.preferred_format


def _store_nothing(_pattern: str) -> None:
    """Store no rule; the default where nothing is kept."""


def _run_nothing(_tool: Tool) -> bool:
    """Run no tool; the default where there is no client."""
    return False


@dataclass(frozen=True)
class Compaction:
    """A replacement of older messages by a summary.

    Attributes:
        older: The messages that were replaced.
        summary: The user message that holds the summary; an assistant message follows it.
        last_question: The last user message of the history at that time.
    """

    older: tuple[Message, ...]
    summary: Message
    last_question: Message


async def _find_no_server(_uri: str) -> str | None:
    """Know of no server; there may be none."""
    return None


async def _offer_nothing() -> frozenset[str]:
    """Offer nothing; there may be nobody to ask."""
    return frozenset()


@dataclass
class Conversation:
    """A conversation with its backend, tools and settings.

    The history is modified in place and replaced only by `restore`. The model sees its first `retained_count` messages
    and those from `first_shown` on.

    Attributes:
        backend: Engine.
        toolbox: Tools.
        settings: Settings; an "always" approval adds to its policy.
        words: Sentences in the user's language.
        approve: Callback for calls that the policy leaves open.
        history: All messages.
        first_shown: Index of the first visible message after the retained beginning.
        retained_count: Number of messages retained at the beginning.
        ask_to_continue: Callback after `max_steps` rounds of calls in one turn: how to continue.
        usages: Usage of each reply.
        on_record: Callback for session records: changes of the history, usage, ends of turns.
        get_quarantined: Returns tools that are quarantined until the user accepts them.
        get_instructions: Returns what servers say about their use, by server name.
        get_folders: Returns the folders that servers work in, by server name.
        offer_access: Callback after the calls of a reply; offers what sandboxes have denied, and returns the servers
            that may do more now.
        find_resource_server: Returns the server that has a resource; "" if none has it, None if that is not known.
        skills: The skills whose names the prompt lists.
        last_handle_number: Number of the newest truncated result.
        is_served: A client of the API has the conversation: no turns are dropped, and an empty reply may be its end.
        is_run_by_client: Returns whether the client of the API runs a tool itself.
        prefilled_tokens: Tokens that were evaluated while nothing was asked.
        starts_calls_early: Calls that need no approval may start while the reply is generated.
        tool_selection: Cached selection of tools for the prompt.
        tool_usage: Usage counts of tools.
        compactions: Compactions that can be undone, oldest first.
        approval_mode: Approval mode that the user chose for this session; None follows the policy.
        session_allowed: Patterns of tools that run without approval until the chat ends.
        store_allowed: Stores a pattern that is always allowed in this folder.
        reply_grammar: Grammar of whole replies, for an engine that supports it; None for that of tool calls.
        answers_json: The answer is to be one JSON value, which its schema judges and not its words.
    """

    backend: Backend
    toolbox: CallableTools
    settings: Settings
    words: Words
    approve: ApprovalCallback = decline_all
    history: list[Message] = field(default_factory=list[Message])
    first_shown: int = 0
    retained_count: int = 0
    ask_to_continue: Callable[[int], Awaitable[Continuation]] = answer_at_limit
    usages: list[Usage] = field(default_factory=list[Usage])
    on_record: OnRecord = discard_record
    get_quarantined: Callable[[], Sequence[Tool]] = tuple
    get_instructions: Callable[[], Mapping[str, str]] = dict[str, str]
    get_folders: Callable[[], Mapping[str, tuple[str, ...]]] = dict[str, tuple[str, ...]]
    offer_access: Callable[[], Awaitable[frozenset[str]]] = _offer_nothing
    find_resource_server: Callable[[str], Awaitable[str | None]] = _find_no_server
    skills: SkillLibrary | None = None
    last_handle_number: int = 0
    is_served: bool = False
    is_run_by_client: Callable[[Tool], bool] = _run_nothing
    prefilled_tokens: int = 0
    starts_calls_early: bool = True
    tool_selection: ToolSelection = field(default_factory=ToolSelection)
    tool_usage: ToolUsage = field(default_factory=ToolUsage)
    compactions: list[Compaction] = field(default_factory=list[Compaction])
    approval_mode: SessionMode | None = None
    session_allowed: tuple[str, ...] = ()
    store_allowed: Callable[[str], None] = _store_nothing
    reply_grammar: CallGrammar | None = None
    answers_json: bool = False

    def __post_init__(self) -> None:
        self.restore(self.history)

    @property
    def effective_policy(self) -> Policy:
        """The policy with what is allowed until the chat ends."""
        policy = self.settings.policy
        return replace(policy, allow=(*policy.allow, *self.session_allowed)) if self.session_allowed else policy

    def allow_in_session(self, tool: Tool) -> None:
        """Let a tool run without approval until the chat ends."""
        self.session_allowed = (*self.session_allowed, exact_pattern(tool))

    def allow_always(self, tool: Tool) -> None:
        """Let a tool run without approval from now on, in this folder."""
        policy, pattern = self.settings.policy, exact_pattern(tool)
        self.settings = replace(self.settings, policy=replace(policy, allow=(*policy.allow, pattern)))
        self.store_allowed(pattern)

    def restore(self, history: Sequence[Message], first_shown: int = 0, retained_count: int = 0) -> None:
        """Replace the history and the visible part; nothing is recorded by `on_record`."""
        self.history = History(history, self._record)
        self.first_shown, self.retained_count = first_shown, retained_count
        self.last_handle_number = find_last_handle_number(history)
        self.compactions.clear()

    def drop_turns(self, dropped: ContextTrimmed) -> None:
        """Hide older turns from the model."""
        self.first_shown, self.retained_count = dropped.first_shown, dropped.retained_count
        self._record(dropped)

    def _record(self, record: Record) -> None:
        self.on_record(record)
        result = record.result if isinstance(record, Message) else None
        if result and result.status == "completed" and result.server:
            self.tool_usage.record_call(f"{result.server}{SEPARATOR}{result.tool}")

    @property
    def prompt_words(self) -> Words:
        """The sentences that the model reads."""
        return self.profile.load_words(self.words.code)

    @property
    def profile(self) -> PromptProfile:
        """How the model is asked."""
        return find_profile(self.backend, self.settings)

    @property
    def generation(self) -> Generation:
        """The sampling parameters: those of the profile, unless the settings have others.

        With the tools of an engine that lists them itself, they are those of its service.
        """
        has_tools = bool(self.toolbox.tools) and not self.backend.native_tools
        own = self.profile.select_sampling(has_tools, self.settings.origins)
        return replace(self.settings.generation, **own) if own else self.settings.generation

    def may_run(self, tool: Tool) -> bool:
        """Return whether a tool runs without a question."""
        return decide_call(tool, self.effective_policy, 0, self.approval_mode, self.toolbox.tools) == "run"

    @property
    def can_ask(self) -> bool:
        """Whether somebody can be asked about a call."""
        return self.approve is not decline_all

    @property
    def visible_messages(self) -> list[Message]:
        """The part of the history that is visible to the model."""
        return [*self.history[: self.retained_count], *self.history[self.first_shown :]]

    @property
    def call_format(self) -> str:
        """The row of FORMATS in which the prompt requests calls."""
        return select_call_format(self.backend, self.settings)

    @property
    def list_format(self) -> Format | None:
        """The format in which tools are listed; None for signatures that are no calls."""
        return FORMATS[self.call_format] if self.profile.tool_list == "calls" else None

    def count_text(self, text: str) -> int:
        """Return the length of a text as a user message, in tokens."""
        return self.backend.count_tokens([Message("user", text)])

    def translate(self, piece: Sentence | Reading) -> Notice | Reading:
        """Convert a message of the engine to an event in the user's language."""
        return Notice(self.words(piece.key, **piece.values)) if isinstance(piece, Sentence) else piece


class History(list[Message]):
    """A list that reports each appended message, and every other change as a HistoryEdited record, to `on_record`."""

    def __init__(self, messages: Iterable[Message], on_record: OnRecord) -> None:
        super().__init__(messages)
        self._on_record = on_record

    def append(self, message: Message) -> None:
        """Append and report a message."""
        super().append(message)
        self._on_record(message)

    def extend(self, messages: Iterable[Message]) -> None:
        """Append and report messages."""
        for message in messages:
            self.append(message)

    def __iadd__(self, messages: Iterable[Message]) -> Self:  # type: ignore[override,misc]  # same contract as list
        self.extend(messages)
        return self

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        self._apply(lambda: super(History, self).__delitem__(index))

    def __setitem__(self, index: Any, messages: Any) -> None:
        self._apply(lambda: super(History, self).__setitem__(index, messages))

    def pop(self, index: SupportsIndex = -1) -> Message:
        """Remove and return a message; report the edit."""
        message = self[index]
        del self[index]
        return message

    def _apply(self, change: Callable[[], None]) -> None:
        """Apply a change and report the difference without the longest common prefix and suffix."""
        before = list(self)
        change()
        min_length = min(len(before), len(self))
        # by identity: an equal message that was taken out and put back is an edit
        start = next((i for i in range(min_length) if before[i] is not self[i]), min_length)
        common_suffix = next(
            (i for i in range(min_length - start) if before[-1 - i] is not self[-1 - i]), min_length - start
        )
        if start + common_suffix < max(len(before), len(self)):
            self._on_record(
                HistoryEdited(start, len(before) - common_suffix, tuple(self[start : len(self) - common_suffix]))
            )
