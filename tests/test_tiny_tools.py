"""The training data of the small model is composed and parsed by the product's own code."""

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

from rkllm_chat.calls.arguments import validate_arguments
from rkllm_chat.calls.formats import FORMATS
from rkllm_chat.calls.model_families import make_scanner
from rkllm_chat.chat.builtin_tools import DESCRIBE_TOOL, MORE_TOOL
from rkllm_chat.chat.tool_calls import resolve_call
from rkllm_chat.core.errors import ValidationError
from rkllm_chat.core.events import CallFound, CallUnreadable
from rkllm_chat.core.messages import Tool

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "models" / "tiny-tools"
REAL_TOOLS = json.loads((ROOT / "tests" / "real_tools.json").read_text(encoding="utf-8"))
NEEDS_TORCH = {"batches", "export", "muon", "network", "quick", "train"}
COUNT = 400
OPENINGS = {"json": "[TOOL_CALL]\n{", "hermes": "<tool_call>\n{", "xml": "<tool_call name="}


@cache
def drawn(*options: str, count: int = COUNT) -> tuple[dict[str, Any], ...]:
    """Lines of show.py."""
    command = [sys.executable, str(SCRIPTS / "show.py"), "--count", str(count), *options]
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


def calls_in(reply: str, call_format: str, tools: list[Tool]) -> list[CallFound | CallUnreadable]:
    scanner = make_scanner(call_format, tuple(FORMATS), tools)
    return [
        event for event in (*scanner.feed(reply), *scanner.close()) if isinstance(event, CallFound | CallUnreadable)
    ]


HELD_OUT = "--held-out"
DRAWS = {
    "few": pytest.param(("--seed", "1"), 100),
    "trained": pytest.param(("--seed", "1"), COUNT, marks=pytest.mark.slow),
    "held out": pytest.param(("--seed", "2", HELD_OUT), COUNT, marks=pytest.mark.slow),
}


@pytest.mark.slow
@pytest.mark.parametrize(("options", "count"), DRAWS.values(), ids=DRAWS)
def test_every_reply_is_parsed_as_the_wanted_calls(options: tuple[str, ...], count: int) -> None:
    lines = drawn(*options, count=count)
    found = Counter[str]()
    for line in lines:
        tools = [*(Tool(*fields) for fields in line["tools"]), MORE_TOOL, DESCRIBE_TOOL]
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
                assert dict(validate_arguments(call.call.arguments, tool.schema).arguments) == arguments, reply
            found[line["form"]] += len(calls)
    assert all(found[call_format] > 5 for call_format in OPENINGS), found


@pytest.mark.slow
def test_a_call_that_is_wrong_on_purpose_is_neither_learnt_nor_run() -> None:
    wrong = 0
    for line in drawn("--seed", "1"):
        tools = [Tool(*fields) for fields in line["tools"]]
        for reply, is_learnt in zip(line["replies"], line["learnt"], strict=True):
            for call in calls_in(reply, line["form"], tools):
                if not is_learnt and isinstance(call, CallFound):
                    wrong += 1
                    assert not hasattr(resolve_call(call.call, tools, language_words()), "index"), reply
    assert wrong


def language_words() -> Any:
    from rkllm_chat.core import i18n

    return i18n.load("en")


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_prompt_is_the_one_of_the_chat() -> None:
    from rkllm_chat.prompt.compose import compose_prompt

    full = [line for line in drawn("--seed", "1") if line["level"] == "full"]
    assert len(full) < COUNT
    for line in full[:20]:
        tools = [Tool(*fields) for fields in line["tools"]]
        system = compose_prompt([], tools, tool_format=line["form"])[0].text
        assert line["prompt"].startswith(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n")


LENT = """
from random import Random

from board_list import board_tools
from lent import ALIASES, lend
from misfits import is_lacking, things_of
from rkllm_chat.core.messages import Tool

for tool in board_tools():
    for about in ALIASES[tool.name].abouts.split("|"):
        print(tool.name, bool(things_of([Tool("", about, {}, "")])), sep="\\t")
    for number in range(200):
        lent = lend(tool.name, "other", number % 2 == 0, Random(number))
        print(tool.name, not is_lacking(tool, [lent.tool]), sep="\\t")
"""


@pytest.mark.slow
def test_a_tool_of_the_board_under_another_server_is_no_misfit() -> None:
    done = subprocess.run([sys.executable, "-c", LENT], cwd=SCRIPTS, capture_output=True, text=True, check=True)
    judged = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(judged) > 20
    assert not [name for name, is_known in judged if is_known != "True"]


@pytest.mark.slow
def test_no_tool_of_the_real_servers_is_trained_on() -> None:
    real = {(tool["name"], tool["description"]) for tools in REAL_TOOLS.values() for tool in tools}
    shown = {(name, about) for line in drawn("--seed", "1") for name, about, _, server in line["tools"]}
    assert len(real) > 30 and not {about for _, about in real} & {about for _, about in shown}
    themes = "\n".join(path.read_text(encoding="utf-8") for path in (SCRIPTS / "themes").glob("*.txt"))
    assert not [about for _, about in real if about.splitlines()[0] in themes]


def test_the_written_questions_want_valid_calls() -> None:
    with (SCRIPTS / "real_questions.tsv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) >= 200 and len({question for _, question, _, _ in rows}) == len(rows)
    for server, question, name, arguments in rows:
        tool = next(tool for tool in REAL_TOOLS[server] if tool["name"] == name)
        expected = json.loads(arguments)
        try:
            assert dict(validate_arguments(expected, tool["inputSchema"]).arguments) == expected
        except ValidationError as error:
            pytest.fail(f"{question}: {error.message}")


def test_the_written_questions_contain_every_wanted_text() -> None:
    for line in (SCRIPTS / "real_questions.tsv").read_text(encoding="utf-8").splitlines():
        _, question, _, arguments = line.split("\t")
        for text in texts_in(json.loads(arguments)):
            assert text.casefold() in question.casefold(), line


def texts_in(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return [text for item in inside for text in texts_in(item)]
    return [value] if isinstance(value, str) else []


def test_what_scripts_import_exists() -> None:
    """Scripts that need torch cannot be imported here, but the names that they import can be checked."""
    scripts = {path.stem: path for path in SCRIPTS.glob("*.py")}
    assert scripts.keys() >= NEEDS_TORCH
    for node in (node for path in scripts.values() for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))):
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
