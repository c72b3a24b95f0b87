"""Find the model files on this machine: in the models folders, and the small model that ships."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from ...config.accepted_files import open_regular
from ...config.files import find_data_folder, find_single_file, list_config_paths
from ...config.trust_rules import MODEL_SUFFIXES
from ...core.errors import ModelError
from ...core.user_paths import expand_home

SHIPPED_NAME = "tiny-tools"
"""Name of the model that ships, wherever a model can be named."""
ModelKind = Literal["gguf", "rkllm"]

_MODELS_FOLDER = "models"
_MAX_ENTRIES, _MAX_DEPTH = 20_000, 5
"""Limits of the search in one folder: `./models` belongs to whoever made the current folder."""
_PART = re.compile(r"-\d+-of-\d+\Z")
_LATER_PART = re.compile(r"-(?!0*1-)\d+-of-\d+$")
"""End of the stem of a GGUF file that is not the first part of its model."""
_PROJECTOR = "mmproj"
"""Part of the name of a GGUF file that belongs to a vision model and is none itself."""
NO_PROJECTOR = "none"
"""Value of the setting `mmproj` that loads no projector."""
_QUANTIZATION = re.compile(r"[-_.](?:bf16|f16|f32|i?q\d\w*|mxfp4)\Z")
_PROJECTOR_KINDS = ("-f16", "-q8_0", "-bf16", "-f32")
"""Quantizations of projectors, best first: the cores of RK3588 and RK3576 (Armv8.2) have F16 and no BF16."""
BEGINNING_BYTES = 64
"""Bytes of a file that show whether it is something else than a model."""
PROJECTOR_HINT = 'Set mmproj in [chat] to the mmproj file of this model, or to "none" to use it without pictures.'


_PARAMETERS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([bm])(?![a-z0-9])")


def read_parameter_count(name: str) -> int:
    """Return the number of parameters that the name of a model states; 0 if none.

    >>> read_parameter_count("Qwen3-1.7B-w8a8.rkllm"), read_parameter_count("gemma_270m"), read_parameter_count("phi-4")
    (1700000000, 270000000, 0)
    """
    match = _PARAMETERS.search(name.casefold().replace("_", "-"))
    return round(float(match[1]) * (1e9 if match[2] == "b" else 1e6)) if match else 0


@dataclass(frozen=True)
class ModelFile:
    """A model file.

    Attributes:
        path: Its path, as it can be given to `--model`.
        kind: Its type: "gguf" for llama.cpp, "rkllm" for the NPU.
        size_bytes: Its size.
        is_shipped: Whether it is the small model that ships.
    """

    path: Path
    kind: ModelKind
    size_bytes: int
    is_shipped: bool = False

    @property
    def name(self) -> str:
        """The short name to call it by."""
        return SHIPPED_NAME if self.is_shipped else self.path.name


def find_models(
    configured: str = "", current: str = "", environment: Mapping[str, str] = os.environ
) -> list[ModelFile]:
    """Return the model files of the models folders, sorted by name, and then the model that ships.

    A file that is found twice, also through a link, is returned once. Blocks while it reads the folders.

    Args:
        configured: Folder from the settings; "" for none.
        current: Path of the current model: its folder is searched too; "" for none.
        environment: Environment variables.
    """
    shipped = find_shipped_model()
    found: dict[Path, ModelFile] = {}
    for folder in list_model_folders(configured, environment):
        _add_files(found, folder, _MAX_DEPTH)
    if current and "://" not in current:
        _add_files(found, expand_home(current).parent, 0)
    found.pop(shipped.resolve(), None)
    files = sorted(found.values(), key=lambda file: (file.path.name.casefold(), str(file.path)))
    return [*files, *filter(None, [_describe_file(shipped, is_shipped=True)])]


def find_only_model(model: str) -> str:
    """Return the path of the model in a folder; what names no folder is returned as it is.

    Raises:
        ModelError: The folder has no model file, or several.
    """
    folder = expand_home(model)
    if "://" in model or not folder.is_dir():
        return model
    found: dict[Path, ModelFile] = {}
    _add_files(found, folder, 0)
    if len(found) == 1:
        return str(next(iter(found.values())).path)
    names = ", ".join(sorted(file.name for file in found.values())) or "no .gguf or .rkllm file"
    raise ModelError(f"The folder {folder} has {names}.", "Put one model there, or name the file.", path=str(folder))


def list_model_folders(configured: str = "", environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the folders where models are looked for, in order; new models belong into the first one.

    Args:
        configured: Folder from the settings; "" for none.
        environment: Environment variables.
    """
    single_file = find_single_file("", environment)
    config_paths = [single_file] if single_file else list_config_paths(environment)
    beside_config = [Path(path).parent / _MODELS_FOLDER for path in config_paths if path.endswith(".toml")]
    folders = [
        *([expand_home(configured)] if configured else []),
        Path(find_data_folder(environment)) / _MODELS_FOLDER,
        *beside_config,
        Path(_MODELS_FOLDER),
        expand_home(environment.get("HOME") or "~") / _MODELS_FOLDER,
    ]
    return list(dict.fromkeys(folders))


