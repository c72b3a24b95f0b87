"""A call format: a JSON object between `<<call` and `call>>`."""

from __future__ import annotations

from rkllm_chat.calls.formats import Format
from rkllm_chat.calls.formats.json_calls import json_reader
from rkllm_chat.calls.formats.render import json_renderer

ANGLE = Format("angle", json_renderer("<<call ", " call>>"), {"<<call": json_reader(("call>>",))}, ("call>>",))
