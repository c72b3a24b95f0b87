"""A model's family, by the names that models are published under and by what their chat templates hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rkllm_chat.families import FAMILIES, MARKERS, UNKNOWN, choose_forms, find_by_name, find_family
from rkllm_chat.formats import FORMATS
from rkllm_chat.templates import harmless

# Form that is asked for -> family -> names as they are published: files of both kinds, metadata, names of services.
WANTED: dict[str, dict[str, tuple[str, ...]]] = {
    "hermes": {
        "qwen2.5": (
            "Qwen2.5-1.5B-Instruct-Q4_K_M.gguf",
            "Qwen2.5-0.5B-Instruct-w8a8-rk3588.rkllm",
            "qwen2.5-3b-instruct_w4a16_g128_rk3576.rkllm",
            "Qwen2.5-Coder-7B-Instruct-Q5_K_M.gguf",
            "Qwen2.5-VL-3B-Instruct_w8a8_rk3588.rkllm",
            "Qwen2.5 1.5B Instruct",
            "Qwen2_5-7B-Instruct-f16.gguf",
            "qwen2.5:7b-instruct-q8_0",
            "Dolphin3.0-Qwen2.5-3B-Q4_K_M.gguf",
        ),
        "qwen3": (
            "Qwen3-1.7B-rk3588-w8a8.rkllm",
            "Qwen3-0.6B-Q8_0.gguf",
            "Qwen3-8B-Q4_K_M.gguf",
            "Qwen3-4B-Instruct-2507-UD-Q4_K_XL.gguf",
            "qwen3-vl-2b-instruct_w8a8_rk3588.rkllm",
            "Qwen3-30B-A3B-Q4_K_M.gguf",
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "qwen3:8b",
            "Qwen3 1.7B",
            "qwen3moe",
        ),
        "qwen3-thinking": ("Qwen3-4B-Thinking-2507-Q4_K_M.gguf", "QwQ-32B-Q4_K_M.gguf"),
        "hermes": (
            "Hermes-2-Pro-Llama-3-8B-Q4_K_M.gguf",
            "Hermes-2-Pro-Mistral-7B.Q4_0.gguf",
            "Hermes-3-Llama-3.2-3B.Q4_K_M.gguf",
            "Hermes-4-14B-Q4_K_M.gguf",
            "Llama-3-Groq-8B-Tool-Use-Q4_K_M.gguf",
            "Arch-Function-3B.gguf",
        ),
        "smollm3": ("SmolLM3-3B-Q4_K_M.gguf", "SmolLM3-3B_w8a8_rk3588.rkllm", "smollm3"),
        "granite4": ("granite-4.0-h-tiny-Q4_K_M.gguf", "granite-4.0-micro-Q8_0.gguf", "granitehybrid"),
    },
    "qwen3-coder": {
        "qwen3-coder": ("Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf", "qwen3-coder:30b", "Qwen3-Coder-Next-Q4_K_M.gguf"),
        "qwen3.5": (
            "Qwen3.5-2B_w8a8_rk3588.rkllm",
            "Qwen3.5-0.8B-rk3576-w4a16.rkllm",
            "Qwen3.5-4B-Q4_K_M.gguf",
            "Qwen3_5-2B-Q8_0.gguf",
            "Qwen3.6-27B-Q4_K_M.gguf",
            "qwen35moe",
        ),
        "nemotron-3": ("Nemotron-3-Nano-30B-A3B-Q4_K_M.gguf",),
    },
    "functiongemma": {"functiongemma": ("functiongemma-270m-it-BF16.gguf", "functiongemma-270m-it_w8a8_rk3588.rkllm")},
    "minicpm5": {"minicpm5": ("MiniCPM5-1B-Q8_0.gguf",)},
    "glm4.5": {"glm4.5": ("GLM-4.5-Air-Q4_K_M.gguf", "GLM-4.7-Flash-Q4_K_M.gguf", "glm4moe")},
    "nemotron": {
        "nemotron-2": ("NVIDIA-Nemotron-Nano-9B-v2-Q4_K_M.gguf",),
        "nemotron": ("nvidia_Llama-3.1-Nemotron-Nano-8B-v1-Q4_K_M.gguf",),
    },
    "functionary": {"functionary": ("functionary-small-v3.2.Q4_0.gguf",)},
    "llama3-function": {"functionary-3.1": ("functionary-small-v3.1.Q4_0.gguf",)},
    "json": {
        "deepseek-r1": (
            "DeepSeek-R1-Distill-Qwen-1.5B_W8A8_RK3588.rkllm",
            "DeepSeek-R1-Distill-Qwen-7B-Q4_K_M.gguf",
            "DeepSeek-R1-Distill-Llama-8B_W8A8_RK3588.rkllm",
            "DeepSeek-R1-0528-Qwen3-8B-Q4_K_M.gguf",
            "deepseek-r1:1.5b",
            "DeepSeek R1 Distill Qwen 1.5B",
        ),
        "deepseek-v3.1": ("DeepSeek-V3.1-Q4_K_M.gguf", "deepseek-ai/DeepSeek-V3.2"),
        "deepseek": ("DeepSeek-V3-0324-Q2_K.gguf", "deepseek2"),
        "xlam": ("Llama-xLAM-2-8b-fc-r-Q4_K_M.gguf", "xLAM-2-1b-fc-r-Q8_0.gguf", "Hammer2.1-1.5b.Q4_K_M.gguf"),
        "toolace": ("ToolACE-2-Llama-3.1-8B.Q4_K_M.gguf", "watt-tool-8B.Q4_K_M.gguf"),
        "firefunction": ("llama-3-firefunction-v2.gguf",),
        "plain": (
            "TinyLlama-1.1B-Chat-v1.0_w8a8_RK3588.rkllm",
            "tinyllama-1.1b-chat-v1.0.Q4_K_M.gguf",
            "Phi-3-mini-4k-instruct-w8a8-rk3588.rkllm",
            "Phi-3.5-mini-instruct-Q4_K_M.gguf",
            "phi-2_w8a8_rk3588.rkllm",
            "Falcon3-3B-Instruct-q4_k_m.gguf",
            "TeleChat2-3B_w8a8_rk3588.rkllm",
            "InternVL3-1B_w8a8_rk3588.rkllm",
            "internvl2-1b-w8a8-rk3588.rkllm",
            "SmolVLM-256M-Instruct_w8a8_rk3588.rkllm",
            "Janus-Pro-1B_w8a8_rk3588.rkllm",
            "RWKV7-1.5B_w8a8_rk3588.rkllm",
            "OpenHermes-2.5-Mistral-7B-Q4_K_M.gguf",
            "MiniCPM-V-2_6_w8a8_rk3588.rkllm",
            "MiniCPM-Llama3-V-2_5-Q4_K_M.gguf",
            "MiniCPM-2B-sft-bf16.gguf",
        ),
        "llama3": (
            "Llama-3.2-3B-Instruct-f16.gguf",
            "Llama-3.2-1B-Instruct-rk3588-w8a8-opt-0-hybrid-ratio-0.0.rkllm",
            "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
            "Meta Llama 3.1 8B Instruct",
            "llama3.2:3b",
            "meta-llama/Llama-3.3-70B-Instruct",
        ),
        "llama4": ("Llama-4-Scout-17B-16E-Instruct-Q2_K.gguf",),
        "olmo3": ("Olmo-3-7B-Instruct-Q4_K_M.gguf",),
        "mistral": (
            "Mistral-7B-Instruct-v0.3-Q4_K_M.gguf",
            "Mistral-Nemo-Instruct-2407-Q4_K_M.gguf",
            "Ministral-8B-Instruct-2410-Q4_K_M.gguf",
        ),
        "mistral-3": (
            "Mistral-Small-3.2-24B-Instruct-2506-Q4_K_M.gguf",
            "Ministral-3-3B-Instruct-2512-Q4_K_M.gguf",
            "Devstral-Small-2507-Q4_K_M.gguf",
        ),
        "internlm2": ("internlm2-chat-1_8b_w8a8_rk3588.rkllm", "internlm2_5-1_8b-chat-q4_k_m.gguf"),
        "minicpm": ("MiniCPM4-0.5B_w8a8_rk3588.rkllm", "MiniCPM3-4B-Q4_K_M.gguf", "minicpm3"),
        "gemma4": ("gemma-4-E2B-it_w8a8_rk3588.rkllm", "gemma-4-31B-it-Q4_K_M.gguf"),
        "gemma": (
            "gemma-3-1b-it-Q4_K_M.gguf",
            "gemma-2-2b-it_w8a8_rk3588.rkllm",
            "gemma-3n-E2B-it-Q4_K_M.gguf",
            "medgemma-4b-it-Q4_K_M.gguf",
            "gemma3n",
        ),
        "phi4": ("Phi-4-mini-instruct-Q4_K_M.gguf", "microsoft_Phi-4-mini-instruct-Q6_K_L.gguf", "Phi 4 Mini Instruct"),
        "granite": ("granite-3.3-2b-instruct-Q4_K_M.gguf", "granite3.1-dense:2b"),
        "command-r": ("c4ai-command-r7b-12-2024-Q4_K_M.gguf",),
        "lfm2": ("LFM2-1.2B-Q4_K_M.gguf", "LFM2.5-1.2B-Instruct-Q8_0.gguf"),
        "gpt-oss": ("gpt-oss-20b-mxfp4.gguf", "gpt-oss:20b"),
        "chatglm3": ("chatglm3-6b_w8a8_rk3588.rkllm", "ChatGLM3-6B-rk3576-w4a16.rkllm", "chatglm"),
        "tiny-tools": ("tiny-tools.gguf",),
        "glm4": ("glm-4-9b-chat-Q4_K_M.gguf", "glm-edge-1.5b-chat-Q4_K_M.gguf"),
        "smollm2": ("SmolLM2-1.7B-Instruct-Q4_K_M.gguf",),
        "qwen2": (
            "Qwen2-0.5B-Instruct_w8a8_rk3588.rkllm",
            "qwen2-vl-2b-instruct_w8a8_rk3588.rkllm",
            "Qwen1.5-1.8B-Chat-Q4_K_M.gguf",
            "qwen2",
        ),
    },
}
NAMES = [
    (name, family, asks) for asks, families in WANTED.items() for family, names in families.items() for name in names
]
NOBODY = ("model.gguf", "llama", "Vikhr-Nemo.gguf", "replies.json", "gpt2", "", "my-llamas-3.gguf")

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
    "'<|python_tag|>' + name": "llama3",
    '\'{"name": function name, "parameters": dictionary of argument name and its value}.\'': "llama3",
}


@pytest.mark.parametrize(("name", "family", "asks"), NAMES, ids=[name for name, _, _ in NAMES])
def test_a_model_is_known_by_the_name_that_it_is_published_under(name: str, family: str, asks: str) -> None:
    found = find_family([name])
    assert (found.name, found.asks) == (family, asks)
    assert found == FAMILIES[family]


@pytest.mark.parametrize("name", NOBODY)
def test_a_name_that_tells_nothing_is_of_no_family(name: str) -> None:
    assert find_family([name]) == UNKNOWN
    assert (UNKNOWN.asks, UNKNOWN.accepts) == ("json", ())


def test_every_family_is_among_the_names() -> None:
    assert {family for _, family, _ in NAMES} == set(FAMILIES)


def test_the_name_that_tells_most_wins() -> None:
    assert find_family(["model-q4_k_m", "Qwen3 1.7B", "Qwen3", "qwen3"]).name == "qwen3"
    assert find_family(["phi4-mini", "Phi 3 Mini", "phi3"]).name == "phi4"
    assert find_family(["model", "", "", "llama"]) == UNKNOWN


@pytest.mark.parametrize(("template", "family"), TAUGHT.items(), ids=TAUGHT.values())
def test_a_model_without_a_telling_name_is_known_by_what_its_template_teaches(template: str, family: str) -> None:
    around = "{%- for message in messages %}{{ message['content'] }}"
    found = find_family(["model", "llama"], around + template + around)
    assert (found.name, found.asks) == (family, FAMILIES[family].asks)
    assert set(FAMILIES[family].accepts) <= set(found.accepts)


def test_every_marker_is_among_the_templates() -> None:
    assert set(TAUGHT.values()) == {family for family, _ in MARKERS}


@pytest.mark.parametrize(
    ("name", "template", "family", "asks"),
    [
        ("Llama-3.2-3B-Instruct-tuned-Q8_0", TOOL_CALL, "hermes", "hermes"),  # tuned with another form
        ("DeepSeek-R1-Distill-Qwen-1.5B-tools", TOOL_CALL, "hermes", "hermes"),
        ("TinyLlama-1.1B-tools", TOOL_CALL, "hermes", "hermes"),
        ("Falcon-H1-1.5B-Instruct-Q4_K_M", TOOL_CALL, "hermes", "hermes"),
        ("Qwen3-4B-code-tuned", PARAMETER, "qwen3-coder", "qwen3-coder"),
        ("granite-3.3-2b-instruct", TOOL_CALL, "hermes", "hermes"),
        ("Qwen3-1.7B-Q8_0", TOOL_CALL, "qwen3", "hermes"),  # as its name says
        ("SmolLM3-3B-Q4_K_M", TOOL_CALL, "smollm3", "hermes"),
        ("Qwen3.5-2B-Q8_0", PARAMETER, "qwen3.5", "qwen3-coder"),
        ("Llama-3.2-1B-Instruct", "<|python_tag|>", "llama3", "json"),
        ("DeepSeek-R1-Distill-Qwen-1.5B", "<｜tool▁calls▁begin｜> ```json", "deepseek-r1", "json"),
        ("Qwen2.5-1.5B-Instruct", "{{ message['content'] }}", "qwen2.5", "hermes"),  # a template without tools
    ],
)
def test_what_a_template_teaches_is_stronger_than_a_name_of_another_family(
    name: str, template: str, family: str, asks: str
) -> None:
    found = find_family([name], template)
    assert (found.name, found.asks) == (family, asks)


def test_where_name_and_template_disagree_the_forms_of_both_are_accepted() -> None:
    found = find_family(["Llama-3.2-3B-tuned"], TOOL_CALL)
    named = FAMILIES["llama3"]
    assert found == replace(FAMILIES["hermes"], accepts=("hermes", *named.accepts))
    assert find_family(["tuned"], PARAMETER).accepts == ("qwen3-coder", "hermes")


def test_the_families_whose_template_opens_a_thought_are_these() -> None:
    assert {family.name for family in FAMILIES.values() if family.opens_thought} == {
        "qwen3.5", "qwen3-thinking", "deepseek-r1", "nemotron-3", "nemotron-2"
    }  # fmt: skip


def test_a_family_accepts_the_form_that_it_is_asked_for_unless_that_is_a_seed_form() -> None:
    assert [one.name for one in FAMILIES.values() if one.asks not in (*one.accepts, "json")] == []


def test_every_form_that_a_family_is_asked_for_or_writes_is_known() -> None:
    assert {row for family in FAMILIES.values() for row in (family.asks, *family.accepts)} | {"xml"} == set(FORMATS)


@pytest.mark.parametrize("asks", WANTED)
def test_a_form_that_is_asked_for_goes_back_unbroken_in_a_history_of_text(asks: str) -> None:
    written = FORMATS[asks].show("get_tide", {"harbour": "Husum", "days": 2})
    assert harmless(written) == written


def test_what_is_understood_begins_with_what_is_asked_for_and_has_both_seed_forms() -> None:
    assert [form.name for form in choose_forms("xml", ())][:2] == ["xml", "json"]
    understood = [form.name for form in choose_forms("json", ("hermes", "json"))]
    assert understood[:2] == ["json", "xml"] and len(set(understood)) == len(understood)
    assert choose_forms("nonsense", ("rubbish",)) == choose_forms("json", ())


def test_a_path_does_not_tell_the_family_but_its_last_part() -> None:
    assert find_by_name("/home/anna/qwen3/model.gguf") is None
    assert find_by_name("NousResearch/Meta-Llama-3.1-8B-Instruct") == FAMILIES["llama3"]
