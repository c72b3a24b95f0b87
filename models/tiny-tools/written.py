"""Servers written by hand, one text file each in `themes/`, with the phrasings that people use in three languages.

A tool is a paragraph: `name(parameter: kind, optional?: kind) description`, then lines `en`, `ja` and `zh` with
phrasings parted by ` | `. `{parameter}` is a value, `[...]` is said only when all optional values in it are given,
`{parameter=yes/no}` says a boolean in words. A kind is a row of KINDS, choices parted by `/`, or
`records[keys]`, a list of objects. It knows no prompt.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

from board_questions import Question
from invented import Made, arguments_of, call_in_words
from kinds import KINDS, draw_value
from lent import Lent
from nouns import Noun
from parameters import Parameter, camel, schema_of
from records import RECORD_KEYS, RECORD_VALUES, records_schema, role_of, say_records
from rkllm_chat.core.messages import Tool
from saying import Given, dress, make_like, say_named, say_value
from telling import fill_result, go_on
from values import a_sentence
from verbs import VERBS
from vocabulary import is_held_out, word

FOLDER = Path(__file__).with_name("themes")
HEAD = re.compile(r"(?P<name>\w+)\((?P<parameters>.*?)\) (?P<about>.+)")
PARAMETER = re.compile(r"(?P<name>\w+)(?P<optional>\??): (?P<kind>\w+(?:\[[\w, ]+\]|(?:/[\w-]+)*))")
SLOT = re.compile(r"\{(\w+)(?:=([^/}]*)/([^}]*))?\}")
OPTIONAL = re.compile(r"\[([^\]]*)\]")
RENAMED_SHARE = 0.35
SCATTERED_SHARE, RESIDED_SHARE, REKINDED_SHARE = 0.5, 0.5, 0.3
"""In training: tools with their parameters in another order, pairs with other names for both sides, and parameters
that are named by their kind."""
ENDS = (
    ("place person file folder code word number room unit currency language percent",
     "from source origin src start", "to into target destination dest end"),
    ("word code title text date place number amount file", "old before previous", "new after next"),
    ("count", "first head top", "last tail bottom"),
    ("count amount percent minutes", "min least lower over", "max most upper under"),
    ("date moment", "after since from start", "before until to end"),
)  # fmt: skip
"""Kinds, and how the names of two parameters begin that stand on either side."""
TELLING_KINDS = "place room person file folder url mail date time moment color language unit currency percent minutes"
"""Kinds of which a value shows what it is."""


@dataclass(frozen=True)
class Written:
    """A tool with its phrasings by language. `spoken` is the name a phrasing uses for each parameter now."""

    tool: Tool
    parameters: tuple[Parameter, ...]
    phrasings: Mapping[str, tuple[str, ...]]
    spoken: Mapping[str, str]

    def ask(self, random: Random, language: str, held_out: bool, named: bool | None = None) -> Question:
        if random.random() < 0.05 and all(one.kind != "records" for one in self.parameters):
            return self.ask_in_words(random, held_out)
        known = self.phrasings.get(language, ())
        wanted = [one for one in known if is_held_out(one) == held_out] or list(known)
        if not wanted:
            return self.ask(random, "en", held_out, named)
        phrase = random.choice(wanted)
        givens = {one.name: one for one in self.draw_values(phrase, random, language, held_out)}
        phrase = self.keep_given(phrase, givens)
        rest = [one for name, one in givens.items() if self.spoken[name] not in slots_of(phrase)]
        said = self.say(phrase, givens, random, language)
        question = dress(said, "", say_named(rest, random, language), random, language, phrase.startswith("{"))
        arguments = {one.name: givens[one.name].value for one in self.parameters if one.name in givens}
        return Question(question, self.tool.name, arguments, language, "written")

    def ask_in_words(self, random: Random, held_out: bool) -> Question:
        phrase = "".join(f"{{{self.spoken[one.name]}}}" for one in self.parameters if not one.is_optional)
        givens = self.draw_values(phrase, random, "en", held_out)
        return Question(
            call_in_words(self.tool.name, givens, random), self.tool.name, arguments_of(givens), "en", "words"
        )

    def draw_values(self, phrase: str, random: Random, language: str, held_out: bool) -> list[Given]:
        """Values for what the phrase must say, for some of what it may say, and now and then for more."""
        must, may = slots_of(OPTIONAL.sub("", phrase)), slots_of(phrase)
        share = random.choice([0, 0.5, 1])
        givens = []
        for one in self.parameters:
            slot = self.spoken[one.name]
            chance = share if slot in may else 0.06 * (one.kind != "records")
            if slot in must or not one.is_optional or random.random() < chance:
                is_true = one.kind == "flag" and is_said_as_true(phrase, slot)
                value = is_true or self.draw(one, random, language, held_out)
                givens.append(Given(one.name, one.kind, value))
        return givens if held_out else make_like(givens, random)

    def draw(self, one: Parameter, random: Random, language: str, held_out: bool) -> Any:
        if one.kind != "records":
            return draw_value(one.kind, one.choices, random, language, held_out)
        make = {key: RECORD_VALUES[role_of(key)] for key in one.choices}
        if not held_out and {"old", "new"} <= {role_of(key) for key in one.choices}:
            make = {key: random.choice([made, a_sentence]) for key, made in make.items()}
        return [{key: make[key](random, language) for key in one.choices} for _ in range(random.choice([1, 1, 2]))]

    def keep_given(self, phrase: str, givens: Mapping[str, Given]) -> str:
        """The phrase without the options of which no or not every value is given."""
        given = {self.spoken[name] for name in givens}
        return OPTIONAL.sub(lambda match: match[1] if slots_of(match[1]) <= given else "", phrase)

    def say(self, phrase: str, givens: Mapping[str, Given], random: Random, language: str) -> str:
        names = {slot: name for name, slot in self.spoken.items()}

        def value(match: re.Match[str]) -> str:
            given = givens[names[match[1]]]
            if match[2] is not None:
                return match[2] if given.value else match[3]
            if isinstance(given.value, list) and given.kind == "records":
                return say_records(given.value, random, language)
            before = match.string[match.start() - 1 : match.start()]
            is_quoted = before in ('"', "「", "“", "《")
            return str(given.value) if is_quoted else say_value(given, random, language)

        return re.sub(r"  +", " ", SLOT.sub(value, phrase)).strip()

    def result(self, arguments: Mapping[str, Any], random: Random) -> str:
        verb = VERBS[random.choice(list(VERBS))]
        thing = self.tool.name.split("_")[-1] or "thing"
        template = random.choice(verb.result.lstrip("?").split("|"))
        return fill_result(template, Noun(thing, thing, thing), arguments, random)


def slots_of(phrase: str) -> set[str]:
    return {match[1] for match in SLOT.finditer(phrase)}


def is_said_as_true(phrase: str, slot: str) -> bool:
    """Whether a phrase has words for a boolean that is true, and none for one that is false."""
    return any(match[1] == slot and match[3] == "" for match in SLOT.finditer(phrase))


@cache
def read_themes() -> dict[str, list[Written]]:
    """The servers by the names of their files, as they are written."""
    return {
        path.stem: [read_tool(part, path.stem) for part in path.read_text(encoding="utf-8").strip().split("\n\n")]
        for path in sorted(FOLDER.glob("*.txt"))
    }


def read_tool(paragraph: str, server: str) -> Written:
    """One paragraph; ValueError names a head that cannot be read."""
    first, *lines = paragraph.splitlines()
    head = HEAD.fullmatch(first)
    if not head:
        raise ValueError(f"{server}: {first}")
    parameters = tuple(read_parameter(match) for match in PARAMETER.finditer(head["parameters"]))
    phrasings = {line[:2]: tuple(line[3:].split(" | ")) for line in lines}
    tool = Tool(head["name"], head["about"], {}, server)
    return Written(tool, parameters, phrasings, {one.name: one.name for one in parameters})


def read_parameter(match: re.Match[str]) -> Parameter:
    kind, is_optional = match["kind"], bool(match["optional"])
    if kind.startswith("records"):
        return Parameter(match["name"], "records", tuple(kind[8:-1].split(", ")), is_optional)
    if kind in KINDS:
        return Parameter(match["name"], kind, (), is_optional)
    return Parameter(match["name"], "choice", tuple(kind.split("/")), is_optional)


def written_server(random: Random, size: int, held_out: bool) -> list[Written]:
    """Some tools of one server, a third of them under other names, with parameters of other names."""
    tools = random.choice(list(read_themes().values()))
    server, style = word(random), random.choice(["", "", "", "camel", "kebab", "prefix", "prefix"])
    prefix = word(random)
    chosen = [one for one in tools if is_held_out(f"{one.tool.server} {one.tool.name}") == held_out] or tools
    some = random.sample(chosen, min(size, len(chosen)))
    if not held_out:
        some = [varied_names(one, random) for one in some]
    return [dressed(one, server, style, prefix, random) for one in some]


def varied_names(one: Written, random: Random) -> Written:
    """The tool with its parameters in another order and under other names, so that these must be read."""
    kinds = [known.kind for known in one.parameters]
    names: dict[str, str] = {}
    for first, second in combinations(one.parameters, 2):
        if first.kind == second.kind and random.random() < RESIDED_SHARE:
            names |= other_ends(first, second, random)
    for known in one.parameters:
        if kinds.count(known.kind) == 1 and known.kind in TELLING_KINDS.split() and random.random() < REKINDED_SHARE:
            names[known.name] = random.choice(KINDS[known.kind].names.split())
    kept = [names.get(known.name, known.name) for known in one.parameters]
    renamed = with_names(one, names) if len(set(kept)) == len(kept) else one
    if random.random() < SCATTERED_SHARE:
        renamed = replace(renamed, parameters=tuple(random.sample(renamed.parameters, len(renamed.parameters))))
    return renamed


def other_ends(first: Parameter, second: Parameter, random: Random) -> dict[str, str]:
    """Other names of two parameters that stand on either side: `source_shelf` and `target_shelf`."""
    for kinds, *ends in ENDS:
        begins = [name.partition("_")[0] for name in (first.name, second.name)]
        for sides in (ends, ends[::-1]):
            if first.kind in kinds.split() and all(
                one in side.split() for one, side in zip(begins, sides, strict=True)
            ):
                return {
                    known.name: random.choice(side.split()) + known.name[len(begin) :]
                    for known, side, begin in zip((first, second), sides, begins, strict=True)
                }
    return {}


def dressed(one: Written, server: str, style: str, prefix: str, random: Random) -> Written:
    """The tool as this server has it, with its schema."""
    renamed = rename_parameters(one, random) if random.random() < RENAMED_SHARE else one
    renamed = replace(renamed, parameters=tuple(rename_keys(known, random) for known in renamed.parameters))
    if style == "camel":
        renamed = with_names(renamed, {known.name: camel(known.name) for known in renamed.parameters})
    name = {"camel": camel(one.tool.name), "kebab": one.tool.name.replace("_", "-")}.get(style, one.tool.name)
    if style == "prefix":
        name = f"{prefix}_{name}"
    if random.random() < 0.1:
        name = word(random) if random.random() < 0.5 else f"{word(random)}_{name.rpartition('_')[2]}"
    about = one.tool.description if random.random() < 0.95 or name != one.tool.name else ""
    about += random.choice(["", "", "", ".", f" ({word(random)})"]) if about else ""
    if about and random.random() < 0.15:
        thing = one.tool.name.split("_")[-1]
        about = go_on(about, Noun(thing, thing, thing), random)
    return replace(renamed, tool=Tool(name, about, schema_for(renamed.parameters, random), server))


def rename_parameters(one: Written, random: Random) -> Written:
    """Other names that mean the same, and invented ones where the type alone tells which is meant."""
    kinds = [str(schema_kind(known)) for known in one.parameters]
    names: dict[str, str] = {}
    for known in one.parameters:
        alone = kinds.count(str(schema_kind(known))) == 1 and known.kind not in ("flag", "records")
        if alone and random.random() < 0.4:
            names[known.name] = word(random)
        elif alone and random.random() < 0.6 and known.kind in KINDS:
            names[known.name] = random.choice(KINDS[known.kind].names.split())
    return with_names(one, names) if len(set(names.values())) == len(names) else one


def rename_keys(one: Parameter, random: Random) -> Parameter:
    """The objects of a list with other names for what is in them."""
    if one.kind != "records" or random.random() < 0.4:
        return one
    return replace(one, choices=tuple(random.choice(RECORD_KEYS[role_of(key)]) for key in one.choices))


def with_names(one: Written, names: Mapping[str, str]) -> Written:
    taken = {known.name for known in one.parameters} - set(names)
    names = {old: new for old, new in names.items() if new not in taken}
    parameters = tuple(replace(known, name=names.get(known.name, known.name)) for known in one.parameters)
    spoken = {names.get(name, name): slot for name, slot in one.spoken.items()}
    return replace(one, parameters=parameters, spoken=spoken)


def schema_kind(one: Parameter) -> Any:
    return "enum" if one.kind == "choice" else KINDS[one.kind].schema if one.kind in KINDS else "records"


def schema_for(parameters: tuple[Parameter, ...], random: Random) -> dict[str, Any]:
    """As `schema_of`, with lists of objects."""
    plain = schema_of([one for one in parameters if one.kind != "records"], random)
    properties = {one.name: plain["properties"].get(one.name) or records_schema(one) for one in parameters}
    required = [one.name for one in parameters if not one.is_optional]
    return {"type": "object", "properties": properties, "required": required}


Item = Made | Written | Lent
