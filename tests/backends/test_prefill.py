"""What is read while nobody waits: a stream goes on from there, comes first, and says the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from altered import with_template
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.llama import Llama
from rkllm_chat.chat import Backend
from rkllm_chat.config import Settings
from rkllm_chat.errors import GenerationError
from rkllm_chat.events import Sentence, Usage
from rkllm_chat.messages import Message
from stage import GREEDY

pytestmark = pytest.mark.model
SYSTEM = Message("system", "You are a helpful assistant. " * 60)
HELLO = [SYSTEM, Message("user", "Hello!")]
LONG = [Message("system", "word " * 400)]
FEW = 24
Open = Callable[..., Any]


async def write(backend: Backend, prompt: Sequence[Message]) -> tuple[str, Usage]:
    items = [item async for item in backend.stream(prompt, GREEDY)]
    usage = items.pop()
    assert isinstance(usage, Usage)
    return "".join(item for item in items if isinstance(item, str)), usage


async def until_it_reads(backend: Llama) -> None:
    while not backend.held_tokens:  # noqa: ASYNC110 - a thread says so
        await asyncio.sleep(0)


def test_a_stream_goes_on_where_the_reading_ahead_has_come_to(shipped_model: Path) -> None:
    async def hold() -> None:
        backend, bare = Llama(shipped_model, 2048), Llama(shipped_model, 2048)
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
        await asyncio.gather(backend.aclose(), bare.aclose())

    asyncio.run(hold())


def test_thoughts_that_the_template_drops_are_read_around_ahead(shipped_model: Path, tmp_path: Path) -> None:
    """Qwen3's template leaves earlier thoughts out as soon as a new question comes: the reply is read again."""
    model = tmp_path / "thinks.gguf"
    model.write_bytes(with_template(shipped_model.read_bytes(), FORGETS_THOUGHTS))

    async def hold() -> None:
        backend = Llama(model, 2048)
        thought = Message("assistant", "<think>\n" + "Well. " * 40 + "</think>\n\n" + "It is high water. " * 20)
        talk = [*HELLO, thought]
        await write(backend, talk)  # as the next round of the same turn does: thoughts are still there
        assert await backend.prefill(talk) > 60
        _, usage = await write(backend, [*talk, Message("user", "Thank you!")])
        assert usage.prefilled_tokens < FEW
        await backend.aclose()

    asyncio.run(hold())


FORGETS_THOUGHTS = (
    "{% for m in messages %}<|im_start|>{{m.role}}\n{% if m.role[0]=='a' and not loop.last %}!{% endif %}{{m.content}}"
    "<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


def test_a_turn_that_begins_meanwhile_evaluates_only_what_is_left(shipped_model: Path) -> None:
    async def hold() -> None:
        backend, bare = Llama(shipped_model, 4096), Llama(shipped_model, 4096)
        asked = [*LONG, Message("user", "Hello!")]
        ahead = asyncio.ensure_future(backend.prefill(LONG))
        await until_it_reads(backend)
        text, usage = await write(backend, asked)
        read = await ahead
        assert 0 < read < usage.prompt_tokens - FEW, "it was read to its end"
        assert read + usage.prefilled_tokens == usage.prompt_tokens, "some of it was evaluated twice"
        assert text == (await write(bare, asked))[0]
        await asyncio.gather(backend.aclose(), bare.aclose())

    asyncio.run(hold())


def test_what_needs_another_prompt_does_not_wait_for_this_one(shipped_model: Path) -> None:
    async def hold() -> None:
        backend = Llama(shipped_model, 4096)
        ahead = asyncio.ensure_future(backend.prefill(LONG))
        await until_it_reads(backend)
        text, usage = await write(backend, HELLO[1:])
        assert await ahead < backend.count_tokens(LONG) - FEW, "it was read to its end"
        assert usage.reused_tokens < FEW and text == (await write(backend, HELLO[1:]))[0]
        await backend.aclose()

    asyncio.run(hold())


@pytest.mark.parametrize("has_begun", [True, False])
def test_it_can_be_cancelled_at_any_moment(has_begun: bool, shipped_model: Path) -> None:
    async def hold() -> None:
        backend = Llama(shipped_model, 4096)
        ahead = asyncio.ensure_future(backend.prefill(LONG))
        await (until_it_reads(backend) if has_begun else asyncio.sleep(0))
        ahead.cancel()
        await asyncio.wait([ahead], timeout=5)
        assert ahead.cancelled() and not backend.is_running
        _, usage = await write(backend, [*LONG, Message("user", "Hello!")])
        assert usage.prefilled_tokens > 256, "it was read to its end"
        await backend.aclose()

    asyncio.run(hold())


def test_a_stream_that_is_closed_while_it_waits_takes_the_reading_with_it(shipped_model: Path) -> None:
    async def hold() -> None:
        backend = Llama(shipped_model, 4096)
        ahead = asyncio.ensure_future(backend.prefill(LONG))
        await until_it_reads(backend)
        waiting = asyncio.ensure_future(write(backend, [*LONG, Message("user", "Hello!")]))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting, ahead], timeout=5)
        assert waiting.cancelled() and ahead.done() and not backend.is_running
        await backend.aclose()

    asyncio.run(hold())


