"""Small random graphs that a rule's left side matches, for the checker.

A sample is grown from its results down: each op says what operands would give the type wanted of it (`_PLANS`), and
names already bound are kept. Whatever does not fit is thrown away and drawn again, so a plan need only be likely to
fit, never right. Must not know egglog, nor how sides are compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

from ..graph import DTYPES, OPS, Builder, Composites, DType, Graph, InferError, TensorType
from ..graph.ops import AttrMap
from ..graph.ops.movement import ints
from .forms import Form, PatternOp, Ref
from .functions import NO_VALUE, Tensor
from .store import define
from .syntax import Binary, Call, Expr, Name, Prefix, TypePattern
from .values import DTYPE_CLASSES, Env, Match, NoMatch, OpHead, bind, build, evaluate, unify

DIMS = (0, 1, 1, 2, 2, 3, 3, 5)
MAX_ELEMENTS = 4096
_BASE_DTYPES = ("f32", "f32", "bf16", "f64", "f16", "i32", "i8", "u8", "bool")


class Reject(Exception):
    """This draw does not fit; draw again."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A graph with both sides over the same leaves: `left` and `right` are values of each root, in one order."""

    graph: Graph
    left: tuple[int, ...]
    right: tuple[int, ...]
    names: Mapping[str, int]  # variables, by name

    @property
    def elements(self) -> int:
        return sum(t.size for t in self.graph.types.values())

    @property
    def dtypes(self) -> tuple[str, ...]:
        """dtypes of the variables, each once, in order."""
        return tuple(dict.fromkeys(self.graph.types[v].dtype.name for v in self.names.values()))


class IllTyped(Exception):
    """Both sides were built and differ in type."""


@dataclass
class _World:
    """A Builder that answers questions about its values (functions.Facts) and builds right sides (values.Maker)."""

    builder: Builder
    composites: Composites
    nodes: dict[int, tuple[str, AttrMap]] = field(default_factory=dict[int, "tuple[str, AttrMap]"])

    def type(self, x: Tensor) -> TensorType:
        return self.builder.types[x.id]

    def full_value(self, x: Tensor) -> Any:
        op, attrs = self.nodes[x.id]
        return attrs["value"] if op == "full" else None

    def is_const(self, x: Tensor) -> bool:
        return self.nodes[x.id][0] in ("param", "full", "iota", "constant")

    def is_param(self, x: Tensor) -> bool:
        return self.nodes[x.id][0] == "param"

    def is_written(self, x: Tensor) -> bool:
        return True

    def before(self, x: Tensor, y: Tensor) -> bool:
        return x.id != y.id

    def same(self, x: Tensor, y: Tensor) -> bool:
        return x.id == y.id

    def make(self, op: str, args: tuple[Tensor, ...], attrs: AttrMap) -> Tensor:
        full, regions = define(op, tuple(map(self.type, args)), attrs, self.composites)
        outs = self.builder.add(op, [a.id for a in args], dict(full), regions=regions)
        if len(outs) != 1:
            raise InferError(f"{op} has several results")
        self.nodes[outs[0]] = (op, dict(full))
        return Tensor(outs[0])


