"""CASES: replies as engines give them, and what must be seen in each. It knows no reader of replies.

The cases come from what models are documented to write and from faults that other programs had with it. The usual
replies of each family are in `replies.py`; here is what is special to a form. To add a case is to add a row.
"""

from __future__ import annotations

from calls.case import BAD_JSON, CUT, OSLO, OSLO_JSON, TIDE, TIDE_JSON, Case, Row, call, garbled, said, thought, tide

unknown, json, xml, hermes, coder, minicpm5 = map(Row, ("", "json", "xml", "hermes", "qwen3-coder", "minicpm5"))
llama3, function, gemma4, mistral_args, phi4 = map(Row, ("llama3", "llama3-function", "gemma4", "mistral-args", "phi4"))
granite, nemotron, xlam, glm4, glm45, functionary = map(
    Row, ("granite", "nemotron", "xlam", "glm4", "glm4.5", "functionary")
)
deepseek, deepseek31, internlm2, harmony, pythonic, lfm2 = map(
    Row, ("deepseek", "deepseek-v3.1", "internlm2", "harmony", "pythonic", "lfm2")
)
minicpm, smollm3, chatglm3, gemma3 = map(Row, ("minicpm", "smollm3-code", "chatglm3", "gemma3"))

BAD_XML, BAD_PYTHON, IN_THINKING = garbled("bad_xml"), garbled("bad_python"), garbled("call_in_thinking")
NO_END, WRONG_END = tide("missing end marker"), tide("wrong end marker")


def marked(body: str) -> str:
    return f"[TOOL_CALL]\n{body}\n[END_TOOL_CALL]"


