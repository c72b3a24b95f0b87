"""Which arguments of a call have a value that stands nowhere, and which values say nothing.

Schema and grammar see nothing wrong with a value that a model makes up. So each value is looked for in a text: the
question, the conversation and the results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from ..calls.schema.resolve import properties_of, required_of
from ..calls.written_values import DAY_NAMES, is_date, list_days
from ..core.latin_languages import find_latin_language
from ..core.messages import Tool
from ..prompt.tool_ranking import CJK_RUN, list_quoted
from .evidence import (
    KATAKANA,
    MIN_SUPPORTED,
    WORD,
    Evidence,
    Source,
    is_composed,
    list_names,
    normalize,
    sounds_like,
    walk_leaves,
)
from .tool_traits import is_path_name, may_write, split_name

__all__ = [
    "drop_defaults",
    "drop_made_up_days",
    "drop_placeholders",
    "drop_unasked",
    "fill_day",
    "fill_quoted",
    "is_choice",
    "is_choice_or_default",
    "is_generic",
    "is_placeholder",
    "is_uninformative",
    "keep_values_before",
    "list_unsupported",
    "list_unsupported_optional",
    "list_unsupported_required",
    "may_be_translation",
    "uses_name",
]

_PLACEHOLDER = re.compile(
    r"(?:[a-z]:)?[\\/]+(?:path|your|folder|directory)(?:[\\/_ -].*)?|(?:[\\/]|[a-z]:[\\/])?path[\\/]to[\\/].*"
    r"|(?:your|example|sample)[_ -].*|(?:example|filename|sample)\.[a-z]+|<[^<>]*>|\.\.\.|…|none|null|n/a",
    re.IGNORECASE,
)
"""What models write into an argument that is not given."""
_PAST_TIME = re.compile(r"(?:last|past) \w+|(?:\d+|an?|one) [a-z]+ ago", re.IGNORECASE)
"""A time relative to now, which version control accepts: "2 weeks ago"."""
_ONE_OF_MANY = re.compile(
    r"\b(?:last|latest|newest|most recent|oldest|first|(?:letzt|neuest|jüngst|ältest|erst)e[mnrs]?|derni(?:er|ère)"
    r"|premi(?:er|ère)|últim[oa]|primer[oa]?|ultim[oa])\b(?! ones?\b)|最新|最後|最初|最后|最近的?一"
)
"""What a question has that asks for one of many: of "the last commit", a log has one."""
_COUNT_NAME = re.compile(r"\b(?:count|head|limit|lines?|max|n|num|number|size|tail|top)\b", re.IGNORECASE)
"""Name of an argument that says how many there are to be."""
_TEXT_NAME = re.compile(r"(?:\w*_)?text|contents?|message|body|note", re.IGNORECASE)
"""Name of an argument that takes a text of the user."""
_SAMPLE_NAME = re.compile(r"(?:john|jane) (?:doe|smith)", re.IGNORECASE)
"""Names that models make up where nobody was named."""
_GENERIC_WORDS = """
    any auto automatic current default here home local localhost localtime location me my now system this time timezone
    today user utc zone
