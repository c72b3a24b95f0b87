"""A server's questions to its user: forms field by field, pages to visit, and what is declined."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

from rkllm_chat.chat.elicitation import Elicitation, LoginPrompt
from rkllm_chat.core.i18n import load


@dataclass
class Person:
    """A user who agrees or not, and types these lines; None cancels."""

    lines: list[str | None] = field(default_factory=list)
    agrees: bool = True
    shown: list[str] = field(default_factory=list)
    can_open_browser: bool = False

    async def confirm(self, question: str) -> bool:
        self.shown.append(question)
        return self.agrees

    async def ask_line(self, question: str, default: str, _choices: Sequence[str] = ()) -> str | None:
        self.shown.append(f"{question}{default}")
        return self.lines.pop(0)

    def notify(self, text: str, _level: str = "info") -> None:
        self.shown.append(text)

    def show_untruncated(self, text: str) -> None:
        self.shown.append(f"UNTRUNCATED {text}")

    async def open_page(self, url: str) -> None:
        self.shown.append(f"OPENED {url}")


def ask(person: Person, properties: dict[str, Any], required: tuple[str, ...] = (), message: str = "") -> ElicitResult:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    params = ElicitRequestFormParams(mode="form", message=message or "Who comes?", requested_schema=schema)
    return asyncio.run(Elicitation(person, load())("harbour", params))


def test_a_form_names_its_server_and_is_filled_field_by_field() -> None:
    person = Person(["Anna", "12.5", "3", "yes"])
    fields = {
        "boat": {"type": "string", "title": "Boat", "description": "its name"},
        "metres": {"type": "number"},
        "crew": {"type": "integer", "default": 2},
        "engine": {"type": "boolean", "default": False},
    }
    result = ask(person, fields, ("boat", "metres"))
    assert result == ElicitResult(action="accept", content={"boat": "Anna", "metres": 12.5, "crew": 3, "engine": True})
    assert person.shown == [
        "[MCP: Server 'harbour' asks: Who comes?]",
        "Answer it? [y/N] ",
        "Boat (its name): ",
        "metres: ",
        "crew, optional: 2",
        "engine [yes, no], optional: no",
        "Boat: Anna",
        "metres: 12.5",
        "crew: 3",
        "engine: yes",
        "Send these answers? No goes through them again, and Esc there cancels. [y/N] ",
    ]


def test_what_two_servers_ask_at_once_is_asked_one_after_the_other() -> None:
    class SlowPerson(Person):
        async def confirm(self, question: str) -> bool:
            await asyncio.sleep(0)
            return await super().confirm(question)

    async def ask_both() -> None:
        schema = {"type": "object", "properties": {"boat": {"type": "string"}}}
        params = ElicitRequestFormParams(mode="form", message="Who?", requested_schema=schema)
        elicitation = Elicitation(person, load())
        await asyncio.gather(*(elicitation(server, params) for server in ("harbour", "lighthouse")))

    person = SlowPerson(["Anna", "Berta"])
    asyncio.run(ask_both())
    questions = ["Answer it? [y/N] ", "boat, optional: "]
    assert person.shown == [
        text for server in ("harbour", "lighthouse") for text in (f"[MCP: Server '{server}' asks: Who?]", *questions)
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


def test_an_invalid_answer_is_asked_for_again_at_most_three_times() -> None:
    person, number = Person(["many", "0", "7"]), {"type": "integer", "minimum": 1}
    assert ask(person, {"crew": number}, ("crew",)).content == {"crew": 7}
    assert [line for line in person.shown if line.startswith("Argument")] == [
        'Argument "crew" must be a whole number, not "many".',
        'Argument "crew" must be at least 1, not 0.',
    ]
    assert ask(Person(["a", "b", "c"]), {"crew": number}, ("crew",)).action == "cancel"


def test_an_optional_field_may_be_left_empty_and_any_field_ended() -> None:
    assert ask(Person([""]), {"x": {"type": "string"}}).content == {}
    assert ask(Person([None]), {"x": {"type": "string"}}).action == "cancel"
    assert ask(Person(agrees=False), {"x": {"type": "string"}}).action == "decline"


SECRETS = (
    "password",
    "API_key",
    "client_secret",
    "accessToken",
    "passphrase",
    "passcode",
    "pin",
    "PIN code",
    "userPin",
    "otp",
    "token",
    "githubToken",
    "Seed phrase",
    "Card number",
    "card-number",
    "cvc",
    "one-time code",
    "2fa",
    "Recovery phrase",
    "pass\u200bword",
    "ｐａｓｓｗｏｒｄ",
    "パスワード",
    "ﾊﾟｽﾜｰﾄﾞ",
    "新しいパスワード",
    "暗証番号",
    "認証コード",
    "APIキー",
    "秘密鍵",
    "カード番号",
    "密码",
    "密碼",
    "登录密码",
    "口令",
    "密钥",
    "验证码",
    "私鑰",
    "助记词",
    "银行卡号",
    "信用卡号",
    "访问令牌",
)
HARMLESS = (
    "name",
    "max_tokens",
    "Number of tokens",
    "opinion",
    "spinner",
    "key",
    "keyboard",
    "card",
    "compass",
    "passenger",
    "code",
    "colour code",
    "postal code",
    "account",
    "名前",
    "郵便番号",
    "住所",
    "鍵盤",
    "传真",
    "城市",
    "电话号码",
)


@pytest.mark.parametrize(
    "field",
    [{}, {"title": "Value", "description": "Please enter your password."}, {"title": "OTP"}, {"format": "password"}],
    ids=str,
)
def test_a_form_whose_field_is_described_as_a_secret_is_turned_down_unasked(field: dict[str, str]) -> None:
    person = Person(["hunter2"])
    action = ask(person, {"answer": {"type": "string", **field}}, ("answer",)).action
    assert (action, person.lines) == (("decline", ["hunter2"]) if field else ("accept", []))


def test_a_form_that_wants_a_secret_is_turned_down_unasked_and_no_other() -> None:
    for place in ("name", "title"):
        for wanted, names in (("decline", SECRETS), ("accept", HARMLESS)):
            for name in names:
                fields = {name: {"type": "string"}} if place == "name" else {"x": {"type": "string", "title": name}}
                person = Person(["hunter2"])
                assert (name, ask(person, fields).action) == (name, wanted)
                assert person.lines == ([] if wanted == "accept" else ["hunter2"])


def visit(person: Person, url: str) -> str:
    params = ElicitRequestURLParams(mode="url", message="Pay.", url=url, elicitation_id="1")
    return asyncio.run(Elicitation(person, load())("harbour", params)).action


@pytest.mark.parametrize("can_open", [True, False])
@pytest.mark.parametrize(("agrees", "action"), [(True, "accept"), (False, "decline")])
def test_a_url_is_shown_in_full_and_opened_on_consent_if_there_is_a_browser(
    agrees: bool, action: str, can_open: bool
) -> None:
    person = Person(agrees=agrees, can_open_browser=can_open)
    url = "https://bank.example@harbour.example/pay?order=7&x=%1b" + "a" * 200
    assert visit(person, url) == action
    if can_open:
        asked = "Open this page at harbour.example in the browser? [y/N] "
        opened = [f"OPENED {url}", "Done there? [y/N] "] if agrees else []
        assert person.shown[1:] == [f"UNTRUNCATED {url}", asked, *opened]
    else:
        assert f"visit {url} at harbour.example." in person.shown[1]
        assert len(person.shown) == 2


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "javascript:alert(1)", "harbour", "https:///x", "http://[", "https://a.example/\u202eb"],
)
def test_only_web_pages_are_offered(url: str) -> None:
    person = Person(can_open_browser=True)
    assert visit(person, url) == "decline"
    assert len(person.shown) == 2
    assert "no web page" in person.shown[1]


GOOD, BAD = (
    {
        "email": good,
        "uri": address,
        "date": day,
        "date-time": moment,
    }
    for good, address, day, moment in (
        ("ken@example.org", "urn:isbn:1", "2024-02-29", "2024-02-29T23:59:59.5+09:00"),
        ("ken at example.org", "example.org/a b", "2023-02-29", "2024-02-29T23:59:59"),
    )
)


@pytest.mark.parametrize("kind", GOOD)
def test_an_answer_has_the_format_of_its_field(kind: str) -> None:
    person = Person([BAD[kind], GOOD[kind]])
    answer = ask(person, {"x": {"type": "string", "format": kind}}, ("x",))
    assert answer.content == {"x": GOOD[kind]}
    question, objection, again = person.shown[2:]
    assert question == again
    example = question.removeprefix("x, such as ").removesuffix(": ")
    assert objection == f"This does not have the form of {example}."
    assert ask(Person([example]), {"x": {"type": "string", "format": kind}}, ("x",)).content == {"x": example}


def test_control_and_invisible_characters_of_a_server_are_shown_escaped() -> None:
    person = Person(["a"])
    ask(person, {"x": {"type": "string", "title": "\x1b[2JTitle"}}, ("x",), "Who\u202e comes\U000e0041?")
    assert not any("\x1b" in line for line in person.shown)
    assert person.shown[0] == r"[MCP: Server 'harbour' asks: Who\u202e comes\U000e0041?]"


FIRST = "[MCP: Server 'harbour' requires a login. Open this URL in any browser:]"
OFFER, PASTE = ([load()(key), "Login to harbour: "] for key in ("login.open", "login.paste"))


@pytest.mark.parametrize(
    ("can_open", "lines", "shown", "answer"),
    [
        (False, [" http://127.0.0.1/?code=1 "], PASTE, "http://127.0.0.1/?code=1"),
        (True, ["http://127.0.0.1/?code=1"], OFFER, "http://127.0.0.1/?code=1"),
        (True, ["O", "pasted"], [*OFFER, "OPENED https://login/", *PASTE], "pasted"),
        (False, ["o"], PASTE, "o"),
        (False, [None], PASTE, ""),
    ],
    ids=["no browser", "another browser", "this browser", "nothing to open", "Ctrl+C"],
)
def test_a_login_page_is_shown_in_full_and_opened_only_on_request(
    can_open: bool, lines: list[str | None], shown: list[str], answer: str
) -> None:
    person = Person(lines, can_open_browser=can_open)
    assert asyncio.run(LoginPrompt(person, load())("harbour", "https://login/", "first")) == answer
    assert person.shown == [FIRST, "UNTRUNCATED https://login/", *shown]


def test_a_default_with_invisible_characters_is_not_offered() -> None:
    """Enter alone would send it."""
    person = Person(["", ""])
    ask(
        person,
        {"to": {"type": "string", "default": "anna\u200b\U000e0041"}, "from": {"type": "string", "default": "Ken"}},
    )
    assert person.shown[2:-1] == ["to, optional: ", "from, optional: Ken", "to: -", "from: -"]


def test_the_default_of_choices_is_shown_by_its_title_and_read_as_its_value() -> None:
    person = Person(["North"])
    field = {"type": "string", "oneOf": [{"const": "n", "title": "North"}], "default": "n"}
    assert ask(person, {"x": field}, ("x",)).content == {"x": "n"}
    assert person.shown[-1] == "x [North]: North"
