"""Chat completions through the official `openai` package, with the model that ships or with written replies."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from api_server.conftest import Connect, OpenScripted, StartApi
from mcp_servers.serving import Served
from stage import Script, call_text

MODEL, SCRIPT = "tiny-tools.gguf", "replies.json"
HELLO: Any = [{"role": "user", "content": "Hello"}]


def make_tool(name: str, description: str, **parameters: str) -> Any:
    """A function as clients describe it; parameter -> type."""
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


CALCULATE = make_tool("calculate", "Calculate an arithmetic expression.", expression="string")
GET_TIME = make_tool("get_time", "Current time of a place.", place="string")
TIDE = make_tool("get_tide", "Tide height at a harbour.", harbour="string", days="integer")


@pytest.mark.model
def test_the_model_answers_whole_and_streamed(shared_api: Served, connect: Connect) -> None:
    client = connect(shared_api)
    assert [model.id for model in client.models.list()] == [MODEL]
    messages: Any = [{"role": "user", "content": "Hello"}]
    whole = client.chat.completions.create(model=MODEL, messages=messages, temperature=0)
    assert (whole.object, whole.choices[0].finish_reason, whole.model) == ("chat.completion", "stop", MODEL)
    assert whole.usage and whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens > 0
    stream = client.chat.completions.create(
        model=MODEL, messages=messages, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == whole.choices[0].message.content != ""
    assert len(choices) > 3
    assert [choice.finish_reason for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    usage = chunks[-1].usage
    assert usage and usage.prompt_tokens_details
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens == 0, "what the cache has of a new conversation is not told"
    cut = client.chat.completions.create(model=MODEL, messages=messages, temperature=0, max_completion_tokens=2)
    assert cut.choices[0].finish_reason == "length"
    assert cut.usage and cut.usage.completion_tokens == 2


@pytest.mark.slow
@pytest.mark.model
def test_a_tool_task_of_three_calls_is_completed_and_prefills_new_tokens_only(
    shared_api: Served, connect: Connect
) -> None:
    client = connect(shared_api)
    sums = {"12 * 34": "408", "99 - 21": "78", "7 + 5": "12"}
    messages: list[Any] = []
    previous_tokens = 0
    for expression, value in sums.items():
        messages.append({"role": "user", "content": f"What is {expression}?"})
        for has_result in (False, True):
            reply = client.chat.completions.create(model=MODEL, messages=messages, tools=[CALCULATE], temperature=0)
            choice, usage = reply.choices[0], reply.usage
            assert usage and usage.prompt_tokens_details
            cached = usage.prompt_tokens_details.cached_tokens
            assert cached is not None and cached >= previous_tokens - 1, "the conversation was evaluated again"
            previous_tokens = usage.total_tokens
            messages.append(choice.message.model_dump(exclude_none=True))
            if has_result:
                assert choice.finish_reason == "stop" and value in (choice.message.content or "")
            else:
                assert choice.finish_reason == "tool_calls" and choice.message.tool_calls
                (call,) = choice.message.tool_calls
                assert call.type == "function" and call.function.name == "calculate"
                assert json.loads(call.function.arguments) == {"expression": expression}
                result = {"role": "tool", "tool_call_id": call.id, "content": f"{expression} = {value}"}
                messages.append(result)


def test_calls_are_streamed_one_by_one_repaired_and_coerced(open_scripted: OpenScripted) -> None:
    written = "<think>Two harbours.</think>I ask.\n[TOOL_CALL]\n"
    written += '{"name": "get_tide", "arguments": {"harbour": "Husum", days: "3"}}\n'
    written += call_text("client__get_tide", harbour="Amrum", days=1)
    client = open_scripted(written)
    question: Any = [{"role": "user", "content": "Tides?"}]
    stream = client.chat.completions.create(model=SCRIPT, messages=question, tools=[TIDE], stream=True)
    deltas = [chunk.choices[0].delta for chunk in stream if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "I ask."
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "Two harbours."
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert [(call.index, call.function and call.function.name) for call in calls] == [(0, "get_tide"), (1, "get_tide")]
    assert [json.loads(call.function.arguments or "") for call in calls if call.function] == [
        {"harbour": "Husum", "days": 3},
        {"harbour": "Amrum", "days": 1},
    ]


def test_a_wrong_call_is_corrected_before_a_client_sees_it(open_scripted: OpenScripted) -> None:
    wrong, unknown = call_text("get_tide", harbour="Husum"), call_text("get_tides")
    right = call_text("get_tide", harbour="Husum", days=2)
    client = open_scripted(wrong, unknown, right)
    reply = client.chat.completions.create(model=SCRIPT, messages=[{"role": "user", "content": "Tide?"}], tools=[TIDE])
    calls = reply.choices[0].message.tool_calls or []
    assert [json.loads(call.function.arguments) for call in calls if call.type == "function"] == [
        {"harbour": "Husum", "days": 2}
    ]


@pytest.mark.slow
@pytest.mark.model
def test_tool_choice_decides_whether_and_which_tool_is_called(shared_api: Served, connect: Connect) -> None:
    client = connect(shared_api)

    def ask(**options: Any) -> Any:
        message: Any = {"role": "user", "content": "What is 12 * 34?"}
        options = {"temperature": 0, "max_tokens": 150, "tools": [CALCULATE, GET_TIME], **options}
        return client.chat.completions.create(model=MODEL, messages=[message], **options).choices[0]

    assert [call.function.name for call in ask().message.tool_calls] == ["calculate"]
    assert ask(tool_choice="none").message.tool_calls is None
    named = {"type": "function", "function": {"name": "get_time"}}
    assert [call.function.name for call in ask(tool_choice=named).message.tool_calls] == ["get_time"]
    greeting: Any = {"messages": [{"role": "user", "content": "Hello"}], "model": MODEL, "tools": [GET_TIME]}
    required = client.chat.completions.create(**greeting, tool_choice="required", temperature=0, max_tokens=150)
    assert required.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_nothing_of_a_rejected_reply_stands_before_a_required_call(
    is_streamed: bool, open_scripted: OpenScripted
) -> None:
    client = open_scripted("I would rather talk.", "Well: " + call_text("get_time", place="Rome"))
    options: Any = {"model": SCRIPT, "messages": HELLO, "tools": [GET_TIME], "tool_choice": "required"}
    if is_streamed:
        deltas = [chunk.choices[0].delta for chunk in client.chat.completions.create(**options, stream=True)]
        text = "".join(delta.content or "" for delta in deltas)
        names = [call.function.name for delta in deltas for call in delta.tool_calls or () if call.function]
    else:
        message = client.chat.completions.create(**options).choices[0].message
        text, names = message.content or "", [call.function.name for call in message.tool_calls or ()]
    assert (text, names) == ("Well:", ["get_time"])


def test_without_calls_no_markup_is_the_answer(open_scripted: OpenScripted) -> None:
    markup = call_text("get_time", place="Rome")
    client = open_scripted(markup, "It is noon.", f"I look. {markup}")
    for expected in ("It is noon.", "I look."):
        reply = client.chat.completions.create(model=SCRIPT, messages=HELLO, tools=[GET_TIME], tool_choice="none")
        assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == (expected, "stop")


def test_tools_that_are_no_functions_are_left_out_and_logged_once(
    start_api: StartApi, connect: Connect, script: Script
) -> None:
    served = start_api("--model", script("Hello.", call_text("get_time", place="Rome"), "Bye."))
    client = connect(served)
    others: list[Any] = [{"type": "web_search"}, {"type": "custom", "name": "patch"}, {"type": "\x1b[1m"}]
    for tools in (others, [*others, GET_TIME]):
        reply: Any = client.chat.completions.create(model=SCRIPT, messages=HELLO, tools=tools).choices[0]
        assert [call.function.name for call in reply.message.tool_calls or ()] == ["get_time"] * (len(tools) - 3)
    for place in ("chat/completions", "responses"):
        body = {"input": "x", "messages": HELLO, "tools": [{"type": ["function"]}]}
        assert httpx.post(f"{served.url}/{place}", json=body, headers=served.headers).status_code == 400
    body = {"input": "x", "tools": others}
    assert httpx.post(f"{served.url}/responses", json=body, headers=served.headers).json()["tools"] == []
    log = served.end()[1]
    assert [log.count(f"tools of the type {kind}, which") for kind in ("'web_search'", "'custom'", r"'\x1b[1m'")] == [
        1
    ] * 3


def test_one_call_is_enough_without_parallel_calls(open_scripted: OpenScripted) -> None:
    both = call_text("get_time", place="Rome") + "\n" + call_text("get_time", place="Oslo")
    client = open_scripted(both)
    reply = client.chat.completions.create(
        model=SCRIPT, messages=[{"role": "user", "content": "Times?"}], tools=[GET_TIME], parallel_tool_calls=False
    )
    assert len(reply.choices[0].message.tool_calls or []) == 1


IMAGE = {"type": "image_url", "image_url": {"url": "data:"}}
# Field of the request -> a wrong value, the status, the field that the error names, and words of its message.
WRONG: list[tuple[dict[str, Any], int, str | None, str]] = [
    ({"messages": []}, 400, "messages", "at least 1"),
    ({"messages": [{"role": "robot", "content": "x"}]}, 400, "messages.0.role", "'system'"),
    ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "messages", "last message"),
    ({"messages": [{"role": "user", "content": [IMAGE]}]}, 400, "messages.0.content", "image_url"),
    ({"temperature": 3}, 400, "temperature", "less than or equal to 2"),
    ({"max_tokens": 0}, 400, "max_tokens", "greater than or equal to 1"),
    ({"n": 5}, 400, "n", "less than or equal to 4"),
    ({"tool_choice": "required"}, 400, "tool_choice", "needs tools"),
    ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, 400, "tool_choice", '"x"'),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "strin"}}}},
        400,
        "response_format.json_schema.schema",
        "'strin' is no type",
    ),
    ({"extra_body": {"json_schema": {"properties": [1]}}}, 400, "json_schema", "properties is no object"),
    ({"extra_body": {"json_schema": {"anyOf": [{}, {"$ref": "#/$defs/x"}]}}}, 400, "json_schema", "anyOf.1.$ref: #/$d"),
    ({"extra_body": {"json_schema": {"items": {"pattern": "("}}}}, 400, "json_schema", "items.pattern: missing )"),
    ({"extra_body": {"json_schema": {"enum": 1}}}, 400, "json_schema", "enum is no list"),
    ({"extra_body": {"json_schema": {"minLength": -1}}}, 400, "json_schema", "minLength: -1 is no count"),
    ({"messages": [{"role": "user", "content": "word " * 3000}]}, 400, "messages", "1024"),
    ({"messages": [{"role": "user", "content": "w" * 100_000}]}, 400, "messages", "65536"),
]


@pytest.mark.slow
@pytest.mark.model
def test_a_wrong_request_names_its_field(start_api: StartApi, connect: Connect) -> None:
    client = connect(start_api("--context", "1024"))
    for fields, status, param, words in WRONG:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], **fields}
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(**body)
        error = caught.value
        assert (error.status_code, error.param, error.type) == (status, param, "invalid_request_error"), error.message
        assert words in error.message, error.message
    assert client.chat.completions.create(
        model="tiny-tools", messages=[{"role": "user", "content": "Hello"}], max_tokens=1
    )


def test_a_missing_model_is_an_error_without_paths_and_is_tried_again(
    start_api: StartApi, connect: Connect, shipped_model: Any, folder: Any
) -> None:
    served = start_api("--model", "later.gguf", "--wait-for-model")
    client = connect(served)
    hello: Any = {"model": "later", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(**hello)
    assert caught.value.status_code == 503 and str(folder) not in caught.value.message
    (folder / "later.gguf").symlink_to(shipped_model)
    assert client.chat.completions.create(**hello).choices[0].finish_reason == "length"
    assert "later.gguf: No such file" in served.end()[1]


PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "rank": {"type": "integer", "enum": [1, 2]}},
    "required": ["city", "rank"],
    "additionalProperties": False,
}
AS_PLACE: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE}}


@pytest.mark.model
def test_a_reply_schema_is_held_by_the_grammar(shared_api: Served, connect: Connect) -> None:
    client = connect(shared_api)
    messages: Any = [{"role": "user", "content": "Tell me about Rome."}]
    by_format, any_object = {"response_format": AS_PLACE}, {"response_format": {"type": "json_object"}}
    formats: list[Any] = [
        any_object,
        by_format,
        {"extra_body": {"json_schema": PLACE}},
    ]  # as llama.cpp's server takes it
    for reply_format in formats:
        reply = client.chat.completions.create(
            model=MODEL, messages=messages, **reply_format, temperature=0, max_tokens=200
        )
        if reply.choices[0].finish_reason == "stop":
            value = json.loads(reply.choices[0].message.content or "")
            assert isinstance(value, dict)
        if reply_format is not any_object:
            assert (sorted(value), reply.choices[0].finish_reason) == (["city", "rank"], "stop")
            assert value["rank"] in (1, 2)


def test_a_reply_schema_is_validated_and_corrected_where_there_is_no_grammar(open_scripted: OpenScripted) -> None:
    right = '```json\n{"city": "Rome", "rank": 1}\n```'
    client = open_scripted("Rome is a city.", right, right)
    messages: Any = [{"role": "user", "content": "Tell me about Rome."}]
    for is_streamed in (False, True):
        reply: Any = client.chat.completions.create(
            model=SCRIPT, messages=messages, response_format=AS_PLACE, stream=is_streamed
        )
        parts = (
            [chunk.choices[0].delta.content for chunk in reply] if is_streamed else [reply.choices[0].message.content]
        )
        assert json.loads("".join(filter(None, parts))) == {"city": "Rome", "rank": 1}


def test_without_tools_a_call_is_text(open_scripted: OpenScripted) -> None:
    whole, cut = f"Like this:\n{call_text('get_time')}", '[TOOL_CALL]\n{"name": "get_time"'
    client = open_scripted(whole, cut)
    messages: Any = [{"role": "user", "content": "How do you write a call?"}]
    for text in (whole, cut):
        reply = client.chat.completions.create(model=SCRIPT, messages=messages)
        assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == (text, "stop")


def test_null_is_read_as_a_field_that_is_missing(start_api: StartApi, script: Script) -> None:
    """Clients that serialize all fields of a message send them so."""
    served = start_api("--model", script("yes"))
    empty = dict.fromkeys(("name", "tool_calls", "tool_call_id", "refusal", "audio"))
    call = {"id": None, "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Time?", **empty},
        {**empty, "role": "assistant", "content": None, "tool_calls": [call]},
        {**empty, "role": "tool", "content": "noon"},
    ]
    fields = ("model", "tools", "tool_choice", "parallel_tool_calls", "response_format", "stop", "temperature", "seed")
    body = {"messages": messages, **dict.fromkeys((*fields, "n", "stream", "stream_options", "max_tokens", "logprobs"))}
    reply = httpx.post(f"{served.url}/chat/completions", json=body, headers=served.headers, timeout=30)
    assert reply.json()["choices"][0]["message"]["content"] == "yes", reply.text


def test_a_stop_sequence_ends_the_reply(open_scripted: OpenScripted) -> None:
    client = open_scripted("one two END three")
    messages: Any = [{"role": "user", "content": "Count."}]
    reply = client.chat.completions.create(model=SCRIPT, messages=messages, stop=["END", "\n\n"])
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == ("one two", "stop")


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("states_mb", [64, 0])
def test_two_clients_that_alternate_prefill_their_new_tokens_only(
    start_api: StartApi, connect: Connect, states_mb: int
) -> None:
    """With no memory for states, each begins again after what both have in common: the positive control."""
    client = connect(start_api("--states-mb", str(states_mb)))
    talks: list[list[Any]] = [[], []]
    totals = [0, 0]
    reused: list[bool] = []
    for turn in range(3):
        for index, talk in enumerate(talks):
            talk.append({"role": "user", "content": f"Tell me about the number {index}{turn} and about the sea. " * 8})
            reply = client.chat.completions.create(model=MODEL, messages=talk, temperature=0, max_tokens=20)
            talk.append(reply.choices[0].message.model_dump(exclude_none=True))
            assert reply.usage and reply.usage.prompt_tokens_details
            reused.append((reply.usage.prompt_tokens_details.cached_tokens or 0) >= totals[index] - 1)
            totals[index] = reply.usage.total_tokens
    assert all(reused[2:]) is bool(states_mb), reused


@pytest.mark.slow
@pytest.mark.model
def test_the_number_of_cached_tokens_says_nothing_about_other_clients(shared_api: Served, connect: Connect) -> None:
    client = connect(shared_api)

    def count_cached(messages: list[Any]) -> tuple[int | None, str | None]:
        reply = client.chat.completions.create(model=MODEL, messages=messages, temperature=0, max_tokens=4)
        assert reply.usage and reply.usage.prompt_tokens_details
        return reply.usage.prompt_tokens_details.cached_tokens, reply.choices[0].message.content

    _, answer = count_cached(secret := [{"role": "user", "content": "The word in my diary is SWORDFISH, keep it."}])
    guesses = ("The word in my diary is SW", "The word in my diary is XX")
    assert [count_cached([{"role": "user", "content": guess}])[0] for guess in guesses] == [0, 0]
    own = [*secret, {"role": "assistant", "content": answer}, {"role": "user", "content": "Thanks."}]
    assert count_cached(own)[0], "the control: who continues a conversation is told"


def test_a_conversation_goes_on_for_clients_with_its_system_text_alone(open_scripted: OpenScripted) -> None:
    """What the model wrote beside its text, here thoughts, is not in the prompt of others."""
    client = open_scripted("<think>" + "It is swordfish. " * 30 + "</think>Yes.", *["Yes."] * 2)
    talk: list[Any] = [{"role": "user", "content": "Hello?"}]

    def count(system: str, messages: list[Any]) -> int:
        sent: Any = [{"role": "system", "content": system}, *messages]
        reply = client.chat.completions.create(model=SCRIPT, messages=sent, tools=[TIDE])
        assert reply.choices[0].message.content == "Yes." and reply.usage
        return reply.usage.prompt_tokens

    count("You are A.", talk)
    continued = [*talk, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Why?"}]
    others = count("You are B.", continued)
    assert count("You are A.", continued) > others + 90, "the control: its own client's prompt has the thoughts"


@pytest.mark.model
def test_a_text_is_continued_without_a_template(shared_api: Served, connect: Connect) -> None:
    client = connect(shared_api)
    options: Any = {"model": MODEL, "temperature": 0, "max_tokens": 20, "prompt": "one two three"}
    whole = client.completions.create(**options)
    assert whole.usage and 0 < whole.usage.prompt_tokens < 12  # with the template it would be more
    parts = [part.choices[0] for part in client.completions.create(**options, stream=True)]
    assert "".join(part.text for part in parts) == whole.choices[0].text
    assert parts[-1].finish_reason == whole.choices[0].finish_reason
    with pytest.raises(openai.BadRequestError, match="prompt"):
        client.completions.create(model=MODEL, prompt=[1, 2])  # tokens
