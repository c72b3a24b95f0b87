"""Hooks of MkDocs: pages that lie outside of docs/, and links that lead there.

Links in the repository are those of its files, so that they work where the repository is read. On the site a link to
another page leads to that page; of a link to any other file, the text and the path remain.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ADDED = {
    "index.md": "README.md",
    "index.ja.md": "README.ja.md",
    "index.zh.md": "README.zh.md",
    "board.md": "models/README.md",
    "tiny-tools.md": "models/tiny-tools/README.md",
    "security.md": "SECURITY.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "tests/bench/README.md",
}
LINK = re.compile(r"(?P<fence>^```.*?^```$)|(?P<image>!?)\[(?P<text>[^\[\]]+)\]\((?P<target>[^)\s]+)\)", re.M | re.S)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of other folders; what is no page of the site (the man page) is left out."""
    for name, path in ADDED.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return Files([file for file in files if file.is_documentation_page() or not file.src_uri.endswith(".1")])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs passes them by name
    """Rewrite the links of a page.

    Raises:
        FileNotFoundError: A link leads to no file of the repository.
    """
    pages = {path: name for name, path in ADDED.items()}
    source = ADDED.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def rewrite(match: re.Match[str]) -> str:
        if match["fence"] or "://" in match["target"] or match["target"].startswith("#"):
            return match[0]
        target, mark, heading = match["target"].partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"{source}: {match['target']}")
        name = pages.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        text = match["text"]
        if name:
            return f"{match['image']}[{text}]({name}{mark}{heading})"
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    return LINK.sub(rewrite, markdown)
