"""A call format: a JSON object between `<<call` and `call>>`."""

from __future__ import annotations

from rkllm_chat.calls.formats import Format
from rkllm_chat.calls.formats.layout import json_call

ANGLE = Format("angle", json_call("<<call ", " call>>"))