def resolve_model(model: str) -> Path:
    """Return the path of a model of the settings; "" and `SHIPPED_NAME` are the model that ships."""
    return find_shipped_model() if model in ("", SHIPPED_NAME) else expand_home(model)


def find_shipped_model() -> Path:
    """Return the path of the small model: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[2]
    places = (package / "tiny-tools.gguf", package.parent / "models/tiny-tools/tiny-tools.gguf")
    return next((place for place in places if place.is_file()), places[0])


def read_beginning(path: Path, hint: str) -> bytes:
    """Return the first 4 bytes of a model. Raises ModelError if it cannot be one, before native code reads it."""
    with open_regular(path, hint) as file:
        beginning = file.read(BEGINNING_BYTES)
    if not beginning:
        raise ModelError(f"{path}: the file is empty.", "Check that the download is complete.", path=str(path))
    if found := find_mistaken_download(beginning):
        what, advice = found
        raise ModelError(f"{path}: {what}, not the model.", advice, path=str(path))
    return beginning[:4]


def find_mistaken_download(beginning: bytes) -> tuple[str, str] | None:
    """Return what a file is that was downloaded by mistake instead of a model, and what to do; None if it is none."""
    if beginning.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer", "Download the file itself: git lfs pull."
    if beginning.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page", "Download the file itself."
    return None


def _add_files(found: dict[Path, ModelFile], folder: Path, depth: int) -> None:
    """Add the model files of a folder by their resolved paths."""
    for path in _walk(folder, depth):
        file = _describe_file(path)
        if file:
            found.setdefault(path.resolve(), file)


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the paths of possible models in a folder and its subfolders; links to folders are not followed below it."""
    entries = 0
    for root, folders, names in os.walk(folder):
        entries += len(folders) + len(names)
        if len(Path(root).relative_to(folder).parts) >= depth or entries > _MAX_ENTRIES:
            folders.clear()
        for name in names[:_MAX_ENTRIES]:
            if name.endswith(MODEL_SUFFIXES) and not is_projector(name):
                path = Path(root, name)
                if is_first_part(path):
                    yield path


def is_projector(name: str) -> bool:
    """Return whether a file of this name belongs to a vision model and is none itself."""
    return _PROJECTOR in name.lower()


def is_first_part(path: Path) -> bool:
    """Return whether a GGUF file is a whole model or its first part."""
    return not _LATER_PART.search(path.stem)


def find_parts(model: Path) -> list[Path]:
    """Return the files of a model in its folder: itself, and all parts of one that is split."""
    name = _PART.sub("", model.stem)
    return [path for path in sorted(model.parent.glob("*.gguf")) if _PART.sub("", path.stem) == name]


def find_projector(model: Path, setting: str) -> Path | None:
    """Return the projector of a model; None if it has none.

    Without a setting it is chosen from the model's folder; see `choose_projector`.

    Args:
        model: The language model.
        setting: Path of the projector, "none", or "" to look for it.
    """
    if setting:
        return None if setting == NO_PROJECTOR else expand_home(setting)
    try:
        name = choose_projector(model.name, [path.name for path in model.parent.iterdir()])
    except OSError:
        return None
    return model.with_name(name) if name else None


def choose_projector(model: str, files: Iterable[str]) -> str | None:
    """Return the projector of a model among the files of its folder; None if none is certain.

    It is a GGUF file with "mmproj" in its name that continues as the model's name does, quantizations left out; else
    the only one, where all models are the same one. Of several quantizations, F16 and the larger ones come first.

    Args:
        model: Name of the model's file.
        files: Names of all files.
    """
    names = sorted(name for name in files if name.lower().endswith(".gguf"))
    projectors = {name: _find_base_name(name) for name in names if is_projector(name)}
    base_name = _find_base_name(model)
    fitting = [key for key in projectors.values() if key and base_name.startswith(key)]
    if fitting:
        chosen = max(fitting, key=len)
    else:
        models = {_find_base_name(name) for name in names if name not in projectors}
        if len(models) != 1 or len(set(projectors.values())) != 1:
            return None
        chosen = next(iter(projectors.values()))
    return min((name for name, key in projectors.items() if key == chosen), key=_rank_quantization)


def _find_base_name(name: str) -> str:
    """Return the part of a file's name that a model and its projector share."""
    stem = _QUANTIZATION.sub("", _PART.sub("", Path(name).stem.lower()))
    return "-".join(word for word in re.split(r"[-_.\s]+", stem) if word not in (_PROJECTOR, "model"))


def _rank_quantization(name: str) -> tuple[int, str]:
    order = [index for index, kind in enumerate(_PROJECTOR_KINDS) if kind in name.lower()]
    return (order[0] if order else len(_PROJECTOR_KINDS), name)


def _describe_file(path: Path, *, is_shipped: bool = False) -> ModelFile | None:
    """Return the model file at a path; None if there is no file."""
    try:
        if not path.is_file():
            return None
        return ModelFile(path, cast("ModelKind", path.suffix[1:]), path.stat().st_size, is_shipped)
    except OSError:
        return None
