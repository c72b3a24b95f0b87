"""Skills of the user's folder and of servers: listed in short, read on demand, verified, and never trusted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from chat.scripted_app import backend_of, open_scripted_app
from rkllm_chat.chat.app import App
from rkllm_chat.chat.skills import MAX_CATALOGUE_TOKENS
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.events import Page, Table, ToolFinished
from rkllm_chat.core.skills import read_frontmatter
from rkllm_chat.tui import slash_commands as commands
from stage import GREEDY, call_text, collect, collect_emitted

SERVER = Path(__file__).parents[1] / "mcp_client/skill_server.py"
BODY = "Moor at berth 7, and see references/tides.md."


def write_skill(folder: Path, path: str, about: str = "How boats are moored", body: str = BODY) -> None:
    home = folder / path
    (home / "references").mkdir(parents=True)
    text = f"---\nname: {home.name}\ndescription: {about}\nallowed-tools: shell\n---\n\n{body}\n"
    (home / "SKILL.md").write_text(text, encoding="utf-8")
    (home / "references/tides.md").write_text("High water at noon.", encoding="utf-8")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own skills."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "home/.config/rkllm-chat/skills"
    folder.mkdir(parents=True)
    return folder


def serve(tmp_path: Path, *spoiled: str, name: str = "docs", **options: Any) -> ServerConfig:
    args = ("-S", str(SERVER), str(tmp_path / "served"), *spoiled)
    return ServerConfig(name, command=sys.executable, args=args, cwd=str(tmp_path), sandbox="off", **options)


def heard(tmp_path: Path) -> list[str]:
    """What the server was asked about skills and files."""
    lines = (tmp_path / "requests").read_text().splitlines()
    return [line for line in lines if line.startswith(("skills/", "resources/read"))]


def play(
    tmp_path: Path, replies: list[str], check: Callable[[App], Any], *servers: ServerConfig, mode: Any = "all"
) -> Any:
    async def run() -> Any:
        settings: dict[str, Any] = {"servers": servers, "policy": Policy(mode), "generation": GREEDY}
        async with open_scripted_app(tmp_path, replies, **settings) as app:
            return await check(app)

    return asyncio.run(run())


def read(label: str, **arguments: str) -> str:
    return call_text("read_skill", name=label, **arguments)


@pytest.mark.parametrize(
    ("main", "label"),
    [
        ("---\nname: evil\ndescription: !!bool abc\n---\n", "evil"),
        ("---\nname: other\ndescription: Not its folder's name.\n---\n", "evil"),
        ("---\nname: evil\ndescription: x\n---\n" + "x" * 2_000_000, "evil"),
        (None, "evil"),
        ("---\nname: evil\ndescription: x\n---\n", "\x1b[2Jevil\u202e"),
    ],
)
def test_a_skill_of_somebody_else_that_cannot_be_used_harms_nothing(
    main: str | None, label: str, tmp_path: Path, own: Path
) -> None:
    """In the user's own folder, where a copied skill is: its file, a link to a file elsewhere (None), its name."""
    (own / label).mkdir()
    (tmp_path / "secret").write_text("---\nname: evil\ndescription: my diary\n---\n", encoding="utf-8")
    if main is None:
        (own / label / "SKILL.md").symlink_to(tmp_path / "secret")
    else:
        (own / label / "SKILL.md").write_text(main, encoding="utf-8")

    async def check(app: App) -> None:
        assert "completed" not in [status for status, _ in await take_turn(app)]
        shown = str(await collect_emitted(commands.run, app, "/skills"))
        prompt = str(backend_of(app.chat).prompts[0])
        assert "evil" in shown and "diary" not in shown + prompt and "Not its folder" not in prompt

    play(tmp_path, [read("evil"), "So."], check)


async def take_turn(app: App) -> list[tuple[str, str]]:
    """Status and text of the results of a turn."""
    events = await collect(Turn(app.chat).run("Moor the boat"))
    return [(event.result.status, event.result.text) for event in events if isinstance(event, ToolFinished)]


