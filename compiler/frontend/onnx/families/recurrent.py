"""LSTM, GRU and RNN as loops over the sequence. What does not depend on the state is computed for all steps at once.

Equations are those of the operators' documentation. X is [steps, batch, inputs] inside, whatever the layout outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....graph import Builder, TensorType, forms
from ....graph.dtypes import I32
from ..call import Call
from ..table import handles

# (step values…, state…) -> state…, in the loop's own builder.
Function = Callable[[Builder, int], int]


@dataclass(frozen=True, slots=True)
class Cell:
    """Sizes and activations of one direction."""

    steps: int
    batch: int
    hidden: int
    gates: int
    acts: tuple[Function, ...]
    clip: float | None

    def held(self, b: Builder, x: int) -> int:
        """`x` held to -clip … clip before an activation."""
        if self.clip is None:
            return x
        t = b.types[x]
        return forms.clamp(b, b.full(-self.clip, t.dtype), x, b.full(self.clip, t.dtype))


# ---- activations ---------------------------------------------------------------------------------


def _like(b: Builder, value: float, x: int) -> int:
    return forms.scalar(b, value, x)


def _affine(b: Builder, x: int, alpha: float, beta: float) -> int:
    return b.one("add", b.one("mul", x, _like(b, alpha, x)), _like(b, beta, x))


def _hard_sigmoid(b: Builder, x: int, alpha: float, beta: float) -> int:
    return b.one("max", b.one("min", _affine(b, x, alpha, beta), _like(b, 1, x)), _like(b, 0, x))


def _below(b: Builder, x: int, other: int) -> int:
    return b.one("select", b.one("lt", x, _like(b, 0, x)), other, x)


def _scaled_tanh(b: Builder, x: int, alpha: float, beta: float) -> int:
    bent = b.one("tanh", b.one("mul", x, _like(b, beta, x)))
    return b.one("mul", bent, _like(b, alpha, x))


def _softplus(b: Builder, x: int, alpha: float, beta: float) -> int:
    tail = b.one("log1p", b.one("exp", b.one("neg", b.one("abs", x))))
    return b.one("add", b.one("max", x, _like(b, 0, x)), tail)


Activation = Callable[[Builder, int, float, float], int]


def _plain(op: str) -> Activation:
    return lambda b, x, alpha, beta: b.one(op, x)


def _relu(b: Builder, x: int, alpha: float, beta: float) -> int:
    return b.one("max", x, _like(b, 0, x))


def _softsign(b: Builder, x: int, alpha: float, beta: float) -> int:
    return b.one("div", x, b.one("add", _like(b, 1, x), b.one("abs", x)))


def _leaky_relu(b: Builder, x: int, alpha: float, beta: float) -> int:
    return _below(b, x, b.one("mul", x, _like(b, alpha, x)))


def _elu(b: Builder, x: int, alpha: float, beta: float) -> int:
    return _below(b, x, b.one("mul", b.one("expm1", x), _like(b, alpha, x)))


def _thresholded_relu(b: Builder, x: int, alpha: float, beta: float) -> int:
    return b.one("select", b.one("gt", x, _like(b, alpha, x)), x, _like(b, 0, x))


# Name: (function of x, alpha and beta; default alpha and beta, None when it takes none).
_ACTIVATIONS: dict[str, tuple[Activation, float | None, float | None]] = {
    "sigmoid": (_plain("logistic"), None, None),
    "tanh": (_plain("tanh"), None, None),
    "relu": (_relu, None, None),
    "softsign": (_softsign, None, None),
    "softplus": (_softplus, None, None),
    "affine": (_affine, 1.0, 0.0),
    "hardsigmoid": (_hard_sigmoid, 0.2, 0.5),
    "scaledtanh": (_scaled_tanh, 1.0, 1.0),
    "leakyrelu": (_leaky_relu, 0.01, None),
    "elu": (_elu, 1.0, None),
    "thresholdedrelu": (_thresholded_relu, 1.0, None),
}


def _activations(n: Call, default: Sequence[str], directions: int) -> list[tuple[Function, ...]]:
    """The functions of each direction. Alphas and betas are handed out in order to those that take one."""
    names = [str(name).lower() for name in n.attr("activations", tuple(default) * directions)]
    if len(names) == len(default) and directions == 2:
        names *= 2
    if len(names) != len(default) * directions:
        n.refuse(f"it names {len(names)} activations for {directions} directions of {len(default)}")
    alphas, betas = (list(n.attr(name, ())) for name in ("activation_alpha", "activation_beta"))
    made: list[Function] = []
    for name in names:
        if name not in _ACTIVATIONS:
            n.refuse(f"its activation `{name}` is not one of {', '.join(_ACTIVATIONS)}")
        run, alpha, beta = _ACTIVATIONS[name]
        a = 0.0 if alpha is None else float(alphas.pop(0)) if alphas else alpha
        z = 0.0 if beta is None else float(betas.pop(0)) if betas else beta
        made.append(lambda b, x, run=run, a=a, z=z: run(b, x, a, z))
    each = len(default)
    return [tuple(made[i * each : (i + 1) * each]) for i in range(directions)]


# ---- one network ---------------------------------------------------------------------------------


def _squeezed(n: Call, i: int, direction: int) -> int:
    """Input `i` of one direction, without the axis of directions."""
    return _row(n, n.x(i), direction)


def _row(n: Call, x: int, direction: int) -> int:
    shape = n.b.types[x].shape
    part = forms.slice_any(n.b, x, (direction,), (direction + 1,))
    return forms.reshape(n.b, part, shape[1:])


def _state(n: Call, i: int, direction: int, cell: Cell) -> int:
    """The first state; zeros by default."""
    if not n.has(i):
        return n.full(0.0, n.dtype(), (cell.batch, cell.hidden))
    given = n.x(i)
    return _row(n, forms.transpose(n.b, given, (1, 0, 2)) if n.attr("layout", 0) else given, direction)


def _backwards(n: Call, x: int, lengths: int | None) -> int:
    """[steps, batch, …] with each sequence the other way round; what lies behind it stays."""
    if lengths is None:
        return n.b.one("reverse", x, axes=(0,))
    shape = n.b.types[x].shape
    spread = n.b.one("broadcast", lengths, shape=shape, dims=(1,))
    place = n.b.one("iota", axis=0, dtype=I32, shape=shape)
    mirrored = n.b.one("sub", n.b.one("sub", spread, place), n.like(1, place))
    index = n.b.one("select", n.b.one("lt", place, spread), mirrored, place)
    return forms.gather_elements(n.b, x, index, 0, wrap=False)


Step = Callable[[Builder, int, list[int], list[int]], list[int]]


def _loop(
    n: Call, cell: Cell, xs: int, states: list[int], captures: list[int], lengths: int | None, step: Step
) -> list[int]:
    """The last states, and the first state of every step stacked.

    Past its length a sequence keeps its states, and gives 0.
    """
    b = Builder(n.op.lower(), n.b.loc)
    index = b.input("step", TensorType(I32, ()))
    now = [b.input(f"state{i}", n.b.types[s]) for i, s in enumerate(states)]
    t = n.b.types[xs]
    x = b.input("x", t.with_shape(t.shape[1:]))
    inner = [b.input(f"weight{i}", n.b.types[c]) for i, c in enumerate(captures)]
    given = list(captures)
    after = step(b, x, now, inner)
    out = after[0]
    if lengths is not None:
        limit = b.input("lengths", n.b.types[lengths])
        given.append(lengths)
        shape = b.types[out].shape
        live = b.one("lt", forms.broadcast_to(b, index, n.b.types[lengths].shape), limit)
        live = b.one("broadcast", live, shape=shape, dims=(0,))
        after = [b.one("select", live, new, old) for new, old in zip(after, now, strict=True)]
        out = b.one("select", live, after[0], forms.scalar(b, 0, out))
    attrs = {"n": cell.steps, "carry": len(states), "xs": 1}
    return list(n.b.add("loop", (*states, xs, *given), attrs, regions=(b.finish((*after, out)),)))


def _network(
    n: Call, gates: int, default: Sequence[str], run: Callable[[Call, Cell, int, int, int | None], list[int]]
) -> list[int]:
    """Y, Y_h (and Y_c) of all directions; `run` gives (last states…, stacked outputs) of one."""
    if any(n.type(i).rank != 3 for i in range(3)):
        n.refuse(f"its operands are of rank 3, not {n.type(0)}, {n.type(1)} and {n.type(2)}")
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    way = n.attr("direction", "forward")
    if way not in ways or n.shape(1)[0] != len(ways[way]):
        n.refuse(f"its direction is `{way}`, its weights are {n.type(1)}")
    batch_first = bool(n.attr("layout", 0))
    x = forms.transpose(n.b, n.x(0), (1, 0, 2)) if batch_first else n.x(0)
    steps, batch, _ = n.b.types[x].shape
    hidden = int(n.shape(2)[-1])
    if n.shape(1)[1] != gates * hidden or n.attr("hidden_size", hidden) != hidden:
        n.refuse(f"weights {n.type(1)} and {n.type(2)} do not fit {gates} gates of one hidden size")
    if n.has(3) and n.shape(3) != (len(ways[way]), 2 * gates * hidden):
        n.refuse(f"its bias is {n.type(3)}")
    lengths = _lengths(n, int(steps))
    ends: list[list[int]] = []
    for i, (back, acts) in enumerate(zip(ways[way], _activations(n, default, len(ways[way])), strict=True)):
        cell = Cell(int(steps), int(batch), hidden, gates, acts, n.attr("clip"))
        *last, ys = run(n, cell, i, _backwards(n, x, lengths) if back else x, lengths)
        ends.append([_backwards(n, ys, lengths) if back else ys, *last])
    y, *states = (forms.stack(n.b, [e[k] for e in ends], 1 if k == 0 else 0) for k in range(len(ends[0])))
    if not batch_first:
        return [y, *states]
    return [forms.transpose(n.b, y, (2, 0, 1, 3)), *(forms.transpose(n.b, s, (1, 0, 2)) for s in states)]


def _lengths(n: Call, steps: int) -> int | None:
    """Lengths of the sequences as i32; None where all are whole."""
    known = n.known(4)
    if not n.has(4) or (known is not None and bool(np.all(known == steps))):
        return None
    return forms.convert(n.b, n.x(4), I32)


def _ahead(n: Call, direction: int, x: int, rows: slice, with_recurrent_bias: slice | None) -> int:
    """x @ W.T + b for all steps; `rows` are the gates' rows of W, the slice those whose recurrent bias is added too."""
    w = forms.transpose(n.b, _squeezed(n, 1, direction), (1, 0))
    out = n.b.one("matmul", x, w)
    if not n.has(3):
        return out
    bias = _squeezed(n, 3, direction)
    half = n.b.types[bias].shape[0] // 2
    mine = forms.slice_any(n.b, bias, (0,), (half,))
    other = forms.slice_any(n.b, bias, (half,), (2 * half,))
    if with_recurrent_bias is not None:
        keep = np.zeros(half, bool)
        keep[with_recurrent_bias] = True
        if not keep.all():
            mask = forms.constant(n.b, keep, n.to_dtype(9))
            other = n.b.one("select", mask, other, n.like(0, other))
        mine = n.b.one("add", mine, other)
    return n.b.one("add", out, forms.broadcast_to(n.b, mine, n.b.types[out].shape))


