"""How values and whole questions are said, in English, Japanese and Chinese. It knows no tool.

A said value is what a person types; the argument it stands for is made elsewhere.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from random import Random
from typing import Any

from kinds import KINDS
from values import like_value

LIKE_KINDS, LIKE_SHARE = ("file", "folder", "place", "code", "pattern", "word", "text", "title", "query"), 0.3
LANGUAGES = {"en": 0.66, "ja": 0.17, "zh": 0.17}
TRAINED_LANGUAGES = {"en": 0.58, "ja": 0.18, "zh": 0.24}
"""Chinese is learnt last."""
OPENERS = {
    "en": "|||||||||||please |can you |could you |hey, |i want you to |ok, |now |would you |and |so, |hi, please |"
    "i'd like you to |you should |we have to |would you please |go and |next, |first ",
    "ja": "||||||すみません、|ねえ、|では、|次に、|ちょっと、|お願い、",
    "zh": "||||||请|麻烦你|帮我|你好，|能不能|现在",
}
QUESTION_OPENERS = "||||||||tell me |can you tell me |do you know |i'd like to know |hey, |so, |and |i want to know "
CLOSERS = {
    "en": "|||||||||| please|, please| now|, thanks| for me| thank you| if you can",
    "ja": "||||||。|？|！|お願いします",
    "zh": "|||||。|？|！|，谢谢",
}
ASKING = ("what", "which", "how", "who", "is ", "are ", "where", "when")
NAMED = {
    "en": (
        (" with ", "{p} {v}", ", ", " and "),
        (" with ", "{p} {v}", ", ", " and "),
        (", ", "{p} {v}", ", ", ", "),
        (" ", "{p}={v}", " ", " "),
        (" with ", "{p}={v}", ", ", " and "),
        (" (", "{p}: {v}", ", ", ", "),
        (" where ", "{p} is {v}", ", ", " and "),
        (" using ", "{p} {v}", ", ", " and "),
        (". ", "{p}: {v}", ". ", ". "),
        (": ", "{p} {v}", ", ", ", "),
        ("\n", "{p}: {v}", "\n", "\n"),
        (" with ", "{v} as the {p}", ", ", " and "),
        (" for ", "{p} {v}", ", ", " and "),
    ),
    "ja": (
        ("。", "{p}は{v}", "、", "、"),
        ("。", "{p}: {v}", "、", "、"),
        (" ", "{p}={v}", " ", " "),
        ("（", "{p}: {v}", "、", "、"),
        ("。", "{p}を{v}に", "、", "、"),
    ),
    "zh": (
        ("，", "{p}为{v}", "，", "，"),
        ("，", "{p}是{v}", "，", "，"),
        (" ", "{p}={v}", " ", " "),
        ("（", "{p}: {v}", "，", "，"),
        ("：", "{p} {v}", "，", "，"),
    ),
}
BETWEEN = {"en": (", ", " and "), "ja": ("、", "と"), "zh": ("、", "和")}
PAIRS = {
    ("from", "to"): "from", ("source", "target"): "from", ("source", "destination"): "from", ("src", "dst"): "from",
    ("origin", "destination"): "from", ("start", "end"): "from", ("first", "second"): "from", ("base", "other"): "from",
    ("old", "new"): "old", ("before", "after"): "old", ("find", "replace"): "old",
}  # fmt: skip
"""Beginnings of the names of two parameters of one kind, and how both are said."""
PAIR = "pair"
"""The side of both values of such a pair, in training."""
PAIRED = {
    "from": {
        "en": " from {0} to {1}| from {0} to {1}| to {1} from {0}| between {0} and {1}| from {0} into {1}",
        "ja": "{0}から{1}へ|{0}から{1}まで|{0}から{1}に",
        "zh": "从{0}到{1}|从{0}至{1}",
    },
    "old": {
        "en": " from {0} to {1}|, {0} becomes {1}|, {1} instead of {0}| with {1} for {0}|: {0} by {1}|, {0} to {1}",
        "ja": "{0}を{1}に|{0}から{1}に|{0}の代わりに{1}で",
        "zh": "把{0}改成{1}|从{0}改为{1}|用{1}代替{0}",
    },
}
APART = {
    "from": {
        "en": "from {0}, …, to {1}|it is {0}, … in {1}|{0}: … as {1}|for {1}, … that is in {0}|with {0} … into {1}|"
        "in {0} … is what in {1}|{0} first, … and {1} for it",
        "ja": "{0}は{1}では、|{1}に{0}から|{0}の、{1}での|{0}を{1}として、",
        "zh": "由{0}…，换到{1}|{0}的，在{1}…|{0}…，是{1}的什么|以{0}为准…，在{1}里",
    },
    "old": {
        "en": "where it says {0}, … to say {1}|{0} is wrong: … with {1}|{1} should stand where {0} is: …|"
        "replace {0} and … by {1}|not {0} any more, … {1}|change {0} … to {1}",
        "ja": "{0}ではなく{1}で、|今の{0}は{1}に|{1}が正しく{0}は違う、",
        "zh": "原来的{0}…，变成{1}|不要{0}，要{1}…|{0}错了…，应该是{1}",
    },
}
"""How training also says such a pair: what is asked for (…) may stand between them."""
APART_SHARE = 0.35
SIDES: dict[str, dict[str, str]] = {
    "first": {
        "en": "the first {v}|first {v}|only the first {v}|(first {v})|just the first {v} of them",
        "ja": "最初の{v}件の|先頭の{v}個の|最初の{v}個だけ、|先頭{v}行の",
        "zh": "前{v}个|前{v}条|开头{v}个|，只要前{v}个|最前面的{v}个",
    },
    "last": {
        "en": "the last {v}|last {v}|only the last {v}|(last {v})|just the last {v} of them",
        "ja": "最後の{v}件の|末尾の{v}個の|最後の{v}個だけ、|末尾{v}行の",
        "zh": "最后{v}个|后{v}条|末尾{v}个|，只要最后{v}个|最后面的{v}个",
    },
    "min": {
        "en": "with at least {v}|of at least {v}|over {v}|with more than {v}|no less than {v}|from {v} up|above {v}",
        "ja": "{v}以上の|{v}を超える|少なくとも{v}の|{v}より多い",
        "zh": "至少{v}的|{v}以上的|超过{v}的|不低于{v}的",
    },
    "max": {
        "en": "with at most {v}|of at most {v}|under {v}|with less than {v}|no more than {v}|{v} at most|below {v}",
        "ja": "{v}以下の|{v}未満の|多くても{v}の|{v}より少ない",
        "zh": "至多{v}的|{v}以下的|低于{v}的|不超过{v}的",
    },
    "since": {
        "en": "since {v}|after {v}|from {v} on|later than {v}|newer than {v}|starting {v}|since {v}",
        "ja": "{v}以降の|{v}からの|{v}より後の|{v}以後の",
        "zh": "{v}以后的|从{v}起的|{v}之后的|自{v}以来的",
    },
    "until": {
        "en": "until {v}|before {v}|up to {v}|earlier than {v}|older than {v}|by {v}|until {v}",
        "ja": "{v}までの|{v}以前の|{v}より前の",
        "zh": "{v}以前的|到{v}为止的|{v}之前的|截至{v}的",
    },
}
"""How values of parameters are said that stand on either side: `first` beside `last`, `min` beside `max`."""
PLACED = ("place", "folder", "file", "room", "code")
"""Kinds of which a value may come first: "in /srv/app, list the branches"."""
QUOTES = {"en": '""\'\'``""', "ja": '「」「」""『』', "zh": '“”“”""「」'}
QUOTE_PAIRS = {(marks[at], marks[at + 1]) for marks in QUOTES.values() for at in range(0, len(marks), 2)}


@dataclass(frozen=True)
class Given:
    """A parameter that gets a value in a question; `side` is a row of SIDES, or something else where the
    kind says it all."""

    name: str
    kind: str
    value: Any
    side: str = ""


def make_like(givens: Sequence[Given], random: Random) -> list[Given]:
    """At times a value that begins as another of its kind, so that the beginning does not tell which is meant."""
    made = list(givens)
    for first, second in combinations(range(len(made)), 2):
        value = made[first].value
        is_alike = made[first].kind == made[second].kind and made[first].kind in LIKE_KINDS
        if is_alike and random.random() < LIKE_SHARE and (like := like_value(value, random)):
            made[second] = replace(made[second], value=like)
    return made


def draw_language(random: Random, held_out: bool) -> str:
    shares = LANGUAGES if held_out else TRAINED_LANGUAGES
    return random.choices(list(shares), list(shares.values()))[0]


def say_value(given: Given, random: Random, language: str, may_be_bare: bool = False) -> str:
    """A value as people type it: several words in quotes, lists with "and", the rest mostly bare."""
    value = given.value
    if isinstance(value, bool):
        return random.choice([("no", "off", "false", "false"), ("yes", "on", "true", "true")][value])
    if isinstance(value, list):
        comma, last = BETWEEN[language]
        items = [str(item) for item in value]
        if random.random() < 0.2:
            items = [quote(item, random, language) for item in items]
        if random.random() < 0.25 or len(items) == 1:
            return comma.join(items)
        return comma.join(items[:-1]) + last + items[-1]
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    text = str(value)
    is_text = given.kind in ("text", "title", "query")
    if is_text and not may_be_bare and (" " in text or not text.isascii()):
        return quote(text, random, language)
    return quote(text, random, language) if random.random() < 0.1 else text


def quote(text: str, random: Random, language: str) -> str:
    pairs = QUOTES[language]
    start = 2 * random.randrange(len(pairs) // 2)
    first, last = pairs[start], pairs[start + 1]
    return text if first in text or last in text else f"{first}{text}{last}"


def spoken_name(name: str, random: Random) -> str:
    """A parameter's name as it is written or as it is said: `repo_path`, "repo path"."""
    if random.random() < 0.45:
        return name
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.replace("_", " ").replace("-", " ")).lower()


