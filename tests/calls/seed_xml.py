"""<tool_call name="..."> with <argument> elements, and its near twin of MiniCPM5, <function name="...">."""

from __future__ import annotations

from calls.case import CUT, Row, call, garbled, said, tide
from rkllm_chat.events import CallFound

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
    row("a call and nothing else", CALL, TIDE),
    row("a call on one line", OSLO_CALL, OSLO),
    row("indented, as the design shows it", CALL.replace("\n<arg", "\n  <arg"), TIDE),
    row("text before", f"I will look.\n{CALL}", said("I will look."), TIDE),
    row(
        "text before, between and behind",
        f"One:\n{CALL}\nTwo:\n{OSLO_CALL}\nDone.",
        said("One:"),
        TIDE,
        said("Two:"),
        OSLO,
        said("Done."),
    ),
    row("two calls, one behind the other", CALL + OSLO_CALL, TIDE, OSLO),
    row("no arguments", '<tool_call name="search"></tool_call>', call("search")),
    row("no arguments over two lines", '<tool_call name="search">\n</tool_call>\n', call("search")),
    row(
        "single quotes around the names",
        "<tool_call name='get_tide'><argument name='harbour'>Husum</argument></tool_call>",
        TIDE,
    ),
    row(
        "a tool that nobody has",
        '<tool_call name="book_flight"><argument name="to">Oslo</argument></tool_call>',
        call("book_flight", to="Oslo"),
    ),
    row(
        "a tool with its server's name",
        '<tool_call name="board__get_time"><argument name="place">東京</argument></tool_call>',
        call("board__get_time", place="東京"),
    ),
    row(
        "values stay texts",
        '<tool_call name="set_light"><argument name="room">007</argument><argument name="state">true</argument>'
        '<argument name="level">0.50</argument></tool_call>',
        call("set_light", room="007", state="true", level="0.50"),
    ),
    row("an empty value", file_of(""), written("")),
    row("CRLF line ends", "Yes.\r\n" + CALL.replace("\n", "\r\n") + "\r\n", said("Yes."), TIDE),
    row(
        "Chinese around and in a value",
        '好的：<tool_call name="get_weather"><argument name="city">上海</argument></tool_call>请稍等。',
        said("好的："),
        call("get_weather", city="上海"),
        said("请稍等。"),
    ),
    row("emoji in a value", file_of("🏖️ ≠ 🌊"), written("🏖️ ≠ 🌊")),
    row("a value of 20 kB", file_of(LONG), written(LONG.removesuffix("\n"))),
)

VALUES = (
    row("one newline at each side is taken off", file_of("\none\n  two\n"), written("one\n  two")),
    row("only one newline at each side is taken off", file_of("\n\none\n\n"), written("\none\n")),
    row("blanks around a value stay", file_of(" one "), written(" one ")),
    row("a blank indent in the first line stays", file_of("\n    return 1\n"), written("    return 1")),
    row(
        "entities",
        file_of("if a &lt; b &amp;&amp; c &gt; d: &quot;x&#39;s&quot;"),
        written('if a < b && c > d: "x\'s"'),
    ),
    row("an entity is decoded once", file_of("&amp;lt;"), written("&lt;")),
    row("numeric entities", file_of("&#65;&#x42;"), written("AB")),
    row("raw markup", file_of("<p>1 < 2 & 3 > 2</p>"), written("<p>1 < 2 & 3 > 2</p>")),
    row("quotes of all kinds", file_of("\"a\" 'b' `c` “d”"), written("\"a\" 'b' `c` “d”")),
    row(
        "a CDATA section",
        file_of("<![CDATA[<b> &lt; </argument></tool_call>]]>"),
        written("<b> &lt; </argument></tool_call>"),
    ),
    row("the end tag of the call in a value", file_of("one</tool_call>two"), written("one</tool_call>two")),
    row("the end tag of an argument in a value", file_of("one</argument>two"), written("one</argument>two")),
    row("a start tag of a call in a value", file_of('<tool_call name="x">'), written('<tool_call name="x">')),
    row(
        "a JSON call in a value",
        file_of('[TOOL_CALL]{"name": "search", "arguments": {}}[END_TOOL_CALL]'),
        written('[TOOL_CALL]{"name": "search", "arguments": {}}[END_TOOL_CALL]'),
    ),
    row("JSON in a value stays text", file_of('{"a": [1, 2]}'), written('{"a": [1, 2]}')),
    row("a fence in a value", file_of("\n```sh\nls\n```\n"), written("```sh\nls\n```")),
    row("a control token in a value stays", file_of("a<|im_end|>b"), written("a<|im_end|>b")),
)

