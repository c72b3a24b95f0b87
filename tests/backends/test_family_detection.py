"""Each backend recognizes the family of its model, and the markers of its calls reach the chat."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from altered import with_template, with_token_type
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.base import Backend
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.rkllm.prompt_planners import RolePromptPlanner
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.model_families import FAMILIES
from rkllm_chat.chat.conversation import Conversation
from rkllm_chat.config import settings as config
from rkllm_chat.config.settings import Settings
from rkllm_chat.core import i18n as language
from rkllm_chat.core.errors import ModelError
from rkllm_chat.core.messages import Message
from stage import GREEDY, FakeToolbox

pytestmark = pytest.mark.model
Compiled = Callable[[str], Path]
Open = Callable[..., Backend]
HELLO = [Message("system", "You are a helpful assistant."), Message("user", "Hello!")]
TAUGHT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
NEW = (
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls %}<ask>{{ c.function | tojson }}</ask>"
    "{% endfor %}<|im_end|>{% endfor %}assistant:"
)
MARKED = TAUGHT + "{% if tools %}<tool_call>{% endif %}"


@pytest.fixture
def open_model(compiled: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens a model by its path; one for the NPU on the stand-in."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    backends: list[Backend] = []

    def open_one(path: Path, thinking: config.Thinking = "auto", **options: Any) -> Backend:
        npu = config.Rkllm(library=str(compiled("F")) if path.suffix == ".rkllm" else "", **options)
        backends.append(open_backend(Settings(model=str(path), rkllm=npu, thinking=thinking, context_tokens=2048)))
        return backends[-1]

    yield open_one
    for backend in backends:
        asyncio.run(backend.aclose())


def write(backend: Backend, prompt: Sequence[Message] = HELLO) -> str:
    async def collect() -> list[str]:
        return [item async for item in backend.stream(prompt, GREEDY) if isinstance(item, str)]

    return "".join(asyncio.run(collect()))


def test_the_shipped_model_has_its_own_family(shipped_model: Path) -> None:
    backend = LlamaBackend(shipped_model, 0)
    assert backend.family == FAMILIES["tiny-tools"]
    assert Conversation(backend, FakeToolbox({}), Settings(), language.load()).call_format == "json", (
        "the form it knows best"
    )
    asyncio.run(backend.aclose())


@pytest.mark.parametrize("name", ["Qwen3-1.7B-Q8_0.gguf", "Qwen3-1.7B-w8a8-rk3588.rkllm"])
def test_a_family_is_recognized_by_the_file_name(
    name: str, shipped_model: Path, tmp_path: Path, open_model: Open
) -> None:
    path = tmp_path / name
    path.symlink_to(shipped_model)
    assert open_model(path).family == FAMILIES["qwen3"]


def test_a_gguf_is_recognized_by_its_template_or_its_name_field(
    shipped_model: Path, tmp_path: Path, open_model: Open
) -> None:
    shipped = shipped_model.read_bytes()
    renamed = shipped.replace(b"tiny-tools", b"lfm2-tools", 1)
    for name, data in (("hermes", with_template(shipped, MARKED)), ("lfm2", renamed)):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.gguf"
        path.write_bytes(data)
        assert open_model(path).family == FAMILIES[name]


def test_a_gguf_with_an_unknown_template_is_asked_for_the_calls_that_it_writes(
    shipped_model: Path, tmp_path: Path, open_model: Open
) -> None:
    path = tmp_path / "new.gguf"
    path.write_bytes(with_template(shipped_model.read_bytes(), NEW))
    before = set(FORMATS)
    family = open_model(path).family
    (added,) = set(FORMATS) - before
    assert (family.preferred_format, family.accepted_formats) == (added, (added,))
    assert FORMATS.pop(added).render_call("f", {"x": 1}) == '<ask>{"name": "f", "arguments": {"x": 1}}</ask>'


def test_an_npu_model_is_recognized_by_its_configured_template(
    shipped_model: Path, tmp_path: Path, open_model: Open
) -> None:
    path = tmp_path / "model.rkllm"
    path.symlink_to(shipped_model)
    (tmp_path / "chat.jinja").write_text(MARKED, encoding="utf-8")
    assert open_model(path, template=str(tmp_path / "chat.jinja")).family == FAMILIES["hermes"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.gguf", "tiny-tools.rkllm"])
def test_a_control_token_that_does_not_end_the_reply_is_part_of_it(
    name: str, shipped_model: Path, tmp_path: Path, open_model: Open
) -> None:
    plain = tmp_path / "plain.gguf"
    plain.symlink_to(shipped_model)
    llama = open_model(plain)
    assert isinstance(llama, LlamaBackend)
    reply = write(llama)
    engine = llama._engine  # noqa: SLF001 - the vocabulary is the file's
    tokens = engine.tokenize(reply.encode(), add_bos=False, special=False)
    longest = max(tokens, key=lambda token: len(engine.detokenize([token])))
    assert len(engine.detokenize([longest])) > 1
    path = tmp_path / name
    path.write_bytes(with_token_type(shipped_model.read_bytes(), longest))
    assert write(open_model(path)) == reply


@pytest.mark.parametrize(("thinking", "opened"), [("auto", "<think>\n"), ("off", "")])
def test_a_thought_opened_by_the_template_of_the_runtime_begins_the_reply(
    thinking: str, opened: str, shipped_model: Path, tmp_path: Path, open_model: Open
) -> None:
    path = tmp_path / "Qwen3.5-2B_w8a8_rk3588.rkllm"
    path.symlink_to(shipped_model)
    reply = write(open_model(path, thinking, template="runtime"))
    assert reply.startswith("<think>") == bool(opened)
    assert len(reply) > len(opened) and reply.startswith(opened)


def test_a_talk_with_an_opened_thought_stays_in_the_cache() -> None:
    roles = RolePromptPlanner(native=False, reply_prefix="<think>\n")
    plan = roles.plan(HELLO, ())
    roles.record_reply(plan, "I think.</think>Hi.", [], is_complete=True)
    talk = [*HELLO, Message("assistant", "<think>\nI think.</think>Hi."), Message("user", "And now?")]
    grown = roles.plan(talk, ())
    assert (plan.reply_prefix, grown.prompt, grown.clears_cache) == ("<think>\n", "And now?", False)


def test_a_script_is_recognized_by_the_model_it_names(tmp_path: Path, open_model: Open) -> None:
    path = tmp_path / "replies.json"
    path.write_text(json.dumps({"model": "Phi-4-mini-instruct-Q4_K_M.gguf", "replies": ["Hi."]}), encoding="utf-8")
    backend = open_model(path)
    assert (backend.family, write(backend)) == (FAMILIES["phi4"], "Hi.")


@pytest.mark.parametrize("text", ['{"model": "phi4"}', "7", '{"replies": [{"words": "Hi."}]}'])
def test_a_script_without_replies_is_an_error(text: str, tmp_path: Path, open_model: Open) -> None:
    path = tmp_path / "replies.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match="not a list of replies"):
        open_model(path)