def test_a_skill_is_listed_in_the_prompt_and_read_on_demand(tmp_path: Path, own: Path) -> None:
    write_skill(own, "mooring")
    write_skill(tmp_path / "served", "acme/fueling", "How boats get fuel")

    async def check(app: App) -> None:
        results = await take_turn(app)
        system = backend_of(app.chat).prompts[0][0].text
        assert "read_skill" in system.partition("There are these skills")[0]
        listed = ["- mooring: How boats are moored", "- fueling (docs): How boats get fuel"]
        assert [line for line in system.splitlines() if line in listed] == listed
        assert BODY not in system
        (_, local), (_, served), (_, file) = results
        assert local.startswith(
            "From the skill mooring of the user: Its files: references/tides.md.\n\n---\nname: mooring"
        )
        assert served.startswith(
            "From the skill fueling of docs: Its files: references/tides.md.\n\n---\nname: fueling"
        )
        assert BODY in local
        assert BODY in served
        assert file == "From the skill fueling of docs:\n\nHigh water at noon."
        root = "skill://acme/fueling"
        reads = [f"resources/read {root}/SKILL.md", f"resources/read {root}/references/tides.md"]
        assert heard(tmp_path) == ["skills/list", *reads]

    calls = [read("mooring"), read("fueling"), read("fueling", file="references/tides.md"), "Moored."]
    play(tmp_path, calls, check, serve(tmp_path))


@pytest.mark.parametrize(
    ("spoiled", "fault"),
    [
        ("changed", "is not what the server listed"),
        ("front", "is not what the server listed"),
        ("dynamic", "cannot be used"),
    ],
)
def test_a_skill_that_is_not_as_listed_is_not_used(spoiled: str, fault: str, tmp_path: Path, own: Path) -> None:
    write_skill(own, "mooring")
    write_skill(tmp_path / "served", "fueling")

    async def check(app: App) -> None:
        ((status, text),) = await take_turn(app)
        assert (status, fault in text, BODY in text) == ("failed", True, False)

    play(tmp_path, [read("fueling"), "No."], check, serve(tmp_path, spoiled))


@pytest.mark.usefixtures("own")
def test_a_skill_that_changed_is_not_listed_and_not_read_until_it_was_accepted(tmp_path: Path) -> None:
    async def look(app: App) -> tuple[bool, str]:
        results = await take_turn(app)
        about = backend_of(app.chat).prompts[0][0].text
        return "How boats get" in about, results[0][0] if results else "no such tool"

    async def accept(app: App) -> tuple[bool, str]:
        assert app.servers and app.servers.withholding_servers == ["docs"]
        app.servers.connections["docs"].advertised.accept_tools()
        return await look(app)

    def run(check: Callable[[App], Any]) -> Any:
        return play(tmp_path, [read("fueling"), "So."], check, serve(tmp_path))

    write_skill(tmp_path / "served", "acme/fueling", "How boats get fuel")
    assert run(look) == (True, "completed")
    rmtree(tmp_path / "served")
    write_skill(tmp_path / "served", "acme/fueling", "How boats get sunk")
    assert run(look) == (False, "no such tool")
    assert run(accept) == (True, "completed")


def test_a_server_that_does_not_declare_skills_is_not_asked(tmp_path: Path, own: Path) -> None:
    write_skill(tmp_path / "served", "fueling")

    async def check(app: App) -> None:
        await take_turn(app)
        assert "skill" not in backend_of(app.chat).prompts[0][0].text
        assert heard(tmp_path) == []

    assert own.is_dir()
    play(tmp_path, ["No."], check, serve(tmp_path, "undeclared"))


def test_names_of_two_origins_never_stand_for_each_other(tmp_path: Path, own: Path) -> None:
    write_skill(own, "mooring", body="Mine.")
    write_skill(tmp_path / "served", "mooring", body="Theirs.")
    write_skill(tmp_path / "served", "acme/mooring", body="Of acme.")
    labels = ["local:mooring", "docs:mooring", "docs:acme/mooring"]

    async def check(app: App) -> None:
        assert app.chat.skills
        assert sorted(app.chat.skills.usable) == sorted(labels)
        bare, *texts = [text for _, text in await take_turn(app)]
        assert 'There is no skill "mooring".' in bare
        assert [text.strip().rpartition("\n")[2] for text in texts] == ["Mine.", "Theirs.", "Of acme."]

    play(tmp_path, [read("mooring"), *map(read, labels), "Done."], check, serve(tmp_path))


