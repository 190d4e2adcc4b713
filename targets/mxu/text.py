"""The text form of a program: `parse(show(p)) == p`. One line an instruction, loops rolled, bodies at the end.

    program "gemm"
    buffer "x" hbm input 0 2097152 bf16[1024, 1024] 0..3
    kernel "matmul.0" "model.tdsl:4" {
      loop i 0 8 {
        when i ge 1, 1*((i+1)//2%2) eq 0 {
          dma hbm[4096 + 1024*i] <- vmem[0] bf16[512, 512] (2048, 2) (1024, 2) sem 3
        }
        wait 3
        push 0 vmem[65536] bf16[128, 128] (256, 2) transpose
        mul 0 vmem[0] bf16[512, 128] (256, 2) latch
        pop 0 vmem[131072] f32[512, 128] (512, 4) add
        vector @0 (vmem[0] f32[8, 128] (512, 4)) -> (vmem[4096] bf16[8, 128] (256, 2))
      }
    }
    body @0 graph "gelu" { … }

A term is `coef*((loop+offset)//div%mod)`, parts that do nothing left out. Must not know time or values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Literal, cast, get_args

from ...compiler.graph import DTYPES, Dim, Graph, TensorType
from ...compiler.graph import parse as parse_graph
from ...compiler.graph import show as show_graph
from ...compiler.plan.target import Buffer
from .isa import (
    Address,
    Condition,
    DmaGather,
    DmaStart,
    DmaWait,
    Instruction,
    KernelBlock,
    Loop,
    Memory,
    Mul,
    MxuProgram,
    Pop,
    Push,
    Term,
    Vector,
    View,
    When,
)

Relation = Literal["eq", "ne", "lt", "ge"]


class ProgramTextError(ValueError):
    """Text that is not a program; the message tells the line and what was expected."""


# ---- printing ------------------------------------------------------------------------------------


def show(program: MxuProgram) -> str:
    """Text of `program`, ending in a newline."""
    bodies: dict[Graph, int] = {}
    lines = [f"program {json.dumps(program.name)}"]
    lines += map(_buffer, program.buffers)
    lines += _stream(program.stream, bodies, "")
    for body, number in bodies.items():
        lines.append(f"body @{number} {show_graph(body).rstrip()}")
    return "\n".join(lines) + "\n"


def show_instruction(i: Instruction) -> str:
    """The first line of one instruction, for messages; a vector body goes by its name."""
    if isinstance(i, Vector):
        return f"vector {json.dumps(i.body.name)} {_vector_views(i)}"
    return next(_lines(i, {}, ""))


def _buffer(b: Buffer) -> str:
    kind = f"{b.memory} {b.kind} {b.address} {b.nbytes} {b.type if b.type is not None else '-'}"
    return f"buffer {json.dumps(b.name)} {kind} {b.first_step}..{b.last_step}"


def _stream(stream: Sequence[Instruction], bodies: dict[Graph, int], indent: str) -> Iterator[str]:
    for i in stream:
        yield from _lines(i, bodies, indent)


def _lines(i: Instruction, bodies: dict[Graph, int], indent: str) -> Iterator[str]:
    match i:
        case Loop(var, start, stop, body):
            yield from _block(f"loop {var} {start} {stop}", body, bodies, indent)
        case When(conditions, body):
            yield from _block(f"when {', '.join(map(_condition, conditions))}", body, bodies, indent)
        case KernelBlock(name, source, body):
            yield from _block(f"kernel {json.dumps(name)} {json.dumps(source)}", body, bodies, indent)
        case Vector():
            yield f"{indent}vector @{bodies.setdefault(i.body, len(bodies))} {_vector_views(i)}"
        case _:
            yield indent + _line(i)


def _block(head: str, body: Sequence[Instruction], bodies: dict[Graph, int], indent: str) -> Iterator[str]:
    yield f"{indent}{head} {{"
    yield from _stream(body, bodies, indent + "  ")
    yield indent + "}"


def _line(i: DmaStart | DmaGather | DmaWait | Push | Mul | Pop) -> str:
    match i:
        case DmaStart(dst, src, sem):
            if (dst.dtype, dst.shape) != (src.dtype, src.shape):
                return f"dma {_view(dst)} <- {_view(src)} sem {sem}"
            return (
                f"dma {_place(dst)} <- {_place(src)} {_type(src)} {_ints(dst.strides)} {_ints(src.strides)} sem {sem}"
            )
        case DmaGather(dst, table, index, sem):
            return f"gather {_view(dst)} <- {_view(table)} at {_view(index)} sem {sem}"
        case DmaWait(sem):
            return f"wait {sem}"
        case Push(unit, tile, transpose):
            return f"push {unit} {_view(tile)}" + " transpose" * transpose
        case Mul(unit, lhs, latch, acc, add):
            return f"mul {unit} {_view(lhs)}" + " latch" * latch + _acc(acc) + " add" * add
        case Pop(unit, dst, add, acc):
            return f"pop {unit} {_view(dst)}" + " add" * add + _acc(acc)


def _acc(acc: int | None) -> str:
    return "" if acc is None else f" acc {acc}"


def _vector_views(i: Vector) -> str:
    return f"({', '.join(map(_view, i.inputs))}) -> ({', '.join(map(_view, i.outputs))})"


def _view(v: View) -> str:
    return f"{_place(v)} {_type(v)} {_ints(v.strides)}"


def _place(v: View) -> str:
    return f"{v.memory}[{_address(v.address)}]"


def _type(v: View) -> str:
    return f"{v.dtype}[{', '.join(str(int(n)) for n in v.shape)}]"


def _ints(values: Sequence[int]) -> str:
    return f"({', '.join(str(int(n)) for n in values)})"


def _address(a: Address) -> str:
    return " + ".join([str(a.base), *map(_term, a.terms)])


def _term(t: Term) -> str:
    inner = t.loop
    if t.offset:
        inner = f"({inner}{t.offset:+d})"
    if t.div != 1:
        inner += f"//{t.div}"
    if t.mod:
        inner += f"%{t.mod}"
    return f"{t.coef}*{inner}" if inner == t.loop else f"{t.coef}*({inner})"


def _condition(c: Condition) -> str:
    return f"{_term(c.term)} {c.relation} {c.value}"


# ---- parsing -------------------------------------------------------------------------------------

_NUMBER = r"-?\d+"
_STRING = r'"(?:[^"\\]|\\.)*"'
_LOOP_NAME = r"[A-Za-z_][\w.]*"


class _Reader:
    """One line, read from left to right."""

    def __init__(self, line: str, number: int) -> None:
        self.line, self.number, self.at = line, number, 0

    def fail(self, wanted: str) -> ProgramTextError:
        found = self.line[self.at :][:30] or "the end of the line"
        return ProgramTextError(f"line {self.number}: expected {wanted}, found {found!r}")

    def match(self, pattern: str, wanted: str) -> str:
        found = re.compile(rf"\s*({pattern})").match(self.line, self.at)
        if not found:
            raise self.fail(wanted)
        self.at = found.end()
        return found[1]

    def take(self, literal: str) -> bool:
        found = re.compile(rf"\s*{re.escape(literal)}").match(self.line, self.at)
        if found:
            self.at = found.end()
        return found is not None

    def need(self, literal: str) -> None:
        if not self.take(literal):
            raise self.fail(f"'{literal}'")

    def number_(self) -> int:
        return int(self.match(_NUMBER, "a number"))

    def string(self) -> str:
        return str(json.loads(self.match(_STRING, "a quoted string")))

    def end(self) -> None:
        if self.line[self.at :].strip():
            raise self.fail("the end of the line")


def parse(text: str) -> MxuProgram:
    """The program that `text` shows; ProgramTextError when it shows none. Does not verify."""
    head, bodies = _split_bodies(text)
    readers = [_Reader(line, n) for n, line in enumerate(head, 1) if line.strip()]
    if not readers:
        raise ProgramTextError("line 1: expected 'program', found nothing")
    first = readers.pop(0)
    first.need("program")
    name = first.string()
    first.end()
    buffers: list[Buffer] = []
    while readers and readers[0].take("buffer "):
        buffers.append(_read_buffer(readers.pop(0)))
    stream = _read_stream(readers, bodies, False)
    return MxuProgram(name, stream, tuple(buffers))


def _split_bodies(text: str) -> tuple[list[str], list[Graph]]:
    """The lines before the bodies, and the bodies."""
    parts = re.split(r"(?m)^body @(\d+) ", text)
    bodies: list[Graph] = []
    for number, graph in zip(parts[1::2], parts[2::2], strict=True):
        if int(number) != len(bodies):
            raise ProgramTextError(f"body @{number} stands where body @{len(bodies)} belongs")
        bodies.append(parse_graph(graph))
    return parts[0].split("\n"), bodies


def _read_buffer(r: _Reader) -> Buffer:
    name = r.string()
    memory, kind = r.match(r"\w+", "a memory"), r.match(r"\w+", "a kind of buffer")
    address, nbytes = r.number_(), r.number_()
    t = None if r.take("-") else _read_type(r)
    first = r.number_()
    r.need("..")
    last = r.number_()
    r.end()
    return Buffer(name, memory, kind, address, nbytes, t, first, last)


def _read_type(r: _Reader) -> TensorType:
    name = r.match(r"[a-z]+\d*(?:e\dm\d)?", "a dtype")
    if name not in DTYPES:
        raise r.fail(f"a dtype (not {name})")
    r.need("[")
    shape: list[int] = []
    while not r.take("]"):
        dim = r.match(r"[^,\]]+", "a dim")
        expr, equals, value = dim.rpartition("=")
        shape.append(Dim(int(value), expr) if equals else int(value))
        r.take(",")
    return TensorType(DTYPES[name], tuple(shape))


def _read_stream(readers: list[_Reader], bodies: list[Graph], nested: bool) -> tuple[Instruction, ...]:
    found: list[Instruction] = []
    while readers:
        r = readers.pop(0)
        if nested and r.take("}"):
            r.end()
            return tuple(found)
        found.append(_read_instruction(r, readers, bodies))
        r.end()
    if nested:
        raise ProgramTextError("a block is not closed: expected '}' before the end")
    return tuple(found)


def _read_instruction(r: _Reader, rest: list[_Reader], bodies: list[Graph]) -> Instruction:
    word = r.match(r"\w+", "an instruction")
    match word:
        case "loop":
            var, start, stop = r.match(_LOOP_NAME, "a loop variable"), r.number_(), r.number_()
            return Loop(var, start, stop, _read_block(r, rest, bodies))
        case "when":
            conditions = [_read_condition(r)]
            while r.take(","):
                conditions.append(_read_condition(r))
            return When(tuple(conditions), _read_block(r, rest, bodies))
        case "kernel":
            name, source = r.string(), r.string()
            return KernelBlock(name, source, _read_block(r, rest, bodies))
        case "vector":
            return _read_vector(r, bodies)
        case _:
            return _read_plain(word, r)


def _read_block(r: _Reader, rest: list[_Reader], bodies: list[Graph]) -> tuple[Instruction, ...]:
    r.need("{")
    r.end()
    return _read_stream(rest, bodies, True)


def _read_plain(word: str, r: _Reader) -> Instruction:
    match word:
        case "dma":
            return _read_dma(r)
        case "gather":
            dst = _read_view(r)
            r.need("<-")
            table = _read_view(r)
            r.need("at")
            return DmaGather(dst, table, _read_view(r), _read_sem(r))
        case "wait":
            return DmaWait(r.number_())
        case "push":
            return Push(r.number_(), _read_view(r), r.take("transpose"))
        case "mul":
            unit, lhs, latch = r.number_(), _read_view(r), r.take("latch")
            acc = r.number_() if r.take("acc") else None
            return Mul(unit, lhs, latch, acc, r.take("add"))
        case "pop":
            unit, dst, add = r.number_(), _read_view(r), r.take("add")
            return Pop(unit, dst, add, r.number_() if r.take("acc") else None)
        case _:
            raise ProgramTextError(f"line {r.number}: no instruction is called {word}")


def _read_dma(r: _Reader) -> DmaStart:
    """Either both views in full, or the places, the common type and the strides of each."""
    dst_place = _read_place(r)
    if not r.take("<-"):
        dst = _read_rest(r, dst_place)
        r.need("<-")
        return DmaStart(dst, _read_view(r), _read_sem(r))
    src_place = _read_place(r)
    t = _read_type(r)
    dst_strides, src_strides = _read_ints(r), _read_ints(r)
    dst = View(*dst_place, t.dtype, t.shape, dst_strides)
    return DmaStart(dst, View(*src_place, t.dtype, t.shape, src_strides), _read_sem(r))


def _read_sem(r: _Reader) -> int:
    r.need("sem")
    return r.number_()


def _read_vector(r: _Reader, bodies: list[Graph]) -> Vector:
    r.need("@")
    number = r.number_()
    if not 0 <= number < len(bodies):
        raise ProgramTextError(f"line {r.number}: there is no body @{number}")
    inputs = _read_views(r)
    r.need("->")
    return Vector(bodies[number], inputs, _read_views(r))


def _read_views(r: _Reader) -> tuple[View, ...]:
    r.need("(")
    views: list[View] = []
    while not r.take(")"):
        views.append(_read_view(r))
        r.take(",")
    return tuple(views)


def _read_view(r: _Reader) -> View:
    return _read_rest(r, _read_place(r))


def _read_rest(r: _Reader, place: tuple[Memory, Address]) -> View:
    t = _read_type(r)
    return View(*place, t.dtype, t.shape, _read_ints(r))


def _read_place(r: _Reader) -> tuple[Memory, Address]:
    memory = r.match(r"hbm|vmem", "hbm or vmem")
    r.need("[")
    base = r.number_()
    terms: list[Term] = []
    while r.take("+"):
        terms.append(_read_term(r))
    r.need("]")
    return cast(Memory, memory), Address(base, tuple(terms))


def _read_term(r: _Reader) -> Term:
    coef = r.number_()
    r.need("*")
    wrapped = r.take("(")
    shifted = wrapped and r.take("(")
    loop = r.match(_LOOP_NAME, "a loop variable")
    offset = (
        int(r.match(r"[+-]\d+", "an offset")) if shifted or (wrapped and re.match(r"[+-]\d", r.line[r.at :])) else 0
    )
    if shifted:
        r.need(")")
    div = r.number_() if r.take("//") else 1
    mod = r.number_() if r.take("%") else 0
    if wrapped:
        r.need(")")
    return Term(loop, coef, div, mod, offset)


def _read_condition(r: _Reader) -> Condition:
    term, relation = _read_term(r), r.match("|".join(get_args(Relation)), "eq, ne, lt or ge")
    return Condition(term, cast(Relation, relation), r.number_())


def _read_ints(r: _Reader) -> tuple[int, ...]:
    r.need("(")
    found: list[int] = []
    while not r.take(")"):
        found.append(r.number_())
        r.take(",")
    return tuple(found)
