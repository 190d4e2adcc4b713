"""From a StableHLO text to a Graph, or to everything in it that has no form here, with its place and what to do.

Must not know targets.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...graph import Builder, Graph, live, renumber
from ...source import Diagnostic, DiagnosticError, SourceFile, Span
from ..names import identifier
from .handlers import HANDLERS
from .read import read_module
from .scope import Scope, Session, TooLarge
from .syntax import Function, Module
from .types import NoTensor, tensor_type

@dataclass(frozen=True, slots=True)
class Imported:
    """A model as a Graph, and remarks for the reader."""

    graph: Graph
    notes: tuple[str, ...]


def import_text(
    text: str, path: str = "<stablehlo>", *, entry: str | None = None, params: Collection[str] = (),
    precision: str = "highest",
) -> Imported:  # fmt: skip
    """The function `entry` of a module, by default @main or the only public one, with all it calls inlined.

    Inputs and outputs are named as the text does where it does. `params` are names of inputs that become parameters.
    `precision` is what a product of unstated or DEFAULT precision is taken for: highest, high or default.
    DiagnosticError (E11xx) holds everything that cannot be imported.
    """
    return import_module(read_module(SourceFile(path, text)), entry=entry, params=params, precision=precision)


def import_module(
    module: Module, *, entry: str | None = None, params: Collection[str] = (), precision: str = "highest"
) -> Imported:
    """As `import_text`, of a module that is read already."""
    function = _entry(module, entry)
    session = Session(module, HANDLERS, precision)
    b = Builder(identifier(module_name(module, function)))
    scope = Scope(session, b)
    names = _input_names(function)
    unknown = [p for p in params if p not in names]
    if unknown:
        raise DiagnosticError(Diagnostic("E1112", f"no input is called {', '.join(unknown)}", help=f"inputs are {', '.join(names)}"))
    faults = _declare(module.file, function, names, params, scope)
    outputs: tuple[int, ...] | None = None
    try:
        with session.deeper():
            outputs = scope.run(function.body) if function.body else ()
    except TooLarge as error:
        faults.append(Diagnostic("E1115", str(error), module.file.span(function.start, function.start + 9)))
    faults += session.diagnostics()
    if faults or outputs is None:
        raise DiagnosticError(faults or [Diagnostic("E1106", f"@{function.name} cannot be imported")])
    if not outputs:
        raise DiagnosticError(Diagnostic("E1104", f"@{function.name} returns nothing", _head(module.file, function)))
    graph = b.finish(outputs, _output_names(function, len(outputs)))
    notes = [*session.notes, *(f"{name} among the functions is passed over" for name in dict.fromkeys(module.passed_over))]
    return Imported(renumber(live(graph)), tuple(notes))


def _head(file: SourceFile, function: Function) -> Span:
    return file.span(function.start, min(function.end, function.start + 60))


def _entry(module: Module, entry: str | None) -> Function:
    functions = module.functions
    if entry is not None and entry in functions:
        return functions[entry]
    said = f"{module.file.path}: no function @{entry}" if entry else f"{module.file.path}: no function @main"
    if entry is None and "main" in functions:
        return functions["main"]
    public = [f for f in functions.values() if f.public and f.body]
    if entry is None and len(public) == 1:
        return public[0]
    listed = ", ".join(f"@{name}" for name in list(functions)[:8]) or "none"
    raise DiagnosticError(Diagnostic("E1104", said, module.file.span(0, 0), help=f"name one of its functions: {listed}"))


def module_name(module: Module, function: Function) -> str:
    """A name for the model: the function's, or for a plain `main` the file's."""
    stem = module.file.path.replace("\\", "/").split("/")[-1].split(".")[0]
    return stem if function.name == "main" and stem and not stem.startswith("<") else function.name


def _declare(
    file: SourceFile, function: Function, names: list[str], params: Collection[str], scope: Scope
) -> list[Diagnostic]:
    """Inputs and params of the graph; what is wrong with their types."""
    faults: list[Diagnostic] = []
    for argument, name in zip(function.arguments, names, strict=True):
        t = tensor_type(argument.type)
        if isinstance(t, NoTensor):
            faults.append(Diagnostic(t.code, f"the argument {argument.name}: {t.why}", _head(file, function), help=t.help))
            scope.poisoned.add(argument.name)
        else:
            make = scope.b.param if name in params else scope.b.input
            scope.values[argument.name] = make(name, t)
    return faults


def _input_names(function: Function) -> list[str]:
    names: list[str] = []
    for argument in function.arguments:
        given = argument.attributes.get("jax.arg_info") or argument.attributes.get("tf_saved_model.index_path")
        text = given if isinstance(given, str) else argument.name.removeprefix("%")
        names.append(identifier(text or "x", names))
    return names


def _output_names(function: Function, count: int) -> list[str]:
    """What JAX calls the results, without the word `result` before it; else y, or y0, y1, …"""
    names: list[str] = []
    for i in range(count):
        attributes = function.result_attributes[i] if i < len(function.result_attributes) else {}
        given = attributes.get("jax.result_info")
        text = given.removeprefix("result").strip("[]'\".") if isinstance(given, str) else ""
        plain = text if text and not text.isdigit() else "y" if count == 1 else f"y{i}"
        names.append(identifier(plain, names))
    return names
