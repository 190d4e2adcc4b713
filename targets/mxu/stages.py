"""A tile's body as stages: vector work, matrix products and row gathers, in the order they run.

Levels alternate: even levels are vector stages, odd levels matrix products and gathers; a value's
level is the first at which it can be had. Views cost nothing: they are copied into each vector body
that reads them, and are addressings of a buffer for a matrix product. What crosses a stage is a
*key*: a value in one of its forms (`tile` at its dtype, `acc` the f32 or i32 sums of a matrix product,
`part1of3` a bf16 part of an f32 operand). Must not know addresses or time.

A vector node that hangs only on kernel inputs sinks to its first reader's level, so that nothing is
held in VMEM over a matrix product that could be made after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from ...compiler.graph import Builder, Graph, Node, TensorType
from ...compiler.graph.dtypes import BF16, F32, I32
from ...compiler.graph.ops.movement import ints
from .numerics import parts_of, passes, split_body, sum_dtype
from .strided import Box, element_bytes, padded, reshaped, view_of

Form: TypeAlias = str


def part_form(part: int, parts: int) -> Form:
    """The form of bf16 part `part` of an f32 operand split into `parts`."""
    return f"part{part}of{parts}"


def _part(form: Form) -> tuple[int, int]:
    part, _, parts = form.removeprefix("part").partition("of")
    return int(part), int(parts)


class Key(NamedTuple):
    """A value of the tile body in the form in which it lies in VMEM."""

    value: int
    form: Form


class Operand(NamedTuple):
    """A matrix operand: the buffers it lies in (one a part) and its addressing in each."""

    keys: tuple[Key, ...]
    box: Box


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a tile. `period`: it runs every `period` grid steps (its results hold in between).

    vector: `body` maps `reads` to `writes`. matmul: `operands` are (lhs, rhs), `node` the op and `sums`
    how its result lies in the written buffer. gather: `reads` is the index key; the table is the kernel
    input `node.args[0]`.
    """

    kind: Literal["vector", "matmul", "gather"]
    level: int
    period: int
    reads: tuple[Key, ...]
    writes: tuple[Key, ...]
    node: Node | None = None
    body: Graph | None = None
    operands: tuple[Operand, ...] = ()
    sums: Box | None = None


@dataclass(slots=True)
class _State:
    """What is known of the body so far. `kind` and `position` (of its node) are by value."""

    body: Graph
    periods: Mapping[int, int]
    kind: dict[int, str]
    position: dict[int, int]
    level: dict[int, int] = field(default_factory=dict[int, int])
    forced: set[int] = field(default_factory=set[int])
    operands: dict[int, tuple[Operand, Operand]] = field(default_factory=dict[int, tuple[Operand, Operand]])
    # Views of matrix products that the sums are laid out for: view -> product, and back with the addressing.
    viewed: dict[int, int] = field(default_factory=dict[int, int])
    sums: dict[int, tuple[int, Box]] = field(default_factory=dict[int, tuple[int, Box]])


_LEAVES = ("full", "iota", "constant")
_VIEWS = ("reshape", "transpose", "slice", "broadcast")


def is_gather(body: Graph, node: Node) -> bool:
    """A take of whole rows of a table that is a kernel input: done by DMA, row by row."""
    return (
        node.op == "take"
        and node.attr("axis") == 0
        and body.producers[node.args[0]].op == "input"
        and body.types[node.args[1]].dtype == I32
        and node.type.size > 0
        and body.types[node.args[0]].rank > 0
    )


def is_matmul(body: Graph, node: Node) -> bool:
    """A matmul the matrix unit has a datapath for: bf16, f32 by bf16 passes, 8-bit integers whose sums i32 holds."""
    if node.op != "matmul" or node.type.size == 0:
        return False
    a = body.types[node.args[0]]
    if passes(a.dtype, str(node.attr("precision"))) is None:
        return False
    return node.type.dtype.bits <= 32 or not a.dtype.is_int or int(a.shape[-1]) * 255**2 < 2**31


