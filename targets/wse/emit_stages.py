"""The CSL functions of stages. Each stands under the op it computes and the op's place in the source.

Must not know how stages follow each other, nor the compiler's plans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...compiler.graph import Node
from .elementwise import STORED
from .placement import Placement
from .sketch import Sketch, block_extent, element_function, extents, function, in_steps, literal, mem, stage_name
from .stages import Flow, Map, Number, Operand, Scan, Stage


def stage_texts(s: Sketch) -> list[str]:
    """The functions of every stage, stage by stage."""
    made: list[str] = []
    for number, stage in enumerate(s.flow.stages, 1):
        text = _map(s, number, stage) if isinstance(stage, Map) else _scan(s, number, stage)
        made.append(_title(s, stage) + text)
    return made


def _title(s: Sketch, stage: Stage) -> str:
    """The op as a comment: what it makes of what, and where it stands in the source."""
    args = ", ".join(_called(s.flow.graph.producers[a]) for a in stage.node.args)
    place = f"  {stage.node.loc}" if stage.node.loc else ""
    return f"// {stage.node.op}({args}): {stage.node.type}{place}\n"


def _called(node: Node) -> str:
    if node.op in ("input", "param"):
        return str(node.attr("name"))
    return str(node.attr("value")) if node.op == "full" else node.op


# ---- element by element --------------------------------------------------------------------------


def _map(s: Sketch, number: int, stage: Map) -> str:
    name = stage_name(number, stage)
    body = _by_column(s, name, stage) if by_column(s.flow, stage) else _at_once(s, name, stage)
    return _helper(s, name, stage) + function(name, body)


def by_column(flow: Flow, stage: Map) -> bool:
    """Whether a stage works column by column: in steps, or an operand has one number for each column or each row."""
    if in_steps(flow, stage):
        return True
    p = flow.placements[stage.out]
    others = (q for v in stage.reads if (q := flow.placements[v]) != p)
    return any(q.split_rows or q.split_columns for q in others)


def _helper(s: Sketch, name: str, stage: Map) -> str:
    if stage.recipe.vector or in_steps(s.flow, stage):
        return ""
    types = [STORED[s.flow.graph.types[a].dtype] for a in stage.node.args]
    formals = ", ".join(f"{letter}: {t}" for letter, t in zip("abc", types, strict=False))
    return element_function(name, formals, STORED[stage.node.type.dtype], stage.recipe.formula)


def _operation(name: str, stage: Map, out: str, args: Sequence[str]) -> str:
    if stage.recipe.vector:
        return f"@{stage.recipe.vector}({', '.join([out, *args])});"
    return f"@map({', '.join([f'{name}_element', *args, out])});"


def _number(s: Sketch, stage: Map, index: int, a: Number) -> str:
    """A literal operand, of the type that the op reads there."""
    args = stage.node.args
    dtype = s.flow.graph.types[args[index]].dtype if stage.node.args and index < len(args) else stage.node.type.dtype
    return literal(a.value, STORED[dtype])


@dataclass(slots=True)
class _Dsds:
    """Names for the DSDs of a function, one for each array."""

    s: Sketch
    word: str
    extent: str
    names: dict[str, str] = field(default_factory=dict[str, str])
    lines: list[str] = field(default_factory=list[str])
    stored: dict[str, str] = field(default_factory=dict[str, str])

    def name(self, value: int, letter: str) -> str:
        """The name of the DSD over the array of `value`, `letter` if it is new."""
        block = self.s.blocks.of[value]
        if block.name not in self.names:
            self.names[block.name] = letter
            self.stored[letter] = STORED[self.s.flow.graph.types[value].dtype]
            self.lines.append(f"{self.word} {letter} = {mem(block.name, self.extent)};")
        return self.names[block.name]


def _at_once(s: Sketch, name: str, stage: Map) -> list[str]:
    """One operation over the whole block."""
    p = s.flow.placements[stage.out]
    dsds = _Dsds(s, "const", block_extent(p))

    def operand(index: int, a: Operand) -> str:
        if isinstance(a, Number):
            return _number(s, stage, index, a)
        return dsds.name(a, "pqr"[index]) if s.flow.placements[a] == p else f"{s.blocks.of[a].name}[0]"

    out = dsds.name(stage.out, "out")
    args = [operand(i, a) for i, a in enumerate(stage.args)]
    return [*dsds.lines, _operation(name, stage, out, args)]


def _by_column(s: Sketch, name: str, stage: Map) -> list[str]:
    """An operation for each column."""
    p = s.flow.placements[stage.out]
    rows, columns = extents(p)
    moving, still = _Dsds(s, "var", rows), _Dsds(s, "const", rows)

    def operand(index: int, a: Operand) -> str:
        if isinstance(a, Number):
            return _number(s, stage, index, a)
        q, block = s.flow.placements[a], s.blocks.of[a].name
        if q == p:
            return moving.name(a, "pqr"[index])
        if q.split_columns:
            return f"{block}[n]"
        return still.name(a, "pqr"[index]) if q.split_rows else f"{block}[0]"

    out = moving.name(stage.out, "out")
    args = [operand(i, a) for i, a in enumerate(stage.args)]
    step = [f"{v} = @increment_dsd_offset({v}, {rows}, {t});" for v, t in moving.stored.items()]
    work, odd = [_operation(name, stage, out, args)], list[str]()
    if in_steps(s.flow, stage):
        words = {"out": out, "low": literal(-math.inf, "f32"), **dict(zip("ab", args, strict=False))}
        work, odd = [text.format(**words) for text in stage.recipe.steps], [f"const odd_dsd = {mem('odd', rows)};"]
    loop = [f"for (@range(u16, {columns})) |n| {{", *(f"  {line}" for line in (*work, *step)), "}"]
    return [*moving.lines, *still.lines, *odd, *loop]


# ---- column by column of the row -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a scan does: before its first column, for each column, and after the last."""

    start: list[str]
    update: list[str]
    end: list[str] = field(default_factory=list[str])


