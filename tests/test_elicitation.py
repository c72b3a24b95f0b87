"""A server's questions to its user: forms field by field, pages to visit, and what is turned down."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

from rkllm_chat import language
from rkllm_chat.elicitation import Elicitation, LogIn


@dataclass
class Person:
    """Somebody who agrees or not, and types these lines; None ends it."""

    lines: list[str | None] = field(default_factory=list)
    agrees: bool = True
    heard: list[str] = field(default_factory=list)
    can_open: bool = False

    async def agree(self, question: str) -> bool:
        self.heard.append(question)
        return self.agrees

    async def read(self, question: str, default: str, _choices: Sequence[str] = ()) -> str | None:
        self.heard.append(f"{question}{default}")
        return self.lines.pop(0)

    def tell(self, text: str) -> None:
        self.heard.append(text)

    def show_whole(self, text: str) -> None:
        self.heard.append(f"WHOLE {text}")

    async def open_page(self, url: str) -> None:
        self.heard.append(f"OPENED {url}")


def ask(person: Person, properties: dict[str, Any], required: tuple[str, ...] = ()) -> ElicitResult:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    params = ElicitRequestFormParams(mode="form", message="Who comes?", requested_schema=schema)
    return asyncio.run(Elicitation(person, language.load())("harbour", params))


def test_a_form_is_filled_field_by_field_with_who_asks_first() -> None:
    person = Person(["Anna", "12.5", "3", "yes"])
    fields = {
        "boat": {"type": "string", "title": "Boat", "description": "its name"},
        "metres": {"type": "number"},
        "crew": {"type": "integer", "default": 2},
        "engine": {"type": "boolean", "default": False},
    }
    result = ask(person, fields, ("boat", "metres"))
    assert result == ElicitResult(action="accept", content={"boat": "Anna", "metres": 12.5, "crew": 3, "engine": True})
    assert person.heard == [
        "[MCP: Server 'harbour' asks: Who comes?]",
        "Answer it? [y/N] ",
        "Boat (its name): ",
        "metres: ",
        "crew, may be left empty: 2",
        "engine, may be left empty: false",
    ]


@pytest.mark.parametrize(
    ("field", "typed", "sent"),
    [
        ({"type": "string", "enum": ["n", "s"], "enumNames": ["North", "South"]}, "south", "s"),
        ({"type": "string", "enum": ["n", "s"]}, "N", "n"),
        ({"type": "string", "oneOf": [{"const": "n", "title": "North"}]}, "North", "n"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "B, a", ["b", "a"]),
        ({"type": "array", "items": {"anyOf": [{"const": "n", "title": "North"}]}}, "north", ["n"]),
        ({"type": "string", "format": "email"}, "ken@example.com", "ken@example.com"),
        ({"type": "integer", "minimum": 1}, "7", 7),
        ({"type": "boolean"}, "false", False),
    ],
    ids=str,
)
def test_every_kind_of_field_is_read(field: dict[str, Any], typed: str, sent: Any) -> None:
    assert ask(Person([typed]), {"x": field}, ("x",)).content == {"x": sent}


def test_what_does_not_fit_is_asked_again_and_at_last_given_up() -> None:
    person = Person(["many", "0", "7"])
    number = {"type": "integer", "minimum": 1}
    assert ask(person, {"crew": number}, ("crew",)).content == {"crew": 7}
    assert [line for line in person.heard if line.startswith("Argument")] == [
        'Argument "crew" must be a whole number, not "many".',
        'Argument "crew" must be at least 1, not 0.',
    ]
    assert ask(Person(["a", "b", "c"]), {"crew": number}, ("crew",)).action == "cancel"


def test_an_optional_field_may_be_left_empty_and_any_field_ended() -> None:
    assert ask(Person([""]), {"x": {"type": "string"}}).content == {}
    assert ask(Person([None]), {"x": {"type": "string"}}).action == "cancel"
    assert ask(Person(agrees=False), {"x": {"type": "string"}}).action == "decline"


@pytest.mark.parametrize("name", ["password", "API_key", "client_secret", "accessToken"])
def test_a_form_that_wants_a_secret_is_turned_down_unasked(name: str) -> None:
    person = Person(["hunter2"])
    assert ask(person, {name: {"type": "string"}}, (name,)).action == "decline"
    assert person.lines == ["hunter2"]


@pytest.mark.parametrize(("agrees", "action"), [(True, "accept"), (False, "decline")])
def test_a_page_is_shown_whole_and_never_opened(agrees: bool, action: str) -> None:
    person = Person(agrees=agrees)
    url = "https://harbour.example/pay?order=7&x=%1b" + "a" * 200
    params = ElicitRequestURLParams(mode="url", message="Pay.", url=url, elicitation_id="1")
    assert asyncio.run(Elicitation(person, language.load())("harbour", params)).action == action
    assert url in person.heard[-1]


def test_what_a_server_writes_cannot_move_the_cursor() -> None:
    person = Person(["a"])
    ask(person, {"x": {"type": "string", "title": "\x1b[2JTitle"}}, ("x",))
    assert not any("\x1b" in line for line in person.heard)


FIRST = "[MCP: Server 'harbour' wants you to log in. Visit this address in any browser:]"
OFFER = [str(language.load()("login.open")), "Login to harbour: "]
PASTE = [str(language.load()("login.paste")), "Login to harbour: "]


@pytest.mark.parametrize(
    ("can_open", "lines", "heard", "answer"),
    [
        (False, [" http://127.0.0.1/?code=1 "], PASTE, "http://127.0.0.1/?code=1"),
        (True, ["http://127.0.0.1/?code=1"], OFFER, "http://127.0.0.1/?code=1"),
        (True, ["O", "pasted"], [*OFFER, "OPENED https://login/", *PASTE], "pasted"),
        (False, ["o"], PASTE, "o"),
        (True, [""], OFFER, ""),
        (False, [None], PASTE, ""),
    ],
    ids=["no browser", "another browser", "this browser", "nothing to open", "Enter", "Ctrl+C"],
)
def test_a_page_of_a_login_is_shown_whole_and_opened_only_when_the_person_says_so(
    can_open: bool, lines: list[str | None], heard: list[str], answer: str
) -> None:
    person = Person(lines, can_open=can_open)
    assert asyncio.run(LogIn(person, language.load())("harbour", "https://login/", "first")) == answer
    assert person.heard == [FIRST, "WHOLE https://login/", *heard]


def test_a_default_that_is_not_seen_whole_is_none() -> None:
    """Enter alone would send it."""
    person = Person(["", ""])
    fields = {"to": {"type": "string", "default": "anna\u200b\U000e0041"}, "from": {"type": "string", "default": "Ken"}}
    ask(person, fields)
    assert [line for line in person.heard if line.startswith(("to", "from"))] == [
        "to, may be left empty: ",
        "from, may be left empty: Ken",
    ]


def test_a_question_is_shown_with_all_that_hides_in_it() -> None:
    params = ElicitRequestFormParams(mode="form", message="Who\u202e comes\U000e0041?", requested_schema={})
    person = Person(agrees=False)
    asyncio.run(Elicitation(person, language.load())("harbour", params))
    assert person.heard[0] == r"[MCP: Server 'harbour' asks: Who\u202e comes\U000e0041?]"
