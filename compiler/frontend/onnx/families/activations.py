"""Activation functions. Formulas are those of the operators' own documentation."""

from __future__ import annotations

import math
from collections.abc import Callable

from ....graph import forms
from ..call import Call
from ..table import handles


@handles("Relu")
def relu(n: Call) -> int:
    """max(x, 0)."""
    x = n.x()
    return n.b.one("max", x, n.like(0, x))


@handles("LeakyRelu")
def leaky_relu(n: Call) -> int:
    """x, or alpha * x below 0."""
    return _negative_part(n, n.b.one("mul", n.x(), n.like(n.attr("alpha", 0.01), n.x())))


def _negative_part(n: Call, below: int) -> int:
    """x, or `below` where x < 0."""
    x = n.x()
    return n.b.one("select", n.b.one("lt", x, n.like(0, x)), below, x)


@handles("PRelu")
def p_relu(n: Call) -> int:
    """x, or slope * x below 0; before opset 7 the slope is one a channel."""
    x, shape = n.x(), n.shape()
    if n.version < 7 and n.type(1).size > 1:
        column = forms.reshape(n.b, n.x(1), (n.type(1).size, *(1,) * (len(shape) - 2)))
        slope = forms.broadcast_to(n.b, column, shape)
    elif n.version < 7:
        slope = forms.broadcast_to(n.b, forms.reshape(n.b, n.x(1), ()), shape)
    else:
        slope = n.spread_to(1, shape)
    return _negative_part(n, n.b.one("mul", x, slope))


@handles("Elu")
def elu(n: Call) -> int:
    """x, or alpha * (e^x - 1) below 0."""
    below = n.b.one("expm1", n.x())
    return _negative_part(n, n.b.one("mul", below, n.like(n.attr("alpha", 1.0), below)))


