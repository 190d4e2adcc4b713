"""Inputs of a run: `NAME=FILE.npy`, `FILE.npz:NAME`, `FILE.safetensors:NAME`, `rand:SEED`, or arrays.

Knows a graph's signature. Must not know plans, targets or weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard
from zlib import crc32

import numpy as np

from ..graph import Dim, Graph, NDArray, TensorType
from ..source import Diagnostic, DiagnosticError, did_you_mean
from .convert import convert
from .tensors import Tensor, read_tensor

RANDOM = "rand:"
# Random integers are drawn below this: small enough to be indices of most tables.
_RANDOM_BELOW = 100


@dataclass(frozen=True, slots=True)
class Drawn:
    """An input to be filled with random values once its type is known."""

    seed: int


Given: TypeAlias = "NDArray | Tensor | Drawn"


def parse_inputs(texts: Sequence[str]) -> dict[str, Given]:
    """`NAME=WHERE` texts, headers of files read. DiagnosticError (E0607, those of `read_tensor`)."""
    found: dict[str, Given] = {}
    for text in texts:
        name, equals, where = text.partition("=")
        if not equals or not name or not where:
            help = "NAME=FILE.npy, NAME=FILE.npz:TENSOR, NAME=FILE.safetensors:TENSOR or NAME=rand:SEED"
            raise DiagnosticError(Diagnostic("E0607", f"`--input {text}` names no input and file", help=help))
        if name in found:
            raise DiagnosticError(Diagnostic("E0607", f"input `{name}` is given twice", help="give it one value"))
        found[name] = _where(where)
    return found


def bind_dims(graph: Graph, given: Mapping[str, Given], fixed: Mapping[str, int]) -> dict[str, int]:
    """`fixed` and what the shapes of the inputs say of the other dims (axes declared as one lone dim).

    DiagnosticError (E0609) when two inputs say different things of one dim.
    """
    dims: dict[str, int] = {}
    told: dict[str, str] = {}
    for node in graph.inputs:
        name = str(node.attr("name"))
        shape = _shape(given.get(name))
        for axis, (dim, size) in enumerate(zip(node.type.shape, shape or (), strict=False)):
            if shape is None or len(shape) != node.type.rank or not _is_symbol(dim) or dim.expr in fixed:
                continue
            if dims.setdefault(dim.expr, size) != size:
                said = f"{dim.expr} is {dims[dim.expr]} by {told[dim.expr]} and {size} by axis {axis} of `{name}`"
                raise DiagnosticError(Diagnostic("E0609", said))
            told.setdefault(dim.expr, f"axis {axis} of `{name}`")
    return {**dims, **fixed}


def bind_inputs(graph: Graph, given: Mapping[str, Given]) -> dict[str, NDArray]:
    """The inputs of `graph` by name, each of its declared type. DiagnosticError with all faults (E0607-E0609)."""
    types = {str(n.attr("name")): n.type for n in graph.inputs}
    faults = [_unknown(name, types) for name in given if name not in types]
    missing = [f"`{name}` {t}" for name, t in types.items() if name not in given]
    if missing:
        example = missing[0].split("`")[1]
        help = f"give `--input {example}=FILE.npy`, or `--input {example}=rand:0` for random values"
        faults.append(Diagnostic("E0608", f"no value for input {', '.join(missing)}", help=help))
    bound: dict[str, NDArray] = {}
    for name, t in types.items():
        got = _bound(name, t, given[name]) if name in given else None
        if isinstance(got, Diagnostic):
            faults.append(got)
        elif got is not None:
            bound[name] = got
    if faults:
        raise DiagnosticError(faults)
    return bound


def random_input(name: str, t: TensorType, seed: int) -> NDArray:
    """Normal floats, integers in 0..99 (as far as the dtype goes), fair bools; the same for the same seed and name."""
    rng = np.random.default_rng([seed, crc32(name.encode())])
    if t.dtype.is_float:
        return rng.standard_normal(t.shape, np.float32).astype(t.dtype.numpy)
    most = 2 if t.dtype.kind == "bool" else min(_RANDOM_BELOW, 2 ** (t.dtype.bits - (t.dtype.kind == "int")))
    return rng.integers(0, most, t.shape).astype(t.dtype.numpy)


def _where(text: str) -> Given:
    if not text.startswith(RANDOM):
        return read_tensor(text)
    seed = text.removeprefix(RANDOM)
    if not (seed.isascii() and seed.isdigit()):
        said = f"`{text}`: the seed of a random input is a whole number"
        raise DiagnosticError(Diagnostic("E0607", said, help="for example `--input x=rand:0`"))
    return Drawn(int(seed))


def _shape(given: Given | None) -> tuple[int, ...] | None:
    return None if given is None or isinstance(given, Drawn) else given.shape


def _is_symbol(dim: int) -> TypeGuard[Dim]:
    return isinstance(dim, Dim) and dim.expr.isidentifier()


def _unknown(name: str, types: Mapping[str, TensorType]) -> Diagnostic:
    listed = ", ".join(f"`{known}`" for known in types) or "none"
    help = did_you_mean(name, types) or f"its inputs are {listed}"
    return Diagnostic("E0607", f"the model has no input `{name}`", help=help)


def _bound(name: str, t: TensorType, given: Given) -> NDArray | Diagnostic:
    if isinstance(given, Drawn):
        return random_input(name, t, given.seed)
    if given.shape != t.shape:
        return Diagnostic("E0609", f"input `{name}` is {t}, but the value given has shape {list(given.shape)}")
    if isinstance(given, Tensor) and given.dtype is None:
        return Diagnostic("E0609", f"input `{name}` is {t}, but the file has dtype {given.stored}")
    array = given.read() if isinstance(given, Tensor) else given
    got = convert(array, t.dtype)
    return Diagnostic("E0609", f"input `{name}` is {t}: {got}") if isinstance(got, str) else got