def test_a_prompt_without_room_or_that_no_user_may_follow_is_left_alone(shipped_model: Path, tmp_path: Path) -> None:
    strict = tmp_path / "strict.gguf"
    source = "{% for m in messages %}{% if m.role[0]=='u' and not loop.last %}{{ raise_exception('') }}{% endif %}"
    strict.write_bytes(with_template(shipped_model.read_bytes(), source + "{{m.content}}{% endfor %}"))

    async def hold() -> None:
        for model, prompt in ((shipped_model, LONG), (strict, HELLO)):
            backend = Llama(model, 512)
            assert await backend.prefill(prompt) == 0
            await backend.aclose()

    asyncio.run(hold())


def test_reading_ahead_writes_the_file_of_the_next_start(shipped_model: Path, tmp_path: Path) -> None:
    async def hold() -> None:
        backend = Llama(shipped_model, 2048, states=tmp_path)
        read = await backend.prefill([SYSTEM])
        await backend.aclose()
        backend = Llama(shipped_model, 2048, states=tmp_path)
        assert await backend.prefill([SYSTEM]) == 0, "it was evaluated"
        assert (await write(backend, HELLO))[1].reused_tokens == read
        await backend.aclose()

    asyncio.run(hold())
    assert len(list(tmp_path.iterdir())) == 1


def test_a_script_has_nothing_to_read(tmp_path: Path, run: Open) -> None:
    script = tmp_path / "replies.json"
    script.write_text('["Hello."]', encoding="utf-8")
    backend = open_backend(Settings(model=str(script)))
    assert run(backend.prefill(HELLO)) == 0
    assert run(write(backend, HELLO))[0] == "Hello."


@pytest.mark.parametrize("family", "FG")
def test_the_npu_reads_ahead_where_it_uses_beginnings_again(family: str, open_npu: Open, run: Open) -> None:
    backend = open_npu(family)
    text, bare = run(write(backend, HELLO))
    run(backend.aclose())
    backend = open_npu(family)
    read = run(backend.prefill([SYSTEM]))
    assert bare.prompt_tokens - FEW < read < bare.prompt_tokens
    assert run(backend.prefill([SYSTEM])) == 0
    again, usage = run(write(backend, HELLO))
    assert again == text and usage.prefilled_tokens < FEW
    assert run(backend.prefill([*HELLO, Message("assistant", text)])) == 0


@pytest.mark.parametrize(
    ("family", "options"), [("C", {}), ("G", {"history": "runtime"}), ("G", {"native_tools": True})]
)
def test_where_the_npu_cannot_it_is_left_alone(family: str, options: dict[str, Any], open_npu: Open, run: Open) -> None:
    backend = open_npu(family, **options)
    assert run(backend.prefill([SYSTEM])) == 0
    text, usage = run(write(backend, HELLO))
    assert text and usage.reused_tokens == 0


def test_a_message_waits_for_the_npu_and_needs_the_rest_alone(open_npu: Open, run: Open) -> None:
    backend = open_npu(FAULT="slow_prefill", MS="700")

    async def ask_meanwhile() -> tuple[int, list[Any]]:
        ahead = asyncio.ensure_future(backend.prefill([SYSTEM]))
        await asyncio.sleep(0)
        return await ahead, [item async for item in backend.stream(HELLO, GREEDY)]

    async def ask_at_once() -> tuple[int, list[Any]]:
        ahead = asyncio.ensure_future(backend.prefill([SYSTEM]))
        await asyncio.sleep(0)
        items = [item async for item in backend.stream(HELLO, GREEDY)]
        return await ahead, items

    read, items = run(asyncio.wait_for(ask_at_once(), 20))
    assert items[0] == Sentence("npu.waiting")
    assert read > 300 and items[-1].prefilled_tokens < FEW
    _, items = run(asyncio.wait_for(ask_meanwhile(), 20))
    assert Sentence("npu.waiting") not in items


def test_the_npu_is_left_to_itself_when_nobody_wants_it_any_more(open_npu: Open, run: Open, tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.touch()
    backend = open_npu(FAULT="slow_prefill", MS="1500", FAULT_ONCE=str(once))

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


def test_a_runtime_that_was_loaded_again_holds_nothing(open_npu: Open, run: Open) -> None:
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


def test_a_crash_of_the_npu_while_it_reads_ahead_is_mended_by_the_next_message(
    open_npu: Open, run: Open, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    once.touch()
    backend = open_npu(FAULT="run_crashes", FAULT_ONCE=str(once))
    with pytest.raises(GenerationError, match="NPU runtime ended"):
        run(backend.prefill([SYSTEM]))
    assert run(backend.prefill([SYSTEM])) == 0
    assert run(write(backend, HELLO))[0]