def tagged(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def fenced(text: str, language: str = "", fence: str = "```") -> str:
    return f"{fence}{language}\n{text}\n{fence}"


JSON, HERMES, HERMES_OSLO = marked(TIDE_JSON), tagged(TIDE_JSON), tagged(OSLO_JSON)
XML = '<tool_call name="get_tide">\n<argument name="harbour">Husum</argument>\n</tool_call>'
FUNCTION = "<function=get_tide>\n<parameter=harbour>\nHusum\n</parameter>\n</function>"
CODER = tagged(FUNCTION)
HUSUM = '{"harbour": "Husum"}'
BARE = f'{{"name": "get_tide", "parameters": {HUSUM}}}'
PYTHON = 'get_tide(harbour="Husum")'

TAUGHT_JSON = (
    json(
        "text before, between and behind two calls",
        f"First the tide.\n{JSON}\nThen the weather.\n{marked(OSLO_JSON)}\nThat is all.",
        said("First the tide."),
        TIDE,
        said("Then the weather."),
        OSLO,
        said("That is all."),
    ),
    json("arguments before the name", marked(f'{{"arguments": {HUSUM}, "name": "get_tide"}}'), TIDE),
    json(
        "an argument that looks like a call",
        marked('{"name": "search", "arguments": {"example": {"name": "get_tide", "arguments": {"harbour": "x"}}}}'),
        call("search", example={"name": "get_tide", "arguments": {"harbour": "x"}}),
    ),
    json("CRLF line ends", f"Let me look.\r\n[TOOL_CALL]\r\n{TIDE_JSON}\r\n[END_TOOL_CALL]\r\n",
         said("Let me look."), TIDE),
    json("cut in the second call", f'{JSON}\n[TOOL_CALL]\n{{"name": "get_weather", "arguments": {{"ci', TIDE, CUT),
    json("a sentence about the marker, then a call", f"I write [TOOL_CALL] and then the JSON:\n{JSON}",
         said("I write [TOOL_CALL] and then the JSON:"), TIDE),
    json("a marker twice before the call", f"[TOOL_CALL]\n{JSON}", TIDE),
    json("a fence inside the markers", marked(fenced(TIDE_JSON, "json")), tide("fence")),
    json("the end marker with a slash", f"[TOOL_CALL]\n{TIDE_JSON}\n[/TOOL_CALL]", WRONG_END),
    json("no end marker at the end of the reply", f"[TOOL_CALL]\n{TIDE_JSON}", NO_END),
    json("no end marker before the next call", f"[TOOL_CALL]\n{TIDE_JSON}\n{marked(OSLO_JSON)}", NO_END, OSLO),
    json("parameters for arguments", marked(BARE), tide("parameters for arguments")),
    json("arguments that are encoded twice",
         marked(r'{"name": "get_tide", "arguments": "{\"harbour\": \"Husum\"}"}'), tide("encoded arguments")),
    json("tool_name for name", marked(f'{{"tool_name": "get_tide", "arguments": {HUSUM}}}'), TIDE),
    json("a call that is wrapped as a function", marked(f'{{"type": "function", "function": {TIDE_JSON}}}'), TIDE),
    json("a JavaScript object", marked("{name: 'get_tide', arguments: {harbour: 'Husum',},}"),
         tide("unquoted key", "single quotes", "trailing comma")),
)  # fmt: skip


def xml_file(content: str) -> str:
    """A call that writes a file, with its content as it stands in the reply."""
    return (
        '<tool_call name="write_file">\n<argument name="path">a.txt</argument>\n'
        f'<argument name="content">{content}</argument>\n</tool_call>'
    )


def coder_file(content: str) -> str:
    return tagged(
        f"<function=write_file>\n<parameter=path>\na.txt\n</parameter>\n<parameter=content>{content}</parameter>\n"
        "</function>"
    )


TAGS = (
    xml("entities", xml_file("if a &lt; b &amp;&amp; c &gt; d: &quot;x&#39;s&quot;"),
        call("write_file", path="a.txt", content='if a < b && c > d: "x\'s"')),
    xml("an entity is decoded once", xml_file("&amp;lt;"), call("write_file", path="a.txt", content="&lt;")),
    xml("a control token in a value stays", xml_file("a<|im_end|>b"),
        call("write_file", path="a.txt", content="a<|im_end|>b")),
    xml("an argument closed as a parameter", XML.replace("</argument>", "</parameter>"), WRONG_END),
    xml("an argument closed by its own name", XML.replace("</argument>", "</harbour>"), WRONG_END),
    xml("loose text in the call", '<tool_call name="get_tide">Husum</tool_call>', BAD_XML),
    minicpm5("a CDATA section",
             '<function name="search"><param name="words"><![CDATA[a < b { </param></function> }]]></param></function>',
             call("search", words="a < b { </param></function> }")),
    minicpm5("entities",
             '<function name="search"><param name="words">&#39;a&#39; &lt; &quot;b&quot;</param></function>',
             call("search", words="'a' < \"b\"")),
    coder("entities are not decoded", coder_file("\nif a &lt; b &amp;&amp; c: &#39;x&#39;\n"),
          call("write_file", path="a.txt", content="if a &lt; b &amp;&amp; c: &#39;x&#39;")),
    coder("no outer tag", FUNCTION, TIDE),
    coder("no outer end tag before the next call", f"<tool_call>\n{FUNCTION}\n{coder_file('x')}", NO_END,
          call("write_file", path="a.txt", content="x")),
    coder("a sentence, then a call", f"I write <tool_call> and <function=x> now.\n{CODER}",
          said("I write <tool_call> and <function=x> now."), TIDE),
    hermes("single quotes, and an end tag between them",
           tagged("{'name': 'search', 'arguments': {'words': 'a </tool_call> b'}}"),
           call("search", "single quotes", words="a </tool_call> b")),
    hermes("closed as a function_invocation", f"<tool_call>\n{TIDE_JSON}\n</function_invocation>", WRONG_END),
    hermes("no end tag before the end of the turn", f"<tool_call>\n{TIDE_JSON}<|im_end|>", NO_END),
    hermes.prose("another tag", '<tool_response>{"tide": 2.4}</tool_response> is what comes back.'),
    hermes("both forms in one reply", f"{HERMES}\n{marked(OSLO_JSON)}", TIDE, OSLO),
)  # fmt: skip

LLAMA = (
    llama3("a Python tag before a call", f"<|python_tag|>{BARE}<|eom_id|>", TIDE),
    llama3("a type before the name", f'{{"type": "function", "name": "get_tide", "parameters": {HUSUM}}}', TIDE),
    llama3("a function around the call", f'{{"function": {BARE}}}', TIDE),
    llama3("a brace and a semicolon in a string, then a call",
           '{"name": "search", "parameters": {"words": "}; {"}}; ' + BARE, call("search", words="}; {"), TIDE),
    llama3.prose("data with an object for a type", '{"type": {"name": "get_tide", "parameters": {}}}'),
    function("one brace too many", f"<function=get_tide>{HUSUM}}}</function>", tide("extra brace")),
    function("no end tag at the end of the reply", f"<function=get_tide>{HUSUM}", NO_END),
)  # fmt: skip

ARRAYS = (
    gemma4(
        "lists, objects and truth values",
        '<|tool_call>call:search{words:[<|"|>a<|"|>,<|"|>b<|"|>],where:{city:<|"|>Oslo<|"|>,days:2},deep:false}'
        "<tool_call|>",
        call("search", words=["a", "b"], where={"city": "Oslo", "days": 2}, deep=False),
    ),
    gemma4("no end token", '<|tool_call>call:get_tide{harbour:<|"|>Husum<|"|>}', NO_END),
    mistral_args("an id", f"[TOOL_CALLS]get_tide[CALL_ID]9Ae3bDc2F[ARGS]{HUSUM}</s>", TIDE),
    mistral_args("no mark before the arguments", f"[TOOL_CALLS]get_tide{HUSUM}", TIDE),
    mistral_args("the former form", f"[TOOL_CALLS] [{TIDE_JSON}]", TIDE),
    phi4("the marked form", f"<|tool_call|>[{TIDE_JSON}]<|/tool_call|>", TIDE),
    phi4("a module of Python", "Use functools.reduce(f, [1, 2]).<|end|>", said("Use functools.reduce(f, [1, 2]).")),
    phi4("no list", f"functools{TIDE_JSON}<|end|>", said(f"functools{TIDE_JSON}")),
    granite("a call of the second form", f"<tool_call> [{TIDE_JSON}]<|end_of_text|>", TIDE),
    granite("the form of its later models", HERMES, TIDE),
    nemotron("the form of Apriel", f"<tool_calls>[{TIDE_JSON}, {OSLO_JSON}]</tool_calls>", TIDE, OSLO),
    nemotron("no end tag", f"<TOOLCALL>[{TIDE_JSON}]", NO_END),
    xlam("a fence", fenced(f"[{TIDE_JSON}]", "json"), tide("fence")),
    xlam("after the marker of Mistral", f"[TOOL_CALLS] [{TIDE_JSON}, {OSLO_JSON}]", TIDE, OSLO),
    xlam("between the tags of Hermes", tagged(f"[{TIDE_JSON}]"), TIDE),
    xlam.prose("tools without arguments", '[{"name": "get_tide"}, {"name": "get_weather"}]'),
    xlam.prose("a list with text behind it", f"[{TIDE_JSON}] is what I would send."),
)


def deepseek_call(name: str, arguments: str) -> str:
    return f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}{arguments}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"


