"""The blocks of the README and of the documentation run, and the README's session is reproduced by the model.

The commands of a page run in the order in which they stand, but those that need what a test has not (root, a network, a
large model, a board): a shell parses them, and their options exist.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import reduce
from itertools import takewhile
from pathlib import Path
from textwrap import dedent

import pytest

from fork_server import run
from rkllm_chat.cli.commands import COMMANDS as SUBCOMMANDS
from rkllm_chat.cli.json_commands import SUMMARIES
from rkllm_chat.config.files import TRUST_VARIABLE
from rkllm_chat.config.sandbox_rules import find_allowance, find_known
from rkllm_chat.config.settings import ServerConfig, Settings, read_json, read_toml
from rkllm_chat.core.i18n import list_languages
from rkllm_chat.mcp_servers import BUNDLED
from rkllm_chat.tui.slash_commands import COMMANDS
from stage import PROGRAM, Run, Screen

ROOT = Path(__file__).parents[1]
TINY_TOOLS = ROOT / "models/tiny-tools/tiny-tools.gguf"
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", flags=re.MULTILINE | re.DOTALL)
LINK = r"\]\(([^)\s]+)\)"
BLOCKS = FENCE.findall(README)
PAGES = {path.relative_to(ROOT).as_posix(): path for path in sorted((ROOT / "docs").glob("*.md"))}
PAGES = {"README.md": ROOT / "README.md", **PAGES, "models/README.md": ROOT / "models/README.md"}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}
ALL_BLOCKS = [
    (page, kind, dedent(text)) for page, content in TEXTS.items() for kind, text in FENCE.findall(content)
]  # those of a list are indented
FOREIGN = {"--no-x", "--place", "--expression", "--dangerously-skip-permissions"} | {  # others: of other programs
    "--allow-private-ips",
    "--branch",
    "--db-path",
    "--depth",
    "--device",
    "--edit-format",
    "--group-add",
    "--security-opt",
    "--seed",
    "--local-dir",
    "--map-tokens",
    "--no-deps",
    "--now",
    "--parents",
    "--python",
    "--repository",
}
TRANSLATED = {code: ROOT / f"README.{code}.md" for code in list_languages() if code != "en"}
OTHERS = ("CONTRIBUTING.md", "SECURITY.md", "models/tiny-tools/README.md", "tests/bench/README.md")
NEEDS = re.compile(
    r"""(?x) models\ pull|npx\ |uvx\ |serve\ openai  # a network, another program, no end
    |doctor\ .*--model\ |--model\ (?!model\.gguf)  # minutes, another model
    |\ (ID|NAME)\b|mcp\ (trust\ notes|import\ \w|add\ .*--into)  # a session, a server, a person
    |--resume|backend=parrot  # a person, a plugin
    """
)
"""Commands that need what a test has not; a shell parses them, and their options exist."""
TRUST_HARBOUR = ("rkllm-chat mcp trust harbour --yes", "")
OUTPUT = {"harbour=": "2.4 metres", "--json-schema": '"name": ', "Tokyo": "Asia/Tokyo"}
TRANSLATIONS = [
    *TRANSLATED.values(),
    *(ROOT / f"docs/{page}.{code}.md" for code in TRANSLATED for page in ("board", "guide")),
]
MOMENT = re.compile(r"\d\d:\d\d on \w+, \d+ \w+ \d{4}|[\d.e-]+ s$|\d\.\d\d s, \d+ ms")


def list_commands(kind: str, text: str) -> list[tuple[str, str]]:
    """Return the commands of a block of a shell that can run here, each with the output that is shown."""
    if kind == "console":
        found = re.findall(r"^\$ (.+)\n((?:[^$].*\n)*)", text, re.MULTILINE)
    else:  # in a text, an explanation follows behind blanks
        lines = [re.sub("  +.*" if kind == "text" else "$^", "", line.strip()) for line in text.splitlines()]
        found = [(line, "") for line in lines] if kind in ("sh", "bash", "text") else []
    ours = re.compile(r"([A-Z_]+=\S+ )*(rkllm-chat|mcp-tool) ")
    return [(line, shown) for line, shown in found if ours.match(line) and not NEEDS.search(line)]


COMMANDS_OF = {
    page: [line for name, kind, text in ALL_BLOCKS if name == page for line, _ in list_commands(kind, text)]
    for page in TEXTS
}
IN_ENGLISH = [page for page, commands in COMMANDS_OF.items() if commands and "." not in page.removesuffix(".md")]


def blocks(kind: str) -> list[str]:
    """Blocks of a kind in the README."""
    found = [text for name, text in BLOCKS if name == kind]
    assert found, f"the README has no {kind} block"
    return found


def all_blocks(wanted: str) -> list[str]:
    """Blocks of a kind in the README and in the documentation."""
    found = [text for _, kind, text in ALL_BLOCKS if kind == wanted]
    assert found, f"no page has a {wanted} block"
    return found


def test_the_first_screen_has_the_two_commands() -> None:
    assert blocks("bash")[0].splitlines() == ["pip install . && rkllm-chat", "pip install '.[test]' && pytest"]
    assert README.index("```bash") < README.index("\n## ")


@pytest.mark.parametrize("text", [*all_blocks("toml"), (ROOT / "mcp_config.toml").read_text(encoding="utf-8")])
def test_configuration_examples_are_valid(text: str) -> None:
    assert read_toml(text, "README.md", {"HOME": "/home/someone"}) != Settings()


@pytest.mark.parametrize("text", [text for text in all_blocks("json") if "mcpServers" in text])
def test_configuration_examples_of_other_programs_are_valid(text: str) -> None:
    assert read_json(text, "README.md", {}).servers


def test_examples_of_sandbox_rules_are_valid(environment: dict[str, str], folder: Path) -> None:
    known, allowed = (text for text in all_blocks("json") if "mcpServers" not in text and "client_id" not in text)
    rules = folder / "config/rkllm-chat/sandbox-rules.json"
    rules.parent.mkdir(parents=True)
    environment = {**environment, "XDG_CONFIG_HOME": str(folder / "config")}
    rules.write_text(known, encoding="utf-8")
    found = find_known(["mcp-server-tide"], environment)
    assert found is not None
    assert (found.reason, found.network) == ("reads tide tables", True)
    rules.write_text(allowed, encoding="utf-8")
    server = ServerConfig("notes", command="notes-server", source="/home/me/project/mcp_config.toml")
    assert find_allowance(server, environment).write == ("/home/me/notes",)


@pytest.mark.model
def test_the_recorded_session_is_reproduced(environment: dict[str, str], folder: Path) -> None:
    recorded = blocks("console")[0].splitlines()
    screen = Screen([], environment, folder)
    try:
        screen.wait_for("for commands, Ctrl+D to exit")
        if any("is still starting]" in line for line in screen.lines()):  # on a busy machine
            screen.wait_for("is connected]", 30)
        lines = screen.wait_for_prompt()
        for question in [line for line in recorded if line.startswith("> ")]:
            screen.type(question[2:] + "\r")
            screen.wait_for(question)
            lines = screen.wait_for_prompt()
        session = lines[lines.index(recorded[0]) : -2]
    finally:
        screen.close()
    assert [MOMENT.sub("NOW", line) for line in session] == [MOMENT.sub("NOW", line) for line in recorded]


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", IN_ENGLISH)
def test_the_commands_of_a_page_run_in_an_empty_folder_in_their_order(
    page: str, environment: dict[str, str], folder: Path
) -> None:
    """`jq -r .A.B` is done here; an output that is not shown is not compared."""
    del environment[TRUST_VARIABLE]
    (folder / "model.gguf").symlink_to(TINY_TOOLS)  # that of the user
    for kind, text in [(kind, text) for name, kind, text in ALL_BLOCKS if name == page]:
        if kind == "python" and "harbour" in text:
            (folder / "harbour.py").write_text(text, encoding="utf-8")
        if kind == "toml" and "harbour.py" in text:
            own = text.replace('"python"', json.dumps(sys.executable))
            (folder / "mcp_config.toml").write_text(own, encoding="utf-8")
            check_command(*TRUST_HARBOUR, environment, folder)
        for command, shown in list_commands(kind, text):
            check_command(command, shown, environment, folder)


@pytest.mark.slow
def test_the_examples_of_help_run_in_an_empty_folder(environment: dict[str, str], folder: Path) -> None:
    shown = "".join(
        run([*PROGRAM, *words, "--help"], env=environment, cwd=folder, encoding="utf-8").stdout
        for words in (["mcp", "add"], *([name] for name in (*SUBCOMMANDS, *SUMMARIES) if name != "serve"))
    )
    examples = re.findall(r"^  (rkllm-chat .+)$", shown.partition("examples:\n")[2], re.MULTILINE)
    assert examples
    for command in examples:
        check_command(command, "", environment, folder)


def check_command(command: str, shown: str, environment: dict[str, str], folder: Path) -> None:
    """Run a command and compare what it prints with what is shown."""
    shell_words, _, jq = command.partition(" | jq -r .")
    words = shlex.split(shell_words, comments=True)
    variables = dict(word.split("=", 1) for word in takewhile(lambda word: "=" in word, words))
    program, *arguments = words[len(variables) :]
    arguments = [re.sub("^~", environment["HOME"], word) for word in arguments]
    line = [*PROGRAM, *arguments] if program == "rkllm-chat" else [*PROGRAM[:2], "rkllm_chat.cli.mcp_tool", *arguments]
    given = {"stdin": subprocess.DEVNULL} if "-p" in arguments else {"input": "What is 2 + 2?\n"}
    done = run(line, env={**environment, **variables}, cwd=folder, encoding="utf-8", timeout=60, **given)
    refused = '"ok": false' in shown
    assert done.returncode == refused, (command, done.stdout + done.stderr)
    output = done.stdout
    if jq:
        output = f"{reduce(lambda value, key: value[key], jq.split('.'), json.loads(output))}\n"
    assert MOMENT.sub("NOW", output) == MOMENT.sub("NOW", shown) or not shown, command
    assert next((text for part, text in OUTPUT.items() if part in command), "") in output, command


def test_translated_pages_give_the_commands_of_the_english_ones() -> None:
    english, others = set[str](), set[str]()
    for page, commands in COMMANDS_OF.items():
        target = english if page in IN_ENGLISH else others
        target |= {command.partition(" #")[0].rstrip() for command in commands}
    assert others and others - english == set()


@pytest.mark.parametrize("text", all_blocks("sh"))
def test_a_shell_parses_the_blocks_that_cannot_run_here(text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_own_command_of_the_documentation_reads_the_file(
    program: Run, script: Callable[..., str], environment: dict[str, str], folder: Path
) -> None:
    (text,) = all_blocks("markdown")
    prompts = Path(environment["HOME"]) / ".config/rkllm-chat/prompts"
    prompts.mkdir(parents=True)
    (prompts / "review.md").write_text(text, encoding="utf-8")
    (folder / "a.py").write_text("print('tide')\n", encoding="utf-8")
    model = script("It has none.")
    program("--continue", "-p", "/review a.py", "--model", model, "--no-servers")
    (session,) = Path(environment["HOME"]).glob(".local/state/rkllm-chat/sessions/*.jsonl")
    said = session.read_text(encoding="utf-8")
    assert "print('tide')" in said
    assert "name its three worst faults" in said


def test_the_first_page_is_short_and_names_every_package() -> None:
    assert len(README.encode()) <= 8000
    listed = re.findall(r"^(\w+/) ", blocks("text")[0], flags=re.MULTILINE)
    assert sorted(listed) == sorted(f"{path.parent.name}/" for path in (ROOT / "rkllm_chat").glob("*/__init__.py"))


def test_pages_are_short() -> None:
    """But the reference of settings, and the questions, which are searched; both are made from the program."""
    long = {name for name, text in TEXTS.items() if name.startswith("docs/") and len(text) > 12_000}
    assert long == {"docs/settings.md", "docs/questions.md", "docs/questions.ja.md", "docs/questions.zh.md"}


@pytest.mark.parametrize("name", [*PAGES, "README.ja.md", "README.zh.md", *OTHERS])
def test_links_lead_to_files_and_headings(name: str) -> None:
    path = ROOT / name
    for target in re.findall(LINK, FENCE.sub("", path.read_text(encoding="utf-8"))):
        if "://" not in target:
            file, _, heading = target.partition("#")
            page = (path.parent / file).resolve() if file else path
            assert page.exists(), target
            assert not heading or heading in headings(page), target


def headings(path: Path) -> set[str]:
    """Anchors of a page, as GitHub and MkDocs name them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_contributing_lists_every_package() -> None:
    _, listed, *_ = re.split(r"^```(?:text)?$", CONTRIBUTING.partition("## Architecture")[2], flags=re.MULTILINE)
    packages = {f"{path.parent.name}/" for path in (ROOT / "rkllm_chat").glob("*/__init__.py")}
    assert {line.split()[0] for line in listed.splitlines() if line} == {"__main__", *packages}