def say_named(givens: Sequence[Given], random: Random, language: str) -> str:
    """All values by name, behind the request: " with city Oslo and days 3"."""
    if not givens:
        return ""
    before, one, comma, last = random.choice(NAMED[language])
    raw = "=" in one
    said = [
        one.format(p=given.name if raw else spoken_name(given.name, random), v=say_value(given, random, language))
        for given in givens
    ]
    end = {"(": ")", "（": "）"}.get(before.strip(), "")
    return before + (comma.join(said[:-1]) + last if said[1:] else "") + said[-1] + end


def say_flag(given: Given, random: Random, language: str) -> str:
    """A boolean: "with force", "without force"."""
    name = spoken_name(given.name, random)
    if language == "ja":
        return f"、{name}{'あり' if given.value else 'なし'}"
    if language == "zh":
        return f"，{'开启' if given.value else '不要'}{name}"
    yes, no = (" with {}", ", {}: yes", ", {} on", ", {}=true"), (" without {}", ", {}: no", ", {} off", ", {}=false")
    return random.choice(yes if given.value else no).format(name)


def say_unnamed(givens: Sequence[Given], random: Random, language: str) -> tuple[str, str]:
    """What stands before and behind the request, each value with a word that its kind suggests."""
    before = behind = ""
    if paired := pair_of(givens):
        before, behind = say_pair(*paired, random, language)
        givens = [given for given in givens if given not in paired]
    for index, given in enumerate(givens):
        if isinstance(given.value, bool):
            behind += say_flag(given, random, language)
            continue
        phrases = phrases_of(given, language).split("|")
        phrase = random.choice([one for one in phrases if one] or ["{v}"])
        is_last = index == len(givens) - 1
        already = phrase[:1] in '"「“' or '"{v}"' in phrase or "「{v}」" in phrase or "“{v}”" in phrase
        said = str(given.value) if already else say_value(given, random, language, language == "en" and is_last)
        said = phrase.format(v=said)
        if language == "en" and index == 0 and given.kind in PLACED and random.random() < 0.2:
            before = f"{random.choice(['in', 'in', 'for', 'with'])} {given.value}{random.choice([',', '', ':'])} "
        elif language == "ja":
            before += said
        elif language == "zh":
            goes_before = said.endswith("的") or (random.random() < 0.5 and said.startswith(("在", "给", "为", "关于")))
            if goes_before and not before:
                before += said
            else:
                behind += said if said.startswith("，") else f"，{said}" if random.random() < 0.7 else f" {said}"
        else:
            behind += said if said.startswith(":") else f"{random.choice(['', '', ','])} {said}"
    return before, behind


