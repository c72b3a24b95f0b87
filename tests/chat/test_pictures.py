"""Pictures reach a model that understands them, in their places; for another one placeholders stand for them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chat.scripted_app import backend_of
from pictures import draw, encode, take_photo
from rkllm_chat import Chat
from rkllm_chat.chat.app import App, open_app
from rkllm_chat.chat.attachments import read_picture, send_message
from rkllm_chat.chat.compaction import compact, find_older_messages
from rkllm_chat.chat.context import build_prompt, count_tokens
from rkllm_chat.chat.turn import Turn
from rkllm_chat.config.policy import Policy
from rkllm_chat.config.settings import ServerConfig, Settings
from rkllm_chat.core.errors import UsageError
from rkllm_chat.core.events import Draft, Event, Notice, ToolFinished
from rkllm_chat.core.i18n import load
from rkllm_chat.core.messages import Media, Message
from rkllm_chat.storage.session_files import SessionDirectory
from stage import call_text, collect, collect_emitted

SERVER = Path(__file__).parents[1] / "picture_server.py"


class Frontend:
    """Answers every question alike, and keeps the questions."""

    can_open_browser = False

    def __init__(self, answer: bool = True) -> None:
        self.answer, self.questions = answer, list[str]()

    async def confirm(self, question: str) -> bool:
        self.questions.append(question)
        return self.answer

    def notify(self, *_: Any) -> None: ...

    async def approve(self, *_: Any) -> str:
        return "no"

    async def ask_to_continue(self, _rounds: int) -> str:
        return "stop"


@pytest.fixture(autouse=True)
def _in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "look.png").write_bytes(encode(draw(60, 40)))
    (folder / "photo.jpg").write_bytes(take_photo())


@asynccontextmanager
async def open_eyes(
    folder: Path, replies: list[str], media: tuple[str, ...] = ("image",), frontend: Any = None, **settings: Any
) -> AsyncIterator[App]:
    """Open the application with a scripted model that understands these media, and the server with pictures."""
    script = folder / "replies.json"
    script.write_text(json.dumps({"replies": replies, "media": media}), encoding="utf-8")
    server = ServerConfig("cam", command=sys.executable, args=(str(SERVER), str(folder)))
    chosen: dict[str, Any] = {"model": str(script), "backend": "scripted", "policy": Policy("all"), **settings}
    async with open_app(Settings(servers=(server,), **chosen), folder / "state", frontend, load()) as app:
        yield app


def run(
    folder: Path, play: Callable[[App], Awaitable[Any]], *replies: str, media: tuple[str, ...] = ("image",), **more: Any
) -> Any:
    async def play_it() -> Any:
        async with open_eyes(folder, list(replies), media, **more) as app:
            return await play(app)

    return asyncio.run(play_it())


def read_parts(message: Message) -> list[str]:
    """The parts of a message as the model reads it; a picture by its name."""
    return [part if isinstance(part, str) else f"<{part.name} {part.width}x{part.height}>" for part in message.parts]


def test_a_mentioned_picture_precedes_the_text_and_stays_in_later_prompts(folder: Path) -> None:
    async def play(app: App) -> None:
        events = await collect_emitted(send_message, app, "What is on @photo.jpg?")
        assert any(isinstance(event, Notice) and "photo.jpg] image/jpeg, 48 × 64, " in event.text for event in events)
        await collect_emitted(send_message, app, "Sure?")
        first, second = backend_of(app.chat).prompts
        assert read_parts(first[-1])[-2:] == ["<photo.jpg 48x64>", "What is on @photo.jpg?"]
        assert second[: len(first)] == first
        assert backend_of(app.chat).count_tokens(second) == count_tokens(app.chat) - 1

    run(folder, play, "A flag.", "Yes.")


def test_the_picture_of_a_result_stands_where_the_tool_put_it(folder: Path) -> None:
    async def play(app: App) -> list[Event]:
        events = await collect(Turn(app.chat).run("Look outside"))
        shown = read_parts(backend_of(app.chat).prompts[1][-1])
        size = (folder / "look.png").stat().st_size
        assert shown[1] == "<look 60x40>"
        assert shown[0].endswith(f"The view:\n[image/png, {size} bytes]")
        assert shown[2].startswith("\nIt is noon.\n")
        return events

    events = run(folder, play, call_text("look"), "Noon.")
    (result,) = [event.result for event in events if isinstance(event, ToolFinished)]
    assert "[image/png, " in result.text and [media.kind for media in result.media] == ["image"]


def test_without_eyes_the_prompt_has_the_placeholder_alone(folder: Path) -> None:
    async def play(app: App) -> None:
        await collect(Turn(app.chat).run("Look outside"))
        (text,) = read_parts(backend_of(app.chat).prompts[1][-1])
        size = (folder / "look.png").stat().st_size
        assert f"The view:\n[image/png, {size} bytes, not shown]\nIt is noon." in text

    run(folder, play, call_text("look"), "Noon.", media=())


def test_what_is_for_the_user_and_other_files_do_not_reach_the_model(folder: Path) -> None:
    async def play(app: App) -> Message:
        await collect(Turn(app.chat).run("Report"))
        assert [media.kind for media in backend_of(app.chat).prompts[1][-1].media] == ["audio"]
        return app.chat.history[2]

    message = run(folder, play, call_text("report"), "Done.", media=("image", "audio"))
    assert message.result and [(medium.kind, medium.user_only) for medium in message.result.media] == [
        ("file", False),
        ("audio", False),
        ("image", True),
    ]


def test_without_pillow_a_picture_of_a_tool_can_still_be_saved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(app: App) -> Message:
        monkeypatch.setitem(sys.modules, "PIL.Image", None)
        await collect(Turn(app.chat).run("Look outside"))
        monkeypatch.undo()
        return app.chat.history[2]

    message = run(folder, play, call_text("look"), "Noon.")
    assert message.media == () and message.result
    assert [(medium.kind, medium.media_type) for medium in message.result.media] == [("file", "image/png")]


def test_a_blind_model_gets_nothing_before_the_user_has_agreed_to_send_the_text_alone(folder: Path) -> None:
    async def play(app: App) -> None:
        frontend = app.frontend
        assert isinstance(frontend, Frontend)
        frontend.answer = False
        assert (await collect_emitted(send_message, app, "See @photo.jpg"))[-1] == Draft("See @photo.jpg")
        assert backend_of(app.chat).prompts == []
        frontend.answer = True
        await collect_emitted(send_message, app, "See @photo.jpg")
        assert read_parts(backend_of(app.chat).prompts[0][-1])[-1].endswith("See @photo.jpg")
        assert frontend.questions == ["scripted does not understand this: photo.jpg. Send the text alone? [y/N] "] * 2

    run(folder, play, "I cannot see.", media=(), frontend=Frontend())


def test_a_blind_model_and_nobody_to_ask_are_an_error_before_anything_is_sent(folder: Path) -> None:
    async def play(app: App) -> None:
        with pytest.raises(UsageError, match=r"does not understand pictures or sounds: photo\.jpg"):
            await collect_emitted(send_message, app, "See @photo.jpg")
        assert backend_of(app.chat).prompts == []

    run(folder, play, "No.", media=())


def test_a_resource_that_is_a_picture_is_attached_as_one(folder: Path) -> None:
    async def play(app: App) -> None:
        await collect_emitted(send_message, app, "What is this? @cam://view")
        assert read_parts(backend_of(app.chat).prompts[0][-1])[-2:] == [
            "<cam://view 60x40>",
            "What is this? @cam://view",
        ]

    run(folder, play, "A flag.")


def test_a_picture_that_does_not_fit_the_context_is_named_instead(folder: Path) -> None:
    (folder / "look.png").write_bytes(encode(draw(1500, 1200)))  # 2295 tokens

    async def play(app: App) -> None:
        await collect(Turn(app.chat).run("Look outside"))
        (text,) = read_parts(backend_of(app.chat).prompts[1][-1])
        assert "bytes, not shown]\nIt is noon." in text

    run(folder, play, call_text("look"), "Noon.", context_tokens=3000)


def test_pictures_count_in_the_budget_of_the_context(folder: Path) -> None:
    """Each turn has a picture of 765 tokens, so older turns are forgotten."""
    (folder / "large.png").write_bytes(encode(draw(1000, 600)))

    async def play(app: App) -> None:
        for _ in range(6):
            await collect_emitted(send_message, app, "And @large.png?")
        assert app.chat.first_shown > 0
        assert all(app.backend.count_tokens(prompt) < 4096 for prompt in backend_of(app.chat).prompts)
        assert sum(len(message.media) for message in backend_of(app.chat).prompts[-1]) < 5

    run(folder, play, *["Yes."] * 6, context_tokens=4096)


def test_a_summary_names_the_pictures_that_it_replaces(folder: Path) -> None:
    async def play(app: App) -> None:
        await collect_emitted(send_message, app, "What flag is on @photo.jpg? " + "x" * 2000)
        for _ in range(2):
            await collect_emitted(send_message, app, "And then? " + "y" * 2000)
        await collect_emitted(compact, app.chat, len(find_older_messages(app.chat)))
        summary = app.chat.history[0]
        assert (summary.media, "flag" in summary.text) == ((), True)
        assert "[photo.jpg, image/jpeg, " in summary.text and summary.text.endswith(" bytes, not shown]")

    run(folder, play, "A flag.", "So.", "So.", "The photo has a flag.", context_tokens=4096)


def test_a_session_keeps_its_pictures_until_it_is_deleted(folder: Path) -> None:
    shelf = SessionDirectory(folder / "state" / "sessions")

    async def talk(app: App) -> list[Message]:
        await collect_emitted(send_message, app, "What is on @photo.jpg?")
        await collect(Turn(app.chat).run("Look outside"))
        return list(app.chat.history)

    history = run(folder, talk, "A flag.", call_text("look"), "Noon.", frontend=Frontend())
    (name,) = shelf.list_ids()
    files = sorted((shelf.path / f"{name}.media").iterdir())
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600] * 2
    assert '"path"' not in (shelf.path / f"{name}.jsonl").read_text(encoding="utf-8")

    async def resume(app: App) -> None:
        assert [_without_path(message) for message in app.chat.history] == [
            _without_path(message) for message in history
        ]
        await collect(Turn(app.chat).run("Sure?"))
        parts = [part for message in backend_of(app.chat).prompts[0] for part in message.parts]
        assert [part.name for part in parts if isinstance(part, Media)] == ["photo.jpg", "look"]

    run(folder, resume, "Yes.", frontend=Frontend(), session=name)
    files[0].unlink()

    async def resume_without(app: App) -> None:
        prompt = build_prompt(app.chat)
        assert sum(len(message.media) for message in prompt) == 1
        assert sum("not shown]" in message.text for message in prompt) == 1

    run(folder, resume_without, "Yes.", frontend=Frontend(), session=name)
    shelf.delete(name)
    assert list(shelf.path.iterdir()) == []


def test_the_copy_of_a_session_has_its_pictures(folder: Path) -> None:
    """A session that another chat has open is copied."""
    shelf = SessionDirectory(folder / "state" / "sessions")

    async def talk(app: App) -> None:
        await collect_emitted(send_message, app, "What is on @photo.jpg?")
        (name,) = shelf.list_ids()
        async with open_eyes(folder, ["Yes."], frontend=Frontend(), session=name) as other:
            await collect(Turn(other.chat).run("Sure?"))
        copy = next(identity for identity in shelf.list_ids() if identity != name)
        names = [
            sorted(path.name for path in (shelf.path / f"{identity}.media").iterdir()) for identity in (name, copy)
        ]
        assert names[0] == names[1] and len(names[0]) == 1

    run(folder, talk, "A flag.", frontend=Frontend())


def _without_path(message: Message) -> Message:
    result = message.result and replace(message.result, seconds=0, media=_forget(message.result.media))
    return replace(message, media=_forget(message.media), result=result)


def _forget(media: tuple[Media, ...]) -> tuple[Media, ...]:
    return tuple(replace(medium, path="") for medium in media)


def test_a_session_cannot_name_another_file(folder: Path) -> None:
    shelf = SessionDirectory(folder / "sessions")
    shelf.path.mkdir(mode=0o700)
    media = {"kind": "image", "path": "/etc/passwd", "sha256": "../../etc/passwd", "media_type": "image/png"}
    record = {"kind": "message", "at": "2026-11-20T17:30:32.123Z", "role": "user", "text": "x", "media": [media]}
    (shelf.path / "261120-ab12.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    (entry,) = shelf.read("261120-ab12").entries
    assert isinstance(entry.record, Message) and [medium.path for medium in entry.record.media] == [""]


def test_a_program_asks_about_a_picture(folder: Path) -> None:
    script = folder / "replies.json"
    script.write_text(json.dumps({"replies": ["A flag."], "media": ["image"]}), encoding="utf-8")
    with Chat.sync(str(script), backend="scripted") as chat:
        assert chat.ask("What is it?", [encode(draw())]).text == "A flag."
        assert [media.width for media in chat.history[0].media] == [64]


def test_a_program_cannot_show_a_picture_to_a_blind_model(folder: Path) -> None:
    script = folder / "replies.json"
    script.write_text(json.dumps(["No."]), encoding="utf-8")
    with Chat.sync(str(script), backend="scripted") as chat, pytest.raises(UsageError):
        chat.ask("What is it?", [folder / "photo.jpg"])


def test_hidden_media_leave_the_place_of_the_others(folder: Path) -> None:
    """A model that hears but does not see."""
    (folder / "bell.wav").write_bytes(b"RIFF\x24\0\0\0WAVEfmt ")

    async def play(app: App) -> None:
        app.attachments.append(read_picture(app.media, str(folder / "photo.jpg")))
        await collect_emitted(send_message, app, "Compare with @bell.wav")
        assert [part if isinstance(part, str) else part.kind for part in backend_of(app.chat).prompts[0][-1].parts][
            -2:
        ] == ["audio", "Compare with @bell.wav"]

    run(folder, play, "Yes.", media=("audio",), frontend=Frontend())
