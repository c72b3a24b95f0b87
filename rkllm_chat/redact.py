"""Secrets taken out of texts: the values of a configuration, and whatever has the shape of a key. It knows no file.

What a configuration says is secret by one rule:

- the values of `headers` (but for Accept and the like), of `env` and of `${VAR}` where the name says that it is secret
  (TOKEN, API_KEY ...), the password of a URL, a client's secret and the tokens of a login, from six characters on;
  one of letters alone is hidden where it stands as a word;
- any other value of `env`, of `${VAR}` or of a URL's query from eight characters on, unless it is a path, a number or
  made of letters alone: "1", "true", "en" and "production" stand everywhere and would only blur what is told.

What has the shape of a key is secret wherever it came from: the rows of SHAPES. A one-shot command imports this before
its server is started, so it imports next to nothing, and the expressions are made when they are first needed.
"""

from __future__ import annotations

import re
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    from .config import ServerConfig, Settings
    from .errors import ChatError

    Value = TypeVar("Value")

HIDDEN = "[redacted]"
SHORTEST_NAMED, SHORTEST = 6, 8
WORDS = "token|key|secret|pass|pwd|auth|assertion|cred|cookie|session|private|dsn|bearer|signature"
BY_NAME = re.compile(WORDS, re.IGNORECASE)
PASSWORD = re.compile(r"(?:passw(?:or)?d|secret|token|api[_-]?key|private[_-]?key|authorization)$", re.IGNORECASE)
PLAIN_HEADERS = ("accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version")
SCHEMES = ("bearer", "basic", "digest", "negotiate")
VARIABLE = re.compile(r"\$\{(\w+)")
PEM_BEGIN, PEM_END = "-----BEGIN ", "-----END "
DEEPEST, TOO_DEEP = 200, "[too deep]"
LONGEST_LINE, OVERLAP = 1 << 16, 1 << 12

SHAPES: dict[str, tuple[tuple[str, ...], str, Callable[[str], bool]]] = {
    "bearer": (("bearer",), r"(?i:\bbearer[ \t]+)(?P<secret>[\w.~+/=-]{8,})", lambda text: is_token(text)),
    "basic": (("basic",), r"(?i:\bbasic[ \t]+)(?P<secret>[A-Za-z0-9+/]{12,}={0,2})", lambda text: is_token(text)),
    "authorization": (
        ("authorization",),
        r"(?i:authorization[\"']?[ \t]*[:=][ \t]*[\"']?)(?P<secret>[^\s\"',;]{6,})",
        lambda text: text.lower() not in SCHEMES,
    ),
    "sk-": (("sk-",), r"(?<![\w-])(?P<secret>sk-[\w-]{16,})", lambda text: has_digit(text)),
    "GitHub": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"(?<![^\W_])(?P<secret>gh[pousr]_\w{20,}|github_pat_\w{20,})",
        lambda _: True,
    ),
    "GitLab": (("glpat-",), r"(?<![\w-])(?P<secret>glpat-[\w-]{16,})", lambda _: True),
    "AWS": (("akia", "asia"), r"(?<!\w)(?P<secret>(?:AKIA|ASIA)[A-Z0-9]{16})(?!\w)", lambda _: True),
    "Google": (("aiza",), r"(?<![\w-])(?P<secret>AIza[\w-]{30,})", lambda _: True),
    "Slack": (("xox",), r"(?<![\w-])(?P<secret>xox[a-z]-[\w-]{10,})", lambda text: has_digit(text)),
    "JWT": (("eyj",), r"(?<!\w)(?P<secret>eyJ[\w-]*(?:\.[\w-]*)*)", lambda text: text.rstrip(".").count(".") > 1),
    "URL": (("://",), r"://[^\s/?#@:\"']{0,200}:(?P<secret>[^\s/?#@\"']{1,200})@", lambda text: text != HIDDEN),
    "name": (
        ("passw", "pwd", "secret", "token", "key", "signature"),
        r"(?i:passw(?:or)?d|pwd|secret|token|api[_-]?key|private[_-]?key|signature)"
        r"(?:=|[\"'][ \t]*:[ \t]*[\"'])(?P<secret>[^\s\"'&,;<>(){}\[\]|]+)",
        lambda text: is_given(text, SHORTEST_NAMED),
    ),
}
"""Shape -> what stands in it, in small letters; what matches it; what tells whether a match is one.

Each match takes all it can and no start inside of it is tried again, so the time is linear.
"""