def phrases_of(given: Given, language: str) -> str:
    kind = KINDS[given.kind]
    return SIDES.get(given.side, {"en": kind.english, "ja": kind.japanese, "zh": kind.chinese})[language]


def pair_of(givens: Sequence[Given]) -> tuple[Given, Given] | None:
    """The first two values that belong together, as those of `from` and `to`."""
    found = (pair for pair in pairwise(givens) if pair[0].kind == pair[1].kind and stems_of(pair) in PAIRS)
    return next(found, None)


def stems_of(pair: Sequence[Given]) -> tuple[str, ...]:
    """The first word of each name."""
    return tuple(re.split(r"_|(?<=[a-z])(?=[A-Z])", given.name)[0] for given in pair)


def say_pair(first: Given, second: Given, random: Random, language: str) -> tuple[str, str]:
    """What stands before and behind the request."""
    way = PAIRS[stems_of((first, second))]
    if first.side == PAIR and random.random() < APART_SHARE:
        phrase = random.choice(APART[way][language].split("|"))
        said = phrase.format(*(say_value(given, random, language) for given in (first, second)))
        before, _, behind = said.partition("…")
        return before, behind
    phrase = random.choice(PAIRED[way][language].split("|"))
    said = phrase.format(*(say_value(given, random, language) for given in (first, second)))
    if language == "zh":
        return (f"{said}，", "") if random.random() < 0.5 else ("", f"，{said}")
    return (said, "") if language == "ja" else ("", said)


def dress(core: str, before: str, behind: str, random: Random, language: str, is_fixed: bool = False) -> str:
    """The whole question, with a beginning, an end and the case and marks people use; `fixed` is a core that begins
    with a value, whose case counts."""
    if language != "en":
        opener = random.choice(OPENERS[language].split("|"))
        closer = random.choice(CLOSERS[language].split("|")) if not behind.startswith("\n") else ""
        return opener + before + core + behind + closer
    asks = core.startswith(ASKING)
    opener = random.choice((QUESTION_OPENERS if asks else OPENERS["en"]).split("|"))
    is_open = "\n" in behind or ": " in behind[:3]
    said = opener + before + core + behind + ("" if is_open else random.choice(CLOSERS["en"].split("|")))
    if random.random() < 0.55 and (opener or before or not is_fixed):
        said = said[0].upper() + said[1:]
    mark = "?" if asks else "."
    return said if is_open else said + random.choice([mark, mark, "", "", "", "!" if not asks else "?"])
