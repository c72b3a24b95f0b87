"""Convert settings for the NPU runtime: options, template, and who keeps the history.

Source of names and defaults: rkllm.h and the vendor's demonstrations, releases 1.1.0 to 1.3.0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from ...calls.model_families import find_family_by_name
from ...config.settings import Generation, Settings
from ...core.errors import ConfigError, ModelError
from ...prompt.chat_templates import TEMPLATES, choose_template
from ...prompt.jinja_template import compile_template, read_template_file
from ...prompt.pieces import Template
from .layouts import LAYOUT_OF_RELEASE
from .model_file import CONFIG_FILE, find_model_template, read_config_names
from .vision_families import VisionFamily

_TEMPERATURE = 0.6
_NO_PREFIX_REUSE = re.compile(r"qwen[-_]?3[-._]5(?![\d.]*[bm])|rwkv", re.IGNORECASE)
"""Models for which the runtime does not reuse the beginning of a prompt (release 1.3.0: it cannot save their state)."""
_BIG_CORES = "4-7"
_PROCESSOR_COUNTS = (4, 8)
"""Numbers of processors for which the library chooses cores itself, which was measured to be best."""
_SMALL_CHIPS = re.compile(rb"rk3562|rv1126b")
_CHIPS_WITH_DOMAINS = re.compile(rb"rk3588|rk3576")
_DOMAIN_BESIDE_ENCODER = 1


def make_sampling_parameters(generation: Generation) -> dict[str, Any]:
    """Return the sampling settings under the runtime's names.

    Greedy decoding is top_k 1; the runtime has neither min_p nor a seed.
    """
    temperature = _TEMPERATURE if generation.temperature is None else generation.temperature
    greedy = temperature == 0
    return {
        "top_k": 1 if greedy else generation.top_k,
        "top_p": generation.top_p,
        "temperature": 1.0 if greedy else temperature,
        "repeat_penalty": generation.repeat_penalty,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "mirostat": 0,
        "mirostat_tau": 5.0,
        "mirostat_eta": 0.1,
    }


def make_fixed_options(settings: Settings, context_tokens: int, family: VisionFamily | None = None) -> dict[str, Any]:
    """Return the options that do not change while the program runs, as members of RKLLMParam and RKLLMExtendParam.

    Args:
        settings: The settings.
        context_tokens: Size of the context window.
        family: Markers of the model's pictures; None without a vision encoder.
    """
    cores = settings.rkllm.cpus or ("" if os.cpu_count() in _PROCESSOR_COUNTS else _default_cores())
    return {
        "max_context_len": context_tokens,
        "skip_special_token": False,  # control tokens mark thoughts and calls, so they must be visible
        "is_async": False,  # rkllm_run returns at the end of the reply; results come on the thread that called it
        "base_domain_id": choose_domain(settings, has_encoder=family is not None),
        "embed_flash": int(settings.rkllm.embed_flash),
        **(_select_cores(parse_cores(cores)) if cores else {}),
        **({"img_start": family.start, "img_end": family.end, "img_content": family.content} if family else {}),
    }


def choose_domain(settings: Settings, *, has_encoder: bool, root: Path = Path("/")) -> int:
    """Return the memory domain: as set, else another one than that of the vision encoder where a chip has several.

    The vendor's `multimodal_model_demo` does so: 1 on RK3588 and RK3576, 0 on RK3562 and RV1126B.
    """
    domain = settings.rkllm.base_domain_id
    if domain or not has_encoder or "rkllm.base_domain_id" in settings.origins:
        return domain
    return _DOMAIN_BESIDE_ENCODER if _CHIPS_WITH_DOMAINS.search(_read_chip(root)) else domain


def _read_chip(root: Path) -> bytes:
    """Return the names of the chip in the device tree; empty if there is none."""
    try:
        return (root / "proc/device-tree/compatible").read_bytes()
    except OSError:
        return b""


def _select_cores(cores: Sequence[int]) -> dict[str, int]:
    return {"enabled_cpus_num": len(cores), "enabled_cpus_mask": sum(1 << core for core in cores)}


def parse_cores(text: str) -> list[int]:
    """Parse "4-7" or "0,2-3" into core numbers.

    Raises:
        ConfigError: The text is not in that form, or a number is above 31.
    """
    cores: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,2})(?:-(\d{1,2}))?\s*", part)
        if not match or int(match[2] or match[1]) > 31:
            hint = 'Write cores as "4-7" or "0,2", up to 31.'
            raise ConfigError(f'rkllm.cpus is "{text}", which is not a list of cores.', hint)
        cores |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(cores)


def _default_cores(root: Path = Path("/")) -> str:
    """Return the big cores of RK3588 and RK3576, as the vendor's demonstrations use them; 0 to 3 on small chips."""
    return "0-3" if _SMALL_CHIPS.search(_read_chip(root)) else _BIG_CORES


