"""Five hundred requests of all kinds to the API server, by four clients at once: memory, drift, fairness, and leaving.

RKLLM_CHAT_BENCH_MODEL names the GGUF; without it, the small model that ships answers. RKLLM_CHAT_BENCH_REQUESTS is
another number of requests. Each client sends its next request as soon as it has its answer, leaves a part of its
streams, and continues a conversation of its own in between.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from mcp_servers.serving import Served, serve
from rkllm_chat.api_server.request_queue import MAX_OVERTAKEN
from rkllm_chat.backends.shared.model_files import find_shipped_model

from .figures import Figure, Goal
from .real_model import MODEL_VARIABLE
from .screen import resident_mb

CLIENTS, REQUESTS = 4, int(os.environ.get("RKLLM_CHAT_BENCH_REQUESTS", "500"))
TENTH = REQUESTS // 10
RELEASES = 5
TOKENS, LIMIT_S, MAX_TURNS, CONTEXT = 6, 300.0, 4, 1024
PREFILL_WORDS = 220
"""Of four tokens each, which fit into the context."""
KEPT = ("--states-mb", "4")
"""States of other conversations are bounded by an option; here so that they are full before memory is measured."""
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "sum", "schema": SCHEMA}}
CHAT, TEXT, GENERATE, OLLAMA = "/v1/chat/completions", "/v1/completions", "/api/generate", "/api/chat"


def base_url(server: Served) -> str:
    return f"http://127.0.0.1:{server.port}"


def serve_api(model: Path, home: Path, *options: str) -> AbstractContextManager[Served]:
    """Run the API server with a model, on a free port."""
    words = ("--no-token", "--model", str(model), "--context", str(CONTEXT), *options)
    return serve("openai", *words, port_option="--port", env={**os.environ, "HOME": str(home)})


@dataclass
class Run:
    """What came of the requests, in the order in which they ended.

    Attributes:
        statuses: How many answers had a status; "left" for streams that a client left.
        seconds: Time of each answer.
        overtaken: How many answers others had meanwhile.
        by_client: Seconds that each client waited.
        memory: Megabytes of the server after each answer.
        files: Open files of the server after each answer.
    """

    server: Served
    statuses: Counter[str] = field(default_factory=Counter[str])
    seconds: list[float] = field(default_factory=list[float])
    overtaken: list[int] = field(default_factory=list[int])
    by_client: Counter[int] = field(default_factory=Counter[int])
    memory: list[float] = field(default_factory=list[float])
    files: list[int] = field(default_factory=list[int])
    started: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> int | None:
        """The number of the next request; None where all are sent."""
        with self.lock:
            self.started += 1
            return self.started - 1 if self.started <= REQUESTS else None

    def record(self, client: int, status: str, seconds: float, overtaken: int) -> None:
        with self.lock:
            self.statuses[status] += 1
            self.seconds.append(seconds)
            self.overtaken.append(overtaken)
            self.by_client[client] += round(1000 * seconds)
            self.memory.append(resident_mb(self.server.process.pid))
            self.files.append(len(list(Path(f"/proc/{self.server.process.pid}/fd").iterdir())))


class Client:
    """One client, with a conversation of its own."""

    def __init__(self, number: int, run: Run) -> None:
        self._number, self._run, self._random = number, run, random.Random(number)
        self._talk: list[dict[str, str]] = []
        self._http = httpx.Client(base_url=base_url(run.server), timeout=LIMIT_S)
        kinds = (self.whole, self.stream, self.call, self.talk, self.ollama, self.raw, self.several, self.value)
        self._kinds: tuple[Callable[[str], str], ...] = (*kinds, self.leave, self.mistake)

    def work(self) -> None:
        while (number := self._run.take()) is not None:
            begun, before = time.perf_counter(), len(self._run.seconds)
            status = self._random.choice(self._kinds)(f"Question {number}: what is {number} + 1?")
            seconds, others = time.perf_counter() - begun, len(self._run.seconds) - before
            self._run.record(self._number, status, seconds, others)

    def _post(self, path: str, **body: Any) -> str:
        return str(self._http.post(path, json=body).status_code)

    def _chat(self, question: str, **fields: Any) -> str:
        return self._post(CHAT, messages=[{"role": "user", "content": question}], max_tokens=TOKENS, **fields)

    def whole(self, question: str) -> str:
        return self._chat(question)

    def stream(self, question: str) -> str:
        return self._chat(question, stream=True)

    def call(self, question: str) -> str:
        return self._chat(question, tools=[TOOL], stream=True)

    def value(self, question: str) -> str:
        return self._chat(question, response_format=FORMAT)

    def talk(self, question: str) -> str:
        self._talk = self._talk[:0] if len(self._talk) >= 2 * MAX_TURNS else self._talk
        self._talk.append({"role": "user", "content": question})
        answer = self._http.post(CHAT, json={"messages": self._talk, "max_tokens": TOKENS})
        text = answer.json()["choices"][0]["message"]["content"]
        self._talk.append({"role": "assistant", "content": text})
        return str(answer.status_code)

    def ollama(self, question: str) -> str:
        messages = [{"role": "user", "content": question}]
        return self._post(OLLAMA, model="m", messages=messages, options={"num_predict": TOKENS})

    def raw(self, question: str) -> str:
        return self._post(GENERATE, model="m", prompt=question, raw=True, stream=False, options={"num_predict": TOKENS})

    def several(self, question: str) -> str:
        return self._post(TEXT, prompt=[question, f"{question} "], max_tokens=TOKENS // 2, n=2, logprobs=1)

    def leave(self, question: str) -> str:
        body = {"messages": [{"role": "user", "content": f"Tell a long story. {question}"}], "stream": True}
        with self._http.stream("POST", CHAT, json={**body, "max_tokens": 200}) as answer:
            next(line for line in answer.iter_lines() if '"content"' in line)
        return "left"

    def mistake(self, _question: str) -> str:
        return self._post(CHAT, messages=[])


def mixed_requests() -> list[Figure]:
    """Memory, drift and fairness over 500 mixed requests of four clients; a real model by RKLLM_CHAT_BENCH_MODEL."""
    model = Path(os.environ.get(MODEL_VARIABLE, "") or find_shipped_model())
    with tempfile.TemporaryDirectory() as folder:
        with serve_api(model, Path(folder), *KEPT) as server:
            run = Run(server)
            clients = [threading.Thread(target=Client(number, run).work) for number in range(CLIENTS)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
        with serve_api(model, Path(folder), "--max-waiting", "0") as server:
            freed = [time_release(server, number) for number in range(RELEASES)]
    print(json.dumps({"model": model.name, "statuses": run.statuses, "clients_ms": run.by_client}))
    assert len(run.seconds) == REQUESTS and set(run.statuses) == {"200", "400", "left"}, run.statuses
    quarter = REQUESTS // 4
    first, last = run.seconds[quarter : 2 * quarter], run.seconds[-quarter:]
    most, least = max(run.by_client.values()), min(run.by_client.values())
    growth = median(run.memory[-TENTH:]) - median(run.memory[4 * TENTH : 5 * TENTH])
    return [
        Figure("API, mixed: memory, last tenth of the requests over the fifth", growth, "MB", goal=Goal(5)),
        Figure("API, mixed: open files, at most", max(run.files), "", max(run.files[:TENTH]), "first tenth"),
        Figure("API, mixed: median, last quarter", median(last), "s", median(first), "second", Goal(1.5, "ratio")),
        Figure("API, mixed: longest answer", max(run.seconds), "s", median(run.seconds), "median"),
        Figure(
            "API, mixed: answers of others meanwhile", max(run.overtaken), "", goal=Goal(2 * CLIENTS + MAX_OVERTAKEN)
        ),
        Figure(
            "API, mixed: time that a client waited, most", most / 1000, "s", least / 1000, "least", Goal(1.2, "ratio")
        ),
        Figure("API: the model is free after a client left, most of 5", max(freed), "s", goal=Goal(1.0)),
    ]


def time_release(server: Served, number: int) -> float:
    """Seconds from the end of a client, whose prompt is being evaluated, to a request that is not refused."""
    body = {"messages": [{"role": "user", "content": f"{number + 100} " * PREFILL_WORDS}], "max_tokens": 1}
    with httpx.Client(base_url=base_url(server), timeout=LIMIT_S) as client:
        try:
            answer = client.post("/v1/chat/completions", json=body, timeout=0.2)
        except httpx.TimeoutException:  # by then a refusal would have been answered
            pass
        else:
            raise AssertionError(f"the prompt was not being evaluated any more: {answer.text}")
        left = time.perf_counter()
        while True:
            begun = time.perf_counter()
            with client.stream("POST", "/v1/completions", json={"prompt": "x", "max_tokens": 1}) as response:
                if response.status_code != 429:
                    return begun - left
