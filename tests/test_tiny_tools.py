"""What the small model is trained on: composed by the product itself, and read back by the product's own scanner."""

from __future__ import annotations

import ast
import csv
import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.arguments import check
from rkllm_chat.describing import TOOL as DESCRIBE_TOOL
from rkllm_chat.errors import ValidationError
from rkllm_chat.events import CallFound, CallGarbled
from rkllm_chat.families import make_scanner
from rkllm_chat.formats import FORMATS
from rkllm_chat.messages import Tool
from rkllm_chat.more import TOOL as MORE_TOOL
from rkllm_chat.rounds import read_call

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "models" / "tiny-tools"
REAL_TOOLS = json.loads((ROOT / "tests" / "real_tools.json").read_text(encoding="utf-8"))
NEEDS_TORCH = {"batches", "export", "muon", "network", "quick", "train"}
COUNT = 2000
OPENINGS = {"json": "[TOOL_CALL]\n{", "hermes": "<tool_call>\n{", "xml": "<tool_call name="}


@cache
def drawn(*options: str) -> tuple[dict[str, Any], ...]:
    """Lines of show.py."""
    command = [sys.executable, str(SCRIPTS / "show.py"), "--count", str(COUNT), *options]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=50,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(line) for line in done.stdout.splitlines())


def calls_in(reply: str, form: str, tools: list[Tool]) -> list[CallFound | CallGarbled]:
    scanner = make_scanner(form, FORMATS, tools)
    return [event for event in (*scanner.feed(reply), *scanner.close()) if isinstance(event, CallFound | CallGarbled)]


HELD_OUT = "--held-out"
DRAWS = {"trained": ("--seed", "1"), "held out": ("--seed", "2", HELD_OUT), "more": ("--seed", "5", HELD_OUT)}


@pytest.mark.parametrize("options", DRAWS.values(), ids=DRAWS)
def test_every_reply_is_read_back_as_the_calls_that_were_wanted(options: tuple[str, ...]) -> None:
    lines = drawn(*options)
    found = Counter[str]()
    for line in lines:
        tools = [*(Tool(*told) for told in line["tools"]), MORE_TOOL, DESCRIBE_TOOL]
        for reply, wanted, is_learnt in zip(line["replies"], line["wanted"], line["learnt"], strict=True):
            calls = calls_in(reply, line["form"], tools)
            if not is_learnt:
                continue
            assert all(isinstance(call, CallFound) and not call.call.repairs for call in calls), reply
            names = [call.call.name for call in calls if isinstance(call, CallFound)]
            assert names == [name for name, _ in wanted], reply
            assert not names or reply.startswith(OPENINGS[line["form"]])
            for call, (name, arguments) in zip(calls, wanted, strict=True):
                assert isinstance(call, CallFound)
                tool = next(tool for tool in tools if tool.name == name)
                assert dict(check(call.call.arguments, tool.schema).arguments) == arguments, reply
            found[line["form"]] += len(calls)
    assert all(found[form] > 5 for form in OPENINGS), found


def test_a_call_that_is_wrong_on_purpose_is_never_learnt_and_the_chat_would_not_run_it() -> None:
    wrong = 0
    for line in drawn("--seed", "1"):
        tools = [Tool(*told) for told in line["tools"]]
        for reply, is_learnt in zip(line["replies"], line["learnt"], strict=True):
            for call in calls_in(reply, line["form"], tools):
                if not is_learnt and isinstance(call, CallFound):
                    wrong += 1
                    assert not hasattr(read_call(call.call, tools, language_words()), "index"), reply
    assert wrong


def language_words() -> Any:
    from rkllm_chat import language

    return language.load("en")


def test_the_sample_has_every_kind_of_talk_list_and_language() -> None:
    lines = [*drawn("--seed", "1"), *drawn("--seed", "2", "--held-out")]
    kinds = {kind for line in lines for kind in line["kinds"]}
    assert kinds >= {"named", "unnamed", "written", "words", "board", "again", "two", "chain", "talk", "refusal"}
    assert {len(line["tools"]) for line in lines} >= {1, 2, 3, 4, 5, 6, 8, 10}
    for group in (("board",), ("named", "unnamed", "written")):
        pairs = (pair for line in lines for pair in zip(line["kinds"], line["languages"], strict=True))
        assert {language for kind, language in pairs if kind in group} == {"en", "ja", "zh"}
    schemas = [schema for line in lines for _, _, tool, _ in line["tools"] for schema in tool["properties"].values()]
    assert {schema.get("type") for schema in schemas} >= {"string", "integer", "number", "boolean", "array"}
    assert any("enum" in schema for schema in schemas) and max(len(line["kinds"]) for line in lines) >= 10


