"""The structs of rkllm.h, all releases in one table, as ctypes classes. It knows no library.

Source: rkllm.h of airockchip/rknn-llm, releases 1.1.0 to 1.3.0. Five layouts, named by a letter, for 64-bit and 32-bit.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

RELEASES = {
    **dict.fromkeys(("1.1.0", "1.1.1", "1.1.2", "1.1.3", "1.1.4"), "C"),
    "1.2.0": "D",
    "1.2.1b1": "E",
    **dict.fromkeys(("1.2.1", "1.2.2", "1.2.3"), "F"),
    "1.3.0": "G",
}
"""Release -> the letter of its layout."""

# One header for all releases. Letters behind a line: the layouts that have it; none: all. `|` is a union's member.
HEADER = """
RKLLMExtendParam
    int32 base_domain_id
    int8 embed_flash, enabled_cpus_num      DEFG
    uint32 enabled_cpus_mask                DEFG
    uint8 n_batch                           FG
    int8 use_cross_attn                     FG
    uint8[112] reserved                     C
    uint8[106] reserved                     DE
    uint8[104] reserved                     FG
RKLLMParam
    text model_path
    int32 max_context_len, max_new_tokens, top_k
    int32 n_keep                            DEFG
    float top_p, temperature, repeat_penalty, frequency_penalty, presence_penalty
    int32 mirostat
    float mirostat_tau, mirostat_eta
    bool skip_special_token
    bool ignore_eos_token                   G
    bool is_async
    text img_start, img_end, img_content    CDEF
    RKLLMExtendParam extend_param
RKLLMLoraAdapter
    text lora_adapter_path, lora_adapter_name
    float scale
RKLLMEmbedInput
    pointer embed
    size n_tokens
RKLLMTokenInput
    pointer input_ids
    size n_tokens
RKLLMMultiModalInput
    pointer prompt, image_embed
    size n_image_tokens
    size n_image                                        EFG
    text image_start, image_end, image_content          G
    size image_width, image_height                      EFG
    pointer video_embed                                 G
    size n_frame_tokens, n_frame_per_video, n_video     G
    text video_start, video_end, video_content          G
    size frame_width, frame_height                      G
RKLLMInput
    text role                               FG
    bool enable_thinking                    FG
    int32 input_type
    | text prompt_input
    | RKLLMEmbedInput embed_input
    | RKLLMTokenInput token_input
    | RKLLMMultiModalInput multimodal_input
RKLLMLoraParam
    text lora_adapter_name
RKLLMPromptCacheParam
    int32 save_prompt_cache
    text prompt_cache_path
RKLLMCrossAttnParam FG
    pointer encoder_k_cache, encoder_v_cache, encoder_mask, encoder_pos
    int32 num_tokens
RKLLMSamplingParam G
    int32 top_k
    float top_p, temperature, repeat_penalty, frequency_penalty, presence_penalty
    int32 mirostat
    float mirostat_tau, mirostat_eta
RKLLMInferParam
    int32 mode
    pointer lora_params, prompt_cache_params
    pointer sampling_params                 G
    int32 keep_history                      DEFG
    int32 max_new_tokens                    G
RKLLMResultLastHiddenLayer
    pointer hidden_states
    int32 embd_size, num_tokens
RKLLMResultLogits DEFG
    pointer logits
    int32 vocab_size, num_tokens
RKLLMPerfStat FG
    float prefill_time_ms
    int32 prefill_tokens
    float generate_time_ms
    int32 generate_tokens
    float memory_usage_mb
RKLLMResult
    text text
    int32 token_id
    RKLLMResultLastHiddenLayer last_hidden_layer
    RKLLMResultLogits logits                DEFG
    RKLLMPerfStat perf                      FG
RKLLMCallback G
    pointer result_callback, result_userdata
    pointer tokenizer_callback, tokenizer_userdata
    pointer embed_callback, embed_userdata
"""

NATIVE: dict[str, Any] = {
    "text": ctypes.c_char_p,
    "pointer": ctypes.c_void_p,
    "size": ctypes.c_size_t,
    "bool": ctypes.c_bool,
    "float": ctypes.c_float,
    **{kind: getattr(ctypes, f"c_{kind}") for kind in ("int8", "uint8", "int32", "uint32")},
}
NARROW = {**NATIVE, "text": ctypes.c_uint32, "pointer": ctypes.c_uint32, "size": ctypes.c_uint32}
"""The types as a 32-bit library has them, to be compared on any machine."""

LINE = re.compile(r"\s+(\| )?(\S+) (.+?)(?:\s+([C-G]+))?")


@cache
def layouts(family: str, narrow: bool = False) -> dict[str, Any]:
    """Struct name -> ctypes class, for the layout of a family; `narrow` as on a 32-bit machine."""
    types = dict(NARROW if narrow else NATIVE)
    structs: dict[str, Any] = {}
    for block in re.split(r"\n(?=\S)", HEADER.strip()):
        title, *lines = block.splitlines()
        name, _, families = title.partition(" ")
        if not families or family in families:
            structs[name] = types[name] = make_struct(name, list(members(lines, family)), types)
    return structs


def members(lines: Iterable[str], family: str) -> Iterable[tuple[bool, str, str]]:
    """(whether it is in the union, type, name) for each member that the family has."""
    for line in lines:
        union, kind, names, families = LINE.fullmatch(line).groups()  # type: ignore[union-attr]  # ours, not input
        if not families or family in families:
            yield from ((bool(union), kind, name) for name in names.split(", "))


def make_struct(name: str, fields: list[tuple[bool, str, str]], types: Mapping[str, Any]) -> Any:
    plain = [(field, type_of(kind, types)) for union, kind, field in fields if not union]
    joined = [(field, type_of(kind, types)) for union, kind, field in fields if union]
    if not joined:
        return type(name, (ctypes.Structure,), {"_fields_": plain})
    choice = type(f"{name}Choice", (ctypes.Union,), {"_fields_": joined})
    return type(name, (ctypes.Structure,), {"_anonymous_": ["choice"], "_fields_": [*plain, ("choice", choice)]})


def type_of(kind: str, types: Mapping[str, Any]) -> Any:
    base, _, count = kind.rstrip("]").partition("[")
    return types[base] * int(count) if count else types[base]
