"""Configuration files that are too large, or that a naive parser takes minutes for, are rejected at once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cpu_time import limit_cpu
from rkllm_chat.config.loader import read_settings
from rkllm_chat.config.settings import read_toml
from rkllm_chat.core.errors import ConfigError

KB = 1024
MOST_CPU_S = 5
"""A fair machine takes below 0.1 s for each; quadratic work takes minutes."""


def fill(piece: str, size: int = 250 * KB) -> str:
    return piece * (size // len(piece))


LONG = {
    "a key of 20,000 parts": "a" + ".a" * 20_000 + " = 1",
    "a table of 20,000 parts": "[a" + ".a" * 20_000 + "]",
    "quotes that never end": fill('\\"""\n') + "." * 20,
    "one quote on each line": fill('\\"\n') + "." * 20,
    "5,000 nested arrays": "x = " + "[" * 5_000 + "]" * 5_000,
    "variables that never end": '[chat]\nsystem = "' + fill("${A:-") + '"',
    "6,000 servers": "".join(f'[[servers]]\nname = "s{i}"\ncommand = "x"\n' for i in range(6_000)),
    "5,500 keys of 16 dots": "".join(f"a{'.a' * 16}{i} = 1\n" for i in range(5_500)),
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_hostile_file_is_read_or_rejected_in_bounded_time(text: str) -> None:
    try:
        with limit_cpu(MOST_CPU_S):
            read_toml(text, "here.toml", {})
    except ConfigError as error:
        assert error.message.startswith("here.toml: ")


@pytest.mark.parametrize("end", ['"""', '""""', "'''", "''''"])
def test_a_dotted_key_between_texts_that_end_in_many_quotes_is_found(end: str) -> None:
    text = f"x = {{a = {end[:3]}b{end}, b{'.b' * 2_000} = 1, c = {end[:3]}d{end}}}"
    with pytest.raises(ConfigError, match="more than 16 dots"):
        read_toml(text, "here.toml", {})


@pytest.mark.parametrize("name", ["c.toml", "c.json"])
def test_a_file_that_is_too_large_is_not_read_to_its_end(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a file with holes: a terabyte that takes no room
    with pytest.raises(ConfigError, match="larger than 256 KiB"):
        read_settings(path, {})
    with pytest.raises(ConfigError, match="larger than 256 KiB"):
        read_toml("#" + "京" * 100 * KB, "here.toml", {})  # bytes count, not characters


def test_an_endless_file_is_left_after_256_kib(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    os.mkfifo(path, 0o600)
    command = ["sh", "-c", 'exec cat /dev/zero >"$0"', str(path)]  # it ends when nobody reads any more
    with subprocess.Popen(command), pytest.raises(ConfigError, match="larger than 256 KiB"):
        read_settings(path, {})