def is_sums(t: TensorType) -> bool:
    """Whether a product of this type is its sums as they are."""
    return t.dtype == sum_dtype(t.dtype)


def type_of(body: Graph, key: Key) -> TensorType:
    """The type a key has in VMEM."""
    t = body.types[key.value]
    if key.form == "acc":
        return t.with_dtype(sum_dtype(t.dtype))
    return t if key.form == "tile" else t.with_dtype(BF16)


def stages(body: Graph, periods: Mapping[int, int]) -> tuple[Stage, ...]:
    """Stages of the tile body `body` in running order; `periods[v]` grid steps share one value v."""
    kind = {v: _kind(body, n) for n in body.nodes for v in n.outs}
    s = _State(body, periods, kind, {v: i for i, n in enumerate(body.nodes) for v in n.outs})
    # Deciding that a view must be copied for a matrix product makes it a vector node: repeat with it forced.
    while True:
        before = len(s.forced)
        _levels(s)
        if len(s.forced) == before:
            break
    _sink(s)
    _lay_out_sums(s)
    return _schedule(s)


# ---- levels --------------------------------------------------------------------------------------


def _kind(body: Graph, n: Node) -> str:
    if n.op == "input" or n.op in _LEAVES:
        return "input" if n.op == "input" else "leaf"
    if n.op in _VIEWS:
        return "view"
    if is_matmul(body, n):
        return "matmul"
    return "gather" if is_gather(body, n) else "vector"


def _force(s: _State, v: int) -> None:
    """`v` is made by vector work, whatever its op is."""
    s.forced.add(v)
    s.kind.update(dict.fromkeys(s.body.producers[v].outs, "vector"))


def _levels(s: _State) -> None:
    for v in s.body.outputs:
        if s.kind[v] in ("input", "leaf", "view"):
            _force(s, v)
    for n in s.body.nodes:
        args = [s.level[a] for a in n.args]
        match s.kind[n.outs[0]]:
            case "input" | "leaf":
                level = 0
            case "view":
                level = args[0]
            case "matmul":
                level = 1 + max(_operand_level(s, n, i) for i in (0, 1))
            case "gather":
                index = s.level[n.args[1]]
                level = 1 + index + index % 2
            case _:
                level = max((a + a % 2 for a in args), default=0)
        s.level.update(dict.fromkeys(n.outs, level))


def _operand_level(s: _State, n: Node, which: int) -> int:
    """Records the operand's addressing and gives the even level at which its buffers are complete."""
    found = _resolve(s, n.args[which])
    size = element_bytes(s.body.types[n.args[which]].dtype)
    if found is not None:
        ends = found[1].strides[-2:], found[1].shape[-2:]
        unit = [stride == size or extent == 1 for stride, extent in zip(*ends, strict=True)]
        if not (unit[1] or (which == 1 and unit[0])):
            found = None
    if found is None:
        _force(s, n.args[which])
        found = (n.args[which], _padded(s, n.args[which]))
    base, box = found
    order = passes(s.body.types[base].dtype, str(n.attr("precision"))) or ()
    parts = sorted({pair[which] for pair in order})
    split = s.body.types[base].dtype == F32
    total = parts_of(str(n.attr("precision"))) if split else 0
    keys = tuple(Key(base, part_form(p, total) if split else "tile") for p in parts)
    if split:
        box = _halved(box)
    lhs, rhs = s.operands.get(n.out, (Operand(keys, box), Operand(keys, box)))
    s.operands[n.out] = (Operand(keys, box), rhs) if which == 0 else (lhs, Operand(keys, box))
    level = s.level.get(base, 0)
    return level + level % 2


def _padded(s: _State, v: int) -> Box:
    t = s.body.types[v]
    return padded(t.shape, t.dtype)


