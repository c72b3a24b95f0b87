"""The child process of the NPU library: receives commands as lines of JSON and sends results likewise.

A crash of the library ends this process only. The process ends when the parent's end of the socket closes.
`worker_client.py` is the parent's side.

In:  {"id": 0, "library": ..., "options": {...}, "lora": ..., "encoder": ...} once, then {"id": n, "do": NAME, ...};
     {"id": n, "do": "abort"} is handled at once, all other commands in order.
Out: {"id": n, "piece": text, "token": id} for each token of a run, then {"id": n, "done": {...}}; or
     {"id": n, "failed": reason}.
"""

from __future__ import annotations

import base64
import codecs
import ctypes
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ...core.errors import ChatError
from .abi import ERROR, FINISH, Images, Library, Model, RunFailedError
from .vision_encoder import VisionEncoder

_ADAPTER = "adapter"
_MAX_EMBEDDINGS = 16
"""Number of encoded pictures that are kept, of up to 6 MB each (196 tokens of Qwen3-VL 2B)."""
_EXIT_WAIT_S = 1.0
_ABORT_WAIT_S = 0.5


class _Worker:
    """One model and its runs.

    Results pass through a queue, because a callback of the library must not wait for a pipe.
    """

    def __init__(self, out: int, config: Mapping[str, Any]) -> None:
        self._out = out
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._current_run = self._abortable_run = 0
        self._aborted = 0
        self._abort_lock = threading.Lock()  # an abort outside a run might end the next one
        self._figures: dict[str, float] = {}
        self._is_finished = False
        self._encoder: VisionEncoder | None = None
        self._embeddings: dict[str, bytes] = {}
        self._markers: tuple[str, str, str] = ("", "", "")
        self.model = self._load(config)
        threading.Thread(target=self._write_results, daemon=True).start()

    def _load(self, config: Mapping[str, Any]) -> Model:
        library = Library(Path(config["library"]), config["assumed_release"])
        model = Model(library, config["options"], self._receive_result)
        if config["lora"]:
            model.load_lora(config["lora"], _ADAPTER, config["lora_scale"])
        if config["disables_template"]:
            model.disable_template()
        if encoder := config.get("encoder"):
            self._encoder = VisionEncoder(Path(encoder["library"]), Path(encoder["path"]))
            self._markers = tuple(encoder["markers"])
            os.write(1, f"rkllm-chat: vision encoder: librknnrt {self._encoder.version}\n".encode())
        image_tokens = self._encoder.tokens if self._encoder else 0
        done = {"release": library.release, "layout": library.layout, "image_tokens": image_tokens}
        self._queue.put({"id": 0, "done": done})
        return model

    def _receive_result(self, state: int, text: bytes, token: int, figures: Mapping[str, float]) -> None:
        """Receive a result; called by the library for each token, in the middle of its work."""
        if state in (FINISH, ERROR):  # the library may have ended the run before it returns
            self._end_abortable_run()
        if state == FINISH:
            self._is_finished, self._figures = True, dict(figures)
        elif state != ERROR:
            self._queue.put((self._current_run, text, token))

    def _end_abortable_run(self) -> None:
        """Let no abort reach the library from now on; one that is in progress is waited for, but not forever.

        An abort in the library may itself wait for a result to be received.
        """
        is_locked = self._abort_lock.acquire(timeout=_ABORT_WAIT_S)
        self._abortable_run = 0
        if is_locked:
            self._abort_lock.release()

    def run(self, number: int, command: dict[str, Any]) -> None:
        """Run one prompt. The library's return ends the run, since the last result may be missing."""
        self._is_finished, self._figures = False, {}
        lora = _ADAPTER if command.pop("lora", False) else ""
        with self._abort_lock:
            # an abort may have come while the command waited in the queue
            self._current_run = self._abortable_run = number if self._aborted < number else 0
        if self._current_run:
            try:
                images = self._encode(number, command.pop("pictures", ()))
                if self._aborted < number:
                    self.model.run(command.pop("prompt"), lora=lora, images=images, **command)
            finally:
                self._end_abortable_run()
                self._current_run = 0
        done = {
            "is_finished": self._is_finished,
            "figures": self._figures,
            "cached_tokens": self.model.count_cached_tokens(),
            "last_state": base64.b64encode(self.model.last_state).decode() if command.get("embeds") else "",
            "state_tokens": self.model.state_tokens,
        }
        self._queue.put({"id": number, "done": done})

    def _encode(self, number: int, pictures: Sequence[Mapping[str, str]]) -> Images | None:
        """Return the pictures of a run, which were encoded before where they are known; None for a text.

        An abort takes effect between two pictures, because the NPU cannot be interrupted.
        """
        if not pictures or self._encoder is None:
            return None
        embeddings: list[bytes] = []
        for picture in pictures:
            if self._aborted >= number:
                return None
            known = self._embeddings.pop(picture["sha256"], None) or self._encoder.encode(Path(picture["path"]))
            self._embeddings[picture["sha256"]] = known
            embeddings.append(known)
        while len(self._embeddings) > max(_MAX_EMBEDDINGS, len(pictures)):
            del self._embeddings[next(iter(self._embeddings))]
        return self._encoder.join(embeddings, self._markers)

    def execute(self, command: dict[str, Any]) -> None:
        """Execute a command other than abort."""
        number, name = command.pop("id"), command.pop("do")
        try:
            if name == "run":
                self.run(number, command)
                return
            getattr(self.model, name)(**command)
            self._queue.put({"id": number, "done": {}})
        except RunFailedError as error:
            self._queue.put({"id": number, "failed": str(error)})

    def execute_all(self, jobs: SimpleQueue[dict[str, Any] | None]) -> None:
        """Execute commands one after another until None comes."""
        while command := jobs.get():
            self.execute(command)

    def abort(self, number: int) -> None:
        """Ask a run to end. The library is called only while it executes that run."""
        with self._abort_lock:
            self._aborted = max(self._aborted, number)
            if self._abortable_run == number:
                self._call_and_log(self.model.abort)

    def close(self) -> None:
        """Free the NPU. An active run is asked to end instead; the caller does not wait for it."""
        if self._current_run:
            self._call_and_log(self.model.abort)
        else:
            self._call_and_log(self.model.close)
            if self._encoder:
                self._encoder.close()

    def _call_and_log(self, function: Callable[[], None]) -> None:
        """Call a function of the model; write a failure to the log."""
        try:
            function()
        except RunFailedError as error:
            os.write(1, f"rkllm-chat: {error}\n".encode())

    def _write_results(self) -> None:
        """Send the queued results. A run that was aborted before the library started it is aborted again here."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            item = self._queue.get()
            if isinstance(item, tuple):
                number, data, token = item
                if self._aborted >= number:
                    self.abort(number)
                item = {"id": number, "piece": decoder.decode(data), "token": token}
            elif "done" in item and (delayed_text := decoder.decode(b"", final=True)):
                _send(self._out, {"id": item["id"], "piece": delayed_text, "token": None})
            _send(self._out, item)


def _send(out: int, item: Mapping[str, Any]) -> None:
    data = memoryview(json.dumps(item).encode() + b"\n")
    while data:
        data = data[os.write(out, data) :]


def _buffer_log_by_lines() -> None:
    """Make C's standard output line-buffered, so that the last lines before a crash reach the log."""
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, 0)  # _IOLBF is 1 in glibc and musl


def main() -> None:
    """Run the worker: `python -m rkllm_chat.backends.rkllm.worker COMMANDS RESULTS`.

    The arguments are two inherited file descriptors, of a socket and of a pipe.
    """
    commands, out = socket.socket(fileno=int(sys.argv[1])).makefile("r", encoding="utf-8"), int(sys.argv[2])
    _buffer_log_by_lines()
    config = json.loads(commands.readline())
    try:
        worker = _Worker(out, config)
    except (ChatError, RunFailedError) as error:
        hint = error.hint if isinstance(error, ChatError) else ""
        _send(out, {"id": 0, "failed": getattr(error, "message", str(error)), "hint": hint})
        return
    jobs: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
    runner = threading.Thread(target=worker.execute_all, args=(jobs,), daemon=True)
    runner.start()
    for line in commands:
        command = json.loads(line)
        worker.abort(command["id"]) if command["do"] == "abort" else jobs.put(command)
    jobs.put(None)
    worker.close()
    runner.join(_EXIT_WAIT_S)
    os._exit(0)  # without waiting for the library's threads, which may hang


if __name__ == "__main__":
    main()