@pytest.mark.slow
def test_every_option_in_the_examples_exists() -> None:
    names = [["serve", name] for name in (*BUNDLED, "openai")]
    names += [["mcp", action] for action in ("list", "add", "trust", "import", "auth")]
    names += [["sessions", "export"], ["chat"]]
    helps = [[], *names, *([name] for name in (*SUBCOMMANDS, *SUMMARIES) if name != "serve")]
    others = [[sys.executable, "-m", module] for module in ("tests.bench", "rkllm_chat.cli.mcp_tool")]
    commands = [[*command, "--help"] for command in (*([*PROGRAM, *command] for command in helps), *others)]
    shown = [run(command, cwd=ROOT, encoding="utf-8") for command in commands]
    assert [done.stderr for done in shown if done.returncode] == []
    help_text = "".join((*(done.stdout for done in shown), *(command.usage for command in COMMANDS.values())))
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", "\n".join(TEXTS.values())))
    assert [option for option in sorted(named - FOREIGN) if option not in help_text] == []


@pytest.mark.parametrize("code", TRANSLATED)
def test_a_translated_first_page_has_no_other_sections_blocks_and_links(code: str) -> None:
    """Those that it lacks are for a translator: `.ci/translations` counts them."""
    text = TRANSLATED[code].read_text(encoding="utf-8")
    pages = [FENCE.sub("", page) for page in (text, README)]
    levels, links = ([re.findall(pattern, page, re.MULTILINE) for page in pages] for pattern in (r"^#+ ", LINK))
    blocks = [[block for block in FENCE.findall(page) if block[0] != "text"] for page in (text, README)]
    for own, english in (levels, blocks):
        rest = iter(english)
        assert all(entry in rest for entry in own)
    further = set(links[0]) - set(links[1])
    assert {link for link in further if f".{code}." not in link} == {"README.md"}
    assert len(text.encode()) <= 8000


