"""The protocol of an engine that generates text."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Generic, Protocol, TypeVar, runtime_checkable

from ..calls.grammar import CallGrammar, NoCalls
from ..calls.model_families import UNKNOWN, Family
from ..config.settings import Generation, Thinking
from ..core.events import Reading, Sentence, Usage, WritingCall
from ..core.messages import MediaKind, Message, Tool

_CHARACTERS_PER_TOKEN, _TOKENS_AROUND_MESSAGE = 4, 4


@dataclass(frozen=True)
class TokenScore:
    """How probable a token of a reply was, before sampling parameters and grammars.

    Attributes:
        data: Its text, which may be a part of a character.
        logprob: Logarithm of its probability.
        likeliest: The likeliest tokens in its place, the best first.
    """

    data: bytes
    logprob: float
    likeliest: tuple[TokenScore, ...] = ()


StreamItem = str | Usage | Sentence | Reading | WritingCall | TokenScore
"""What an engine yields: text of the reply, its cost at the end, and messages while something takes long."""
Item = TypeVar("Item")


class StoppableStream(Generic[Item]):
    """An async iterator whose source can be asked to end.

    Closing it ends the source without waiting for its last items; after `stop` they are still yielded.
    """

    def __init__(self, items: AsyncGenerator[Item, None], request_stop: Callable[[], None]) -> None:
        """Wrap a generator.

        Args:
            items: The source.
            request_stop: Asks it to end soon; may be called more than once.
        """
        self._items, self._request_stop = items, request_stop

    def __aiter__(self) -> StoppableStream[Item]:
        return self

    async def __anext__(self) -> Item:
        return await anext(self._items)

    def stop(self) -> None:
        """Ask the source to end. Its last items are still yielded; for a model's reply, its Usage."""
        self._request_stop()

    async def aclose(self) -> None:
        """End the source and wait until it has ended."""
        await self._items.aclose()


ModelStream = StoppableStream[StreamItem]
"""A model's reply while it is generated."""


