"""Calls written as Python: bare lists (Llama 3.2, Llama 4), LFM2, MiniCPM3 and 4, SmolLM3, ChatGLM3, Gemma 3."""

from __future__ import annotations

from calls.case import CUT, OSLO, TIDE, TIDE_JSON, Row, call, garbled, said, thought, tide

row = Row("pythonic")
lfm2 = Row("lfm2")
minicpm = Row("minicpm")
smollm3 = Row("smollm3-code")
chatglm3 = Row("chatglm3")
gemma3 = Row("gemma3")
BAD_PYTHON = garbled("bad_python")

CALL = 'get_tide(harbour="Husum")'
OSLO_CALL = 'get_weather(city="Oslo", days=3)'
LONG = "a line (with brackets] and commas,\\n" * 600

PLAIN = (
    row("a call and nothing else", f"[{CALL}]", TIDE),
    row("two calls in one list", f"[{CALL}, {OSLO_CALL}]<|eot_id|>", TIDE, OSLO),
    row("a list over several lines", f"[\n    {CALL},\n    {OSLO_CALL}\n]\n", TIDE, OSLO),
    row("single quotes are Python's own", "[get_tide(harbour='Husum')]", TIDE),
    row("no arguments", "[search()]", call("search")),
    row(
        "types are kept",
        "[set_light(room='hall', state=True, level=-0.5)]",
        call("set_light", room="hall", state=True, level=-0.5),
    ),
    row(
        "lists, dictionaries and None",
        "[search(words=['a', 1], where={'city': 'Oslo', 'days': [1, 2]}, limit=None)]",
        call("search", words=["a", 1], where={"city": "Oslo", "days": [1, 2]}, limit=None),
    ),
    row(
        "the literals of JSON",
        "[set_light(room='hall', state=true, level=null)]",
        call("set_light", room="hall", state=True, level=None),
    ),
    row(
        "brackets and quotes in a string",
        "[search(words='a)] \"b\", get_tide(x=1)')]",
        call("search", words='a)] "b", get_tide(x=1)'),
    ),
    row(
        "escapes in a string",
        r"""[write_file(path='a', content='it\'s\n"two"\\')]""",
        call("write_file", path="a", content='it\'s\n"two"\\'),
    ),
    row("Japanese in a value", "[get_weather(city='那覇', days=2)]", call("get_weather", city="那覇", days=2)),
    row(
        "a value of 20 kB",
        f"[write_file(path='a', content='{LONG}')]",
        call("write_file", path="a", content="a line (with brackets] and commas,\n" * 600),
    ),
    row("the taught form", f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]", TIDE),
    row("cut in a value", '[get_tide(harbour="Hus', CUT),
)

TEXT = tuple(
    row(name, text, said(text))
    for name, text in {
        "a function that is no tool": "[print(text='hello')]",
        "a dangerous list": "[__import__('os').system('ls')]",
        "values without names": '[get_tide("Husum")]',
        "a list later in the text": f"The call is [{CALL}]",
        "a list with text behind it": f"[{CALL}] is what I would write.",
        "a link": "[get_tide](https://example.org/get_tide) describes it.",
        "a list of numbers": "[1, 2, 3]",
        "a list of words": "['get_tide', 'get_weather']",
        "a task list": "[ ] look at the tide\n[x] look at the weather",
    }.items()
)


def lfm2_marked(body: str) -> str:
    return f"<|tool_call_start|>{body}<|tool_call_end|>"


LFM2 = (
    lfm2("a call and nothing else", lfm2_marked(f"[{CALL}]"), TIDE),
    lfm2(
        "two calls, and text behind",
        lfm2_marked(f"[{CALL}, {OSLO_CALL}]") + "Looking at both.<|im_end|>",
        TIDE,
        OSLO,
        said("Looking at both."),
    ),
    lfm2("text before", f"Moment. {lfm2_marked(f'[{CALL}]')}", said("Moment."), TIDE),
    lfm2(
        "the literals of Python and JSON",
        lfm2_marked("[set_light(room='a', state=True, level=null)]"),
        call("set_light", room="a", state=True, level=None),
    ),
    lfm2(
        "a tool that nobody has",
        lfm2_marked("[book_flight(to='Oslo', seats=2)]"),
        call("book_flight", to="Oslo", seats=2),
    ),
    lfm2(
        "the end marker in a string",
        lfm2_marked("[search(words=')]<|tool_call_end|>')]"),
        call("search", words=")]<|tool_call_end|>"),
    ),
    lfm2("no end marker", f"<|tool_call_start|>[{CALL}]", tide("missing end marker")),
    lfm2("values without names", lfm2_marked("[get_tide('Husum')]"), BAD_PYTHON),
    lfm2("a call as a value", lfm2_marked("[get_tide(harbour=search(words='x'))]"), BAD_PYTHON),
    lfm2("a sum as a value", lfm2_marked("[add_numbers(a=1 + 2, b=3)]"), BAD_PYTHON),
    lfm2("a string with a field", lfm2_marked("[get_tide(harbour=f'{1}')]"), BAD_PYTHON),
    lfm2("unpacking", lfm2_marked("[get_tide(**{'harbour': 'Husum'})]") + "Done.", BAD_PYTHON, said("Done.")),
    lfm2("a dangerous expression", lfm2_marked("[__import__('os').system('ls')]"), BAD_PYTHON),
    lfm2(
        "a name as a value, then a good call",
        lfm2_marked("[get_tide(harbour=Husum)]") + lfm2_marked(f"[{CALL}]"),
        BAD_PYTHON,
        TIDE,
    ),
    lfm2("cut in a value", '<|tool_call_start|>[get_tide(harbour="Hus', CUT),
    lfm2(
        "a sentence about the marker",
        "The token <|tool_call_start|> opens a list of calls.",
        said("The token <|tool_call_start|> opens a list of calls."),
    ),
)


