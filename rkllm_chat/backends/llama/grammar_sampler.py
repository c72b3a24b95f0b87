"""Constrain llama.cpp to a grammar while a call is generated, and only then; or keep it from writing a call.

The text is watched here for what begins a call; from there on, llguidance tells which tokens may come next.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...calls.grammar import CallGrammar, NoCalls
from ...calls.grammar.lark import literal, write_grammar
from ...calls.grammar.trigger import THOUGHT_MARKS, CallDetector, find_open_thought

_MAX_TOKEN_LENGTH = 4096
_SPECIAL = b"\xff"
"""What begins a token that is no text, for llguidance."""
_FIRST_TESTED = 128
"""Number of most likely tokens that are tested first."""
_MIN_SHARE_OF_NAMES = 1 / 2
"""Least probability of the names of tools behind an opener that may as well begin data, or the name of no tool: so did
half of the replies to questions that no tool fits (Qwen2.5-Coder 0.5B, 60 questions)."""
_MAX_WATCHED_LENGTH = 64
_FIRST_SIGNS = "¿¡"
"""What may begin a reply without calls besides letters and digits."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model.

    Attributes:
        texts: What each is written as.
        controls: Which of them are control tokens.
        ends: Which of them end a reply.
        tokenizers: What llguidance makes of them, by the control tokens that count as text.
    """

    texts: Sequence[bytes]
    controls: frozenset[int]
    ends: Sequence[int]
    tokenizers: dict[frozenset[int], Any] = field(default_factory=dict[frozenset[int], Any])

    def select(self, marks: Sequence[str]) -> Any:
        """Return the tokenizer in which control tokens are no text, whatever their names, unless marks contain them.

        The first takes 0.3 s for 150,000 tokens.
        """
        joined = "\0".join(marks).encode()
        written = frozenset(token for token in self.controls if self.texts[token] and self.texts[token] in joined)
        if written not in self.tokenizers:
            from llguidance import LLTokenizer, TokenizerWrapper

            tokens = TokenizerWrapper(_Tokens(self, written))
            # without slices, a mask takes 0.7 ms instead of 0.1, and the tokenizer half the time and memory
            self.tokenizers[written] = LLTokenizer(tokens, slices=[], eos_token=[*self.ends])
        return self.tokenizers[written]


class _Tokens:
    """The tokens as llguidance asks for them."""

    bos_token_id = None
    special_token_ids: tuple[int, ...] = ()

    def __init__(self, vocabulary: Vocabulary, written: frozenset[int]) -> None:
        special = vocabulary.controls - written
        self.tokens = [_SPECIAL + text if at in special else text for at, text in enumerate(vocabulary.texts)]
        self.eos_token_id = vocabulary.ends[0]

    def __call__(self, _text: bytes) -> list[int]:
        return []  # asked for only where a forced text is tokenized, which `write_grammar` rules out


def read_vocabulary(engine: Any) -> Vocabulary:
    """Read the tokens of a model; takes 0.4 s for 150,000 tokens."""
    import llama_cpp

    handle = llama_cpp.llama_model_get_vocab(engine.model)
    tokens = range(engine.n_vocab())
    buffer = ctypes.create_string_buffer(_MAX_TOKEN_LENGTH)

    def read(token: int) -> bytes:
        size = llama_cpp.llama_token_to_piece(handle, token, buffer, _MAX_TOKEN_LENGTH, 0, True)
        return buffer.raw[: max(size, 0)]

    ends = [token for token in tokens if llama_cpp.llama_vocab_is_eog(handle, token)]
    controls = frozenset(token for token in tokens if llama_cpp.llama_vocab_is_control(handle, token))
    return Vocabulary([read(token) for token in tokens], controls, ends or [engine.token_eos()])


class CallConstraint:
    """Restricts which tokens a reply may continue with: `add_token` records each token, `mask_logits` filters the next.

    The vocabulary is read when the first call begins.
    """

    def __init__(
        self,
        engine: Any,
        vocabulary: Callable[[], Vocabulary],
        grammar: CallGrammar,
        reply_prefix: str = "",
        opened: str = "",
    ) -> None:
        """Watch a new reply.

        Args:
            engine: The engine.
            vocabulary: Returns the tokens of the model; called only inside calls.
            grammar: The grammar of calls.
            reply_prefix: The beginning of the reply that the prompt already contains.
            opened: The marker of a call with which the prompt ends; "" if it does not.
        """
        self._engine = engine
        self._vocabulary = vocabulary
        self._grammar = grammar
        self._matcher: Any = None
        self._may_be_data = False
        thought_end = find_open_thought(reply_prefix)
        if grammar.opening and thought_end:
            grammar = replace(grammar, triggers={**grammar.triggers, thought_end: grammar.opening})
        self._rules = {**grammar.unmarked, **grammar.triggers}
        self._watch = CallDetector(grammar)
        self._watch.feed(reply_prefix)
        if opened:
            self._open(self._rules[opened])
        elif grammar.opening and not thought_end:
            self._open(grammar.opening)

    def add_token(self, token: int, text: str) -> None:
        """Record a generated token and its text, which may begin or end a call."""
        if self._matcher is None:
            opener = self._watch.feed(text)
            if opener:
                written = text[: len(text) - len(self._watch.rest)]
                self._may_be_data = opener in self._grammar.unmarked
                self._open(f"{literal(written)} ({self._rules[opener]})", token)
        elif self._accept(token) and not self._grammar.is_whole_reply and self._matcher.is_accepting():
            self.close()
            self._watch.expect_call()

    def close(self) -> None:
        """End the constraint until the next call."""
        self._matcher = None

    def mask_logits(self, _tokens: Any, logits: Any) -> Any:
        """Return the logits with forbidden tokens at minus infinity. llama.cpp calls it through C."""
        if self._matcher is None:
            return logits
        try:
            return self._mask(logits)
        except Exception:  # in C it would be lost, after being printed to the terminal
            log.exception("A call continues unconstrained.")
            self.close()
            return logits

    def _open(self, body: str, token: int | None = None) -> None:
        """Start a grammar.

        Args:
            body: What may be written.
            token: The token that completed the marker, whose text may contain the beginning of the call.
        """
        from llguidance import LLMatcher

        tokenizer = self._vocabulary().select(self._grammar.marks)
        # log level 0, since llguidance prints its warnings to the terminal
        self._matcher = LLMatcher(tokenizer, write_grammar(self._grammar.rules, body), log_level=0)
        if self._matcher.is_error():
            log.debug("The grammar cannot be used; the call continues unconstrained: %s", self._matcher.get_error())
            self.close()
        elif token is not None:
            self._accept(token)

    def _accept(self, token: int) -> bool:
        """Advance the grammar by a token; if the token does not fit, end the constraint and return False."""
        if self._matcher.consume_token(token):
            return True
        log.debug("The marker of a call ends within a token (%d); the call continues unconstrained.", token)
        self.close()
        return False

    def _mask(self, logits: Any) -> Any:
        import numpy

        permitted = self._find_permitted(len(logits))
        if self._matcher.is_error() or not permitted.any():  # llguidance permits only the end after an error of its own
            log.debug("No token fits the grammar; the call continues unconstrained: %s", self._matcher.get_error())
            self.close()
            return logits
        if self._may_be_data:
            self._may_be_data = False
            weights = numpy.exp(logits - logits.max())
            if weights[permitted].sum() < _MIN_SHARE_OF_NAMES * weights.sum():
                log.debug("The reply continues as data; it is unconstrained.")
                self.close()
                return logits
        masked = numpy.where(permitted, logits, numpy.float32(-numpy.inf))
        return self._transfer_logit(masked, logits, permitted)

    def _find_permitted(self, size: int) -> Any:
        """Return which tokens may come next, one boolean each."""
        import numpy

        bits = numpy.zeros((size + 31) // 32, dtype=numpy.int32)
        self._matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
        return numpy.unpackbits(bits.view(numpy.uint8), count=size, bitorder="little").astype(bool)

    def _transfer_logit(self, masked: Any, logits: Any, permitted: Any) -> Any:
        """Give the logit of the most likely token, if it is forbidden, to its longest allowed prefix.

        A model that wants to write `"}}` at the end of a text would otherwise continue the text, because it never
        learnt to write the quote alone.
        """
        wanted = int(logits.argmax())
        if permitted[wanted]:
            return masked
        text: bytes = self._engine.detokenize([wanted])
        for size in range(len(text) - 1, 0, -1):
            tokens = self._engine.tokenize(text[:size], add_bos=False, special=False)
            if len(tokens) == 1 and self._engine.detokenize(tokens) == text[:size] and permitted[tokens[0]]:
                masked[tokens[0]] = max(masked[tokens[0]], logits[wanted])
                break
        return masked


class CallProhibition:
    """Keeps a reply from containing a call. It has the methods of `CallConstraint`.

    The reply begins with a word or a number, because a model that may not write a marker writes a call without one;
    behind that, no token is chosen that would complete an opener.
    """

    def __init__(self, engine: Any, no_calls: NoCalls, reply_prefix: str = "") -> None:
        """Watch a new reply; `reply_prefix` is its beginning that the prompt already contains."""
        self._engine = engine
        self._openers = no_calls.openers
        self._longest = max(map(len, self._openers), default=1)
        self._written = ""  # the end of the reply, without white space
        self._texts: dict[int, str] = {}
        self._thought_end = find_open_thought(reply_prefix)
        self._has_begun = False

    def add_token(self, _token: int, text: str) -> None:
        """Record the text of a generated token."""
        squeezed = "".join(text.split())
        self._written = (self._written + squeezed)[-_MAX_WATCHED_LENGTH:]
        if self._thought_end:
            if self._thought_end in self._written:
                self._thought_end = self._written = ""
        elif not self._has_begun and self._written:
            self._thought_end = THOUGHT_MARKS.get(self._written, "")
            self._has_begun = not self._thought_end

    def close(self) -> None:
        """End the prohibition."""

    def mask_logits(self, _tokens: Any, logits: Any) -> Any:
        """Return the logits with forbidden tokens at minus infinity. llama.cpp calls it through C."""
        if self._thought_end:
            return logits
        try:
            return self._mask(logits)
        except Exception:  # in C it would be lost, after being printed to the terminal
            log.exception("The reply continues unconstrained.")
            self._thought_end = "\0"
            return logits

    def _mask(self, logits: Any) -> Any:
        import numpy

        # the text of a token is a call of the library, so the likeliest are looked at first
        size = min(_FIRST_TESTED, len(logits))
        while True:
            nearest = numpy.argpartition(logits, -size)[-size:]
            allowed = [token for token in nearest.tolist() if self._may_follow(token)]
            if allowed or size == len(logits):
                break
            size = min(size * 16, len(logits))
        masked = numpy.full(len(logits), -numpy.inf, dtype=numpy.float32)
        masked[allowed] = logits[allowed]
        return masked if allowed else logits

    def _may_follow(self, token: int) -> bool:
        text = self._text_of(token)
        if not self._has_begun and not self._written:
            return text in THOUGHT_MARKS or (bool(text) and (text[0].isalnum() or text[0] in _FIRST_SIGNS))
        written = self._written[-self._longest :] + text
        return not any(opener in written for opener in self._openers)

    def _text_of(self, token: int) -> str:
        """Return the text of a token without white space; a part of a character beyond ASCII counts as a letter."""
        if token not in self._texts:
            data: bytes = self._engine.detokenize([token], special=True)
            text = data.decode(errors="replace").replace("\ufffd", "\u00e9")
            self._texts[token] = "".join(text.split())
        return self._texts[token]


Constraint = CallConstraint | CallProhibition
