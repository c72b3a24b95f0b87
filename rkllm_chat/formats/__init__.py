"""FORMATS: what a tool call looks like in a model's text. It does not know what a call does.

A row says which literals open a candidate and how its body is read, how the form is asked for, what its models write
besides: thoughts, control tokens, and calls without any marker. To add a form is to add a row, and a reader only where
the eight that there are do not serve.

A body reader is a generator over a Reader, entered behind the opener. It returns the calls of the region, or None when
what follows is no call after all, so that prose about markers stays prose; once it has seen enough it commits, and a
reply that ends then was cut off. A call ends by its own structure: end markers inside JSON strings or inside values
end nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .bare import Bare, read_bare_json, read_bare_list, read_name_line, skip_all_line
from .found import DEEPEST, Found
from .gemma import gemma_call
from .jsons import Read, json_call
from .named import (
    DEEPSEEK_END,
    read_deepseek,
    read_deepseek_calls,
    read_function,
    read_functionary,
    read_harmony,
    read_mistral,
    read_qwen2,
    read_tool_call,
)
from .python import python_call
from .writing import Elements, Writing, in_chatglm, in_gemma, in_json, in_python, in_tags, named

__all__ = ["CLOSE", "COMMON", "CONTROLS", "DEEPEST", "FORMATS", "OPEN", "TURNS", "Format", "Found", "formats_for"]

OPEN, CLOSE = "[TOOL_CALL]", "[END_TOOL_CALL]"

CONTROLS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>"),
    *("<|return|>", "<｜end▁of▁sentence｜>", "</s>", "<eos>"),
)
"""Tokens that end a turn, of all families: an engine should not let them through, and some do."""

TURNS = (
    *("<|im_start|>", "<|start_header_id|>", "<|header_start|>", "<|start_of_role|>", "<|START_OF_TURN_TOKEN|>"),
    *("<start_of_turn>", "<|turn>", "<|user|>", "<|assistant|>", "<|system|>", "<｜User｜>", "[INST]", "<|start|>user"),
)
"""What begins a turn, of all families: behind a call the next one is not the model's."""


@dataclass(frozen=True, eq=False)
class Format:
    """One way of writing calls. `openers`: a literal that begins a candidate -> the reader behind it.

    `closers` are end markers that are dropped when one too many stands behind a call. `bare` reads calls without any
    marker. `thoughts`: what opens a thought -> what ends it. `controls` are tokens of the family that nobody is to see.
    `results` begin a result: behind a call, what follows them is invented. A tag or a word does so only where a line
    begins, since prose may speak of it.
    """

    name: str
    writing: Writing
    openers: Mapping[str, Read] = field(default_factory=dict[str, Read])
    closers: tuple[str, ...] = ()
    bare: tuple[Bare, ...] = ()
    thoughts: Mapping[str, str] = field(default_factory=dict[str, str])
    controls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    @property
    def sketch(self) -> Callable[[str, Mapping[str, str]], str]:
        return self.writing.sketch

    @property
    def show(self) -> Callable[[str, Mapping[str, Any]], str]:
        return self.writing.show

    @property
    def example(self) -> str:
        return self.writing.example


HERMES = in_json("<tool_call>\n", "\n</tool_call>")
XML = Elements("<tool_call name={}>", "</tool_call>", "<argument name={}>", "</argument>")
QWEN3_CODER = Elements(
    "<tool_call>\n<function={}>", "</function>\n</tool_call>", "<parameter={}>", "</parameter>", is_raw=True
)
MINICPM5 = Elements("<function name={}>", "</function>", "<param name={}>", "</param>")
GLM45 = Elements("<tool_call>{}", "</tool_call>", "<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>", is_raw=True)

