"""Calls against signatures: which argument is which, what dims and dtypes of a fn stand for, what it returns.

Dims and dtypes in the types of a fn's tensor arguments are fresh: they are bound by the arguments' shapes. A dim
expression such as `2*H` is solved when one name in it is not yet bound, and compared otherwise. Must not know how
bodies are executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..graph import DTYPES, DType, TensorType
from ..source import Note, did_you_mean, nearest
from . import arrays
from .frame import Tensor
from .syntax import Arg, At, Binary, Expr, FnDecl, Formal, Literal, Name, Spread, TypeOf
from .values import POISON, Poisoned, Site, Value, describe, is_static_number

STATIC_KINDS = ("int", "float", "bool", "str", "dims", "dtype")

Evaluate = Callable[[Expr], Value]


def is_static(formal: Formal) -> bool:
    """Whether `formal` takes a static value rather than a tensor."""
    return formal.type.dims is None


def signature_text(decl: FnDecl, text: str) -> str:
    """The header of `decl` as it is written, on one line, without `fn` and colon."""
    header = " ".join(text[decl.at[0] : decl.at[1]].split())
    return header.removeprefix("op ").removeprefix("fn ")


@dataclass(slots=True)
class Bindings:
    """What a call has bound so far: values of names, and the argument each dim and dtype was seen in."""

    names: dict[str, Value] = field(default_factory=dict["str", "Value"])
    seen_in: dict[str, str] = field(default_factory=dict["str", "str"])


def assign_arguments(
    site: Site, what: str, signature: str, names: Sequence[str], required: Sequence[str], args: Sequence[tuple[Arg, Value]]
) -> dict[str, tuple[Arg, Value]]:
    """Which value each name takes; positional ones first."""
    given: dict[str, tuple[Arg, Value]] = {}
    help = f"it is `{signature}`"
    for i, (arg, value) in enumerate(args):
        if not arg.name:
            if i >= len(names):
                count = sum(not a.name for a, _ in args)
                site.fail("E0106", f"`{what}` takes {_count(len(names))}, got {count}", help=help, at=arg.at)
            name = names[i]
        elif arg.name not in names:
            meant = did_you_mean(arg.name, names)
            site.fail("E0106", f"`{what}` has no argument `{arg.name}`", help=meant or help, at=arg.at)
        else:
            name = arg.name
        if name in given:
            site.fail("E0106", f"`{what}` is given `{name}` twice", help=help, at=arg.at)
        given[name] = (arg, value)
    missing = [f"`{n}`" for n in required if n not in given]
    if missing:
        site.fail("E0106", f"`{what}` needs {_listed(missing)}", help=help)
    return given


def _count(n: int) -> str:
    return "no arguments" if n == 0 else f"{n} argument{'s' * (n != 1)}"


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def static_value(site: Site, kind: str, name: str, value: Value) -> Value:
    """`value` as a static argument `name: kind`; another kind of value is a mistake."""
    fits = {
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": is_static_number(value),
        "bool": isinstance(value, bool),
        "str": isinstance(value, str),
        "dtype": isinstance(value, DType),
        "dims": isinstance(value, tuple) and all(isinstance(v, int) and not isinstance(v, bool) for v in value),
    }
    if value is POISON:
        raise Poisoned
    if not fits[kind]:
        words = {"int": "a static integer", "float": "a static number", "bool": "true or false", "str": "a string",
                 "dtype": "a dtype", "dims": "a list of integers"}  # fmt: skip
        site.fail("E0107", f"`{name}` is {words[kind]}, not {describe(value)}")
    return float(value) if kind == "float" else value  # pyright: ignore[reportArgumentType]


def match_type(site: Site, decl_name: str, formal: Formal, type: TensorType, bound: Bindings, evaluate: Evaluate) -> None:
    """Binds the dtype and dims of `formal` to those of `type`; what is bound already must agree."""
    _match_dtype(site, decl_name, formal, type, bound)
    dims = formal.type.dims
    assert dims is not None
    sizes = _paired(site, decl_name, formal, dims, type)
    for dim, size in sizes:
        name = dim.name if isinstance(dim, Spread) else dim.id if isinstance(dim, Name) else ""
        if not name:
            continue
        if name not in bound.names:
            bound.names[name] = size
            bound.seen_in[name] = f"{formal.name}: {type}"
        else:
            _agree(site, decl_name, formal, type, name, bound.names[name], size, bound)


def match_expressions(site: Site, decl_name: str, formal: Formal, type: TensorType, bound: Bindings, evaluate: Evaluate) -> None:
    """Solves or compares the dims of `formal` that are expressions, once the plain ones are bound."""
    dims = formal.type.dims
    assert dims is not None
    for dim, size in _paired(site, decl_name, formal, dims, type):
        if isinstance(dim, Name | Spread):
            continue
        assert isinstance(size, int)
        unknown = [n for n in _names(dim) if n not in bound.names]
        if len(unknown) == 1:
            solved = _solve(dim, size, unknown[0], evaluate)
            if solved is None:
                _differs(site, decl_name, formal, type, f"its dims cannot be written so: {size} is no `{_text(site, dim)}`")
            bound.names[unknown[0]] = solved
            bound.seen_in[unknown[0]] = f"{formal.name}: {type}"
        wanted = evaluate(dim)
        if wanted != size:
            _differs(site, decl_name, formal, type, f"`{_text(site, dim)}` is {describe(wanted).removeprefix('the integer ')}, not {size}")


def _match_dtype(site: Site, decl_name: str, formal: Formal, type: TensorType, bound: Bindings) -> None:
    name = formal.type.name
    if name in DTYPES:
        if type.dtype.name != name:
            help = f"convert it: `{name}(…)`"
            site.fail("E0109", f"`{formal.name}` of `{decl_name}` is a tensor of {name}, got {type}", help=help)
    elif name not in bound.names:
        bound.names[name] = type.dtype
        bound.seen_in[name] = f"{formal.name}: {type}"
    elif bound.names[name] != type.dtype:
        first = bound.seen_in.get(name)
        seen = f" in `{first}`" if first else ""
        help = f"convert one of them, as in `{bound.names[name]}(…)`"
        message = f"`{name}` of `{decl_name}` is {bound.names[name]}{seen}, but `{formal.name}` is {type}"
        site.fail("E0109", message, help=help)


def _paired(site: Site, decl_name: str, formal: Formal, dims: tuple[Expr, ...], type: TensorType) -> list[tuple[Expr, Value]]:
    """Each dim with the size it stands for; `..S` with the tuple of sizes that are left."""
    spread = [i for i, d in enumerate(dims) if isinstance(d, Spread)]
    if type.rank != len(dims) if not spread else type.rank < len(dims) - 1:
        least = "at least " if spread else ""
        _differs(site, decl_name, formal, type, f"it has {type.rank} axes, not {least}{len(dims) - len(spread)}")
    if not spread:
        return list(zip(dims, type.shape, strict=True))
    at = spread[0]
    after = len(dims) - at - 1
    middle = type.shape[at : type.rank - after]
    right = zip(dims[at + 1 :], type.shape[type.rank - after :], strict=True)
    return [*zip(dims[:at], type.shape[:at], strict=True), (dims[at], middle), *right]


def _agree(
    site: Site, decl_name: str, formal: Formal, type: TensorType, name: str, before: Value, now: Value, bound: Bindings
) -> None:
    if before == now:
        return
    first = bound.seen_in.get(name)
    seen = f" in `{first}`" if first else ""
    _differs(site, decl_name, formal, type, f"`{name}` is {_size(before)}{seen}, but {_size(now)} here")


def _size(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(str(int(v)) for v in value if isinstance(v, int))}]"
    return str(int(value)) if isinstance(value, int) else describe(value)


def _differs(site: Site, decl_name: str, formal: Formal, type: TensorType, why: str) -> None:
    declared = _text(site, formal.type)
    site.fail("E0108", f"`{formal.name}` of `{decl_name}` is {declared}, got {type}: {why}")


def _text(site: Site, piece: Expr | TypeOf) -> str:
    """What the callee's source says at `piece`."""
    return _SOURCES[-1][piece.at[0] : piece.at[1]]


