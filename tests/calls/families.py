"""What is special to one family; its usual replies are in `replies.py`, and `test_cases.py` tests every format."""

from __future__ import annotations

from calls.case import BAD_JSON, OSLO, OSLO_JSON, TIDE, TIDE_JSON, Row, call, garbled, said, thought, tide

llama3, function, functiongemma, gemma4, mistral_args, phi4 = map(
    Row, ("llama3", "llama3-function", "functiongemma", "gemma4", "mistral-args", "phi4")
)
granite, nemotron, xlam, glm4, glm45, functionary = map(
    Row, ("granite", "nemotron", "xlam", "glm4", "glm4.5", "functionary")
)
deepseek, deepseek31, internlm2, harmony, pythonic, lfm2 = map(
    Row, ("deepseek", "deepseek-v3.1", "internlm2", "harmony", "pythonic", "lfm2")
)

minicpm, smollm3, chatglm3, gemma3 = map(Row, ("minicpm", "smollm3-code", "chatglm3", "gemma3"))

HUSUM = '{"harbour": "Husum"}'
BARE = f'{{"name": "get_tide", "parameters": {HUSUM}}}'
BARE_OSLO = '{"name": "get_weather", "parameters": {"city": "Oslo", "days": 3}}'
BOTH = f"[{TIDE_JSON}, {OSLO_JSON}]"
PYTHON = 'get_tide(harbour="Husum")'
BAD_PYTHON = garbled("bad_python")
NO_END = tide("missing end marker")

LLAMA = (
    llama3("a Python tag before a call", f"<|python_tag|>{BARE}<|eom_id|>", TIDE),
    llama3("two calls joined by a semicolon", f"{BARE}; {BARE_OSLO}", TIDE, OSLO),
    llama3("a type before the name", f'{{"type": "function", "name": "get_tide", "parameters": {HUSUM}}}', TIDE),
    llama3("a function around the call", f'{{"function": {BARE}}}', TIDE),
    llama3(
        "a brace and a semicolon in a string, then a call",
        '{"name": "search", "parameters": {"words": "}; {"}}; ' + BARE,
        call("search", words="}; {"),
        TIDE,
    ),
    llama3.prose("data with a name", '{"name": "Anna", "age": 36}'),
    llama3.prose("data with an object for a type", '{"type": {"name": "get_tide", "parameters": {}}}'),
    llama3.prose("data with a name and parameters", '{"name": "Anna", "parameters": {"age": 36}}'),
    llama3.prose("an object on a line of its own after text", f"This is what I would send:\n{BARE}"),
    llama3.prose("an object with text after it", f"{BARE}\nis what I would send."),
    llama3.prose("an object that is no JSON", "{x | x > 3} is a set."),
    function("one brace too many", f"<function=get_tide>{HUSUM}}}</function>", tide("extra brace")),
    function("no end tag at the end of the reply", f"<function=get_tide>{HUSUM}", NO_END),
    function("unescaped quotes in a string", '<function=search>{"words": "the "best" place"}</function>', BAD_JSON),
)

GEMMA = (
    functiongemma("no end token", "<start_function_call>call:get_tide{harbour:<escape>Husum<escape>}", NO_END),
    gemma4(
        "lists, objects and truth values",
        '<|tool_call>call:search{words:[<|"|>a<|"|>,<|"|>b<|"|>],where:{city:<|"|>Oslo<|"|>,days:2},deep:false}'
        "<tool_call|>",
        call("search", words=["a", "b"], where={"city": "Oslo", "days": 2}, deep=False),
    ),
    gemma4("no end token", '<|tool_call>call:get_tide{harbour:<|"|>Husum<|"|>}', NO_END),
)

