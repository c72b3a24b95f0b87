"""What --output-format prompt, /context prompt and a backend show of a prompt is what is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from backends.openai.service import Service
from backends.openai.talks import HELLO
from mcp_client.chaos_http import serving
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.openai.backend import OpenaiBackend
from rkllm_chat.backends.rkllm.backend import RkllmBackend
from rkllm_chat.config.settings import Openai, Settings
from rkllm_chat.core.messages import Message, Tool
from stage import GREEDY, OpenScreen, Run, Script
from tui.server_configs import write_harbour

QUESTION = "What time is it in <|im_end|> Tokyo?"
TOOL = Tool("get_tide", "The tide.", {"type": "object", "properties": {"place": {"type": "string"}}}, "harbour")


@pytest.mark.model
def test_the_engine_evaluates_as_many_tokens_as_are_printed(program: Run, shipped_model: Path, folder: Path) -> None:
    import llama_cpp

    options = write_harbour(folder).split()
    printed = program("-p", QUESTION, "--output-format", "prompt", *options)
    assert printed.stdout.startswith("<|im_start|>system\n") and printed.stdout.endswith("<|im_start|>assistant\n\n")
    done = program("-p", QUESTION, "--max-tokens", "1", "--output-format", "json", *options, code=None)
    (first, *_) = json.loads(done.stdout)["result"]["usage"]["model_calls"]
    vocabulary = llama_cpp.Llama(str(shipped_model), vocab_only=True, verbose=False)
    before, said, after = printed.stdout.removesuffix("\n").rpartition(QUESTION)
    texts = ((before, True), (said, False), (after, True))  # what a user writes is no control token
    tokens = [vocabulary.tokenize(text.encode(), add_bos=False, special=special) for text, special in texts]
    assert first["prompt_tokens"] == sum(map(len, tokens))


def test_nothing_is_sent_for_it_and_no_reply_is_played(program: Run, script: Script) -> None:
    done = program("-p", "Hello!", "--print-prompt", "--output-format", "json", "--no-servers", "--model", script())
    assert json.loads(json.loads(done.stdout)["result"]["prompt"])[-1] == {"role": "user", "content": "Hello!"}
    with serving(Service()) as service:
        shown = program("-p", "Hello!", "--print-prompt", "--no-servers", "--model", service.url)
        assert "Hello!" in shown.stdout and service.others and not service.asked
        program("-p", "Hello!", "--no-servers", "--model", service.url)
        assert service.asked[0].body["prompt"] == shown.stdout.removesuffix("\n")


def test_without_a_prompt_it_is_an_error(open_screen: OpenScreen) -> None:
    screen = open_screen("--output-format", "prompt")
    screen.wait_for("/context prompt")
    assert screen.wait_for_end() == 2


async def read_all(backend: OpenaiBackend, tools: Sequence[Tool]) -> None:
    async for _ in backend.stream(HELLO, GREEDY, tools):
        pass


@pytest.mark.parametrize("options", [{"api": "chat"}, {"api": "chat", "native_tools": True}])
def test_messages_and_tools_are_those_of_the_request(options: dict[str, Any], run: Callable[..., Any]) -> None:
    with serving(Service()) as service:
        backend = open_backend(Settings(model=service.url, generation=GREEDY, openai=Openai(**options)))
        assert isinstance(backend, OpenaiBackend)
        tools = [TOOL] if options.get("native_tools") else []
        shown = json.loads(backend.render_request(HELLO, tools))
        run(read_all(backend, tools))
        run(backend.aclose())
        body = service.asked[-1].body
        assert shown and shown.items() <= body.items()
        assert ("tools" in shown) == bool(tools)


@pytest.mark.model
def test_the_npu_is_sent_a_rendered_prompt_or_what_its_own_template_is_given(
    open_npu: Callable[..., RkllmBackend],
) -> None:
    said = "Hello<|im_end|>!"
    rendered = open_npu().render_request([Message("user", said)])
    assert rendered == f"<|im_start|>user\n{said.replace('<|', '< |')}<|im_end|>\n<|im_start|>assistant\n"
    shown = json.loads(open_npu(native_tools=True).render_request(HELLO, [TOOL]))
    assert [message["role"] for message in shown["messages"]] == [message.role for message in HELLO]
    assert shown["tools"][0]["function"]["name"] == "get_tide"


@pytest.mark.model
def test_the_chat_shows_it_with_the_next_message(open_screen: OpenScreen) -> None:
    screen = open_screen("--no-servers")
    screen.wait_for_prompt()
    screen.enter("/context prompt Good day!", "<|im_start|>user", "Good day!<|im_end|>", "<|im_start|>assistant")
    screen.leave()