@dataclass
class Draw:
    """One attempt at a sample. `dims` are the sizes to choose from, `most` the longest prefix of a `..B`."""

    form: Form
    composites: Composites
    rng: random.Random
    dims: tuple[int, ...] = DIMS
    most: int = 2
    hints: tuple[tuple[str, Expr], ...] = ()

    def __post_init__(self) -> None:
        self.world = _World(Builder("sample"), self.composites)
        self.env: Env = {}
        self.ops: dict[str, str] = {}
        self.made: dict[str, Tensor] = {}
        self.heads: dict[int, OpHead] = {}
        self.values: dict[int, Tensor] = {}
        self.wanted = _wanted_leaves(self.form)
        self.base = TensorType(DTYPES[self.rng.choice(_BASE_DTYPES)], self.shape(self.rng.randint(0, 3)))

    def size(self) -> int:
        return self.rng.choice(self.dims)

    def shape(self, rank: int) -> tuple[int, ...]:
        return tuple(self.size() for _ in range(rank))

    # ---- the whole ----

    def sample(self) -> Sample:
        """Reject when the draw does not fit; IllTyped when it fits and the sides differ in type."""
        for name, e in self.hints:
            self.env[name] = evaluate(e, self.env, self.world)
        self.choose_ops()
        try:
            roots = {name: self.node(i, None) for name, i in self.form.roots}
            tensors = {**self.made, **roots}
            match = Match(tensors, tuple(self.heads[i] for i in range(len(self.form.nodes))))
            env = bind(self.form, match, self.world)
            right = dict(build(self.form, env, self.world, self.world))
        except (NoMatch, InferError, *NO_VALUE) as why:
            raise Reject(str(why)) from None
        for name, value in roots.items():
            if self.world.type(value) != self.world.type(right[name]):
                raise IllTyped(self.clash(name, self.world.type(value), self.world.type(right[name])))
        left_ids, right_ids = tuple(roots[n].id for n in roots), tuple(right[n].id for n in roots)
        graph = self.world.builder.finish((*left_ids, *right_ids))
        sample = Sample(graph, left_ids, right_ids, {n: t.id for n, t in self.made.items()})
        if sample.elements > MAX_ELEMENTS:
            raise Reject("too large")
        return sample

    def clash(self, name: str, left: TensorType, right: TensorType) -> str:
        given = ", ".join(f"{n}: {self.world.type(t)}" for n, t in self.made.items())
        return f"with {given} the left side{' ' + name if name else ''} is {left} and the right side {right}"

    def choose_ops(self) -> None:
        """An op of the right trait and operand count for each op variable; its attributes come with its node."""
        for node in self.form.nodes:
            if not node.variable or node.op in self.ops:
                continue
            fit = [o.name for o in OPS.values() if node.trait in o.traits and o.accepts(len(node.args))]
            if not fit:
                raise Reject(f"no {node.trait} op takes {len(node.args)} operands")
            self.ops[node.op] = self.rng.choice(fit)

    # ---- nodes ----

    def ref(self, ref: Ref, want: TensorType | None) -> Tensor:
        return self.variable(ref.name, want) if ref.name else self.node(ref.node, want)

    def node(self, i: int, want: TensorType | None) -> Tensor:
        if i in self.values:
            return self.values[i]
        node = self.form.nodes[i]
        op = self.ops.get(node.op, node.op)
        head = self.env.get(node.op) if node.variable else None
        chosen: dict[str, Any] = dict(head.attrs) if isinstance(head, OpHead) else self.fixed(node)
        args = self.operands(op, node, want, chosen)
        _finish(self, op, tuple(map(self.world.type, args)), chosen)
        try:
            value = self.world.make(op, tuple(args), chosen)
        except InferError as why:
            raise Reject(str(why)) from None
        attrs = self.world.nodes[value.id][1]
        self.heads[i] = OpHead(op, tuple(attrs.items()))
        if node.variable:
            self.env[node.op] = self.heads[i]
        for name, e in node.attrs:
            unify(e, attrs[name], self.env, [])  # what is compared later is compared by `bind`
        self.values[i] = value
        return value

    def fixed(self, node: PatternOp) -> dict[str, Any]:
        """Attributes whose value is settled already."""
        found: dict[str, Any] = {}
        for name, e in node.attrs:
            if not isinstance(e, Name) or e.id in self.env or e.id in DTYPES:
                try:
                    found[name] = evaluate(e, self.env, self.world)
                except NoMatch:
                    continue
        return found

    def operands(self, op: str, node: PatternOp, want: TensorType | None, chosen: dict[str, Any]) -> list[Tensor]:
        wants = _plan(self, op, len(node.args), want, chosen)
        got: list[Tensor] = []
        elementwise = op in OPS and "elementwise" in OPS[op].traits and op != "select"
        # A leaf constant takes the type of its neighbour, so operands that are ops of tensors come first.
        for ref, wanted in zip(node.args, wants, strict=True):
            if elementwise and got:
                wanted = self.world.type(got[0])
            got.append(self.ref(ref, wanted))
        return got

    # ---- leaves ----

    def variable(self, name: str, want: TensorType | None) -> Tensor:
        if name not in self.made:
            pattern = dict(self.form.types).get(name)
            aliased = self.alias(pattern, want)
            value = aliased or self.leaf(name, self.typed(pattern, want) if pattern else want or self.base)
            self.made[name] = value
            self.env[name] = value
        return self.made[name]

    def alias(self, pattern: TypePattern | None, want: TensorType | None) -> Tensor | None:
        """Now and then one tensor under two names."""
        if pattern is None and want is not None and self.made and self.rng.random() < 0.1:
            same = [t for n, t in self.made.items() if self.world.type(t) == want and n not in self.wanted]
            return same[0] if same else None
        return None

    def leaf(self, name: str, t: TensorType) -> Tensor:
        kind, value = self.wanted.get(name, ("input", None))
        b = self.world.builder
        if kind == "full" and value is not None:
            number = evaluate(value, self.env, self.world)
            if not isinstance(number, int | float):
                raise Reject("not a number")
            out = b.full(number, t.dtype, t.shape)
            self.world.nodes[out] = ("full", {"value": number})
        else:
            out = (b.param if kind == "param" else b.input)(name, t)
            self.world.nodes[out] = (kind, {})
        return Tensor(out)

    def typed(self, pattern: TypePattern, want: TensorType | None) -> TensorType:
        """A type that fits `pattern`, `want` when that does."""
        if pattern.dims is None:
            return TensorType(self.dtype(pattern.dtypes, want), (want or self.base).shape)
        if want is not None:
            self.learn(pattern.dims, want.shape)
        dtype = self.dtype(pattern.dtypes, want)
        shape: list[int] = []
        for d in pattern.dims:
            if isinstance(d, Prefix):
                if d.name not in self.env:
                    self.env[d.name] = self.shape(self.rng.randint(0, self.most))
                shape += ints(self.env[d.name])
            else:
                shape.append(self.dim(d))
        return TensorType(dtype, tuple(shape))

    def learn(self, dims: tuple[Prefix | Expr, ...], shape: tuple[int, ...]) -> None:
        """Binds free names of `dims` to what `shape` has, as far as they go together."""
        at = next((i for i, d in enumerate(dims) if isinstance(d, Prefix)), len(dims))
        tail = len(dims) - at - 1
        if len(shape) < max(len(dims) - 1, 0) or (at == len(dims) and len(shape) != len(dims)):
            return
        pairs = [*zip(dims[:at], shape, strict=False)]
        if at < len(dims):
            prefix = dims[at]
            assert isinstance(prefix, Prefix)
            self.env.setdefault(prefix.name, shape[at : len(shape) - tail])
            pairs += zip(dims[at + 1 :], shape[len(shape) - tail :], strict=True)
        for d, n in pairs:
            if isinstance(d, Name):
                self.env.setdefault(d.id, n)

    def dim(self, e: Expr) -> int:
        if isinstance(e, Name) and e.id not in self.env:
            self.env[e.id] = self.size()
        got = evaluate(e, self.env, self.world)
        if not isinstance(got, int) or got < 0:
            raise Reject("not a dim")
        return got

    def dtype(self, names: tuple[str, ...], want: TensorType | None) -> DType:
        if names[0] not in DTYPE_CLASSES and names[0] not in DTYPES:
            if names[0] not in self.env:
                self.env[names[0]] = want.dtype if want else self.base.dtype
            got = self.env[names[0]]
            assert isinstance(got, DType)
            return got
        fits = [DTYPES[d] for d in dict.fromkeys(_BASE_DTYPES) if _allowed(names, DTYPES[d])]
        fits += [DTYPES[n] for n in names if n in DTYPES and DTYPES[n] not in fits]
        preferred = [t.dtype for t in (want, self.base) if t is not None and t.dtype in fits]
        return preferred[0] if preferred else self.rng.choice(fits)


