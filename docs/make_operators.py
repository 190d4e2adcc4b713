"""Writes docs/operators.md from the op table: `python docs/make_operators.py`. A test holds the page to the table."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tdslc.compiler.graph import OPS, Op, ops
from tdslc.compiler.graph.ops import AttrSpec

PAGE = Path(__file__).parent / "operators.md"

INTRODUCTION = """\
# Operators

Every primitive op of a Graph. This page is generated from the op table by `python docs/make_operators.py`; the table's
`infer` and `eval` are the definition, and [add-an-op.md](add-an-op.md) says how a row gets there. Composites (softmax,
layer norm, …) are no rows: [they carry their definition](decisions/0001-composites-carry-their-definition.md).

- Elementwise operands have one type; broadcasting is an op of its own.
- Each result is rounded to its dtype. Floats narrower than f32 compute in f32; f64 and integers reach them through f32.
  Transcendental functions compute in f64. A value never depends on where in an array it stands.
- NaN passes through every float op unless its row says otherwise. Its sign and payload are nobody's promise.
- Every op takes axes of size 0 and 1.
- Dtypes: f64, f32, bf16, f16, f8e4m3 (the `fn` kind: no infinities, overflow is NaN), f8e5m2, i64 … i4, u64 … u4, bool.
"""


def page() -> str:
    """The text of docs/operators.md."""
    return INTRODUCTION + "\n" + "\n".join(map(family, families()))


def families() -> list[ModuleType]:
    """The modules of rows, as the table has them in order."""
    modules = [import_module(f"{ops.__name__}.{m.name}") for m in pkgutil.iter_modules(ops.__path__)]
    order = list(OPS)
    return sorted((m for m in modules if hasattr(m, "ROWS")), key=lambda m: order.index(m.ROWS[0].name))


def family(module: ModuleType) -> str:
    """The ops of one module, under the first words of its docstring."""
    (title,) = re.findall(r"^[^:.]+", module.__doc__ or "")[:1]
    return f"## {title}\n\n" + "\n".join(map(section, module.ROWS))


def section(op: Op) -> str:
    """One op."""
    lines = [f"### `{signature(op)}`\n", op.doc + (f" {op.edges}" if op.edges else "") + "\n"]
    if op.attrs:
        lines += [*map(attribute, op.attrs), ""]
    return "\n".join(lines)


def signature(op: Op) -> str:
    return f"{op.name}({', '.join((*op.operands, *(f'{a.name}=' for a in op.attrs)))})"


def attribute(spec: AttrSpec) -> str:
    return f"- `{spec.name}`: {spec.kind}" + ("" if spec.required else f", {shown(spec.default)} by default")


def shown(value: object) -> str:
    return "none" if value is None else f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
