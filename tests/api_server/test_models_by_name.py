"""Models of the folder are listed and loaded by name, one at a time, and unloaded when a client says so."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import ollama
import openai
import pytest

from altered import with_number
from api_server.conftest import Connect, ConnectOllama, StartApi
from cli.hub import REPOSITORY, Hub, serve_hub
from mcp_servers.serving import Served
from shell import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.model]
HELLO: Any = [{"role": "user", "content": "Hello!"}]


@pytest.fixture
def served(start_api: StartApi, shipped_model: Path, tmp_path: Path) -> Served:
    """A server of `first.gguf`; beside it are `second.gguf` and a damaged model, with which llama.cpp aborts."""
    for name in ("first.gguf", "second.gguf"):
        shutil.copyfile(shipped_model, tmp_path / name)
    damaged = with_number(shipped_model.read_bytes(), "qwen3.rope.dimension_count", 63)
    (tmp_path / "damaged.gguf").write_bytes(damaged)
    return start_api("--model", str(tmp_path / "first.gguf"))


def test_a_model_is_loaded_by_its_name_in_place_of_the_other(served: Served, connect: Connect) -> None:
    client = connect(served)
    names = [model.id for model in client.models.list()]
    assert names[0] == "first.gguf" and {"second.gguf", "damaged.gguf", "tiny-tools.gguf"} <= {*names}

    def ask(model: str) -> tuple[str, str | None]:
        raw = client.chat.completions.with_raw_response.create(model=model, messages=HELLO)
        return raw.parse().model, raw.headers.get("x-model")

    assert [ask(name) for name in ("second", "gpt-4o", "first.gguf:latest")] == [
        ("second.gguf", None),
        ("second.gguf", "second.gguf"),  # the one that is loaded
        ("first.gguf", None),
    ]
    with pytest.raises(openai.APIStatusError) as caught:
        ask("damaged.gguf")
    assert caught.value.status_code == 503 and "cannot be loaded" in caught.value.message
    assert ask("gpt-4o") == ("first.gguf", "first.gguf")
    assert httpx.get(served.url.replace("/v1", "/health")).status_code == 200
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("third")


def test_a_client_says_how_long_a_model_stays(served: Served, connect_ollama: ConnectOllama) -> None:
    client = connect_ollama(served)
    assert client.chat("second.gguf", HELLO, keep_alive="1h5m").message.content
    (loaded,) = client.ps().models
    assert loaded.model == "second.gguf" and loaded.context_length
    assert loaded.expires_at and loaded.expires_at - datetime.now(timezone.utc) > timedelta(hours=1)
    assert client.generate("first.gguf", keep_alive=0).done_reason == "unload"  # which is not loaded for this
    assert [model.model for model in client.ps().models] == ["second.gguf"]
    assert client.generate("second.gguf", keep_alive=-1).done_reason == "load"
    assert client.generate("second.gguf", keep_alive=0).done_reason == "unload"
    assert any(not client.ps().models for _ in range(3000))
    with pytest.raises(ollama.ResponseError) as caught:
        client.generate("second.gguf", keep_alive="soon")
    assert caught.value.status_code == 400 and "keep_alive" in caught.value.error


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_model_is_downloaded_where_that_is_allowed_and_then_answers_to_its_name(
    is_streamed: bool, start_api: StartApi, connect_ollama: ConnectOllama, shipped_model: Path
) -> None:
    """The name is one that `models pull` lists."""
    file = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
    with serve_hub(Hub({file: shipped_model.read_bytes()}, "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF")) as hub:
        variables = {"HF_ENDPOINT": hub.url, "NO_PROXY": "127.0.0.1"}
        with pytest.raises(ollama.ResponseError, match="--allow-pull") as refused:
            connect_ollama(start_api(**variables)).pull("qwen2.5-coder:0.5b")
        assert refused.value.status_code == 403 and hub.ranges == []
        client = connect_ollama(start_api("--allow-pull", **variables))
        with pytest.raises(ollama.ResponseError, match="no repository") as unknown:
            client.pull("../etc")
        assert unknown.value.status_code == 400
        assert file not in [model.model for model in client.list().models]
        pull: Any = client.pull
        pulled = pull("qwen2.5-coder:0.5b", stream=is_streamed)
        told = [step.status for step in pulled] if is_streamed else [pulled.status]
    assert told[-1] == "success" and (file in told[0]) is is_streamed
    assert file in [model.model for model in client.list().models]
    assert client.chat("qwen2.5-coder:0.5b", HELLO).message.content
    assert [model.model for model in client.ps().models] == [file]


def test_a_download_ends_with_its_client_and_the_next_one_continues_it(
    start_api: StartApi, connect_ollama: ConnectOllama, environment: dict[str, str]
) -> None:
    """The hub stalls: a thread that waits for it would keep the next client waiting, too."""
    block = 10 * 1024 * 1024  # what huggingface_hub writes at once
    data = b"GGUF" + bytes(block + block // 2)
    with serve_hub(Hub({"big.gguf": data})) as hub:
        hub.stalls_at = block + 1000
        client = connect_ollama(start_api("--allow-pull", HF_ENDPOINT=hub.url, NO_PROXY="127.0.0.1"))
        place = Path(environment["HOME"], ".local/share/rkllm-chat/models", REPOSITORY)
        pull: Any = client.pull
        first = pull(REPOSITORY, stream=True)
        assert "big.gguf" in next(first).status
        wait_until(lambda: any(path.stat().st_size >= block for path in place.glob(".*.part")))
        first.close()
        hub.stalls_at = None
        assert pull(REPOSITORY).status == "success"
        assert [asked for _, asked in hub.ranges] == ["", f"bytes={block}-"]
    assert (place / "big.gguf").read_bytes() == data
