"""The stand-in for Rockchip's library: its interface is the published one, and it does what is said of the real one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.backends.llama import Llama
from rkllm_chat.config import Generation
from rkllm_chat.messages import Message
from rkllm_runtime import driver
from rkllm_runtime.build import HERE, RELEASES, compile_c, family_flags, layouts_of
from rkllm_runtime.driver import ERROR, FINISH, NONE, NORMAL, TABLE, WAITING, Caller, Run, Said

LIMIT_S = 5
SYSTEM = "You are a helpful assistant."
HELLO = "Hello!"
END = "<|im_end|>"
LONG = "word " * 600
MOST = 60
TOOLS = '[{"type": "function", "function": {"name": "get_time"}}]'
Compiled = Callable[[str], Path]
Open = Callable[..., Caller]
families = pytest.mark.parametrize("family", RELEASES)


def chatml(*turns: tuple[str, str]) -> str:
    return "".join(f"<|im_start|>{role}\n{text}{END}\n" for role, text in turns) + "<|im_start|>assistant\n"


def prompt_of(family: str, text: str) -> str:
    """What a first user turn is sent as: 1.1.x has no template."""
    return chatml(("system", SYSTEM), ("user", text)) if family == "C" else text


@pytest.fixture
def opened(compiled: Compiled, shipped_model: Path) -> Iterator[Open]:
    """Opens a handle on the library of a family; destroys it at the end."""
    callers: list[Caller] = []

    def open_one(family: str = "G", model: Path = shipped_model, **param: Any) -> Caller:
        callers.append(Caller(family, compiled(family), model, **param))
        return callers[-1]

    yield open_one
    assert [caller.close() for caller in callers] == [0] * len(callers)


@pytest.fixture(scope="module")
def through_llama(shipped_model: Path) -> Callable[[str], str]:
    """The greedy reply of llama.cpp to a user's text."""

    async def reply(text: str) -> str:
        backend = Llama(shipped_model, 2048)
        messages = [Message("system", SYSTEM), Message("user", text)]
        async with aclosing(backend.stream(messages, Generation(temperature=0, max_tokens=40))) as items:
            pieces = [item async for item in items if isinstance(item, str)]
        await backend.aclose()
        return "".join(pieces)

    return cache(lambda text: asyncio.run(reply(text)))


@families
def test_the_header_has_the_published_layouts(family: str, tmp_path: Path) -> None:
    layouts, published = layouts_of(family, tmp_path), TABLE[family]
    keys = ("size", "align", "fields")
    assert layouts["structs"] == {
        name: {key: struct[key] for key in keys} for name, struct in published["structs"].items()
    }
    assert layouts["enums"] == published["enums"]


@families
def test_the_header_has_the_published_signatures(family: str, tmp_path: Path) -> None:
    source = tmp_path / "published.c"
    published = TABLE[family]
    # a second declaration that differs is an error in C
    lines = ['#include "rkllm.h"', *published["callbacks"], *published["functions"]]
    source.write_text("\n".join(lines), encoding="utf-8")
    compile_c(*family_flags(family), "-fsyntax-only", "-I", str(HERE), str(source))


def test_another_signature_than_the_published_one_does_not_compile(tmp_path: Path) -> None:
    source = tmp_path / "published.c"
    init = next(line for line in TABLE["F"]["functions"] if "rkllm_init" in line)
    source.write_text(f'#include "rkllm.h"\n{init}', encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"conflicting types for .rkllm_init"):
        compile_c(*family_flags("G"), "-fsyntax-only", "-I", str(HERE), str(source))


@families
def test_a_library_exports_what_its_release_does_and_nothing_else(family: str, compiled: Compiled) -> None:
    command = ["nm", "-D", "--defined-only", "--format=posix", str(compiled(family))]
    listed = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=LIMIT_S).stdout
    published = {found[0] for line in TABLE[family]["functions"] if (found := re.findall(r"rkllm_\w+", line))}
    assert {line.split()[0] for line in listed.splitlines()} == published


