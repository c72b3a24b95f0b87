"""A damaged GGUF is an error with file, cause and what to try: native code does not end the program."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from altered import with_field, with_number, with_pooling, with_template
from llama_faults.build import build_dying_llama
from rkllm_chat.backends.llama.gguf_header import read_gguf_header
from rkllm_chat.backends.llama.trial_load import find_contradiction
from rkllm_chat.core.errors import ModelError
from stage import OpenScreen, Run
from vision_models import write_projector

pytestmark = pytest.mark.model
NUMBERS = (
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
    "vocab_size",
    "context_length",
)
VALUES = (0, 1, 3, 7, 63, 255, 65_536, 2**31 - 1, 2**32 - 1)
MUTATIONS = 500
VOCABULARY = "tokenizer.ggml.model"


def with_size(gguf: bytes, key: str, value: int) -> bytes:
    """The file with a number of its architecture changed."""
    return with_number(gguf, f"qwen3.{key}", value)


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no layers": (lambda gguf: with_size(gguf, "block_count", 0), "it claims 0 layers"),
    "too many layers": (lambda gguf: with_size(gguf, "block_count", 65_536), "it claims 65536 layers"),
    "layers without tensors": (lambda gguf: with_size(gguf, "block_count", 9), "has tensors of 8"),
    "a negative context": (lambda gguf: with_size(gguf, "context_length", 2**32 - 1), "its context_length is 42949"),
    "a vocabulary without bytes": (lambda gguf: with_field(gguf, VOCABULARY, "llama"), "was ended by SIGABRT"),
    "a pooling that there is not": (lambda gguf: with_pooling(gguf, 77), ""),
    "an exception of llama.cpp": (lambda gguf: with_size(gguf, "vocab_size", 7), ""),
    "cut off in its header": (lambda gguf: gguf[:20_000], "it ends within its header"),
    "2^60 keys": (lambda gguf: gguf[:16] + struct.pack("<Q", 2**60) + gguf[24:], "keys"),
    "a text of 2^62 bytes": (lambda gguf: gguf[:24] + struct.pack("<Q", 2**62) + gguf[32:], "bytes"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_header_is_one_line_of_error(damage: str, shipped_model: Path, folder: Path, program: Run) -> None:
    change, cause = DAMAGES[damage]
    (folder / "model.gguf").write_bytes(change(shipped_model.read_bytes()))
    done = program("--no-servers", "--model", "model.gguf", "-p", "Hello!", "--max-tokens", "2", code=None)
    if cause:
        assert done.returncode == 5 and done.stderr.count("\n") == 1
        assert "model.gguf: " in done.stderr and cause in done.stderr
    else:
        assert done.returncode in (0, 5)


def test_no_debugger_is_started_where_llama_cpp_aborts(
    shipped_model: Path, folder: Path, program: Run, environment: dict[str, str]
) -> None:
    """llama.cpp starts gdb for a backtrace, in the current folder."""
    debugger = folder / "gdb"
    debugger.write_text(f"#!/bin/sh\ntouch {folder}/debugged\n", encoding="utf-8")
    debugger.chmod(0o755)
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    (folder / "model.gguf").write_bytes(with_size(shipped_model.read_bytes(), "rope.dimension_count", 63))
    done = program("--no-servers", "--model", "model.gguf", "-p", "Hello!", code=5)
    assert "was ended by SIGABRT" in done.stderr and not (folder / "debugged").exists()


@pytest.mark.slow
def test_a_vocabulary_that_gives_tokens_without_end_is_refused_before_memory_runs_out(
    shipped_model: Path, folder: Path, program: Run
) -> None:
    (folder / "model.gguf").write_bytes(with_field(shipped_model.read_bytes(), VOCABULARY, "rwkv"))
    done = program("--no-servers", "--model", "model.gguf", "-p", "Hello!", code=5)
    assert "was ended by SIGVTALRM" in done.stderr


def test_a_prompt_without_tokens_is_one_line_of_error(shipped_model: Path, folder: Path, program: Run) -> None:
    (folder / "model.gguf").write_bytes(with_template(shipped_model.read_bytes(), ""))
    done = program("--no-servers", "--model", "model.gguf", "-p", "Hello!", code=1)
    assert "no tokens in the vocabulary" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_damaged_projector_is_one_line_of_error_also_after_a_sound_one(
    shipped_model: Path, folder: Path, program: Run
) -> None:
    (folder / "model.gguf").write_bytes(shipped_model.read_bytes())
    projector = write_projector(folder / "mmproj-model.gguf")
    asked = ("--no-servers", "--model", "model.gguf", "-p", "Hello!", "--max-tokens", "2")
    assert program(*asked).stdout
    projector.write_bytes(with_number(projector.read_bytes(), "clip.vision.embedding_length", 1))
    done = program(*asked, code=5)
    assert "with mmproj-model.gguf" in done.stderr and "was ended by SIGABRT" in done.stderr
    assert done.stderr.count("\n") == 1


def test_two_million_keys_are_refused_at_once(folder: Path, program: Run) -> None:
    entry = struct.pack("<Q", 1) + b"k" + struct.pack("<IB", 7, 1)
    (folder / "model.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 2_000_000) + entry * 2_000_000)
    done = program("--no-servers", "--model", "model.gguf", "-p", "Hello!", code=5)
    assert "it claims 2000000 keys" in done.stderr


def test_a_pipe_in_the_place_of_a_model_is_not_waited_for(folder: Path, program: Run) -> None:
    os.mkfifo(folder / "model.gguf")
    assert "not a regular file" in program("--no-servers", "--model", "model.gguf", "-p", "Hello!", code=5).stderr


def test_a_sound_file_is_tried_once_and_works(
    shipped_model: Path, folder: Path, program: Run, environment: dict[str, str]
) -> None:
    (folder / "model.gguf").write_bytes(shipped_model.read_bytes())
    records = Path(environment["HOME"], ".local/state/rkllm-chat/loaded-models")
    shutil.rmtree(records)
    seen: list[tuple[str, int, str]] = []
    for _ in range(2):
        reply = program("--no-servers", "--model", "model.gguf", "-p", "Hello!").stdout
        seen += [(record.name, record.stat().st_mtime_ns, reply) for record in records.iterdir()]
    assert len(seen) == 2 and seen[0] == seen[1] and seen[0][2]


@pytest.mark.parametrize(
    ("name", "advice"), [("SIGILL", "GGML_NATIVE=OFF"), ("SIGALRM", "ten minutes"), ("SIGKILL", "memory was probably")]
)
def test_a_library_that_dies_here_is_an_error_with_the_bundled_model_too(
    name: str, advice: str, folder: Path, program: Run
) -> None:
    """As a build for another processor does, or one that the system ends when memory runs out."""
    library = folder / "libllama.so"
    build_dying_llama(library, name)
    (folder / "own.toml").write_text(f'[chat]\nllama_library = "{library}"\n', encoding="utf-8")
    done = program("--config", "own.toml", "--no-servers", "-p", "Hello!", code=5)
    assert f"llama.cpp was ended by {name}" in done.stderr and advice in done.stderr


def test_the_chat_ends_with_the_cause_and_leaves_the_terminal_as_it_was(
    shipped_model: Path, folder: Path, open_screen: OpenScreen
) -> None:
    (folder / "model.gguf").write_bytes(with_size(shipped_model.read_bytes(), "rope.dimension_count", 63))
    screen = open_screen("--no-servers", "--model", "model.gguf")
    screen.wait_for("was ended by SIGABRT")
    assert screen.wait_for_end() == 5


PLACEHOLDERS = "\ue00099999\ue001{% for m in messages %}{{m.content}}{{m.content | replace('0', '777')}}{% endfor %}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value"),
    [("general.sampling.temp", "abc"), ("general.sampling.temp", -1.0), ("tokenizer.chat_template", PLACEHOLDERS)],
    ids=["text", "negative", "template"],
)
def test_values_that_nothing_can_mean_are_left_out(
    key: str, value: str | float, shipped_model: Path, folder: Path, program: Run
) -> None:
    (folder / "model.gguf").write_bytes(with_field(shipped_model.read_bytes(), key, value))
    assert program("--no-servers", "--model", "model.gguf", "-p", "Hello!").stdout


def mutate(gguf: bytes, seed: int, header_bytes: int) -> bytes:
    """The file with some bytes of its header, or one number of its architecture, changed at random."""
    chance = random.Random(seed)
    if chance.random() < 0.5:
        return with_size(gguf, chance.choice(NUMBERS), chance.choice(VALUES))
    changed = bytearray(gguf)
    for _ in range(chance.choice((1, 1, 2, 8))):
        changed[chance.randrange(4, header_bytes)] = chance.randrange(256)
    return bytes(changed)


@pytest.mark.slow
def test_no_mutated_header_ends_the_reader_or_costs_much(shipped_model: Path, tmp_path: Path) -> None:
    gguf, path = shipped_model.read_bytes(), tmp_path / "model.gguf"
    header_bytes = gguf.index(b"token_embd.weight") + 4000
    refused = 0
    for seed in range(MUTATIONS):
        path.write_bytes(mutate(gguf, seed, header_bytes)[: header_bytes + 100_000])
        try:
            refused += bool(find_contradiction(read_gguf_header(path)))
        except ModelError as error:
            assert str(path) in error.message
            refused += 1
    assert 0 < refused < MUTATIONS


TRY_ALL = """
import json, sys
from pathlib import Path
from rkllm_chat.backends.llama.backend import open_llama
from rkllm_chat.config.settings import Settings
from rkllm_chat.core.errors import ModelError
outcomes = []
for name in sys.argv[1:]:
    try:
        open_llama(Settings(model=name, context_tokens=256))
        outcomes.append("ok")
    except ModelError as error:
        outcomes.append(str(error))
print(json.dumps(outcomes))
"""


@pytest.mark.slow
def test_no_mutated_file_ends_the_process(shipped_model: Path, folder: Path, environment: dict[str, str]) -> None:
    gguf = shipped_model.read_bytes()
    header_bytes = gguf.index(b"token_embd.weight") + 4000
    names = [f"{seed}.gguf" for seed in range(10)]
    for seed, name in enumerate(names):
        (folder / name).write_bytes(mutate(gguf, seed, header_bytes))
    command = [sys.executable, "-c", TRY_ALL, *names]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    outcomes = json.loads(done.stdout.splitlines()[-1])
    assert len(outcomes) == len(names) and all(outcome == "ok" or ".gguf" in outcome for outcome in outcomes)
