"""FAMILIES: in which form each model family is asked for its calls, and in which others it may write them.

It knows no backend: a family is found by a model's names and by what its chat template holds. The rule: a form is
asked for that the family was raised on, if its marker is plain text and its own template teaches it; else the seed
form `json`, which no runtime strips of its markers and no history breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .formats import FORMATS, Format, formats_for
from .language import Words
from .messages import Tool
from .names import find_tools
from .scanner import Scanner

AUTO = "auto"


@dataclass(frozen=True)
class Family:
    """`words` is what its names hold, a pattern over lower case with `-` for each blank and `_`.

    `asks` is the row of FORMATS to ask for, `accepts` are the forms of its own. `opens_thought`: its template begins
    each reply in a thought.
    """

    name: str
    words: str = ""
    asks: str = "json"
    accepts: tuple[str, ...] = ()
    opens_thought: bool = False


UNKNOWN = Family("unknown")

# The first row whose words a name holds counts. In the comments: why a group is asked for what it is asked for.
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        # the model that ships, whatever its architecture: seed
        Family("tiny-tools", r"tiny-tools"),
        # tuned from another family to call tools, with a text marker: natively, they know nothing else
        Family("hermes", r"hermes-(?:2-pro|2-theta|[34])|groq.*tool-use|arch-function", "hermes", ("hermes",)),
        Family("functionary-3.1", r"functionary.*3\.1", "llama3-function", ("llama3-function",)),
        Family("functionary", r"functionary", "functionary", ("functionary", "llama3-function")),
        Family("nemotron-3", r"nemotron-3(?![.\d])", "qwen3-coder", ("qwen3-coder",), opens_thought=True),
        Family("nemotron-2", r"nemotron-nano-(?:9|12)b", "nemotron", ("nemotron",), opens_thought=True),
        Family("nemotron", r"nemotron-(?:nano|super)", "nemotron", ("nemotron",)),
        # tuned or distilled, with no marker of its own, or one that its template only knows from a history: seed
        Family("deepseek-r1", r"deepseek.*(?:r1|distill|qwen)|r1-distill", accepts=("deepseek",), opens_thought=True),
        Family("deepseek-v3.1", r"deepseek.*v3\.[12]", accepts=("deepseek-v3.1", "deepseek")),
        Family("deepseek", r"deepseek", accepts=("deepseek",)),
        Family("xlam", r"xlam|hammer", accepts=("xlam",)),
        Family("toolace", r"toolace|watt-tool", accepts=("pythonic",)),
        Family("firefunction", r"firefunction", accepts=("phi4",)),
        # never taught a form, whatever they were made from: seed
        Family(
            "plain",
            r"tinyllama|codellama|openhermes|nous-hermes|zephyr|vicuna|falcon|telechat|rwkv|internvl|smolvlm|janus"
            r"|phi-?[1-3](?!\d)|minicpm-?(?:[12]b|2\.4b|s-1b|moe|[vo](?![a-z])|llama3)",
        ),
        # a text marker that their own template teaches: natively, small ones do best in the form they were raised on
        Family(
            "qwen3.5",
            r"qwen-?3[.-][5-9](?![\d.]*[bm])|qwen35(?!\d)",
            "qwen3-coder",
            ("qwen3-coder", "hermes"),
            opens_thought=True,
        ),
        Family("qwen3-coder", r"qwen-?3-coder", "qwen3-coder", ("qwen3-coder", "hermes")),
        Family("qwen3-thinking", r"qwen-?3.*thinking|qwq", "hermes", ("hermes",), opens_thought=True),
        Family("qwen3", r"qwen-?3", "hermes", ("hermes",)),
        Family("qwen2.5", r"qwen-?2[.-]5(?![\d.]*b)", "hermes", ("hermes",)),
        Family("smollm3", r"smollm-?3", "hermes", ("hermes", "smollm3-code")),
        Family("granite4", r"granite-?(?:4|(?:moe-?)?hybrid)", "hermes", ("hermes", "granite")),
        Family("glm4.5", r"glm-?4[.-][5-7](?!b)|glm4moe", "glm4.5", ("glm4.5",)),
        Family("minicpm5", r"minicpm-?5", "minicpm5", ("minicpm5",)),
        Family("functiongemma", r"function-?gemma", "functiongemma", ("functiongemma",)),
        # the marker is a control token, which runtimes may strip and `harmless` breaks in a history: seed
        Family(
            "mistral-3",
            r"mistral-small-3\.2|devstral|magistral|ministral-3(?!b)|mistral-(?:medium|large)-3",
            accepts=("mistral-args", "mistral"),
        ),
        Family("mistral", r"m(?:is|ix|inis)tral|codestral", accepts=("mistral", "mistral-args")),
        Family("internlm2", r"internlm", accepts=("internlm2",)),
        Family("minicpm", r"minicpm", accepts=("minicpm",)),
        Family("gemma4", r"gemma-?4", accepts=("gemma4",)),
        Family("phi4", r"phi-?4", accepts=("phi4",)),
        Family("granite", r"granite", accepts=("granite",)),
        Family("command-r", r"command-r|cohere", accepts=("command-r",)),
        Family("lfm2", r"lfm-?2", accepts=("lfm2",)),
        Family("gpt-oss", r"gpt-?oss", accepts=("harmony",)),
        # no marker, or none that a template teaches: behind a sentence such a call could not be told from talk: seed
        Family("llama4", r"llama-?4", accepts=("pythonic", "llama3")),
        Family("llama3", r"llama-?3", accepts=("llama3", "pythonic", "llama3-function")),
        Family("olmo3", r"olmo-?3", accepts=("pythonic",)),
        Family("chatglm3", r"chatglm", accepts=("chatglm3",)),
        Family("glm4", r"glm-?4|glm-edge", accepts=("glm4",)),
        Family("gemma", r"[a-z]*gemma", accepts=("gemma3",)),
        Family("smollm2", r"smollm-?2", accepts=("hermes",)),
        # its form goes on into the result that it expects unless stopped there: seed
        Family("qwen2", r"(?:code)?qwen", accepts=("qwen2",)),
    )
}

# Family -> what a chat template holds, all of it, that teaches its first form; what is more special comes first.
MARKERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("qwen3-coder", ("<function=", "<parameter=")),
    ("functionary-3.1", ("<function=",)),
    ("functionary", (">>>all",)),
    ("glm4.5", ("<arg_key>",)),
    ("hermes", ("<tool_call>",)),
    ("nemotron", ("<TOOLCALL>",)),
    ("minicpm5", ("<function name=", "<param name=")),
    ("functiongemma", ("<start_function_call>",)),
    ("gemma4", ("<|tool_call>",)),
    ("mistral-3", ("[TOOL_CALLS]", "[ARGS]")),
    ("mistral", ("[TOOL_CALLS]",)),
    ("deepseek", ("<｜tool▁calls▁begin｜>", "```json")),
    ("deepseek-v3.1", ("<｜tool▁calls▁begin｜>",)),
    ("internlm2", ("<|action_start|>",)),
    ("minicpm", ("<|tool_call_start|>", "```python")),
    ("lfm2", ("<|tool_call_start|>",)),
    ("phi4", ("<|/tool_call|>",)),
    ("phi4", ("<|/tool|>",)),
    ("firefunction", ("functools[",)),
    ("granite", ("<|tool_call|>",)),
    ("command-r", ("<|START_ACTION|>",)),
    ("gpt-oss", ("<|channel|>", "<|constrain|>")),
    ("qwen2", ("✿FUNCTION✿",)),
    ("llama3", ("<|python_tag|>",)),
    ("llama3", ('"parameters": dictionary of argument name',)),
)


def find_family(names: Iterable[str], template: str = "") -> Family:
    """The family of a model by its names, the most telling first, and by the text of its chat template.

    A form that the template teaches is stronger than a name of another family; what either would write is accepted.
    """
    named = next((family for name in names if (family := find_by_name(name))), None)
    taught = find_taught(template)
    if named and (not taught or taught[0].accepts[0] in named.accepts):
        family = named
    else:
        family = taught[0] if taught else UNKNOWN
    own = named.accepts if named else ()
    return replace(family, accepts=tuple(dict.fromkeys((*family.accepts, *(one.accepts[0] for one in taught), *own))))


def find_taught(template: str) -> list[Family]:
    """The families whose form a chat template teaches, the most special first."""
    found = [(name, set(texts)) for name, texts in MARKERS if all(text in template for text in texts)]
    return [FAMILIES[name] for name, texts in found if not any(texts < other for _, other in found)]


def find_by_name(name: str) -> Family | None:
    """The first row that is meant by the name of a model or a file, by the last part of a path."""
    plain = re.sub(r"[\s_]+", "-", name.rpartition("/")[2]).casefold()
    found = (family for family in FAMILIES.values() if re.search(rf"(?<![a-z])(?:{family.words})", plain))
    return next(found, None)


def choose_forms(form: str, accepts: Iterable[str]) -> tuple[Format, ...]:
    """What is understood where `form` is asked for: that row, the common ones, and those of the family.

    A row that is none, as a session of another version may name it, is left out.
    """
    return formats_for(form if form in FORMATS else "", [row for row in accepts if row in FORMATS])


def make_scanner(form: str, accepts: Iterable[str], tools: Sequence[Tool] = (), words: Words | None = None) -> Scanner:
    """A scanner of the replies of a model that is asked for `form` and told of these tools; `words` are those of its
    prompts."""

    def headings(name: str) -> tuple[str, ...]:
        keys = ("prompt.result", "prompt.failed") if words else ()
        return tuple(words(key, tool=tool.name) for tool in find_tools(name, tools) for key in keys if words)

    return Scanner(choose_forms(form, accepts), lambda name: bool(find_tools(name, tools)), headings=headings)
