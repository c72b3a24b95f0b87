"""What an entry of another program takes away: it is read or named; what may be a restriction keeps it off.

The rows are written after the documentation of the programs that they name; names and values are made up.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config.files import find_servers
from rkllm_chat.config.loader import load_settings
from rkllm_chat.config.settings import ServerConfig
from stage import Run

START: dict[str, Any] = {"command": "/usr/bin/python3", "args": ["-c", "pass"]}
ENVIRONMENT = {"HOME": "/home/me", "PATH": "/usr/bin", "GH_TOKEN": "gh", "COPILOT_MCP_KEY": "cm"}
OFF, NAMED_OFF = {"enabled": False}, "may be a restriction"


def entry(**more: Any) -> dict[str, Any]:
    return {"mcpServers": {"a": {**START, **more}}}


def beside(**more: Any) -> dict[str, Any]:
    return {"mcpServers": {"a": START, "b": START}, **more}


ONLY, WITHOUT = {"tools_allow": ("read",)}, {"tools_deny": ("rm",)}
# program -> file, values of server a that are no defaults, a part of what is named
READ: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "Jan": (entry(active=False, official=True), OFF, ""),
    "DeepChat": (entry(disable=True, icons="x", descriptions="x"), OFF, ""),
    "DeepChat, all off": (beside(mcpEnabled=False), OFF, ""),
    "5ire": (entry(isActive="no"), OFF, ""),
    "mcpproxy-go": (entry(enabled=True, quarantined=True, working_dir="/tmp"), {**OFF, "cwd": "/tmp"}, ""),
    "AnythingLLM": (entry(anythingllm={"autoStart": False, "suppressedTools": ["rm"]}), {**OFF, **WITHOUT}, ""),
    "LiteLLM": (entry(allowed_tools=["read"], disallowed_tools=["rm"]), {**ONLY, **WITHOUT}, ""),
    "Hermes": (entry(tools={"include": ["read"], "exclude": ["rm"]}, connect_timeout=7),
               {**ONLY, **WITHOUT, "connect_s": 7.0}, ""),
    "mcp-agent": (entry(allowed_tools=["read"], read_timeout_seconds=9), {**ONLY, "timeout_s": 9.0}, ""),
    "mcp-proxy": (entry(options={"toolFilter": {"mode": "block", "list": ["rm"]}}), WITHOUT, ""),
    "mcp-proxy, allow": (entry(options={"toolFilter": {"mode": "allow", "list": ["read"]}}), ONLY, ""),
    "nanobot": (entry(enabledTools=["read"], toolTimeout=5), {**ONLY, "timeout_s": 5.0}, ""),
    "Anthropic's API": (entry(tool_configuration={"enabled": True, "allowed_tools": ["read"]}), ONLY, ""),
    "OpenAI's API": (entry(allowed_tools={"tool_names": ["read"]}, require_approval="always"), ONLY, "approval"),
    "Roo, Kilo": (entry(disabledTools=["rm"], alwaysAllow=["read"]), WITHOUT, "alwaysAllow: read"),
    "a switch for each tool": (entry(tools={"read": True, "rm": False}), WITHOUT, ""),
    "a table for each tool": (entry(tools={"rm": {"enabled": False}, "ls": {"approval_mode": "x"}}), WITHOUT, ""),
    "opencode, all but": (entry(tools={"*": False, "read": True}), ONLY, ""),
    "opencode, beside": (beside(tools={"a_rm": False, "b*": False}), WITHOUT, ""),
    "a text of names": (entry(excludeTools="rm, mv"), {"tools_deny": ("rm", "mv")}, ""),
    "two lists": (entry(includeTools=["read", "list"], enabled_tools=["read"]), ONLY, ""),
    "Claude Code, deny": (beside(permissions={"deny": ["mcp__a__rm", "Bash"], "allow": ["mcp__a"]}), WITHOUT, ""),
    "Claude Code, switches": (beside(disabledMcpjsonServers=["a"]), OFF, ""),
    "Claude Code, enabled": (beside(enabledMcpjsonServers=["b"]), OFF, ""),
    "Claude Code, managed": (beside(deniedMcpServers=[{"serverName": "a"}]), OFF, ""),
    "Cursor": (beside(permissions={"deny": ["Mcp(a:rm)"]}), WITHOUT, ""),
    "opencode, permission": (beside(permission={"a_rm": "deny", "a_read": "ask"}), WITHOUT, ""),
    "Zed, permission": (beside(agent={"tool_permissions": {"tools": {"mcp:a:rm": {"default": "deny"}}}}), WITHOUT, ""),
    "VS Code, access": (beside(**{"chat.mcp.access": "none"}), OFF, ""),
    "LibreChat, domains": (beside(mcpSettings={"allowedDomains": ["x.example"]}), OFF, "mcpSettings.allowedDomains"),
    "nothing chosen yet": (beside(enabledMcpjsonServers=[], enableAllProjectMcpServers=False), {}, ""),
    "VS Code, discovery": (beside(**{"chat.mcp.discovery.enabled": False, "chat.mcp.autostart": "never"}), {}, ""),
    "no restriction": (entry(restartPolicy="x", enableLogging=False, envFilter=["A*"], scope="user"), {}, "("),
    "Gemini CLI": (beside(mcp={"excluded": ["a"]}), OFF, ""),
    "JetBrains": (entry(workingDirectory="/tmp"), {"cwd": "/tmp"}, ""),
    "oterm": ({"mcpServers": {"a": {"url": "http://127.0.0.1:9/", "auth": {"type": "bearer", "token": "t"}}}},
              {"headers": {"Authorization": "Bearer t"}}, ""),
    "LiteLLM, login": ({"mcp_servers": {"a": {"url": "http://127.0.0.1:9/", "auth_type": "bearer", "auth_value": "t"}}},
                       {"headers": {"Authorization": "Bearer t"}}, ""),
    "Copilot": (entry(env={"KEY": "COPILOT_MCP_KEY"}), {"env": {"KEY": "cm"}}, ""),
    "the path of a shell": (entry(env={"PATH": "/opt/bin:$PATH"}), {"env": {"PATH": "/opt/bin:/usr/bin"}}, ""),
    "mcphub": ({**entry(env={"GH_TOKEN": None, "NONE": ""}), "nativeMCPServers": {}},
               {"env": {"GH_TOKEN": "gh", "NONE": ""}}, ""),
    "another null": (entry(env={"GH_TOKEN": None}), {}, "env.GH_TOKEN: null"),
    "a template": (entry(env={"USER_ID": "{{USER_ID}}"}), {"env": {"USER_ID": "{{USER_ID}}"}}, "{{USER_ID}} is passed"),
    "a placeholder": (entry(env={"K": "<YOUR_KEY>"}), {"env": {"K": "<YOUR_KEY>"}}, "<YOUR_KEY> looks like"),
    "a URL as command": ({"mcpServers": {"a": {"command": "http://127.0.0.1:9/"}}}, {"url": "http://127.0.0.1:9/"}, ""),
    "VS Code's sandbox": (entry(sandboxEnabled=True, sandbox={"network": {}}), {"sandbox": "on"}, "our own sandbox"),
    # not understood
    "a comment": (entry(_comment="x", **{"//": "y"}, description="z"), {}, ""),
    "something else": (entry(restartOnExit=True, retries={"max": 3}), {}, "retries.max (not understood)"),
    "a limit": (entry(rateLimit=3), OFF, NAMED_OFF),
    "a guard": (entry(guardrails={"blockedPaths": ["/etc"]}), OFF, f"blockedPaths (not understood, {NAMED_OFF}"),
    "parameters": (entry(allowed_params={"read": ["path"]}), OFF, NAMED_OFF),
    "read only": (entry(readOnly=True), OFF, NAMED_OFF),
    "not read only": (entry(readOnly=False, exposeResources=True), {}, "readOnly (not understood)"),
    "Hermes, resources": (entry(tools={"resourcesEnabled": {"deep": {"denied": 1}}}), OFF, NAMED_OFF),
    "a rule beside": (beside(policies={"restricted": ["a"]}), OFF, "policies.restricted"),
    "a list of no names": (entry(disabledTools=[{"id": 1}]), OFF, NAMED_OFF),
}  # fmt: skip


@pytest.mark.parametrize("program", READ)
def test_what_an_entry_takes_away_is_read_or_named(program: str, tmp_path: Path) -> None:
    root, values, named = READ[program]
    path = tmp_path / "given.json"
    path.write_text(json.dumps(root), encoding="utf-8")
    settings = load_settings(str(path), ENVIRONMENT)
    assert settings.skipped == ()
    [server] = [server for server in settings.servers if server.name == "a"]
    plain = {} if "url" in values or server.url else {"command": START["command"], "args": tuple(START["args"])}
    default, ignored = ServerConfig("a"), ("name", "source", "origin", "place", "not_obeyed", "kept_off")
    found = {key: value for key, value in vars(server).items() if value != getattr(default, key) and key not in ignored}
    assert {key: found[key] for key in found if key != "url" or "url" in values} == {**plain, **values}
    said = "; ".join(server.not_obeyed)
    assert named in said and bool(named) is bool(said), said


def test_the_user_can_use_a_server_in_spite_of_what_is_not_understood(
    program: Run, script: Callable[..., str], folder: Path
) -> None:
    """Every list says why it is off; enabling it names the keys in its entry, and one that is added later counts."""
    path = folder / "given.json"
    path.write_text(json.dumps(entry(active=True, rateLimit=3)), encoding="utf-8")
    options = ("--config", "given.json")
    why = "rateLimit (not understood, may be a restriction: the server is off until mcp enable)"
    listed = json.loads(program("list-servers", *options).stdout)["result"][0]
    assert (listed["enabled"], listed["not_obeyed"]) == (False, [why])
    model = ("--model", script("So."))  # else doctor loads the one that ships
    assert why in program("mcp", "list", *options).stdout and why in program("doctor", *options, *model).stdout
    assert why in program("mcp", "import", "given.json", "--dry-run").stdout
    turn = program("-p", "x", *model, *options)
    assert 'server "a" is off: rateLimit is not understood and may be a restriction.' in turn.stderr
    refused = json.loads(program("call-tool", "a.x", *options, code=1).stdout)["error"]
    assert "Not understood: rateLimit" in json.dumps(refused)
    program("mcp", "enable", "a", *options)
    written = json.loads(path.read_text(encoding="utf-8"))["mcpServers"]["a"]
    assert (written["active"], written["ignored_keys"]) == (True, ["rateLimit"])
    listed = json.loads(program("list-servers", *options).stdout)["result"][0]
    assert (listed["enabled"], listed["not_obeyed"]) == (True, ["rateLimit (not understood)"])
    path.write_text(json.dumps({"mcpServers": {"a": {**written, "blocklist": ["x"]}}}), encoding="utf-8")
    assert not json.loads(program("list-servers", *options).stdout)["result"][0]["enabled"]
    program("mcp", "disable", "a", *options)
    program("mcp", "import", "given.json", "--yes")
    assert not json.loads(program("list-servers").stdout)["result"][0]["enabled"]


SETTINGS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "disabled": ({"disabledMcpjsonServers": ["a"]}, OFF, "by {path}"),
    "others enabled": ({"enabledMcpjsonServers": ["b"]}, OFF, "by {path}"),
    "a tool denied": ({"permissions": {"deny": ["mcp__a__rm", "Read(.env)"], "defaultMode": "plan"}}, WITHOUT, ""),
    "nothing about servers": ({"model": "x", "hooks": {"Stop": []}, "enableAllProjectMcpServers": True}, {}, ""),
    "unreadable": ("{", OFF, "{path} (not understood, may be a restriction"),
}


@pytest.mark.parametrize("place", [".claude/settings.json", ".claude/settings.local.json", "~/.claude/settings.json"])
@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_claude_code_hold_for_its_project_file(
    name: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, values, named = SETTINGS[name]
    home, project = tmp_path / "home", tmp_path / "project"
    path = (home if place.startswith("~") else project) / place.removeprefix("~/")
    path.parent.mkdir(parents=True)
    path.write_text(settings if isinstance(settings, str) else json.dumps(settings), encoding="utf-8")
    project.mkdir(exist_ok=True)
    (project / ".mcp.json").write_text(json.dumps(beside()), encoding="utf-8")
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home))
    environment = {"HOME": str(home)}
    one_shot, chat = find_servers(environment=environment).servers.values(), load_settings("", environment).servers
    for server in (next(server for server in servers if server.name == "a") for servers in (one_shot, chat)):
        assert {"enabled": server.enabled, "tools_deny": server.tools_deny} == {
            "enabled": True, "tools_deny": (), **values
        }  # fmt: skip
        said = "; ".join([*server.not_obeyed, *([f"by {server.disabled_by}"] if server.disabled_by else [])])
        shown = str(path) if place.startswith("~") else place
        assert named.format(path=shown) in said and bool(named) is bool(said), said


def test_a_server_that_claude_code_switches_off_is_enabled_there(in_process: Run, folder: Path) -> None:
    (folder / ".claude").mkdir()
    (folder / ".claude/settings.local.json").write_text('{"disabledMcpjsonServers": ["a"]}', encoding="utf-8")
    (folder / ".mcp.json").write_text(json.dumps(beside()), encoding="utf-8")
    said = in_process("mcp", "enable", "a", code=3).stderr
    assert ".claude/settings.local.json switches it off. Switch it on there." in said
    assert "switched off by .claude/settings.local.json" in in_process("mcp", "list", "--no-start").stdout
    assert json.loads((folder / ".mcp.json").read_text(encoding="utf-8")) == beside()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("codex.toml", 'model = "o"\n[mcp_servers.a]\ncommand = "x"\n', "mcp import codex.toml"),
        ("typo.json", '{"mcpServers": {"a": {"comand": "x"}}}', 'Did you mean "command"?'),
        ("switch.json", '{"mcpServers": {"a": {"command": "x", "disabled": "maybe"}}}', "must be true or false"),
    ],
)
def test_what_cannot_be_used_says_what_to_do(name: str, text: str, message: str, program: Run, folder: Path) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    assert message in program("call-tool", "a.x", "--config", name, code=1).stdout.replace('\\"', '"')
