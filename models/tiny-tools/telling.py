"""How servers describe their tools and parameters, in one sentence or in three, useful or not. It knows no value."""

from random import Random

from kinds import KINDS
from nouns import Noun
from vocabulary import name, word

PARAMETERS: dict[str, str] = {
    "place": "City and country|Name of a city (e.g., 'Oslo')|IANA timezone name (e.g. 'Europe/Oslo')|Where to look",
    "room": "Room of the house|Which room|Name of the room (e.g., 'hall')",
    "person": "Full name|Who it is for|Login of the user|Name of a member of the team",
    "file": "Path of the file|Absolute path, must exist|Path relative to the root|File to read (e.g., 'a/b.txt')",
    "folder": "Absolute path of the folder|Folder to look in|Path to the work tree|Must end without a slash",
    "url": "Where to fetch it from|Address beginning with https://",
    "mail": "E-mail address|Who gets it|Address such as ann@host.org",
    "date": "ISO 8601 date (e.g., '2024-01-15')|YYYY-MM-DD|First day that counts|Day in the local calendar",
    "time": "24-hour format (HH:MM)|Local time, HH:MM|When it begins",
    "moment": "ISO 8601 date and time|Start in UTC|Accepts: ISO 8601 format (e.g., '2024-01-15T14:30:25')",
    "text": "What to write|Text in plain words|Up to 200 characters|Markdown is allowed",
    "title": "Short name|Shown above the text|Must be unique",
    "query": "What to look for|Words to match against names and texts|Search words, case does not matter",
    "code": "The id that was returned before|Id or short hash|Unique key (e.g., 'AB-12')|Which one",
    "word": "Name of one that exists|Which group it belongs to|Must exist",
    "color": "Name of a colour|English name of a colour",
    "language": "Language to write in|English name of a language",
    "unit": "Unit of the result|Unit to convert into",
    "currency": "ISO 4217 code (e.g., 'EUR')",
    "count": "How many at most|Maximum number of results to return|1 to 1000|If given, returns only so many",
    "percent": "From 0 to 100|Per cent of the whole|0 is closed, 100 is open",
    "minutes": "In minutes|How long|Seconds to wait",
    "number": "Number on the label|Counted from 1|Row number",
    "year": "Four digits|Year of origin",
    "amount": "In degrees|In the unit of the account|May be negative|With a decimal point",
    "flag": "Only show what would happen|Whether to go into subfolders|If true, nobody is told|Preview only",
    "choice": "How it is to be|One of these|Order of the result",
    "words": "One or more|Names of those that are wanted|Patterns to leave out",
    "people": "Who takes part|Names of the guests",
    "files": "Paths of the files|Each must be a path within the root",
}
SENTENCES = [
    "Use with caution.",
    "Returns text.",
    "Only works within allowed folders.",
    "The {n} must exist.",
    "Each {n} has a name and an id.",
    "DEPRECATED: Use {w} instead.",
    "Useful when you want to know about {s}.",
    "Needs no login.",
    "Fails if there is no such {n}.",
    "This is faster than asking for each {n} alone.",
    "{N} must be an active voice.",
    "Returns a list of {s} with their {w}.",
    "Cannot be undone.",
    "Handles several {s} at once.",
    "See also {w}_{n}.",
    "Includes {s} of {m}.",
    "Works offline, including {w}.",
]


def describe_parameter(kind: str, random: Random) -> str:
    """What a schema says of a parameter."""
    if random.random() < 0.7 and kind in PARAMETERS:
        return random.choice(PARAMETERS[kind].split("|"))
    known = random.choice(KINDS[kind].names.split()).replace("_", " ")
    return random.choice(["The {}", "{} to use", "Which {}", "{}", "The {} to look at"]).format(known).capitalize()


def go_on(about: str, noun: Noun, random: Random) -> str:
    """A description with more sentences behind it, as long ones have."""
    said = about.rstrip(".")
    for _ in range(random.choice([1, 1, 2])):
        sentence = random.choice(SENTENCES).format(
            n=noun.english, N=noun.english.capitalize(), s=noun.plural, w=word(random), m=name(random)
        )
        said += f". {sentence.rstrip('.')}"
    return said + random.choice(["", "."])
