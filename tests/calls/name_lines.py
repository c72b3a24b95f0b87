"""A tool's name on a line of its own, or behind a token: GLM, Functionary, DeepSeek, InternLM2, Harmony."""

from __future__ import annotations

from calls.case import BAD_JSON, CUT, OSLO, TIDE, TIDE_JSON, Row, call, said, thought, tide

glm4 = Row("glm4")
glm45 = Row("glm4.5")
functionary = Row("functionary")
deepseek = Row("deepseek")
deepseek31 = Row("deepseek-v3.1")
internlm2 = Row("internlm2")
harmony = Row("harmony")

HUSUM = '{"harbour": "Husum"}'
OSLO_DAYS = '{"city": "Oslo", "days": 3}'
TAUGHT = f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]"

GLM4 = (
    glm4("a call and nothing else", f"get_tide\n{HUSUM}", TIDE),
    glm4("white space around, types are kept", f"\nget_weather\n{OSLO_DAYS}\n", OSLO),
    glm4("no arguments", "search\n{}", call("search")),
    glm4("braces and Chinese in a string", 'search\n{"words": "天气 {上海}"}', call("search", words="天气 {上海}")),
    glm4("a trailing comma", 'get_tide\n{"harbour": "Husum",}', tide("trailing comma")),
    glm4("cut in a value", 'get_tide\n{"harbour": "Hu', CUT),
    glm4("the taught form", TAUGHT, TIDE),
    *(
        glm4(name, text, said(text))
        for name, text in {
            "a line that is no tool": 'settings\n{"colour": "blue"}',
            "a tool's name and a sentence": "get_tide\nis the tool that I would use.",
            "a name line later in the text": f"I would call:\nget_tide\n{HUSUM}",
        }.items()
    ),
)

GLM45_CALL = "<tool_call>get_tide\n<arg_key>harbour</arg_key>\n<arg_value>Husum</arg_value>\n</tool_call>"
GLM45_OSLO = (
    "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
)


def glm45_search(words: str) -> str:
    return f"<tool_call>search\n<arg_key>words</arg_key>\n<arg_value>{words}</arg_value>\n</tool_call>"


GLM45 = (
    glm45("a call and nothing else", GLM45_CALL, TIDE),
    glm45(
        "two calls, values stay texts", f"{GLM45_CALL}\n{GLM45_OSLO}", TIDE, call("get_weather", city="Oslo", days="3")
    ),
    glm45(
        "a thought, text and a call",
        f"<think>Hm.</think>\nI look.\n{GLM45_CALL}",
        thought("Hm."),
        said("I look."),
        TIDE,
    ),
    glm45("no arguments", "<tool_call>search\n</tool_call>", call("search")),
    glm45(
        "a tool that nobody has", GLM45_CALL.replace("get_tide", "book_flight"), call("book_flight", harbour="Husum")
    ),
    glm45(
        "markup and an end tag in a value",
        glm45_search("<b>1 < 2</b> </tool_call> x"),
        call("search", words="<b>1 < 2</b> </tool_call> x"),
    ),
    glm45("entities are not decoded", glm45_search("a &lt; b"), call("search", words="a &lt; b")),
    glm45("JSON in a value stays text", glm45_search('["a", 1]'), call("search", words='["a", 1]')),
    glm45("cut in a value", "<tool_call>get_tide\n<arg_key>harbour</arg_key>\n<arg_value>Hus", CUT),
    glm45("cut in the second call", f"{GLM45_CALL}\n<tool_call>write_file\n<arg_key>pa", TIDE, CUT),
    glm45(
        "a sentence about the tag",
        "The tag <tool_call> has a name behind it.",
        said("The tag <tool_call> has a name behind it."),
    ),
)

FUNCTIONARY = (
    functionary("a call and nothing else", f"get_tide\n{HUSUM}", TIDE),
    functionary("two calls", f"get_tide\n{HUSUM}>>>get_weather\n{OSLO_DAYS}", TIDE, OSLO),
    functionary("text for all", "all\nThe tide is high.", said("The tide is high.")),
    functionary("text for all, then a call", f"all\nI will look.>>>get_tide\n{HUSUM}", said("I will look."), TIDE),
    functionary(
        "text for all, then two calls",
        f"all\nBoth, then.\n>>>get_tide\n{HUSUM}\n>>>get_weather\n{OSLO_DAYS}<|eot_id|>",
        said("Both, then."),
        TIDE,
        OSLO,
    ),
    functionary(
        "the mark in a string", 'search\n{"words": ">>>get_tide\\n{}"}', call("search", words=">>>get_tide\n{}")
    ),
    functionary("a sentence that begins with a tool's name", "get_tide\nis a tool.", said("get_tide\nis a tool.")),
    functionary("cut in a value", 'get_tide\n{"harbour": "Hu', CUT),
    functionary("cut in the second call", f'get_tide\n{HUSUM}>>>write_file\n{{"path": "a', TIDE, CUT),
    functionary("the taught form", TAUGHT, TIDE),
)


