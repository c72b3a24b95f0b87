"""A model is closed while other threads count its tokens: each count ends, or says that the model was unloaded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from backends.openai.talks import reply_of
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.core.errors import GenerationError
from rkllm_chat.core.messages import Message
from stage import GREEDY

pytestmark = pytest.mark.model
Open = Callable[..., LlamaBackend]
PROMPT = [Message("user", " ".join(str(number) for number in range(300)))]
USES: list[Callable[[LlamaBackend], Any]] = [
    lambda backend: backend.count_tokens(PROMPT),
    lambda backend: backend.count_cached_tokens(PROMPT),
    lambda backend: backend.tokenize(PROMPT[0].text),
    lambda backend: backend.render_request(PROMPT),
    lambda backend: backend.fill_middle("one", "three", GREEDY),
]


class User:
    """A thread that uses a model until that is refused. `told`: the refusal. `begun`: released after each use."""

    def __init__(self, use: Callable[[LlamaBackend], Any], backend: LlamaBackend) -> None:
        self.use, self.backend, self.told = use, backend, ""
        self.begun = threading.Semaphore(0)
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        try:
            while True:
                self.use(self.backend)
                self.begun.release()
        except GenerationError as error:
            self.told = error.message


@pytest.mark.slow
def test_a_model_is_freed_after_the_last_use_of_it(open_llama: Open) -> None:
    for moment in range(20):
        backend = open_llama(512)
        users = [User(use, backend) for use in USES[:4]]
        for user in users:
            user.thread.start()
        for user in users:
            for _ in range(moment):
                user.begun.acquire(timeout=5)
        asyncio.run(backend.aclose())
        for user in users:
            user.thread.join(5)
        assert {user.told for user in users} == {"The model was unloaded meanwhile."}


@pytest.mark.parametrize("use", [*USES, lambda backend: asyncio.run(reply_of(backend, PROMPT))])
def test_a_use_of_a_closed_model_is_refused(use: Callable[[LlamaBackend], Any], open_llama: Open) -> None:
    backend = open_llama(512)
    asyncio.run(backend.aclose())
    with pytest.raises(GenerationError, match="unloaded"):
        use(backend)
