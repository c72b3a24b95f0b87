"""Remove secrets from text: values of the configuration, and anything with the format of a key.

Configuration values are secret by this rule:

- Values of `headers` (except Accept and similar), of `env` and of `${VAR}` whose name suggests a secret (TOKEN,
  API_KEY ...), the password of a URL, OAuth client secrets and tokens, if they have at least six characters. A value
  of letters alone is redacted only as a whole word.
- Any other value of `env`, of `${VAR}` or of a URL query from eight characters on, unless it is a path, a number or
  letters alone: "1", "true", "en" and "production" are too common to redact.
- Whatever else `env` and `headers` have, a PIN of four digits for example, beside its name (`PIN_CODE=4711`,
  `"PIN_CODE": "4711"`), and as a whole text if the name suggests a secret.

Text that matches a row of SHAPES is secret wherever it comes from. One-shot commands import this module before their
server starts, so it imports next to nothing and compiles its expressions on first use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .errors import ChatError

    Value = TypeVar("Value")

REDACTED = "[redacted]"
MIN_NAMED_LENGTH, _MIN_LENGTH = 6, 8
_SECRET_WORDS = "token|key|secret|pass|pwd|auth|assertion|cred|cookie|session|private|dsn|bearer|signature"
_SECRET_WORDS += "|(?<![a-z])(?:pin|otp)(?![a-z])"
SECRET_NAME = re.compile(_SECRET_WORDS, re.IGNORECASE)
_PASSWORD_NAME = re.compile(r"(?:passw(?:or)?d|secret|token|api[_-]?key|private[_-]?key|authorization)$", re.IGNORECASE)
_AUTH_SCHEMES = ("bearer", "basic", "digest", "negotiate")
_PEM_BEGIN, _PEM_END = "-----BEGIN ", "-----END "
_MAX_DEPTH, _TOO_DEEP = 200, "[too deep]"
_MAX_LINE_BYTES, _OVERLAP_BYTES = 1 << 16, 1 << 12

KEY_FORMATS: dict[str, tuple[tuple[str, ...], str, Callable[[str], bool]]] = {
    "bearer": (("bearer",), r"(?i:\bbearer[ \t]+)(?P<secret>[\w.~+/=-]{8,})", lambda text: _is_token(text)),
    "basic": (("basic",), r"(?i:\bbasic[ \t]+)(?P<secret>[A-Za-z0-9+/]{12,}={0,2})", lambda text: _is_token(text)),
    "authorization": (
        ("authorization",),
        r"(?i:authorization[\"']?[ \t]*[:=][ \t]*[\"']?)(?P<secret>[^\s\"',;]{6,})",
        lambda text: text.lower() not in _AUTH_SCHEMES,
    ),
    "sk-": (("sk-",), r"(?<![\w-])(?P<secret>sk-[\w-]{16,})", lambda text: _has_digit(text)),
    "GitHub": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"(?<![^\W_])(?P<secret>gh[pousr]_\w{20,}|github_pat_\w{20,})",
        lambda _: True,
    ),
    "GitLab": (("glpat-",), r"(?<![\w-])(?P<secret>glpat-[\w-]{16,})", lambda _: True),
    "AWS": (("akia", "asia"), r"(?<!\w)(?P<secret>(?:AKIA|ASIA)[A-Z0-9]{16})(?!\w)", lambda _: True),
    "Google": (("aiza",), r"(?<![\w-])(?P<secret>AIza[\w-]{30,})", lambda _: True),
    "Slack": (("xox",), r"(?<![\w-])(?P<secret>xox[a-z]-[\w-]{10,})", lambda text: _has_digit(text)),
    "JWT": (("eyj",), r"(?<!\w)(?P<secret>eyJ[\w-]*(?:\.[\w-]*)*)", lambda text: text.rstrip(".").count(".") > 1),
    "URL": (("://",), r"://[^\s/?#@:\"']{0,200}:(?P<secret>[^\s/?#@\"']{1,200})@", lambda text: text != REDACTED),
    "name": (
        ("passw", "pwd", "secret", "token", "key", "signature"),
        r"(?i:passw(?:or)?d|pwd|secret|token|api[_-]?key|private[_-]?key|signature)"
        r"(?:=|[\"'][ \t]*:[ \t]*[\"'])(?P<secret>[^\s\"'&,;<>(){}\[\]|]+)",
        lambda text: _is_specific(text, MIN_NAMED_LENGTH),
    ),
}
"""Key formats: name -> (lowercase literals that must occur, expression, predicate that confirms a match).

