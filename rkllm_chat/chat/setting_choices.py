"""Settings whose values are rows of a table: which values each one has."""

from __future__ import annotations

from collections.abc import Sequence

from ..backends import BACKENDS, check_backend
from ..calls.formats import FORMATS, load_format
from ..calls.model_families import AUTO
from ..config.settings import Settings
from ..core import i18n
from ..core.errors import UsageError
from ..prompt.profiles import PROFILES


def list_choices() -> dict[str, Sequence[str]]:
    """Return the accepted values by the key of `[chat]`."""
    languages = [i18n.AUTO, *i18n.list_languages()]
    return {
        "language": languages,
        "prompt_profile": [AUTO, *PROFILES],
        "tool_format": [AUTO, *FORMATS],
        "backend": ["auto", *BACKENDS],
    }


def check_setting_choices(settings: Settings) -> None:
    """Import the plugins that the settings name.

    Raises:
        UsageError: A setting has none of its accepted values, and there is no plugin with that name.
        ConfigError: A plugin cannot be loaded.
    """
    load_format(settings.tool_format, (AUTO,))
    check_backend(settings.backend)
    for key, known in list_choices().items():
        if key == "backend":
            continue
        if (value := getattr(settings, key)) not in known:
            raise UsageError(f'Unknown {key.replace("_", " ")} "{value}".', f"Known values: {', '.join(known)}.")
