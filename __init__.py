"""tdslc: a tensor compiler whose optimiser is text.

    >>> import tdslc
    >>> built = tdslc.build("model.tdsl", target="mxu:v5e")
    >>> built.totals.seconds
    >>> tdslc.run("model.tdsl", target="mxu:v5e", inputs={"x": x}, weights="w.safetensors").outputs["y"]

Mistakes in what is given are raised as `DiagnosticError`, which holds
all of them. Importing tdslc imports nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .compiler.build.api import Build, Totals, build, export, run
    from .compiler.build.exports import Exported
    from .compiler.build.runs import RunResult
    from .compiler.frontend.jax import from_jax
    from .compiler.source import Diagnostic, DiagnosticError

__all__ = [
    "Build", "Diagnostic", "DiagnosticError", "Exported", "RunResult", "Totals", "build", "export", "from_jax", "run",
]  # fmt: skip

_HOMES = {
    "Build": ".compiler.build.api",
    "Diagnostic": ".compiler.source",
    "DiagnosticError": ".compiler.source",
    "Exported": ".compiler.build.exports",
    "RunResult": ".compiler.build.runs",
    "Totals": ".compiler.build.api",
    "build": ".compiler.build.api",
    "export": ".compiler.build.api",
    "from_jax": ".compiler.frontend.jax",
    "run": ".compiler.build.api",
}


def __getattr__(name: str) -> object:
    """The API, imported when it is first used: `tdslc --help` must not wait for NumPy."""
    if name == "__version__":
        from importlib.metadata import version

        return version("tdslc")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
