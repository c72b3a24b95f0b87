"""Which arguments of a call have a value that stands nowhere, and which values say nothing.

Schema and grammar see nothing wrong with a value that a model makes up. So each value is looked for in a text: the
question, the conversation and the results.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from ..calls.described_calls import list_places
from ..calls.schema.resolve import properties_of, required_of
from ..calls.written_values import DAY_NAMES, is_date, list_days
from ..core.latin_languages import find_latin_language
from ..core.messages import Tool
from ..prompt.tool_ranking import CJK_RUN
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
from .tool_traits import may_write, split_name

__all__ = [
    "ADDS",
    "drop_defaults",
    "drop_made_up_days",
    "drop_placeholders",
    "drop_unasked",
    "drops_lines",
    "fill_day",
    "fill_folder",
    "find_files",
    "is_choice_or_default",
    "is_generic",
    "is_path_name",
    "is_placeholder",
    "is_uninformative",
    "keep_lines",
    "keep_values_before",
    "list_unsupported",
    "list_unsupported_optional",
    "list_unsupported_required",
    "may_be_translation",
    "names_file",
    "uses_name",
    "write_full_paths",
]

_PLACEHOLDER = re.compile(
    r"(?:[a-z]:)?[\\/]+(?:path|your|folder|directory)(?:[\\/_ -].*)?|(?:[\\/]|[a-z]:[\\/])?path[\\/]to[\\/].*"
    r"|(?:your|example|sample)[_ -].*|(?:example|filename|sample)\.[a-z]+|<[^<>]*>|\.\.\.|…|none|null|n/a",
    re.IGNORECASE,
)
"""What models write into an argument that is not given."""
_PAST_TIME = re.compile(r"(?:last|past) \w+|(?:\d+|an?|one) [a-z]+ ago", re.IGNORECASE)
"""A time relative to now, which version control accepts: "2 weeks ago"."""
_PATH_NAME = re.compile(r"(?:path|folder|directory|dir|repo|repository)$", re.IGNORECASE)
"""Name of an argument that takes a path."""
_REPOSITORY_NAME = re.compile(r"repo", re.IGNORECASE)
"""That of a repository, which a server has one of."""
_THIS_FOLDER = (".", "./")
_MAX_PATH_LENGTH, _MAX_FILE_BYTES = 400, 1_000_000
"""Characters of a path that is looked for."""
_ONE_OF_MANY = re.compile(
    r"\b(?:last|latest|newest|most recent|oldest|first)\b(?! ones?\b)|最新|最後|最初|最后|最近的?一"
)
"""What a question has that asks for one of many: of "the last commit", a log has one."""
_COUNT_NAME = re.compile(r"\b(?:count|head|limit|lines?|max|n|num|number|size|tail|top)\b", re.IGNORECASE)
"""Name of an argument that says how many there are to be."""
ADDS = re.compile(r"\b(?:add|append|insert|put|hinzu|ergänze?)\b|追加|足し|書き足|加到|加上|添加")
"""What a request has that adds to a file and takes nothing from it."""
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


def fill_folder(
    tool: Tool, arguments: Mapping[str, Any], evidence: Evidence, folders: Sequence[str], working: str
) -> Mapping[str, Any]:
    """Return the arguments with the only folder of the tool's server where a required one says nothing of a path.

    "The last commit of this repository": a model writes "/path/to/repo", an address that it makes up, or ".", which is
    the folder that the program works in, and the server's entry says which it is.
    """
    if len(folders) != 1:
        return arguments
    required, files = required_of(tool.schema), list_places(evidence.question.original)
    unsaid = () if Path(working).is_relative_to(folders[0]) else _THIS_FOLDER

    def is_unsaid(name: str, value: object) -> bool:
        # "/home/nora/project" is made of words that are known, and no path that anybody has said
        is_made_up = _REPOSITORY_NAME.search(name) is not None and normalize(str(value)) not in evidence.known.text
        return is_placeholder(value) or value in unsaid or is_made_up

    return {
        name: next((file for file in files if str(value).endswith(f"/{file}")), folders[0])
        if name in required and is_path_name(name) and is_unsaid(name, value)
        else value
        for name, value in arguments.items()
    }


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


def write_full_paths(
    arguments: Mapping[str, Any], folders: Sequence[str], working: str, question: str
) -> Mapping[str, Any]:
    """Return the arguments with the full path of files that a user names from the working folder, or without a folder.

    A server reads "files/plan.txt" from its own folder, and there is no folder "files" in it. "plan.txt" is in its
    folder, and not in "/home/user", which a model puts before it.

    Args:
        arguments: The arguments of a call.
        folders: The folders of its server.
        working: The working folder.
        question: What the user asks: a path in it stays.
    """

    def write(name: str, value: object) -> object:
        if not isinstance(value, str) or not value.strip() or len(value) > _MAX_PATH_LENGTH:
            return value
        if "/" not in value and not is_path_name(name):  # "files" may be any word
            return value
        path, is_relative = Path(working, value), not (value.startswith("/") or ".." in Path(value).parts)
        is_inside = is_relative and any(map(path.is_relative_to, folders))
        # what its own folder has is meant; a name that is too long, or no name, exists nowhere, and raises with `Path`
        is_own = is_inside and any(os.path.exists(Path(folder, value)) for folder in folders)  # noqa: PTH110
        own = [Path(folder, path.name) for folder in folders if os.path.exists(Path(folder, path.name))]  # noqa: PTH110
        is_named = path.name in question and value not in question
        if len(own) == 1 and is_named and not (is_relative or os.path.exists(path)):  # noqa: PTH110
            return str(own[0])
        # a new file, too, is in the folder that there is
        is_there = os.path.exists(path) or (os.path.isdir(path.parent) and not has_parent(value))  # noqa: PTH110, PTH112
        return str(path) if is_inside and not is_own and is_there else value

    def has_parent(value: str) -> bool:
        return any(os.path.isdir(Path(folder, value).parent) for folder in folders)  # noqa: PTH112

    return {name: write(name, value) for name, value in arguments.items()}


def names_file(arguments: Mapping[str, Any], files: Sequence[str]) -> bool:
    """Return whether a call names one of these files, with the path of a folder before it or not."""
    values = [*map(str, walk_leaves(arguments))]
    return any(value == file or value.endswith(f"/{file}") for value in values for file in files)


def keep_lines(
    arguments: Mapping[str, Any], evidence: Evidence, folders: Sequence[str], working: str
) -> Mapping[str, Any]:
    """Return the arguments of a change with the lines of the file before those that the user adds.

    Made to add a line to a list, a model writes the line in the place of the list, or of one of its lines. The file was
    read in the turn, and is as it was read: what was cut off of a result would be lost.
    """
    if not ADDS.search(evidence.question.text):
        return arguments
    arguments = {name: _keep_edited(value, evidence.question) for name, value in arguments.items()}
    content, values = arguments.get("content"), [value for name, value in arguments.items() if name != "content"]
    if not isinstance(content, str):
        return arguments
    files = find_files(values, folders, working)
    for result in evidence.results:
        for file in files & find_files(result.arguments, folders, working):
            text = _read_text(file)
            had = {line.strip() for line in text.splitlines()} - {""}
            new = [line for line in content.splitlines() if line.strip()]
            if had and text.strip() == result.text.strip() and had.isdisjoint(line.strip() for line in new):
                return {**arguments, "content": "\n".join([text.rstrip("\n"), *new, ""])}
    return arguments


def _keep_edited(value: Any, question: Source) -> Any:
    """Return edits that put a line of the question behind the old one, if the question does not speak of that."""
    if isinstance(value, list):
        return [_keep_edited(item, question) for item in value]
    edits = [*_list_edits([value])] if isinstance(value, Mapping) else []
    if len(edits) != 1:
        return value
    old, new = edits[0]
    added = new.replace(old, "", 1).strip(" ,;\n") if old.strip() else ""  # "butter" of "milk, butter" and "buttermilk"
    is_line = {*old.split("\n")} <= {*new.split("\n")}
    is_added = added and not (is_line or normalize(old) in question.text) and normalize(added) in question.text
    return {name: f"{old}\n{added}" if text == new else text for name, text in value.items()} if is_added else value


def find_files(value: Any, folders: Sequence[str], working: str) -> set[Path]:
    """Return the files that arguments name, in one of these folders or with their full path."""
    paths = (leaf for leaf in walk_leaves(value) if isinstance(leaf, str) and 0 < len(leaf) <= _MAX_PATH_LENGTH)
    found = (Path(folder, path) for path in paths for folder in (*folders, working))
    return {path for path in found if os.path.isfile(path)}  # noqa: PTH113 - a name that is no name is no file


def _read_text(file: Path) -> str:
    """Return the text of a file; "" for none, and for one that is too large to be in a result."""
    try:
        return file.read_text("utf-8") if file.stat().st_size <= _MAX_FILE_BYTES else ""
    except (OSError, ValueError):
        return ""


def drops_lines(arguments: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a call writes a file that a request adds to without all that it had, or with nothing else.

    So does an edit that puts a new line in the place of an old one: "milkshake" is no "milk".
    """
    if not ADDS.search(evidence.question.text):
        return False
    if any(not {*old.split("\n")} - {""} <= {*new.split("\n")} for old, new in _list_edits(arguments)):
        return True
    values = [*map(str, walk_leaves(arguments))]
    completed = (result for result in evidence.results if result.status == "completed")
    read = [result for result in completed if any(value in values for value in walk_leaves(result.arguments))]
    if "content" not in arguments or not read:
        return False
    had = {line.strip() for result in read for line in result.text.splitlines()}
    written = {line.strip() for line in str(arguments["content"]).splitlines()}
    return any(line not in str(arguments["content"]) for line in had) or written <= had


def _list_edits(value: object) -> Iterator[tuple[str, str]]:
    """Yield the old and the new text of each edit: `{"oldText": "milk", "newText": "tea"}`."""
    if isinstance(value, Mapping):
        texts = {split_name(str(name)).casefold().split()[0]: text for name, text in value.items() if str(name).strip()}
        if isinstance(texts.get("old"), str) and isinstance(texts.get("new"), str):
            yield texts["old"], texts["new"]
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for item in inside:
        yield from _list_edits(item)


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


def is_path_name(name: str) -> bool:
    """Return whether an argument of this name takes a path."""
    return _PATH_NAME.search(name) is not None


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


def is_choice_or_default(value: object, schema: Any) -> bool:
    """Return whether the schema of an argument lists a value, or has it as the default."""
    if not isinstance(schema, Mapping):
        return False
    choices = schema.get("enum")
    return (isinstance(choices, list) and value in choices) or _is_default(value, schema)


def _is_default(value: object, schema: Any) -> bool:
    return isinstance(schema, Mapping) and "default" in schema and bool(schema["default"] == value)
