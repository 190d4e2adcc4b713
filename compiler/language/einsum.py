"""`einsum` made of transposes, reshapes, sums and matrix products.

Operands are contracted from left to right. A letter only one operand has and the result has not is summed first; two
operands are multiplied by `matmul` where letters are contracted, elementwise where none is. `...` broadcasts, as in
NumPy; a letter twice in one operand is its diagonal. Must not know syntax.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from . import arrays
from .frame import Tensor
from .values import Site

# Letters for the axes that `...` stands for, outermost first; users' letters are a–z and A–Z.
_BATCH = "0123456789"


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor and the letter of each axis."""

    x: Tensor
    letters: str


def einsum(site: Site, spec: str, operands: Sequence[Tensor]) -> Tensor:
    """`np.einsum(spec, *operands)`; the dtypes of the operands are one."""
    inputs, output = _parsed(site, spec, operands)
    arrays.common_dtype(site, operands, "einsum")
    terms = [_diagonal(site, Term(x, letters)) for x, letters in zip(operands, inputs, strict=True)]
    _check_sizes(site, terms, output)
    done = terms[0]
    for i, term in enumerate(terms[1:], 1):
        later = set(output).union(*(t.letters for t in terms[i + 1 :]))
        done = _pair(
            site, _summed(site, done, later | set(term.letters)), _summed(site, term, later | set(done.letters)), later
        )
    return _ordered(site, _summed(site, done, set(output)), output).x


def _parsed(site: Site, spec: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """Letters of each operand and of the result, `...` replaced by digits."""
    text = spec.replace(" ", "")
    if not re.fullmatch(r"[A-Za-z.,]*(->[A-Za-z.]*)?", text) or "." in text.replace("...", ""):
        site.fail(
            "E0120", f'einsum: "{spec}" is not a specification', help='write letters for axes, as in "bij,bjk->bik"'
        )
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        site.fail("E0106", f'einsum: "{spec}" names {len(inputs)} operands, got {len(operands)}')
    ranks = [_dots(site, letters, x) for letters, x in zip(inputs, operands, strict=True)]
    widest = max(ranks)
    full = [letters.replace("...", _BATCH[widest - n : widest]) for letters, n in zip(inputs, ranks, strict=True)]
    if not arrow:
        once = sorted(c for c in set("".join(full)) - set(_BATCH) if "".join(full).count(c) == 1)
        return full, _BATCH[:widest] + "".join(once)
    output = right.replace("...", _BATCH[:widest])
    unknown = [c for c in output if c not in "".join(full)]
    if unknown or len(set(output)) != len(output):
        why = f"`{unknown[0]}` is in no operand" if unknown else "a letter stands twice"
        site.fail("E0120", f'einsum: the result of "{spec}" cannot be made: {why}')
    return full, output


def _dots(site: Site, letters: str, x: Tensor) -> int:
    """How many axes of x `...` stands for in `letters`."""
    named = len(letters.replace("...", ""))
    spare = x.type.rank - named
    if letters.count("...") > 1 or spare < 0 or (spare and "..." not in letters):
        site.fail("E0108", f'einsum: "{letters}" names {named} axes, but the operand is {x.type}')
    if spare > len(_BATCH):
        site.fail("E0120", f"einsum: `...` stands for {spare} axes, more than {len(_BATCH)}")
    return spare if "..." in letters else 0


def _check_sizes(site: Site, terms: Sequence[Term], output: str) -> None:
    sizes: dict[str, tuple[int, Term]] = {}
    for term in terms:
        for letter, n in zip(term.letters, term.x.shape, strict=True):
            if letter in _BATCH and n == 1:
                continue
            before, first = sizes.setdefault(letter, (n, term))
            if before != n:
                name = "an axis of `...`" if letter in _BATCH else f"`{letter}`"
                site.fail("E0108", f"einsum: {name} is {before} in {first.x.type} and {n} in {term.x.type}")


def _diagonal(site: Site, term: Term) -> Term:
    """`term` with each letter once: an axis repeated is the diagonal of the two."""
    twice = next((c for c in term.letters if term.letters.count(c) > 1), None)
    if twice is None:
        return term
    i, j = [k for k, c in enumerate(term.letters) if c == twice][:2]
    n = term.x.shape[i]
    if term.x.shape[j] != n:
        site.fail("E0108", f"einsum: `{twice}` is {n} and {term.x.shape[j]} in {term.x.type}")
    rest = [k for k in range(term.x.type.rank) if k not in (i, j)]
    flat = arrays.reshape(
        site, arrays.transpose(site, term.x, [*rest, i, j]), (*(term.x.shape[k] for k in rest), n * n)
    )
    # Every (n+1)th of the n*n elements in row-major order lies on the diagonal.
    cut = arrays.index(site, flat, [..., arrays.Range(None, None, int(n) + 1)])
    return _diagonal(site, Term(cut, "".join(term.letters[k] for k in rest) + twice))


def _summed(site: Site, term: Term, needed: set[str]) -> Term:
    """`term` with the letters that nobody needs summed away."""
    axes = tuple(i for i, c in enumerate(term.letters) if c not in needed)
    if not axes:
        return term
    kept = "".join(c for c in term.letters if c in needed)
    return Term(site.add("reduce_sum", term.x, axes=axes), kept)


def _pair(site: Site, a: Term, b: Term, later: set[str]) -> Term:
    """The product of two terms, summed over the letters that only they need."""
    both = [c for c in a.letters if c in b.letters]
    contracted = [c for c in both if c not in later]
    if not contracted:
        return _elementwise(site, a, b)
    batch = [c for c in both if c in later]
    rows = [c for c in a.letters if c not in both]
    columns = [c for c in b.letters if c not in both]
    if any(_size(a, c) != _size(b, c) for c in both):
        return _summed(site, _elementwise(site, a, b), later)
    left = _grouped(site, a, batch, rows, contracted)
    right = _grouped(site, b, batch, contracted, columns)
    out = site.add("matmul", left, right)
    shape = [*(_size(a, c) for c in (*batch, *rows)), *(_size(b, c) for c in columns)]
    return Term(arrays.reshape(site, out, shape), "".join((*batch, *rows, *columns)))


def _grouped(site: Site, term: Term, batch: Sequence[str], first: Sequence[str], second: Sequence[str]) -> Tensor:
    """`term` as [batch…, first, second], each of the two groups one axis."""
    x = _ordered(site, term, "".join((*batch, *first, *second))).x
    sizes = [_only(term, group) for group in (first, second)]
    return arrays.reshape(site, x, (*(_size(term, c) for c in batch), *sizes))


def _only(term: Term, letters: Sequence[str]) -> int:
    return _size(term, letters[0]) if len(letters) == 1 else prod(int(_size(term, c)) for c in letters)


def _size(term: Term, letter: str) -> int:
    return term.x.shape[term.letters.index(letter)]


def _elementwise(site: Site, a: Term, b: Term) -> Term:
    """Outer product of the letters that one has, elementwise in those both have."""
    letters = a.letters + "".join(c for c in b.letters if c not in a.letters)
    spread = [arrays.reshape(site, _ordered(site, t, "".join(c for c in letters if c in t.letters)).x,
                             [_size(t, c) if c in t.letters else 1 for c in letters]) for t in (a, b)]  # fmt: skip
    return Term(arrays.elementwise(site, "mul", spread, "einsum"), letters)


def _ordered(site: Site, term: Term, letters: str) -> Term:
    return Term(arrays.transpose(site, term.x, [term.letters.index(c) for c in letters]), letters)
