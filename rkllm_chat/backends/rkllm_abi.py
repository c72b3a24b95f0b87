"""librkllmrt.so through ctypes: which release a library is, and its functions. Only this file calls C.

A wrong layout crashes boards and the exported names do not tell releases apart, so the release is read from the file
*and* from the defaults that the library gives; where they disagree nothing is called.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ModelError
from .rkllm_layouts import NATIVE, RELEASES, layouts

NORMAL, WAITING, FINISH, ERROR = range(4)  # LLMCallState
PROMPT, TOKEN = range(2)  # RKLLMInputType
GENERATE = 0  # RKLLMInferMode

VERSION = re.compile(rb"RKLLM SDK \(version: ([0-9][0-9A-Za-z.]*)")
PLACES = (
    "usr/lib",
    "usr/local/lib",
    "lib",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/arm-linux-gnueabihf",
    "opt/rkllm/lib",
)
LIBRARY = "librkllmrt.so"

OnResult = Callable[[int, bytes, int, Mapping[str, float]], None]
"""state, text as UTF-8 bytes (perhaps cut within a character), token id, figures (only with FINISH, from 1.2.1 on)."""


class RunFailedError(Exception):
    """A function of the library said that it failed. Its reason stands in the library's log alone."""


def find_library(named: str, root: Path = Path("/")) -> Path | None:
    """The library that the settings name, or the first one in the usual places below `root`; None where none is."""
    if named:
        path = Path(named).expanduser()
        path = path / LIBRARY if path.is_dir() else path
        return path if path.is_file() else None
    folders = [Path(place) for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") if place and root == Path("/")]
    folders += [root / place for place in PLACES]
    return next((folder / LIBRARY for folder in folders if (folder / LIBRARY).is_file()), None)


def read_release(library: Path) -> str:
    """The release that the file itself names, such as "1.2.3"; "" where it names none. Nothing of it is run."""
    with library.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return ""
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = VERSION.search(data)
            return found[1].decode().rstrip(".") if found else ""


def probe(defaults: bytes) -> str:
    """The families whose defaults these are: "C", "DEF" or "G"; "" if none.

    The places differ: top_p moved when n_keep came (1.2.0), the CPU count when the image tags went (1.3.0).
    """
    for family, families in (("C", "C"), ("F", "DEF"), ("G", "G")):
        param = layouts(family)["RKLLMParam"].from_buffer_copy(defaults)
        cpus = 4 if family == "C" else param.extend_param.enabled_cpus_num
        if abs(param.top_p - 0.9) < 1e-6 and abs(param.temperature - 0.8) < 1e-6 and cpus == 4:
            return families
    return ""


class Room(ctypes.Structure):
    """Takes the defaults of any release: a large struct is written where the caller says, so larger is safe."""

    _fields_ = (("everything", NATIVE["uint8"] * 512),)


class Library:
    """A loaded library whose layout is certain. Raises ModelError when it is not."""

    def __init__(self, path: Path) -> None:
        self.release = read_release(path)
        self.family = RELEASES.get(self.release, "")
        known = f"Known are {', '.join(RELEASES)}."
        if not self.family:
            says = f"says it is release {self.release}" if self.release else "does not name its release"
            raise ModelError(f"{path} {says}, and its layout is not known here.", known, path=str(path))
        try:
            self.dll = ctypes.CDLL(str(path))
            self.defaults = self.read_defaults()
            self.agree(path)
            self.declare()
        except (OSError, AttributeError) as error:
            hint = "Is it made for this processor, and is libomp.so there? It may lie beside the library."
            raise ModelError(f"{path} cannot be used: {error}.", hint, path=str(path)) from error
        self.structs = layouts(self.family)

    def agree(self, path: Path) -> None:
        """Raises ModelError unless the defaults are those of the release that the file names."""
        found = probe(self.defaults)
        if self.family in found:
            return
        seen = ", ".join(name for name, family in RELEASES.items() if family in found) or "no release known here"
        raise ModelError(
            f"{path} says it is release {self.release}, but its defaults are those of {seen}.",
            "A wrong layout crashes, so nothing was run. Take the library of one release, whole.",
            path=str(path),
        )

    def read_defaults(self) -> bytes:
        create = self.dll.rkllm_createDefaultParam
        create.restype, create.argtypes = Room, []
        return bytes(create().everything)

    def declare(self) -> None:
        """Argument types: without them a handle would be cut to 32 bits."""
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
        functions: dict[str, list[Any]] = {
            "init": [pointer, pointer, pointer],
            "run": [pointer, pointer, pointer, pointer],
            "abort": [pointer],
            "destroy": [pointer],
            "load_lora": [pointer, pointer],
            "load_prompt_cache": [pointer, text],
            "release_prompt_cache": [pointer],
        }
        if self.family != "C":
            positions = [pointer, pointer] if self.family in "FG" else []
            functions["clear_kv_cache"] = [pointer, number, *positions]
            functions["set_chat_template"] = [pointer, text, text, text]
        if self.family in "FG":
            functions["get_kv_cache_size"] = [pointer, pointer]
            functions["set_function_tools"] = [pointer, text, text, text]
        for name, arguments in functions.items():
            function = getattr(self.dll, f"rkllm_{name}")
            function.argtypes, function.restype = arguments, number

    def call(self, name: str, *arguments: Any) -> None:
        """Calls `rkllm_NAME`. Raises RunFailedError unless it gives 0."""
        if status := getattr(self.dll, f"rkllm_{name}")(*arguments):
            raise RunFailedError(f"rkllm_{name} gave {status}")


class Model:
    """A model in memory: one handle, one run at a time. Everything that C may still read is held here.

    `on_result` is called for each callback, on the thread that called `run`; it must neither raise nor block.
    """

    def __init__(self, library: Library, options: Mapping[str, Any], on_result: OnResult) -> None:
        self.library = library
        structs = library.structs
        self._param = structs["RKLLMParam"].from_buffer_copy(library.defaults)
        if library.family != "G":  # NULL crashes 1.2.3
            self._param.img_start = self._param.img_end = self._param.img_content = b""
        fill(self._param, options)
        answer = ctypes.c_int if library.family in "FG" else None
        kind = ctypes.CFUNCTYPE(answer, ctypes.POINTER(structs["RKLLMResult"]), ctypes.c_void_p, ctypes.c_int)
        self._function = kind(catch_results(on_result, library.family in "FG"))
        given: Any = ctypes.cast(self._function, ctypes.c_void_p)
        if library.family == "G":  # a struct of functions; whether it is copied is not said, so it lives as long as we
            self._callback = structs["RKLLMCallback"](result_callback=given.value)
            given = ctypes.cast(ctypes.byref(self._callback), ctypes.c_void_p)
        self.handle = ctypes.c_void_p()
        library.call("init", ctypes.byref(self.handle), ctypes.byref(self._param), given)
        if not self.handle:  # older releases said 0 and gave nothing
            raise RunFailedError("rkllm_init gave no handle")

    def run(
        self,
        prompt: str | list[int],
        *,
        role: str = "user",
        thinking: bool = True,
        keep_history: bool = False,
        lora: str = "",
        save_cache: str = "",
        max_new_tokens: int = 0,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        """Answers a prompt, text or token ids; gives back when the answer has ended. Raises RunFailedError.

        `sampling` and `max_new_tokens` count from 1.3.0 on, `role` and `thinking` from 1.2.1, `keep_history` 1.2.0.
        """
        structs = self.library.structs
        asked = structs["RKLLMInput"]()
        fill(asked, {"role": role, "enable_thinking": thinking})
        if isinstance(prompt, str):
            asked.input_type, asked.prompt_input = PROMPT, prompt.encode("utf-8", errors="replace")
        else:
            tokens = (ctypes.c_int32 * len(prompt))(*prompt)
            asked.input_type = TOKEN
            asked.token_input.input_ids, asked.token_input.n_tokens = ctypes.addressof(tokens), len(prompt)
        how = structs["RKLLMInferParam"]()
        fill(how, {"mode": GENERATE, "keep_history": int(keep_history), "max_new_tokens": max_new_tokens})
        parts = {
            "lora_params": structs["RKLLMLoraParam"](lora.encode()) if lora else None,
            "prompt_cache_params": structs["RKLLMPromptCacheParam"](1, save_cache.encode()) if save_cache else None,
            "sampling_params": None,
        }
        if sampling is not None and "RKLLMSamplingParam" in structs:
            parts["sampling_params"] = structs["RKLLMSamplingParam"]()
            fill(parts["sampling_params"], sampling)
        fill(how, {name: ctypes.addressof(part) for name, part in parts.items() if part is not None})
        self.library.call("run", self.handle, ctypes.byref(asked), ctypes.byref(how), None)

    def abort(self) -> None:
        """Asks a run on another thread to end; in the middle of the prompt it is heard only afterwards."""
        self.library.call("abort", self.handle)

    def clear(self) -> None:
        """Forgets what is held, all of it. (Releases 1.1.x hold nothing.)"""
        more = (None, None) if self.library.family in "FG" else ()
        if self.library.family != "C":
            self.library.call("clear_kv_cache", self.handle, 0, *more)

    def count_held(self) -> int | None:
        """How many tokens are held; None where the release cannot say."""
        if self.library.family not in "FG":
            return None
        sizes: Any = (ctypes.c_int * max(1, self._param.extend_param.n_batch))()
        self.library.call("get_kv_cache_size", self.handle, sizes)
        return int(sizes[0])

    def switch_template_off(self) -> None:
        """From now on prompts are taken as they are. (Releases 1.1.x have no template.)"""
        if self.library.family != "C":
            self.library.call("set_chat_template", self.handle, b"", b"", b"")

    def set_tools(self, system: str, tools: str, tag: str) -> None:
        """Gives the model's own template its system text and tools (a JSON array); from 1.2.1 on."""
        self.library.call("set_function_tools", self.handle, system.encode(), tools.encode(), tag.encode())

    def load_lora(self, path: str, name: str, scale: float) -> None:
        adapter = self.library.structs["RKLLMLoraAdapter"](path.encode(), name.encode(), scale)
        self.library.call("load_lora", self.handle, ctypes.byref(adapter))

    def load_cache(self, path: str) -> None:
        """Takes in what an earlier run saved."""
        self.library.call("load_prompt_cache", self.handle, path.encode())

    def close(self) -> None:
        """Frees the model; no run may be under way."""
        handle, self.handle = self.handle, ctypes.c_void_p()
        self.library.call("destroy", handle)


def fill(struct: Any, values: Mapping[str, Any]) -> None:
    """Sets the members that this release has, also those of the extend_param inside; the others are left out."""
    for name, value in values.items():
        for place in (struct, getattr(struct, "extend_param", None)):
            if place is not None and name in {field[0] for field in place._fields_}:
                setattr(place, name, value.encode("utf-8") if isinstance(value, str) else value)


def catch_results(on_result: OnResult, answers: bool) -> Callable[[Any, Any, int], Any]:
    """The function that C calls. What it is given is valid only until it returns, so all is copied."""

    def catch(result: Any, _userdata: Any, state: int) -> Any:
        if result:
            told = result.contents
            perf = told.perf if state == FINISH and hasattr(told, "perf") else None
            figures = {name: getattr(perf, name) for name, _ in perf._fields_} if perf is not None else {}
            on_result(state, told.text or b"", told.token_id, figures)
        else:
            on_result(state, b"", -1, {})
        return 0 if answers else None

    return catch
