"""FORMATS: one row for each way in which models write tool calls."""

from __future__ import annotations

from .common import BodyReader
from .format import CLOSE, OPEN, Format
from .gemma import gemma_reader
from .json_calls import json_reader
from .minimax import MINIMAX_TOKEN, read_minimax
from .named_calls import (
    DEEPSEEK_END,
    pair_reader,
    read_apertus,
    read_deepseek,
    read_function_attribute,
    read_function_name,
    read_functionary,
    read_harmony,
    read_kimi,
    read_mistral,
    read_muse,
    read_muse_recipient,
    read_plamo,
    read_python_tag,
    read_qwen2,
    read_recipient,
    read_seed_oss,
    read_solar,
    read_step3,
    read_tool_call_tag,
    read_tool_calls,
)
from .python_calls import python_reader
from .render import (
    TagTemplates,
    chatglm_renderer,
    gemma_renderer,
    json_renderer,
    keyed_renderer,
    named_renderer,
    nested_tag_renderer,
    python_renderer,
    tag_renderer,
    typed_tag_renderer,
)
from .tag_syntax import KIMI3, STEP3, PairSyntax, invoke_syntax
from .tagged_calls import block_reader, group_reader, tag_reader
from .unmarked import read_bare_json, read_bare_list, read_name_line, skip_all_line

_HERMES = json_renderer("<tool_call>\n", "\n</tool_call>")
XML_TAGS = TagTemplates("<tool_call name={}>", "</tool_call>", "<argument name={}>", "</argument>")
_QWEN3_CODER = TagTemplates(
    "<tool_call>\n<function={}>", "</function>\n</tool_call>", "<parameter={}>", "</parameter>", is_raw=True
)
_MINICPM5 = TagTemplates("<function name={}>", "</function>", "<param name={}>", "</param>")
_GLM45 = TagTemplates(
    "<tool_call>{}", "</tool_call>", "<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>", is_raw=True
)

_DEEPSEEK_MARKS = {
    "<｜tool▁calls▁begin｜>": group_reader("<｜tool▁call▁begin｜>"),
    "<｜tool▁call▁begin｜>": read_deepseek,
}
_HY3 = TagTemplates(
    "<tool_calls:opensource><tool_call:opensource>{}<tool_sep:opensource>",
    "</tool_call:opensource></tool_calls:opensource>",
    "<arg_key:opensource>{}</arg_key:opensource>\n<arg_value:opensource>",
    "</arg_value:opensource>",
    is_raw=True,
)
_SEED_OSS = TagTemplates(
    "<seed:tool_call>\n<function={}>",
    "</function>\n</seed:tool_call>",
    "<parameter={}>",
    "</parameter>",
    is_raw=True,
    is_padded=False,
)
_GIGACHAT_TURN = "<|message_sep|>\n\n"
_GIGACHAT_MARKS = ("<|message_sep|>",)
_GIGACHAT_RESULTS = ("function result<|role_sep|>", f"{_GIGACHAT_TURN}function result")


def _dsml_tags(word: str, block: str) -> tuple[str, str, str, str, str]:
    """Return the tags of DeepSeek's markup for its renderer."""
    return (
        f"<｜{word}｜{block}>\n",
        f"<｜{word}｜invoke name={{name}}>\n",
        f'<｜{word}｜parameter name={{name}} string="{{is_text}}">',
        f"</｜{word}｜parameter>\n",
        f"</｜{word}｜invoke>\n</｜{word}｜{block}>",
    )


def _dsml_reader(word: str, block: str) -> BodyReader:
    """Return the reader of a block in DeepSeek's markup."""
    tags = invoke_syntax(f"｜{word}｜")
    return block_reader(tags.call_opener, tag_reader(tags), f"</｜{word}｜{block}>")


