"""From a Graph to StableHLO text: a module with one function, that other compilers read and `import_text` too.

Composites are written as what they mean. Params are constants where their values are given, else arguments after the
inputs. Loops become while operations. Must not know targets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...graph import Graph, NDArray, Node, TensorType, expand
from ...source import Diagnostic, DiagnosticError
from . import export_ops, export_regions
from .export_ops import Write
from .types import type_text

WRITERS: dict[str, Write] = {**export_ops.WRITERS, **export_regions.WRITERS}
_PLAIN = re.compile(r"[A-Za-z_][\w$.-]*")
_STRANGE = re.compile(r"[^\w$.-]")


def export_text(graph: Graph, params: Mapping[str, NDArray] | None = None) -> str:
    """`graph` as a StableHLO module whose function is @main. `import_text` of it evaluates as `graph` does.

    `params` are values by name, of the declared dtypes, which become constants; params without one are arguments after
    the graph's inputs. DiagnosticError (E1105) names every op that StableHLO has no counterpart of.
    """
    w = Writer(depth=2)
    whole = expand(graph)
    values: dict[int, str] = {}
    arguments: list[str] = []
    given = params or {}
    loose = [n for n in whole.params if n.attr("name") not in given]
    for leaf in (*whole.inputs, *loose):
        name = w.argument(str(leaf.attr("name")))
        values[leaf.out] = name
        arguments.append(f"{name}: {type_text(leaf.type)}")
    for leaf in whole.params:
        if leaf.out not in values:
            values[leaf.out] = export_ops.literal(w, given[str(leaf.attr("name"))], leaf.type)
    outputs = w.graph(whole, values)
    if w.missing:
        said = f"StableHLO has no counterpart of {', '.join(sorted(w.missing))}"
        raise DiagnosticError(Diagnostic("E1105", said, help="write the model without, or export it to ONNX"))
    types = whole.output_types
    w.line(f"return {', '.join(outputs)} : {', '.join(map(type_text, types))}" if outputs else "return")
    results = ", ".join(f"{type_text(t)}{_named(n)}" for t, n in zip(types, _names(whole), strict=True))
    head = f"module @{_word(whole.name)} {{\n  func.func public @main({', '.join(arguments)}) -> ({results}) {{\n"
    return head + "\n".join(w.lines) + "\n  }\n}\n"


def _names(graph: Graph) -> Sequence[str]:
    return graph.output_names or ("",) * len(graph.outputs)


def _named(name: str) -> str:
    return f' {{jax.result_info = "result.{_word(name)}"}}' if name else ""


def _word(name: str) -> str:
    plain = _STRANGE.sub("_", name) or "model"
    return plain if _PLAIN.fullmatch(plain) else f"_{plain}"


@dataclass(slots=True)
class Writer:
    """Lines so far, and what numbers and names are taken."""

    lines: list[str] = field(default_factory=list[str])
    missing: set[str] = field(default_factory=set[str])
    used: set[str] = field(default_factory=set[str])
    depth: int = 0
    count: int = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def fresh(self) -> str:
        """A name no other value has; numbers are this writer's own, as no argument is a number."""
        self.count += 1
        return f"%{self.count - 1}"

    def argument(self, name: str) -> str:
        plain = _word(name)
        while plain in self.used:
            plain += "_"
        self.used.add(plain)
        return f"%{plain}"

    def op(self, text: str, types: str) -> str:
        """Appends `%n = text : types`; the name."""
        name = self.fresh()
        self.line(f"{name} = {text} : {types}")
        return name

    def call(self, op: str, args: Sequence[str], takes: Sequence[TensorType], gives: TensorType, more: str = "") -> str:
        """An operation of one result, with a function type."""
        return self.op(f"{op} {', '.join(args)}{more}", signature(takes, (gives,)))

    def region(self, takes: Sequence[TensorType]) -> tuple[list[str], str]:
        """Names for the arguments of a region, and the label they are declared by."""
        names = [self.fresh() for _ in takes]
        declared = ", ".join(f"{n}: {type_text(t)}" for n, t in zip(names, takes, strict=True))
        return names, f"^bb0({declared}):" if names else ""

    def graph(self, graph: Graph, values: dict[int, str]) -> list[str]:
        """Writes the nodes of `graph`, whose leaves `values` names; the names of its outputs."""
        for node in graph.nodes:
            if node.op not in ("input", "param"):
                self.node(node, graph, values)
        return [values[v] for v in graph.outputs]

    def node(self, node: Node, graph: Graph, values: dict[int, str]) -> None:
        write = WRITERS.get(node.op)
        args = [values[a] for a in node.args]
        takes = [graph.types[a] for a in node.args]
        if write is None:
            self.missing.add(node.op)
        made = write(self, node, args, takes) if write else [self.fresh() for _ in node.outs]
        values.update(zip(node.outs, made, strict=True))


def signature(takes: Sequence[TensorType], gives: Sequence[TensorType]) -> str:
    results = ", ".join(map(type_text, gives))
    return f"({', '.join(map(type_text, takes))}) -> {results if len(gives) == 1 else f'({results})'}"