DAMAGE = (
    row(
        "an argument closed as a parameter",
        '<tool_call name="get_weather">\n<argument name="city">Oslo</parameter>\n<argument name="days">3</argument>\n'
        "</tool_call>",
        call("get_weather", "wrong end marker", city="Oslo", days="3"),
    ),
    row("an argument closed as a param", CALL.replace("</argument>", "</param>"), tide("wrong end marker")),
    row("an argument closed by its own name", CALL.replace("</argument>", "</harbour>"), tide("wrong end marker")),
    row("a fence around the whole reply", f"```xml\n{CALL}\n```", tide("fence")),
)

GARBLED = (
    row("loose text in the call", '<tool_call name="get_tide">Husum</tool_call>', BAD_XML),
    row("an element that is no argument", '<tool_call name="get_tide"><harbour>Husum</harbour></tool_call>', BAD_XML),
    row(
        "an argument without a name",
        '<tool_call name="get_tide"><argument>Husum</argument></tool_call> Hm.',
        BAD_XML,
        said("Hm."),
    ),
    row("a garbled call, then a good one", f'<tool_call name="get_tide">Husum</tool_call>\n{CALL}', BAD_XML, TIDE),
)

CUT_OFF = (
    row("cut in the name", '<tool_call name="get_ti', CUT),
    row("cut in the tag of an argument", 'Yes.\n<tool_call name="get_tide">\n<argument na', said("Yes."), CUT),
    row("cut in a value", '<tool_call name="write_file"><argument name="path">/etc/pas', CUT),
    row(
        "cut in a later value",
        '<tool_call name="write_file"><argument name="path">a</argument><argument name="content">rm -rf /tmp/x',
        CUT,
    ),
    row("cut in the end tag of an argument", CALL.partition("</argument>")[0] + "</argum", CUT),
    row("cut in a CDATA section", '<tool_call name="get_tide"><argument name="harbour"><![CDATA[Husum</argument>', CUT),
    row("cut in the second call", f'{CALL}\n<tool_call name="get_weather"><argument name="city">O', TIDE, CUT),
)

PROSE = (
    *(
        row(name, text, said(text))
        for name, text in {
            "a sentence about the tag": "Write <tool_call name=...> around the arguments.",
            "a type in C++": "std::vector<tool_call> calls;",
            "the beginning of a tag": "The tag begins with <tool_call",
            "a tag with another name": "<tool_caller> and <tool_calling> are other tags.",
            "less than": "1 < 2 and <argument> is a word; a</argument>b too.",
        }.items()
    ),
    row(
        "a sentence about the tag, then a call",
        f"I write <tool_call> now:\n{CALL}",
        said("I write <tool_call> now:"),
        TIDE,
    ),
)

MINICPM5_CALL = '<function name="get_tide"><param name="harbour">Husum</param></function>'

MINICPM5 = (
    minicpm5("a call and nothing else", MINICPM5_CALL, TIDE),
    minicpm5(
        "text before and behind",
        f"Let me see.\n{MINICPM5_CALL}\nOne moment.",
        said("Let me see."),
        TIDE,
        said("One moment."),
    ),
    minicpm5(
        "two calls, and values stay texts",
        MINICPM5_CALL + '\n<function name="get_weather"><param name="city">Oslo</param>'
        '<param name="days">3</param></function>',
        TIDE,
        OSLO,
    ),
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
    minicpm5(
        "raw markup",
        '<function name="search"><param name="words"><p>海 & 山</p></param></function>',
        call("search", words="<p>海 & 山</p>"),
    ),
    minicpm5(
        "a tool that nobody has",
        '<function name="book_flight"><param name="to">Oslo</param></function>',
        call("book_flight", to="Oslo"),
    ),
    minicpm5(
        "a value closed as a parameter", MINICPM5_CALL.replace("</param>", "</parameter>"), tide("wrong end marker")
    ),
    minicpm5("cut in a value", '<function name="get_tide"><param name="harbour">Hus', CUT),
    minicpm5("cut in the second call", f'{MINICPM5_CALL}<function name="get_weather"><param name="city">O', TIDE, CUT),
    minicpm5("a sentence about the tag", "The <function> tag has a name.", said("The <function> tag has a name.")),
    minicpm5(
        "the taught form", '[TOOL_CALL]{"name": "get_tide", "arguments": {"harbour": "Husum"}}[END_TOOL_CALL]', TIDE
    ),
)

CASES = (*PLAIN, *VALUES, *DAMAGE, *GARBLED, *CUT_OFF, *PROSE, *MINICPM5)
