"""Frames: graphs while they are being built, one inside the other.

A frame is the graph of a model, of a composite or of a `repeat`'s body. A tensor belongs to one frame; read from a
frame inside, it becomes a capture of every loop between. Must not know syntax.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from ..graph import Attr, Builder, DType, Graph, TensorType, live, renumber
from ..graph.ops.control import INDEX

# A graph of more nodes than this takes minutes to compile; a loop that was meant as `repeat` gets there first.
MAX_NODES = 50_000
# Positions in a tensor are counted in i32, as the results of arange and argmax are.
MAX_ELEMENTS = 2**31 - 1
# NumPy has at most 64 axes, and so has the reference evaluator; lowering adds some of its own.
MAX_RANK = 32
# Loops of more trips than this are not models.
MAX_TRIPS = 1_000_000


class LimitError(ValueError):
    """A model is larger than the compiler takes; the text says in what."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A value of `frame`'s graph."""

    frame: Frame
    id: int
    type: TensorType

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def name(self) -> str:
        """The name it was declared under; that of its op when it was computed."""
        node = next(n for n in reversed(self.frame.builder.nodes) if self.id in n.outs)
        return str(node.attr("name")) if node.op in ("input", "param") else node.op


@dataclass(slots=True)
class Budget:
    """Nodes made so far by one load, in all graphs."""

    nodes: int = 0


