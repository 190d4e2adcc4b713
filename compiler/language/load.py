"""From a path to a model: files, imports, top level names, and what the rest of the compiler is handed.

A name is imported from the file beside the importing one, else from the standard library; nothing outside the folder
of the model's file is read. Must not know how bodies are executed.
"""

# ruff: noqa: RET503 - Site.fail never returns, which ruff cannot see in another file
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

from ..graph import DTYPES, Attr, Composite, Composites, Dim, DType, Graph
from ..graph.ops import AttrSpec, Types
from ..graph.ops.row import AttrKind
from ..source import Diagnostic, DiagnosticError, Note, SourceFile, Span, did_you_mean, read_source
from . import syntax as s
from .elaborate import build_model, check_declaration, check_names, composite_graph, module_activation, new_session
from .expr import evaluate, lookup
from .parameters import expanded
from .parse import parse
from .signature import STATIC_KINDS, is_static, static_value
from .values import POISON, STDLIB, Fail, Function, Module, Poisoned, Session, TooMany, Value, describe

SUFFIX = ".tdsl"
_MAX_IMPORTS = 50
_MAX_DIM = 2**31 - 1
# Python frames that elaboration may need: MAX_DEPTH levels of expressions and calls, some ten frames each.
_FRAMES = 10_000


@dataclass(frozen=True, slots=True)
class DimSpec:
    """A `dim`: its value in this build and its bounds, both included; `high` None when there is none."""

    value: int
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Model:
    """A model, elaborated: its graph as written, and what can be chosen at build.

    `param_names` are the tensors of a weights file, stacked parameters one by one, in order of declaration.
    `composites` holds those of the standard library and of the model's files. `dtypes` maps each `dtype` to the one
    chosen; `sources` are the files read, the model's first.
    """

    name: str
    graph: Graph
    composites: Composites
    doc: str
    dims: Mapping[str, DimSpec]
    dtypes: Mapping[str, str]
    param_names: tuple[str, ...]
    sources: tuple[SourceFile, ...]


def load_model(
    path: str | os.PathLike[str],
    dims: Mapping[str, int] | None = None,
    dtypes: Mapping[str, str] | None = None,
    model: str | None = None,
) -> Model:
    """The model in the file at `path`, with `dims` and `dtypes` in the place of defaults.

    `model` picks one of several. Raises DiagnosticError with everything found wrong.
    """
    load = _Load(os.fspath(path), dict(dims or {}), dict(dtypes or {}))
    with load.gathering():
        module = load.main()
        decl = _chosen(module, load.session, model)
        if any(map(is_static, decl.formals)):
            raise TooMany  # its header has been told to be wrong
        graph = build_model(load.session, module, decl)
        load.check_names()
    load.raise_errors()
    assert graph is not None, "a model without mistakes has a graph"
    return Model(
        decl.name,
        graph,
        stdlib_composites().extended(load.composites()),
        decl.doc or module.doc,
        load.dims,
        load.dtypes,
        _param_names(graph),
        tuple(m.file for m in load.modules),
    )


def check_file(path: str | os.PathLike[str]) -> list[Diagnostic]:
    """Everything wrong with the file at `path`: its declarations, and each of its models at default dims."""
    found: dict[tuple[str, str, Span | None], Diagnostic] = {}
    load = _Load(os.fspath(path), {}, {})
    names: list[str] = []

    def checked(check: Callable[[], object]) -> None:
        try:
            check()
        except DiagnosticError as error:
            found.update({(d.code, d.message, d.span): d for d in error.diagnostics})

    def declarations() -> None:
        with load.gathering():
            names.extend(m.name for m in load.main().models)
            load.check_names()
        load.raise_errors()

    checked(declarations)
    for name in names:
        checked(partial(load_model, path, model=name))
    return _in_order(list(found.values()))


@cache
def stdlib_composites() -> Composites:
    """A row for each `op fn` of the standard library. Read once in a process."""
    rows: list[Composite] = []
    for name in _stdlib_names():
        module = _stdlib_module(name)
        rows += [_row(module, decl) for decl in module.ops]
    return Composites().extended(rows)


def _param_names(graph: Graph) -> tuple[str, ...]:
    stacks = ((str(p.attr("name")), p.attr("stack")) for p in graph.params)
    return tuple(n for name, stack in stacks for n in expanded(name, stack if isinstance(stack, int) else 0))


