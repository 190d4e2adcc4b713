"""What a built-in function asks of an argument: a tensor, an integer, a shape; or a diagnostic.

Must not know which function asks.
"""

# ruff: noqa: RET503 - Site.fail never returns, which ruff cannot see in another file
from __future__ import annotations

from ..graph import DType
from .frame import Tensor
from .values import Site, Value, describe, is_static_number


def tensor_of(site: Site, value: Value, what: str) -> Tensor:
    if isinstance(value, Tensor):
        return value
    help = "make a tensor of it: `full(shape, value, dtype)`" if is_static_number(value) else None
    site.fail("E0107", f"{what} takes a tensor, not {describe(value)}", help=help)


def integer(site: Site, value: Value, what: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    site.fail("E0111", f"{what} is a static integer, not {describe(value)}")


def integers(site: Site, value: Value, what: str) -> tuple[int, ...]:
    items = value if isinstance(value, tuple | range) else (value,)
    return tuple(integer(site, v, what) for v in items)


def dtype_of(site: Site, value: Value, what: str) -> DType:
    return (
        value
        if isinstance(value, DType)
        else site.fail("E0107", f"{what}: the dtype is a dtype, not {describe(value)}")
    )


def shape_of(site: Site, value: Value, what: str) -> tuple[int, ...]:
    shape = integers(site, value, f"{what}: a dim")
    for n in shape:
        if not 0 <= n < 2**31:
            site.fail("E0116", f"{what}: a dim lies between 0 and {2**31 - 1}, got {int(n)}")
    return shape


def flag(site: Site, value: Value, what: str) -> bool:
    return value if isinstance(value, bool) else site.fail("E0107", f"{what} is true or false, not {describe(value)}")
