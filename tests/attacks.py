"""Attack strings: SEQUENCES, which steer or deceive a terminal, and disguises of a model's control tokens."""

from __future__ import annotations

from collections.abc import Iterator

ESC = "\x1b"

# Name -> what a terminal must not be given. Each has a control, bidi or hidden character in it.
SEQUENCES: dict[str, str] = {
    "window title": f"{ESC}]0;owned\x07",
    "icon title, ended by ST": f"{ESC}]2;owned{ESC}\\",
    "title, ended by C1": "\x9d0;owned\x9c",
    "title read back": f"{ESC}[21t",
    "clipboard written": f"{ESC}]52;c;b3duZWQ=\x07",
    "clipboard read": f"{ESC}]52;c;?\x07",
    "link to elsewhere": f"{ESC}]8;;https://evil.example{ESC}\\here{ESC}]8;;{ESC}\\",
    "link to a script": f"{ESC}]8;;javascript:alert(1)\x07here{ESC}]8;;\x07",
    "working folder": f"{ESC}]7;file:///etc\x07",
    "palette": f"{ESC}]4;1;#000000\x07",
    "notification": f"{ESC}]9;owned\x07",
    "picture of iTerm2": f"{ESC}]1337;File=inline=1:AAAA\x07",
    "mark of a shell": f"{ESC}]133;A\x07",
    "colour": f"{ESC}[31m",
    "invisible text": f"{ESC}[8m",
    "colour by C1": "\x9b32m",
    "screen cleared": f"{ESC}[2J",
    "scrollback cleared": f"{ESC}[3J",
    "line cleared": f"{ESC}[2K",
    "cursor home": f"{ESC}[H",
    "cursor up": f"{ESC}[5A",
    "cursor asked": f"{ESC}[6n",
    "device asked": f"{ESC}[c",
    "cursor hidden": f"{ESC}[?25l",
    "other screen": f"{ESC}[?1049h",
    "mouse watched": f"{ESC}[?1003h",
    "paste unbracketed": f"{ESC}[?2004l",
    "end of a paste": f"{ESC}[201~",
    "scroll region": f"{ESC}[1;2r",
    "reset": f"{ESC}c",
    "soft reset": f"{ESC}[!p",
    "character set": f"{ESC}(0",
    "shift out": "\x0e",
    "device string": f"{ESC}P1$r{ESC}\\",
    "device string by C1": "\x901$r\x9c",
    "sixel": f"{ESC}Pq#0{ESC}\\",
    "application string": f"{ESC}_Ga=T;AAAA{ESC}\\",
    "privacy message": f"{ESC}^owned{ESC}\\",
    "lone escape": ESC,
    "bell": "\x07",
    "backspaces": "safe\x08\x08\x08\x08",
    "delete": "\x7f",
    "nul": "a\x00b",
    "carriage return": "safe\rHIDDEN",
    "next line": "a\x85b",
    "form feed and vertical tab": "a\x0c\x0bb",
    "right to left": "\u202egnp.exe",
    "isolates": "\u2066gnp\u2069\u2067",
    "marks of direction": "a\u200e\u200f\u061cb",
    "zero width": "pass\u200b\u2060\ufeffword",
    "joiners out of place": "rm\u200d\u200c",
    "tags": "\U000e0001\U000e0041\U000e0042\U000e007f",
    "variation selectors": "a\ufe0f\ufe01\U000e0100\U000e01ef",
    "soft hyphen and fillers": "a\u00ad\u034f\u3164\uffa0b",
    "annotation": "a\ufff9b\ufffac\ufffb",
}

# Family -> control tokens of its vocabulary.
CONTROLS: dict[str, tuple[str, ...]] = {
    "chatml": ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|pad|>"),
    "llama3": ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"),
    "gemma": ("<bos>", "<start_of_turn>", "<end_of_turn>", "<eos>"),
    "deepseek": ("<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    "mistral": ("[INST]", "[/INST]", "[TOOL_CALLS]", "</s>", "<s>"),
}
UNSEEN = (
    "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u034f", "\ufe0f", "\u200e", "\u202e", "\u2066",
    "\u3164", "\U000e0041", "\U000e0100", "\x01", "\x7f",
)  # fmt: skip
SMALL = str.maketrans("<>", "﹤﹥")
WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
MATHEMATICAL = {ord("a") + i: 0x1D41A + i for i in range(26)}


def disguise(token: str) -> Iterator[str]:
    """Ways to write a token so that a filter does not see it and a tokenizer may."""
    yield from (token, token.upper(), token.title(), token.swapcase(), f" {token}\n", f"x{token}x", f"`{token}`")
    yield from (token.translate(WIDE), token.translate(SMALL), token.translate(MATHEMATICAL))
    yield from (token.translate({ord(sign): WIDE[ord(sign)]}) for sign in "<|>[]_" if sign in token)
    yield token.replace("<", "&lt;").replace(">", "&gt;")
    for unseen in UNSEEN:
        yield from (token[0] + unseen + token[1:], token[:-1] + unseen + token[-1], unseen.join(token))
        yield (token[:3] + unseen + token[3:]).translate(WIDE)
        yield from (token[:-2] + unseen + token[-2:].upper(), f"{unseen}{token[:2]}{unseen * 2}{token[2:]}")
    for place in range(1, len(token)):
        yield from (token[:place] + token + token[place:], token[:place] + token[:place] + token[place:])
        yield f"{token[:place]}\u202e{token[place:]}\u202c{token}"
    yield from (token * 3, token[0] + token, token + token[-1], f"<{token}>", token[:-1] + token)
    yield f"{token}\u200b{token.upper()}\n{token.translate(WIDE)}"


def token_attacks() -> list[str]:
    """All disguises of all control tokens, each once."""
    return list(dict.fromkeys(text for tokens in CONTROLS.values() for token in tokens for text in disguise(token)))
