"""Vision models on the NPU: the texts around their pictures, and the file of their encoder.

Such a model is two files: the language model, a `.rkllm`, and its vision encoder, a `.rknn`, which the toolkit exports
with mean and deviation of the pixels inside it; size and number of tokens are read from it too. The markers of Qwen-VL
are those of the vendor's demonstration (`multimodal_model_demo` of airockchip/rknn-llm, release 1.3.0), which leaves
those of other families to its user; they are taken from the tokenizers and processors of the models. None of this was
verified on a board.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import ModelError
from ...core.user_paths import expand_home

PICTURE_TAG = "<image>"
"""Place of a picture in the prompt of a multimodal run."""
MEDIA_TAGS = (PICTURE_TAG, "<video>", "<audio>")
NO_ENCODER = "none"
"""Value of the setting `encoder` that loads no encoder."""


@dataclass(frozen=True)
class VisionFamily:
    """Texts that the runtime puts into the prompt in place of a picture.

    Attributes:
        start: Before its tokens.
        end: After them.
        content: Of each of its tokens.
    """

    start: str
    end: str
    content: str

    @property
    def controls(self) -> tuple[str, ...]:
        """Texts that must not be part of anybody's message."""
        markers = (text for marker in (self.start, self.end, self.content) for text in re.findall("<[^>]+>", marker))
        return tuple(dict.fromkeys((*MEDIA_TAGS, *markers)))


_QWEN_VL = VisionFamily("<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
VISION_FAMILIES: dict[str, tuple[str, VisionFamily]] = {
    "Qwen2-VL": (r"qwen-?2-vl", _QWEN_VL),
    "Qwen2.5-VL": (r"qwen-?2-5-vl", _QWEN_VL),
    "Qwen3-VL": (r"qwen-?3-vl", _QWEN_VL),
    "Qwen3.5": (r"qwen-?3-5", _QWEN_VL),
    "MiniCPM-V": (r"minicpm-?v", VisionFamily("<image>", "</image>", "<unk>")),
    "InternVL3": (r"internvl-?3", VisionFamily("<img>", "</img>", "<IMG_CONTEXT>")),
    "SmolVLM": (
        r"smolvlm",
        VisionFamily("<fake_token_around_image><global-img>", "<fake_token_around_image>", "<image>"),
    ),
    "DeepSeek-OCR": (r"deepseek-?ocr", VisionFamily("", "", "<｜▁pad▁｜>")),
}
"""Family -> the pattern of its names, with `-` for each separator, and its row."""


_SIZE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?[bm])(?![a-z0-9])")
"""Number of parameters in a lower-case name, as 2b, 2.2b or 256m."""


def find_vision_family(name: str) -> str:
    """Return the family of a model or an encoder by its file name; "" if no row matches."""
    simplified = _simplify(name)
    return next((family for family, (pattern, _) in VISION_FAMILIES.items() if re.search(pattern, simplified)), "")


def find_encoder(model: Path, setting: str) -> tuple[Path, VisionFamily] | None:
    """Return the vision encoder of a model, with its row; None if it has none.

    Without a setting it is the `.rknn` file in the model's folder that has the same family and number of parameters in
    its name, as far as that says them; of several the one whose name begins most like the model's.

    Args:
        model: The language model.
        setting: Path of the encoder, "none", or "" to look for it.

    Raises:
        ModelError: The encoder of the setting does not exist, or the model's family is unknown.
    """
    if setting == NO_ENCODER:
        return None
    family = find_vision_family(model.stem)
    if setting:
        path = expand_home(setting).absolute()
        if not path.is_file():
            raise ModelError(f"{path}: there is no such vision encoder.", "Correct encoder under [rkllm].")
        if not family:
            known = ", ".join(VISION_FAMILIES)
            hint = f"The file name of the model must contain its family, one of {known}."
            raise ModelError(f"{model}: not the name of a vision model that is known here.", hint)
        return path, VISION_FAMILIES[family][1]
    if not family:
        return None
    try:
        files = sorted(model.parent.glob("*.rknn"))
    except OSError:
        return None
    encoders = [path for path in files if find_vision_family(path.stem) == family and _has_same_size(path, model)]
    best = max(encoders, key=lambda path: _count_common(path.stem, model.stem), default=None)
    return (best, VISION_FAMILIES[family][1]) if best else None


def _has_same_size(one: Path, other: Path) -> bool:
    """Return whether two names say the same number of parameters, or one of them says none."""
    sizes = [_SIZE.search(path.stem.lower().replace("_", ".")) for path in (one, other)]
    return None in sizes or len({size[1] for size in sizes if size}) == 1


def _count_common(one: str, other: str) -> int:
    """Return the length of the common beginning of two names."""
    pairs = zip(_simplify(one), _simplify(other), strict=False)
    return next((index for index, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _simplify(name: str) -> str:
    return re.sub(r"[\s_.]+", "-", name.lower())
