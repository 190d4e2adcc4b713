"""Weights: the tensors of a file checked against a graph's params, and bound to them.

A build needs names and shapes only; `run` needs the values. Must not know plans or targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from ..graph import Graph, NDArray, Node, TensorType
from ..source import Diagnostic, DiagnosticError, Note, nearest
from .convert import convert
from .tensors import Tensor, read_safetensors

RANDOM = "random:"
# A list of more faults than this helps nobody; the rest is counted.
_MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tensor that a file must hold: its name there, its type, and the "file:line" that asks for it."""

    name: str
    type: TensorType
    source: str


def wanted(graph: Graph) -> list[Wanted]:
    """The tensors that `graph`'s params are bound to, in order; a stacked param asks for one an iteration."""
    return [w for node in graph.params for w in _wanted(node)]


def open_weights(path: str, graph: Graph) -> tuple[dict[str, Tensor], list[Diagnostic]]:
    """The tensors of the safetensors file `path`, and a note when some are not used.

    DiagnosticError with all that is missing (E0603) and misshapen (E0604), or wrong with the file.
    """
    tensors = read_safetensors(path)
    asked = wanted(graph)
    faults = [*_missing(path, asked, tensors), *_misshapen(path, asked, tensors)]
    if faults:
        raise DiagnosticError(faults)
    return tensors, _unused(path, asked, tensors)


def bind(graph: Graph, tensors: Mapping[str, Tensor]) -> dict[str, NDArray]:
    """The params of `graph` by name, each of its declared type; what `open_weights` accepted."""
    return {str(n.attr("name")): _bound(n, tensors) for n in graph.params}


def random_weights(graph: Graph, seed: int) -> dict[str, NDArray]:
    """Params drawn from a normal distribution of variance 1 / (length of the last axis); integers are zeros or ones.

    The same seed and name give the same values. NumPy's PCG64.
    """
    return {str(n.attr("name")): _drawn(str(n.attr("name")), n.type, seed) for n in graph.params}


def random_seed(weights: str | None) -> int | None:
    """The SEED of `random:SEED`, or None for a path. DiagnosticError (E0606) when SEED is no number."""
    if weights is None or not weights.startswith(RANDOM):
        return None
    seed = weights.removeprefix(RANDOM)
    if not (seed.isascii() and seed.isdigit()):
        said = f"`{weights}`: the seed of random weights is a whole number"
        raise DiagnosticError(Diagnostic("E0606", said, help="for example `--weights random:0`"))
    return int(seed)


def no_weights(graph: Graph) -> DiagnosticError:
    """The error of a run that was given none."""
    names = [w.name for w in wanted(graph)]
    listed = ", ".join(f"`{name}`" for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    help = "give `--weights FILE.safetensors`, or `--weights random:0` for random ones"
    return DiagnosticError(Diagnostic("E0606", f"{graph.name} has parameters but no weights: {listed}", help=help))


# ---- what is wrong -------------------------------------------------------------------------------


def _wanted(node: Node) -> Iterator[Wanted]:
    name, source = str(node.attr("name")), node.loc.rpartition(":")[0]
    count = _stack(node)
    if not count:
        yield Wanted(name, node.type, source)
    for i in range(count):
        yield Wanted(name.replace("{i}", str(i)), node.type.with_shape(node.type.shape[1:]), source)


def _stack(node: Node) -> int:
    stack = node.attr("stack")
    assert isinstance(stack, int)
    return int(stack)


def _missing(path: str, asked: list[Wanted], tensors: Mapping[str, Tensor]) -> list[Diagnostic]:
    missing = [w for w in asked if w.name not in tensors]
    names = {w.name for w in asked}
    free = [name for name in tensors if name not in names]
    lines = [_missing_line(w, free) for w in missing[:_MOST_LISTED]]
    said = f"{path} lacks {len(missing)} of the {len(asked)} tensors that the model reads"
    help = "a parameter's name is the enclosing `as` scopes joined by '.', then its own"
    notes = (*_listed(lines, len(missing)), *((Note(f"what the file has besides: {_few(free)}"),) if free else ()))
    return [Diagnostic("E0603", said, notes=notes, help=help)] if missing else []


def _few(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:4]) + (", ..." if len(names) > 4 else "")


def _missing_line(want: Wanted, free: Sequence[str]) -> str:
    close = nearest(want.name, free)
    return f"`{want.name}` {want.type}{_at(want)} is missing" + (f"; did you mean `{close}`?" if close else "")


def _misshapen(path: str, asked: list[Wanted], tensors: Mapping[str, Tensor]) -> list[Diagnostic]:
    wrong = [(w, why) for w in asked if w.name in tensors and (why := _misfit(w, tensors[w.name]))]
    lines = [f"`{w.name}` is {w.type}{_at(w)}, {why}" for w, why in wrong[:_MOST_LISTED]]
    said = f"{len(wrong)} of the tensors of {path} do not fit the model"
    return [Diagnostic("E0604", said, notes=_listed(lines, len(wrong)))] if wrong else []


def _misfit(want: Wanted, tensor: Tensor) -> str:
    """Why `tensor` cannot be bound, or "". Values are not read: whether integers fit is told when they are."""
    if tensor.dtype is None:
        return f"but the file has dtype {tensor.stored}, which tdslc does not read"
    if want.type.dtype.is_float != tensor.dtype.is_float:
        return f"but the file has {tensor}"
    if tensor.shape == want.type.shape:
        return ""
    turned = tensor.shape == want.type.shape[::-1] and want.type.rank == 2
    return f"but the file has {tensor}" + (" (transposed?)" if turned else "")


def _at(want: Wanted) -> str:
    return f" ({want.source})" if want.source else ""


def _listed(lines: list[str], total: int) -> tuple[Note, ...]:
    more = [f"and {total - len(lines)} more"] if total > len(lines) else []
    return tuple(Note(line) for line in (*lines, *more))


def _unused(path: str, asked: list[Wanted], tensors: Mapping[str, Tensor]) -> list[Diagnostic]:
    used = {w.name for w in asked}
    unused = [name for name in tensors if name not in used]
    if not unused:
        return []
    said = f"{len(unused)} of the {len(tensors)} tensors in {path} are not used: {_few(unused)}"
    return [Diagnostic("E0605", said, severity="note")]


# ---- values --------------------------------------------------------------------------------------


def _bound(node: Node, tensors: Mapping[str, Tensor]) -> NDArray:
    asked = list(_wanted(node))
    if not _stack(node) and asked:
        return _converted(asked[0], tensors[asked[0].name])
    # One tensor at a time: the stack is the only copy.
    stacked = np.empty(node.type.shape, node.type.dtype.numpy)
    for i, want in enumerate(asked):
        stacked[i] = _converted(want, tensors[want.name])
    return stacked


def _converted(want: Wanted, tensor: Tensor) -> NDArray:
    got = convert(tensor.read(), want.type.dtype)
    if isinstance(got, str):
        raise DiagnosticError(Diagnostic("E0604", f"`{want.name}` is {want.type}{_at(want)}: {got}"))
    return got


def _drawn(name: str, t: TensorType, seed: int) -> NDArray:
    rng = np.random.default_rng([seed, crc32(name.encode())])
    if not t.dtype.is_float:
        return rng.integers(0, 2, t.shape).astype(t.dtype.numpy)
    scale = float(t.shape[-1] or 1) ** -0.5 if t.rank else 1.0
    return (rng.standard_normal(t.shape, np.float32) * np.float32(scale)).astype(t.dtype.numpy)
