"""JAX functions to Graphs, by way of the StableHLO text that JAX lowers them to. JAX is an optional dependency.

Must not know targets.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection
from typing import Any

from ..graph import Graph
from ..source import Diagnostic, DiagnosticError, SourceFile
from .stablehlo import import_module, read_module

_STRANGE = re.compile(r"[^\w.]+")


def from_jax(
    fn: Callable[..., Any], *specs: Any, param_argnums: Collection[int] = (), precision: str = "highest",
    static_argnums: Collection[int] = (),
) -> Graph:  # fmt: skip
    """The Graph of `fn(*specs)`, where each spec is an array, a `jax.ShapeDtypeStruct` or a tree of them.

    Inputs are called as the function's parameters, with the path in a tree after it (`params.w1`), dots being `_` for
    inputs. The leaves of `param_argnums` become parameters, which weights are bound to by name. `precision` is what a
    product is taken for to which the function gives none: highest, high or default. Nothing is run but the tracing.
    DiagnosticError (E1101 without JAX, else E11xx) holds everything that cannot be imported.
    """
    jax = _jax()
    lowered = jax.jit(fn, keep_unused=True, static_argnums=tuple(static_argnums)).lower(*specs)
    dynamic = [(i, spec) for i, spec in enumerate(specs) if i not in static_argnums]
    names = _names(jax, fn, dynamic)
    params = [name for name, i in names if i in param_argnums]
    called = _STRANGE.sub("_", getattr(fn, "__name__", "jax")).strip("_")
    module = read_module(SourceFile(f"{called}.mlir", lowered.as_text()))
    return import_module(module, params=params, precision=precision, names=[name for name, _ in names]).graph


def _jax() -> Any:
    try:
        return importlib.import_module("jax")
    except ImportError:
        said = "importing from JAX needs the package `jax`, which is not installed"
        raise DiagnosticError(Diagnostic("E1101", said, help="pip install 'tdslc[jax]'")) from None


def _names(jax: Any, fn: Callable[..., Any], specs: list[tuple[int, Any]]) -> list[tuple[str, int]]:
    """(name, number of the argument) of each leaf, in the order in which JAX passes them."""
    from inspect import signature

    try:
        formal = list(signature(fn).parameters.values())
    except (TypeError, ValueError):
        formal = []
    found: list[tuple[str, int]] = []
    for i, spec in specs:
        plain = i < len(formal) and formal[i].kind in (formal[i].POSITIONAL_ONLY, formal[i].POSITIONAL_OR_KEYWORD)
        root = formal[i].name if plain else f"arg{i}"
        for path, _ in jax.tree_util.tree_flatten_with_path(spec)[0]:
            tail = _STRANGE.sub(".", jax.tree_util.keystr(path)).strip(".")
            found.append((f"{root}.{tail}" if tail else root, i))
    return found
