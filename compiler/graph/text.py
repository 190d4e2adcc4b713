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
from collections.abc import Iterator

from .dtypes import DTYPES, DType
from .graph import Array, Attr, Graph, Node, make_attrs
from .types import Dim, TensorType, show_dim

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
    results = (f"%{v}" + (f" {json.dumps(n)}" if graph.output_names else "") for v, n in zip(graph.outputs, names, strict=True))
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
            return repr(value) if math.isfinite(value) else str(value)
        case str():
            return json.dumps(value)
        case DType():
            return value.name
        case Array():
            return f"dense<{value.type}, {base64.b64encode(value.data).decode()}>"
        case tuple():
            return f"({', '.join(map(show_attr, value))}{',' if len(value) == 1 else ''})"


# ---- parsing -------------------------------------------------------------------------------------

class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def fail(self, wanted: str) -> GraphTextError:
        line = self.text.count("\n", 0, self.at) + 1
        found = self.text[self.at : self.at + 20].split("\n")[0] or "the end"
        return GraphTextError(f"line {line}: expected {wanted}, found {found!r}")

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self, literal: str) -> bool:
        self.skip()
        return self.text.startswith(literal, self.at)

    def take(self, literal: str) -> bool:
        if not self.peek(literal):
            return False
        self.at += len(literal)
        return True

    def need(self, literal: str) -> None:
        if not self.take(literal):
            raise self.fail(f"'{literal}'")

    def match(self, pattern: str, wanted: str) -> str:
        self.skip()
        found = re.compile(pattern).match(self.text, self.at)
        if not found:
            raise self.fail(wanted)
        self.at = found.end()
        return found[0]

    def string(self) -> str:
        return json.loads(self.match(r'"(?:[^"\\]|\\.)*"', "a quoted string"))

    def value(self) -> int:
        return int(self.match(r"%\d+", "a value such as %3")[1:])

    def name(self) -> str:
        return self.match(r"[A-Za-z_][\w.]*", "a name")


def parse(text: str) -> Graph:
    """The Graph that `text` shows; GraphTextError when it shows none. Does not verify."""
    r = _Reader(text)
    graph = _graph(r)
    r.skip()
    if r.at != len(text):
        raise r.fail("the end of the text")
    return graph


def _graph(r: _Reader) -> Graph:
    r.need("graph")
    name = r.string()
    r.need("{")
    nodes: list[Node] = []
    while not r.peek("return"):
        nodes.append(_node(r))
    r.need("return")
    outputs: list[int] = []
    names: list[str] = []
    while r.peek("%"):
        outputs.append(r.value())
        if r.peek('"'):
            names.append(r.string())
        r.take(",")
    r.need("}")
    return Graph(name, tuple(nodes), tuple(outputs), tuple(names))


def _node(r: _Reader) -> Node:
    outs = [r.value()]
    while r.take(","):
        outs.append(r.value())
    r.need("=")
    op = r.name()
    args, attrs = _inside(r)
    r.need(":")
    types = [_type(r)]
    while r.take(","):
        types.append(_type(r))
    if op in _TYPED_LEAVES:
        attrs |= {"dtype": types[0].dtype, "shape": types[0].shape}
    loc = r.string() if r.take("@") else ""
    regions: list[Graph] = []
    if r.take("{"):
        while not r.take("}"):
            regions.append(_graph(r))
    return Node(op, tuple(args), make_attrs(attrs), tuple(types), tuple(outs), tuple(regions), loc)


def _inside(r: _Reader) -> tuple[list[int], dict[str, Attr]]:
    args: list[int] = []
    attrs: dict[str, Attr] = {}
    r.need("(")
    while not r.take(")"):
        if r.peek("%"):
            args.append(r.value())
        else:
            key = r.name()
            r.need("=")
            attrs[key] = _attr(r)
        r.take(",")
    return args, attrs


def _type(r: _Reader) -> TensorType:
    name = r.match(r"[a-z]+\d*(e\dm\d)?", "a dtype")
    if name not in DTYPES:
        raise r.fail(f"a dtype (not {name})")
    r.need("[")
    shape: list[int] = []
    while not r.take("]"):
        shape.append(_number(r.match(r"[^,\]]+", "a dim")))  # pyright: ignore[reportArgumentType]
        r.take(",")
    return TensorType(DTYPES[name], tuple(shape))


def _number(text: str) -> Attr:
    text = text.strip()
    if "=" in text:
        expr, _, value = text.rpartition("=")
        return Dim(int(value), expr)
    try:
        return int(text)
    except ValueError:
        return float(text)


def _attr(r: _Reader) -> Attr:
    if r.peek('"'):
        return r.string()
    if r.take("dense<"):
        t = _type(r)
        r.need(",")
        data = base64.b64decode(r.match(r"[A-Za-z0-9+/=]*", "base64"))
        r.need(">")
        return Array(t, data)
    if r.peek("(") and not re.compile(r"\s*\([\w+*/%() -]*\)[-+*/%][^,]*=").match(r.text, r.at):
        return _tuple(r)
    words = {"true": True, "false": False, "none": None, "nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    start = r.at
    word = r.match(r"-?[A-Za-z][\w]*", "a value") if re.match(r"\s*-?[A-Za-z]", r.text[r.at : r.at + 40]) else ""
    if word in words and not r.peek("="):
        return words[word]
    if word in DTYPES and not r.peek("="):
        return DTYPES[word]
    r.at = start
    try:
        return _number(r.match(r"[^,)]*\([^)]*\)[^,)]*=-?\d+|[^,)]+", "an attribute value"))
    except ValueError:
        raise r.fail("an attribute value") from None


def _tuple(r: _Reader) -> tuple[Attr, ...]:
    r.need("(")
    items: list[Attr] = []
    while not r.take(")"):
        items.append(_attr(r))
        r.take(",")
    return tuple(items)
