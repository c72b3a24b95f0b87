"""A server asks its user something: a form, field by field, a page to be visited, or a login. It prints nothing itself.

MCP 2025-11-25, client/elicitation. Who asks is always said; a URL is shown whole and never opened; a form that wants a
secret is turned down, as the specification says servers must not ask for one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .arguments import check
from .clean import reveal, reveal_line
from .coercion import coerce
from .errors import ValidationError
from .language import Words

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

TRIES = 3
OPEN = ("o", "open")
SECRET = re.compile(r"passw|secret|api[-_ ]?key|credential|private[-_ ]?key|(?:access|auth)[-_ ]?token", re.IGNORECASE)


class Person(Protocol):
    """Somebody who can be asked. `read` gives None when he wants to end it all; `choices` are what he may write."""

    async def agree(self, question: str) -> bool: ...

    async def read(self, question: str, default: str, choices: Sequence[str] = ()) -> str | None: ...

    def tell(self, text: str) -> None: ...


class Visitor(Person, Protocol):
    """Somebody who may have a browser. `show_whole` cuts nothing, so that it can be copied."""

    @property
    def can_open(self) -> bool: ...

    def show_whole(self, text: str) -> None: ...

    async def open_page(self, url: str) -> None: ...


class LogIn:
    """Has a person visit the page of a login, in whichever browser, and gives the address that he pastes."""

    def __init__(self, person: Visitor, words: Words) -> None:
        self._person, self._words = person, words

    async def __call__(self, server: str, url: str, reason: str) -> str:
        person, words = self._person, self._words
        person.tell(words(f"login.{reason}", server=server))
        if reason != "unusable":
            person.show_whole(reveal_line(url))
        person.tell(words("login.open" if person.can_open else "login.paste"))
        question = words("login.question", server=server)
        answer = (await person.read(question, "") or "").strip()
        if not person.can_open or answer.lower() not in OPEN:
            return answer
        await person.open_page(url)
        person.tell(words("login.paste"))
        return (await person.read(question, "") or "").strip()


class Elicitation:
    """Puts a server's questions to a person."""

    def __init__(self, person: Person, words: Words) -> None:
        self._person, self._words = person, words

    async def __call__(self, server: str, params: ElicitRequestParams) -> ElicitResult:
        from mcp_types import ElicitRequestURLParams, ElicitResult

        self._person.tell(self._words("elicit.asks", server=server, message=reveal_line(params.message)))
        if isinstance(params, ElicitRequestURLParams):
            agreed = await self._person.agree(self._words("elicit.url", url=reveal_line(params.url)))
            return ElicitResult(action="accept" if agreed else "decline")
        if wants_secret(params.requested_schema):
            self._person.tell(self._words("elicit.secret"))
            return ElicitResult(action="decline")
        if not await self._person.agree(self._words("elicit.answer")):
            return ElicitResult(action="decline")
        content = await self._fill(params.requested_schema)
        return ElicitResult(action="cancel") if content is None else ElicitResult(action="accept", content=content)

    async def _fill(self, schema: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answers to all fields; None when the person ends it or cannot fill a field that is needed."""
        content: dict[str, Any] = {}
        for name, field in schema.get("properties", {}).items():
            needed = name in schema.get("required", ())
            for _ in range(TRIES):
                question = describe(name, field, needed, self._words)
                answer = await self._person.read(question, default_of(field), list(choices_of(field)))
                if answer is None:
                    return None
                if not answer.strip() and not needed:
                    break
                try:
                    content[name] = read_field(name, answer.strip(), field)
                    break
                except ValidationError as error:
                    self._person.tell(error.message)
            else:
                return None
        return content


def wants_secret(schema: Mapping[str, Any]) -> bool:
    fields = schema.get("properties", {}).items()
    return any(
        SECRET.search(f"{name} {field.get('title', '')}") or field.get("format") == "password" for name, field in fields
    )


def describe(name: str, field: Mapping[str, Any], needed: bool, words: Words) -> str:
    """A field in one line: title, description, choices, and whether it may be left empty."""
    title = reveal_line(str(field.get("title") or name))
    about = f" ({reveal_line(str(field['description']))})" if field.get("description") else ""
    choices = choices_of(field)
    listed = f" [{', '.join(reveal_line(shown) for shown in choices)}]" if choices else ""
    return f"{title}{about}{listed}{'' if needed else words('elicit.optional')}: "


def choices_of(field: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown -> what is sent, for a field with choices (SEP-1330: enum, enumNames, oneOf or anyOf of consts)."""
    items = field.get("items")
    inner: Mapping[str, Any] = items if isinstance(items, Mapping) else field
    branches = inner.get("oneOf") or inner.get("anyOf") or ()
    if branches:
        return {str(branch.get("title", branch.get("const"))): branch.get("const") for branch in branches}
    values = inner.get("enum") or ()
    names = inner.get("enumNames") or values
    return dict(zip(map(str, names), values, strict=False))


def default_of(field: Mapping[str, Any]) -> str:
    """What Enter alone answers; nothing where the person could not see all of it."""
    default = field.get("default")
    if default is None:
        return ""
    if isinstance(default, bool):
        return "true" if default else "false"
    text = ", ".join(map(str, default)) if isinstance(default, list) else str(default)
    return text if text == reveal(text) else ""


def read_field(name: str, answer: str, field: Mapping[str, Any]) -> Any:
    """What was typed as the field wants it. Raises ValidationError."""
    choices = {shown.lower(): value for shown, value in choices_of(field).items()}
    if field.get("type") == "array":
        value: Any = [choices.get(part.strip().lower(), part.strip()) for part in answer.split(",") if part.strip()]
    elif field.get("type") == "boolean":
        value = {"y": True, "yes": True, "n": False, "no": False}.get(answer.lower(), coerce(answer, field, {})[0])
    else:
        value = choices.get(answer.lower(), answer)
    schema = {"type": "object", "properties": {name: dict(field)}, "required": [name]}
    return check({name: value}, schema).arguments[name]
