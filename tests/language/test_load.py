"""What a caller of the language gets: models, choices, files; and that no text can hang or crash it."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from language.texts import load_text
from safetensors.numpy import load_file
from tdslc.compiler.graph import evaluate, show
from tdslc.compiler.language import DimSpec, check_file, frame, load_model, stdlib_composites, values
from tdslc.compiler.language.layout import MAX_TOKENS
from tdslc.compiler.language.mistakes import EXAMPLES as MISTAKES
from tdslc.compiler.language.mistakes import Mistake
from tdslc.compiler.language.parse import parse
from tdslc.compiler.source import DiagnosticError, SourceFile, render_all
from tree import ROOT

EXAMPLES = ROOT / "examples"
HEAD = "model m(x: f32[4]) -> f32[4]:\n"


def told(folder: Path, text: str) -> str:
    with pytest.raises(DiagnosticError) as caught:
        load_text(folder, text)
    return render_all(caught.value.diagnostics)


# ---- what a model is -----------------------------------------------------------------------------


def test_a_model_says_what_it_is(tmp_path: Path) -> None:
    text = '"""File."""\nimport nn\ndim B = 2 in 1..8\ndim S = 3\ndtype T = bf16 in {bf16, f32}\n' + (
        'model m(x: T[B, S]) -> (y: T[B, S]):\n    """Doc."""\n    repeat i in range(S) as "l.{i}":\n'
        "        x = nn.rms_norm(x)\n    return x\n"
    )
    model = load_text(tmp_path, text, dims={"B": 5}, dtypes={"T": "f32"})
    assert (model.name, model.doc) == ("m", "Doc.")
    assert model.dims == {"B": DimSpec(5, 1, 8), "S": DimSpec(3, 0, None)}
    assert model.dtypes == {"T": "f32"}
    assert model.param_names == ("l.0.weight", "l.1.weight", "l.2.weight")
    assert [source.path for source in model.sources][1:] == ["<stdlib>/nn.tdsl"]
    assert model.graph.output_names == ("y",)
    assert "rms_normalize" in model.composites
    assert str(model.graph.inputs[0].type) == "f32[B=5, S=3]"


def test_a_models_own_composites_are_in_its_table(tmp_path: Path) -> None:
    text = "op fn twice(x: T[..S], by: float = 2.0) -> T[..S]:\n    '''Doubles.'''\n    return x * by\n".replace(
        "'''", '"""'
    )
    row = load_text(tmp_path, text + HEAD + "    return twice(x)\n").composites.rows["twice"]
    assert (row.operands, row.doc, row.attrs[0].default) == (("x",), "Doubles.", 2.0)
    assert "twice" not in stdlib_composites()


def test_loading_is_a_function_of_the_text(tmp_path: Path) -> None:
    first, second = (load_model(EXAMPLES / "minilm.tdsl").graph for _ in range(2))
    assert show(first) == show(second)
    assert show(pickle.loads(pickle.dumps(first))) == show(first)
    program = (
        "import sys; from tdslc.compiler.language import load_model; from tdslc.compiler.graph import show\n"
        "print(show(load_model(sys.argv[1]).graph), end='')"
    )
    command = [sys.executable, "-c", program, str(EXAMPLES / "minilm.tdsl")]
    environment = {**os.environ, "PYTHONHASHSEED": "123", "HOME": str(tmp_path)}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True, text=True).stdout
    assert shown == show(first)


def test_the_parser_does_without_a_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    program = (
        f"from tdslc.compiler.language import check_file\nassert check_file({str(EXAMPLES / 'digits.tdsl')!r}) == []"
    )
    subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")}, check=True
    )


# ---- the examples --------------------------------------------------------------------------------


def test_the_examples_are_well_formed() -> None:
    for path in sorted(EXAMPLES.glob("*.tdsl")):
        assert check_file(path) == [], path


def test_digits_are_read_as_numpy_reads_them() -> None:
    params, test = load_file(EXAMPLES / "digits.safetensors"), load_file(EXAMPLES / "digits_test.safetensors")
    model = load_model(EXAMPLES / "digits.tdsl")
    assert set(model.param_names) == set(params)
    logits, label = evaluate(model.graph, {"images": test["images"]}, params)
    hidden = np.maximum(test["images"] / np.float32(16) @ params["hidden.weight"].T + params["hidden.bias"], 0)
    want = hidden @ params["out.weight"].T + params["out.bias"]
    np.testing.assert_allclose(logits, want, atol=1e-4)
    np.testing.assert_array_equal(label, want.argmax(-1))
    assert np.mean(label == test["labels"].reshape(-1)) >= 0.96


