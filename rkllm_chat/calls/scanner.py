"""Find thoughts and tool calls in the text of a model while it is streamed.

A state machine over a `Reader`: text, thought, fence, quotation, or a candidate call that its format accepts or
rejects. The events do not depend on how the text is chunked (adjacent `Text` events joined), and only what may be the
beginning of a marker is delayed. A reply that ends inside a call yields CallUnreadable("truncated"); such a call is
never completed and never executed. Text after a call that imitates its result is reported as `InventedResult`, up to
the end of the reply. Calls are only found here, never executed.

Cost: each character is examined a bounded number of times, however the text is chunked. Outside of markers, a chunk
that contains no first character of any marker is passed on unchanged; inside a call, the reader names the character it
waits for, and chunks without it are only buffered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial

from ..core.events import CallDescribed, CallFound, CallUnreadable, Text, TextWasThought, Thought
from .described_calls import describe_calls
from .formats import (
    CONTROL_TOKENS,
    TURN_OPENERS,
    BodyReader,
    Format,
    ParsedCalls,
    ReadContext,
    Wrapper,
    list_sections,
    merge_wrappers,
    read_wrapped,
    select_formats,
)
from .formats.common import FENCE, NO_END, add_repairs, unreadable_call
from .formats.json_calls import SEPARATORS
from .formats.unmarked import (
    FIRST_CHARS,
    may_be_unknown_tool,
    read_bare_json,
    read_bare_python,
    read_name_alone,
    read_unmarked_json,
)
from .incremental_reader import CharPattern, EndOfTextError, Parsing, Reader, TooLongError
from .literals import Markers, char_pattern, compile_markers

THINK_TAGS = {"<think>": "</think>", "<thinking>": "</thinking>"}
_THINK_ENDS = tuple(THINK_TAGS.values())
_FENCES = ("```", "~~~")
_QUOTED_LINE = "> "
_END_ONLY = ("</s>", "<eos>", "</assistant>", "</response>", "<sep>", "<SPECIAL_12>", "<end_of_sentence>")
"""Control tokens that may stand in ordinary text, too; they are dropped only at the end of a reply."""
_LINE_END = char_pattern("\n")
_INLINE_CODE = re.compile(r"(?!`)[^`\n]*[`\n]")
"""The rest of a code span with one mark, up to its end or that of its line."""
_MAX_RUN_LENGTH = 32
"""Maximum length of a code fence, and of the blanks before it."""
_MAX_THOUGHT_LENGTH = 65536
"""How much of a thought is searched for a misplaced call, in characters."""

_OPENING_QUOTES = ('"', "'", "“", "‘", "「", "『", "«")
_ROLE_LABEL = re.compile(
    r"^\W*(user|human|assistant|ai|model|bot|system|ユーザー|アシスタント|用户|助手)\W*[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_MAX_LINE_LENGTH = 512
_UNMARKED_BEGINNINGS = (*_FENCES, "{", "[")
_TOKEN_PREFIXES = ("<|", "<｜", "✿")
"""Prefixes of special tokens, which no prose contains: such a token begins a result anywhere in a line."""


@dataclass(frozen=True)
class InventedResult:
    """Text that the model wrote after a call as if it were the result, with all that follows it."""

    text: str


ScannerEvent = Text | Thought | TextWasThought | CallFound | CallUnreadable | CallDescribed | InventedResult


class Scanner:
    """Incremental scanner: feed it a reply chunk by chunk; each call returns the events that are certain by then.

    Attributes:
        retained_length: Length of the reply, in characters, up to the end of its last call or word, and before any
            invented result.
    """

    def __init__(
        self,
        formats: Iterable[Format] = select_formats(),
        is_known: Callable[[str], bool] = lambda _name: False,
        starts_in_thought: bool = False,
        headings: Callable[[str], tuple[str, ...]] = lambda _name: (),
        parameters_of: Callable[[str], Collection[str]] = lambda _name: (),
        thought_ending: Iterable[Format] = (),
        writes_unmarked: bool = False,
        offered: Mapping[str, bool] | None = None,
        stripped: Iterable[Format] = (),
    ) -> None:
        """Create a scanner for one reply.

        Args:
            formats: The call formats that the model may write.
            is_known: Tells whether a tool has that name. A call without a marker counts only if its tool is known.
            starts_in_thought: Whether the prompt already ends with the opening of a thought.
            headings: Maps the name of a called tool to the headings that the prompt puts above its results.
            parameters_of: Maps the name of a tool to the names of its parameters. A call is unreadable if the end tag
                of an argument may be missing before another parameter.
            thought_ending: The formats in which a call is meant that ends a thought which is never closed.
            writes_unmarked: Whether a call without a marker may follow prose, if it ends the reply.
            offered: Maps the names of the offered tools to whether they need arguments. With it, a reply that only
                names one, or that only calls a tool that there is not, is reported.
            stripped: The formats of the model's family, whose control tokens may have been removed.
        """
        self._formats = tuple(formats)
        self._thought_ending = tuple(thought_ending)
        self._headings = headings
        self._writes_unmarked = writes_unmarked
        self._offered = offered or {}
        self._lexicon = _lexicon_of(self._formats, writes_unmarked, tuple(stripped))
        self._context = ReadContext(
            is_known, parameters_of, self._lexicon.ordered_openers, self._lexicon.turn_ends, self._lexicon.closers
        )
        self._markers, self._marked = self._lexicon.markers, self._lexicon.marked
        self._results: tuple[str, ...] = ()  # openers of a result; empty before the first call
        self._beginning: frozenset[str] = frozenset()  # the markers that begin with one of these
        self._reader = Reader()
        self._events: list[ScannerEvent] = []
        self._thoughts: list[str] = []
        self._texts: list[str] = []
        self._is_in_thought = self._mentions_thought = False
        self._calls = 0
        self._is_fresh = True  # only white space since the reply began or a call ended
        self._has_text = False
        self._line: str | None = ""  # the current line while it is blank, up to the first `_measured` of the texts
        self._tail = ""  # the end of these texts
        self._measured = 0
        self._roles: set[str] = set()  # whose labels begin lines of the first `_labelled` texts but the last line
        self._role_line, self._labelled = "", 0
        self._flow: type[Text] | type[Thought] | None = None  # what a chunk without the edge is
        self._edge: CharPattern | None = None
        self._fed = self.retained_length = 0
        self._scan = self._read_reply(starts_in_thought)

    def feed(self, text: str) -> list[ScannerEvent]:
        """Scan the next chunk and return the events that are certain now."""
        self._fed += len(text)
        if self._edge and not self._edge.search(text):
            if self._flow:
                if not text.isspace():
                    self.retained_length = self._fed
                (self._texts if self._flow is Text else self._thoughts).append(text)
                return [self._flow(text)] if text else []
            if self._reader.hold(text):
                return []
            text = ""
        self._reader.feed(text)
        return self._advance()

    def close(self, is_complete: bool = False) -> list[ScannerEvent]:
        """End the reply and return the remaining events.

        Args:
            is_complete: Whether the model ended the reply itself: then one missing last brace of a call is added. False
                if it was stopped or reached its token limit.
        """
        self._reader.end(is_complete)
        return self._advance()

    def _advance(self) -> list[ScannerEvent]:
        self._flow = None
        self._edge = next(self._scan, None)
        seen, self._events = self._events, []
        return seen

    def _read_reply(self, starts_in_thought: bool) -> Parsing[None]:
        lexicon, marker = self._lexicon, "-"
        if starts_in_thought:
            again = yield from self._reader.peek_literal(tuple(lexicon.thoughts))
            self._reader.take(len(again))
            yield from self._read_thought(tuple(lexicon.thoughts.values()))
        yield from self._read_stripped_thought()
        while marker:
            if self._is_fresh and (yield from self._read_beginning()):
                continue
            marker = yield from self._emit_until(Text, self._markers)
            if self._begins_result(marker):
                return (yield from self._read_rest(marker))
            yield from self._read_marked(self._match_shorter_marker(marker))
        self._find_call_in_thought()
        if self._offered and not self._calls:
            self._events += self._describe_calls()

    def _read_stripped_thought(self) -> Parsing[None]:
        """Read a thought at the beginning of the reply whose markers were removed."""
        reader, thoughts = self._reader, self._lexicon.stripped_thoughts
        begin = (yield from reader.peek_literal(tuple(thoughts))) if thoughts else ""
        if not begin:
            return
        reader.take(len(begin))
        if not thoughts[begin]:
            return
        if (yield from reader.is_at_end()) or not reader.text[reader.at].isupper():
            reader.unread(begin)  # an answer that begins with the word
            return
        end = yield from self._emit_until(Thought, compile_markers(thoughts[begin]))
        self._is_in_thought = not end
        if not end.endswith("final"):
            reader.unread(end.removeprefix("assistant"))
        self._begin_afresh("")

    def _read_marked(self, mark: str) -> Parsing[None]:
        lexicon = self._lexicon
        if mark in THINK_TAGS and not self._is_fresh and self._blank_line() is None:
            self._mentions_thought = True
            self._emit(Text, mark)
        elif mark in lexicon.thoughts:
            yield from self._read_thought((lexicon.thoughts[mark],), mark)
        elif mark in _THINK_ENDS and self._ends_unmarked_thought():
            self._turn_text_into_thought()
        elif mark in lexicon.openers:
            opener = yield from self._read_repeated(mark)
            is_call = not self._is_quoted() and (yield from self._try(opener, lexicon.openers[mark]))
            if not is_call and mark not in lexicon.controls:
                self._emit(Text, opener)
        elif mark in lexicon.stripped:
            self._reader.unread(mark)
            if self._is_quoted() or not (yield from self._try("", lexicon.stripped[mark])):
                self._emit(Text, self._reader.take(len(mark)))
        elif mark in lexicon.controls:
            yield from self._drop(mark)
        elif mark and not (self._writes_unmarked and (yield from self._read_last_call(mark))):
            yield from self._read_quote(mark)

    def _ends_unmarked_thought(self) -> bool:
        """Tell whether an end tag here ends a thought that began with the reply, and is not only mentioned in it."""
        if self._mentions_thought or self._thoughts or self._calls or not self._has_text:
            return False
        return self._blank_line() is not None or not self._tail.endswith((" ", "(", "[", "*", *_OPENING_QUOTES))

    def _turn_text_into_thought(self) -> None:
        self._events.append(TextWasThought())
        self._thoughts, self._texts, self._has_text = self._texts, [], False
        self._measured = self._labelled = 0
        self._role_line = self._tail = ""
        self._begin_afresh("")

    def _read_repeated(self, mark: str) -> Parsing[str]:
        """Consume further copies of an opener, which mean no more than one; return what was read of it."""
        opener, reader = mark, self._reader
        tail = ">" if mark.startswith("<") and not mark.endswith(">") else ""
        while not tail or (yield from reader.skip(tail)):
            space = yield from reader.skip_space()
            if not (yield from reader.skip(mark)):
                reader.unread(tail + space)
                break
            opener += tail + space + mark
        return opener

    def _is_quoted(self) -> bool:
        """Tell whether a marker here is quoted: directly behind a quotation mark, or as the line of a transcript."""
        if self._is_fresh or self._blank_line() is not None:
            return False
        line = self._tail.rstrip().rpartition("\n")[2]
        if line.endswith(_OPENING_QUOTES):
            return True
        if not _ROLE_LABEL.fullmatch(line):
            return False
        lines = self._role_line + "".join(self._texts[self._labelled :])
        self._labelled, self._role_line = len(self._texts), lines.rpartition("\n")[2]
        self._roles |= {match[1].casefold() for match in _ROLE_LABEL.finditer(lines)}
        return len(self._roles) > 1

    def _read_last_call(self, mark: str) -> Parsing[bool]:
        """Read calls without a marker that begin with `mark` on a line of their own behind prose and end the reply."""
        if mark not in _UNMARKED_BEGINNINGS or self._blank_line() is None:
            return False
        self._reader.unread(mark)
        if (yield from self._try("", self._read_only_call)):
            return True
        self._reader.take(len(mark))
        return False

    def _read_only_call(self, reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        """Read the calls that end the reply; if the text before shows calls too, all of them are only described."""
        parsed = yield from self._read_to_end(reader, context)
        return None if parsed and self._offered and self._describe_calls() else parsed

    def _describe_calls(self) -> list[CallDescribed | CallUnreadable]:
        return describe_calls("".join(self._texts)[-_MAX_THOUGHT_LENGTH:], self._context)

    def _read_beginning(self) -> Parsing[bool]:
        """Read what only the start of a reply or the end of a call allows: an unmarked call, a redundant end marker."""
        reader, lexicon = self._reader, self._lexicon
        if not self._calls and reader.text.startswith(lexicon.ordered_openers, reader.at):
            return False
        self._emit(Text, (yield from reader.skip_space()))
        ends = lexicon.closers if self._calls else self._redundant_thought_ends
        end = yield from reader.peek_literal((*ends, *lexicon.ordered_openers))  # an opener may begin like an end
        if end in ends:
            reader.take(len(end))
            self._keep()
            return True
        if (yield from reader.peek_literal(self._marked)):
            return False
        if self._offered and not self._calls and (yield from self._try("", self._read_name_alone)):
            return True
        char = reader.text[reader.at : reader.at + 1]
        if char in SEPARATORS and (yield from self._try("", self._read_separated)):
            return True
        for read in lexicon.bare:
            if char not in FIRST_CHARS.get(read, char):
                continue
            if (yield from self._try("", self._read_bare_json if read is read_bare_json else read)):
                return True
        if (yield from reader.peek_literal(_FENCES)):
            return (yield from self._try("", self._read_to_end))
        return False

    @property
    def _redundant_thought_ends(self) -> tuple[str, ...]:
        """What may end a thought at the start of the reply, although none began; some models write it."""
        return () if self._has_text or self._thoughts else tuple(self._lexicon.thoughts.values())

    def _try(self, opener: str, read: BodyReader) -> Parsing[bool]:
        """Try to read a call after its opener. False if it is no call; its text is then put back to be read as text."""
        reader = self._reader
        reader.start_recording()
        reader.is_mid_line = not self._is_fresh and self._blank_line() is None
        reader.is_alone = self._is_fresh and not self._has_text and not self._calls
        reader.is_in_markup = not self._is_fresh and self._tail.rstrip().endswith(">")
        parsed: ParsedCalls = None
        is_too_long = False
        try:
            parsed = yield from read(reader, self._context)
        except EndOfTextError:
            if reader.is_committed:
                reader.take_to(len(reader.text))
                parsed = unreadable_call("truncated", "The reply ended before the call did.")
        except TooLongError:
            if reader.is_committed:
                parsed = unreadable_call("too_large", f"The call is longer than {reader.max_length} characters.")
                is_too_long = True
        if parsed is None:
            reader.rewind(0)
        written = reader.stop_recording()
        if parsed is None:
            return False
        raw = opener + written
        for result in parsed:
            if isinstance(result, CallFound):
                self._events.append(CallFound(result.call, raw))
            else:
                self._events.append(CallUnreadable(result.fault, result.detail, raw))
            raw = ""
        self._calls += len(parsed)
        self._begin_afresh(None)
        self._expect_results(parsed)
        if is_too_long:
            yield from self._read_rest(None)
        return True

    def _expect_results(self, parsed: Sequence[CallFound | CallUnreadable]) -> None:
        """Treat a result of these calls as invented from here on."""
        known = self._results or (self._lexicon.results if parsed else ())
        named = (result.call.name for result in parsed if isinstance(result, CallFound))
        new = [heading for name in named for heading in self._headings(name) if heading not in known]
        if new or known is not self._results:
            self._results = tuple(dict.fromkeys((*known, *new)))
            self._markers, self._marked = _markers_with(self._lexicon, self._results)
            marks = self._markers.literals
            self._beginning = frozenset(mark for mark in marks if mark.startswith(self._results))

    def _begins_result(self, marker: str) -> bool:
        if marker not in self._beginning:
            return False
        return marker.startswith(_TOKEN_PREFIXES) or self._is_fresh or self._blank_line() is not None

    def _match_shorter_marker(self, marker: str) -> str:
        """Return the other marker with which a rejected result marker begins; "" if all of it was text."""
        if marker not in self._beginning:
            return marker
        match = self._lexicon.markers.pattern.match(marker)
        shorter = match[0] if match else ""
        if shorter:
            self._reader.unread(marker[len(shorter) :])
        else:
            self._emit(Text, marker)
        return shorter

    def _read_rest(self, invented: str | None) -> Parsing[None]:
        """Report the rest of the reply, whose beginning was already read, as invented; drop it if that is None.

        It is dropped if it may be the inside of a call that was too large.
        """
        with suppress(EndOfTextError):
            while True:
                rest = self._reader.take_to(len(self._reader.text))
                if invented is not None:
                    self._events.append(InventedResult(invented + rest))
                    invented = ""
                yield from self._reader.wait_for_text()

    def _read_name_alone(self, reader: Reader, _context: ReadContext) -> Parsing[ParsedCalls]:
        return (yield from read_name_alone(reader, self._offered))

    def _read_separated(self, reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        """Read a call behind what separates it from another one."""
        reader.take(1)
        yield from reader.skip_space()
        return (yield from self._read_bare_json(reader, context))

    def _read_bare_json(
        self, reader: Reader, context: ReadContext, fence: tuple[str, ...] = ()
    ) -> Parsing[ParsedCalls]:
        return (yield from read_unmarked_json(reader, context, self._may_be_tool, fence))

    def _may_be_tool(self, name: str) -> bool:
        """Tell whether a call without a marker may have this name; if the reply is nothing else, an unknown one."""
        may_be_unknown = bool(self._offered) and not self._has_text and may_be_unknown_tool(name)
        return self._context.is_known(name) or may_be_unknown

    def _read_to_end(self, reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        """Read calls up to the end of the reply, without a marker or in code fences that contain nothing else."""
        calls: list[CallFound | CallUnreadable] = []
        while True:
            fence = yield from reader.peek_literal(_FENCES)
            read = partial(self._read_fenced, fence) if fence else self._read_bare_json
            parsed = yield from read(reader, context)
            if not parsed:
                return None
            calls += parsed
            yield from reader.skip_space()
            if (yield from reader.is_at_end()) or (yield from reader.peek_literal(self._lexicon.controls)):
                return calls

    def _read_fenced(self, fence: str, reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        """Read calls in a code fence that contains nothing else: of any format, or without a marker."""
        reader.take(len(fence))
        yield from reader.read_up_to(_LINE_END)
        calls: list[CallFound | CallUnreadable] = []
        while not (yield from self._skip_to_end_of(fence, reader)):
            parsed = yield from self._read_any(fence, reader, context)
            if not parsed:
                return None
            calls += parsed
        repairs = (FENCE,) if (yield from reader.skip(fence)) else (FENCE, NO_END)
        yield from reader.skip_space()
        closer = yield from reader.peek_literal(context.closers)
        reader.take(len(closer))
        return [add_repairs(call, *repairs) for call in calls] or None

    def _skip_to_end_of(self, fence: str, reader: Reader) -> Parsing[bool]:
        yield from reader.skip_space()
        return (yield from reader.is_next(fence)) or (yield from reader.is_at_end())

    def _read_any(self, fence: str, reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        """Read a call of any format."""
        opener = yield from reader.peek_literal(self._lexicon.ordered_openers)
        if opener:
            reader.take(len(opener))
            return (yield from self._lexicon.openers[opener](reader, context))
        for read in (partial(self._read_bare_json, fence=(fence,)), read_bare_python):
            size = reader.size
            parsed = yield from read(reader, context)
            if parsed:
                return parsed
            reader.rewind(size)
        return None

    def _emit_until(self, kind: type[Text] | type[Thought], markers: Markers) -> Parsing[str]:
        """Emit text as events of one kind up to a marker and return the marker; "" at the end of the reply."""
        reader = self._reader
        while True:
            end, match = markers.find(reader.text, reader.at, reader.ended)
            if end > reader.at:
                self._emit(kind, reader.take_to(end))
            if match:
                return reader.take_to(match.end())
            if reader.ended:
                return ""
            flows = end == len(reader.text) and (kind is Thought or not self._is_fresh)
            self._flow = kind if flows else None
            yield markers.first_char if flows else None
            self._flow = None

    def _emit(self, kind: type[Text] | type[Thought], text: str) -> None:
        if not text:
            return
        self._events.append(kind(text))
        (self._texts if kind is Text else self._thoughts).append(text)
        if not text.isspace():
            self._keep()
            if kind is Text:
                self._is_fresh, self._has_text = False, True

    def _blank_line(self) -> str | None:
        """Return the current line if it is blank, else None."""
        if self._measured < len(self._texts):
            text = "".join(self._texts[self._measured :])
            _, new_line, line = text.rpartition("\n")
            begin = "" if new_line else self._line
            self._line = None if begin is None or line.strip() else begin + line
            self._tail = (self._tail + text)[-_MAX_LINE_LENGTH:]
            self._measured = len(self._texts)
        return self._line

    def _begin_afresh(self, line: str | None) -> None:
        """Count what comes as a beginning, on this line."""
        self._blank_line()
        self._is_fresh, self._line = True, line
        self._keep()

    def _keep(self) -> None:
        self.retained_length = self._fed - (len(self._reader.text) - self._reader.at)

    def _read_thought(self, closers: tuple[str, ...], opener: str = "") -> Parsing[None]:
        start = len(self._thoughts)
        self._is_in_thought = not (yield from self._emit_until(Thought, compile_markers(closers)))
        rest = "".join(self._thoughts[start:])
        if self._is_in_thought and self._reader.is_complete and opener in THINK_TAGS and rest.startswith(" "):
            self._emit(Text, opener + rest)  # an answer that begins with the tag: "<think> begins a thought."
            return
        self._begin_afresh("")

    def _read_quote(self, marker: str) -> Parsing[None]:
        """Read what Markdown treats as an example: a code fence, inline code, a quoted line."""
        if marker == "`" and (code := self._reader.take_run(_INLINE_CODE)):
            self._emit(Text, marker + code)
            return
        indent = self._blank_line()
        begins_line = indent is not None and len(indent) < _MAX_RUN_LENGTH
        run = marker
        ends: tuple[str, ...] = ()
        self._emit(Text, marker)
        if marker[0] == "`" or (begins_line and marker in _FENCES):
            while len(run) < len(marker) + _MAX_RUN_LENGTH and (yield from self._reader.skip(marker[0])):
                run += marker[0]
            self._emit(Text, run[len(marker) :])
            ends = (f"\n{indent}{run}",) if begins_line and marker in _FENCES else (run, "\n")
        elif begins_line and marker == _QUOTED_LINE:
            ends = ("\n",)
        if ends:
            self._emit(Text, (yield from self._emit_until(Text, compile_markers(ends))))

    def _drop(self, control: str) -> Parsing[None]:
        """Drop a control token; one that ordinary text may contain only at the end of the reply."""
        if control not in _END_ONLY:
            return
        space = yield from self._reader.skip_space()
        if not (yield from self._reader.is_at_end()):
            self._emit(Text, control + space)

    def _find_call_in_thought(self) -> None:
        """Report a call in a thought if the reply contains nothing else: the model may have meant to make it.

        If the thought is never closed, a call at its end is certain in some formats.
        """
        if not self._thoughts or self._calls or self._has_text:
            return
        thought = "".join(self._thoughts)[-_MAX_THOUGHT_LENGTH:]
        for marker in (*self._lexicon.thoughts, *self._lexicon.thoughts.values()):
            thought = thought.replace(marker, "\n")  # otherwise each nested thought would need a scanner of its own
        if self._is_in_thought and self._thought_ending:
            events = self._scan_thought(self._thought_ending, thought)
            if events and isinstance(events[-1], CallFound):
                self._events += [event for event in events if isinstance(event, CallFound)]
                return
        if any(isinstance(event, CallFound) for event in self._scan_thought(self._formats, thought)):
            detail = "The call is inside the thinking, where calls are never run."
            self._events.append(CallUnreadable("call_in_thinking", detail, ""))

    def _scan_thought(self, formats: Sequence[Format], thought: str) -> list[ScannerEvent]:
        """Scan a thought like a reply; white space is left out."""
        inner = Scanner(formats, self._context.is_known, parameters_of=self._context.parameters_of)
        events = inner.feed(thought) + inner.close()
        return [event for event in events if not isinstance(event, Text) or event.text.strip()]


def settle_thoughts(events: Iterable[ScannerEvent]) -> list[ScannerEvent]:
    """Return the events of a whole reply with thoughts where its text turned out to be one."""
    settled: list[ScannerEvent] = []
    for event in events:
        if isinstance(event, TextWasThought):
            settled = [Thought(event.text) if isinstance(event, Text) else event for event in settled]
        else:
            settled.append(event)
    return settled


class _Lexicon:
    """The markers of a set of formats and what each of them begins.

    With brackets, if they may begin a last call, and with what is left of the calls of `stripped` formats.
    """

    def __init__(self, formats: Sequence[Format], with_brackets: bool, stripped: Sequence[Format]) -> None:
        wrappers: dict[str, list[Wrapper]] = {}
        self.thoughts: dict[str, str] = dict(THINK_TAGS)
        for format_ in formats:
            for opener, wrapper in format_.openers.items():
                wrappers.setdefault(opener, []).append(wrapper)
            self.thoughts |= format_.thought_markers
        for opener, wrapper in list_sections():
            wrappers.setdefault(opener, [wrapper])
        self.openers = {opener: read_wrapped(merge_wrappers(found)) for opener, found in wrappers.items()}
        self.controls = tuple(
            dict.fromkeys(mark for format_ in formats for mark in (*CONTROL_TOKENS, *format_.control_tokens))
        )
        own_closers = (closer for format_ in formats for closer in format_.closers)
        section_closers = (closer for _, wrapper in list_sections() for closer in wrapper.closers)
        self.closers = tuple(dict.fromkeys((*own_closers, *section_closers)))
        self.results = tuple(
            dict.fromkeys((*TURN_OPENERS, *(mark for format_ in formats for mark in format_.result_openers)))
        )
        remnants = [format_.stripped_call for format_ in stripped if format_.stripped_call]
        self.stripped = {prefix: remnant.read for remnant in remnants for prefix in remnant.prefixes}
        self.stripped_thoughts = {
            word: ends for remnant in stripped for word, ends in remnant.stripped_thoughts.items()
        }
        bare = dict.fromkeys(read for format_ in formats for read in format_.unmarked_readers)
        self.bare = (*bare, *(remnant.read for remnant in remnants if not remnant.prefixes))
        self.ordered_openers = tuple(sorted(self.openers, key=len, reverse=True))
        self.marked = Markers((*self.openers, *self.thoughts, *self.controls))
        self.turn_ends = Markers((*_TOKEN_PREFIXES, *self.controls, *_FENCES, "{", "["))
        quotes = (*_THINK_ENDS, *_FENCES, "`", _QUOTED_LINE, *(_UNMARKED_BEGINNINGS if with_brackets else ()))
        self.markers = Markers((*self.marked.literals, *quotes, *self.stripped))


@cache
def _lexicon_of(formats: tuple[Format, ...], with_brackets: bool, stripped: tuple[Format, ...]) -> _Lexicon:
    return _Lexicon(formats, with_brackets, stripped)


@lru_cache(64)
def _markers_with(lexicon: _Lexicon, results: tuple[str, ...]) -> tuple[Markers, Markers]:
    return Markers((*lexicon.markers.literals, *results)), Markers((*lexicon.marked.literals, *results))
