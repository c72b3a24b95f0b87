"""What is said to a server and which answer belongs to it: JSON-RPC 2.0 and MCP, in dictionaries. It moves no bytes.

Source: the MCP specification, revisions 2024-11-05 to 2025-11-25 (lifecycle) and 2026-07-28 (stateless requests).
"""

from __future__ import annotations

from .. import __version__
from ..clean import clean_line
from ..errors import ProtocolError
from ..redact import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWEST = "2025-11-25"
STATELESS = "2026-07-28"
KNOWN = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST)
CLIENT = {"name": "rkllm_chat", "version": __version__}
NOT_FOUND = -32601
UNREAD = (-32700, -32600)
"""What a server answers that could not read who asked (JSON-RPC 2.0, 5.1)."""
LONGEST = 300
FIRST = 100
"""Requests are counted from here: some servers write an answer with the id 1 before they are asked anything."""
PREFIX = "io.modelcontextprotocol/"


class Elsewhere(Exception):  # noqa: N818 - it is no error
    """This server speaks in a way that is spoken in `servers/` alone. Nothing has been done yet."""


class Talk:
    """One conversation. `version` is the protocol's once it is agreed on; `answer` the answer to the last question.

    `doubt` is something like an answer, to nobody or to a question that was never asked: whoever carries the messages
    takes it for the answer if no better one comes soon.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.version = ""
        self.answer: dict[str, Any] | None = None
        self.doubt: dict[str, Any] | None = None
        self._first = self._asked = FIRST
        self._is_waiting = False

    def count_from(self, number: int) -> None:
        """Requests get the numbers behind it; others have used those before, and may be answered late."""
        if number:
            self._first, self._asked = 0, number

    def give_up(self) -> dict[str, Any] | None:
        """What is told of a question whose answer nobody waits for any more."""
        if not self._is_waiting:
            return None
        self._is_waiting = False
        params = {"requestId": self._asked, "reason": "The client has left."}
        return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The message of a request; in the stateless form it says with every question who asks."""
        self.answer = self.doubt = None
        self._asked += 1
        self._is_waiting = True
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
        answered = value.get("id")
        if answered in (self._asked, str(self._asked)):
            self.answer = value
        elif answered is None and isinstance(error := value.get("error"), dict) and error.get("code") in UNREAD:
            self.doubt = value
        elif self.version and answered not in range(self._first, self._asked):
            self.doubt = {"error": {"message": f"it answers {answered!r}, not {self._asked!r}"}}
        return None

    def _reply(self, value: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": value["id"]}
        if value["method"] == "ping":
            return {**reply, "result": {}}
        return {**reply, "error": {"code": NOT_FOUND, "message": "This client does not offer that."}}

    def read_result(self, method: str) -> dict[str, Any]:
        """The result in the answer. Raises ProtocolError for an error, and for what is neither."""
        self._is_waiting = False
        answer, server = self.answer or {}, self.server
        result, error = answer.get("result"), answer.get("error")
        if error is not None:
            raise self._explain(error if isinstance(error, dict) else {"message": error}, method)
        if not isinstance(result, dict):
            raise ProtocolError(f'Server "{server}" broke the protocol: its result is no object.', server=server)
        kind = result.get("resultType", "complete")
        if kind == "input_required":
            text = f'Server "{server}" asks its user for more, which a one-shot command cannot give.'
            raise ProtocolError(text, "Use it in the chat.", server=server, got=kind)
        if kind != "complete":
            text = f'Server "{server}" broke the protocol: its result is of an unknown type, {str(kind)[:40]!r}.'
            raise ProtocolError(text, server=server, got=str(kind)[:40])
        return result

    def _explain(self, error: dict[str, Any], method: str) -> ProtocolError:
        """What a server's error answer is for our user."""
        code, said = error.get("code"), clean_line(cut(str(error.get("message", "")), LONGEST))
        number = f"error {code}" if isinstance(code, int) else "an error"
        text = f'Server "{self.server}" answered with {number}: {said}'
        return ProtocolError(text, server=self.server, method=method, code=code, data=error.get("data"))
