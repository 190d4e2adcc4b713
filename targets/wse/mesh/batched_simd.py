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
def add_multiple_at_once(_typing: Any, words: Any, to: Any, by: Any, factor: Any) -> Any:
    """words[to + u] += words[by + u] * factor for u < AT_ONCE, product and sum each rounded; all are read before any is
    written. `words` is a pointer to f32."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data, *places, factor = values
        numbers = _ir.VectorType(data.type.pointee, AT_ONCE)
        target, source = (builder.bitcast(builder.gep(data, [place]), numbers.as_pointer()) for place in places)
        first = builder.insert_element(_ir.Constant(numbers, _ir.Undefined), factor, _ir.Constant(_ir.IntType(32), 0))
        lanes = _ir.Constant(_ir.VectorType(_ir.IntType(32), AT_ONCE), [0] * AT_ONCE)
        factors = builder.shuffle_vector(first, _ir.Constant(numbers, _ir.Undefined), lanes)
        product = builder.fmul(builder.load(source, align=4), factors)
        builder.store(builder.fadd(builder.load(target, align=4), product), target, align=4)
        return context.get_dummy_value()

    return numba.types.void(words, numba.types.int64, numba.types.int64, numba.types.float32), generate
