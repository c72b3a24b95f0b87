"""Answers that contain no call, whatever they look like: what people ask a model about tools, data, markup and code.

The tools of these conversations are `TOOLS`; two of them need no arguments, so that their bare name could be run.
"""

from __future__ import annotations

import json
from typing import Any

from rkllm_chat.core.messages import Tool


def _tool(name: str, *required: str, **properties: str) -> Tool:
    declared = {key: {"type": kind} for key, kind in properties.items()}
    return Tool(name, f"The tool {name}.", {"type": "object", "properties": declared, "required": list(required)})


TOOLS = (
    _tool("now"),
    _tool("reboot", delay="integer"),
    _tool("get_time", "place", place="string"),
    _tool("search", "words", words="string", limit="integer"),
    _tool("write_file", "path", "content", path="string", content="string"),
)

CALL = '{"name": "get_time", "arguments": {"place": "Paris"}}'
NOW = '{"name": "now", "arguments": {}}'
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
OPENAI = {"type": "function", "function": {"name": "now", "description": "The current time.", "parameters": SCHEMA}}
MCP = {"name": "reboot", "description": "Restart the board.", "inputSchema": {"type": "object"}}


def _fenced(text: str, language: str = "json") -> str:
    return f"```{language}\n{text}\n```"


DEFINITIONS = {
    "a definition of OpenAI": json.dumps(OPENAI),
    "a definition of OpenAI in a fence": _fenced(json.dumps(OPENAI, indent=2)),
    "a list of definitions": json.dumps([OPENAI, OPENAI]),
    "a definition of MCP": json.dumps(MCP),
    "a definition of MCP in a fence": _fenced(json.dumps(MCP, indent=2)),
    "a list of definitions of MCP": _fenced(json.dumps([MCP, {**MCP, "name": "now"}], indent=2)),
    "a schema for parameters": json.dumps({"name": "now", "parameters": SCHEMA}),
    "a schema for arguments": json.dumps({"name": "reboot", "arguments": SCHEMA}),
    "a definition between tags": f"<tool_call>\n{json.dumps(MCP)}\n</tool_call>",
    "a definition between our marks": f"[TOOL_CALL]\n{json.dumps(OPENAI)}\n[END_TOOL_CALL]",
    "a definition in a sentence": f"The tool is defined as {json.dumps(MCP)} in the file.",
    "a definition behind a sentence": f"This is the definition:\n{json.dumps(OPENAI)}",
    "a definition in Python": _fenced(f"tools = [{OPENAI}]", "python"),
}

DOCUMENTATION = {
    "a call with a sentence behind it": f"{CALL}\nThis is how a call of get_time looks.",
    "a call in a fence with a sentence behind it": f"{_fenced(CALL)}\nSend this to the server.",
    "two fences with text between": f"{_fenced(CALL)}\nor\n{_fenced(NOW)}\nas you like.",
    "a call in inline code": f"Write `{CALL}` to call it.",
    "a call in inline code at the end": f"To call it, write `{CALL}`",
    "a call in a sentence": f"The model sends {CALL} and waits.",
    "a call at the end of a sentence": f"The model sends {CALL}",
    "a call in quotation marks": f'The model writes "{NOW}" and stops.',
    "a call in a list": f"1. The model writes the call: {CALL}\n2. The program runs it.",
    "a marked call in a fence": f"Like this:\n```\n[TOOL_CALL]\n{NOW}\n[END_TOOL_CALL]\n```\nThen it runs.",
    "a marked call in inline code": f"Write `<tool_call>{NOW}</tool_call>` to call it.",
    "a marked call in a quoted line": f"> <tool_call>{NOW}</tool_call>\n\nThat was the call.",
    "markers in a sentence": "Models write [TOOL_CALL], <tool_call> or [TOOL_CALLS] before a call.",
    "a marker and an end marker": "A call stands between <tool_call> and </tool_call>.",
    "the tag of Llama": "Llama writes <function=NAME> and then the arguments as JSON.",
    "the tag of MiniCPM": 'MiniCPM writes <function name="NAME"> and <param name="X"> for each argument.',
    "the name of a tool in a sentence": "The tool get_time tells the time of a place.",
    "the name of a tool and a colon": "get_time: tells the time of a place.",
    "a signature": "get_time(place: string) tells the time of a place.",
    "a list of signatures": "- now()\n- reboot(delay)\n- get_time(place)",
    "a signature in code": "Use `get_time(place)` for that.",
    "a table of tools": "| tool | needs |\n|---|---|\n| now | nothing |\n| get_time | place |",
    "a request of JSON-RPC": _fenced(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "now", "arguments": {}}})
    ),
    "a message of OpenAI": _fenced(
        json.dumps({"role": "assistant", "tool_calls": [{"function": {"name": "now", "arguments": "{}"}}]})
    ),
}

