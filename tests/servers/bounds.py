"""Reads code for what waits without a limit: each `await`, `async for`, `async with`, and each loop around one.

A limit is a scope that is written around it (`anyio.fail_after`, `move_on_after`, a CancelScope with a deadline that is
not lifted meanwhile) or one that it brings along (`asyncio.wait_for`, `asyncio.wait` with a timeout, a sleep). A wait
for a coroutine of the same code is as bounded as that one, which is read too. It knows no names of the product.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

SCOPES = {"anyio.fail_after", "anyio.move_on_after"}
SLEEPS = {"asyncio.sleep", "anyio.sleep"}
ITEM = re.compile(r"^\w+\[(\w+)\]$")
MOMENTS = {"anyio.lowlevel.checkpoint"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, order=True)
class Wait:
    """File, function, and what is awaited, without its arguments; a loop around a wait is "while"."""

    file: str
    function: str
    what: str


@dataclass
class Names:
    """What the code defines: its plain coroutines; of each class its bases, its coroutines, and what methods return."""

    coroutines: set[str] = field(default_factory=set[str])
    bases: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    methods: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    returned: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def has_method(self, kind: str, name: str) -> bool:
        """Whether a class has a coroutine of that name, or inherits one."""
        return name in self.methods.get(kind, ()) or any(
            self.has_method(base, name) for base in self.bases.get(kind, ())
        )


def find_unbounded(sources: Mapping[str, str]) -> list[Wait]:
    """The waits without a limit in the files of a package; `sources` are their texts by name."""
    trees = {file: ast.parse(text) for file, text in sources.items()}
    names = read_names(trees.values())
    return sorted({wait for file, tree in trees.items() for wait in read_file(file, tree, names)})


def read_names(trees: Iterable[ast.Module]) -> Names:
    names = Names()
    for node in (node for tree in trees for node in tree.body):
        if isinstance(node, ast.AsyncFunctionDef):
            names.coroutines.add(node.name)
        elif isinstance(node, ast.ClassDef):
            functions = [one for one in node.body if isinstance(one, FUNCTIONS)]
            names.bases[node.name] = [ast.unparse(base) for base in node.bases]
            names.methods[node.name] = {one.name for one in functions if isinstance(one, ast.AsyncFunctionDef)}
            for one in functions:
                names.returned[node.name, one.name] = ast.unparse(one.returns) if one.returns else ""
    return names


def read_file(file: str, tree: ast.Module, names: Names) -> Iterator[Wait]:
    for kind, path, function in find_functions(tree, "", ()):
        reader = Reader(function, kind, names)
        yield from (Wait(file, ".".join(path), what) for what in reader.read())


def find_functions(node: ast.AST, kind: str, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...], Function]]:
    """(class around it or "", names down to it, function), of nested ones too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from find_functions(child, child.name, (*path, child.name))
        elif isinstance(child, FUNCTIONS):
            yield kind, (*path, child.name), child
            yield from find_functions(child, kind, (*path, child.name))
        else:
            yield from find_functions(child, kind, path)


