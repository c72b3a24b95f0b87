"""What is said to a server and which answer belongs to it: JSON-RPC 2.0 and MCP, in dictionaries. It moves no bytes.

Source: the MCP specification, revisions 2024-11-05 to 2025-11-25 (lifecycle) and 2026-07-28 (stateless requests).
"""

from __future__ import annotations

from .. import __version__
from ..errors import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWEST = "2025-11-25"
STATELESS = "2026-07-28"
KNOWN = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST)
CLIENT = {"name": "rkllm_chat", "version": __version__}
NOT_FOUND = -32601
PREFIX = "io.modelcontextprotocol/"


class Elsewhere(Exception):  # noqa: N818 - it is no error
    """This server speaks in a way that is spoken in `servers/` alone. Nothing has been done yet."""


class Talk:
    """One conversation. `version` is the protocol's once it is agreed on; `answer` the answer to the last question."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.version = ""
        self.answer: dict[str, Any] | None = None
        self._asked = 0

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The message of a request; in the stateless form it says with every question who asks."""
        self.answer = None
        self._asked += 1
        if self.version == STATELESS:
            meta = {"protocolVersion": STATELESS, "clientInfo": CLIENT, "clientCapabilities": {}}
            params = {**params, "_meta": {f"{PREFIX}{key}": value for key, value in meta.items()}}
        return {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}

    def begin(self) -> dict[str, Any]:
        """The first question of a session."""
        return self.ask("initialize", {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": CLIENT})

    def agree(self, result: dict[str, Any]) -> dict[str, Any]:
        """Takes the answer to `begin`; gives what has to be told next. Raises ProtocolError for an unknown version."""
        version = result.get("protocolVersion")
        if version not in KNOWN:
            known = ", ".join(KNOWN)
            raise ProtocolError(
                f'Server "{self.server}" speaks protocol version {version!r}.', f"Known here are {known}.", got=version
            )
        self.version = version
        return {"jsonrpc": "2.0", "method": "notifications/initialized"}

    def take(self, value: Any) -> dict[str, Any] | None:
        """Takes a JSON value that came; gives the reply if it was a question. Whatever is no answer to us is passed."""
        if isinstance(value, list):  # a batch (2025-03-26)
            replies = [self.take(item) for item in value]
            return next((reply for reply in replies if reply), None)
        if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
            return None
        if "method" in value:
            return self._reply(value) if "id" in value else None
        is_ours = value.get("id") in (self._asked, str(self._asked)) and value.keys() & {"result", "error"}
        is_unread = value.get("id") is None and isinstance(value.get("error"), dict)  # it could not read who asked
        if is_ours or is_unread:
            self.answer = value
        return None

    def _reply(self, value: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": value["id"]}
        if value["method"] == "ping":
            return {**reply, "result": {}}
        return {**reply, "error": {"code": NOT_FOUND, "message": "This client does not offer that."}}

    def read_result(self, method: str) -> dict[str, Any]:
        """The result in the answer. Raises ProtocolError for an error, and for what is neither."""
        answer, server = self.answer or {}, self.server
        error = answer.get("error")
        if isinstance(error, dict):
            code, said = error.get("code"), str(error.get("message", ""))[:300]
            text = f'Server "{server}" answered with error {code}: {said}'
            raise ProtocolError(text, server=server, method=method, code=code, data=error.get("data"))
        result = answer.get("result")
        if not isinstance(result, dict):
            raise ProtocolError(f'Server "{server}" broke the protocol: its result is no object.', server=server)
        kind = result.get("resultType", "complete")
        if kind != "complete":
            reason = f"asks for more ({kind}), which a one-shot command cannot give"
            raise ProtocolError(f'Server "{server}" {reason}.', "Use it in the chat.", server=server, got=kind)
        return result
