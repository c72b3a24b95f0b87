"""Packages import only what is below them, functions fit on a screen, one-shot calls import little."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from mcp_client.chaos_http import open_site
from mcp_client.chaos_sse import open_event_site
from stage import Run

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "rkllm_chat"
LEVELS = (  # from the lowest; packages of one level do not import each other
    {"core"},
    {"calls"},
    {"config", "storage", "prompt"},
    {"mcp_client", "backends"},
    {"chat"},
    {"mcp_servers", "tui"},
    {"api_server"},
    {"cli"},
    {"__main__"},
)
MAX_FUNCTION_LINES = 60
"""Lines of a function's body, without its docstring; `ruff` bounds its branches."""
MAX_RELAYS = 6
"""Generators that only forward another one; a coroutine that takes `emit` needs none."""
LEVEL_OF = {name: level for level, names in enumerate(LEVELS) for name in names}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
    if "template" not in path.parts
}
ONE_SHOT_PACKAGES = {  # of which `call-tool` may import modules
    "calls",
    "calls.schema",
    "cli",
    "cli.json_commands",
    "config",
    "core",
    "mcp_client",
    "mcp_client.direct",
    "mcp_client.process",
    "mcp_client.protocol",
    "mcp_client.transports",
}
ONE_SHOT_MODULES = (  # of the standard library that `call-tool` may import, with all that these import
    "__future__",
    "collections",
    "contextlib",
    "difflib",
    "enum",
    "errno",
    "functools",
    "json",
    "math",
    "os",
    "re",
    "runpy",
    "select",
    "shlex",
    "signal",
    "stat",
    "struct",
    "time",
    "types",
    "typing",
    "encodings.ascii",
    "encodings.utf_8_sig",
)


def imported_modules(name: str, path: Path) -> Iterator[str]:
    """Every module of the product that a module imports anywhere, also late or for types alone."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in parse_module(path):
        if isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *filter(None, [node.module])])
            for alias in node.names:
                yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def parse_module(path: Path) -> list[ast.AST]:
    """Every node of a module."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def find_imports() -> dict[str, set[str]]:
    """Module -> modules of the product that it imports."""
    return {
        name: {module for module in imported_modules(name, path) if module in MODULES} for name, path in MODULES.items()
    }


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_packages_import_only_what_is_below_them() -> None:
    upward = [
        f"{name} imports {other}"
        for name, others in find_imports().items()
        for other in others
        if package_of(name) and package_of(other) not in ("", package_of(name))
        if LEVEL_OF[package_of(other)] >= LEVEL_OF[package_of(name)]
    ]
    assert upward == []


def test_modules_have_no_import_cycles() -> None:
    TopologicalSorter({name: others - {name} for name, others in find_imports().items()}).prepare()


def count_body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function from its first statement behind the docstring to its last."""
    has_docstring = ast.get_docstring(function, clean=False) is not None
    body = function.body[has_docstring:]
    return (function.body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{name}.{node.name}": count_body_lines(node)
        for name, path in MODULES.items()
        for node in parse_module(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if count_body_lines(node) > MAX_FUNCTION_LINES
    }
    assert long == {}


def is_relay(node: ast.AST) -> bool:
    """Whether a node passes the items of another stream on and does nothing else."""
    match node:
        case ast.AsyncFor(ast.Name(target), _, [ast.Expr(ast.Yield(ast.Name(item)))]):
            return target == item
    return False


def test_few_streams_only_pass_on_what_another_yields() -> None:
    relays = [name for name, path in MODULES.items() for node in parse_module(path) if is_relay(node)]
    assert len(relays) <= MAX_RELAYS, relays


def list_imported(*arguments: str, cwd: Path, environment: dict[str, str] | None = None) -> set[str]:
    """The modules that a Python program imports."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return set(re.findall(r"\| +([\w.]+)$", done.stderr, flags=re.MULTILINE))


def test_the_process_of_the_npu_library_imports_nothing_of_the_conversation(tmp_path: Path) -> None:
    imported = list_imported("-c", "import rkllm_chat.backends.rkllm.worker", cwd=tmp_path)
    packages = {package_of(name) for name in imported if name.startswith("rkllm_chat.")}
    assert packages == {"backends", "core"}