def choose_history(settings: Settings, layout: str, model: str) -> str:
    """Return who keeps the history: as set, else what is cheapest with this release and model.

    Returns:
        "client", "runtime" or "whole", as described in `backend.RkllmBackend`.
    """
    if layout == "C":
        return "whole"
    if settings.rkllm.history != "auto":
        return settings.rkllm.history
    return "runtime" if _NO_PREFIX_REUSE.search(model) else "client"


def check_release(settings: Settings, release: str, layout: str) -> None:
    """Check the settings against the release.

    Raises:
        ModelError: They require what the release does not have.
        ConfigError: The release whose layout is to be used is unknown.
    """
    options = settings.rkllm
    if options.layout not in ("", *LAYOUT_OF_RELEASE):
        known = ", ".join(LAYOUT_OF_RELEASE)
        raise ConfigError(f'rkllm.layout is "{options.layout}", which is not a known release.', f"Known: {known}.")
    for setting, is_missing, first_release in (
        ("native_tools", options.native_tools and layout < "F", "1.2.1"),
        ('template = "runtime"', options.template == "runtime" and layout == "C", "1.2.0"),
    ):
        if is_missing:
            hint = "Remove the setting, or install a newer library."
            raise ModelError(f"{setting} needs release {first_release} or later; this library is {release}.", hint)


def name_by_family(settings: Settings, model: Path) -> Path:
    """Return the path that a model would have beside its files if its name said what it is.

    A `.rkllm` does not say it. The names that may, in order: the settings, the file, and, without a chat template
    beside it, `config.json` and the folder.

    Raises:
        ConfigError: No model is known by the name in the settings.
    """
    family = settings.family
    if family and not (find_family_by_name(family) or choose_template("auto", family)):
        raise ConfigError(f'No model family is known as "{family}".', "Give it as in a model's name, such as qwen2.5.")
    around = () if find_model_template(model) else (*read_config_names(model), model.parent.name)
    names = filter(None, (family, model.name, *around))
    known = next((name for name in names if find_family_by_name(name) or choose_template("auto", name)), model.name)
    return model if known == model.name else model.with_name(f"{Path(known).name}{model.suffix}")


def find_template(settings: Settings, model: Path) -> Template:
    """Return the template by its name, by the model's file name, from a Jinja file, or from one beside the model.

    A row of TEMPLATES comes first, because it is append-only: the runtime then reuses the whole conversation.

    Raises:
        ConfigError: There is none.
    """
    template_name = settings.rkllm.template
    template = choose_template(template_name, model.name)
    if template:
        return template
    if source := read_template_source(template_name):
        return compile_template(source, today=date.today())
    if beside := find_model_template(model) if template_name == "auto" else None:
        return compile_template(beside.source, beside.bos, beside.eos, today=date.today())
    problem = (
        f'There is no template "{template_name}"'
        if template_name != "auto"
        else f"Neither the name of {model.name} nor a file beside it says which model it is"
    )
    rows = ", ".join(TEMPLATES)
    hint = (
        f"Name its family: --set family=NAME, or family in [chat]. Or put {CONFIG_FILE} of the model beside it, or set "
        f"template under [rkllm]: {rows}, a Jinja file, or runtime."
    )
    raise ConfigError(f"{problem}.", hint)


def read_model_template(template_name: str, model: Path) -> str:
    """Return the Jinja source that is used for a model; "" if it is a row of TEMPLATES or unknown."""
    if template_name != "auto":
        return read_template_source(template_name)
    beside = None if choose_template("auto", model.name) else find_model_template(model)
    return beside.source if beside else ""


def read_template_source(template_name: str) -> str:
    """Return the text of a template that is a Jinja file; "" for any other. Raises ConfigError if it is unreadable."""
    return "" if template_name in TEMPLATES else read_template_file(template_name)
