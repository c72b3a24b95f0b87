"""Every engine keeps the contract that plugins can check theirs with; engines that break it are found."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from backends.openai.talks import HELLO
from rkllm_chat.backends import BACKENDS, BaseBackend, Engine, open_backend
from rkllm_chat.backends.base import Backend, ModelStream, StoppableStream, StreamItem
from rkllm_chat.backends.contract import check_contract
from rkllm_chat.backends.scripted import ScriptedBackend
from rkllm_chat.config.settings import Generation, Settings
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Message

EXAMPLE = Path(__file__).parents[2] / "examples/plugin"
SAID = [*HELLO[:1], Message("user", "Polly wants a cracker, and a nut, and water.")]


@pytest.mark.model
@pytest.mark.parametrize("name", BACKENDS)
def test_every_engine_keeps_the_contract(name: str, request: pytest.FixtureRequest) -> None:
    opened: dict[str, Callable[[], Backend]] = {
        "llama": lambda: request.getfixturevalue("open_llama")(1024),
        "rkllm": lambda: request.getfixturevalue("open_npu")(),
        "openai": lambda: open_backend(Settings(model=request.getfixturevalue("real_service"))),
        "scripted": lambda: ScriptedBackend(["Hello! How can I help you?"] * 9),
    }
    asyncio.run(check_contract(opened[name](), HELLO))


def test_the_engine_of_the_example_plugin_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    from rkllm_chat_example.parrot import PARROT

    asyncio.run(check_contract(PARROT.open(Settings()), SAID))
    for module in [name for name in sys.modules if name.startswith("rkllm_chat_example")]:
        monkeypatch.delitem(sys.modules, module)


def test_what_is_remembered_of_a_model_is_of_its_engine_alone() -> None:
    ships = BACKENDS["llama"].identify(Settings())
    assert ships.name == "tiny-tools.gguf" and ships.file and ships.file.is_file()
    other, named = (Engine().identify(Settings(backend="echo", model=model)) for model in ("", "/m/one.bin"))
    assert (other.name, other.file, named.name, named.file) == ("echo", None, "one.bin", None)
    remote = BACKENDS["openai"].identify(Settings(model="https://user:secret@example.org/v1"))
    assert (remote.name, remote.file) == ("example.org", None)
    assert len({identity.key for identity in (ships, other, named, remote)}) == 4


class Parrot(BaseBackend):
    """Keeps the contract; what is built of it breaks one promise each."""

    async def generate(self, prompt: Sequence[Message], _generation: Generation) -> AsyncGenerator[str, None]:
        for word in prompt[-1].text.split(" "):
            yield f"{word} "
            await asyncio.sleep(0)


class Silent(Parrot):
    async def generate(self, _prompt: Sequence[Message], _generation: Generation) -> AsyncGenerator[str, None]:
        return
        yield ""


class Unlimited(Parrot):
    def stream(self, prompt: Sequence[Message], _generation: Generation, *_more: Any) -> ModelStream:
        return super().stream(prompt, Generation(max_tokens=99))


class WithoutUsage(Parrot):
    def stream(self, prompt: Sequence[Message], generation: Generation, *_more: Any) -> ModelStream:
        async def read() -> AsyncGenerator[StreamItem, None]:
            async for item in super(WithoutUsage, self).stream(prompt, generation):
                if not isinstance(item, Usage):
                    yield item

        return StoppableStream(read(), lambda: None)


class CountsNothing(Parrot):
    def count_cached_tokens(self, prompt: Sequence[Message]) -> int:
        return self.count_tokens(prompt) + 1


class Forgetful(Parrot):
    asked = 0

    async def generate(self, prompt: Sequence[Message], generation: Generation) -> AsyncGenerator[str, None]:
        self.asked += 1
        async for piece in super().generate(prompt, generation):
            yield f"{self.asked} {piece}"


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Silent, "a reply has text"),
        (Unlimited, "max_tokens limits"),
        (WithoutUsage, "its only Usage"),
        (CountsNothing, "no more is cached"),
        (Forgetful, "leaves the engine as it was"),
    ],
)
def test_an_engine_that_breaks_a_promise_is_found(broken: type[Parrot], promise: str) -> None:
    asyncio.run(check_contract(Parrot(), SAID, max_tokens=6))
    with pytest.raises(AssertionError, match=promise):
        asyncio.run(check_contract(broken(), SAID, max_tokens=6))