ANALYSIS = "<|channel|>analysis<|message|>The tide is asked for.<|end|>"
PAIR = "<arg_key>to</arg_key>\n<arg_value>Oslo</arg_value>"

NAMED = (
    glm4.prose("a line that is no tool", 'settings\n{"colour": "blue"}'),
    glm4.prose("a tool's name and a sentence", "get_tide\nis the tool that I would use."),
    glm45("an unknown tool", f"<tool_call>book_flight\n{PAIR}\n</tool_call>", call("book_flight", to="Oslo")),
    functionary("text for all", "all\nThe tide is high.", said("The tide is high.")),
    deepseek("a list for arguments", deepseek_call("function<｜tool▁sep｜>get_tide\n", fenced('["Husum"]', "json")),
             BAD_JSON),
    deepseek("the taught form, as its small distillates write it", f"<think>Hm.</think>\n{JSON}", thought("Hm."), TIDE),
    deepseek31("one brace too few", deepseek_call("get_tide<｜tool▁sep｜>", HUSUM[:-1]), tide("missing brace")),
    internlm2("a blank between the tokens", f"<|action_start|> <|plugin|>\n{BARE}\n<|action_end|>\n", TIDE),
    harmony(
        "the receiver before the channel",
        f"{ANALYSIS}<|start|>assistant to=functions.get_tide<|channel|>commentary <|constrain|>json<|message|>"
        f"{HUSUM}<|call|>",
        thought("The tide is asked for."),
        TIDE,
    ),
    harmony("an answer and nothing else", "<|channel|>final<|message|>It is 2.4 m.", said("It is 2.4 m.")),
    harmony("no end token", f"<|channel|>commentary to=functions.get_tide <|constrain|>json<|message|>{HUSUM}", NO_END),
    harmony("a thought that was cut", "<|channel|>analysis<|message|>The user wants", thought("The user wants")),
)  # fmt: skip

MINICPM_CALL = f"<|tool_call_start|>\n{fenced(PYTHON, 'python')}\n<|tool_call_end|>"