def _scan(s: Sketch, number: int, scan: Scan) -> str:
    name, p = stage_name(number, scan), s.flow.placements[scan.source]
    parts = _PARTS[scan.node.op](s, scan)
    begin = [
        *parts.start,
        f"rows = {extents(p)[0]};",
        f"columns = {p.columns};",
        f"outgoing_words = {block_extent(p)};",
        f"outgoing = {mem(s.blocks.of[scan.source].name, block_extent(p))};",
        *([f"west = west_of(@as(u32, x), {p.columns}) * {extents(p)[0]};"] if s.shares.width > 1 else []),
        f"scan({number});",
    ]
    text = function(name, begin) + function(f"{name}_column", parts.update)
    return text + (function(f"{name}_end", parts.end) if has_end(scan) else "")


def has_end(scan: Scan) -> bool:
    """Whether something is left to do when the last column has been seen."""
    return scan.node.op == "reduce_sum"


def by_rows(rows: int, columns: int) -> bool:
    """Whether a matmul's column is worked on row by row: fewer, longer operations where a PE has few rows."""
    return rows < columns


def _matmul(s: Sketch, scan: Scan) -> _Parts:
    assert scan.weights is not None
    out, p = s.blocks.of[scan.out].name, s.flow.placements[scan.out]
    weights, (rows, columns) = s.blocks.of[scan.weights].name, extents(p)
    start = [f"@fmovs({mem(out, block_extent(p))}, 0.0);", "weight = 0;"]
    if by_rows(s.shares.rows(p), s.shares.columns(p)):
        return _Parts(start, [
            f"const w = {mem(weights, columns, ', .offset = @as(i16, weight)')};",
            f"var sum = {mem(out, columns, f', .stride = {rows}')};",
            f"for (@range(u16, {rows})) |m| {{",
            "  @fmacs(sum, sum, w, arrivals[arrived + m]);",
            "  sum = @increment_dsd_offset(sum, 1, f32);",
            "}",
            f"weight += {columns};",
        ])  # fmt: skip
    return _Parts(start, [
        f"const now = {_arrived(p)};",
        f"var sum = {mem(out, rows)};",
        "const first = weight;",
        f"for (@range(u16, {columns})) |n| {{",
        f"  @fmacs(sum, sum, now, {weights}[first + n]);",
        f"  sum = @increment_dsd_offset(sum, {rows}, f32);",
        "}",
        f"weight += {columns};",
    ])  # fmt: skip


