"""The NPU runtime with a model in it: started, started again when it died or its options changed, stopped.

What the library prints in its own words becomes ours here. It knows no prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from ..errors import FULL_HINT, ChatError, GenerationError, ModelError
from .rkllm_link import Link, StoppedError, WorkerDiedError

SECONDS_PER_TOKEN = 0.1
"""Published: 0.03 s a token for a prompt of 8k tokens (1.7B on RK3588); larger models and a hot board take longer."""
BYTES_PER_SECOND = 20e6
ABORT_S = 0.5

# What the library prints -> what it means and what to try. {0}, {1}: what the brackets caught.
SAYINGS = (
    (r"max_context\[(\d+)\] must be less than the model's max_context_limit\[(\d+)\]",
     "The model was converted for at most {1} tokens of context, {0} were asked for.", "Use --context {1}."),
    (r"length of prompt is greater than max context \(prompt: (\d+) tokens, max context: (\d+)\)",
     "The prompt is {0} tokens long, the context holds {1}.", FULL_HINT),
    (r"invalid (?:rknn llm model magic|magic characters)",
     "The file is no .rkllm model that this release reads.", "Was it downloaded to its end, and converted for it?"),
    (r"target_platform does not match",
     "The model was converted for another chip.", "Its name often says which; take one for yours."),
    (r"failed to malloc npu memory",
     "The NPU has no room for the model.", "Try a smaller one, less --context, or base_domain_id = 1 under [rkllm]."),
    (r"chat_template is empty|auto-parsing failed",
     "The runtime found no chat template in the model.", "Leave native_tools off and set template under [rkllm]."),
    (r"n_batch must be between",
     "The library reads its options elsewhere than its release says.", "Take the library of one release, whole."),
)  # fmt: skip


@dataclass(frozen=True)
class Start:
    """What a worker needs: the library, the model's file, and what does not change while it runs."""

    library: Path
    model: Path
    log: Path
    fixed: Mapping[str, Any]
    lora: str = ""
    lora_scale: float = 1.0
    template_off: bool = True
    silence_s: float = 120.0


