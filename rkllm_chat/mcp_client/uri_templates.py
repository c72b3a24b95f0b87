"""Find the variable of a URI template (RFC 6570) that the end of a partly typed URI belongs to. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mcp import UriTemplate

_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_END_MARK = "~"
"""Appended to what is typed, so that an empty value matches; an unreserved character, so it is never encoded."""
_Values = Mapping[str, str | list[str]]


@dataclass(frozen=True)
class OpenVariable:
    """The variable of a template whose value is being typed.

    Attributes:
        name: Its name.
        typed: Its value so far.
        context: The variables before it.
        template: The template up to this variable.
        following: The literal text that follows it.
        values: All variables as the template takes them.
    """

    name: str
    typed: str
    context: dict[str, str]
    template: UriTemplate
    following: str = ""
    values: _Values = field(default_factory=dict[str, "str | list[str]"])

    def expand(self, value: str) -> str:
        """Return the URI with this value of the variable, and the literal text behind it."""
        before = self.values[self.name]
        new = value if isinstance(before, str) else [*before[:-1], value]
        return self.template.expand({**self.values, self.name: new}) + self.following


def find_open_variable(template: str, prefix: str) -> OpenVariable | None:
    """Return the last variable that can begin in `prefix` and reach its end; None if there is none.

    Args:
        template: A URI template.
        prefix: A URI whose end is not typed yet.
    """
    found = None
    try:
        for part, name, following in _truncate_at_variables(template):
            parsed = UriTemplate.parse(part)
            values = parsed.match(prefix + _END_MARK)
            if values is None or not (typed := _typed_of(values.get(name, ""))).endswith(_END_MARK):
                continue
            mine = values[name]
            typed = typed.removesuffix(_END_MARK)
            values = {**values, name: typed if isinstance(mine, str) else [*mine[:-1], typed]}
            context = {key: _typed_of(value) for key, value in values.items() if key != name}
            found = OpenVariable(name, typed, context, parsed, following, values)
    except ValueError:  # not a template; InvalidUriTemplate is a ValueError
        return None
    return found


def _typed_of(value: str | list[str]) -> str:
    """Return a value as text; of a list, the last element."""
    return value if isinstance(value, str) else value[-1] if value else ""


def _truncate_at_variables(template: str) -> Iterator[tuple[str, str, str]]:
    """Yield for each variable: the template up to it, its name, and the literal text behind it."""
    expressions = list(_EXPRESSION.finditer(template))
    ends = [match.start() for match in expressions[1:]] + [len(template)]
    for match, end in zip(expressions, ends, strict=True):
        operator, names = match[1], match[2].split(",")
        for i, name in enumerate(names):
            part = f"{template[: match.start()]}{{{operator}{','.join(names[: i + 1])}}}"
            following = template[match.end() : end] if i == len(names) - 1 else ""
            yield part, name.rstrip("*").partition(":")[0], following