def test_minilm_makes_the_published_vectors() -> None:
    """Needs the weights that examples/fetch_minilm.py fetches."""
    path = Path(os.environ.get("TDSLC_MINILM", EXAMPLES / "minilm-weights")) / "model.safetensors"
    if not path.exists():
        pytest.skip("the trained weights are not here: python examples/fetch_minilm.py")
    weights, want = load_file(path), load_file(ROOT / "tests" / "fixtures" / "minilm_sentences.safetensors")
    batch, tokens = want["ids"].shape
    model = load_model(EXAMPLES / "minilm.tdsl", dims={"B": batch, "S": tokens}, dtypes={"T": "f32"})
    assert len(model.param_names) == 101
    params = {}
    for param in model.graph.params:
        name, stack = str(param.attr("name")), int(param.attr("stack"))  # type: ignore[arg-type]
        params[name] = (
            np.stack([weights[name.replace("{i}", str(i))] for i in range(stack)]) if stack else weights[name]
        )
    (got,) = evaluate(model.graph, {"ids": want["ids"], "mask": want["mask"]}, params)
    np.testing.assert_allclose(got, want["embeddings"], atol=1e-5)


# ---- files that are none -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "E0105"),
        (b"\x00\x01", "E0003"),
        (b"\xff\xfe\xfa", "E0004"),
        (b"PK\x03\x04\x00", "E0003"),
        (b"# nothing", "E0105"),
    ],
)
def test_files_that_are_no_models(tmp_path: Path, data: bytes, code: str) -> None:
    path = tmp_path / "m.tdsl"
    path.write_bytes(data)
    with pytest.raises(DiagnosticError) as caught:
        load_model(path)
    assert [d.code for d in caught.value.diagnostics] == [code]
    # A file without a model is a library, in which nothing is wrong.
    assert [d.code for d in check_file(path)] == ([] if code == "E0105" else [code])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, code in ((tmp_path / "none.tdsl", "E0001"), (tmp_path, "E0002")):
        assert [d.code for d in check_file(path)] == [code]


def test_imports_do_not_leave_the_folder(tmp_path: Path) -> None:
    (tmp_path / "outside.tdsl").write_text("A = 1\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link.tdsl").symlink_to(tmp_path / "outside.tdsl")
    assert "leads out of the folder" in told(inner, f"import link\n{HEAD}    return x\n")


# ---- texts that try to hang or crash -------------------------------------------------------------


def test_five_thousand_statements(tmp_path: Path) -> None:
    model = load_text(tmp_path, HEAD + "    x = x * 1.5 + 2\n" * 5000 + "    return x\n")
    assert len(model.graph.nodes) == 10_003


@pytest.mark.parametrize(
    "body",
    [
        " + ".join(["x"] * 10_000),
        "exp(" * 10_000 + "x" + ")" * 10_000,
        "-" * 10_000 + "x",
        "**".join(["x"] * 3000),
        "x if true else " * 3000 + "x",
        "x" + "[:]" * 3000,
        "x" + ".T" * 3000,
        "[" * 10_000,
        "not " * 3000 + "x",
    ],
)
def test_deep_expressions_are_refused(tmp_path: Path, body: str) -> None:
    assert "E0010" in told(tmp_path, f"{HEAD}    return {body}\n")


def test_what_is_just_not_too_deep_is_taken(tmp_path: Path) -> None:
    load_text(tmp_path, f"{HEAD}    return {' + '.join(['x'] * 999)}\n")
    load_text(tmp_path, f"{HEAD}    return {'exp(' * 190}x{')' * 190}\n")
    calls = "".join(
        f"fn g_{i}(x: f32[4]) -> f32[4]:\n    return g_{i + 1}({'exp(' * 9}x{')' * 9})\n" for i in range(40)
    )
    load_text(tmp_path, f"{calls}fn g_40(x: f32[4]) -> f32[4]:\n    return x\n{HEAD}    return g_0(x)\n")


