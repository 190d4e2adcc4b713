"""How the wse target multiplies matrices: the definition that checks, simulator and code generator share.

A PE sees the columns of the left operand in rising k and adds to each sum by a multiply-add whose product and whose sum
are each rounded to f32. So a sum does not depend on the rectangle. Must not know programs or time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...compiler.graph import Contraction, DType, NDArray
from ...compiler.graph.dtypes import F32


@dataclass(frozen=True)
class WseContraction(Contraction):
    """Of f32: from +0, in rising k, product and sum rounded. What PEs do not multiply yet is as in the reference."""

    name = "wse"

    def matmul(self, a: NDArray, b: NDArray, out: DType, precision: str) -> NDArray:
        """[..B, M, K] @ [..B, K, N] or [K, N]."""
        if a.dtype != np.float32 or b.dtype != np.float32 or out != F32:
            return Contraction.matmul(self, a, b, out, precision)
        total = np.zeros(np.broadcast_shapes((*a.shape[:-1], 1), (*b.shape[:-2], 1, b.shape[-1])), np.float32)
        with np.errstate(all="ignore"):
            for k in range(a.shape[-1]):
                total = total + a[..., k, None] * b[..., k, None, :]
        return total
