"""RULES: which origin of a configuration may set which key. No other place decides that.

The author of a folder is untrusted. A file of a folder may name servers and a local model, which the user is asked
about, and make settings stricter or make harmless choices. It sets nothing else that the program talks to, reads or
runs.

One-shot commands import this module before they start a server, so it imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .policy import Mode

    Condition = Callable[[Any, Any], bool]
    """Predicate of a new value and the value that it would replace."""


class Origin(Enum):
    """Where a value of the configuration comes from."""

    BUILT_IN = "built in"
    USER = "user"
    COMMAND_LINE = "command line"
    OTHER_PROGRAM = "other program"
    PROJECT = "project"


class Decision(Enum):
    """What happens to a value of some origin."""

    ALLOWED = "allowed"
    ASKED = "asked"
    REFUSED = "refused"


class Rule:
    """The rule of one key for files of a project.

    Attributes:
        decision: What happens to values that satisfy the condition; all others are refused.
        words: The condition in words, for the documentation; "" if there is none.
    """

    def __init__(self, decision: Decision, words: str = "", condition: Condition | None = None) -> None:
        self.decision, self.words, self._condition = decision, words, condition

    def decide(self, value: Any, current: Any) -> Decision:
        """Decide about a value that would replace the current one."""
        is_met = self._condition is None or self._condition(value, current)
        return self.decision if is_met else Decision.REFUSED


MODEL_SUFFIXES = (".gguf", ".rkllm")


def _is_model_file(value: str, _current: str) -> bool:
    """Tell whether a model is a file of an engine: no URL, and no script or session that calls tools by itself."""
    return not value or (":" not in value and value.lower().endswith(MODEL_SUFFIXES))


def _is_projector_file(value: str, _current: str) -> bool:
    """Tell whether a projector is a file of llama.cpp, or none."""
    return value in ("", "none") or (":" not in value and value.lower().endswith(".gguf"))


def _is_no_looser(value: Mode, current: Mode) -> bool:
    from .policy import is_stricter

    return not is_stricter(current, value)


_ALLOWED, _ASKED, _REFUSED = Rule(Decision.ALLOWED), Rule(Decision.ASKED), Rule(Decision.REFUSED)
_NOT_ON = Rule(Decision.ALLOWED, "only `false` where you have `false`", lambda value, current: value <= current)
_NO_MORE = Rule(Decision.ALLOWED, "not above your value", lambda value, current: value <= current)

RULES: dict[str, dict[str, Rule]] = {
    "chat": {
        "model": Rule(Decision.ASKED, "only a `.gguf` or `.rkllm` file, no URL", _is_model_file),
        "family": _ALLOWED,
        "models_folder": _REFUSED,
        "backend": _REFUSED,
        "language": _ALLOWED,
        "system": _ALLOWED,
        "tool_format": _ALLOWED,
        "constrained": _ALLOWED,
        "max_steps": _ALLOWED,
        "context_tokens": _ALLOWED,
        "prompt_profile": _ALLOWED,
        "thinking": _ALLOWED,
        "keep_secrets": _NOT_ON,
        "prefill_ahead": _NOT_ON,
        "keep_prefix": _NOT_ON,
        "llama_library": _REFUSED,
        "gpu_layers": _ALLOWED,
        "mmproj": Rule(Decision.ASKED, 'only a `.gguf` file or "none"', _is_projector_file),
        "key_bindings": _REFUSED,
        "theme": _REFUSED,
        "pictures": _REFUSED,
        "bell": _NOT_ON,
    },
    "generation": {
        "temperature": _ALLOWED,
        "top_k": _ALLOWED,
        "top_p": _ALLOWED,
        "min_p": _ALLOWED,
        "max_tokens": _ALLOWED,
        "repeat_penalty": _ALLOWED,
        "seed": _ALLOWED,
    },
    "rkllm": {
        "library": _REFUSED,
        "layout": _REFUSED,
        "template": _REFUSED,
        "history": _ALLOWED,
        "native_tools": _ALLOWED,
        "prompt_cache": _NOT_ON,
        "base_domain_id": _ALLOWED,
        "cpus": _ALLOWED,
        "embed_flash": _ALLOWED,
        "encoder": _REFUSED,
        "lora": _REFUSED,
        "lora_scale": _REFUSED,
        "timeout_s": _ALLOWED,
    },
    "openai": {
        "model": _REFUSED,
        "key_env": _REFUSED,
        "api": _REFUSED,
        "template": _REFUSED,
        "native_tools": _REFUSED,
        "images": _REFUSED,
        "first_s": _REFUSED,
        "timeout_s": _REFUSED,
    },
    "policy": {
        "approve": Rule(Decision.ALLOWED, "only a mode that is at least as strict as yours", _is_no_looser),
        "allow": Rule(Decision.ALLOWED, "only an empty list", lambda value, _: not value),
        "deny": Rule(Decision.ALLOWED, "added to your patterns", lambda _value, _current: True),
        "max_calls": _NO_MORE,
    },
    "servers": {
        "name": _ASKED,
        "command": _ASKED,
        "args": _ASKED,
        "env": _ASKED,
        "cwd": _ASKED,
        "url": _ASKED,
        "headers": _ASKED,
        "allow_insecure": _ASKED,
        "oauth": _ASKED,
        "transport": _ASKED,
        "timeout_s": _ALLOWED,
        "tool_timeouts": _ALLOWED,
        "connect_s": _ALLOWED,
        "ping_s": _ALLOWED,
        "idle_s": _ALLOWED,
        "log_level": _ALLOWED,
        "enabled": _ALLOWED,
        "trust": Rule(Decision.ALLOWED, '`"ask"` or `"off"`', lambda value, _: value != "trusted"),
        "sandbox": _ASKED,
        "write": _ASKED,
        "network": _ASKED,
        "roots": _ASKED,
        "instructions": _ALLOWED,
        "tools_allow": _ALLOWED,
        "tools_deny": _ALLOWED,
    },
}
"""Rule by table and key for files of a project."""


def decide(origin: Origin, table: str, key: str, value: Any, current: Any) -> Decision:
    """Decide whether a value of an origin is used.

    Args:
        origin: Where the value comes from.
        table: Table of RULES.
        key: Key of the table.
        value: The value.
        current: The value that it would replace.
    """
    if origin is Origin.PROJECT:
        if table != "servers" and isinstance(value, str) and "${" in value:
            return Decision.REFUSED  # expanded, it would tell a value of the environment to a model or a server
        return RULES[table][key].decide(value, current)
    if origin is Origin.OTHER_PROGRAM and table != "servers":
        return Decision.REFUSED
    return Decision.ALLOWED


def inherits(origin: Origin, base: Origin) -> bool:
    """Tell whether a server gets the env and headers of another entry with its name, which it replaces.

    Args:
        origin: Origin of the server.
        base: Origin of the replaced entry.
    """
    return origin is not Origin.PROJECT or base is Origin.PROJECT
