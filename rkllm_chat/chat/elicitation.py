"""Elicitation: a server asks its user for the fields of a form, a visit to a URL, or a login.

MCP 2025-11-25, client/elicitation. The asking server is always named; a URL is shown in full with its host, and opened
only if the user agrees; a form that requests a secret is declined, since the specification forbids servers to ask for
one.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from ..calls.arguments import validate_arguments
from ..core.errors import ValidationError
from ..core.events import NoticeLevel
from ..core.i18n import Words
from ..core.sanitize import escape_line_visibly, escape_visibly, normalize_for_search

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

_MAX_ATTEMPTS = 3
_OPEN_ANSWERS = ("o", "open")
_SECRET = re.compile(
    "|".join(
        (
            r"passw|pass ?(?:phrase|code|key)|secret|credential|mnemonic",
            r"\b(?:pwd|pass|pin|otp|totp|2fa|mfa|tan|token|cvv|cvc|ssn)\b",
            r"(?:api|private|access|auth|encryption|signing) ?(?:key|token|code)",
            r"(?:security|verification|recovery|backup|one[- ]?time|login|authenticat\w*) ?(?:code|number|key|token)",
            r"(?:seed|recovery|backup|wallet) ?(?:phrase|words?)|(?:card|account) ?(?:number|no\b)|credit ?card",
            "パス(?:ワード|フレーズ|コード|キー)|暗証|秘密|シークレット|トークン|ワンタイム|合言葉|資格情報|ピン(?:番号|コード)",
            "(?:認証|確認|復元|復旧|セキュリティ)(?:コード|番号)|(?:シード|復元|リカバリー)フレーズ|(?:api|アクセス)キー",
            "(?:クレジット)?カード(?:の)?番号|クレジットカード|口座番号",
            "[密口][码碼令]|[密私][钥鑰]|令牌|[验驗][证證][码碼]|助[记記][词詞]|[卡账帳][号號]|[银銀]行卡|信用卡",
            "安全[码碼]|[凭憑][证證据據]|[动動][态態][码碼]|通行[码碼短]",
        )
    ),
    re.IGNORECASE,
)
"""Words that ask for a secret, in English, Japanese and Chinese, behind `_split_words`."""


class UserPrompts(Protocol):
    """A user who can be asked questions."""

    async def confirm(self, question: str) -> bool:
        """Ask a yes-or-no question."""

    async def ask_line(self, question: str, default: str, choices: Sequence[str] = ()) -> str | None:
        """Ask for a line of text; None if the user cancels.

        Args:
            question: Text to show.
            default: Answer of an empty line.
            choices: Suggested answers.
        """

    def notify(self, text: str, level: NoticeLevel = "info") -> None:
        """Show a message."""

    @property
    def can_open_browser(self) -> bool:
        """Whether a browser can be opened here."""

    def show_untruncated(self, text: str) -> None:
        """Show a text without truncation, so that it can be copied."""

    async def open_page(self, url: str) -> None:
        """Open a URL in the browser."""


class LoginPrompt:
    """Guides the user through an OAuth login in any browser and returns the redirect URL that the user pastes."""

    def __init__(self, user: UserPrompts, words: Words) -> None:
        self._user, self._words = user, words

    async def agree(self, server: str, url: str) -> bool:
        """Ask whether to begin a login, for which a request is sent to `url`."""
        return await self._user.confirm(self._words("login.agree", server=server, url=escape_line_visibly(url)))

    async def __call__(self, server: str, url: str, reason: str) -> str:
        """Ask the user to log in.

        Args:
            server: Name of the server.
            url: Authorization URL.
            reason: Suffix of the sentence key that explains why; with "unusable" the URL is not shown again.
        """
        user, words = self._user, self._words
        user.notify(words(f"login.{reason}", server=server))
        if reason != "unusable":
            user.show_untruncated(escape_line_visibly(url))
        user.notify(words("login.open" if user.can_open_browser else "login.paste"))
        question = words("login.question", server=server)
        answer = (await user.ask_line(question, "") or "").strip()
        if not user.can_open_browser or answer.lower() not in _OPEN_ANSWERS:
            return answer
        await user.open_page(url)
        user.notify(words("login.paste"))
        return (await user.ask_line(question, "") or "").strip()


class Elicitation:
    """Forwards elicitation requests of servers to the user, one after another."""

    def __init__(self, user: UserPrompts, words: Words) -> None:
        self._user, self._words = user, words
        self._lock = asyncio.Lock()

    async def __call__(self, server: str, params: ElicitRequestParams) -> ElicitResult:
        """Ask the user and return the answer in the form of the protocol."""
        async with self._lock:  # or what one server asks could be taken for the question of another
            return await self._ask(server, params)

    async def _ask(self, server: str, params: ElicitRequestParams) -> ElicitResult:
        from mcp_types import ElicitRequestURLParams, ElicitResult

        self._user.notify(self._words("elicit.asks", server=server, message=escape_line_visibly(params.message)))
        if isinstance(params, ElicitRequestURLParams):
            return ElicitResult(action="accept" if await self._visit(params.url) else "decline")
        if _requests_secret(params.requested_schema):
            self._user.notify(self._words("elicit.secret"))
            return ElicitResult(action="decline")
        if not await self._user.confirm(self._words("elicit.answer")):
            return ElicitResult(action="decline")
        content = await self._fill(params.requested_schema)
        return ElicitResult(action="cancel") if content is None else ElicitResult(action="accept", content=content)

    async def _visit(self, url: str) -> bool:
        """Show a URL, open it if the user agrees and there is a browser, and return whether the user was there."""
        user, words, shown, host = self._user, self._words, escape_line_visibly(url), _find_host(url)
        if not host:
            user.notify(words("elicit.no_page", url=shown))
            return False
        if not user.can_open_browser:
            return await user.confirm(words("elicit.url", url=shown, host=host))
        user.show_untruncated(shown)
        if not await user.confirm(words("elicit.open", host=host)):
            return False
        await user.open_page(url)
        return await user.confirm(words("elicit.done"))

    async def _fill(self, schema: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the answers to all fields; None if the user cancels or cannot fill a required field.

        Several answers are shown before they are sent; a user who does not want to send them goes through them again.
        """
        fields = schema.get("properties", {})
        typed = {name: _default_of(field) for name, field in fields.items()}
        while True:
            content = await self._ask_fields(schema, typed)
            if content is None or len(fields) < 2:
                return content
            for name, field in fields.items():
                self._user.notify(f"{_title_of(name, field)}: {escape_line_visibly(typed[name]) or '-'}")
            if await self._user.confirm(self._words("elicit.send")):
                return content

    async def _ask_fields(self, schema: Mapping[str, Any], typed: dict[str, str]) -> dict[str, Any] | None:
        """Ask for each field, with the last text as the default, and record what is typed; None as for `_fill`."""
        content: dict[str, Any] = {}
        for name, field in schema.get("properties", {}).items():
            is_required = name in schema.get("required", ())
            for _ in range(_MAX_ATTEMPTS):
                question = _describe_field(name, field, is_required, self._words)
                answer = await self._user.ask_line(question, typed[name], list(_choices_of(field)))
                if answer is None:
                    return None
                try:
                    if answer.strip() or is_required:
                        content[name] = _parse_answer(name, answer.strip(), field, self._words)
                    typed[name] = answer.strip()
                    break
                except ValidationError as error:
                    self._user.notify(error.message)
            else:
                return None
        return content


