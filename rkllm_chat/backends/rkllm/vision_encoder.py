"""librknnrt.so through ctypes: run the vision encoder of a model, a `.rknn` file. Only the worker calls this.

Source: rknn_api.h of librknnrt 2.3.2 in release 1.3.0 of airockchip/rknn-llm; the calls are those of its
`multimodal_model_demo`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .abi import Images, RunFailedError

MAX_DIMENSIONS, MAX_NAME_BYTES, VERSION_BYTES = 16, 256, 256
QUERY_IN_OUT_NUM, QUERY_INPUT_ATTR, QUERY_OUTPUT_ATTR, QUERY_SDK_VERSION = 0, 1, 2, 5
TENSOR_NCHW, TENSOR_NHWC = 0, 1
TENSOR_UINT8 = 3
CORE_ALL = 0xFFFF
_CHANNELS = 3
_BACKGROUND = (128, 128, 128)
"""Colour that makes a picture square; the demonstration's 127.5, rounded."""
_ERRORS = {
    -1: "it failed",
    -2: "it took too long",
    -3: "the NPU is not available",
    -4: "the NPU has not enough memory",
    -5: "an argument is invalid",
    -6: "the file is not a model of this release",
    -7: "its context is invalid",
    -8: "its input is invalid",
    -9: "its output is invalid",
    -10: "library and driver do not fit together",
    -13: "the model was converted for another chip",
}
"""RKNN_ERR_* of rknn_api.h."""


@cache
def make_structs(narrow: bool = False) -> dict[str, Any]:
    """Return struct name -> ctypes class.

    Args:
        narrow: Whether to lay out the structs as on a 32-bit machine.
    """
    uint32, int32 = ctypes.c_uint32, ctypes.c_int32
    pointer = ctypes.c_uint32 if narrow else ctypes.c_void_p
    attributes = (
        ("index", uint32),
        ("n_dims", uint32),
        ("dims", uint32 * MAX_DIMENSIONS),
        ("name", ctypes.c_char * MAX_NAME_BYTES),
        ("n_elems", uint32),
        ("size", uint32),
        ("fmt", int32),
        ("type", int32),
        ("qnt_type", int32),
        ("fl", ctypes.c_int8),
        ("zp", int32),
        ("scale", ctypes.c_float),
        ("w_stride", uint32),
        ("size_with_stride", uint32),
        ("pass_through", ctypes.c_uint8),
        ("h_stride", uint32),
    )
    fields: dict[str, tuple[tuple[str, Any], ...]] = {
        "rknn_input_output_num": (("n_input", uint32), ("n_output", uint32)),
        "rknn_tensor_attr": attributes,
        "rknn_input": (
            ("index", uint32),
            ("buf", pointer),
            ("size", uint32),
            ("pass_through", ctypes.c_uint8),
            ("type", int32),
            ("fmt", int32),
        ),
        "rknn_output": (
            ("want_float", ctypes.c_uint8),
            ("is_prealloc", ctypes.c_uint8),
            ("index", uint32),
            ("buf", pointer),
            ("size", uint32),
        ),
        "rknn_sdk_version": (
            ("api_version", ctypes.c_char * VERSION_BYTES),
            ("drv_version", ctypes.c_char * VERSION_BYTES),
        ),
    }
    return {name: type(name, (ctypes.Structure,), {"_fields_": members}) for name, members in fields.items()}