"""
"""Words of a value that names what is here, now or usual: nobody has to say it to a call that only reads."""
_LATIN_NAME = re.compile(r"[^\W\d_]+(?:[\s/._-][^\W\d_]+)*")


def list_unsupported(
    tool: Tool, arguments: Mapping[str, Any], known: Source, question: Source | None = None
) -> list[str]:
    """Return the arguments with a value that stands nowhere; choices that the schema lists and its defaults do.

    So do choices that the description lists, and names in katakana as they sound. A call that only reads may say "here"
    and "now" without being told to.

    Args:
        tool: The tool.
        arguments: The arguments of the call.
        known: Where values may stand.
        question: What the fields of an object may say in words of their own; None if they may not.
    """
    declared, reads = properties_of(tool.schema), not may_write(tool)
    spoken = [*filter(KATAKANA.fullmatch, list_names((question or known).original))]

    def stands(name: str, leaf: object) -> bool:
        is_listed = is_choice_or_default(leaf, declared.get(name)) or _is_described_choice(leaf, tool, name)
        is_sounded = any(sounds_like(said, str(leaf)) for said in spoken)
        is_said = is_listed or is_sounded or _is_one_of_many(name, leaf, question or known)
        return is_said or known.has(leaf) or (reads and is_generic(leaf))

    unknown = {
        name: [leaf for leaf in walk_leaves(value) if not stands(name, leaf)] for name, value in arguments.items()
    }
    return [
        name
        for name, value in arguments.items()
        if is_uninformative(tool, name, value, known)
        or (unknown[name] and not (question and _restates_question(value, unknown[name], question)))
    ]


def list_unsupported_required(
    tool: Tool, arguments: Mapping[str, Any], known: Source, question: Source | None = None
) -> list[str]:
    """Return the required ones of `list_unsupported`: nobody said what they are."""
    required = required_of(tool.schema)
    return [name for name in list_unsupported(tool, arguments, known, question) if name in required]


def list_unsupported_optional(tool: Tool, arguments: Mapping[str, Any], known: Source) -> list[str]:
    """Return the optional ones of `list_unsupported`."""
    required = required_of(tool.schema)
    return [name for name in list_unsupported(tool, arguments, known) if name not in required]


def drop_defaults(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without those that have the default of the schema."""
    declared = properties_of(tool.schema)
    return {name: value for name, value in arguments.items() if not _is_default(value, declared.get(name))}


