"""Models made of texts, for tests of the language."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from command import write_files
from golden import Case
from tdslc.compiler.graph import NDArray, evaluate, verify
from tdslc.compiler.graph.dtypes import from_numpy
from tdslc.compiler.language import Model, load_model


def load_text(folder: Path, text: str, **options: Any) -> Model:
    """The model in `text`, its graph verified."""
    (folder / "model.tdsl").write_text(text, encoding="utf-8")
    model = load_model(folder / "model.tdsl", **options)
    assert verify(model.graph) == []
    return model


def load_case(case: Case, folder: Path) -> Model:
    """The first file of a golden case, loaded from inside `folder` with the case's `# dims:` and `# dtypes:`."""
    path = write_files(case, folder)[0]
    before = os.getcwd()
    os.chdir(folder)
    try:
        dims = {name: int(value) for name, value in _pairs(case.get("dims", ""))}
        return load_model(path, dims, dict(_pairs(case.get("dtypes", ""))), case.get("model", "") or None)
    finally:
        os.chdir(before)


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (word.partition("=") for word in text.split())]


def type_text(array: NDArray) -> str:
    """`array`'s type as the language writes it."""
    dtype = from_numpy(array.dtype)
    return f"{dtype}[{', '.join(map(str, array.shape))}]"


def compute(
    folder: Path,
    body: str,
    like: NDArray,
    /,
    before: str = "",
    params: Mapping[str, NDArray] | None = None,
    **inputs: NDArray,
) -> NDArray:
    """What a model with `body` returns; its header says that it is of the type of `like`."""
    formals = ", ".join(f"{name}: {type_text(value)}" for name, value in inputs.items())
    lines = body if "\n" in body or body.startswith("return") else f"return {body}"
    text = f"{before}\nmodel m({formals}) -> {type_text(np.asarray(like))}:\n" + "".join(
        f"    {line}\n" for line in lines.split("\n")
    )
    (result,) = evaluate(load_text(folder, text).graph, inputs, params)
    return result
