"""The NPU runtime with a loaded model: start, restart after a crash or a change of options, stop.

Known messages of the library are translated into errors of this program.
"""

from __future__ import annotations

import base64
import re
import signal
import struct
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from ...core.errors import CONTEXT_FULL_HINT, ChatError, GenerationError, ModelError
from ...core.events import Sentence
from .model_file import read_toolkit_release
from .worker_client import StoppedError, WorkerClient, WorkerDiedError

_SECONDS_PER_TOKEN = 0.1
"""Maximum time to evaluate a prompt, per token. Published: 0.03 s for a prompt of 8k tokens (1.7B on RK3588); larger
models and a hot board take longer.
"""
_BYTES_PER_SECOND = 20e6
"""Minimum speed of loading a model file."""
_OLD_DRIVER = "driver version is too low"
"""Part of a warning of the library, which works all the same until it does not."""
_FLOAT_BYTES = 4
_ABORT_S = 0.5
"""How long to wait for the end of an aborted run."""


class ContextLimitError(ModelError):
    """The model was converted for less context than was requested."""

    @property
    def limit_tokens(self) -> int:
        """The most context that the model supports."""
        return int(self.details["figures"][1])


class PromptLengthError(GenerationError):
    """The library refused a prompt because of its length.

    Attributes of the base class: `details["figures"]` are the tokens of the prompt and of the context.
    """


class WorkerLostError(GenerationError):
    """The worker died during a run."""


@dataclass(frozen=True)
class _KnownMessage:
    """A message in the library's log and the error that it reports.

    Attributes:
        pattern: Matches the message in the library's log.
        text: What it means. {0} and {1} are the groups of the pattern.
        hint: What the user can try.
        error: Class of the error; None for the class that the caller raises.
    """

    pattern: str
    text: str
    hint: str
    error: type[ChatError] | None = None


_KNOWN_MESSAGES = (
    _KnownMessage(
        r"max_context\[(\d+)\] must be less than the model's max_context_limit\[(\d+)\]",
        "The model was converted for at most {1} tokens of context, but {0} were requested.",
        "Use --set context_tokens={1}.",
        ContextLimitError,
    ),
    _KnownMessage(
        r"length of prompt is greater than max context \(prompt: (\d+) tokens, max context: (\d+)\)",
        "The prompt is {0} tokens long, the context holds {1}.",
        CONTEXT_FULL_HINT,
        PromptLengthError,
    ),
    _KnownMessage(
        r"invalid (?:rknn llm model magic|magic characters)",
        "The file is not a .rkllm model that this release can read.",
        "Check that the download is complete and that it was converted for this release.",
    ),
    _KnownMessage(
        r"model version is too old",
        "The model was converted by a toolkit that is too old for this release of the library.",
        "Use a model that was converted by a toolkit of the library's release, or the library of the model's.",
    ),
    _KnownMessage(
        r"target_platform does not match",
        "The model was converted for another chip.",
        "Use a model for this chip; the file name often contains it.",
    ),
    _KnownMessage(
        r"Too many open files in system",
        "The system has no room for further open files.",
        "Raise the limit of the system: sudo sysctl fs.file-max=1000000",
    ),
    _KnownMessage(
        r"Too many open files",
        "The model needs more open files than a process may have here.",
        "Raise the limit in this shell before you start the program: ulimit -n 65536; of a service: LimitNOFILE=65536.",
    ),
    _KnownMessage(
        r"failed to malloc npu memory|errno: 12\b",
        "The NPU does not have enough memory for the model, or its driver is too old.",
        "Try a smaller model, a smaller context_tokens, or base_domain_id = 1 under [rkllm]; with a driver below "
        "0.9.7, a newer kernel.",
    ),
    _KnownMessage(
        r"failed to open rknpu module|failed to open rknn device|Device is not available",
        "The NPU cannot be opened.",
        "Add yourself to the groups render and video (/dev/dri/renderD* and /dev/dri/card*) and log in again; in a "
        "container, pass these devices in; else the kernel has no rknpu driver.",
    ),
    _KnownMessage(
        r"Query platform error|Get device properties failed",
        "The library does not recognize this chip.",
        "It runs on RK3588, RK3576, RK3562 and RV1126B; in a container, pass in /dev/dri and /proc/device-tree.",
    ),
    _KnownMessage(
        r"matmul\(.*\) run failed|failed to submit",
        "The NPU driver rejected a computation.",
        "This happens with drivers older than the library expects: install a newer kernel, or an older library.",
    ),
    _KnownMessage(
        r"GGML_ASSERT",
        "The library met a state that it does not handle.",
        "Most often the model was converted by a toolkit of another release than the library; convert it again.",
    ),
    _KnownMessage(
        r"number of enabled CPUs must be greater than or equal to the number of NPU cores",
        "Fewer CPU cores are enabled than the model uses NPU cores.",
        'Remove cpus under [rkllm], or name more cores, as in "4-7".',
    ),
    _KnownMessage(
        r"chat_template is empty|auto-parsing failed",
        "The runtime found no chat template in the model.",
        "Leave native_tools off and set template under [rkllm].",
    ),
    _KnownMessage(
        r"n_batch must be between",
        "The library does not have the data layout of its release.",
        "Use all files of one release of the library.",
    ),
)

