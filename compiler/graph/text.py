"""The text form of a Graph: `parse(show(g)) == g`, source locations and dim symbols included.

    graph "mlp" {
      %0 = input(name="x") : f32[B=4, 8] @"mlp.tdsl:3:11"
      %1 = relu(%0) : f32[B=4, 8] {
        graph "relu" { … }
      }
      return %1 "y"
    }

The dtype and shape of a leaf are those of its type and are not written twice.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from .dtypes import DTYPES, DType
from .graph import MAX_REGION_DEPTH, Array, Attr, Graph, Node, make_attrs
from .types import Dim, TensorType, is_dim_expr, show_dim

_TYPED_LEAVES = frozenset(("input", "param", "full", "iota"))


class GraphTextError(ValueError):
    """Text that is not a Graph; the message says what was expected, and on which line."""


# ---- printing ------------------------------------------------------------------------------------


def show(graph: Graph) -> str:
    """Text of `graph`, ending in a newline."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield f"graph {json.dumps(graph.name)} {{"
    for node in graph.nodes:
        yield from ("  " + line for line in _node_lines(node))
    names = graph.output_names or ("",) * len(graph.outputs)
    pairs = zip(graph.outputs, names, strict=True)
    results = (f"%{v} {json.dumps(n)}" if graph.output_names else f"%{v}" for v, n in pairs)
    yield f"  return {', '.join(results)}".rstrip()
    yield "}"


def _node_lines(node: Node) -> Iterator[str]:
    hidden = ("dtype", "shape") if node.op in _TYPED_LEAVES else ()
    inside = [f"%{a}" for a in node.args]
    inside += [f"{k}={show_attr(v)}" for k, v in node.attrs if k not in hidden]
    outs = ", ".join(f"%{v}" for v in node.outs)
    at = f" @{json.dumps(node.loc)}" if node.loc else ""
    head = f"{outs} = {node.op}({', '.join(inside)}) : {', '.join(map(str, node.types))}{at}"
    if not node.regions:
        yield head
        return
    yield head + " {"
    for region in node.regions:
        yield from ("  " + line for line in _lines(region))
    yield "}"


def show_attr(value: Attr) -> str:
    """One attribute as text: `0.5`, `"sum"`, `(1, S=128)`, `f32`, `dense<f32[2], base64>`."""
    match value:
        case bool() | None:
            return {True: "true", False: "false", None: "none"}[value]
        case int():
            return show_dim(value)
        case float():
            return float.__repr__(value)
        case str():
            return json.dumps(value)
        case DType():
            return value.name
        case Array():
            return f"dense<{value.type}, {base64.b64encode(value.data).decode()}>"
        case tuple():
            return f"({', '.join(map(show_attr, value))}{',' if len(value) == 1 else ''})"


# ---- parsing -------------------------------------------------------------------------------------


_T = TypeVar("_T")
_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_VALUE = re.compile(r"%[0-9]+")
_WORD = re.compile(r"[^\W\d][\w.]*+")
_DIM = re.compile(r"([\w+*/%() -]++)=(-?[0-9]+)")
_COUNT = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"-?(?:inf\b|[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?)")
_BASE64 = re.compile(r"[A-Za-z0-9+/=]*+")
_WORDS: dict[str, Attr] = {"true": True, "false": False, "none": None, "nan": math.nan, "inf": math.inf, **DTYPES}


class _Reader:
    """A place in the text. Every method reads at it, past white space, and moves it behind what it took."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at: int = 0
        self.depth = 0

    def fail(self, wanted: str) -> GraphTextError:
        line = self.text.count("\n", 0, self.at) + 1
        found = self.text[self.at : self.at + 20].split("\n")[0] or "the end"
        return GraphTextError(f"line {line}: expected {wanted}, found {found!r}")

    def peek(self, literal: str) -> bool:
        if self.text[self.at : self.at + 1].isspace():
            space = _SPACE.match(self.text, self.at)
            self.at = space.end() if space else self.at
        return self.text.startswith(literal, self.at)

    def take(self, literal: str) -> bool:
        if not self.peek(literal):
            return False
        self.at += len(literal)
        return True

    def need(self, literal: str) -> None:
        if not self.take(literal):
            raise self.fail(f"'{literal}'")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self.peek("")
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def read(self, pattern: re.Pattern[str], wanted: str, made: Callable[[str], _T]) -> _T:
        """What `made` makes of the text of `pattern`; its ValueError means that the text is not `wanted`."""
        self.peek("")
        start = self.at
        found = self.match(pattern)
        try:
            if found:
                return made(found[0])
        except ValueError:
            self.at = start
        raise self.fail(wanted)

    def string(self) -> str:
        return self.read(_STRING, "a quoted string", json.loads)

    def value(self) -> int:
        return self.read(_VALUE, "a value such as %3", lambda text: int(text[1:]))

    def word(self) -> str:
        return self.read(_WORD, "a name", str)

    def dim(self) -> Dim | None:
        """A symbolic dim such as S=128 if one stands here."""
        start = self.at
        found = self.match(_DIM)
        if found and is_dim_expr(found[1]):
            self.at = start
            return self.read(_DIM, "a dim", lambda _: Dim(int(found[2]), found[1].strip()))
        self.at = start
        return None

    def items(self, close: str, item: Callable[[_Reader], _T]) -> Iterator[_T]:
        """Items between commas, up to and with `close`; a comma may stand after the last."""
        while not self.take(close):
            yield item(self)
            if not self.take(","):
                self.need(close)
                return

    def inner(self, inside: Callable[[_Reader], _T]) -> _T:
        """`inside` of something that nests."""
        if self.depth > MAX_REGION_DEPTH:
            raise self.fail(f"at most {MAX_REGION_DEPTH} levels")
        self.depth += 1
        made = inside(self)
        self.depth -= 1
        return made


def parse(text: str) -> Graph:
    """The Graph that `text` shows; GraphTextError when it shows none. Does not verify."""
    r = _Reader(text)
    graph = _graph(r)
    if r.peek("") and r.at != len(text):
        raise r.fail("the end of the text")
    return graph


def _graph(r: _Reader) -> Graph:
    r.need("graph")
    name = r.string()
    r.need("{")
    nodes: list[Node] = []
    while not r.take("return"):
        nodes.append(_node(r))
    results = list(r.items("}", _result))
    names = tuple(name for _, name in results if name is not None)
    if names and len(names) != len(results):
        raise r.fail("a name for every output or for none")
    return Graph(name, tuple(nodes), tuple(v for v, _ in results), names)


def _result(r: _Reader) -> tuple[int, str | None]:
    return r.value(), r.string() if r.peek('"') else None


def _node(r: _Reader) -> Node:
    outs = [r.value()]
    while r.take(","):
        outs.append(r.value())
    r.need("=")
    op = r.word()
    args, attrs = _inside(r)
    if op in _TYPED_LEAVES and attrs.keys() & {"dtype", "shape"}:
        raise r.fail("no dtype or shape but in the type")
    r.need(":")
    types = [_type(r)]
    while r.take(","):
        types.append(_type(r))
    if op in _TYPED_LEAVES:
        attrs |= {"dtype": types[0].dtype, "shape": types[0].shape}
    loc = r.string() if r.take("@") else ""
    return Node(op, tuple(args), make_attrs(attrs), tuple(types), tuple(outs), tuple(_regions(r)), loc)


def _regions(r: _Reader) -> Iterator[Graph]:
    if r.take("{"):
        while not r.take("}"):
            yield r.inner(_graph)


def _inside(r: _Reader) -> tuple[list[int], dict[str, Attr]]:
    """Operands, then attributes, of a node."""
    args: list[int] = []
    attrs: dict[str, Attr] = {}
    r.need("(")
    for item in r.items(")", lambda r: r.value() if r.peek("%") else _keyed(r)):
        if isinstance(item, int):
            args.append(item)
        elif item[0] in attrs:
            raise r.fail(f"the attribute {item[0]} once")
        else:
            attrs[item[0]] = item[1]
    return args, attrs


def _keyed(r: _Reader) -> tuple[str, Attr]:
    key = r.word()
    r.need("=")
    return key, _attr(r)


def _type(r: _Reader) -> TensorType:
    kind = r.read(_WORD, "a dtype", _dtype)
    r.need("[")
    return TensorType(kind, tuple(r.items("]", _size)))


def _dtype(name: str) -> DType:
    if name not in DTYPES:
        raise ValueError(name)
    return DTYPES[name]


def _size(r: _Reader) -> int:
    symbolic = r.dim()
    return r.read(_COUNT, "a dim", int) if symbolic is None else symbolic


def _attr(r: _Reader) -> Attr:
    if r.peek('"'):
        return r.string()
    if r.take("dense<"):
        return _dense(r)
    symbolic = r.dim()
    if symbolic is not None:
        return symbolic
    if r.take("("):
        return r.inner(lambda r: tuple(r.items(")", _attr)))
    found = r.match(_NUMBER)
    if found:
        r.at = found.start()
        return r.read(_NUMBER, "a number", float if found[1] or found[2] or "inf" in found[0] else int)
    return r.read(_WORD, "an attribute's value", _named)


def _named(word: str) -> Attr:
    if word not in _WORDS:
        raise ValueError(word)
    return _WORDS[word]


def _dense(r: _Reader) -> Array:
    t = _type(r)
    r.need(",")
    data = r.read(_BASE64, "base64", lambda text: base64.b64decode(text, validate=True))
    r.need(">")
    return Array(t, data)
