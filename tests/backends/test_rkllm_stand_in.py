"""The stand-in for Rockchip's library has the published interface and rejects what the library rejects.

That its replies are those of a model is proved by the tests of the backend, which run on it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from altered import with_number
from rkllm_runtime.build import HERE, RELEASES, TABLE, compile_c, family_flags, layouts_of
from rkllm_runtime.driver import FINISH, NONE, NORMAL, Caller

LIMIT_S = 5
HELLO = "Hello!"
LONG = "word " * 600
Compiled = Callable[[str], Path]
Open = Callable[..., Caller]
ReadLog = Callable[[], str]
families = pytest.mark.parametrize("family", RELEASES)


@pytest.fixture
def opened(compiled: Compiled, shipped_model: Path) -> Iterator[Open]:
    """Opens a handle on the library of a family; destroys it at the end."""
    callers: list[Caller] = []

    def open_one(family: str = "G", model: Path = shipped_model, **param: Any) -> Caller:
        callers.append(Caller(family, compiled(family), model, **param))
        return callers[-1]

    yield open_one
    assert [caller.close() for caller in callers] == [0] * len(callers)


@pytest.fixture
def read_log(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What the library has logged since the last time, prompts included."""
    monkeypatch.setenv("RKLLM_LOG_LEVEL", "2")
    return lambda: capfd.readouterr().out


@families
def test_the_header_has_the_published_layouts_and_signatures(family: str, tmp_path: Path) -> None:
    layouts, published = layouts_of(family, tmp_path), TABLE[family]
    keys = ("size", "align", "fields")
    assert layouts["structs"] == {
        name: {key: struct[key] for key in keys} for name, struct in published["structs"].items()
    }
    assert layouts["enums"] == published["enums"]
    source = tmp_path / "published.c"
    # a second declaration that differs is an error in C
    lines = ['#include "rkllm.h"', *published["callbacks"], *published["functions"]]
    source.write_text("\n".join(lines), encoding="utf-8")
    compile_c(*family_flags(family), "-fsyntax-only", "-I", str(HERE), str(source))


@families
def test_a_library_exports_what_its_release_does_and_names_it(family: str, compiled: Compiled) -> None:
    command = ["nm", "-D", "--defined-only", "--format=posix", str(compiled(family))]
    listed = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=LIMIT_S).stdout
    published = {found[0] for line in TABLE[family]["functions"] if (found := re.findall(r"rkllm_\w+", line))}
    assert {line.split()[0] for line in listed.splitlines()} == published
    found = re.findall(rb"RKLLM SDK \(version: ([\w.]+)", compiled(family).read_bytes())
    assert [name.decode() for name in found] == [RELEASES[family]]


@families
def test_the_default_parameters_are_those_documented(family: str, opened: Open, tmp_path: Path) -> None:
    caller = opened(family, tmp_path / "no.gguf")
    values = caller.read("RKLLMParam", caller.default)
    documented = {"top_k": 40, "top_p": 0.9, "temperature": 0.8, "repeat_penalty": 1.1, "mirostat_tau": 5.0}
    if family >= "D":
        documented["n_keep"] = -1
        extended = caller.read("RKLLMExtendParam", values["extend_param"])
        wanted = {"base_domain_id": 0, "enabled_cpus_num": 4} | ({"n_batch": 1} if family >= "F" else {})
        assert {name: extended[name] for name in wanted} == wanted
    assert {name: values[name] for name in documented} == documented


@pytest.mark.model
def test_a_prompt_longer_than_the_context_is_rejected(opened: Open, read_log: ReadLog) -> None:
    caller = opened(max_context_len=256)
    assert (caller.run(LONG), caller.states) == (-1, [])
    line = r"E rkllm: the length of prompt is greater than max context \(prompt: \d{4} tokens, max context: 256\)\n"
    assert re.search(line, read_log())
    assert caller.run(HELLO) == 0 and caller.states[-1] == FINISH


CPUS = "The number of enabled CPUs must be greater than or equal to"
CORES = "the number of NPU cores"