_MAY_BE_INCOMPLETE = (
    "The file does not end with the release of its converter, as newer ones do: the download may be incomplete. "
    "Compare its size with that of the source, or download it again."
)
_EXIT_HINTS: Mapping[int | None, str] = {
    -signal.SIGILL: "The library uses an instruction that this processor does not have, as reported of release 1.3.0 "
    "on an RK3588: try 1.2.2 or 1.3.1.",
    -signal.SIGBUS: "Part of a file or of the NPU's memory could not be read: check that the model is complete and the "
    "disk not full. Reported of release 1.3.1 with driver 0.9.8: try 1.2.2.",
    -signal.SIGKILL: "Most often the system ended it because memory was full: use a smaller model or context_tokens.",
}
"""Exit code of a worker -> what the user can try. Report of SIGILL: airockchip/rknn-llm#518."""


@dataclass(frozen=True)
class WorkerConfig:
    """What a worker needs to start.

    Attributes:
        library: Path of librkllmrt.so.
        assumed_release: Release whose layout is used if that of the library is unknown.
        model: Path of the model.
        log: File for the library's output.
        fixed_options: Options that do not change while the program runs.
        lora: Path of a LoRA adapter; "" for none.
        lora_scale: Scale of the adapter.
        disables_template: Whether prompts are used literally.
        timeout_s: How long the library may be silent.
        encoder: Path of the vision encoder; None for a model without one.
        encoder_library: Path of librknnrt.so, which runs it.
        markers: Texts before the tokens of a picture, after them, and of each.
    """

    library: Path
    assumed_release: str
    model: Path
    log: Path
    fixed_options: Mapping[str, Any]
    lora: str = ""
    lora_scale: float = 1.0
    disables_template: bool = True
    timeout_s: float = 120.0
    encoder: Path | None = None
    encoder_library: Path | None = None
    markers: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True)
class RunSummary:
    """What the worker reports at the end of a run.

    Attributes:
        is_finished: Whether the library reported the end of the reply.
        figures: Token counts and times, from release 1.2.1 on.
        cached_tokens: Number of tokens in the KV cache; None if the release does not report it.
        last_state: Hidden state of the last token, if it was requested.
        state_tokens: Number of tokens with hidden states.
    """

    is_finished: bool = False
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    cached_tokens: int | None = None
    last_state: tuple[float, ...] = ()
    state_tokens: int = 0


