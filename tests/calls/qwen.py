"""Qwen's other forms: <function=f> with raw values (Qwen3-Coder, Qwen3.5), and the flowers of Qwen2."""

from __future__ import annotations

from calls.case import BAD_JSON, CUT, OSLO, TIDE, TIDE_JSON, Row, call, said, thought, tide
from rkllm_chat.events import CallFound

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


LONG = 'for (i = 0; i < n && !done; i++) { puts("</p>"); }\n' * 400

PLAIN = (
    row("a call and nothing else", CALL, TIDE),
    row("several values stay texts", OSLO_CALL, OSLO_TEXTS),
    row("text before", f"I'll look that up.\n\n{CALL}", said("I'll look that up."), TIDE),
    row(
        "text between and behind",
        f"{CALL}\nAnd the weather:\n{OSLO_CALL}\nDone.",
        TIDE,
        said("And the weather:"),
        OSLO_TEXTS,
        said("Done."),
    ),
    row("two calls", f"{CALL}\n{OSLO_CALL}<|im_end|>", TIDE, OSLO_TEXTS),
    row("no outer tag", FUNCTION, TIDE),
    row("no outer tag, text around", f"Yes.\n{FUNCTION}\nOne moment.", said("Yes."), TIDE, said("One moment.")),
    row("an outer end tag alone", f"{FUNCTION}\n</tool_call>", TIDE),
    row("no parameters", "<tool_call>\n<function=search>\n</function>\n</tool_call>", call("search")),
    row(
        "a value on the line of its tags",
        "<tool_call><function=get_tide><parameter=harbour>Husum</parameter></function></tool_call>",
        TIDE,
    ),
    row(
        "a tool that nobody has",
        "<tool_call>\n<function=book_flight>\n<parameter=to>\nOslo\n</parameter>\n</function>\n</tool_call>",
        call("book_flight", to="Oslo"),
    ),
    row(
        "a thought that the prompt opened",
        f"The user wants the tide.\n</think>\n\n{CALL}",
        thought("The user wants the tide."),
        TIDE,
        starts_in_thought=True,
    ),
    row(
        "Japanese around and in a value",
        "では、\n" + CALL.replace("Husum", "横浜港") + "\nお待ちください。",
        said("では、"),
        call("get_tide", harbour="横浜港"),
        said("お待ちください。"),
    ),
    row("CRLF line ends", "Yes.\r\n" + CALL.replace("\n", "\r\n"), said("Yes."), TIDE),
    row("a value of 20 kB", file_of(f"\n{LONG}\n"), written(LONG)),
)

VALUES = (
    row(
        "entities are not decoded",
        file_of("\nif a &lt; b &amp;&amp; c: &#39;x&#39;\n"),
        written("if a &lt; b &amp;&amp; c: &#39;x&#39;"),
    ),
    row("markup is raw", file_of('\n<div class="a">1 < 2 & 3</div>\n'), written('<div class="a">1 < 2 & 3</div>')),
    row(
        "lines and indents stay",
        file_of("\ndef f():\n    return 1\n\n\nf()\n"),
        written("def f():\n    return 1\n\n\nf()"),
    ),
    row("only one newline at each side is taken off", file_of("\n\none\n\n"), written("\none\n")),
    row("an empty value", file_of("\n"), written("")),
    row("JSON stays text", file_of('\n{"a": [1, true, null]}\n'), written('{"a": [1, true, null]}')),
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
    row(
        "a start tag of a function", file_of("\n<function=search> is a call\n"), written("<function=search> is a call")
    ),
    row("quotes and backslashes", file_of("\n\"a\" 'b' C:\\new\n"), written("\"a\" 'b' C:\\new")),
    row("a control token stays", file_of("\na<|im_end|>b\n"), written("a<|im_end|>b")),
)

