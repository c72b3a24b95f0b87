"""Several replies to one request, how probable their tokens are, and texts that are continued without a template."""

from __future__ import annotations

import math
from typing import Any

import ollama
import openai
import pytest

from api_server.conftest import Connect, ConnectOllama, StartApi
from api_server.test_chat_completions import CALCULATE
from mcp_servers.serving import Served
from stage import Script

pytestmark = pytest.mark.model
HELLO: Any = [{"role": "user", "content": "Hello"}]
MODEL = "tiny-tools"
ANY_TOKEN: Any = {"temperature": 2, "top_p": 1, "extra_body": {"top_k": 0, "min_p": 0}}


def test_replies_are_numbered_and_their_tokens_have_probabilities(shared_api: Served, connect: Connect) -> None:
    create = connect(shared_api).chat.completions.create
    request: Any = {"model": MODEL, "messages": HELLO, "n": 3, "logprobs": True, "top_logprobs": 4}
    request |= {**ANY_TOKEN, "seed": 7, "max_tokens": 12}
    whole = create(**request)
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    texts = [choice.message.content or "" for choice in whole.choices]
    assert len(set(texts)) == 3, "each has its own seed"
    tokens = [choice.logprobs.content or [] for choice in whole.choices if choice.logprobs]
    assert ["".join(token.token for token in group).strip() for group in tokens] == texts
    assert {tuple(likely.token for likely in group[0].top_logprobs) for group in tokens} == {
        tuple(likely.token for likely in tokens[0][0].top_logprobs)
    }, "all begin at the same place"
    for token in (token for group in tokens for token in group):
        ranked = [likely.logprob for likely in token.top_logprobs]
        assert len(ranked) == 4 and ranked == sorted(ranked, reverse=True) and token.logprob <= ranked[0] <= 0
        assert sum(map(math.exp, ranked)) <= 1.001 and bytes(token.bytes or []).decode(errors="replace") == token.token
    assert whole.usage and whole.usage.completion_tokens == sum(map(len, tokens))
    one = create(**{**request, "n": 1})
    assert one.usage and whole.usage.prompt_tokens == one.usage.prompt_tokens, "the prompt is counted once"
    streamed: list[str] = ["", "", ""]
    scored: list[str] = ["", "", ""]
    reasons: list[Any] = []
    for chunk in create(**request, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
            scores = choice.logprobs.content if choice.logprobs else None
            scored[choice.index] += "".join(token.token for token in scores or ())
            reasons += [(choice.index, choice.finish_reason)] if choice.finish_reason else []
        usage = chunk.usage
    assert streamed == texts and [text.strip() for text in scored] == texts
    assert reasons == [(choice.index, choice.finish_reason) for choice in whole.choices]
    assert usage and usage.completion_tokens == whole.usage.completion_tokens


def test_a_seed_is_that_of_one_request(shared_api: Served, connect: Connect) -> None:
    request: Any = {"model": MODEL, "messages": HELLO, "max_tokens": 16, **ANY_TOKEN}

    def ask(**fields: Any) -> Any:
        return connect(shared_api).chat.completions.create(**request, **fields).choices[0].message.content

    assert ask(seed=5) == ask(seed=5)
    first = ask()  # a small model may well greet back in the same words several times
    assert any(ask() != first for _ in range(50)), "the seed of the client before stayed"


def test_texts_are_continued_as_a_list(shared_api: Served, connect: Connect) -> None:
    client = connect(shared_api)
    request: Any = {"model": MODEL, "max_tokens": 5, "temperature": 0}
    texts = ["The time in Tokyo is", "12 * 34 ="]
    alone = [client.completions.create(prompt=text, **request) for text in texts]
    whole = client.completions.create(prompt=texts, n=2, logprobs=2, **request)
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    assert [choice.text for choice in whole.choices] == [
        completion.choices[0].text for completion in alone for _ in range(2)
    ]
    for choice in whole.choices:
        scores = choice.logprobs
        assert scores and scores.tokens and scores.top_logprobs and scores.token_logprobs
        assert "".join(scores.tokens) == choice.text and len(scores.tokens) <= 5
        assert [max(likely.values()) for likely in scores.top_logprobs] == scores.token_logprobs, "it was greedy"
    assert whole.usage and whole.usage.prompt_tokens == sum(
        completion.usage.prompt_tokens for completion in alone if completion.usage
    )
    parts = list(client.completions.create(prompt=texts, stream=True, **request))
    for index, completion in enumerate(alone):
        text = "".join(part.choices[0].text for part in parts if part.choices[0].index == index)
        assert text == completion.choices[0].text


def test_ollama_clients_send_raw_prompts_and_read_probabilities(
    shared_api: Served, connect: Connect, connect_ollama: ConnectOllama
) -> None:
    client, text = connect_ollama(shared_api), "The time in Tokyo is"
    options = {"temperature": 0, "num_predict": 5}
    raw = client.generate(MODEL, text, raw=True, options=options, logprobs=True, top_logprobs=1)
    request: Any = {"model": MODEL, "prompt": text, "max_tokens": 5, "temperature": 0}
    assert raw.response == connect(shared_api).completions.create(**request).choices[0].text
    assert raw.logprobs and "".join(score.token for score in raw.logprobs) == raw.response
    assert all(score.top_logprobs and score.top_logprobs[0].token == score.token for score in raw.logprobs)
    chat = list(client.chat(MODEL, HELLO, options=options, logprobs=True, stream=True))
    scored = "".join(score.token for part in chat for score in part.logprobs or ())
    assert scored.strip() == "".join(part.message.content or "" for part in chat) != ""
    with pytest.raises(ollama.ResponseError, match="system is not possible"):
        client.generate(MODEL, text, raw=True, system="Be short.")


def test_what_an_engine_or_a_model_cannot_do_is_said(
    shared_api: Served, start_api: StartApi, connect: Connect, script: Script
) -> None:
    untrained, scripted = connect(shared_api), connect(start_api("--model", script("x")))
    for client, words in ((untrained, "not trained to write"), (scripted, "cannot write what is between")):
        with pytest.raises(openai.BadRequestError, match=words):
            client.completions.create(model=MODEL, prompt="a", suffix="b")
    with pytest.raises(openai.BadRequestError, match="how probable"):
        scripted.chat.completions.create(model=MODEL, messages=HELLO, logprobs=True)
    with pytest.raises(openai.BadRequestError, match="needs logprobs"):
        untrained.chat.completions.create(model=MODEL, messages=HELLO, top_logprobs=2)


def test_fields_of_options_that_mean_nothing_are_named_once(
    start_api: StartApi, connect_ollama: ConnectOllama, script: Script
) -> None:
    served = start_api("--model", script("one", "two"))
    for _ in range(2):
        connect_ollama(served).chat("replies.json", HELLO, options={"mirostat": 1, "temperature": 0})
    log = served.end()[1]
    assert log.count("options.mirostat") == 1 and "temperature" not in log


@pytest.mark.model
def test_the_sampling_of_a_request_wins_over_that_of_the_profile(shared_api: Served, connect: Connect) -> None:
    """While tools are listed the model is asked at temperature 0, unless the client has one."""
    client = connect(shared_api)

    def ask(**sampling: Any) -> int:
        replies = [
            client.chat.completions.create(
                model=MODEL, messages=HELLO, tools=[CALCULATE], max_tokens=12, seed=seed, **sampling
            ).choices[0]
            for seed in (1, 2, 3)
        ]
        return len({str(reply.message) for reply in replies})

    assert (ask(), ask(**ANY_TOKEN), ask(temperature=2, top_p=0.0001)) == (1, 3, 1)