PYTHON_CALLS = (
    pythonic.prose("a function that is no tool", "[print(text='hello')]"),
    pythonic.prose("values without names", '[get_tide("Husum")]'),
    pythonic.prose("a task list", "[ ] look at the tide\n[x] look at the weather"),
    lfm2("no end marker", f"<|tool_call_start|>[{PYTHON}]", NO_END),
    lfm2("no end marker after JSON", f"<|tool_call_start|>[{TIDE_JSON}]", NO_END),
    lfm2("unpacking", "<|tool_call_start|>[get_tide(**{'harbour': 'Husum'})]<|tool_call_end|>Done.",
         BAD_PYTHON, said("Done.")),
    lfm2(
        "a name as a value, then a good call",
        f"<|tool_call_start|>[get_tide(harbour=Husum)]<|tool_call_end|><|tool_call_start|>[{PYTHON}]<|tool_call_end|>",
        BAD_PYTHON,
        TIDE,
    ),
    minicpm("a call in a thought, then text", f"<|thought_start|>\n{MINICPM_CALL}\n<|thought_end|>\nThe tide is high.",
            thought(MINICPM_CALL), said("The tide is high.")),
    smollm3("the form of its other template", HERMES, TIDE),
    smollm3.prose("code that is no call", "Type <code>ls -l</code> in a terminal."),
    chatglm3("no arguments", f"search\n{fenced('tool_call()', 'python')}", call("search")),
    chatglm3("no end of the fence", "get_tide\n```python\ntool_call(harbour='Husum')", NO_END),
    chatglm3.prose("a sentence that begins with a tool's name", "get_tide\n是一个工具。"),
    gemma3("a call that is printed", f"{fenced(f'print({PYTHON})', 'tool_code')}<end_of_turn>", TIDE),
)  # fmt: skip

UNKNOWN_MODEL = (
    unknown(
        "all the four marked forms in one reply",
        f'{JSON}\n<tool_call>{OSLO_JSON}</tool_call>\n<function=search>{{}}</function>\n<tool_call name="search">'
        "</tool_call>",
        TIDE,
        OSLO,
        call("search"),
        call("search"),
    ),
    unknown("a bare object behind a marked call", f"{JSON}\n{OSLO_JSON}", TIDE, OSLO),
    unknown("a Python dictionary, bare", "{'name': 'get_tide', 'arguments': {'harbour': 'Husum'}}",
            tide("single quotes")),
    unknown("a bare object cut in a value", '{"name": "write_file", "arguments": {"path": "a.sh", "content": "rm -rf',
            CUT),
    unknown("a Python list cut in a value", '[get_tide(harbour="Hu', CUT),
    unknown.prose("an unknown tool in a fence", fenced('{"name": "sort", "arguments": {"reverse": true}}', "json")),
    unknown.prose("an array in a sentence", f"I would send [{TIDE_JSON}] to the server."),
    unknown.prose("a name line, which only some models mean", f"get_tide\n{HUSUM}"),
    unknown.prose("a word that begins as a marker does", "[TOOL_CALLER] and <tool_callback> are no markers."),
    unknown("nothing", ""),
    unknown("an end of a turn alone", "<|im_end|>"),
)  # fmt: skip