class Redactor:
    """The secrets of a sitting or a command; it learns them as servers and logins come."""

    def __init__(
        self,
        server: ServerConfig | None = None,
        entry: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._named: set[str] = set()
        self._given: set[str] = set()
        self._sorted: tuple[list[str], list[str]] | None = None
        if entry:
            text = str(list(entry.values()))
            self.learn({name: (environment or {}).get(name, "") for name in VARIABLE.findall(text)})
        if server:
            self.learn_server(server)

    def learn(self, variables: Mapping[str, str]) -> None:
        """Variables that a configuration names, and what they hold."""
        self._add_all(variables.items())

    def learn_settings(self, settings: Settings, environment: Mapping[str, str]) -> None:
        """All that a configuration says: its variables, its servers, and the key of its model's service."""
        self.learn(settings.variables)
        self.add(environment.get(settings.openai.key_env, ""))
        for server in settings.servers:
            self.learn_server(server)

    def learn_server(self, server: ServerConfig) -> None:
        """The values of a server's env, headers, URL and login."""
        self._add_all(server.env.items())
        headers = [value for name, value in server.headers.items() if name.lower() not in PLAIN_HEADERS]
        self.add(*headers, *(value.rpartition(" ")[2] for value in headers))  # the token of "Bearer TOKEN"
        oauth: Any = server.oauth
        for name in ("client_secret", "clientSecret", "assertion"):
            value = oauth.get(name) if isinstance(oauth, dict) else getattr(oauth, name, "")
            self.add(value if isinstance(value, str) else "")
        if "?" in server.url or "@" in server.url:
            self._learn_url(server.url)

    def _learn_url(self, url: str) -> None:
        from urllib.parse import parse_qsl, unquote, urlsplit

        try:
            parts = urlsplit(url)
        except ValueError:
            return
        password = parts.password or ""
        self.add(password, unquote(password))
        self._add_all(parse_qsl(parts.query))

    def add(self, *secrets: str) -> None:
        """What is secret whatever it looks like: a token, a password."""
        fresh = {one for one in secrets if len(one) >= SHORTEST_NAMED} - self._named
        if fresh:
            self._named |= fresh
            self._sorted = None

    def _add_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        for name, value in pairs:
            if BY_NAME.search(name):
                self.add(value)
            elif is_given(value, SHORTEST):
                self._given.add(value)
                self._sorted = None

    @property
    def _values(self) -> tuple[list[str], list[str]]:
        """Those that are secret by their name, and all; the longest first, so that of none a rest is seen."""
        if self._sorted is None:
            both = (self._named, self._named | self._given)
            self._sorted = (sorted(both[0], key=len, reverse=True), sorted(both[1], key=len, reverse=True))
        return self._sorted

    def hide(self, value: Value) -> Value:
        """The user's own data, such as a result, without what the configuration says is secret by its name."""
        named = self._values[0]
        return change(value, lambda text: replace(text, named)) if named else value

    def hide_known(self, value: Value) -> Value:
        """A value without any secret of the configuration."""
        known = self._values[1]
        return change(value, lambda text: replace(text, known)) if known else value

    def hide_all(self, value: Value) -> Value:
        """A value without any secret of the configuration, and without what looks like a key."""
        known = self._values[1]
        shown: Value = change(value, lambda text: hide_shapes(replace(text, known)), is_password)
        return shown

    def hide_member(self, name: str, text: str) -> str:
        """`hide_all` of a text that is the member `name` of an object."""
        return HIDDEN if is_password(name, text) else hide_shapes(replace(text, self._values[1]))

    def hide_known_member(self, _name: str, text: str) -> str:
        """`hide_known` of a text, whatever member it is."""
        return replace(text, self._values[1])

    def mend(self, error: ChatError) -> ChatError:
        """The error, or one like it in which no secret stands any more."""
        message, hint, details = self.hide_all(error.message), self.hide_all(error.hint), self.hide_all(error.details)
        is_clean = (message, hint, details) == (error.message, error.hint, error.details)
        return error if is_clean else type(error)(message, hint, **details)


class Redacted:
    """Bytes that come in pieces, as lines without secrets: a key may be cut anywhere, and a PEM block has many lines.

    The end of a line is waited for.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._open = b""
        self._in_key = False

    def feed(self, data: bytes) -> bytes:
        whole, newline, self._open = (self._open + data).rpartition(b"\n")
        done = self._hide(whole + newline)
        if len(self._open) > LONGEST_LINE:
            shown = self.rest()
            done, self._open = done + shown[:-OVERLAP], shown[-OVERLAP:]
        return done

    def rest(self) -> bytes:
        """What is held back, without secrets."""
        return b"" if self._in_key else self._redactor.hide_all(decode(self._open)).encode("utf-8", "surrogateescape")

    def close(self) -> bytes:
        rest, self._open = self.rest(), b""
        return rest

    def _hide(self, lines: bytes) -> bytes:
        """Whole lines; of a private key that began before, what follows it."""
        text = decode(lines)
        if self._in_key:
            end = text.find(PEM_END)
            if end < 0:
                return b""
            text = text[end:].partition("\n")[2]
        self._in_key = is_key_begun(text)
        shown = self._redactor.hide_all(text)
        return (shown + "\n" if self._in_key else shown).encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def change(
    value: Any, hide: Callable[[str], str], is_secret: Callable[[str, str], bool] | None = None, depth: int = 0
) -> Any:
    """A value with all its texts changed, also those that are keys; members that are `is_secret` are hidden whole."""
    if isinstance(value, str):
        return hide(value)
    if depth > DEEPEST:
        return TOO_DEEP
    if isinstance(value, dict):
        return {
            change(key, hide): HIDDEN
            if is_secret and isinstance(item, str) and is_secret(str(key), item)
            else change(item, hide, is_secret, depth + 1)
            for key, item in value.items()
        }
    return [change(item, hide, is_secret, depth + 1) for item in value] if isinstance(value, list | tuple) else value


def is_password(name: str, text: str) -> bool:
    """Whether the member of an object is a secret by its name."""
    return bool(PASSWORD.search(name)) and is_given(text, SHORTEST_NAMED)


def replace(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        if secret.isalpha() and secret in text:  # a mere word is hidden as a word: "secret" is not all of "secrets"
            text = re.sub(rf"(?<![^\W_]){re.escape(secret)}(?![^\W_])", HIDDEN, text)
        else:
            text = text.replace(secret, HIDDEN)
    return text


def hide_shapes(text: str) -> str:
    """The text without what has the shape of a key.

    >>> hide_shapes("Authorization: Bearer abc.def.ghi")
    'Authorization: Bearer [redacted]'
    """
    if len(text) < SHORTEST_NAMED:
        return text
    text, small = hide_private_keys(text), text.lower()
    for name, (literals, _, is_secret) in SHAPES.items():
        if any(literal in small for literal in literals):
            text = expression(name).sub(partial(cover, is_secret), text)
    return text


def cover(is_secret: Callable[[str], bool], found: re.Match[str]) -> str:
    """A match with its secret hidden, if it is one."""
    if not is_secret(found["secret"]):
        return found[0]
    begin, end = (place - found.start() for place in found.span("secret"))
    return found[0][:begin] + HIDDEN + found[0][end:]


def expression(name: str, made: dict[str, re.Pattern[str]] = {}) -> re.Pattern[str]:  # noqa: B006  # it is to be shared
    """The expression of a shape, made once."""
    if name not in made:
        made[name] = re.compile(SHAPES[name][1])
    return made[name]


def hide_private_keys(text: str) -> str:
    """PEM blocks of private keys go (RFC 7468), certificates and public keys stay; a block may be cut off."""
    parts: list[str] = []
    at = 0
    if 0 <= text.find(PEM_END) < (text + PEM_BEGIN).find(PEM_BEGIN):
        text = hide_end_of_key(text)
    while (begin := text.find(PEM_BEGIN, at)) >= 0:
        label = text[begin + len(PEM_BEGIN) : begin + 80].partition("-----")[0]
        if "PRIVATE KEY" not in label:
            parts.append(text[at : begin + len(PEM_BEGIN)])
            at = begin + len(PEM_BEGIN)
            continue
        end = text.find(PEM_END, begin)
        stop = text.find("-----", end + len(PEM_END)) if end >= 0 else -1
        parts += [text[at:begin], HIDDEN]
        at = stop + 5 if stop >= 0 else len(text)
    return "".join([*parts, text[at:]]) if parts else text


def hide_end_of_key(text: str) -> str:
    """A text in which a PEM block ends that began before: lines of base64 that come before the end of a private key."""
    head, _, rest = text.partition(PEM_END)
    label, _, after = rest.partition("-----")
    if "PRIVATE KEY" not in label or len(label) > 80:
        return text
    lines = head.split("\n")
    while lines and (not lines[-1].strip() or re.fullmatch(r"[A-Za-z0-9+/=]+", lines[-1].strip())):
        lines.pop()
    return "".join(f"{line}\n" for line in lines) + HIDDEN + after


def is_key_begun(text: str) -> bool:
    """Whether a private key begins in a text and does not end there."""
    begin = text.rfind(PEM_BEGIN)
    return begin >= 0 and "PRIVATE KEY" in text[begin : begin + 80] and PEM_END not in text[begin:]


def cut(text: str, most: int) -> str:
    """The beginning of a text that is not hidden yet, cut between two words: half of a secret is not known as one."""
    if len(text) <= most:
        return text
    end = max(text.rfind(mark, 0, most) for mark in " \n\t,;:=\"'(){}[]")
    return text[: end + 1 if end >= 0 else most]


def keep_end(data: bytes, most: int) -> bytes:
    """The end of a text that is not hidden yet: whole lines, or of one that is too long whole words."""
    if len(data) <= most:
        return data
    end = data[-most:]
    return end.partition(b"\n")[2] or end.partition(b" ")[2] or end


def has_digit(text: str) -> bool:
    return any(one.isdigit() for one in text)


def is_token(text: str) -> bool:
    """Whether a word behind "Bearer" is a token, and no word of a sentence."""
    return has_digit(text) or text.endswith("=") or text.strip(".").count(".") > 1 or len(text) >= 40


def is_given(value: str, shortest: int) -> bool:
    """Whether a value says something that is not said everywhere: no path, no number, no mere word.

    >>> [is_given(value, 6) for value in ("hunter2", "production", "/srv/harbour", "0x1F", "123456")]
    [True, False, False, False, False]
    """
    number = value.replace(".", "").replace(",", "").lstrip("+-")
    is_common = value.startswith(("/", "~", ".", "$")) or number.isdecimal() or value.isalpha()
    return len(value) >= shortest and not is_common


def find_literals(entries: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Where in server entries, each with its place, a secret stands itself, and not the name of a variable."""
    found: list[str] = []
    for place, entry in entries:
        for table in ("env", "headers", "oauth"):
            values = entry.get(table)
            for name, value in values.items() if isinstance(values, dict) else ():
                if isinstance(value, str) and is_literal(name, value, table):
                    found.append(f"{place}.{table}.{name}")
        others = {"url": entry.get("url"), "args": " ".join(map(str, entry.get("args") or ()))}
        found += [f"{place}.{name}" for name, value in others.items() if isinstance(value, str) and is_shape(value)]
    return found


def is_literal(name: str, value: str, table: str) -> bool:
    if "${" in value:
        return False
    is_named = bool(BY_NAME.search(name)) and (
        table != "oauth" or name in ("client_secret", "clientSecret", "assertion")
    )
    return (is_named and len(value) >= SHORTEST_NAMED and not value.startswith(("/", "~"))) or is_shape(value)


def is_shape(value: str) -> bool:
    return "${" not in value and hide_shapes(value) != value
