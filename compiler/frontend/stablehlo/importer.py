"""From a StableHLO text to a Graph, or to everything in it that has no form here, with its place and what to do.

Must not know targets.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ...graph import Builder, Graph, NDArray, live, renumber
from ...source import Diagnostic, DiagnosticError, SourceFile, Span, read_source
from ..names import dotted, identifier
from .handlers import HANDLERS
from .read import read_module
from .scans import as_scans
from .scope import Scope, Session, TooLarge
from .syntax import Function, Module
from .types import NoTensor, tensor_type

# A text with its weights in it may be large; beyond this it would hardly fit in memory with its values.
MAX_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Imported:
    """A model as a Graph, remarks for the reader, and the values of params that were taken out of the text."""

    graph: Graph
    notes: tuple[str, ...]
    params: Mapping[str, NDArray] = field(default_factory=dict[str, NDArray], compare=False, repr=False)


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


def import_file(
    path: str | os.PathLike[str], *, entry: str | None = None, params: Collection[str] = (), precision: str = "highest"
) -> tuple[SourceFile, Imported]:
    """(the text at `path`, what `import_text` makes of it). DiagnosticError also for what cannot be read (E00xx).

    Large float literals become params, whose values are `Imported.params`.
    """
    file = read_source(path, MAX_BYTES)
    made = import_module(read_module(file), entry=entry, params=params, precision=precision, take_weights=True)
    return file, made


def import_module(
    module: Module, *, entry: str | None = None, params: Collection[str] = (), precision: str = "highest",
    names: Sequence[str] | None = None, take_weights: bool = False,
) -> Imported:  # fmt: skip
    """As `import_text`, of a module that is read already.

    `names` are to be the arguments', instead of the text's. `take_weights`: float literals of many elements become
    params, with their values in the result; else they stay in the graph.
    """
    function = _entry(module, entry)
    session = Session(module, HANDLERS, precision, weights={} if take_weights else None)
    b = Builder(identifier(module_name(module, function)))
    scope = Scope(session, b)
    given = [a.name.removeprefix("%") for a in function.arguments]
    if names is not None and len(names) == len(given):
        given = list(names)
    unknown = sorted(set(params) - set(given))
    if unknown:
        said, listed = f"no input is called {', '.join(unknown)}", f"inputs are {', '.join(given)}"
        raise DiagnosticError(Diagnostic("E1115", said, help=listed))
    faults = _declare(module.file, function, given, params, scope)
    outputs: tuple[int, ...] | None = None
    try:
        with session.deeper():
            outputs = scope.run(function.body) if function.body else ()
    except TooLarge as error:
        faults.append(Diagnostic("E1114", str(error), module.file.span(function.start, function.start + 9)))
    faults += session.diagnostics()
    if faults or outputs is None:
        raise DiagnosticError(faults or [Diagnostic("E1106", f"@{function.name} cannot be imported")])
    if not outputs:
        raise DiagnosticError(Diagnostic("E1104", f"@{function.name} returns nothing", _head(module.file, function)))
    graph = b.finish(outputs, _output_names(function, len(outputs)))
    notes = [
        *session.notes,
        *(f"{name} among the functions is passed over" for name in dict.fromkeys(module.passed_over)),
    ]
    made = _without_unread_weights(renumber(as_scans(live(graph))), session.weights or {})
    weights = {n: x for n, x in (session.weights or {}).items() if n in {str(p.attr("name")) for p in made.params}}
    return Imported(made, tuple(notes), weights)


def _without_unread_weights(graph: Graph, weights: Mapping[str, NDArray]) -> Graph:
    """`graph` without params made of literals that nothing reads; its own params are its signature."""
    unread = {n.out for n in graph.params if n.attr("name") in weights and not graph.users[n.out]} - set(graph.outputs)
    nodes = tuple(n for n in graph.nodes if unread.isdisjoint(n.outs))
    return renumber(Graph(graph.name, nodes, graph.outputs, graph.output_names)) if unread else graph


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
    raise DiagnosticError(
        Diagnostic("E1104", said, module.file.span(0, 0), help=f"name one of its functions: {listed}")
    )


def module_name(module: Module, function: Function) -> str:
    """A name for the model: the function's, or for a plain `main` the file's."""
    stem = module.file.path.replace("\\", "/").split("/")[-1].split(".")[0]
    return stem if function.name == "main" and stem and not stem.startswith("<") else function.name


def _declare(
    file: SourceFile, function: Function, names: Sequence[str], params: Collection[str], scope: Scope
) -> list[Diagnostic]:
    """Inputs and params of the graph, called as names of the model language; what is wrong with their types."""
    faults: list[Diagnostic] = []
    used: list[str] = []
    for argument, name in zip(function.arguments, names, strict=True):
        used.append(dotted(name or "x", used) if name in params else identifier(name or "x", used))
        t = tensor_type(argument.type)
        if isinstance(t, NoTensor):
            faults.append(
                Diagnostic(t.code, f"the argument {argument.name}: {t.why}", _head(file, function), help=t.help)
            )
            scope.poisoned.add(argument.name)
        else:
            make = scope.b.param if name in params else scope.b.input
            scope.values[argument.name] = make(used[-1], t)
    return faults


def _output_names(function: Function, count: int) -> list[str]:
    """What JAX calls the results, without the word `result` before it; else y, or y0, y1, …"""
    names: list[str] = []
    for i in range(count):
        stated = function.result_attributes
        given = stated[i].get("jax.result_info") if i < len(stated) else None
        text = given.removeprefix("result").strip("[]'\".") if isinstance(given, str) else ""
        plain = text if text and not text.isdigit() else "y" if count == 1 else f"y{i}"
        names.append(identifier(plain, names))
    return names