def test_the_prompt_is_the_one_of_the_chat() -> None:
    from rkllm_chat.prompt import compose

    full = [line for line in drawn("--seed", "1") if line["level"] == "full"]
    assert len(full) < COUNT
    for line in full[:20]:
        tools = [Tool(*told) for told in line["tools"]]
        system = compose([], tools, tool_format=line["form"])[0].text
        assert line["prompt"].startswith(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n")


LENT = """
from random import Random

from board_list import board_tools
from lent import ALIASES, lend
from misfits import is_lacking, things_of
from rkllm_chat.messages import Tool

for tool in board_tools():
    for about in ALIASES[tool.name].abouts.split("|"):
        print(tool.name, bool(things_of([Tool("", about, {}, "")])), sep="\\t")
    for number in range(200):
        lent = lend(tool.name, "other", number % 2 == 0, Random(number))
        print(tool.name, not is_lacking(tool, [lent.tool]), sep="\\t")
"""


def test_what_another_server_lends_of_the_board_is_not_asked_for_as_a_misfit() -> None:
    done = subprocess.run([sys.executable, "-c", LENT], cwd=SCRIPTS, capture_output=True, text=True, check=True)
    judged = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(judged) > 20
    assert not [name for name, is_known in judged if is_known != "True"]


def test_no_tool_of_the_real_servers_is_trained_on() -> None:
    real = {(tool["name"], tool["description"]) for tools in REAL_TOOLS.values() for tool in tools}
    shown = {(name, about) for line in drawn("--seed", "1") for name, about, _, server in line["tools"]}
    assert len(real) > 30 and not {about for _, about in real} & {about for _, about in shown}
    themes = "\n".join(path.read_text(encoding="utf-8") for path in (SCRIPTS / "themes").glob("*.txt"))
    assert not [about for _, about in real if about.splitlines()[0] in themes]


def test_the_written_questions_want_calls_that_their_servers_take() -> None:
    with (SCRIPTS / "real_questions.tsv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) >= 200 and len({said for _, said, _, _ in rows}) == len(rows)
    for server, said, name, arguments in rows:
        tool = next(tool for tool in REAL_TOOLS[server] if tool["name"] == name)
        given = json.loads(arguments)
        try:
            assert dict(check(given, tool["inputSchema"]).arguments) == given
        except ValidationError as error:
            pytest.fail(f"{said}: {error.message}")


def test_the_written_questions_say_every_text_that_they_want() -> None:
    for line in (SCRIPTS / "real_questions.tsv").read_text(encoding="utf-8").splitlines():
        _, said, _, arguments = line.split("\t")
        for text in texts_in(json.loads(arguments)):
            assert text.casefold() in said.casefold(), line


def texts_in(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return [text for item in inside for text in texts_in(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("script", sorted(path.stem for path in SCRIPTS.glob("*.py")))
def test_what_a_script_imports_is_there(script: str) -> None:
    """Those that need torch cannot be imported here; what they take from the others can be looked for."""
    scripts = {path.stem: path for path in SCRIPTS.glob("*.py")}
    assert scripts.keys() >= NEEDS_TORCH
    for node in ast.walk(ast.parse(scripts[script].read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        names = {alias.name for alias in node.names}
        if node.module in scripts:
            assert names <= names_of(scripts[node.module]), node.module
        elif node.module.split(".")[0] == "rkllm_chat":
            module = importlib.import_module(node.module)
            submodules = {name for name in names if (ROOT / node.module.replace(".", "/") / f"{name}.toml").exists()}
            missing = {name for name in names - submodules if not hasattr(module, name)}
            assert all(importlib.util.find_spec(f"{node.module}.{name}") for name in missing), missing


def names_of(path: Path) -> set[str]:
    """What a module defines or imports at its top."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.ImportFrom(names=imported):
                names |= {alias.asname or alias.name for alias in imported}
    return names
