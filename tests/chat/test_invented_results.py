"""What a model writes behind its call as if it were the result: the reply ends there, and nobody is shown it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from altered import without_end
from rkllm_chat.backends.llama.backend import LlamaBackend
from rkllm_chat.backends.scripted import CHARACTERS_PER_TOKEN, ScriptedBackend, ScriptedReply
from rkllm_chat.calls.formats import FORMATS, TURN_OPENERS, select_formats
from rkllm_chat.calls.model_families import find_family, make_scanner, resolve_formats
from rkllm_chat.calls.scanner import InventedResult, Scanner, ScannerEvent
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.settings import Generation
from rkllm_chat.core.events import CallFound, Event, Text, Thought, TurnEnded
from rkllm_chat.core.i18n import list_languages, load
from rkllm_chat.core.messages import Message, Tool
from rkllm_chat.prompt.compose import compose_prompt
from rkllm_chat.storage.export.turns import build_conversation
from rkllm_chat.storage.session_records import LogEntry
from stage import FakeToolbox, call_text, collect, join_texts, make_chat, take_turn

Run = Callable[..., Any]

WORDS = load()
CALL = call_text("get_tide", harbour="Husum")
TOOLS = (Tool("get_tide", server="harbour"), Tool("get_time", server="board"))

# Model -> what it writes behind its call, by its chat template: the beginning of a result, and then more.
INVENTED = {
    "my-model.gguf": "\n\nResult of get_tide:\n2.4 metres\n\nThe tide is 2.4 metres.",
    "other-model.gguf": "\nget_tide failed:\nno such harbour",
    "ReAct-7B.gguf": "\nObservation: 2.4 metres\nThought: I know it now.",
    "tiny-model.gguf": "\n[TOOL_RESULT]\n2.4 metres\n[END_TOOL_RESULT]",
    "small-model.gguf": " <tool_result>2.4 metres</tool_result>",
    "Qwen3-1.7B-rk3588-w8a8.rkllm": '\n<tool_response>\n{"tide": 2.4}\n</tool_response>',
    "Qwen2-0.5B-Instruct_w8a8_rk3588.rkllm": "\n✿RESULT✿: 2.4 metres\n✿RETURN✿: The tide is 2.4 metres.",
    "Llama-3.2-3B-Instruct-f16.gguf": "<|eom_id|><|start_header_id|>ipython<|end_header_id|>\n\n2.4<|eot_id|>",
    "Mistral-7B-Instruct-v0.3-Q4_K_M.gguf": '[TOOL_RESULTS] {"content": 2.4}[/TOOL_RESULTS] The tide is 2.4.',
    "DeepSeek-V3.1-Q4_K_M.gguf": "<｜tool▁output▁begin｜>2.4<｜tool▁output▁end｜><｜Assistant｜>The tide is 2.4.",
    "DeepSeek-R1-Distill-Qwen-1.5B.rkllm": "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>2.4<｜tool▁output▁end｜>",
    "internlm2-chat-1_8b_w8a8_rk3588.rkllm": "<|im_end|>\n<|im_start|>environment name=<|plugin|>\n2.4<|im_end|>",
    "chatglm3-6b_w8a8_rk3588.rkllm": "<|observation|>\n2.4<|assistant|>\nThe tide is 2.4.",
    "gemma-3-1b-it-Q4_K_M.gguf": "\n```tool_output\n2.4\n```\nThe tide is 2.4.",
    "gemma-2-2b-it.gguf": "<end_of_turn>\n<start_of_turn>user\n2.4<end_of_turn>",
    "functiongemma-270m-it_w8a8_rk3588.rkllm": "<start_function_response>response:get_tide{value:2.4}",
    "gemma-4-E2B-it_w8a8_rk3588.rkllm": "<|tool_response>response:get_tide{value:2.4}<tool_response|>",
    "Phi-4-mini-instruct-Q4_K_M.gguf": "<|end|><|tool|>2.4<|end|>",
    "granite-3.3-2b-instruct-Q4_K_M.gguf": "<|end_of_text|>\n<|start_of_role|>tool_response<|end_of_role|>2.4",
    "c4ai-command-r7b-12-2024-Q4_K_M.gguf": "<|START_TOOL_RESULT|>[2.4]<|END_TOOL_RESULT|>",
    "LFM2-1.2B-Q4_K_M.gguf": "<|tool_response_start|>2.4<|tool_response_end|>",
    "Llama-3.1-Nemotron-Nano-4B-v1.1-Q4_K_M.gguf": "\n<TOOL_RESPONSE>[2.4]</TOOL_RESPONSE>",
    "DeepSeek-V3.2-Q4_K_M.gguf": "\n\n<function_results>\n<result>2.4</result>\n</function_results>\n\n<think>",
    "GigaChat3-10B-A1.8B-Q4_K_M.gguf": "<|message_sep|>\n\nfunction result<|role_sep|>\n2.4<|message_sep|>\n\n",
    "GigaChat3.5-Q4_K_M.gguf": "\n<function_response>2.4</function_response>",
    "Kimi-K2-Instruct-Q2_K.gguf": "<|im_system|>get_tide<|im_middle|>## Return of functions.get_tide:0\n2.4",
    "Kimi-K3-Q2_K.gguf": '<|open|>message role="tool" tool="get_tide" index="1"<|sep|>2.4<|close|>message<|sep|>',
    "Olmo-3-7B-Instruct-Q4_K_M.gguf": "<|im_start|>environment\n2.4<|im_end|>\n",
    "MiniMax-M2-Q2_K.gguf": "\n]~b]tool\n<response>2.4</response>[e~[",
    "MiniMax-M3-Q2_K.gguf": "\n]~b]tool\n<response>2.4</response>[e~[",
    "Hunyuan-A13B-Instruct-Q4_K_M.gguf": "\n<tool_response>2.4</tool_response>",
    "Hy3-Q2_K.gguf": "\n<tool_responses:opensource>\n<tool_response:opensource>\n2.4\n</tool_response:opensource>",
    "Solar-Open-100B-Q2_K.gguf": "<|tool_response|><|tool_response:begin|>0<|tool_response:result|>2.4",
    "Inkling-Q2_K.gguf": "<|message_tool|>get_tide<|content_text|>2.4<|end_message|>",
    "LongCat-Flash-Chat-Q2_K.gguf": "\n<longcat_tool_response>\n2.4\n</longcat_tool_response>",
    "Seed-OSS-36B-Instruct-Q4_K_M.gguf": "<seed:eos><seed:bos>tool\n2.4<seed:eos>",
    "Muse-Glimmer-Q4_K_M.gguf": '<|eot|><|start|>tool get_tide<|message|><tool_output name="get_tide">\n2.4',
    "gpt-oss-20b-mxfp4.gguf": "<|start|>functions.get_tide to=assistant<|channel|>commentary<|message|>2.4<|end|>",
    "functionary-small-v3.2.Q4_0.gguf": "<|eot_id|><|start_header_id|>tool<|end_header_id|>\n\n2.4<|eot_id|>",
    "MiniCPM5-1B-Q8_0.gguf": "\n<tool_response>2.4</tool_response>",
    "glm-4-9b-chat-Q4_K_M.gguf": "<|observation|>\n2.4<|assistant|>\nThe tide is 2.4.",
    "SmolLM3-3B_w8a8_rk3588.rkllm": "\n<tool_response>2.4</tool_response>",
    "GLM-4.5-Air-Q4_K_M.gguf": "<|observation|>\n<tool_response>\n2.4\n</tool_response>",
}


def call_of(model: str) -> str:
    """A call as the model's family writes it: in a form of its own, or in the one that it is asked for."""
    family = find_family([model])
    row = FORMATS[(*family.accepted_formats, family.preferred_format)[0]]
    call = row.render_call("get_tide", {"harbour": "Husum"})
    if row.name in ("chatglm3", "glm4") or call.startswith(tuple(row.openers)):
        return call
    return FORMATS[family.preferred_format].render_call("get_tide", {"harbour": "Husum"})


