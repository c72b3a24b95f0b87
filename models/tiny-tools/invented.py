"""Servers that nobody has: tools made of a verb, a thing and parameters, with questions in three languages.

Half of their words mean something, so that meaning is used; the rest are invented, so that reading is the only way.
It knows no tool that exists. "tide" and "harbour" stay out of training, so that `get_tide(harbour)` is unseen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from board_questions import Question
from kinds import KINDS, TEXT, draw_value
from nouns import Noun, draw_nouns
from parameters import (
    Parameter,
    camel,
    draw_kin,
    draw_pair,
    draw_parameter,
    draw_twins,
    scattered,
    schema_of,
    sort_parameters,
)
from rkllm_chat.core.messages import Tool
from saying import PAIR, SIDES, Given, dress, make_like, quote, say_named, say_unnamed
from telling import fill_result, go_on
from verbs import OPPOSITES, VERBS, Verb
from vocabulary import is_held_out, name, word

INVENTED_VERBS = 0.25
MODIFIED_SHARE = 0.2
FAMILY_SHARE = 0.25
"""Of servers, those whose tools do few things with one thing in several states, as git_diff_staged beside git_diff."""
PAIR_SHARE = 0.25
"""Of tools with two parameters or more, those of which two belong together, as `from` and `to`."""
TWIN_SHARE, SCATTERED_SHARE = 0.06, 0.5
"""Of tools in training, those with such options, and those whose parameters stand in any order."""
KIN_SHARE = 0.12
"""Of tools in training with up to two parameters, those that get two of KIN besides."""
TWINS_GIVEN = [(), (0,), (0,), (1,), (1,), (0, 1)]
PARAMETER_COUNTS = ([0, 1, 2, 3, 4], [1, 4, 4, 3, 2])
# Verbs that would be asked for in the same words about the same thing.
ALIKE = (
    {"get", "check", "measure", "history", "list"}, {"stop", "disable", "close", "archive"},
    {"start", "enable", "open", "play"},
    {"delete", "reset", "archive"}, {"search", "get"}, {"send", "share"}, {"export", "print"}, {"convert", "update"},
    {"calculate", "measure"}, {"book", "pay", "create"}, {"move", "share"}, {"send", "import"},
)  # fmt: skip
MODIFIERS = [tuple(part.split() for part in entry.split("|")) for entry in OPPOSITES]
NAME_STYLES = {"verb_noun": 8, "noun_verb": 1, "verbNoun": 1.2, "verb-noun": 0.6, "prefix_verb_noun": 4, "plain": 0.5}


@dataclass(frozen=True)
class Made:
    """A tool with the words that people use for it."""

    tool: Tool
    verb: Verb
    noun: Noun
    parameters: tuple[Parameter, ...]

    def core(self, random: Random, language: str, held_out: bool) -> str:
        """The request without its values."""
        cores = {"en": self.verb.english, "ja": self.verb.japanese, "zh": self.verb.chinese}[language].split("|")
        wanted = [core for core in cores if is_held_out(core) == held_out]
        return fill(random.choice(wanted or cores), self.noun, random, language)

    def ask(self, random: Random, language: str, held_out: bool, named: bool | None = None) -> Question:
        """A question with values for the required and some of the optional parameters."""
        givens = self.draw_values(random, language, held_out)
        named = random.random() < 0.35 if named is None else named
        core = self.core(random, language, held_out)
        arguments = arguments_of(givens)
        if random.random() < 0.07:
            return Question(call_in_words(self.tool.name, givens, random), self.tool.name, arguments, "en", "words")
        if named:
            said = dress(core, "", say_named(givens, random, language), random, language)
        else:
            core, rest = self.say_choice(core, givens, random, language)
            before, behind = say_unnamed(self.in_order(rest, random), random, language)
            said = dress(core, before, behind, random, language)
        return Question(said, self.tool.name, arguments, language, "named" if named else "unnamed")

    def say_choice(self, core: str, givens: list[Given], random: Random, language: str) -> tuple[str, list[Given]]:
        """At times a choice stands before the thing, "list the local branches"; gives the core and the other values."""
        choice = next((given for given in givens if given.kind == "choice"), None)
        thing = next((one for one in (self.noun.plural, self.noun.english) if one in core), None)
        if language != "en" or not choice or not thing or random.random() > 0.35:
            return core, givens
        return core.replace(thing, f"{choice.value} {thing}", 1), [one for one in givens if one is not choice]

    def draw_values(self, random: Random, language: str, held_out: bool) -> list[Given]:
        share = random.choice([0, 0.5, 1] if held_out else [0, 0, 0.5, 1])
        chosen = [one for one in self.parameters if not one.is_optional or random.random() < share]
        if twins := [one for one in self.parameters if one.side in SIDES]:
            given = [twins[at] for at in random.choice(TWINS_GIVEN)]
            chosen = [one for one in self.parameters if one in (given if one in twins else chosen)]
        givens = [
            Given(one.name, one.kind, draw_value(one.kind, one.choices, random, language, held_out), one.side)
            for one in chosen
        ]
        return givens if held_out else make_like(givens, random)

    def in_order(self, givens: Sequence[Given], random: Random) -> list[Given]:
        """In any order where the kinds tell the values apart, else as they are listed."""
        invented = {one.name for one in self.parameters if one.is_invented}
        texts = [given for given in givens if KINDS[given.kind].schema is TEXT and given.kind != "choice"]
        figures = [given for given in givens if isinstance(given.value, int | float)]
        vague = any(given.name in invented for given in texts) or len({given.kind for given in texts}) < len(texts)
        ordered = list(givens)
        if not (vague and len(texts) > 1) and len(figures) < 2:
            random.shuffle(ordered)
        return beside(ordered)

    def result(self, arguments: Mapping[str, Any], random: Random) -> str:
        """What the tool may answer, in one to five lines."""
        template = random.choice(self.verb.result.lstrip("?").split("|"))
        return fill_result(template, self.noun, arguments, random)


def beside(givens: Sequence[Given]) -> list[Given]:
    """The same, but a pair stands together, where something else stood between `from` and `to`."""
    pair = [given for given in givens if given.side == PAIR]
    others = [given for given in givens if given.side != PAIR]
    at = givens.index(pair[0]) if pair else 0
    return [*others[:at], *pair, *others[at:]]


def arguments_of(givens: Sequence[Given]) -> dict[str, Any]:
    return {given.name: given.value for given in givens}


def call_in_words(tool: str, givens: Sequence[Given], random: Random) -> str:
    """As people who know the tool ask: `set_lamp room=hall level=3`, "call set_lamp with room hall"."""
    unplaced = any(isinstance(given.value, bool | list) or given.side in SIDES for given in givens)
    if random.random() < 0.25 and not unplaced:
        said = (str(given.value) for given in givens)
        return " ".join([tool, *(quote(one, random, "en") if " " in one else one for one in said)])
    opener = random.choice(["", "", "call ", "use ", "run ", "please call "])
    return opener + tool + say_named(givens, random, "en")


def fill(core: str, noun: Noun, random: Random, language: str) -> str:
    """The core with its thing; English has articles and plurals."""
    if language != "en":
        return core.format(n=noun.japanese if language == "ja" else noun.chinese)
    english = noun.english
    article = f"{'an' if english[0] in 'aeiou' else 'a'} {english}"
    definite = random.choice([f"the {english}", f"the {english}", f"my {english}", english, f"this {english}"])
    return core.format(n=english, a=article, the=definite, s=noun.plural, N=english.capitalize())


def invent_server(random: Random, size: int, held_out: bool) -> list[Made]:
    """Tools of one server, alike in their style, some of them in all but a word."""
    style = random.choices(list(NAME_STYLES), list(NAME_STYLES.values()))[0]
    prefix, server = word(random), word(random)
    nouns = draw_nouns(random, random.choice([1, 1, 2, 2, 3, 5, 8]))
    if random.random() < 0.3:
        nouns = [Noun(invented, invented, invented) for invented in (word(random) for _ in nouns) if len(invented) > 2]
    verbs = list(VERBS.values())
    if random.random() < INVENTED_VERBS:
        verbs = [invent_verb(random) for _ in range(2 * size)]
    modified_share = MODIFIED_SHARE
    if random.random() < FAMILY_SHARE:
        nouns, modified_share = nouns[:2], 0.7
        verbs = random.sample(verbs, min(len(verbs), 1 + size // 3))
    common = [draw_parameter(random, nouns[0] if nouns else None)] if random.random() < 0.3 else []
    made: dict[str, Made] = {}
    taken: dict[str, list[str]] = {}
    for _ in range(8 * size):
        if len(made) == size or not nouns:
            break
        noun = modified(random.choice(nouns), modified_share, random)
        verb = random.choice(verbs)
        others = taken.get(noun.english, [])
        if is_held_out(f"{verb.key} {noun.english}") != held_out or not is_apart(verb.key, others):
            continue
        one = make_tool(verb, noun, common, style, prefix, server, random, not held_out)
        if one.tool.name not in made:
            made[one.tool.name] = one
            taken.setdefault(noun.english, []).append(verb.key)
    return list(made.values())


def invent_verb(random: Random) -> Verb:
    """A deed that nobody knows: its word alone says which tool is meant, by its name or only by its description."""
    deed = word(random)
    other = word(random) if random.random() < 0.4 else deed
    return Verb(
        deed,
        other,
        f"{deed.capitalize()} {{a}}|{deed.capitalize()}s {{the}}|{deed.capitalize()} {{s}}|{{N}} {deed}",
        f"{deed} {{the}}|{deed} {{a}}|{{the}}: {deed}|{deed} {{s}}|{{n}} {deed}",
        f"{{n}}を{deed}して|{{n}}の{deed}",
        f"{deed}{{n}}|把{{n}}{deed}一下",
        "Done.|{number}|{word}: {name}",
    )


def is_apart(verb: str, others: Sequence[str]) -> bool:
    """Whether a request for this verb cannot be taken for one of the others."""
    return not any(verb == other or any({verb, other} <= group for group in ALIKE) for other in others)


def modified(noun: Noun, share: float, random: Random) -> Noun:
    """At times "open order" beside "closed order": tools that differ by one word."""
    if random.random() > share:
        return noun
    english, japanese, chinese = random.choice(MODIFIERS)
    side = random.randrange(2)
    return Noun(f"{english[side]} {noun.english}", f"{japanese[side]}{noun.japanese}", f"{chinese[side]}{noun.chinese}")


def make_tool(
    verb: Verb,
    noun: Noun,
    common: Sequence[Parameter],
    style: str,
    prefix: str,
    server: str,
    random: Random,
    is_varied: bool,
) -> Made:
    """A tool; a `varied` one may have options that stand on either side, and its parameters in any order."""
    count = max(0, random.choices(*PARAMETER_COUNTS)[0] - len(common))
    if verb.key in ("list", "count") and random.random() < 0.5:
        count = 0
    pair = draw_pair(random, is_varied) if count > 1 and random.random() < PAIR_SHARE else []
    others = (draw_parameter(random, noun) for _ in range(count - len(pair)))
    if is_varied:
        pair = [replace(one, side=PAIR) for one in pair]
    drawn = {one.name: one for one in [*common, *pair, *others]}
    if is_varied and count < 3 and random.random() < KIN_SHARE:
        drawn |= {one.name: one for one in draw_kin(random)}
    if is_varied and random.random() < TWIN_SHARE:
        twins = draw_twins(random)
        drawn = {name: one for name, one in drawn.items() if one.kind != twins[0].kind}
        drawn |= {one.name: one for one in twins}
    parameters = sort_parameters(list(drawn.values()), style, random)
    if is_varied and random.random() < SCATTERED_SHARE:
        parameters = scattered(parameters, random)
    about = describe(verb, noun, parameters, random)
    tool = Tool(tool_name(verb, noun, style, prefix, random), about, schema_of(parameters, random), server)
    return Made(tool, verb, noun, parameters)


def describe(verb: Verb, noun: Noun, parameters: Sequence[Parameter], random: Random) -> str:
    chance = random.random()
    if chance < 0.1 and (verb.key in VERBS or verb.names == verb.key):  # its name tells enough
        return ""
    core = fill(random.choice(verb.about.split("|")), Noun(noun.english, "", ""), Random(0), "en")
    first = parameters[0].name.replace("_", " ") if parameters else ""
    tails = ["", "", "", "", ".", "."]
    if first:
        tails += [f" by {first}", f" for a {first}", f" with the given {first}", f" of one {first}."]
    if random.random() < 0.1:
        tails += [f", {word(random)}", f" in {name(random)}", f" ({word(random)})"]
    told = core + random.choice(tails)
    return go_on(told, noun, random) if random.random() < 0.15 else told


def tool_name(verb: Verb, noun: Noun, style: str, prefix: str, random: Random) -> str:
    does = random.choice(verb.names.split("|"))
    thing = (noun.plural if verb.key in ("list", "search", "count", "merge", "compare") else noun.english).replace(
        " ", "_"
    )
    thing = thing.replace("'", "")
    match style:
        case "noun_verb":
            return f"{thing}_{does}"
        case "verbNoun":
            return camel(f"{does}_{thing}")
        case "verb-noun":
            return f"{does}-{thing}".replace("_", "-")
        case "prefix_verb_noun":
            return f"{prefix}_{does}_{thing}"
        case "plain" if verb.key in ("get", "measure", "convert", "calculate"):
            return thing
    return f"{does}_{thing}"