# The texts of the signatures being matched, innermost last.
_SOURCES: list[str] = []


def _names(expr: Expr) -> list[str]:
    match expr:
        case Name():
            return [expr.id]
        case Binary():
            return [*_names(expr.left), *_names(expr.right)]
        case _:
            return []


def _solve(expr: Expr, size: int, name: str, evaluate: Evaluate) -> int | None:
    """The value of `name`, which stands once in `expr`, that makes `expr` equal `size`; None when there is none."""
    while isinstance(expr, Binary):
        on_left = name in _names(expr.left)
        known = evaluate(expr.right if on_left else expr.left)
        if not isinstance(known, int):
            return None
        match expr.op, on_left:
            case "+", _:
                size = size - known
            case "-", True:
                size = size + known
            case "-", False:
                size = known - size
            case "*", _ if known and size % known == 0:
                size = size // known
            case _:
                return None
        expr = expr.left if on_left else expr.right
    return size if isinstance(expr, Name) and size >= 0 else None


def type_of(site: Site, written: TypeOf, lookup: Callable[[str, At], Value], evaluate: Evaluate) -> TensorType:
    """The tensor type that `written` names where every name in it is known."""
    element = DTYPES.get(written.name) or lookup(written.name, (written.at[0], written.at[0] + len(written.name)))
    if element is POISON:
        raise Poisoned
    if not isinstance(element, DType):
        near = nearest(written.name, DTYPES)
        help = f"did you mean `{near}`?" if near else f"the dtypes are {', '.join(DTYPES)}"
        site.fail("E0107", f"`{written.name}` is not a dtype", help=help, at=written.at)
    if written.dims is None:
        site.fail("E0107", f"`{written.name}` has no dims", help=f"a scalar tensor is `{written.name}[]`", at=written.at)
    shape: list[int] = []
    for dim in written.dims:
        got = lookup(dim.name, dim.at) if isinstance(dim, Spread) else evaluate(dim)
        shape += [_dim(site, d, dim.at) for d in (got if isinstance(got, tuple) else (got,))]
    return TensorType(element, tuple(shape))


