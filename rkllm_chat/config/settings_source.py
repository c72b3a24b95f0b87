"""Where the settings come from: read them again, and notice changed files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .settings import Settings


class SettingsSource:
    """Source of the settings, which can be read again and report changed files.

    Args:
        read: Loads the settings, for the session to resume that the user has picked or "".
        when_changed: Returns the modification times of the configuration files.
        diagnose: Returns the rows of `rkllm-chat doctor` for its command-line arguments; None if there is none.
        own_file: The configuration file that changed settings are saved to.
        only_file: The only configuration file that is read; "" if all are.
    """

    def __init__(
        self,
        read: Callable[[str], Settings],
        when_changed: Callable[[], Mapping[str, int]],
        diagnose: Callable[[Sequence[str]], Sequence[tuple[str, ...]]] | None = None,
        own_file: Path = Path(),
        only_file: str = "",
    ) -> None:
        self._read, self._when_changed = read, when_changed
        self.diagnose, self.own_file, self.only_file = diagnose, own_file, only_file
        self._seen = when_changed()

    def read(self, session: str = "") -> Settings:
        """Load the current settings, to resume a session that the user has picked.

        Raises:
            ConfigError: A file is invalid.
        """
        self._seen = self._when_changed()
        return self._read(session)

    def has_changed(self) -> bool:
        """Return whether a file changed since the last call."""
        seen, self._seen = self._seen, self._when_changed()
        return seen != self._seen