def _find_host(url: str) -> str:
    """Return the host of a page, escaped; "" if the URL is not one of http or https, or cannot be parsed."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.scheme in ("http", "https") else None
    except ValueError:
        host = None
    return escape_line_visibly(host) if host and url == escape_visibly(url) and not re.search(r"[\s\\]", url) else ""


def _requests_secret(schema: Mapping[str, Any]) -> bool:
    """Return whether a form requests a password, key or token, by the names, titles and descriptions of its fields."""
    return any(
        field.get("format") == "password"
        or any(_SECRET.search(_split_words(str(text))) for text in (name, field.get("title"), field.get("description")))
        for name, field in schema.get("properties", {}).items()
    )


def _split_words(text: str) -> str:
    """Return a text with the words of identifiers separated by blanks: `apiKey`, `api_key` and `API-KEY` alike."""
    folded, _ = normalize_for_search(re.sub(r"([a-z])(?=[A-Z])", r"\1 ", text))
    return re.sub(r"[\W_]+", " ", unicodedata.normalize("NFKC", folded))


def _title_of(name: str, field: Mapping[str, Any]) -> str:
    return escape_line_visibly(str(field.get("title") or name))


def _describe_field(name: str, field: Mapping[str, Any], is_required: bool, words: Words) -> str:
    """Describe a field in one line: title, description, choices, and whether it is optional."""
    title = _title_of(name, field)
    description = f" ({escape_line_visibly(str(field['description']))})" if field.get("description") else ""
    choices = _choices_of(field)
    if field.get("type") == "boolean":
        choices = dict.fromkeys(("yes", "no"))
    choice_list = f" [{', '.join(escape_line_visibly(shown) for shown in choices)}]" if choices else ""
    example = (
        words("elicit.example", example=_FORMATS[kind][0]) if (kind := str(field.get("format"))) in _FORMATS else ""
    )
    return f"{title}{description}{choice_list}{example}{'' if is_required else words('elicit.optional')}: "


def _choices_of(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels and values of a field with choices (SEP-1330: enum, enumNames, oneOf or anyOf of consts)."""
    items = field.get("items")
    inner: Mapping[str, Any] = items if isinstance(items, Mapping) else field
    branches = inner.get("oneOf") or inner.get("anyOf") or ()
    if branches:
        return {str(branch.get("title", branch.get("const"))): branch.get("const") for branch in branches}
    values = inner.get("enum") or ()
    names = inner.get("enumNames") or values
    return dict(zip(map(str, names), values, strict=False))


