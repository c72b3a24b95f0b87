"""Tools drawn at random, and questions that name their thing and their values: reading the list is the only way.

It knows no tool that exists. "tide" and "harbour" stay out of training, so that `get_tide(harbour)` is unseen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from board_questions import Question, dress, dress_japanese
from random_phrasings import (
    ABOUT,
    ACTIONS,
    ASPECTS,
    CITY_LIKE,
    CORES,
    JAPANESE,
    LOOKUPS,
    NAMED_REST,
    NUMBER_LIKE,
    PARAMETERS,
    THINGS,
)
from rkllm_chat.messages import Tool
from vocabulary import (
    file_path,
    fresh,
    japanese_name,
    name,
    number,
    pick,
    place,
    quoted,
    whole,
    word,
)

LIST_SIZES, PARAMETER_COUNTS = ([1, 2, 3, 4, 6, 9], [5, 5, 4, 3, 1, 0.6]), ([0, 1, 2, 3], [2, 6, 2.5, 0.3])


@dataclass(frozen=True)
class Drawn:
    """A random tool with the words people use for it. `parameters` are name and kind, optional ones last."""

    tool: Tool
    thing: str
    verb: str
    aspect: str
    parameters: tuple[tuple[str, str], ...]
    optional: int


def draw_tools(random: Random, held_out: bool) -> list[Drawn]:
    """A list of tools with different things; the order they are shown in follows the servers' random names."""
    drawn: dict[str, Drawn] = {}
    for _ in range(random.choices(*LIST_SIZES)[0]):
        tool = draw_tool(random, held_out)
        if tool.thing not in drawn and all(tool.tool.name != other.tool.name for other in drawn.values()):
            drawn[tool.thing] = tool
    return list(drawn.values())


def draw_tool(random: Random, held_out: bool) -> Drawn:
    thing = fresh(a_thing, random, held_out)
    verb, aspect = random.choice(LOOKUPS if random.random() < 0.7 else ACTIONS), random.choice(ASPECTS)
    count = random.choices(*PARAMETER_COUNTS)[0]
    names = dict.fromkeys(a_parameter(random) for _ in range(count))
    parameters = tuple((parameter, kind_of(parameter, random)) for parameter in names)
    optional = random.randint(1, len(parameters)) if parameters and random.random() < 0.2 else 0
    tool = Tool(name_of(verb, thing, random), "", schema_of(parameters, optional), server=word(random))
    about = describe(Drawn(tool, thing, verb, aspect, parameters, optional), random)
    return Drawn(Tool(tool.name, about, tool.schema, tool.server), thing, verb, aspect, parameters, optional)


def a_thing(random: Random) -> str:
    thing = random.choice(THINGS) if random.random() < 0.45 else word(random)
    if len(thing) < 3:
        return a_thing(random)
    return thing if random.random() < 0.9 else f"{thing} {random.choice(THINGS)}"


def a_parameter(random: Random) -> str:
    parameter = random.choice(PARAMETERS) if random.random() < 0.6 else fresh(word, random, False)
    return parameter if random.random() < 0.9 else f"{parameter}_{random.choice(['id', 'name', 'code', 'number'])}"


def kind_of(parameter: str, random: Random) -> str:
    if parameter.split("_")[-1] in NUMBER_LIKE or random.random() < 0.1:
        return random.choice(["integer", "integer", "number", "string"])
    return "boolean" if random.random() < 0.03 else "string"


def name_of(verb: str, thing: str, random: Random) -> str:
    thing = thing.replace(" ", "_")
    styles = [f"{verb}_{thing}", f"{thing}_{verb}", thing, f"{verb}{thing.title().replace('_', '')}", f"{verb}-{thing}"]
    plural = [f"list_{thing}s", f"{verb}_all_{thing}", f"{verb}_{thing}_{random.choice(ASPECTS)}"]
    return random.choices([*styles, *plural], [14, 1, 1.5, 1, 0.5, 1, 0.5, 1])[0]


def schema_of(parameters: tuple[tuple[str, str], ...], optional: int) -> dict[str, Any]:
    required = [parameter for parameter, _ in parameters[: len(parameters) - optional]]
    return {
        "type": "object",
        "properties": {parameter: {"type": kind} for parameter, kind in parameters},
        "required": required,
    }


def describe(drawn: Drawn, random: Random) -> str:
    if random.random() < 0.04:
        return ""
    words = words_of(drawn) | {"word": word(random)}
    capitals = {key.capitalize(): words[key].capitalize() for key in ("verb", "thing", "aspect", "word")}
    core = random.choice(ABOUT[min(len(drawn.parameters), 2)].split("|"))
    return core.format(**words, **capitals, Current="Current") + random.choice(["", "", "."])


