"""Geometry that convolutions and pools share: strides, dilations and pads, given or made by `auto_pad`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..call import Call

# Taps of a window along one axis: more than any image has.
_MOST_TAPS = 1 << 20


@dataclass(frozen=True, slots=True)
class Geometry:
    """One entry a spatial axis. `extra` is what `ceil_mode` needs beyond the high pads."""

    window: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilations: tuple[int, ...]
    extra: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """High pads and what lies beyond them."""
        return tuple(h + e for h, e in zip(self.high, self.extra, strict=True))


def geometry(n: Call, window: Sequence[int], ceil_mode: bool = False) -> Geometry:
    """The geometry of windows over the spatial axes of input 0."""
    spatial = [int(d) for d in n.shape()[2:]]
    rank = len(spatial)
    if len(window) != rank:
        n.refuse(f"a window {list(window)} does not fit {n.type()}")
    strides = _entries(n, "strides", rank)
    dilations = _entries(n, "dilations", rank)
    pads = tuple(int(p) for p in n.attr("pads", (0,) * (2 * rank)))
    if len(pads) != 2 * rank:
        n.refuse(f"it has {len(pads)} pads for {rank} spatial axes")
    if min(pads, default=0) < 0:
        n.refuse(f"its pads {list(pads)} are negative")
    if min(window, default=1) < 1:
        n.refuse(f"its window is {list(window)}")
    if max(window, default=1) > _MOST_TAPS:
        n.refuse(f"its window is {list(window)}")
    sides = [_sides(n, *row) for row in zip(spatial, window, strides, dilations, pads[:rank], pads[rank:], strict=True)]
    low, high = tuple(a for a, _ in sides), tuple(z for _, z in sides)
    extra = tuple(
        _beyond(*row) if ceil_mode else 0 for row in zip(spatial, window, strides, dilations, low, high, strict=True)
    )
    return Geometry(tuple(window), strides, low, high, dilations, extra)


def _entries(n: Call, name: str, rank: int) -> tuple[int, ...]:
    given = tuple(int(v) for v in n.attr(name, (1,) * rank))
    if len(given) != rank or min(given, default=1) < 1:
        n.refuse(f"its {name} {list(given)} need {rank} entries of 1 or more")
    return given


def _sides(n: Call, size: int, k: int, stride: int, dilation: int, low: int, high: int) -> tuple[int, int]:
    """Pads of one axis: as given, none, or as many as make ceil(size / stride) windows."""
    way = n.attr("auto_pad", "NOTSET")
    if way in ("NOTSET", ""):
        return low, high
    if way == "VALID":
        return 0, 0
    total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if way == "SAME_UPPER" else (large, small)


def _beyond(size: int, k: int, stride: int, dilation: int, low: int, high: int) -> int:
    """What the last window of `ceil_mode` needs beyond the pads; it must begin inside the operand or its low pads."""
    span = (k - 1) * dilation + 1
    count = -(-(size + low + high - span) // stride) + 1
    if (count - 1) * stride >= size + low:
        count -= 1
    return max((count - 1) * stride + span - size - low - high, 0)