def _parts(b: Builder, x: int, count: int) -> list[int]:
    size = b.types[x].shape[-1] // count
    return forms.split(b, x, [size] * count, -1)


# ---- the three cells -----------------------------------------------------------------------------


@handles("RNN")
def rnn(n: Call) -> list[int]:
    """h = f(x W' + h R' + b)."""

    def run(n: Call, cell: Cell, i: int, x: int, lengths: int | None) -> list[int]:
        (f,) = cell.acts
        xs = _ahead(n, i, x, slice(None), slice(None))
        r = forms.transpose(n.b, _squeezed(n, 2, i), (1, 0))

        def step(b: Builder, x: int, states: list[int], weights: list[int]) -> list[int]:
            return [f(b, cell.held(b, b.one("add", x, b.one("matmul", states[0], weights[0]))))]

        return _loop(n, cell, xs, [_state(n, 5, i, cell)], [r], lengths, step)

    return _network(n, 1, ("Tanh",), run)


@handles("GRU")
def gru(n: Call) -> list[int]:
    """Gates z, r, h (Cho et al. 2014); `linear_before_reset` applies r after the recurrent product."""
    linear = bool(n.attr("linear_before_reset", 0))

    def run(n: Call, cell: Cell, i: int, x: int, lengths: int | None) -> list[int]:
        f, g = cell.acts
        both = slice(0, 2 * cell.hidden) if linear else slice(None)
        xs = _ahead(n, i, x, slice(None), both)
        r = forms.transpose(n.b, _squeezed(n, 2, i), (1, 0))
        captures = [r]
        if linear and n.has(3):
            bias = _squeezed(n, 3, i)
            captures.append(forms.slice_any(n.b, bias, (5 * cell.hidden,), (6 * cell.hidden,)))

        def step(b: Builder, x: int, states: list[int], weights: list[int]) -> list[int]:
            (h,) = states
            xz, xr, xh = _parts(b, x, 3)
            if linear:
                hz, hr, hh = _parts(b, b.one("matmul", h, weights[0]), 3)
                if len(weights) > 1:
                    hh = b.one("add", hh, forms.broadcast_to(b, weights[1], b.types[hh].shape))
            else:
                wide = forms.slice_any(b, weights[0], (0, 0), (cell.hidden, 2 * cell.hidden))
                hz, hr = _parts(b, b.one("matmul", h, wide), 2)
                hh = -1
            z = f(b, cell.held(b, b.one("add", xz, hz)))
            reset = f(b, cell.held(b, b.one("add", xr, hr)))
            if linear:
                hh = b.one("mul", reset, hh)
            else:
                last = forms.slice_any(b, weights[0], (0, 2 * cell.hidden), (cell.hidden, 3 * cell.hidden))
                hh = b.one("matmul", b.one("mul", reset, h), last)
            new = g(b, cell.held(b, b.one("add", xh, hh)))
            old = b.one("sub", forms.scalar(b, 1, z), z)
            return [b.one("add", b.one("mul", old, new), b.one("mul", z, h))]

        return _loop(n, cell, xs, [_state(n, 5, i, cell)], captures, lengths, step)

    return _network(n, 3, ("Sigmoid", "Tanh"), run)


