"""Files of tensors: what is read, and everything that is refused."""

import json
import pickle
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file
from tdslc.compiler.build.tensors import read_safetensors, read_tensor
from tdslc.compiler.source import DiagnosticError


def header(entries: object, data: bytes = b"", size: int | None = None) -> bytes:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


def entry(begin: int, end: int, dtype: str = "F32", shape: tuple[int, ...] = (2,)) -> dict[str, object]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def test_reads_what_the_reference_writer_writes(tmp_path: Path) -> None:
    path = str(tmp_path / "w.safetensors")
    tensors = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "odd": np.array([1, 2, 3], np.int8),
        "h": np.array([1.5, -2], np.float16),
        "n": np.array(7, np.int64),
        "e": np.zeros((0, 4), np.float32),
        "b": np.array([True, False]),
    }
    save_file(tensors, path)
    got = read_safetensors(path)
    assert sorted(got) == sorted(tensors)
    for name, want in tensors.items():
        assert got[name].shape == want.shape
        np.testing.assert_array_equal(got[name].read(), want)
        assert got[name].read().dtype == want.dtype


def test_reads_bf16(tmp_path: Path) -> None:
    want = np.array([1, -0.5, 3e38], ml_dtypes.bfloat16)
    path = tmp_path / "w.safetensors"
    path.write_bytes(header({"x": entry(0, 6, "BF16", (3,))}, want.tobytes()))
    got = read_safetensors(str(path))["x"]
    assert str(got) == "bf16[3]"
    np.testing.assert_array_equal(got.read(), want)


def test_a_bool_is_zero_or_one_whatever_the_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(header({"x": entry(0, 2, "BOOL")}, b"\x02\x00"))
    assert read_safetensors(str(path))["x"].read().view(np.uint8).tolist() == [1, 0]


BROKEN = {
    "empty": b"",
    "short": b"\x01\x02",
    "huge header": header(b"{}", size=2**62),
    "header beyond the file": header(b"{}", size=900),
    "not json": header(b"\xff\xfe{"),
    "deep json": header(b"[" * 100_000),
    "a list": header([]),
    "twin names": header(b'{"x": 1, "x": 2}'),
    "no offsets": header({"x": {"dtype": "F32", "shape": [2]}}),
    "negative dim": header({"x": entry(0, 8, shape=(-2,))}, bytes(8)),
    "bool as dim": header(b'{"x": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}', bytes(4)),
    "truncated": header({"x": entry(0, 8)}, bytes(7)),
    "wrong size": header({"x": entry(0, 4)}, bytes(4)),
    "huge shape": header({"x": entry(0, 4, shape=(2**40, 2**40))}, bytes(4)),
    "overlap": header({"x": entry(0, 8), "y": entry(4, 12)}, bytes(12)),
    "backwards": header({"x": entry(8, 0)}, bytes(8)),
    "hole": header({"x": entry(4, 12)}, bytes(12)),
    "trailing": header({"x": entry(0, 8)}, bytes(12)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(BROKEN[name])
    with pytest.raises(DiagnosticError) as caught:
        read_safetensors(str(path))
    assert [d.code for d in caught.value.diagnostics] == ["E0601"]


@pytest.mark.parametrize("protocol", range(2, 6))
def test_pickles_are_refused(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(pickle.dumps({"a": 1}, protocol))
    with pytest.raises(DiagnosticError, match=r"E0602.*pickle"):
        read_safetensors(str(path))


def test_a_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", b"")
    with pytest.raises(DiagnosticError, match=r"E0602.*pickle"):
        read_safetensors(str(path))


@pytest.mark.parametrize("suffix", ["a.npy", "a.npz:x"])
def test_reads_numpy_files(tmp_path: Path, suffix: str) -> None:
    want = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    np.save(tmp_path / "a.npy", want)
    np.savez_compressed(tmp_path / "a.npz", x=want, y=want)
    got = read_tensor(str(tmp_path / suffix))
    assert str(got) == "f32[2, 3]"
    np.testing.assert_array_equal(got.read(), want)


def test_numpy_s_bf16_is_known(tmp_path: Path) -> None:
    want = np.array([1.5, 2], ml_dtypes.bfloat16)
    np.save(tmp_path / "a.npy", want)
    np.testing.assert_array_equal(read_tensor(str(tmp_path / "a.npy")).read(), want)


def test_numpy_objects_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(DiagnosticError, match="E0602"):
        read_tensor(str(tmp_path / "a.npy"))


def test_broken_numpy_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(4))
    whole = path.read_bytes()
    for data in (b"", b"\x93NUMPY", whole[:40], b"PK\x03\x04", b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535):
        path.write_bytes(data)
        with pytest.raises(DiagnosticError, match="E0610"):
            read_tensor(str(path))
    path.write_bytes(whole[:-1])
    with pytest.raises(DiagnosticError, match=r"E0610.*truncated"):
        read_tensor(str(path)).read()


def test_a_missing_tensor_is_named_with_the_nearest(tmp_path: Path) -> None:
    path = str(tmp_path / "w.safetensors")
    save_file({"labels": np.zeros(1), "images": np.zeros(1)}, path)
    with pytest.raises(DiagnosticError) as caught:
        read_tensor(f"{path}:lables")
    assert caught.value.diagnostics[0].help == f"did you mean `{path}:labels`?"
    with pytest.raises(DiagnosticError, match=r"E0612.*say which"):
        read_tensor(path)
    with pytest.raises(DiagnosticError, match="E0001"):
        read_tensor(str(tmp_path / "no.npz:x"))
    with pytest.raises(DiagnosticError, match="E0002"):
        read_safetensors(str(tmp_path))
