"""FAMILIES: the format each model family is asked to write calls in, and the other formats it may write.

A family is found by the names of a model and by its chat template. The rule: a family is asked for the format it was
trained on if the marker is plain text and the family's own template teaches it; else for our default format `json`,
which no runtime strips of its markers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core.errors import ValidationError
from ..core.i18n import Words
from ..core.identity_cache import cache_by_identity
from ..core.messages import Tool
from .arguments import validate_arguments
from .formats import FORMATS, Format, select_formats
from .scanner import Scanner
from .schema.resolve import READING_STEPS, BudgetedSchema, BudgetExceededError, Node
from .tool_names import find_tools, shown_names

if TYPE_CHECKING:
    from .derived_formats import Render

AUTO = "auto"

_PLAIN_MARKER = re.compile(r"<[\w:.-]+[ =>]")
"""A marker that is plain text, no control token."""


@dataclass(frozen=True)
class Family:
    """A model family.

    Attributes:
        name: Its key in `FAMILIES`.
        name_pattern: Pattern of its model names, in lower case with `-` for each blank and `_`.
        preferred_format: The row of `FORMATS` to ask for.
        accepted_formats: The formats of its own.
        starts_in_thought: Whether its template begins each reply inside a thought.
    """

    name: str
    name_pattern: str = ""
    preferred_format: str = "json"
    accepted_formats: tuple[str, ...] = ()
    starts_in_thought: bool = False


UNKNOWN = Family("unknown")


def _asked(name: str, pattern: str, *accepted: str, starts_in_thought: bool = False) -> Family:
    """Return a family that is asked for the first of its formats."""
    formats = accepted or (name,)
    return Family(name, pattern, formats[0], formats, starts_in_thought)


def _read(name: str, pattern: str, *accepted: str, starts_in_thought: bool = False) -> Family:
    """Return a family that is asked for the default format."""
    return Family(name, pattern, accepted_formats=accepted or (name,), starts_in_thought=starts_in_thought)


# The first row whose pattern matches wins. The comments say why a group is asked for its format.
# fmt: off
_ROWS = (
    # the model that ships, of any architecture: default format
    Family("tiny-tools", r"tiny-tools"),
    # tuned from another family to call tools, with a text marker: their own format, they know no other
    _asked("hermes", r"(?:deep)?hermes-(?:2-pro|2-theta|[34])|groq.*tool-use|arch-function"),
    _asked("functionary-3.1", r"functionary.*3\.1", "llama3-function"),
    _asked("functionary", r"functionary", "functionary", "llama3-function"),
    _asked("nemotron-3", r"nemotron-3(?:\.5)?(?![.\d])", "qwen3-coder", starts_in_thought=True),
    _asked("nemotron-2", r"nemotron-nano-(?:9|12)b", "nemotron", starts_in_thought=True),
    _asked("nemotron", r"nemotron-(?:nano|super)"),
    _asked("chatml-tools", r"jan-(?:nano|v\d)|youtu-|nanbeige|tinyswallow|falcon-?h1|mimo-", "hermes"),
    # tuned or distilled, without a marker, or with one that the template only renders in a history: default format
    _read("deepseek-r1", r"deepseek.*(?:r1|distill|qwen)|r1-distill", "deepseek", starts_in_thought=True),
    _read("deepseek-v3.2", r"deepseek.*v(?:3\.2|4)", "dsml", "deepseek-v3.1", "deepseek", starts_in_thought=True),
    _read("deepseek-v3.1", r"deepseek.*v3\.1", "deepseek-v3.1", "deepseek"),
    _read("deepseek", r"deepseek"),
    _read("xlam", r"xlam|hammer"),
    _read("toolace", r"toolace|watt-tool", "pythonic"),
    _read("firefunction", r"firefunction", "phi4"),
    # never trained on a format, whatever they were made from: default format
    Family("plain",
        r"tinyllama|codellama|openhermes|nous-hermes|zephyr|vicuna|falcon(?!-?h1)|telechat|rwkv|internvl|"
        r"smolvlm|janus|phi-?[1-3](?!\d)|minicpm-?(?:[12]b|2\.4b|s-1b|moe|[vo](?![a-z])|llama3)"),
    # a text marker that their own template teaches: their own format, in which small models do best
    _asked("qwen3.5", r"qwen-?3[.-][5-9](?![\d.]*[bm])|qwen35(?!\d)", "qwen3-coder", "hermes", starts_in_thought=True),
    _asked("qwen3-coder", r"qwen-?3-coder", "qwen3-coder", "hermes"),
    _asked("qwen3-thinking", r"qwen-?3.*thinking|qwq", "hermes", starts_in_thought=True),
    _asked("qwen3", r"qwen-?3", "hermes"),
    _asked("qwen2.5", r"qwen-?2[.-]5(?![\d.]*b)", "hermes"),
    _asked("smollm3", r"smollm-?3", "hermes", "smollm3-code"),
    _asked("granite4", r"granite-?(?:4|(?:moe-?)?hybrid)", "hermes", "granite"),
    _asked("glm4.5", r"glm-?4[.-][5-7](?!b)|glm4moe"),
    _asked("ling3", r"(?:ling|ring)-?3|poolside|laguna", "glm4.5", starts_in_thought=True),
    _asked("ling", r"(?:ling|ring)-", "hermes"),
    _asked("step3.5", r"step-?3[.-][5-9]", "qwen3-coder", "hermes", starts_in_thought=True),
    _asked("exaone4", r"exaone-?4", "hermes", starts_in_thought=True),
    _asked("ernie4.5", r"ernie-?4[.-]5", "hermes"),
    _asked("trinity", r"trinity|reka-edge", "hermes"),
    _asked("minicpm5", r"minicpm-?5"),
    _asked("functiongemma", r"function-?gemma"),
    # the marker is a control token, which runtimes may strip and we break in a history: default format
    _read("mistral-3", r"mistral-small-3\.2|devstral|magistral|ministral-3(?!b)|mistral-(?:medium|large)-3",
        "mistral-args", "mistral"),
    _read("mistral", r"m(?:is|ix|inis)tral|codestral", "mistral", "mistral-args"),
    _read("internlm2", r"internlm"),
    _read("minicpm", r"minicpm"),
    _read("gemma4", r"gemma-?4"),
    _read("phi4", r"phi-?4"),
    _read("granite", r"granite"),
    _read("command-r", r"command-[ar]|cohere|north-"),
    _read("lfm2", r"lfm-?2"),
    _read("gpt-oss", r"gpt-?oss", "harmony"),
    _read("kimi-k2", r"kimi-?k2"),
    _read("kimi-k3", r"kimi-?k3", starts_in_thought=True),
    _read("gigachat3.5", r"gigachat-?3[.-]5"),
    _read("gigachat3", r"gigachat"),
    _read("apertus", r"apertus"),
    _read("minimax-m3", r"minimax-?m3", "minimax-m3", "minimax-m2"),
    _read("minimax-m2", r"minimax", "minimax-m2", "hermes", "tool-calls", starts_in_thought=True),
    _read("hy3", r"hy-?[34](?![\w])|hunyuan-?3", "hy3", "glm4.5"),
    _read("tool-calls", r"hunyuan|jamba"),
    _read("apriel", r"apriel", "tool-calls"),
    _read("solar-open", r"solar-open"),
    _read("inkling", r"inkling"),
    _read("longcat", r"longcat"),
    _read("step3", r"step-?3", starts_in_thought=True),
    _read("seed-oss", r"seed-oss", "seed-oss", "qwen3-coder"),
    _read("plamo3", r"plamo"),
    _read("dots", r"dots[.-]"),
    _read("muse", r"muse-"),
    _read("k2-horizon", r"k2-horizon", starts_in_thought=True),
    # no marker, or none that a template teaches: after a sentence, a call would look like prose: default format
    _read("llama4", r"llama-?4", "llama4", "pythonic", "llama3"),
    _read("llama3", r"llama-?3", "llama3", "pythonic", "llama3-function"),
    _read("olmo3", r"olmo-?3", "olmo3", "pythonic"),
    _read("chatglm3", r"chatglm"),
    _read("glm4", r"glm-?4|glm-edge"),
    _read("gemma", r"[a-z]*gemma", "gemma3"),
    _read("smollm2", r"smollm-?2", "hermes"),
    # in its own format it continues with the expected result unless stopped: default format
    _read("qwen2", r"(?:code)?qwen"),
)
# fmt: on
FAMILIES: dict[str, Family] = {family.name: family for family in _ROWS}

# Family -> texts that a chat template contains, all of them, if it teaches its first format; most specific first.
TEMPLATE_MARKERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("deepseek-v3.2", ("｜DSML｜",)),
    ("gigachat3.5", ("GCML",)),
    ("gigachat3", ("<|role_sep|>", "<|message_sep|>")),
    ("minimax-m3", ("]<]minimax[>[", "<tool_call>")),
    ("minimax-m3", ("]<]minimax[>[",)),
    ("minimax-m2", ("<minimax:tool_call>",)),
    ("seed-oss", ("<seed:tool_call>", "<function=", "<parameter=")),
    ("solar-open", ("<|tool_call:begin|>",)),
    ("inkling", ("<|content_invoke_tool_json|>",)),
    ("longcat", ("<longcat_tool_call>",)),
    ("k2-horizon", ("ifm|tool_call",)),
    ("muse", ("atem:",)),
    ("plamo3", ("plamo:begin_tool_requests",)),
    ("step3", ("steptml:",)),
    ("dots", ("<dots_function_call>",)),
    ("kimi-k3", ("<|open|>", "<|close|>")),
    ("kimi-k2", ("<|tool_calls_section_begin|>",)),
    ("apertus", ("<|tools_prefix|>",)),
    ("hy3", ("hy_Assistant", "tool_calls")),
    ("apriel", ("<tool_calls>[", "<tool_call>")),
    ("tool-calls", ("<tool_calls>[",)),
    ("olmo3", ("<function_calls>",)),
    ("llama4", ("<|header_start|>", "<|python_start|>")),
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
    ("gpt-oss", ("<|channel|>", "<|message|>")),
    ("qwen2", ("✿FUNCTION✿",)),
    ("llama3", ("<|python_tag|>",)),
    ("llama3", ('"parameters": dictionary of argument name',)),
)


def find_family(names: Iterable[str], template: str = "", render: Render | None = None) -> Family:
    """Find the family of a model.

    A format that the chat template teaches is stronger evidence than a name that belongs to another family; the
    formats of both are accepted.

    Args:
        names: What the model is called, most specific first.
        template: The text of its chat template.
        render: Renders the template, from which a format is then derived if it teaches none of the known ones.
    """
    named = next((family for name in names if (family := find_family_by_name(name))), None)
    taught = _find_taught(template)
    if named and (not taught or taught[0].accepted_formats[0] in named.accepted_formats):
        family = named
    else:
        family = taught[0] if taught else UNKNOWN
    named_accepts = named.accepted_formats if named else ()
    accepts = (*family.accepted_formats, *(row.accepted_formats[0] for row in taught), *named_accepts)
    found = replace(family, accepted_formats=tuple(dict.fromkeys(accepts)))
    return _add_derived(found, template, render, bool(taught)) if render else found


def _add_derived(family: Family, template: str, render: Render, is_taught: bool) -> Family:
    """Return the family with what its template tells besides; a row that writes calls alike is taken instead."""
    from .derived_formats import derive_format, find_equal_row  # takes longer than the rest of a start, and is rare

    accepted = family.accepted_formats
    derived = derive_format(template, render, [FORMATS[row] for row in accepted], has_calls=is_taught)
    if not derived:
        return family
    FORMATS[derived.name] = derived
    if not derived.layout.call:  # without formats of its own, a model may write all of them
        return replace(family, accepted_formats=(*accepted, derived.name) if accepted else ())
    row = find_equal_row(derived)
    preferred = row.name if _PLAIN_MARKER.match(row.layout.opener) else family.preferred_format
    return replace(family, preferred_format=preferred, accepted_formats=tuple(dict.fromkeys((row.name, *accepted))))


def _find_taught(template: str) -> list[Family]:
    """Return the families whose format a chat template teaches, most specific first."""
    matches = [(name, set(texts)) for name, texts in TEMPLATE_MARKERS if all(text in template for text in texts)]
    return [FAMILIES[name] for name, texts in matches if not any(texts < other for _, other in matches)]


def find_family_by_name(name: str) -> Family | None:
    """Return the first family whose pattern occurs in the name of a model or in the last part of a path."""
    normalized = re.sub(r"[\s_]+", "-", name.rpartition("/")[2]).casefold()
    matches = (family for family in FAMILIES.values() if re.search(rf"(?<![a-z])(?:{family.name_pattern})", normalized))
    return next(matches, None)


def resolve_formats(format_name: str, accepts: Iterable[str]) -> tuple[Format, ...]:
    """Return the formats to accept from a model: the one asked for, the common ones, and those of its family.

    Unknown rows, which a session of another version may name, are ignored.
    """
    return select_formats(format_name if format_name in FORMATS else "", [row for row in accepts if row in FORMATS])


def make_scanner(
    format_name: str,
    accepts: Sequence[str],
    tools: Sequence[Tool] = (),
    words: Words | None = None,
    writes_unmarked: bool = False,
) -> Scanner:
    """Create a scanner for the replies of a model.

    Args:
        format_name: The row of `FORMATS` that the model is asked for.
        accepts: The formats of its family.
        tools: The tools it is offered.
        words: The catalogue of its prompts, whose result headings the scanner recognizes as invented results.
        writes_unmarked: Whether the family writes calls without a marker, also behind prose.
    """

    def headings(name: str) -> tuple[str, ...]:
        keys = ("prompt.result", "prompt.failed") if words else ()
        return tuple(words(key, tool=tool.name) for tool in find_tools(name, tools) for key in keys if words)

    def parameters_of(name: str) -> set[str]:
        try:
            roots = [Node(BudgetedSchema(tool.schema, READING_STEPS)) for tool in find_tools(name, tools)]
            return {key for root in roots for key in root.property_names()}
        except (BudgetExceededError, RecursionError):
            return set()

    rows = [row for row in (format_name, *accepts) if row in FORMATS]
    return Scanner(
        resolve_formats(format_name, accepts),
        lambda name: bool(find_tools(name, tools)),
        headings=headings,
        parameters_of=parameters_of,
        thought_ending=[FORMATS[row] for row in rows if FORMATS[row].call_ends_thought],
        writes_unmarked=writes_unmarked,
        offered=_list_offered(tools),
        stripped=[FORMATS[row] for row in accepts if row in FORMATS],
    )


@cache_by_identity()
def _list_offered(tools: Iterable[Tool]) -> Mapping[str, bool]:
    """Return whether each tool needs arguments, by the name that is shown to the model."""
    return {name: _needs_arguments(tool) for name, tool in shown_names(tools).items()}


def _needs_arguments(tool: Tool) -> bool:
    """Tell whether a call without arguments is not valid."""
    try:
        validate_arguments({}, tool.schema)
    except ValidationError:
        return True
    return False
