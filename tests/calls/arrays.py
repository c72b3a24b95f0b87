"""JSON arrays of calls behind markers of their own, or bare: Mistral, Phi-4, Granite, Command-R, Nemotron, xLAM."""

from __future__ import annotations

from calls.case import BAD_JSON, CUT, OSLO, OSLO_JSON, TIDE, TIDE_JSON, Row, call, said, thought, tide

mistral = Row("mistral")
mistral_args = Row("mistral-args")
phi4 = Row("phi4")
granite = Row("granite")
command_r = Row("command-r")
nemotron = Row("nemotron")
xlam = Row("xlam")

BOTH = f"[{TIDE_JSON}, {OSLO_JSON}]"
LONG = 'ein langer Text mit [Klammern] und \\"Zeichen\\"\\n' * 450

MISTRAL = (
    mistral("a call and nothing else", f"[TOOL_CALLS] [{TIDE_JSON}]", TIDE),
    mistral("two calls and the end of the text", f"[TOOL_CALLS] {BOTH}</s>", TIDE, OSLO),
    mistral("no white space", f"[TOOL_CALLS][{TIDE_JSON}]", TIDE),
    mistral("text before", f"Un instant.[TOOL_CALLS] [{TIDE_JSON}]", said("Un instant."), TIDE),
    mistral("text behind", f"[TOOL_CALLS] [{TIDE_JSON}]\n\nUn instant.", TIDE, said("Un instant.")),
    mistral(
        "an id behind the arguments",
        '[TOOL_CALLS] [{"name": "get_tide", "arguments": {"harbour": "Husum"}, "id": "9Ae3bDc2F"}]',
        TIDE,
    ),
    mistral(
        "a thought and a call",
        f"[THINK]The tide is asked for.[/THINK][TOOL_CALLS] [{TIDE_JSON}]",
        thought("The tide is asked for."),
        TIDE,
    ),
    mistral("a thought and text", "[THINK]Simple.[/THINK]Two.", thought("Simple."), said("Two.")),
    mistral(
        "a tool that nobody has",
        '[TOOL_CALLS] [{"name": "book_flight", "arguments": {"to": "Oslo"}}]',
        call("book_flight", to="Oslo"),
    ),
    mistral(
        "brackets in a string",
        '[TOOL_CALLS] [{"name": "search", "arguments": {"words": "}] [TOOL_CALLS] ["}}]',
        call("search", words="}] [TOOL_CALLS] ["),
    ),
    mistral(
        "a value of 20 kB",
        '[TOOL_CALLS] [{"name": "write_file", "arguments": {"path": "a", "content": "' + LONG + '"}}]',
        call("write_file", path="a", content='ein langer Text mit [Klammern] und "Zeichen"\n' * 450),
    ),
    mistral(
        "a trailing comma",
        '[TOOL_CALLS] [{"name": "get_tide", "arguments": {"harbour": "Husum",}}]',
        tide("trailing comma"),
    ),
    mistral(
        "single quotes and Python's True",
        "[TOOL_CALLS] [{'name': 'set_light', 'arguments': {'room': 'a', 'state': True}}]",
        call("set_light", "single quotes", "Python literal", room="a", state=True),
    ),
    mistral(
        "a missing comma",
        '[TOOL_CALLS] [{"name": "get_tide" "arguments": {"harbour": "Husum"}}]',
        tide("missing comma"),
    ),
    mistral("unquoted keys", '[TOOL_CALLS] [{name: "get_tide", arguments: {harbour: "Husum"}}]', tide("unquoted key")),
    mistral(
        "parameters for arguments",
        '[TOOL_CALLS] [{"name": "get_tide", "parameters": {"harbour": "Husum"}}]',
        tide("parameters for arguments"),
    ),
    mistral(
        "arguments that are encoded twice",
        r'[TOOL_CALLS] [{"name": "get_tide", "arguments": "{\"harbour\": \"Husum\"}"}]',
        tide("encoded arguments"),
    ),
    mistral(
        "a call that is wrapped as a function", f'[TOOL_CALLS] [{{"type": "function", "function": {TIDE_JSON}}}]', TIDE
    ),
    mistral("an empty name", '[TOOL_CALLS] [{"name": "", "arguments": {}}]', BAD_JSON),
    mistral("a list for arguments", '[TOOL_CALLS] [{"name": "get_tide", "arguments": ["Husum"]}]', BAD_JSON),
    mistral("cut in a value", '[TOOL_CALLS] [{"name": "get_tide", "arguments": {"harbour": "Hus', CUT),
    mistral(
        "a sentence about the marker",
        "Mistral writes [TOOL_CALLS] before its calls.",
        said("Mistral writes [TOOL_CALLS] before its calls."),
    ),
)

