"""The JSON Schemas of configurations accept what the program accepts and refuse what it refuses."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from rkllm_chat.config.settings import read_json, read_toml
from rkllm_chat.config.source_text import blank_comments
from rkllm_chat.core.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "rkllm_chat/config/mcp_config.schema.json").read_text(encoding="utf-8"))
FENCE = re.compile(r"^```toml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
JSON_SCHEMA = json.loads((ROOT / "rkllm_chat/config/mcp_servers.schema.json").read_text(encoding="utf-8"))
SHAPES = sorted((ROOT / "tests/config/shapes").iterdir())
SHAPES = [path for path in SHAPES if '"mcpServers"' in path.read_text("utf-8") and path.name != "wrong_types.json"]
JSON_WRONG = [
    '{"mcpServers": [7]}',
    '{"mcpServers": {"a": "npx server"}}',
    '{"mcpServers": {"a": {}}}',
    '{"mcpServers": {"a": {"command": 7}}}',
    '{"mcpServers": {"a": {"url": ["https://b"]}}}',
    '{"mcpServers": {"a": {"command": "b", "args": "c"}}}',
    '{"mcpServers": {"a": {"command": "b", "args": [["c"]]}}}',
    '{"mcpServers": {"a": {"command": "b", "env": ["C=1"]}}}',
    '{"mcpServers": {"a": {"command": "b", "cwd": 1}}}',
    '{"mcpServers": {"a": {"command": "b", "timeout_s": 0}}}',
    '{"mcpServers": {"a": {"command": "b", "trust": "yes"}}}',
    '{"mcpServers": {"a": {"command": "b", "sandbox": "never"}}}',
    '{"mcpServers": {"a": {"command": "b", "write": "/home"}}}',
    '{"mcpServers": {"a": {"url": "https://b", "headers": {"C": ["d"]}}}}',
]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "models/README.md"]
EXAMPLES = [(ROOT / "mcp_config.toml").read_text(encoding="utf-8")]
EXAMPLES += [text for page in PAGES for text in FENCE.findall(page.read_text(encoding="utf-8"))]
EXAMPLES += [
    '[chat]\nmodel = ["http://a:8000/v1", "http://b:8000/v1"]',
    '[[servers]]\nname = "a"\ncommand = "b"\nroots = false',
    '[[servers]]\nname = "a"\ncommand = "b"\ntrust = "${TRUST:-ask}"',
]
WRONG = [
    "[chatt]",
    "[chat]\nmodell = 'a.gguf'",
    "[chat]\nmodel = 7",
    "[chat]\nmodel = [1]",
    "[chat]\nmax_steps = 0",
    "[chat]\nmax_steps = '8'",
    "[chat]\nbell = 1",
    "[chat]\nthinking = 'maybe'",
    "[generation]\ntop_p = 1.5",
    "[generation]\ntemperature = -1",
    "[generation]\nmax_tokens = 1.5",
    "[rkllm]\nbase_domain_id = 16",
    "[rkllm]\nhistory = 'server'",
    "[openai]\nkey = 'secret'",
    "[policy]\napprove = 'always'",
    "[policy]\nallow = 'board__*'",
    "[servers]\nname = 'a'",
    "[[servers]]\ncommand = 'a'",
    "[[servers]]\nname = 'a'",
    "[[servers]]\nname = 'a'\ncommand = 'b'\nurl = 'https://c'",
    "[[servers]]\nname = 'a'\ncommand = 'b'\nargs = 'c'",
    "[[servers]]\nname = 'a'\ncommand = 'b'\nenv = { A = 1 }",
    "[[servers]]\nname = 'a'\ncommand = 'b'\nroots = true",
    "[[servers]]\nname = 'a'\ncommand = 'b'\ntool_timeouts = { c = 0 }",
    "[[servers]]\nname = 'a'\nurl = 'https://c'\noauth = { user = 'd' }",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_what_the_program_reads_is_valid(text: str) -> None:
    read_toml(text, "file", {"HOME": "/home/someone"})
    assert list(Draft202012Validator(SCHEMA).iter_errors(tomllib.loads(text))) == []


@pytest.mark.parametrize("text", WRONG)
def test_what_the_program_refuses_is_invalid(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_toml(text, "file", {})
    assert "not valid TOML" not in str(refused.value)
    assert not Draft202012Validator(SCHEMA).is_valid(tomllib.loads(text))


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.name)
def test_files_of_other_programs_are_valid(path: Path) -> None:
    text = blank_comments(path.read_text(encoding="utf-8"))
    assert list(Draft202012Validator(JSON_SCHEMA).iter_errors(json.loads(text))) == []


@pytest.mark.parametrize("text", JSON_WRONG)
def test_servers_that_the_program_refuses_are_invalid(text: str) -> None:
    with pytest.raises(ConfigError):
        read_json(text, "file", {})
    assert not Draft202012Validator(JSON_SCHEMA).is_valid(json.loads(text))
