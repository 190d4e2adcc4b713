"""What an expression of a rule is worth, and how a match binds its variables.

`bind` takes the tensors and attributes that a left side met and gives every variable its value, or says that the rule
does not apply; `build` makes the right side. The search and the checker both come through here. Must not know egglog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ..graph import DTYPES, Array, Attr, DType, InferError, TensorType
from ..graph.ops import AttrMap
from .forms import Form, PatternOp, operand_count, positional_attrs
from .functions import FUNCTIONS, NO_VALUE, Facts, Tensor, equal, put
from .syntax import Binary, Call, Cut, Expr, Index, Lit, Name, Prefix, Star, Tup, TypePattern, Unary

Value: TypeAlias = "int | float | str | bool | DType | Array | Tensor | OpHead | tuple[Value, ...] | None"
Env: TypeAlias = dict[str, Value]

# Facts that may yet become true: a condition that failed for want of one is asked again.
_SOFT = frozenset(("is_full", "is_const", "is_param", "is_written"))


class NoMatch(Exception):
    """The rule does not apply here. `soft` when it may later, as more becomes known."""

    def __init__(self, why: str, soft: bool = False) -> None:
        super().__init__(why)
        self.soft = soft


@dataclass(frozen=True, slots=True)
class OpHead:
    """What an op variable stands for: the op with all its attributes."""

    op: str
    attrs: tuple[tuple[str, Attr], ...]


class Maker(Protocol):
    """Where a right side is built."""

    def make(self, op: str, args: tuple[Tensor, ...], attrs: AttrMap) -> Tensor:
        """The tensor; InferError when the operands do not fit."""
        ...


# ---- scalar expressions --------------------------------------------------------------------------


def evaluate(e: Expr, env: Mapping[str, Value], facts: Facts) -> Value:
    """The value of `e`; NoMatch when it has none (an index out of range, a division by zero)."""
    try:
        return _value(e, env, facts)
    except NO_VALUE as error:
        raise NoMatch(f"{type(error).__name__}: {error}") from None


def _value(e: Expr, env: Mapping[str, Value], facts: Facts) -> Any:
    match e:
        case Lit(value):
            return value
        case Name(id):
            return env[id] if id in env else DTYPES[id]
        case Call("not", (of,)):
            return not _value(of, env, facts)
        case Call(fn, args):
            row = FUNCTIONS[fn]
            values = [_value(a, env, facts) for a in args]
            return row.run(facts, *values) if row.facts else row.run(*values)
        case Tup(items):
            return _tuple(items, env, facts)
        case Index(of, at):
            return _value(of, env, facts)[_value(at, env, facts)]
        case Cut(of, start, stop):
            ends = [None if x is None else _value(x, env, facts) for x in (start, stop)]
            return _value(of, env, facts)[slice(*ends)]
        case Unary("-", of):
            return -_value(of, env, facts)
        case Unary(_, of):
            return not _value(of, env, facts)
        case Binary("and", left, right):
            return _value(left, env, facts) and _value(right, env, facts)
        case Binary("or", left, right):
            return _value(left, env, facts) or _value(right, env, facts)
        case Binary(op, left, right):
            return _binary(op, _value(left, env, facts), _value(right, env, facts), facts)
        case _:
            raise TypeError(f"{type(e).__name__} has no value of its own")


def _tuple(items: tuple[Expr, ...], env: Mapping[str, Value], facts: Facts) -> tuple[Any, ...]:
    got: list[Any] = []
    for item in items:
        if isinstance(item, Star):
            got += _value(item.of, env, facts)
        else:
            got.append(_value(item, env, facts))
    return tuple(got)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _binary(op: str, a: Any, b: Any, facts: Facts) -> Any:
    if op in ("==", "!="):
        same = facts.same(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else equal(a, b)
        return same == (op == "==")
    return _BINARY[op](a, b)


# ---- binding -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Match:
    """What a left side met: a tensor for each variable and root, the op and attributes at each pattern node."""

    tensors: Mapping[str, Tensor]
    heads: tuple[OpHead, ...]


def bind(form: Form, match: Match, facts: Facts) -> Env:
    """Values of every variable of `form`, lets of scalars included; NoMatch when a condition fails."""
    env: Env = dict(match.tensors)
    for e in form.first:
        require(e, env, facts)
    later: list[tuple[Expr, Value]] = []
    for node, head in zip(form.nodes, match.heads, strict=True):
        _bind_head(node, head, env, later)
    for name, pattern in form.types:
        tensor = env[name]
        assert isinstance(tensor, Tensor)
        _unify_type(pattern, facts.type(tensor), env, later)
    for name, e in form.scalar_lets:
        env[name] = evaluate(e, env, facts)
    for e, found in later:
        if not equal(evaluate(e, env, facts), found):
            raise NoMatch("an attribute or dim differs")
    for e in form.wheres:
        require(e, env, facts)
    return env


def require(e: Expr, env: Env, facts: Facts) -> None:
    """NoMatch unless condition `e` holds."""
    if not evaluate(e, env, facts):
        raise NoMatch("a condition does not hold", soft=is_soft(e))


def is_soft(e: Expr) -> bool:
    """Whether `e` asks for something that may yet become known."""
    match e:
        case Call(fn, args):
            return fn in _SOFT or any(map(is_soft, args))
        case Unary(_, of):
            return is_soft(of)
        case Binary(_, left, right):
            return is_soft(left) or is_soft(right)
        case _:
            return False


def _bind_head(node: PatternOp, head: OpHead, env: Env, later: list[tuple[Expr, Value]]) -> None:
    if node.variable:
        _bind_name(node.op, head, env)
        return
    found = dict(head.attrs)
    for name, e in node.attrs:
        if name not in found:
            raise NoMatch(f"{head.op} has no attribute {name}")
        unify(e, found[name], env, later)


def unify(e: Expr, found: Value, env: Env, later: list[tuple[Expr, Value]]) -> None:
    """Binds `e` to `found` when it is a new name; checks it now when it is plain, else puts it in `later`."""
    match e:
        case Name(id) if id not in DTYPES:
            _bind_name(id, found, env)
        case Lit(value):
            if not equal(value, found):
                raise NoMatch("an attribute differs")
        case _:
            later.append((e, found))


def _bind_name(name: str, found: Value, env: Env) -> None:
    if name not in env:
        env[name] = found
    elif not equal(env[name], found):
        raise NoMatch(f"{name} has two values")


DTYPE_CLASSES: dict[str, Callable[[DType], bool]] = {
    "any": lambda d: True,
    "num": lambda d: d.is_float or d.is_int,
    "float": lambda d: d.is_float,
    "int": lambda d: d.is_int,
}


def _unify_type(pattern: TypePattern, t: TensorType, env: Env, later: list[tuple[Expr, Value]]) -> None:
    (first, *_), names = pattern.dtypes, pattern.dtypes
    if first in DTYPE_CLASSES or first in DTYPES:
        if not any(DTYPE_CLASSES[n](t.dtype) if n in DTYPE_CLASSES else n == t.dtype.name for n in names):
            raise NoMatch(f"{t.dtype} is not {' or '.join(names)}")
    else:
        _bind_name(first, t.dtype, env)
    if pattern.dims is not None:
        _unify_dims(pattern.dims, t.shape, env, later)


def _unify_dims(
    dims: tuple[Prefix | Expr, ...], shape: tuple[int, ...], env: Env, later: list[tuple[Expr, Value]]
) -> None:
    at = next((i for i, d in enumerate(dims) if isinstance(d, Prefix)), None)
    if at is None:
        if len(dims) != len(shape):
            raise NoMatch(f"rank {len(shape)} is not {len(dims)}")
        pairs = list(zip(dims, shape, strict=True))
    else:
        tail = len(dims) - at - 1
        if len(shape) < at + tail:
            raise NoMatch(f"rank {len(shape)} is less than {at + tail}")
        prefix = dims[at]
        assert isinstance(prefix, Prefix)
        _bind_name(prefix.name, shape[at : len(shape) - tail], env)
        pairs = [*zip(dims[:at], shape, strict=False), *zip(dims[at + 1 :], shape[len(shape) - tail :], strict=True)]
    for e, d in pairs:
        assert not isinstance(e, Prefix)
        unify(e, d, env, later)


# ---- building ------------------------------------------------------------------------------------


def build(form: Form, env: Env, facts: Facts, maker: Maker) -> list[tuple[str, Tensor]]:
    """The right side: for each root its name and tensor. NoMatch when an operand does not fit its op."""
    names = dict(env)
    try:
        for name, e in form.tensor_lets:
            names[name] = _tensor(e, names, facts, maker)
        return [(root.name, _tensor(root.expr, names, facts, maker)) for root in form.right]
    except (InferError, *NO_VALUE) as error:
        raise NoMatch(str(error)) from None


def _tensor(e: Expr, env: Env, facts: Facts, maker: Maker) -> Tensor:
    if isinstance(e, Name):
        got = env[e.id]
        if not isinstance(got, Tensor):
            raise NoMatch(f"{e.id} is not a tensor")
        return got
    assert isinstance(e, Call), e
    head = env.get(e.fn)
    count = operand_count(e.fn, len(e.args)) if head is None else len(e.args)
    args = tuple(_tensor(a, env, facts, maker) for a in e.args[:count])
    if isinstance(head, OpHead):
        return maker.make(head.op, args, dict(head.attrs))
    given = {**positional_attrs(e.fn, e.args[count:]), **dict(e.kwargs)}
    attrs: dict[str, Any] = {k: evaluate(v, env, facts) for k, v in given.items()}
    if e.fn == "slice" and "axis" in attrs:
        attrs = slice_axis(facts.type(args[0]).shape, **attrs)
    return maker.make(e.fn, args, attrs)


def slice_axis(shape: tuple[int, ...], axis: int, start: int = 0, stop: int | None = None) -> dict[str, Any]:
    """The attributes of `slice(x, axis=, start=, stop=)`, which cuts one axis and keeps the others whole."""
    at = range(len(shape))[axis]
    whole = (0,) * len(shape)
    end = shape[at] if stop is None else stop
    return {"starts": put(whole, at, start), "stops": put(shape, at, end), "steps": (1,) * len(shape)}
