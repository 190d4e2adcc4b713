"""Executing bodies: statements, calls of fns, composites.

Elaboration is interpretation of what is static; what is not becomes nodes. A statement that fails binds its names to
poison and the next one is tried, so that several mistakes are told at once. Must not know files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..graph import OPS, Attr, Builder, Graph, TensorType
from ..source import Diagnostic, Note
from . import syntax as s
from .expr import BUILTINS, condition, evaluate, interpolate, lookup, undefined
from .frame import Frame, LimitError, Tensor
from .loops import run_repeat
from .parameters import declare
from .signature import (
    STATIC_KINDS,
    Matcher,
    assign_arguments,
    is_static,
    scalar_argument,
    signature_text,
    static_value,
    type_of,
)
from .unused import names_read
from .values import (
    POISON,
    Activation,
    Fail,
    Function,
    Module,
    Poisoned,
    Session,
    Site,
    Value,
    describe,
    is_static_number,
)

# Copies a `for` may make of its body.
MAX_UNROLL = 10_000
_MAX_CALLS = 50
# What a call costs of the steps that one load may take.
_CALL_STEPS = 20


@dataclass(frozen=True, slots=True)
class Left:
    """A body was left by `return` with this value."""

    value: Value


# ---- statements ----------------------------------------------------------------------------------


def run_block(act: Activation, body: s.Body) -> Left | None:
    """Executes `body`; Left when it came to a `return`."""
    for stmt in body:
        try:
            left = _run(act, stmt)
        except Fail as fail:
            act.session.tell(fail.diagnostic)
            left = _poison(act, stmt)
        except Poisoned:
            left = _poison(act, stmt)
        if left is not None:
            return left
    return None


def _poison(act: Activation, stmt: s.Stmt) -> Left | None:
    """Leaves what a failed statement was to make as poison."""
    if isinstance(stmt, s.Return | s.Assert):
        return Left(POISON)  # what follows an assertion counts on it
    act.names.update(dict.fromkeys(s.assigned((stmt,)), POISON))
    # A branch that could not be chosen may have been meant to return.
    return Left(POISON) if isinstance(stmt, s.If | s.For) and _returns(stmt) else None


def _returns(stmt: s.Stmt) -> bool:
    match stmt:
        case s.Return():
            return True
        case s.If():
            return any(_returns(inner) for _, body in stmt.arms for inner in body)
        case s.For():
            return any(map(_returns, stmt.body))
        case _:
            return False


def _run(act: Activation, stmt: s.Stmt) -> Left | None:
    match stmt:
        case s.Assign():
            _assign(act, stmt.names, evaluate(act, stmt.value), stmt.value.at)
        case s.Return():
            if act.loops:
                act.site(stmt.at).fail(
                    "E0114",
                    "a `repeat` cannot be left by `return`",
                    help="carry the value and return it after the loop",
                )
            return Left(None if stmt.value is None else evaluate(act, stmt.value))
        case s.ParamDecl():
            act.names[stmt.name] = declare(act, stmt)
        case s.Assert():
            _assert(act, stmt)
        case s.If():
            return _if(act, stmt)
        case s.For():
            return _for(act, stmt)
        case s.Repeat():
            run_repeat(act, stmt, run_block, _assign)
        case s.Yield():
            act.site(stmt.at).fail("E0114", "`yield` stands only as the last statement of a `repeat`")
        case s.Bare():
            _bare(act, stmt)
        case s.Pass():
            pass
    return None


def _assign(act: Activation, names: Sequence[s.Name], value: Value, at: s.At) -> None:
    if len(names) == 1:
        act.names[names[0].id] = value
        return
    if not isinstance(value, tuple) or len(value) != len(names):
        got = f"{len(value)} values" if isinstance(value, tuple) else describe(value)
        act.site(at).fail("E0106", f"{len(names)} names are given {got}")
    act.names.update({name.id: v for name, v in zip(names, value, strict=True)})


def _assert(act: Activation, stmt: s.Assert) -> None:
    if condition(act, stmt.test, "an assertion"):
        return
    site = act.site(stmt.at)
    message = interpolate(act, stmt.message, stmt.at, markers=False)
    # What is asserted of a fn's arguments is the mistake of its caller.
    where = act.caller or site
    notes = (Note(f"`{act.decl.name}` asserts it here", site.span),) if act.caller and act.decl else ()
    where.fail("E0119", message, notes=notes)


def _bare(act: Activation, stmt: s.Bare) -> None:
    if isinstance(stmt.value, s.Literal) and isinstance(stmt.value.value, str):
        return
    value = evaluate(act, stmt.value)
    if value is not None:
        act.site(stmt.at).fail("E0009", "this value is made and not used", help="give it a name, or return it")


def _if(act: Activation, stmt: s.If) -> Left | None:
    for test, body in stmt.arms:
        if test is None or condition(act, test, "`if`"):
            return run_block(act, body)
    return None


def _for(act: Activation, stmt: s.For) -> Left | None:
    over = evaluate(act, stmt.over)
    site = act.site(stmt.over.at)
    if not isinstance(over, tuple | range):
        help = "write `for i in range(x.shape[0])` and read `x[i]`" if isinstance(over, Tensor) else "write `range(n)`"
        site.fail("E0107", f"`for` runs over a range or a list, not {describe(over)}", help=help)
    trips = max(0, -(-(over.stop - over.start) // over.step)) if isinstance(over, range) else len(over)
    if trips > MAX_UNROLL:
        site.fail("E0115", f"`for` makes a copy of its body for each of {trips} trips, more than {MAX_UNROLL}",
                  help="`repeat i in range(n):` keeps one copy")  # fmt: skip
    prefix, shared = act.prefix, act.shared
    for value in over:
        _assign(act, [s.Name(stmt.at, n) for n in stmt.names], value, stmt.over.at)
        act.prefix, act.shared = _scoped(act, stmt.scope, prefix, shared)
        left = run_block(act, stmt.body)
        act.prefix, act.shared = prefix, shared
        if left is not None:
            return left
    return None


def _scoped(act: Activation, scope: s.Scope | None, prefix: str, shared: bool) -> tuple[str, bool]:
    """Prefix and sharing of parameters inside `scope`."""
    if scope is None:
        return prefix, shared
    text = interpolate(act, scope.text, scope.at, markers=True)
    if not text or any(c.isspace() for c in text):
        act.site(scope.at).fail("E0123", f'"{text}" cannot start the name of a parameter: it is empty or holds blanks')
    return f"{prefix}.{text}" if prefix else text, shared or scope.shared


# ---- calls ---------------------------------------------------------------------------------------


def call_function(site: Site, function: Function, args: Sequence[tuple[s.Arg, Value]], scope: s.Scope | None) -> Value:
    """What `function` returns for `args`: a fn is inlined, an `op fn` becomes one composite node."""
    decl = function.decl
    site.act.session.steps += _CALL_STEPS
    _check_nesting(site, decl)
    prefix, shared = _scoped(site.act, scope, site.act.prefix, site.act.shared)
    act = Activation(site.act.session, function.module, site.act.frame, {}, decl, prefix, shared, site)
    tensors = _bind(site, act, args)
    if decl.kind == "op":
        return _call_op(site, act, tensors, scope)
    act.names.update({name: t for name, t in tensors.items() if t is not None})
    return _finish(act, site)


def _check_nesting(site: Site, decl: s.FnDecl) -> None:
    chain: list[s.FnDecl] = []
    caller: Site | None = site
    while caller is not None:
        if caller.act.decl is not None:
            chain.append(caller.act.decl)
        caller = caller.act.caller
    if any(d is decl for d in chain):
        names = [decl.name]
        for d in chain:
            names.append(d.name)
            if d is decl:
                break
        cycle = " -> ".join(reversed(names))
        site.fail("E0112", f"`{decl.name}` calls itself: {cycle}", help="a loop known at build is `for` or `repeat`")
    if len(chain) >= _MAX_CALLS:
        site.fail("E0112", f"calls are nested more than {_MAX_CALLS} deep")


def _bind(site: Site, act: Activation, args: Sequence[tuple[s.Arg, Value]]) -> dict[str, Tensor | None]:
    """Binds the arguments of `act.decl` in `act.names`, but for the tensors, which are returned."""
    decl, text = _decl(act), act.module.file.text
    names = [f.name for f in decl.formals]
    required = [f.name for f in decl.formals if f.default is None]
    given = assign_arguments(site, decl.name, signature_text(decl, text), names, required, args)
    outer = module_activation(act.session, act.module)
    typed: list[tuple[Site, s.Formal, TensorType]] = []
    scalars: list[tuple[Site, s.Formal, Value]] = []
    tensors: dict[str, Tensor | None] = {}
    for formal in decl.formals:
        arg, value = given[formal.name] if formal.name in given else (None, _default(outer, formal))
        at = site if arg is None else Site(site.act, arg.at)
        if value is POISON:
            raise Poisoned
        if is_static(formal):
            act.names[formal.name] = static_value(at, formal.type.name, formal.name, value)
        elif isinstance(value, Tensor):
            tensors[formal.name] = value
            typed.append((at, formal, value.type))
        elif value is None and formal.default is not None:
            tensors[formal.name] = None
        else:
            scalars.append((at, formal, value))
    Matcher(decl, text, act.names, lambda e: evaluate(act, e)).match(typed)
    tensors |= {formal.name: scalar_argument(at, formal, value, act.names) for at, formal, value in scalars}
    act.names.update({name: None for name, t in tensors.items() if t is None})
    return {f.name: tensors[f.name] for f in decl.formals if not is_static(f)}


def _decl(act: Activation) -> s.FnDecl:
    assert act.decl is not None
    return act.decl


def _default(outer: Activation, formal: s.Formal) -> Value:
    assert formal.default is not None
    return evaluate(outer, formal.default)


def module_activation(session: Session, module: Module) -> Activation:
    """Where constants and defaults of `module` are evaluated: nothing can be built."""
    return Activation(session, module, Frame("static", Builder("static"), session.budget), {})


def _finish(act: Activation, site: Site | None) -> Value:
    """Executes the body of `act.decl` and checks what it returns."""
    decl = _decl(act)
    left = run_block(act, decl.body)
    value = left.value if left is not None else None
    if value is POISON:
        raise Poisoned
    end = act.site(_return_at(decl))
    if left is None and decl.results is not None:
        end.fail("E0110", f"`{decl.name}` ends without `return`", at=decl.name_at)
    return value if decl.results is None else _checked_results(act, end, decl, value)


def _return_at(decl: s.FnDecl) -> s.At:
    """Where the result of `decl` is made: its last statement when that is a `return`, else its name."""
    last = decl.body[-1] if decl.body else None
    return last.value.at if isinstance(last, s.Return) and last.value is not None else decl.name_at


def _checked_results(act: Activation, end: Site, decl: s.FnDecl, value: Value) -> Value:
    assert decl.results is not None
    values = value if isinstance(value, tuple) and decl.several else (value,)
    if len(values) != len(decl.results) or (
        isinstance(value, tuple) and not decl.several and decl.results[0].type.dims is not None
    ):
        got = len(value) if isinstance(value, tuple) else 1
        counted = f"{got} value{'s' * (got != 1)}"
        end.fail(
            "E0110",
            f"`{decl.name}` returns {counted}, its header says {len(decl.results)}",
            notes=(_declared(act, decl.results[0]),),
        )
    checked = tuple(_checked(act, end, decl, r, v) for r, v in zip(decl.results, values, strict=True))
    return checked if decl.several else checked[0]


def _declared(act: Activation, result: s.Result) -> Note:
    return Note("declared here", act.module.file.span(*result.at))


def _checked(act: Activation, end: Site, decl: s.FnDecl, result: s.Result, value: Value) -> Value:
    """`value` as the declared result; another type is a mistake."""
    if value is POISON:
        raise Poisoned
    if result.type.dims is None and result.type.name in STATIC_KINDS:
        return static_value(end, result.type.name, "the result", value)
    wanted = type_of(act.site(result.at), result.type, lambda n, at: lookup(act, n, at), lambda e: evaluate(act, e))
    if wanted.rank == 0 and (isinstance(value, bool) or is_static_number(value)):
        return end.full(value, wanted.dtype, ())  # pyright: ignore[reportArgumentType]
    if not isinstance(value, Tensor):
        end.fail(
            "E0110",
            f"`{decl.name}` returns {describe(value)}, its header says {wanted}",
            notes=(_declared(act, result),),
        )
    if value.type != wanted:
        help = f"convert it: `{wanted.dtype}(…)`" if value.shape == wanted.shape else None
        end.fail(
            "E0110",
            f"`{decl.name}` returns {value.type}, its header says {wanted}",
            notes=(_declared(act, result),),
            help=help,
        )
    return value


# ---- composites ----------------------------------------------------------------------------------


def _call_op(site: Site, act: Activation, tensors: Mapping[str, Tensor | None], scope: s.Scope | None) -> Value:
    """A composite node; its definition is made once for each types and attributes."""
    decl = _decl(act)
    if scope is not None:
        site.fail(
            "E0123", f"`{decl.name}` is an `op fn` and has no parameters to name", help="leave out `as`", at=scope.at
        )
    operands = [t for t in tensors.values() if t is not None]
    attrs = static_attrs(act, decl)
    key = f"{act.module.shown} {decl.name} {', '.join(map(str, (t.type for t in operands)))} {attrs!r}"
    regions, budget = act.session.regions, act.session.budget
    if key not in regions:
        regions[key] = None
        before = budget.nodes
        graph = define(act, [(n, t.type) for n, t in tensors.items() if t is not None])
        regions[key] = graph, budget.nodes - before
    elif known := regions[key]:
        graph, size = known
        budget.nodes += size  # every use is a copy for those who come after
    else:
        raise Poisoned
    results = site.add_all(decl.name, operands, attrs, (graph,))
    return results if decl.several else results[0]


def static_attrs(act: Activation, decl: s.FnDecl) -> dict[str, Attr]:
    """The static arguments of an `op fn`, as attributes."""
    return {f.name: act.names[f.name] for f in decl.formals if is_static(f)}  # pyright: ignore[reportReturnType]


def define(act: Activation, operands: Sequence[tuple[str, TensorType]]) -> Graph:
    """The definition of the `op fn` of `act`, whose static names are bound. Raises Poisoned when it has mistakes."""
    decl = _decl(act)
    frame = Frame("op", Builder(decl.name), act.session.budget)
    site = act.site(decl.name_at)
    try:
        inputs = [frame.input(name, type, site.loc) for name, type in operands]
    except LimitError as error:
        site.too_large(error)
    inner = Activation(act.session, act.module, frame, {**act.names}, decl, caller=act.caller)
    inner.names.update({name: t for (name, _), t in zip(operands, inputs, strict=True)})
    value = _finish(inner, None)
    outputs = value if isinstance(value, tuple) else (value,)
    tensors = [t for t in outputs if isinstance(t, Tensor)]
    if len(tensors) != len(outputs) or not tensors:
        site.fail("E0121", f"the `op fn` `{decl.name}` returns something else than tensors")
    return frame.finish(inputs, tensors)


def composite_graph(
    session: Session, function: Function, types: Sequence[TensorType], attrs: Mapping[str, Attr]
) -> Graph:
    """The definition of `function` for operand types and attributes. Raises Fail or Poisoned."""
    decl, module = function.decl, function.module
    act = Activation(session, module, Frame("static", Builder("static"), session.budget), {}, decl)
    formals = [f for f in decl.formals if not is_static(f)]
    site = act.site(decl.name_at)
    if len(types) != len(formals):
        site.fail("E0106", f"`{decl.name}` takes {len(formals)} tensors, got {len(types)}")
    outer = module_activation(session, module)
    for formal in (f for f in decl.formals if is_static(f)):
        value = attrs[formal.name] if formal.name in attrs else _default(outer, formal)
        act.names[formal.name] = static_value(site, formal.type.name, formal.name, value)  # pyright: ignore[reportArgumentType]
    typed = [(site, f, t) for f, t in zip(formals, types, strict=True)]
    Matcher(decl, module.file.text, act.names, lambda e: evaluate(act, e)).match(typed)
    return define(act, [(f.name, t) for f, t in zip(formals, types, strict=True)])


def check_declaration(session: Session, module: Module, decl: s.FnDecl) -> None:
    """Tells what is wrong with the header of a fn, and what an `op fn` may not be."""
    site = module_activation(session, module).site(decl.name_at)
    seen: set[str] = set()
    for formal in decl.formals:
        _check_formal(session, module, decl, formal, seen)
        seen.add(formal.name)
    if decl.kind != "op":
        return
    problem = _op_problem(session, module, decl)
    if problem:
        session.tell(Diagnostic("E0121", problem, site.span))


def check_names(session: Session, module: Module, decl: s.FnDecl) -> None:
    """Tells of names that stand for nothing anywhere in `decl`, whether it is ever executed or not."""
    made = {f.name: None for f in decl.formals}
    act = Activation(session, module, Frame("static", Builder("static"), session.budget), dict(made), decl)
    for name, at in names_read(decl):
        if name not in module.names and name not in BUILTINS:
            try:
                undefined(act, name, at)
            except Fail as fail:
                session.tell(fail.diagnostic)


def _check_formal(session: Session, module: Module, decl: s.FnDecl, formal: s.Formal, seen: set[str]) -> None:
    span = module.file.span(*formal.at)
    kind = formal.type.name
    if formal.name in seen:
        session.tell(Diagnostic("E0102", f"`{formal.name}` stands twice among the arguments of `{decl.name}`", span))
    if formal.type.dims is None and kind not in STATIC_KINDS:
        help = f"a scalar tensor is `{kind}[]`, static values are {', '.join(STATIC_KINDS)}"
        session.tell(
            Diagnostic("E0107", f"`{kind}` is not a kind of static value", module.file.span(*formal.type.at), help=help)
        )
    if decl.kind == "op" and formal.default is not None and formal.type.dims is not None:
        session.tell(Diagnostic("E0121", f"a tensor argument of an `op fn` has no default: `{formal.name}`", span))
    if formal.default is not None:
        _check_default(session, module, formal, formal.default)
    if decl.kind == "model" and (formal.type.dims is None or formal.default is not None):
        help = "write a `dim` or a constant above the model"
        session.tell(Diagnostic("E0107", f"`{formal.name}`: the arguments of a model are tensors", span, help=help))


def _check_default(session: Session, module: Module, formal: s.Formal, default: s.Expr) -> None:
    site = module_activation(session, module).site(default.at)
    try:
        value = evaluate(site.act, default)
        if is_static(formal) and formal.type.name in STATIC_KINDS:
            static_value(site, formal.type.name, formal.name, value)
        elif formal.type.dims is not None and value is not None:
            site.fail("E0107", f"the only default of a tensor is none, not {describe(value)}")
    except Fail as fail:
        session.tell(fail.diagnostic)
    except Poisoned:
        pass  # told where the name in it failed


def _op_problem(session: Session, module: Module, decl: s.FnDecl) -> str | None:
    if decl.name in OPS:
        return f"`{decl.name}` is an op of the table; an `op fn` needs another name"
    if decl.name in session.stdlib_ops and not module.is_stdlib:
        return f"`{decl.name}` is a composite of the standard library, which rules know; an `op fn` needs another name"
    if not any(not is_static(f) for f in decl.formals):
        return f"the `op fn` `{decl.name}` takes no tensor"
    if decl.results is None:
        return f"the `op fn` `{decl.name}` states no result: write `-> T[…]`"
    return None


# ---- models --------------------------------------------------------------------------------------


def build_model(session: Session, module: Module, decl: s.FnDecl) -> Graph | None:
    """The graph of a model; None when mistakes were told."""
    frame = Frame("model", Builder(decl.name), session.budget)
    act = Activation(session, module, frame, {}, decl)
    try:
        inputs = [_input(act, formal) for formal in decl.formals]
        value = _finish(act, None)
    except Fail as fail:
        session.tell(fail.diagnostic)
        return None
    except Poisoned:
        return None
    outputs = value if isinstance(value, tuple) else (value,)
    return frame.finish(inputs, [t for t in outputs if isinstance(t, Tensor)], _output_names(decl))


def _input(act: Activation, formal: s.Formal) -> Tensor:
    site = act.site(formal.at)
    type = type_of(site, formal.type, lambda n, at: lookup(act, n, at), lambda e: evaluate(act, e))
    try:
        tensor = act.frame.input(formal.name, type, site.loc)
    except LimitError as error:
        site.too_large(error)
    act.names[formal.name] = tensor
    return tensor


def _output_names(decl: s.FnDecl) -> list[str]:
    results = decl.results or ()
    plain = ["output"] if len(results) == 1 else [f"output_{i}" for i in range(len(results))]
    return [r.name or name for r, name in zip(results, plain, strict=True)]


def new_session(stdlib_ops: frozenset[str] = frozenset()) -> Session:
    return Session(call_function, stdlib_ops=stdlib_ops)
