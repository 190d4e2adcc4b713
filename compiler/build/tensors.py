"""Tensors in files: safetensors, .npy, .npz. Headers are read and checked before any data is.

Nothing in a file is trusted: sizes, offsets and names are checked against the file, pickles are refused, data stays in
the mapped file until it is asked for. Must not know models, weights or inputs.
"""

from __future__ import annotations

import io
import json
import os
import stat
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.lib import format as npy

from ..graph import DTYPES, DType, NDArray
from ..graph.dtypes import from_numpy
from ..source import Diagnostic, DiagnosticError, nearest

# As the reference reader: safetensors 0.5, MAX_HEADER_SIZE.
_MAX_HEADER_BYTES = 100_000_000
_MAX_NPY_HEADER_BYTES = 10_000
_SAFETENSORS_DTYPES = {
    "F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "F8_E4M3": "f8e4m3", "F8_E5M2": "f8e5m2",
    "I64": "i64", "I32": "i32", "I16": "i16", "I8": "i8",
    "U64": "u64", "U32": "u32", "U16": "u16", "U8": "u8", "BOOL": "bool",
}  # fmt: skip
SAFETENSORS_NAMES = {name: word for word, name in _SAFETENSORS_DTYPES.items()}
_PICKLE = "a pickle, which runs code when it is read"
_OTHER_FORMATS = (
    (b"PK\x03\x04", "a zip archive, as PyTorch's .pt and .bin are: it holds a pickle, which runs code when it is read"),
    (b"\x80\x02", _PICKLE),
    (b"\x80\x03", _PICKLE),
    (b"\x80\x04", _PICKLE),
    (b"\x80\x05", _PICKLE),
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x1f\x8b", "gzip-compressed"),
)
_SAVE_HELP = "save it as safetensors, for example with safetensors.torch.save_file(model.state_dict(), path)"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a file: `stored` is the file's word for its dtype, `dtype` ours or None; `read` maps its data."""

    name: str
    stored: str
    dtype: DType | None
    shape: tuple[int, ...]
    read: Callable[[], NDArray] = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.dtype or self.stored}[{', '.join(map(str, self.shape))}]"


def read_safetensors(path: str) -> dict[str, Tensor]:
    """The tensors of the safetensors file at `path`, by name. DiagnosticError (E0001, E0002, E0601, E0602)."""
    data = map_file(path)
    _refuse_other_formats(path, bytes(data[:8]))
    header, start = _header(path, data)
    found = [_entry(path, name, entry, data, start) for name, entry in header.items() if name != "__metadata__"]
    _check_layout(path, [span for _, span in found], len(data) - start)
    return {tensor.name: tensor for tensor, _ in found}


def read_tensor(spec: str) -> Tensor:
    """The tensor that `FILE.npy`, `FILE.npz:NAME` or `FILE.safetensors:NAME` names; NAME may lack when there is one.

    DiagnosticError (E0001, E0002, E0601, E0602, E0610, E0612).
    """
    path, name = split_spec(spec)
    if path.endswith(".npy"):
        return _npy(path, Path(path).stem, lambda: _open(path))
    tensors = _npz(path) if path.endswith(".npz") else read_safetensors(path)
    if not name and len(tensors) == 1:
        return next(iter(tensors.values()))
    if name in tensors:
        return tensors[name]
    listed = ", ".join(list(tensors)[:8]) + (", ..." if len(tensors) > 8 else "")
    close = nearest(name, tensors) if name else None
    said = f"{path} has no tensor `{name}`" if name else f"{path} holds {len(tensors)} tensors: say which"
    help = f"did you mean `{path}:{close}`?" if close else f"it holds {listed or 'none'}; write {path}:NAME"
    raise refused("E0612", said, help)


def split_spec(spec: str) -> tuple[str, str]:
    """(path, tensor name or "") of `FILE:NAME`, where the file's suffix tells where the path ends."""
    for suffix in (".safetensors", ".npz", ".npy"):
        at = spec.rfind(suffix + ":")
        if at >= 0:
            return spec[: at + len(suffix)], spec[at + len(suffix) + 1 :]
    return spec, ""