def _chosen(module: Module, session: Session, name: str | None) -> s.FnDecl:
    """The model called `name`, or the only one."""
    names = [m.name for m in module.models]
    if name is not None and name not in names:
        help = did_you_mean(name, names) or (f"the models are {', '.join(names)}" if names else None)
        _stop(session, Diagnostic("E0105", f"{module.file.path}: there is no model `{name}`", help=help))
    if not names:
        _stop(
            session,
            Diagnostic(
                "E0105",
                f"{module.file.path}: there is no model in this file",
                help="write `model name(x: f32[B]) -> f32[B]:`",
            ),
        )
    if name is None and len(names) > 1:
        _stop(
            session,
            Diagnostic("E0105", f"{module.file.path}: there are several models: {', '.join(names)}", help="name one"),
        )
    return next(m for m in module.models if name in (None, m.name))


def _stop(session: Session, diagnostic: Diagnostic) -> None:
    session.tell(diagnostic)
    raise TooMany


# ---- composites ----------------------------------------------------------------------------------


def _row(module: Module, decl: s.FnDecl) -> Composite:
    function = Function(module, decl)

    def defined(types: Types, attrs: Mapping[str, Attr]) -> Graph | str:
        session = new_session()
        with _deep_stack():
            try:
                return composite_graph(session, function, types, attrs)
            except Fail as fail:
                return fail.diagnostic.message
            except (Poisoned, TooMany):
                return session.diagnostics[0].message

    operands = tuple(f.name for f in decl.formals if not is_static(f))
    attrs = tuple(_attr(module, f) for f in decl.formals if is_static(f))
    return Composite(decl.name, operands, attrs, decl.doc.split("\n")[0], defined)


_ATTR_KINDS: dict[str, AttrKind] = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "dims": "ints",
    "dtype": "dtype",
}


def _attr(module: Module, formal: s.Formal) -> AttrSpec:
    kind = _ATTR_KINDS[formal.type.name]
    if formal.default is None:
        return AttrSpec(formal.name, kind)
    act = module_activation(new_session(), module)
    value = static_value(act.site(formal.at), formal.type.name, formal.name, evaluate(act, formal.default))
    return AttrSpec(formal.name, kind, value)  # pyright: ignore[reportArgumentType]


# ---- the standard library ------------------------------------------------------------------------


def _stdlib_folder() -> Path:
    package = ".".join((*__name__.split(".")[:-3], "stdlib"))
    return Path(str(files(package)))


def _stdlib_names() -> tuple[str, ...]:
    return tuple(sorted(p.stem for p in _stdlib_folder().glob(f"*{SUFFIX}")))


@cache
def _stdlib_module(name: str) -> Module:
    """A module of the standard library. Mistakes in it are ours."""
    path = _stdlib_folder() / f"{name}{SUFFIX}"
    load = _Load(str(path), {}, {})
    file = SourceFile(f"{STDLIB}{path.name}", read_source(path).text)
    with load.gathering():
        return load.module(file, name, file.path, path.parent)
    raise AssertionError(f"the standard library does not load: {load.session.diagnostics}")


@cache
def _stdlib_op_names() -> frozenset[str]:
    return frozenset(decl.name for name in _stdlib_names() for decl in _stdlib_module(name).ops)


# ---- loading -------------------------------------------------------------------------------------


