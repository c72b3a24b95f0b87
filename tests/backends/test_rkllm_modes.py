"""The other ways to use the NPU runtime: its own template and tools, thinking, prompt caches, adapters, tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat import language
from rkllm_chat.backends.counts import Estimate
from rkllm_chat.backends.rkllm import Rkllm
from rkllm_chat.backends.rkllm_options import find_template
from rkllm_chat.backends.rkllm_prompts import Plan, Roles
from rkllm_chat.backends.tokens import read_tokenizer
from rkllm_chat.chat import Chat
from rkllm_chat.config import Rkllm as RkllmSettings
from rkllm_chat.config import Settings
from rkllm_chat.errors import ModelError
from rkllm_chat.events import Usage
from rkllm_chat.messages import Message, Tool, ToolResult
from rkllm_chat.templates import TEMPLATES, Piece
from stage import GREEDY, Box, collect

pytestmark = pytest.mark.model
Open = Callable[..., Rkllm]
HELLO = [Message("system", "You are a helpful assistant."), Message("user", "Hello!")]
HARBOUR = {"type": "object", "properties": {"harbour": {"type": "string"}}}
TIDE = Tool("get_tide", "Tide height.", {"title": "get_tideArguments", **HARBOUR}, "harbour")
REPLY = Message("assistant", "I will look.")
RESULTS = [
    Message("tool", '{"metres": 2.4}', ToolResult("harbour", "get_tide", {}, "completed", '{"metres": 2.4}')),
    Message("tool", "rising", ToolResult("harbour", "get_tide", {}, "completed", "rising")),
]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """What the runtime has printed, prompts included."""
    monkeypatch.setenv("RKLLM_LOG_LEVEL", "2")
    return lambda: (tmp_path / "state/rkllm-chat/logs/rkllm.log").read_text(encoding="utf-8")


async def write(backend: Rkllm, prompt: Sequence[Message], tools: Sequence[Tool] = ()) -> tuple[str, Usage]:
    items = [item async for item in backend.stream(prompt, GREEDY, tools)]
    usage = items.pop()
    assert isinstance(usage, Usage)
    return "".join(item for item in items if isinstance(item, str)), usage


def test_native_tools_are_set_once_and_results_go_back_as_one_array(
    open_npu: Open, run: Callable[..., Any], log: Callable[[], str]
) -> None:
    backend = open_npu("F", native_tools=True)
    first, _ = run(write(backend, HELLO, [TIDE]))
    run(write(backend, [*HELLO, Message("assistant", first), *RESULTS], [TIDE]))
    said = log()
    assert said.count("W rkllm: Calling rkllm_set_chat_template") == 0
    function = {"name": "get_tide", "description": "Tide height.", "parameters": HARBOUR}
    assert json.dumps({"type": "function", "function": function}) in said
    assert '[{"metres": 2.4}, "rising"]' in said.rpartition("prompt text")[2]
    assert "<tool_response>" in said.rpartition("prompt text")[2]


def test_a_chat_with_native_tools_lists_none_in_its_prompt(open_npu: Open, run: Callable[..., Any]) -> None:
    async def get_time(place: str) -> str:
        return place

    backend = open_npu("G", native_tools=True)
    prompts: list[Plan] = []
    plan = backend._way.plan  # noqa: SLF001

    def watch(prompt: Sequence[Message], tools: Sequence[Tool]) -> Plan:
        prompts.append(plan(prompt, tools))
        return prompts[-1]

    backend._way.plan = watch  # type: ignore[method-assign]  # noqa: SLF001
    chat = Chat(backend, Box({"get_time": get_time}), Settings(generation=GREEDY), language.load())
    run(collect(chat.send("Hello!")))
    (sent,) = prompts
    assert sent.prompt == "Hello!"
    assert sent.tools is not None and sent.tools[0] == "You are a helpful assistant."


def test_native_tools_that_come_in_another_order_leave_what_was_read(open_npu: Open, run: Callable[..., Any]) -> None:
    async def answer(**_: str) -> str:
        return "42"

    functions = {"get_time": answer, "calculate": answer}
    chat = Chat(open_npu("G", native_tools=True), Box(functions), Settings(generation=GREEDY), language.load())
    reads = chat.prefix.reads
    run(collect(chat.send("Hello!")))
    before, held = len(reads), reads[-1].usage.prompt_tokens
    chat.toolbox = Box(dict(reversed(list(functions.items()))))
    run(collect(chat.send("Thank you!")))
    assert reads[before].usage.reused_tokens >= held and reads[before].parting.causes == ()
    before = len(reads)
    chat.toolbox = Box({"get_time": answer})
    run(collect(chat.send("Who are you?")))
    other = reads[before]
    assert other.usage.reused_tokens == 0 and other.parting.causes == ("tools",)
    assert "calculate" in other.parting.was


def test_the_runtimes_own_template_gets_the_newest_turn_only(
    open_npu: Open, run: Callable[..., Any], log: Callable[[], str]
) -> None:
    backend = open_npu("F", template="runtime")
    text, first = run(write(backend, HELLO))
    _, second = run(write(backend, [*HELLO, Message("assistant", text), Message("user", "Thank you!")]))
    said = log()
    assert "set_chat_template" not in said
    last = said.rpartition("prompt text")[2]
    assert "Thank you!" in last and "Hello!" not in last
    assert second.prefilled_tokens < first.prefilled_tokens
    assert second.reused_tokens >= first.prompt_tokens


def test_a_talk_that_the_runtime_has_lost_is_told_it_as_a_record() -> None:
    roles = Roles(native=False)
    talk = [*HELLO, REPLY, Message("user", "And now?")]
    assert roles.plan(talk, ()).prompt == (
        "You are a helpful assistant.\n\nuser: Hello!\n\nassistant: I will look.\n\nAnd now?"
    )
    roles.answered(roles.plan(HELLO, ()), "I will look.", [], whole=True)
    grown = roles.plan(talk, ())
    assert (grown.prompt, grown.role, grown.clear, grown.keep_history) == ("And now?", "user", False, True)


def test_results_are_one_array_in_the_order_of_their_calls() -> None:
    roles = Roles(native=True)
    roles.answered(roles.plan(HELLO, [TIDE]), "I will look.", [], whole=True)
    plan = roles.plan([*HELLO, REPLY, *RESULTS], [TIDE])
    assert (plan.role, plan.prompt, plan.clear, plan.tools) == ("tool", '[{"metres": 2.4}, "rising"]', False, None)


def test_other_tools_are_set_again_and_what_was_held_is_cleared() -> None:
    roles = Roles(native=True)
    roles.answered(roles.plan(HELLO, [TIDE]), "I will look.", [], whole=True)
    plan = roles.plan([*HELLO, REPLY, Message("user", "And now?")], [replace(TIDE, name="get_wind")])
    assert plan.clear and plan.tools is not None and "get_wind" in plan.tools[1]


@pytest.mark.parametrize("family", "CDE")
def test_native_tools_need_a_release_that_has_them(family: str, open_npu: Open) -> None:
    with pytest.raises(ModelError, match=r"native_tools needs release 1\.2\.1 or later; this library is "):
        open_npu(family, native_tools=True)


def test_releases_without_a_template_cannot_be_asked_for_theirs(open_npu: Open) -> None:
    with pytest.raises(
        ModelError, match=r'template = "runtime" needs release 1\.2\.0 or later; this library is 1\.1\.4'
    ):
        open_npu("C", template="runtime")


def test_thinking_that_is_switched_off_is_part_of_the_reply_and_costs_no_cache(
    open_npu: Open, run: Callable[..., Any]
) -> None:
    backend = open_npu("G", thinking="off")
    text, first = run(write(backend, HELLO))
    assert text.startswith("<think>\n\n</think>\n\n")
    _, second = run(write(backend, [*HELLO, Message("assistant", text), Message("user", "Thank you!")]))
    assert second.reused_tokens >= first.prompt_tokens + first.generated_tokens - 1 - first.hit_limit


def test_a_prompt_cache_saves_the_beginning_for_the_next_start(
    open_npu: Open, run: Callable[..., Any], tmp_path: Path
) -> None:
    long = [Message("system", "You are a helpful assistant. " * 20), HELLO[1]]

    def start_and_ask() -> Usage:
        backend = open_npu("G", prompt_cache=True)
        usage: Usage = run(write(backend, long))[1]
        run(backend.aclose())
        return usage

    folder = tmp_path / "state/rkllm-chat/prompt-caches"
    cold = start_and_ask()
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    warm = start_and_ask()
    assert warm.reused_tokens > 0.9 * warm.prompt_tokens > 0.9 * 100
    assert cold.prompt_tokens == warm.prompt_tokens
    file.write_bytes(b"not a cache")
    assert start_and_ask().reused_tokens == cold.reused_tokens, "it was read, or was not looked at"
    assert [one.name for one in folder.iterdir()] == [file.name], "it was not replaced"
    assert start_and_ask().reused_tokens == warm.reused_tokens


def test_an_adapter_is_loaded_and_named_in_every_run(open_npu: Open, run: Callable[..., Any], tmp_path: Path) -> None:
    adapter = tmp_path / "style.rkllm"
    adapter.write_bytes(b"adapter")
    assert run(write(open_npu("F", lora=str(adapter)), HELLO))[0] == "Hello! How can I help you?"
    with pytest.raises(ModelError, match="failed to open lora file"):
        open_npu("F", lora=str(tmp_path / "none.rkllm"))


def test_a_model_with_less_context_than_ours_gets_its_own(open_npu: Open) -> None:
    assert open_npu(context=0).context_tokens == 2048


def test_a_jinja_file_can_be_the_template(open_npu: Open, run: Callable[..., Any], tmp_path: Path) -> None:
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    file = tmp_path / "mine.jinja"
    file.write_text(source, encoding="utf-8")
    assert run(write(open_npu(template=str(file)), HELLO))[0] == "Hello! How can I help you?"


def test_a_template_can_be_named() -> None:
    settings = Settings(rkllm=RkllmSettings(template="gemma"))
    assert find_template(settings, Path("unknown.rkllm")) is TEMPLATES["gemma"]


def test_a_tokenizer_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "tokenizer.json"
    assert read_tokenizer(broken) is None
    broken.write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match="not a tokenizer"):
        read_tokenizer(broken)


def test_control_tokens_count_only_where_the_template_writes_them() -> None:
    encode = read_tokenizer(Path(__file__).parents[2] / "models/tiny-tools/tokenizer.json")
    assert encode is not None
    assert len(encode(Piece("<|im_end|>", special=True))) == 1
    assert len(encode(Piece("<|im_end|>", special=False))) > 3


def test_an_estimate_learns_from_what_the_runtime_counted() -> None:
    estimate = Estimate()
    text = "The quick brown fox. " * 20
    assert estimate.count(text) == 141
    estimate.learn(text, 100)
    assert estimate.count(text * 2) == 201
