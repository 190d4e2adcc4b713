"""The types of a StableHLO text as tensor types, or why they are none. Must not know operations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ...graph import DTYPES, DType, TensorType

_PLAIN = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "i4")
ELEMENT_TYPES: dict[str, DType] = {
    "i1": DTYPES["bool"],
    "f8E4M3FN": DTYPES["f8e4m3"],
    "f8E5M2": DTYPES["f8e5m2"],
    **{name: DTYPES[name] for name in _PLAIN},
    **{f"ui{bits}": DTYPES[f"u{bits}"] for bits in (4, 8, 16, 32, 64)},
}
ELEMENT_NAMES: dict[str, str] = {d.name: name for name, d in ELEMENT_TYPES.items()}

_TENSOR = re.compile(r"tensor<\s*((?:(?:\d+|\?)\s*x\s*)*)(.*)>", re.DOTALL)
_MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class NoTensor:
    """Why a type is not one of ours, the code of that, and what to do."""

    why: str
    help: str
    code: str = "E1105"


@lru_cache(maxsize=4096)
def tensor_type(text: str) -> TensorType | NoTensor:
    """The type that `text` writes."""
    found = _TENSOR.fullmatch(text)
    if found is None:
        return _no_tensor(text)
    sizes, element = found[1].replace(" ", "").split("x")[:-1], found[2].strip()
    if "?" in sizes:
        return NoTensor(f"`{_short(text)}` has a dim that is not fixed", "export the model with static shapes", "E1109")
    dtype = ELEMENT_TYPES.get(element)
    if dtype is None:
        return _no_element(
            element.split(",")[0].strip() if "," in element and "<" not in element.split(",")[0] else element, text
        )
    if any(len(size) > 19 or int(size) > _MOST for size in sizes):
        return NoTensor(f"`{_short(text)}` has more elements than 64 bits can count", "use smaller dims", "E1108")
    t = TensorType(dtype, tuple(map(int, sizes)))
    if t.size > _MOST:
        return NoTensor(f"`{_short(text)}` has more elements than 64 bits can count", "use smaller dims", "E1108")
    return t


def _no_element(element: str, text: str) -> TensorType | NoTensor:
    if element in ELEMENT_TYPES:
        return NoTensor(f"`{_short(text)}` carries an encoding", "export it as a plain dense tensor")
    if element.startswith("complex"):
        return NoTensor("complex numbers are out of scope", "split them into real and imaginary parts in the model")
    if element.startswith("!quant"):
        return NoTensor("quantised types are out of scope", "export quantisation as integer and float operations")
    return NoTensor(f"the element type `{_short(element)}` is out of scope", f"use one of {', '.join(ELEMENT_TYPES)}")


def _no_tensor(text: str) -> NoTensor:
    if text.startswith("tensor<*"):
        return NoTensor("a tensor without a rank has no static shape", "export the model with static shapes", "E1109")
    if text.startswith("!stablehlo.token"):
        return NoTensor(
            "tokens order side effects, which a tensor program does not have", "export the pure part of the model"
        )
    if text.startswith("tuple"):
        return NoTensor("a tuple is no tensor", "return its elements")
    return NoTensor(f"`{_short(text)}` is not a tensor type", "use ranked tensors")


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= 60 else f"{plain[:60]}…"


def type_text(t: TensorType) -> str:
    """`t` as MLIR writes it."""
    return f"tensor<{''.join(f'{int(d)}x' for d in t.shape)}{ELEMENT_NAMES[t.dtype.name]}>"
