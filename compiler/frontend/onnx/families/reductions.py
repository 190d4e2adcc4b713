"""Reductions over axes and running sums."""

from __future__ import annotations

from ....graph import forms
from ..call import Call
from ..table import handles

_KINDS = {
    "ReduceSum": "sum", "ReduceProd": "prod", "ReduceMax": "max", "ReduceMin": "min", "ReduceMean": "mean",
    "ReduceL1": "l1", "ReduceL2": "l2", "ReduceSumSquare": "sum_square", "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
}  # fmt: skip


@handles(*_KINDS)
def reduce(n: Call) -> int:
    """A reduction over axes in an attribute, or in an operand since opset 13 (ReduceSum) and 18."""
    rank = n.type().rank
    axes = n.ints(1, "axes") if n.has(1) else n.attr("axes")
    if not axes:
        axes = () if n.attr("noop_with_empty_axes", 0) else tuple(range(rank))
    gone = [n.at(int(a), rank) for a in axes]
    return forms.reduce(n.b, n.x(), _KINDS[n.op], gone, bool(n.attr("keepdims", 1)))


@handles("CumSum", "CumProd")
def cumulate(n: Call) -> int:
    """Running sums or products along an axis known at import."""
    axis = n.at(n.ints(1, "axis")[0], n.type().rank)
    op = "cumsum" if n.op == "CumSum" else "cumprod"
    return n.b.one(op, n.x(), axis=axis, exclusive=bool(n.attr("exclusive", 0)), reverse=bool(n.attr("reverse", 0)))
