"""What each op does at the edges: NaN, infinities, signed zeros, overflow, division by zero, nothing at all.

A file of `edges/` is one op. `# table: f32 i8` shows it on all special values of these dtypes (of two operands, the
first goes down and the second across). Each line of the input is one case: operands `dtype[shape]: values`, then
attributes, with bars between.
"""

import itertools

import numpy as np
from edge_cases import FOLDER, parsed, specials, values
from golden import Case, Golden, golden_cases
from tdslc.compiler.graph import DTYPES, OPS, Attr, Builder, DType, InferError, NDArray, TensorType, evaluate


@golden_cases("graph/edges")
def test_edges(case: Case, golden: Golden) -> None:
    op = case.get("op")
    lines = [text for name in case.get("table", "").split() for text in table(op, DTYPES[name])]
    lines += [f"{line}\n    {shown(op, line)}" for line in case.input.splitlines() if line.strip()]
    golden.check(case, "\n".join(lines))


def test_every_op_with_edges_has_a_file() -> None:
    files = {path.stem for path in FOLDER.glob("*.txt")}
    # Regions do not fit on a line: those ops are tested with the evaluator.
    on_a_line = {op: row for op, row in OPS.items() if row.cost != "control"}
    assert files == {op for op, row in on_a_line.items() if row.edges or "elementwise" in row.traits}


# ---- tables --------------------------------------------------------------------------------------


def table(op: str, d: DType) -> list[str]:
    """Lines of `op` on the special values of `d`."""
    words = specials(d)
    if len(OPS[op].operands) == 1:
        (result,) = run(op, [values(d, words)], {})
        return [f"{d}", *(f"  {x:>6} {text(y):>12}" for x, y in zip(words, result, strict=True)), ""]
    pairs = list(itertools.product(words, repeat=2))
    (result,) = run(op, [values(d, [p[i] for p in pairs]) for i in range(2)], {})
    rows = [list(map(text, row)) for row in result.reshape(len(words), len(words))]
    head = " ".join(f"{w:>8}" for w in words)
    body = (f"{w:>6} " + " ".join(f"{x:>8}" for x in row) for w, row in zip(words, rows, strict=True))
    return [f"{d.name:>6} {head}", *body, ""]


def text(x: object) -> str:
    """A value in at most eight columns; the sign of NaN is nobody's business."""
    value = np.asarray(x)
    if value.dtype == bool:
        return str(bool(value)).lower()
    return f"{int(value)}" if value.dtype.kind in "iu" or "int" in value.dtype.name else f"{float(value):.6g}"


# ---- single cases --------------------------------------------------------------------------------


def shown(op: str, line: str) -> str:
    """What `op` makes of the operands and attributes of one line."""
    operands, attrs = parsed(line)
    try:
        results = run(op, operands, attrs)
    except InferError as refusal:
        return f"refused: {refusal}"
    return "; ".join(f"{x.dtype}{list(x.shape)}: {' '.join(map(text, x.ravel()))}".rstrip() for x in results)


def run(op: str, operands: list[NDArray], attrs: dict[str, Attr]) -> tuple[NDArray, ...]:
    b = Builder("edge")
    names = {d.numpy: d for d in DTYPES.values()}
    args = [b.input(f"a{i}", TensorType(names[x.dtype], x.shape)) for i, x in enumerate(operands)]
    graph = b.finish(b.add(op, args, attrs))
    return evaluate(graph, {f"a{i}": x for i, x in enumerate(operands)})