class Reader:
    """Reads one function, and not those within it."""

    def __init__(self, function: Function, kind: str, names: Names) -> None:
        self._function, self._kind, self._names = function, kind, names
        self._scopes: set[str] = set()
        self._lifted: dict[str, int] = {}
        self._classes = {one.arg: ast.unparse(one.annotation) for one in list_arguments(function) if one.annotation}
        self._local = {one.arg for one in list_arguments(function)}
        self._endless = set(find_endless(function.args))
        for node in walk(function):
            if isinstance(node, ast.Assign):
                self._note(node)
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                self._classes[node.target.id] = ITEM.sub(r"\1", self._class_of(node.iter))

    def _note(self, node: ast.Assign) -> None:
        """Remembers scopes with a deadline, where it is lifted, and the class of a variable."""
        for target, value in pair_targets(node):
            if isinstance(target, ast.Name):
                self._local.add(target.id)
                self._classes[target.id] = self._class_of(value)
                if self._is_scope(value):
                    self._scopes.add(target.id)
            elif isinstance(target, ast.Attribute) and target.attr == "deadline" and is_endless(value):
                self._lifted[ast.unparse(target.value)] = node.lineno

    def read(self) -> Iterator[str]:
        for statement in self._function.body:
            yield from self._visit(statement, ())

    def _visit(self, node: ast.AST, limits: tuple[float, ...]) -> Iterator[str]:
        """`limits`: of each scope around it the line from which it is a limit no more."""
        is_bounded = any(getattr(node, "end_lineno", 0) < line for line in limits)
        if not is_bounded:
            yield from self._find_waits(node)
        if isinstance(node, ast.With):
            limits = (*limits, *(line for item in node.items for line in self._find_limit(item)))
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
                yield from self._visit(child, limits)

    def _find_waits(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Await(value=value) if not self._has_limit(value):
                yield name_call(value)
            case ast.AsyncFor(iter=value):
                yield f"async for {name_call(value)}"
            case ast.comprehension(iter=value, is_async=1):
                yield f"async for {name_call(value)}"
            case ast.AsyncWith(items=items):
                yield from (f"async with {name_call(item.context_expr)}" for item in items)
            case ast.While() if any(isinstance(child, ast.Await) for child in walk(node)):
                yield "while"
            case _:
                pass

    def _find_limit(self, item: ast.withitem) -> Iterator[float]:
        value, name = item.context_expr, item.optional_vars
        if isinstance(value, ast.Name) and value.id in self._scopes:
            name = value
        elif not self._is_scope(value):
            return
        yield self._lifted.get(ast.unparse(name), math.inf) if name else math.inf

    def _has_limit(self, value: ast.expr) -> bool:
        """Whether what is awaited ends by itself: it brings a limit along, or is a coroutine that is read too."""
        match value:
            case ast.IfExp(body=one, orelse=other):
                return self._has_limit(one) and self._has_limit(other)
            case ast.Call(func=ast.Name(id=name)):
                return name in self._names.coroutines and name not in self._local
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if self._names.has_method(
                self._class_of(owner), name
            ):
                return True
            case ast.Call():
                return self._is_limited(value)
            case _:
                return False

    def _is_limited(self, call: ast.Call) -> bool:
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        match ast.unparse(call.func), call.args:
            case "asyncio.wait_for", [_, limit]:
                return self._is_finite(limit)
            case "asyncio.wait", _:
                return "timeout" in named and self._is_finite(named["timeout"])
            case name, [limit] if name in SLEEPS:
                return self._is_finite(limit)
            case name, _:
                return name in MOMENTS

    def _is_scope(self, value: ast.expr) -> bool:
        """Whether it makes a scope that ends."""
        match value:
            case ast.Call(func=func, args=[limit, *_]) if ast.unparse(func) in SCOPES:
                return self._is_finite(limit)
            case ast.Call(func=func, keywords=keywords) if ast.unparse(func) == "anyio.CancelScope":
                return any(keyword.arg == "deadline" and self._is_finite(keyword.value) for keyword in keywords)
            case _:
                return False

    def _is_finite(self, limit: ast.expr) -> bool:
        return not is_endless(limit) and not (isinstance(limit, ast.Name) and limit.id in self._endless)

    def _class_of(self, value: ast.expr) -> str:
        """The class of an expression, as far as annotations say; else ""."""
        match value:
            case ast.Name(id="self"):
                return self._kind
            case ast.Name(id=name):
                return self._classes.get(name, "")
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                return self._names.returned.get((self._class_of(owner), name), "")
            case _:
                return ""


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """All below a node, but not within other functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            yield child
            yield from walk(child)


def list_arguments(function: Function) -> list[ast.arg]:
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def find_endless(arguments: ast.arguments) -> Iterator[str]:
    """The parameters that are no limit unless the caller gives one."""
    plain = [*arguments.posonlyargs, *arguments.args]
    given = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults]
    defaults = zip([*plain, *arguments.kwonlyargs], [*given, *arguments.kw_defaults], strict=True)
    yield from (argument.arg for argument, default in defaults if default is not None and is_endless(default))


def pair_targets(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each name or attribute that an assignment sets, and to what."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def is_endless(limit: ast.expr) -> bool:
    return ast.unparse(limit) in ("None", "math.inf", "float('inf')")


def name_call(value: ast.expr) -> str:
    """A call without its arguments; anything else as it is."""
    return ast.unparse(value.func if isinstance(value, ast.Call) else value)