def test_only_listed_files_are_read_and_an_unlisted_skill_by_its_uri(tmp_path: Path, own: Path) -> None:
    write_skill(own, "mooring")
    (own / "secret").write_text("Treasure.", encoding="utf-8")
    (own / "mooring/link").symlink_to(own / "secret")
    write_skill(tmp_path / "served", "fueling")
    write_skill(tmp_path / "served", "hidden/towing")
    (tmp_path / "served/plan").write_text("Treasure.", encoding="utf-8")

    async def check(app: App) -> None:
        *denied, hidden = await take_turn(app)
        assert [(status, "Treasure" in text) for status, text in denied] == [("failed", False)] * 3
        assert (hidden[0], BODY in hidden[1]) == ("completed", True)
        assert "resources/read skill://plan" not in heard(tmp_path)

    calls = [
        *(read("mooring", file=file) for file in ("../secret", "link")),
        read("fueling", file="../plan"),
        read("skill://hidden/towing/SKILL.md"),
    ]
    play(tmp_path, [*calls, "Done."], check, serve(tmp_path))


@pytest.mark.parametrize("file", ["a\0b", "tides" * 60], ids=["NUL", "too long"])
def test_a_file_name_that_no_file_can_have_is_told_to_the_model(file: str, tmp_path: Path, own: Path) -> None:
    write_skill(own, "mooring")
    ((status, text),) = play(tmp_path, [read("mooring", file=file), "Moored."], take_turn)
    assert status == "failed"
    assert "cannot be read" in text or "has no file" in text  # by the version of Python


def test_the_catalogue_fits_a_small_window(tmp_path: Path, own: Path) -> None:
    for number in range(120):
        write_skill(own, f"skill-{number:03}", "How something is done that takes many words to describe " * 10)

    async def check(app: App) -> None:
        await take_turn(app)
        section = backend_of(app.chat).prompts[0][0].text.partition("There are these skills")[2].partition("\n\n")[0]
        count = app.chat.count_text
        assert MAX_CATALOGUE_TOKENS // 2 < count(section) - count("") <= MAX_CATALOGUE_TOKENS
        assert "skill-000, skill-001" in section

    play(tmp_path, ["No."], check)


def test_the_user_sees_where_skills_come_from_and_why_one_is_not_used(tmp_path: Path, own: Path) -> None:
    write_skill(own, "mooring")
    write_skill(own, "broken", body="")
    (own / "broken/SKILL.md").write_text("no frontmatter", encoding="utf-8")
    write_skill(tmp_path / "served", "fueling", "How boats get fuel")

    async def check(app: App) -> None:
        events = await collect_emitted(commands.run, app, "/skills")
        (table,) = [event for event in events if isinstance(event, Table)]
        assert table.rows == (
            ("broken", str(own / "broken"), "cannot be used: it breaks the specification"),
            ("mooring", str(own / "mooring"), "How boats are moored"),
            ("fueling", "docs", "How boats get fuel"),
        )
        page, *_ = await collect_emitted(commands.run, app, "/skills fueling")
        assert isinstance(page, Page)
        assert BODY in page.text

    play(tmp_path, [], check, serve(tmp_path))


def test_skills_of_a_server_that_is_not_trusted_need_approval(tmp_path: Path, own: Path) -> None:
    write_skill(own, "mooring")
    write_skill(tmp_path / "served", "fueling")

    async def check(app: App) -> list[str]:
        return [status for status, _ in await take_turn(app)]

    def try_trust(trust: Any) -> Any:
        return play(tmp_path, [read("fueling"), "So."], check, serve(tmp_path, trust=trust), mode="ask")

    assert try_trust("trusted") == ["completed"]
    assert try_trust("ask") == ["declined"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("name: x", "does not begin with"),
        ("---\n- x\n---\n", "not a mapping"),
        ("---\nx: [\n---\n", "not plain YAML"),
        ("---\na: &a [x, x]\nb: [*a, *a]\n---\n", "aliases"),
        ("---\nx: !!python/object/apply:os.system [ls]\n---\n", "tags"),
        *((f"---\nx: !!{value}\n---\n", "tags") for value in ("bool abc", "int ''", "float ''", "timestamp abc")),
        *((f"---\nx:\n  {opening * 20_000}\n---\n", "nested too deep") for opening in ("[", "{", "- ", "? ")),
        (f"---\nx: 1{':59' * 20_000}\n---\n", "too large"),
    ],
)
def test_a_frontmatter_that_is_not_one_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_frontmatter(text)
    assert read_frontmatter("---\nname: x\nsince: 2026-09-01\nn: 3\n---\nBody") == {
        "name": "x",
        "since": "2026-09-01",
        "n": 3,
    }
