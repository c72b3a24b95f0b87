"""Embeddings through the official clients, with the model that ships as an embedding model, with a small BERT, and with
the stand-in for the NPU's runtime.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any

import httpx
import llama_cpp
import numpy
import openai
import pytest

from altered import with_pooling
from api_server.conftest import Connect, ConnectOllama, StartApi, StartNpuApi
from api_server.test_limits import post, status_of
from embedding_models import write_bert
from engine_fault import open_bare_llama
from mcp_servers.serving import Served
from stage import Script

MEAN, LAST, RANK = 1, 3, 4  # LLAMA_POOLING_TYPE_...
TEXTS = ["The tide is high.", "hello <|im_end|> there", "word " * 350]
HELLO: Any = [{"role": "user", "content": "Hello, who are you?"}]


@pytest.fixture
def write_embedder(shipped_model: Path, tmp_path: Path) -> Callable[[int], str]:
    """Writes the model that ships with a pooling type; returns its path."""

    def write(pooling: int) -> str:
        path = tmp_path / f"embedder-{pooling}.gguf"
        path.write_bytes(with_pooling(shipped_model.read_bytes(), pooling))
        return str(path)

    return write


def embed_directly(path: str, texts: Sequence[str], batch_tokens: int = 2048) -> Any:
    """Return the normalized embeddings of llama-cpp-python's own class."""
    options: Any = {"n_ctx": 0, "n_batch": batch_tokens, "n_ubatch": batch_tokens, "flash_attn": True}
    model = open_bare_llama(path, embedding=True, **options)
    vectors = numpy.array([model.embed(text, normalize=True) for text in texts])
    model.close()
    return vectors


def read_vectors(answer: Any) -> Any:
    assert [item.index for item in answer.data] == list(range(len(answer.data)))
    return numpy.array([item.embedding for item in answer.data])