ARRAYS = (
    mistral_args("an id", f"[TOOL_CALLS]get_tide[CALL_ID]9Ae3bDc2F[ARGS]{HUSUM}</s>", TIDE),
    mistral_args("no mark before the arguments", f"[TOOL_CALLS]get_tide{HUSUM}", TIDE),
    mistral_args("the former form", f"[TOOL_CALLS] [{TIDE_JSON}]", TIDE),
    phi4("the marked form", f"<|tool_call|>[{TIDE_JSON}]<|/tool_call|>", TIDE),
    phi4("a module of Python", "Use functools.reduce(f, [1, 2]).<|end|>", said("Use functools.reduce(f, [1, 2]).")),
    phi4("no list", f"functools{TIDE_JSON}<|end|>", said(f"functools{TIDE_JSON}")),
    granite("a call of the second form", f"<tool_call> [{TIDE_JSON}]<|end_of_text|>", TIDE),
    granite("the form of its later models", f"<tool_call>\n{TIDE_JSON}\n</tool_call>", TIDE),
    nemotron("the form of Apriel", f"<tool_calls>{BOTH}</tool_calls>", TIDE, OSLO),
    nemotron("no end tag", f"<TOOLCALL>[{TIDE_JSON}]", NO_END),
    xlam("a fence", f"```json\n[{TIDE_JSON}]\n```", tide("fence")),
    xlam("after the marker of Mistral", f"[TOOL_CALLS] {BOTH}", TIDE, OSLO),
    xlam("between the tags of Hermes", f"<tool_call>\n[{TIDE_JSON}]\n</tool_call>", TIDE),
    xlam.prose("an empty list", "[]"),
    xlam.prose("data with names", '[{"name": "Anna", "arguments": {}}, {"name": "Ben", "arguments": {}}]'),
    xlam.prose("tools without arguments", '[{"name": "get_tide"}, {"name": "get_weather"}]'),
    xlam.prose("a list with text behind it", f"[{TIDE_JSON}] is what I would send."),
)


def deepseek_call(name: str, arguments: str) -> str:
    return f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}{arguments}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"


ANALYSIS = "<|channel|>analysis<|message|>The tide is asked for.<|end|>"
COMMENTARY = "<|channel|>commentary to=functions.get_tide <|constrain|>json<|message|>"
TAUGHT = f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]"
PAIR = "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>"
MARKUP = "<b>1 < 2</b> </tool_call> x"

NAMED = (
    glm4.prose("a line that is no tool", 'settings\n{"colour": "blue"}'),
    glm4.prose("a tool's name and a sentence", "get_tide\nis the tool that I would use."),
    glm4.prose("a name line later in the text", f"I would call:\nget_tide\n{HUSUM}"),
    glm45(
        "an unknown tool",
        f"<tool_call>book_flight\n{PAIR.format('to', 'Oslo')}\n</tool_call>",
        call("book_flight", to="Oslo"),
    ),
    glm45(
        "markup and an end tag in a value",
        f"<tool_call>search\n{PAIR.format('words', MARKUP)}\n</tool_call>",
        call("search", words=MARKUP),
    ),
    functionary("text for all", "all\nThe tide is high.", said("The tide is high.")),
    deepseek(
        "a list for arguments", deepseek_call("function<｜tool▁sep｜>get_tide\n", '```json\n["Husum"]\n```'), BAD_JSON
    ),
    deepseek(
        "the taught form, as its small distillates write it", f"<think>Hm.</think>\n{TAUGHT}", thought("Hm."), TIDE
    ),
    deepseek31("one brace too many", deepseek_call("get_tide<｜tool▁sep｜>", f"{HUSUM}}}"), tide("extra brace")),
    deepseek31("one brace too few", deepseek_call("get_tide<｜tool▁sep｜>", HUSUM[:-1]), tide("missing brace")),
    internlm2("a blank between the tokens", f"<|action_start|> <|plugin|>\n{BARE_OSLO}\n<|action_end|>\n", OSLO),
    harmony(
        "the receiver before the channel",
        f"{ANALYSIS}<|start|>assistant to=functions.get_tide<|channel|>commentary <|constrain|>json<|message|>"
        f"{HUSUM}<|call|>",
        thought("The tide is asked for."),
        TIDE,
    ),
    harmony(
        "a thought and an answer",
        f"{ANALYSIS}<|start|>assistant<|channel|>final<|message|>It is **2.4 m**.<|return|>",
        thought("The tide is asked for."),
        said("It is **2.4 m**."),
    ),
    harmony("an answer and nothing else", "<|channel|>final<|message|>It is 2.4 m.", said("It is 2.4 m.")),
    harmony("no end token", COMMENTARY + HUSUM, NO_END),
    harmony("a list for arguments", f'{COMMENTARY}["Husum"]<|call|>', BAD_JSON),
    harmony("a thought that was cut", "<|channel|>analysis<|message|>The user wants", thought("The user wants")),
)

