"""Did you mean: the candidate nearest to a name that was not found."""

from collections.abc import Iterable

# Names beyond this are not typing slips, and the distance costs their product.
_LONGEST_NAME = 64


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate a typing slip away from `name`, or None; ties go to the first in alphabetical order.

    A slip is another case, the same words in another order, or few edits: a third of the longer name, at least one,
    and less than all of it.
    """
    ordered = sorted(set(candidates))
    if not name or len(name) > _LONGEST_NAME:
        return None
    for same in (str.casefold, _words):
        for candidate in ordered:
            if same(candidate) == same(name):
                return candidate
    scored = [(_distance(name, c), c) for c in ordered if abs(len(c) - len(name)) <= _allowed(name, c)]
    return min(((d, c) for d, c in scored if d <= _allowed(name, c)), default=(0, None))[1]


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A help line naming the nearest candidate, or None."""
    found = nearest(name, candidates)
    return None if found is None else f"did you mean `{found}`?"


def _words(name: str) -> str:
    return "_".join(sorted(name.casefold().split("_")))


def _allowed(a: str, b: str) -> int:
    longest = max(len(a), len(b))
    return min(max(longest // 3, 1), longest - 1)


def _distance(a: str, b: str) -> int:
    """Optimal string alignment distance: inserts, deletes, changes and swaps of neighbours (Boytsov 2011, 2.1)."""
    before: list[int] = []
    above = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            best = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, above = above, row
    return above[-1]
