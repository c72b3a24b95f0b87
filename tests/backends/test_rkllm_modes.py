"""The other ways to use the NPU runtime: its own template and tools, thinking, prompt caches, adapters, tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from altered import with_template
from backends.openai.talks import HELLO
from backends.openai.talks import reply_of as write
from rkllm_chat.backends.rkllm.backend import RkllmBackend, open_rkllm
from rkllm_chat.backends.rkllm.prompt_planners import RolePromptPlanner, RunPlan
from rkllm_chat.backends.shared.prompt_tokens import load_tokenizer
from rkllm_chat.backends.shared.token_counts import TokenEstimator
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.settings import Rkllm, Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.core.errors import ConfigError, ModelError
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Message, Tool, ToolResult
from stage import GREEDY, FakeToolbox, collect

pytestmark = pytest.mark.model
Open = Callable[..., RkllmBackend]
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


def test_native_tools_are_set_once_and_results_are_one_array(
    open_npu: Open, run: Callable[..., Any], log: Callable[[], str]
) -> None:
    backend = open_npu("F", native_tools=True)
    first, _ = run(write(backend, HELLO, tools=[TIDE]))
    run(write(backend, [*HELLO, Message("assistant", first), *RESULTS], tools=[TIDE]))
    said = log()
    assert said.count("W rkllm: Calling rkllm_set_chat_template") == 0
    function = {"name": "get_tide", "description": "Tide height.", "parameters": HARBOUR}
    assert json.dumps({"type": "function", "function": function}) in said
    assert '[{"metres": 2.4}, "rising"]' in said.rpartition("prompt text")[2]
    assert "<tool_response>" in said.rpartition("prompt text")[2]


def test_a_chat_with_native_tools_has_none_in_its_prompt(open_npu: Open, run: Callable[..., Any]) -> None:
    async def get_time(place: str) -> str:
        return place

    backend = open_npu("G", native_tools=True)
    prompts: list[RunPlan] = []
    plan = backend._planner.plan  # noqa: SLF001

    def watch(prompt: Sequence[Message], tools: Sequence[Tool]) -> RunPlan:
        prompts.append(plan(prompt, tools))
        return prompts[-1]

    backend._planner.plan = watch  # type: ignore[method-assign]  # noqa: SLF001
    settings = Settings(generation=GREEDY, prompt_profile="default")
    chat = Conversation(backend, FakeToolbox({"get_time": get_time}), settings, language.load())
    run(collect(Turn(chat).run("Hello!")))
    (sent,) = prompts
    assert sent.prompt == "Hello!"
    assert sent.tools is not None and sent.tools[0] == "You are a helpful assistant."


@pytest.mark.slow
def test_native_tools_in_another_order_keep_the_cache(open_npu: Open, run: Callable[..., Any]) -> None:
    async def answer(**_: str) -> str:
        return "42"

    functions = {"get_time": answer, "calculate": answer}
    chat = Conversation(
        open_npu("G", native_tools=True), FakeToolbox(functions), Settings(generation=GREEDY), language.load()
    )
    reads = chat.usages
    run(collect(Turn(chat).run("Hello!")))
    before, held = len(reads), reads[-1].prompt_tokens
    chat.toolbox = FakeToolbox(dict(reversed(list(functions.items()))))
    run(collect(Turn(chat).run("Thank you!")))
    assert reads[before].reused_tokens >= held
    before = len(reads)
    chat.toolbox = FakeToolbox({"get_time": answer})
    run(collect(Turn(chat).run("Who are you?")))
    assert reads[before].reused_tokens == 0


def test_the_template_of_the_runtime_gets_only_the_newest_turn(
    open_npu: Open, run: Callable[..., Any], log: Callable[[], str]
) -> None:
    backend = open_npu("F", template="runtime")
    text, first = run(write(backend))
    _, second = run(write(backend, [*HELLO, Message("assistant", text), Message("user", "Thank you!")]))
    said = log()
    assert "set_chat_template" not in said
    last = said.rpartition("prompt text")[2]
    assert "Thank you!" in last and "Hello!" not in last
    assert second.prefilled_tokens < first.prefilled_tokens
    assert second.reused_tokens >= first.prompt_tokens


def test_a_talk_that_the_runtime_has_lost_is_sent_as_a_record() -> None:
    roles = RolePromptPlanner(native=False)
    talk = [*HELLO, REPLY, Message("user", "And now?")]
    assert roles.plan(talk, ()).prompt == (
        "You are a helpful assistant.\n\nuser: Hello!\n\nassistant: I will look.\n\nAnd now?"
    )
    roles.record_reply(roles.plan(HELLO, ()), "I will look.", [], is_complete=True)
    grown = roles.plan(talk, ())
    assert (grown.prompt, grown.role, grown.clears_cache, grown.keep_history) == ("And now?", "user", False, True)


def test_results_are_sent_in_the_order_of_their_calls() -> None:
    roles = RolePromptPlanner(native=True)
    roles.record_reply(roles.plan(HELLO, [TIDE]), "I will look.", [], is_complete=True)
    plan = roles.plan([*HELLO, REPLY, *RESULTS], [TIDE])
    assert (plan.role, plan.prompt, plan.clears_cache, plan.tools) == (
        "tool",
        '[{"metres": 2.4}, "rising"]',
        False,
        None,
    )


def test_other_tools_are_set_again_and_clear_the_cache() -> None:
    roles = RolePromptPlanner(native=True)
    roles.record_reply(roles.plan(HELLO, [TIDE]), "I will look.", [], is_complete=True)
    plan = roles.plan([*HELLO, REPLY, Message("user", "And now?")], [replace(TIDE, name="get_wind")])
    assert plan.clears_cache and plan.tools is not None and "get_wind" in plan.tools[1]


@pytest.mark.parametrize("family", "CE")
def test_native_tools_need_a_release_that_has_them(family: str, open_npu: Open) -> None:
    with pytest.raises(ModelError, match=r"native_tools.*1\.2\.1"):
        open_npu(family, native_tools=True)


def test_the_template_of_the_runtime_needs_a_release_that_has_it(open_npu: Open) -> None:
    with pytest.raises(ModelError, match=r"template.*1\.2\.0.*1\.1\.4"):
        open_npu("C", template="runtime")


def test_disabled_thinking_is_part_of_the_reply_and_keeps_the_cache(open_npu: Open, run: Callable[..., Any]) -> None:
    backend = open_npu("G", thinking="off")
    text, first = run(write(backend))
    assert text.startswith("<think>\n\n</think>\n\n")
    _, second = run(write(backend, [*HELLO, Message("assistant", text), Message("user", "Thank you!")]))
    assert second.reused_tokens >= first.prompt_tokens + first.generated_tokens - 1 - first.hit_limit


@pytest.mark.slow
@pytest.mark.parametrize("template", ["chatml", "runtime"])
def test_thinking_is_switched_between_two_replies(
    template: str, open_npu: Open, npu_model: Path, run: Callable[..., Any], log: Callable[[], str]
) -> None:
    source = with_template(npu_model.read_bytes(), "<|im_start|><think>")
    npu_model.unlink()
    npu_model.write_bytes(source)
    backend = open_npu("G", template=template)
    text, first = run(write(backend))
    backend.set_thinking("off")
    grown = [*HELLO, Message("assistant", text), Message("user", "Thank you!")]
    _, second = run(write(backend, grown))
    assert second.reused_tokens >= first.prompt_tokens, "the cache was lost"
    backend.set_thinking("auto")
    run(write(backend, [*grown, Message("assistant", "Well."), Message("user", "Bye!")]))
    said = log()
    assert said.count("runtime version") == 1, "the model was loaded again"
    asked = [prompt.rpartition("assistant\n")[2] for prompt in re.findall(r'prompt text: "(.*?)"\n', said, re.DOTALL)]
    assert asked == ["", "<think>\n\n</think>\n\n", ""]


@pytest.mark.slow
def test_a_prompt_cache_is_used_by_the_next_start(open_npu: Open, run: Callable[..., Any], tmp_path: Path) -> None:
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
    assert [path.name for path in folder.iterdir()] == [file.name], "it was not replaced"
    assert start_and_ask().reused_tokens == warm.reused_tokens


def test_a_kept_conversation_is_used_by_the_next_start(open_npu: Open, run: Callable[..., Any], tmp_path: Path) -> None:
    asked = [*HELLO[:1], Message("user", "Hello! " + "I am glad to see you. " * 80)]
    folder = tmp_path / "one.state"

    def start_and_ask(prompt: list[Message], is_kept: bool) -> tuple[str, Usage]:
        backend = open_npu("G", prompt_cache=is_kept)
        backend.resume_conversation(folder)
        text, usage = run(write(backend, prompt))
        if is_kept:
            run(backend.keep_conversation(folder, [*prompt, Message("assistant", text)]))
        run(backend.aclose())
        return text, usage

    text, cold = start_and_ask(asked, is_kept=True)
    (file,) = folder.iterdir()
    assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    following = [*asked, Message("assistant", text), Message("user", "I am glad too. " * 8)]
    bare, _ = start_and_ask(following, is_kept=False)
    resumed, warm = start_and_ask(following, is_kept=True)
    assert resumed == bare and warm.prefilled_tokens < 200 < 1000 < cold.prefilled_tokens
    (newer,) = folder.iterdir()
    assert newer != file, "the state of one conversation is kept once"
    newer.write_bytes(newer.read_bytes()[:-1])
    again, usage = start_and_ask(following, is_kept=False)
    assert again == bare and usage.prefilled_tokens > cold.prefilled_tokens


def test_an_adapter_is_loaded_and_used(open_npu: Open, run: Callable[..., Any], tmp_path: Path) -> None:
    adapter = tmp_path / "style.rkllm"
    adapter.write_bytes(b"adapter")
    assert run(write(open_npu("F", lora=str(adapter)), HELLO))[0] == "Hello! How can I help you?"
    with pytest.raises(ModelError, match="failed to open lora file"):
        open_npu("F", lora=str(tmp_path / "none.rkllm"))


def test_the_context_is_that_of_the_model_where_it_has_less(open_npu: Open) -> None:
    assert open_npu(context=0).context_tokens == 2048


def test_the_template_is_a_jinja_file_or_has_a_name(open_npu: Open, run: Callable[..., Any], tmp_path: Path) -> None:
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    file = tmp_path / "mine.jinja"
    file.write_text(source, encoding="utf-8")
    for template in (str(file), "chatml"):
        assert run(write(open_npu(template=template), HELLO))[0] == "Hello! How can I help you?"
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"mine\.jinja cannot be read"):
        open_npu(template=str(file))


CHATML = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NAMED = [{"name": "tool_use", "template": "{{ none.x }}"}, {"name": "default", "template": CHATML}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chat_template.jinja", CHATML),
        ("tokenizer_config.json", json.dumps({"chat_template": CHATML, "bos_token": None, "eos_token": "<|im_end|>"})),
        ("tokenizer_config.json", json.dumps({"chat_template": NAMED, "eos_token": {"content": "<|im_end|>"}})),
    ],
)
def test_a_model_of_unknown_name_uses_the_template_beside_it(
    name: str,
    content: str,
    compiled: Callable[[str], Path],
    run: Callable[..., Any],
    npu_model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(npu_model.parent / "state"))
    model = npu_model.rename(npu_model.with_name("assistant.rkllm"))
    rkllm = Rkllm(library=str(compiled("G")))
    settings = Settings(model=str(model), rkllm=rkllm, generation=GREEDY, context_tokens=2048)
    model.with_name("tokenizer_config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"Neither the name of assistant\.rkllm nor a file"):
        open_rkllm(settings)
    model.with_name(name).write_text(content, encoding="utf-8")
    backend = open_rkllm(settings)
    assert run(write(backend, HELLO))[0] == "Hello! How can I help you?"
    run(backend.aclose())


def test_a_tokenizer_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "tokenizer.json"
    assert load_tokenizer(broken) is None
    broken.write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match="not a tokenizer"):
        load_tokenizer(broken)


def test_an_estimate_learns_from_counted_tokens() -> None:
    estimate = TokenEstimator()
    text = "The quick brown fox. " * 20
    assert estimate.count(text) == 141
    estimate.calibrate(text, 100)
    assert estimate.count(text * 2) == 201
