"""call:f{...}: FunctionGemma and Gemma 4, whose texts stand between tokens and whose numbers stand bare."""

from __future__ import annotations

from calls.case import CUT, OSLO, TIDE, TIDE_JSON, Row, call, said, thought, tide

functiongemma = Row("functiongemma")
gemma4 = Row("gemma4")


def function_call(name: str, inside: str) -> str:
    return f"<start_function_call>call:{name}{{{inside}}}<end_function_call>"


TIDE_CALL = function_call("get_tide", "harbour:<escape>Husum<escape>")

FUNCTIONGEMMA = (
    functiongemma("a call and nothing else", TIDE_CALL, TIDE),
    functiongemma("a number stands bare", function_call("get_weather", "city:<escape>Oslo<escape>,days:3"), OSLO),
    functiongemma(
        "two calls",
        TIDE_CALL + function_call("get_weather", "city:<escape>Oslo<escape>,days:3") + "<end_of_turn>",
        TIDE,
        OSLO,
    ),
    functiongemma("text before and behind", f"Ok.\n{TIDE_CALL}\nWait.", said("Ok."), TIDE, said("Wait.")),
    functiongemma("no arguments", function_call("search", ""), call("search")),
    functiongemma(
        "a truth value stands bare",
        function_call("set_light", "room:<escape>7<escape>,state:true"),
        call("set_light", room="7", state=True),
    ),
    functiongemma(
        "structure and an end token in a text",
        function_call("search", 'words:<escape>{a:1},b]<end_function_call> "c"<escape>'),
        call("search", words='{a:1},b]<end_function_call> "c"'),
    ),
    functiongemma(
        "Japanese in a text",
        function_call("get_weather", "city:<escape>東京（23区）<escape>"),
        call("get_weather", city="東京（23区）"),
    ),
    functiongemma(
        "a tool that nobody has",
        function_call("book_flight", "to:<escape>Oslo<escape>"),
        call("book_flight", to="Oslo"),
    ),
    functiongemma("no end token", TIDE_CALL.removesuffix("<end_function_call>"), tide("missing end marker")),
    functiongemma("cut in a text", "<start_function_call>call:get_tide{harbour:<escape>Hus", CUT),
    functiongemma("cut behind a text", "<start_function_call>call:get_tide{harbour:<escape>Husum<escape>", CUT),
    functiongemma(
        "a sentence about the token",
        "It writes <start_function_call> first.",
        said("It writes <start_function_call> first."),
    ),
)


def gemma4_call(name: str, inside: str) -> str:
    return f"<|tool_call>call:{name}{{{inside}}}<tool_call|>"


GEMMA4_TIDE = gemma4_call("get_tide", 'harbour:<|"|>Husum<|"|>')
GEMMA4_OSLO = gemma4_call("get_weather", 'city:<|"|>Oslo<|"|>,days:3')

GEMMA4 = (
    gemma4("a call and nothing else", GEMMA4_TIDE, TIDE),
    gemma4("two calls", GEMMA4_TIDE + GEMMA4_OSLO, TIDE, OSLO),
    gemma4(
        "a thought and a call",
        f"<|channel>thought\nThe tide is asked for.\n<channel|>{GEMMA4_TIDE}",
        thought("The tide is asked for."),
        TIDE,
    ),
    gemma4(
        "a thought and text", "<|channel>thought\nEasy.\n<channel|>It is 2.4 m.", thought("Easy."), said("It is 2.4 m.")
    ),
    gemma4(
        "a call in a thought, then text",
        f"<|channel>thought\n{GEMMA4_TIDE}\n<channel|>It is high.",
        thought(GEMMA4_TIDE),
        said("It is high."),
    ),
    gemma4(
        "lists, objects and truth values",
        gemma4_call("search", 'words:[<|"|>a<|"|>,<|"|>b<|"|>],where:{city:<|"|>Oslo<|"|>,days:2},deep:false'),
        call("search", words=["a", "b"], where={"city": "Oslo", "days": 2}, deep=False),
    ),
    gemma4(
        "structure and an end token in a text",
        gemma4_call("search", 'words:<|"|>"}, {a:1]<tool_call|><|"|>'),
        call("search", words='"}, {a:1]<tool_call|>'),
    ),
    gemma4("text before", f"Let me look. {GEMMA4_TIDE}", said("Let me look."), TIDE),
    gemma4("a tool that nobody has", gemma4_call("book_flight", 'to:<|"|>大阪<|"|>'), call("book_flight", to="大阪")),
    gemma4("no end token", GEMMA4_TIDE.removesuffix("<tool_call|>"), tide("missing end marker")),
    gemma4("cut in a text", '<|tool_call>call:write_file{path:<|"|>/etc/pas', CUT),
    gemma4("cut in the second call", f'{GEMMA4_TIDE}<|tool_call>call:get_weather{{city:<|"|>Os', TIDE, CUT),
    gemma4(
        "a sentence about the token",
        "Gemma opens with <|tool_call> and closes with a mirrored one.",
        said("Gemma opens with <|tool_call> and closes with a mirrored one."),
    ),
    gemma4("the taught form", f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]", TIDE),
)

CASES = (*FUNCTIONGEMMA, *GEMMA4)
