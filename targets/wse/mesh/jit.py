"""Compiling the engines' kernels with numba, once, and keeping the result.

numba is the optional extra `tdslc[wse]`. Its cache of compiled code notices a change of the file of a function, not of
the files of what that function calls, so that the folder carries a hash of all of them. It lies under
NUMBA_CACHE_DIR if the user set that, else in the user's cache folder, else in a temporary one: never beside the
sources, which may be read-only. Must not know what the kernels do.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from ....compiler.source import Diagnostic, DiagnosticError

F = TypeVar("F", bound=Callable[..., Any])


def need_numba() -> Any:
    """The module numba. Raises DiagnosticError where it is not installed."""
    try:
        import numba  # pyright: ignore[reportMissingImports, reportMissingTypeStubs, reportUnknownVariableType]
    except ImportError as error:
        raise DiagnosticError(
            Diagnostic(
                "E1065", "running programs on the mesh needs numba, which is not installed", None,
                help="pip install 'tdslc[wse]'",
            )
        ) from error  # fmt: skip
    return cast(Any, numba)


def kernel(function: F) -> F:
    """`function` compiled on its first call, for whatever process calls it first; IEEE arithmetic."""
    return _compiled(function)


def lean_kernel(function: F) -> F:
    """The same for a function that makes no arrays: those it is given are then passed on without counting references,
    which took half of the reference engine's time (`_nrt` is numba's own name for that)."""
    return _compiled(function, _nrt=False)


def inner_kernel(function: F) -> F:
    """The same for a function that only other kernels call, so that nothing is made for calls from Python."""
    return _compiled(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compiled(function: F, **options: bool) -> F:
    numba = need_numba()
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder(_family(function.__module__)))
    try:
        made = numba.njit(cache=True, error_model="numpy", nogil=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
    _compile_once(numba, made)
    return cast(F, made)


def _compile_once(numba: Any, made: Any) -> None:
    """One version of a kernel for all calls from others: numba would make one for each constant argument."""
    template = made.get_call_template

    def plain(args: Any, keywords: Any) -> Any:
        unliteral = numba.types.unliteral
        return template(tuple(unliteral(a) for a in args), {k: unliteral(v) for k, v in keywords.items()})

    made.get_call_template = plain


def _family(module: str) -> str:
    """Which kernels are cached together: `reference` for those that both engines use."""
    return module.rpartition(".")[2].partition("_")[0]


@lru_cache(maxsize=8)
def cache_folder(family: str) -> Path:
    """Where compiled kernels of a family are kept."""
    name = f"{family}-{_sources(family)}"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for base in (os.environ.get("NUMBA_CACHE_DIR"), os.path.join(home, "tdslc")):
        if not base:
            continue
        folder = Path(base) / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="tdslc-"))


def _sources(family: str) -> str:
    """A hash of what the kernels of a family are made of: its own files, the reference engine's, and the constants."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    names = {"fields.py", "ir.py", "jit.py"}
    names |= {path.name for part in (family, "reference") for path in folder.glob(f"{part}_*.py")}
    for name in sorted(names):
        digest.update(name.encode() + b"\0" + (folder / name).read_bytes())
    return digest.hexdigest()[:16]