class Runtime:
    """One model in one worker at a time.

    Attributes:
        release: The library's release.
        layout: The letter of its layout.
        has_old_driver: Whether the library warned that the NPU driver is too old.
        image_tokens: Number of tokens of a picture, without its markers; 0 without a vision encoder.
    """

    def __init__(self, config: WorkerConfig, options: Mapping[str, Any], on_loss: Callable[[], None]) -> None:
        """Start a worker and load the model.

        Args:
            config: What does not change while the program runs.
            options: Further options of the model.
            on_loss: Called when the KV cache is lost because the worker ended.

        Raises:
            ModelError: The model cannot be loaded.
        """
        self._config, self._on_loss = config, on_loss
        self.release = self.layout = ""
        self.has_old_driver = False
        self.image_tokens = 0
        self._worker: WorkerClient | None = None
        self._unfinished_run = 0
        self.load(options, Event())

    def load(self, options: Mapping[str, Any], stop: Event) -> None:
        """Start a new worker with these options.

        Raises:
            ModelError: The model cannot be loaded.
            StoppedError: `stop` was set meanwhile.
        """
        self.close()
        self._options = dict(options)
        config = self._config
        limit_s = config.timeout_s + config.model.stat().st_size / _BYTES_PER_SECOND
        command = {
            "library": str(config.library),
            "assumed_release": config.assumed_release,
            "options": {"model_path": str(config.model), **config.fixed_options, **options},
            "lora": config.lora,
            "lora_scale": config.lora_scale,
            "disables_template": config.disables_template,
            "encoder": _describe_encoder(config),
        }
        worker = WorkerClient(command, config.log)
        try:
            result = worker.wait_for(0, limit_s, stop)
        except StoppedError:
            worker.kill()
            raise
        except WorkerDiedError as error:
            worker.kill()
            text = f"{config.model}: the NPU runtime {error} while it loaded the model."
            raise self._make_load_error(worker, text, _EXIT_HINTS.get(error.exit_code, "")) from error
        except TimeoutError:
            worker.kill()
            text = f"{config.model}: the NPU runtime did not load the model within {limit_s:.0f} s."
            raise self._make_load_error(worker, text) from None
        if "failed" in result:
            worker.close()
            raise self._make_load_error(worker, f"{config.model}: {result['failed']}.", result.get("hint", ""))
        self._worker = worker
        self.release, self.layout = result["done"]["release"], result["done"]["layout"]
        self.image_tokens = result["done"]["image_tokens"]
        self.has_old_driver = _OLD_DRIVER in worker.read_log()

    @property
    def options(self) -> Mapping[str, Any]:
        """The options with which the model was loaded last."""
        return self._options

    @property
    def is_ready(self) -> bool:
        """Whether a run would start at once: a worker exists, and no abandoned run is active."""
        return self._worker is not None and not self._unfinished_run

    def prepare(self, options: Mapping[str, Any], stop: Event) -> Generator[Sentence, None, None]:
        """Make the worker ready for a run; yield a notice before each step that takes time."""
        if self._worker and self._unfinished_run:
            yield Sentence("npu.waiting")
            if error := self._wait_for_abandoned_run(stop):
                yield Sentence("npu.lost", {"error": error})
        if self._worker and self._options == dict(options):
            return
        yield Sentence("npu.reloaded" if self._worker else "npu.restarted")
        # before the load, which may fail: the cache of the worker before is gone in any case
        self._on_loss()
        self.load(options, stop)

    def run(
        self, tokens: int, on_token: Callable[[str, int | None], bool], stop: Event, **command: Any
    ) -> RunSummary | None:
        """Run a prompt.

        Args:
            tokens: Length of the prompt, which determines the time limit.
            on_token: Receives each token's text and id; True ends the reply.
            stop: Set by another thread to abort; see `wake`.
            command: Arguments of `Model.run`.

        Returns:
            None if the run was stopped before its end.

        Raises:
            GenerationError: The library failed or is silent; the KV cache is lost and the next run starts a new worker.
            WorkerLostError: The worker died.
        """
        worker = self._worker
        assert worker is not None
        limit_s = self._config.timeout_s + tokens * _SECONDS_PER_TOKEN
        try:
            self._unfinished_run = number = worker.send("run", **command)
            return self._read_run(worker, number, limit_s, on_token, stop)
        except StoppedError:
            return self._abort_run(number)
        except WorkerDiedError as error:
            raise self._take_death_error(worker, error) from error
        except TimeoutError:
            self._discard_worker()
            text = f"The NPU runtime did not respond for {limit_s:.0f} s and was terminated."
            raise GenerationError(text, "Set timeout_s under [rkllm] for another limit.") from None

    def _read_run(
        self,
        worker: WorkerClient,
        number: int,
        limit_s: float,
        on_token: Callable[[str, int | None], bool],
        stop: Event,
    ) -> RunSummary:
        """Pass on the tokens of a run until it ends; abort it when `on_token` returns True."""
        while True:
            result = worker.receive(limit_s, stop)
            # what a run that was given up still wrote; its text must not stand in this reply
            if result["id"] != number:
                continue
            if "piece" not in result:
                break
            if on_token(result["piece"], result["token"]):
                worker.abort(number)
        self._unfinished_run = 0
        if "failed" in result:
            raise self.make_error(GenerationError, worker, f"The NPU runtime failed: {result['failed']}.")
        return _read_summary(result["done"])

    def execute_command(self, name: str, **values: Any) -> None:
        """Execute any other command.

        Raises:
            GenerationError: It failed.
        """
        worker = self._worker
        assert worker is not None
        try:
            result = worker.wait_for(worker.send(name, **values), self._config.timeout_s)
            if "failed" in result:
                raise self.make_error(GenerationError, worker, f"The NPU runtime failed: {result['failed']}.")
        except (WorkerDiedError, TimeoutError) as error:
            self._discard_worker()
            raise GenerationError(f"The NPU runtime {error or 'does not respond'}.", _quote_log(worker)) from error

    def _abort_run(self, number: int) -> RunSummary | None:
        """Abort a run and wait briefly for its end; while a long prompt is evaluated, it continues on its own."""
        assert self._worker is not None
        try:
            self._worker.abort(number)
            result = self._worker.wait_for(number, _ABORT_S)
        except (TimeoutError, WorkerDiedError):  # the next `prepare` waits for it, or finds that it died
            return None
        self._unfinished_run = 0
        return _read_summary(result["done"]) if "done" in result else None

    def wake(self) -> None:
        """Make a waiting thread check whether to stop."""
        if self._worker:
            self._worker.wake()

    def close(self) -> None:
        """End the worker."""
        worker, self._worker = self._worker, None
        self._unfinished_run = 0
        if worker:
            worker.close()

    def _make_load_error(self, worker: WorkerClient, text: str, hint: str = "") -> ChatError:
        """Create the error of a model that cannot be loaded; it says where to read more."""
        if not hint and not read_toolkit_release(self._config.model):
            hint = _MAY_BE_INCOMPLETE
        error = self.make_error(ModelError, worker, text, hint)
        error.hint = f"{error.hint} The library's log is {worker.log}; rkllm-chat doctor inspects the board.".strip()
        return error

    def make_error(self, kind: type[ChatError], worker: WorkerClient, text: str, hint: str = "") -> ChatError:
        """Create an error from the library's first known message, else from `text` and the last lines of its log.

        What is printed behind the first one follows from it: "failed to malloc npu memory" from "Too many open files".
        """
        log = worker.read_log()
        found = [(match, known) for known in _KNOWN_MESSAGES if (match := re.search(known.pattern, log))]
        if not found:
            return kind(text, f"{hint} {_quote_log(worker)}".strip())
        match, known = min(found, key=lambda pair: pair[0].start())
        figures = match.groups()
        error = known.error or kind
        return error(
            known.text.format(*figures), known.hint.format(*figures), runtime=_quote_log(worker), figures=figures
        )

    def _wait_for_abandoned_run(self, stop: Event) -> ChatError | None:
        """Wait for an abandoned run; if it does not end, end its worker. Return the error if its worker died."""
        assert self._worker is not None
        try:
            self._worker.wait_for(self._unfinished_run, self._config.timeout_s, stop)
            self._unfinished_run = 0
        except WorkerDiedError as error:
            return self._take_death_error(self._worker, error)
        except TimeoutError:
            self._discard_worker()
        return None

    def _take_death_error(self, worker: WorkerClient, error: WorkerDiedError) -> ChatError:
        """Discard a dead worker and return the error that says how it died."""
        hint = _EXIT_HINTS.get(error.exit_code, "")
        failure = self.make_error(WorkerLostError, worker, f"The NPU runtime {error}.", hint)
        self._discard_worker()
        return failure

    def _discard_worker(self) -> None:
        """Discard a dead or useless worker."""
        if self._worker:
            self._worker.kill()
        self._worker, self._unfinished_run = None, 0
        self._on_loss()


def _describe_encoder(config: WorkerConfig) -> dict[str, Any] | None:
    """Return the worker's description of the vision encoder."""
    if config.encoder is None:
        return None
    return {"path": str(config.encoder), "library": str(config.encoder_library), "markers": config.markers}


def _read_summary(done: Mapping[str, Any]) -> RunSummary:
    data = base64.b64decode(done["last_state"])
    state = struct.unpack(f"={len(data) // _FLOAT_BYTES}f", data)
    return RunSummary(done["is_finished"], done["figures"], done["cached_tokens"], state, done["state_tokens"])


def _quote_log(worker: WorkerClient) -> str:
    """Quote the last lines of the library's log in a sentence; "" if there are none."""
    lines = worker.read_last_lines()
    return f'The library printed: "{lines}"' if lines else ""
