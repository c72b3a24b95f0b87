"""Pictures and sounds in requests, in the shape of OpenAI's API reference ("Create chat completion", content parts)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.openai.service import REPLY, Service
from backends.openai.talks import HELLO, write
from pictures import draw, encode
from rkllm_chat.backends.openai.backend import OpenaiBackend
from rkllm_chat.core.messages import Media, Message, ToolResult
from rkllm_chat.storage.media import MediaStore
from stage import call_text

Run = Callable[..., Any]
Open = Callable[..., OpenaiBackend]
Start = Callable[..., Service]
WAV = b"RIFF\x24\0\0\0WAVEfmt nothing"


@pytest.fixture
def store() -> Iterator[MediaStore]:
    with MediaStore() as store:
        yield store


@pytest.fixture
def picture(store: MediaStore) -> Media:
    return store.add(encode(draw(56, 56)), "photo.png")


def image_part(media: Media) -> dict[str, Any]:
    url = f"data:{media.media_type};base64,{b64encode(Path(media.path).read_bytes()).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def ask(*media: Media) -> list[Message]:
    return [HELLO[0], Message("user", "What is it?", media=media)]


def test_a_picture_is_a_part_with_a_data_url(service: Service, open_remote: Open, run: Run, picture: Media) -> None:
    """The prompts of this model are rendered here; one with a picture is sent as messages."""
    backend = open_remote(service.url, images=True)
    assert run(write(backend, ask(picture))) == REPLY
    (asked,) = service.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.body["messages"] == [
        {"role": "system", "content": HELLO[0].text},
        {"role": "user", "content": [image_part(picture), {"type": "text", "text": "What is it?"}]},
    ]


def test_a_sound_is_a_part_with_its_format(
    service: Service, open_remote: Open, run: Run, store: MediaStore, picture: Media
) -> None:
    sound = replace(store.add(WAV, "bell.wav"), position=len("What is it?"))
    run(write(open_remote(service.url), ask(picture, sound)))
    assert service.asked[0].body["messages"][1]["content"] == [
        image_part(picture),
        {"type": "text", "text": "What is it?"},
        {"type": "input_audio", "input_audio": {"data": b64encode(WAV).decode(), "format": "wav"}},
    ]


def test_pictures_of_native_results_follow_them_in_a_message_of_the_user(
    service: Service, open_remote: Open, run: Run, picture: Media
) -> None:
    """A message with a result takes text alone."""
    backend = open_remote(service.url, native_tools=True)
    result = ToolResult("cam", "look", {}, "completed", "The view:")
    prompt = [
        *HELLO,
        Message("assistant", call_text("look") + "\n" + call_text("look")),
        Message("tool", "The view:", result, media=(replace(picture, position=9),)),
        Message("tool", "Nothing.", replace(result, text="Nothing.")),
    ]
    run(write(backend, prompt))
    messages = service.asked[0].body["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert [message["content"] for message in messages[3:]] == ["The view:", "Nothing.", [image_part(picture)]]


REPORTS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "llama.cpp": (
        {"/props": {"default_generation_settings": {"n_ctx": 99}, "modalities": {"vision": True, "audio": False}}},
        {"image"},
    ),
    "llama.cpp with ears": (
        {"/props": {"default_generation_settings": {"n_ctx": 99}, "modalities": {"vision": True, "audio": True}}},
        {"image", "audio"},
    ),
    "llama.cpp, text": (
        {"/props": {"default_generation_settings": {"n_ctx": 99}, "modalities": {"vision": False, "audio": False}}},
        set(),
    ),
    "Ollama": (
        {
            "/v1/models": {"data": [{"id": "gemma3", "owned_by": "library"}]},
            "/api/show": {"capabilities": ["completion", "vision"]},
        },
        {"image"},
    ),
    "OpenRouter": (
        {"/v1/models": {"data": [{"id": "x", "architecture": {"input_modalities": ["text", "image"]}}]}},
        {"image"},
    ),
    "Mistral": ({"/v1/models": {"data": [{"id": "x", "capabilities": {"vision": True}}]}}, {"image"}),
    "nothing is reported": ({}, set()),
    "wrong types": (
        {
            "/v1/models": {"data": [{"id": "x", "architecture": 7, "capabilities": ["vision"]}]},
            "/props": {"modalities": 3},
        },
        set(),
    ),
}


@pytest.mark.parametrize("name", REPORTS)
def test_services_report_what_their_model_understands(name: str, start: Start, open_remote: Open) -> None:
    service = start()
    answers, kinds = REPORTS[name]
    service.answers.update(answers)
    assert open_remote(service.url).media_kinds == kinds


def test_the_setting_decides_about_pictures(start: Start, open_remote: Open) -> None:
    service = start()
    service.answers.update(REPORTS["llama.cpp with ears"][0])
    assert open_remote(service.url, images=False).media_kinds == {"audio"}
    assert open_remote(start().url, images=True).media_kinds == {"image"}


def test_a_picture_counts_in_the_prompt_and_its_data_does_not(
    service: Service, open_remote: Open, run: Run, store: MediaStore
) -> None:
    backend = open_remote(service.url)
    large = store.add(encode(draw(1000, 800)), "large.png")
    assert 700 < backend.count_tokens(ask(large)) - backend.count_tokens(ask()) < 1800
    run(write(backend, ask(large)))  # the service reports 30 tokens
    assert backend.count_tokens(ask(large)) == 30
