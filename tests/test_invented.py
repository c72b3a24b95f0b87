"""What a model writes behind its call as if it were the result: the reply ends there, and nobody is shown it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from altered import without_end
from rkllm_chat import language
from rkllm_chat.backends.llama import Llama
from rkllm_chat.backends.scripted import PIECE, Reply, Scripted
from rkllm_chat.chat import Chat
from rkllm_chat.config import Generation, Settings
from rkllm_chat.events import CallFound, Event, Text, Thought, ToolFinished, TurnEnded
from rkllm_chat.export.turns import Said, tell
from rkllm_chat.families import choose_forms, find_family, make_scanner
from rkllm_chat.formats import FORMATS, TURNS, formats_for
from rkllm_chat.messages import Message, Tool
from rkllm_chat.prompt import compose
from rkllm_chat.records import Entry
from rkllm_chat.scanner import Invented, Scanner, Seen
from stage import Box, call_text, collect, make_chat, take_turn

Run = Callable[..., Any]

WORDS = language.load()
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
    "Qwen2.5-1.5B-Instruct.gguf": "<|im_end|>\n<|im_start|>user\n<tool_response>\n2.4\n</tool_response>",
    "Qwen2-0.5B-Instruct_w8a8_rk3588.rkllm": "\n✿RESULT✿: 2.4 metres\n✿RETURN✿: The tide is 2.4 metres.",
    "Qwen3.5-2B_w8a8_rk3588.rkllm": "\n<tool_response>\n2.4\n</tool_response>",
    "Llama-3.2-3B-Instruct-f16.gguf": "<|eom_id|><|start_header_id|>ipython<|end_header_id|>\n\n2.4<|eot_id|>",
    "Mistral-7B-Instruct-v0.3-Q4_K_M.gguf": '[TOOL_RESULTS] {"content": 2.4}[/TOOL_RESULTS] The tide is 2.4.',
    "Ministral-3-3B-Reasoning-2512-Q4_K_M.gguf": "[TOOL_RESULTS]2.4[/TOOL_RESULTS]",
    "DeepSeek-R1-Distill-Qwen-1.5B.rkllm": "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>2.4<｜tool▁output▁end｜>",
    "DeepSeek-V3.1-Q4_K_M.gguf": "<｜tool▁output▁begin｜>2.4<｜tool▁output▁end｜><｜Assistant｜>The tide is 2.4.",
    "internlm2-chat-1_8b_w8a8_rk3588.rkllm": "<|im_end|>\n<|im_start|>environment name=<|plugin|>\n2.4<|im_end|>",
    "MiniCPM5-1B-Q8_0.gguf": "\n<tool_response>2.4</tool_response>",
    "chatglm3-6b_w8a8_rk3588.rkllm": "<|observation|>\n2.4<|assistant|>\nThe tide is 2.4.",
    "glm-4-9b-chat-Q4_K_M.gguf": "<|observation|>\n2.4<|assistant|>\nThe tide is 2.4.",
    "GLM-4.5-Air-Q4_K_M.gguf": "<|observation|>\n<tool_response>\n2.4\n</tool_response>",
    "gemma-3-1b-it-Q4_K_M.gguf": "\n```tool_output\n2.4\n```\nThe tide is 2.4.",
    "gemma-2-2b-it.gguf": "<end_of_turn>\n<start_of_turn>user\n2.4<end_of_turn>",
    "functiongemma-270m-it_w8a8_rk3588.rkllm": "<start_function_response>response:get_tide{value:2.4}",
    "gemma-4-E2B-it_w8a8_rk3588.rkllm": "<|tool_response>response:get_tide{value:2.4}<tool_response|>",
    "Phi-4-mini-instruct-Q4_K_M.gguf": "<|end|><|tool|>2.4<|end|>",
    "Phi-3-mini.gguf": "<|end|>\n<|user|>\n2.4<|end|>",
    "granite-3.3-2b-instruct-Q4_K_M.gguf": "<|end_of_text|>\n<|start_of_role|>tool_response<|end_of_role|>2.4",
    "c4ai-command-r7b-12-2024-Q4_K_M.gguf": "<|START_TOOL_RESULT|>[2.4]<|END_TOOL_RESULT|>",
    "LFM2-1.2B-Q4_K_M.gguf": "<|tool_response_start|>2.4<|tool_response_end|>",
    "SmolLM3-3B_w8a8_rk3588.rkllm": "\n<tool_response>2.4</tool_response>",
    "Llama-3.1-Nemotron-Nano-4B-v1.1-Q4_K_M.gguf": "\n<TOOL_RESPONSE>[2.4]</TOOL_RESPONSE>",
    "gpt-oss-20b-mxfp4.gguf": "<|start|>functions.get_tide to=assistant<|channel|>commentary<|message|>2.4<|end|>",
    "functionary-small-v3.2.Q4_0.gguf": "<|eot_id|><|start_header_id|>tool<|end_header_id|>\n\n2.4<|eot_id|>",
}


def call_of(model: str) -> str:
    """A call as the model's family writes it: in a form of its own, or in the one that it is asked for."""
    family = find_family([model])
    row = FORMATS[(*family.accepts, family.asks)[0]]
    row = FORMATS[family.asks] if row.bare and not row.openers and row.name not in ("chatglm3", "glm4") else row
    return row.show("get_tide", {"harbour": "Husum"})


