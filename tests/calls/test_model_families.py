"""A model's family, by the names that models are published under and by what their chat templates hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.model_families import (
    FAMILIES,
    TEMPLATE_MARKERS,
    UNKNOWN,
    find_family,
    find_family_by_name,
    resolve_formats,
)
from rkllm_chat.prompt.pieces import neutralize_control_tokens

# Form that is asked for, family: names as they are published, one for each way to write them.
PUBLISHED = """
hermes qwen2.5: Qwen2.5-0.5B-Instruct-w8a8-rk3588.rkllm | Qwen2.5 1.5B Instruct | Qwen2_5-7B-Instruct-f16.gguf |
    Dolphin3.0-Qwen2.5-3B-Q4_K_M.gguf
hermes qwen3: Qwen3-1.7B-rk3588-w8a8.rkllm | Qwen/Qwen3-Next-80B-A3B-Instruct | qwen3:8b | qwen3moe
hermes qwen3-thinking: Qwen3-4B-Thinking-2507-Q4_K_M.gguf | QwQ-32B-Q4_K_M.gguf
hermes hermes: Hermes-2-Pro-Mistral-7B.Q4_0.gguf | Hermes-3-Llama-3.2-3B.Q4_K_M.gguf |
    Llama-3-Groq-8B-Tool-Use-Q4_K_M.gguf | Arch-Function-3B.gguf
hermes smollm3: SmolLM3-3B_w8a8_rk3588.rkllm
hermes granite4: granite-4.0-h-tiny-Q4_K_M.gguf | granitehybrid
qwen3-coder qwen3-coder: Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf
qwen3-coder qwen3.5: Qwen3.5-0.8B-rk3576-w4a16.rkllm | Qwen3_5-2B-Q8_0.gguf | Qwen3.6-27B-Q4_K_M.gguf | qwen35moe
hermes chatml-tools: Jan-v1-4B-Q4_K_M.gguf | Youtu-LLM-2B-Q8_0.gguf | Nanbeige4-3B-Thinking.gguf |
    Falcon-H1-0.5B-Instruct | MiMo-VL-7B-RL-Q4_K_M.gguf
hermes hermes: DeepHermes-3-Llama-3-3B-Preview-q4.gguf
json solar-open: upstage/Solar-Open-100B
qwen3-coder nemotron-3: Nemotron-3-Nano-30B-A3B-Q4_K_M.gguf | Nemotron-3.5-Nano-Q4_K_M.gguf
functiongemma functiongemma: functiongemma-270m-it-BF16.gguf
minicpm5 minicpm5: MiniCPM5-1B-Q8_0.gguf
glm4.5 ling3: Ling-3.0-flash-Q4_K_M.gguf | poolside-laguna-Q4_K_M.gguf
hermes ling: Ling-mini-2.0-Q4_K_M.gguf | Ring-flash-2.0
qwen3-coder step3.5: Step-3.5-Flash-Q2_K.gguf | stepfun-ai/Step-3.7
hermes exaone4: EXAONE-4.0-1.2B-Q8_0.gguf
hermes ernie4.5: ERNIE-4.5-0.3B-Q8_0.gguf | ERNIE-4.5-21B-A3B-Thinking-Q4_K_M.gguf
hermes trinity: Trinity-Nano-Q4_K_M.gguf
glm4.5 glm4.5: GLM-4.5-Air-Q4_K_M.gguf | GLM-4.7-Flash-Q4_K_M.gguf | glm4moe
nemotron nemotron-2: NVIDIA-Nemotron-Nano-9B-v2-Q4_K_M.gguf
nemotron nemotron: nvidia_Llama-3.1-Nemotron-Nano-8B-v1-Q4_K_M.gguf
functionary functionary: functionary-small-v3.2.Q4_0.gguf
llama3-function functionary-3.1: functionary-small-v3.1.Q4_0.gguf
json deepseek-r1: DeepSeek-R1-Distill-Qwen-1.5B_W8A8_RK3588.rkllm | DeepSeek-R1-0528-Qwen3-8B-Q4_K_M.gguf |
    deepseek-r1:1.5b
