"""From forms to egglog: a join for each way a left side can be met.

Every e-node is `(OpK op attr operands…)`, with op and attributes as numbers. A form becomes one egglog rule for each
order of its commutative operands; its head only writes down what matched, in a relation of its own, because conditions
and right sides are Python's. Names of ours are mangled: `c3` class of pattern node 3, `a3` its attributes, `o3` its op,
`v_2` variable 2, `M5`/`R5` relation and ruleset of form 5, `Tr_x` ops of trait x. Must not know how matches are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..graph import OPS
from .forms import Form, PatternOp, Ref
from .store import is_commutative

MAX_ARITY = 16
# Orders of commutative operands tried for one left side; more would be more join than it is worth.
MAX_ORDERS = 16


@dataclass(frozen=True, slots=True)
class Lowered:
    """A form's egglog text and how to read a row of its relation: classes first, then ids of attributes and ops."""

    form: Form
    index: int
    text: str
    classes: tuple[str, ...]  # roots by name, then variables
    attrs: tuple[int, ...]  # pattern nodes whose attributes are in the row
    ops: tuple[int, ...]  # pattern nodes whose op is in the row

    @property
    def relation(self) -> str:
        return f"M{self.index}"

    @property
    def ruleset(self) -> str:
        return f"R{self.index}"


def preamble(op_id: Callable[[str], int]) -> str:
    """Declarations shared by all forms."""
    lines = ["(sort T)", "(function node (i64) T :no-merge)", "(ruleset Clear)"]
    lines += [f"(constructor Op{k} (i64 i64{' T' * k}) T)" for k in range(MAX_ARITY + 1)]
    traits = sorted({t for op in OPS.values() for t in op.traits})
    for trait in traits:
        lines.append(f"(relation Tr_{trait} (i64))")
        lines += [f"(Tr_{trait} {op_id(op.name)})" for op in OPS.values() if trait in op.traits]
    return "\n".join(lines)


def lower(form: Form, index: int, op_id: Callable[[str], int]) -> Lowered:
    """`form` as egglog text. Its relation is `M<index>`, its ruleset `R<index>`."""
    attrs = tuple(i for i, n in enumerate(form.nodes) if n.attrs or n.variable)
    ops = tuple(i for i, n in enumerate(form.nodes) if n.variable)
    variables = {name: f"v_{i}" for i, name in enumerate(form.variables)}
    columns = [f"c{i}" for _, i in form.roots] + list(variables.values())
    classes = tuple(name for name, _ in form.roots) + form.variables
    row = " ".join((*columns, *(f"a{i}" for i in attrs), *(f"o{i}" for i in ops)))
    types = " ".join(["T"] * len(columns) + ["i64"] * (len(attrs) + len(ops)))
    lines = [f"(relation M{index} ({types}))", f"(ruleset R{index})"]
    for k, order in enumerate(orders(form)):
        body = "\n      ".join(_atom(i, n, order, variables, op_id) for i, n in enumerate(form.nodes))
        name = f"{form.rule}{'~' if form.back else ''}.{index}.{k}"
        lines.append(f'(rule ({body})\n      ((M{index} {row})) :ruleset R{index} :name "{name}")')
    lines.append(f'(rule ((M{index} {row})) ((delete (M{index} {row}))) :ruleset Clear :name "clear.{index}")')
    return Lowered(form, index, "\n".join(lines), classes, attrs, ops)


def _atom(
    i: int, node: PatternOp, swapped: frozenset[int], variables: dict[str, str], op_id: Callable[[str], int]
) -> str:
    refs = node.args[::-1] if i in swapped else node.args
    args = " ".join(variables[r.name] if r.name else f"c{r.node}" for r in refs)
    op = f"o{i}" if node.variable else str(op_id(node.op))
    guard = f" (Tr_{node.trait} o{i})" if node.variable else ""
    return f"(= c{i} (Op{len(node.args)} {op} a{i}{' ' + args if args else ''})){guard}"


def orders(form: Form) -> list[frozenset[int]]:
    """Sets of pattern nodes whose two operands are exchanged: every way to meet `form` modulo commutativity.

    A node is left alone when exchanging its operands gives the same pattern.
    """
    free = [i for i, n in enumerate(form.nodes) if _worth_swapping(form, n)]
    found = [frozenset[int]()]
    for i in free:
        if 2 * len(found) > MAX_ORDERS:
            break
        found += [s | {i} for s in found]
    return found


def _worth_swapping(form: Form, node: PatternOp) -> bool:
    commutes = is_commutative(node.op) or (node.variable and node.trait == "commutative")
    return commutes and len(node.args) == 2 and not _alike(form, *node.args)


def _alike(form: Form, a: Ref, b: Ref) -> bool:
    """Whether two operands are one, or both variables that nothing tells apart: used once, untyped, unconditioned."""
    if a == b:
        return True
    if not a.name or not b.name or form.first or form.wheres or form.scalar_lets:
        return False
    uses = [r.name for n in form.nodes for r in n.args]
    typed = dict(form.types)
    # The right side may still tell them apart, but over a commutative op it says the same either way.
    return uses.count(a.name) == uses.count(b.name) == 1 and typed.get(a.name) == typed.get(b.name)
