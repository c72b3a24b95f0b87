"""Client of an OpenAI-compatible service: one question, one complete answer.

Redirects are not followed and the response size is bounded. The key never appears in error messages. Only rejected
requests are retried, never one that the service has begun to answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2

from ...config.settings import ServerConfig
from ...core.errors import ChatError
from ...core.redact import REDACTED
from ...core.retry_after import parse_retry_after
from ...mcp_client.transports.addresses import check_url, is_loopback
from ...mcp_client.transports.http_body import DecodedBody, UnreadableBodyError
from ...mcp_client.transports.tls import get_tls_context
from ..job_queue import Activity

_CONNECT_S = 10.0
_MAX_CONCURRENT = 4
_MAX_RETRIES = 2
_MAX_RETRY_WAIT_S = 10.0
_SHOWN_CHARS = 500
_BUSY_STATUSES = (429, 503)


class ServiceError(Exception):
    """The service gave no answer; the message says why."""


@dataclass(frozen=True)
class ServiceAnswer:
    """An answer of the service.

    Attributes:
        complete: False if the answer was truncated at its token limit.
        prompt_tokens: 0 if not reported.
        completion_tokens: 0 if not reported.
    """

    text: str
    model: str
    complete: bool
    prompt_tokens: int
    completion_tokens: int


class Service:
    """Client of one model of a service.

    Args:
        url: The chat completions endpoint.
        model: The name of the model.
        key: The API key; "" sends none.
        key_variable: Environment variable of the key, for error messages.
        timeout_s: Time limit of an answer in seconds, including retries.
    """

    def __init__(self, url: str, model: str, key: str, key_variable: str, timeout_s: float) -> None:
        self.model = model
        self._url, self._key, self._variable, self._timeout_s = url, key, key_variable, timeout_s
        self._host = urlsplit(url).netloc
        self._slots = anyio.Semaphore(_MAX_CONCURRENT)

    async def ask(
        self, messages: Sequence[Mapping[str, str]], max_tokens: int, temperature: float | None, activity: Activity
    ) -> ServiceAnswer:
        """Return the answer to a conversation.

        Args:
            messages: Chat messages with `role` and `content`.
            max_tokens: Limit of the answer.
            temperature: None uses the default of the service.
            activity: Receives the progress.

        Raises:
            ServiceError: The service cannot be reached, rejects the request, or answers something else.
        """
        waits = f"waits for {self.model} at {self._host}"
        activity.report(waits if self._slots.value else f"waits for {_MAX_CONCURRENT} before it")
        payload: dict[str, Any] = {"model": self.model, "messages": list(messages), "max_tokens": max_tokens}
        if temperature is not None:
            payload["temperature"] = temperature
        async with self._slots:
            activity.report(waits)
            try:
                with anyio.fail_after(self._timeout_s):
                    return self._read(*await self._send(payload, activity))
            except TimeoutError:
                raise ServiceError(f"{self._host} did not answer within {self._timeout_s:g} seconds.") from None
            except httpx2.ConnectError as error:
                raise ServiceError(f"{self._host} cannot be reached: {self._hide(str(error))}.") from None
            except (httpx2.HTTPError, UnreadableBodyError) as error:
                detail = self._hide(str(error)) or type(error).__name__
                raise ServiceError(f"The answer of {self._host} was cut off: {detail}.") from None
            except ChatError as error:  # the address is not permitted
                raise ServiceError(str(error)) from None

    async def _send(self, payload: dict[str, Any], activity: Activity) -> tuple[httpx2.Response, bytes]:
        """Send the request and read the response.

        Retries if the service is busy, and once with `max_completion_tokens`, the newer name of `max_tokens`.
        """
        await check_url(ServerConfig("remote", url=self._url))
        async with self._open() as client:
            for retry in range(_MAX_RETRIES + 1):
                response, body = await self._send_once(client, payload)
                wait_s = _retry_wait_s(response, retry)
                if response.status_code == 400 and b"max_completion_tokens" in body and "max_tokens" in payload:
                    payload["max_completion_tokens"] = payload.pop("max_tokens")
                elif response.status_code in _BUSY_STATUSES and wait_s <= _MAX_RETRY_WAIT_S and retry < _MAX_RETRIES:
                    activity.report(f"{self._host} is busy; asks again in {wait_s:g} s")
                    await anyio.sleep(wait_s)
                    activity.report(f"waits for {self.model} at {self._host}")
                else:
                    break
            return response, body

    def _open(self) -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        return httpx2.AsyncClient(
            headers={**headers, "accept": "application/json", "accept-encoding": "gzip"},
            timeout=httpx2.Timeout(_CONNECT_S, read=self._timeout_s, write=self._timeout_s),
            follow_redirects=False,
            verify=get_tls_context(),
            trust_env=not is_loopback(self._url),  # enables the proxies of the environment
        )

    async def _send_once(self, client: httpx2.AsyncClient, payload: Mapping[str, Any]) -> tuple[httpx2.Response, bytes]:
        data = json.dumps(payload).encode()
        request = client.build_request("POST", self._url, content=data, headers={"content-type": "application/json"})
        response = await client.send(request, stream=True)
        try:
            return response, await DecodedBody(response).read_all()
        finally:
            await response.aclose()

    def _read(self, response: httpx2.Response, body: bytes) -> ServiceAnswer:
        """Parse the response. Raises ServiceError if it is not an answer."""
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if response.status_code != 200:
            raise ServiceError(self._explain(response, self._hide(_read_error(value, body))))
        try:
            choice = value["choices"][0]
            text = _read_content(choice["message"])
        except (KeyError, IndexError, TypeError, AttributeError):
            head = self._hide(body[:_SHOWN_CHARS].decode("utf-8", errors="replace"))
            raise ServiceError(f"What {self._host} sent is no answer; it begins: {head}") from None
        usage = value.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        return ServiceAnswer(
            text=text,
            model=value["model"] if isinstance(value.get("model"), str) else self.model,
            complete=choice.get("finish_reason") != "length",
            prompt_tokens=read_token_count(usage.get("prompt_tokens")),
            completion_tokens=read_token_count(usage.get("completion_tokens")),
        )

    def _explain(self, response: httpx2.Response, detail: str) -> str:
        status = response.status_code
        match status:
            case 401 | 403 if self._key:
                cause = f"{self._host} does not accept the key in {self._variable} (HTTP {status})"
            case 401 | 403:
                cause = f"{self._host} wants a key (HTTP {status}); name its variable with --key-env"
            case 404:
                cause = f'{self._host} has no model "{self.model}", or no {urlsplit(self._url).path} (HTTP 404)'
            case 429 | 503:
                wait = response.headers.get("retry-after", "")
                cause = f"{self._host} is too busy (HTTP {status})" + (f"; it asks to wait {wait} s" if wait else "")
            case _ if response.is_redirect:
                place = response.headers.get("location", "")
                cause = f"{self._host} has moved to {self._hide(place)} (HTTP {status}), which is not followed"
            case _:
                cause = f"{self._host} answered with HTTP {status}"
        return f"{cause}: {detail}" if detail else f"{cause}."

    def _hide(self, text: str) -> str:
        """Redact the key; some services repeat it in errors."""
        return text.replace(self._key, REDACTED) if self._key else text


def _retry_wait_s(response: httpx2.Response, retry: int) -> float:
    """Return the seconds to wait before a retry: Retry-After, else 1, 2, 4, ..."""
    header = response.headers.get("retry-after", "").strip()
    wait_s = parse_retry_after(header) if header else float(2**retry)
    return math.inf if wait_s is None else wait_s


def _read_content(message: Mapping[str, Any]) -> str:
    """Return the text of a message, from a string or text parts. Raises TypeError if there is none."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str):
        raise TypeError("no content")
    return content


def _read_error(value: Any, body: bytes) -> str:
    """Return the error message of a response in any of the usual formats."""
    error = value.get("error", value.get("detail")) if isinstance(value, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    if isinstance(message, str):
        return message[:_SHOWN_CHARS]
    return body[:_SHOWN_CHARS].decode("utf-8", errors="replace").strip()


def read_token_count(value: Any) -> int:
    """Return a token count; 0 for anything but a non-negative integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