def scan(model: str, pieces: Iterable[str]) -> list[Seen]:
    """The events of a reply of this model, neighbouring ones of a kind joined, blank texts left out."""
    family = find_family([model])
    scanner = make_scanner(family.asks, family.accepts, TOOLS, WORDS)
    found: list[Seen] = []
    for event in (*(event for piece in pieces for event in scanner.feed(piece)), *scanner.close()):
        last = found[-1] if found else None
        if isinstance(event, Invented) and isinstance(last, Invented):
            found[-1] = Invented(last.text + event.text)
        elif isinstance(event, Text) and isinstance(last, Text):
            found[-1] = Text(last.text + event.text)
        elif isinstance(event, Thought) and isinstance(last, Thought):
            found[-1] = Thought(last.text + event.text)
        else:
            found.append(event)
    return [event for event in found if not (isinstance(event, Text) and not event.text.strip())]


@pytest.mark.parametrize("model", INVENTED)
def test_what_a_family_invents_behind_its_call_is_told_apart_in_whatever_pieces(model: str) -> None:
    written, invented = call_of(model), INVENTED[model]
    reply = f"I look.\n{written}{invented}"
    if model.startswith(("chatglm", "glm-4-")):
        reply = written + invented  # a call without a mark stands where the reply begins
    seen = scan(model, [reply])
    call, rest = seen[-2:]
    assert isinstance(call, CallFound) and (call.call.name, call.call.arguments) == ("get_tide", {"harbour": "Husum"})
    assert isinstance(rest, Invented) and invented.endswith(rest.text)
    assert len(seen) == (2 if reply == written + invented else 3)
    assert scan(model, reply) == seen
    for at in range(len(reply)):
        assert scan(model, [reply[:at], reply[at:]]) == seen, reply[:at]


def test_every_row_that_says_how_a_result_begins_has_an_example() -> None:
    shown = "".join(INVENTED.values())
    families = [find_family([model]) for model in INVENTED]
    read = {row for family in families for row in choose_forms(family.asks, family.accepts)}
    for row in FORMATS.values():
        assert not row.results or row in read, row.name
        assert not row.results or any(mark in shown for mark in row.results), row.name


@pytest.mark.parametrize("mark", sorted({*TURNS, *(mark for row in FORMATS.values() for mark in row.results)}))
def test_each_mark_begins_a_result_behind_a_call_and_nothing_before_one(mark: str) -> None:
    own = next((name for name, row in FORMATS.items() if mark in row.results), "")

    def read(reply: str) -> list[Seen]:
        scanner = Scanner(formats_for(own))
        return scanner.feed(reply) + scanner.close()

    assert read(f"{CALL}\n{mark} 2.4 metres")[-1] == Invented(f"{mark} 2.4 metres")
    before = read(f"Say\n{mark} 2.4 metres" + (f"\n```\n{CALL}" if mark.startswith("```") else CALL))
    assert any(isinstance(event, CallFound) for event in before)
    assert not any(isinstance(event, Invented) for event in before)
    assert "".join(event.text for event in before if isinstance(event, Text)).rstrip("`\n").endswith("2.4 metres")