DAMAGE = (
    row("a value closed as an argument", CALL.replace("</parameter>", "</argument>"), tide("wrong end marker")),
    row(
        "a value closed as a param",
        OSLO_CALL.replace("</parameter>\n<", "</param>\n<"),
        call("get_weather", "wrong end marker", city="Oslo", days="3"),
    ),
    row(
        "a value closed by its own name",
        OSLO_CALL.replace("Oslo\n</parameter>", "Oslo\n</city>"),
        call("get_weather", "wrong end marker", city="Oslo", days="3"),
    ),
    row("no outer end tag at the end of the reply", CALL.removesuffix("\n</tool_call>"), tide("missing end marker")),
    row(
        "no outer end tag before text",
        CALL.removesuffix("</tool_call>") + "Please wait.",
        tide("missing end marker"),
        said("Please wait."),
    ),
    row(
        "no outer end tag before the next call",
        f"<tool_call>\n{FUNCTION}\n{OSLO_CALL}",
        tide("missing end marker"),
        OSLO_TEXTS,
    ),
    row("closed as a tool", f"<tool_call>\n{FUNCTION}\n</tool>", tide("wrong end marker")),
    row("a fence around the whole reply", f"```xml\n{CALL}\n```", tide("fence")),
    row("JSON in the outer tag, as Hermes writes it", f"<tool_call>\n{TIDE_JSON}\n</tool_call>", TIDE),
)

NO_CALL = (
    row("cut in a value", "<tool_call>\n<function=write_file>\n<parameter=path>\n/etc/pas", CUT),
    row(
        "cut in a later value",
        "Yes.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3",
        said("Yes."),
        CUT,
    ),
    row("cut behind a value", "<tool_call>\n<function=get_tide>\n<parameter=harbour>\nHusum\n</parameter>\n", CUT),
    row("cut in the tag of a value", "<tool_call>\n<function=get_tide>\n<parameter=har", CUT),
    row("cut in a value without the outer tag", "<function=get_tide>\n<parameter=harbour>\nHus", CUT),
    row("cut in the second call", f"{CALL}\n<tool_call>\n<function=write_file>\n<parameter=path>\na", TIDE, CUT),
    row(
        "a sentence about the tag",
        "Write <function=NAME> and close it again.",
        said("Write <function=NAME> and close it again."),
    ),
    row(
        "a sentence about both tags",
        "First <tool_call>, then <parameter=x> for each value.",
        said("First <tool_call>, then <parameter=x> for each value."),
    ),
    row(
        "a sentence, then a call",
        f"I write <tool_call> and <function=x> now.\n{CALL}",
        said("I write <tool_call> and <function=x> now."),
        TIDE,
    ),
)


def flowers(name: str, arguments: str) -> str:
    return f"✿FUNCTION✿: {name}\n✿ARGS✿: {arguments}\n✿RESULT✿"


QWEN2 = (
    qwen2("a call and nothing else", flowers("get_tide", '{"harbour": "Husum"}'), TIDE),
    qwen2("text before", "好的。\n" + flowers("get_tide", '{"harbour": "Husum"}'), said("好的。"), TIDE),
    qwen2("types are kept", flowers("get_weather", '{"city": "Oslo", "days": 3}'), OSLO),
    qwen2("no arguments", flowers("search", "{}"), call("search")),
    qwen2("a tool that nobody has", flowers("book_flight", '{"to": "东京"}'), call("book_flight", to="东京")),
    qwen2(
        "flowers in a string",
        flowers("search", '{"words": "✿RESULT✿ and ✿FUNCTION✿: x"}'),
        call("search", words="✿RESULT✿ and ✿FUNCTION✿: x"),
    ),
    qwen2("arguments over lines", flowers("get_weather", '{\n  "city": "Oslo",\n  "days": 3\n}'), OSLO),
    qwen2("a trailing comma", flowers("get_tide", '{"harbour": "Husum",}'), tide("trailing comma")),
    qwen2("single quotes", flowers("get_tide", "{'harbour': 'Husum'}"), tide("single quotes")),
    qwen2("a list for arguments", flowers("get_tide", '["Husum"]'), BAD_JSON),
    qwen2("cut in the arguments", '✿FUNCTION✿: get_tide\n✿ARGS✿: {"harbour": "Hu', CUT),
    qwen2(
        "a sentence about the flower", "The mark ✿FUNCTION✿ opens a call.", said("The mark ✿FUNCTION✿ opens a call.")
    ),
    qwen2("the taught form", f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]", TIDE),
)

CASES = (*PLAIN, *VALUES, *DAMAGE, *NO_CALL, *QWEN2)