@pytest.mark.parametrize("path", TRANSLATIONS, ids=lambda path: path.name)
def test_a_translated_page_names_only_what_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r"`(/\w+)[ `]", text)) <= set(COMMANDS)
    english = "\n".join(content for page, content in TEXTS.items() if not page.startswith("docs/guide."))
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]+", text)) <= set(re.findall(r"--[a-z][\w-]+", english))
    toml = [block for kind, block in FENCE.findall(text) if kind == "toml"]
    assert all(read_toml(block, "README", {"HOME": "/home/someone"}).servers for block in toml)


@pytest.mark.parametrize("code", TRANSLATED)
def test_a_translated_page_for_boards_gives_the_same_commands_and_names(code: str) -> None:
    text = (ROOT / f"docs/board.{code}.md").read_text(encoding="utf-8")
    hour = TEXTS["models/README.md"].partition("\n## The first hour\n")[2].partition("\n## ")[0]
    steps = hour[: hour.index("\n11. ")]
    commands = re.compile(r"^   ```sh\n(.*?)^   ```$", re.MULTILINE | re.DOTALL)
    assert len(commands.findall(text)) == 9
    assert commands.findall(text) == commands.findall(steps)
    english = " ".join(TEXTS["models/README.md"].split())
    named = set(re.findall(r"`([^`\n]+)`", commands.sub("", text)))
    assert [name for name in sorted(named) if name not in english] == []


@pytest.mark.parametrize("code", list_languages())
def test_each_first_page_links_to_the_others(code: str) -> None:
    pages = {"en": ROOT / "README.md", **TRANSLATED}
    links = pages[code].read_text(encoding="utf-8").splitlines()[2]
    assert re.findall(r"\]\(([^)]+)\)", links) == [page.name for other, page in pages.items() if other != code]


def test_the_walks_through_the_code_name_what_there_is() -> None:
    """Of `chat/turn.py:Turn.run`, `_run`, each name is defined in the module; a call of it is the walk's next step."""
    walks = CONTRIBUTING.partition("## Four walks")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w[\w/]*\.py):([\w.]+)`((?:, `\w+`)*)", walks)
    assert len(named) > 15
    for module, name, more in named:
        source = (ROOT / "rkllm_chat" / module).read_text(encoding="utf-8")
        for word in (*name.split("."), *re.findall(r"\w+", more)):
            assert re.search(rf"(?:def|class) {word}\b", source), (module, word)
