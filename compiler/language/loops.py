"""`repeat`: one copy of a body, executed at run time as often as its header says.

Names that stand before the loop and are assigned in it are carried; `yield` stacks; everything else made inside is
gone after it. Must not know other statements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..graph import InferError
from . import syntax as s
from .expr import evaluate, interpolate
from .frame import MAX_TRIPS, Frame, LimitError, Tensor, close_loop, loop_frame
from .values import POISON, Activation, Local, Poisoned, Site, Value, describe

RunBlock = Callable[[Activation, s.Body], object]
Assign = Callable[[Activation, Sequence[s.Name], Value, s.At], None]


@dataclass(frozen=True, slots=True)
class Carry:
    """A carried name: its value outside before the loop, and inside at the start of a trip."""

    name: str
    before: Tensor
    inside: Tensor


def run_repeat(act: Activation, stmt: s.Repeat, run_block: RunBlock, assign: Assign) -> None:
    """Executes a `repeat` statement: adds a loop and leaves its results in the names of `act`."""
    site = act.site(stmt.at)
    trips = _trips(act, stmt)
    made = s.assigned(stmt.body)
    before = dict(act.names)
    act.session.loops += 1
    frame = loop_frame(act.frame, trips, stmt.index, f"\0{act.session.loops}\0")
    carries = _enter(act, frame, stmt.index, made, before)
    last = stmt.body[-1] if stmt.body else None
    body = stmt.body[:-1] if isinstance(last, s.Yield) else stmt.body
    outer, prefix, shared = act.frame, act.prefix, act.shared
    act.frame, act.loops = frame, act.loops + 1
    act.names[stmt.index] = frame.index
    try:
        act.prefix, act.shared = _scope(act, stmt)
        run_block(act, body)
        yielded = _yielded(act, last) if isinstance(last, s.Yield) else None
        after = {c.name: act.names[c.name] for c in carries}
    finally:
        act.frame, act.prefix, act.shared, act.loops = outer, prefix, shared, act.loops - 1
        act.names = before
    _leave(site, stmt, frame, carries, after, yielded, assign)
    gone = {stmt.index: stmt.at, **made}.items()
    kept = {c.name for c in carries} | {t.id for t in stmt.targets}
    act.names.update({name: Local(at) for name, at in gone if name not in kept})


def _trips(act: Activation, stmt: s.Repeat) -> int:
    over = evaluate(act, stmt.over)
    site = act.site(stmt.over.at)
    if not isinstance(over, range):
        help = "the number of trips is known at build: `range(x.shape[0])`" if isinstance(over, Tensor) else None
        site.fail("E0107", f"`repeat` runs over range(n), not {describe(over)}", help=help)
    if over.start != 0 or over.step != 1:
        site.fail(
            "E0114",
            "`repeat` counts from 0 in steps of 1",
            help="write `range(n)` and compute with the index, or use `for`",
        )
    if len(over) > MAX_TRIPS:
        site.fail("E0115", f"`repeat` makes {len(over)} trips, more than {MAX_TRIPS}")
    return len(over)


def _scope(act: Activation, stmt: s.Repeat) -> tuple[str, bool]:
    if stmt.scope is None:
        return act.prefix, act.shared
    text = interpolate(act, stmt.scope.text, stmt.scope.at, markers=True)
    return f"{act.prefix}.{text}" if act.prefix else text, act.shared or stmt.scope.shared


def _enter(act: Activation, frame: Frame, index: str, made: dict[str, s.At], before: dict[str, Value]) -> list[Carry]:
    """Makes the names that are assigned in the body and stand before it inputs of the body."""
    carries: list[Carry] = []
    for name, at in made.items():
        value = before.get(name)
        if name not in before or isinstance(value, Local) or name == index:
            continue
        if value is POISON:
            raise Poisoned
        if not isinstance(value, Tensor):
            act.names[name] = Local(at, describe(value))
            continue
        inside = frame.input(name, value.type)
        act.names[name] = inside
        carries.append(Carry(name, value, inside))
    return carries


def _yielded(act: Activation, stmt: s.Yield) -> tuple[list[Tensor], s.At]:
    value = evaluate(act, stmt.value)
    values = value if isinstance(value, tuple) else (value,)
    tensors = [v for v in values if isinstance(v, Tensor)]
    if len(tensors) != len(values):
        other = next(v for v in values if not isinstance(v, Tensor))
        act.site(stmt.value.at).fail("E0114", f"`yield` stacks tensors, not {describe(other)}")
    return tensors, stmt.at


def _leave(
    site: Site, stmt: s.Repeat, frame: Frame, carries: Sequence[Carry], after: dict[str, Value],
    yielded: tuple[list[Tensor], s.At] | None, assign: Assign,
) -> None:  # fmt: skip
    """Closes the loop and gives its results their names."""
    act = site.act
    tensors = yielded[0] if yielded else []
    if yielded and not stmt.targets:
        site.fail(
            "E0114",
            "this `repeat` yields, and nothing takes what it stacks",
            help="write `ys = repeat …`",
            at=yielded[1],
        )
    if stmt.targets and not yielded:
        site.fail("E0114", "this `repeat` is assigned, but its body does not end in `yield`")
    changed: list[tuple[Carry, Tensor]] = []
    for carry in carries:
        value = after[carry.name]
        if value is POISON:
            raise Poisoned
        if not isinstance(value, Tensor) or value.type != carry.before.type:
            types = f"{carry.before.type} and leaves it as {describe(value)}"
            message = f"`{carry.name}` enters each trip of the `repeat` as {types}"
            site.fail("E0114", message, help="a carried name keeps its type; use another name, or `for`")
        if value is not carry.inside:
            changed.append((carry, value))
    unchanged = [(c.before, c.inside) for c in carries if after[c.name] is c.inside]
    try:
        results = close_loop(frame, [(c.before, c.inside, v) for c, v in changed], unchanged, tensors, site.loc)
    except (InferError, LimitError) as error:
        site.fail("E0115" if isinstance(error, LimitError) else "E0120", str(error))
    act.names.update({c.name: r for (c, _), r in zip(changed, results, strict=False)})
    stacked = results[len(changed) :]
    if stmt.targets:
        assign(act, stmt.targets, stacked[0] if len(stacked) == 1 else stacked, stmt.at)
