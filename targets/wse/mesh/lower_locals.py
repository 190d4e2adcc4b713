"""Where the locals of a function are kept: registers, or memory where something points at them or indexes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from ..csl import code as c
from ..csl import types as t
from ..csl.values import Symbol, by_lane
from .ir import Kind
from .lower_code import At, Lowered, Lowering, is_local
from .tables import leaves


def enter(f: Lowering, in_memory: frozenset[int]) -> tuple[tuple[Kind, ...], Kind | None]:
    """Give every local its registers or its place; the Kinds of the parameters' registers and of the result."""
    kinds: list[Kind] = []
    moved: list[tuple[At, t.Type, tuple[int, ...]]] = []
    count = len(f.instance.params)
    for slot, (name, type) in enumerate(f.instance.locals):
        parts = leaves(type)
        if slot < count:
            f.locals.append(_parameter(f, slot in in_memory, name, type, kinds, moved))
        elif parts is None or slot in in_memory:
            f.locals.append(At(None, f.memory(name, type).offset))
        else:
            f.locals.append(tuple(f.b.variable() for _ in parts))
    for at, type, registers in moved:
        f.store(at, type, registers)
    parts = leaves(f.instance.result)
    if parts is not None and len(parts) <= 1:
        return tuple(kinds), parts[0][1] if parts else None
    f.result = f.memory("result", f.instance.result)
    return tuple(kinds), Kind.U16


def _parameter(
    f: Lowering, in_memory: bool, name: str, type: t.Type, kinds: list[Kind],
    moved: list[tuple[At, t.Type, tuple[int, ...]]],
) -> Lowered:  # fmt: skip
    """A parameter: in the first registers; one with arrays comes as its address."""
    parts = leaves(type)
    mine = (Kind.U16,) if parts is None else tuple(kind for _, kind in parts)
    kinds += mine
    registers = tuple(f.b.value() for _ in mine)
    f.b.params += len(mine)
    if parts is None:
        return At(registers[0], 0, own=True)
    if not in_memory:
        return registers
    at = At(None, f.memory(name, type).offset)
    moved.append((at, type, registers))
    return at


def locals_in_memory(instance: c.Instance) -> frozenset[int]:
    """Locals that must lie in memory: those whose address is taken or that are indexed."""
    found: set[int] = set()
    for place, taken in _places(instance.body or ()):
        if is_local(place) and (taken or place.terms or by_lane(place.offset)):
            found.add(place.base.slot)
    return frozenset(found)


def _places(steps: tuple[c.Step, ...]) -> Iterator[tuple[c.Place, bool]]:
    """Every place in `steps`, and whether its address is taken."""
    work: list[Any] = list(steps)
    while work:
        item = work.pop()
        match item:
            case c.Place(_, base, _, terms):
                yield item, False
                work += [index for index, _, _ in terms]
                work += [base] if not isinstance(base, Symbol) else []
            case c.AddressOf(_, place):
                yield place, True
                work.append(place)
            case c.Load(_, place):
                work.append(place)
            case c.Operation(args=args):
                work += args
            case c.Make(fields=fields):
                work += fields.values()
            case c.Member(_, base, _):
                work.append(base)
            case c.Vector(operands=operands, settings=settings):
                work += [*operands, *settings.values()]
            case c.Call(_, target, args):
                work += [*args, *([] if isinstance(target, c.Instance) else [target])]
            case c.Store(place, value):
                work += [place, value]
            case c.SetLocal(_, value) | c.Do(value) | c.Leave(value):
                work.append(value)
            case c.Branch(test, yes, no):
                work += [test, *yes, *no]
            case c.Loop(test, body, step):
                work += [test, *body, *step]
            case tuple():
                work += cast("tuple[Any, ...]", item)
            case _:
                pass