def map_file(path: str) -> NDArray:
    """The bytes of the regular file at `path`, mapped, not read. DiagnosticError (E0001, E0002)."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory, not a file" if stat.S_ISDIR(mode) else "not a regular file"
            raise refused("E0002", f"{path}: is {kind}")
        if os.path.getsize(path) == 0:
            return np.empty(0, np.uint8)
        return np.memmap(path, np.uint8, "r")
    except FileNotFoundError:
        raise refused("E0001", f"{path}: no such file", _sibling(path)) from None
    except (OSError, ValueError) as error:
        raise refused("E0001", f"{path}: cannot be read: {str(error).lower()}") from None


def refused(code: str, message: str, help: str | None = None) -> DiagnosticError:
    """A DiagnosticError of one diagnostic without a place."""
    return DiagnosticError(Diagnostic(code, message, help=help))


def _sibling(path: str) -> str | None:
    folder = Path(path).parent
    try:
        found = nearest(Path(path).name, sorted(entry.name for entry in os.scandir(folder)))
    except OSError:
        return None
    return f"did you mean `{folder / found}`?" if found else None


# ---- safetensors ---------------------------------------------------------------------------------


def _refuse_other_formats(path: str, start: bytes) -> None:
    for magic, what in _OTHER_FORMATS:
        if start.startswith(magic):
            raise refused("E0602", f"{path}: not safetensors but {what}", _SAVE_HELP)


def _header(path: str, data: NDArray) -> tuple[dict[str, Any], int]:
    """The header, and where the data starts."""
    if len(data) < 8:
        raise _malformed(path, f"it is {len(data)} bytes long, less than the 8 that tell the length of its header")
    size = int.from_bytes(bytes(data[:8]), "little")
    if size > _MAX_HEADER_BYTES:
        raise _malformed(path, f"its first 8 bytes tell of a header of {size} bytes, more than {_MAX_HEADER_BYTES}")
    if 8 + size > len(data):
        raise _malformed(path, f"truncated: its header ends at byte {8 + size}, the file at byte {len(data)}")
    try:
        header = json.loads(bytes(data[8 : 8 + size]).decode("utf-8"), object_pairs_hook=_no_twins)
    except (ValueError, RecursionError) as error:
        raise _malformed(
            path, f"its header is not the JSON it should be: {str(error) or 'nested too deeply'}"
        ) from None
    if not isinstance(header, dict):
        raise _malformed(path, "its header is not a JSON object")
    return cast("dict[str, Any]", header), 8 + size


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = dict(pairs)
    if len(names) != len(pairs):
        twin = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
        raise ValueError(f"the name {twin!r} stands twice")
    return names


def _entry(path: str, name: str, entry: object, data: NDArray, start: int) -> tuple[Tensor, tuple[int, int, str]]:
    """The tensor of one header entry, and the (begin, end, name) of its data."""
    fields = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    stored, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not (isinstance(stored, str) and _counts(shape) and _counts(offsets, 2)):
        raise _malformed(path, f"the entry of tensor `{name}` lacks a dtype, a shape or two offsets")
    dims, (begin, end) = tuple(cast("list[int]", shape)), cast("list[int]", offsets)
    dtype = DTYPES.get(_SAFETENSORS_DTYPES.get(stored, ""))
    if begin > end:
        raise _malformed(path, f"tensor `{name}` ends before it begins, at {end} and {begin}")
    if end > len(data) - start:
        raise _malformed(path, f"truncated: tensor `{name}` ends at byte {start + end}, the file at byte {len(data)}")
    if dtype is not None and dtype.nbytes(prod(dims)) != end - begin:
        wanted = dtype.nbytes(prod(dims))
        raise _malformed(path, f"tensor `{name}` is {stored} {list(dims)}, {wanted} bytes, but has {end - begin} bytes")
    raw = data[start + begin : start + end]
    return Tensor(name, stored, dtype, dims, lambda: _as_array(raw, dtype, dims)), (begin, end, name)


def _as_array(raw: NDArray, dtype: DType | None, shape: tuple[int, ...]) -> NDArray:
    assert dtype is not None, "a dtype we lack is refused before data is read"
    if dtype.kind == "bool":
        return (raw != 0).reshape(shape)
    # The mapped bytes of a tensor need not be aligned for its dtype.
    aligned = raw if raw.ctypes.data % dtype.numpy.itemsize == 0 else raw.copy()
    return aligned.view(dtype.numpy).reshape(shape)


def _counts(value: object, length: int | None = None) -> bool:
    if not isinstance(value, list) or (length is not None and len(cast("list[object]", value)) != length):
        return False
    return all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in cast("list[object]", value))


def _check_layout(path: str, spans: list[tuple[int, int, str]], size: int) -> None:
    """Data is read by name, so bytes of two tensors or of none are a sign of a broken or a crafted file."""
    at, before = 0, ""
    for begin, end, name in sorted(spans):
        if begin < at:
            raise _malformed(path, f"the data of tensors `{before}` and `{name}` overlap")
        if begin > at:
            raise _malformed(path, f"bytes {at} to {begin} of its data belong to no tensor")
        at, before = end, name
    if at != size:
        raise _malformed(path, f"its tensors take {at} bytes, but {size} bytes of data follow the header")


def _malformed(path: str, why: str) -> DiagnosticError:
    return refused("E0601", f"{path}: not a safetensors file: {why}", "copy or download the file again")


# ---- npy and npz ---------------------------------------------------------------------------------


def _open(path: str) -> io.BufferedIOBase:
    return io.BufferedReader(io.FileIO(path))


def _npz(path: str) -> dict[str, Tensor]:
    map_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
    except (zipfile.BadZipFile, OSError) as error:
        raise refused("E0610", f"{path}: not an .npz archive: {error}") from None
    return {n[:-4]: _npy(f"{path}:{n[:-4]}", n[:-4], lambda n=n: _member(path, n)) for n in names}


def _member(path: str, name: str) -> io.BufferedIOBase:
    return io.BufferedReader(cast(Any, zipfile.ZipFile(path).open(name)))


def _npy(path: str, name: str, opened: Callable[[], io.BufferedIOBase]) -> Tensor:
    """The tensor of an .npy stream. Its data is read when asked for, and no more of it than its header tells."""
    if ":" not in path:
        map_file(path)
    try:
        with opened() as stream:
            shape, fortran, stored = _npy_header(stream)
            at = stream.tell()
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, SyntaxError, RecursionError) as error:
        raise refused("E0610", f"{path}: not a NumPy array: {_first_line(error)}") from None
    if stored.hasobject:
        raise refused("E0602", f"{path}: holds Python objects, {_PICKLE}", "save it with a number dtype")
    native = stored.newbyteorder("=")
    if native == np.dtype("V2"):
        # What NumPy writes for ml_dtypes.bfloat16, whose name its format cannot hold.
        stored = native = DTYPES["bf16"].numpy
    ours = from_numpy(native) if not native.names else None

    def read() -> NDArray:
        size = prod(shape) * stored.itemsize
        with opened() as stream:
            stream.seek(at)
            data = stream.read(size)
        if len(data) != size:
            raise refused("E0610", f"{path}: truncated: {len(data)} bytes of data where its header tells of {size}")
        flat = np.frombuffer(data, stored).astype(native)
        return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)

    return Tensor(name, str(stored), ours, shape, read)


def _npy_header(stream: io.BufferedIOBase) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(cast(Any, stream))
    readers: Mapping[int, Callable[..., Any]] = {1: npy.read_array_header_1_0, 2: npy.read_array_header_2_0}
    if version[0] not in readers:
        raise ValueError(f"version {version[0]}.{version[1]} of the format")
    shape, fortran, stored = readers[version[0]](stream, max_header_size=_MAX_NPY_HEADER_BYTES)
    if any(n < 0 for n in shape):
        raise ValueError(f"shape {shape}")
    return tuple(int(n) for n in shape), bool(fortran), stored


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).split("\n")[0]
