"""What is left of a call if a runtime or a service has removed the control tokens of its format.

It counts only for models of the family, for known tools, and if it ends the reply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...core.events import CallFound, CallUnreadable
from ..incremental_reader import Parsing, Reader
from .bodies import body_of, read_named, read_python_list, skip_to_end
from .common import NO_OPENER, Body, BodyReader, ParsedCalls, ReadContext, add_repairs, unreadable_call
from .gemma import gemma_body
from .layout import MARK, GemmaArguments, Layout, PythonArguments
from .tag_syntax import TagSyntax
from .unmarked import ends_cleanly

_CONTROL_TOKEN = ("<|", "<｜", "[")
_NAME_IN_TAG = re.compile(r"[^\w./:-]")


@dataclass(frozen=True, eq=False)
class StrippedCall:
    """What is left of the calls of a layout.

    Attributes:
        prefixes: What they begin with, if no other text does; none if they count only where a reply begins.
        read: Reads them, with the prefix.
    """

    prefixes: tuple[str, ...]
    read: BodyReader


def strip_layout(layout: Layout, prefixes: tuple[str, ...] = ()) -> StrippedCall | None:
    """Return what is left of the calls of a layout without its control tokens; None if that is no call.

    Args:
        layout: How calls are written.
        prefixes: What they begin with then, if the layout does not tell.
    """
    arguments = layout.arguments
    if isinstance(arguments, GemmaArguments):
        return StrippedCall(("call:",), _of_known_tools(_with_ends(gemma_body(arguments.quote), layout), ()))
    if isinstance(arguments, TagSyntax) and arguments.is_common:
        return StrippedCall((), _read_tag)
    if isinstance(arguments, TagSyntax) and arguments.key_end and not layout.before:
        return StrippedCall((), _of_known_tools(_with_ends(body_of(layout), layout), ()))
    if not layout.opener.startswith(_CONTROL_TOKEN):
        return None
    if isinstance(arguments, PythonArguments) and layout.before.endswith("["):
        return StrippedCall(("[",), _of_known_tools(_with_ends(read_python_list, layout), ()))
    if layout.is_named:
        begin = re.sub(MARK, "", layout.call.partition("NAME")[0]).strip()
        found = prefixes or ((begin,) if begin and not begin[-1].isalnum() else ())
        return StrippedCall(found, _of_known_tools(_named_reader(found or tuple(filter(None, (begin,)))), found))
    return None


def _with_ends(body: Body, layout: Layout) -> BodyReader:
    def read(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        return (yield from body(reader, context, layout.closers))

    return read


def _named_reader(prefixes: tuple[str, ...]) -> BodyReader:
    def read(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        reader.take(len((yield from reader.peek_literal(prefixes))) if prefixes else 0)
        return (yield from read_named(reader, context, ()))

    return read


def _of_known_tools(read_call: BodyReader, prefixes: tuple[str, ...]) -> BodyReader:
    """Return a reader of calls of known tools side by side, which end the reply."""

    def read(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
        calls = []
        while True:
            yield from reader.skip_space()
            parsed = yield from read_call(reader, context)
            if not parsed or not all(_is_meant(event, context, bool(prefixes)) for event in parsed):
                return None
            calls += [add_repairs(event, NO_OPENER) for event in parsed]
            yield from reader.skip_space()
            if not prefixes or not (yield from reader.peek_literal(prefixes)):
                break
        return calls if (yield from ends_cleanly(reader, context)) else None

    return read


def _is_meant(event: CallFound | CallUnreadable, context: ReadContext, has_prefix: bool) -> bool:
    """Tell whether a call is of a known tool, and not a word of an answer."""
    if isinstance(event, CallUnreadable):
        return True
    return context.is_known(event.call.name) and bool(has_prefix or event.call.arguments)


def _read_tag(reader: Reader, context: ReadContext) -> Parsing[ParsedCalls]:
    """Read ` name="f"> name="x">v`: where its values end is not known any more."""
    yield from reader.skip_space()
    if not (yield from reader.skip('name="')):
        return None
    name = yield from reader.read_up_to(_NAME_IN_TAG)
    if not context.is_known(name) or not (yield from reader.skip('">')):
        return None
    reader.commit()
    yield from skip_to_end(reader)
    return unreadable_call("bad_xml", "The tags of the call are not complete.")