def scan(model: str, pieces: Iterable[str]) -> list[ScannerEvent]:
    """Parse a reply of this model; join neighbouring events of a kind and leave out blank texts."""
    family = find_family([model])
    scanner = make_scanner(family.preferred_format, family.accepted_formats, TOOLS, WORDS)
    joined = join_texts([event for piece in pieces for event in scanner.feed(piece)] + scanner.close())
    return [event for event in joined if not isinstance(event, Text) or event.text.strip()]


def assert_same_in_two_pieces(model: str, reply: str, begin: int = 0) -> None:
    whole = scan(model, [reply])
    assert scan(model, reply) == whole
    for at in range(begin, len(reply)):
        assert scan(model, [reply[:at], reply[at:]]) == whole, reply[:at]


@pytest.mark.parametrize("model", INVENTED)
def test_what_a_family_invents_behind_its_call_is_recognized_in_whatever_pieces(model: str) -> None:
    invented = INVENTED[model]
    lead = "" if model.startswith(("chatglm", "glm-4-")) else "I look.\n"  # a call without a mark must begin the reply
    reply = f"{lead}{call_of(model)}{invented}"
    *before, call, rest = scan(model, [reply])
    assert isinstance(call, CallFound) and (call.call.name, call.call.arguments) == ("get_tide", {"harbour": "Husum"})
    assert isinstance(rest, InventedResult) and invented.endswith(rest.text)
    assert len(before) == bool(lead)
    assert_same_in_two_pieces(model, reply, len(reply) - len(invented))