class Runtime:
    """One model in one worker at a time. `release` and `family` are the library's own, once it has started."""

    def __init__(self, start: Start, options: Mapping[str, Any], on_loss: Callable[[], None]) -> None:
        self._start, self._on_loss = start, on_loss
        self.release = self.family = ""
        self._link: Link | None = None
        self._unfinished = 0
        self.load(options, Event())

    def load(self, options: Mapping[str, Any], stopping: Event) -> None:
        """Starts a worker with these options. Raises ModelError, and StoppedError when `stopping` is set meanwhile."""
        self.close()
        self._options = dict(options)
        start = self._start
        limit_s = start.silence_s + start.model.stat().st_size / BYTES_PER_SECOND
        command = {
            "library": str(start.library),
            "options": {"model_path": str(start.model), **start.fixed, **options},
            "lora": start.lora,
            "lora_scale": start.lora_scale,
            "template_off": start.template_off,
        }
        link = Link(command, start.log)
        try:
            result = link.wait_for(0, limit_s, stopping)
        except StoppedError:
            link.kill()
            raise
        except WorkerDiedError as error:
            link.kill()
            raise ModelError(f"{start.model}: the NPU runtime {error} while it loaded.", words_of(link)) from error
        except TimeoutError:
            link.kill()
            raise ModelError(
                f"{start.model}: the NPU runtime did not load it in {limit_s:.0f} s.", words_of(link)
            ) from None
        if "failed" in result:
            link.close()
            raise self.explain(ModelError, link, f"{start.model}: {result['failed']}.", result.get("hint", ""))
        self._link = link
        self.release, self.family = result["done"]["release"], result["done"]["family"]

    @property
    def is_ready(self) -> bool:
        """Whether it would run at once: a worker is there, and nothing is read that was given up."""
        return self._link is not None and not self._unfinished

    def prepare(self, options: Mapping[str, Any], stopping: Event) -> Generator[str, None, None]:
        """Makes it ready for a run; says what takes time: "waiting", "restarted", "reloaded" (words to be said)."""
        if self._link and self._unfinished:
            yield "waiting"
            self._finish(stopping)
        if self._link and self._options == dict(options):
            return
        yield "reloaded" if self._link else "restarted"
        self._on_loss()
        self.load(options, stopping)

    def run(
        self, tokens: int, on_piece: Callable[[str, int | None], bool], stopping: Event, **command: Any
    ) -> dict[str, Any] | None:
        """Answers a prompt of `tokens` tokens; gives the runtime's account, None when it was stopped before its end.

        `on_piece` takes each token's text and id, and says whether the reply is over. Raises GenerationError when the
        library fails, dies or is silent; then nothing is held any more and the next run begins with a new worker.
        """
        link = self._link
        assert link is not None
        limit_s = self._start.silence_s + tokens * SECONDS_PER_TOKEN
        try:
            self._unfinished = number = link.send("run", **command)
            while True:
                result = link.receive(limit_s, stopping)
                if result["id"] != number:
                    continue
                if "piece" in result:
                    if on_piece(result["piece"], result["token"]):
                        link.abort(number)
                    continue
                self._unfinished = 0
                if "failed" in result:
                    raise self.explain(GenerationError, link, f"The NPU runtime failed: {result['failed']}.")
                return dict(result["done"])
        except StoppedError:
            link.abort(number)
            return self._leave(number)
        except WorkerDiedError as error:
            hint = f"{words_of(link)} The next message starts it again.".strip()
            self._lose()
            raise GenerationError(f"The NPU runtime {error}.", hint) from error
        except TimeoutError:
            self._lose()
            text = f"The NPU runtime said nothing for {limit_s:.0f} s and was ended."
            hint = "The next message starts it again; timeout_s under [rkllm] is the limit."
            raise GenerationError(text, hint) from None

    def ask(self, name: str, **values: Any) -> None:
        """Any other command. Raises GenerationError when it is turned down."""
        link = self._link
        assert link is not None
        try:
            result = link.wait_for(link.send(name, **values), self._start.silence_s)
            if "failed" in result:
                raise self.explain(GenerationError, link, f"The NPU runtime failed: {result['failed']}.")
        except (WorkerDiedError, TimeoutError) as error:
            self._lose()
            raise GenerationError(f"The NPU runtime {error or 'is silent'}.", words_of(link)) from error

    def _leave(self, number: int) -> dict[str, Any] | None:
        """After an abort: waits a moment for the end. In the middle of a long prompt none comes; it goes on alone."""
        assert self._link is not None
        try:
            result = self._link.wait_for(number, ABORT_S)
        except TimeoutError:
            return None
        self._unfinished = 0
        return result.get("done")

    def wake(self) -> None:
        """Makes whoever waits on another thread look whether to stop."""
        if self._link:
            self._link.wake()

    def close(self) -> None:
        link, self._link = self._link, None
        self._unfinished = 0
        if link:
            link.close()

    def explain(self, kind: type[ChatError], link: Link, text: str, hint: str = "") -> ChatError:
        """The library's last saying in our words, if it is one we know."""
        log = link.read_log()
        found = [(list(re.finditer(saying, log)), ours, advice) for saying, ours, advice in SAYINGS]
        said = [(matches[-1], ours, advice) for matches, ours, advice in found if matches]
        if not said:
            return kind(text, f"{hint} {words_of(link)}".strip())
        match, ours, advice = max(said, key=lambda entry: entry[0].start())
        figures = match.groups()
        return kind(ours.format(*figures), advice.format(*figures), runtime=words_of(link), figures=figures)

    def _finish(self, stopping: Event) -> None:
        """Waits for a run that was given up; one that does not end is ended with its worker."""
        assert self._link is not None
        try:
            self._link.wait_for(self._unfinished, self._start.silence_s, stopping)
            self._unfinished = 0
        except (WorkerDiedError, TimeoutError):
            self._lose()

    def _lose(self) -> None:
        """The worker is gone or of no use any more."""
        if self._link:
            self._link.kill()
        self._link, self._unfinished = None, 0
        self._on_loss()


def words_of(link: Link) -> str:
    """The library's last words, as a sentence."""
    words = link.last_words()
    return f'It said: "{words}"' if words else ""