@families
def test_a_library_names_its_release(family: str, compiled: Compiled) -> None:
    found = re.findall(rb"RKLLM SDK \(version: ([\w.]+)", compiled(family).read_bytes())
    assert [name.decode() for name in found] == [RELEASES[family]]


@families
def test_the_default_parameters_are_the_documented_ones(family: str, opened: Open, tmp_path: Path) -> None:
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
@families
def test_a_reply_is_the_one_of_llama_cpp(family: str, opened: Open, through_llama: Callable[[str], str]) -> None:
    caller = opened(family)
    for text in (HELLO, "What time is it in Tokyo?", "12 * 34 ＝ いくつですか。"):
        run = caller.run(prompt_of(family, text))
        assert (run.status, run.text) == (0, through_llama(text))
        assert set(run.states[:-1]) <= {NORMAL, WAITING} and run.states[-1] == FINISH


@pytest.mark.model
def test_figures_count_what_was_evaluated(opened: Open) -> None:
    caller = opened(max_new_tokens=4)
    first, again = caller.run(HELLO), caller.run(HELLO)
    assert first.prefilled > 1
    # the last token is always evaluated: its logits are what is sampled from
    assert (first.generated, again.generated, again.prefilled) == (4, 4, 1)
    # the token said last is not held
    assert caller.held() == first.prefilled + 3


@pytest.mark.model
def test_a_prompt_that_grows_costs_its_new_tokens_only(opened: Open) -> None:
    caller = opened()
    caller.call("rkllm_set_chat_template", b"", b"", b"")
    prompt = chatml(("system", SYSTEM), ("user", HELLO))
    first = caller.run(prompt)
    grown = chatml(("system", SYSTEM), ("user", HELLO), ("assistant", first.text), ("user", "And now?"))
    second = caller.run(grown)
    whole = opened()
    whole.call("rkllm_set_chat_template", b"", b"", b"")
    fresh = whole.run(grown)
    assert second.prefilled == fresh.prefilled - first.prefilled - first.generated
    assert second.text == fresh.text