class Backend(Protocol):
    """An engine that continues a conversation.

    Attributes:
        name: Name of the model.
        template: Name of the chat template: equal names render a conversation identically.
        family: Model family, determined by the names and the template.
        profile: The row of PROFILES that the model file names; "" if it names none.
        context_tokens: Size of the context window: prompt and reply together.
        native_tools: The engine has its own tool support and receives tools beside the prompt.
        supports_grammar: The engine can constrain tool calls with a grammar.
        media_kinds: Kinds of media that the loaded model understands; media of other kinds must not be sent to it.
    """

    name: str
    template: str
    family: Family
    profile: str
    context_tokens: int
    native_tools: bool
    supports_grammar: bool
    media_kinds: frozenset[MediaKind]

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        tools: Sequence[Tool] = (),
        grammar: CallGrammar | NoCalls | None = None,
    ) -> ModelStream:
        """Generate a reply: yield text chunks, then one Usage; also a Sentence or Reading while something takes long.

        If the prompt opens a reasoning block, its text ("<think>" and what follows) is the first chunk. Closing the
        stream stops the engine; `stop()` stops it too, but the Usage is still yielded.

        Args:
            prompt: Messages with roles system, user and assistant.
            generation: Sampling parameters.
            tools: Tools for an engine with `native_tools`.
            grammar: Grammar of tool calls for an engine that `supports_grammar`.

        Raises:
            GenerationError: The engine failed.
        """
        ...

    async def prefill(self, prompt: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
        """Prefill the part of a prompt that does not depend on the next user message.

        A later stream continues from there. One may start meanwhile and takes precedence. The call may be cancelled at
        any time.

        Returns:
            Number of evaluated tokens; 0 if prefill is useless here or costs money.

        Raises:
            GenerationError: The engine failed.
        """
        ...

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Return the length of a prompt in tokens, chat template included."""
        ...

    def count_cached_tokens(self, prompt: Sequence[Message]) -> int | None:
        """Return how many tokens of a prompt are in the KV cache now; None if unknown."""
        ...

    async def aclose(self) -> None:
        """Release the engine."""


class BaseBackend:
    """The members of `Backend` for an engine that has only a generator of text.

    An engine overrides `generate`, gives itself a `name`, and replaces what it does better. `contract.py` checks it.
    """

    name = template = profile = ""
    family: Family = UNKNOWN
    context_tokens = 4096
    native_tools = supports_grammar = False
    media_kinds = frozenset[MediaKind]()

    def generate(self, prompt: Sequence[Message], generation: Generation) -> AsyncGenerator[str, None]:
        """Yield the reply in pieces, a token each if they are to be counted; it is closed where the reply must end.

        Raises:
            GenerationError: The engine failed.
        """
        raise NotImplementedError

    def stream(
        self,
        prompt: Sequence[Message],
        generation: Generation,
        _tools: Sequence[Tool] = (),
        _grammar: CallGrammar | NoCalls | None = None,
    ) -> ModelStream:
        """Yield what `generate` yields, up to the limit of the reply or until it is stopped, then its Usage."""
        stop = Event()
        return StoppableStream(self._read(prompt, generation, stop), stop.set)

    async def _read(
        self, prompt: Sequence[Message], generation: Generation, stop: Event
    ) -> AsyncGenerator[StreamItem, None]:
        started_at, first_at, number, is_full = time.monotonic(), 0.0, 0, False
        async with aclosing(self.generate(prompt, generation)) as pieces:
            async for piece in pieces:
                first_at, number = first_at or time.monotonic(), number + 1
                yield piece
                is_full = number >= generation.max_tokens
                if is_full or stop.is_set():
                    break
        tokens, first_s = self.count_tokens(prompt), (first_at or time.monotonic()) - started_at
        yield Usage(
            prompt_tokens=tokens,
            prefilled_tokens=tokens,
            generated_tokens=number,
            prefill_s=first_s,
            generate_s=time.monotonic() - started_at - first_s,
            first_token_s=first_s,
            hit_limit=is_full and not stop.is_set(),
        )

    async def prefill(self, _prompt: Sequence[Message], _tools: Sequence[Tool] = ()) -> int:
        """Return 0: nothing is evaluated."""
        return 0

    def count_tokens(self, prompt: Sequence[Message]) -> int:
        """Estimate the length of a prompt: a token for each four characters, and some around each message."""
        return sum(len(message.text) // _CHARACTERS_PER_TOKEN + _TOKENS_AROUND_MESSAGE for message in prompt)

    def count_cached_tokens(self, _prompt: Sequence[Message]) -> int | None:
        """Return None: it is not known whether there is a cache."""
        return None

    async def aclose(self) -> None:
        """Release what the engine holds; here there is nothing."""


@runtime_checkable
class ThinkingSwitch(Protocol):
    """A backend that switches reasoning without loading the model again."""

    def set_thinking(self, thinking: Thinking) -> None:
        """Switch reasoning from the next reply on: "auto", "on" or "off". No stream may be open."""
        ...


@runtime_checkable
class StateKeeper(Protocol):
    """A backend that can keep the states of several conversations that alternate."""

    def keep_states(self, limit_bytes: int) -> None:
        """Keep states in memory, up to a limit for all together; 0 keeps none. No stream may be open."""
        ...


@runtime_checkable
class PromptReplacer(Protocol):
    """A backend that knows what becomes of a conversation when another prompt replaces it."""

    @property
    def loses_conversation(self) -> bool:
        """Whether the last prompt has to be evaluated again, or a part of it, once another one has replaced it."""
        ...


@runtime_checkable
class ConversationKeeper(Protocol):
    """A backend that can keep what it has evaluated of a conversation in a folder, for the next start."""

    def resume_conversation(self, folder: Path) -> None:
        """Use what is kept in a folder for the next prompt that begins with it. The folder may not exist."""
        ...

    async def keep_conversation(self, folder: Path, prompt: Sequence[Message]) -> None:
        """Keep what is evaluated of a prompt that goes on with a user message, where that saves time.

        A folder has the state of one conversation, which replaces an earlier one. No stream may be open.

        Raises:
            GenerationError: The engine failed.
        """
        ...


@runtime_checkable
class BeginningKeeper(Protocol):
    """A backend that can only keep the evaluated beginnings of several conversations, in files."""

    def keep_beginnings(self) -> None:
        """Keep system text and tools of several conversations, as soon as they return. No stream may be open."""
        ...


@runtime_checkable
class ContextGuesser(Protocol):
    """A backend that may not know how large its context window is.

    Attributes:
        is_context_assumed: Whether `context_tokens` is an assumption.
    """

    is_context_assumed: bool


@runtime_checkable
class PromptRenderer(Protocol):
    """A backend that shows what it sends for a prompt."""

    def render_request(self, prompt: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
        """Return the rendered prompt with its control tokens, or the messages and tools of a request as JSON."""
        ...


@runtime_checkable
class LoadReporter(Protocol):
    """A backend with something to say of the model that it has loaded.

    Attributes:
        load_notices: What the user should know.
    """

    load_notices: Sequence[Sentence]


@runtime_checkable
class SizedModel(Protocol):
    """A backend that may know how large its model is.

    Attributes:
        parameter_count: Number of parameters of the model; 0 if it is unknown.
    """

    parameter_count: int


@runtime_checkable
class TextCompleter(Protocol):
    """A backend that also continues a text as it is, without a chat template."""

    def complete(self, text: str, generation: Generation) -> ModelStream:
        """Continue a text, in which control tokens count as such; yields what `Backend.stream` does.

        Raises:
            GenerationError: The text leaves no room, or the engine failed.
        """
        ...


@runtime_checkable
class MiddleFiller(Protocol):
    """A backend that writes what stands between two texts, where the model was trained for it."""

    def fill_middle(self, prefix: str, suffix: str, generation: Generation) -> ModelStream:
        """Write the text between two; yields what `Backend.stream` does.

        Control tokens count as plain text.

        Raises:
            NotSupportedError: The model was not trained for it.
            GenerationError: The texts leave no room, or the engine failed.
        """
        ...


@runtime_checkable
class TokenScorer(Protocol):
    """A backend that reports how probable each token of a reply was."""

    def score_tokens(self, number: int | None) -> None:
        """Yield a TokenScore before the text of each token, from the next reply on. No stream may be open.

        Args:
            number: How many of the likeliest tokens each one names; None for no scores.
        """
        ...


@runtime_checkable
class FirstTokenScorer(Protocol):
    """A backend that tells how a reply would begin, without generating it."""

    def score_first_token(self, prompt: Sequence[Message], number: int) -> ModelStream:
        """Yield a TokenScore of the likeliest first token of a reply, which names `number` of them, then its Usage.

        Raises:
            GenerationError: The prompt leaves no room, or the engine failed.
        """
        ...


@dataclass(frozen=True)
class MessageScore:
    """How probable a message of the user is behind the beginning of a prompt.

    Attributes:
        logprob: The sum of the natural logarithms of the probabilities of its tokens.
    """

    logprob: float


@runtime_checkable
class MessageScorer(Protocol):
    """A backend that tells how probable a message of the user is, whatever was evaluated before it."""

    def score_messages(self, prompts: Sequence[Sequence[Message]]) -> StoppableStream[MessageScore]:
        """Yield a score of the last message of each prompt, in order; the KV cache of the chat stays as it is.

        Raises:
            GenerationError: A prompt is too long, or the engine failed.
        """
        ...

    async def prepare_scores(self, prompts: Sequence[Sequence[Message]]) -> None:
        """Evaluate the prompts before their last messages, while the engine is idle.

        A stream that starts meanwhile ends it soon, cancellation at once.

        Raises:
            GenerationError: A prompt is too long, or the engine failed.
        """
        ...


@runtime_checkable
class TextTokenizer(Protocol):
    """A backend that shows the tokens of its model."""

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of a text, in which control tokens count as plain text."""
        ...


@dataclass(frozen=True)
class TextEmbedding:
    """The embedding of a text.

    Attributes:
        vector: Its numbers, not normalized.
        tokens: Length of the text in tokens.
    """

    vector: Sequence[float]
    tokens: int


@runtime_checkable
class TextEmbedder(Protocol):
    """A backend that also computes embeddings of texts."""

    def embed(self, texts: Sequence[str]) -> StoppableStream[TextEmbedding]:
        """Yield the embedding of each text, in order. Control tokens in a text count as plain text.

        Raises:
            NotSupportedError: The loaded model has no embeddings.
            GenerationError: A text does not fit (`details["index"]` names it), or the engine failed.
        """
        ...
