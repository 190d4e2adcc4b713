"""What is wrong with a rule's names, before anything is matched.

- The left side is made of ops; a lone variable matches everything and is refused.
- Every name on the right, in a condition or in a let is bound by the left side or a let before it.
- Ops of the table are called with their operands and attributes; functions exist; traits and dtypes exist.
- A name is one thing: a tensor, a number or tuple, or an op.
- Both sides give the same roots. A `<=>` obeys all this in both directions.

Composites come from models, so an op that is not in the table is left to `check_rules`. Must not know egglog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..graph import DTYPES, OPS
from ..source import Diagnostic, Span, did_you_mean
from .forms import is_tensor_expr, operand_count, starred_names, types_of
from .functions import FUNCTIONS
from .syntax import Call, Expr, Name, Prefix, Root, Rule, Star, Typed, TypePattern, walk
from .values import DTYPE_CLASSES

TRAITS = tuple(sorted({trait for op in OPS.values() for trait in op.traits}))


def check_scope(rule: Rule) -> list[Diagnostic]:
    """Everything wrong with the names of `rule`; `impl` rules are checked on their left side only."""
    found = list(_heads(rule))
    if found:
        return found
    directions = [(rule.left, rule.right)] + [(rule.right, rule.left)] * rule.both
    for left, right in directions:
        found += _direction(rule, left, right)
    return list(dict.fromkeys(found)) or list(_unused(rule))


def _error(code: str, message: str, span: Span, help: str | None = None) -> Diagnostic:
    return Diagnostic(code, message, span, help=help)


def _heads(rule: Rule) -> Iterator[Diagnostic]:
    for _, trait in rule.op_vars:
        if trait not in TRAITS:
            yield _error(
                "E0304",
                f"no trait of ops is called {trait}",
                rule.span,
                did_you_mean(trait, TRAITS) or f"traits are {', '.join(TRAITS)}",
            )
    for pattern in types_of(rule).values():
        yield from _dtypes(pattern, rule)
    sides = [r.expr for r in rule.left] + ([] if rule.target else [r.expr for r in rule.right])
    sides += [e for _, e in rule.lets if is_tensor_expr(e)] if not rule.target else []
    for side in sides:
        yield from _tensor_calls(side, rule)
    scalars = [*rule.wheres, *(e for _, e in rule.lets if not is_tensor_expr(e))]
    for e in scalars if not rule.target else []:
        yield from _scalar_calls(e)
    if {r.name for r in rule.left} != {r.name for r in rule.right}:
        yield _error(
            "E0306",
            "both sides must give the same results",
            rule.span,
            "name them alike: `y1 = …; y2 = … => y1 = …; y2 = …`",
        )


def _dtypes(pattern: TypePattern, rule: Rule) -> Iterator[Diagnostic]:
    known = (*DTYPE_CLASSES, *DTYPES)
    for name in pattern.dtypes:
        if name not in known and (len(pattern.dtypes) > 1 or not name[0].isupper()):
            yield _error(
                "E0304",
                f"no dtype or class of dtypes is called {name}",
                rule.span,
                did_you_mean(name, known) or "a dtype variable starts with a capital and stands alone",
            )


def _tensor_calls(e: Expr, rule: Rule) -> Iterator[Diagnostic]:
    """Mistakes in an expression of tensors: ops in operand places, functions in attributes."""
    match e:
        case Name() | Typed():
            return
        case Star(of):
            yield from _tensor_calls(of, rule)
        case Call(fn, args, kwargs, span) if fn in dict(rule.op_vars):
            if kwargs:
                yield _error("E0307", f"{fn} stands for any op and keeps its attributes; it takes none here", span)
            for a in args:
                yield from _tensor_calls(a, rule)
        case Call(fn, args, kwargs, span) if fn not in FUNCTIONS:
            yield from _op_call(e)
            count = operand_count(fn, len(args))
            for a in args[:count]:
                yield from _tensor_calls(a, rule)
            for a in (*args[count:], *(v for _, v in kwargs)):
                yield from _scalar_calls(a)
        case Call(fn, _, _, span):
            yield _error("E0306", f"{fn} gives a number or tuple; an op or a variable is needed here", span)
        case _:
            yield _error(
                "E0306",
                "an op or a variable is needed here",
                getattr(e, "span", rule.span),
                "a constant tensor is `full(1)` on the left, `full(1, dtype=D, shape=s)` on the right",
            )


def _op_call(e: Call) -> Iterator[Diagnostic]:
    if e.fn not in OPS:
        return
    row = OPS[e.fn]
    stars = any(isinstance(a, Star) for a in e.args)
    extra = len(e.args) - len(row.operands)
    if not stars and (len(e.args) < len(row.operands) or (not row.variadic and extra > len(row.attrs))):
        takes = f"{len(row.operands)} operands ({', '.join(row.operands)})"
        yield _error("E0307", f"{e.fn} takes {takes}, got {len(e.args)}", e.span)
    names = [s.name for s in row.attrs] + ["axis", "start", "stop"] * (e.fn == "slice")
    for name, _ in e.kwargs:
        if name not in names:
            yield _error(
                "E0307",
                f"{e.fn} has no attribute {name}",
                e.span,
                did_you_mean(name, names) or (f"it has {', '.join(names)}" if names else "it has none"),
            )


def _scalar_calls(e: Expr) -> Iterator[Diagnostic]:
    for x in walk(e):
        if isinstance(x, Call) and x.fn not in FUNCTIONS and x.fn != "not":
            what = f"no function is called {x.fn}"
            if x.fn in OPS:
                what = f"{x.fn} is an op; its result is a tensor, not a number"
            yield _error("E0304", what, x.span, did_you_mean(x.fn, FUNCTIONS))
        if isinstance(x, Typed):
            yield _error("E0306", "a type can be given to operands only", x.span)


# ---- binding -------------------------------------------------------------------------------------


def _direction(rule: Rule, left: tuple[Root, ...], right: tuple[Root, ...]) -> Iterator[Diagnostic]:
    for root in left:
        if not isinstance(root.expr, Call):
            yield _error(
                "E0306",
                "a lone variable matches every tensor",
                root.expr.span or rule.span,
                "a rule cannot start from it; write `=>` for one direction",
            )
            return
    bound = _bound(rule, left)
    if rule.both and left is rule.left and any(is_tensor_expr(e) for _, e in rule.lets):
        yield _error("E0306", "a rule with a `let` of a tensor works in one direction only", rule.span, "write `=>`")
    for e in _left_uses(rule, left):
        yield from _unbound(e, bound | {n for n, e in rule.lets if not is_tensor_expr(e)})
    names = set(bound)
    for scalar in (True, False):
        for name, e in rule.lets:
            if is_tensor_expr(e) == scalar:
                continue
            if not (rule.target and isinstance(e, Name) and e.id.startswith("target.")):
                yield from _unbound(e, names)
            names.add(name)
    if rule.target:
        names |= {x.id for e in rule.wheres for x in walk(e) if isinstance(x, Name) and x.id.startswith("target.")}
    for e in rule.wheres:
        yield from _unbound(e, names)
    if not rule.target:
        for root in right:
            yield from _unbound(root.expr, names)


def _bound(rule: Rule, left: tuple[Root, ...]) -> set[str]:
    """Names that matching `left` gives a value."""
    tensors = {n for root in left for n in _variables(root.expr, rule)}
    names = tensors | {r.name for r in left if r.name} | {n for n, _ in rule.op_vars}
    for name, pattern in types_of(rule).items():
        if name in tensors:
            names |= set(_pattern_names(pattern))
    for root in left:
        for _, e in _attributes(root.expr, rule):
            if isinstance(e, Name) and e.id not in DTYPES:
                names.add(e.id)
    return names


def _variables(e: Expr, rule: Rule) -> Iterator[str]:
    match e:
        case Name(id):
            yield id
        case Typed(name):
            yield name
        case Star(of):
            yield from _variables(of, rule)
        case Call(fn, args):
            count = len(args) if fn in dict(rule.op_vars) else operand_count(fn, len(args))
            for a in args[:count]:
                yield from _variables(a, rule)
        case _:
            return


def _attributes(e: Expr, rule: Rule) -> Iterator[tuple[str, Expr]]:
    """Attributes of every op in an expression of tensors."""
    match e:
        case Star(of):
            yield from _attributes(of, rule)
        case Call(fn, args, kwargs):
            count = len(args) if fn in dict(rule.op_vars) else operand_count(fn, len(args))
            yield from (("", a) for a in args[count:])
            yield from kwargs
            for a in args[:count]:
                yield from _attributes(a, rule)
        case _:
            return


def _pattern_names(pattern: TypePattern) -> Iterator[str]:
    first = pattern.dtypes[0]
    if first not in DTYPE_CLASSES and first not in DTYPES:
        yield first
    for d in pattern.dims or ():
        if isinstance(d, Prefix):
            yield d.name
        elif isinstance(d, Name):
            yield d.id


def _left_uses(rule: Rule, left: tuple[Root, ...]) -> Iterator[Expr]:
    """Expressions of the left side that are compared rather than bound."""
    tensors = {n for root in left for n in _variables(root.expr, rule)}
    for root in left:
        yield from (e for _, e in _attributes(root.expr, rule) if not isinstance(e, Name))
    for name, pattern in types_of(rule).items():
        if name in tensors:
            yield from (d for d in pattern.dims or () if not isinstance(d, Prefix | Name))


def _unbound(e: Expr, bound: set[str]) -> Iterator[Diagnostic]:
    for x in walk(e):
        if isinstance(x, Name) and x.id not in bound and x.id not in DTYPES:
            yield _error(
                "E0305",
                f"{x.id} has no value: the side that is matched does not give it one",
                x.span,
                did_you_mean(x.id, bound),
            )
        if isinstance(x, Typed) and x.name not in bound:
            yield _error(
                "E0305",
                f"{x.name} has no value: the side that is matched does not give it one",
                x.span,
                did_you_mean(x.name, bound),
            )


def _unused(rule: Rule) -> Iterable[Diagnostic]:
    if rule.target:
        return
    used = {
        x.id
        for e in (*(e for _, e in rule.lets), *rule.wheres, *(r.expr for r in (*rule.left, *rule.right)))
        for x in walk(e)
        if isinstance(x, Name)
    }
    for name, _ in rule.lets:
        if name not in used:
            yield Diagnostic("E0308", f"{name} is never used", rule.span, severity="warning")
    names = starred_names(rule)
    tensors = {n for r in rule.left for n in _variables(r.expr, rule)}
    numbers = set(_bound(rule, rule.left)) - tensors - {r.name for r in rule.left}
    for name in sorted((tensors & _scalars(rule)) - names | (tensors & numbers)):
        yield _error("E0308", f"{name} is both a tensor and a dim or attribute", rule.span)


def _scalars(rule: Rule) -> set[str]:
    """Names that dims or attributes of the left side bind."""
    found = {n for p in types_of(rule).values() for n in _pattern_names(p)}
    return found | {e.id for r in rule.left for _, e in _attributes(r.expr, rule) if isinstance(e, Name)}
