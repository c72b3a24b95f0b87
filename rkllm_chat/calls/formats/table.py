"""FORMATS: one row for each way in which models write tool calls."""

from __future__ import annotations

from .bodies import as_body, wrap
from .format import CLOSE, OPEN, Format, derive_wrappers
from .json_calls import json_body, series_body
from .layout import gemma_call, json_call, named_call, python_call
from .minimax import MINIMAX, MINIMAX_TOKEN, read_minimax
from .named_calls import (
    read_function_name,
    read_functionary,
    read_harmony,
    read_inkling_header,
    read_muse,
    read_step3,
    recipient_reader,
)
from .python_calls import python_body
from .tag_syntax import (
    GLM,
    INVOKE,
    KIMI3,
    MINICPM5,
    MUSE,
    QWEN,
    SEED,
    SEED_OSS,
    STEP3,
    invoke_syntax,
    pair_syntax,
    tagged_call,
)
from .tagged_calls import block_body, group_body, pair_body, tag_reader
from .unmarked import read_bare_json, read_bare_list, read_name_line, skip_all_line

_NAMED = '{"name": NAME, "parameters": ARGUMENTS}'
_JSON, _ENDLESS_JSON = json_body(), json_body(needs_end=False)
_ARRAY = json_body(begins="[", needs_end=False)  # of Granite 3.1, which writes no end marker after it
_TAGS = block_body("<function=", read_function_name)
_TOOL_CALL = {"<tool_call>": wrap(json_body(begins="{"), _ARRAY, _TAGS, pair_body(GLM), end="</tool_call>")}
_TOOL_CALLS = {"<tool_calls>": wrap(group_body("<tool_call>"), series_body(), end="</tool_calls>")}
_FUNCTION = {"<function=": wrap(as_body(read_function_name), end="</function>")}
_PLAIN_LIST = {"<|tool_call|>": wrap(_ENDLESS_JSON, end="<|/tool_call|>")}
_DEEPSEEK = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_DEEPSEEK_V3 = named_call(
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\nARGUMENTS\n```<｜tool▁call▁end｜>", *_DEEPSEEK
)
_DSML = invoke_syntax("｜DSML｜", ' string="IS_TEXT"')
_GCML = invoke_syntax("｜GCML｜", ' string="IS_TEXT"')
_HY3 = pair_syntax("<tool_call:opensource>NAME<tool_sep:opensource>", "</tool_call:opensource>", suffix=":opensource")
_LONGCAT = pair_syntax("<longcat_tool_call>NAME", "</longcat_tool_call>", "longcat_")
_IFM = pair_syntax("<ifm|tool_call>NAME", "</ifm|tool_call>", "ifm|")
_GIGACHAT_TURN = "<|message_sep|>\n\n"
_GIGACHAT_RESULTS = ("function result<|role_sep|>", f"{_GIGACHAT_TURN}function result")
_DEEPSEEK_RESULTS = ("<｜tool▁outputs▁begin｜>", "<｜tool▁output▁begin｜>")
_GLM_ROLES = ("<|user|>", "<|observation|>")
_FLOWERS = ("✿RESULT✿:", "✿RETURN✿:", "✿RESULT✿", "✿RETURN✿")
_RESPONSE = ("<tool_response",)
_PLAMO = named_call(
    "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>NAME<|plamo:end_tool_name:plamo|>"
    "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>ARGUMENTS"
    "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
    before="<|plamo:begin_tool_requests:plamo|>",
    after="<|plamo:end_tool_requests:plamo|>",
)
_RESULTS = ("[TOOL_RESULTS]",)
_THINK = {"[THINK]": "[/THINK]"}

# fmt: off
_ROWS = (
    Format("json", json_call(f"{OPEN}\n", f"\n{CLOSE}"),
        result_openers=("[TOOL_RESULT", "[TOOL_RESPONSE", "[TOOL_OUTPUT", "Observation:")),
    Format("xml", tagged_call(SEED), _TOOL_CALL,
        result_openers=("<tool_result", "<tool_output", "<function_result", "<function_response")),
    Format("hermes", json_call("<tool_call>\n", "\n</tool_call>"), _TOOL_CALL, result_openers=_RESPONSE),
    Format("qwen2", named_call("✿FUNCTION✿: NAME\n✿ARGS✿: ARGUMENTS"),
        control_tokens=_FLOWERS, result_openers=_FLOWERS),
    Format("qwen3-coder", tagged_call(QWEN, "<tool_call>\n"), {**_TOOL_CALL, **_FUNCTION},
        call_ends_thought=True, result_openers=_RESPONSE),
    Format("llama3", json_call("", call=_NAMED), {"<|python_tag|>": wrap(series_body("parameters"))},
        unmarked_readers=(read_bare_json,), control_tokens=("<|python_tag|>", "<|eom_id|>")),
    Format("llama3-function", named_call("<function=NAME>ARGUMENTS</function>"), _FUNCTION),
    Format("pythonic", python_call("[", "]"), unmarked_readers=(read_bare_list,)),
    Format("mistral", json_call("[TOOL_CALLS] [", "]"), thought_markers=_THINK, result_openers=_RESULTS),
    Format("mistral-args", named_call("[TOOL_CALLS]NAME[ARGS]ARGUMENTS"),
        thought_markers=_THINK, result_openers=_RESULTS),
    Format("deepseek", _DEEPSEEK_V3, result_openers=_DEEPSEEK_RESULTS),
    Format("deepseek-v3.1",
        named_call("<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGUMENTS<｜tool▁call▁end｜>", *_DEEPSEEK),
        derive_wrappers(_DEEPSEEK_V3), result_openers=_DEEPSEEK_RESULTS),
    Format("internlm2", json_call("<|action_start|><|plugin|>\n", "<|action_end|>", _NAMED),
        {"<|action_start|> <|plugin|>": wrap(json_body("parameters"), end="<|action_end|>")}),
    Format("minicpm", python_call("<|tool_call_start|>\n```python\n", "\n```\n<|tool_call_end|>"),
        thought_markers={"<|thought_start|>": "<|thought_end|>"}),
    Format("minicpm5", tagged_call(MINICPM5), result_openers=_RESPONSE),
    Format("chatglm3", python_call("", "", "NAME\n```python\ntool_call(ARGUMENTS)\n```"),
        unmarked_readers=(read_name_line,), control_tokens=_GLM_ROLES, result_openers=_GLM_ROLES),
    Format("glm4", named_call("NAME\nARGUMENTS"),
        unmarked_readers=(read_name_line,), control_tokens=_GLM_ROLES, result_openers=_GLM_ROLES),
    Format("glm4.5", tagged_call(GLM), _TOOL_CALL,
        call_ends_thought=True, control_tokens=_GLM_ROLES, result_openers=(*_GLM_ROLES, *_RESPONSE)),
    Format("gemma3", python_call("```tool_code\n", "\n```"), result_openers=("```tool_output",)),
    Format("functiongemma", gemma_call("<start_function_call>", "<escape>", "<end_function_call>"),
        control_tokens=("<start_function_response>",), result_openers=("<start_function_response>",)),
    Format("gemma4", gemma_call("<|tool_call>", '<|"|>', "<tool_call|>"),
        thought_markers={"<|channel>thought": "<channel|>"}, stripped_thoughts={"thought\n": ()},
        control_tokens=("<turn|>", "<|channel>", "<channel|>"), result_openers=("<|tool_response>",)),
    Format("phi4", json_call("<|tool_call|>[", "]<|/tool_call|>"),
        {**_PLAIN_LIST, "<|tool_calls|>": wrap(_ENDLESS_JSON, end="<|/tool_calls|>"),
         "functools": wrap(json_body(begins="["), is_open=False)},
        is_prose=True, result_openers=("<|tool_response|>", "<|tool|>")),
    Format("granite", json_call("<|tool_call|> [", "]"),
        {**_PLAIN_LIST, "<function_call>": wrap(_ENDLESS_JSON, end="</function_call>"), **_TOOL_CALL},
        result_openers=_RESPONSE),
    Format("command-r",
        json_call("<|START_ACTION|>[", "]<|END_ACTION|>", '{"tool_name": NAME, "parameters": ARGUMENTS}'),
        thought_markers={"<|START_THINKING|>": "<|END_THINKING|>"},
        control_tokens=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>",
                        "<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"),
        result_openers=("<|START_TOOL_RESULT|>",)),
    Format("lfm2", python_call("<|tool_call_start|>[", "]<|tool_call_end|>"),
        result_openers=("<|tool_response_start|>",)),
    Format("smollm3-code", python_call("<code>\n", "\n</code>"),
        {"<code>": wrap(python_body(is_common=True), end="</code>", is_open=False), **_TOOL_CALL},
        is_prose=True, result_openers=_RESPONSE),
    Format("nemotron", json_call("<TOOLCALL>[", "]</TOOLCALL>"), result_openers=("<TOOL_RESPONSE>",)),
    Format("harmony",
        named_call("<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>ARGUMENTS<|call|>"),
        readers=dict.fromkeys(
            ("<|channel|>commentary to=", "<|channel|>analysis to=", "<|start|>assistant to="), read_harmony),
        unmarked_readers=(recipient_reader(read_harmony),),
        thought_markers={"<|channel|>analysis<|message|>": "<|end|>"},
        stripped_prefixes=("assistantcommentary to=", "commentary to=", "to=functions."),
        stripped_thoughts={"analysis": ("assistantfinal", "assistantcommentary", "commentary to="),
                           "assistantfinal": ()},
        control_tokens=("<|start|>assistant", "<|channel|>final<|message|>", "<|channel|>commentary<|message|>",
                        "<|call|>"),
        result_openers=("<|start|>functions.",)),
    Format("xlam", json_call("[", "]"), unmarked_readers=(read_bare_json,)),
    # prose may contain >>>, but then no name follows
    Format("functionary", named_call(">>>NAME\nARGUMENTS", instead='"all\\n" | /[^A-Za-z0-9_]/'),
        readers={">>>": read_functionary},
        is_prose=True, unmarked_readers=(read_name_line, skip_all_line)),
    Format("dsml", tagged_call(_DSML, "<｜DSML｜function_calls>\n", "\n</｜DSML｜function_calls>"),
        derive_wrappers(tagged_call(_DSML, "<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>")),
        call_ends_thought=True, result_openers=("<function_results>", "<tool_result>")),
    Format("gigachat3.5", tagged_call(_GCML, "<｜GCML｜tool_calls>\n", "\n</｜GCML｜tool_calls>"),
        control_tokens=("<|message_sep|>",), result_openers=("<function_response>", *_GIGACHAT_RESULTS)),
    Format("gigachat3", json_call("<|function_call|>"),
        {f"{_GIGACHAT_TURN}function call<|role_sep|>": wrap(_JSON)},
        control_tokens=("<|message_sep|>",), result_openers=_GIGACHAT_RESULTS),
    Format("kimi-k2",
        named_call("<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>ARGUMENTS<|tool_call_end|>",
                   "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        {"<|tool_call_section_begin|>": wrap(group_body("<|tool_call_begin|>"), end="<|tool_call_section_end|>")},
        call_ends_thought=True, result_openers=("## Return of functions.", "<|im_system|>")),
    Format("kimi-k3", tagged_call(KIMI3, "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
        thought_markers={"<|open|>think<|sep|>": "<|close|>think<|sep|>"}, call_ends_thought=True,
        control_tokens=("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>think<|sep|>",
                        "<|close|>message<|sep|>", "<|end_of_msg|>"),
        result_openers=('<|open|>message role="tool"',)),
    Format("olmo3", python_call("<function_calls>", "</function_calls>"), result_openers=("<|im_start|>environment",)),
    Format("llama4", python_call("<|python_start|>[", "]<|python_end|>")),
    Format("apertus", json_call("<|tools_prefix|>[", "]<|tools_suffix|>", "{NAME: ARGUMENTS}"),
        thought_markers={"<|inner_prefix|>": "<|inner_suffix|>"}, call_ends_thought=True),
    Format("minimax-m2", tagged_call(INVOKE, "<minimax:tool_call>\n", "\n</minimax:tool_call>"),
        result_openers=("]~b]tool", "<response>")),
    Format("minimax-m3", MINIMAX,
        {MINIMAX.opener: wrap(block_body(f"{MINIMAX_TOKEN}<invoke", read_minimax), end=MINIMAX.after)},
        thought_markers={"<mm:think>": "</mm:think>"}, control_tokens=("</mm:think>",), result_openers=("]~b]tool",)),
    Format("tool-calls", json_call("<tool_calls>[", "]</tool_calls>"), _TOOL_CALLS,
        result_openers=("<tool_response", "<tool_results>", "<|tool_result|>", "<|begin_tool_result|>")),
    Format("hy3", tagged_call(_HY3, "<tool_calls:opensource>", "</tool_calls:opensource>"),
        {**_TOOL_CALLS, **_TOOL_CALL}, thought_markers={"<think:opensource>": "</think:opensource>"},
        call_ends_thought=True, control_tokens=("<｜hy_eos:opensource｜>",),
        result_openers=("<tool_responses", "<tool_response")),
    Format("solar-open",
        named_call("<|tool_call:begin|>0<|tool_call:name|>NAME<|tool_call:args|>ARGUMENTS<|tool_call:end|>",
                   "<|tool_calls|>", "<|calls|>"),
        result_openers=("<|tool_response|>", "<|tool_response:begin|>")),
    Format("inkling",
        json_call("<|content_invoke_tool_json|>", "<|end_message|>", '{"name": NAME, "args": ARGUMENTS}'),
        readers={"<|message_model|>": read_inkling_header},
        is_prose=True, unmarked_readers=(read_inkling_header,),
        thought_markers={"<|content_thinking|>": "<|end_message|>"},
        control_tokens=("<|message_model|>", "<|content_text|>", "<|end_message|>", "<|content_model_end_sampling|>"),
        result_openers=("<|message_tool|>", "<|message_user|>")),
    Format("longcat", json_call("<longcat_tool_call>\n", "\n</longcat_tool_call>"),
        {"<longcat_tool_call>": wrap(_JSON, pair_body(_LONGCAT), end="</longcat_tool_call>")},
        thought_markers={"<longcat_think>": "</longcat_think>"}, result_openers=("<longcat_tool_response>",)),
    Format("step3", tagged_call(STEP3, "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>",
                             "<｜tool_call_end｜><｜tool_calls_end｜>"),
        {opener: wrap(as_body(read_step3), end="<｜tool_call_end｜> <｜tool_calls_end｜> <｜tool_sep｜>")
         for opener in ("<｜tool_calls_begin｜>", "<｜tool_call_begin｜>")}, {"<steptml:invoke": tag_reader(STEP3)}),
    Format("seed-oss", tagged_call(SEED_OSS, "<seed:tool_call>\n"), thought_markers={"<seed:think>": "</seed:think>"},
        control_tokens=("</seed:cot_budget_reflect>", "<seed:eos>"), result_openers=("<seed:bos>",)),
    Format("plamo3", _PLAMO, thought_markers={"<|plamo:begin_think:plamo|>": "<|plamo:end_think:plamo|>"},
        control_tokens=("<|plamo:tag|>",)),
    Format("dots", tagged_call(INVOKE, "<dots_function_call>\n", "\n</dots_function_call>"),
        {"<dots_function_call>":
         wrap(block_body(INVOKE.call_opener, tag_reader(INVOKE)), _JSON, end="</dots_function_call>")}),
    Format("muse",
        tagged_call(MUSE, "<|start|>assistant to=tool<|message|><atem:function_calls>\n", "\n</atem:function_calls>"),
        readers={"<|start|>assistant to=": read_muse}, unmarked_readers=(recipient_reader(read_muse),), is_prose=True,
        thought_markers={"to=self<|message|>": "<|eom|>", "<|start|>assistant to=self<|message|>": "<|eom|>"},
        control_tokens=("to=user<|message|>", "<|start|>assistant to=user<|message|>", "<|eom|>", "<|eot|>"),
        result_openers=("<|start|>tool ",)),
    Format("k2-horizon", json_call("<ifm|tool_calls><ifm|tool_call>", "</ifm|tool_call></ifm|tool_calls>"),
        {"<ifm|tool_calls>": wrap(group_body("<ifm|tool_call>"), end="</ifm|tool_calls>"),
         "<ifm|tool_call>": wrap(_JSON, pair_body(_IFM), end="</ifm|tool_call>")},
        thought_markers={f"<ifm|{word}>": f"</ifm|{word}>" for word in ("think", "think_fast", "think_faster")},
        control_tokens=("<|ifm|im_end|>",)),
)
# fmt: on
FORMATS: dict[str, Format] = {call_format.name: call_format for call_format in _ROWS}
