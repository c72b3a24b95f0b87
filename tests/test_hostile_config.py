"""Configuration files that are made to take for ever, or to be more than they look: refused at once."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from rkllm_chat.config import read_toml
from rkllm_chat.discover import read_settings
from rkllm_chat.errors import ConfigError
from targets import Tell

KB = 1024
HANG_S = 5.0
"""A fair machine takes below 0.1 s for each; quadratic work takes minutes."""


def fill(piece: str, size: int = 250 * KB) -> str:
    return piece * (size // len(piece))


LONG = {
    "a key of 20,000 parts": "a" + ".a" * 20_000 + " = 1",
    "a table of 20,000 parts": "[a" + ".a" * 20_000 + "]",
    "quotes that never end": fill('\\"""\n') + "." * 20,
    "single quotes that never end": fill("\\'''\n") + "." * 20,
    "one quote on each line": fill('\\"\n') + "." * 20,
    "comments with quotes": fill('# """ .\n'),
    "5,000 nested arrays": "x = " + "[" * 5_000 + "]" * 5_000,
    "5,000 nested tables": "x = " + "{a = " * 5_000 + "1" + "}" * 5_000,
    "variables that never end": '[chat]\nsystem = "' + fill("${A:-") + '"',
    "variables that never end, and one that does": '[chat]\nsystem = "${A:-}' + fill("${A:-") + '"',
    "6,000 servers": "".join(f'[[servers]]\nname = "s{i}"\ncommand = "x"\n' for i in range(6_000)),
    "5,500 keys of 16 dots": "".join(f"a{'.a' * 16}{i} = 1\n" for i in range(5_500)),
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_file_that_is_made_to_take_for_ever_is_judged_at_once(text: str, figure: Tell) -> None:
    begun, begun_cpu = time.monotonic(), time.process_time()
    try:
        read_toml(text, "here.toml", {})
    except ConfigError as error:
        assert error.message.startswith("here.toml: ")
    if len(text) < 64 * KB:
        figure(15, time.process_time() - begun_cpu)
    assert time.monotonic() - begun < HANG_S


@pytest.mark.parametrize("quotes", ['"""', "'''"])
@pytest.mark.parametrize("more", ["", '"', "'"])
def test_a_dotted_key_cannot_hide_between_texts_that_end_in_many_quotes(quotes: str, more: str) -> None:
    more = more and quotes[0]
    text = f"x = {{a = {quotes}b{quotes}{more}, b{'.b' * 2_000} = 1, c = {quotes}d{quotes}{more}}}"
    with pytest.raises(ConfigError, match="more than 16 dots"):
        read_toml(text, "here.toml", {})


@pytest.mark.parametrize("name", ["c.toml", "c.json"])
def test_of_a_file_that_is_too_large_no_more_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a file with holes: a terabyte that takes no room
    with pytest.raises(ConfigError, match="larger than 256 KiB"):
        read_settings(path, {})


def test_a_file_without_an_end_is_left_after_256_kib(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    os.mkfifo(path, 0o600)
    command = ["sh", "-c", 'exec cat /dev/zero >"$0"', str(path)]  # it ends when nobody reads any more
    with subprocess.Popen(command), pytest.raises(ConfigError, match="larger than 256 KiB"):
        read_settings(path, {})


def test_the_limit_counts_bytes() -> None:
    with pytest.raises(ConfigError, match="larger than 256 KiB"):
        read_toml("#" + "京" * 100 * KB, "here.toml", {})
