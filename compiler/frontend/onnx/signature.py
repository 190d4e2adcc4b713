"""What a graph states of itself: types of its values, and its inputs, whose dims a build fixes, some bound to values.

Must not know operators, nor how nodes are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ...graph import Dim, NDArray, TensorType
from ...graph.dtypes import from_numpy
from ...source import Diagnostic, did_you_mean
from .call import Value, known_value
from .scope import Session
from .tensors import MAX_ELEMENTS, dtype_name, dtype_of

MAX_RANK = 32


def stated_types(graph: Any) -> dict[str, Any]:
    """(data type, dims or None) of values whose type the graph states."""
    return {str(info.name): stated_type(info) for info in graph.value_info}


def stated_type(info: Any) -> tuple[int, list[int | str | None] | None]:
    """(data type, dims or None) of a ValueInfoProto; (0, None) when it is of no tensor."""
    if not info.type.HasField("tensor_type"):
        return 0, None
    t = info.type.tensor_type
    dims = [_dim(d) for d in t.shape.dim] if t.HasField("shape") else None
    return int(t.elem_type), dims


def _dim(d: Any) -> int | str | None:
    """A dim's size, its symbol, or None; exporters write -1 and "?" for one that has neither."""
    if d.HasField("dim_value"):
        return int(d.dim_value) if d.dim_value >= 0 else None
    return None if d.dim_param in ("", "?") else str(d.dim_param)


class Signature:
    """The model's inputs, their dims fixed by `dims`, some bound to values by `binds`.

    With `host`, tensors of data types that tdslc lacks are no mistake: `hosted` has their shapes.
    """

    def __init__(
        self, session: Session, graph: Any, dims: Mapping[str, int], binds: Mapping[str, NDArray], host: bool = False
    ) -> None:
        self.session, self.graph, self.dims, self.binds, self.host = session, graph, dims, binds, host
        self.hosted: dict[str, tuple[int, ...]] = {}
        self.bound: dict[str, Value | None] = {}
        self.fixed: dict[str, int] = {}
        self.unknown: dict[str, list[str]] = {}

    def inputs(self) -> list[tuple[str, TensorType]]:
        """(name, type) of each input that is given at run time; `bound` and the session's mistakes are filled."""
        own = {str(t.name) for t in self.graph.initializer}
        found: list[tuple[str, TensorType]] = []
        names: set[str] = set()
        # Since IR 4 an initialiser that is an input too is a default; older files list every initialiser there.
        for info in self.graph.input:
            name = str(info.name)
            if name in names:
                self.session.tell(Diagnostic("E1104", f"{self.session.file}: two inputs are called `{name}`"))
            elif name in self.binds:
                self.bound[name] = self._bound(name, info)
            elif name not in own:
                t = self._type(name, info)
                if t is not None:
                    found.append((name, t))
            names.add(name)
        self._check_names(names)
        return found

    def _check_names(self, names: set[str]) -> None:
        file = self.session.file
        for name in self.binds:
            if name not in names:
                help = did_you_mean(name, names) or f"its inputs are {', '.join(sorted(names)) or 'none'}"
                self.session.tell(Diagnostic("E1112", f"{file}: the model has no input `{name}` to bind", help=help))
        for name in self.dims:
            if name not in self.fixed:
                symbols = sorted({*self.fixed, *self.unknown})
                help = did_you_mean(name, symbols) or f"its dims are {', '.join(symbols) or 'all fixed'}"
                self.session.tell(Diagnostic("E1109", f"{file}: the model has no dim `{name}`", help=help))
        if self.unknown:
            listed = "; ".join(f"`{dim}` in {', '.join(places)}" for dim, places in self.unknown.items())
            example = " ".join(f"--dim {dim}=1" for dim in self.unknown)
            many = len(self.unknown)
            what = f"{many} dims of the model's inputs are" if many > 1 else "a dim of the model's inputs is"
            said = f"{file}: {what} not fixed: {listed}"
            self.session.tell(Diagnostic("E1109", said, help=f"for example `{example}`"))

    def _type(self, name: str, info: Any) -> TensorType | None:
        file = self.session.file
        number, dims = stated_type(info)
        d = dtype_of(number)
        if d is None and self.host and number and dims is not None:
            self.hosted[name] = tuple(int(self._size(name, axis, dim)) for axis, dim in enumerate(dims))
            return None
        if d is None:
            self.session.tell(self._no_type(name, number, info))
            return None
        if dims is None:
            help = f"`--bind {name}=FILE.npy` fixes it"
            self.session.tell(Diagnostic("E1109", f"{file}: the input `{name}` has no stated rank", help=help))
            return None
        shape = tuple(self._size(name, axis, dim) for axis, dim in enumerate(dims))
        most = max(prod(map(int, shape)), *shape, 0)
        if min(shape, default=0) < 0 or most > MAX_ELEMENTS or len(shape) > MAX_RANK:
            sizes = ", ".join(str(int(n)) for n in shape)
            said = f"{file}: the input `{name}` is {d}[{sizes}], more than 2^31 - 1 elements"
            self.session.tell(Diagnostic("E1108", said))
            return None
        return TensorType(d, shape)

    def _no_type(self, name: str, number: int, info: Any) -> Diagnostic:
        """What is wrong with an input of no dtype of ours."""
        told = info.type.WhichOneof("value")
        if told is None or (told == "tensor_type" and not number):
            help = "a model states the type of each input; export it again"
            return Diagnostic("E1102", f"{self.session.file}: the input `{name}` has no stated type", help=help)
        kind = dtype_name(number) if told == "tensor_type" else f"of type {told.removesuffix('_type')}"
        said = f"{self.session.file}: the input `{name}` is {kind}, which tdslc does not have"
        help = "export the model so that it takes tensors of numbers"
        if told == "tensor_type":
            help = "`tdslc build --partition` takes it for nodes on the host, or export the model without"
        return Diagnostic("E1105", said, help=help)

    def _size(self, name: str, axis: int, dim: int | str | None) -> int:
        if isinstance(dim, int):
            return dim
        key = dim or f"{name}.{axis}"
        if key not in self.dims:
            self.unknown.setdefault(key, []).append(f"axis {axis} of `{name}`")
            return 1
        self.fixed[key] = size = int(self.dims[key])
        if size < 0:
            said = f"{self.session.file}: the dim `{key}` cannot be {size}: a dim is 0 or more"
            self.session.tell(Diagnostic("E1109", said))
            return 0
        return Dim(size, key) if key.isidentifier() else size

    def _bound(self, name: str, info: Any) -> Value | None:
        number, dims = stated_type(info)
        array = np.asarray(self.binds[name])
        d = dtype_of(number)
        own = from_numpy(array.dtype)
        fits = d is not None and own == d and (dims is None or len(dims) == array.ndim)
        sizes = zip(dims or (), array.shape, strict=False)
        if not fits or any(isinstance(n, int) and n != have for n, have in sizes):
            shown = f"{own or array.dtype}{list(array.shape)}"
            stated = f"{d or dtype_name(number)}{dims}"
            said = f"{self.session.file}: the input `{name}` is {stated}, the value to bind {shown}"
            self.session.tell(Diagnostic("E1112", said))
            return None
        for axis, (dim, have) in enumerate(zip(dims or (), array.shape, strict=False)):
            if not isinstance(dim, int):
                self.fixed.setdefault(dim or f"{name}.{axis}", int(have))
        return known_value(name, array)
