"""Fourier transforms as products with constant matrices. A complex number is a last axis of two, real and imaginary."""

from __future__ import annotations

import numpy as np

from ....graph import NDArray, forms
from ....graph.dtypes import I32
from ..call import Call
from ..table import handles


@handles("DFT", since=17)
def dft_by_attribute(n: Call) -> int:
    """The transform along the axis of an attribute."""
    return _dft(n, n.axis(1))


@handles("DFT", since=20)
def dft(n: Call) -> int:
    """The transform along the axis of an operand."""
    return _dft(n, n.at(n.ints(2, "axis")[0] if n.has(2) else -2, n.type().rank))


def _dft(n: Call, axis: int) -> int:
    shape = n.shape()
    inverse, one_sided = bool(n.attr("inverse", 0)), bool(n.attr("onesided", 0))
    if axis == len(shape) - 1:
        n.refuse("it transforms along the axis of real and imaginary parts")
    length = n.ints(1, "length")[0] if n.has(1) else None
    if not shape[axis] or (length is not None and length < 1):
        n.refuse(f"it transforms axis {axis} of {n.type()} to length {length}")
    real, imaginary = _halves(n, n.x())
    if inverse and one_sided:
        return _real_inverse(n, real, imaginary, axis, length or 2 * (int(shape[axis]) - 1))
    length = length or int(shape[axis])
    real = _fitted(n, real, axis, length)
    imaginary = None if imaginary is None else _fitted(n, imaginary, axis, length)
    return _joined(n, *transform(n, real, imaginary, axis, length, length // 2 + 1 if one_sided else length, inverse))


def _halves(n: Call, x: int) -> tuple[int, int | None]:
    """Real and imaginary parts, the latter None for real numbers."""
    shape = n.b.types[x].shape
    if shape[-1] not in (1, 2):
        n.refuse(f"the last axis of {n.type()} holds real and imaginary parts, 1 or 2")
    parts = [forms.reshape(n.b, p, shape[:-1]) for p in forms.split(n.b, x, [1] * int(shape[-1]), -1)]
    return parts[0], parts[1] if len(parts) > 1 else None


def _fitted(n: Call, x: int, axis: int, length: int) -> int:
    """An axis cut, or padded with zeros, to `length`."""
    rank, have = n.b.types[x].rank, int(n.b.types[x].shape[axis])
    return forms.pad(n.b, x, (0,) * rank, [length - have if i == axis else 0 for i in range(rank)])


def transform(
    n: Call, real: int, imaginary: int | None, axis: int, length: int, count: int, inverse: bool
) -> tuple[int, int]:
    """The first `count` coefficients along `axis`."""
    angle = 2 * np.pi * np.outer(np.arange(count), np.arange(length)) / length
    scale = 1 / length if inverse else 1.0
    cosine, sine = np.cos(angle) * scale, np.sin(angle) * (scale if inverse else -scale)
    re, im = _mixed(n, real, axis, cosine), _mixed(n, real, axis, sine)
    if imaginary is not None:
        re = n.b.one("sub", re, _mixed(n, imaginary, axis, sine))
        im = n.b.one("add", im, _mixed(n, imaginary, axis, cosine))
    return re, im


def _mixed(n: Call, x: int, axis: int, weights: NDArray) -> int:
    return forms.resample(n.b, x, axis, weights)


def _joined(n: Call, real: int, imaginary: int) -> int:
    return forms.stack(n.b, [real, imaginary], -1)


def _real_inverse(n: Call, real: int, imaginary: int | None, axis: int, length: int) -> int:
    """Real numbers from the first half of their coefficients; the others are their conjugates."""
    count = length // 2 + 1
    real = _fitted(n, real, axis, count)
    imaginary = None if imaginary is None else _fitted(n, imaginary, axis, count)
    angle = 2 * np.pi * np.outer(np.arange(length), np.arange(count)) / length
    twice = np.full(count, 2.0)
    twice[0] = 1.0
    if length % 2 == 0:
        twice[-1] = 1.0
    out = _mixed(n, real, axis, np.cos(angle) * twice / length)
    if imaginary is not None:
        out = n.b.one("sub", out, _mixed(n, imaginary, axis, np.sin(angle) * twice / length))
    return forms.unsqueeze(n.b, out, (-1,))


@handles("STFT")
def stft(n: Call) -> int:
    """Transforms of windowed frames [batch, frames, coefficients, 2] of a signal [batch, length, 1 or 2]."""
    step = n.ints(1, "frame step")[0]
    window = n.maybe(2)
    if not n.has(3) and window is None:
        n.refuse("neither a window nor a frame length is given")
    length = n.ints(3, "frame length")[0] if n.has(3) else int(n.shape(2)[0])
    frames = (int(n.shape()[1]) - length) // step + 1
    places = np.arange(frames)[:, None] * step + np.arange(length)[None, :]
    parts: list[int | None] = []
    for v in _halves(n, n.x()):
        if v is None:
            parts.append(None)
            continue
        cut = n.b.one("take", v, forms.constant(n.b, places, I32), axis=1)
        if window is not None:
            cut = n.b.one("mul", cut, forms.broadcast_to(n.b, window, n.b.types[cut].shape))
        parts.append(cut)
    real, imaginary = parts
    assert real is not None
    count = length // 2 + 1 if n.attr("onesided", 1) else length
    return _joined(n, *transform(n, real, imaginary, 2, length, count, False))
