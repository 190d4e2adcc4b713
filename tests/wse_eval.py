"""A small evaluator of lowered functions, written from the docstrings of `mesh/ir.py`: one PE, no time, no fabric.

Tests compare what it computes with Python's integers and NumPy's floats.
"""

from dataclasses import dataclass, field

import numpy as np
from tdslc.targets.wse.mesh.ir import Image, Kind, Op

_INTS = {
    Kind.BOOL: (1, False), Kind.I8: (8, True), Kind.U8: (8, False), Kind.I16: (16, True), Kind.U16: (16, False),
    Kind.I32: (32, True), Kind.U32: (32, False), Kind.I64: (64, True), Kind.U64: (64, False), Kind.DSD: (64, False),
}  # fmt: skip
_FLOATS = {Kind.F16: (np.float16, np.uint16), Kind.F32: (np.float32, np.uint32)}
_SIZES = {Kind.BOOL: 1, Kind.F16: 2, Kind.F32: 4} | {k: bits // 8 for k, (bits, _) in _INTS.items() if bits > 1}


class Fault(Exception):
    """Something the machine faults on; with the number of the instruction."""


def wrap(value: int, kind: Kind) -> int:
    """An integer as a register of `kind` holds it."""
    bits, signed = _INTS[kind]
    value &= (1 << bits) - 1
    if bits == 64:
        signed = True
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def decode(bits: int, kind: Kind):
    """The value of a register: an int, a bool or a float of NumPy."""
    if kind in _FLOATS:
        float_type, word = _FLOATS[kind]
        return np.array(bits, np.int64).astype(word).view(float_type)[()]
    return bits & ((1 << 64) - 1) if kind == Kind.U64 else bits


def encode(value, kind: Kind) -> int:
    if kind in _FLOATS:
        float_type, word = _FLOATS[kind]
        with np.errstate(all="ignore"):
            return int(np.asarray(value).astype(float_type).view(word))
    return wrap(int(value), kind)


@dataclass(repr=False)
class Machine:
    """The memory and frames of PE `pe` of the class it belongs to."""

    image: Image
    pe: int = 0
    budget: int = 100_000
    memory: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.row = next(c for c in self.image.classes if c.first <= self.pe < c.first + c.count)
        self.memory = bytearray(self.row.memory_bytes)
        for symbol in self.row.symbols:
            if symbol.initial is not None:
                raw = symbol.initial if symbol.initial.ndim == 1 else symbol.initial[self.pe - self.row.first]
                self.memory[symbol.address : symbol.address + symbol.bytes] = raw.tobytes()

    def call(self, name: str, *args):
        """Call the exported function `name`; its result as Python or NumPy has it."""
        number = self.row.functions[name]
        function = self.image.functions[number]
        bits = [encode(a, kind) for a, kind in zip(args, function.params, strict=True)]
        got = self._run(number, bits)
        return None if function.result is None else decode(got, function.result)

    def read(self, name: str):
        """The exported variable `name` as an array."""
        address, size, kind = self.row.variables[name]
        bits, signed = _INTS.get(kind, (0, False))
        dtype = _FLOATS[kind][0] if kind in _FLOATS else np.dtype(f"{'i' if signed else 'u'}{max(bits // 8, 1)}")
        return np.frombuffer(bytes(self.memory[address : address + size]), dtype)

    def _run(self, number: int, args: list[int]) -> int:
        function = self.image.functions[number]
        frame = args + [0xBAD] * (function.registers - len(args))
        outgoing: dict[int, int] = {}
        at = function.entry
        while True:
            self.budget -= 1
            if self.budget < 0:
                raise Fault("budget")
            op, kind, d, a, b, c = self.image.code[at].tolist()
            at += 1
            match Op(op):
                case Op.CONST:
                    frame[d] = int(self.image.constants[a])
                case Op.LANE:
                    frame[d] = int(self.image.lanes[a, self.pe])
                case Op.MOVE:
                    frame[d] = frame[a]
                case Op.NEG | Op.NOT:
                    frame[d] = unary(Op(op), frame[a], Kind(kind))
                case Op.CONVERT:
                    frame[d] = convert(frame[a], Kind(b), Kind(kind))
                case Op.BITCAST:
                    frame[d] = bitcast(frame[a], Kind(kind))
                case Op.LOAD:
                    frame[d] = self._load(frame[a] + c, Kind(kind))
                case Op.STORE:
                    self._store(frame[a] + c, frame[d], Kind(kind))
                case Op.COPY:
                    self.memory[frame[d] : frame[d] + b] = self.memory[frame[a] : frame[a] + b]
                case Op.CHECK:
                    if not 0 <= frame[a] < b:
                        raise Fault(at - 1)
                case Op.JUMP:
                    at = a
                case Op.JUMP_IF_NOT:
                    at = at if frame[a] else b
                case Op.ARG:
                    outgoing[d] = frame[a]
                case Op.CALL | Op.CALL_AT:
                    got = self._run(a if op == Op.CALL else frame[a], [outgoing[k] for k in range(len(outgoing))])
                    outgoing = {}
                    if d >= 0:
                        frame[d] = got
                case Op.RETURN:
                    return frame[a] if a >= 0 else 0
                case Op.ASSERT:
                    if not frame[a]:
                        raise Fault(at - 1)
                case _ if op in BINARY:
                    try:
                        frame[d] = binary(Op(op), frame[a], frame[b], Kind(kind))
                    except (ZeroDivisionError, OverflowError) as error:
                        raise Fault(at - 1) from error
                case _:
                    raise NotImplementedError(Op(op))

    def _load(self, address: int, kind: Kind) -> int:
        size = _SIZES[kind]
        if not 0 <= address <= len(self.memory) - size:
            raise Fault("address")
        raw = int.from_bytes(self.memory[address : address + size], "little")
        return raw if kind in _FLOATS or kind == Kind.BOOL else wrap(raw, kind)

    def _store(self, address: int, bits: int, kind: Kind) -> None:
        size = _SIZES[kind]
        if not 0 <= address <= len(self.memory) - size:
            raise Fault("address")
        self.memory[address : address + size] = (bits & ((1 << 8 * size) - 1)).to_bytes(size, "little")


BINARY = frozenset(
    {Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.REM, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.EQ, Op.NE, Op.LT, Op.LE}
)


def binary(op: Op, a: int, b: int, kind: Kind) -> int:
    if kind in _FLOATS:
        return _float_binary(op, decode(a, kind), decode(b, kind), kind)
    if op in (Op.SHL, Op.SHR):
        if not 0 <= b < _INTS[kind][0]:
            raise OverflowError
        return wrap(decode(a, kind) << b if op == Op.SHL else decode(a, kind) >> b, kind)
    x, y = decode(a, kind), decode(b, kind)
    if op in (Op.DIV, Op.REM):
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return wrap(quotient if op == Op.DIV else x - quotient * y, kind)
    table = {
        Op.ADD: x + y, Op.SUB: x - y, Op.MUL: x * y, Op.AND: x & y, Op.OR: x | y, Op.XOR: x ^ y,
        Op.EQ: x == y, Op.NE: x != y, Op.LT: x < y, Op.LE: x <= y,
    }  # fmt: skip
    return int(table[op]) if op in (Op.EQ, Op.NE, Op.LT, Op.LE) else wrap(int(table[op]), kind)


def _float_binary(op: Op, x, y, kind: Kind) -> int:
    with np.errstate(all="ignore"):
        match op:
            case Op.EQ | Op.NE | Op.LT | Op.LE:
                return int({Op.EQ: x == y, Op.NE: x != y, Op.LT: x < y, Op.LE: x <= y}[op])
            case Op.ADD:
                return encode(x + y, kind)
            case Op.SUB:
                return encode(x - y, kind)
            case Op.MUL:
                return encode(x * y, kind)
            case _:
                return encode(x / y, kind)


def unary(op: Op, a: int, kind: Kind) -> int:
    if kind in _FLOATS:
        return encode(-decode(a, kind), kind)
    return wrap(-a if op == Op.NEG else ~a, kind)


def convert(a: int, source: Kind, kind: Kind) -> int:
    value = decode(a, source)
    if kind == Kind.BOOL:
        return int(value != 0)
    if kind in _FLOATS:
        return encode(value, kind)
    return wrap(int(value), kind)


def bitcast(a: int, kind: Kind) -> int:
    bits = a & ((1 << 8 * _SIZES[kind]) - 1)
    return bits if kind in _FLOATS else wrap(bits, kind)
