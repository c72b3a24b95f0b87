"""PROFILES: how each model family is asked, in one row: the prompt belongs to the model.

A row is chosen by measurement with real models, not by reading templates; docs/small-models-figures.md has the figures.
The row of the model that ships is the text that it was trained on.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from ..calls.model_families import AUTO, Family
from ..core.i18n import Words, load

Sentences = Mapping[str, Mapping[str, str]]
"""Language -> key of table `[prompt]` of the catalogue -> sentence."""


@dataclass(frozen=True, eq=False)
class PromptProfile:
    """How a model is asked.

    Attributes:
        name: Key in PROFILES.
        families: Keys of FAMILIES that it is the default of.
        call_format: Row of FORMATS to ask for; "" for the one that the family was trained on.
        language: The only language of model-facing text that the model knows; "" if any will do.
        tool_list: How a tool is listed: as the call to write, or as a signature that is no call.
        tools_fraction: Fraction of the context window that complete descriptions of all tools may take at the start of
            the prompt. If they need more, tools are listed in short there, and each user message is accompanied by the
            signatures of the most likely tools.
        few_tools: With each user message, describe only tools that its words match.
        answers_flat: Where calls are impossible, ask first in a prompt of the question and the results alone.
        forces_calls: Force a call also where the reply names no tool, but the words of the question clearly mean one
            that reads, or it has an address or a file that one takes. Discard a first call about something that nobody
            spoke of.
        writes_unmarked: The family writes calls without a marker, also behind prose.
        callless_parameters: Number of parameters up to which no model of the row called a tool when it was measured.
        choosing_parameters: Number of parameters from which on a model is asked whether it would call a tool or reply
            in words, with the sentences `call_or_words` and `words_or_call`; 0 if none is. Where calls
            are forced, messages are scored behind each tool (`asked_tool`), and behind what calls none
            (`asked_before`, `asked_sum`).
        sampling: Names of sampling parameters -> values, where the settings have none.
        tool_sampling: The same while tools are listed, before `sampling`: calls, and answers from their results, are
            generated as they were measured.
        sentences: Sentences that replace those of the catalogue, in which `tools_end`, a line behind the list of tools,
            `rule`, a paragraph behind the form of a call, and `call_now`, a sentence behind a question whose call was
            only announced, are empty; so is `answer_question`, which asks the question again behind its results.
    """

    name: str
    families: tuple[str, ...] = ()
    call_format: str = ""
    language: str = ""
    tool_list: Literal["calls", "signatures"] = "signatures"
    tools_fraction: float = 0.25
    few_tools: bool = False
    answers_flat: bool = False
    forces_calls: bool = False
    writes_unmarked: bool = False
    callless_parameters: int = 0
    choosing_parameters: int = 0
    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tool_sampling: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 0.0})
    sentences: Sentences = field(default_factory=dict[str, Mapping[str, str]])

    def load_words(self, language: str) -> Words:
        """Return the model-facing sentences, in the profile's language or, without one, in `language`."""
        return _load_words(self, self.language or language)

    def select_sampling(self, has_tools: bool, chosen: Container[str]) -> dict[str, Any]:
        """Return its sampling parameters but those that the user has `chosen`, as `generation.NAME`.

        Args:
            has_tools: Whether tools are listed.
            chosen: The names of the settings that are set.
        """
        sampling = {**self.sampling, **(self.tool_sampling if has_tools else {})}
        return {name: value for name, value in sampling.items() if f"generation.{name}" not in chosen}


