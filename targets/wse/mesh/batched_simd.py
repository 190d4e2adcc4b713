"""Several numbers at once where numba's own loops do them one by one: short vectors that it cannot tell apart.

Must not know what is computed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .jit import need_numba

numba = need_numba()
_extending: Any = import_module("numba.extending")
_ir: Any = import_module("llvmlite.ir")

# Numbers that `add_multiple_at_once` does.
AT_ONCE = 8


@_extending.intrinsic
def add_multiples_at_once(
    _typing: Any, words: Any, to_0: Any, to_1: Any, to_2: Any, to_3: Any, by: Any, x_0: Any, x_1: Any, x_2: Any,
    x_3: Any,
) -> Any:  # fmt: skip
    """`add_multiple_at_once` of four targets by four factors, whose source is read once."""
    place, factor = numba.types.int64, numba.types.float32

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        data, *targets, by = values[:6]
        source = _vector_at(builder, data, by)
        numbers = builder.load(source, align=4)
        for to, x in zip(targets, values[6:], strict=True):
            _add_multiple(builder, _vector_at(builder, data, to), numbers, x)
        return context.get_dummy_value()

    return numba.types.void(words, *(place,) * 5, *(factor,) * 4), generate


@_extending.intrinsic
def add_multiple_at_once(_typing: Any, words: Any, to: Any, by: Any, factor: Any) -> Any:
    """words[to + u] += words[by + u] * factor for u < AT_ONCE, product and sum each rounded; all are read before any is
    written. `words` is a pointer to f32."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        data, to, by, x = values
        numbers = builder.load(_vector_at(builder, data, by), align=4)
        _add_multiple(builder, _vector_at(builder, data, to), numbers, x)
        return context.get_dummy_value()

    return numba.types.void(words, numba.types.int64, numba.types.int64, numba.types.float32), generate


def _vector_at(builder: Any, data: Any, place: Any) -> Any:
    """A pointer to AT_ONCE numbers from `place` on."""
    numbers = _ir.VectorType(data.type.pointee, AT_ONCE)
    return builder.bitcast(builder.gep(data, [place]), numbers.as_pointer())


def _add_multiple(builder: Any, target: Any, numbers: Any, factor: Any) -> None:
    """target += numbers * factor."""
    empty = _ir.Constant(numbers.type, _ir.Undefined)
    first = builder.insert_element(empty, factor, _ir.Constant(_ir.IntType(32), 0))
    lanes = _ir.Constant(_ir.VectorType(_ir.IntType(32), AT_ONCE), [0] * AT_ONCE)
    product = builder.fmul(numbers, builder.shuffle_vector(first, empty, lanes))
    builder.store(builder.fadd(builder.load(target, align=4), product), target, align=4)