def test_a_heading_of_our_prompts_counts_in_each_language_and_for_the_tool_that_was_called() -> None:
    for code in language.languages():
        words = language.load(code)
        heading = words("prompt.result", tool="get_tide")
        scanner = make_scanner("json", (), TOOLS, words)
        assert (scanner.feed(f"{CALL}\n{heading}\n2.4") + scanner.close())[-1] == Invented(f"{heading}\n2.4")
    other = words("prompt.result", tool="get_time")
    scanner = make_scanner("json", (), TOOLS, words)
    assert Text(f"\n{other}\n2.4") in [*scan("x", [f"{CALL}\n{other}\n2.4"])]


# What is no invented result -> the text that is shown.
KEPT = {
    "a question about the word": f"What does it mean when a log says\nObservation: done\n?{CALL}",
    "marks before any call": f"<tool_response> and [TOOL_RESULT]\n```tool_output\n2.4\n```\n{CALL}",
    "a fenced example": f"{CALL}\nIt may be:\n```\n<tool_response>\n2.4\n</tool_response>\nObservation: x\n```\nWait.",
    "a quoted line": f"{CALL}\n> Observation: 2.4\nis what I expect.",
    "code in a line": f"{CALL}\n`<|im_start|>user` begins a turn.",
    "a tag in a sentence": f"{CALL}\nThe <tool_response> will tell, and its Observation: too, or ```tool_output```.",
    "talk": f"{CALL}\nI have called the tool, and the result of get_tide will come: wait.",
    "a word that begins like a mark": f"{CALL}\nObservations: none yet. [TOOL] Result of it all: none.",
    "a thought": f"{CALL}\n<think>\nObservation: 2.4\n</think>\nWait.",
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_no_invented_result_stays_as_it_is(case: str) -> None:
    reply = KEPT[case]
    seen = scan("my-model.gguf", [reply])
    assert [event for event in seen if isinstance(event, Invented)] == []
    assert len([event for event in seen if isinstance(event, CallFound)]) == 1
    text = "".join(event.text for event in seen if isinstance(event, Text))
    wanted = reply.replace(CALL, "")
    assert text.strip() == (wanted if case != "a thought" else "Wait.").strip()
    for at in range(len(reply)):
        assert scan("my-model.gguf", [reply[:at], reply[at:]]) == seen, reply[:at]


def test_a_mark_inside_the_arguments_of_a_call_ends_nothing() -> None:
    text = "\nObservation: x\n<tool_response>\n<|im_start|>user\nResult of get_tide:"
    _, second = scan("my-model.gguf", [CALL + call_text("get_tide", harbour=text)])
    assert isinstance(second, CallFound) and second.call.arguments == {"harbour": text}


# --- through the whole chat ---


async def tide(**_: Any) -> str:
    return "1.1 metres"


def texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text)).strip()


def test_a_turn_runs_the_call_and_nobody_ever_sees_what_was_invented() -> None:
    invented = "\n\nResult of get_tide:\n2.4 metres\n\nThe tide is 2.4 metres. " + CALL + "so " * 200
    box = Box({"get_tide": tide})
    chat = make_chat([f"I look.\n{CALL}{invented}", "It is 1.1 metres."], box)
    events = take_turn(chat, "How high?")
    assert texts(events) == "I look.\n\n\nIt is 1.1 metres."
    assert [event.result.text for event in events if isinstance(event, ToolFinished)] == ["1.1 metres"]
    assert box.called == [("get_tide", {"harbour": "Husum"})]
    assert [message.text for message in chat.history] == [
        "How high?",
        f"I look.\n{CALL}",
        "1.1 metres",
        "It is 1.1 metres.",
    ]
    assert isinstance(chat.backend, Scripted)
    first, second = chat.backend.prompts
    assert second[: len(first)] == first and second[len(first)] == Message("assistant", f"I look.\n{CALL}")
    end = events[-1]
    assert isinstance(end, TurnEnded) and end.reason == "answered"
    cost, answered = end.usage
    assert not cost.hit_limit
    written = cost.generated_tokens * PIECE
    assert (
        len(f"I look.\n{CALL}\n\nResult of get_tide:") <= written < len(f"I look.\n{CALL}\n\nResult of get_tide:") + 8
    )
    assert answered.reused_tokens >= cost.prompt_tokens - 1  # its last four characters may be the prompt's and more


