"""Settings whose values are rows of a table: which values each one has."""

from __future__ import annotations

from collections.abc import Sequence

from ..backends import BACKENDS
from ..calls.formats import FORMATS
from ..calls.model_families import AUTO
from ..config.settings import Settings
from ..core import i18n
from ..core.errors import UsageError


def list_choices() -> dict[str, Sequence[str]]:
    """Return the accepted values by the key of `[chat]`."""
    languages = [i18n.AUTO, *i18n.list_languages()]
    return {
        "language": languages,
        "prompt_language": languages,
        "tool_format": [AUTO, *FORMATS],
        "backend": ["auto", *BACKENDS],
    }


def check_choices(settings: Settings) -> None:
    """Raise UsageError for a setting that has none of its accepted values."""
    for key, known in list_choices().items():
        if (value := getattr(settings, key)) not in known:
            raise UsageError(f'Unknown {key.replace("_", " ")} "{value}".', f"Known values: {', '.join(known)}.")