THOUGHTS = (
    hermes(
        "a thought, text and a call",
        f"<think>\nThe user wants the tide.\n</think>\n\nOne moment.\n{HERMES}",
        thought("The user wants the tide."),
        said("One moment."),
        TIDE,
    ),
    unknown("an empty thought", "<think>\n\n</think>\n\nIt is 2.4 m.", said("It is 2.4 m.")),
    unknown(
        "two thoughts with text between",
        "<think>One.</think>First.\n<think>Two.</think>Second.",
        thought("One."),
        said("First."),
        thought("Two."),
        said("Second."),
    ),
    unknown("a bare object behind a thought", f"<think>Hm.</think>\n\n{TIDE_JSON}", thought("Hm."), TIDE),
    unknown("a fence behind a thought, and nothing else", f"<think>Hm.</think>\n{fenced(TIDE_JSON, 'json')}",
            thought("Hm."), tide("fence")),
    json("a thought between a call and text", f"{JSON}<think>Now I wait.</think>Please wait.",
         TIDE, thought("Now I wait."), said("Please wait.")),
    hermes("a thought that was cut in its end tag", "<think>\nThe user asks 1 < 2</thi",
           thought("The user asks 1 < 2</thi")),
    hermes("braces and tags in a thought", '<think>{"name": [1, <b>]} </thinking></think>Yes.',
           thought('{"name": [1, <b>]} </thinking>'), said("Yes.")),
    hermes("a call in a thought, then another one", f"<think>\n{HERMES}\nNo, the weather.\n</think>\n{HERMES_OSLO}",
           thought(f"{HERMES}\nNo, the weather."), OSLO),
    hermes("half a call in a thought", '<think>I open <tool_call>\n{"name": "get_tide", </think>\nHm.',
           thought('I open <tool_call>\n{"name": "get_tide",'), said("Hm.")),
    json("a call in a thought, and nothing behind", f"<think>\nI call it.\n{JSON}\n</think>",
         thought(f"I call it.\n{JSON}"), IN_THINKING),
    hermes("a call in a thought, and the end of the turn", f"<think>\nSo:\n{HERMES}\nDone.\n</think>\n<|im_end|>",
           thought(f"So:\n{HERMES}\nDone."), IN_THINKING),
    coder("all is thought until the end tag", "Hm, the tide.\n</think>\n\nIt is 2.4 m.",
          thought("Hm, the tide."), said("It is 2.4 m."), starts_in_thought=True),
    coder("an opened thought with a call, and nothing behind", f"{CODER}\n</think>\n",
          thought(CODER), IN_THINKING, starts_in_thought=True),
    hermes("an opened thought with a call, then a call", f"{HERMES_OSLO}\n</think>\n{HERMES}",
           thought(HERMES_OSLO), TIDE, starts_in_thought=True),
)  # fmt: skip

END_TOKENS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|return|>",
    "<｜end▁of▁sentence｜>",
)

QUOTED = (
    json.prose("an example in a fence with text around", f"Like this:\n\n{fenced(JSON)}\n\nThen it runs."),
    json.prose("an example in a fence of tildes", f"Like this:\n{fenced(JSON, '', '~~~')}\nYes."),
    json.prose("an example in a fence that never ends", f"Like this:\n```\n{JSON}\n"),
    llama3.prose("an example in a fence with text around", f"So:\n{fenced(TIDE_JSON, 'json')}\nYes."),
    unknown.prose("tags of thinking in a fence", f"So:\n{fenced('<think>Hm.</think>')}\nYes."),
    unknown.prose("control tokens in a fence", f"ChatML:\n{fenced('<|im_start|>user<|im_end|>')}\nYes."),
    json.prose("an example in backticks", f"Write `[TOOL_CALL]{TIDE_JSON}[END_TOOL_CALL]` to call it."),
    json.prose("a marker in backticks", "Begin with `[TOOL_CALL]` and a `{`."),
    unknown.prose("a control token in backticks", "A turn of ChatML ends with `<|im_end|>`."),
    json("an example in a fence, then a call", f"Like this:\n{fenced(JSON)}\nNow really:\n{JSON}",
         said(f"Like this:\n{fenced(JSON)}\nNow really:"), TIDE),
    hermes("a call, then an example in a fence", f"{HERMES}\nThat was:\n{fenced(TIDE_JSON, 'json')}\nYes.",
           TIDE, said(f"That was:\n{fenced(TIDE_JSON, 'json')}\nYes.")),
    json("a fence and white space around it", f"\n{fenced(JSON, 'json')}\n\n", tide("fence")),
    llama3("a fence without a language", fenced(TIDE_JSON), tide("fence")),
    hermes("a bare object in a fence", fenced(TIDE_JSON, "json"), tide("fence")),
    coder("a call in a fence and the end of a turn", f"{fenced(CODER, 'xml')}<|im_end|>", tide("fence")),
    *(unknown(f"{token} is not shown", f"It is 2.4 m.{token}", said("It is 2.4 m.")) for token in END_TOKENS),
    unknown("a token in the middle is not shown", "It is<|im_end|> 2.4 m.", said("It is 2.4 m.")),
    unknown.prose("a token that was cut is shown", "It is 2.4 m.<|im_e"),
    unknown.prose("something like a token is shown", "<|imagine|> and <|en|> and </some>"),
    hermes("tokens behind text and calls", f"Moment.<|im_end|>\n{HERMES}<|im_end|>\n<|endoftext|>",
           said("Moment."), TIDE),
)  # fmt: skip

CASES: tuple[Case, ...] = (
    *TAUGHT_JSON,
    *TAGS,
    *LLAMA,
    *ARRAYS,
    *NAMED,
    *PYTHON_CALLS,
    *UNKNOWN_MODEL,
    *THOUGHTS,
    *QUOTED,
)
