"""Every wait in `mcp_client` has a time limit, or its function stands in ENDED_OTHERWISE with what ends it.

A wait has a limit if `anyio.fail_after` or `move_on_after` is written around it, if it brings one along
(`asyncio.wait_for`, `asyncio.wait` with a timeout, a sleep), or if it is for a coroutine of this package, which is
checked itself. `test_silent_servers` shows that the limits hold.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent

from rkllm_chat import mcp_client

PACKAGE = Path(mcp_client.__file__).parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# What ends the waits -> the functions that have them.
ENDED_OTHERWISE = {
    "The limit of the call that is around it, or an argument of the request.": """
        Connection._send Connection._send_call Connection._wait_for_task LegacyTask._poll LegacyTask._wait_for_poll
        LegacyTask._get_result LegacyTask.wait MCPClient.complete MCPClient.execute_tool MCPClient.find_tools
        MCPClient.get_prompt MCPClient.list_prompts MCPClient.list_resources MCPClient.list_tools
        MCPClient.read_resource ConnectionClient.request.send ServerLifecycle.send_log_level ServerLifecycle.subscribe
        ServerLifecycle.unsubscribe ServerTask.wait Subscriptions.remove Toolbox.call Toolbox.find_skills
        Toolbox.execute_tool Toolbox.subscribe Toolbox.unsubscribe _list_if_declared _subscribe get_skill
        send_task_request start_task Client._send Client.answer_all Client.discover Connection._start_call.send
        Driver.request ModernTask._poll Toolbox.read_skill _list_if_declared.send _request is_alive list_skills""",
    "The limit of a start (connect_s) or of a close, which cancels it.": """
        CheckedConnection.handshake HttpTransport._open HttpTransport._try MCPClient.__aenter__ MCPClient.close
        MCPClient.add_server MCPClient.reload MCPClient.remove_server ServerLifecycle.get_client Client.open
        ServerLifecycle.list_again list_tools ToolListRefresher.list ServerLifecycle._own_client
        ServerLifecycle._prepare ServerLifecycle._run_owner ServerLifecycle.open ServerLifecycle.restart Toolbox._close
        Toolbox._query_each Toolbox.apply_config Toolbox.forget_login Toolbox.log_in Toolbox.restart
        WebSocketTransport._connect run_uninterrupted""",
    "Closing the server cancels it: it is meant to last as long as the connection.": """
        Client.listen InProcessTransport._read InProcessTransport._run HttpTransport._listen HttpTransport._post_all
        HttpTransport._read_own_stream HttpTransport._run_http HttpTransport._run_sse HttpTransport._take_unsent
        ServerLifecycle._serve ServerLifecycle._stop_when_idle Subscriptions._listen_once
        Subscriptions._listen_until_changed Subscriptions.listen ToolListRefresher._refresh
        UnixSocketTransport._read WebSocketTransport._read WebSocketTransport._write sleep_or_wait_forever
        wait_until_idle wait_until_silent""",
    "The timeouts of the HTTP client and a number of bytes, or the end of the request, which closes its response.": """
        HttpTransport._post HttpTransport._post_to HttpTransport._read_events
        HttpTransport._read_stream HttpTransport._resume ServerHttpClient.__aenter__
        ServerHttpClient.__aexit__ ServerHttpClient._send_once ServerHttpClient._send_with_token
        ServerHttpClient.open check_new_connection read_body read_events""",
    "A person answers, within a turn that can be stopped or within login_s.": """
        Client._answer Driver._reply ServerRequests._ask Login._ask Login._ask_to_agree Login._run_flow
        Login._read_pasted_redirects Login._log_in Login._refresh Login._renew Login._send LoopbackReceiver._read
        LoopbackReceiver.wait_for_redirect _ConfiguredProvider._perform_authorization answer_questions ask_to_visit_urls
        make_assertion_signer.sign_or_explain make_user_provider.answer _make_elicit_handler.elicit""",
    "The condition of its loop, or the tasks are cancelled: it waits for nothing else.": """
        CredentialFile._acquire StdioTransport._close StdioTransport._flush StdioTransport._wait_for_all cancel_all
        resolve_url store_content""",
}


class WaitFinder(ast.NodeVisitor):
    """Collects the functions that wait without a limit, by their qualified names."""

    def __init__(self, coroutines: set[str]) -> None:
        self.found: set[str] = set()
        self._coroutines = coroutines
        self._path: list[str] = []
        self._limits = 0

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            around, self._limits = self._limits, 0
            self._path.append(node.name)
            self.generic_visit(node)
            self._path.pop()
            self._limits = around
        elif isinstance(node, ast.With) and any(is_scope(item.context_expr) for item in node.items):
            self._limits += 1
            self.generic_visit(node)
            self._limits -= 1
        else:
            if not self._limits and self._waits(node):
                self.found.add(".".join(self._path))
            self.generic_visit(node)

    def _waits(self, node: ast.AST) -> bool:
        match node:
            case ast.Await(value=value):
                return not self._ends(value)
            case ast.While():
                return any(isinstance(child, ast.Await) for child in ast.walk(node))
            case ast.comprehension(is_async=is_async):
                return bool(is_async)
            case _:
                return isinstance(node, ast.AsyncFor | ast.AsyncWith)

    def _ends(self, value: ast.expr) -> bool:
        match value:
            case ast.IfExp(body=one, orelse=other):
                return self._ends(one) and self._ends(other)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name)) if (
                name in self._coroutines
            ):
                return True
            case ast.Call(func=func, args=args, keywords=keywords):
                limits = [*args[1:], *(keyword.value for keyword in keywords if keyword.arg == "timeout")]
                match ast.unparse(func):
                    case "asyncio.wait_for" | "asyncio.wait":
                        return any(map(is_finite, limits))
                    case "asyncio.sleep" | "anyio.sleep":
                        return is_finite(args[0])
                    case name:
                        return name == "anyio.lowlevel.checkpoint"
            case _:
                return False


def is_scope(value: ast.expr) -> bool:
    is_one = isinstance(value, ast.Call) and ast.unparse(value.func) in ("anyio.fail_after", "anyio.move_on_after")
    return is_one and isinstance(value, ast.Call) and is_finite(value.args[0])


def is_finite(limit: ast.expr) -> bool:
    return ast.unparse(limit) not in ("None", "math.inf")


def find_unbounded(trees: Iterable[ast.Module]) -> set[str]:
    """The qualified names of the functions in a package that wait without a limit."""
    trees = list(trees)
    nodes = [node for tree in trees for node in ast.walk(tree)]
    finder = WaitFinder({node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef)})
    for tree in trees:
        finder.visit(tree)
    return finder.found


def test_every_wait_has_a_limit_or_a_reason() -> None:
    found = find_unbounded(ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py"))
    known = {name for names in ENDED_OTHERWISE.values() for name in names.split()}
    assert found - known == set(), "give these a limit, or name in ENDED_OTHERWISE what ends them"
    assert known - found == set(), "these functions have no such wait any more"


def test_a_wait_without_a_limit_is_found_and_others_are_not() -> None:
    waits = """
        await ready.wait()
        async for piece in pieces(): pass
        return [piece async for piece in pieces()]
        async with lock: pass
        while True: await asyncio.sleep(1)
        with anyio.fail_after(None): await ready.wait()
        with anyio.CancelScope(shield=True): await ready.wait()
        await asyncio.wait(tasks)
        await asyncio.wait_for(task, None)
        await asyncio.sleep(math.inf)
        await (ours() if ready else theirs())
        with anyio.fail_after(1): await ready.wait()
        with anyio.move_on_after(1) as scope: await ready.wait()
        await asyncio.wait(tasks, timeout=1)
        await asyncio.wait_for(task, 1)
        await asyncio.sleep(1)
        await ours()
        await self.ours()
        await anyio.lowlevel.checkpoint()"""
    lines = dedent(waits).strip().splitlines()
    functions = [f"async def wait_{place}():\n {line}\n" for place, line in enumerate(lines)]
    nested = "async def outer():\n with anyio.fail_after(1):\n  async def inner(): await ready.wait()\n"
    text = f"async def ours(): pass\n{nested}" + "".join(functions)
    assert find_unbounded([ast.parse(text)]) == {"outer.inner", *(f"wait_{place}" for place in range(11))}
