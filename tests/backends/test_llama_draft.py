"""A call that is written once more is evaluated in one batch, and no token differs: real engine, real tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import llama_cpp
import pytest

from backends.openai.talks import chat_with, talk
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.engine import load_engine, make_end_test
from rkllm_chat.chat.context import build_grammar, build_prompt
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.messages import Message

pytestmark = pytest.mark.model
SYSTEM = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
PROMPT = f"{SYSTEM}<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n".encode()


@pytest.fixture(scope="module")
def engine(shipped_model: Path) -> Iterator[Any]:
    engine = load_engine(shipped_model, 1024)
    yield engine
    engine.close()


def count_steps(engine: Any) -> int:
    """How many single tokens were evaluated since the last count."""
    steps: int = llama_cpp.llama_perf_context(engine.ctx).n_eval
    llama_cpp.llama_perf_context_reset(engine.ctx)
    return steps


def generate(engine: Any, draft: Sequence[int], temperature: float) -> list[int]:
    engine.set_seed(7)
    tokens = engine.tokenize(PROMPT, add_bos=False, special=True)
    is_end = make_end_test(engine)
    sampled = engine.generate(tokens, draft, temp=temperature, top_k=40, min_p=0.0)
    return list(takewhile(lambda token: not is_end(token), islice(sampled, 40)))


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_draft_changes_no_token_and_saves_steps_where_it_is_right(engine: Any, temperature: float) -> None:
    plain = generate(engine, (), temperature)
    other, middle = plain[-1], len(plain) // 2
    assert len(plain) >= 6 and other not in (plain[0], plain[middle])
    count_steps(engine)
    generate(engine, (), temperature)
    needed = count_steps(engine)
    for draft, most in (
        (plain, 2),
        ([*plain, *plain], 2),
        ([*plain[:middle], other, *plain[middle + 1 :]], needed - middle + 2),
        (plain[:middle], needed - middle + 2),
        ([other, *plain[1:]], needed),
        ([plain[0], other], needed),
        (plain[:1], needed),
    ):
        assert generate(engine, draft, temperature) == plain, draft
        assert count_steps(engine) <= most, draft


def test_a_repeated_call_takes_one_batch_under_its_grammar(shipped_model: Path) -> None:
    """A reply is compared with the call before it; where tokens are scored it is generated one by one."""

    async def ask() -> None:
        backend = LlamaBackend(shipped_model, 2048)
        chat = chat_with(backend)
        engine = backend._engine  # noqa: SLF001 - its counters

        async def write() -> tuple[str, int]:
            count_steps(engine)
            stream = backend.stream(build_prompt(chat), Generation(temperature=0), (), build_grammar(chat))
            text = "".join([item async for item in stream if isinstance(item, str)])
            return text, count_steps(engine)

        await talk(chat, "What time is it in Tokyo?")
        question = chat.history[0]
        chat.restore([question])
        call, needed = await write()
        assert "get_time" in call and needed > 10
        chat.history += [Message("assistant", call), question]
        repeated, steps = await write()
        assert repeated == call and steps <= 3
        backend.score_tokens(1)
        again, steps = await write()
        assert again == call and steps >= needed
        backend.score_tokens(None)
        chat.history += [Message("assistant", "It is late."), question]  # what was said last is no call
        assert (await write())[1] > 10
        await backend.aclose()

    asyncio.run(ask())