Matches are maximal and nothing inside a match is tried again, so matching takes linear time.
"""


class Redactor:
    """The secrets known to a session or a command; servers and logins add theirs as they appear."""

    def __init__(self) -> None:
        self._named: set[str] = set()
        self._suspected: set[str] = set()
        self._sorted: tuple[list[str], list[str]] | None = None
        self._beside: dict[tuple[str, str], re.Pattern[str]] = {}

    def add_variables(self, variables: Mapping[str, str]) -> None:
        """Add the values of environment variables that a configuration references."""
        self.add_named(variables.items())

    def add(self, *secrets: str) -> None:
        """Add values that are secret whatever they look like, such as tokens and passwords."""
        new = {secret for secret in secrets if len(secret) >= MIN_NAMED_LENGTH} - self._named
        if new:
            self._named |= new
            self._sorted = None

    def add_named(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Add values that are secret if their names or their texts say so.

        Args:
            pairs: Names and values.
        """
        for name, value in pairs:
            if SECRET_NAME.search(name):
                self.add(value)
            elif _is_specific(value, _MIN_LENGTH):
                self._suspected.add(value)
                self._sorted = None

    def add_beside(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Add values that are redacted where they stand beside their names, however short and common they are.

        Args:
            pairs: Names and values.
        """
        for name, value in pairs:
            if name and value.strip():
                end = r"(?!\w)" if value[-1].isalnum() else ""
                between = "(?:[:=,]|[ \t])" if name.startswith("-") else "[:=]"  # "--pin 4711", ["--pin", "4711"]
                pattern = (
                    rf"(?i:(?<![\w-]){re.escape(name)}[\"']?[ \t]*{between}[ \t]*[\"']?)"
                    rf"(?P<secret>{re.escape(value)}){end}"
                )
                self._beside[name, value] = re.compile(pattern)

    def _hide_beside(self, text: str) -> str:
        """Redact values that stand beside their names, and a text that is nothing but one with a telling name."""
        if not self._beside:
            return text
        lowercase, stripped = text.lower(), text.strip()
        for (name, value), pattern in self._beside.items():
            if stripped == value and SECRET_NAME.search(name):
                return REDACTED
            if value in text and name.lower() in lowercase:
                text = pattern.sub(partial(_redact_match, lambda _: True), text)
        return text

    def _is_beside(self, name: str, text: str) -> bool:
        """Return whether an object member is secret: a password, or a value of the configuration with its name."""
        return _is_password(name, text) or any(
            (name.lower(), text) == (known.lower(), value) for known, value in self._beside
        )

    @property
    def _values(self) -> tuple[list[str], list[str]]:
        """Secrets by name, and all secrets; longest first, so that no remainder of a longer one stays visible."""
        if self._sorted is None:
            both = (self._named, self._named | self._suspected)
            self._sorted = (sorted(both[0], key=len, reverse=True), sorted(both[1], key=len, reverse=True))
        return self._sorted

    def redact_named(self, value: Value) -> Value:
        """Redact only what is secret by its name; for the user's own data, such as a result."""
        named = self._values[0]
        if not named and not self._beside:
            return value
        redacted: Value = _map_strings(value, lambda text: self._hide_beside(_replace(text, named)))
        return redacted

    def redact_all(self, value: Value) -> Value:
        """Redact every secret of the configuration and everything that looks like a key."""
        known = self._values[1]
        redacted: Value = _map_strings(
            value, lambda text: redact_keys(self._hide_beside(_replace(text, known))), self._is_beside
        )
        return redacted

    def redact_member(self, name: str, text: str) -> str:
        """Apply `redact_all` to the value of object member `name`."""
        if self._is_beside(name, text):
            return REDACTED
        return redact_keys(self._hide_beside(_replace(text, self._values[1])))

    def redact_known_member(self, name: str, text: str) -> str:
        """Redact every secret of the configuration in the value of an object member."""
        if (name, text) in self._beside:
            return REDACTED
        return self._hide_beside(_replace(text, self._values[1]))

    def redact_error(self, error: ChatError) -> ChatError:
        """Return the error itself if it contains no secret, else a copy with its secrets redacted."""
        message, hint, details = (
            self.redact_all(error.message),
            self.redact_all(error.hint),
            self.redact_all(error.details),
        )
        is_unchanged = (message, hint, details) == (error.message, error.hint, error.details)
        return error if is_unchanged else type(error)(message, hint, **details)


class StreamRedactor:
    """Redact a byte stream line by line.

    Chunk boundaries may split a key and PEM blocks span lines, so output is delayed until the line ends.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._open = b""
        self._in_key = False

    def feed(self, data: bytes) -> bytes:
        """Return the redacted lines that `data` completes, and all but the last bytes of an overlong line."""
        complete, newline, self._open = (self._open + data).rpartition(b"\n")
        redacted = self._hide(complete + newline)
        if len(self._open) > _MAX_LINE_BYTES:
            rest = self.peek_rest()
            redacted, self._open = redacted + rest[:-_OVERLAP_BYTES], rest[-_OVERLAP_BYTES:]
        return redacted

    def peek_rest(self) -> bytes:
        """Return the buffered incomplete line, redacted."""
        return (
            b"" if self._in_key else self._redactor.redact_all(_decode(self._open)).encode("utf-8", "surrogateescape")
        )

    def close(self) -> bytes:
        """Return and discard the buffered incomplete line, redacted."""
        rest, self._open = self.peek_rest(), b""
        return rest

    def _hide(self, lines: bytes) -> bytes:
        """Redact whole lines; inside a private key, drop everything up to its end."""
        text = _decode(lines)
        if self._in_key:
            end = text.find(_PEM_END)
            if end < 0:
                return b""
            text = text[end:].partition("\n")[2]
        self._in_key = _is_key_open(text)
        redacted = self._redactor.redact_all(text)
        return (redacted + "\n" if self._in_key else redacted).encode("utf-8", "surrogateescape")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _map_strings(
    value: Any, hide: Callable[[str], str], is_secret: Callable[[str, str], bool] | None = None, depth: int = 0
) -> Any:
    """Apply `hide` to every string in a value, keys included; replace members that are `is_secret` entirely."""
    if isinstance(value, str):
        return hide(value)
    if depth > _MAX_DEPTH:
        return _TOO_DEEP
    if isinstance(value, dict):
        return {
            _map_strings(key, hide): REDACTED
            if is_secret and isinstance(item, str) and is_secret(str(key), item)
            else _map_strings(item, hide, is_secret, depth + 1)
            for key, item in value.items()
        }
    return (
        [_map_strings(item, hide, is_secret, depth + 1) for item in value] if isinstance(value, list | tuple) else value
    )


def _is_password(name: str, text: str) -> bool:
    """Return whether an object member is secret by its name."""
    return bool(_PASSWORD_NAME.search(name)) and _is_specific(text, MIN_NAMED_LENGTH)


def _replace(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        if secret.isalpha() and secret in text:  # only as a whole word: "secret" must not match in "secrets"
            text = re.sub(rf"(?<![^\W_]){re.escape(secret)}(?![^\W_])", REDACTED, text)
        else:
            text = text.replace(secret, REDACTED)
    return text


def redact_keys(text: str) -> str:
    """Redact everything that has the format of a key.

    >>> redact_keys("Authorization: Bearer abc.def.ghi")
    'Authorization: Bearer [redacted]'
    """
    if len(text) < MIN_NAMED_LENGTH:
        return text
    text, lowercase = _hide_private_keys(text), text.lower()
    for name, (literals, _, is_secret) in KEY_FORMATS.items():
        if any(literal in lowercase for literal in literals):
            text = _compile_shape(name).sub(partial(_redact_match, is_secret), text)
    return text


def _redact_match(is_secret: Callable[[str], bool], match: re.Match[str]) -> str:
    """Return a match with its secret redacted if the predicate confirms it."""
    if not is_secret(match["secret"]):
        return match[0]
    begin, end = (place - match.start() for place in match.span("secret"))
    return match[0][:begin] + REDACTED + match[0][end:]


def _compile_shape(name: str, compiled: dict[str, re.Pattern[str]] = {}) -> re.Pattern[str]:  # noqa: B006  # a cache
    """Compile the expression of a key format on first use."""
    if name not in compiled:
        compiled[name] = re.compile(KEY_FORMATS[name][1])
    return compiled[name]


def _hide_private_keys(text: str) -> str:
    """Redact PEM blocks of private keys (RFC 7468), also truncated ones; certificates and public keys stay."""
    parts: list[str] = []
    at = 0
    if 0 <= text.find(_PEM_END) < (text + _PEM_BEGIN).find(_PEM_BEGIN):
        text = _hide_end_of_key(text)
    while (begin := text.find(_PEM_BEGIN, at)) >= 0:
        label = text[begin + len(_PEM_BEGIN) : begin + 80].partition("-----")[0]
        if "PRIVATE KEY" not in label:
            parts.append(text[at : begin + len(_PEM_BEGIN)])
            at = begin + len(_PEM_BEGIN)
            continue
        end = text.find(_PEM_END, begin)
        stop = text.find("-----", end + len(_PEM_END)) if end >= 0 else -1
        parts += [text[at:begin], REDACTED]
        at = stop + 5 if stop >= 0 else len(text)
    return "".join([*parts, text[at:]]) if parts else text


def _hide_end_of_key(text: str) -> str:
    """Redact the end of a private key whose begin is missing: the base64 lines before its END line."""
    before, _, rest = text.partition(_PEM_END)
    label, _, after = rest.partition("-----")
    if "PRIVATE KEY" not in label or len(label) > 80:
        return text
    lines = before.split("\n")
    while lines and (not lines[-1].strip() or re.fullmatch(r"[A-Za-z0-9+/=]+", lines[-1].strip())):
        lines.pop()
    return "".join(f"{line}\n" for line in lines) + REDACTED + after


def _is_key_open(text: str) -> bool:
    """Return whether a private key begins in the text and does not end there."""
    begin = text.rfind(_PEM_BEGIN)
    return begin >= 0 and "PRIVATE KEY" in text[begin : begin + 80] and _PEM_END not in text[begin:]


def truncate_at_word(text: str, max_length: int) -> str:
    """Truncate text that is not redacted yet at a word boundary: half of a secret would not be recognized.

    Args:
        text: The text.
        max_length: Maximum length in characters.
    """
    if len(text) <= max_length:
        return text
    end = max(text.rfind(mark, 0, max_length) for mark in " \n\t,;:=\"'(){}[]")
    return text[: end + 1 if end >= 0 else max_length]


def truncate_start(data: bytes, max_length: int) -> bytes:
    """Return the end of data that is not redacted yet, starting at a line or, for an overlong line, a word.

    Args:
        data: The data.
        max_length: Maximum length in bytes.
    """
    if len(data) <= max_length:
        return data
    end = data[-max_length:]
    return end.partition(b"\n")[2] or end.partition(b" ")[2] or end


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)


def _is_token(text: str) -> bool:
    """Return whether the word after "Bearer" is a token rather than an ordinary word."""
    return _has_digit(text) or text.endswith("=") or text.strip(".").count(".") > 1 or len(text) >= 40


def _is_specific(value: str, min_length: int) -> bool:
    """Return whether a value is specific enough to redact: no path, no number, no single word.

    >>> [_is_specific(value, 6) for value in ("hunter2", "production", "/srv/harbour", "0x1F", "123456")]
    [True, False, False, False, False]
    """
    number = value.replace(".", "").replace(",", "").lstrip("+-")
    is_common = value.startswith(("/", "~", ".", "$")) or number.isdecimal() or value.isalpha()
    return len(value) >= min_length and not is_common


def contains_key(value: str) -> bool:
    """Return whether a text contains a key in a known format (rows of SHAPES)."""
    return "${" not in value and redact_keys(value) != value