def test_growth_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (frame, values):
        monkeypatch.setattr(module, "MAX_NODES", 2000)
    for kind, end in (("fn", "steps"), ("op fn", "operations")):
        fns = "".join(f"{kind} g_{i}(x: f32[4]) -> f32[4]:\n    return g_{i + 1}(g_{i + 1}(x))\n" for i in range(40))
        text = f"{fns}{kind} g_40(x: f32[4]) -> f32[4]:\n    return x + 1\n{HEAD}    return g_0(x)\n"
        started = time.monotonic()
        message = told(tmp_path, text)
        assert "E0115" in message and (end in message or "operations" in message)
        assert time.monotonic() - started < 60
    loops = f"{HEAD}    for i in range(9000):\n        for j in range(9000):\n            x = x + j\n    return x\n"
    assert "the model has more than 2000 operations" in told(tmp_path, loops)


@pytest.mark.parametrize(
    "statements",
    [
        "for i in range(10 ** 9):\n        x = x + 1",
        "repeat i in range(10 ** 9):\n        x = x + 1",
        "y = zeros([2 ** 30, 2 ** 30])",
        "y = [1, 2]\n    for i in range(99):\n        y = y + y",
        "y = 10 ** 10 ** 10",
        "y = 3\n    for i in range(99):\n        y = y * y",
        "for i in range(99):\n        x = x[none]",
        "y = 2.0 ** 10000",
        "y = exp(10000)",
        "y = zeros([2 ** 40])",
        "y = x ** (0 - 1) ** 0.5",
    ],
)
def test_large_values_are_refused(tmp_path: Path, statements: str) -> None:
    assert "error[E01" in told(tmp_path, f"{HEAD}    {statements}\n    return x\n")


def test_long_texts_are_refused(tmp_path: Path) -> None:
    assert "E0115" in told(tmp_path, f"{HEAD}    y = [{'1, ' * MAX_TOKENS}1]\n    return x\n")


# ---- mistakes of syntax --------------------------------------------------------------------------


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.message)
def test_every_example_of_a_mistake_is_told_as_that_mistake(mistake: Mistake) -> None:
    for example in MISTAKES[mistake]:
        module, problems = parse(SourceFile("m.tdsl", example))
        assert module is None
        assert problems[0].message == mistake.message, example


@given(st.data())
def test_no_text_crashes_the_parser(data: st.DataObject) -> None:
    """Pieces of real files, cut, doubled and mixed with noise: a module or diagnostics, never an exception."""
    text = (EXAMPLES / "minilm.tdsl").read_text() + (ROOT / "stdlib" / "nn.tdsl").read_text()[:3000]
    at, size = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 400))
    noise = data.draw(st.text(st.sampled_from("()[]{}\"'#:,=+-*@. \n\tabfx019\\\u00e9\u2028\0"), max_size=20))
    module, problems = parse(SourceFile("m.tdsl", text[at : at + size // 2] + noise + text[at + size // 2 : at + size]))
    assert (module is None) == bool(problems)
    render_all(problems)


_WORKING = """
dim L = 3 in 1..9
dtype T = f32 in {bf16, f32}

op fn f(x: T[..B, 2*H], k: int = 2, g: float = 1.0) -> (T[..B, H], T[..B]):
    y = x[..., :H] ** k * g
    return y, sum(y, axis=-1)

model m(x: T[2, 4], xs: T[L, 4]) -> (y: T[2, 4], all: T[L, 2, 4], last: T[L, 2]):
    shared param bias: T[4]
    all, last = repeat i in range(L) as "layer.{i}":
        param weight: T[4, 4]
        h = x @ weight + bias + xs[i]
        x = h * T(f32(i) + 1)
        yield x, h[:, 0]
    return x, all, last

model n(x: f32[4, 6]) -> (f32[4, 3], f32[4]):
    a, b = f(x, k=3)
    for i in [1, 2] as "s{i}":
        param w: f32[3, 3]
        a = einsum("ij,jk->ik", a, w) if i > 1 else a @ w.T
    assert a.shape[0] == 4, "{i}"
    return where(a > 0, a, -1), b / 2
"""


@given(
    st.integers(0, len(_WORKING)),
    st.integers(0, 30),
    st.sampled_from(["", "x", "(", "0", "T", "none", "[0]", "\n", ", ", "1.5", "i"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_crashes_elaboration(tmp_path: Path, at: int, size: int, put: str) -> None:
    """A working file with a piece taken out and another put in."""
    (tmp_path / "m.tdsl").write_text(_WORKING[:at] + put + _WORKING[at + size :])
    render_all(check_file(tmp_path / "m.tdsl"))
