"""An OpenAI-compatible service: one question, one answer, whole. It knows no MCP.

No redirect is followed and no more than LONGEST bytes are read. What goes wrong is said in words in which the key is
never seen. Only what the service did not begin to answer is asked again.
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

from ...config import ServerConfig
from ...errors import ChatError
from ...redact import HIDDEN
from ...servers.addresses import check_address, is_loopback
from ...servers.caller import Body, UnreadableError
from ..turns import Doing

CONNECT_S = 10.0
MOST_AT_ONCE = 4
MOST_RETRIES = 2
PATIENCE_S = 10.0
SHOWN = 500
BUSY = (429, 503)


class ServiceError(Exception):
    """There is no answer; the text says why."""


@dataclass(frozen=True)
class Answer:
    """What the service wrote. `complete`: it was not cut at its limit. Tokens are 0 where they are not reported."""

    text: str
    model: str
    complete: bool
    prompt_tokens: int
    completion_tokens: int


class Service:
    """Asks one model of one service. `url` is where chats are completed; `key` "" sends none."""

    def __init__(self, url: str, model: str, key: str, key_variable: str, timeout_s: float) -> None:
        self.model = model
        self._url, self._key, self._variable, self._timeout_s = url, key, key_variable, timeout_s
        self._host = urlsplit(url).netloc
        self._room = anyio.Semaphore(MOST_AT_ONCE)

    async def ask(
        self, messages: Sequence[Mapping[str, str]], max_tokens: int, temperature: float | None, doing: Doing
    ) -> Answer:
        """Raises ServiceError."""
        waits = f"waits for {self.model} at {self._host}"
        doing.say(waits if self._room.value else f"waits for {MOST_AT_ONCE} before it")
        wanted: dict[str, Any] = {"model": self.model, "messages": list(messages), "max_tokens": max_tokens}
        if temperature is not None:
            wanted["temperature"] = temperature
        async with self._room:
            doing.say(waits)
            try:
                with anyio.fail_after(self._timeout_s):
                    return self._read(*await self._send(wanted, doing))
            except TimeoutError:
                raise ServiceError(f"{self._host} did not answer within {self._timeout_s:g} seconds.") from None
            except httpx2.ConnectError as error:
                raise ServiceError(f"{self._host} cannot be reached: {self._hide(str(error))}.") from None
            except (httpx2.HTTPError, UnreadableError) as error:
                said = self._hide(str(error)) or type(error).__name__
                raise ServiceError(f"The answer of {self._host} was cut off: {said}.") from None
            except ChatError as error:  # where the URL leads
                raise ServiceError(str(error)) from None

    async def _send(self, wanted: dict[str, Any], doing: Doing) -> tuple[httpx2.Response, bytes]:
        """The response with its body; again where it is too busy, or wants a limit under its newer name."""
        await check_address(ServerConfig("remote", url=self._url))
        async with self._open() as client:
            for retry in range(MOST_RETRIES + 1):
                response, body = await self._send_once(client, wanted)
                wait_s = read_patience(response, retry)
                if response.status_code == 400 and b"max_completion_tokens" in body and "max_tokens" in wanted:
                    wanted["max_completion_tokens"] = wanted.pop("max_tokens")
                elif response.status_code in BUSY and wait_s <= PATIENCE_S and retry < MOST_RETRIES:
                    doing.say(f"{self._host} is busy; asks again in {wait_s:g} s")
                    await anyio.sleep(wait_s)
                    doing.say(f"waits for {self.model} at {self._host}")
                else:
                    break
            return response, body

    def _open(self) -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        return httpx2.AsyncClient(
            headers={**headers, "accept": "application/json", "accept-encoding": "gzip"},
            timeout=httpx2.Timeout(CONNECT_S, read=self._timeout_s, write=self._timeout_s),
            follow_redirects=False,
            verify=httpx2.create_ssl_context(),
            trust_env=not is_loopback(self._url),  # which is its proxies
        )

    async def _send_once(self, client: httpx2.AsyncClient, wanted: Mapping[str, Any]) -> tuple[httpx2.Response, bytes]:
        data = json.dumps(wanted).encode()
        request = client.build_request("POST", self._url, content=data, headers={"content-type": "application/json"})
        response = await client.send(request, stream=True)
        try:
            return response, await Body(response).read_all()
        finally:
            await response.aclose()

    def _read(self, response: httpx2.Response, body: bytes) -> Answer:
        """Raises ServiceError for what is no answer."""
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if response.status_code != 200:
            raise ServiceError(self._explain(response, self._hide(read_error(value, body))))
        try:
            choice = value["choices"][0]
            text = read_content(choice["message"])
        except (KeyError, IndexError, TypeError):
            head = self._hide(body[:SHOWN].decode("utf-8", errors="replace"))
            raise ServiceError(f"What {self._host} sent is no answer; it begins: {head}") from None
        usage = value.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        return Answer(
            text=text,
            model=value["model"] if isinstance(value.get("model"), str) else self.model,
            complete=choice.get("finish_reason") != "length",
            prompt_tokens=count(usage.get("prompt_tokens")),
            completion_tokens=count(usage.get("completion_tokens")),
        )

    def _explain(self, response: httpx2.Response, said: str) -> str:
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
        return f"{cause}: {said}" if said else f"{cause}."

    def _hide(self, text: str) -> str:
        """The text without the key: some services repeat it."""
        return text.replace(self._key, HIDDEN) if self._key else text


def read_patience(response: httpx2.Response, retry: int) -> float:
    """How long to wait before asking again: as the service says, else 1 s, 2 s."""
    said = response.headers.get("retry-after", "").strip()
    if not said:
        return float(2**retry)
    return float(said) if said.isdecimal() else math.inf


def read_content(message: Mapping[str, Any]) -> str:
    """The text of a message: as it is, or in parts. Raises TypeError where it has none."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str):
        raise TypeError("no content")
    return content


def read_error(value: Any, body: bytes) -> str:
    """What the service says of an error, in any of the usual forms."""
    error = value.get("error", value.get("detail")) if isinstance(value, dict) else None
    said = error.get("message") if isinstance(error, dict) else error
    if isinstance(said, str):
        return said[:SHOWN]
    return body[:SHOWN].decode("utf-8", errors="replace").strip()


def count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