@handles("LSTM")
def lstm(n: Call) -> list[int]:
    """Gates i, o, f, c (Hochreiter and Schmidhuber 1997), with peepholes where they are given."""
    coupled = bool(n.attr("input_forget", 0))

    def run(n: Call, cell: Cell, i: int, x: int, lengths: int | None) -> list[int]:
        f, g, h = cell.acts
        xs = _ahead(n, i, x, slice(None), slice(None))
        captures = [forms.transpose(n.b, _squeezed(n, 2, i), (1, 0))]
        if n.has(7):
            captures += _parts(n.b, _squeezed(n, 7, i), 3)

        def peep(b: Builder, gate: int, weights: list[int], k: int, c: int) -> int:
            if len(weights) == 1:
                return gate
            return b.one("add", gate, b.one("mul", forms.broadcast_to(b, weights[k], b.types[c].shape), c))

        def step(b: Builder, x: int, states: list[int], weights: list[int]) -> list[int]:
            hidden, c = states
            gi, go, gf, gc = _parts(b, b.one("add", x, b.one("matmul", hidden, weights[0])), 4)
            it = f(b, cell.held(b, peep(b, gi, weights, 1, c)))
            if coupled:
                ft = b.one("sub", forms.scalar(b, 1, it), it)
            else:
                ft = f(b, cell.held(b, peep(b, gf, weights, 3, c)))
            ct = g(b, cell.held(b, gc))
            new = b.one("add", b.one("mul", ft, c), b.one("mul", it, ct))
            ot = f(b, cell.held(b, peep(b, go, weights, 2, new)))
            return [b.one("mul", ot, h(b, new)), new]

        return _loop(n, cell, xs, [_state(n, 5, i, cell), _state(n, 6, i, cell)], captures, lengths, step)

    return _network(n, 4, ("Sigmoid", "Tanh", "Tanh"), run)
