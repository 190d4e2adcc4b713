"""Calls against signatures: which argument is which, and what the dims and dtypes of a fn stand for.

Dims and dtypes in the types of a fn's tensor arguments are fresh: the arguments' shapes bind them. A dim expression
such as `2*H` is solved when one name in it is not yet bound, and compared otherwise. Must not know how bodies are
executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from ..graph import DTYPES, DType, TensorType
from ..source import did_you_mean, nearest
from . import arrays
from .frame import Tensor
from .syntax import Arg, At, Binary, Expr, FnDecl, Formal, Name, Spread, TypeOf
from .values import POISON, Poisoned, Site, Value, describe, is_static_number

STATIC_KINDS = ("int", "float", "bool", "str", "dims", "dtype")
_KIND_WORDS = {
    "int": "a static integer",
    "float": "a static number",
    "bool": "true or false",
    "str": "a string",
    "dtype": "a dtype",
    "dims": "a list of integers",
}
_MAX_DIM = 2**31 - 1

Evaluate: TypeAlias = Callable[[Expr], Value]
Lookup: TypeAlias = Callable[[str, At], Value]


def is_static(formal: Formal) -> bool:
    """Whether `formal` takes a static value rather than a tensor."""
    return formal.type.dims is None


def signature_text(decl: FnDecl, text: str) -> str:
    """The header of `decl` as it is written, on one line, without `fn` and colon."""
    header = " ".join(text[decl.at[0] : decl.at[1]].split())
    return header.removeprefix("op ").removeprefix("fn ")


# ---- which argument is which ---------------------------------------------------------------------


def assign_arguments(
    site: Site,
    what: str,
    signature: str,
    names: Sequence[str],
    required: Sequence[str],
    args: Sequence[tuple[Arg, Value]],
) -> dict[str, tuple[Arg, Value]]:
    """Which value each name takes; positional ones first."""
    given: dict[str, tuple[Arg, Value]] = {}
    help = f"it is `{signature}`"
    for i, (arg, value) in enumerate(args):
        if not arg.name and i >= len(names):
            count = sum(not a.name for a, _ in args)
            site.fail("E0106", f"`{what}` takes {_count(len(names))}, got {count}", help=help, at=arg.at)
        name = arg.name or names[i]
        if name not in names:
            meant = did_you_mean(name, names)
            site.fail("E0106", f"`{what}` has no argument `{name}`", help=meant or help, at=arg.at)
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
    if value is POISON:
        raise Poisoned
    fits = {
        "int": _is_int(value),
        "float": is_static_number(value),
        "bool": isinstance(value, bool),
        "str": isinstance(value, str),
        "dtype": isinstance(value, DType),
        "dims": isinstance(value, tuple) and all(map(_is_int, value)),
    }
    if not fits[kind]:
        help = "a static value is known at build; a tensor is not" if isinstance(value, Tensor) else None
        site.fail("E0107", f"`{name}` is {_KIND_WORDS[kind]}, not {describe(value)}", help=help)
    return float(value) if kind == "float" else value  # pyright: ignore[reportArgumentType]


def _is_int(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# ---- what dims and dtypes stand for --------------------------------------------------------------


@dataclass(slots=True)
class Matcher:
    """A call being matched: `names` holds what is bound so far, `seen_in` the argument that bound it.

    `evaluate` gives the value of a dim expression from `names`; `text` is the source of `decl`.
    """

    decl: FnDecl
    text: str
    names: dict[str, Value]
    evaluate: Evaluate
    seen_in: dict[str, str] = field(default_factory=dict["str", "str"])

    def match(self, given: Sequence[tuple[Site, Formal, TensorType]]) -> None:
        """Binds names to the types of all tensor arguments: plain dims first, then expressions."""
        for site, formal, type in given:
            self._dtype(site, formal, type)
            for dim, size in self._paired(site, formal, type):
                name = dim.name if isinstance(dim, Spread) else dim.id if isinstance(dim, Name) else ""
                if name:
                    self._plain(site, formal, type, name, size)
        for site, formal, type in given:
            for dim, size in self._paired(site, formal, type):
                if not isinstance(dim, Name | Spread):
                    self._expression(site, formal, type, dim, size)

    def _dtype(self, site: Site, formal: Formal, type: TensorType) -> None:
        name = formal.type.name
        if name in DTYPES:
            if type.dtype.name != name:
                message = f"`{formal.name}` of `{self.decl.name}` is a tensor of {name}, got {type}"
                site.fail("E0109", message, help=f"convert it: `{name}(…)`")
            return
        bound = self.names.setdefault(name, type.dtype)
        if bound != type.dtype:
            message = f"`{name}` is {bound}{self._where(name)}, but `{formal.name}` is {type}"
            site.fail("E0109", f"`{self.decl.name}`: {message}", help=f"convert one of them, as in `{bound}(…)`")
        self.seen_in.setdefault(name, f"{formal.name}: {type}")

    def _paired(self, site: Site, formal: Formal, type: TensorType) -> list[tuple[Expr, Value]]:
        """Each dim with the size it stands for; `..S` with the tuple of the sizes that are left."""
        dims = formal.type.dims or ()
        spreads = [i for i, d in enumerate(dims) if isinstance(d, Spread)]
        fixed = len(dims) - len(spreads)
        if len(spreads) > 1:
            site.fail("E0107", f"`{self._written(formal)}` of `{self.decl.name}` has `..` twice")
        if type.rank < fixed or (type.rank > fixed and not spreads):
            self._differs(site, formal, type, f"it has {type.rank} axes, not {'at least ' * bool(spreads)}{fixed}")
        if not spreads:
            return list(zip(dims, type.shape, strict=True))
        at, end = spreads[0], type.rank - (len(dims) - spreads[0] - 1)
        left = zip(dims[:at], type.shape[:at], strict=True)
        return [*left, (dims[at], type.shape[at:end]), *zip(dims[at + 1 :], type.shape[end:], strict=True)]

    def _plain(self, site: Site, formal: Formal, type: TensorType, name: str, size: Value) -> None:
        bound = self.names.setdefault(name, size)
        if bound != size:
            self._differs(site, formal, type, f"`{name}` is {_size(bound)}{self._where(name)}, but {_size(size)} here")
        self.seen_in.setdefault(name, f"{formal.name}: {type}")

    def _expression(self, site: Site, formal: Formal, type: TensorType, dim: Expr, size: Value) -> None:
        assert isinstance(size, int)
        shown = self.text[dim.at[0] : dim.at[1]]
        unknown = sorted({n for n in _names(dim) if n not in self.names})
        if len(unknown) == 1 and _names(dim).count(unknown[0]) == 1:
            solved = _solve(dim, size, unknown[0], self.evaluate)
            if solved is None:
                self._differs(site, formal, type, f"no `{unknown[0]}` makes `{shown}` {int(size)}")
            self.names[unknown[0]] = solved
            self.seen_in[unknown[0]] = f"{formal.name}: {type}"
        wanted = self.evaluate(dim)
        if wanted != size:
            self._differs(site, formal, type, f"`{shown}` is {_size(wanted)}, but {int(size)} here")

    def _where(self, name: str) -> str:
        return f" in `{self.seen_in[name]}`" if name in self.seen_in else ""

    def _written(self, formal: Formal) -> str:
        return self.text[formal.at[0] : formal.at[1]].split("=")[0].strip()

    def _differs(self, site: Site, formal: Formal, type: TensorType, why: str) -> NoReturn:
        site.fail("E0108", f"`{self.decl.name}` takes `{self._written(formal)}`, got {type}: {why}")


def _size(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(str(int(v)) for v in value if isinstance(v, int))}]"
    return str(int(value)) if isinstance(value, int) else describe(value)


def _names(expr: Expr) -> list[str]:
    """Every name in a dim expression, as often as it stands there."""
    found: list[str] = []
    left: list[Expr] = [expr]
    while left:
        match left.pop():
            case Name(id=name):
                found.append(name)
            case Binary(left=a, right=b):
                left += [b, a]
            case _:
                pass
    return found


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


def scalar_argument(site: Site, formal: Formal, value: Value, names: dict[str, Value]) -> Tensor:
    """A static number where a tensor of rank 0 is declared, at the dtype the other arguments have given it."""
    element = DTYPES.get(formal.type.name) or names.get(formal.type.name)
    number = isinstance(value, bool) or is_static_number(value)
    scalar = all(isinstance(d, Spread) for d in formal.type.dims or ())
    if not number or not scalar or not isinstance(element, DType):
        help = "make a tensor of it: `f32(x)` has rank 0, `full` any shape" if number else None
        site.fail("E0107", f"`{formal.name}` is a tensor, not {describe(value)}", help=help)
    return arrays.constant(site, value, element, (), f"`{formal.name}`")  # pyright: ignore[reportArgumentType]


# ---- types whose names are all known -------------------------------------------------------------


def type_of(site: Site, written: TypeOf, lookup: Lookup, evaluate: Evaluate) -> TensorType:
    """The tensor type that `written` names."""
    name_at = (written.at[0], written.at[0] + len(written.name))
    element = DTYPES.get(written.name) or lookup(written.name, name_at)
    if element is POISON:
        raise Poisoned
    if not isinstance(element, DType):
        near = nearest(written.name, DTYPES)
        help = f"did you mean `{near}`?" if near else f"the dtypes are {', '.join(DTYPES)}"
        site.fail("E0107", f"`{written.name}` is not a dtype", help=help, at=name_at)
    if written.dims is None:
        site.fail(
            "E0107", f"`{written.name}` has no dims", help=f"a scalar tensor is `{written.name}[]`", at=written.at
        )
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
    if not 0 <= value <= _MAX_DIM:
        site.fail("E0116", f"a dim lies between 0 and {_MAX_DIM}, got {int(value)}", at=at)
    return value