def drop_placeholders(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without optional ones whose value says that there is none: `/path/to/folder`, "", `<x>`."""
    given = {name for name, value in arguments.items() if not (value == "" or is_placeholder(value))}
    return {name: value for name, value in arguments.items() if name in given or name in required_of(tool.schema)}


def fill_day(tool: Tool, arguments: Mapping[str, Any], question: str) -> Mapping[str, Any]:
    """Return the arguments with the only day that a question names from today on, where a look-up leaves it out.

    Without it, the weather of today was told as that of tomorrow.
    """
    declared = {name: json.dumps(schema) for name, schema in properties_of(tool.schema).items() if name in DAY_NAMES}
    # of any text, and no number of the month or choice
    free = [
        name
        for name, schema in declared.items()
        if name not in arguments and '"enum"' not in schema and ('"string"' in schema or '"type"' not in schema)
    ]
    days = {*list_days(question, date.today())}
    return {**arguments, free[0]: str(*days)} if free and len(days) == 1 and date.today() not in days else arguments


def keep_values_before(
    tool: Tool, arguments: Mapping[str, Any], evidence: Evidence, is_follow_up: bool
) -> Mapping[str, Any]:
    """Return the arguments of a look-up with the optional ones of that of the turn before with which it goes on.

    "With a helmet?", asked behind the price of three days, asks for three days, too.

    Args:
        tool: The tool.
        arguments: The arguments.
        evidence: What the turn knows.
        is_follow_up: The question alone says nothing: "and the tandem?".
    """
    required = required_of(tool.schema)
    for before in reversed(evidence.results_before):
        if (before.server, before.tool) != (tool.server, tool.name) or not required:
            continue
        changed = {name for name, value in arguments.items() if before.arguments.get(name) != value}
        is_of_same = changed.isdisjoint(required) and not any(
            evidence.question.has_part(arguments.get(name)) for name in required
        )
        if changed and (is_of_same or is_follow_up):
            return {**before.arguments, **arguments}
    return arguments


def fill_quoted(arguments: Mapping[str, Any], question: Source, places: Sequence[str]) -> Mapping[str, Any]:
    """Return the arguments with the only text that the question quotes in the place of one that has nothing of it.

    Made to write “kettle” into a file, a model wrote what was asked before.

    Args:
        arguments: The arguments of a change.
        question: The question.
        places: The files and addresses that it names, which may be quoted, too.
    """
    quoted = [text for text in list_quoted(question.original) if text not in places]
    if len(quoted) != 1:
        return arguments
    return {
        name: quoted[0]
        if _TEXT_NAME.fullmatch(name) and isinstance(value, str) and not question.has_part(value)
        else value
        for name, value in arguments.items()
    }


def drop_made_up_days(tool: Tool, arguments: Mapping[str, Any], evidence: Evidence) -> Mapping[str, Any]:
    """Return the arguments without optional dates from nowhere: a model does not know which day it is.

    One of a result of an earlier turn, to which nothing refers, is from nowhere, too: a log was asked for from the time
    in Tokyo on.
    """
    optional = {*arguments} - {*required_of(tool.schema)}
    told = [evidence.question.original, evidence.said.original, evidence.referred]
    known = Source("\n".join([*told, *(result.text for result in evidence.results)]))
    days = (name for name in optional if is_date(arguments[name]) or _PAST_TIME.fullmatch(str(arguments[name])))
    made_up = {name for name in days if not known.has(arguments[name])}
    return {name: value for name, value in arguments.items() if name not in made_up}


def _is_one_of_many(name: str, value: object, question: Source) -> bool:
    """Return whether an argument is the count of 1 that a question says without a number: "the last commit"."""
    return _is_count_of_one(name, value) and _ONE_OF_MANY.search(question.text) is not None


def _is_count_of_one(name: str, value: object) -> bool:
    return value == 1 and _COUNT_NAME.search(split_name(name)) is not None


def drop_unasked(tool: Tool, arguments: Mapping[str, Any], question: Source) -> Mapping[str, Any]:
    """Return the arguments of a reading call without optional numbers that the question does not have, nor "now".

    Nor has it what a required one is.

    `lines = 1` of a file about beans left the beans out, a log until now was empty; `limit = 1` is "the last commit".
    """
    required, declared = required_of(tool.schema), properties_of(tool.schema)
    unasked = list_unsupported_optional(tool, arguments, question)
    given = [arguments[name] for name in required if name in arguments]

    def is_unasked(name: str, value: object) -> bool:
        if name in required or isinstance(value, bool) or not isinstance(value, int | float | str):
            return False
        if _is_one_of_many(name, value, question):
            return False
        if isinstance(value, str) and normalize(value) in (normalize(str(other)) for other in given):
            return True  # the project of "open in WEB" is not the person, too
        is_one = _is_count_of_one(name, value) and "1" not in question.text  # "this one" has the number 1, in words
        is_vague = is_one or (is_generic(value) and not question.has(value))
        is_made_up = name in unasked and not isinstance(value, str)
        return is_made_up or (is_vague and not is_choice_or_default(value, declared.get(name)))

    return {name: value for name, value in arguments.items() if not is_unasked(name, value)}


def is_placeholder(value: object) -> bool:
    """Return whether a value is what models write into an argument that is not given."""
    return isinstance(value, str) and bool(_PLACEHOLDER.fullmatch(value.strip()))


def is_uninformative(tool: Tool, name: str, value: object, known: Source) -> bool:
    """Return whether the value of an argument is a placeholder: also "note title" for `title` of `read_note`."""
    if not isinstance(value, str):
        return False
    words, own, of_tool = ({*WORD.findall(normalize(split_name(text)))} for text in (value, name, tool.name))
    repeats_name = words <= own | of_tool and not words.isdisjoint(own - known.words)
    is_sample = _SAMPLE_NAME.fullmatch(value) is not None and not known.has(value)
    return is_placeholder(value) or is_sample or repeats_name


def _is_described_choice(value: object, tool: Tool, name: str) -> bool:
    """Return whether a value is one of those that a description lists, as in "kind: adult, child or senior"."""
    if not (isinstance(value, str) and value.isalpha() and value.isascii()):
        return False
    parameter = properties_of(tool.schema).get(name)
    about = parameter.get("description", "") if isinstance(parameter, Mapping) else ""
    listed = rf"(?:[:,(/]|\bor|\blike)\s*{value}\b|\b{value}(?:\s*[,/]|\s+or\b)"
    return bool(re.search(listed, f"{tool.description}\n{about}", re.IGNORECASE))


def uses_name(arguments: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Return whether a call uses one of these names: as it is, as it sounds, or the day or number that it is.

    What is true is used by its own name.

    >>> uses_name({"count": 2}, ["two people"]), uses_name({"count": 3}, ["two people"])
    (True, False)
    """
    values = [str(value) for value in walk_leaves(arguments)]
    values += [split_name(name) for name, value in arguments.items() if value is True]  # "and as a rush job?"
    numbers = [value for value in values if any(map(str.isdigit, value)) and not is_composed(value)]
    spoken = [*filter(KATAKANA.fullmatch, names)]
    is_sounding = any(sounds_like(name, value) for name in spoken for value in values)
    is_number = any(Source(name).has(value) for name in names for value in numbers)
    return is_sounding or is_number or any(map(Source("\n".join(values)).has, names))


def is_generic(value: object) -> bool:
    """Return whether a value names what is here, now or usual, and nothing in particular."""
    words = WORD.findall(normalize(split_name(str(value))))
    return bool(words) and {*words} <= {*_GENERIC_WORDS.split()}


def may_be_translation(name: str, value: object, question: Source, used: Sequence[str] = ()) -> bool:
    """Return whether a value may be a name of a Japanese or Chinese question in Latin letters, such as Asia/Tokyo.

    A path is not translated. A name in katakana says how it sounds: Tokyo is no Honolulu. Those that calls have `used`
    are no longer meant. From other languages only common words are translated: "kitchen" of "Küche".
    """
    if is_path_name(name):
        return False
    if find_latin_language(question.original) not in ("", "en"):
        return str(value).islower() and _LATIN_NAME.fullmatch(str(value)) is not None
    spoken = [name for name in list_names(question.original) if KATAKANA.fullmatch(name)]
    spoken = [name for name in spoken if not any(name in other or sounds_like(name, other) for other in used)]
    is_latin = _LATIN_NAME.fullmatch(str(value)) is not None and not CJK_RUN.search(str(value))
    is_translated = is_latin and CJK_RUN.search(question.text) is not None
    return is_translated and (not spoken or any(sounds_like(name, str(value)) for name in spoken))


def _restates_question(value: Any, unknown: Sequence[Any], question: Source) -> bool:
    """Return whether an object says what the question does: half of it in the question's words, and no other number.

    The fields of a server ask for words of its own: {"name": "Mia", "type": "person", "facts": ["lives in Graz"]}.

    Args:
        value: The object, or a list with one.
        unknown: The values in it that stand nowhere.
        question: The question.
    """
    leaves = list(walk_leaves(value))
    has_fields = isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(v, Mapping) for v in value))
    is_half_said = sum(map(question.has, leaves)) >= MIN_SUPPORTED * len(leaves)
    return has_fields and is_half_said and not any(map(str.isdigit, "".join(map(str, unknown))))


def is_choice(value: object, schema: Any) -> bool:
    """Return whether the schema of an argument lists a value."""
    choices = schema.get("enum") if isinstance(schema, Mapping) else None
    return isinstance(choices, list) and value in choices


def is_choice_or_default(value: object, schema: Any) -> bool:
    """Return whether the schema of an argument lists a value, or has it as the default."""
    return is_choice(value, schema) or _is_default(value, schema)


def _is_default(value: object, schema: Any) -> bool:
    return isinstance(schema, Mapping) and "default" in schema and bool(schema["default"] == value)
