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
MAX_DEFAULT_CONTEXT_TOKENS = 8192
"""Largest context window of a model for which the settings name none, and the largest that a folder may set then."""


def _is_model_file(value: str, _current: str) -> bool:
    """Tell whether a model is a file of an engine: no URL, and no script or session that calls tools by itself."""
    return not value or (":" not in value and value.lower().endswith(MODEL_SUFFIXES))


def _is_projector_file(value: str, _current: str) -> bool:
    """Tell whether a projector is a file of llama.cpp, or none."""
    return value in ("", "none") or (":" not in value and value.lower().endswith(".gguf"))


def _is_no_looser(value: Mode, current: Mode) -> bool:
    from .policy import is_stricter

    return not is_stricter(current, value)


def _is_no_larger_context(value: int, current: int) -> bool:
    """Tell whether a context window takes no more memory; 0 is the model's own, up to the default."""
    return 0 < value <= current if current else value <= MAX_DEFAULT_CONTEXT_TOKENS


_ALLOWED, _ASKED, _REFUSED = Rule(Decision.ALLOWED), Rule(Decision.ASKED), Rule(Decision.REFUSED)
_NOT_ON = Rule(Decision.ALLOWED, "only `false` where you have `false`", lambda value, current: value <= current)
_NO_MORE = Rule(Decision.ALLOWED, "not above your value", lambda value, current: value <= current)


def _each(rule: Rule, *keys: str) -> dict[str, Rule]:
    return dict.fromkeys(keys, rule)


RULES: dict[str, dict[str, Rule]] = {
    "chat": {
        **_each(_ALLOWED, "family", "language", "system", "tool_format", "constrained", "max_steps"),
        **_each(_ALLOWED, "prompt_profile", "thinking", "gpu_layers"),
        **_each(_NOT_ON, "keep_secrets", "prefill_ahead", "keep_prefix", "bell"),
        **_each(_REFUSED, "models_folder", "backend", "llama_library", "key_bindings", "theme", "pictures"),
        "context_tokens": Rule(
            Decision.ALLOWED, "not above your value; without one, at most 8192", _is_no_larger_context
        ),
        "model": Rule(Decision.ASKED, "only a `.gguf` or `.rkllm` file, no URL", _is_model_file),
        "mmproj": Rule(Decision.ASKED, 'only a `.gguf` file or "none"', _is_projector_file),
    },
    "generation": _each(_ALLOWED, "temperature", "top_k", "top_p", "min_p", "max_tokens", "repeat_penalty", "seed"),
    "rkllm": {
        **_each(_ALLOWED, "history", "native_tools", "base_domain_id", "cpus", "embed_flash", "timeout_s"),
        **_each(_REFUSED, "library", "layout", "template", "encoder", "lora", "lora_scale"),
        "prompt_cache": _NOT_ON,
    },
    "openai": _each(_REFUSED, "model", "key_env", "api", "template", "native_tools", "images", "first_s", "timeout_s"),
    "policy": {
        "approve": Rule(Decision.ALLOWED, "only a mode that is at least as strict as yours", _is_no_looser),
        "allow": Rule(Decision.ALLOWED, "only an empty list", lambda value, _: not value),
        "deny": Rule(Decision.ALLOWED, "added to your patterns", lambda _value, _current: True),
        "max_calls": _NO_MORE,
    },
    "servers": {
        **_each(_ASKED, "name", "command", "args", "env", "cwd", "url", "headers", "allow_insecure", "oauth"),
        **_each(_ASKED, "transport", "sandbox", "write", "network", "roots"),
        **_each(_ALLOWED, "timeout_s", "tool_timeouts", "connect_s", "ping_s", "idle_s", "log_level", "enabled"),
        **_each(_ALLOWED, "instructions", "tools_allow", "tools_deny", "ignored_keys"),
        "trust": Rule(Decision.ALLOWED, '`"ask"` or `"off"`', lambda value, _: value != "trusted"),
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