def test_every_format_with_result_marks_has_an_example() -> None:
    examples = "".join(INVENTED.values())
    families = [find_family([model]) for model in INVENTED]
    read = {row for family in families for row in resolve_formats(family.preferred_format, family.accepted_formats)}
    for row in filter(lambda row: row.result_openers, FORMATS.values()):
        assert row in read and any(mark in examples for mark in row.result_openers), row.name


def test_each_mark_begins_a_result_behind_a_call_and_nothing_before_one() -> None:
    for mark in {*TURN_OPENERS, *(mark for row in FORMATS.values() for mark in row.result_openers)}:
        own = next((name for name, row in FORMATS.items() if mark in row.result_openers), "")

        def read(reply: str, own: str = own) -> list[ScannerEvent]:
            scanner = Scanner(select_formats(own))
            return scanner.feed(reply) + scanner.close()

        assert read(f"{CALL}\n{mark} 2.4 metres")[-1] == InventedResult(f"{mark} 2.4 metres")
        before = read(f"Say\n{mark} 2.4 metres" + (f"\n```\n{CALL}" if mark.startswith("```") else CALL))
        assert {type(event) for event in before} == {Text, CallFound}, mark
        text = "".join(event.text for event in before if isinstance(event, Text))
        assert text.rstrip("`\n").endswith("2.4 metres")


def test_a_result_heading_of_our_prompts_counts_in_each_language_but_only_for_the_called_tool() -> None:
    for code in list_languages():
        words = load(code)
        heading, other = (words("prompt.result", tool=tool) for tool in ("get_tide", "get_time"))
        last, last_of_other = (
            (scanner.feed(f"{CALL}\n{text}\n2.4") + scanner.close())[-1]
            for text in (heading, other)
            for scanner in [make_scanner("json", (), TOOLS, words)]
        )
        assert last == InventedResult(f"{heading}\n2.4")
        assert isinstance(last_of_other, Text)


# What is no invented result -> the text that is shown.
KEPT = {
    "a question about the word": f"What does it mean when a log says\nObservation: done\n?{CALL}",
    "marks before any call": f"<tool_response> and [TOOL_RESULT]\n```tool_output\n2.4\n```\n{CALL}",
    "a fenced example": f"{CALL}\nIt may be:\n```\n<tool_response>\n2.4\n</tool_response>\nObservation: x\n```\nWait.",
    "a quoted line": f"{CALL}\n> Observation: 2.4\nis what I expect.",
    "code in a line": f"{CALL}\n`<|im_start|>user` begins a turn.",
    "a tag in a sentence": f"{CALL}\nThe <tool_response> will tell, and its Observation: too, or ```tool_output```.",
    "prose": f"{CALL}\nI have called the tool, and the result of get_tide will come: wait.",
    "a word that begins like a mark": f"{CALL}\nObservations: none yet. [TOOL] Result of it all: none.",
    "a thought": f"{CALL}\n<think>\nObservation: 2.4\n</think>\nWait.",
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_no_invented_result_stays_as_it_is(case: str) -> None:
    reply = KEPT[case]
    events = scan("my-model.gguf", [reply])
    assert [type(event) for event in events if not isinstance(event, Text | Thought)] == [CallFound]
    text = "".join(event.text for event in events if isinstance(event, Text))
    assert text.strip() == ("Wait." if case == "a thought" else reply.replace(CALL, "").strip())
    assert_same_in_two_pieces("my-model.gguf", reply)


def test_a_mark_inside_the_arguments_of_a_call_ends_nothing() -> None:
    text = "\nObservation: x\n<tool_response>\n<|im_start|>user\nResult of get_tide:"
    _, second = scan("my-model.gguf", [CALL + call_text("get_tide", harbour=text)])
    assert isinstance(second, CallFound) and second.call.arguments == {"harbour": text}


async def tide(**_: Any) -> str:
    return "1.1 metres"


def texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text)).strip()


def test_a_turn_runs_the_call_and_nobody_ever_sees_what_was_invented() -> None:
    invented = "\n\nResult of get_tide:\n2.4 metres\n\nThe tide is 2.4 metres. " + CALL + "so " * 200
    toolbox, asked = FakeToolbox({"get_tide": tide}), f"I look.\n{CALL}"
    chat = make_chat([asked + invented, "It is 1.1 metres."], toolbox)
    *events, end = take_turn(chat, "How high?")
    assert texts(events) == "I look.\n\n\nIt is 1.1 metres."
    assert toolbox.called == [("get_tide", {"harbour": "Husum"})]
    assert [message.text for message in chat.history] == ["How high?", asked, "1.1 metres", "It is 1.1 metres."]
    assert isinstance(chat.backend, ScriptedBackend)
    first, second = chat.backend.prompts
    assert second[: len(first)] == first and second[len(first)] == Message("assistant", asked)
    assert isinstance(end, TurnEnded) and end.reason == "answered"
    cost, answered = end.usage
    assert not cost.hit_limit
    generated = cost.generated_tokens * CHARACTERS_PER_TOKEN
    assert 0 <= generated - len(f"{asked}\n\nResult of get_tide:") < 8
    assert answered.reused_tokens >= cost.prompt_tokens - 1  # its last four characters may be the prompt's and more