def test_a_reply_that_is_stopped_so_was_not_cut_off_at_its_limit() -> None:
    reply = CALL + "\n<tool_response>" + "x" * 4000
    changing = Box({"get_tide": tide}, read_only=False)

    async def yes(*_: Any) -> Any:
        return "once"

    limit = Generation(max_tokens=60)
    take_turn(make_chat([reply, "So."], changing, yes, generation=limit), "How high?")
    assert changing.called == [("get_tide", {"harbour": "Husum"})]  # of a reply cut off this would not run
    cut = make_chat([CALL + "\nI wait " + "x" * 4000, "So."], changing, yes, generation=limit)
    take_turn(cut, "How high?")
    assert len(changing.called) == 1 and "cut off" in cut.history[2].text


def test_an_engine_that_would_wait_or_fail_behind_what_it_invents_is_not_waited_for() -> None:
    for rest in (Reply(CALL + "\nObservation: 2.4", wait=True), Reply(CALL + "\nObservation: 2.4", error="It broke.")):
        chat = make_chat([rest, "It is 1.1 metres."], Box({"get_tide": tide}))
        assert texts(take_turn(chat, "How high?")) == "It is 1.1 metres."


def test_an_old_session_that_holds_what_was_invented_is_exported_whole() -> None:
    reply = f"{CALL}\nObservation: 2.4\nIt is 2.4."
    told = tell("x", [Entry(0.0, Message("user", "How high?")), Entry(0.0, Message("assistant", reply))])
    said = "".join(part.text for part in told.turns[0].parts if isinstance(part, Said))
    assert said.strip() == "Observation: 2.4\nIt is 2.4."


def test_the_program_tells_a_script_nothing_of_it(program: Run, script: Callable[..., str]) -> None:
    model = script(call_text("calculate", expression="6 * 7") + "\n<tool_response>\n41\n</tool_response>", "It is 42.")
    done = program("-p", "6 * 7?", "--output-format", "stream-json", "--model", model)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert "tool_response" not in done.stdout and "41" not in [event.get("text") for event in events]
    assert [event["type"] for event in events if event["type"] != "text"] == [
        *("call_found", "tool_started", "tool_finished", "turn_ended")
    ]
    assert "".join(event["text"] for event in events if event["type"] == "text").strip() == "It is 42."


def test_a_real_model_that_misses_its_end_is_stopped_where_it_begins_to_invent(
    shipped_model: Path, tmp_path: Path
) -> None:
    """It was trained on whole talks, so behind its call it writes the next turn: our heading, and a result."""
    path = tmp_path / "endless.gguf"
    path.write_bytes(without_end(shipped_model.read_bytes()))
    backend = Llama(path, 2048)

    async def calculate(expression: str) -> str:
        return f"{expression} = 408"

    schema = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
    box = Box({"calculate": calculate}, schemas={"calculate": schema})
    greedy = Generation(temperature=0, max_tokens=120)

    async def ask() -> tuple[str, list[Event], Chat]:
        chat = Chat(backend, box, Settings(generation=greedy, max_steps=2), language.load())
        events = await collect(chat.send("What is 12 * 34?"))
        prompt = compose(chat.history[:1], box.tools, chat.prompt_words, "", chat.form)
        alone = [piece async for piece in backend.stream(prompt, greedy) if isinstance(piece, str)]
        return "".join(alone), events, chat

    alone, events, chat = asyncio.run(ask())
    asyncio.run(backend.aclose())
    call = call_text("calculate", expression="12 * 34")
    assert alone.startswith(f"{call}<|im_fin|>\n<|im_start|>user\nResult of calculate:\n")
    assert chat.history[1].text == f"{call}<|im_fin|>"
    assert box.called[0] == ("calculate", {"expression": "12 * 34"})
    first, second = chat.spent[:2]
    assert not first.hit_limit and first.generated_tokens < 60
    written = first.generated_tokens - 8  # the mark that it was found by, and what was under way when it was stopped
    assert second.reused_tokens >= first.prompt_tokens + written
    assert "Result of" not in texts(events)
