"""Prompts are read ahead: a stream continues from there, has precedence, and gives the same reply."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.openai.talks import reply_of as write
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.config.settings import Settings
from rkllm_chat.core.errors import GenerationError
from rkllm_chat.core.events import Sentence, Usage
from rkllm_chat.core.messages import Message
from stage import GREEDY

pytestmark = [pytest.mark.model, pytest.mark.anyio]
SYSTEM = Message("system", "You are a helpful assistant. " * 60)
HELLO = [SYSTEM, Message("user", "Hello!")]
LONG = [Message("system", "word " * 400)]
FEW = 24
Open = Callable[..., Any]


async def until_it_reads(backend: LlamaBackend) -> None:
    while not backend.cached_tokens:  # noqa: ASYNC110 - a thread says so
        await asyncio.sleep(0)


@pytest.mark.slow
async def test_a_stream_continues_where_a_prefill_ended(open_llama: Open) -> None:
    backend, bare = open_llama(2048), open_llama(2048)
    read = await backend.prefill([SYSTEM])
    assert read > 300
    assert await backend.prefill([SYSTEM]) == 0, "it was read twice"
    text, usage = await write(backend, HELLO)
    assert usage.reused_tokens == read and usage.prefilled_tokens < FEW
    assert text == (await write(bare, HELLO))[0]
    talk = [*HELLO, Message("assistant", text)]
    assert await backend.prefill(talk) == 0, "all of it is held"
    _, usage = await write(backend, [*talk, Message("user", "Thank you!")])
    assert usage.prefilled_tokens < FEW


@pytest.mark.slow
async def test_a_prefill_leaves_out_thoughts_that_the_template_drops(open_llama: Open) -> None:
    """Qwen3's template leaves earlier thoughts out as soon as a new question comes: the reply is read again."""
    backend = open_llama(2048, FORGETS_THOUGHTS)
    thought = Message("assistant", "<think>\n" + "Well. " * 40 + "</think>\n\n" + "It is high water. " * 20)
    talk = [*HELLO, thought]
    await write(backend, talk)  # as the next round of the same turn does: thoughts are still there
    assert await backend.prefill(talk) > 60
    _, usage = await write(backend, [*talk, Message("user", "Thank you!")])
    assert usage.prefilled_tokens < FEW


FORGETS_THOUGHTS = (
    "{% for m in messages %}<|im_start|>{{m.role}}\n{% if m.role[0]=='a' and not loop.last %}!{% endif %}{{m.content}}"
    "<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


@pytest.mark.slow
async def test_a_turn_during_a_prefill_evaluates_only_the_rest(open_llama: Open) -> None:
    backend, bare = open_llama(4096), open_llama(4096)
    asked = [*LONG, Message("user", "Hello!")]
    ahead = asyncio.ensure_future(backend.prefill(LONG))
    await until_it_reads(backend)
    text, usage = await write(backend, asked)
    read = await ahead
    assert 0 < read < usage.prompt_tokens - FEW, "it was read to its end"
    assert read + usage.prefilled_tokens == usage.prompt_tokens, "some of it was evaluated twice"
    assert text == (await write(bare, asked))[0]


async def test_another_prompt_does_not_wait_for_a_prefill(open_llama: Open) -> None:
    backend = open_llama(4096)
    ahead = asyncio.ensure_future(backend.prefill(LONG))
    await until_it_reads(backend)
    text, usage = await write(backend, HELLO[1:])
    assert await ahead < backend.count_tokens(LONG) - FEW, "it was read to its end"
    assert usage.reused_tokens < FEW and text == (await write(backend, HELLO[1:]))[0]


@pytest.mark.slow
@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_prefill_can_be_cancelled(has_begun: bool, open_llama: Open) -> None:
    backend = open_llama(4096)
    ahead = asyncio.ensure_future(backend.prefill(LONG))
    await (until_it_reads(backend) if has_begun else asyncio.sleep(0))
    ahead.cancel()
    await asyncio.wait([ahead], timeout=5)
    assert ahead.cancelled() and not backend.is_running
    _, usage = await write(backend, [*LONG, Message("user", "Hello!")])
    assert usage.prefilled_tokens > 256, "it was read to its end"


async def test_a_closed_stream_ends_the_prefill_it_waits_for(open_llama: Open) -> None:
    backend = open_llama(4096)
    ahead = asyncio.ensure_future(backend.prefill(LONG))
    await until_it_reads(backend)
    waiting = asyncio.ensure_future(write(backend, [*LONG, Message("user", "Hello!")]))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting, ahead], timeout=5)
    assert waiting.cancelled() and ahead.done() and not backend.is_running


async def test_an_unsuitable_prompt_is_not_prefilled(open_llama: Open) -> None:
    strict = "{% for m in messages %}{% if m.role[0]=='u' and not loop.last %}{{ raise_exception('') }}{% endif %}"
    strict += "{{m.content}}{% endfor %}"
    for template, prompt in (("", LONG), (strict, HELLO)):
        assert await open_llama(512, template).prefill(prompt) == 0