json deepseek-v3.1: DeepSeek-V3.1-Q4_K_M.gguf | deepseek-ai/DeepSeek-V3.1-Terminus
json deepseek-v3.2: deepseek-ai/DeepSeek-V3.2 | DeepSeek-V4-Flash-Q2_K.gguf
json kimi-k2: Kimi-K2-Instruct-Q2_K.gguf | moonshotai/Kimi-K2-Thinking
json kimi-k3: moonshotai/Kimi-K3
json gigachat3.5: GigaChat3.5-Q4_K_M.gguf
json gigachat3: GigaChat3-10B-A1.8B-Q4_K_M.gguf | GigaChat3.1-10B-A1.8B
json apertus: Apertus-8B-Instruct-2509-Q4_K_M.gguf
json minimax-m3: MiniMaxAI/MiniMax-M3
json minimax-m2: MiniMaxAI/MiniMax-M2 | MiniMax-M1-40k
json hy3: tencent/Hy3 | Hy4-Q2_K.gguf
json tool-calls: Hunyuan-A13B-Instruct-Q4_K_M.gguf | AI21-Jamba-Mini-1.7-Q4_K_M.gguf
json apriel: Apriel-1.6-15b-Thinker-Q4_K_M.gguf
json inkling: Inkling-Q2_K.gguf | thinkingmachines/Inkling
json longcat: LongCat-Flash-Chat-Q2_K.gguf
json step3: stepfun-ai/step3
json seed-oss: Seed-OSS-36B-Instruct-Q4_K_M.gguf
json plamo3: plamo-3-nict-8b-base-Q4_K_M.gguf
json dots: dots.llm1.inst-Q4_K_M.gguf
json muse: Muse-Glimmer-Q4_K_M.gguf
json k2-horizon: K2-Horizon-Q4_K_M.gguf
json deepseek: DeepSeek-V3-0324-Q2_K.gguf | deepseek2
json xlam: Llama-xLAM-2-8b-fc-r-Q4_K_M.gguf | Hammer2.1-1.5b.Q4_K_M.gguf
json toolace: ToolACE-2-Llama-3.1-8B.Q4_K_M.gguf | watt-tool-8B.Q4_K_M.gguf
json firefunction: llama-3-firefunction-v2.gguf
json plain: TinyLlama-1.1B-Chat-v1.0_w8a8_RK3588.rkllm | Phi-3-mini-4k-instruct-w8a8-rk3588.rkllm |
    phi-2_w8a8_rk3588.rkllm | Falcon3-3B-Instruct-q4_k_m.gguf | SmolVLM-256M-Instruct_w8a8_rk3588.rkllm |
    OpenHermes-2.5-Mistral-7B-Q4_K_M.gguf | MiniCPM-V-2_6_w8a8_rk3588.rkllm | MiniCPM-Llama3-V-2_5-Q4_K_M.gguf |
    MiniCPM-2B-sft-bf16.gguf
json llama3: Meta Llama 3.1 8B Instruct | llama3.2:3b | meta-llama/Llama-3.3-70B-Instruct
json llama4: Llama-4-Scout-17B-16E-Instruct-Q2_K.gguf
json olmo3: Olmo-3-7B-Instruct-Q4_K_M.gguf
json mistral: Mistral-7B-Instruct-v0.3-Q4_K_M.gguf | Ministral-8B-Instruct-2410-Q4_K_M.gguf
json mistral-3: Mistral-Small-3.2-24B-Instruct-2506-Q4_K_M.gguf | Ministral-3-3B-Instruct-2512-Q4_K_M.gguf |
    Devstral-Small-2507-Q4_K_M.gguf