@pytest.mark.model
@pytest.mark.parametrize(
    ("family", "param", "line"),
    [
        ("G", {"max_context_len": 4096}, "max_context[4096] must be less than the model's max_context_limit[2048]"),
        ("G", {"model_path": "/nowhere.rkllm"}, "failed to open model file: /nowhere.rkllm"),
        ("G", {"model_path": __file__}, "invalid rknn llm model magic"),
        ("G", {"extend_param": {"n_batch": 0}}, "The n_batch must be between 1 and 100, but got 0"),
        ("G", {"extend_param": {"enabled_cpus_num": 2, "enabled_cpus_mask": 0x30}}, f"{CPUS} {CORES}"),
        ("G", {"extend_param": {"enabled_cpus_mask": 0x30}}, "Mismatch between enabled CPUs mask and expected count"),
        ("G", {"extend_param": {"reserved": 1}}, "reserved[0] is not 0"),
        ("G", {"frequency_penalty": -3e-16}, "frequency_penalty is not set"),
        ("F", {"img_end": 0}, "img_start, img_end and img_content must not be NULL"),
    ],
)
def test_a_wrong_parameter_is_rejected(
    family: str, param: dict[str, Any], line: str, opened: Open, read_log: ReadLog
) -> None:
    caller = opened(family, **param)
    assert (caller.status, caller.handle.value) == (-1, None)
    assert read_log().endswith(f"E rkllm: {line}\n")


# What people with boards measured of the real library, as far as the tests above do not show it.


def figures_in(log: str) -> list[tuple[int, int]]:
    """Tokens of prefill and of generation, as the library counts them, for each run."""
    found = re.findall(r"I rkllm: (prefill|generate): [\d.]+ ms, (\d+) tokens", log)
    return [(int(prefill[1]), int(generation[1])) for prefill, generation in zip(found[::2], found[1::2], strict=True)]


@pytest.mark.model
def test_counts_are_of_new_tokens_and_of_tokens_after_the_first(opened: Open, read_log: ReadLog) -> None:
    caller = opened(max_new_tokens=5)
    for text in (HELLO, HELLO, f"{HELLO} More?"):
        assert caller.run(text) == 0
    (first, *_), again, (more, _) = figures_in(read_log())
    assert first > 0 and again == (0, 4) and 0 < more < first


@pytest.mark.model
@pytest.mark.parametrize("keep_system_prompt", [0, 1])
def test_clearing_loses_all(keep_system_prompt: int, opened: Open, read_log: ReadLog) -> None:
    caller = opened()
    caller.run(HELLO)
    caller.call("rkllm_clear_kv_cache", keep_system_prompt, NONE, NONE)
    caller.run(HELLO)
    (first, _), (again, _) = figures_in(read_log())
    assert again == first > 0


@pytest.mark.model
def test_a_full_context_is_shifted_without_a_word(opened: Open, read_log: ReadLog) -> None:
    caller = opened(max_context_len=64, max_new_tokens=300, ignore_eos_token=True)
    assert (caller.run(HELLO), caller.states.count(FINISH), caller.states[-1]) == (0, 1, FINISH)
    said = read_log()
    assert figures_in(said)[0][1] == 299 and "\nE " not in said and "\nW " not in said


@pytest.mark.model
def test_a_hidden_token_comes_without_text(opened: Open) -> None:
    caller = opened()
    caller.run(HELLO)
    assert caller.texts[0] == b"Hello" and caller.texts[-2:] == [b"", None]
    assert caller.states[-2:] == [NORMAL, FINISH]


@pytest.mark.model
def test_the_answer_of_a_tool_must_be_json(opened: Open, read_log: ReadLog) -> None:
    caller = opened()
    assert (caller.run("rain", role="tool"), caller.states) == (-1, [])
    assert read_log().endswith("E rkllm: the answer of a tool must be a JSON string\n")
    assert caller.run('[{"weather": "rain"}]', role="tool") == 0


@pytest.mark.model
def test_a_second_bos_is_not_forgiven_and_raw_text_gets_none(
    opened: Open, read_log: ReadLog, shipped_model: Path, tmp_path: Path
) -> None:
    model = tmp_path / "bos.rkllm"
    model.write_bytes(with_number(shipped_model.read_bytes(), "tokenizer.ggml.add_bos_token", True, 7))
    caller = opened(model=model)
    empty = b"\0"
    caller.run(HELLO)
    assert re.search(r"prompt tokens: \[1, 1, ", read_log()), "BOS and the template's <|im_start|> have the same number"
    caller.call("rkllm_set_chat_template", empty, empty, empty)
    caller.run("<|im_start|>user")
    assert re.search(r"prompt tokens: \[1, (?!1,)", read_log())


@pytest.mark.model
@pytest.mark.parametrize(("fault", "count"), [("", 2), ("sticky_abort", 1)])
def test_an_abort_before_a_run_counts_for_nothing_or_ends_it(
    fault: str, count: int, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RKLLM_STANDIN_FAULT", fault)
    caller = opened()
    caller.call("rkllm_abort")
    runs = [(caller.run(HELLO), caller.texts[0], caller.states[-1]) for _ in range(2)]
    assert [text for _, text, _ in runs].count(b"Hello") == count
    assert {(status, state) for status, _, state in runs} == {(0, FINISH)}
