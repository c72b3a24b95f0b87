"""The models to download that `models pull` lists and `/model` offers, from tried_models.json."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ..chat.model_loading import ModelOffer


@cache
def list_tried() -> list[dict[str, str]]:
    """Return models to download: name, source, engine, size, memory, license, and what was measured with tools.

    `memory` is the resident memory of the program behind a first answer, with the default context; "" if not measured.
    """
    rows: list[dict[str, str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return [{"memory": "", **row} for row in rows]


def find_downloaded(row: dict[str, str], offers: Iterable[ModelOffer]) -> str | None:
    """Return the path of a model to download if this machine has it: by its file's name, or in its repository."""
    repository, _, file = row["source"].partition(":")
    return next(
        (offer.target for offer in offers if (file in offer.names if file else repository in offer.target)), None
    )
