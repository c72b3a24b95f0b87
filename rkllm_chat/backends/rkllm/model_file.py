"""Read what a `.rkllm` file and the files beside it say of the model, without the runtime.

The file ends with the release of the toolkit that converted it. `chat_template.jinja` and `tokenizer_config.json` come
with the original model on Hugging Face.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TEMPLATE_FILE, CONFIG_FILE, TOKENIZER_FILE = "chat_template.jinja", "tokenizer_config.json", "tokenizer.json"
SIDECARS = (TOKENIZER_FILE, CONFIG_FILE, TEMPLATE_FILE)
"""Files of the original model that are read beside a `.rkllm` file; a GGUF contains them."""

_FOOTER_BYTES = 4096
_TOOLKIT = re.compile(rb"rkllm-toolkit version: ?([0-9][0-9A-Za-z.]*)")


def read_toolkit_release(model: Path) -> str:
    """Return the release of the converter, which newer files end with, such as "1.3.1"; "" if there is none.

    Raises:
        OSError: The file cannot be read.
    """
    with model.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _FOOTER_BYTES))
        matches = _TOOLKIT.findall(file.read(_FOOTER_BYTES))
    return str(matches[-1].decode().rstrip(".")) if matches else ""


@dataclass(frozen=True)
class ModelTemplate:
    """A chat template beside a model.

    Attributes:
        path: The file that contains it.
        source: Its Jinja source.
        bos: Text of the BOS token; "" if unknown.
        eos: Text of the EOS token; "" if unknown.
    """

    path: Path
    source: str
    bos: str = ""
    eos: str = ""


def find_model_template(model: Path) -> ModelTemplate | None:
    """Return the chat template beside a model; None if there is none or it cannot be read."""
    config = _read_config(model.with_name(CONFIG_FILE))
    bos, eos = (_read_token(config.get(f"{name}_token")) for name in ("bos", "eos"))
    with suppress(OSError, UnicodeDecodeError):
        path = model.with_name(TEMPLATE_FILE)
        return ModelTemplate(path, path.read_text(encoding="utf-8"), bos, eos)
    source = _choose_source(config.get("chat_template"))
    return ModelTemplate(model.with_name(CONFIG_FILE), source, bos, eos) if source else None


def read_config_names(model: Path) -> list[str]:
    """Return what `config.json` beside a model calls it: where it was downloaded from, and its architecture."""
    config = _read_config(model.with_name("config.json"))
    return [str(config.get(key) or "") for key in ("_name_or_path", "model_type")]


def _read_config(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _read_token(value: Any) -> str:
    """Return the text of a token: a string, or an object with its `content`."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""


def _choose_source(value: Any) -> str:
    """Return the template: a string, or the row `default` of a list of named ones."""
    if isinstance(value, list):
        rows = [row for row in value if isinstance(row, dict)]
        value = next((row.get("template") for row in rows if row.get("name") == "default"), None)
    return value if isinstance(value, str) else ""
