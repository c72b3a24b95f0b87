"""<tool_call name="..."> with <argument> elements, and its near twin of MiniCPM5, <function name="...">."""

from __future__ import annotations

from calls.case import CUT, Row, call, garbled, said, tide
from rkllm_chat.core.events import CallFound

row = Row("xml")
minicpm5 = Row("minicpm5")
BAD_XML = garbled("bad_xml")
TIDE = tide()
CALL = '<tool_call name="get_tide">\n<argument name="harbour">Husum</argument>\n</tool_call>'
OSLO = call("get_weather", city="Oslo", days="3")
OSLO_CALL = (
    '<tool_call name="get_weather"><argument name="city">Oslo</argument><argument name="days">3</argument></tool_call>'
)


def file_of(content: str) -> str:
    """A call that writes a file, with its content as it stands in the reply."""
    return (
        '<tool_call name="write_file">\n<argument name="path">a.txt</argument>\n'
        f'<argument name="content">{content}</argument>\n</tool_call>'
    )


def written(content: str, *repairs: str) -> CallFound:
    return call("write_file", *repairs, path="a.txt", content=content)


LONG = 'if (a < b) { return "x"; } // & so on\n' * 500

PLAIN = (
    row(
        "text before, between and behind",
        f"One:\n{CALL}\nTwo:\n{OSLO_CALL}\nDone.",
        said("One:"),
        TIDE,
        said("Two:"),
        OSLO,
        said("Done."),
    ),
    row("CRLF line ends", "Yes.\r\n" + CALL.replace("\n", "\r\n") + "\r\n", said("Yes."), TIDE),
)

VALUES = (
    row("one newline at each side is taken off", file_of("\none\n  two\n"), written("one\n  two")),
    row(
        "entities",
        file_of("if a &lt; b &amp;&amp; c &gt; d: &quot;x&#39;s&quot;"),
        written('if a < b && c > d: "x\'s"'),
    ),
    row("an entity is decoded once", file_of("&amp;lt;"), written("&lt;")),
    row("raw markup", file_of("<p>1 < 2 & 3 > 2</p>"), written("<p>1 < 2 & 3 > 2</p>")),
    row(
        "a CDATA section",
        file_of("<![CDATA[<b> &lt; </argument></tool_call>]]>"),
        written("<b> &lt; </argument></tool_call>"),
    ),
    row("the end tag of the call in a value", file_of("one</tool_call>two"), written("one</tool_call>two")),
    row("the end tag of an argument in a value", file_of("one</argument>two"), written("one</argument>two")),
    row("a control token in a value stays", file_of("a<|im_end|>b"), written("a<|im_end|>b")),
)

DAMAGE = (
    row(
        "an argument closed as a parameter",
        '<tool_call name="get_weather">\n<argument name="city">Oslo</parameter>\n<argument name="days">3</argument>\n'
        "</tool_call>",
        call("get_weather", "wrong end marker", city="Oslo", days="3"),
    ),
    row("an argument closed by its own name", CALL.replace("</argument>", "</harbour>"), tide("wrong end marker")),
    row("a fence around the whole reply", f"```xml\n{CALL}\n```", tide("fence")),
)

GARBLED = (
    row("loose text in the call", '<tool_call name="get_tide">Husum</tool_call>', BAD_XML),
    row(
        "an argument without a name",
        '<tool_call name="get_tide"><argument>Husum</argument></tool_call> Hm.',
        BAD_XML,
        said("Hm."),
    ),
)

CUT_OFF = (
    row("cut in the name", '<tool_call name="get_ti', CUT),
    row("cut in the tag of an argument", 'Yes.\n<tool_call name="get_tide">\n<argument na', said("Yes."), CUT),
    row("cut in a CDATA section", '<tool_call name="get_tide"><argument name="harbour"><![CDATA[Husum</argument>', CUT),
)

PROSE = (
    row(
        "a sentence about the tag, then a call",
        f"I write <tool_call> now:\n{CALL}",
        said("I write <tool_call> now:"),
        TIDE,
    ),
)

MINICPM5_CALL = '<function name="get_tide"><param name="harbour">Husum</param></function>'

MINICPM5 = (
    minicpm5(
        "a CDATA section",
        '<function name="write_file"><param name="path">a.txt</param><param name="content">'
        "<![CDATA[if (a < b) { </param></function> }]]></param></function>",
        written("if (a < b) { </param></function> }"),
    ),
    minicpm5(
        "entities",
        '<function name="run_query"><param name="sql">SELECT &#39;a&#39; &lt; &quot;b&quot; &amp; 1</param></function>',
        call("run_query", sql="SELECT 'a' < \"b\" & 1"),
    ),
)

CASES = (*PLAIN, *VALUES, *DAMAGE, *GARBLED, *CUT_OFF, *PROSE, *MINICPM5)
