"""A record is to its users what a frozen dataclass is."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rkllm_chat.core.records import field, fields, record, replace


@record(frozen=True)
class Record:
    """A server."""

    name: str
    words: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    place: str = field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Dataclass:
    """A server."""

    name: str
    words: tuple[str, ...] = ()
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str], repr=False)
    place: str = dataclasses.field(default="", compare=False)


def set_name(kind: Any) -> None:
    kind("a").name = "b"


def delete_name(kind: Any) -> None:
    del kind("a").name


ALIKE: dict[str, Callable[[Any], object]] = {
    "values": lambda kind: vars(kind("a", ("b",), place="c")),
    "a default of its own": lambda kind: kind("a").secrets is kind("a").secrets,
    "text": lambda kind: repr(kind("a", secrets={"key": "value"})),
    "equal": lambda kind: (kind("a") == kind("a", place="x"), kind("a") == kind("b"), kind("a") == "a"),
    "hash": lambda kind: hash(dataclasses.replace(kind("a"), secrets=())) == hash(kind("a", secrets=(), place="x")),
    "cannot be hashed": lambda kind: hash(kind("a")),
    "replace": lambda kind: vars(dataclasses.replace(kind("a"), words=("b",))),
    "replace what is not there": lambda kind: dataclasses.replace(kind("a"), word=("b",)),
    "as a table": lambda kind: dataclasses.asdict(kind("a", secrets={"key": "value"})),
    "fields": lambda kind: [(field.name, field.repr, field.compare) for field in dataclasses.fields(kind)],
    "is a dataclass": lambda kind: (dataclasses.is_dataclass(kind), dataclasses.is_dataclass(kind("a"))),
    "signature": inspect.signature,
    "documentation": inspect.getdoc,
    "matched": lambda kind: kind.__match_args__,
    "pickled": lambda kind: pickle.loads(pickle.dumps(kind("a"))) == kind("a"),
    "copied": lambda kind: copy.deepcopy(kind("a")) == kind("a"),
    "without a value": lambda kind: kind(),
    "with too many values": lambda kind: kind(*"abcdef"),
    "with a name twice": lambda kind: kind("a", name="b"),
    "with a name that is not there": lambda kind: kind("a", names="b"),
    "set": set_name,
    "deleted": delete_name,
}


def observe(action: Callable[[Any], object], kind: type) -> object:
    """Return what an action gives or raises."""
    try:
        outcome = action(kind)
    except (TypeError, AttributeError) as error:
        return type(error), str(error).replace("Dataclass", "Record")
    return outcome.replace("Dataclass", "Record") if isinstance(outcome, str) else outcome


@pytest.mark.parametrize("name", ALIKE)
def test_a_record_is_to_its_users_what_a_frozen_dataclass_is(name: str) -> None:
    assert observe(ALIKE[name], Record) == observe(ALIKE[name], Dataclass)


def test_fields_and_replace_of_a_record_need_no_dataclasses() -> None:
    assert [field.name for field in fields(Record)] == ["name", "words", "secrets", "place"]
    assert replace(Record("a"), words=("b",)) == Record("a", ("b",))