MISTRAL_ARGS = (
    mistral_args("a call and nothing else", '[TOOL_CALLS]get_tide[ARGS]{"harbour": "Husum"}', TIDE),
    mistral_args("an id", '[TOOL_CALLS]get_tide[CALL_ID]9Ae3bDc2F[ARGS]{"harbour": "Husum"}</s>', TIDE),
    mistral_args("no mark before the arguments", '[TOOL_CALLS]get_tide{"harbour": "Husum"}', TIDE),
    mistral_args(
        "two calls",
        '[TOOL_CALLS]get_tide[ARGS]{"harbour": "Husum"}[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo", "days": 3}',
        TIDE,
        OSLO,
    ),
    mistral_args("text before", "Je regarde.[TOOL_CALLS]search[ARGS]{}", said("Je regarde."), call("search")),
    mistral_args(
        "a thought and a call", '[THINK]Hm.[/THINK][TOOL_CALLS]get_tide[ARGS]{"harbour": "Husum"}', thought("Hm."), TIDE
    ),
    mistral_args(
        "a tool that nobody has", '[TOOL_CALLS]book_flight[ARGS]{"to": "Oslo"}', call("book_flight", to="Oslo")
    ),
    mistral_args(
        "marks in a string",
        '[TOOL_CALLS]search[ARGS]{"words": "[ARGS]{ [TOOL_CALLS]x"}',
        call("search", words="[ARGS]{ [TOOL_CALLS]x"),
    ),
    mistral_args("a trailing comma", '[TOOL_CALLS]get_tide[ARGS]{"harbour": "Husum",}', tide("trailing comma")),
    mistral_args("the former form", f"[TOOL_CALLS] [{TIDE_JSON}]", TIDE),
    mistral_args("cut in a value", '[TOOL_CALLS]get_tide[ARGS]{"harbour": "Hus', CUT),
    mistral_args(
        "cut in the second call",
        '[TOOL_CALLS]get_tide[ARGS]{"harbour": "Husum"}[TOOL_CALLS]write_file[ARGS]{"path": "a',
        TIDE,
        CUT,
    ),
)

PHI4 = (
    phi4("a call and nothing else", f"functools[{TIDE_JSON}]", TIDE),
    phi4("two calls and the end of a turn", f"functools{BOTH}<|end|>", TIDE, OSLO),
    phi4("the marked form", f"<|tool_call|>[{TIDE_JSON}]<|/tool_call|>", TIDE),
    phi4("two calls in the marked form", f"Sure.\n<|tool_call|>{BOTH}<|/tool_call|><|end|>", said("Sure."), TIDE, OSLO),
    phi4(
        "an end marker in a string",
        '<|tool_call|>[{"name": "search", "arguments": {"words": "]<|/tool_call|>"}}]<|/tool_call|>',
        call("search", words="]<|/tool_call|>"),
    ),
    phi4(
        "a tool that nobody has",
        '<|tool_call|>[{"name": "book_flight", "arguments": {"to": "Oslo"}}]<|/tool_call|>',
        call("book_flight", to="Oslo"),
    ),
    phi4("cut in a value", '<|tool_call|>[{"name": "get_tide", "arguments": {"harb', CUT),
    phi4(
        "a module of Python",
        "Import functools and use functools.reduce(f, [1, 2]).<|end|>",
        said("Import functools and use functools.reduce(f, [1, 2])."),
    ),
    phi4("the taught form", f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]<|end|>", TIDE),
)

GRANITE = (
    granite("a call of the first form", f"<|tool_call|> [{TIDE_JSON}]", TIDE),
    granite("a call of the second form", f"<tool_call> [{TIDE_JSON}]<|end_of_text|>", TIDE),
    granite("two calls, no white space", f"<|tool_call|>{BOTH}", TIDE, OSLO),
    granite(
        "arguments before the name",
        '<tool_call> [{"arguments": {"city": "Oslo", "days": 3}, "name": "get_weather"}]',
        OSLO,
    ),
    granite(
        "brackets in a string",
        '<|tool_call|> [{"name": "search", "arguments": {"words": "]]"}}]',
        call("search", words="]]"),
    ),
    granite("the form of its later models", f"<tool_call>\n{TIDE_JSON}\n</tool_call>", TIDE),
    granite("cut in a value", '<tool_call> [{"name": "get_tide", "arguments": {"harbour": "H', CUT),
    granite(
        "a sentence about the marker",
        "Granite writes <|tool_call|> before a list.",
        said("Granite writes <|tool_call|> before a list."),
    ),
)


def action(*calls: str) -> str:
    return f"<|START_ACTION|>[{', '.join(calls)}]<|END_ACTION|>"


COMMAND_TIDE = '{"tool_call_id": "0", "tool_name": "get_tide", "parameters": {"harbour": "Husum"}}'
COMMAND_OSLO = '{"tool_call_id": "1", "tool_name": "get_weather", "parameters": {"city": "Oslo", "days": 3}}'

