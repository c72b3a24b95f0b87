"""librkllmrt.so through ctypes: identify the release of a library and call its functions. Only this module calls C.

A wrong layout crashes boards, and the exported names do not distinguish releases, so the release is read from the file
*and* from the defaults that the library returns; where they disagree, nothing is called.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import ModelError
from ...core.user_paths import expand_home
from .layouts import LAYOUT_OF_RELEASE, NATIVE_TYPES, NEWEST_RELEASE, make_structs

NORMAL, WAITING, FINISH, ERROR = range(4)  # LLMCallState
PROMPT, TOKEN, _EMBED, MULTIMODAL = range(4)  # RKLLMInputType
GENERATE, LAST_HIDDEN_LAYER = range(2)  # RKLLMInferMode

_VERSION = re.compile(rb"RKLLM SDK \(version: ([0-9][0-9A-Za-z.]*)")
LIBRARY_FOLDERS = (
    "usr/lib",
    "usr/local/lib",
    "lib",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/arm-linux-gnueabihf",
    "opt/rkllm/lib",
)
LIBRARY_NAME = "librkllmrt.so"
LIBRARY_SOURCE = "https://github.com/airockchip/rknn-llm, folder rkllm-runtime/Linux/librkllm_api"
ENCODER_LIBRARY_NAME = "librknnrt.so"

_WITHOUT_DEFAULT: Mapping[str, Any] = {
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "mirostat": 0,
    "ignore_eos_token": False,
    "n_batch": 1,
    "use_cross_attn": 0,
}
"""Members of the parameters that rkllm_createDefaultParam leaves as they are in memory (1.2.1b1, decompiled)."""

OnResult = Callable[[int, bytes, int, Mapping[str, float]], None]
"""Callback for results: state, text as UTF-8 bytes (possibly cut within a character), token id, and figures, which come
only with FINISH and from release 1.2.1 on.
"""

_GO_ON, _RELEASE_OUTPUT = 0, 2
"""Answers of the callback from layout "F" on. Without the second one, which layout "G" introduced, the memory of hidden
states is not released (airockchip/rknn-llm#504).
"""


class RunFailedError(Exception):
    """A function of the library reported a failure. Its reason is only in the library's log."""


def find_library(named: str, root: Path = Path("/")) -> Path | None:
    """Return the library that the settings name, or the first one in the usual places; None if there is none.

    Args:
        named: A file or its folder; "" to search.
        root: Root of the file system; any other than "/" also ignores LD_LIBRARY_PATH.
    """
    if named:
        path = expand_home(named)
        path = path / LIBRARY_NAME if path.is_dir() else path
        return path if path.is_file() else None
    return next((folder / LIBRARY_NAME for folder in _list_folders(root) if (folder / LIBRARY_NAME).is_file()), None)


def find_encoder_library(library: Path) -> Path:
    """Return the library for vision encoders, beside the one for language models or in the usual places.

    Raises:
        ModelError: It was not found.
    """
    for folder in (library.parent, *_list_folders(Path("/"))):
        if (folder / ENCODER_LIBRARY_NAME).is_file():
            return folder / ENCODER_LIBRARY_NAME
    hint = (
        f"Put {ENCODER_LIBRARY_NAME} of airockchip/rknn-llm (examples/multimodal_model_demo/deploy/3rdparty) into "
        'its folder, or set encoder = "none" under [rkllm] to use the model without pictures.'
    )
    raise ModelError(f"The vision encoder needs {ENCODER_LIBRARY_NAME}, which is not beside {library}.", hint)


def _list_folders(root: Path) -> list[Path]:
    """Return the folders where libraries are looked for."""
    folders = [Path(place) for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") if place and root == Path("/")]
    return [*folders, *(root / place for place in LIBRARY_FOLDERS)]


def read_release(library: Path) -> str:
    """Return the release named in the file itself, such as "1.2.3"; "" if there is none. No code of it is run."""
    with library.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return ""
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            match = _VERSION.search(data)
            return match[1].decode().rstrip(".") if match else ""


def _identify_layouts(defaults: bytes) -> str:
    """Return the letters of the layouts whose defaults these may be; "" if none.

    The offsets differ: top_p moved when n_keep was added (1.2.0), the CPU count when the image tags were removed
    (1.3.0).
    """
    found = ""
    for layout in dict.fromkeys(LAYOUT_OF_RELEASE.values()):
        param = make_structs(layout)["RKLLMParam"].from_buffer_copy(defaults)
        cpus = 4 if layout == "C" else param.extend_param.enabled_cpus_num
        if abs(param.top_p - 0.9) < 1e-6 and abs(param.temperature - 0.8) < 1e-6 and cpus == 4:
            found += layout
    return found


def find_layout(release: str, assumed_release: str = "") -> str:
    """Return the letter of the layout of a release, or of the one that is assumed in its place; "" if unknown."""
    return LAYOUT_OF_RELEASE.get(release) or LAYOUT_OF_RELEASE.get(assumed_release, "")


class _DefaultsBuffer(ctypes.Structure):
    """Receives the defaults of any release.

    A large struct is written to memory of the caller, so one that is larger than needed is safe.
    """

    _fields_ = (("everything", NATIVE_TYPES["uint8"] * 512),)


class Library:
    """A loaded library whose layout is certain.

    Attributes:
        release: Its release, such as "1.2.3".
        layout: The letter of its layout.
        dll: The ctypes library.
        defaults: The bytes of its default RKLLMParam.
        structs: Struct name -> ctypes class.
    """

    def __init__(self, path: Path, assumed_release: str = "") -> None:
        """Load a library and verify its layout.

        Args:
            path: The library.
            assumed_release: Release whose layout is used if that of the library is unknown; "" to refuse it.

        Raises:
            ModelError: The release is unknown, the defaults contradict it, or the library cannot be loaded.
        """
        self.release = read_release(path)
        self.layout = find_layout(self.release, assumed_release)
        if not self.layout:
            claim = f"is release {self.release}" if self.release else "does not contain its release number"
            hint = (
                f"Use a release of {', '.join(LAYOUT_OF_RELEASE)} (tags release-v... of airockchip/rknn-llm). "
                f'A newer one may work with layout = "{NEWEST_RELEASE}" under [rkllm]. rkllm-chat doctor shows more.'
            )
            raise ModelError(f"{path} {claim}; its data layout is unknown.", hint, path=str(path))
        try:
            self.dll = ctypes.CDLL(str(path))
            self.defaults = self.read_defaults()
            self.check_defaults(path)
            self.declare_functions()
        except (OSError, AttributeError) as error:
            hint = "Check that it is built for this processor and that libomp.so is installed or beside the library."
            raise ModelError(f"{path} cannot be used: {error}.", hint, path=str(path)) from error
        self.structs = make_structs(self.layout)

    def check_defaults(self, path: Path) -> None:
        """Raise ModelError unless the defaults are those of the release that the file names."""
        found = _identify_layouts(self.defaults)
        if self.layout in found:
            return
        matching = (
            ", ".join(name for name, layout in LAYOUT_OF_RELEASE.items() if layout in found) or "no known release"
        )
        message = f"{path} claims to be release {self.release}, but its defaults are those of {matching}."
        hint = "A wrong layout would crash, so no function was called. Use all files of one release."
        raise ModelError(message, hint, path=str(path))

    def read_defaults(self) -> bytes:
        """Return the library's default parameters as bytes."""
        create = self.dll.rkllm_createDefaultParam
        create.restype, create.argtypes = _DefaultsBuffer, []
        return bytes(create().everything)

    def declare_functions(self) -> None:
        """Declare argument types: without them a handle would be truncated to 32 bits."""
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
        if self.layout != "C":
            positions = [pointer, pointer] if self.layout >= "F" else []
            functions["clear_kv_cache"] = [pointer, number, *positions]
            functions["set_chat_template"] = [pointer, text, text, text]
        if self.layout >= "F":
            functions["get_kv_cache_size"] = [pointer, pointer]
            functions["set_function_tools"] = [pointer, text, text, text]
        for name, arguments in functions.items():
            function = getattr(self.dll, f"rkllm_{name}")
            function.argtypes, function.restype = arguments, number

    def call(self, name: str, *arguments: Any) -> None:
        """Call `rkllm_NAME`.

        Raises:
            RunFailedError: It did not return 0.
        """
        if status := getattr(self.dll, f"rkllm_{name}")(*arguments):
            raise RunFailedError(f"rkllm_{name} returned {status}")


@dataclass(frozen=True)
class Images:
    """Encoded pictures.

    Attributes:
        embeddings: Their floats, as a ctypes array: pictures × tokens × width of the model.
        number: Number of pictures.
        tokens: Number of tokens of each.
        width: Width in pixels of the encoder's input.
        height: Its height.
        markers: Texts before the tokens of a picture, after them, and of each; before 1.3.0 they are members of the
            model's parameters.
    """

    embeddings: Any
    number: int
    tokens: int
    width: int
    height: int
    markers: tuple[str, str, str]

    @property
    def members(self) -> dict[str, Any]:
        """Members of RKLLMMultiModalInput."""
        start, end, content = self.markers
        return {
            "image_embed": ctypes.addressof(self.embeddings),
            "n_image_tokens": self.tokens,
            "n_image": self.number,
            "image_start": start,
            "image_end": end,
            "image_content": content,
            "image_width": self.width,
            "image_height": self.height,
        }


class Model:
    """A model in memory: one handle, one run at a time. Everything that C may still read is referenced here.

    Attributes:
        library: The library that loaded it.
        handle: The LLMHandle.
        last_state: Hidden state of the last token of a run with `embeds`, as float32; empty before.
        state_tokens: Number of tokens that the library computed hidden states of.
    """

    def __init__(self, library: Library, options: Mapping[str, Any], on_result: OnResult) -> None:
        """Load a model.

        Args:
            library: The library.
            options: Members of RKLLMParam and RKLLMExtendParam; unknown ones are ignored.
            on_result: Called for each result on the thread that called `run`; it must neither raise nor block.

        Raises:
            RunFailedError: The library cannot load the model.
        """
        self.library = library
        structs = library.structs
        self._param = structs["RKLLMParam"].from_buffer_copy(library.defaults)
        reserved = self._param.extend_param.reserved
        ctypes.memset(ctypes.addressof(reserved), 0, ctypes.sizeof(reserved))
        if library.layout < "G":  # NULL crashes 1.2.3
            self._param.img_start = self._param.img_end = self._param.img_content = b""
        _set_members(self._param, {**_WITHOUT_DEFAULT, **options})
        answer = ctypes.c_int if library.layout >= "F" else None
        kind = ctypes.CFUNCTYPE(answer, ctypes.POINTER(structs["RKLLMResult"]), ctypes.c_void_p, ctypes.c_int)
        self._wants_state, self.last_state, self.state_tokens = False, b"", 0
        answer_to_state = _RELEASE_OUTPUT if library.layout >= "G" else _GO_ON
        self._function = kind(_make_callback(on_result, self._take_state, library.layout >= "F", answer_to_state))
        callback: Any = ctypes.cast(self._function, ctypes.c_void_p)
        if library.layout >= "G":  # a struct of functions; it is not documented whether it is copied, so it is kept
            self._callback = structs["RKLLMCallback"](result_callback=callback.value)
            callback = ctypes.cast(ctypes.byref(self._callback), ctypes.c_void_p)
        self.handle = ctypes.c_void_p()
        library.call("init", ctypes.byref(self.handle), ctypes.byref(self._param), callback)
        if not self.handle:  # older releases return 0 without a handle
            raise RunFailedError("rkllm_init returned no handle")

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
        images: Images | None = None,
        embeds: bool = False,
    ) -> None:
        """Generate a reply, or compute hidden states; returns when it has ended.

        Args:
            prompt: Text or token ids.
            role: Role of the message for the runtime's template; from release 1.2.1 on.
            thinking: Whether the model may think; from 1.2.1 on.
            keep_history: Whether the prompt continues what the KV cache contains; from 1.2.0 on.
            lora: Name of a loaded adapter; "" for none.
            save_cache: Path of a prompt cache to write; "" for none.
            max_new_tokens: Limit of the reply; from 1.3.0 on.
            sampling: Members of RKLLMSamplingParam; from 1.3.0 on.
            images: The pictures of a text, at its tags "<image>"; several only from 1.2.1b1 on.
            embeds: Whether to compute `last_state` instead of a reply.

        Raises:
            RunFailedError: The library reported a failure.
        """
        structs = self.library.structs
        input_, _data = self._make_input(prompt, images)
        _set_members(input_, {"role": role, "enable_thinking": thinking})
        inference = structs["RKLLMInferParam"]()
        mode = LAST_HIDDEN_LAYER if embeds else GENERATE
        _set_members(inference, {"mode": mode, "keep_history": int(keep_history), "max_new_tokens": max_new_tokens})
        parts = {
            "lora_params": structs["RKLLMLoraParam"](lora.encode()) if lora else None,
            "prompt_cache_params": structs["RKLLMPromptCacheParam"](1, save_cache.encode()) if save_cache else None,
            "sampling_params": None,
        }
        if sampling is not None and "RKLLMSamplingParam" in structs:
            parts["sampling_params"] = structs["RKLLMSamplingParam"]()
            _set_members(parts["sampling_params"], sampling)
        _set_members(inference, {name: ctypes.addressof(part) for name, part in parts.items() if part is not None})
        self._wants_state, self.last_state, self.state_tokens = embeds, b"", 0
        self.library.call("run", self.handle, ctypes.byref(input_), ctypes.byref(inference), None)

    def _make_input(self, prompt: str | list[int], images: Images | None) -> tuple[Any, Any]:
        """Return the struct of a prompt, and the data to which it points, which must outlive the run."""
        input_ = self.library.structs["RKLLMInput"]()
        data: Any = None
        if not isinstance(prompt, str):
            input_.input_type, data = TOKEN, (ctypes.c_int32 * len(prompt))(*prompt)
            input_.token_input.input_ids, input_.token_input.n_tokens = ctypes.addressof(data), len(prompt)
        elif images is None:
            input_.input_type, input_.prompt_input = PROMPT, prompt.encode("utf-8", errors="replace")
        else:
            input_.input_type, data = MULTIMODAL, ctypes.create_string_buffer(prompt.encode("utf-8", errors="replace"))
            _set_members(input_.multimodal_input, {"prompt": ctypes.addressof(data), **images.members})
        return input_, data

    def _take_state(self, layer: Any) -> bool:
        """Copy the last hidden state of a result; False if it has none. The library may deliver them in parts."""
        if not (self._wants_state and layer.hidden_states and layer.num_tokens > 0):
            return False
        size = ctypes.sizeof(ctypes.c_float) * layer.embd_size
        self.last_state = ctypes.string_at(layer.hidden_states + size * (layer.num_tokens - 1), size)
        self.state_tokens += layer.num_tokens
        return True

    def abort(self) -> None:
        """Request the end of a run on another thread; it takes effect only after the prompt is evaluated."""
        self.library.call("abort", self.handle)

    def clear(self) -> None:
        """Clear the KV cache. Releases 1.1.x keep none."""
        more = (None, None) if self.library.layout >= "F" else ()
        if self.library.layout != "C":
            self.library.call("clear_kv_cache", self.handle, 0, *more)

    def count_cached_tokens(self) -> int | None:
        """Return the number of tokens in the KV cache; None if the release cannot say."""
        if self.library.layout < "F":
            return None
        sizes: Any = (ctypes.c_int * max(1, self._param.extend_param.n_batch))()
        self.library.call("get_kv_cache_size", self.handle, sizes)
        return int(sizes[0])

    def disable_template(self) -> None:
        """Use prompts literally from now on. Releases 1.1.x have no template."""
        if self.library.layout != "C":
            self.library.call("set_chat_template", self.handle, b"", b"", b"")

    def set_tools(self, system: str, tools: str, tag: str) -> None:
        """Set the system text and tools of the model's own template; from release 1.2.1 on.

        Args:
            system: The system text.
            tools: A JSON array of tools.
            tag: The tag that encloses results.
        """
        self.library.call("set_function_tools", self.handle, system.encode(), tools.encode(), tag.encode())

    def load_lora(self, path: str, name: str, scale: float) -> None:
        """Load a LoRA adapter under a name."""
        adapter = self.library.structs["RKLLMLoraAdapter"](path.encode(), name.encode(), scale)
        self.library.call("load_lora", self.handle, ctypes.byref(adapter))

    def load_cache(self, path: str) -> None:
        """Load a prompt cache that an earlier run saved."""
        self.library.call("load_prompt_cache", self.handle, path.encode())

    def close(self) -> None:
        """Free the model; no run may be active."""
        handle, self.handle = self.handle, ctypes.c_void_p()
        self.library.call("destroy", handle)


def _set_members(struct: Any, values: Mapping[str, Any]) -> None:
    """Set the members that this release has, also those of its extend_param; others are ignored."""
    for name, value in values.items():
        for place in (struct, getattr(struct, "extend_param", None)):
            if place is not None and name in {field[0] for field in place._fields_}:
                setattr(place, name, value.encode("utf-8") if isinstance(value, str) else value)


def _make_callback(
    on_result: OnResult, take_state: Callable[[Any], bool], answers: bool, answer_to_state: int
) -> Callable[[Any, Any, int], Any]:
    """Return the callback for C. Its arguments are valid only until it returns, so everything is copied."""

    def catch(result: Any, _userdata: Any, state: int) -> Any:
        has_state = bool(result) and take_state(result.contents.last_hidden_layer)
        if result:
            contents = result.contents
            perf = contents.perf if state == FINISH and hasattr(contents, "perf") else None
            figures = {name: getattr(perf, name) for name, _ in perf._fields_} if perf is not None else {}
            on_result(state, contents.text or b"", contents.token_id, figures)
        else:
            on_result(state, b"", -1, {})
        if not answers:
            return None
        return answer_to_state if has_state else _GO_ON

    return catch