@contextmanager
def _deep_stack() -> Generator[None]:
    """Lets Python nest as deep as a model may; depth is bounded by `MAX_DEPTH`, never by the stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class _Load:
    """One load: the files it has read, and the choices for the main file's dims and dtypes."""

    def __init__(self, path: str, dims: dict[str, int], dtypes: dict[str, str]) -> None:
        self.path = path
        self.root = Path(path).parent
        self.chosen_dims, self.chosen_dtypes = dims, dtypes
        self.dims: dict[str, DimSpec] = {}
        self.dtypes: dict[str, str] = {}
        self.modules: list[Module] = []
        self.by_file: dict[Path, Module] = {}
        self.loading: list[Path] = []
        self.session = new_session()

    @contextmanager
    def gathering(self) -> Generator[None]:
        """Within it mistakes are gathered; leaving it early is not an error of its own."""
        try:
            with _deep_stack():
                yield
        except TooMany:
            pass
        except DiagnosticError as error:
            self.session.diagnostics += error.diagnostics
        except Fail as fail:
            self.session.diagnostics.append(fail.diagnostic)
        self.raise_errors()

    def raise_errors(self) -> None:
        if self.session.diagnostics:
            raise DiagnosticError(_in_order(self.session.diagnostics))

    def main(self) -> Module:
        """The file itself. Its dims and dtypes take the values chosen."""
        file = read_source(self.path)
        self.session.stdlib_ops = _stdlib_op_names()
        module = self.module(file, Path(self.path).stem, Path(self.path).name, self.root, main=True)
        self._check_choices(module)
        return module

    def check_names(self) -> None:
        """Looks for undefined names where elaboration did not come."""
        for module in self.modules:
            if not module.is_stdlib:
                functions = [f for f in module.names.values() if isinstance(f, Function) and f.module is module]
                for decl in (*module.models, *(f.decl for f in functions)):
                    check_names(self.session, module, decl)

    def composites(self) -> list[Composite]:
        return [_row(module, decl) for module in self.modules for decl in module.ops]

    def module(self, file: SourceFile, name: str, shown: str, folder: Path, main: bool = False) -> Module:
        """Loads `file`, and first what it imports."""
        module = Module(name, file, shown)
        if main or module.is_stdlib:
            self.by_file[(folder / Path(shown).name).resolve()] = module
            self.loading.append((folder / Path(shown).name).resolve())
        self.modules.append(module)
        text, problems = parse(file)
        for problem in problems:
            self.session.tell(problem)
        if text is None:
            raise TooMany
        module.doc = text.doc
        for top in text.tops:
            if isinstance(top, s.FnDecl):
                self._register(module, top)
        for top in text.tops:
            if not isinstance(top, s.FnDecl):
                self._declare(module, top, folder, main)
        for decl in (t for t in text.tops if isinstance(t, s.FnDecl)):
            check_declaration(self.session, module, decl)
            self._unique_op(module, decl)
        self.loading = self.loading[:-1]
        return module

    def _register(self, module: Module, decl: s.FnDecl) -> None:
        if decl.kind == "model":
            self._bind(module, decl.name, POISON, decl.name_at)
            module.models.append(decl)
            module.names.pop(decl.name, None)
            return
        self._bind(module, decl.name, Function(module, decl), decl.name_at)
        if decl.kind == "op":
            module.ops.append(decl)

    def _bind(self, module: Module, name: str, value: Value, at: s.At) -> None:
        if name in module.places:
            span = module.file.span(*module.places[name])
            self.session.tell(_twice(module, name, at, span))
            return
        if name in DTYPES or name in STATIC_KINDS:
            message = f"`{name}` is {'a dtype' if name in DTYPES else 'a word for types'} and cannot be a name here"
            self.session.tell(Diagnostic("E0102", message, module.file.span(*at)))
            return
        module.places[name] = at
        module.names[name] = value

    def _unique_op(self, module: Module, decl: s.FnDecl) -> None:
        for other in self.modules if decl.kind == "op" else ():
            for op in other.ops if other is not module else ():
                if op.name == decl.name:
                    message = f"two files have an `op fn` `{decl.name}`: {other.shown} and {module.shown}"
                    self.session.tell(Diagnostic("E0102", message, module.file.span(*decl.name_at)))

    # -- declarations --

    def _declare(
        self, module: Module, top: s.Import | s.DimDecl | s.DtypeDecl | s.Const, folder: Path, main: bool
    ) -> None:
        try:
            match top:
                case s.Import():
                    self._import(module, top, folder)
                case s.DimDecl() | s.DtypeDecl() if not main:
                    self._misplaced(module, top)
                case s.DimDecl():
                    self._bind(module, top.name, self._dim(module, top), top.at)
                case s.DtypeDecl():
                    self._bind(module, top.name, self._dtype(module, top), top.at)
                case s.Const():
                    value = evaluate(module_activation(self.session, module), top.value)
                    self._bind(module, top.name, value, (top.at[0], top.at[0] + len(top.name)))
        except Fail as fail:
            self.session.tell(fail.diagnostic)
            self._poison(module, top)
        except Poisoned:
            self._poison(module, top)

    def _poison(self, module: Module, top: s.Import | s.DimDecl | s.DtypeDecl | s.Const) -> None:
        for name in [n.id for n in top.names] or [top.name] if isinstance(top, s.Import) else [top.name]:
            module.names.setdefault(name, POISON)

    def _misplaced(self, module: Module, top: s.DimDecl | s.DtypeDecl) -> None:
        help = "a fn's dims are bound by its arguments; pass other values in as `n: int`"
        message = f"`{top.name}` is declared in an imported file; dims and dtypes belong to the model's own"
        module_activation(self.session, module).site(top.at).fail("E0102", message, help=help)

    def _dim(self, module: Module, top: s.DimDecl) -> Dim:
        act = module_activation(self.session, module)

        def bound(expr: s.Expr | None) -> int | None:
            if expr is None:
                return None
            value = static_value(act.site(expr.at), "int", top.name, evaluate(act, expr))
            assert isinstance(value, int)
            return int(value)

        low, high = bound(top.low), bound(top.high)
        default = bound(top.value)
        assert default is not None
        value = self.chosen_dims.get(top.name, default)
        spec = DimSpec(value, 0 if low is None else low, high)
        if not spec.low <= value <= min(_MAX_DIM if high is None else high, _MAX_DIM):
            bounds = f"{spec.low}..{_MAX_DIM if high is None else high}"
            act.site(top.at).fail("E0116", f"dim {top.name} = {value} is out of its bounds {bounds}")
        self.dims[top.name] = spec
        return Dim(value, top.name)

    def _dtype(self, module: Module, top: s.DtypeDecl) -> DType:
        act = module_activation(self.session, module)
        choices = [self._dtype_named(module, c) for c in top.choices]
        default = self._dtype_named(module, top.value)
        name = self.chosen_dtypes.get(top.name, default.name)
        allowed = [d.name for d in choices] or list(DTYPES)
        if name not in allowed:
            help = did_you_mean(name, allowed)
            act.site(top.at).fail("E0117", f"dtype {top.name} = {name} is none of {', '.join(allowed)}", help=help)
        self.dtypes[top.name] = name
        self.session.default_dtype = self.session.default_dtype or DTYPES[name]
        return DTYPES[name]

    def _dtype_named(self, module: Module, name: s.Name) -> DType:
        act = module_activation(self.session, module)
        value = lookup(act, name.id, name.at)
        return (
            value if isinstance(value, DType) else act.site(name.at).fail("E0117", f"{describe(value)} is not a dtype")
        )

    def _check_choices(self, module: Module) -> None:
        """Tells of dims and dtypes chosen that the model does not declare."""
        for kind, chosen, known in (("dim", self.chosen_dims, self.dims), ("dtype", self.chosen_dtypes, self.dtypes)):
            for name in chosen:
                if name not in known and name not in module.names:
                    listed = f"its {kind}s are {', '.join(known)}" if known else f"it declares no {kind}"
                    message = f"{module.file.path}: there is no {kind} `{name}`"
                    help = did_you_mean(name, known) or listed
                    self.session.tell(Diagnostic("E0116" if kind == "dim" else "E0117", message, help=help))
                elif name not in known and module.names[name] is not POISON:
                    message = f"{module.file.path}: `{name}` is not a {kind}"
                    self.session.tell(Diagnostic("E0116" if kind == "dim" else "E0117", message))

    # -- imports --

    def _import(self, module: Module, top: s.Import, folder: Path) -> None:
        found = self._find(module, top, folder)
        if not top.names:
            self._bind(module, top.name, found, top.at)
            return
        act = module_activation(self.session, module)
        for name in top.names:
            if name.id not in found.names:
                help = did_you_mean(name.id, found.names)
                act.site(name.at).fail("E0101", f"`{found.name}` has no `{name.id}`", help=help)
            self._bind(module, name.id, found.names[name.id], name.at)

    def _find(self, module: Module, top: s.Import, folder: Path) -> Module:
        site = module_activation(self.session, module).site(top.at)
        beside = folder.joinpath(*top.path).with_suffix(SUFFIX)
        if not module.is_stdlib and beside.is_file():
            if not beside.resolve().is_relative_to(self.root.resolve()):
                site.fail("E0103", f"`{'.'.join(top.path)}` leads out of the folder of the model's file")
            return self._user_module(module, top, beside)
        if len(top.path) == 1 and top.path[0] in _stdlib_names():
            found = _stdlib_module(top.path[0])
            if found not in self.modules:
                self.modules.append(found)
            return found
        known = [*_stdlib_names(), *(p.stem for p in sorted(folder.glob(f"*{SUFFIX}")))]
        name = ".".join(top.path)
        where = f"neither {beside.name} beside this file nor in the standard library"
        site.fail("E0103", f"there is no module `{name}`: {where}", help=did_you_mean(name, known))

    def _user_module(self, module: Module, top: s.Import, path: Path) -> Module:
        real = path.resolve()
        site = module_activation(self.session, module).site(top.at)
        if real in self.loading:
            cycle = " -> ".join(p.name for p in (*self.loading[self.loading.index(real) :], real))
            site.fail("E0104", f"the imports go round: {cycle}")
        if real in self.by_file:
            return self.by_file[real]
        if len(self.loading) >= _MAX_IMPORTS:
            site.fail("E0115", f"imports are nested more than {_MAX_IMPORTS} deep")
        self.loading.append(real)
        shown = real.relative_to(self.root.resolve()).as_posix()
        made = self.module(read_source(path), top.path[-1], shown, path.parent)
        self.by_file[real] = made
        return made


def _twice(module: Module, name: str, at: s.At, before: Span) -> Diagnostic:
    return Diagnostic(
        "E0102", f"`{name}` is defined twice", module.file.span(*at), (Note("it is defined here first", before),)
    )


def _in_order(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """As they stand in the text; those of one place as they were found."""
    return sorted(
        diagnostics, key=lambda d: (d.span is None, d.span.file.path if d.span else "", d.span.start if d.span else 0)
    )
