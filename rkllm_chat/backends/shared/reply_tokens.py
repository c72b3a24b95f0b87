"""The tokens of replies, in a file beside the state of their conversation, for the next start of the program.

A grammar makes a model write tokens that its text would not be split into. Without them the next program would find
nothing of the conversation behind the first such reply.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...core.file_writes import replace_file
from ...core.private_files import explain_open_error, open_folder, read_private

_NAME, _MAX_BYTES = "replies.json", 1 << 20

_log = logging.getLogger(__name__)


def write_replies(folder: Path, replies: Mapping[str, Sequence[int]]) -> None:
    """Write the token ids of replies, by text, into a folder that exists; a failure costs time, and is logged."""
    data, path = json.dumps(replies).encode(), folder / _NAME
    try:
        with open_folder(folder):
            if replies and len(data) <= _MAX_BYTES:
                replace_file(path, data)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("The tokens of replies are not kept in %s: %s", folder, explain_open_error(error))


def read_replies(folder: Path) -> dict[str, list[int]]:
    """Return the token ids of replies, by text, that a folder has; none of a file that is not what was written."""
    try:
        with open_folder(folder):
            found = json.loads(read_private(folder / _NAME, _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return {text: ids for text, ids in found.items() if _are_ids(ids)} if isinstance(found, dict) else {}


def _are_ids(ids: object) -> bool:
    return isinstance(ids, list) and all(type(number) is int and number >= 0 for number in ids)
