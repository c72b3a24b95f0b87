"""The child process in which the NPU library lives: commands come in by lines of JSON, results go out the same way.

A crash of the library ends this process and nothing else. The parent's end of the pipe is its life line: when the
parent is gone, it ends. It knows no chat; `rkllm_link.py` is the other end.

In:  {"id": 0, "library": ..., "options": {...}, "lora": ..., "lora_scale": ...} once, then {"id": n, "do": NAME, ...};
     {"id": n, "do": "abort"} is heard at once, everything else is done in order.
Out: {"id": n, "piece": text, "token": id} for each token of a run, then {"id": n, "done": {...}}; or
     {"id": n, "failed": why}.
"""

from __future__ import annotations

import codecs
import ctypes
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ..errors import ChatError
from .rkllm_abi import ERROR, FINISH, Library, Model, RunFailedError

ADAPTER = "adapter"
END_S = 1.0


class Worker:
    """One model and its runs. Results pass a queue, because a callback of the library must not wait for a pipe."""

    def __init__(self, out: int, start: Mapping[str, Any]) -> None:
        self._out = out
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._run = 0
        self._aborted = 0
        self._figures: dict[str, float] = {}
        self._finished = False
        self.model = self._load(start)
        threading.Thread(target=self._write_results, daemon=True).start()

    def _load(self, start: Mapping[str, Any]) -> Model:
        library = Library(Path(start["library"]))
        model = Model(library, start["options"], self._take)
        if start["lora"]:
            model.load_lora(start["lora"], ADAPTER, start["lora_scale"])
        if start["template_off"]:
            model.switch_template_off()
        self._queue.put({"id": 0, "done": {"release": library.release, "family": library.family}})
        return model

    def _take(self, state: int, text: bytes, token: int, figures: Mapping[str, float]) -> None:
        """Called by the library for each token, in the middle of its work."""
        if state == FINISH:
            self._finished, self._figures = True, dict(figures)
        elif state != ERROR:
            self._queue.put((self._run, text, token))

    def run(self, number: int, command: dict[str, Any]) -> None:
        """Answers one prompt; what ends it is the library's return, as a last result may be missing."""
        self._run, self._finished, self._figures = number, False, {}
        lora = ADAPTER if command.pop("lora", False) else ""
        if self._aborted < number:
            self.model.run(command.pop("prompt"), lora=lora, **command)
        self._run = 0
        done = {"finished": self._finished, "figures": self._figures, "held": self.model.count_held()}
        self._queue.put({"id": number, "done": done})

    def do(self, command: dict[str, Any]) -> None:
        """Anything that is done in order."""
        number, name = command.pop("id"), command.pop("do")
        try:
            if name == "run":
                self.run(number, command)
                return
            getattr(self.model, name)(**command)
            self._queue.put({"id": number, "done": {}})
        except RunFailedError as error:
            self._run = 0
            self._queue.put({"id": number, "failed": str(error)})

    def work_off(self, jobs: SimpleQueue[dict[str, Any] | None]) -> None:
        """Does commands one after another until None comes."""
        while command := jobs.get():
            self.do(command)

    def abort(self, number: int) -> None:
        self._aborted = max(self._aborted, number)
        if self._run == number:
            self._try(self.model.abort)

    def close(self) -> None:
        """Frees the NPU; a run under way is asked to end first. The caller does not wait for ever."""
        if self._run:
            self._try(self.model.abort)
        else:
            self._try(self.model.close)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except RunFailedError as error:
            os.write(1, f"rkllm-chat: {error}\n".encode())

    def _write_results(self) -> None:
        """Sends on what the queue brings. A run that was aborted before the library began is aborted again here."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            item = self._queue.get()
            if isinstance(item, tuple):
                number, data, token = item
                if self._aborted >= number:
                    self._try(self.model.abort)
                item = {"id": number, "piece": decoder.decode(data), "token": token}
            elif "done" in item and (rest := decoder.decode(b"", final=True)):
                send(self._out, {"id": item["id"], "piece": rest, "token": None})
            send(self._out, item)


def send(out: int, item: Mapping[str, Any]) -> None:
    data = memoryview(json.dumps(item).encode() + b"\n")
    while data:
        data = data[os.write(out, data) :]


def write_log_by_lines() -> None:
    """Makes C's standard output line-buffered, so that the last words before a crash are in the log."""
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, 0)  # _IOLBF is 1 in glibc and musl


def main() -> None:
    """`python -m rkllm_chat.backends.rkllm_worker COMMANDS RESULTS`: two file descriptors, a socket and a pipe."""
    commands, out = socket.socket(fileno=int(sys.argv[1])).makefile("r", encoding="utf-8"), int(sys.argv[2])
    write_log_by_lines()
    start = json.loads(commands.readline())
    try:
        worker = Worker(out, start)
    except (ChatError, RunFailedError) as error:
        hint = error.hint if isinstance(error, ChatError) else ""
        send(out, {"id": 0, "failed": getattr(error, "message", str(error)), "hint": hint})
        return
    jobs: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
    runner = threading.Thread(target=worker.work_off, args=(jobs,), daemon=True)
    runner.start()
    for line in commands:
        command = json.loads(line)
        worker.abort(command["id"]) if command["do"] == "abort" else jobs.put(command)
    jobs.put(None)
    worker.close()
    runner.join(END_S)
    os._exit(0)  # the library's threads may hang; nobody waits for them


if __name__ == "__main__":
    main()
