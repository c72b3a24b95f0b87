"""Frozen dataclasses for modules that a one-shot call imports, without the cost of `dataclasses`.

`dataclasses` imports inspect, ast, dis and tokenize, and compiles functions for each class: a fifth of the processor
time of `call-tool` (measured, Python 3.11). A record compiles nothing. To type checkers it is a dataclass; to
`dataclasses.fields`, `replace` and `asdict` and to `inspect.signature`, too: what these read of a class is made when
they first ask for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NoReturn

__all__ = ["field", "fields", "record", "replace"]
_MISSING: Any = object()


class _Field:
    """A field of a record; the arguments are those of `dataclasses.field`."""

    def __init__(
        self,
        *,
        default: Any = _MISSING,
        default_factory: Callable[[], Any] | None = None,
        repr: bool = True,  # noqa: A002 - the name that dataclasses give it
        compare: bool = True,
    ) -> None:
        self.name = ""
        self.default, self.default_factory, self.repr, self.compare = default, default_factory, repr, compare


def _record(*, frozen: Literal[True]) -> Callable[[type], type]:  # noqa: ARG001 - there are no others
    """Return the decorator that makes a class a record; its fields are the names that its body annotates."""
    return _make_record


def _make_record(kind: type) -> type:
    listed: dict[str, _Field] = {}
    for name in kind.__annotations__:
        value = kind.__dict__.get(name, _MISSING)
        listed[name] = value if isinstance(value, _Field) else _Field(default=value)
        listed[name].name = name
        if value is listed[name]:
            delattr(kind, name)
    for name, member in {"__record_fields__": listed, "__match_args__": tuple(listed), **_MEMBERS}.items():
        setattr(kind, name, member)
    return kind


def _initialize(self: Any, *values: Any, **named: Any) -> None:
    listed: dict[str, _Field] = self.__record_fields__
    given = {**dict(zip(listed, values, strict=False)), **named}
    has_misfit = len(given) < len(values) + len(named) or not given.keys() <= listed.keys()
    for name, field in listed.items():
        value = given[name] if name in given else field.default_factory() if field.default_factory else field.default
        has_misfit = has_misfit or value is _MISSING
        self.__dict__[name] = value
    if has_misfit:
        _find_dataclass(self.__class__)(*values, **named)  # raises TypeError and says what does not fit


def _replace(self: Any, /, **changes: Any) -> Any:
    return type(self)(**{**self.__dict__, **changes})


def _list_values(self: Any) -> tuple[Any, ...]:
    return tuple(self.__dict__[name] for name, field in self.__record_fields__.items() if field.compare)


def _equals(self: Any, other: object) -> bool:
    return _list_values(self) == _list_values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_list_values(self))


def _describe(self: Any) -> str:
    shown = [f"{name}={self.__dict__[name]!r}" for name, field in self.__record_fields__.items() if field.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_assignment(_self: object, name: str, _value: object) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_self: object, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


@cache
def _find_dataclass(kind: type) -> Any:
    """Return a dataclass with the fields of a record."""
    from dataclasses import field, make_dataclass

    members = []
    for known in _list_fields(kind):
        default = {} if known.default is _MISSING else {"default": known.default}
        default = {"default_factory": known.default_factory} if known.default_factory else default
        members.append(
            (known.name, kind.__annotations__[known.name], field(**default, repr=known.repr, compare=known.compare))
        )
    return make_dataclass(kind.__name__, members, frozen=True)


class _OfDataclass:
    """A member of a record's class that is read from the dataclass with the same fields."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read

    def __get__(self, record: object, kind: type) -> Any:
        return self._read(_find_dataclass(kind))


def _read_signature(kind: Any) -> Any:
    from inspect import signature

    return signature(kind)


_MEMBERS: dict[str, Any] = {
    "__init__": _initialize,
    "__replace__": _replace,
    "__eq__": _equals,
    "__hash__": _hash,
    "__repr__": _describe,
    "__setattr__": _refuse_assignment,
    "__delattr__": _refuse_deletion,
    "__dataclass_fields__": _OfDataclass(lambda kind: kind.__dataclass_fields__),
    "__dataclass_params__": _OfDataclass(lambda kind: kind.__dataclass_params__),
    "__signature__": _OfDataclass(_read_signature),
}


def _list_fields(kind: Any) -> tuple[_Field, ...]:
    return tuple(kind.__record_fields__.values())


if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from dataclasses import field, fields, replace
else:
    record, field, fields, replace = _record, _Field, _list_fields, _replace