json internlm2: internlm2_5-1_8b-chat-q4_k_m.gguf
json minicpm: MiniCPM4-0.5B_w8a8_rk3588.rkllm | minicpm3
json gemma4: gemma-4-31B-it-Q4_K_M.gguf
json gemma: gemma-2-2b-it_w8a8_rk3588.rkllm | gemma-3n-E2B-it-Q4_K_M.gguf | medgemma-4b-it-Q4_K_M.gguf
json phi4: microsoft_Phi-4-mini-instruct-Q6_K_L.gguf | Phi 4 Mini Instruct
json granite: granite-3.3-2b-instruct-Q4_K_M.gguf | granite3.1-dense:2b
json command-r: c4ai-command-r7b-12-2024-Q4_K_M.gguf | CohereLabs/command-a-03-2025
json lfm2: LFM2.5-1.2B-Instruct-Q8_0.gguf
json gpt-oss: gpt-oss:20b
json chatglm3: ChatGLM3-6B-rk3576-w4a16.rkllm
json tiny-tools: tiny-tools.gguf
json glm4: glm-4-9b-chat-Q4_K_M.gguf | glm-edge-1.5b-chat-Q4_K_M.gguf
json smollm2: SmolLM2-1.7B-Instruct-Q4_K_M.gguf
json qwen2: qwen2-vl-2b-instruct_w8a8_rk3588.rkllm | Qwen1.5-1.8B-Chat-Q4_K_M.gguf
"""
WANTED: dict[str, dict[str, list[str]]] = {}
for line in PUBLISHED.replace(" |\n", " |").strip().splitlines():
    head, _, published = line.partition(": ")
    WANTED.setdefault(head.split()[0], {})[head.split()[1]] = [name.strip() for name in published.split(" |")]
ASKED = [(family, asks) for asks, families in WANTED.items() for family in families]

# What stands in the templates of these families, with the names of models that carry such a template.
TOOL_CALL = '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
PARAMETER = "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>"
TAUGHT = {
    TOOL_CALL: "hermes",
    PARAMETER: "qwen3-coder",
    "<function=example_function_name>{{example_name: value}}</function>": "functionary-3.1",
    "{{ '>>>all\\n' + message['content'] }}": "functionary",
    "<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>": "glm4.5",
    "'<TOOLCALL>[' -}}": "nemotron",
    '<function name="f"><param name="x">': "minicpm5",
    "'<start_function_call>call:' + name": "functiongemma",
    "'<|tool_call>call:' + name": "gemma4",
    "{{- '[TOOL_CALLS]' + name + '[ARGS]' + arguments }}": "mistral-3",
    "{{- '[TOOL_CALLS] [' }}": "mistral",
    "'<｜tool▁calls▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + name + '\\n' + '```json'": "deepseek",
    "'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + name + '<｜tool▁sep｜>' + arguments": "deepseek-v3.1",
    "'<|action_start|><|plugin|>'": "internlm2",
    "'<|tool_call_start|>\\n```python\\n'": "minicpm",
    '"<|tool_call_start|>[" + calls + "]<|tool_call_end|>"': "lfm2",
    "'<|tool|>' + tools + '<|/tool|>'": "phi4",
    '<|tool_call|>{"name": "foo"}<|/tool_call|>': "phi4",
    "' functools[' + calls": "firefunction",
    "'<|tool_call|>[' + calls": "granite",
    "<|START_ACTION|>[": "command-r",
    "'<|channel|>commentary to=functions.' + name + ' <|constrain|>json<|message|>'": "gpt-oss",
    "✿FUNCTION✿: ": "qwen2",
    "{%- set dsml_token = '｜DSML｜' %}{{- '<' + dsml_token + 'function_calls>' }}": "deepseek-v3.2",
    "{%- set token = '｜GCML｜' %}<|role_sep|> <|message_sep|>": "gigachat3.5",
    "function call<|role_sep|>\n{{ call }}<|message_sep|>\n\n": "gigachat3",
    "{%- set ns_token = ']<]minimax[>[' %}<tool_call> <invoke name=": "minimax-m3",
    '<minimax:tool_call>\n<invoke name="': "minimax-m2",
    "<seed:tool_call>\n<function=f>\n<parameter=x>": "seed-oss",
    "<longcat_tool_call>\n": "longcat",
    "{{ '<|content_invoke_tool_json|>' + call }}": "inkling",
    "<|tool_call:begin|>{{ id }}<|tool_call:name|>": "solar-open",
    "<ifm|tool_calls><ifm|tool_call>": "k2-horizon",
    '<atem:invoke name="': "muse",
    "<|plamo:begin_tool_requests:plamo|>": "plamo3",
    '<steptml:invoke name="': "step3",
    "<dots_function_call>": "dots",
    "{{ '<|open|>' + tag + '<|sep|>' }} {{ '<|close|>' + tag }}": "kimi-k3",
    "<|tool_calls_section_begin|><|tool_call_begin|>": "kimi-k2",
    "<|tools_prefix|>[": "apertus",
    "<｜hy_Assistant:opensource｜> '<tool_calls{}>'.format(suffix)": "hy3",
    "within <tool_call></tool_call> tags: <tool_calls>[": "apriel",
    "<tool_calls>[": "tool-calls",
    "<function_calls>": "olmo3",
    "<|header_start|>assistant <|python_start|>": "llama4",
    "'<|python_tag|>' + name": "llama3",
    '\'{"name": function name, "parameters": dictionary of argument name and its value}.\'': "llama3",
}


@pytest.mark.parametrize(("family", "asks"), ASKED, ids=[family for family, _ in ASKED])
def test_a_family_is_found_by_the_names_that_its_models_are_published_under(family: str, asks: str) -> None:
    assert FAMILIES[family].preferred_format == asks
    for name in WANTED[asks][family]:
        assert find_family([name]) == FAMILIES[family], name


def test_every_family_has_a_name_in_the_table() -> None:
    assert {family for family, _ in ASKED} == set(FAMILIES)


def test_other_names_are_of_no_family() -> None:
    for name in ("model.gguf", "llama", "Vikhr-Nemo.gguf", "replies.json", "gpt2", "", "my-llamas-3.gguf"):
        assert find_family([name]) == UNKNOWN, name
    assert (UNKNOWN.preferred_format, UNKNOWN.accepted_formats) == ("json", ())


def test_the_first_name_that_is_known_decides() -> None:
    assert find_family(["model-q4_k_m", "Qwen3 1.7B", "Qwen3", "qwen3"]).name == "qwen3"
    assert find_family(["phi4-mini", "Phi 3 Mini", "phi3"]).name == "phi4"
    assert find_family(["model", "", "", "llama"]) == UNKNOWN


@pytest.mark.parametrize(("template", "family"), TAUGHT.items(), ids=TAUGHT.values())
def test_a_model_without_a_known_name_is_found_by_its_template(template: str, family: str) -> None:
    around = "{%- for message in messages %}{{ message['content'] }}"
    found = find_family(["model", "llama"], around + template + around)
    assert (found.name, found.preferred_format) == (family, FAMILIES[family].preferred_format)
    assert set(FAMILIES[family].accepted_formats) <= set(found.accepted_formats)


def test_every_marker_has_a_template_in_the_table() -> None:
    assert set(TAUGHT.values()) == {family for family, _ in TEMPLATE_MARKERS}


@pytest.mark.parametrize(
    ("name", "template", "family", "asks"),
    [
        ("Llama-3.2-3B-Instruct-tuned-Q8_0", TOOL_CALL, "hermes", "hermes"),  # tuned with another form
        ("Falcon3-1B-Instruct-Q4_K_M", TOOL_CALL, "hermes", "hermes"),
        ("Qwen3-4B-code-tuned", PARAMETER, "qwen3-coder", "qwen3-coder"),
        ("Qwen3-1.7B-Q8_0", TOOL_CALL, "qwen3", "hermes"),  # as its name says
        ("Llama-3.2-1B-Instruct", "<|python_tag|>", "llama3", "json"),
        ("DeepSeek-R1-Distill-Qwen-1.5B", "<｜tool▁calls▁begin｜> ```json", "deepseek-r1", "json"),
        ("Qwen2.5-1.5B-Instruct", "{{ message['content'] }}", "qwen2.5", "hermes"),  # a template without tools
    ],
)
def test_a_template_outweighs_the_name_of_another_family(name: str, template: str, family: str, asks: str) -> None:
    found = find_family([name], template)
    assert (found.name, found.preferred_format) == (family, asks)


def test_where_name_and_template_disagree_the_forms_of_both_are_accepted() -> None:
    found = find_family(["Llama-3.2-3B-tuned"], TOOL_CALL)
    named = FAMILIES["llama3"]
    assert found == replace(FAMILIES["hermes"], accepted_formats=("hermes", *named.accepted_formats))
    assert find_family(["tuned"], PARAMETER).accepted_formats == ("qwen3-coder", "hermes")


def test_these_families_have_a_template_that_opens_a_thought() -> None:
    assert {family.name for family in FAMILIES.values() if family.starts_in_thought} == {
        "qwen3.5", "qwen3-thinking", "deepseek-r1", "deepseek-v3.2", "nemotron-3", "nemotron-2", "ling3", "step3",
        "step3.5", "exaone4", "kimi-k3", "minimax-m2", "k2-horizon"
    }  # fmt: skip


def test_every_form_of_a_family_exists_and_it_accepts_the_one_it_is_asked_for() -> None:
    assert {row for family in FAMILIES.values() for row in (family.preferred_format, *family.accepted_formats)} | {
        "xml"
    } == set(FORMATS)
    assert [
        family.name for family in FAMILIES.values() if family.preferred_format not in (*family.accepted_formats, "json")
    ] == []


def test_control_tokens_are_broken_in_no_form_that_a_model_is_asked_for() -> None:
    for asks in WANTED:
        written = FORMATS[asks].render_call("get_tide", {"harbour": "Husum", "days": 2})
        assert neutralize_control_tokens(written) == written


def test_the_forms_that_are_read_begin_with_the_one_that_is_asked_for_and_have_json_and_xml() -> None:
    assert [call_format.name for call_format in resolve_formats("xml", ())][:2] == ["xml", "json"]
    understood = [call_format.name for call_format in resolve_formats("json", ("hermes", "json"))]
    assert understood[:2] == ["json", "xml"] and len(set(understood)) == len(understood)
    assert resolve_formats("nonsense", ("rubbish",)) == resolve_formats("json", ())


def test_of_a_path_only_the_last_part_tells_the_family() -> None:
    assert find_family_by_name("/home/anna/qwen3/model.gguf") is None
    assert find_family_by_name("NousResearch/Meta-Llama-3.1-8B-Instruct") == FAMILIES["llama3"]
