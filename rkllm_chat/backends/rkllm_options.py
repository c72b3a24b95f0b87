"""What the settings mean for the NPU runtime: its options, the template, who keeps the history. Only /proc is read.

Source of names and defaults: rkllm.h and the vendor's demonstrations, releases 1.1.0 to 1.3.0.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

from ..config import Generation, Settings
from ..errors import ConfigError, ModelError
from ..templates import TEMPLATES, Template, choose_template, jinja_template

TEMPERATURE = 0.6
FORGETFUL = re.compile(r"qwen-?3[._]5|rwkv", re.IGNORECASE)
"""Models whose runtime does not reuse a prompt's beginning (release 1.3.0: it cannot save their state)."""
BIG_CORES = "4-7"
SMALL_CHIPS = re.compile(rb"rk3562|rv1126b")


def sampling_of(generation: Generation) -> dict[str, Any]:
    """Our settings in the runtime's names. Greedy is the best of one; it has neither min_p nor a seed."""
    temperature = TEMPERATURE if generation.temperature is None else generation.temperature
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


def fixed_options(settings: Settings, context_tokens: int) -> dict[str, Any]:
    """What stays while the program runs, in the members of RKLLMParam and RKLLMExtendParam."""
    cores = read_cores(settings.rkllm.cpus or default_cores())
    return {
        "max_context_len": context_tokens,
        "skip_special_token": False,  # a control token in the reply must be seen, or its end would be
        "is_async": False,
        "base_domain_id": settings.rkllm.base_domain_id,
        "embed_flash": int(settings.rkllm.embed_flash),
        "enabled_cpus_num": len(cores),
        "enabled_cpus_mask": sum(1 << core for core in cores),
    }


def read_cores(text: str) -> list[int]:
    """The numbers in "4-7" or "0,2-3". Raises ConfigError."""
    cores: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,2})(?:-(\d{1,2}))?\s*", part)
        if not match or int(match[2] or match[1]) > 31:
            raise ConfigError(f'rkllm.cpus is "{text}".', 'Write cores as "4-7" or "0,2", up to 31.')
        cores |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(cores)


def default_cores(root: Path = Path("/")) -> str:
    """The big cores of RK3588 and RK3576, as the vendor's demonstrations take them; the small chips have 0 to 3."""
    try:
        chip = (root / "proc/device-tree/compatible").read_bytes()
    except OSError:
        chip = b""
    return "0-3" if SMALL_CHIPS.search(chip) else BIG_CORES


def choose_history(settings: Settings, family: str, model: str) -> str:
    """Who keeps the history: as set, else the way that costs least with this release and model."""
    if family == "C":
        return "whole"
    if settings.rkllm.history != "auto":
        return settings.rkllm.history
    return "runtime" if FORGETFUL.search(model) else "client"


def check_release(settings: Settings, release: str, family: str) -> None:
    """Raises ModelError where the settings ask for what the release does not have."""
    wants = settings.rkllm
    for asked, missing, since in (
        ("native_tools", wants.native_tools and family in "CDE", "1.2.1"),
        ('template = "runtime"', wants.template == "runtime" and family == "C", "1.2.0"),
    ):
        if missing:
            hint = "Leave it off, or take a newer library."
            raise ModelError(f"{asked} needs release {since} or later; this library is {release}.", hint)


def find_template(settings: Settings, model: Path) -> Template:
    """The template by its name, by the model's file name, or from a Jinja file. Raises ConfigError."""
    named = settings.rkllm.template
    found = choose_template(named, model.name)
    if found:
        return found
    if source := read_source(named):
        return jinja_template(source, today=date.today())
    what = f'There is no template "{named}"' if named != "auto" else f"The name {model.name} does not tell its template"
    rows = ", ".join(TEMPLATES)
    raise ConfigError(f"{what}.", f"Set template under [rkllm]: {rows}, a Jinja file, or runtime.")


def read_source(named: str) -> str:
    """The text of a template that is a Jinja file; "" for any other."""
    path = Path(named).expanduser()
    return path.read_text(encoding="utf-8") if named not in TEMPLATES and path.is_file() else ""