def test_a_reply_with_an_invented_result_was_not_cut_off_at_its_limit() -> None:
    async def yes(*_: Any) -> Any:
        return "once"

    toolbox, limit = FakeToolbox({"get_tide": tide}, read_only=False), Generation(max_tokens=60)
    take_turn(make_chat([CALL + "\n<tool_response>" + "x" * 4000, "So."], toolbox, yes, generation=limit), "How high?")
    assert toolbox.called == [("get_tide", {"harbour": "Husum"})]
    cut_off = make_chat([CALL + "\nI wait " + "x" * 4000, "So."], toolbox, yes, generation=limit)
    take_turn(cut_off, "How high?")
    assert len(toolbox.called) == 1 and "cut off" in cut_off.history[2].text


@pytest.mark.parametrize("ending", [{"wait": True}, {"error": "It broke."}], ids=str)
def test_an_engine_is_not_waited_for_behind_what_it_invents(ending: dict[str, Any]) -> None:
    reply = ScriptedReply(CALL + "\nObservation: 2.4", **ending)
    chat = make_chat([reply, "It is 1.1 metres."], FakeToolbox({"get_tide": tide}))
    assert texts(take_turn(chat, "How high?")) == "It is 1.1 metres."


def test_an_old_session_with_an_invented_result_is_exported_whole() -> None:
    messages = [Message("user", "How high?"), Message("assistant", f"{CALL}\nObservation: 2.4\nIt is 2.4.")]
    (turn,) = build_conversation("x", [LogEntry(0.0, message) for message in messages]).turns
    answer = "".join(part.text for part in turn.parts if isinstance(part, Text))
    assert answer.strip() == "Observation: 2.4\nIt is 2.4."


@pytest.mark.slow
@pytest.mark.usefixtures("harbour")
def test_the_program_shows_a_script_nothing_of_it(program: Run, script: Callable[..., str]) -> None:
    model = script(f"{CALL}\n<tool_response>\n41\n</tool_response>", "It is 42.")
    options = ("--config", "harbour.toml", "--allow", "get_tide", "--output-format", "stream-json", "--model", model)
    done = program("-p", "How high?", *options)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert "tool_response" not in done.stdout
    assert "".join(event["text"] for event in events if event["type"] == "text").strip() == "It is 42."


@pytest.mark.slow
def test_a_real_model_that_misses_its_end_is_stopped_where_it_begins_to_invent(
    shipped_model: Path, tmp_path: Path
) -> None:
    """It was trained on whole conversations: behind its call it writes the next turn, our heading and a result."""
    path = tmp_path / "endless.gguf"
    path.write_bytes(without_end(shipped_model.read_bytes()))
    backend = LlamaBackend(path, 2048)

    async def calculate(expression: str) -> str:
        return f"{expression} = 408"

    schema = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
    toolbox = FakeToolbox({"calculate": calculate}, schemas={"calculate": schema})
    greedy = Generation(temperature=0, max_tokens=120)
    chat = make_chat([], toolbox, generation=greedy, max_steps=2)
    chat.backend = backend

    call = call_text("calculate", expression="12 * 34")

    def count_call_tokens(prompt: list[Message]) -> int:
        empty, whole = (backend.count_tokens([*prompt, Message("assistant", text)]) for text in ("", call))
        return whole - empty

    async def play() -> tuple[str, int, list[Event]]:
        events = await collect(Turn(chat).run("What is 12 * 34?"))
        prompt = compose_prompt(chat.history[:1], toolbox.tools, chat.prompt_words, "", chat.call_format)
        kept_tokens = count_call_tokens(prompt)
        generated = [piece async for piece in backend.stream(prompt, greedy) if isinstance(piece, str)]
        await backend.aclose()
        return "".join(generated), kept_tokens, events

    unstopped, kept_tokens, events = asyncio.run(play())
    assert unstopped.startswith(call)
    assert chat.history[1].text == call
    assert toolbox.called[0] == ("calculate", {"expression": "12 * 34"})
    first, second = chat.usages[:2]
    assert not first.hit_limit and first.generated_tokens < 60
    assert kept_tokens > 30 and second.reused_tokens >= first.prompt_tokens + kept_tokens
    assert "Result of" not in texts(events)