def deepseek_call(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"


def deepseek_calls(*calls: str) -> str:
    return "<｜tool▁calls▁begin｜>" + "\n".join(calls) + "<｜tool▁calls▁end｜>"


DEEPSEEK = (
    deepseek("a call and nothing else", deepseek_calls(deepseek_call("get_tide", HUSUM)), TIDE),
    deepseek(
        "a thought that the prompt opened",
        "I need the tide.\n</think>\n\n" + deepseek_calls(deepseek_call("get_tide", HUSUM)) + "<｜end▁of▁sentence｜>",
        thought("I need the tide."),
        TIDE,
        starts_in_thought=True,
    ),
    deepseek(
        "two calls",
        deepseek_calls(deepseek_call("get_tide", HUSUM), deepseek_call("get_weather", OSLO_DAYS)),
        TIDE,
        OSLO,
    ),
    deepseek("text before", "好的。" + deepseek_calls(deepseek_call("get_tide", HUSUM)), said("好的。"), TIDE),
    deepseek(
        "a tool that nobody has",
        deepseek_calls(deepseek_call("book_flight", '{"to": "Oslo"}')),
        call("book_flight", to="Oslo"),
    ),
    deepseek(
        "a fence and an end marker in a string",
        deepseek_calls(deepseek_call("search", '{"words": "```\\n<｜tool▁call▁end｜>"}')),
        call("search", words="```\n<｜tool▁call▁end｜>"),
    ),
    deepseek(
        "a trailing comma", deepseek_calls(deepseek_call("get_tide", '{"harbour": "Husum",}')), tide("trailing comma")
    ),
    deepseek("a list for arguments", deepseek_calls(deepseek_call("get_tide", '["Husum"]')), BAD_JSON),
    deepseek(
        "cut in a value",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_tide\n```json\n{"harbour": "Hu',
        CUT,
    ),
    deepseek(
        "the taught form, as its small distillates write it", f"<think>\nHm.\n</think>\n{TAUGHT}", thought("Hm."), TIDE
    ),
    deepseek(
        "an answer",
        "Hm.\n</think>\n\n2.4 m.<｜end▁of▁sentence｜>",
        thought("Hm."),
        said("2.4 m."),
        starts_in_thought=True,
    ),
)


def deepseek31_calls(*calls: tuple[str, str]) -> str:
    inner = "".join(
        f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>" for name, arguments in calls
    )
    return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"


DEEPSEEK31 = (
    deepseek31("a call and nothing else", deepseek31_calls(("get_tide", HUSUM)), TIDE),
    deepseek31(
        "two calls and the end of a sentence",
        deepseek31_calls(("get_tide", HUSUM), ("get_weather", OSLO_DAYS)) + "<｜end▁of▁sentence｜>",
        TIDE,
        OSLO,
    ),
    deepseek31("text before", "Moment.\n" + deepseek31_calls(("get_tide", HUSUM)), said("Moment."), TIDE),
    deepseek31("no arguments", deepseek31_calls(("search", "{}")), call("search")),
    deepseek31(
        "an end marker in a string",
        deepseek31_calls(("search", '{"words": "}<｜tool▁call▁end｜>"}')),
        call("search", words="}<｜tool▁call▁end｜>"),
    ),
    deepseek31("one brace too many", deepseek31_calls(("get_tide", '{"harbour": "Husum"}}')), tide("extra brace")),
    deepseek31("one brace too few", deepseek31_calls(("get_tide", '{"harbour": "Husum"')), tide("missing brace")),
    deepseek31(
        "cut in a value", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_tide<｜tool▁sep｜>{"harbour": "Hu', CUT
    ),
    deepseek31(
        "cut in the second call",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_tide<｜tool▁sep｜>"
        + HUSUM
        + '<｜tool▁call▁end｜><｜tool▁call▁begin｜>write_file<｜tool▁sep｜>{"path": "a',
        TIDE,
        CUT,
    ),
    deepseek31(
        "a sentence about the marker",
        "The marker is <｜tool▁calls▁begin｜> with wide bars.",
        said("The marker is <｜tool▁calls▁begin｜> with wide bars."),
    ),
)


def action(body: str) -> str:
    return f"<|action_start|><|plugin|>\n{body}<|action_end|>"


INTERN_TIDE = '{"name": "get_tide", "parameters": {"harbour": "Husum"}}'
INTERN_OSLO = '{"name": "get_weather", "parameters": {"city": "Oslo", "days": 3}}'

INTERNLM2 = (
    internlm2("a call and nothing else", action(INTERN_TIDE), TIDE),
    internlm2(
        "text before and the end of a turn", f"我来查一下。{action(INTERN_TIDE)}<|im_end|>", said("我来查一下。"), TIDE
    ),
    internlm2("a blank between the tokens", f"<|action_start|> <|plugin|>\n{INTERN_OSLO}\n<|action_end|>\n", OSLO),
    internlm2("two calls", action(INTERN_TIDE) + action(INTERN_OSLO), TIDE, OSLO),
    internlm2(
        "a tool that nobody has",
        action('{"name": "book_flight", "parameters": {"to": "Oslo"}}'),
        call("book_flight", to="Oslo"),
    ),
    internlm2(
        "the end token in a string",
        action('{"name": "search", "parameters": {"words": "}}<|action_end|>"}}'),
        call("search", words="}}<|action_end|>"),
    ),
    internlm2(
        "single quotes", action("{'name': 'get_tide', 'parameters': {'harbour': 'Husum'}}"), tide("single quotes")
    ),
    internlm2("one brace too few", action(INTERN_TIDE.removesuffix("}")), tide("missing brace")),
    internlm2("one brace too many", action(INTERN_TIDE + "}"), tide("extra brace")),
    internlm2(
        "a raw newline in a string",
        action('{"name": "write_file", "parameters": {"path": "a", "content": "一\n二"}}'),
        call("write_file", "raw newline", path="a", content="一\n二"),
    ),
    internlm2("a fence inside the tokens", action(f"```json\n{INTERN_TIDE}\n```\n"), tide("fence")),
    internlm2("no end token", f"<|action_start|><|plugin|>\n{INTERN_TIDE}", tide("missing end marker")),
    internlm2("a list for parameters", action('{"name": "get_tide", "parameters": ["Husum"]}'), BAD_JSON),
    internlm2("cut in a value", '<|action_start|><|plugin|>\n{"name": "get_tide", "parameters": {"harb', CUT),
    internlm2(
        "a sentence about the token",
        "A plugin begins with <|action_start|> there.",
        said("A plugin begins with <|action_start|> there."),
    ),
)

ANALYSIS = "<|channel|>analysis<|message|>The tide is asked for.<|end|>"


def commentary(name: str, arguments: str) -> str:
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>"


HARMONY = (
    harmony("a call and nothing else", commentary("get_tide", HUSUM), TIDE),
    harmony(
        "a thought and a call",
        f"{ANALYSIS}<|start|>assistant{commentary('get_weather', OSLO_DAYS)}",
        thought("The tide is asked for."),
        OSLO,
    ),
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
    harmony("no arguments", commentary("search", "{}"), call("search")),
    harmony("a tool that nobody has", commentary("book_flight", '{"to": "Oslo"}'), call("book_flight", to="Oslo")),
    harmony(
        "tokens in a string",
        commentary("search", '{"words": "}<|call|><|end|>"}'),
        call("search", words="}<|call|><|end|>"),
    ),
    harmony("no end token", commentary("get_tide", HUSUM).removesuffix("<|call|>"), tide("missing end marker")),
    harmony("a trailing comma", commentary("get_tide", '{"harbour": "Husum",}'), tide("trailing comma")),
    harmony("a list for arguments", commentary("get_tide", '["Husum"]'), BAD_JSON),
    harmony(
        "cut in a value",
        f"{ANALYSIS}<|start|>assistant<|channel|>commentary to=functions.get_tide <|constrain|>json<|message|>"
        '{"harbour": "Hu',
        thought("The tide is asked for."),
        CUT,
    ),
    harmony("a thought that was cut", "<|channel|>analysis<|message|>The user wants", thought("The user wants")),
)

CASES = (*GLM4, *GLM45, *FUNCTIONARY, *DEEPSEEK, *DEEPSEEK31, *INTERNLM2, *HARMONY)