DEEPSEEK_MARKS = {"<｜tool▁calls▁begin｜>": read_deepseek_calls, "<｜tool▁call▁begin｜>": read_deepseek}
DEEPSEEK_RESULTS = ("<｜tool▁outputs▁begin｜>", "<｜tool▁output▁begin｜>")
GLM_ROLES = ("<|user|>", "<|observation|>")
FLOWERS = ("✿RESULT✿:", "✿RETURN✿:", "✿RESULT✿", "✿RETURN✿")
RESPONSE = ("<tool_response",)
PYTHON_MARKS = {"<|tool_call_start|>": python_call(("<|tool_call_end|>",))}

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format(
            "json",
            in_json(f"{OPEN}\n", f"\n{CLOSE}"),
            {OPEN: json_call((CLOSE,), begins="{[")},
            (CLOSE,),
            results=("[TOOL_RESULT", "[TOOL_RESPONSE", "[TOOL_OUTPUT", "Observation:"),
        ),
        Format(
            "xml",
            in_tags(XML),
            {"<tool_call": read_tool_call},
            ("</tool_call>",),
            results=("<tool_result", "<tool_output", "<function_result", "<function_response"),
        ),
        Format("hermes", HERMES, {"<tool_call": read_tool_call}, ("</tool_call>",), results=RESPONSE),
        Format(
            "qwen2",
            named("✿FUNCTION✿: ", "\n✿ARGS✿: ", ""),
            {"✿FUNCTION✿": read_qwen2},
            controls=FLOWERS,
            results=FLOWERS,
        ),
        Format(
            "qwen3-coder",
            in_tags(QWEN3_CODER),
            {"<tool_call": read_tool_call, "<function": read_function},
            ("</tool_call>", "</function>"),
            results=RESPONSE,
        ),
        Format(
            "llama3", in_json("", "", "parameters"), bare=(read_bare_json,), controls=("<|python_tag|>", "<|eom_id|>")
        ),
        Format("llama3-function", named("<function=", ">", "</function>"), {"<function": read_function}),
        Format("pythonic", in_python("[", "]"), bare=(read_bare_list,)),
        Format(
            "mistral",
            in_json("[TOOL_CALLS] [", "]"),
            {"[TOOL_CALLS]": read_mistral},
            thoughts={"[THINK]": "[/THINK]"},
            results=("[TOOL_RESULTS]",),
        ),
        Format(
            "mistral-args",
            named("[TOOL_CALLS]", "[ARGS]", ""),
            {"[TOOL_CALLS]": read_mistral},
            thoughts={"[THINK]": "[/THINK]"},
            results=("[TOOL_RESULTS]",),
        ),
        Format(
            "deepseek",
            named(
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                "\n```json\n",
                "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            ),
            DEEPSEEK_MARKS,
            (DEEPSEEK_END, "<｜tool▁calls▁end｜>"),
            results=DEEPSEEK_RESULTS,
        ),
        Format(
            "deepseek-v3.1",
            named(
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
                "<｜tool▁sep｜>",
                "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            ),
            DEEPSEEK_MARKS,
            (DEEPSEEK_END, "<｜tool▁calls▁end｜>"),
            results=DEEPSEEK_RESULTS,
        ),
        Format(
            "internlm2",
            in_json("<|action_start|><|plugin|>\n", "<|action_end|>", "parameters"),
            {
                "<|action_start|><|plugin|>": json_call(("<|action_end|>",), "parameters"),
                "<|action_start|> <|plugin|>": json_call(("<|action_end|>",), "parameters"),
            },
            ("<|action_end|>",),
        ),
        Format(
            "minicpm",
            in_python("<|tool_call_start|>\n```python\n", "\n```\n<|tool_call_end|>"),
            PYTHON_MARKS,
            ("<|tool_call_end|>",),
            thoughts={"<|thought_start|>": "<|thought_end|>"},
        ),
        Format("minicpm5", in_tags(MINICPM5), {"<function": read_function}, ("</function>",), results=RESPONSE),
        Format("chatglm3", in_chatglm(), bare=(read_name_line,), controls=GLM_ROLES, results=GLM_ROLES),
        Format("glm4", named("", "\n", ""), bare=(read_name_line,), controls=GLM_ROLES, results=GLM_ROLES),
        Format(
            "glm4.5",
            in_tags(GLM45),
            {"<tool_call": read_tool_call},
            ("</tool_call>",),
            controls=GLM_ROLES,
            results=(*GLM_ROLES, *RESPONSE),
        ),
        Format(
            "gemma3",
            in_python("```tool_code\n", "\n```"),
            {"```tool_code": python_call(("```",))},
            results=("```tool_output",),
        ),
        Format(
            "functiongemma",
            in_gemma("<start_function_call>", "<escape>", "<end_function_call>"),
            {"<start_function_call>": gemma_call("<escape>", ("<end_function_call>",))},
            ("<end_function_call>",),
            controls=("<start_function_response>",),
            results=("<start_function_response>",),
        ),
        Format(
            "gemma4",
            in_gemma("<|tool_call>", '<|"|>', "<tool_call|>"),
            {"<|tool_call>": gemma_call('<|"|>', ("<tool_call|>",))},
            ("<tool_call|>",),
            thoughts={"<|channel>thought\n": "<channel|>"},
            controls=("<turn|>",),
            results=("<|tool_response>",),
        ),
        Format(
            "phi4",
            in_json("<|tool_call|>[", "]<|/tool_call|>"),
            {
                "functools": json_call((), begins="["),
                "<|tool_call|>": json_call(("<|/tool_call|>",), begins="[{", needs_end=False),
            },
            ("<|/tool_call|>",),
            results=("<|tool_response|>", "<|tool|>"),
        ),
        Format(
            "granite",
            in_json("<|tool_call|> [", "]"),
            {
                "<|tool_call|>": json_call(("<|/tool_call|>",), begins="[{", needs_end=False),
                "<tool_call": read_tool_call,
                "<function_call>": json_call(("</function_call>",), begins="{[", needs_end=False),
            },
            ("</tool_call>", "</function_call>"),
            results=RESPONSE,
        ),
        Format(
            "command-r",
            in_json("<|START_ACTION|>[", "]<|END_ACTION|>", "parameters", "tool_name"),
            {"<|START_ACTION|>": json_call(("<|END_ACTION|>",), "parameters", begins="[{")},
            ("<|END_ACTION|>",),
            thoughts={"<|START_THINKING|>": "<|END_THINKING|>"},
            controls=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|END_OF_TURN_TOKEN|>"),
            results=("<|START_TOOL_RESULT|>",),
        ),
        Format(
            "lfm2",
            in_python("<|tool_call_start|>[", "]<|tool_call_end|>"),
            PYTHON_MARKS,
            ("<|tool_call_end|>",),
            results=("<|tool_response_start|>",),
        ),
        Format(
            "smollm3-code",
            in_python("<code>\n", "\n</code>"),
            {"<code>": python_call(("</code>",)), "<tool_call": read_tool_call},
            results=RESPONSE,
        ),
        Format(
            "nemotron",
            in_json("<TOOLCALL>[", "]</TOOLCALL>"),
            {
                "<TOOLCALL>": json_call(("</TOOLCALL>",), begins="[{"),
                "<tool_calls>": json_call(("</tool_calls>",), begins="[{"),
            },
            results=("<TOOL_RESPONSE>",),
        ),
        Format(
            "harmony",
            named("<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "<|call|>"),
            {
                "<|channel|>commentary to=": read_harmony,
                "<|channel|>analysis to=": read_harmony,
                "<|start|>assistant to=": read_harmony,
            },
            thoughts={"<|channel|>analysis<|message|>": "<|end|>"},
            controls=(
                "<|start|>assistant",
                "<|channel|>final<|message|>",
                "<|channel|>commentary<|message|>",
                "<|call|>",
            ),
            results=("<|start|>functions.",),
        ),
        Format("xlam", in_json("[", "]"), bare=(read_bare_json,)),
        Format(
            "functionary",
            named(">>>", "\n", ""),
            {">>>": read_functionary},
            bare=(read_name_line, skip_all_line),
        ),
    )
}

COMMON = ("json", "xml", "hermes", "qwen3-coder", "llama3-function", "llama3", "mistral", "pythonic", "xlam")
"""What is read of every model."""


def formats_for(name: str = "", accepts: Iterable[str] = ()) -> tuple[Format, ...]:
    """What is read of a model that is asked for the row `name` and may also write those of `accepts`."""
    return tuple(FORMATS[row] for row in dict.fromkeys((*([name] if name else ()), *COMMON, *accepts)))
