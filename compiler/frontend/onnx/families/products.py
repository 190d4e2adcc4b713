"""Matrix products and einsum."""

from __future__ import annotations

from ....graph import forms
from ..call import Call
from ..table import handles


@handles("MatMul")
def matmul(n: Call) -> int:
    """np.matmul."""
    return forms.numpy_matmul(n.b, n.x(0), n.x(1))


@handles("Gemm")
def gemm(n: Call) -> int:
    """alpha * A' B' + beta * C."""
    a, c = n.x(0), n.x(1)
    if n.type(0).rank != 2 or n.type(1).rank != 2:
        n.refuse(f"its operands are matrices, not {n.type(0)} and {n.type(1)}")
    a = forms.transpose(n.b, a, (1, 0)) if n.attr("transA", 0) else a
    c = forms.transpose(n.b, c, (1, 0)) if n.attr("transB", 0) else c
    out = _scaled(n, n.b.one("matmul", a, c), n.attr("alpha", 1.0))
    beta = n.attr("beta", 1.0)
    if not n.has(2) or beta == 0:
        return out
    shape = n.b.types[out].shape
    # Before opset 7 any C that has one row's elements may stand for it; NumPy's rule covers that.
    return n.b.one("add", out, _scaled(n, n.spread_to(2, shape), beta))


def _scaled(n: Call, x: int, by: float) -> int:
    return x if by == 1 else n.b.one("mul", x, n.like(by, x))


@handles("Einsum")
def einsum(n: Call) -> int:
    """Sums of products by subscripts, two operands at a time from the left."""
    terms, result = _subscripts(n)
    parts = [_diagonal(n, n.x(i), term) for i, term in enumerate(terms)]
    x, have = parts[0]
    for i, (y, own) in enumerate(parts[1:], 1):
        later = {*result, *(label for _, term in parts[i + 1 :] for label in term)}
        x, have = _contracted(n, (x, have), (y, own), later)
    gone = [i for i, label in enumerate(have) if label not in result]
    x = n.b.one("reduce_sum", x, axes=tuple(gone)) if gone else x
    have = [label for label in have if label in result]
    return forms.transpose(n.b, x, [have.index(label) for label in result])


def _subscripts(n: Call) -> tuple[list[list[str]], list[str]]:
    """Labels of each operand's axes and of the result's. Axes of an ellipsis are labelled "0", "1", … from the last."""
    left, arrow, right = str(n.need("equation")).replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != n.count:
        n.refuse(f"`{n.need('equation')}` is for {len(texts)} operands, there are {n.count}")
    widest = 0
    terms: list[list[str]] = []
    for i, text in enumerate(texts):
        before, dots, after = text.partition("...")
        extra = n.type(i).rank - len(before) - len(after)
        if extra < 0 or (extra and not dots):
            n.refuse(f"`{text}` does not fit {n.type(i)}")
        widest = max(widest, extra)
        terms.append([*before, *(str(extra - 1 - j) for j in range(extra)), *after])
    spread = [str(widest - 1 - j) for j in range(widest)]
    if arrow:
        before, dots, after = right.partition("...")
        return terms, [*before, *(spread if dots else ()), *after]
    every = [label for term in terms for label in term if not label.isdigit()]
    return terms, [*spread, *sorted(label for label in set(every) if every.count(label) == 1)]


def _diagonal(n: Call, x: int, term: list[str]) -> tuple[int, list[str]]:
    """An operand without repeated labels: where one repeats, its diagonal."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            a = term.index(label)
            c = term.index(label, a + 1)
            shape = n.b.types[x].shape
            row, column = (n.b.one("iota", axis=i, dtype=n.to_dtype(6), shape=shape) for i in (a, c))
            on = n.b.one("select", n.b.one("eq", row, column), x, n.like(0, x))
            x, term = n.b.one("reduce_sum", on, axes=(c,)), [*term[:c], *term[c + 1 :]]
    return x, term


def _contracted(
    n: Call, left: tuple[int, list[str]], right: tuple[int, list[str]], later: set[str]
) -> tuple[int, list[str]]:
    """The product of two operands; labels of both that nothing later reads are summed over."""
    (x, xs), (y, ys) = left, right
    labelled = [(k, d) for v, term in (left, right) for k, d in zip(term, n.b.types[v].shape, strict=True)]
    sizes = {k: d for k, d in labelled if d != 1}
    both = [k for k in xs if k in ys]
    x, y = (forms.broadcast_to(n.b, v, [sizes.get(k, 1) for k in term]) for v, term in ((x, xs), (y, ys)))
    batch = [label for label in both if label in later]
    inner = [label for label in both if label not in later]
    out = forms.dot_general(
        n.b, x, y, [xs.index(k) for k in batch], [ys.index(k) for k in batch], [xs.index(k) for k in inner],
        [ys.index(k) for k in inner],
    )  # fmt: skip
    return out, [*batch, *(k for k in xs if k not in both), *(k for k in ys if k not in both)]
