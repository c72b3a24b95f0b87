"""Errors of the API: HTTP status, kind and message, without anything private of this machine."""

from __future__ import annotations

import logging
from typing import Any

from ..core.errors import ChatError, ConfigError, GenerationError, ModelError, NotSupportedError, TimeLimitError

log = logging.getLogger(__name__)


class ApiError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: HTTP status.
        message: What happened, for the client.
        kind: Type of the error in OpenAI's shape.
        param: The field of the request that is wrong; "" if none is.
        code: Code that programs can act on; "" if there is none.
        retry_after_s: Seconds after which the client may try again; 0 if that is unknown.
    """

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        param: str = "",
        code: str = "",
        retry_after_s: int = 0,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind
        self.param, self.code, self.retry_after_s = param, code, retry_after_s

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": str(self.retry_after_s)} if self.retry_after_s else {}

    def describe(self) -> dict[str, Any]:
        """Return the error in OpenAI's shape."""
        details = {"type": self.kind, "param": self.param or None, "code": self.code or None}
        return {"error": {"message": self.message, **details}}


def to_api_error(error: Exception) -> ApiError:
    """Return what a client is told about an error; details that are not for clients go to the log."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, GenerationError) and "available" in error.details:
        param = f"input.{error.details['index']}" if "index" in error.details else "messages"
        return ApiError(400, error.message, param=param, code="context_length_exceeded")
    if isinstance(error, NotSupportedError):
        return ApiError(400, str(error), code="not_supported")
    if isinstance(error, TimeLimitError):
        return ApiError(504, error.message, "server_error", code="timeout")
    if isinstance(error, ModelError | ConfigError):
        log.warning("%s", error)
        message = "The model cannot be loaded; the server's log says why."
        return ApiError(503, message, "server_error", code="model_unavailable")
    if isinstance(error, ChatError):
        log.warning("%s", error)
    else:
        log.error("A request failed.", exc_info=error)
    return ApiError(500, "The model failed while it answered; the server's log says why.", "server_error")
