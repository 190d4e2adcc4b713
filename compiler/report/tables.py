"""Plain text tables: units in the header, numbers to the right, the last column wrapped to the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

_GAP = "  "
# A column that is wrapped is never made narrower than this.
_NARROWEST = 16


@dataclass(frozen=True, slots=True)
class Table:
    """`align` has a letter a column: `r`ight, `l`eft, or `w`rapped (left; only the last)."""

    header: Sequence[str]
    align: str
    rows: Sequence[Sequence[str]]


def table(t: Table, width: int = 100) -> str:
    """`t` as lines of at most `width` characters where its wrapped column allows; "" when it has no rows."""
    if not t.rows:
        return ""
    fixed = [max(len(row[i]) for row in (t.header, *t.rows)) for i in range(len(t.header))]
    if t.align[-1] == "w":
        fixed[-1] = max(width - sum(fixed[:-1]) - len(_GAP) * (len(fixed) - 1), _NARROWEST)
    return "\n".join(line for row in (t.header, *t.rows) for line in _lines(row, t.align, fixed))


def seconds(value: float) -> str:
    """A duration for people: `12.3 us`; four digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value / 1e-9:.4g} ns"


def size(value: float) -> str:
    """Bytes for people: `9.71 MB`, decimal, three digits."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}" if value / scale < 999.5 else f"{value / scale:.0f} {unit}"
    return f"{value:.0f} B"


def percent(value: float) -> str:
    """A share of 1 as `12.3 %`."""
    return f"{value * 100:.1f} %"


def _lines(row: Sequence[str], align: str, widths: Sequence[int]) -> list[str]:
    wrapped = textwrap.wrap(row[-1], widths[-1], break_on_hyphens=False) if align[-1] == "w" else [row[-1]]
    head, *rest = wrapped or [""]
    cells = [_cell(text, kind, n) for text, kind, n in zip((*row[:-1], head), align, widths, strict=True)]
    indent = " " * (sum(widths[:-1]) + len(_GAP) * (len(widths) - 1))
    return [_GAP.join(cells).rstrip(), *(indent + more for more in rest)]


def _cell(text: str, kind: str, width: int) -> str:
    return text.rjust(width) if kind == "r" else text.ljust(width)