def _halved(box: Box) -> Box:
    """The addressing of an f32 box in a bf16 part of the same shape, padded alike."""
    return Box(box.shape, tuple(x // 2 for x in box.strides), box.offset // 2)


def _resolve(s: _State, v: int) -> tuple[int, Box] | None:
    """(base value, addressing in it) of a chain of views, or None when it must be copied."""
    chain: list[Node] = []
    node = s.body.producers[v]
    while s.kind[node.out] == "view":
        chain.append(node)
        node = s.body.producers[node.args[0]]
    if s.kind[node.outs[0]] == "leaf":
        return None
    base_type = s.body.types[node.out]
    box: Box | None = padded(base_type.shape, base_type.dtype)
    if base_type.dtype == F32:
        # An f32 operand is read from its bf16 parts, whose padding differs: address those, doubled.
        half = padded(base_type.shape, BF16)
        box = Box(half.shape, tuple(2 * x for x in half.strides), 0)
    for view in reversed(chain):
        box = view_of(view, box) if box is not None else None
    return None if box is None else (node.out, box)


def _sink(s: _State) -> None:
    first_use: dict[int, int] = dict.fromkeys(s.body.outputs, 0)
    for left, right in s.operands.values():
        first_use.update(dict.fromkeys((k.value for k in (*left.keys, *right.keys)), 0))
    for n in reversed(s.body.nodes):
        v = n.outs[0]
        kind = s.kind[v]
        if kind == "vector" and s.level[v] == 0 and v in first_use:
            s.level.update(dict.fromkeys(n.outs, max(0, first_use[v])))
        if kind in ("matmul", "gather"):
            use = 0 if kind == "matmul" else s.level[v] - 1
        elif kind == "view":
            use = first_use.get(v, s.level[v])
        else:
            use = s.level[v]
        for a in n.args:
            first_use[a] = min(first_use.get(a, use), use)


def _lay_out_sums(s: _State) -> None:
    """Where vector work alone reads a product, turned and reshaped, the sums are popped in that order.

    The pops address what a relayout through the cross-lane units would have to move.
    """
    for n in s.body.nodes:
        if s.kind[n.outs[0]] != "matmul":
            continue
        chain: list[Node] = []
        last = n
        while last.out not in s.body.outputs and len(s.body.users[last.out]) == 1:
            (user,) = s.body.users[last.out]
            if user.op not in ("transpose", "reshape"):
                break
            chain.append(user)
            last = user
        copied = last.out in s.forced or all(s.kind[r.outs[0]] == "vector" for r in s.body.users[last.out])
        box = _inverse(s, chain)
        if chain and box is not None and copied:
            s.viewed[last.out] = n.out
            s.sums[n.out] = (last.out, box)


def _inverse(s: _State, chain: list[Node]) -> Box | None:
    """How the first operand of a chain of views lies in a buffer laid out for the last result."""
    if not chain:
        return None
    box: Box | None = padded(chain[-1].type.shape, F32)
    for view in reversed(chain):
        if box is None:
            return None
        if view.op == "reshape":
            box = reshaped(box, tuple(map(int, s.body.types[view.args[0]].shape)))
            continue
        perm = ints(view.attr("perm"))
        back = [perm.index(i) for i in range(len(perm))]
        box = Box(tuple(box.shape[i] for i in back), tuple(box.strides[i] for i in back), box.offset)
    return box


# ---- schedule ------------------------------------------------------------------------------------


def _schedule(s: _State) -> tuple[Stage, ...]:
    """From the last level to the first: what later stages read is what earlier ones write."""
    needed: dict[tuple[int, int], dict[Key, None]] = {}

    def need(key: Key) -> None:
        kind = s.kind[key.value]
        if kind == "input" and key.form == "tile":
            return
        level = s.level[key.value]
        if key.form == "acc" or (kind == "gather" and key.form == "tile"):
            return
        needed.setdefault((level + level % 2, s.periods[key.value]), {})[key] = None

    for v in s.body.outputs:
        if not ((s.kind[v] == "matmul" or v in s.viewed) and is_sums(s.body.types[v])):
            need(Key(v, "tile"))
    heavy = [n for n in s.body.nodes if s.kind[n.outs[0]] in ("matmul", "gather")]
    top = max((s.level[n.out] for n in heavy), default=0)
    top = max([top, *s.level.values()]) + 1
    done: list[Stage] = []
    for level in range(top, -1, -1):
        if level % 2:
            for n in reversed([n for n in heavy if s.level[n.out] == level]):
                stage = _heavy(s, n, level)
                done.append(stage)
                for key in stage.reads:
                    need(key)
            continue
        while periods := sorted(p for lv, p in needed if lv == level):
            keys = needed.pop((level, periods[0]))
            stage = _vector(s, tuple(keys), level, periods[0])
            done.append(stage)
            for key in stage.reads:
                need(key)
    return tuple(reversed(done))


def _heavy(s: _State, n: Node, level: int) -> Stage:
    period = s.periods[n.out]
    if s.kind[n.out] == "gather":
        index = n.args[1]
        return Stage("gather", level, period, (Key(index, "tile"),), (Key(n.out, "tile"),), n)
    left, right = s.operands[n.out]
    reads = tuple(dict.fromkeys((*left.keys, *right.keys)))
    written, box = s.sums.get(n.out, (n.out, None))
    return Stage("matmul", level, period, reads, (Key(written, "acc"),), n, None, (left, right), box)


def _vector(s: _State, keys: tuple[Key, ...], level: int, period: int) -> Stage:
    """One vector body that makes `keys` from what lies in VMEM before this stage."""
    inside = _inside(s, [k.value for k in keys], level, period)
    b = Builder("tile")
    names: dict[int, int] = {}
    reads: list[Key] = []
    for position in sorted({s.position[v] for v in inside}):
        n = s.body.nodes[position]
        known = [v for v in n.outs if v in inside]
        if any(inside[v] == "make" for v in known):
            names.update(zip(n.outs, b.copy(n, [names[a] for a in n.args]), strict=True))
            continue
        names.update((v, _read(s, b, n, v, reads)) for v in known)
    results: list[int] = []
    split: dict[tuple[int, int], tuple[int, ...]] = {}
    for key in keys:
        if key.form == "tile":
            results.append(names[key.value])
            continue
        part, parts = _part(key.form)
        if (key.value, parts) not in split:
            found = b.inline(split_body(s.body.types[key.value], parts), [names[key.value]])
            split[key.value, parts] = found
        results.append(split[key.value, parts][part])
    return Stage("vector", level, period, tuple(reads), keys, None, b.finish(results))


def _inside(s: _State, wanted: list[int], level: int, period: int) -> dict[int, str]:
    """Values of a vector body: computed in it ("make") or read from VMEM ("read")."""
    found: dict[int, str] = {}
    waiting = list(wanted)
    while waiting:
        v = waiting.pop()
        if v in found:
            continue
        kind = s.kind[v]
        here = kind == "vector" and s.level[v] == level and s.periods[v] == period
        if v not in s.viewed and (kind in ("leaf", "view") or here):
            found[v] = "make"
            waiting += s.body.producers[v].args
        else:
            found[v] = "read"
    return found


def _read(s: _State, b: Builder, n: Node, v: int, reads: list[Key]) -> int:
    """An input of the vector body for `n`'s value `v`; the sums of a matrix product are rounded on the way in."""
    t = s.body.types[v]
    if s.kind[v] != "matmul" and v not in s.viewed:
        reads.append(Key(v, "tile"))
        return b.input(f"r{len(reads) - 1}", t)
    reads.append(Key(v, "acc"))
    x = b.input(f"r{len(reads) - 1}", t.with_dtype(sum_dtype(t.dtype)))
    return x if is_sums(t) else b.one("convert", x, dtype=t.dtype, loc=n.loc)
