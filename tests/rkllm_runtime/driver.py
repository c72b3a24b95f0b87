"""Call a librkllmrt.so of any family by the offsets in rkllm_abi.json, so that its tests need no binding."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

from .build import TABLE

NORMAL, FINISH = 0, 2
PROMPT = 0
NONE = ctypes.c_void_p(0)

Memory = ctypes.Array[ctypes.c_char]


class Caller:
    """A library and one handle of it. `status` is what rkllm_init returned; `keep` holds what C points to."""

    def __init__(self, family: str, library: Path, model: Path, **param: Any) -> None:
        self.family = family
        self.structs: dict[str, Any] = TABLE[family]["structs"]
        self.library = ctypes.CDLL(str(library))
        self.keep: list[Any] = []
        self.states: list[int] = []
        self.texts: list[bytes | None] = []
        returned = ctypes.c_int if family >= "F" else None
        self.callback = ctypes.CFUNCTYPE(returned, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(self._hear)
        self.default = self._default_param()
        self.param = ctypes.create_string_buffer(self.default, len(self.default))
        values = {"model_path": str(model), "max_context_len": 2048, "max_new_tokens": 40, "skip_special_token": True}
        values |= dict.fromkeys(("frequency_penalty", "presence_penalty", "mirostat"), 0)
        values |= {"extend_param": self.extended()} | ({"ignore_eos_token": False} if family >= "G" else {})
        empty = {} if family >= "G" else dict.fromkeys(("img_start", "img_end", "img_content"), "")
        if isinstance(changed := param.get("extend_param"), dict):
            param = {**param, "extend_param": self.extended(**changed)}
        self.fill("RKLLMParam", self.param, **{**values, "top_k": 1, "repeat_penalty": 1.0, **empty, **param})
        self.handle = ctypes.c_void_p(1)  # what stands there before is the caller's
        self.status: int = self.library.rkllm_init(ctypes.byref(self.handle), self.param, self._third())

    def extended(self, **changed: int) -> bytes:
        """RKLLMExtendParam with all its members set."""
        values = {"embed_flash": 1, "enabled_cpus_num": 4, "enabled_cpus_mask": 0xF0} if self.family >= "D" else {}
        values |= {"n_batch": 1} if self.family >= "F" else {}
        return bytes(self.fill("RKLLMExtendParam", **{**values, **changed}))

    def call(self, name: str, *arguments: Any) -> int:
        """Any function that takes the handle first."""
        status: int = self.library[name](self.handle, *arguments)
        return status

    def run(self, text: str, **values: Any) -> int:
        """rkllm_run to its end; `states` and `texts` are those of its callbacks. `values`: more of the input."""
        self.states, self.texts = [], []
        place: int = self.structs["RKLLMInput"]["fields"]["prompt_input"][0]
        prompt = self.fill("RKLLMInput", input_type=PROMPT, **values)
        write(prompt, place, struct.pack("<Q", self._address(text)))
        return self.call("rkllm_run", prompt, self.fill("RKLLMInferParam"), NONE)

    def close(self) -> int:
        status = self.call("rkllm_destroy") if self.handle else 0
        self.handle = ctypes.c_void_p()
        return status

    def fill(self, name: str, memory: Memory | None = None, /, **values: Any) -> Memory:
        """A struct with these values at their offsets: bytes as they are; texts, structs, callbacks are pointed to."""
        layout = self.structs[name]
        memory = memory or ctypes.create_string_buffer(layout["size"])
        for key, value in values.items():
            offset, size = layout["fields"][key]
            if layout["ctypes"][key] == "float":
                data = struct.pack("<f", value)
            elif isinstance(value, bytes):
                data = value
            else:
                number = int(value) if isinstance(value, (int, bool)) else self._address(value)
                data = number.to_bytes(size, "little", signed=number < 0)
            write(memory, offset, data)
        self.keep.append(memory)
        return memory

    def read(self, name: str, data: bytes) -> dict[str, Any]:
        """The values of a struct; a pointer is a number, a struct its bytes."""
        layout = self.structs[name]
        found: dict[str, Any] = {}
        for key, (offset, size) in layout["fields"].items():
            raw, kind = data[offset : offset + size], layout["ctypes"][key]
            is_signed = kind.startswith("int")
            is_inner = "." in key or kind.startswith("RKLLM") or "[" in kind
            number = (
                round(struct.unpack("<f", raw)[0], 6)
                if kind == "float"
                else int.from_bytes(raw, "little", signed=is_signed)
            )
            found[key] = raw if is_inner else number
        return found

    def _hear(self, result: int, _userdata: int | None, state: int) -> int | None:
        self.states.append(state)
        self.texts.append(ctypes.c_char_p.from_address(result).value)  # the first member
        return 0 if self.family >= "F" else None

    def _default_param(self) -> bytes:
        """What rkllm_createDefaultParam gives; it comes by value, so as a struct of that size."""
        size = self.structs["RKLLMParam"]["size"]
        by_value = type("ByValue", (ctypes.Structure,), {"_fields_": [("bytes", ctypes.c_char * size)]})
        self.library.rkllm_createDefaultParam.restype = by_value
        return bytes(self.library.rkllm_createDefaultParam())

    def _third(self) -> Any:
        """The third argument of rkllm_init."""
        if self.family < "G":
            return self.callback
        return self.fill("RKLLMCallback", result_callback=self.callback)

    def _address(self, value: Any) -> int:
        if isinstance(value, str):
            value = ctypes.create_string_buffer(value.encode())
        self.keep.append(value)
        return ctypes.cast(value, ctypes.c_void_p).value or 0


def write(memory: Memory, offset: int, data: bytes) -> None:
    ctypes.memmove(ctypes.addressof(memory) + offset, data, len(data))