@handles("Celu")
def celu(n: Call) -> int:
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1))."""
    x, alpha = n.x(), n.like(n.attr("alpha", 1.0), n.x())
    below = n.b.one("mul", alpha, n.b.one("expm1", n.b.one("div", x, alpha)))
    zero = n.like(0, x)
    return n.b.one("add", n.b.one("max", x, zero), n.b.one("min", below, zero))


@handles("Selu")
def selu(n: Call) -> int:
    """gamma * x, or gamma * alpha * (e^x - 1) at and below 0 (Klambauer et al. 2017)."""
    x = n.x()
    # Opset 1 rounded the two constants.
    alpha = n.like(n.attr("alpha", 1.67326319217681884765625 if n.version >= 6 else 1.6732), x)
    gamma = n.like(n.attr("gamma", 1.05070102214813232421875 if n.version >= 6 else 1.0507), x)
    below = n.b.one("mul", alpha, n.b.one("expm1", x))
    return n.b.one("mul", gamma, n.b.one("select", n.b.one("gt", x, n.like(0, x)), x, below))


@handles("ThresholdedRelu")
def thresholded_relu(n: Call) -> int:
    """x above alpha, else 0."""
    x = n.x()
    return n.b.one("select", n.b.one("gt", x, n.like(n.attr("alpha", 1.0), x)), x, n.like(0, x))


@handles("HardSigmoid")
def hard_sigmoid(n: Call) -> int:
    """max(0, min(1, alpha * x + beta))."""
    return _hard(n, n.attr("alpha", 0.2), n.attr("beta", 0.5))


def _hard(n: Call, alpha: float, beta: float) -> int:
    x = n.x()
    line = n.b.one("add", n.b.one("mul", x, n.like(alpha, x)), n.like(beta, x))
    return n.b.one("max", n.b.one("min", line, n.like(1, x)), n.like(0, x))


@handles("HardSwish")
def hard_swish(n: Call) -> int:
    """x * max(0, min(1, x / 6 + 1 / 2))."""
    return n.b.one("mul", n.x(), _hard(n, 1 / 6, 0.5))


@handles("Softplus")
def softplus(n: Call) -> int:
    """log(1 + e^x), without overflow."""
    return _softplus(n)


def _softplus(n: Call) -> int:
    x = n.x()
    tail = n.b.one("log1p", n.b.one("exp", n.b.one("neg", n.b.one("abs", x))))
    return n.b.one("add", n.b.one("max", x, n.like(0, x)), tail)


@handles("Softsign")
def softsign(n: Call) -> int:
    """x / (1 + |x|)."""
    x = n.x()
    return n.b.one("div", x, n.b.one("add", n.like(1, x), n.b.one("abs", x)))


@handles("Mish")
def mish(n: Call) -> int:
    """x * tanh(softplus(x)) (Misra 2019)."""
    return n.b.one("mul", n.x(), n.b.one("tanh", _softplus(n)))


@handles("Swish")
def swish(n: Call) -> int:
    """x * sigmoid(alpha * x)."""
    x, alpha = n.x(), n.attr("alpha", 1.0)
    inner = x if alpha == 1.0 else n.b.one("mul", x, n.like(alpha, x))
    return n.b.one("mul", x, n.b.one("logistic", inner))


@handles("Shrink")
def shrink(n: Call) -> int:
    """x + bias below -lambd, x - bias above lambd, else 0."""
    x, lambd, bias = n.x(), n.attr("lambd", 0.5), n.like(n.attr("bias", 0.0), n.x())
    above = n.b.one("select", n.b.one("gt", x, n.like(lambd, x)), n.b.one("sub", x, bias), n.like(0, x))
    return n.b.one("select", n.b.one("lt", x, n.like(-lambd, x)), n.b.one("add", x, bias), above)


@handles("Gelu")
def gelu(n: Call) -> int:
    """x * P(Z <= x) for a standard normal Z, by erf or the tanh approximation (Hendrycks and Gimpel 2016)."""
    x = n.x()
    if n.attr("approximate", "none") == "tanh":
        cubed = n.b.one("mul", n.b.one("mul", x, x), x)
        inner = n.b.one("add", x, n.b.one("mul", cubed, n.like(0.044715, x)))
        bent = n.b.one("tanh", n.b.one("mul", inner, n.like(math.sqrt(2 / math.pi), x)))
    else:
        bent = n.b.one("erf", n.b.one("mul", x, n.like(math.sqrt(0.5), x)))
    half = n.b.one("mul", x, n.like(0.5, x))
    return n.b.one("mul", half, n.b.one("add", bent, n.like(1, x)))


# ---- over an axis --------------------------------------------------------------------------------


def _flattened(n: Call) -> tuple[int, tuple[int, ...]]:
    """Before opset 13: the operand as a matrix whose rows are the axes from `axis` on, and the axes to reduce."""
    axis = n.axis(1) if n.shape() else 0
    return forms.flatten(n.b, n.x(), axis), (1,)


def _over_axis(n: Call, run: Callable[[Call, int, tuple[int, ...]], int]) -> int:
    if n.version < 13:
        x, axes = _flattened(n)
    else:
        x, axes = n.x(), (n.axis(-1),)
    made = run(n, x, axes)
    return forms.reshape(n.b, made, n.shape())


def kept(n: Call, x: int, kind: str, axes: tuple[int, ...]) -> int:
    """A reduction of `x`, spread over its shape again."""
    return forms.broadcast_to(n.b, forms.reduce(n.b, x, kind, axes, keep=True), n.b.types[x].shape)


def softmax_of(n: Call, x: int, axes: tuple[int, ...]) -> int:
    """exp(x - max) / sum(exp(x - max))."""
    e = n.b.one("exp", n.b.one("sub", x, kept(n, x, "max", axes)))
    return n.b.one("div", e, kept(n, e, "sum", axes))


def _log_softmax(n: Call, x: int, axes: tuple[int, ...]) -> int:
    moved = n.b.one("sub", x, kept(n, x, "max", axes))
    return n.b.one("sub", moved, n.b.one("log", kept(n, n.b.one("exp", moved), "sum", axes)))


def _hardmax(n: Call, x: int, axes: tuple[int, ...]) -> int:
    (axis,) = axes
    best = n.b.one("argmax", x, axis=axis)
    return forms.one_hot(n.b, best, int(n.b.types[x].shape[axis]), axis=axis, dtype=n.b.types[x].dtype, wrap=False)


@handles("Softmax")
def softmax(n: Call) -> int:
    """exp(x) / sum(exp(x)) along an axis; before opset 13 over all axes from `axis` on."""
    return _over_axis(n, softmax_of)


@handles("LogSoftmax")
def log_softmax(n: Call) -> int:
    """log(softmax(x)) without cancellation."""
    return _over_axis(n, _log_softmax)


@handles("Hardmax")
def hardmax(n: Call) -> int:
    """1 at the first greatest element, 0 elsewhere."""
    return _over_axis(n, _hardmax)
