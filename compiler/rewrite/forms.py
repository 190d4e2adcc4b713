"""Rules made ready for matching: one direction each, stars written out, attributes completed.

A `Form` is a left side as a list of pattern nodes over variables, and a right side to build. A rule gives one Form for
each direction and each operand count its stars may have. Must not know egglog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from ..graph import OPS, Composites
from ..graph.ops import AttrSpec
from .functions import FUNCTIONS
from .syntax import (
    Binary,
    Call,
    Cut,
    Expr,
    Index,
    Lit,
    Name,
    Root,
    Rule,
    Star,
    Tup,
    Typed,
    TypePattern,
    Unary,
    walk,
)

# Operand counts that a star stands for: those of the elementwise ops, and for ops of any count (concat) up to four.
OP_STAR = (1, 2, 3)
VARIADIC_STAR = (2, 3, 4)


@dataclass(frozen=True, slots=True)
class Ref:
    """An operand of a pattern node: the variable `name`, or pattern node `node`."""

    name: str = ""
    node: int = -1


@dataclass(frozen=True, slots=True)
class PatternOp:
    """One op of a left side. `variable`: `op` is an op variable, of trait `trait`, and `attrs` is empty."""

    op: str
    args: tuple[Ref, ...]
    attrs: tuple[tuple[str, Expr], ...] = ()
    variable: bool = False
    trait: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """A rule in one direction. `roots` name the pattern nodes that are results, in the order of the left side."""

    rule: str
    back: bool
    classes: tuple[str, ...]
    nodes: tuple[PatternOp, ...]
    variables: tuple[str, ...]
    roots: tuple[tuple[str, int], ...]
    types: tuple[tuple[str, TypePattern], ...]
    scalar_lets: tuple[tuple[str, Expr], ...]
    tensor_lets: tuple[tuple[str, Expr], ...]
    first: tuple[Expr, ...]  # conditions on whole tensors, which are cheap and need nothing else bound
    wheres: tuple[Expr, ...]
    right: tuple[Root, ...]

    @property
    def ops(self) -> frozenset[str]:
        """The named ops that must be present for this to match."""
        return frozenset(n.op for n in self.nodes if not n.variable)


def is_tensor_expr(e: Expr) -> bool:
    """Whether `e` is an op applied, rather than a number, dtype or tuple."""
    return isinstance(e, Call) and e.fn not in FUNCTIONS


def compile_forms(rule: Rule, composites: Composites) -> list[Form]:
    """The forms of `rule`, which must be in scope (see `scope`); impl rules have none."""
    if rule.target:
        return []
    forms: list[Form] = []
    for count in star_counts(rule):
        flat = rule if count is None else unstar(rule, count)
        forms.append(_form(flat, flat.left, flat.right, False, composites))
        if rule.both:
            forms.append(_form(flat, flat.right, flat.left, True, composites))
    return forms


def _form(rule: Rule, left: tuple[Root, ...], right: tuple[Root, ...], back: bool, composites: Composites) -> Form:
    maker = _Flattener(dict(rule.op_vars), composites)
    roots = tuple((r.name, maker.add(r.expr)) for r in left)
    types = tuple((n, t) for n, t in types_of(rule).items() if n in maker.variables)
    scalar = tuple((n, e) for n, e in rule.lets if not is_tensor_expr(e))
    tensor = tuple((n, untyped(e)) for n, e in rule.lets if is_tensor_expr(e))
    plain = tuple(Root(r.name, untyped(r.expr)) for r in right)
    first = [e for e in rule.wheres if _on_tensors(e, maker.variables)]
    first.sort(key=lambda e: isinstance(e, Call) and e.fn != "before")  # a mirrored match is refused for good
    rest = tuple(e for e in rule.wheres if e not in first)
    return Form(
        rule.name,
        back,
        rule.classes,
        tuple(maker.nodes),
        tuple(maker.variables),
        roots,
        types,
        scalar,
        tensor,
        tuple(first),
        rest,
        plain,
    )


def _on_tensors(e: Expr, variables: Collection[str]) -> bool:
    """Whether `e` asks only what class a variable is."""
    if not isinstance(e, Call) or e.fn not in ("before", "is_const", "is_param", "is_written"):
        return False
    return all(isinstance(a, Name) and a.id in variables for a in e.args)


class _Flattener:
    def __init__(self, op_vars: Mapping[str, str], composites: Composites) -> None:
        self.op_vars, self.composites = op_vars, composites
        self.nodes: list[PatternOp] = []
        self.variables: dict[str, None] = {}

    def add(self, e: Expr) -> int:
        """Adds the pattern node of call `e`, operands after it; returns its index."""
        assert isinstance(e, Call), e
        at = len(self.nodes)
        variable = e.fn in self.op_vars
        self.nodes.append(PatternOp(e.fn, (), (), variable, self.op_vars.get(e.fn, "")))
        count = len(e.args) if variable else operand_count(e.fn, len(e.args))
        args = tuple(map(self.operand, e.args[:count]))
        attrs = () if variable else self.attrs(e, count)
        self.nodes[at] = replace(self.nodes[at], args=args, attrs=attrs)
        return at

    def operand(self, e: Expr) -> Ref:
        if isinstance(e, Call):
            return Ref(node=self.add(e))
        assert isinstance(e, Name | Typed), e
        name = e.id if isinstance(e, Name) else e.name
        self.variables[name] = None
        return Ref(name=name)

    def attrs(self, e: Call, count: int) -> tuple[tuple[str, Expr], ...]:
        given = {**positional_attrs(e.fn, e.args[count:]), **dict(e.kwargs)}
        for spec in attr_specs(e.fn, self.composites):
            if spec.name not in given and not spec.required:
                given[spec.name] = Lit(spec.default)  # pyright: ignore[reportArgumentType]
        return tuple(sorted(given.items()))


def attr_specs(op: str, composites: Composites) -> tuple[AttrSpec, ...]:
    """Attributes of an op of the table or a composite; () for an unknown op."""
    if op in OPS:
        return OPS[op].attrs
    row = composites.get(op)
    return row.attrs if row else ()


def operand_count(op: str, given: int) -> int:
    """How many of `given` positional arguments of `op` are operands; the rest are attributes in table order."""
    if op not in OPS or OPS[op].variadic:
        return given
    return min(given, len(OPS[op].operands))


def positional_attrs(op: str, rest: tuple[Expr, ...]) -> dict[str, Expr]:
    """Attributes given by position, as in `full(1)`."""
    return {} if not rest else {spec.name: e for spec, e in zip(OPS[op].attrs, rest, strict=False)}


def types_of(rule: Rule) -> dict[str, TypePattern]:
    """The type pattern of each variable that has one, on either side."""
    sides = [r.expr for r in (*rule.left, *rule.right)]
    return {e.name: e.type for side in sides for e in walk(side) if isinstance(e, Typed)}


# ---- stars ---------------------------------------------------------------------------------------


def star_counts(rule: Rule) -> tuple[int | None, ...]:
    """Operand counts that the stars of `rule` are written out for; (None,) when it has none."""
    calls = [e for r in (*rule.left, *rule.right) for e in walk(r.expr) if isinstance(e, Call)]
    starred = [c for c in calls if any(isinstance(a, Star) for a in c.args)]
    if not starred:
        return (None,)
    fixed = [c for c in starred if c.fn in dict(rule.op_vars)]
    return OP_STAR if fixed else VARIADIC_STAR


def starred_names(rule: Rule) -> set[str]:
    """Tensor variables that stand under a star on either side."""
    found: set[str] = set()
    for root in (*rule.left, *rule.right):
        for e in walk(root.expr):
            if isinstance(e, Call):
                for a in e.args:
                    if isinstance(a, Star):
                        found |= set(_operand_names(a.of, dict(rule.op_vars)))
    return found


def _operand_names(e: Expr, op_vars: Mapping[str, str]) -> Iterator[str]:
    match e:
        case Name(id):
            yield id
        case Typed(name):
            yield name
        case Call(fn, args) if fn not in FUNCTIONS:
            for a in args if fn in op_vars else args[: operand_count(fn, len(args))]:
                yield from _operand_names(a.of if isinstance(a, Star) else a, op_vars)
        case _:
            return


def unstar(rule: Rule, count: int) -> Rule:
    """`rule` with every star written out `count` times: `xs` becomes `xs.0`, `xs.1`, …

    Outside a star `xs` is the first; a condition that names it is asked of each.
    """
    names = frozenset(starred_names(rule))

    def side(roots: tuple[Root, ...]) -> tuple[Root, ...]:
        return tuple(Root(r.name, _unstar(r.expr, names, count, 0)) for r in roots)

    wheres: list[Expr] = []
    for e in rule.wheres:
        each = count if any(isinstance(x, Name) and x.id in names for x in walk(e)) else 1
        wheres += [_unstar(e, names, count, i) for i in range(each)]
    lets = tuple((n, _unstar(e, names, count, 0)) for n, e in rule.lets)
    return replace(rule, left=side(rule.left), right=side(rule.right), wheres=tuple(wheres), lets=lets)


def _unstar(e: Expr, names: frozenset[str], count: int, at: int) -> Expr:
    """`e` with starred names numbered `at`, and stars of operands written out."""

    def go(x: Expr) -> Expr:
        return _unstar(x, names, count, at)

    match e:
        case Name(id, span):
            return Name(f"{id}.{at}", span) if id in names else e
        case Typed(name, type, span):
            return Typed(f"{name}.{at}", type, span) if name in names else e
        case Call(fn, args, kwargs, span):
            flat: list[Expr] = []
            for a in args:
                flat += [_unstar(a.of, names, count, i) for i in range(count)] if isinstance(a, Star) else [go(a)]
            return Call(fn, tuple(flat), tuple((k, go(v)) for k, v in kwargs), span)
        case Star(of, span):
            return Star(go(of), span)
        case Tup(items, span):
            return Tup(tuple(map(go, items)), span)
        case Index(of, index, span):
            return Index(go(of), go(index), span)
        case Cut(of, start, stop, span):
            return Cut(go(of), start and go(start), stop and go(stop), span)
        case Unary(op, of, span):
            return Unary(op, go(of), span)
        case Binary(op, left, right, span):
            return Binary(op, go(left), go(right), span)
        case Lit():
            return e


def untyped(e: Expr) -> Expr:
    """`e` with `x: type` reduced to `x`."""
    match e:
        case Typed(name, _, span):
            return Name(name, span)
        case Call(fn, args, kwargs, span):
            return Call(fn, tuple(map(untyped, args)), kwargs, span)
        case Star(of, span):
            return Star(untyped(of), span)
        case _:
            return e
