"""REPLIES: what models of each family really write, form by form, with the control tokens that close their turns.

The same question everywhere: the tide at one harbour or two. Sources: the official chat templates and the tests of
llama.cpp, vLLM and SGLang for each family; the words are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HUSUM: dict[str, Any] = {"harbour": "Husum", "days": 2}
TROMSO: dict[str, Any] = {"harbour": "Tromsø", "days": 1}
BOTH = (HUSUM, TROMSO)
ANSWER = "The tide rises: 2.4 metres."
THOUGHT = "I look at the tide first."


@dataclass(frozen=True)
class Row:
    """One form. `model` is a name by which the family is known; `first` a reply with calls of get_tide, `calls` their
    arguments; `last` the reply to the results. `thought` and `prose` are what is thought and said beside the calls."""

    model: str
    first: str
    last: str
    calls: Sequence[dict[str, Any]] = BOTH
    thought: str = ""
    prose: str = ""


REPLIES: dict[str, Row] = {
    "json": Row(
        "tiny-tools.gguf",
        "I will look.\n"
        '[TOOL_CALL]\n{"name": "get_tide", "arguments": {"harbour": "Husum", "days": 2}}\n[END_TOOL_CALL]\n'
        '[TOOL_CALL]\n{"name": "get_tide", "arguments": {"harbour": "Tromsø", "days": 1}}\n[END_TOOL_CALL]<|im_end|>',
        f"{ANSWER}<|im_end|>",
        prose="I will look.",
    ),
    "xml": Row(
        "my-model.gguf",
        '<tool_call name="get_tide">\n<argument name="harbour">Husum</argument>\n<argument name="days">2</argument>\n'
        '</tool_call>\n<tool_call name="get_tide">\n<argument name="harbour">Tromsø</argument>\n'
        '<argument name="days">1</argument>\n</tool_call></s>',
        f"{ANSWER}</s>",
    ),
    "hermes": Row(
        "Qwen3-1.7B-rk3588-w8a8.rkllm",
        f"<think>\n{THOUGHT}\n</think>\n\n<tool_call>\n"
        '{"name": "get_tide", "arguments": {"harbour": "Husum", "days": 2}}\n</tool_call>\n<tool_call>\n'
        '{"name": "get_tide", "arguments": {"harbour": "Tromsø", "days": 1}}\n</tool_call><|im_end|>',
        f"<think>\n\n</think>\n\n{ANSWER}<|im_end|>",
        thought=THOUGHT,
    ),
    "qwen2": Row(
        "Qwen2-0.5B-Instruct_w8a8_rk3588.rkllm",
        '✿FUNCTION✿: get_tide\n✿ARGS✿: {"harbour": "Husum", "days": 2}\n'
        '✿FUNCTION✿: get_tide\n✿ARGS✿: {"harbour": "Tromsø", "days": 1}\n✿RESULT✿',
        f"{ANSWER}<|im_end|>",
    ),
    "qwen3-coder": Row(
        "Qwen3.5-2B_w8a8_rk3588.rkllm",
        f"<think>\n{THOUGHT}\n</think>\n\n"
        "<tool_call>\n<function=get_tide>\n<parameter=harbour>\nHusum\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
        "</function>\n</tool_call>\n<tool_call>\n<function=get_tide>\n<parameter=harbour>\nTromsø\n</parameter>\n"
        "<parameter=days>\n1\n</parameter>\n</function>\n</tool_call><|im_end|>",
        f"<think>\n\n</think>\n\n{ANSWER}<|im_end|>",
        thought=THOUGHT,
    ),
    "llama3": Row(
        "Llama-3.2-3B-Instruct-f16.gguf",
        '{"name": "get_tide", "parameters": {"harbour": "Husum", "days": "2"}}; '
        '{"name": "get_tide", "parameters": {"harbour": "Tromsø", "days": "1"}}<|eot_id|>',
        f"{ANSWER}<|eot_id|>",
    ),
    "llama3-function": Row(
        "functionary-small-v3.1.Q4_0.gguf",
        '<function=get_tide>{"harbour": "Husum", "days": 2}</function>'
        '<function=get_tide>{"harbour": "Tromsø", "days": 1}</function><|eom_id|>',
        f"{ANSWER}<|eot_id|>",
    ),
    "pythonic": Row(
        "Llama-3.2-1B-Instruct-Q8_0.gguf",
        "[get_tide(harbour='Husum', days=2), get_tide(harbour='Tromsø', days=1)]<|eot_id|>",
        f"{ANSWER}<|eot_id|>",
    ),
    "mistral": Row(
        "Mistral-7B-Instruct-v0.3-Q4_K_M.gguf",
        '[TOOL_CALLS] [{"name": "get_tide", "arguments": {"harbour": "Husum", "days": 2}}, '
        '{"name": "get_tide", "arguments": {"harbour": "Tromsø", "days": 1}}]</s>',
        f" {ANSWER}</s>",
    ),
    "mistral-args": Row(
        "Ministral-3-3B-Reasoning-2512-Q4_K_M.gguf",
        f'[THINK]{THOUGHT}[/THINK][TOOL_CALLS]get_tide[ARGS]{{"harbour": "Husum", "days": 2}}'
        '[TOOL_CALLS]get_tide[ARGS]{"harbour": "Tromsø", "days": 1}</s>',
        f"{ANSWER}</s>",
        thought=THOUGHT,
    ),
    "deepseek": Row(
        "DeepSeek-R1-Distill-Qwen-1.5B_W8A8_RK3588.rkllm",
        f"<think>\n{THOUGHT}\n</think>\n\n"
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_tide\n"
        '```json\n{"harbour": "Husum", "days": 2}\n```<｜tool▁call▁end｜>\n'
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_tide\n"
        '```json\n{"harbour": "Tromsø", "days": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
        f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}<｜end▁of▁sentence｜>",
        thought=THOUGHT,
    ),
    "deepseek-v3.1": Row(
        "DeepSeek-V3.1-Q4_K_M.gguf",
        "I will look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_tide<｜tool▁sep｜>"
        '{"harbour": "Husum", "days": 2}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_tide<｜tool▁sep｜>'
        '{"harbour": "Tromsø", "days": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
        f"{ANSWER}<｜end▁of▁sentence｜>",
        prose="I will look.",
    ),
    "internlm2": Row(
        "internlm2-chat-1_8b_w8a8_rk3588.rkllm",
        'I will look.<|action_start|><|plugin|>\n{"name": "get_tide", "parameters": {"harbour": "Husum", "days": 2}}'
        "<|action_end|>\n<|im_end|>",
        f"{ANSWER}<|im_end|>",
        (HUSUM,),
        prose="I will look.",
    ),
    "minicpm": Row(
        "MiniCPM4-0.5B_w8a8_rk3588.rkllm",
        f"<|thought_start|>\n{THOUGHT}\n<|thought_end|>\n<|tool_call_start|>\n```python\n"
        'get_tide(harbour="Husum", days=2)\nget_tide(harbour="Tromsø", days=1)\n```\n<|tool_call_end|><|im_end|>',
        f"{ANSWER}<|im_end|>",
        thought=THOUGHT,
    ),
    "minicpm5": Row(
        "MiniCPM5-1B-Q8_0.gguf",
        '<function name="get_tide"><param name="harbour">Husum</param><param name="days">2</param></function>\n'
        '<function name="get_tide"><param name="harbour"><![CDATA[Tromsø]]></param><param name="days">1</param>'
        "</function><|im_end|>",
        f"{ANSWER}<|im_end|>",
    ),
    "chatglm3": Row(
        "chatglm3-6b_w8a8_rk3588.rkllm",
        "get_tide\n```python\ntool_call(harbour='Husum', days=2)\n```<|observation|>",
        f"\n {ANSWER}<|user|>",
        (HUSUM,),
    ),
    "glm4": Row(
        "glm-4-9b-chat-Q4_K_M.gguf",
        'get_tide\n{"harbour": "Husum", "days": 2}<|observation|>',
        f"\n{ANSWER}<|user|>",
        (HUSUM,),
    ),
    "glm4.5": Row(
        "GLM-4.5-Air-Q4_K_M.gguf",
        f"\n<think>{THOUGHT}</think>\n"
        "<tool_call>get_tide\n<arg_key>harbour</arg_key>\n<arg_value>Husum</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n"
        "<tool_call>get_tide\n<arg_key>harbour</arg_key>\n<arg_value>Tromsø</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>1</arg_value>\n</tool_call><|observation|>",
        f"\n<think></think>\n{ANSWER}<|user|>",
        thought=THOUGHT,
    ),
    "gemma3": Row(
        "gemma-3-1b-it-Q4_K_M.gguf",
        '```tool_code\nget_tide(harbour="Husum", days=2)\n```<end_of_turn>',
        f"{ANSWER}<end_of_turn>",
        (HUSUM,),
    ),
    "functiongemma": Row(
        "functiongemma-270m-it_w8a8_rk3588.rkllm",
        "<start_function_call>call:get_tide{harbour:<escape>Husum<escape>,days:2}<end_function_call>"
        "<start_function_call>call:get_tide{harbour:<escape>Tromsø<escape>,days:1}<end_function_call>"
        "<start_function_response>",
        f"{ANSWER}<end_of_turn>",
    ),
    "gemma4": Row(
        "gemma-4-E2B-it_w8a8_rk3588.rkllm",
        f"<|channel>thought\n{THOUGHT}\n<channel|>"
        '<|tool_call>call:get_tide{harbour:<|"|>Husum<|"|>,days:2}<tool_call|>'
        '<|tool_call>call:get_tide{harbour:<|"|>Tromsø<|"|>,days:1}<tool_call|><turn|>',
        f"{ANSWER}<turn|>",
        thought=THOUGHT,
    ),
    "phi4": Row(
        "Phi-4-mini-instruct-Q4_K_M.gguf",
        'functools[{"name": "get_tide", "arguments": {"harbour": "Husum", "days": 2}}, '
        '{"name": "get_tide", "arguments": {"harbour": "Tromsø", "days": 1}}]<|end|>',
        f"{ANSWER}<|end|>",
    ),
    "granite": Row(
        "granite-3.3-2b-instruct-Q4_K_M.gguf",
        '<|tool_call|>[{"arguments": {"harbour": "Husum", "days": 2}, "name": "get_tide"}, '
        '{"arguments": {"harbour": "Tromsø", "days": 1}, "name": "get_tide"}]<|end_of_text|>',
        f"{ANSWER}<|end_of_text|>",
    ),
    "command-r": Row(
        "c4ai-command-r7b-12-2024-Q4_K_M.gguf",
        f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_ACTION|>[\n"
        '    {"tool_call_id": "0", "tool_name": "get_tide", "parameters": {"harbour": "Husum", "days": 2}},\n'
        '    {"tool_call_id": "1", "tool_name": "get_tide", "parameters": {"harbour": "Tromsø", "days": 1}}\n'
        "]<|END_ACTION|><|END_OF_TURN_TOKEN|>",
        f"<|START_RESPONSE|>{ANSWER}<|END_RESPONSE|><|END_OF_TURN_TOKEN|>",
        thought=THOUGHT,
    ),
    "lfm2": Row(
        "LFM2-1.2B-Q4_K_M.gguf",
        '<|tool_call_start|>[get_tide(harbour="Husum", days=2), get_tide(harbour="Tromsø", days=1)]'
        "<|tool_call_end|>I look at both.<|im_end|>",
        f"{ANSWER}<|im_end|>",
        prose="I look at both.",
    ),
    "smollm3-code": Row(
        "SmolLM3-3B_w8a8_rk3588.rkllm",
        f"<think>\n{THOUGHT}\n</think>\n<code>\nget_tide(harbour='Husum', days=2)\n</code><|im_end|>",
        f"<think>\n\n</think>\n{ANSWER}<|im_end|>",
        (HUSUM,),
        thought=THOUGHT,
    ),
    "nemotron": Row(
        "Llama-3.1-Nemotron-Nano-4B-v1.1-Q4_K_M.gguf",
        f"<think>\n{THOUGHT}\n</think>\n\n"
        '<TOOLCALL>[{"name": "get_tide", "arguments": {"harbour": "Husum", "days": 2}}, '
        '{"name": "get_tide", "arguments": {"harbour": "Tromsø", "days": 1}}]</TOOLCALL><|eot_id|>',
        f"<think>\n</think>\n\n{ANSWER}<|eot_id|>",
        thought=THOUGHT,
    ),
    "harmony": Row(
        "gpt-oss-20b-mxfp4.gguf",
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>commentary to=functions.get_tide "
        '<|constrain|>json<|message|>{"harbour": "Husum", "days": 2}<|call|>',
        "<|channel|>analysis<|message|>Now I know.<|end|>"
        f"<|start|>assistant<|channel|>final<|message|>{ANSWER}<|return|>",
        (HUSUM,),
        thought=THOUGHT,
    ),
    "xlam": Row(
        "xLAM-2-1b-fc-r-Q8_0.gguf",
        '[{"name": "get_tide", "arguments": {"harbour": "Husum", "days": 2}}, '
        '{"name": "get_tide", "arguments": {"harbour": "Tromsø", "days": 1}}]<|im_end|>',
        f"{ANSWER}<|im_end|>",
    ),
    "functionary": Row(
        "functionary-small-v3.2.Q4_0.gguf",
        'all\nI will look.>>>get_tide\n{"harbour": "Husum", "days": 2}\n'
        '>>>get_tide\n{"harbour": "Tromsø", "days": 1}<|eot_id|>',
        f"all\n{ANSWER}<|eot_id|>",
        prose="I will look.",
    ),
    "dsml": Row(
        "DeepSeek-V3.2-Q4_K_M.gguf",
        f"<think>{THOUGHT}</think>I will look.\n\n<｜DSML｜function_calls>\n"
        '<｜DSML｜invoke name="get_tide">\n<｜DSML｜parameter name="harbour" string="true">Husum</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        '<｜DSML｜invoke name="get_tide">\n<｜DSML｜parameter name="harbour" string="true">Tromsø</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls><｜end▁of▁sentence｜>",
        f"<think>Now I know.</think>{ANSWER}<｜end▁of▁sentence｜>",
        thought=THOUGHT,
        prose="I will look.",
    ),
    "gigachat3.5": Row(
        "GigaChat3.5-Q4_K_M.gguf",
        '<｜GCML｜tool_calls><｜GCML｜invoke name="get_tide">'
        '<｜GCML｜parameter name="harbour" string="true">Husum</｜GCML｜parameter>'
        '<｜GCML｜parameter name="days" string="false">2</｜GCML｜parameter></｜GCML｜invoke>'
        '<｜GCML｜invoke name="get_tide"><｜GCML｜parameter name="harbour" string="true">Tromsø</｜GCML｜parameter>'
        '<｜GCML｜parameter name="days" string="false">1</｜GCML｜parameter></｜GCML｜invoke></｜GCML｜tool_calls></s>',
        f"{ANSWER}<|message_sep|></s>",
    ),
    "gigachat3": Row(
        "GigaChat3-10B-A1.8B-Q4_K_M.gguf",
        "I will look.<|message_sep|>\n\nfunction call<|role_sep|>\n"
        '{"name": "get_tide", "arguments": {"harbour": "Husum", "days": 2}}<|message_sep|></s>',
        f"{ANSWER}<|message_sep|></s>",
        (HUSUM,),
        prose="I will look.",
    ),
    "kimi-k2": Row(
        "Kimi-K2-Instruct-Q2_K.gguf",
        "I will look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0<|tool_call_argument_begin|>"
        '{"harbour": "Husum", "days": 2}<|tool_call_end|>'
        "<|tool_call_begin|>functions.get_tide:1<|tool_call_argument_begin|>"
        '{"harbour": "Tromsø", "days": 1}<|tool_call_end|><|tool_calls_section_end|><|im_end|>',
        f"{ANSWER}<|im_end|>",
        prose="I will look.",
    ),
    "inkling": Row(
        "Inkling-Q2_K.gguf",
        f"<|content_thinking|>{THOUGHT}<|end_message|>"
        "<|message_model|><|content_text|>I will look.<|end_message|>"
        '<|message_model|>get_tide<|content_invoke_tool_json|>{"name": "get_tide", "args": {"harbour": "Husum", '
        '"days": 2}}<|end_message|><|message_model|>get_tide<|content_invoke_tool_json|>{"name": "get_tide", '
        '"args": {"harbour": "Tromsø", "days": 1}}<|end_message|><|content_model_end_sampling|>',
        f"<|content_text|>{ANSWER}<|end_message|><|content_model_end_sampling|>",
        thought=THOUGHT,
        prose="I will look.",
    ),
    "solar-open": Row(
        "Solar-Open-100B-Q2_K.gguf",
        "I will look.<|tool_calls|>"
        '<|tool_call:begin|>a1<|tool_call:name|>get_tide<|tool_call:args|>{"harbour": "Husum", "days": 2}'
        "<|tool_call:end|>"
        '<|tool_call:begin|>a2<|tool_call:name|>get_tide<|tool_call:args|>{"harbour": "Tromsø", "days": 1}'
        "<|tool_call:end|><|calls|><|im_end|>",
        f"{ANSWER}<|im_end|>",
        prose="I will look.",
    ),
    "kimi-k3": Row(
        "Kimi-K3-Q2_K.gguf",
        f"<|open|>think<|sep|>{THOUGHT}<|close|>think<|sep|>"
        "<|open|>response<|sep|>I will look.<|close|>response<|sep|><|open|>tools<|sep|>"
        '<|open|>call tool="get_tide" index="1"<|sep|><|open|>argument key="harbour" type="string"<|sep|>Husum'
        '<|close|>argument<|sep|><|open|>argument key="days" type="number"<|sep|>2<|close|>argument<|sep|>'
        '<|close|>call<|sep|><|open|>call tool="get_tide" index="2"<|sep|>'
        '<|open|>argument key="harbour" type="string"<|sep|>Tromsø<|close|>argument<|sep|>'
        '<|open|>argument key="days" type="number"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>'
        "<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>",
        f"<|open|>response<|sep|>{ANSWER}<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>",
        thought=THOUGHT,
        prose="I will look.",
    ),
    "olmo3": Row(
        "Olmo-3-7B-Instruct-Q4_K_M.gguf",
        '<function_calls>get_tide(harbour="Husum", days=2)\nget_tide(harbour="Tromsø", days=1)</function_calls>'
        "<|im_end|>",
        f"{ANSWER}<|im_end|>",
    ),
    "llama4": Row(
        "Llama-4-Scout-17B-16E-Instruct-Q2_K.gguf",
        '<|python_start|>[get_tide(harbour="Husum", days="2"), get_tide(harbour="Tromsø", days="1")]<|python_end|>'
        "<|eot|>",
        f"{ANSWER}<|eot|>",
    ),
    "apertus": Row(
        "Apertus-8B-Instruct-2509-Q4_K_M.gguf",
        f"<|inner_prefix|>{THOUGHT}<|inner_suffix|>"
        '<|tools_prefix|>[{"get_tide": {"harbour": "Husum", "days": 2}}, '
        '{"get_tide": {"harbour": "Tromsø", "days": 1}}]<|tools_suffix|>',
        f"{ANSWER}<|assistant_end|>",
        thought=THOUGHT,
    ),
    "minimax-m2": Row(
        "MiniMax-M2-Q2_K.gguf",
        f"<think>\n{THOUGHT}\n</think>\n\n"
        '<minimax:tool_call>\n<invoke name="get_tide">\n<parameter name="harbour">Husum</parameter>\n'
        '<parameter name="days">2</parameter>\n</invoke>\n<invoke name="get_tide">\n'
        '<parameter name="harbour">Tromsø</parameter>\n<parameter name="days">1</parameter>\n</invoke>\n'
        "</minimax:tool_call>[e~[",
        f"<think>\nNow I know.\n</think>\n\n{ANSWER}[e~[",
        thought=THOUGHT,
    ),
    "minimax-m3": Row(
        "MiniMax-M3-Q2_K.gguf",
        f"<mm:think>{THOUGHT}</mm:think>"
        ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="get_tide">]<]minimax[>[<harbour>Husum]<]minimax[>['
        "</harbour>]<]minimax[>[<days>2]<]minimax[>[</days>]<]minimax[>[</invoke>\n"
        ']<]minimax[>[<invoke name="get_tide">]<]minimax[>[<harbour>Tromsø]<]minimax[>[</harbour>'
        "]<]minimax[>[<days>1]<]minimax[>[</days>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>[e~[",
        f"</mm:think>{ANSWER}[e~[",
        thought=THOUGHT,
    ),
    "tool-calls": Row(
        "Hunyuan-A13B-Instruct-Q4_K_M.gguf",
        f"<think>\n{THOUGHT}\n</think>\n"
        '<tool_calls>[{"name": "get_tide", "arguments": {"harbour": "Husum", "days": 2}}, '
        '{"name": "get_tide", "arguments": {"harbour": "Tromsø", "days": 1}}]</tool_calls><|eos|>',
        f"<think>\n\n</think>\n{ANSWER}<|eos|>",
        thought=THOUGHT,
    ),
    "hy3": Row(
        "Hy3-Q2_K.gguf",
        f"<think:opensource>{THOUGHT}</think:opensource>"
        "<tool_calls:opensource>\n<tool_call:opensource>get_tide<tool_sep:opensource>\n"
        "<arg_key:opensource>harbour</arg_key:opensource>\n<arg_value:opensource>Husum</arg_value:opensource>\n"
        "<arg_key:opensource>days</arg_key:opensource>\n<arg_value:opensource>2</arg_value:opensource>\n"
        "</tool_call:opensource>\n<tool_call:opensource>get_tide<tool_sep:opensource>\n"
        "<arg_key:opensource>harbour</arg_key:opensource>\n<arg_value:opensource>Tromsø</arg_value:opensource>\n"
        "<arg_key:opensource>days</arg_key:opensource>\n<arg_value:opensource>1</arg_value:opensource>\n"
        "</tool_call:opensource>\n</tool_calls:opensource><｜hy_eos:opensource｜>",
        f"{ANSWER}<｜hy_eos:opensource｜>",
        thought=THOUGHT,
    ),
    "longcat": Row(
        "LongCat-Flash-Chat-Q2_K.gguf",
        f"<longcat_think>\n{THOUGHT}\n</longcat_think>\n"
        '<longcat_tool_call>\n{"name": "get_tide", "arguments": {"harbour": "Husum", "days": 2}}\n'
        "</longcat_tool_call>\n<longcat_tool_call>get_tide\n<longcat_arg_key>harbour</longcat_arg_key>\n"
        "<longcat_arg_value>Tromsø</longcat_arg_value>\n<longcat_arg_key>days</longcat_arg_key>\n"
        "<longcat_arg_value>1</longcat_arg_value>\n</longcat_tool_call></s>",
        f"{ANSWER}</s>",
        thought=THOUGHT,
    ),
    "step3": Row(
        "Step-3-Q2_K.gguf",
        "I will look.<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
        '<steptml:invoke name="get_tide"><steptml:parameter name="harbour">Husum</steptml:parameter>'
        '<steptml:parameter name="days">2</steptml:parameter></steptml:invoke><｜tool_call_end｜>'
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_tide">'
        '<steptml:parameter name="harbour">Tromsø</steptml:parameter>'
        '<steptml:parameter name="days">1</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>',
        f"{ANSWER}<|eot|>",
        prose="I will look.",
    ),
    "seed-oss": Row(
        "Seed-OSS-36B-Instruct-Q4_K_M.gguf",
        f"<seed:think>{THOUGHT}</seed:think>"
        "<seed:tool_call>\n<function=get_tide>\n<parameter=harbour>Husum</parameter>\n<parameter=days>2</parameter>\n"
        "</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=get_tide>\n<parameter=harbour>Tromsø</parameter>\n"
        "<parameter=days>1</parameter>\n</function>\n</seed:tool_call><seed:eos>",
        f"{ANSWER}<seed:eos>",
        thought=THOUGHT,
    ),
    "plamo3": Row(
        "PLaMo-3-8B-Q4_K_M.gguf",
        f"<|plamo:begin_think:plamo|>{THOUGHT}<|plamo:end_think:plamo|><|plamo:begin_tool_requests:plamo|>"
        "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>get_tide<|plamo:end_tool_name:plamo|>"
        '<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{"harbour": "Husum", "days": 2}'
        "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"
        "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>get_tide<|plamo:end_tool_name:plamo|>"
        '<|plamo:begin_tool_arguments:plamo|>{"harbour": "Tromsø", "days": 1}<|plamo:end_tool_arguments:plamo|>'
        "<|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|><|plamo:tag|>",
        f"{ANSWER}<|plamo:tag|>",
        thought=THOUGHT,
    ),
    "dots": Row(
        "dots.llm1.inst-Q4_K_M.gguf",
        '<dots_function_call>\n<invoke name="get_tide">\n<parameter name="harbour">Husum</parameter>\n'
        '<parameter name="days">2</parameter>\n</invoke>\n</dots_function_call>\n'
        '<dots_function_call>{"name": "get_tide", "arguments": {"harbour": "Tromsø", "days": 1}}</dots_function_call>',
        f"{ANSWER}<|endoftext|>",
    ),
    "muse": Row(
        "Muse-Glimmer-Q4_K_M.gguf",
        f" to=self<|message|>{THOUGHT}<|eom|><|start|>assistant to=get_tide<|message|><atem:function_calls>\n"
        '<atem:invoke name="get_tide">\n<atem:parameter name="harbour">Husum</atem:parameter>\n'
        '<atem:parameter name="days">2</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|>'
        "<|start|>assistant to=get_tide<|message|><atem:function_calls>\n"
        '<atem:invoke name="get_tide">\n<atem:parameter name="harbour">Tromsø</atem:parameter>\n'
        '<atem:parameter name="days">1</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eot|>',
        f" to=user<|message|>{ANSWER}<|eot|>",
        thought=THOUGHT,
    ),
    "k2-horizon": Row(
        "K2-Horizon-Q4_K_M.gguf",
        f"<ifm|think>{THOUGHT}</ifm|think>"
        '<ifm|tool_calls><ifm|tool_call>{"name": "get_tide", "arguments": {"harbour": "Husum", "days": 2}}'
        "</ifm|tool_call>\n<ifm|tool_call>get_tide<ifm|arg_key>harbour</ifm|arg_key><ifm|arg_type>string</ifm|arg_type>"
        "<ifm|arg_value>Tromsø</ifm|arg_value><ifm|arg_key>days</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type>"
        "<ifm|arg_value>1</ifm|arg_value></ifm|tool_call></ifm|tool_calls><|ifm|im_end|>",
        f"{ANSWER}<|ifm|im_end|>",
        thought=THOUGHT,
    ),
}

KINDS = (
    "json",  # an object between marks
    "qwen2",  # the name before the object
    "llama3",  # without a mark
    "functionary",  # readers of its own
    "harmony",  # channels
    "inkling",  # the name in a token
    "pythonic",  # a list of Python calls without a mark
    "smollm3-code",  # in a code block behind prose
    "functiongemma",  # quotes of its own
    "xml",  # tags with attributes
    "qwen3-coder",  # tags that end a thought
    "glm4.5",  # pairs of tags
    "hy3",  # the same between marks that no other form has
    "dsml",  # tags of tokens
    "kimi-k3",  # opened and closed tokens
    "minimax-m3",  # nested tags
    "muse",  # tags to a recipient
    "step3",  # a thought that the prompt opens
)
"""A format of each kind. That every row is read wherever its reply is split is tested in test_cases.py."""
