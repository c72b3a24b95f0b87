"""The structs of rkllm.h for all releases, as ctypes classes.

Source: rkllm.h of airockchip/rknn-llm, releases 1.1.0 to 1.3.0; for 1.3.1 a public binding that its author checks
against the header, which we could not have. There are six layouts, named by a letter, each for 64-bit and 32-bit
machines.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

LAYOUT_OF_RELEASE = {
    **dict.fromkeys(("1.1.0", "1.1.1", "1.1.2", "1.1.3", "1.1.4"), "C"),
    "1.2.0": "D",
    "1.2.1b1": "E",
    **dict.fromkeys(("1.2.1", "1.2.2", "1.2.3"), "F"),
    "1.3.0": "G",
    "1.3.1": "H",
}
"""Release -> the letter of its layout. Later letters are later releases."""
NEWEST_RELEASE = list(LAYOUT_OF_RELEASE)[-1]

# One header for all releases. At the end of a line: the layouts that have it, from `D` on (`D+`), from `C` to `F`
# (`C-F`) or `C` alone; nothing: all. A release with one more member is one more line. `|` marks a union's member.
_HEADER = """
RKLLMExtendParam
    int32 base_domain_id
    int8 embed_flash, enabled_cpus_num      D+
    uint32 enabled_cpus_mask                D+
    uint8 n_batch                           F+
    int8 use_cross_attn                     F+
    uint8[112] reserved                     C
    uint8[106] reserved                     D-E
    uint8[104] reserved                     F+
RKLLMParam
    text model_path
    int32 max_context_len, max_new_tokens, top_k
    int32 n_keep                            D+
    float top_p, temperature, repeat_penalty, frequency_penalty, presence_penalty
    int32 mirostat
    float mirostat_tau, mirostat_eta
    bool skip_special_token
    bool ignore_eos_token                   G+
    bool is_async
    text img_start, img_end, img_content    C-F
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
    size n_image                                        E+
    text image_start, image_end, image_content          G+
    size image_width, image_height                      E+
    pointer video_embed                                 G+
    size n_frame_tokens, n_frame_per_video, n_video     G+
    text video_start, video_end, video_content          G+
    size frame_width, frame_height                      G+
    pointer audio_embed                                 H+
    size n_audio_tokens, n_audio                        H+
    text audio_start, audio_end, audio_content          H+
RKLLMInput
    text role                               F+
    bool enable_thinking                    F+
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
RKLLMCrossAttnParam F+
    pointer encoder_k_cache, encoder_v_cache, encoder_mask, encoder_pos
    int32 num_tokens
RKLLMSamplingParam G+
    int32 top_k
    float top_p, temperature, repeat_penalty, frequency_penalty, presence_penalty
    int32 mirostat
    float mirostat_tau, mirostat_eta
RKLLMInferParam
    int32 mode
    pointer lora_params, prompt_cache_params
    pointer sampling_params                 G+
    int32 keep_history                      D+
    int32 max_new_tokens                    G+
RKLLMResultLastHiddenLayer
    pointer hidden_states
    int32 embd_size, num_tokens
RKLLMResultLogits D+
    pointer logits
    int32 vocab_size, num_tokens
RKLLMPerfStat F+
    float prefill_time_ms
    int32 prefill_tokens
    float generate_time_ms
    int32 generate_tokens
    float memory_usage_mb
RKLLMResult
    text text
    int32 token_id
    RKLLMResultLastHiddenLayer last_hidden_layer
    RKLLMResultLogits logits                D+
    RKLLMPerfStat perf                      F+
RKLLMCallback G+
    pointer result_callback, result_userdata
    pointer tokenizer_callback, tokenizer_userdata
    pointer embed_callback, embed_userdata
"""

NATIVE_TYPES: dict[str, Any] = {
    "text": ctypes.c_char_p,
    "pointer": ctypes.c_void_p,
    "size": ctypes.c_size_t,
    "bool": ctypes.c_bool,
    "float": ctypes.c_float,
    **{kind: getattr(ctypes, f"c_{kind}") for kind in ("int8", "uint8", "int32", "uint32")},
}
"""The types of this machine, by their names in the table."""
_NARROW = {**NATIVE_TYPES, "text": ctypes.c_uint32, "pointer": ctypes.c_uint32, "size": ctypes.c_uint32}
"""The types of a 32-bit library, so that its layout can be compared on any machine."""

_LINE = re.compile(r"\s+(\| )?(\S+) (.+?)(?:\s+([A-Z](?:\+|-[A-Z])?))?")


@cache
def make_structs(layout: str, narrow: bool = False) -> dict[str, Any]:
    """Return struct name -> ctypes class for one layout.

    Args:
        layout: The letter of the layout.
        narrow: Whether to lay out the structs as on a 32-bit machine.
    """
    types = dict(_NARROW if narrow else NATIVE_TYPES)
    structs: dict[str, Any] = {}
    for block in re.split(r"\n(?=\S)", _HEADER.strip()):
        title, *lines = block.splitlines()
        name, _, span = title.partition(" ")
        if _spans(span, layout):
            structs[name] = types[name] = _make_struct(name, list(parse_members(lines, layout)), types)
    return structs


def parse_members(lines: Iterable[str], layout: str) -> Iterable[tuple[bool, str, str]]:
    """Yield (whether it belongs to the union, type, name) for each member in the layout `layout`.

    Args:
        lines: The member lines of one struct in the table.
        layout: The letter of the layout.
    """
    for line in lines:
        union, kind, names, span = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]  # our own table, not input
        if _spans(span or "", layout):
            yield from ((bool(union), kind, name) for name in names.split(", "))


def _spans(span: str, layout: str) -> bool:
    """Return whether a span such as "D+", "C-F" or "C" has a layout; "" has all."""
    return not span or (span[0] <= layout and (span[-1] == "+" or layout <= span[-1]))


def _make_struct(name: str, fields: list[tuple[bool, str, str]], types: Mapping[str, Any]) -> Any:
    plain = [(field, _type_of(kind, types)) for union, kind, field in fields if not union]
    joined = [(field, _type_of(kind, types)) for union, kind, field in fields if union]
    if not joined:
        return type(name, (ctypes.Structure,), {"_fields_": plain})
    choice = type(f"{name}Choice", (ctypes.Union,), {"_fields_": joined})
    return type(name, (ctypes.Structure,), {"_anonymous_": ["choice"], "_fields_": [*plain, ("choice", choice)]})


def _type_of(kind: str, types: Mapping[str, Any]) -> Any:
    base, _, count = kind.rstrip("]").partition("[")
    return types[base] * int(count) if count else types[base]