async def test_a_prefill_writes_the_file_of_the_next_start(open_llama: Open, tmp_path: Path) -> None:
    backend = open_llama(2048, states=tmp_path)
    read = await backend.prefill([SYSTEM])
    backend = open_llama(2048, states=tmp_path)
    assert await backend.prefill([SYSTEM]) == 0, "it was evaluated"
    assert (await write(backend, HELLO))[1].reused_tokens == read
    assert len(os.listdir(tmp_path)) == 1  # noqa: PTH208  # tmp_path.iterdir() is refused in coroutines


def test_a_scripted_model_prefills_nothing(tmp_path: Path, run: Open) -> None:
    script = tmp_path / "replies.json"
    script.write_text('["Hello."]', encoding="utf-8")
    backend = open_backend(Settings(model=str(script)))
    assert run(backend.prefill(HELLO)) == 0
    assert run(write(backend, HELLO))[0] == "Hello."


@pytest.mark.slow
def test_the_npu_reads_ahead_where_it_reuses_beginnings(open_npu: Open, run: Open) -> None:
    text, bare = run(write(open_npu("F"), HELLO))
    backend = open_npu("F")
    read = run(backend.prefill([SYSTEM]))
    assert bare.prompt_tokens - FEW < read < bare.prompt_tokens
    assert run(backend.prefill([SYSTEM])) == 0
    again, usage = run(write(backend, HELLO))
    assert again == text and usage.prefilled_tokens < FEW
    assert run(backend.prefill([*HELLO, Message("assistant", text)])) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "options"), [("C", {}), ("G", {"history": "runtime"}), ("G", {"native_tools": True})]
)
def test_other_npu_modes_read_nothing_ahead(family: str, options: dict[str, Any], open_npu: Open, run: Open) -> None:
    backend = open_npu(family, **options)
    assert run(backend.prefill([SYSTEM])) == 0
    text, usage = run(write(backend, HELLO[1:]))
    assert text and usage.reused_tokens == 0


@pytest.mark.slow
def test_a_message_waits_for_the_prefill_of_the_npu(open_npu: Open, run: Open) -> None:
    backend = open_npu(FAULT="slow_prefill", MS="300")

    async def ask(waits: bool) -> tuple[int, list[Any]]:
        ahead = asyncio.ensure_future(backend.prefill([SYSTEM]))
        await asyncio.sleep(0)
        if waits:
            await ahead
        items = [item async for item in backend.stream(HELLO, GREEDY)]
        return await ahead, items

    read, items = run(asyncio.wait_for(ask(waits=False), 20))
    assert items[0] == Sentence("npu.waiting")
    assert read > 300 and items[-1].prefilled_tokens < FEW
    _, items = run(asyncio.wait_for(ask(waits=True), 20))
    assert Sentence("npu.waiting") not in items


@pytest.mark.slow
def test_a_cancelled_prefill_of_the_npu_ends_by_itself(open_npu: Open, run: Open, tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.touch()
    backend = open_npu(FAULT="slow_prefill", MS="700", FAULT_ONCE=str(once))

    async def give_up_and_ask() -> list[Any]:
        ahead = asyncio.ensure_future(backend.prefill([SYSTEM]))
        while once.exists():  # noqa: ASYNC110 - the runtime removes it when it begins
            await asyncio.sleep(0)
        ahead.cancel()
        await asyncio.wait([ahead])
        assert await backend.prefill([SYSTEM]) == 0, "it waited for the run before"
        return [item async for item in backend.stream(HELLO, GREEDY)]

    items = run(asyncio.wait_for(give_up_and_ask(), 20))
    assert items[0] == Sentence("npu.waiting")
    assert items[-1].prefilled_tokens < FEW


@pytest.mark.slow
def test_a_reloaded_runtime_has_an_empty_cache(open_npu: Open, run: Open) -> None:
    """Release 1.2.3 takes sampling only while it loads, so another length of reply loads it again."""
    backend = open_npu("F", history="runtime")
    text, first = run(write(backend, HELLO))
    longer = replace(GREEDY, max_tokens=100)
    talk = [*HELLO, Message("assistant", text), Message("user", "Thank you!")]

    async def ask_for_less() -> Usage:
        *_, usage = [item async for item in backend.stream(talk, longer)]
        assert isinstance(usage, Usage)
        return usage

    assert run(ask_for_less()).prefilled_tokens > first.prompt_tokens


@pytest.mark.slow
def test_a_crash_during_a_prefill_is_followed_by_a_restart(open_npu: Open, run: Open, tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.touch()
    backend = open_npu(FAULT="run_crashes", FAULT_ONCE=str(once))
    with pytest.raises(GenerationError, match="NPU runtime was ended"):
        run(backend.prefill([SYSTEM]))
    assert run(backend.prefill([SYSTEM])) == 0
    assert run(write(backend, HELLO))[0]