def _default_of(field: Mapping[str, Any]) -> str:
    """Return the answer of an empty line; "" if the default contains characters that the user would not see."""
    default = field.get("default")
    if default is None:
        return ""
    if isinstance(default, bool):
        return "yes" if default else "no"
    titles = {str(value): title for title, value in _choices_of(field).items()}
    values = [titles.get(str(value), str(value)) for value in (default if isinstance(default, list) else [default])]
    text = ", ".join(values)
    return text if text == escape_visibly(text) else ""


def _is_date(text: str, pattern: str = "%Y-%m-%d") -> bool:
    try:
        datetime.strptime(text, pattern)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    """Whether a text is a date and time with its offset (RFC 3339, 5.6)."""
    match = re.fullmatch(
        r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", text, re.ASCII
    )
    return match is not None and _is_date(match[1].upper(), "%Y-%m-%dT%H:%M:%S")


_FORMATS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "email": ("ken@example.org", re.compile(r"[^\s@]+@[^\s@.]+(?:\.[^\s@.]+)*").fullmatch),
    "uri": ("https://example.org/", re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+").fullmatch),
    "date": ("2026-11-25", lambda text: len(text) == len("2026-11-25") and _is_date(text)),
    "date-time": ("2026-11-25T18:30:00+09:00", _is_date_time),
}
"""Formats of text fields (MCP 2025-11-25, StringSchema) with an example and the check of an answer."""


def _parse_answer(name: str, answer: str, field: Mapping[str, Any], words: Words) -> Any:
    """Convert the typed text to the type of the field.

    Raises:
        ValidationError: The text does not match the field's schema or format.
    """
    if (kind := str(field.get("format"))) in _FORMATS and not _FORMATS[kind][1](answer):
        raise ValidationError(words("elicit.invalid", example=_FORMATS[kind][0]))
    choices = {choice_label.lower(): value for choice_label, value in _choices_of(field).items()}
    if field.get("type") == "array":
        value: Any = [choices.get(part.strip().lower(), part.strip()) for part in answer.split(",") if part.strip()]
    elif field.get("type") == "boolean":
        value = {"y": True, "yes": True, "n": False, "no": False}.get(answer.lower(), answer)
    else:
        value = choices.get(answer.lower(), answer)
    schema = {"type": "object", "properties": {name: dict(field)}, "required": [name]}
    return validate_arguments({name: value}, schema).arguments[name]