DATA = {
    "a person": '{"name": "Anna", "age": 36}',
    "a person with parameters": '{"name": "Anna", "parameters": {"age": 36}}',
    "people": '[{"name": "Anna", "arguments": {}}, {"name": "Ben", "arguments": {}}]',
    "a button with a tool's name": '{"name": "search", "kind": "button"}',
    "a button with a tool's name in a fence": _fenced('{"name": "search", "label": "Search", "arguments": null}'),
    "a package": _fenced('{"name": "left-pad", "version": "1.0.0", "dependencies": {}}'),
    "a tool of another kind": '{"tool": "hammer", "weight": 2}',
    "a type": '{"type": "function", "returns": "integer"}',
    "a list of numbers": "[1, 2, 3]",
    "an empty list": "[]",
    "an empty object": "{}",
    "the arguments alone": '{"place": "Paris"}',
    "JSON behind a sentence": 'Here is the data:\n{"name": "Anna", "age": 36}',
    "JSON in a fence behind a sentence": f"Here is the data:\n{_fenced(json.dumps({'name': 'Anna', 'age': 36}))}",
    "lines of JSON": '{"id": 1, "value": "a"}\n{"id": 2, "value": "b"}',
    "YAML": _fenced("name: now\narguments: {}", "yaml"),
    "a set": "{x | x > 3} is a set.",
}

CODE = {
    "Python": _fenced("import datetime\n\nprint(datetime.datetime.now())", "python"),
    "a function named as a tool": _fenced("def now():\n    return 3\n\nnow()", "python"),
    "Python that calls a function": _fenced('print(get_time("Paris"))', "python"),
    "JavaScript": _fenced('const call = {name: "now", arguments: {}};', "javascript"),
    "a shell": _fenced('curl -X POST -d \'{"name": "now", "arguments": {}}\' localhost', "sh"),
    "Rust with braces": _fenced('fn main() {\n    println!("{}", 1);\n}', "rust"),
    "a list of Python behind text": "The calls are\n[now(), reboot()]\nin this order.",
    "code without a fence": "x = [1, 2]\nprint(x[0])",
    "inline HTML code": "Type <code>now()</code> in the console.",
    "LaTeX": "The sum is \\[ \\sum_{i=1}^{n} i = \\frac{n(n+1)}{2} \\]",
}

MARKUP = {
    "XML": '<?xml version="1.0"?>\n<functions>\n  <function name="now" returns="time"/>\n</functions>',
    "an element named as a tag of ours": '<functions><function name="reboot"></function></functions>',
    "HTML": "<ul>\n  <li>now</li>\n</ul>",
    "a form": '<form><input name="search"><button>Search</button></form>',
    "an empty function of Llama": "<function=reboot></function> is how Llama writes it.",
    "a call in quotation marks of XML": f'The reply was "<tool_call>{NOW}</tool_call>".',
    "a transcript": f"User: What time is it?\nAssistant: <tool_call>{NOW}</tool_call>\nTool: 20:26",
    "a transcript without tags": "User: What time is it?\nAssistant: get_time\nTool: 20:26",
    "a transcript in a fence": _fenced(f"User: Hi\nAssistant: {NOW}", ""),
}

PROSE = {
    "a sentence": "It is 12:10 in Paris.",
    "a haiku": "An old silent pond\nA frog jumps into the pond\nSplash! Silence again.",
    "one word": "Paris",
    "one word that is a tool": "now",
    "one word in quotation marks": '"search"',
    "a number": "42",
    "Japanese": "パリの現在時刻は12時10分です。",
    "Chinese": "1欧元等于163.27日元。",
    "a bulleted list": "- bread\n- milk\n- [ ] eggs",
    "a numbered list": "1. Wake up\n2. Work\n3. Sleep",
    "bold text": "**Answer:** it is noon.",
    "a quotation": "> To be, or not to be\n\nwrote Shakespeare.",
    "a footnote": "It is noon [1].\n\n[1] According to the clock.",
    "brackets": "He said [sic] {laughs} (loudly) that it is late.",
    "a question": "Which place do you mean?",
    "an apology": "I cannot do that; there is no tool for it.",
}

ANSWERS = DEFINITIONS | DOCUMENTATION | DATA | CODE | MARKUP | PROSE