@pytest.mark.model
@pytest.mark.parametrize(("family", "reuses"), [("C", False), ("D", True)])
def test_only_from_1_2_on_is_what_is_held_reused(
    family: str, reuses: bool, opened: Open, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RKLLM_LOG_LEVEL", "1")
    caller = opened(family)
    texts = [caller.run(prompt_of(family, HELLO)).text for _ in range(2)]
    first, second = re.findall(r"^I rkllm: prefill: .* ms, (\d+) tokens$", capfd.readouterr().out, re.MULTILINE)
    assert texts[0] == texts[1]
    assert second == ("1" if reuses else first)


@pytest.mark.model
def test_a_kept_history_goes_on_where_it_stood(
    opened: Open, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RKLLM_LOG_LEVEL", "2")
    caller = opened()
    first = caller.run(HELLO, keep_history=1)
    held = caller.held()
    second = caller.run("And now?", keep_history=1)
    assert prompts_in(capfd) == [
        chatml(("system", SYSTEM), ("user", HELLO)),
        f"{END}\n" + chatml(("user", "And now?")),
    ]
    assert held == first.prefilled + first.generated
    assert caller.held() == held + second.prefilled + second.generated


@pytest.mark.model
def test_a_kept_history_holds_the_token_that_the_limit_cut_after(opened: Open) -> None:
    caller, whole = opened(max_new_tokens=3), opened(max_new_tokens=3)
    first = caller.run(HELLO, keep_history=1)
    second = caller.run("And now?", keep_history=1)
    whole.call("rkllm_set_chat_template", b"", b"", b"")
    fresh = whole.run(chatml(("system", SYSTEM), ("user", HELLO), ("assistant", first.text), ("user", "And now?")))
    assert first.prefilled + 2 + second.prefilled == fresh.prefilled
    assert second.text == fresh.text


def prompts_in(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The prompts that the log shows at level 2."""
    return re.findall(r'^I rkllm: prompt text: "(.*?)"\nI rkllm: prompt tokens', capfd.readouterr().out, re.M | re.S)


@pytest.mark.model
def test_clearing_keeps_the_system_part_if_asked(opened: Open) -> None:
    caller = opened()
    caller.run(HELLO, keep_history=1)
    assert caller.call("rkllm_clear_kv_cache", 1, None, None) == 0
    kept = caller.held()
    assert 0 < kept < caller.run(HELLO, keep_history=1).prefilled + kept
    assert caller.call("rkllm_clear_kv_cache", 0, None, None) == 0
    assert caller.held() == 0
    assert caller.call("rkllm_clear_kv_cache", 0, b"\0" * 4, b"\0" * 4) == -1


@pytest.mark.model
def test_clearing_had_two_arguments_before_1_2_1(
    opened: Open, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RKLLM_LOG_LEVEL", "2")
    caller = opened("D")
    for keep in (1, 0):
        caller.run(HELLO, keep_history=1)
        assert caller.call("rkllm_clear_kv_cache", keep) == 0
    caller.run(HELLO, keep_history=1)
    empty, kept, cleared = re.findall(r"current kv cache size: (\d+)", capfd.readouterr().out)
    assert (empty, cleared) == ("0", "0") and 0 < int(kept) < 20


@pytest.mark.model
def test_a_character_of_several_tokens_comes_whole(opened: Open) -> None:
    caller = opened(max_new_tokens=20)
    caller.call("rkllm_set_chat_template", b"", b"", b"")
    run = caller.run("日本" * 8)  # goes on like that
    assert {WAITING, NORMAL} <= set(run.states)
    assert {said.text for said in run.said if said.state == WAITING} == {b""}
    assert all(said.text and said.text.decode() for said in run.said if said.state == NORMAL)
    assert len(run.tokens) == run.generated == 20


@pytest.mark.model
@pytest.mark.parametrize("family", ["D", "F", "G"])
def test_an_abort_ends_the_reply_with_finish(family: str, opened: Open) -> None:
    caller = opened(family)
    whole = caller.run(HELLO)
    caller.answer = lambda _: caller.call("rkllm_abort")
    run = caller.run(HELLO)
    assert (run.status, run.states) == (0, [NORMAL, FINISH])
    assert whole.text.startswith(run.text) and whole.text != run.text
    if family >= "F":  # the token said last is not held here either
        assert caller.held() == whole.prefilled
    caller.answer = lambda _: 0
    assert caller.run(HELLO).text == whole.text


@pytest.mark.model
def test_an_abort_waits_for_the_end_of_the_prefill(
    opened: Open, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RKLLM_LOG_LEVEL", "2")
    monkeypatch.setenv("RKLLM_STANDIN_FAULT", "slow_prefill")
    monkeypatch.setenv("RKLLM_STANDIN_MS", "40")
    caller = opened()
    thread = threading.Thread(target=caller.run, args=(LONG,))
    thread.start()
    wait_until(lambda: caller.call("rkllm_is_running") == 1)
    assert caller.call("rkllm_abort") == 0
    thread.join(LIMIT_S)
    assert (caller.last.states, caller.last.generated) == ([FINISH], 0)
    assert caller.held() == caller.last.prefilled > 1000
    # the turn that was begun is ended before the next
    caller.run(HELLO, keep_history=1)
    assert prompts_in(capfd)[1] == f"{END}\n" + chatml(("user", HELLO))


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end


@pytest.mark.model
@pytest.mark.parametrize("family", ["F", "G"])
def test_a_callback_that_gives_1_pauses_and_keeps_what_is_held(family: str, opened: Open) -> None:
    caller = opened(family, max_new_tokens=2)
    whole = caller.run(HELLO)
    caller.call("rkllm_clear_kv_cache", 0, None, None)
    caller.answer = lambda _: 1
    paused = caller.run(HELLO)
    caller.answer = lambda _: 0
    assert (paused.status, paused.said, caller.held()) == (0, whole.said[:1], whole.prefilled)
    # new input goes behind what was said: here the second token, so that the third comes
    resumed = caller.run(whole.tokens[1:])
    assert (resumed.prefilled, caller.held()) == (2, whole.prefilled + 3)
    assert opened(family, max_new_tokens=4).run(HELLO).text == whole.text + resumed.text


@pytest.mark.model
def test_one_run_at_a_time(opened: Open, capfd: pytest.CaptureFixture[str]) -> None:
    caller = opened()
    statuses: list[int] = []

    def try_all(_: Said) -> int:
        statuses.append(caller.call("rkllm_run", *caller.arguments(HELLO), NONE))
        statuses.append(caller.call("rkllm_run_async", *caller.arguments(HELLO), NONE))
        statuses.append(caller.call("rkllm_clear_kv_cache", 0, None, None))
        statuses.append(caller.call("rkllm_destroy"))
        return 1

    caller.answer = try_all
    assert caller.run(HELLO).states == [NORMAL]
    assert statuses == [-1] * 4
    assert capfd.readouterr().out.count("E rkllm: the previous run is still in progress\n") == 4


@pytest.mark.model
@pytest.mark.parametrize(("family", "running", "idle"), [("F", 0, 1), ("G", 1, 0)])
def test_what_is_running_means_turned_around_in_1_3(family: str, running: int, idle: int, opened: Open) -> None:
    caller = opened(family)
    said: set[int] = set()

    def ask(_: Said) -> int:
        said.add(caller.call("rkllm_is_running"))
        return 0

    caller.answer = ask
    caller.run(HELLO)
    assert (said, caller.call("rkllm_is_running")) == ({running}, idle)


@pytest.mark.model
@families
def test_an_asynchronous_run_brings_the_same_on_a_thread_of_its_own(family: str, opened: Open) -> None:
    caller = opened(family)
    prompt = prompt_of(family, HELLO)
    expected = caller.run(prompt)
    finished, threads = threading.Event(), set[int]()

    def hear(said: Said) -> int:
        threads.add(threading.get_native_id())
        if said.state == FINISH:
            finished.set()
        return 0

    caller.answer, caller.last = hear, Run()
    arguments = caller.arguments(prompt)
    assert caller.call("rkllm_run_async", *arguments, NONE) == 0
    assert finished.wait(LIMIT_S)
    assert caller.last.said == expected.said
    assert len(threads) == 1 and threading.get_native_id() not in threads


@pytest.mark.model
def test_destroying_ends_an_asynchronous_run(opened: Open) -> None:
    caller = opened(max_new_tokens=1000, ignore_eos_token=True)
    begun = threading.Event()

    def hear(_: Said) -> int:
        begun.set()
        return 0

    caller.answer = hear
    arguments = caller.arguments(HELLO)
    assert caller.call("rkllm_run_async", *arguments, NONE) == 0
    assert begun.wait(LIMIT_S)
    assert caller.close() == 0
    assert (caller.last.states[-1], caller.last.generated < 1000) == (FINISH, True)


@pytest.mark.model
def test_special_tokens_are_told_if_asked(opened: Open) -> None:
    hidden, told = opened().run(HELLO), opened(skip_special_token=False).run(HELLO)
    assert told.said[:-2] == hidden.said[:-1]
    assert told.said[-2].text == END.encode()
    assert (told.generated, told.states[-1]) == (hidden.generated, FINISH)


@pytest.mark.model
def test_sampling_and_the_limit_can_be_given_with_a_run(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = opened()
    greedy = caller.run(HELLO).tokens
    wild = caller.fill("RKLLMSamplingParam", top_k=0, top_p=1.0, temperature=5.0, repeat_penalty=1.0)
    drawn: list[list[int]] = []
    for seed in ("1", "1", "2"):
        monkeypatch.setenv("RKLLM_STANDIN_SEED", seed)
        drawn.append(caller.run(HELLO, sampling_params=wild, max_new_tokens=8).tokens)
    assert drawn[0] == drawn[1] != drawn[2]
    assert [len(tokens) for tokens in drawn] == [8, 8, 8]
    assert caller.run(HELLO).tokens == greedy


@pytest.mark.model
def test_tokens_are_put_into_no_template(opened: Open) -> None:
    caller = opened()
    said = caller.run(HELLO).tokens
    run = caller.run(said)
    assert (run.status, run.prefilled) == (0, len(said))
    refused = caller.run([10**6])
    assert (refused.status, refused.states) == (-1, [ERROR])
    assert caller.run(said).text == run.text


@pytest.mark.model
def test_a_prompt_longer_than_the_context_is_refused(opened: Open, capfd: pytest.CaptureFixture[str]) -> None:
    caller = opened(max_context_len=256)
    refused = caller.run(LONG)
    assert (refused.status, refused.said) == (-1, [])
    line = r"E rkllm: the length of prompt is greater than max context \(prompt: \d{4} tokens, max context: 256\)\n"
    assert re.search(line, capfd.readouterr().out)
    assert caller.run(HELLO).status == 0


@pytest.mark.model
def test_a_reply_ends_where_the_context_is_full(opened: Open) -> None:
    run = opened(max_context_len=64, ignore_eos_token=True, max_new_tokens=1000).run(HELLO)
    assert (run.status, run.prefilled + run.generated, run.states[-1]) == (0, 64, FINISH)


@pytest.mark.model
def test_a_template_of_the_caller_is_taken_literally_and_clears_what_is_held(
    opened: Open, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RKLLM_LOG_LEVEL", "2")
    caller = opened()
    own = caller.run(HELLO)
    literally = [f"<|im_start|>system\n{SYSTEM}{END}\n".encode(), b"<|im_start|>user\n"]
    assert caller.call("rkllm_set_chat_template", *literally, f"{END}\n<|im_start|>assistant\n".encode()) == 0
    assert caller.held() == 0
    assert caller.run(HELLO) == own
    caller.call("rkllm_set_chat_template", b"", b"", b"")
    caller.run("raw <|im_end|> text", max_new_tokens=1)
    log = capfd.readouterr()
    assert log.out.count("W rkllm: Calling rkllm_set_chat_template will disable the internal automatic") == 2
    assert '"raw <|im_end|> text"' in log.out


@pytest.mark.model
def test_a_thought_is_closed_where_the_model_knows_thoughts_and_none_is_wanted(
    opened: Open,
    shipped_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RKLLM_LOG_LEVEL", "2")
    thinking = rewrite(shipped_model, tmp_path, b"add_generation_prompt", b"enable_thinking_or_so")
    for caller in (opened(model=thinking), opened()):
        caller.run(HELLO, enable_thinking=True)
        caller.run(HELLO, enable_thinking=False)
    wanted = chatml(("system", SYSTEM), ("user", HELLO))
    assert prompts_in(capfd) == [wanted, f"{wanted}<think>\n\n</think>\n\n", wanted, wanted]


@pytest.mark.model
def test_a_model_without_a_template_gets_the_text_alone_and_no_tools(
    opened: Open,
    shipped_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RKLLM_LOG_LEVEL", "2")
    caller = opened(model=rewrite(shipped_model, tmp_path, b"tokenizer.chat_template", b"tokenizer.chat_nonsense"))
    assert caller.run(HELLO).status == 0
    assert caller.call("rkllm_set_function_tools", b"", TOOLS.encode(), b"tool_response") == -1
    log = capfd.readouterr().out
    failed = "W rkllm: Chat template auto-parsing failed: please configure it via rkllm_set_chat_template\n"
    assert failed in log and f'prompt text: "{HELLO}"\n' in log


def rewrite(model: Path, folder: Path, old: bytes, new: bytes) -> Path:
    """The GGUF with other words of the same length in it."""
    data = model.read_bytes()
    assert old in data and len(old) == len(new)
    path = folder / "other.gguf"
    path.write_bytes(data.replace(old, new))
    return path


@pytest.mark.model
def test_tools_stand_in_the_system_part_and_their_answers_go_on(
    opened: Open, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RKLLM_LOG_LEVEL", "2")
    caller = opened("F", max_new_tokens=MOST)
    assert caller.call("rkllm_set_function_tools", b"Be brief.", TOOLS.encode(), b"tool_response") == 0
    caller.run("What time is it?", role="user")
    held = caller.held()
    answered = caller.run('[{"time": "20:26"}]', role="tool")
    asked, answer = prompts_in(capfd)
    assert asked.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n")
    assert f"<tools>\n{TOOLS}\n</tools>" in asked and asked.endswith(chatml(("user", "What time is it?")))
    in_tag = '<tool_response>\n[{"time": "20:26"}]\n</tool_response>'
    assert answer.endswith(chatml(("user", in_tag))) and answer.startswith((END, "<|im_start|>user"))
    is_cut = answered.generated == MOST  # nothing is evaluated behind the last token of a reply at its limit
    assert caller.held() == held + answered.prefilled + answered.generated - is_cut


@pytest.mark.model
def test_tools_and_a_template_of_the_caller_exclude_each_other(opened: Open, capfd: pytest.CaptureFixture[str]) -> None:
    caller = opened()
    assert caller.call("rkllm_set_chat_template", b"", b"", b"") == 0
    assert caller.call("rkllm_set_function_tools", b"", TOOLS.encode(), b"tool_response") == -1
    line = "E rkllm: Failed to set function tools, possibly because the chat_template is empty.\n"
    assert line in capfd.readouterr().out


@pytest.mark.model
def test_a_prompt_cache_goes_from_one_handle_to_another(opened: Open, tmp_path: Path) -> None:
    first = opened()
    path = tmp_path / "cache.bin"
    cache = first.fill("RKLLMPromptCacheParam", save_prompt_cache=1, prompt_cache_path=str(path))
    whole = first.run(HELLO, prompt_cache_params=cache)
    second = opened()
    assert second.call("rkllm_load_prompt_cache", str(path).encode()) == 0
    assert second.held() == first.held()
    again = second.run(HELLO)
    assert (again.prefilled, again.said) == (1, whole.said)
    assert second.call("rkllm_release_prompt_cache") == 0
    assert second.run(HELLO).prefilled == whole.prefilled
    assert second.call("rkllm_load_prompt_cache", str(tmp_path / "none.bin").encode()) == -1
    path.write_bytes(b"rubbish")
    assert second.call("rkllm_load_prompt_cache", str(path).encode()) == -1


@pytest.mark.model
def test_an_adapter_must_be_loaded_before_it_is_named(opened: Open, tmp_path: Path) -> None:
    caller = opened()
    path = tmp_path / "lora.rkllm"

    def load() -> int:
        adapter = caller.fill("RKLLMLoraAdapter", lora_adapter_path=str(path), lora_adapter_name="ours", scale=1.0)
        return caller.call("rkllm_load_lora", adapter)

    chosen = caller.fill("RKLLMLoraParam", lora_adapter_name="ours")
    assert (load(), caller.run(HELLO, lora_params=chosen).status) == (-1, -1)
    path.touch()
    assert (load(), caller.run(HELLO, lora_params=chosen).status) == (0, 0)


@pytest.mark.model
@pytest.mark.parametrize(
    ("family", "param", "line"),
    [
        ("G", {"max_context_len": 4096}, "max_context[4096] must be less than the model's max_context_limit[2048]"),
        ("G", {"model_path": "/nowhere.rkllm"}, "failed to open model file: /nowhere.rkllm"),
        ("G", {"model_path": __file__}, "invalid rknn llm model magic"),
        ("G", {"extend_param": b"\0" * 13}, "The n_batch must be between 1 and 100, but got 0"),
        ("F", {"img_end": 0}, "img_start, img_end and img_content must not be NULL"),
    ],
)
def test_a_wrong_parameter_is_refused(
    family: str, param: dict[str, Any], line: str, opened: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    caller = opened(family, **param)
    assert (caller.status, caller.handle.value) == (-1, None)
    assert capfd.readouterr().out.endswith(f"E rkllm: {line}\n")


@pytest.mark.model
def test_opening_names_the_versions_on_standard_output(opened: Open, capfd: pytest.CaptureFixture[str]) -> None:
    assert opened("F").status == 0
    limit = "max_context_limit: 2048, npu_core_num: 3, target_platform: RK3588, model_dtype: W8A8"
    assert capfd.readouterr() == (
        "I rkllm: rkllm-runtime version: 1.2.3, rknpu driver version: 0.9.8, platform: RK3588\n"
        f"I rkllm: rkllm-toolkit version: 1.2.3, {limit}\n",
        "",
    )


def in_a_process(library: Path, model: Path, **faults: str) -> subprocess.Popen[str]:
    """One run of a 1.3.0 library in a process of its own."""
    environment = os.environ | {f"RKLLM_STANDIN_{name}": value for name, value in faults.items()}
    command = [sys.executable, driver.__file__, "G", str(library), str(model), HELLO]
    environment["PYTHONPATH"] = str(HERE.parent)
    return subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", env=environment)


def printed(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What the process printed of itself, without the log."""
    out, _ = process.communicate(timeout=LIMIT_S)
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


@pytest.mark.model
@pytest.mark.parametrize(
    ("fault", "number", "before"),
    [
        ("init_crashes", signal.SIGSEGV, []),
        ("run_crashes", signal.SIGSEGV, [{"status": 0}]),
        ("illegal_instruction", signal.SIGILL, [{"status": 0}]),
    ],
)
def test_a_crash_is_a_real_one_and_may_happen_once(
    fault: str, number: int, before: list[Any], compiled: Compiled, shipped_model: Path, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    once.touch()
    first = in_a_process(compiled("G"), shipped_model, FAULT=fault, FAULT_ONCE=str(once))
    assert (printed(first), first.returncode, once.exists()) == (before, -number, False)
    second = in_a_process(compiled("G"), shipped_model, FAULT=fault, FAULT_ONCE=str(once))
    assert (len(printed(second)), second.returncode) == (2, 0)


@pytest.mark.model
def test_a_hanging_prefill_does_not_end(compiled: Compiled, shipped_model: Path) -> None:
    process = in_a_process(compiled("G"), shipped_model, FAULT="hang_in_prefill")
    assert process.stdout
    while '"status": 0' not in process.stdout.readline():
        assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.kill()
    process.communicate(timeout=LIMIT_S)


@pytest.mark.model
@pytest.mark.parametrize(
    ("fault", "status", "last"), [("run_fails", -1, [ERROR]), ("no_finish", 0, [NORMAL]), ("", 0, [FINISH])]
)
def test_a_run_can_fail_or_end_without_a_word(
    fault: str, status: int, last: list[int], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = opened()
    monkeypatch.setenv("RKLLM_STANDIN_FAULT", fault)
    run = caller.run(HELLO)
    assert (run.status, run.states[-1:]) == (status, last)


@pytest.mark.model
def test_opening_can_fail(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKLLM_STANDIN_FAULT", "init_fails")
    assert opened().status == -1
    monkeypatch.delenv("RKLLM_STANDIN_FAULT")
    assert opened().status == 0


@pytest.mark.model
def test_a_wrong_end_token_lets_the_reply_run_to_its_limit(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = opened()
    right = caller.run(HELLO)
    monkeypatch.setenv("RKLLM_STANDIN_FAULT", "wrong_eos")
    wrong = caller.run(HELLO)
    assert right.generated < wrong.generated == 40
    assert wrong.text.startswith(right.text)


@pytest.mark.model
def test_a_paced_run_computes_nothing_and_keeps_its_pace(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = opened(max_new_tokens=20)
    real = caller.run(HELLO)
    caller.call("rkllm_clear_kv_cache", 0, None, None)
    monkeypatch.setenv("RKLLM_STANDIN_PACE", "400")
    begun = time.monotonic()
    paced, again = caller.run(HELLO), caller.run(HELLO)
    assert time.monotonic() - begun >= 2 * 20 / 400
    assert (paced.states, paced.generated, paced.prefilled) == ([NORMAL] * 20 + [FINISH], 20, real.prefilled)
    assert (again.said, again.prefilled) == (paced.said, 1)
    assert paced.text.isascii() and paced.text != real.text
    monkeypatch.delenv("RKLLM_STANDIN_PACE")
    assert caller.run(HELLO) == real
