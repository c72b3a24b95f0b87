"""Qwen's other forms: <function=f> with raw values (Qwen3-Coder, Qwen3.5), and the flowers of Qwen2."""

from __future__ import annotations

from calls.case import CUT, TIDE, Row, call, said, thought, tide
from rkllm_chat.core.events import CallFound

row = Row("qwen3-coder")
qwen2 = Row("qwen2")

FUNCTION = "<function=get_tide>\n<parameter=harbour>\nHusum\n</parameter>\n</function>"
CALL = f"<tool_call>\n{FUNCTION}\n</tool_call>"
OSLO_TEXTS = call("get_weather", city="Oslo", days="3")
OSLO_CALL = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
    "</function>\n</tool_call>"
)


def file_of(content: str) -> str:
    """A call that writes a file, with its content as it stands in the reply."""
    return (
        "<tool_call>\n<function=write_file>\n<parameter=path>\na.txt\n</parameter>\n"
        f"<parameter=content>{content}</parameter>\n</function>\n</tool_call>"
    )


def written(content: str, *repairs: str) -> CallFound:
    return call("write_file", *repairs, path="a.txt", content=content)


PLAIN = (
    row(
        "text between and behind",
        f"{CALL}\nAnd the weather:\n{OSLO_CALL}\nDone.",
        TIDE,
        said("And the weather:"),
        OSLO_TEXTS,
        said("Done."),
    ),
    row("no outer tag", FUNCTION, TIDE),
    row(
        "a thought that the prompt opened",
        f"The user wants the tide.\n</think>\n\n{CALL}",
        thought("The user wants the tide."),
        TIDE,
        starts_in_thought=True,
    ),
)

VALUES = (
    row(
        "entities are not decoded",
        file_of("\nif a &lt; b &amp;&amp; c: &#39;x&#39;\n"),
        written("if a &lt; b &amp;&amp; c: &#39;x&#39;"),
    ),
    row("markup is raw", file_of('\n<div class="a">1 < 2 & 3</div>\n'), written('<div class="a">1 < 2 & 3</div>')),
    row(
        "the end tags of call and function",
        file_of("\nno </tool_call> and </function> here\n"),
        written("no </tool_call> and </function> here"),
    ),
    row(
        "the end tag of a value in a sentence",
        file_of("\nwrite </parameter> behind it\n"),
        written("write </parameter> behind it"),
    ),
)

DAMAGE = (
    row("a value closed as an argument", CALL.replace("</parameter>", "</argument>"), tide("wrong end marker")),
    row(
        "a value closed by its own name",
        OSLO_CALL.replace("Oslo\n</parameter>", "Oslo\n</city>"),
        call("get_weather", "wrong end marker", city="Oslo", days="3"),
    ),
    row(
        "no outer end tag before the next call",
        f"<tool_call>\n{FUNCTION}\n{OSLO_CALL}",
        tide("missing end marker"),
        OSLO_TEXTS,
    ),
)

NO_CALL = (
    row("cut behind a value", "<tool_call>\n<function=get_tide>\n<parameter=harbour>\nHusum\n</parameter>\n", CUT),
    row("cut in the tag of a value", "<tool_call>\n<function=get_tide>\n<parameter=har", CUT),
    row(
        "a sentence, then a call",
        f"I write <tool_call> and <function=x> now.\n{CALL}",
        said("I write <tool_call> and <function=x> now."),
        TIDE,
    ),
)


def flowers(name: str, arguments: str) -> str:
    return f"✿FUNCTION✿: {name}\n✿ARGS✿: {arguments}\n✿RESULT✿"


QWEN2 = (qwen2("text before", "好的。\n" + flowers("get_tide", '{"harbour": "Husum"}'), said("好的。"), TIDE),)

CASES = (*PLAIN, *VALUES, *DAMAGE, *NO_CALL, *QWEN2)