@dataclass(slots=True, eq=False)
class Frame:
    """A graph being built. `kind` says what it is the graph of; in a `static` one nothing may be built."""

    kind: Literal["model", "op", "repeat", "static"]
    builder: Builder
    budget: Budget
    parent: Frame | None = None
    constants: dict[object, Tensor] = field(default_factory=dict["object", "Tensor"])
    # A loop's: its trips, its index, what it takes from outside, and marker of its index in names of parameters.
    trips: int = 0
    marker: str = ""
    index: Tensor | None = None
    stacked: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict["int", "tuple[Tensor, Tensor]"])
    captures: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict["int", "tuple[Tensor, Tensor]"])
    taken: set[str] = field(default_factory=set["str"])

    @property
    def root(self) -> Frame:
        """The outermost frame: the model's or the composite's."""
        return self if self.parent is None else self.parent.root

    def inside(self, other: Frame) -> bool:
        """Whether this frame is `other` or lies in it."""
        here: Frame | None = self
        while here is not None and here is not other:
            here = here.parent
        return here is other

    def add(
        self, op: str, args: Sequence[Tensor] = (), attrs: Mapping[str, Attr] | None = None, *,
        regions: tuple[Graph, ...] = (), loc: str = "",
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Appends a node. Raises InferError as Builder.add does, and LimitError."""
        self.budget.nodes += 1
        if self.budget.nodes > MAX_NODES:
            raise LimitError(f"the model has more than {MAX_NODES} operations")
        ids = self.builder.add(op, [self.read(a) for a in args], attrs, regions=regions, loc=loc)
        made = tuple(Tensor(self, i, self.builder.types[i]) for i in ids)
        for tensor in made if op != "param" else ():  # a stack of parameters is as large as it is
            check_size(tensor.type)
        return made

    def full(self, value: int | float | bool, dtype: DType, shape: Sequence[int], loc: str = "") -> Tensor:
        """`value` everywhere, made once."""
        exact = bool(value) if dtype.kind == "bool" else float(value) if dtype.is_float else int(value)
        key = (repr(exact), dtype.name, tuple(map(int, shape)))
        if key not in self.constants:
            attrs: dict[str, Attr] = {"value": exact, "dtype": dtype, "shape": tuple(shape)}
            (self.constants[key],) = self.add("full", (), attrs, loc=loc)
        return self.constants[key]

    def input(self, name: str, type: TensorType, loc: str = "") -> Tensor:
        """A new input called `name`, or `name_1`, … when there is one of that name."""
        check_size(type)
        free = name if name not in self.taken else next(n for i in count(1) if (n := f"{name}_{i}") not in self.taken)
        self.taken.add(free)
        return Tensor(self, self.builder.input(free, type, loc), type)

    def read(self, tensor: Tensor) -> int:
        """The value number of `tensor` here; a capture is made where it comes from further out."""
        if tensor.frame is self:
            return tensor.id
        assert self.parent is not None, "a tensor was read outside the graph it belongs to"
        outer = self.parent.read(tensor)
        if outer not in self.captures:
            self.captures[outer] = (Tensor(self.parent, outer, tensor.type), self.input(tensor.name, tensor.type))
        return self.captures[outer][1].id

    def element(self, tensor: Tensor, name: str) -> Tensor:
        """Element `index` along axis 0 of `tensor`, which comes from outside this loop and has its trips there."""
        assert self.parent is not None
        outer = self.parent.read(tensor)
        if outer not in self.stacked:
            within = tensor.type.with_shape(tensor.shape[1:])
            self.stacked[outer] = (Tensor(self.parent, outer, tensor.type), self.input(name, within))
        return self.stacked[outer][1]

    def finish(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], names: Sequence[str] = ()) -> Graph:
        """The graph with `inputs` first, in this order, and nothing in it that no output needs."""
        first = {t.id: i for i, t in enumerate(inputs)}
        nodes = self.builder.nodes
        leading = sorted((n for n in nodes if n.outs[0] in first), key=lambda n: first[n.outs[0]])
        rest = [n for n in nodes if n.outs[0] not in first]
        graph = Graph(self.builder.name, (*leading, *rest), tuple(self.read(o) for o in outputs), tuple(names))
        return renumber(live(graph))


def check_size(type: TensorType) -> None:
    """Raises LimitError when `type` has too many axes, or more elements than i32 counts."""
    if type.rank > MAX_RANK:
        raise LimitError(f"a tensor has {type.rank} axes, more than {MAX_RANK}")
    if type.size > MAX_ELEMENTS:
        raise LimitError(f"a tensor {type} has {type.size} elements, more than {MAX_ELEMENTS}")


def loop_frame(parent: Frame, trips: int, index: str, marker: str) -> Frame:
    """The frame of the body of a loop in `parent`."""
    frame = Frame("repeat", Builder("body"), parent.budget, parent, trips=trips, marker=marker)
    frame.index = frame.input(index, INDEX)
    return frame


def close_loop(
    frame: Frame, carried: Sequence[tuple[Tensor, Tensor, Tensor]], unchanged: Sequence[tuple[Tensor, Tensor]],
    yielded: Sequence[Tensor], loc: str,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Adds the loop to `frame.parent` and returns the final carries, then the stacked ys.

    `carried` are (before, inside, after), `unchanged` (before, inside) of what the body only reads.
    """
    assert frame.parent is not None and frame.index is not None
    if not carried and not yielded:
        return ()
    if frame.trips == 0:
        return _never_run(frame.parent, carried, yielded, loc)
    outputs = [*(after for _, _, after in carried), *yielded]
    for tensor in outputs:
        frame.read(tensor)  # may make captures, which must be known below
    xs, captures = list(frame.stacked.values()), [*frame.captures.values(), *unchanged]
    inputs = [frame.index, *(inside for _, inside, _ in carried), *(i for _, i in xs), *(i for _, i in captures)]
    body = frame.finish(inputs, outputs)
    operands = [*(before for before, _, _ in carried), *(o for o, _ in xs), *(o for o, _ in captures)]
    attrs: dict[str, Attr] = {"n": frame.trips, "carry": len(carried), "xs": len(xs)}
    return frame.parent.add("loop", operands, attrs, regions=(body,), loc=loc)


def _never_run(
    parent: Frame, carried: Sequence[tuple[Tensor, Tensor, Tensor]], yielded: Sequence[Tensor], loc: str
) -> tuple[Tensor, ...]:
    empty = [parent.full(0, t.dtype, (0, *t.shape), loc) for t in yielded]
    return (*(before for before, _, _ in carried), *empty)