def _dim(site: Site, value: Value, at: At) -> int:
    if value is POISON:
        raise Poisoned
    if not isinstance(value, int) or isinstance(value, bool):
        help = "write `//` to divide integers" if isinstance(value, float) else None
        site.fail("E0111", f"a dim is a static integer, not {describe(value)}", help=help, at=at)
    if not 0 <= value <= 2**31 - 1:
        site.fail("E0116", f"a dim lies between 0 and {2**31 - 1}, got {int(value)}", at=at)
    return value


def scalar_for(site: Site, formal: Formal, value: Value, bound: Bindings) -> Tensor:
    """A static number where a tensor of rank 0 is declared and its dtype is known."""
    dims = formal.type.dims or ()
    element = DTYPES.get(formal.type.name) or bound.names.get(formal.type.name)
    fits = isinstance(value, bool) or is_static_number(value)
    if not fits or not isinstance(element, DType) or any(not isinstance(d, Spread) for d in dims):
        help = "make a tensor of it, as in `f32(1.0)`" if fits else None
        site.fail("E0107", f"`{formal.name}` is a tensor, not {describe(value)}", help=help)
    return arrays.constant(site, value, element, (), f"`{formal.name}`")  # pyright: ignore[reportArgumentType]


def literal_name(expr: Expr) -> str:
    return expr.id if isinstance(expr, Name) else str(expr.value) if isinstance(expr, Literal) else ""


def note_signature(decl_span: Note) -> Note:
    return decl_span