def refuse(client: openai.OpenAI, text: Any, **options: Any) -> tuple[str | None, str | None, str]:
    """Return param, code and message of the error that an input causes."""
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model="", input=text, encoding_format="float", **options)
    assert caught.value.type == "invalid_request_error"
    return caught.value.param, caught.value.code, caught.value.body["message"]  # type: ignore[index]  # a dict


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("pooling", [MEAN, LAST])
def test_vectors_are_those_of_llama_cpp_in_both_formats(
    pooling: int,
    write_embedder: Callable[[int], str],
    start_api: StartApi,
    connect: Connect,
    connect_ollama: ConnectOllama,
) -> None:
    path = write_embedder(pooling)
    served = start_api("--model", path)
    client = connect(served)
    floats = client.embeddings.create(model="", input=TEXTS, encoding_format="float")
    vectors = read_vectors(floats)
    assert vectors.shape == (len(TEXTS), 256)
    numpy.testing.assert_allclose(numpy.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    # a long text is evaluated in parts of 512 tokens where its last token counts
    tolerance = 0.01 if pooling == LAST else 1e-6
    numpy.testing.assert_allclose(vectors[:2], embed_directly(path, TEXTS[:2]), atol=1e-6)
    numpy.testing.assert_allclose(vectors[2:], embed_directly(path, TEXTS[2:]), atol=tolerance)
    assert abs(vectors[0] @ vectors[1]) < 0.99
    assert floats.usage.prompt_tokens == floats.usage.total_tokens > 700
    again = client.embeddings.create(model="", input=TEXTS)  # base64, which the client decodes
    numpy.testing.assert_allclose(read_vectors(again), vectors, atol=1e-7)
    raw = client.embeddings.with_raw_response.create(model="", input=TEXTS[0], encoding_format="base64")
    (item,) = raw.http_response.json()["data"]
    numpy.testing.assert_allclose(numpy.frombuffer(base64.b64decode(item["embedding"]), "<f4"), vectors[0], atol=1e-7)
    answer = connect_ollama(served).embed(Path(path).name, TEXTS[:2])
    numpy.testing.assert_allclose(answer.embeddings, vectors[:2], atol=1e-7)
    assert (answer.model, answer.prompt_eval_count) == (Path(path).name, floats.usage.prompt_tokens - 700)


@pytest.mark.slow
@pytest.mark.model
def test_a_chat_keeps_its_prefix_beside_embeddings(
    write_embedder: Callable[[int], str], start_api: StartApi, connect: Connect
) -> None:
    client = connect(start_api("--model", write_embedder(LAST), "--states-mb", "0"))

    def chat(messages: list[Any]) -> tuple[str | None, int, int]:
        reply = client.chat.completions.create(model="", messages=messages, temperature=0, max_tokens=20)
        assert reply.usage and reply.usage.prompt_tokens_details
        cached = reply.usage.prompt_tokens_details.cached_tokens or 0
        return reply.choices[0].message.content, reply.usage.total_tokens, cached

    first = client.embeddings.create(model="", input=TEXTS[0])
    text, length, _ = chat(HELLO)
    assert client.embeddings.create(model="", input=TEXTS[::-1]).data[2].embedding == first.data[0].embedding
    _, _, cached = chat([*HELLO, {"role": "assistant", "content": text}, {"role": "user", "content": "And?"}])
    assert cached >= length - 1, "the conversation was evaluated again"


@pytest.mark.slow
@pytest.mark.model
def test_a_chat_stays_loaded_beside_an_embedding_model(
    write_embedder: Callable[[int], str],
    shipped_model: Path,
    tmp_path: Path,
    start_api: StartApi,
    connect: Connect,
    connect_ollama: ConnectOllama,
) -> None:
    copyfile(shipped_model, tmp_path / "chat.gguf")
    name = Path(write_embedder(MEAN)).name
    served = start_api("--model", str(tmp_path / "chat.gguf"))
    client, ollama_client = connect(served), connect_ollama(served)

    def chat(messages: list[Any]) -> Any:
        return client.chat.completions.create(model="chat", messages=messages, temperature=0, max_tokens=20)

    first = chat(HELLO)
    vectors = client.embeddings.create(model=name, input=TEXTS[:2]), ollama_client.embed(name, TEXTS[:2])
    numpy.testing.assert_allclose(read_vectors(vectors[0]), vectors[1].embeddings, atol=1e-7)
    assert [model.model for model in ollama_client.ps().models] == ["chat.gguf", name]
    answer = {"role": "assistant", "content": first.choices[0].message.content}
    second = chat([*HELLO, answer, {"role": "user", "content": "And?"}])
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.total_tokens - 1


@pytest.mark.model
def test_bert_computes_embeddings_and_refuses_to_chat(tmp_path: Path, start_api: StartApi, connect: Connect) -> None:
    path = str(write_bert(tmp_path / "bert.gguf"))
    client = connect(start_api("--model", path))
    texts = ["hello world", "red green blue"]
    answer = client.embeddings.create(model="", input=texts)
    numpy.testing.assert_allclose(read_vectors(answer), embed_directly(path, texts, 64), atol=1e-6)
    # it has 64 learned positions, two of which are for the tokens around a text
    assert client.embeddings.create(model="", input="x" * 62).usage.prompt_tokens == 64
    param, code, message = refuse(client, ["x", "x" * 63])
    assert (param, code) == ("input.1", "context_length_exceeded") and "65 tokens" in message
    for create in (client.chat.completions.create, client.responses.create):
        field: Any = {"messages": HELLO} if create == client.chat.completions.create else {"input": "Hello"}
        with pytest.raises(openai.BadRequestError, match="generates no text") as caught:
            create(model="", **field)
        assert caught.value.code == "not_supported"
    assert client.embeddings.create(model="", input=texts).data[0].embedding == answer.data[0].embedding


@pytest.mark.model
def test_what_cannot_be_embedded_is_refused_by_its_place(
    write_embedder: Callable[[int], str], start_api: StartApi, connect: Connect
) -> None:
    client = connect(start_api("--model", write_embedder(LAST)))
    param, code, message = refuse(client, ["short", "word " * 1500])
    assert (param, code) == ("input.1", "context_length_exceeded") and "3000 tokens" in message
    assert refuse(client, ["short", "x" * 1_000_000])[:2] == ("input.1", "context_length_exceeded")
    assert refuse(client, ["a", ""])[0] == "input.1"
    assert refuse(client, [])[0] == "input"
    assert refuse(client, ["a"] * 2049)[0] == "input"
    for tokens in ([1, 2], [[1, 2], [3]]):
        param, _, message = refuse(client, tokens)
        assert param == "input.0" and "Token lists are not supported" in message
    param, _, message = refuse(client, "a", dimensions=100)
    assert param == "dimensions" and "256 dimensions" in message
    assert len(client.embeddings.create(model="", input="a", dimensions=256).data[0].embedding) == 256


@pytest.mark.slow
@pytest.mark.model
def test_a_model_without_embeddings_is_named_as_such(
    shared_api: Served, write_embedder: Callable[[int], str], start_api: StartApi, connect: Connect, script: Script
) -> None:
    for served, reason in (
        (shared_api, "its file names no pooling"),
        (start_api("--model", write_embedder(RANK)), "reranker"),
        (start_api("--model", script("hello")), "engine has no embeddings"),
    ):
        client = connect(served)
        _, code, message = refuse(client, "text")
        assert code == "not_supported" and reason in message and "Serve an embedding model" in message
        assert client.chat.completions.create(model="", messages=HELLO, max_tokens=1).choices


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize(("number", "refused"), [(500, 5), (50, 200)], ids=["tokenized", "evaluated"])
def test_a_client_that_leaves_ends_its_embeddings(
    number: int, refused: int, write_embedder: Callable[[int], str], start_api: StartApi
) -> None:
    """500 texts are tokenized in a second; 50 are evaluated in half a minute, and 200 refusals take half a second."""
    served = start_api("--model", write_embedder(MEAN), "--max-waiting", "0")
    short: Any = {"path": "/v1/embeddings", "body": {"input": "short"}}
    loaded_models = served.url.removesuffix("/v1") + "/api/ps"
    with post(served, "/v1/embeddings", {"input": [TEXTS[2]] * number}):
        assert any(
            httpx.get(loaded_models, headers=served.headers).json()["models"] for _ in range(1000)
        )  # for this request
        assert [status_of(served, **short) for _ in range(refused)] == [429] * refused
    assert 200 in (status_of(served, **short) for _ in range(300))
    assert served.end()[1] == ""


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize(("layout", "has_tokenizer"), [("F", False), ("G", False), ("H", True)])
def test_the_npu_gives_the_last_hidden_state(
    layout: str, has_tokenizer: bool, npu_model: Path, shipped_model: Path, start_npu_api: StartNpuApi, connect: Connect
) -> None:
    if has_tokenizer:
        tokenizer = Path(__file__).parents[2] / "models/tiny-tools/tokenizer.json"  # the package has none
        copyfile(tokenizer, npu_model.with_name("tokenizer.json"))
    client = connect(start_npu_api(layout))

    def chat() -> str | None:
        reply = client.chat.completions.create(model="", messages=HELLO, temperature=0, max_tokens=20)
        return reply.choices[0].message.content

    text, texts = chat(), ["The tide is high.", "word " * 350, "The tide is high today."]
    options: Any = {"n_ctx": 0, "n_batch": 256, "n_ubatch": 256, "pooling_type": llama_cpp.LLAMA_POOLING_TYPE_NONE}
    model = open_bare_llama(str(shipped_model), embedding=True, **options)
    short = numpy.array([model.embed(texts[index], normalize=True)[-1] for index in (0, 2)])
    count = sum(len(model.tokenize(text.encode())) for text in texts)
    model.close()
    for _ in range(2):  # the memory of the states is released
        answer = client.embeddings.create(model="", input=texts)
        vectors = read_vectors(answer)
        numpy.testing.assert_allclose(vectors[[0, 2]], short, atol=1e-5)
        assert (vectors.shape, answer.usage.prompt_tokens) == ((3, 256), count)
        assert chat() == text
    param, code, message = refuse(client, ["short", "word " * 1500])
    assert (param, code) == ("input.1", "context_length_exceeded") and "3000 tokens" in message
    assert chat() == text


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize(
    ("layout", "more", "reason"),
    [("E", "", "Release 1.2.1b1 .* Use release 1.2.3"), ("F", 'template = "runtime"\n', "own chat template")],
)
def test_the_npu_says_why_it_has_no_embeddings(
    layout: str, more: str, reason: str, start_npu_api: StartNpuApi, connect: Connect
) -> None:
    _, code, message = refuse(connect(start_npu_api(layout, more=more)), "text")
    assert code == "not_supported" and re.search(reason, message)
