"""What the package says of itself to an index and to the MCP registry, and what the pages say about installing it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from fork_server import run
from rkllm_chat.core.version import __version__
from rkllm_chat.mcp_servers import BUNDLED
from stage import PROGRAM

ROOT = Path(__file__).parents[1]
HOME = "https://github.com/somebody/rkllm-chat"
FILES = f"{HOME}/(?:blob|raw)/v{re.escape(__version__)}/"


def read_metadata(**variables: str) -> dict[str, Any]:
    """Return the metadata of the project as its build backend writes them."""
    command = [sys.executable, "-m", "hatchling", "metadata"]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=True)
    metadata: dict[str, Any] = json.loads(done.stdout)
    return metadata


def test_a_release_names_its_home_and_its_readme_has_absolute_links() -> None:
    metadata = read_metadata(RKLLM_CHAT_REPOSITORY=f"{HOME}/")
    assert {address.startswith(HOME) for address in metadata["urls"].values()} == {True}
    text = metadata["readme"]["text"]
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [link for link in links if not link.startswith("https://")] == []
    paths = [re.sub(FILES, "", link).partition("#")[0] for link in links if re.match(FILES, link)]
    assert "SECURITY.md" in paths
    assert [path for path in paths if not (ROOT / path).is_file()] == []
    assert [link for link in links if link.endswith(".svg")] == [f"{HOME}/raw/v{__version__}/docs/real.svg"]
    named = re.findall(r"^<!-- mcp-name: (\S+) -->$", text, re.MULTILINE)
    assert named == [f"io.github.somebody/rkllm-chat-{name}" for name in BUNDLED]


def test_a_build_elsewhere_shows_the_readme_as_it_is() -> None:
    metadata = read_metadata(RKLLM_CHAT_REPOSITORY="")
    assert metadata["readme"]["text"] == (ROOT / "README.md").read_text(encoding="utf-8")
    assert "urls" not in metadata


def test_workflows_name_actions_by_commit() -> None:
    workflows = [path.read_text(encoding="utf-8") for path in (ROOT / ".github/workflows").glob("*.yml")]
    used = [line.partition("uses:")[2].strip() for text in workflows for line in text.splitlines() if "uses:" in line]
    assert used and [name for name in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[\d.]+", name)] == []


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What is sent to the MCP registry, by server."""
    folder = tmp_path_factory.mktemp("registry")
    environment = {**os.environ, "RKLLM_CHAT_REPOSITORY": HOME}
    subprocess.run([sys.executable, "packaging/registry.py", str(folder)], cwd=ROOT, env=environment, check=True)
    return {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*/server.json")}


@pytest.mark.parametrize("name", BUNDLED)
def test_every_server_has_a_description_for_the_registry(name: str, described: dict[str, dict[str, Any]]) -> None:
    server = described[name]
    assert server["name"] == f"io.github.somebody/rkllm-chat-{name}"
    assert 0 < len(server["description"]) <= 100  # the schema's limit
    (package,) = server["packages"]
    assert (package["identifier"], package["version"], server["version"]) == ("rkllm-chat", __version__, __version__)
    serve, *options = package["packageArguments"]
    assert [serve["value"], options[0]["value"]] == ["serve", name]
    done = run([*PROGRAM, "serve", name, "--help"], cwd=ROOT, encoding="utf-8")
    assert [option["name"] for option in options[1:] if option["name"] not in done.stdout] == []


def test_the_installation_without_a_compiler_names_every_other_requirement() -> None:
    """A new requirement must be added to the page."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project]")[2]
    listed = project.partition("dependencies = [")[2].partition("\n]")[0]
    required = set(re.findall(r'^\s+"([\w.-]+)', listed, re.MULTILINE)) - {"llama-cpp-python", "llguidance"}
    npu = set(re.findall(r'"([\w.-]+)>', project.partition("npu = ")[2].partition("\n")[0]))
    page = (ROOT / "models/README.md").read_text(encoding="utf-8")
    command = page.partition("```sh\npip install ")[2].partition("\n")[0]
    assert set(command.split()) == required | npu


# Package, first release without the hole, its advisory, and when that or the release was published; looked up on
# 2026-11-27. CVE-2026-96641 of Pillow (2026-10-21) is mended in 13.0.0, which does not exist for Python 3.10.
HOLES = [
    ("anyio", "4.14.2", "CVE-2026-63374, CVE-2026-64847", "2026-09-18"),
    ("h11", "0.16.0", "CVE-2025-43859", "2025-04-24"),
    ("httpx2", "2.12.0", "GHSA-8xx6-hgc6-gc2m, GHSA-7mj9-2mp8-4m2p", "2026-09-11"),
    ("jinja2", "3.1.6", "CVE-2025-27516", "2025-03-05"),
    ("mcp", "2.2.0", "CVE-2026-59951", "2026-10-14"),
    ("pillow", "12.3.0", "CVE-2026-59197 to CVE-2026-59200", "2026-07"),
    ("pygments", "2.20.0", "CVE-2026-4539", "2026-03-22"),
    ("pyjwt", "2.15.0", "CVE-2026-102267, CVE-2026-102275", "2026-09-28"),
    ("pytest", "9.0.3", "CVE-2025-71176", "2026-04-07"),
    ("starlette", "1.3.1", "CVE-2025-62727, CVE-2026-48710, PYSEC-2026-248", "2026-06-22"),
]


@pytest.mark.parametrize(("package", "mended", "advisory", "published"), HOLES, ids=[hole[0] for hole in HOLES])
def test_no_lower_bound_has_a_known_hole(package: str, mended: str, advisory: str, published: str) -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project]")[2]
    lowest = re.findall(rf'"{package}(?:\[\w+\])?>=([\w.]+)', project)
    assert lowest, f"{package} is no dependency any more"
    assert min(map(Version, lowest)) >= Version(mended), f"{advisory} of {published} is in what is admitted"
