"""What happens between one question and its answer: calls, results, corrections; written as the chat keeps it.

Corrections and cut results come from `rkllm_chat` itself. It knows neither tokens nor where questions come from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rkllm_chat.calls.feedback import CallError, write_correction
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.chat.tool_calls import make_unexecuted_result, resolve_call
from rkllm_chat.core import i18n as language
from rkllm_chat.core.messages import Message, Tool, ToolCall, ToolResult
from rkllm_chat.prompt.result_pages import ResultPage
from rkllm_chat.prompt.untrusted_text import neutralize

LEADS = {"en": "Here it is:\n", "ja": "結果はこちらです。\n", "zh": "结果如下：\n"}
WORDS = language.load("en")


@dataclass(frozen=True)
class Told:
    """What a tool answered. `page`: what of it was shown, where it was cut."""

    text: str
    worked: bool = True
    page: ResultPage | None = None


@dataclass(frozen=True)
class Step:
    """The calls of one reply and what came of each. `is_wrong`: a call that the chat has corrected, never to learn."""

    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    told: tuple[Told, ...] = ()
    is_wrong: bool = False


@dataclass(frozen=True)
class Exchange:
    """A question, the steps that are right for it, and the answer; `kind` names its figures."""

    said: str
    steps: tuple[Step, ...]
    answer: str
    language: str = "en"
    kind: str = "one"

    def messages(self, tools: Sequence[Tool], form: str) -> list[tuple[Message, str]]:
        """The messages it adds to a history, each with a label for its figures: "" for what no model is to learn."""
        written = [(Message("user", self.said), "")]
        for step in self.steps:
            calls = "\n".join(FORMATS[form].render_call(name, arguments) for name, arguments in step.calls)
            written.append((Message("assistant", calls), "" if step.is_wrong else f"{self.kind}.call"))
            written += [(one, "") for one in self.remarks(step, tools, form)]
        return [*written, (Message("assistant", self.answer), f"{self.kind}.answer")]

    def remarks(self, step: Step, tools: Sequence[Tool], form: str) -> list[Message]:
        if step.is_wrong:
            return [correction(name, arguments, tools, form) for name, arguments in step.calls]
        return [remark(name, arguments, told) for (name, arguments), told in zip(step.calls, step.told, strict=True)]


def remark(name: str, arguments: Mapping[str, Any], told: Told) -> Message:
    result = ToolResult("", name, arguments, "completed" if told.worked else "failed", told.text)
    if told.page is None:
        return Message("tool", told.text, result)
    return Message("tool", told.page.text, result, more=told.page.more)


def correction(name: str, arguments: Mapping[str, Any], tools: Sequence[Tool], form: str) -> Message:
    """What the chat says to a wrong call; LookupError where the call is not wrong."""
    call = ToolCall(name, arguments)
    misstep = resolve_call(call, tools, WORDS)
    if not isinstance(misstep, CallError):
        raise LookupError(f"nothing is wrong with {name} {arguments}")
    result = make_unexecuted_result(call, misstep.tool, "failed", misstep.message)
    return Message("tool", write_correction(misstep, FORMATS[form], WORDS), result)


def answer_with(results: Sequence[str], spoken: str) -> str:
    """The results whole, behind a short lead where there are several lines or the question was not English."""
    text = neutralize("\n".join(results))
    return text if spoken == "en" and "\n" not in text else LEADS[spoken] + text
