"""Words and phrasings of a module, from its file in `words/`: texts parted by bars, of which one is drawn."""

from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib


def load_words(name: str) -> dict[str, Any]:
    """The tables of `words/NAME.toml`."""
    return tomllib.loads((Path(__file__).with_name("words") / f"{name}.toml").read_text(encoding="utf-8"))