_DEEPSEEK_RESULTS = ("<｜tool▁outputs▁begin｜>", "<｜tool▁output▁begin｜>")
_GLM_ROLES = ("<|user|>", "<|observation|>")
_FLOWERS = ("✿RESULT✿:", "✿RETURN✿:", "✿RESULT✿", "✿RETURN✿")
_RESPONSE = ("<tool_response",)
_PYTHON_MARKS = {"<|tool_call_start|>": python_reader(("<|tool_call_end|>",))}

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format(
            "json",
            json_renderer(f"{OPEN}\n", f"\n{CLOSE}"),
            {OPEN: json_reader((CLOSE,), begins="{[")},
            (CLOSE,),
            result_openers=("[TOOL_RESULT", "[TOOL_RESPONSE", "[TOOL_OUTPUT", "Observation:"),
        ),
        Format(
            "xml",
            tag_renderer(XML_TAGS),
            {"<tool_call": read_tool_call_tag},
            ("</tool_call>",),
            result_openers=("<tool_result", "<tool_output", "<function_result", "<function_response"),
        ),
        Format("hermes", _HERMES, {"<tool_call": read_tool_call_tag}, ("</tool_call>",), result_openers=_RESPONSE),
        Format(
            "qwen2",
            named_renderer("✿FUNCTION✿: ", "\n✿ARGS✿: ", ""),
            {"✿FUNCTION✿": read_qwen2},
            control_tokens=_FLOWERS,
            result_openers=_FLOWERS,
        ),
        Format(
            "qwen3-coder",
            tag_renderer(_QWEN3_CODER),
            {"<tool_call": read_tool_call_tag, "<function": read_function_name},
            ("</tool_call>", "</function>"),
            call_ends_thought=True,
            result_openers=_RESPONSE,
        ),
        Format(
            "llama3",
            json_renderer("", "", "parameters"),
            {"<|python_tag|>": read_python_tag},
            unmarked_readers=(read_bare_json,),
            control_tokens=("<|python_tag|>", "<|eom_id|>"),
        ),
        Format("llama3-function", named_renderer("<function=", ">", "</function>"), {"<function": read_function_name}),
        Format("pythonic", python_renderer("[", "]"), unmarked_readers=(read_bare_list,)),
        Format(
            "mistral",
            json_renderer("[TOOL_CALLS] [", "]"),
            {"[TOOL_CALLS]": read_mistral},
            thought_markers={"[THINK]": "[/THINK]"},
            result_openers=("[TOOL_RESULTS]",),
        ),
        Format(
            "mistral-args",
            named_renderer("[TOOL_CALLS]", "[ARGS]", ""),
            {"[TOOL_CALLS]": read_mistral},
            thought_markers={"[THINK]": "[/THINK]"},
            result_openers=("[TOOL_RESULTS]",),
        ),
        Format(
            "deepseek",
            named_renderer(
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                "\n```json\n",
                "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            ),
            _DEEPSEEK_MARKS,
            (DEEPSEEK_END, "<｜tool▁calls▁end｜>"),
            result_openers=_DEEPSEEK_RESULTS,
        ),
        Format(
            "deepseek-v3.1",
            named_renderer(
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
                "<｜tool▁sep｜>",
                "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            ),
            _DEEPSEEK_MARKS,
            (DEEPSEEK_END, "<｜tool▁calls▁end｜>"),
            result_openers=_DEEPSEEK_RESULTS,
        ),
        Format(
            "internlm2",
            json_renderer("<|action_start|><|plugin|>\n", "<|action_end|>", "parameters"),
            {
                "<|action_start|><|plugin|>": json_reader(("<|action_end|>",), "parameters"),
                "<|action_start|> <|plugin|>": json_reader(("<|action_end|>",), "parameters"),
            },
            ("<|action_end|>",),
        ),
        Format(
            "minicpm",
            python_renderer("<|tool_call_start|>\n```python\n", "\n```\n<|tool_call_end|>"),
            _PYTHON_MARKS,
            ("<|tool_call_end|>",),
            thought_markers={"<|thought_start|>": "<|thought_end|>"},
        ),
        Format(
            "minicpm5",
            tag_renderer(_MINICPM5),
            {"<function": read_function_attribute},
            ("</function>",),
            result_openers=_RESPONSE,
        ),
        Format(
            "chatglm3",
            chatglm_renderer(),
            unmarked_readers=(read_name_line,),
            control_tokens=_GLM_ROLES,
            result_openers=_GLM_ROLES,
        ),
        Format(
            "glm4",
            named_renderer("", "\n", ""),
            unmarked_readers=(read_name_line,),
            control_tokens=_GLM_ROLES,
            result_openers=_GLM_ROLES,
        ),
        Format(
            "glm4.5",
            tag_renderer(_GLM45),
            {"<tool_call": read_tool_call_tag},
            ("</tool_call>",),
            call_ends_thought=True,
            control_tokens=_GLM_ROLES,
            result_openers=(*_GLM_ROLES, *_RESPONSE),
        ),
        Format(
            "gemma3",
            python_renderer("```tool_code\n", "\n```"),
            {"```tool_code": python_reader(("```",))},
            result_openers=("```tool_output",),
        ),
        Format(
            "functiongemma",
            gemma_renderer("<start_function_call>", "<escape>", "<end_function_call>"),
            {"<start_function_call>": gemma_reader("<escape>", ("<end_function_call>",))},
            ("<end_function_call>",),
            control_tokens=("<start_function_response>",),
            result_openers=("<start_function_response>",),
        ),
        Format(
            "gemma4",
            gemma_renderer("<|tool_call>", '<|"|>', "<tool_call|>"),
            {"<|tool_call>": gemma_reader('<|"|>', ("<tool_call|>",))},
            ("<tool_call|>",),
            thought_markers={"<|channel>thought": "<channel|>"},
            control_tokens=("<turn|>", "<|channel>", "<channel|>"),
            result_openers=("<|tool_response>",),
        ),
        Format(
            "phi4",
            json_renderer("<|tool_call|>[", "]<|/tool_call|>"),
            {
                "functools": json_reader((), begins="["),
                "<|tool_call|>": json_reader(("<|/tool_call|>",), begins="[{", needs_end=False),
            },
            ("<|/tool_call|>",),
            is_prose=True,
            result_openers=("<|tool_response|>", "<|tool|>"),
        ),
        Format(
            "granite",
            json_renderer("<|tool_call|> [", "]"),
            {
                "<|tool_call|>": json_reader(("<|/tool_call|>",), begins="[{", needs_end=False),
                "<tool_call": read_tool_call_tag,
                "<function_call>": json_reader(("</function_call>",), begins="{[", needs_end=False),
            },
            ("</tool_call>", "</function_call>"),
            result_openers=_RESPONSE,
        ),
        Format(
            "command-r",
            json_renderer("<|START_ACTION|>[", "]<|END_ACTION|>", "parameters", "tool_name"),
            {"<|START_ACTION|>": json_reader(("<|END_ACTION|>",), "parameters", begins="[{")},
            ("<|END_ACTION|>",),
            thought_markers={"<|START_THINKING|>": "<|END_THINKING|>"},
            control_tokens=(
                *("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>", "<|END_OF_TURN_TOKEN|>"),
                "<|CHATBOT_TOKEN|>",
            ),
            result_openers=("<|START_TOOL_RESULT|>",),
        ),
        Format(
            "lfm2",
            python_renderer("<|tool_call_start|>[", "]<|tool_call_end|>"),
            _PYTHON_MARKS,
            ("<|tool_call_end|>",),
            result_openers=("<|tool_response_start|>",),
        ),
        Format(
            "smollm3-code",
            python_renderer("<code>\n", "\n</code>"),
            {"<code>": python_reader(("</code>",), is_common=True), "<tool_call": read_tool_call_tag},
            is_prose=True,
            result_openers=_RESPONSE,
        ),
        Format(
            "nemotron",
            json_renderer("<TOOLCALL>[", "]</TOOLCALL>"),
            {"<TOOLCALL>": json_reader(("</TOOLCALL>",), begins="[{")},
            result_openers=("<TOOL_RESPONSE>",),
        ),
        Format(
            "harmony",
            named_renderer("<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "<|call|>"),
            {
                "<|channel|>commentary to=": read_harmony,
                "<|channel|>analysis to=": read_harmony,
                "<|start|>assistant to=": read_harmony,
            },
            unmarked_readers=(read_recipient,),
            thought_markers={"<|channel|>analysis<|message|>": "<|end|>"},
            control_tokens=(
                "<|start|>assistant",
                "<|channel|>final<|message|>",
                "<|channel|>commentary<|message|>",
                "<|call|>",
            ),
            result_openers=("<|start|>functions.",),
        ),
        Format("xlam", json_renderer("[", "]"), unmarked_readers=(read_bare_json,)),
        Format(
            "functionary",
            named_renderer(">>>", "\n", ""),
            {">>>": read_functionary},
            is_prose=True,
            unmarked_readers=(read_name_line, skip_all_line),
        ),
        Format(
            "dsml",
            typed_tag_renderer(*_dsml_tags("DSML", "function_calls")),
            {
                "<｜DSML｜function_calls>": _dsml_reader("DSML", "function_calls"),
                "<｜DSML｜tool_calls>": _dsml_reader("DSML", "tool_calls"),
            },
            ("</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"),
            call_ends_thought=True,
            result_openers=("<function_results>", "<tool_result>"),
        ),
        Format(
            "gigachat3.5",
            typed_tag_renderer(*_dsml_tags("GCML", "tool_calls")),
            {"<｜GCML｜tool_calls>": _dsml_reader("GCML", "tool_calls")},
            ("</｜GCML｜tool_calls>",),
            control_tokens=_GIGACHAT_MARKS,
            result_openers=("<function_response>", *_GIGACHAT_RESULTS),
        ),
        Format(
            "gigachat3",
            json_renderer("<|function_call|>", ""),
            {"<|function_call|>": json_reader(()), f"{_GIGACHAT_TURN}function call<|role_sep|>": json_reader(())},
            control_tokens=_GIGACHAT_MARKS,
            result_openers=_GIGACHAT_RESULTS,
        ),
        Format(
            "kimi-k2",
            named_renderer(
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.",
                ":0<|tool_call_argument_begin|>",
                "<|tool_call_end|><|tool_calls_section_end|>",
            ),
            {
                "<|tool_calls_section_begin|>": group_reader("<|tool_call_begin|>"),
                "<|tool_call_section_begin|>": group_reader("<|tool_call_begin|>"),
                "<|tool_call_begin|>": read_kimi,
            },
            ("<|tool_call_end|>", "<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
            call_ends_thought=True,
            result_openers=("## Return of functions.", "<|im_system|>"),
        ),
        Format(
            "kimi-k3",
            typed_tag_renderer(
                "<|open|>tools<|sep|>",
                '<|open|>call tool={name} index="1"<|sep|>',
                '<|open|>argument key={name} type="{type}"<|sep|>',
                KIMI3.value_closer,
                f"{KIMI3.call_closers[0]}<|close|>tools<|sep|>",
            ),
            {"<|open|>tools<|sep|>": block_reader(KIMI3.call_opener, tag_reader(KIMI3), "<|close|>tools<|sep|>")},
            ("<|close|>tools<|sep|>",),
            thought_markers={"<|open|>think<|sep|>": "<|close|>think<|sep|>"},
            call_ends_thought=True,
            control_tokens=(
                *("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>think<|sep|>"),
                *("<|close|>message<|sep|>", "<|end_of_msg|>"),
            ),
            result_openers=('<|open|>message role="tool"',),
        ),
        Format(
            "olmo3",
            python_renderer("<function_calls>", "</function_calls>"),
            {"<function_calls>": python_reader(("</function_calls>",))},
            ("</function_calls>",),
            result_openers=("<|im_start|>environment",),
        ),
        Format(
            "llama4",
            python_renderer("<|python_start|>[", "]<|python_end|>"),
            {"<|python_start|>": python_reader(("<|python_end|>",))},
            ("<|python_end|>",),
        ),
        Format(
            "apertus",
            keyed_renderer("<|tools_prefix|>[", "]<|tools_suffix|>"),
            {"<|tools_prefix|>": read_apertus},
            ("<|tools_suffix|>",),
            thought_markers={"<|inner_prefix|>": "<|inner_suffix|>"},
            call_ends_thought=True,
        ),
        Format(
            "minimax-m2",
            typed_tag_renderer(
                "<minimax:tool_call>\n",
                "<invoke name={name}>\n",
                "<parameter name={name}>",
                "</parameter>\n",
                "</invoke>\n</minimax:tool_call>",
            ),
            {"<minimax:tool_call>": block_reader("<invoke", tag_reader(invoke_syntax()), "</minimax:tool_call>")},
            ("</minimax:tool_call>",),
            result_openers=("]~b]tool", "<response>"),
        ),
        Format(
            "minimax-m3",
            nested_tag_renderer(MINIMAX_TOKEN),
            {
                f"{MINIMAX_TOKEN}<tool_call>": block_reader(
                    f"{MINIMAX_TOKEN}<invoke", read_minimax, f"{MINIMAX_TOKEN}</tool_call>"
                )
            },
            (f"{MINIMAX_TOKEN}</tool_call>",),
            thought_markers={"<mm:think>": "</mm:think>"},
            control_tokens=("</mm:think>",),
            result_openers=("]~b]tool",),
        ),
        Format(
            "tool-calls",
            json_renderer("<tool_calls>[", "]</tool_calls>"),
            {"<tool_calls>": read_tool_calls},
            ("</tool_calls>",),
            result_openers=("<tool_response", "<tool_results>", "<|tool_result|>", "<|begin_tool_result|>"),
        ),
        Format(
            "hy3",
            tag_renderer(_HY3),
            {
                "<tool_calls:opensource>": group_reader("<tool_call:opensource>"),
                "<tool_call:opensource>": pair_reader(
                    PairSyntax("<tool_call:opensource>", "</tool_call:opensource>", suffix=":opensource")
                ),
                "<tool_calls>": read_tool_calls,
                "<tool_call": read_tool_call_tag,
            },
            ("</tool_call:opensource>", "</tool_calls:opensource>", "</tool_call>", "</tool_calls>"),
            thought_markers={"<think:opensource>": "</think:opensource>"},
            call_ends_thought=True,
            control_tokens=("<｜hy_eos:opensource｜>",),
            result_openers=("<tool_responses", "<tool_response"),
        ),
        Format(
            "solar-open",
            named_renderer("<|tool_call:begin|>0<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>"),
            {"<|tool_call:begin|>": read_solar},
            ("<|tool_call:end|>",),
        ),
        Format(
            "longcat",
            json_renderer("<longcat_tool_call>\n", "\n</longcat_tool_call>"),
            {
                "<longcat_tool_call>": pair_reader(
                    PairSyntax("<longcat_tool_call>", "</longcat_tool_call>", prefix="longcat_")
                )
            },
            ("</longcat_tool_call>",),
            thought_markers={"<longcat_think>": "</longcat_think>"},
            result_openers=("<longcat_tool_response>",),
        ),
        Format(
            "step3",
            typed_tag_renderer(
                "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>",
                "<steptml:invoke name={name}>",
                "<steptml:parameter name={name}>",
                "</steptml:parameter>",
                "</steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
            ),
            {
                "<｜tool_calls_begin｜>": read_step3,
                "<｜tool_call_begin｜>": read_step3,
                "<steptml:invoke": tag_reader(STEP3),
            },
            ("<｜tool_call_end｜>", "<｜tool_calls_end｜>", "<｜tool_sep｜>"),
        ),
        Format(
            "seed-oss",
            tag_renderer(_SEED_OSS),
            {"<seed:tool_call>": read_seed_oss},
            ("</seed:tool_call>",),
            thought_markers={"<seed:think>": "</seed:think>"},
            control_tokens=("</seed:cot_budget_reflect>", "<seed:eos>"),
            result_openers=("<seed:bos>",),
        ),
        Format(
            "plamo3",
            named_renderer(
                "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>",
                "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>",
                "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>",
            ),
            {
                "<|plamo:begin_tool_requests:plamo|>": group_reader("<|plamo:begin_tool_request:plamo|>"),
                "<|plamo:begin_tool_request:plamo|>": read_plamo,
            },
            ("<|plamo:end_tool_request:plamo|>", "<|plamo:end_tool_requests:plamo|>"),
            thought_markers={"<|plamo:begin_think:plamo|>": "<|plamo:end_think:plamo|>"},
            control_tokens=("<|plamo:tag|>",),
        ),
        Format(
            "dots",
            typed_tag_renderer(
                "<dots_function_call>\n",
                "<invoke name={name}>\n",
                "<parameter name={name}>",
                "</parameter>\n",
                "</invoke>\n</dots_function_call>",
            ),
            {
                "<dots_function_call>": block_reader(
                    "<invoke", tag_reader(invoke_syntax()), "</dots_function_call>", may_be_json=True
                )
            },
            ("</dots_function_call>",),
        ),
        Format(
            "muse",
            typed_tag_renderer(
                "<|start|>assistant to=tool<|message|><atem:function_calls>\n",
                "<atem:invoke name={name}>\n",
                "<atem:parameter name={name}>",
                "</atem:parameter>\n",
                "</atem:invoke>\n</atem:function_calls>",
            ),
            {
                "<|start|>assistant to=": read_muse,
            },
            ("</atem:function_calls>",),
            is_prose=True,
            unmarked_readers=(read_muse_recipient,),
            thought_markers={"to=self<|message|>": "<|eom|>", "<|start|>assistant to=self<|message|>": "<|eom|>"},
            control_tokens=("to=user<|message|>", "<|start|>assistant to=user<|message|>", "<|eom|>", "<|eot|>"),
            result_openers=("<|start|>tool ",),
        ),
        Format(
            "k2-horizon",
            json_renderer("<ifm|tool_calls><ifm|tool_call>", "</ifm|tool_call></ifm|tool_calls>"),
            {
                "<ifm|tool_calls>": group_reader("<ifm|tool_call>"),
                "<ifm|tool_call>": pair_reader(PairSyntax("<ifm|tool_call>", "</ifm|tool_call>", prefix="ifm|")),
            },
            ("</ifm|tool_call>", "</ifm|tool_calls>"),
            thought_markers={
                "<ifm|think>": "</ifm|think>",
                "<ifm|think_fast>": "</ifm|think_fast>",
                "<ifm|think_faster>": "</ifm|think_faster>",
            },
            control_tokens=("<|ifm|im_end|>",),
        ),
    )
}
