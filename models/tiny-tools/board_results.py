# Long word lists are easier to read and to add to as one text that is split.

"""What the board server answers, made up: its wording, with random figures, names and texts.

Sums and place names go through the board's own code; everything else would say the same on every machine.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from rkllm_chat.mcp_servers.board import calculator as sums
from rkllm_chat.mcp_servers.board import time_zones as places
from vocabulary import ZONES, file_path, japanese_name, name, stem, word
from words import load_words

WORDS = load_words("board_results")
SENSORS = WORDS["sensors"]
SENTENCES = WORDS["sentences"]


def board_result(tool: str, arguments: Mapping[str, Any], random: Random) -> tuple[str, bool]:
    """The text of a plausible result, and whether the call worked."""
    if random.random() < 0.04:
        return f"There is no '{file_path(random)}'.", False
    return RESULTS[tool](arguments, random)


def time(arguments: Mapping[str, Any], random: Random) -> tuple[str, bool]:
    place = arguments["place"]
    zone = places.find_zone(place)
    if zone is None and random.random() < 0.25:
        near = f" Near: {name(random)}, {name(random)}." if random.random() < 0.4 else ""
        return f"No time zone is called '{place}'.{near}", False
    zone = zone or random.choice(ZONES)
    now = datetime.fromtimestamp(random.randint(1_600_000_000, 2_200_000_000), ZoneInfo(zone))
    offset = now.strftime("%z")
    text = f"It is {now:%H:%M} on {now:%A}, {now.day} {now:%B %Y} in {place} ({zone}, UTC{offset[:3]}:{offset[3:]})."
    return text, True


def temperature(_arguments: Mapping[str, Any], random: Random) -> tuple[str, bool]:
    if random.random() < 0.2:
        return "This machine has no temperature sensor that can be read.", False
    sensors = random.sample(SENSORS, random.randint(1, 4))
    return f"Temperature: {', '.join(f'{sensor} {random.uniform(20, 99):.1f} °C' for sensor in sensors)}.", True


def memory(_arguments: Mapping[str, Any], random: Random) -> tuple[str, bool]:
    text = f"{gigabytes(random)} of {gigabytes(random)} memory is free"
    swap = f", {gigabytes(random)} of {gigabytes(random)} swap is used." if random.random() < 0.5 else "."
    return text + swap, True


def disk(arguments: Mapping[str, Any], random: Random) -> tuple[str, bool]:
    path = arguments.get("path", "/")
    if path != "/" and random.random() < 0.2:
        return f"There is no '{path}'.", False
    return f"{gigabytes(random)} of {gigabytes(random)} is free on {path}.", True


def load(_arguments: Mapping[str, Any], random: Random) -> tuple[str, bool]:
    loads = [random.uniform(0, random.choice([1, 4, 20])) for _ in range(3)]
    up = f"up {random.randint(1, 400)} days {random.randint(0, 23)} hours"
    if random.random() < 0.5:
        up = f"up {random.randint(0, 23)} hours {random.randint(0, 59)} minutes"
    figures = f"{loads[0]:.2f} (1 min), {loads[1]:.2f} (5 min), {loads[2]:.2f} (15 min)"
    return f"Load {figures} on {random.choice([1, 2, 4, 6, 8, 16, 32])} cores, {up}.", True


def npu(_arguments: Mapping[str, Any], random: Random) -> tuple[str, bool]:
    if random.random() < 0.35:
        return "There is no NPU here.", False
    cores = ", ".join(f"core {core} {random.randint(0, 100)} %" for core in range(random.choice([1, 2, 3])))
    frequency = f"{random.randint(100, 1200)} MHz" if random.random() < 0.85 else "unknown"
    return f"NPU load: {cores if random.random() < 0.7 else 'only root can read it'}; frequency: {frequency}.", True


def calculation(arguments: Mapping[str, Any], _random: Random) -> tuple[str, bool]:
    try:
        return f"{arguments['expression']} = {sums.calculate(arguments['expression'])}", True
    except sums.CalculationError as error:
        return str(error), False


def listing(arguments: Mapping[str, Any], random: Random) -> tuple[str, bool]:
    path = arguments.get("path", ".")
    if random.random() < 0.12:
        return random.choice(["'{0}' is not a folder.", "There is no '{0}'."]).format(path), False
    if random.random() < 0.06:
        return "The folder is empty.", True
    names = sorted(
        f"{stem(random)}/" if random.random() < 0.3 else file_path(random).rpartition("/")[2]
        for _ in range(random.choice([1, 2, 3, 4, 5, 6, 8, 12]))
    )
    return "\n".join(names), True


def reading(arguments: Mapping[str, Any], random: Random) -> tuple[str, bool]:
    if random.random() < 0.15:
        reason = random.choice(["'{0}' is not a file.", "There is no '{0}'.", "'{0}' is not a text file."])
        return reason.format(arguments["path"]), False
    if random.random() < 0.04:
        return "The file is empty.", True
    return text_of_lines(min(arguments.get("lines", 99), random.choice([1, 1, 2, 3, 4, 6, 10, 18])), random), True


def text_of_lines(lines: int, random: Random) -> str:
    """A text such as files hold: sentences, items, settings, blank lines between."""
    text = ""
    for _ in range(max(lines, 1)):
        sentence = random.choice(SENTENCES)
        while "{" in sentence:
            sentence = sentence.replace("{word}", word(random), 1).replace("{name}", name(random), 1)
            sentence = sentence.replace("{japanese}", japanese_name(random), 1)
            sentence = sentence.replace("{number}", str(random.randint(0, 9999)), 1)
        text += sentence + ("\n\n" if random.random() < 0.1 else "\n")
    return text.rstrip("\n")


def gigabytes(random: Random) -> str:
    return f"{random.uniform(0, random.choice([2, 10, 100, 1000])):.1f} GB"


RESULTS: dict[str, Callable[[Mapping[str, Any], Random], tuple[str, bool]]] = {
    "get_time": time,
    "get_temperature": temperature,
    "get_memory": memory,
    "get_disk": disk,
    "get_load": load,
    "get_npu": npu,
    "calculate": calculation,
    "list_files": listing,
    "read_file": reading,
}