def test_a_bundled_server_imports_no_model_and_no_settings(tmp_path: Path) -> None:
    """Its command has the options of all servers, whose own imports cost 80 ms of CPU."""
    imported = list_imported("-m", "rkllm_chat", "serve", "board", cwd=tmp_path)
    assert "rkllm_chat.mcp_servers.board.server" in imported
    assert "rkllm_chat.config.settings" not in imported
    assert {name for name in imported if name.startswith("rkllm_chat.backends")} == set()


SERVER = """
import json, sys
NAMED = {"name": "s", "version": "1"}
OUTPUT = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
for line in sys.stdin:
    message = json.loads(line)
    version = message.get("params", {}).get("protocolVersion")
    info = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": NAMED}
    tools = {"tools": [{"name": "say", "inputSchema": {"type": "object"}, "outputSchema": OUTPUT}]}
    said = {"content": [], "structuredContent": {"result": "x"}}
    results = {"initialize": info, "tools/list": tools, "tools/call": said}
    if message.get("method") in results:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
        print(json.dumps(reply), flush=True)
"""
"""Answers at once; its tool has an output schema as the SDK writes it."""
CALL = ("call-tool", "--tool", "say", "--stdio", f"{sys.executable} server.py")
CHAT = ("-p", "Hello", "--model", "replies.json")
CALL_CONFIGURED = ("call-tool", "--server", "other", "--tool", "say")
USED = {  # what the user did before -> the modules that the same call then needs besides
    "nothing": ((), CALL, ()),
    "a chat with another server": ((CHAT,), CALL, ()),
    "a chat with this server, which pins its tools": ((CHAT,), CALL_CONFIGURED, ("hashlib",)),
    "a call in the sandbox": ((CALL,), CALL, ()),
}


@pytest.mark.parametrize(
    "before", [pytest.param(name, marks=[pytest.mark.sandbox] if "sandbox" in name else []) for name in USED]
)
def test_a_tool_call_imports_only_allowed_modules(
    before: str, program: Run, script: Callable[..., str], folder: Path, environment: dict[str, str]
) -> None:
    commands, call, needed = USED[before]
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    entry = {"command": sys.executable, "args": ["server.py"]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"other": entry}}), encoding="utf-8")
    script("Hello.")
    if "sandbox" in before:
        environment["RKLLM_CHAT_SANDBOX"] = "on"
    for command in commands:
        program(*command)
    if commands:
        assert list(Path(environment["HOME"]).rglob("trust" if CHAT in commands else "bubblewrap.json"))
    imported = list_imported("-m", "rkllm_chat", *call, cwd=folder, environment=environment)
    ours = {name for name in imported if name.partition(".")[0] == "rkllm_chat"} - {"rkllm_chat"}
    watch = () if hasattr(os, "pidfd_open") else ("threading",)  # for the exit of the server, as on macOS
    if sys.version_info >= (3, 14):
        watch = (*watch, "annotationlib")  # typing.get_type_hints imports it
    allowed = list_imported("-c", f"import {', '.join([*ONE_SHOT_MODULES, *watch, *needed])}", cwd=folder)
    packages = {
        name.partition(".")[2] if MODULES[name].name == "__init__.py" else name.rpartition(".")[0].partition(".")[2]
        for name in ours
    }
    assert (imported - ours - allowed - {"rkllm_chat"}, packages - ONE_SHOT_PACKAGES) == (set(), set())


@pytest.mark.parametrize("command", [CHAT, ("mcp", "trust", "other", "--yes")], ids=["chat", "trust"])
@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
def test_servers_are_opened_without_the_sdk(
    transport: str, command: tuple[str, ...], script: Callable[..., str], folder: Path, environment: dict[str, str]
) -> None:
    """It takes half of the processor time until the first prompt; only logins need it."""
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    script("Hello.")
    with open_event_site("ok") if transport == "sse" else open_site("ok") as site:
        at_url = {"url": site.url, "type": transport}
        entry = {"command": sys.executable, "args": ["server.py"]} if transport == "stdio" else at_url
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"other": entry}}), encoding="utf-8")
        imported = list_imported("-m", "rkllm_chat", *command, cwd=folder, environment=environment)
        assert bool(site.requests) == (transport != "stdio")
    needed = set() if transport == "stdio" else {"httpx2"}
    assert "rkllm_chat.mcp_client.client" in imported and {"mcp", "mcp_types", "httpx2"} & imported == needed