def minicpm_marked(*lines: str) -> str:
    body = "\n".join(lines)
    return f"<|tool_call_start|>\n```python\n{body}\n```\n<|tool_call_end|>"


MINICPM = (
    minicpm("a call and nothing else", minicpm_marked(CALL), TIDE),
    minicpm(
        "a thought and a call",
        f"<|thought_start|>\nI need the tide.\n<|thought_end|>\n{minicpm_marked(CALL)}",
        thought("I need the tide."),
        TIDE,
    ),
    minicpm(
        "a thought and text",
        "<|thought_start|>\nNo tool is needed.\n<|thought_end|>\n你好！",
        thought("No tool is needed."),
        said("你好！"),
    ),
    minicpm("two calls on two lines", minicpm_marked(CALL, OSLO_CALL) + "<|im_end|>", TIDE, OSLO),
    minicpm(
        "a fence in a string",
        minicpm_marked("write_file(path='a.md', content='```\\nx\\n```')"),
        call("write_file", path="a.md", content="```\nx\n```"),
    ),
    minicpm("a tool that nobody has", minicpm_marked("book_flight(to='上海')"), call("book_flight", to="上海")),
    minicpm("values without names", minicpm_marked('get_tide("Husum")'), BAD_PYTHON),
    minicpm("cut in a value", '<|tool_call_start|>\n```python\nget_tide(harbour="Hus', CUT),
    minicpm(
        "a call in a thought, then text",
        f"<|thought_start|>\n{minicpm_marked(CALL)}\n<|thought_end|>\nThe tide is high.",
        thought(minicpm_marked(CALL)),
        said("The tide is high."),
    ),
)

SMOLLM3 = (
    smollm3("a call and nothing else", f"<code>{CALL}</code>", TIDE),
    smollm3("a call on a line of its own", f"<code>\n{OSLO_CALL}\n</code><|im_end|>", OSLO),
    smollm3(
        "a thought, text and a call",
        f"<think>\nThe tide.\n</think>\nI will look.\n<code>{CALL}</code>",
        thought("The tide."),
        said("I will look."),
        TIDE,
    ),
    smollm3("two calls", f"<code>{CALL}</code>\n<code>{OSLO_CALL}</code>", TIDE, OSLO),
    smollm3("the end tag in a string", "<code>search(words='</code>')</code>", call("search", words="</code>")),
    smollm3("the form of its other template", f"<tool_call>\n{TIDE_JSON}\n</tool_call>", TIDE),
    smollm3("cut in a value", '<code>get_tide(harbour="Hus', CUT),
    smollm3(
        "code that is no call", "Type <code>ls -l</code> in a terminal.", said("Type <code>ls -l</code> in a terminal.")
    ),
)

CHATGLM3 = (
    chatglm3("a call and nothing else", "get_tide\n```python\ntool_call(harbour='Husum')\n```", TIDE),
    chatglm3(
        "the mark of an observation behind a call",
        "get_tide\n```python\ntool_call(harbour='Husum')\n```<|observation|>",
        TIDE,
    ),
    chatglm3("types are kept", "get_weather\n```python\ntool_call(city='Oslo', days=3)\n```", OSLO),
    chatglm3("no arguments", "search\n```python\ntool_call()\n```", call("search")),
    chatglm3(
        "Chinese and brackets in a value",
        "search\n```python\ntool_call(words='天气（上海)')\n```",
        call("search", words="天气（上海)"),
    ),
    chatglm3("cut in a value", "get_tide\n```python\ntool_call(harbour='Hus", CUT),
    chatglm3("a sentence that begins with a tool's name", "get_tide\n是一个工具。", said("get_tide\n是一个工具。")),
    chatglm3(
        "an example in Python",
        "例如：\n```python\nprint('hello')\n```\n就是这样。",
        said("例如：\n```python\nprint('hello')\n```\n就是这样。"),
    ),
)

GEMMA3 = (
    gemma3("a call and nothing else", f"```tool_code\n{CALL}\n```", TIDE),
    gemma3("a call that is printed", f"```tool_code\nprint({CALL})\n```<end_of_turn>", TIDE),
    gemma3("two calls on two lines", f"```tool_code\n{CALL}\n{OSLO_CALL}\n```", TIDE, OSLO),
    gemma3(
        "types are kept",
        "```tool_code\nset_light(room='hall', state=False, level=2)\n```\n",
        call("set_light", room="hall", state=False, level=2),
    ),
    gemma3(
        "brackets and quotes in a string",
        '```tool_code\nsearch(words="it\'s (a) ``` [test]")\n```',
        call("search", words="it's (a) ``` [test]"),
    ),
    gemma3("JSON in a fence", f"```json\n{TIDE_JSON}\n```", tide("fence")),
    gemma3("the taught form", f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]<end_of_turn>", TIDE),
    gemma3("cut in a value", '```tool_code\nget_tide(harbour="Hus', CUT),
    gemma3(
        "an example in Python",
        "Like this:\n```python\nprint('hello')\n```",
        said("Like this:\n```python\nprint('hello')\n```"),
    ),
)

CASES = (*PLAIN, *TEXT, *LFM2, *MINICPM, *SMOLLM3, *CHATGLM3, *GEMMA3)
