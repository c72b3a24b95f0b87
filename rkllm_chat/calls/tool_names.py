"""Map tools to the names shown to the model, and names written by the model to tools, without guessing.

Accepted spellings: `server__tool`, `server.tool`, `server/tool`, `server:tool`, `server_tool`, and the bare name if
only one server has it, also without what it has up to its last dot; also with blanks or quotes around it, and with the
prefix `functions.`, `tools.` or `mcp__` that some models are trained to write. If no tool has exactly that name,
the bare name may differ in case and punctuation (`Get Time` for `get_time`), or follow a namespace that no server or
tool has (`default_api.get_time`). A control token behind a name is no part of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import SequenceMatcher

from ..core.identity_cache import cache_by_identity
from ..core.messages import Tool
from .schema.resolve import properties_of, required_of

NAME_SEPARATORS = ("__", ".", "/", ":", "_")
_PREFIXES = ("functions.", "tools.", "mcp__")
_NAMESPACE_END = re.compile(r"::|[.:/]")
_CONTROL_TOKEN = re.compile(r"<[|｜]")
_QUOTES = " \t\r\n\"'`“”‘’「」"
MORE, DESCRIBE = "more", "describe_tool"
_BUILTIN_NAMES = (MORE, DESCRIBE)
"""Names of the built-in tools. A server's own `more` is shown with its server's name, and its bare name resolves to it
only while the built-in one is absent.
"""
_TITLE = re.compile(r"\w\s+\w")
_MAX_SIMILAR = 8
_MAX_COMPARED_LENGTH, _MIN_WORD_LENGTH = 80, 4
_MIN_SIMILARITY, _MIN_SIMILARITY_WITH_WORD = 0.6, 0.3
"""Minimum similarity (ratio of difflib) of names that are reported as near: without and with a common word."""


@cache_by_identity()
def shown_names(tools: Iterable[Tool]) -> Mapping[str, Tool]:
    """Map the name shown to the model to each tool, sorted by server and name.

    A tool is shown under its bare name if that is unique and no spelling of another tool, else as `server__tool`.
    """
    ordered = sorted(tools, key=lambda tool: (tool.server, tool.name))
    count = Counter(name for tool in ordered for name in (tool.name, *_spellings(tool)))
    count.update({tool.name for tool in ordered if tool.name in _BUILTIN_NAMES and tool.server})
    return {tool.name if count[tool.name] == 1 else tool.full_name: tool for tool in ordered}


def shown_name(tool: Tool, tools: Iterable[Tool]) -> str:
    """Return the name under which the model sees one of these tools."""
    return next((name for name, other in shown_names(tools).items() if other is tool), tool.full_name)


def find_tools(name: str, tools: Iterable[Tool]) -> list[Tool]:
    """Return all tools that `name` may mean: one is the answer, none is unknown, several are ambiguous.

    A full name wins over a bare one, so that a tool called `a__b` cannot shadow tool `b` of server `a`; the exact name
    wins over the name without quotes and prefix, and that over one that differs in case or punctuation.
    """
    candidates = list(tools)
    plain = _CONTROL_TOKEN.split(name, maxsplit=1)[0].strip(_QUOTES)
    stripped = [plain.removeprefix(prefix) for prefix in _PREFIXES if plain.startswith(prefix)]
    first, _, second = plain.partition(".")
    stripped += [first] * (first == second)  # a recipient of Muse, for a tool without a namespace
    exact = (_find_exact(spelled, candidates) for spelled in (name, plain, *stripped))
    found = next(filter(None, exact), None) or list(_folded(candidates).get(_fold(plain), ()))
    return found or _find_behind_namespace(plain, candidates)


def _find_behind_namespace(name: str, tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools whose bare name follows a namespace that the model made up: `google:mcp:f`, `default_api.f`."""
    taken = {part.casefold() for tool in tools for part in (tool.server, tool.name)}
    for match in _NAMESPACE_END.finditer(name):
        parts = re.split(_NAMESPACE_END, name[: match.start()])
        bare = [tool for tool in tools if tool.name == name[match.end() :]]
        if bare and taken.isdisjoint(part.casefold() for part in parts):
            return bare
    return []