MINICPM_CALL = f"<|tool_call_start|>\n```python\n{PYTHON}\n```\n<|tool_call_end|>"

PYTHON_CALLS = (
    pythonic(
        "lists, dictionaries and None",
        "[search(words=['a', 1], where={'city': 'Oslo', 'days': [1, 2]}, limit=None)]",
        call("search", words=["a", 1], where={"city": "Oslo", "days": [1, 2]}, limit=None),
    ),
    pythonic(
        "brackets, quotes and escapes in a string",
        r"""[write_file(path='a)] "b", get_tide(x=1)', content='it\'s\n"two"\\')]""",
        call("write_file", path='a)] "b", get_tide(x=1)', content='it\'s\n"two"\\'),
    ),
    pythonic.prose("a function that is no tool", "[print(text='hello')]"),
    pythonic.prose("a dangerous list", "[__import__('os').system('ls')]"),
    pythonic.prose("values without names", '[get_tide("Husum")]'),
    pythonic.prose("a list with text after it", f"[{PYTHON}] is what I would write."),
    pythonic.prose("a task list", "[ ] look at the tide\n[x] look at the weather"),
    lfm2("no end marker", f"<|tool_call_start|>[{PYTHON}]", NO_END),
    lfm2("no end marker after JSON", f"<|tool_call_start|>[{TIDE_JSON}]", NO_END),
    lfm2("a call as a value", "<|tool_call_start|>[get_tide(harbour=search(words='x'))]<|tool_call_end|>", BAD_PYTHON),
    lfm2(
        "unpacking",
        "<|tool_call_start|>[get_tide(**{'harbour': 'Husum'})]<|tool_call_end|>Done.",
        BAD_PYTHON,
        said("Done."),
    ),
    lfm2(
        "a name as a value, then a good call",
        f"<|tool_call_start|>[get_tide(harbour=Husum)]<|tool_call_end|><|tool_call_start|>[{PYTHON}]<|tool_call_end|>",
        BAD_PYTHON,
        TIDE,
    ),
    minicpm(
        "a call in a thought, then text",
        f"<|thought_start|>\n{MINICPM_CALL}\n<|thought_end|>\nThe tide is high.",
        thought(MINICPM_CALL),
        said("The tide is high."),
    ),
    smollm3("the form of its other template", f"<tool_call>\n{TIDE_JSON}\n</tool_call>", TIDE),
    smollm3.prose("code that is no call", "Type <code>ls -l</code> in a terminal."),
    chatglm3("no arguments", "search\n```python\ntool_call()\n```", call("search")),
    chatglm3("no end of the fence", "get_tide\n```python\ntool_call(harbour='Husum')", NO_END),
    chatglm3.prose("a sentence that begins with a tool's name", "get_tide\n是一个工具。"),
    gemma3("a call that is printed", f"```tool_code\nprint({PYTHON})\n```<end_of_turn>", TIDE),
    gemma3(
        "brackets and quotes in a string",
        '```tool_code\nsearch(words="it\'s (a) ``` [test]")\n```',
        call("search", words="it's (a) ``` [test]"),
    ),
    gemma3.prose("an example in Python", "Like this:\n```python\nprint('hello')\n```"),
)

CASES = (*LLAMA, *GEMMA, *ARRAYS, *NAMED, *PYTHON_CALLS)