class VisionEncoder:
    """A loaded encoder.

    Attributes:
        tokens: Number of tokens of a picture.
        width: Width in pixels of the input.
        height: Its height.
        version: Versions of library and driver.
    """

    def __init__(self, library: Path, model: Path) -> None:
        """Load an encoder.

        Args:
            library: Path of librknnrt.so.
            model: The `.rknn` file.

        Raises:
            RunFailedError: It cannot be loaded, or is no encoder of pictures.
        """
        self._model = model
        self._structs = make_structs()
        self._library = self._load_library(library)
        self._context = _CONTEXT_TYPE()
        self._call("init", ctypes.byref(self._context), str(model).encode(), 0, 0, None)
        # only chips with several cores know the call; the vendor's demonstration uses all of them
        self._library.rknn_set_core_mask(self._context, CORE_ALL)
        versions = self._query(QUERY_SDK_VERSION, "rknn_sdk_version")
        self.version = f"{versions.api_version.decode()}, driver {versions.drv_version.decode()}"
        counts = self._query(QUERY_IN_OUT_NUM, "rknn_input_output_num")
        self._output_count = int(counts.n_output)
        self._read_input()
        self._read_outputs()

    def encode(self, picture: Path) -> bytes:
        """Return the embeddings of a picture: float32, those of all outputs one after another for each token.

        Raises:
            RunFailedError: The picture cannot be read, or the NPU failed.
        """
        pixels = _read_pixels(picture, self.width, self.height)
        buffer = ctypes.create_string_buffer(pixels, len(pixels))
        input_ = self._structs["rknn_input"](
            index=0, buf=ctypes.addressof(buffer), size=len(pixels), type=TENSOR_UINT8, fmt=TENSOR_NHWC
        )
        self._call("inputs_set", self._context, 1, ctypes.byref(input_))
        self._call("run", self._context, None)
        outputs = (self._structs["rknn_output"] * self._output_count)()
        for index, output in enumerate(outputs):
            output.want_float, output.index = 1, index
        self._call("outputs_get", self._context, self._output_count, outputs, None)
        try:
            row = self._row_bytes
            if any(output.size != self.tokens * row for output in outputs):
                raise RunFailedError(f"the vision encoder {self._model.name} returned outputs of another size")
            parts = [ctypes.string_at(output.buf, output.size) for output in outputs]
        finally:
            self._library.rknn_outputs_release(self._context, self._output_count, outputs)
        if len(parts) == 1:
            return parts[0]
        return b"".join(part[token * row : (token + 1) * row] for token in range(self.tokens) for part in parts)

    def join(self, embeddings: Sequence[bytes], markers: tuple[str, str, str]) -> Images:
        """Return the encoded pictures of one run. `markers`: the texts around and in them."""
        data = b"".join(embeddings)
        floats = (ctypes.c_float * (len(data) // ctypes.sizeof(ctypes.c_float))).from_buffer_copy(data)
        return Images(floats, len(embeddings), self.tokens, self.width, self.height, markers)

    def close(self) -> None:
        """Free the encoder."""
        self._library.rknn_destroy(self._context)

    def _load_library(self, path: Path) -> Any:
        """Load the library and declare its functions: without types a context would be truncated to 32 bits."""
        pointer, number, context = ctypes.c_void_p, ctypes.c_uint32, _CONTEXT_TYPE
        functions: dict[str, list[Any]] = {
            "init": [pointer, ctypes.c_char_p, number, number, pointer],
            "destroy": [context],
            "query": [context, ctypes.c_int, pointer, number],
            "set_core_mask": [context, ctypes.c_int],
            "inputs_set": [context, number, pointer],
            "run": [context, pointer],
            "outputs_get": [context, number, pointer, pointer],
            "outputs_release": [context, number, pointer],
        }
        try:
            library = ctypes.CDLL(str(path))
            for name, arguments in functions.items():
                function = getattr(library, f"rknn_{name}")
                function.argtypes, function.restype = arguments, ctypes.c_int
        except (OSError, AttributeError) as error:
            raise RunFailedError(f"{path} cannot be used: {error}") from error
        return library

    def _call(self, name: str, *arguments: Any) -> None:
        """Call `rknn_NAME`. Raises RunFailedError if it did not return 0."""
        status = getattr(self._library, f"rknn_{name}")(*arguments)
        if status:
            meaning = _ERRORS.get(status, "see its log")
            raise RunFailedError(f"the vision encoder {self._model.name}: rknn_{name} returned {status}, {meaning}")

    def _query(self, command: int, name: str, **members: int) -> Any:
        """Return a struct that the library fills."""
        answer = self._structs[name](**members)
        self._call("query", self._context, command, ctypes.byref(answer), ctypes.sizeof(answer))
        return answer

    def _read_input(self) -> None:
        """Read the size of the input, which is a picture; further inputs are constants of the model."""
        attributes = self._query(QUERY_INPUT_ATTR, "rknn_tensor_attr", index=0)
        dims = list(attributes.dims[: attributes.n_dims])
        axes = (1, 2, 3) if attributes.fmt == TENSOR_NCHW else (3, 1, 2)
        if len(dims) != 4 or dims[axes[0]] != _CHANNELS:
            raise RunFailedError(f"{self._model.name} is no vision encoder: its input has the shape {dims}")
        self.height, self.width = dims[axes[1]], dims[axes[2]]

    def _read_outputs(self) -> None:
        """Read the number of tokens and their width, which all outputs have in common (several: deep stack)."""
        shapes: list[list[int]] = []
        for index in range(self._output_count):
            attributes = self._query(QUERY_OUTPUT_ATTR, "rknn_tensor_attr", index=index)
            shapes.append([int(size) for size in attributes.dims[: attributes.n_dims] if size > 1])
        if not shapes or len(shapes[0]) < 2 or any(shape != shapes[0] for shape in shapes):
            raise RunFailedError(f"{self._model.name} is no vision encoder: its outputs have the shapes {shapes}")
        self.tokens, width = shapes[0][:2]
        self._row_bytes = width * ctypes.sizeof(ctypes.c_float)


_CONTEXT_TYPE: Any = ctypes.c_uint64 if ctypes.sizeof(ctypes.c_void_p) == 8 else ctypes.c_uint32
"""rknn_context: 64 bits, 32 where the compiler defines __arm__."""


def _read_pixels(path: Path, width: int, height: int) -> bytes:
    """Return a picture as rows of RGB, made square with a grey border and scaled to the encoder's size."""
    try:
        from PIL import Image
    except ImportError as error:
        raise RunFailedError("pictures need Pillow: pip install 'rkllm-chat[vision]'") from error
    try:
        with Image.open(path) as opened:
            picture = opened.convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise RunFailedError(f"{path} cannot be read: {error}") from error
    side = max(picture.size)
    square = Image.new("RGB", (side, side), _BACKGROUND)
    square.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
    return square.resize((width, height), Image.Resampling.BILINEAR).tobytes()