def find_by_arguments(name: str, arguments: Collection[str], tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that a call means by its arguments alone, because its name is a text that no tool can have.

    Small models write what is asked about in place of the name: `{"name": "Ada Lovelace", "arguments": {"y": 1815}}`.

    Args:
        name: What is written in place of the name.
        arguments: Names of the arguments of the call.
        tools: The offered tools; those with other parameters, or with a required one that is missing, are left out.
    """
    return find_by_parameters(arguments, tools) if _TITLE.search(name.strip(_QUOTES)) else []


def find_by_parameters(arguments: Collection[str], tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that take exactly these arguments; none without arguments."""
    written = set(arguments)
    if not written:
        return []
    return [tool for tool in tools if {*required_of(tool.schema)} <= written <= {*properties_of(tool.schema)}]


def _find_exact(name: str, known: Sequence[Tool]) -> list[Tool]:
    known = _spelled(known).get(name, ())
    full = [tool for tool in known if tool.full_name == name and tool.server]
    joined = [tool for tool in known if name in _spellings(tool)]
    builtin = [tool for tool in known if tool.full_name == name and name in _BUILTIN_NAMES]
    named = [tool for tool in known if tool.name == name]
    return full or builtin or joined or named or [tool for tool in known if tool.name.endswith(f".{name}")]


@cache_by_identity()
def _spelled(tools: Iterable[Tool]) -> Mapping[str, Sequence[Tool]]:
    """Map every accepted name to the tools that it may mean."""
    by_name: dict[str, list[Tool]] = {}
    for tool in tools:
        for name in {tool.name, tool.full_name, tool.name.removeprefix(_namespace_of(tool)), *_spellings(tool)}:
            by_name.setdefault(name, []).append(tool)
    return by_name


@cache_by_identity()
def _folded(tools: Iterable[Tool]) -> Mapping[str, Sequence[Tool]]:
    """Map every bare name, without case and punctuation, to the tools that it may mean."""
    by_name: dict[str, list[Tool]] = {}
    for tool in tools:
        for name in {_fold(tool.name), _fold(tool.name.removeprefix(_namespace_of(tool)))} - {""}:
            by_name.setdefault(name, []).append(tool)
    return by_name


def _fold(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def _spellings(tool: Tool) -> set[str]:
    """Return the tool's name with its server's in every accepted spelling."""
    return {f"{tool.server}{mark}{tool.name}" for mark in NAME_SEPARATORS} if tool.server else set()


def _namespace_of(tool: Tool) -> str:
    """Return what a tool's own name has up to its last dot: models leave such a part out."""
    return "".join(tool.name.rpartition(".")[:2])


def similar_names(name: str, tools: Sequence[Tool], max_names: int = _MAX_SIMILAR) -> list[str]:
    """Return the shown names similar to an unknown one, most similar first, for an error message."""
    folded_name = name.strip(_QUOTES).casefold()
    scores = {shown: _compare(folded_name, shown.casefold()) for shown in shown_names(tools)}
    return sorted(filter(scores.get, scores), key=lambda shown: -scores[shown])[:max_names]


def _compare(one: str, other: str) -> float:
    """Return the similarity of two names from 0 to 1; 0 if they are not near."""
    alike = SequenceMatcher(None, one[:_MAX_COMPARED_LENGTH], other[:_MAX_COMPARED_LENGTH], autojunk=False).ratio()
    has_shared = bool(_words_of(one) & _words_of(other))
    return alike if alike >= (_MIN_SIMILARITY_WITH_WORD if has_shared else _MIN_SIMILARITY) else 0.0


def _words_of(name: str) -> set[str]:
    return {word for word in re.split(r"[\W_]+", name[:_MAX_COMPARED_LENGTH]) if len(word) >= _MIN_WORD_LENGTH}
