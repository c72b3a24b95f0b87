"""Put the pages of the documentation into the wheel: `rkllm-chat help WORDS` searches and shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds `docs/*.md`, without the pictures and the manual page, which has its own place.

    The questions are in the package already (`tui/questions`), from which their pages are made.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, unless the checkout itself is installed."""
        if version != "editable":
            pages = [page for page in (Path(self.root) / "docs").glob("*.md") if not page.name.startswith("questions.")]
            build_data["force_include"].update({str(page): f"rkllm_chat/docs/{page.name}" for page in pages})
