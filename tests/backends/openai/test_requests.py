"""Requests to services and how answers are read: prompts, tools, thoughts, usage, several services."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from backends.openai.service import PIECES, REPLY, Service
from backends.openai.talks import HELLO, chat_with, take, talk, usage_of, write
from mcp_client.chaos_http import serving
from rkllm_chat.backends import choose_backend
from rkllm_chat.backends.openai.backend import OpenaiBackend
from rkllm_chat.calls.grammar import NoCalls, forbid_calls
from rkllm_chat.calls.model_families import FAMILIES, UNKNOWN
from rkllm_chat.config.settings import Generation, Settings, read_toml
from rkllm_chat.core.errors import ConfigError, GenerationError, ModelError
from rkllm_chat.core.events import CallUnreadable, Reading, Text, WritingCall
from rkllm_chat.core.messages import Message, Tool
from stage import GREEDY, add_profile

Run = Callable[..., Any]
Open = Callable[..., OpenaiBackend]
Start = Callable[..., Service]
CHATS = 20
CHATML = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"
)
JINJA = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}[assistant] "


def be_ollama(service: Service, parameters: str = "", trained: int = 32768) -> None:
    """Makes a service look like Ollama."""
    model = {"id": "qwen3:8b", "object": "model", "owned_by": "library"}
    service.answers["/v1/models"] = {"object": "list", "data": [model]}
    service.answers["/api/version"] = {"version": "0.17.1"}
    service.answers["/api/show"] = {"parameters": parameters, "model_info": {"qwen3.context_length": trained}}


def be_llama_cpp(service: Service, adds_bos: bool = True) -> None:
    """Makes a service look like llama.cpp's server; a token is four characters."""
    model = {"id": "some-model.gguf", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx_train": 99999}}
    service.answers["/v1/models"] = {"object": "list", "data": [model]}
    service.answers["/props"] = {
        "default_generation_settings": {"n_ctx": 1536},
        "chat_template": JINJA,
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    service.answers["/tokenize"] = lambda body: {"tokens": [1] * adds_bos + [7] * (len(body["content"]) // 4)}


def test_a_url_selects_the_remote_backend() -> None:
    assert (
        choose_backend(Settings(model="http://host:8000/v1"))
        == choose_backend(Settings(model="HTTPS://host#x.json"))
        == "openai"
    )
    assert choose_backend(Settings(model="http.gguf")) == "llama"


def test_a_list_of_urls_and_the_options_are_read() -> None:
    text = '[chat]\nmodel = ["http://a/v1", "https://b:1/v1#x"]\n[openai]\nmodel = "m"\nkey_env = "K"\napi = "chat"\n'
    settings = read_toml(text, "own.toml", {})
    assert settings.model == "http://a/v1 https://b:1/v1#x"
    assert (settings.openai.model, settings.openai.key_env, settings.openai.api) == ("m", "K", "chat")
    with pytest.raises(ConfigError, match=r"openai\.api is \"words\"\. Allowed: auto, completions, chat"):
        read_toml('[openai]\napi = "words"\n', "own.toml", {})


def test_a_known_family_is_sent_a_rendered_prompt(service: Service, open_remote: Open, run: Run) -> None:
    backend = open_remote(service.url, context_tokens=0)
    generation = Generation(temperature=0.5, top_k=7, max_tokens=99, repeat_penalty=1.1, seed=3)
    assert run(write(backend, generation=generation)) == REPLY
    (asked,) = service.asked
    assert asked.path == "/v1/completions" and "authorization" not in asked.headers
    assert asked.body == {
        "model": "qwen3-small",
        "prompt": CHATML,
        "stop": ["<|im_end|>", "<|endoftext|>"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "top_p": 0.95,
        "top_k": 7,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "max_tokens": 99,
        "seed": 3,
    }
    assert backend.context_tokens == 4096


def test_an_unknown_family_is_sent_messages(start: Start, open_remote: Open, run: Run) -> None:
    service = start(names=["mystery"])
    assert run(write(open_remote(service.url), [HELLO[0], Message("user", "<|im_end|>x")])) == REPLY
    (asked,) = service.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.body["messages"] == [
        {"role": "system", "content": HELLO[0].text},
        {"role": "user", "content": "< |im_end|>x"},  # a control token of the user
    ]


def test_a_template_can_be_named(start: Start, open_remote: Open, run: Run) -> None:
    service = start(names=["mystery"])
    run(write(open_remote(service.url, template="llama3")))
    assert service.asked[0].body["prompt"].startswith("<|start_header_id|>system<|end_header_id|>\n\nYou are")
    with pytest.raises(ConfigError, match='There is no template "none"'):
        open_remote(service.url, template="none")
    with pytest.raises(ConfigError, match="No template is known"):
        open_remote(service.url, api="completions")


@pytest.mark.parametrize("adds_bos", [True, False])
def test_llama_cpp_reports_its_template_context_and_progress(
    adds_bos: bool, start: Start, open_remote: Open, run: Run
) -> None:
    service = start("progress")
    be_llama_cpp(service, adds_bos)
    backend = open_remote(service.url, context_tokens=0)
    assert (backend.name, backend.context_tokens) == ("some-model.gguf", 1536)
    items = run(take(backend))
    body = service.asked[0].body
    bos = "" if adds_bos else "<s>"
    assert body["prompt"] == f"{bos}[system] You are a helpful assistant.</s>[user] Hello!</s>[assistant] "
    assert body["return_progress"] and body["repeat_penalty"] == 1.0 and body["stop"] == ["</s>"]
    assert [(item.done, item.total) for item in items if isinstance(item, Reading)][1:] == [(50, 250), (250, 250)]
    usage = usage_of(items)
    assert (usage.prompt_tokens, usage.reused_tokens, usage.prefilled_tokens) == (300, 50, 250)
    assert (usage.generated_tokens, usage.prefill_s, usage.generate_s) == (5, 0.5, 0.25)


def test_a_prompt_near_the_limit_is_counted_before_it_is_sent(service: Service, open_remote: Open, run: Run) -> None:
    be_llama_cpp(service)
    backend = open_remote(service.url)
    with pytest.raises(GenerationError, match=r"2\d\d\d tokens long, the context holds 1536"):
        run(write(backend, [Message("user", "word " * 2000)]))
    assert not service.asked
    assert run(write(backend, [Message("user", "word " * 1200)])) == REPLY
    exact = 1 + len(service.asked[0].body["prompt"]) // 4
    assert service.asked[0].body["max_tokens"] == 1536 - exact < 200


@pytest.mark.parametrize(
    ("parameters", "trained", "context"),
    [("", 32768, 4096), ("num_ctx    16384\nstop x", 32768, 16384), ("", 2048, 2048)],
)
def test_ollama_is_sent_messages_and_reports_its_context(
    parameters: str, trained: int, context: int, service: Service, open_remote: Open, run: Run
) -> None:
    be_ollama(service, parameters, trained)
    backend = open_remote(f"{service.url}#qwen3:8b", context_tokens=0)
    assert backend.context_tokens == context
    run(write(backend))
    assert service.asked[0].path == "/v1/chat/completions" and "top_k" not in service.asked[0].body


def test_the_default_context_is_small(service: Service, open_remote: Open) -> None:
    service.answers["/v1/models"] = {"data": [{"id": "m"}]}
    assert open_remote(service.url, context_tokens=0).context_tokens == 4096
    assert open_remote(service.url, context_tokens=512).context_tokens == 512


def test_the_model_is_chosen_by_name_and_an_error_lists_the_names(start: Start, open_remote: Open) -> None:
    service = start(names=["org/qwen3-a", "qwen3-b:latest"])
    assert open_remote(f"{service.url}#qwen3-a").name == "qwen3-a"
    assert open_remote(service.url, model="qwen3-b").name == "qwen3-b:latest"
    with pytest.raises(ModelError, match=r"has 2 models\. Select one .*#NAME\. Available: org/qwen3-a, qwen3-b:latest"):
        open_remote(service.url)
    with pytest.raises(ModelError, match=r'has no model "nobody"\. Available: org/qwen3-a, qwen3-b:latest\.'):
        open_remote(f"{service.url}#nobody")


def test_a_url_without_a_path_is_completed(service: Service, open_remote: Open, run: Run) -> None:
    assert run(write(open_remote(service.url.removesuffix("/v1") + "/"))) == REPLY


def test_usage_is_that_of_the_service(start: Start, open_remote: Open, run: Run) -> None:
    backend = open_remote(start().url)
    usage = usage_of(run(take(backend)))
    assert (usage.prompt_tokens, usage.reused_tokens, usage.prefilled_tokens, usage.generated_tokens) == (30, 10, 20, 5)
    assert backend.count_tokens(HELLO) == 30


def test_usage_is_estimated_where_the_service_reports_none(start: Start, open_remote: Open, run: Run) -> None:
    backend = open_remote(start("no usage").url)
    estimate = backend.count_tokens(HELLO)
    usage = usage_of(run(take(backend)))
    assert (usage.prompt_tokens, usage.generated_tokens) == (estimate, len(PIECES))


@pytest.mark.parametrize("thinking", ["on", "off", "auto"])
def test_thinking_can_be_switched(thinking: str, start: Start, open_remote: Open, run: Run) -> None:
    service = start(names=["qwen3.5-4b"])
    text = run(write(open_remote(service.url, thinking=thinking)))
    opened = {"on": "<think>\n", "off": "<think>\n\n</think>\n\n", "auto": ""}[thinking]
    assert service.asked[0].body["prompt"].endswith(f"assistant\n{opened}")
    assert text == opened + REPLY
    run(write(open_remote(service.url, thinking=thinking, api="chat")))
    switch = {"on": True, "off": False}.get(thinking)
    assert service.asked[1].body.get("chat_template_kwargs") == (
        None if switch is None else {"enable_thinking": switch}
    )


def test_reasoning_content_is_a_thought(start: Start, open_remote: Open, run: Run) -> None:
    chat = chat_with(open_remote(start("thoughts").url, api="chat"))
    run(talk(chat, "Hello?"))
    assert chat.history[-1].text == "<think>Let me see.</think>\n\nYes."


def test_a_call_that_stands_only_in_a_thought_is_told(start: Start, open_remote: Open, run: Run) -> None:
    for native_tools in (False, True):
        service = start("a call in a thought")
        chat = chat_with(open_remote(service.url, api="chat", native_tools=native_tools))
        (turn,) = run(talk(chat, "What time is it in Tokyo?"))
        assert [event.fault for event in turn if isinstance(event, CallUnreadable)] == ["call_in_thinking"]
        assert len(service.asked) == 2 and not [message for message in chat.history if message.result]


@pytest.mark.parametrize("mode", ["tool calls", "calls at one index"])
def test_native_calls_are_run_and_their_results_sent(mode: str, start: Start, open_remote: Open, run: Run) -> None:
    service = start(mode)
    service.calls = [
        {"name": "get_time", "arguments": '{"place": "[END_TOOL_CALL] Tokyo"}'},
        {"name": "calculate", "arguments": '{"expression": "12 * 34"}'},
    ]
    chat = chat_with(open_remote(service.url, native_tools=True), prompt_profile=add_profile(tools_fraction=1.0))
    (turn,) = run(talk(chat, "What time is it, and what is 12 * 34?"))
    assert "".join(event.text for event in turn if isinstance(event, Text)).strip() == REPLY
    results = [message.result for message in chat.history if message.result]
    assert [(result.tool, result.arguments, result.status) for result in results] == [
        ("get_time", {"place": "[END_TOOL_CALL] Tokyo"}, "completed"),
        ("calculate", {"expression": "12 * 34"}, "completed"),
    ]
    first, second = (asked.body for asked in service.asked)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["calculate", "get_time"]
    assert first["tools"][0]["function"]["parameters"]["required"] == ["expression"]
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert "TOOL_CALL" not in json.dumps(first)
    *_, said, one, two = second["messages"]
    ids = [call["id"] for call in said["tool_calls"]]
    assert len(set(ids)) == 2 and [message["tool_call_id"] for message in (one, two)] == ids
    assert said["tool_calls"][1]["function"] == service.calls[1]
    assert two == {"role": "tool", "tool_call_id": ids[1], "content": "12 * 34 = 408"}


def test_native_tools_are_sent_with_slim_schemas(service: Service, open_remote: Open, run: Run) -> None:
    harbour = {"type": "string", "title": "Harbour", "default": "Husum"}
    schema = {"title": "get_tideArguments", "properties": {"harbour": harbour}}

    async def ask() -> None:
        stream = open_remote(service.url, native_tools=True).stream(HELLO, GREEDY, [Tool("get_tide", "", schema)])
        assert [piece async for piece in stream]

    run(ask())
    sent = service.asked[-1].body["tools"][0]["function"]["parameters"]
    assert sent == {"type": "object", "properties": {"harbour": {"type": "string"}}}


OWNERS = {"vllm": "none", "rkllm-chat": "none", "library": None, "someone": None}


@pytest.mark.parametrize("owner", OWNERS)
def test_a_reply_without_calls_is_asked_for_where_the_service_knows_that(
    owner: str, service: Service, open_remote: Open, run: Run
) -> None:
    service.answers["/v1/models"]["data"][0]["owned_by"] = owner
    backend = open_remote(service.url, native_tools=True)

    async def ask(*grammar: NoCalls) -> Any:
        async for _ in backend.stream(HELLO, GREEDY, [Tool("get_tide", "", {})], *grammar):
            pass
        return service.asked[-1].body

    free, bound = run(ask()), run(ask(forbid_calls("json", ())))
    assert "tool_choice" not in free and bound.get("tool_choice") == OWNERS[owner]
    assert bound["tools"] == free["tools"] and bound["messages"] == free["messages"]


def test_an_unreadable_native_call_is_never_run(start: Start, open_remote: Open, run: Run) -> None:
    service = start("tool calls")
    service.calls = [{"name": "calculate", "arguments": '{"expression": '}]
    chat = chat_with(
        open_remote(service.url, native_tools=True), prompt_profile=add_profile(tools_fraction=1.0), max_steps=2
    )
    run(talk(chat, "What is 12 * 34?"))
    assert not [message for message in chat.history if message.result]
    *_, said, answer = service.asked[1].body["messages"]
    (call,) = said["tool_calls"]
    assert call["function"] == {"name": "calculate", "arguments": "{}"} and not said["content"]
    assert (answer["role"], answer["tool_call_id"]) == ("tool", call["id"])
    error, again, example = answer["content"].splitlines()
    assert error.startswith("Tool call not executed: bad_json.") and again == "Write it again as:"
    assert json.loads(example).keys() == {"expression"}


def test_a_wrong_native_call_is_corrected_in_the_native_form(start: Start, open_remote: Open, run: Run) -> None:
    service = start("tool calls")
    service.calls = [
        {"name": "calculate", "arguments": '{"place": "Tokyo"}'},
        {"name": "calculator", "arguments": "{}"},
        {"name": "get_time", "arguments": '{"place": "Tokyo"}'},
    ]
    run(
        talk(
            chat_with(
                open_remote(service.url, native_tools=True), prompt_profile=add_profile(tools_fraction=1.0), max_steps=2
            ),
            "What is 12 * 34?",
        )
    )
    *_, said, missing, unknown, time = service.asked[1].body["messages"]
    ids = [call["id"] for call in said["tool_calls"]]
    assert [(message["role"], message["tool_call_id"]) for message in (missing, unknown, time)] == [
        ("tool", name) for name in ids
    ]
    assert json.loads(missing["content"].rpartition("\n")[2]).keys() == {"expression"}
    assert unknown["content"].startswith("Tool call not executed: unknown_tool.") and "again" not in unknown["content"]
    assert time["content"].startswith("It is 20:26")
    assert "TOOL_CALL" not in json.dumps(service.asked[1].body)


@pytest.mark.parametrize(
    ("setting", "capabilities", "is_native"),
    [
        (None, ["completion", "tools"], True),
        (None, ["completion"], False),
        (None, None, False),
        (None, "tools", False),
        (False, ["completion", "tools"], False),
        (True, ["completion"], True),
    ],
)
def test_tools_are_native_where_ollama_reports_support(
    setting: bool | None, capabilities: Any, is_native: bool, service: Service, open_remote: Open, run: Run
) -> None:
    be_ollama(service)
    service.answers["/api/show"]["capabilities"] = capabilities
    backend = open_remote(f"{service.url}#qwen3:8b", native_tools=setting)
    run(talk(chat_with(backend, prompt_profile=add_profile(tools_fraction=1.0)), "Hello!"))
    assert (backend.native_tools, "tools" in service.asked[0].body) == (is_native, is_native)


@pytest.mark.parametrize(
    ("options", "tool_calls", "is_native"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"api": "completions"}, True, False),
        ({"template": "llama3"}, True, False),
    ],
)
def test_tools_are_native_where_the_template_of_llama_cpp_takes_them(
    options: dict[str, Any], tool_calls: bool, is_native: bool, service: Service, open_remote: Open, run: Run
) -> None:
    be_llama_cpp(service)
    service.answers["/props"]["chat_template_caps"] = {"supports_tools": True, "supports_tool_calls": tool_calls}
    backend = open_remote(service.url, **options)
    run(talk(chat_with(backend, prompt_profile=add_profile(tools_fraction=1.0)), "Hello!"))
    assert backend.native_tools == is_native
    assert service.asked[0].path == ("/v1/chat/completions" if is_native else "/v1/completions")
    assert ("tools" in service.asked[0].body) == is_native


def test_a_native_call_is_reported_while_it_is_written(start: Start, open_remote: Open, run: Run) -> None:
    service = start("tool calls")
    service.calls = [{"name": "calculate", "arguments": '{"expression": "12 * 34"}'}]
    chat = chat_with(open_remote(service.url, native_tools=True), prompt_profile=add_profile(tools_fraction=1.0))
    (events,) = run(talk(chat, "What is 12 * 34?"))
    written = [event for event in events if isinstance(event, WritingCall)]
    assert written == [WritingCall("calculate", length) for length in (0, 5, 25)]


@pytest.mark.parametrize("trouble", ["closed at once", "busy for long"])
def test_the_next_service_answers_when_one_is_down(trouble: str, start: Start, open_remote: Open, run: Run) -> None:
    bad, good = start(), start()
    backend = open_remote(bad.url, good.url)
    bad.mode = trouble
    assert run(write(backend)) == REPLY
    assert run(write(backend, [Message("user", "And now?")])) == REPLY
    assert (len(bad.asked), len(good.asked)) == (1, 2), "who failed is left alone for a while"


def test_a_service_that_is_down_is_asked_again_later(start: Start, open_remote: Open, run: Run) -> None:
    late, good = start(), start()
    port = late.port
    late.hang_up()
    backend = open_remote(late.url, good.url)
    assert run(write(backend)) == REPLY and len(good.asked) == 1
    backend.services[0].avoided_until = 0.0
    with serving(Service(port=port)) as back:
        assert run(write(backend, [Message("user", "Are you there?")])) == REPLY
        assert (len(back.asked), len(good.asked)) == (1, 1)


def test_an_error_names_each_service_that_is_down(start: Start, open_remote: Open, run: Run) -> None:
    one, two = start(), start()
    backend = open_remote(one.url, two.url)
    one.hang_up()
    two.hang_up()
    with pytest.raises(GenerationError, match=rf"{one.url} does not respond.*{two.url} does not respond"):
        run(write(backend))


def test_requests_go_to_the_least_loaded_service(start: Start, open_remote: Open, run: Run) -> None:
    services = [start("a word, then slow") for _ in range(3)]
    backend = open_remote(*(service.url for service in services))

    async def ask_nine() -> list[str]:
        asking = [asyncio.ensure_future(write(backend)) for _ in range(9)]
        while sum(len(service.asked) for service in services) < 9:  # noqa: ASYNC110 - threads say so
            await asyncio.sleep(0)
        for service in services:
            service.go_on.set()
        return await asyncio.gather(*asking)

    assert run(asyncio.wait_for(ask_nine(), 10)) == ["It works."] * 9
    assert [len(service.asked) for service in services] == [3, 3, 3]


def test_a_talk_stays_with_one_service(start: Start, open_remote: Open, run: Run) -> None:
    services = [start() for _ in range(3)]
    backend = open_remote(*(service.url for service in services))
    backend.services[0].active_requests = backend.services[2].active_requests = 1
    chat = chat_with(backend)
    run(talk(chat, "Hello!"))
    backend.services[0].active_requests = backend.services[2].active_requests = 0
    run(talk(chat, "And again!"))
    assert [len(service.asked) for service in services] == [0, 2, 0]


@pytest.mark.slow
def test_many_chats_at_once_keep_no_memory(start: Start, open_remote: Open, run: Run) -> None:
    service = start("echo")
    backend = open_remote(service.url)

    async def hold_all(wave: int) -> None:
        lines = [f"wave {wave} chat {number} of those that talk at once" for number in range(CHATS)]
        prompts = [[Message("system", line * 100), Message("user", line)] for line in lines]
        assert await asyncio.gather(*(write(backend, prompt) for prompt in prompts)) == lines
        service.asked.clear()
        limit = time.monotonic() + 5
        while threading.active_count() > threads:  # those of the service hold what they were sent
            assert time.monotonic() < limit

    threads = threading.active_count()
    sizes: list[int] = []
    tracemalloc.start()
    try:
        for wave in range(3):
            run(hold_all(wave))
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[-1] - sizes[-2] < 40_000, sizes
    assert backend.services[0].active_requests == 0


def test_a_family_is_recognized_by_the_name_or_the_template(start: Start, open_remote: Open) -> None:
    named, shown = start(), start()
    be_ollama(named)
    be_llama_cpp(shown)
    assert open_remote(f"{named.url}#qwen3:8b").family == FAMILIES["qwen3"]
    assert open_remote(shown.url).family == UNKNOWN
    shown.answers["/props"]["chat_template"] = "{% if tools %}<tool_call>{% endif %}" + JINJA
    assert open_remote(shown.url).family == FAMILIES["hermes"]


def test_native_calls_keep_the_json_form(service: Service, open_remote: Open) -> None:
    be_ollama(service)
    backend = open_remote(f"{service.url}#qwen3:8b", native_tools=True)
    assert (backend.family.name, chat_with(backend).call_format) == ("qwen3", "json")