def _arrived(p: Placement) -> str:
    """The column that has arrived."""
    return mem("arrivals", extents(p)[0], ", .offset = @as(i16, arrived)")


def _extreme(s: Sketch, scan: Scan) -> _Parts:
    """The greatest or the least: of the rows so far and the column, element by element."""
    p, out = s.flow.placements[scan.source], s.blocks.of[scan.out].name
    so_far = mem(out, extents(p)[0])
    op = scan.node.op.removeprefix("reduce_")
    first = literal(-math.inf if op == "max" else math.inf, "f32")
    update = [f"const so_far = {so_far};", f"const now = {_arrived(p)};", f"@map({op}_element, so_far, now, so_far);"]
    return _Parts([f"@fmovs({so_far}, {first});"], update)


def _sum(s: Sketch, scan: Scan) -> _Parts:
    """The sum with what rounding loses carried along (Kahan 1965); the plain sum where that gives NaN."""
    p, out = s.flow.placements[scan.source], s.blocks.of[scan.out].name
    rows = extents(p)[0]
    start = [f"@fmovs({mem(name, rows)}, 0.0);" for name in (out, "plain", "carry")]
    names = {"sum": out, "plain_sum": "plain", "lost": "carry", "term": "step", "total": "next"}
    update = [
        f"const now = {_arrived(p)};",
        *(f"const {name} = {mem(array, rows)};" for name, array in names.items()),
        "@fadds(plain_sum, plain_sum, now);",
        "@fsubs(term, now, lost);",
        "@fadds(total, sum, term);",
        "@fsubs(lost, total, sum);",
        "@fsubs(lost, lost, term);",
        "@fmovs(sum, total);",
    ]
    end = [f"for (@range(u16, {rows})) |m| {{", f"  if ({out}[m] != {out}[m]) {out}[m] = plain[m];", "}"]
    return _Parts(start, update, end)


def _argument(s: Sketch, scan: Scan) -> _Parts:
    """Where the greatest or least of each row stands; NaN wins, and of equals the first, or the last."""
    p, out = s.flow.placements[scan.source], s.blocks.of[scan.out].name
    rows, sign = extents(p)[0], ">" if scan.node.op == "argmax" else "<"
    last = bool(scan.node.attr("last"))
    take = ["best[m] = v;", f"{out}[m] = @as(i32, column);"]
    return _Parts([], [
        "if (column == 0) {",
        f"  @fmovs({mem('best', rows)}, {_arrived(p)});",
        f"  @mov32({mem(out, rows)}, @as(i32, 0));",
        "  return;",
        "}",
        "var at = arrived;",
        f"for (@range(u16, {rows})) |m| {{",
        "  const v = arrivals[at];",
        f"  if (v {sign}{'=' * last} best[m]) {{",
        *(f"    {line}" for line in take),
        f"  }} else if ({'v != v' if last else 'v != v and best[m] == best[m]'}) {{",
        *(f"    {line}" for line in take),
        "  }",
        "  at += 1;",
        "}",
    ])  # fmt: skip


_PARTS = {
    "matmul": _matmul, "reduce_max": _extreme, "reduce_min": _extreme, "reduce_sum": _sum,
    "argmax": _argument, "argmin": _argument,
}  # fmt: skip