def words_of(drawn: Drawn) -> dict[str, str]:
    words = {"thing": drawn.thing, "verb": drawn.verb, "aspect": drawn.aspect, "tool": drawn.tool.name}
    names = {f"p{index}": parameter.replace("_", " ") for index, (parameter, _) in enumerate(drawn.parameters, 1)}
    return {**words, **names}


def random_question(drawn: Drawn, random: Random, held_out: bool) -> Question:
    """A question for this tool, with values for its required and some of its optional parameters."""
    japanese = random.random() < 0.12
    count = len(drawn.parameters) - (drawn.optional if random.random() < 0.6 else 0)
    # Nobody asks "what is the backup" and wants it deleted: a tool that acts is called by a command alone.
    weights = [0, 1, 0] if drawn.verb in ACTIONS else [4, 4, 3]
    mood = random.choices(["questions", "commands", "nouns"], weights)[0]
    cores = (JAPANESE if japanese else {key: table[mood] for key, table in CORES.items()})[min(count, 2)]
    core = pick_core(cores.split("|"), random, held_out)
    said, arguments = fill(core, drawn, count, random, japanese, held_out)
    if japanese:
        return Question(dress_japanese(said, random), drawn.tool.name, arguments, True)
    capital = 0.0 if core.startswith(("{v1}", "{tool}")) else 0.6
    return Question(dress(said, mood, random, capital), drawn.tool.name, arguments)


def pick_core(cores: list[str], random: Random, held_out: bool) -> str:
    """A phrasing; where none is held out, any will do: the tool and its values are unseen anyway."""
    try:
        return pick(cores, random, held_out and random.random() < 0.5)
    except LookupError:
        return pick(cores, random, False)


def fill(
    core: str, drawn: Drawn, count: int, random: Random, japanese: bool, held_out: bool
) -> tuple[str, dict[str, Any]]:
    """The core with things and values in it; what has no slot is named behind it."""
    arguments: dict[str, Any] = {}
    shown = words_of(drawn)
    rest = ""
    for index, (parameter, kind) in enumerate(drawn.parameters[:count], 1):
        value = value_of(parameter, kind, random, japanese, held_out)
        arguments[parameter] = value
        text = {True: "true", False: "false"}[value] if isinstance(value, bool) else quoted(str(value), random)
        shown[f"v{index}"] = text
        if f"{{v{index}}}" not in core:
            rest += random.choice(NAMED_REST).format(p=parameter.replace("_", " "), v=text)
    if "{tool} " in core and "=" in core:
        shown |= {f"p{index}": parameter for index, (parameter, _) in enumerate(drawn.parameters, 1)}
    return core.format(**shown) + rest, arguments


def value_of(parameter: str, kind: str, random: Random, japanese: bool, held_out: bool) -> str | int | float | bool:
    if kind == "integer":
        return int(fresh(whole, random, held_out))
    if kind == "number":
        return plain_number(fresh(number, random, held_out))
    if kind == "boolean":
        return random.random() < 0.5
    return fresh(text_maker(parameter, random, japanese), random, held_out)


def plain_number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def text_maker(parameter: str, random: Random, japanese: bool) -> Callable[[Random], str]:
    if parameter in CITY_LIKE:
        return random.choice([place, name, name])
    if japanese and random.random() < 0.5:
        return japanese_name
    return random.choices([word, name, place, whole, file_path, a_code], [5, 5, 2, 2, 0.7, 2])[0]


def a_code(random: Random) -> str:
    letters = word(random)[:3].upper()
    return f"{letters}{random.choice(['-', '', '_', '/'])}{random.randint(0, 9999)}"


def random_result(drawn: Drawn, arguments: dict[str, Any], random: Random) -> tuple[str, bool]:
    """A short made-up result that speaks of the thing, and whether the call worked."""
    if random.random() < 0.05:
        return f"There is no {drawn.thing} {word(random)}.", False
    values = [str(value) for value in arguments.values()] or [name(random)]
    templates = (
        "{number}|{name}|{thing}: {number}|The {thing} in {value} is {number}.|The {thing} of {value} is {word}.|"
        "{value}: {word} {number}|{thing} {number} {word}|{name}, {name}, {name}|It is {number} {word} at {value}.|"
        '{{"{thing}": "{word}", "{word2}": {number}}}|Done: {thing} {value}.|'
        "{number} {word}, {number2} {word2}|ok|{word} {word2} {name}\n{name} {number}|{name}\n{word}\n{word2}|"
        "{thing} {value}\n{word}: {number}|{value} is {word}.|The {thing} at {value} is {number} {word}, rising.|"
        "{value} {thing} {word2}: {number}; {word}: {number2}."
    )
    return random.choice(templates.split("|")).format(
        thing=drawn.thing,
        value=random.choice(values),
        word=word(random),
        word2=word(random),
        name=name(random),
        number=number(random),
        number2=number(random),
    ), True
