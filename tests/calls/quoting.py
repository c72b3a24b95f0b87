"""Examples that are quoted, and control tokens: what is shown, and what is not."""

from __future__ import annotations

from calls.case import TIDE, TIDE_JSON, Row, said, tide

unknown, json, xml, hermes, coder, llama3 = map(Row, ("", "json", "xml", "hermes", "qwen3-coder", "llama3"))
pythonic, xlam = map(Row, ("pythonic", "xlam"))

JSON = f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]"
XML = '<tool_call name="get_tide">\n<argument name="harbour">Husum</argument>\n</tool_call>'
HERMES = f"<tool_call>\n{TIDE_JSON}\n</tool_call>"
CODER = "<tool_call>\n<function=get_tide>\n<parameter=harbour>\nHusum\n</parameter>\n</function>\n</tool_call>"


def fenced(text: str, language: str = "", fence: str = "```") -> str:
    return f"{fence}{language}\n{text}\n{fence}"


FENCED = tuple(
    row.prose(name, text)
    for row, name, text in (
        (json, "an example in a fence with text around", f"Like this:\n\n{fenced(JSON)}\n\nThen it runs."),
        (json, "an example in a fence of tildes", f"Like this:\n{fenced(JSON, '', '~~~')}\nYes."),
        (json, "an example in a fence that never ends", f"Like this:\n```\n{JSON}\n"),
        (xml, "an example in a fence with text around", f"So:\n{fenced(XML, 'xml')}\nYes."),
        (hermes, "an example in a fence with text around", f"Qwen writes:\n{fenced(HERMES)}\nThat is all."),
        (llama3, "an example in a fence with text around", f"So:\n{fenced(TIDE_JSON, 'json')}\nYes."),
        (unknown, "tags of thinking in a fence", f"So:\n{fenced('<think>Hm.</think>')}\nYes."),
        (unknown, "control tokens in a fence", f"ChatML:\n{fenced('<|im_start|>user<|im_end|>')}\nYes."),
    )
)

INLINE = tuple(
    row.prose(name, text)
    for row, name, text in (
        (json, "an example in backticks", f"Write `[TOOL_CALL]{TIDE_JSON}[END_TOOL_CALL]` to call it."),
        (json, "a marker in backticks", "Begin with `[TOOL_CALL]` and a `{`."),
        (unknown, "a bare object in backticks", f"Write `{TIDE_JSON}` to call it."),
        (unknown, "a control token in backticks", "A turn of ChatML ends with `<|im_end|>`."),
        (unknown, "two tokens in backticks", "Llama has `<|eot_id|>` and `<|eom_id|>`; Gemma has others."),
    )
)

THEN_A_CALL = (
    json(
        "an example in a fence, then a call",
        f"Like this:\n{fenced(JSON)}\nNow really:\n{JSON}",
        said(f"Like this:\n{fenced(JSON)}\nNow really:"),
        TIDE,
    ),
    hermes(
        "a call, then an example in a fence",
        f"{HERMES}\nThat was:\n{fenced(TIDE_JSON, 'json')}\nYes.",
        TIDE,
        said(f"That was:\n{fenced(TIDE_JSON, 'json')}\nYes."),
    ),
)

WHOLE_FENCE = (
    json("a fence and white space around it", f"\n{fenced(JSON, 'json')}\n\n", tide("fence")),
    llama3("a fence without a language", fenced(TIDE_JSON), tide("fence")),
    hermes("a bare object in a fence", fenced(TIDE_JSON, "json"), tide("fence")),
    coder("a call in a fence and the end of a turn", f"{fenced(CODER, 'xml')}<|im_end|>", tide("fence")),
)

TOKENS = (
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

CONTROL = (
    *(unknown(f"{token} at the end is not shown", f"It is 2.4 m.{token}", said("It is 2.4 m.")) for token in TOKENS),
    unknown("a token in the middle is not shown", "It is<|im_end|> 2.4 m.", said("It is 2.4 m.")),
    unknown.prose("a token that was cut is shown", "It is 2.4 m.<|im_e"),
    unknown.prose("something like a token is shown", "<|imagine|> and <|en|> and </some>"),
    hermes(
        "tokens behind text and calls", f"Moment.<|im_end|>\n{HERMES}<|im_end|>\n<|endoftext|>", said("Moment."), TIDE
    ),
)

CASES = (*FENCED, *INLINE, *THEN_A_CALL, *WHOLE_FENCE, *CONTROL)
