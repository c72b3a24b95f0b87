"""The second start of llama.cpp reads system text and tools from a file: real GGUF, files and processes."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from shutil import copyfile
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest

import fork_server
from altered import with_template
from backends.openai.talks import reply_of
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.llama.engine import load_engine
from rkllm_chat.backends.llama.state_cache import LlamaStateCache, describe_engine
from rkllm_chat.backends.shared.prompt_cache_files import PromptCacheFiles
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Message
from stage import PROGRAM

pytestmark = pytest.mark.model
GREEDY = Generation(temperature=0, max_tokens=24)
SYSTEM = "You are a helpful assistant. " * 60
LINE = "What is 12 * 34?"
Run = Callable[..., Any]


def start(
    model: Path, states: Path | None, line: str = LINE, system: str = SYSTEM, context: int = 2048
) -> tuple[str, Usage]:
    """One start: the engine is opened, asked, closed. Gives the reply and what it cost."""

    async def ask() -> tuple[str, Usage]:
        backend = LlamaBackend(model, context, states=states)
        prompt = [Message("system", system), Message("user", line)]
        items = [item async for item in backend.stream(prompt, GREEDY)]
        await backend.aclose()
        usage = items.pop()
        assert isinstance(usage, Usage)
        return "".join(item for item in items if isinstance(item, str)), usage

    return asyncio.run(ask())


def only_file(states: Path) -> Path:
    (path,) = states.iterdir()
    return path


@pytest.mark.slow
def test_the_second_start_evaluates_only_the_question(shipped_model: Path, tmp_path: Path) -> None:
    bare, _ = start(shipped_model, None)
    cold, first = start(shipped_model, tmp_path)
    warm, second = start(shipped_model, tmp_path)
    assert cold == warm == bare
    assert (first.reused_tokens, first.prefilled_tokens) == (0, first.prompt_tokens)
    assert second.prompt_tokens == first.prompt_tokens > 300
    assert second.prefilled_tokens <= len(LINE) + 12
    assert second.reused_tokens + second.prefilled_tokens == second.prompt_tokens


def test_a_short_beginning_is_not_saved(shipped_model: Path, tmp_path: Path) -> None:
    start(shipped_model, tmp_path / "states", system="You are a helpful assistant.")
    assert not (tmp_path / "states").exists()


@pytest.mark.slow
def test_a_damaged_file_is_replaced(shipped_model: Path, tmp_path: Path) -> None:
    text, _ = start(shipped_model, tmp_path)
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    again, usage = start(shipped_model, tmp_path)
    assert (again, usage.reused_tokens) == (text, 0)
    assert start(shipped_model, tmp_path)[1].prefilled_tokens < 30


@pytest.mark.slow
def test_a_state_that_llama_cpp_rejects_is_removed(shipped_model: Path, tmp_path: Path) -> None:
    """Only a fault of this program can bring one, since its digest is right; the engine works afterwards."""
    engine, tokens = load_engine(shipped_model, 1024), list(range(5, 405))
    states = LlamaStateCache(tmp_path, shipped_model, engine)
    engine.evaluate_prompt(tokens)
    assert states.save(tokens)
    whole = only_file(tmp_path).read_bytes()
    files = PromptCacheFiles(tmp_path, shipped_model, describe_engine(engine))
    for content in (whole[: len(whole) // 2], b"no state at all", whole[:12] + whole[16:20] + whole[16:]):
        assert files.save(tokens, partial(write_whole, content))
        assert not states.load(tokens)
        assert engine.n_tokens == 0 and list(tmp_path.iterdir()) == []
        engine.evaluate_prompt(tokens)
        assert states.save(tokens) and states.load(tokens)
        assert engine.count_cached_prefix(tokens) == len(tokens)
    engine.close()


def write_whole(content: bytes, path: Path) -> bool:
    return path.write_bytes(content) == len(content)


@pytest.mark.slow
def test_another_model_template_context_or_system_text_has_its_own_file(shipped_model: Path, tmp_path: Path) -> None:
    states = tmp_path / "states"
    start(shipped_model, states)
    copied, altered = tmp_path / "copy.gguf", tmp_path / "altered.gguf"
    copyfile(shipped_model, copied)
    altered.write_bytes(with_template(shipped_model.read_bytes(), TEMPLATE))
    others: Sequence[dict[str, Any]] = (
        {"model": copied},
        {"model": altered},
        {"context": 1024},
        {"system": SYSTEM + "Be short."},
    )
    for other in others:
        cold, warm = (start(**{"model": shipped_model, "states": states, **other})[1] for _ in range(2))
        assert cold.reused_tokens == 0 and warm.prefilled_tokens < 40, other


TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}:\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant:\n"
)
LONG = "You are a helpful assistant. " * 60
ASK = ("-p", "What is 12 * 34?", "--output-format", "json", "--temperature", "0")


def read_call(output: str) -> dict[str, Any]:
    """The usage of the model's first call; the tool was called."""
    result = json.loads(output)["result"]
    assert "408" in result["text"]
    usage: dict[str, Any] = result["usage"]["model_calls"][0]
    return usage