COMMAND_R = (
    command_r("a call and nothing else", action(COMMAND_TIDE), TIDE),
    command_r(
        "a thought and two calls over lines",
        "<|START_THINKING|>I will look at both.<|END_THINKING|><|START_ACTION|>[\n    "
        f"{COMMAND_TIDE},\n    {COMMAND_OSLO}\n]<|END_ACTION|>",
        thought("I will look at both."),
        TIDE,
        OSLO,
    ),
    command_r(
        "the end marker in a string",
        action('{"tool_call_id": "0", "tool_name": "search", "parameters": {"words": "]<|END_ACTION|>"}}'),
        call("search", words="]<|END_ACTION|>"),
    ),
    command_r("no arguments", action('{"tool_call_id": "0", "tool_name": "search", "parameters": {}}'), call("search")),
    command_r(
        "a tool that nobody has",
        action('{"tool_call_id": "0", "tool_name": "book_flight", "parameters": {"to": "Oslo"}}'),
        call("book_flight", to="Oslo"),
    ),
    command_r("an empty name", action('{"tool_call_id": "0", "tool_name": "", "parameters": {}}'), BAD_JSON),
    command_r(
        "cut in a value", '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "get_tide", "parameters": {"ha', CUT
    ),
    command_r(
        "a call in a thought, then text",
        f"<|START_THINKING|>{action(COMMAND_TIDE)}<|END_THINKING|>It is high.",
        thought(action(COMMAND_TIDE)),
        said("It is high."),
    ),
)

NEMOTRON = (
    nemotron("a call and nothing else", f"<TOOLCALL>[{TIDE_JSON}]</TOOLCALL>", TIDE),
    nemotron("two calls", f"<TOOLCALL>{BOTH}</TOOLCALL>", TIDE, OSLO),
    nemotron("the form of Apriel", f"<tool_calls>{BOTH}</tool_calls>", TIDE, OSLO),
    nemotron(
        "a thought, text and a call",
        f"<think>Hm.</think>I look.\n<TOOLCALL>[{TIDE_JSON}]</TOOLCALL>",
        thought("Hm."),
        said("I look."),
        TIDE,
    ),
    nemotron("text behind", f"<TOOLCALL>[{TIDE_JSON}]</TOOLCALL>\nWait.", TIDE, said("Wait.")),
    nemotron(
        "the end tag in a string",
        '<TOOLCALL>[{"name": "search", "arguments": {"words": "}]</TOOLCALL>"}}]</TOOLCALL>',
        call("search", words="}]</TOOLCALL>"),
    ),
    nemotron("a trailing comma in the list", f"<TOOLCALL>[{TIDE_JSON},]</TOOLCALL>", tide("trailing comma")),
    nemotron(
        "curly quotes",
        "<TOOLCALL>[{“name”: “get_tide”, “arguments”: {“harbour”: “Husum”}}]</TOOLCALL>",
        tide("curly quotes"),
    ),
    nemotron(
        "a comment",
        '<TOOLCALL>[{"name": "get_tide", /* x */ "arguments": {"harbour": "Husum"}}]</TOOLCALL>',
        tide("comment"),
    ),
    nemotron(
        "parameters for arguments",
        '<TOOLCALL>[{"name": "get_tide", "parameters": {"harbour": "Husum"}}]</TOOLCALL>',
        tide("parameters for arguments"),
    ),
    nemotron(
        "arguments that are encoded twice",
        r'<TOOLCALL>[{"name": "get_tide", "arguments": "{\"harbour\": \"Husum\"}"}]</TOOLCALL>',
        tide("encoded arguments"),
    ),
    nemotron("no end tag", f"<TOOLCALL>[{TIDE_JSON}]", tide("missing end marker")),
    nemotron("cut in a value", '<TOOLCALL>[{"name": "get_tide", "arguments": {"ha', CUT),
    nemotron(
        "a sentence about the tag", "It opens with <TOOLCALL> and a list.", said("It opens with <TOOLCALL> and a list.")
    ),
)

XLAM = (
    xlam("a call and nothing else", f"[{TIDE_JSON}]", TIDE),
    xlam("two calls", BOTH, TIDE, OSLO),
    xlam("a list over lines", f"[\n  {TIDE_JSON},\n  {OSLO_JSON}\n]\n", TIDE, OSLO),
    xlam("a fence", f"```json\n[{TIDE_JSON}]\n```", tide("fence")),
    xlam("behind the marker of Mistral", f"[TOOL_CALLS] {BOTH}", TIDE, OSLO),
    xlam("between the tags of Hermes", f"<tool_call>\n[{TIDE_JSON}]\n</tool_call>", TIDE),
    xlam("a thought and a call", f"<think>Hm.</think>\n\n[{TIDE_JSON}]", thought("Hm."), TIDE),
    xlam("a trailing comma", '[{"name": "get_tide", "arguments": {"harbour": "Husum",}}]', tide("trailing comma")),
    xlam("cut in a value", '[{"name": "get_tide", "arguments": {"harbour": "Hu', CUT),
    *(
        xlam(name, text, said(text))
        for name, text in {
            "an empty list": "[]",
            "data with names": '[{"name": "Anna", "arguments": {}}, {"name": "Ben", "arguments": {}}]',
            "tools without arguments": '[{"name": "get_tide"}, {"name": "get_weather"}]',
            "a list later in the text": f"I would send [{TIDE_JSON}]",
            "a list with text behind it": f"[{TIDE_JSON}] is what I would send.",
        }.items()
    ),
)

CASES = (*MISTRAL, *MISTRAL_ARGS, *PHI4, *GRANITE, *COMMAND_R, *NEMOTRON, *XLAM)
