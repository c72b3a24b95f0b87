"""The layouts of librkllmrt.so and librknnrt.so against what compilers printed for their headers; no guesses."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.backends.rkllm import abi as rkllm_abi
from rkllm_chat.backends.rkllm import vision_encoder as rknn
from rkllm_chat.backends.rkllm.abi import Library, find_library, read_release
from rkllm_chat.backends.rkllm.layouts import LAYOUT_OF_RELEASE, make_structs
from rkllm_chat.core.errors import ModelError
from rkllm_runtime.build import TABLE, build_runtime, layouts_of

Compiled = Callable[[str], Path]


def shape(struct: Any) -> dict[str, Any]:
    """Size and members of a ctypes class, those of its union among them."""
    members: dict[str, list[int]] = {}
    for name, kind, *_ in struct._fields_:
        inner = dict.fromkeys(field for field, *_ in kind._fields_) if name == "choice" else {name: None}
        members |= {field: [getattr(struct, field).offset, getattr(struct, field).size] for field in inner}
    return {"size": ctypes.sizeof(struct), "fields": members}


def expected(struct: dict[str, Any]) -> dict[str, Any]:
    """The same from the table; the structs nested in the multimodal input from 1.3.0 on are written flat here."""
    fields = {name.rpartition(".")[2]: place for name, place in struct["fields"].items()}
    nested = {name.partition(".")[0] for name in struct["fields"] if "." in name}
    return {"size": struct["size"], "fields": {name: place for name, place in fields.items() if name not in nested}}


@pytest.mark.parametrize("family", TABLE)
@pytest.mark.parametrize(("key", "narrow"), [("structs", False), ("structs_armhf", True)])
def test_every_struct_has_the_layout_of_the_header(family: str, key: str, narrow: bool) -> None:
    wanted = {rename(name): expected(struct) for name, struct in TABLE[family][key].items()}
    assert {name: shape(struct) for name, struct in make_structs(family, narrow).items()} == wanted


def rename(name: str) -> str:
    """Until 1.2.2 one struct was misspelt."""
    return name.replace("MultiModel", "MultiModal")


@pytest.mark.parametrize("family", TABLE)
def test_enum_values_are_those_of_the_header(family: str) -> None:
    enums = TABLE[family]["enums"]
    states = [enums["LLMCallState"][f"RKLLM_RUN_{name}"] for name in ("NORMAL", "WAITING", "FINISH", "ERROR")]
    assert states == [rkllm_abi.NORMAL, rkllm_abi.WAITING, rkllm_abi.FINISH, rkllm_abi.ERROR]
    inputs = [enums["RKLLMInputType"][f"RKLLM_INPUT_{name}"] for name in ("PROMPT", "TOKEN", "MULTIMODAL")]
    assert inputs == [rkllm_abi.PROMPT, rkllm_abi.TOKEN, rkllm_abi.MULTIMODAL]
    assert enums["RKLLMInferMode"]["RKLLM_INFER_GENERATE"] == rkllm_abi.GENERATE


def test_every_release_of_the_table_is_supported() -> None:
    assert {release: family for family in TABLE for release in TABLE[family]["releases"]} == LAYOUT_OF_RELEASE


@pytest.mark.parametrize("family", TABLE)
def test_every_struct_has_the_layout_of_the_stand_in(family: str, tmp_path: Path) -> None:
    compiled = layouts_of(family, tmp_path)["structs"]
    assert {rename(name): expected(struct) for name, struct in compiled.items()} == {
        name: shape(struct) for name, struct in make_structs(family).items()
    }


@pytest.mark.parametrize("family", TABLE)
def test_a_library_is_recognized_by_its_text_and_defaults(family: str, compiled: Compiled) -> None:
    library = Library(compiled(family))
    assert (library.layout, LAYOUT_OF_RELEASE[library.release]) == (family, family)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "lie"), [("G", "1.2.3"), ("C", "1.2.0")])
def test_a_library_whose_text_and_defaults_disagree_is_rejected(family: str, lie: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        Library(build_runtime(family, tmp_path, release=lie))
    assert f"release {lie}" in str(caught.value)
    assert RELEASES_OF[family] in caught.value.message


RELEASES_OF = {"G": "1.3.0", "C": "1.1.4"}


def test_an_unknown_release_is_rejected_before_it_is_loaded(tmp_path: Path) -> None:
    library = tmp_path / "librkllmrt.so"
    library.write_bytes(b"\x7fELF RKLLM SDK (version: 9.9.9 (2031)")
    with pytest.raises(ModelError, match=r"9\.9\.9.*1\.3\.0"):
        Library(library)
    library.write_bytes(b"\x7fELF something else")
    with pytest.raises(ModelError, match="does not contain its release"):
        Library(library)
    library.write_bytes(b"RKLLM SDK (version: 1.2.3 but no code")
    with pytest.raises(ModelError, match=r"cannot be used: .*libomp"):
        Library(library)
    library.write_bytes(b"")
    assert read_release(library) == ""


@pytest.mark.slow
def test_an_unknown_release_is_tried_with_a_layout_that_is_named(tmp_path: Path) -> None:
    path = build_runtime("H", tmp_path, release="1.9.0")
    with pytest.raises(ModelError, match=r'layout = "1\.3\.1"'):
        Library(path)
    assert (Library(path, "1.3.1").layout, Library(path, "1.3.1").release) == ("H", "1.9.0")
    with pytest.raises(ModelError, match=r"defaults are those of 1\.3\.0, 1\.3\.1"):
        Library(path, "1.2.3")  # its layout would crash


def test_a_library_is_found_by_its_name_or_in_the_usual_places(tmp_path: Path) -> None:
    place = tmp_path / "usr/lib/librkllmrt.so"
    place.parent.mkdir(parents=True)
    assert find_library("", tmp_path) is None
    place.touch()
    assert find_library("", tmp_path) == place
    assert find_library(str(place)) == find_library(str(place.parent)) == place
    assert find_library(str(tmp_path / "other.so")) is None


RKNN_TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("rknn_abi.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("key", "narrow"), [("structs", False), ("structs_armhf", True)])
def test_every_struct_of_librknnrt_has_the_layout_of_the_header(key: str, narrow: bool) -> None:
    assert {name: shape(struct) for name, struct in rknn.make_structs(narrow).items()} == RKNN_TABLE[key]


def test_constants_of_librknnrt_are_those_of_the_header() -> None:
    queries = ("QUERY_IN_OUT_NUM", "QUERY_INPUT_ATTR", "QUERY_OUTPUT_ATTR", "QUERY_SDK_VERSION")
    found = {f"RKNN_{name}": getattr(rknn, name) for name in (*queries, "TENSOR_NCHW", "TENSOR_NHWC", "TENSOR_UINT8")}
    assert {**found, "RKNN_NPU_CORE_ALL": rknn.CORE_ALL} == RKNN_TABLE["enums"]
