"""TensorProto to NumPy: every dtype that tdslc has, packed or raw, in the file or beside it.

Nothing in a file is trusted: counts, offsets and paths are checked before data is touched. Must not know operators.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...graph import DTYPES, DType, NDArray
from ...source import Diagnostic, DiagnosticError

# TensorProto.DataType of onnx.proto3. Strings, complex numbers and the 8-bit floats without infinities and with one
# zero (FNUZ), and those of 4 and 2 bits, have no dtype here.
_DTYPES = {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16", 11: "f64", 12: "u32",
    13: "u64", 16: "bf16", 17: "f8e4m3", 19: "f8e5m2", 21: "u4", 22: "i4",
}  # fmt: skip
_NAMES = {
    0: "UNDEFINED", 8: "STRING", 14: "COMPLEX64", 15: "COMPLEX128", 18: "FLOAT8E4M3FNUZ", 20: "FLOAT8E5M2FNUZ",
    23: "FLOAT4E2M1", 24: "FLOAT8E8M0", 25: "UINT2", 26: "INT2",
}  # fmt: skip
# ONNX's own words for those there are: what Cast took before opset 6.
DTYPE_NAMES = {
    1: "FLOAT", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64", 9: "BOOL", 10: "FLOAT16",
    11: "DOUBLE", 12: "UINT32", 13: "UINT64",
}  # fmt: skip
_NUMBERS = {name: number for number, name in _DTYPES.items()}

# Elements of one tensor, as docs/language.md has it.
MAX_ELEMENTS = 2**31 - 1
_EXTERNAL = 1


@dataclass(frozen=True, slots=True)
class Unreadable(Exception):
    """A tensor that cannot be read: why, the code of the diagnostic, and what to do."""

    why: str
    code: str = "E1102"
    help: str | None = None


def dtype_of(number: int) -> DType | None:
    """The dtype of a TensorProto.DataType, or None."""
    name = _DTYPES.get(int(number))
    return None if name is None else DTYPES[name]


def dtype_name(number: int) -> str:
    """ONNX's word for a data type that tdslc lacks."""
    return _NAMES.get(int(number), f"data type {int(number)}")


def dtype_number(d: DType) -> int:
    """The TensorProto.DataType of a dtype."""
    return _NUMBERS[d.name]


def array_of(t: Any, folder: str | None) -> NDArray:
    """The values of TensorProto `t`; external data lies below `folder`. Raises Unreadable."""
    d = dtype_of(t.data_type)
    if d is None:
        raise Unreadable(f"it is of {dtype_name(t.data_type)}, which tdslc does not have", "E1105")
    shape = tuple(int(n) for n in t.dims)
    count = prod(shape)
    if min(shape, default=0) < 0:
        raise Unreadable(f"its dims are {list(shape)}, and a dim is 0 or more", "E1102")
    if count > MAX_ELEMENTS:
        raise Unreadable(f"its dims are {list(shape)}; a tensor has at most 2^31 - 1 elements", "E1108")
    if int(t.data_location) == _EXTERNAL:
        flat = _packed(_external(t, d, count, folder), d, count)
    elif t.HasField("raw_data"):
        flat = _packed(np.frombuffer(t.raw_data, np.uint8), d, count)
    else:
        flat = _typed(t, d, count)
    if flat.size != count:
        raise Unreadable(f"its dims {list(shape)} want {count} elements, the file has {flat.size}")
    return flat.reshape(shape)


def _packed(data: NDArray, d: DType, count: int) -> NDArray:
    """Little-endian bytes as elements; two of 4 bits share a byte, the low half first."""
    if d.bits == 4:
        halves = np.stack([data & 15, data >> 4], axis=-1).reshape(-1)[:count]
        return _nibbles(halves, d)
    if data.size % d.numpy.itemsize:
        raise Unreadable(f"its data of {data.size} bytes is no whole number of {d} elements")
    return data.view(d.numpy) if data.size else np.zeros(0, d.numpy)


def _nibbles(halves: NDArray, d: DType) -> NDArray:
    signed = halves.astype(np.int8)
    return np.where(signed > 7, signed - 16, signed).astype(d.numpy) if d.kind == "int" else signed.astype(d.numpy)


def _typed(t: Any, d: DType, count: int) -> NDArray:
    """Elements from the field that ONNX keeps this dtype in."""
    if d.name == "f32":
        return np.asarray(t.float_data, np.float32)
    if d.name == "f64":
        return np.asarray(t.double_data, np.float64)
    if d.name == "i64":
        return np.asarray(t.int64_data, np.int64)
    if d.name in ("u32", "u64"):
        return np.asarray(t.uint64_data, np.uint64).astype(d.numpy)
    words = np.asarray(t.int32_data, np.int32)
    if d.bits == 4:
        return _packed(words.astype(np.uint8), d, count)
    if d.is_float:  # the bits, each in a word of its own
        return words.astype({16: np.uint16, 8: np.uint8}[d.bits]).view(d.numpy)
    return words.astype(d.numpy)


# ---- external data -------------------------------------------------------------------------------


def _external(t: Any, d: DType, count: int, folder: str | None) -> NDArray:
    """The bytes of external data, mapped and not read."""
    entries = {str(e.key): str(e.value) for e in t.external_data}
    path = _inside(folder, entries.get("location", ""))
    size = path.stat().st_size
    offset = _number(entries, "offset", 0)
    wanted = (count * d.bits + 7) // 8
    length = _number(entries, "length", wanted)
    if length < wanted or offset + length > size:
        said = f"its data is {wanted} bytes at {offset} of {path.name}, which has {size} (stated: {length})"
        raise Unreadable(said, "E1103")
    return np.memmap(path, np.uint8, "r", offset, (wanted,)) if wanted else np.zeros(0, np.uint8)


def _number(entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Unreadable(f"the {key} of its external data is `{text}`", "E1103")
    return int(text)


def _inside(folder: str | None, location: str) -> Path:
    """The regular file `location` below `folder`, links followed."""
    if folder is None:
        raise Unreadable("its data lies in another file", "E1103", "give the path of the model, not its bytes")
    root = Path(os.path.realpath(folder))
    if not location or "\0" in location or os.path.isabs(location) or "\\" in location:
        raise Unreadable(f"its data is said to lie in `{location}`, which is no path below the model's folder", "E1103")
    path = Path(os.path.realpath(root / location))
    if root not in path.parents:
        raise Unreadable(f"its data is said to lie in `{location}`, outside the model's folder", "E1103")
    try:
        mode = path.stat().st_mode
    except OSError:
        help = f"put {location} beside the model, as it was when the model was saved"
        raise Unreadable(f"its data lies in {location}, and there is no such file", "E1103", help) from None
    if not stat.S_ISREG(mode):
        raise Unreadable(f"its data is said to lie in {location}, which is no regular file", "E1103")
    return path


def unreadable(what: str, e: Unreadable) -> DiagnosticError:
    """`e` as a diagnostic about the tensor `what`."""
    return DiagnosticError(Diagnostic(e.code, f"{what} cannot be read: {e.why}", help=e.help))
