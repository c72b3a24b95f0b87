"""The layouts of librknnrt.so against what compilers printed for its header."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.backends.rkllm import vision_encoder as rknn

TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("rknn_abi.json").read_text(encoding="utf-8"))


def shape(struct: Any) -> dict[str, Any]:
    """Size and members of a ctypes class."""
    members = {name: [getattr(struct, name).offset, getattr(struct, name).size] for name, _ in struct._fields_}
    return {"size": ctypes.sizeof(struct), "fields": members}


@pytest.mark.parametrize(("key", "narrow"), [("structs", False), ("structs_armhf", True)])
def test_every_struct_has_the_layout_of_the_header(key: str, narrow: bool) -> None:
    assert {name: shape(struct) for name, struct in rknn.make_structs(narrow).items()} == TABLE[key]


def test_constants_are_those_of_the_header() -> None:
    queries = ("QUERY_IN_OUT_NUM", "QUERY_INPUT_ATTR", "QUERY_OUTPUT_ATTR", "QUERY_SDK_VERSION")
    found = {f"RKNN_{name}": getattr(rknn, name) for name in (*queries, "TENSOR_NCHW", "TENSOR_NHWC", "TENSOR_UINT8")}
    assert {**found, "RKNN_NPU_CORE_ALL": rknn.CORE_ALL} == TABLE["enums"]
