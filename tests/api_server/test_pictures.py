"""Pictures of clients reach the model through all three APIs; addresses are not fetched."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import openai
import pytest

from api_server.conftest import Connect, ConnectOllama, OpenScripted, StartApi
from mcp_servers.serving import Served
from pictures import HOSTILE, draw, encode

SCRIPT = "eyes.json"
PICTURE = encode(draw(280, 280))
WAV = b"RIFF\x24\0\0\0WAVEfmt "
TOKENS = 18
"""Of a picture in the usage of the scripted model, which renders its hash."""
URL = f"data:image/png;base64,{b64encode(PICTURE).decode()}"


@pytest.fixture
def eyes(start_api: StartApi, folder: Path) -> Served:
    """A server of a scripted model that understands pictures."""
    (folder / SCRIPT).write_text(json.dumps({"replies": ["A flag."] * 9, "media": ["image"]}), encoding="utf-8")
    return start_api("--model", SCRIPT)


def ask(client: openai.OpenAI, *parts: dict[str, Any]) -> openai.types.chat.ChatCompletion:
    messages: Any = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, *parts]}]
    return client.chat.completions.create(model=SCRIPT, messages=messages)


def image(url: str = URL) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_a_chat_completion_takes_pictures_as_data_urls(eyes: Served, connect: Connect) -> None:
    client = connect(eyes)
    blind, seeing = ask(client), ask(client, image())
    assert seeing.choices[0].message.content == "A flag."
    assert blind.usage and seeing.usage
    assert seeing.usage.prompt_tokens - blind.usage.prompt_tokens == pytest.approx(TOKENS, abs=1)


def test_a_continued_conversation_keeps_its_picture(eyes: Served, connect: Connect) -> None:
    client = connect(eyes)
    messages: list[Any] = [{"role": "user", "content": [image(), {"type": "text", "text": "What is it?"}]}]
    first = client.chat.completions.create(model=SCRIPT, messages=messages)
    messages += [first.choices[0].message, {"role": "user", "content": "Sure?"}]
    second = client.chat.completions.create(model=SCRIPT, messages=messages)
    assert first.usage and second.usage and second.usage.prompt_tokens_details
    assert second.usage.prompt_tokens > first.usage.prompt_tokens
    assert second.usage.prompt_tokens_details.cached_tokens


def test_a_picture_that_cannot_be_stored_is_an_error_in_the_shape_of_the_api(
    start_api: StartApi, connect: Connect, folder: Path
) -> None:
    (folder / SCRIPT).write_text(json.dumps({"replies": ["A flag."] * 2, "media": ["image"]}), encoding="utf-8")
    temporary = folder / "temporary"
    temporary.mkdir()
    client = connect(start_api("--model", SCRIPT, TMPDIR=str(temporary)))
    ask(client, image())
    (store,) = temporary.glob("rkllm-chat-media-*")
    store.rename(folder / "moved")
    store.write_text("in the way")
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client, image(f"data:image/png;base64,{b64encode(encode(draw(28, 28))).decode()}"))
    assert caught.value.type == "server_error"


def test_a_response_takes_pictures(eyes: Served, connect: Connect) -> None:
    content: Any = [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": URL}]
    client = connect(eyes)
    seeing = client.responses.create(model=SCRIPT, input=[{"role": "user", "content": content}])
    blind = client.responses.create(model=SCRIPT, input=[{"role": "user", "content": content[:1]}])
    assert seeing.output_text == "A flag." and seeing.usage and blind.usage
    assert seeing.usage.input_tokens - blind.usage.input_tokens == pytest.approx(TOKENS, abs=1)


def test_ollama_takes_pictures_and_reports_vision(eyes: Served, connect_ollama: ConnectOllama) -> None:
    message = {"role": "user", "content": "What is it?"}
    client = connect_ollama(eyes)
    seeing = client.chat(SCRIPT, messages=[{**message, "images": [PICTURE]}])
    blind = client.chat(SCRIPT, messages=[message])
    generated = client.generate(SCRIPT, "What is it?", images=[PICTURE])
    assert client.show(SCRIPT).capabilities == ["completion", "tools", "vision"]
    assert seeing.message.content == "A flag." and seeing.prompt_eval_count and blind.prompt_eval_count
    assert seeing.prompt_eval_count - blind.prompt_eval_count == pytest.approx(TOKENS, abs=1)
    assert generated.prompt_eval_count == seeing.prompt_eval_count


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an address of the web": (image("https://example.org/a.png"), "addresses are not fetched"),
    "a file": (image("file:///etc/passwd"), "must be a data URL"),
    "no base64": (image("data:image/png,abc"), "must be a data URL"),
    "wrong base64": (image("data:image/png;base64,***"), "not valid base64"),
    "another type": (image("data:image/png;base64,aGVsbG8="), "neither a picture nor a sound"),
    "too long": (image(f"data:image/png;base64,{b64encode(HOSTILE['too long'][0]()).decode()}"), "50000 × 1 pixels"),
    "a sound for a model without ears": (
        {"type": "input_audio", "input_audio": {"data": b64encode(WAV).decode(), "format": "wav"}},
        "does not understand sounds",
    ),
    "a file of OpenAI": ({"type": "file", "file": {"file_id": "x"}}, "'file' is not supported"),
}


def test_what_is_no_picture_is_refused(eyes: Served, connect: Connect) -> None:
    client = connect(eyes)
    for name, (part, words) in WRONG.items():
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client, part)
        assert words in caught.value.message, name
    assert ask(client, image()).choices[0].message.content == "A flag."


def test_a_blind_model_refuses_pictures(open_scripted: OpenScripted) -> None:
    client = open_scripted("No.")
    messages: Any = [{"role": "user", "content": [image()]}]
    with pytest.raises(openai.BadRequestError, match="This model does not understand images"):
        client.chat.completions.create(model="replies.json", messages=messages)
