"""The llama.cpp backend on the GGUF that ships: real engine, real tokens."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from altered import with_template, without_end
from backends.openai.talks import HELLO, LINES, chat_with, reply_of, talk
from cpu_time import allow_s
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.base import TokenScore
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core.errors import GenerationError, ModelError, UsageError
from rkllm_chat.core.events import Reading, TurnEnded, Usage
from rkllm_chat.core.messages import Message
from shell import wait_until
from stage import Run, end_after

pytestmark = pytest.mark.model
GREEDY = Generation(temperature=0, max_tokens=24)
Open = Callable[..., LlamaBackend]


@pytest.fixture
def llama(open_llama: Open) -> LlamaBackend:
    return open_llama()


def write(backend: LlamaBackend, prompt: Sequence[Message], generation: Generation = GREEDY) -> tuple[str, Usage]:
    return asyncio.run(reply_of(backend, prompt, generation))


def test_a_reply_has_its_usage(llama: LlamaBackend) -> None:
    text, usage = write(llama, HELLO)
    assert text.strip()
    assert usage.prompt_tokens == llama.count_tokens(HELLO)
    assert (usage.reused_tokens, usage.prefilled_tokens) == (0, usage.prompt_tokens)
    assert usage.generated_tokens >= 1 and usage.first_token_s > 0


def test_a_grown_prompt_costs_only_its_new_tokens(llama: LlamaBackend) -> None:
    text, first = write(llama, HELLO)
    grown = [*HELLO, Message("assistant", text), Message("user", "And now?")]
    _, second = write(llama, grown)
    assert second.reused_tokens == first.prompt_tokens + first.generated_tokens
    assert second.prefilled_tokens == llama.count_tokens(grown) - second.reused_tokens


def test_another_prompt_reuses_the_common_beginning(llama: LlamaBackend) -> None:
    write(llama, HELLO)
    _, usage = write(llama, [HELLO[0], Message("user", "Goodbye!")])
    assert 0 < usage.reused_tokens < usage.prompt_tokens


def test_the_first_token_of_a_reply_is_scored_as_it_would_be_generated(llama: LlamaBackend) -> None:
    async def score() -> tuple[TokenScore, Usage]:
        async with aclosing(llama.score_first_token(HELLO, 5)) as items:
            score, usage = [item async for item in items if isinstance(item, TokenScore | Usage)]
        assert isinstance(score, TokenScore) and isinstance(usage, Usage)
        return score, usage

    first, usage = asyncio.run(score())
    assert (usage.prompt_tokens, usage.generated_tokens) == (llama.count_tokens(HELLO), 1)
    logprobs = [token.logprob for token in first.likeliest]
    assert len(logprobs) == 5 and logprobs == sorted(logprobs, reverse=True) and first.logprob == logprobs[0] < 0
    text, _ = write(llama, HELLO)
    assert text.startswith(first.data.decode()) and first.data
    assert asyncio.run(score())[0] == first  # and again behind a reply, to which it adds nothing
    assert write(llama, HELLO)[0] == text


def test_a_message_is_scored_behind_each_prompt_beside_the_conversation(llama: LlamaBackend) -> None:
    async def score(prompts: Sequence[Sequence[Message]]) -> list[float]:
        async with aclosing(llama.score_messages(prompts)) as items:
            return [item.logprob async for item in items]

    def ask(*systems: str, text: str = "A list of 17 red cups.") -> list[float]:
        return asyncio.run(score([[Message("system", system), Message("user", text)] for system in systems]))

    text, _ = write(llama, HELLO)
    cached = llama.cached_tokens
    said, other = ask("Say this: A list of 17 red cups.", "Tell me the time.")
    assert other < said < 0  # what was said is likelier to come again
    # each of more prompts than are kept has the score that it has alone, whatever was scored before it
    many = [f"Tell me {number}." for number in range(70)]
    assert ask(*many, many[3])[-1] == pytest.approx(ask(many[3])[0], abs=0.01)
    # no word is likelier behind another one than alone, and a long message is evaluated in several batches
    longer, long = ask("Say this.", text="red cups " * 60), ask("Say this.", text="red cups " * 120)
    assert long[0] < longer[0] < 0 and ask("Say this.", text="") == [0.0]
    with pytest.raises(GenerationError, match=r"\d+ tokens long, the context holds 4096"):
        ask("Say this.", text="red cups " * 1200)
    assert ask("Tell me the time.")[0] == pytest.approx(other, abs=0.01)
    assert llama.cached_tokens == cached and write(llama, HELLO)[0] == text


def test_what_was_evaluated_of_scored_prompts_is_kept_for_the_next_start(open_llama: Open, tmp_path: Path) -> None:
    prompts = [[Message("system", f"Say: {word * 40}"), Message("user", "A red cup.")] for word in ("cup ", "red ")]

    async def read(states: Path | None) -> list[float]:
        async with aclosing(open_llama(states=states).score_messages(prompts)) as items:
            return [item.logprob async for item in items]

    def score(states: Path | None) -> list[float]:
        return asyncio.run(read(states))

    alone = score(None)
    asyncio.run(open_llama(states=tmp_path).prepare_scores(prompts))
    [path] = tmp_path.rglob("*.bin")
    with path.open("rb") as file:  # what is evaluated again is written again, as another file
        written = os.fstat(file.fileno()).st_ino
        assert score(tmp_path) == pytest.approx(alone, abs=0.01)
        assert path.stat().st_ino == written and [*tmp_path.rglob("*.bin")] == [path]
    # a message is scored behind a third one, too, of which there is no file yet
    prompts += [[Message("system", f"Say: {'pen ' * 200}"), Message("user", "A red cup.")]]
    more = score(tmp_path)
    assert more[:2] == pytest.approx(alone, abs=0.01) and len([*tmp_path.rglob("*.bin")]) == 2
    assert score(tmp_path) == pytest.approx(more, abs=0.01) == score(None)
    del prompts[2]
    path.write_bytes(path.read_bytes()[:-100])  # cut off: it is not read
    assert score(tmp_path) == pytest.approx(alone, abs=0.01)


def test_a_message_and_a_cancellation_may_come_while_scores_are_prepared(llama: LlamaBackend) -> None:
    prompts = [[Message("system", f"Say {number}. " * 200), Message("user", "A red cup.")] for number in range(60)]

    async def ask() -> tuple[str, float]:
        preparing = asyncio.ensure_future(llama.prepare_scores(prompts))
        await asyncio.to_thread(wait_until, lambda: llama.is_running)
        text, _ = await reply_of(llama, HELLO, GREEDY)
        await preparing
        # cancelled inside a prompt, it leaves none of it behind
        preparing = asyncio.ensure_future(llama.prepare_scores(prompts))
        await asyncio.to_thread(wait_until, lambda: llama.is_running)
        preparing.cancel()
        await asyncio.wait([preparing])
        async with aclosing(llama.score_messages([prompts[0], prompts[0]])) as items:
            first, second = [item.logprob async for item in items]
        return text, round(first - second, 2)

    assert asyncio.run(ask()) == (write(llama, HELLO)[0], 0.0)


@pytest.mark.parametrize("limit_bytes", [1 << 28, 1 << 18, 0])
def test_an_answer_without_calls_does_not_cost_the_conversation(open_llama: Open, limit_bytes: int) -> None:
    """Asked in a prompt of its own where the state of the conversation can be kept, else at the end of that one."""
    backend = open_llama(2048)
    backend.keep_states(limit_bytes)
    chat = chat_with(backend, prompt_profile="qwen2.5", max_steps=1)
    answered, following = asyncio.run(talk(chat, *LINES))
    assert isinstance(answered[-1], TurnEnded) and isinstance(following[-1], TurnEnded)
    assert answered[-1].answered_by == "forced"
    asked, usage = answered[-1].usage[-1], following[-1].usage[0]  # behind which a call may be chosen
    if limit_bytes == 1 << 28:  # the result and the answer come into the conversation with the next turn
        assert asked.prompt_tokens < 200
        assert usage.prefilled_tokens <= asked.prompt_tokens + asked.generated_tokens
    else:
        assert asked.prompt_tokens > 300 and usage.prefilled_tokens <= 60
    assert usage.prompt_tokens > 400


def test_of_a_state_beyond_the_limit_the_beginning_is_kept(open_llama: Open) -> None:
    backend = open_llama(2048)
    backend.keep_states(1 << 22)
    long = [HELLO[0], Message("user", "What is 12 * 34? " * 70)]
    text, first = write(backend, long)
    assert first.prompt_tokens > 700 and backend.loses_conversation
    write(backend, [Message("system", "Say yes."), Message("user", "Yes?")])
    again, usage = write(backend, long)
    assert (again, usage.prompt_tokens) == (text, first.prompt_tokens)
    assert first.prompt_tokens / 4 < usage.reused_tokens < first.prompt_tokens - 32


def test_greedy_replies_do_not_depend_on_the_cache(llama: LlamaBackend) -> None:
    fresh, _ = write(llama, HELLO)
    again, usage = write(llama, HELLO)
    assert usage.prefilled_tokens == 1
    assert again == fresh


def test_a_seed_makes_sampling_repeatable(llama: LlamaBackend) -> None:
    def sampled(seed: int) -> str:
        wild = Generation(temperature=5, top_k=0, top_p=1, min_p=0, seed=seed, max_tokens=24)
        return write(llama, HELLO, wild)[0]

    assert sampled(1) == sampled(1)
    assert len({sampled(seed) for seed in range(5)}) == 5


def test_flash_attention_is_used_where_the_engine_supports_it(
    open_llama: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rkllm_chat.backends.llama")
    open_llama()
    lines = [re.sub(r" +", " ", record.getMessage()) for record in caplog.records]
    chosen = [line.rpartition("flash_attn = ")[2] for line in lines if "flash_attn = " in line]
    assert chosen[-1] == "auto"  # the vocabulary is read before, without it
    assert any("Flash Attention enabled" in line for line in lines)


def test_a_reply_at_its_limit_is_marked(llama: LlamaBackend) -> None:
    text, usage = write(llama, HELLO, Generation(temperature=0, max_tokens=1))
    assert (usage.generated_tokens, usage.hit_limit) == (1, True)
    whole, usage = write(llama, HELLO)
    assert not usage.hit_limit and whole.startswith(text)


def test_a_reply_that_is_asked_to_end_has_its_usage(llama: LlamaBackend) -> None:
    story = [Message("user", "Tell me a story of a harbour.")]
    long = Generation(temperature=0, repeat_penalty=0.1, max_tokens=400)  # a usual reply may end before it is asked to
    _, whole = write(llama, story, long)
    usage = asyncio.run(asyncio.wait_for(end_after(llama, story, 3, long), 5))[-1]
    assert isinstance(usage, Usage) and not usage.hit_limit and usage.prompt_tokens == whole.prompt_tokens
    assert 3 <= usage.generated_tokens < whole.generated_tokens == 400
    assert write(llama, story, long)[1].generated_tokens == whole.generated_tokens


def test_an_end_marker_that_the_vocabulary_takes_for_text_ends_the_reply(
    llama: LlamaBackend, shipped_model: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "converted-wrongly.gguf"
    wrong.write_bytes(without_end(shipped_model.read_bytes()))
    backend = LlamaBackend(wrong, 0)
    text, usage = write(backend, HELLO)
    asyncio.run(backend.aclose())
    assert text == write(llama, HELLO)[0] and "<|im_" not in text
    assert not usage.hit_limit


@pytest.mark.slow
def test_a_reply_that_repeats_itself_is_ended_and_the_next_one_works(llama: LlamaBackend) -> None:
    before = write(llama, HELLO)[0]
    loop = Generation(temperature=0, repeat_penalty=0.1, max_tokens=3000)  # what was written becomes likelier
    text, usage = write(llama, [Message("user", "Tell me a story of a harbour.")], loop)
    assert usage.was_repeating and usage.generated_tokens < 3000 and text
    assert write(llama, HELLO)[0] == before


@pytest.mark.slow
def test_a_stop_during_prefill_leaves_the_engine_usable(open_llama: Open) -> None:
    backend = open_llama(8192)
    long = [Message("user", "word " * 150)]

    async def give_up() -> None:
        async def listen() -> None:
            async with aclosing(backend.stream(long, GREEDY)) as pieces:
                async for _ in pieces:
                    pass

        listening = asyncio.create_task(listen())
        while not backend.is_running:  # noqa: ASYNC110 - a thread says so
            await asyncio.sleep(0)
        listening.cancel()
        await asyncio.wait([listening])
        assert listening.cancelled()

    asyncio.run(give_up())
    assert not backend.is_running
    _, usage = write(backend, long, Generation(temperature=0, max_tokens=1))
    assert usage.reused_tokens < usage.prompt_tokens - 1, "the prefill ran to its end"
    assert write(backend, HELLO)[0] == write(open_llama(8192), HELLO)[0]


def test_a_thought_opened_by_the_template_is_part_of_the_reply(open_llama: Open) -> None:
    backend = open_llama(template=THINKING)
    text, first = write(backend, HELLO)
    assert text.startswith("<think>\n") and len(text) > len("<think>\n")
    grown = [*HELLO, Message("assistant", text), Message("user", "And now?")]
    _, second = write(backend, grown)
    assert second.reused_tokens == first.prompt_tokens + first.generated_tokens - first.hit_limit


THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n{{ '<think>\n' }}"
)


def test_the_whole_window_can_be_used_where_llama_cpp_makes_it_larger(open_llama: Open) -> None:
    backend = open_llama(300)
    assert backend.context_tokens == 512
    prompt = [Message("user", "word " * 150)]
    assert 300 < backend.count_tokens(prompt) < 512
    assert write(backend, prompt, Generation(max_tokens=2))[1].prompt_tokens == backend.count_tokens(prompt)


def test_a_prompt_longer_than_the_context_is_an_error_and_the_next_one_works(llama: LlamaBackend) -> None:
    with pytest.raises(GenerationError) as caught:
        write(llama, [Message("user", "word " * 9000)])
    assert caught.value.details["needed"] > 9000 and caught.value.details["available"] == llama.context_tokens
    assert write(llama, HELLO)[0].strip()


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (None, "No such file"),
        ("folder", "Is a directory"),
        (b"", "the file is empty"),
        (b"PK\x03\x04 not a model", "not a GGUF file"),
        (b"GGUF" + bytes(range(256)) * 8, "damaged GGUF: its version is "),
        ("cut", "it is incomplete: 3 MB of at least 6 MB"),
    ],
    ids=["missing", "directory", "empty", "other magic", "garbage", "truncated"],
)
def test_a_file_that_is_not_a_model_is_an_error(
    content: bytes | str | None, cause: str, tmp_path: Path, shipped_model: Path
) -> None:
    path = tmp_path / "some.gguf"
    if content == "folder":
        path.mkdir()
    elif content == "cut":
        whole = shipped_model.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(ModelError, match=cause) as error:
        open_backend(Settings(model=str(path)))
    assert str(path) in error.value.message and error.value.hint


def test_an_unknown_backend_is_an_error() -> None:
    with pytest.raises(UsageError, match='no backend "toaster"'):
        open_backend(Settings(backend="toaster"))


@pytest.mark.slow
def test_the_prefill_of_a_long_prompt_reports_progress(open_llama: Open) -> None:
    backend = open_llama(8192)

    async def listen(words: int) -> list[Reading]:
        items = [item async for item in backend.stream([Message("user", "word " * words)], GREEDY)]
        return [item for item in items if isinstance(item, Reading)]

    long, short = asyncio.run(listen(700)), asyncio.run(listen(20))
    assert len(long) >= 2
    assert [reading.done for reading in long] == sorted({reading.done for reading in long})
    assert all(0 < reading.done < reading.total and reading.tokens_per_s > 0 for reading in long)
    assert not short


LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "cause"),
    [
        (LOOP, "takes too long"),
        ("{{ 'a' * 9999999999 }}", "more than 256 MB"),
        ("{% if messages[0].role == 'system' %}" + LOOP + "{% endif %}x", "takes too long"),
        ("{{ '%9999999999d' % 1 }}", "more than 256 MB"),
        ("{{ 'x' * 50000000 }}", "50000000 characters"),
    ],
    ids=["loop", "repetition", "loop in a turn", "width", "output"],
)
def test_a_template_that_takes_too_much_is_one_error_line(
    template: str, cause: str, shipped_model: Path, tmp_path: Path, program: Run
) -> None:
    model = tmp_path / "hostile.gguf"
    model.write_bytes(with_template(shipped_model.read_bytes(), template))
    started_at = time.monotonic()
    done = program("-p", "Hi", "--model", str(model), "--no-servers", "--max-tokens", "4", code=5)
    assert time.monotonic() - started_at < allow_s(10 / 3)
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert "chat template" in done.stderr and cause in done.stderr
    model.write_bytes(with_template(shipped_model.read_bytes(), CHATML))
    backend = open_backend(Settings(model=str(model)))
    assert backend.count_tokens(HELLO) > 0
    asyncio.run(backend.aclose())


WRITE_WHILE_LOADING = """
import sys, threading
from pathlib import Path
from rkllm_chat.backends.llama.engine import load_engine
has_loaded, count = threading.Event(), 0
def write():
    global count
    while not has_loaded.is_set():
        print(count, flush=True)
        count += 1
writer = threading.Thread(target=write)
writer.start()
load_engine(Path(sys.argv[1]), 256).close()
has_loaded.set()
writer.join()
print(count, file=sys.stderr)
"""


def test_what_the_program_writes_while_a_model_is_loaded_is_not_lost(shipped_model: Path) -> None:
    command = [sys.executable, "-c", WRITE_WHILE_LOADING, str(shipped_model)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    assert [*map(int, done.stdout.split())] == [*range(int(done.stderr))]