_FRAME = {
    "tools": "# Tools\n\nYou may call one or more functions to assist with the user query:\n<tools>",
    "tools_end": "</tools>",
    "rule": "Use a tool only if it fits the question; otherwise answer the question yourself.",
    "call_now": "Call {names} now.",
}
"""How tools are listed and asked for. In our own sentences, signatures were called half as often (0.5B, n = 60). The
rule decides how eager a model is: with "... For everything else, answer in words.", which is a little better for the
0.5B, Qwen2.5-Coder-1.5B described its calls instead of writing them (2 of 22 calls; with this one 19 of 22)."""
_CHOICE = 'Message of the user: "{message}"\nWhat should you do?'
_LETTER = 'Answer only "A" or "B".'
_QWEN = {
    **_FRAME,
    "system": "You are a helpful assistant.",
    "call": (
        "For each function call, return a json object with function name and arguments within <tool_call></tool_call>"
        " XML tags:"
    ),
    "result": "<tool_response>",
    "result_end": "</tool_response>",
    "failed": "<tool_response>\n{tool} failed:",
    "answer": "",
    "call_or_words": f"{_CHOICE} A: call {{name}}. B: reply in words. {_LETTER}",
    "words_or_call": f"{_CHOICE} A: reply in words. B: call {{name}}. {_LETTER}",
    "asked_tool": "The user asks for this: {tool}",
    "asked_before": "The user asks what they said before.",
    "asked_sum": "The user asks for a sum, a share or the change, from the amounts that were just told.",
}
_ANSWER_IN_ONE_SENTENCE = "Answer the question from this result in one sentence."
_ANSWER_QUESTION = "Answer from {results:this result in one sentence|these results in a few sentences}: {question}"

# A temperature of 0 is what some makers of models that think advise against; near it, calls are as good.
_NEAR_ZERO = {"temperature": 0.1}
DEFAULT = PromptProfile(
    "default", tool_sampling=_NEAR_ZERO, sentences={"en": {**_FRAME, "call": "For each function call, write:"}}
)

# The first row that has the family wins.
PROFILES: dict[str, PromptProfile] = {
    profile.name: profile
    for profile in (
        # 5.8 M parameters, trained with this text alone: the tools that may help stand beside the question
        PromptProfile(
            "tiny-tools",
            ("tiny-tools",),
            call_format="json",
            language="en",
            tool_list="calls",
            tools_fraction=0.0,
            few_tools=True,
            sentences={
                "en": {
                    "answer_failed": "Answer the question in your own words, without a tool.",
                    "answer_each": "Answer the question from this result.",
                }
            },
        ),
        # trained on its own sentences about tools; it writes bare JSON or a fence where a marker is asked for
        PromptProfile(
            "qwen2.5",
            ("qwen2.5",),
            call_format="hermes",
            answers_flat=True,
            forces_calls=True,
            # 0.5B: what it says has nothing to do with what is needed (AUC 0.54, n = 22; the 1.5B 0.94, n = 48)
            choosing_parameters=1_000_000_000,
            writes_unmarked=True,
            sentences={
                "en": {**_QWEN, "answer_now": _ANSWER_IN_ONE_SENTENCE, "answer_question": _ANSWER_QUESTION},
                "ja": {
                    **_QWEN,
                    "answer_now": "この結果をもとに、質問に一文で答えてください。",
                    "answer_question": (
                        "{results:この結果をもとに一文|これらの結果をもとに数文}で答えてください: {question}"
                    ),
                },
                "zh": {
                    **_QWEN,
                    "answer_now": "请用一句话根据这个结果回答问题。",
                    "answer_question": "请根据{results:这个结果用一句话|这些结果用几句话}回答：{question}",
                },
            },
        ),
        # 135M: called no tool in any of 40 wordings, but answers from a result that it is given
        PromptProfile(
            "smollm2",
            ("smollm2",),
            callless_parameters=135_000_000,
            sentences={"en": {**_FRAME, "answer_now": _ANSWER_IN_ONE_SENTENCE}},
        ),
        DEFAULT,
    )
}


def select_profile(setting: str, suggested: str, family: Family) -> PromptProfile:
    """Return the profile of a model.

    Args:
        setting: The row that the user chose, or "auto".
        suggested: The row that the model file names; "" for none. An unknown one, of another version, is ignored.
        family: The model's family.
    """
    if setting != AUTO:
        return PROFILES[setting]
    if suggested in PROFILES:
        return PROFILES[suggested]
    return next((profile for profile in PROFILES.values() if family.name in profile.families), DEFAULT)


@cache
def _load_words(profile: PromptProfile, language: str) -> Words:
    """Return a catalogue with the sentences of a profile: always the same object, since prompts are cached by it."""
    own = {f"prompt.{key}": text for key, text in profile.sentences.get(language, {}).items()}
    return Words({**load(language).sentences, **own}, language)