@pytest.fixture
def states(environment: dict[str, str]) -> Path:
    return Path(environment["HOME"]) / ".local/state/rkllm-chat/prompt-caches"


@pytest.fixture
def long_system_text(folder: Path) -> None:
    """A long beginning of each prompt, which is worth a file."""
    (folder / "mcp_config.toml").write_text(f'[chat]\nsystem = "{LONG}"\n', encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("long_system_text")
def test_the_program_reads_its_system_text_from_a_file_at_its_second_start(program: Run, states: Path) -> None:
    first, second = (read_call(program(*ask).stdout) for ask in (ASK, ASK))
    assert (first["reused_tokens"], first["prefilled_tokens"]) == (0, first["prompt_tokens"])
    assert second["prefilled_tokens"] < 90 < 300 < second["reused_tokens"]
    one = only_file(states)
    assert (one.stat().st_mode & 0o777, states.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.slow
def test_prompt_caches_can_be_switched_off(program: Run, states: Path, folder: Path) -> None:
    (folder / "mcp_config.toml").write_text(f'[chat]\nsystem = "{LONG}"\nkeep_prefix = false\n', encoding="utf-8")
    assert read_call(program(*ASK).stdout)["reused_tokens"] == 0
    assert not states.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("long_system_text")
def test_two_starts_at_once_leave_one_valid_file(
    program: Run, environment: dict[str, str], folder: Path, states: Path
) -> None:
    running = [
        fork_server.start([*PROGRAM, *ASK], env=environment, cwd=folder, stdout=PIPE, stdin=DEVNULL) for _ in range(2)
    ]
    for stream in running:
        assert read_call(stream.communicate(timeout=60)[0])
    assert read_call(program(*ASK).stdout)["prefilled_tokens"] < 90
    assert len(list(states.iterdir())) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("long_system_text")
def test_a_full_disk_costs_only_the_file(environment: dict[str, str], folder: Path, states: Path) -> None:
    most = 1 << 20  # of any file; the state is twice as large
    done = fork_server.run(
        [*PROGRAM, *ASK],
        forks=False,
        env=environment,
        cwd=folder,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )
    assert read_call(done.stdout)
    assert states.is_dir() and list(states.iterdir()) == []


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_costs_only_the_file(program: Run, states: Path) -> None:
    states.parent.mkdir(parents=True, exist_ok=True)
    states.symlink_to("/proc/1/fdinfo")
    assert read_call(program(*ASK).stdout)
    states.unlink()
    states.write_text("in the way", encoding="utf-8")
    assert read_call(program(*ASK).stdout)
    assert states.read_text(encoding="utf-8") == "in the way"


@pytest.fixture
def sessions(states: Path) -> Path:
    return states.parent / "sessions"


GO_ON = ("--continue", "--no-servers", "--output-format", "json", "--temperature", "0", "--max-tokens", "24", "-p")
LONG_QUESTION = "Hello! " + "I am glad to see you. " * 100
NEXT_QUESTION = "I am glad too. " * 4
MOST_NEW = 150


def test_a_continued_session_evaluates_only_what_is_new(program: Run, sessions: Path, tmp_path: Path) -> None:
    """Its state is beside it; one that is damaged, or in a folder that is not the user's own, is not read."""

    def go_on(question: str = NEXT_QUESTION, *options: str) -> int:
        usage = json.loads(program(*GO_ON, question, *options).stdout)["result"]["usage"]
        return int(usage["prefilled_tokens"])

    assert go_on(LONG_QUESTION) > 1000
    (folder,) = sessions.glob("*.state")
    assert folder.stat().st_mode & 0o777 == 0o700 and only_file(folder).stat().st_mode & 0o777 == 0o600
    assert go_on() < MOST_NEW and go_on() < MOST_NEW
    damaged = only_file(folder)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert go_on() > 1000
    assert go_on() < MOST_NEW, "it was kept anew"
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    theirs = only_file(elsewhere)
    assert go_on() > 1000
    assert only_file(elsewhere) == theirs, "nothing is written there either"
    folder.unlink()
    elsewhere.rename(folder)
    program("sessions", "delete", "--yes", folder.stem)
    assert not folder.exists() and not list(sessions.iterdir())


def test_the_state_is_kept_also_behind_an_answer_in_a_prompt_of_its_own(shipped_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "one.state"

    async def ask(prompt: Sequence[Message]) -> tuple[str, Usage]:
        backend = LlamaBackend(shipped_model, 4096, states=tmp_path / "states")
        backend.keep_states(1 << 28)
        backend.resume_conversation(folder)
        text, usage = await reply_of(backend, prompt, GREEDY)
        await reply_of(backend, [Message("system", "Say yes."), Message("user", "Yes?")], GREEDY)
        await backend.keep_conversation(folder, [*prompt, Message("assistant", text)])
        await backend.aclose()
        return text, usage

    asked = [Message("system", "You are a helpful assistant."), Message("user", LONG_QUESTION)]
    text, cold = asyncio.run(ask(asked))
    _, warm = asyncio.run(ask([*asked, Message("assistant", text), Message("user", "Thank you!")]))
    assert warm.prefilled_tokens < 30 < 1000 < cold.prefilled_tokens


def test_a_reply_returns_in_the_next_program_with_the_tokens_that_it_was_generated_with(
    shipped_model: Path, tmp_path: Path
) -> None:
    folder, asked = tmp_path / "one.state", [Message("system", "You write."), Message("user", LONG_QUESTION)]

    async def write() -> list[Message]:
        """A reply in other tokens than its text has."""
        backend = LlamaBackend(shipped_model, 4096, states=tmp_path / "states")
        for seed in range(30):
            text, usage = await reply_of(
                backend, asked, Generation(temperature=4, top_k=0, top_p=1, min_p=0, max_tokens=12, seed=seed)
            )
            if "\ufffd" not in text and len(backend.tokenize(text)) != usage.generated_tokens:
                break
        else:
            pytest.fail("Each reply has the tokens of its text.")
        said = [*asked, Message("assistant", text)]
        await backend.keep_conversation(folder, said)
        await backend.aclose()
        return said

    async def go_on(said: Sequence[Message]) -> int:
        backend = LlamaBackend(shipped_model, 4096, states=tmp_path / "states")
        backend.resume_conversation(folder)
        _, usage = await reply_of(backend, [*said, Message("user", "Thank you!")], GREEDY)
        await backend.aclose()
        return usage.prefilled_tokens

    said = asyncio.run(write())
    new = asyncio.run(go_on(said))
    assert new < 20  # the next message alone
    kept = folder / "replies.json"
    [(text, ids)] = json.loads(kept.read_text("utf-8")).items()
    assert text == said[-1].text
    # what is not what was written is not used
    for damaged in ("{", "[]", json.dumps({text: ids[1:]}), json.dumps({text: [10**9]}), json.dumps({text: ["1"]})):
        kept.write_text(damaged, "utf-8")
        assert asyncio.run(go_on(said)) > new
