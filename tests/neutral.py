"""A case of `cases/cases.json` as a Graph: faults of other compilers in a neutral vocabulary, with right answers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tdslc.compiler.graph import DTYPES, Builder, Graph, NDArray, TensorType, forms
from tdslc.compiler.graph.dtypes import BOOL, rounded

FILE = Path(__file__).parent / "cases" / "cases.json"
Attrs = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """One case: its graph, inputs and expected outputs."""

    id: str
    graph: Graph
    inputs: Mapping[str, NDArray]
    expected: Mapping[str, NDArray]
    compare: Mapping[str, Any]
    more: Mapping[str, Any] = field(default_factory=dict)

    def wrong(self, outputs: Mapping[str, NDArray]) -> list[str]:
        """Names of the outputs that are not as expected."""
        return [name for name, wanted in self.expected.items() if not self._fits(np.asarray(outputs[name]), wanted)]

    def _fits(self, got: NDArray, wanted: NDArray) -> bool:
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return False
        a, b = got.astype(np.float64), wanted.astype(np.float64)
        if self.compare["mode"] == "close":
            return bool(np.allclose(a, b, rtol=self.compare["rtol"], atol=self.compare["atol"], equal_nan=True))
        nan = np.isnan(b)
        return bool(np.all((np.isnan(a) == nan) & (nan | ((a == b) & (np.signbit(a) == np.signbit(b))))))


def load() -> list[Case]:
    """Every case of the file."""
    return [case(one) for one in json.loads(FILE.read_text(encoding="utf-8"))["cases"]]


def array(spec: Attrs) -> NDArray:
    """An array from its dtype, shape and data (or one `fill`); non-finite floats are strings."""
    d, shape = DTYPES[spec["dtype"]], tuple(spec["shape"])
    data = [spec["fill"]] * math.prod(shape) if "fill" in spec else spec["data"]
    exact = np.float64 if d.is_float else np.bool_ if d is BOOL else np.int64
    return rounded(np.array([float(v) if d.is_float else v for v in data], exact), d).reshape(shape)


def case(spec: Attrs) -> Case:
    """The case of one entry."""
    inputs = {name: array(value) for name, value in spec["inputs"].items()}
    literals = set(spec.get("constants", ()))
    b = Builder(str(spec["id"]))
    names: dict[str, int] = {}
    for name, value in inputs.items():
        d = DTYPES[spec["inputs"][name]["dtype"]]
        is_literal = name in literals
        names[name] = forms.constant(b, value, d) if is_literal else b.input(name, TensorType(d, value.shape))
    _run(b, spec["program"], names)
    outputs = list(spec["expect"])
    graph = b.finish([names[name] for name in outputs], outputs)
    given = {name: value for name, value in inputs.items() if name not in literals}
    expected = {name: array(value) for name, value in spec["expect"].items()}
    return Case(str(spec["id"]), graph, given, expected, spec["compare"], spec)


def _run(b: Builder, program: Sequence[Attrs], names: dict[str, int]) -> None:
    for step in program:
        if "repeat" in step:
            for _ in range(step["repeat"]):
                _run(b, step["body"], names)
            continue
        args = [names[a] for a in step["in"]]
        names[step["out"]] = _OPS[step["op"]](b, args, step.get("attrs", {}))


# ---- the vocabulary ----------------------------------------------------------------------------------

Emit = Callable[[Builder, Sequence[int], Attrs], int]


def _plain(op: str) -> Emit:
    return lambda b, args, attrs: forms.elementwise(b, op, *args)


def _clip(b: Builder, args: Sequence[int], attrs: Attrs) -> int:
    d = b.types[args[0]].dtype
    return forms.clamp(b, b.full(attrs["lo"], d), args[0], b.full(attrs["hi"], d))


def _conv2d(b: Builder, args: Sequence[int], attrs: Attrs) -> int:
    top, left, bottom, right = attrs.get("pads", (0, 0, 0, 0))
    return b.one(
        "conv", args[0], args[1], strides=tuple(attrs.get("stride", (1, 1))), low=(top, left), high=(bottom, right),
        dilations=tuple(attrs.get("dilation", (1, 1))), groups=attrs.get("groups", 1),
    )  # fmt: skip


def _slice(b: Builder, args: Sequence[int], attrs: Attrs) -> int:
    return forms.slice_any(b, args[0], attrs["starts"], attrs["ends"], attrs.get("steps"), attrs.get("axes"))


def _matmul(b: Builder, args: Sequence[int], attrs: Attrs) -> int:
    return forms.numpy_matmul(b, args[0], args[1], DTYPES[attrs["acc"]] if "acc" in attrs else None)


def _reduce(kind: str) -> Emit:
    return lambda b, args, attrs: forms.reduce(b, args[0], kind, attrs.get("axes"), attrs.get("keepdims", False))


def _layernorm(b: Builder, args: Sequence[int], attrs: Attrs) -> int:
    """As a composite, so that fusions of it are tried: centred first, then the mean of squares."""

    def define(inner: Builder, x: int) -> int:
        centred = forms.elementwise(inner, "sub", x, forms.reduce(inner, x, "mean", (-1,), keep=True))
        variance = forms.reduce(inner, inner.one("mul", centred, centred), "mean", (-1,), keep=True)
        scale = inner.one("rsqrt", inner.one("add", variance, forms.scalar(inner, attrs["eps"], variance)))
        return forms.elementwise(inner, "mul", centred, scale)

    return forms.composite(b, "layernorm", args[:1], {"eps": attrs["eps"]}, define)[0]


def _relu(b: Builder, args: Sequence[int], attrs: Attrs) -> int:
    return b.one("max", args[0], forms.scalar(b, 0, args[0]))


_OPS: dict[str, Emit] = {
    **{op: _plain(op) for op in ("add", "sub", "mul", "div", "neg", "abs", "pow")},
    **{op: _plain(op) for op in ("exp", "log", "sqrt", "rsqrt", "tanh", "erf")},
    **{f"reduce_{kind}": _reduce(kind) for kind in ("sum", "prod", "max", "min", "mean")},
    "round_half_even": _plain("round"),
    "maximum": _plain("max"),
    "minimum": _plain("min"),
    "relu": _relu,
    "clip": _clip,
    "conv2d": _conv2d,
    "slice": _slice,
    "matmul": _matmul,
    "layernorm": _layernorm,
    "transpose": lambda b, args, attrs: forms.transpose(b, args[0], attrs["perm"]),
    "reshape": lambda b, args, attrs: forms.reshape(b, args[0], attrs["shape"]),
    "concat": lambda b, args, attrs: forms.concat(b, args, attrs["axis"]),
}  # fmt: skip
