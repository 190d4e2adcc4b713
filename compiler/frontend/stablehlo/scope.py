"""What names stand for while a function or region is imported, and what one import shares.

A region becomes a graph of its own: values it reads from outside become operands after its own, but literals are
written again inside. Functions are inlined. Must not know what operations mean.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ...graph import OPS, Builder, Graph, InferError, NDArray, Node, TensorType, live
from ...graph.dtypes import BOOL
from ...graph.evaluate import REFERENCE
from ...source import Diagnostic, Note, nearest
from .call import Call, Handler, Refused
from .literals import Unreadable
from .syntax import Block, Function, Module, Operation
from .types import NoTensor, tensor_type

# Calls and regions within each other; deeper ones would come near Python's own limit.
MAX_DEPTH = 56
# Operations imported, inlined functions counted at each call: a few lines can ask for more than any memory has.
MAX_OPERATIONS = 200_000
# A float literal of more elements is a weight, on whose values a build need not depend.
FEW_FLOATS = 64
_MOST_PLACES = 6
_MOST_KINDS = 40
TERMINATORS = ("func.return", "stablehlo.return", "chlo.return", "mhlo.return")


class TooLarge(Exception):
    """The import was given up: what it makes is beyond a limit."""


@dataclass(slots=True)
class Session:
    """What all scopes of one import share: the module, the handlers, and everything wrong so far."""

    module: Module
    handlers: Mapping[str, Handler]
    precision: str
    notes: dict[str, None] = field(default_factory=dict[str, None])
    faults: dict[tuple[str, str], list[tuple[Operation, Diagnostic]]] = field(
        default_factory=dict[tuple[str, str], list[tuple[Operation, Diagnostic]]]
    )
    calls: list[str] = field(default_factory=list[str])
    weights: dict[str, NDArray] | None = None
    taken_out: dict[int, int] = field(default_factory=dict[int, int])
    depth: int = 0
    operations: int = 0

    def fault(self, op: Operation, why: str, help: str | None, code: str) -> None:
        span = self.module.file.span(op.start, max(op.start, min(op.end, op.start + 120)))
        found = Diagnostic(code, f"{op.name} {why}", span, help=help)
        self.faults.setdefault((op.name, why), []).append((op, found))

    def diagnostics(self) -> list[Diagnostic]:
        """One of each kind of fault, with the other places where it stands; every place once."""
        out: list[Diagnostic] = []
        for rows in self.faults.values():
            places = list({op.start: d for op, d in rows}.values())
            first, more = places[0], places[1:]
            notes = [Note(f"{first.message.split(' ')[0]} here too", d.span) for d in more[:_MOST_PLACES]]
            if len(more) > _MOST_PLACES:
                notes.append(Note(f"and in {len(more) - _MOST_PLACES} more places"))
            out.append(Diagnostic(first.code, first.message, first.span, tuple(notes), first.help))
        if len(out) > _MOST_KINDS:
            rest = len(out) - _MOST_KINDS
            out = [*out[:_MOST_KINDS], Diagnostic("E1105", f"{rest} more kinds of operations cannot be imported")]
        return out

    @contextmanager
    def deeper(self) -> Generator[None]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLarge(f"calls and regions lie more than {MAX_DEPTH} deep in each other")
        try:
            yield
        finally:
            self.depth -= 1


@dataclass(slots=True)
class Scope:
    """The values of one block and the builder they are in; `outer` is where captured names are looked up."""

    session: Session
    b: Builder
    values: dict[str, int] = field(default_factory=dict[str, int])
    outer: Scope | None = None
    captured: dict[str, int] = field(default_factory=dict[str, int])
    wanted: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    poisoned: set[str] = field(default_factory=set[str])

    # ---- names -------------------------------------------------------------------------------------

    def look_up(self, name: str) -> int | None:
        """The value called `name`, captured from outside where need be; None when nothing is called so."""
        found = self.values.get(name)
        if found is None:  # `%x` and `%x#0` are one
            found = self.values.get(name[:-2] if name.endswith("#0") else f"{name}#0")
        if found is not None or self.outer is None:
            return found
        if name in self.captured:
            return self.captured[name]
        beyond = self.outer.look_up(name)
        if beyond is None:
            return None
        literal = self.outer.literal(beyond)
        if literal is not None:
            made = self.b.copy(literal, ())[0]
        else:
            made = self.b.input(f"c{len(self.wanted)}", self.outer.b.types[beyond])
            self.wanted.append((name, beyond))
        self.captured[name] = made
        return made

    def literal(self, value: int) -> Node | None:
        """The node of `value` when it is a literal of the builder's."""
        node = self.node(value)
        return node if node is not None and node.op in ("full", "constant", "iota") else None

    def node(self, value: int) -> Node | None:
        """The node that makes `value`; values are numbered as their nodes stand."""
        nodes = self.b.nodes
        at = bisect_left(nodes, value, key=lambda n: n.outs[-1])
        return nodes[at] if at < len(nodes) and value in nodes[at].outs else None

    def weight(self, op: Operation, array: NDArray, t: TensorType) -> int | None:
        """The param that a literal of many floats becomes where weights are taken out of the text; None elsewhere."""
        weights = self.session.weights
        if weights is None or self.outer is not None or not t.dtype.is_float or array.size <= FEW_FLOATS:
            return None
        if op.start not in self.session.taken_out:
            name = f"weights.w{len(weights)}"
            weights[name] = array
            self.session.taken_out[op.start] = self.b.param(name, t)
        return self.session.taken_out[op.start]

    # ---- blocks ------------------------------------------------------------------------------------

    def run(self, block: Block) -> tuple[int, ...] | None:
        """Imports the operations of `block`; what its terminator returns, None where some of that could not be made."""
        for op in block.operations:
            if op.name in TERMINATORS:
                return self._returned(op)
            self._operation(op)
        return ()

    def _returned(self, op: Operation) -> tuple[int, ...] | None:
        try:
            return self._operands(op)
        except Refused as refused:
            self.session.fault(op, refused.why, refused.help, refused.code)
            return None

    def _operation(self, op: Operation) -> None:
        """Imports one operation. One that cannot be is noted, and zeros stand in for it: the rest is to be seen too."""
        self.session.operations += 1
        if self.session.operations > MAX_OPERATIONS:
            raise TooLarge(f"more than {MAX_OPERATIONS} operations, inlined functions counted at each call")
        self.b.loc = self._place(op.start)
        try:
            made = self._made(op)
        except Refused as refused:
            self.session.fault(op, refused.why, refused.help, refused.code)
            made = None
        except (InferError, Unreadable) as error:
            self.session.fault(op, f"does not fit: {error}", None, "E1106")
            made = None
        for i, name in enumerate(op.results):
            value = made[i] if made is not None else self._stand_in(op, i)
            if value is None:
                self.poisoned.add(name)
            else:
                self.values[name] = value

    def _place(self, offset: int) -> str:
        file = self.session.module.file
        line, column = file.position(offset)
        return f"{file.path.replace(chr(92), '/').rsplit('/', 1)[-1]}:{line}:{column}"

    def _made(self, op: Operation) -> Sequence[int] | None:
        """The values of one operation; None when an operand could not be made, which has been said already."""
        handler = self.session.handlers.get(op.name)
        if handler is None:
            raise Refused("is not supported", _instead(op, self.session.handlers), "E1105")
        args = self._operands(op)
        gives = self._stated(op)
        if args is None:
            return None
        made = handler(Call(op, args, gives, self))
        values = (made,) if isinstance(made, int) else tuple(made)
        if not op.results:
            return ()
        if len(values) != len(op.results):
            raise Refused(f"has {len(values)} results, and {len(op.results)} are named")
        for value, stated in zip(values, gives, strict=True):
            if self.b.types[value] != stated:
                raise Refused(f"gives {self.b.types[value]} where the text states {stated}")
        return tuple(map(self._folded, values))

    def _folded(self, value: int) -> int:
        """`value`, or the literal that it is where its node works on literals that are one number everywhere."""
        node = self.node(value)
        if node is None or node.op not in OPS or not node.args or node.regions:
            return value
        numbers = [x for a in node.args if (x := self._number(a)) is not None]
        if len(numbers) != len(node.args):
            return value
        if node.op in ("broadcast", "reshape", "transpose"):
            (made,) = numbers
        elif "elementwise" in OPS[node.op].traits:
            made = OPS[node.op].eval(numbers, dict(node.attrs), _scalars(node), REFERENCE)[0]
        else:
            return value
        number = made.item() if made.dtype.kind in "fiub" else made.astype(np.float64).item()
        return self.b.full(int(number) if node.type.dtype.is_int else number, node.type.dtype, node.type.shape)

    def _number(self, value: int) -> NDArray | None:
        """The one number that a literal is everywhere, as an array without axes."""
        node = self.node(value)
        if node is None or node.op != "full":
            return None
        return OPS["full"].eval([], {**dict(node.attrs), "shape": ()}, _scalars(node), REFERENCE)[0]

    def _stated(self, op: Operation) -> tuple[TensorType, ...]:
        found: list[TensorType] = []
        for text in op.result_types:
            t = tensor_type(text)
            if isinstance(t, NoTensor):
                raise Refused(f"gives no tensor of ours: {t.why}", t.help, t.code)
            found.append(t)
        return tuple(found)

    def _operands(self, op: Operation) -> tuple[int, ...] | None:
        found: list[int] = []
        for name in op.operands:
            value = self.look_up(name)
            if value is None and not self._is_poisoned(name):
                raise Refused(f"reads {name}, which nothing before it makes")
            if value is None:
                return None
            found.append(value)
        return tuple(found)

    def _is_poisoned(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.poisoned:
                return True
            scope = scope.outer
        return False

    def _stand_in(self, op: Operation, i: int) -> int | None:
        t = tensor_type(op.result_types[i])
        return None if isinstance(t, NoTensor) else self.b.full(False if t.dtype == BOOL else 0, t.dtype, t.shape)

    # ---- regions and calls -------------------------------------------------------------------------

    def region(self, block: Block, takes: Sequence[TensorType], name: str) -> tuple[Graph, list[str]]:
        """(`block` as a graph of operands of the types `takes`, then of what it captures; names of the captures)."""
        if len(block.arguments) != len(takes):
            raise Refused(f"has a region of {len(block.arguments)} arguments where {len(takes)} are given")
        b = Builder(name.split(".")[-1], self.b.loc)
        inner = Scope(self.session, b, outer=self)
        for i, (argument, t) in enumerate(zip(block.arguments, takes, strict=True)):
            stated = tensor_type(argument.type) if argument.type else t
            if stated != t:
                raise Refused(f"has a region whose argument {argument.name} is {argument.type} where it is given {t}")
            inner.values[argument.name] = b.input(f"a{i}", t)
        with self.session.deeper():
            outputs = inner.run(block)
        if outputs is None:
            raise Refused("has a region that cannot be imported")
        return live(b.finish(outputs)), [name for name, _ in inner.wanted]

    def closed(
        self, blocks: Sequence[tuple[Block, Sequence[TensorType]]], name: str
    ) -> tuple[list[Graph], tuple[int, ...]]:
        """Regions that all take the same captures after their own operands, and the captured values."""
        made = [(self.region(block, takes, name), len(takes)) for block, takes in blocks]
        names = list(dict.fromkeys(n for (_, wanted), _ in made for n in wanted))
        found = {n: v for n in names if (v := self.look_up(n)) is not None}
        types = [(n, self.b.types[v]) for n, v in found.items()]
        return [_with_captures(g, own, wanted, types) for (g, wanted), own in made], tuple(found.values())

    def call(self, function: Function, args: Sequence[int]) -> tuple[int, ...]:
        """The results of `function` on `args`, inlined."""
        if function.name in self.session.calls:
            raise Refused(f"@{function.name} calls itself, directly or not", "write the recursion as a while", "E1104")
        if function.body is None:
            raise Refused(f"@{function.name} has no body", "give the text of the whole module", "E1104")
        if len(args) != len(function.arguments):
            raise Refused(f"@{function.name} takes {len(function.arguments)} operands, got {len(args)}")
        inner = Scope(self.session, self.b)
        for argument, value in zip(function.arguments, args, strict=True):
            stated = tensor_type(argument.type)
            if stated != self.b.types[value]:
                raise Refused(f"@{function.name} takes {argument.type} as {argument.name}, got {self.b.types[value]}")
            inner.values[argument.name] = value
        self.session.calls.append(function.name)
        try:
            with self.session.deeper():
                results = inner.run(function.body)
        finally:
            self.session.calls.pop()
        if results is None:
            raise Refused(f"@{function.name} cannot be imported")
        return results


def _scalars(node: Node) -> tuple[TensorType, ...]:
    return tuple(t.with_shape(()) for t in node.types)


def _with_captures(graph: Graph, own: int, wanted: Sequence[str], captures: Sequence[tuple[str, TensorType]]) -> Graph:
    """`graph` taking all `captures` after its `own` operands, in their order, whichever of them it reads."""
    b = Builder(graph.name)
    given = [b.input(f"a{i}", n.type) for i, n in enumerate(graph.inputs[:own])]
    names = {n: b.input(f"c{i}", t) for i, (n, t) in enumerate(captures)}
    return b.finish(b.inline(graph, [*given, *(names[n] for n in wanted)]))


def _instead(op: Operation, handlers: Mapping[str, Handler]) -> str:
    dialect = op.name.split(".")[0]
    if dialect not in ("stablehlo", "chlo"):
        return f"lower the dialect `{dialect}` to StableHLO before"
    near = nearest(op.name, list(handlers))
    return f"did you mean `{near}`?" if near else "write it with other operations, or cut the model there"
