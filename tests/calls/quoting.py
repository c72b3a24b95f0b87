"""Examples that are quoted, and control tokens: what is shown, and what is not."""

from __future__ import annotations

from calls.case import TIDE, TIDE_JSON, Row, call, said, tide

unknown = Row("")
json = Row("json")
xml = Row("xml")
hermes = Row("hermes")
coder = Row("qwen3-coder")
llama3 = Row("llama3")
pythonic = Row("pythonic")
xlam = Row("xlam")

JSON = f"[TOOL_CALL]\n{TIDE_JSON}\n[END_TOOL_CALL]"
XML = '<tool_call name="get_tide">\n<argument name="harbour">Husum</argument>\n</tool_call>'
HERMES = f"<tool_call>\n{TIDE_JSON}\n</tool_call>"
CODER = "<tool_call>\n<function=get_tide>\n<parameter=harbour>\nHusum\n</parameter>\n</function>\n</tool_call>"


def fenced(text: str, language: str = "", fence: str = "```") -> str:
    return f"{fence}{language}\n{text}\n{fence}"


FENCED = tuple(
    row(name, text, said(text))
    for row, name, text in (
        (json, "an example in a fence with text around", f"Like this:\n\n{fenced(JSON)}\n\nThen it runs."),
        (json, "an example in a fence with text before", f"Like this:\n{fenced(JSON, 'json')}"),
        (json, "an example in a fence with text behind", f"{fenced(JSON)}\nThat is how a call looks."),
        (json, "an example in a fence of tildes", f"Like this:\n{fenced(JSON, '', '~~~')}\nYes."),
        (json, "an example in a fence that never ends", f"Like this:\n```\n{JSON}\n"),
        (xml, "an example in a fence with text around", f"So:\n{fenced(XML, 'xml')}\nYes."),
        (xml, "an example in a fence of tildes", f"So:\n{fenced(XML, 'xml', '~~~')}\nYes."),
        (hermes, "an example in a fence with text around", f"Qwen writes:\n{fenced(HERMES)}\nThat is all."),
        (hermes, "two examples in fences", f"One:\n{fenced(HERMES)}\nTwo:\n{fenced(HERMES, 'xml')}\nYes."),
        (coder, "an example in a fence with text around", f"So:\n{fenced(CODER, 'xml')}\nYes."),
        (llama3, "an example in a fence with text around", f"So:\n{fenced(TIDE_JSON, 'json')}\nYes."),
        (pythonic, "an example in a fence with text around", f"So:\n{fenced('[get_tide(x=1)]', 'python')}\nYes."),
        (xlam, "an example in a fence with text around", f"So:\n{fenced(f'[{TIDE_JSON}]', 'json')}\nYes."),
        (unknown, "an example in a fence, in Chinese", f"格式如下：\n{fenced(HERMES)}\n就是这样。"),
        (unknown, "tags of thinking in a fence", f"So:\n{fenced('<think>Hm.</think>')}\nYes."),
        (unknown, "control tokens in a fence", f"ChatML:\n{fenced('<|im_start|>user<|im_end|>')}\nYes."),
    )
)

INLINE = tuple(
    row(name, text, said(text))
    for row, name, text in (
        (json, "an example in backticks", f"Write `[TOOL_CALL]{TIDE_JSON}[END_TOOL_CALL]` to call it."),
        (json, "a marker in backticks", "Begin with `[TOOL_CALL]` and a `{`."),
        (xml, "an example in backticks", 'Write `<tool_call name="search"></tool_call>` to call it.'),
        (xml, "an opening tag in backticks", 'The tag is `<tool_call name="get_tide">`, then arguments.'),
        (hermes, "an example in backticks", f"Write `<tool_call>{TIDE_JSON}</tool_call>` to call it."),
        (coder, "an opening tag in backticks", "Begin with `<tool_call><function=get_tide>`."),
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
        "an example in a fence, then a call",
        f"So:\n{fenced(HERMES)}\nNow really:\n{HERMES}\nDone.",
        said(f"So:\n{fenced(HERMES)}\nNow really:"),
        TIDE,
        said("Done."),
    ),
    json(
        "a marker in backticks, then a call",
        f"I use `get_tide` behind `[TOOL_CALL]`:\n{JSON}",
        said("I use `get_tide` behind `[TOOL_CALL]`:"),
        TIDE,
    ),
    xml(
        "code in a fence, then a call",
        f"Code:\n{fenced('x = [1]', 'python')}\nAnd a call:\n{XML}",
        said(f"Code:\n{fenced('x = [1]', 'python')}\nAnd a call:"),
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
    xml("a call in a fence without a language", fenced(XML), tide("fence")),
)

TOKENS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>"),
    *("</s>", "<|endoftext|>", "<|end_of_text|>", "<|return|>", "<｜end▁of▁sentence｜>"),
)

CONTROL = (
    *(unknown(f"{token} at the end is not shown", f"It is 2.4 m.{token}", said("It is 2.4 m.")) for token in TOKENS),
    unknown("a token in the middle is not shown", "It is<|im_end|> 2.4 m.", said("It is 2.4 m.")),
    unknown("two tokens behind each other", "潮位は2.4mです。<|im_end|><|endoftext|>\n", said("潮位は2.4mです。")),
    unknown("a token that was cut is shown", "It is 2.4 m.<|im_e", said("It is 2.4 m.<|im_e")),
    unknown(
        "something like a token is shown",
        "<|imagine|> and <|en|> and </some>",
        said("<|imagine|> and <|en|> and </some>"),
    ),
    hermes(
        "tokens behind text and calls", f"Moment.<|im_end|>\n{HERMES}<|im_end|>\n<|endoftext|>", said("Moment."), TIDE
    ),
    llama3(
        "a token in a string stays, one behind is not shown",
        '{"name": "search", "parameters": {"words": "</s><|end|>"}}<|eot_id|>',
        call("search", words="</s><|end|>"),
    ),
)

CASES = (*FENCED, *INLINE, *THEN_A_CALL, *WHOLE_FENCE, *CONTROL)
