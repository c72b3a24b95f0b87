"""JSON-RPC envelopes (2.0): how one is written, what is wrong with one, whose answer a broken one was. It is pure."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Any

from mcp_types import JSONRPCMessage, JSONRPCNotification, RequestId, jsonrpc_message_adapter

from .lines import LONGEST, MB, check_depth, mend

ID = re.compile(rb'"id"\s*:\s*(-?\d{1,18}(?=[\s,}])|"[^"\\]{0,200}")')
METHOD = re.compile(rb'"method"\s*:')
BODY = re.compile(rb'"(?:result|error)"\s*:')
END = 256

Kind = tuple[str, str, str, str]


def encode(message: JSONRPCMessage) -> tuple[JSONRPCMessage, str]:
    """The message as it may be sent, and as JSON. Raises ValueError, in words, for what JSON cannot hold."""
    try:
        data = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        check_depth(data)
        data = mend(data)
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(str(error).splitlines()[0]) from error
    if len(text) > LONGEST:
        raise ValueError(f"message too large ({len(text) / MB:.0f} MB), limit {LONGEST // MB} MB")
    return jsonrpc_message_adapter.validate_python(data, by_name=False), text


def decode(value: dict[str, Any]) -> JSONRPCMessage:
    """The message that a JSON object is. Raises ValueError that says why it is none."""
    if value.get("jsonrpc") != "2.0":
        raise ValueError("it is no JSON-RPC 2.0")
    if "result" in value and "error" in value:
        # some servers write both, one of them as null (JSON-RPC 2.0, 5: either, not both)
        value = {key: item for key, item in value.items() if key not in ("result", "error") or item is not None}
    if "result" in value and "error" in value:
        raise ValueError("it has a result and an error")
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        raise ValueError(explain_invalid(value)) from None


def explain_invalid(value: dict[str, Any]) -> str:
    if "result" not in value and "error" not in value:
        return "it is no JSON-RPC message"
    if type(value.get("id")) not in (int, str):
        return f"its id is {value.get('id')!r}"
    return "its result is no object" if "result" in value else "its error is none"


def name_kind(message: JSONRPCNotification) -> Kind:
    """What makes two notifications the same kind: the newer one says all that the older one said."""
    params = message.params or {}
    token, asked, uri = (params.get(name) for name in ("progressToken", "requestId", "uri"))
    return (message.method, repr(token), repr(asked), repr(uri))


def could_be_answer(line: bytes) -> bool:
    """Whether text that is no JSON was meant as an answer: it begins with a bracket, what people are told does not."""
    text = line.replace(b"\0", b"").lstrip()
    return text[:1] in (b"{", b"[") and b'"jsonrpc"' in text


def find_id(line: bytes, pending: Container[RequestId], otherwise: RequestId | None) -> RequestId | None:
    """The request among those `pending` that a broken answer is for: by the id before or behind its body.

    `otherwise` where it says none; None where it is for nobody, or a request of the server's.
    """
    body = BODY.search(line)
    before = body.start() if body else len(line)
    if METHOD.search(line, 0, before):
        return None
    found = ID.search(line, 0, before)
    behind = [] if found else ID.findall(line[-END:])
    if not found and not behind:
        return otherwise
    asked = read_id(found[1] if found else behind[-1])
    return asked if asked in pending else None if found else otherwise


def read_id(text: bytes) -> RequestId:
    return text[1:-1].decode("utf-8", errors="replace") if text.startswith(b'"') else int(text)