def _allowed(names: tuple[str, ...], d: DType) -> bool:
    return any(DTYPE_CLASSES[n](d) if n in DTYPE_CLASSES else n == d.name for n in names)


def _wanted_leaves(form: Form) -> dict[str, tuple[str, Expr | None]]:
    """Variables that a condition needs to be constants: full of a value, or params."""
    found: dict[str, tuple[str, Expr | None]] = {}
    for e in (*form.first, *form.wheres):
        for call in _conjuncts(e):
            match call:
                case Call("is_full", (Name(id), value)):
                    found[id] = ("full", value)
                case Call("is_const" | "is_param", (Name(id),)):
                    found.setdefault(id, ("param", None))
                case _:
                    continue
    return found


def _conjuncts(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op == "and":
        yield from _conjuncts(e.left)
        yield from _conjuncts(e.right)
    else:
        yield e


# ---- plans: operands that would give what is wanted ----------------------------------------------

Wants: TypeAlias = "list[TensorType | None]"
Plan: TypeAlias = Callable[[Draw, int, "TensorType | None", dict[str, Any]], Wants]


def _plan(draw: Draw, op: str, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    """Types to ask of the operands of `op`; what it decides about attributes it puts in `chosen`."""
    if op not in OPS:
        return [want] * count
    if op.startswith("reduce_") and op != "reduce_window":
        return _plan_reduce(draw, op, want, chosen)
    if "compare" in OPS[op].traits:
        return [TensorType(draw.base.dtype, want.shape if want else draw.base.shape)] * count
    return _PLANS.get(op, lambda d, n, w, c: [w] * n)(draw, count, want or draw.base, chosen)


def _plan_select(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    return [want.with_dtype(DTYPES["bool"]), want, want]


def _plan_convert(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    chosen.setdefault("dtype", want.dtype)
    return [want.with_dtype(DTYPES[draw.rng.choice(_BASE_DTYPES)])]


def _plan_broadcast(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    shape = ints(chosen.setdefault("shape", want.shape))
    rank = draw.rng.randint(0, len(shape))
    dims = ints(chosen.setdefault("dims", tuple(sorted(draw.rng.sample(range(len(shape)), rank)))))
    return [want.with_shape(1 if draw.rng.random() < 0.15 else shape[d] for d in dims)]


def _plan_reshape(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    shape = chosen.setdefault("shape", want.shape)
    return [want.with_shape(_regrouped(draw, shape))]


def _regrouped(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape of as many elements."""
    dims = list(shape)
    if len(dims) > 1 and draw.rng.random() < 0.5:
        i = draw.rng.randrange(len(dims) - 1)
        dims[i : i + 2] = [dims[i] * dims[i + 1]]
    if draw.rng.random() < 0.5:
        dims.insert(draw.rng.randint(0, len(dims)), 1)
    if draw.rng.random() < 0.2:
        dims = [prod(dims)]
    return tuple(dims) if draw.rng.random() < 0.8 else shape


def _plan_transpose(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    perm = ints(chosen.setdefault("perm", tuple(draw.rng.sample(range(want.rank), want.rank))))
    if len(perm) != want.rank:
        want = want.with_shape(draw.shape(len(perm)))
    return [want.with_shape(want.shape[perm.index(i)] for i in range(len(perm)))]


def _plan_slice(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    if "starts" in chosen:
        return [want.with_shape(stop + draw.rng.randint(0, 2) for stop in ints(chosen.get("stops", want.shape)))]
    steps = chosen.setdefault("steps", tuple(draw.rng.choice((1, 1, 1, 2)) for _ in want.shape))
    starts = ints(chosen.setdefault("starts", tuple(draw.rng.choice((0, 0, 1, 2)) for _ in want.shape)))
    ends = tuple(a + max(0, (n - 1) * s + 1) for a, n, s in zip(starts, want.shape, steps, strict=True))
    stops = chosen.setdefault("stops", ends)
    return [want.with_shape(stop + draw.rng.choice((0, 0, 1, 2)) for stop in stops)]


def _plan_concat(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    if not want.rank:
        want = want.with_shape(draw.shape(draw.rng.randint(1, 3)))
    axis: int = chosen.setdefault("axis", draw.rng.randrange(want.rank))
    if not 0 <= axis < want.rank:
        raise Reject("axis")
    cuts = sorted(draw.rng.randint(0, want.shape[axis]) for _ in range(count - 1))
    sizes = [b - a for a, b in zip((0, *cuts), (*cuts, want.shape[axis]), strict=True)]
    return [want.with_shape((*want.shape[:axis], n, *want.shape[axis + 1 :])) for n in sizes]


def _plan_pad(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    low = chosen.setdefault("low", tuple(draw.rng.randint(0, min(1, n)) for n in want.shape))
    left = [n - a for n, a in zip(want.shape, low, strict=True)]
    high = chosen.setdefault("high", tuple(draw.rng.randint(0, max(0, min(2, n))) for n in left))
    return [want.with_shape(max(0, n - b) for n, b in zip(left, high, strict=True))]


def _plan_reduce(draw: Draw, op: str, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    want = want or draw.base
    if op in ("reduce_and", "reduce_or"):
        want = want.with_dtype(DTYPES["bool"])
    dims = list(want.shape)
    if "axes" not in chosen:
        rank = want.rank + draw.rng.randint(0, 2)
        chosen["axes"] = tuple(sorted(draw.rng.sample(range(rank), rank - want.rank)))
    for a in chosen["axes"]:
        dims.insert(a, draw.size())
    return [want.with_shape(dims)]


def _plan_matmul(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    shape = want.shape if want.rank >= 2 else draw.shape(draw.rng.randint(2, 3))
    k = draw.size()
    batch = shape[:-2] if draw.rng.random() < 0.5 else ()
    return [want.with_shape((*shape[:-1], k)), want.with_shape((*batch, k, shape[-1]))]


def _plan_conv(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    """Small images, so that one value can be checked by hand."""
    assert want
    groups = chosen.setdefault("groups", draw.rng.choice((1, 1, 2)))
    rank = want.rank - 2 if 3 <= want.rank <= 4 else draw.rng.randint(1, 2)
    batch = want.shape[0] if want.rank >= 3 else draw.size()
    out = want.shape[1] if want.rank >= 3 and want.shape[1] % groups == 0 else groups * draw.rng.randint(1, 2)
    per = draw.rng.randint(1, 2)
    _window_attrs(draw, rank, chosen)
    taps = tuple(draw.rng.choice((1, 1, 2, 3)) for _ in range(rank))
    x = (batch, groups * per, *(draw.rng.choice((1, 2, 3, 5)) for _ in range(rank)))
    return [want.with_shape(x), want.with_shape((out, per, *taps))]


def _plan_window(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    rank = draw.rng.randint(1, 2)
    chosen.setdefault("op", draw.rng.choice(("max", "sum")))
    chosen.setdefault("window", tuple(draw.rng.choice((1, 2, 3)) for _ in range(rank)))
    _window_attrs(draw, rank, chosen)
    return [want.with_shape((*draw.shape(2), *(draw.rng.choice((1, 2, 3, 5)) for _ in range(rank))))]


def _window_attrs(draw: Draw, rank: int, chosen: dict[str, Any]) -> None:
    for name, least in (("strides", 1), ("low", 0), ("high", 0), ("dilations", 1)):
        chosen.setdefault(name, tuple(draw.rng.choice((least, least, least + 1)) for _ in range(rank)))


def _plan_take(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    table = want if want.rank else want.with_shape(draw.shape(2))
    return [table, TensorType(DTYPES["i32"], draw.shape(draw.rng.randint(0, 2)))]


def _plan_none(draw: Draw, count: int, want: TensorType | None, chosen: dict[str, Any]) -> Wants:
    assert want
    chosen.setdefault("dtype", want.dtype)
    chosen.setdefault("shape", want.shape)
    return []


_PLANS: dict[str, Plan] = {
    "select": _plan_select,
    "convert": _plan_convert,
    "broadcast": _plan_broadcast,
    "reshape": _plan_reshape,
    "transpose": _plan_transpose,
    "slice": _plan_slice,
    "concat": _plan_concat,
    "pad": _plan_pad,
    "matmul": _plan_matmul,
    "conv": _plan_conv,
    "reduce_window": _plan_window,
    "take": _plan_take,
    "full": _plan_none,
    "iota": _plan_none,
}


def _finish(draw: Draw, op: str, types: tuple[TensorType, ...], chosen: dict[str, Any]) -> None:
    """Attributes that no plan decided, drawn to suit the operands."""
    if op not in OPS:
        return
    rank = types[0].rank if types else len(chosen.get("shape", ()))
    for spec in OPS[op].attrs:
        if spec.name in chosen:
            continue
        if spec.name == "value":
            chosen["value"] = _constant(draw, chosen.get("dtype") or (types[0].dtype if types else draw.base.dtype))
        elif spec.name == "axis" and rank:
            chosen["axis"] = draw.rng.randrange(rank)
        elif spec.name == "axes":
            chosen["axes"] = tuple(sorted(draw.rng.sample(range(rank), draw.rng.randint(0, rank))))
        elif spec.name == "dtype" and spec.default is None:
            chosen["dtype"] = draw.rng.choice((None, types[0].dtype))
        elif spec.name == "precision":
            chosen["precision"] = draw.rng.choice(("highest", "highest", "default"))
        elif not spec.required:
            chosen[spec.name] = spec.default
        else:
            raise Reject(f"no way to draw {op}'s {spec.name}")


def _constant(draw: Draw, d: DType) -> int | float | bool:
    if d.kind == "bool":
        return draw.rng.random() < 0.5
    if d.is_int:
        return draw.rng.choice((0, 1, 2, 3, 7) if d.kind == "uint" else (0, 1, -1, 2, 3, -5))
    # All but the last three are short sums of powers of two, so that folding them is exact in every dtype.
    return draw.rng.choice((0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, 0.75, float("inf"), float("-inf"), float("nan")))
