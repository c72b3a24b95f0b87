"""<tool_call>{json}</tool_call>: Qwen 2.5 and 3, QwQ, Hermes, SmolLM3."""

from __future__ import annotations

from calls.case import OSLO, OSLO_JSON, TIDE, TIDE_JSON, Row, call, said, thought, tide

row = Row("hermes")


def marked(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


CALL = marked(TIDE_JSON)

PLAIN = (
    row(
        "a thought, text and a call",
        f"<think>\nThe user wants the tide.\n</think>\n\nOne moment.\n{CALL}",
        thought("The user wants the tide."),
        said("One moment."),
        TIDE,
    ),
)

INSIDE_STRINGS = ()

DAMAGE = (
    row(
        "single quotes, and an end tag between them",
        marked("{'name': 'search', 'arguments': {'words': 'a </tool_call> b'}}"),
        call("search", "single quotes", words="a </tool_call> b"),
    ),
    row("a fence around the whole reply", f"```xml\n{CALL}\n```", tide("fence")),
    row(
        "closed as a function_invocation", f"<tool_call>\n{TIDE_JSON}\n</function_invocation>", tide("wrong end marker")
    ),
    row("no end tag before the end of the turn", f"<tool_call>\n{TIDE_JSON}<|im_end|>", tide("missing end marker")),
    row(
        "no end tag before the next call",
        f"<tool_call>\n{TIDE_JSON}\n{marked(OSLO_JSON)}",
        tide("missing end marker"),
        OSLO,
    ),
)

GARBLED = ()

CUT_OFF = ()

PROSE = (
    *(
        row.prose(name, text)
        for name, text in {
            "the tag alone": "<tool_call>",
            "another tag": '<tool_response>{"tide": 2.4}</tool_response> is what comes back.',
        }.items()
    ),
    row(
        "a sentence about the tag, then a call",
        f"I open <tool_call> as I was told.\n{CALL}\nDone.",
        said("I open <tool_call> as I was told."),
        TIDE,
        said("Done."),
    ),
    row("both forms in one reply", f"{CALL}\n[TOOL_CALL]\n{OSLO_JSON}\n[END_TOOL_CALL]", TIDE, OSLO),
)

CASES = (*PLAIN, *INSIDE_STRINGS, *DAMAGE, *GARBLED, *CUT_OFF, *PROSE)
