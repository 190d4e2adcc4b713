"""`param` statements: full names, sharing, and stacking inside a `repeat`.

A parameter whose name holds the index of a loop is one stacked tensor outside the loop, which hands out its elements.
Must not know how bodies are executed.
"""

from __future__ import annotations

from ..graph import TensorType
from ..source import Note
from . import syntax as s
from .expr import evaluate, lookup
from .frame import Frame, LimitError, Tensor, check_size
from .signature import type_of
from .values import Activation, Param, Site

# Names that one loop may make.
_MAX_STACK = 100_000


def declare(act: Activation, stmt: s.ParamDecl) -> Tensor:
    """The tensor that `param name: type` stands for where it is executed."""
    site = Site(act, stmt.at)
    root = act.frame.root
    if root.kind != "model":
        site.fail("E0121", f"`{stmt.name}`: an `op fn` has no parameters", help="pass the tensor in, or leave out `op`")
    name = f"{act.prefix}.{stmt.name}" if act.prefix else stmt.name
    shared = stmt.shared or act.shared
    type = type_of(site, stmt.type, lambda n, at: lookup(act, n, at), lambda e: evaluate(act, e))
    loop = _stacking_loop(site, name, shared)
    if loop is None:
        return _declared(site, root, name, type, 0, shared)
    name = name.replace(loop.marker, "{i}")
    stacked = _declared(site, root, name, type.with_shape((loop.trips, *type.shape)), loop.trips, shared)
    return loop.element(stacked, name)


def _loops(frame: Frame | None) -> list[Frame]:
    """The loops around, innermost first."""
    found: list[Frame] = []
    while frame is not None:
        if frame.kind == "repeat":
            found.append(frame)
        frame = frame.parent
    return found


def _stacking_loop(site: Site, name: str, shared: bool) -> Frame | None:
    """The loop whose index is in `name`; None when there is none."""
    loops = _loops(site.act.frame)
    used = [loop for loop in loops if loop.marker in name]
    shown = name
    for loop in loops:
        shown = shown.replace(loop.marker, f"{{{_index_name(loop)}}}")
    if len(used) > 1:
        help = "unroll one of the two loops with `for`, or stack by hand: a `param` outside, read as `w[i]`"
        site.fail("E0113", f"`{shown}` varies with two `repeat` loops", help=help)
    if len(loops) > len(used) and not shared:
        missing = next(loop for loop in loops if loop not in used)
        help = (
            f'scope the loop, as in `repeat … as "layer.{{{_index_name(missing)}}}":`, or mark the parameter `shared`'
        )
        site.fail("E0113", f"every trip of the `repeat` declares `{shown}` again", help=help)
    return used[0] if used else None


def _index_name(loop: Frame) -> str:
    assert loop.index is not None
    return str(loop.builder.nodes[loop.index.id].attr("name"))


def _declared(site: Site, root: Frame, name: str, type: TensorType, stack: int, shared: bool) -> Tensor:
    """The parameter in the root frame; the one there is when both are shared and of one type."""
    params = site.act.session.params
    told = site.act.caller or site  # what two calls of one fn declare is told of the calls
    before = params.get(name) or _overlapping(params, name, stack)
    if before is None:
        made = _made(site, root, name, type, stack)
        params.update(dict.fromkeys((name, *expanded(name, stack)), Param(made, told.told_at.span, shared)))
        return made
    note = Note("it is declared here first", before.span)
    if not (shared and before.shared):
        help = 'give one a scope of its own: `f(x) as "name"`; for one tensor in two places mark both `shared`'
        told.fail("E0113", f"the parameter `{name}` is declared twice", notes=(note,), help=help)
    if before.tensor.type != type:
        told.fail("E0113", f"the shared parameter `{name}` is {before.tensor.type} and {type}", notes=(note,))
    return before.tensor


def _overlapping(params: dict[str, Param], name: str, stack: int) -> Param | None:
    return next((params[n] for n in expanded(name, stack) if n in params), None)


def expanded(name: str, stack: int) -> list[str]:
    """The names in a weights file that a parameter stands for."""
    return [name.replace("{i}", str(i)) for i in range(stack)] if stack else [name]


def _made(site: Site, root: Frame, name: str, type: TensorType, stack: int) -> Tensor:
    if stack > _MAX_STACK:
        site.fail("E0115", f"`{name}` stands for {stack} tensors, more than {_MAX_STACK}")
    try:
        check_size(type.with_shape(type.shape[1:] if "{i}" in name else type.shape))
    except LimitError as error:
        site.too_large(error)
    if 0 in type.shape[:1] and "{i}" in name:
        return root.full(0, type.dtype, type.shape, site.loc)  # a loop of no trips has no parameters
    try:
        (made,) = root.add(
            "param", (), {"name": name, "dtype": type.dtype, "shape": type.shape, "stack": stack}, loc=site.loc
        )
    except LimitError as error:
        site.too_large(error)
    return made
