"""Calls a librkllmrt.so of any family by the offsets in rkllm_abi.json alone, so that tests lean on no binding.

As a program it makes one run in a process of its own: what crashes there is seen from outside.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TABLE: dict[str, Any] = json.loads((Path(__file__).parents[1] / "backends/rkllm_abi.json").read_text("utf-8"))
NORMAL, WAITING, FINISH, ERROR = range(4)
PROMPT, TOKEN = range(2)
NONE = ctypes.c_void_p(0)

Memory = ctypes.Array[ctypes.c_char]


@dataclass(frozen=True)
class Said:
    """What one callback brought; everything is copied."""

    state: int
    text: bytes | None
    token: int


@dataclass
class Run:
    """What a run returned and what its callbacks brought; the figures are of FINISH (from 1.2.1 on)."""

    status: int = 0
    said: list[Said] = field(default_factory=list[Said])
    prefilled: int = -1
    generated: int = -1

    @property
    def text(self) -> str:
        return b"".join(said.text or b"" for said in self.said if said.state == NORMAL).decode()

    @property
    def states(self) -> list[int]:
        return [said.state for said in self.said]

    @property
    def tokens(self) -> list[int]:
        return [said.token for said in self.said if said.token >= 0]


class Caller:
    """A library and one handle of it. `answer` is asked what each callback gives back.

    `status` is what rkllm_init returned; `keep` holds what C points to.
    """

    def __init__(self, family: str, library: Path, model: Path, **param: Any) -> None:
        self.family = family
        self.structs: dict[str, Any] = TABLE[family]["structs"]
        self.library = ctypes.CDLL(str(library))
        self.answer: Callable[[Said], int] = lambda _: 0
        self.keep: list[Any] = []
        self.last = Run()
        returned = ctypes.c_int if family >= "F" else None
        self.callback = ctypes.CFUNCTYPE(returned, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(self._hear)
        self.default = self._default_param()
        self.param = ctypes.create_string_buffer(self.default, len(self.default))
        values = {"model_path": str(model), "max_context_len": 2048, "max_new_tokens": 40, "skip_special_token": True}
        empty = {} if family == "G" else dict.fromkeys(("img_start", "img_end", "img_content"), "")
        self.fill("RKLLMParam", self.param, **{**values, "top_k": 1, "repeat_penalty": 1.0, **empty, **param})
        self.handle = ctypes.c_void_p(1)  # what stands there before is the caller's
        self.status: int = self.library.rkllm_init(ctypes.byref(self.handle), self.param, self._third())

    def call(self, name: str, *arguments: Any) -> int:
        """Any function that takes the handle first."""
        status: int = self.library[name](self.handle, *arguments)
        return status

    def run(self, text: str | Sequence[int], **asked: Any) -> Run:
        """rkllm_run to its end. `role`, `enable_thinking` go into the input, the rest into RKLLMInferParam."""
        self.last = run = Run()
        run.status = self.call("rkllm_run", *self.arguments(text, **asked), NONE)
        return run

    def arguments(self, text: str | Sequence[int], **asked: Any) -> tuple[Memory, Memory]:
        """The input and what is asked, as C wants them."""
        place: int = self.structs["RKLLMInput"]["fields"]["prompt_input"][0]
        into = {name: asked.pop(name) for name in ("role", "enable_thinking") if name in asked}
        put = self.fill("RKLLMInput", input_type=PROMPT if isinstance(text, str) else TOKEN, **into)
        if isinstance(text, str):
            write(put, place, struct.pack("<Q", self._address(text)))
        else:
            ids = (ctypes.c_int32 * len(text))(*text)
            write(put, place, struct.pack("<QQ", self._address(ids), len(text)))
        return put, self.fill("RKLLMInferParam", **asked)

    def held(self) -> int:
        """rkllm_get_kv_cache_size."""
        size = ctypes.c_int(-1)
        assert self.call("rkllm_get_kv_cache_size", ctypes.byref(size)) == 0
        return size.value

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
        values = self.read("RKLLMResult", ctypes.string_at(result, self.structs["RKLLMResult"]["size"]))
        said = Said(state, ctypes.string_at(values["text"]) if values["text"] else None, values["token_id"])
        self.last.said.append(said)
        if state == FINISH and "perf" in values:
            perf = self.read("RKLLMPerfStat", values["perf"])
            self.last.prefilled, self.last.generated = perf["prefill_tokens"], perf["generate_tokens"]
        answer = self.answer(said)
        return answer if self.family >= "F" else None

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


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("family", "library", "model", "text"):
        parser.add_argument(name)
    given = parser.parse_args()
    caller = Caller(given.family, Path(given.library), Path(given.model))
    print(json.dumps({"status": caller.status}), flush=True)
    if caller.status == 0:
        print(json.dumps({"text": caller.run(given.text).text}), flush=True)
        caller.close()


if __name__ == "__main__":
    main()
