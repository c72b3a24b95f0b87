"""Every argument that the program gives librkllmrt.so arrives in C, and what C answers arrives here.

It needs no llama.cpp and no fixture of the other tests: `.ci/aarch64` also runs it with the processor of the boards.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.backends.rkllm.abi import FINISH, NORMAL, Images, Library, Model
from rkllm_runtime.build import build_echo

TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("rkllm_abi.json").read_text(encoding="utf-8"))
SAMPLING = {
    "top_k": 41,
    "top_p": 0.5,
    "temperature": 0.25,
    "repeat_penalty": 1.5,
    "frequency_penalty": 0.125,
    "presence_penalty": 0.375,
    "mirostat": 2,
    "mirostat_tau": 6.5,
    "mirostat_eta": 0.75,
}
OTHER_SAMPLING = {name: value + 1 for name, value in SAMPLING.items()}
OPTIONS = {
    "model_path": "/models/é.rkllm",
    "max_context_len": 0x01020304,
    "max_new_tokens": 513,
    "n_keep": -7,
    **SAMPLING,
    "skip_special_token": True,
    "ignore_eos_token": True,
    "is_async": False,
    "base_domain_id": 3,
    "embed_flash": 1,
    "enabled_cpus_num": 5,
    "enabled_cpus_mask": 0x800001F0,
    "n_batch": 9,
    "use_cross_attn": 1,
}
RUN = {"role": "tool", "thinking": True, "keep_history": True, "lora": "style", "save_cache": "/c.bin"}
FIGURES = {
    "prefill_time_ms": 1.5,
    "prefill_tokens": 2,
    "generate_time_ms": 3.5,
    "generate_tokens": 4,
    "memory_usage_mb": 5.5,
}
Arrived = Callable[[], dict[str, str]]


@pytest.fixture(scope="module", params=TABLE)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(build_echo(request.param, tmp_path_factory.mktemp("echo")))


@pytest.fixture
def family(library: Library) -> str:
    return library.layout


@pytest.fixture
def results() -> list[Any]:
    """What the callback was called with."""
    return []


@pytest.fixture
def model(library: Library, results: list[Any]) -> Model:
    return Model(library, OPTIONS, lambda *result: results.append(result))


@pytest.fixture
def arrived(model: Model) -> Iterator[Arrived]:
    """What arrived since the last time, by name. All must have been asked for in the end."""
    take = model.library.dll.echo_take
    take.restype = ctypes.c_char_p

    def read() -> dict[str, str]:
        return dict(line.split(" ", 1) for line in (take() or b"").decode().splitlines())

    yield read
    assert read() == {}


def having(family: str, struct: str, values: dict[str, Any]) -> dict[str, str]:
    """The values, as C writes them, of the members that a struct of the header has."""
    members = TABLE[family]["structs"][struct]["fields"]
    return {name: as_c(value) for name, value in values.items() if name in members}


def as_c(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, (bool, int, float)) and abs(value) < 1e6 else str(value)


def test_every_parameter_of_a_model_arrives(family: str, arrived: Arrived) -> None:
    extended = having(family, "RKLLMExtendParam", OPTIONS)
    images = having(family, "RKLLMParam", dict.fromkeys(("img_start", "img_end", "img_content"), ""))
    wanted = {**having(family, "RKLLMParam", OPTIONS), **images, **extended, "reserved": "0"}
    functions = {"tokenizer_callback", "tokenizer_userdata", "embed_callback", "embed_userdata", "result_userdata"}
    if family >= "G":
        wanted |= {"callback->result_callback": "given", **{f"callback->{name}": "(null)" for name in functions}}
    assert arrived() == wanted


def test_a_member_that_the_library_leaves_without_a_default_gets_one(
    family: str, library: Library, arrived: Arrived
) -> None:
    arrived()
    Model(library, {"model_path": "/m.rkllm"}, lambda *_: None)
    defaults = {"frequency_penalty": 0, "presence_penalty": 0, "mirostat": 0, "ignore_eos_token": 0}
    wanted = having(family, "RKLLMParam", defaults)
    wanted |= having(family, "RKLLMExtendParam", {"n_batch": 1, "use_cross_attn": 0})
    assert wanted.items() <= arrived().items()


@pytest.mark.parametrize("prompt", ["one line: 大阪", [0, 1, 0x01020304, -1]])
def test_every_argument_of_a_run_arrives(
    prompt: str | list[int], family: str, model: Model, arrived: Arrived, results: list[Any]
) -> None:
    arrived()
    model.run(prompt, max_new_tokens=77, sampling=OTHER_SAMPLING, **RUN)  # type: ignore[arg-type]
    wanted = having(family, "RKLLMInput", {"role": "tool", "enable_thinking": 1})
    if isinstance(prompt, str):
        wanted |= {"input_type": "0", "prompt_input": prompt}
    else:
        wanted |= {"input_type": "1", "input_ids": " ".join(map(str, prompt))}
    wanted |= having(family, "RKLLMInferParam", {"mode": 0, "keep_history": 1, "max_new_tokens": 77})
    wanted |= {"lora_adapter_name": "style", "save_prompt_cache": "1", "prompt_cache_path": "/c.bin"}
    wanted |= having(family, "RKLLMSamplingParam", OTHER_SAMPLING) if family >= "G" else {}
    wanted |= {"userdata": "(null)", "run": "handle"} | ({"answer": "0"} if family >= "F" else {})
    assert arrived() == wanted
    assert results == [(NORMAL, "café".encode(), 0x12345678, {}), (FINISH, b"", -1, FIGURES if family >= "F" else {})]


def test_every_argument_of_pictures_arrives(family: str, model: Model, arrived: Arrived) -> None:
    arrived()
    floats = (ctypes.c_float * 12)(*range(12))  # the echo reads two numbers a token
    pictures = 2 if family >= "E" else 1
    markers = ("<start é>", "<end>", "<pad>")
    model.run("a <image> b: 大阪", images=Images(floats, pictures, 3, 392, 448, markers), **RUN)  # type: ignore[arg-type]
    wanted = having(family, "RKLLMInput", {"role": "tool", "enable_thinking": 1})
    wanted |= {"input_type": "3", "prompt": "a <image> b: 大阪"}
    values: dict[str, Any] = {"n_image_tokens": 3, "n_image": pictures, "image_width": 392, "image_height": 448}
    values |= dict(zip(("image_start", "image_end", "image_content"), markers, strict=True))
    members = {name.rpartition(".")[2] for name in TABLE[family]["structs"][find_multimodal(family)]["fields"]}
    wanted |= {name: as_c(value) for name, value in values.items() if name in members}
    wanted["image_embed"] = " ".join(map(str, range(6 * pictures)))
    others = {"input->video.video_embed": "G", "input->audio.audio_embed": "H"}
    wanted |= {name: "(null)" for name, first in others.items() if family >= first}
    wanted |= having(family, "RKLLMInferParam", {"mode": 0, "keep_history": 1, "max_new_tokens": 0})
    wanted |= {"lora_adapter_name": "style", "save_prompt_cache": "1", "prompt_cache_path": "/c.bin"}
    assert arrived() == wanted | {"userdata": "(null)", "run": "handle"} | ({"answer": "0"} if family >= "F" else {})


def find_multimodal(family: str) -> str:
    """Until 1.2.2 the struct was misspelt."""
    structs: dict[str, Any] = TABLE[family]["structs"]
    return next(name for name in structs if name.startswith("RKLLMMultiMod"))


def test_what_a_run_does_not_use_is_empty(family: str, model: Model, arrived: Arrived) -> None:
    arrived()
    model.run("plain", thinking=False)
    wanted = having(family, "RKLLMInput", {"role": "user", "enable_thinking": 0})
    wanted |= having(family, "RKLLMInferParam", {"mode": 0, "keep_history": 0, "max_new_tokens": 0})
    wanted |= {"input_type": "0", "prompt_input": "plain", "userdata": "(null)", "run": "handle"}
    assert arrived() == wanted | ({"answer": "0"} if family >= "F" else {})


def test_every_argument_of_the_other_functions_arrives(family: str, model: Model, arrived: Arrived) -> None:
    arrived()
    model.load_lora("/style é.rkllm", "style", 0.5)
    model.load_cache("/c.bin")
    wanted = {"lora_adapter_path": "/style é.rkllm", "lora_adapter_name": "style", "scale": "0.5"}
    wanted |= {"load_lora": "handle", "prompt_cache_path": "/c.bin", "load_prompt_cache": "handle"}
    assert arrived() == wanted
    model.abort()
    model.clear()
    model.disable_template()
    wanted = {"abort": "handle"}
    if family >= "D":
        wanted |= {"keep_system_prompt": "0", "clear_kv_cache": "handle", "set_chat_template": "handle"}
        wanted |= {"system_prompt": "", "prompt_prefix": "", "prompt_postfix": ""}
    assert arrived() == wanted | ({"start_pos": "(null)", "end_pos": "(null)"} if family >= "F" else {})
    assert model.count_cached_tokens() == (0x01020304 if family >= "F" else None)
    wanted = {"get_kv_cache_size": "handle"} if family >= "F" else {}
    if family >= "F":
        model.set_tools("Be kind.", '[{"type": "é"}]', "tool_response")
        wanted |= {"system_prompt": "Be kind.", "tools": '[{"type": "é"}]', "tool_response_str": "tool_response"}
        wanted |= {"set_function_tools": "handle"}
    model.close()
    assert arrived() == wanted | {"destroy": "handle"}
