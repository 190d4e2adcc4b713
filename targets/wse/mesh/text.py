"""An image as text, for people and for tests; `parse(show(image), files)` is the image again.

Instructions stand under their function, after the line of source they come from. `r3` is a register, `L12` the
instruction numbered 12 of the whole image, `_` a field that says nothing. What stands after `#` is only for people.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import SourceFile, Span
from .ir import (
    BlockKind,
    ClassRow,
    DsrRow,
    FifoRow,
    Function,
    Image,
    Kind,
    MachineOp,
    MathOp,
    Op,
    SymbolRow,
    TaskRow,
    V,
    VectorOp,
)
from .registers import REGISTER_FIELDS

_JUMPS = {Op.JUMP: 3, Op.JUMP_IF_NOT: 4}
_NO_SPAN = "-"
_SHOWN_CHARACTERS = 80


def show(image: Image) -> str:
    """The text of `image`."""
    return "\n".join([*_head(image), *_functions(image), *_classes(image)]) + "\n"


# ---- writing -------------------------------------------------------------------------------------


def _head(image: Image) -> Iterator[str]:
    yield f"image {len(image.code)} instructions, {image.pes} PEs"
    files = list(dict.fromkeys(span.file.path for span in image.spans))
    for k, path in enumerate(files):
        yield f"file {k} {json.dumps(path)}"
    for k, span in enumerate(image.spans):
        yield f"span {k} {files.index(span.file.path)} {span.start} {span.end}"
    for k, value in enumerate(image.constants.tolist()):
        yield f"constant {k} {value}"
    for k, text in enumerate(image.texts):
        yield f"text {k} {json.dumps(text)}"
    for k, row in enumerate(image.shapes.tolist()):
        yield f"shape {k} {_numbers(row)}"
    for k, row in enumerate(image.vectors.tolist()):
        yield f"vector {k} {_numbers(row)}  # {_vector(row)}"
    yield f"lanes {len(image.lanes)}"


def _numbers(row: Sequence[int]) -> str:
    return " ".join(map(str, row))


def _vector(row: list[int]) -> str:
    operands = [row[k] for k in (V.OPERAND0, V.OPERAND1, V.OPERAND2, V.OPERAND3) if row[k] >= 0]
    said = f"{VectorOp(row[V.OP]).name} {Kind(row[V.DEST_KIND]).name} {' '.join(f'r{r}' for r in operands)}"
    return said + (" async" if row[V.ASYNC] else "")


def _functions(image: Image) -> Iterator[str]:
    order = sorted(range(len(image.functions)), key=lambda k: image.functions[k].entry)
    ends = [image.functions[k].entry for k in order[1:]] + [len(image.code)]
    spans = {span: k for k, span in enumerate(image.spans)}
    for k, end in zip(order, ends, strict=True):
        f = image.functions[k]
        params = " ".join(kind.name for kind in f.params)
        result = "-" if f.result is None else f.result.name
        what = "task" if f.is_task else "fn"
        span = (
            f"{f.span.start} {f.span.end} {json.dumps(f.span.file.path)}"
            if f.span not in spans
            else f"@{spans[f.span]}"
        )
        yield ""
        yield f"{what} {k} {json.dumps(f.name)} ({params}) {result} registers {f.registers} entry {f.entry} {span}"
        yield from _code(image, f.entry, end)


def _code(image: Image, first: int, end: int) -> Iterator[str]:
    targets = {
        int(image.code[at, _JUMPS[Op(image.code[at, 0])]]) for at in range(first, end) if image.code[at, 0] in _JUMPS
    }
    shown: tuple[str, int] | None = None
    for at in range(first, end):
        span = image.spans[int(image.span_of[at])]
        line = (span.file.path, span.line)
        if line != shown:
            yield f"  # {line[0]}:{line[1]}: {span.file.line(line[1]).strip()[:_SHOWN_CHARACTERS]}"
            shown = line
        label = f"L{at}:" if at in targets else ""
        yield f"{label:<7} {_instruction(image, at)}"


def _instruction(image: Image, at: int) -> str:
    row = image.code[at].tolist()
    op = Op(row[0])
    kind = MachineOp(row[1]).name if op == Op.MACHINE else Kind(row[1]).name
    fields = [_field(op, k, row[k]) for k in range(2, 6)]
    said = f"{op.name}.{kind} {' '.join(fields)}; {image.cost[at]} @{image.span_of[at]}"
    remark = _remark(image, op, row)
    return f"{said}  # {remark}" if remark else said


def _field(op: Op, k: int, value: int) -> str:
    if value < 0:
        return "_"
    if k in REGISTER_FIELDS[op]:
        return f"r{value}"
    return f"L{value}" if _JUMPS.get(op) == k else str(value)


def _remark(image: Image, op: Op, row: list[int]) -> str:
    match op:
        case Op.CONST:
            value = int(image.constants[row[3]])
            return f"{value}" if abs(value) < 10 else f"{value} = {value & (1 << 64) - 1:#x}"
        case Op.LANE:
            return "one for each PE"
        case Op.CALL:
            return image.functions[row[3]].name
        case Op.VECTOR:
            return _vector(image.vectors[row[3]].tolist())
        case Op.MATH:
            return MathOp(row[4]).name.lower()
        case Op.CONVERT | Op.BITCAST:
            return f"of {Kind(row[4]).name}"
        case Op.BLOCK | Op.UNBLOCK:
            return BlockKind(row[4]).name.lower()
        case _:
            return ""


def _classes(image: Image) -> Iterator[str]:
    spans = {span: k for k, span in enumerate(image.spans)}
    for row in image.classes:
        yield ""
        yield f"class {json.dumps(row.path)} first {row.first} count {row.count}"
        yield f"  memory {row.memory_bytes} registers {row.registers} rpc {_none(row.rpc)}"
        yield f"  x {_numbers(row.x.tolist())}"
        yield f"  y {_numbers(row.y.tolist())}"
        for k in range(len(image.lanes)):
            yield f"  lane {k} {_numbers(image.lanes[k, row.first : row.first + row.count].tolist())}"
        yield from (f"  symbol {_symbol(s, spans)}" for s in row.symbols)
        yield from (f"  bind {x.kind} {x.id} {x.function}" for x in row.tasks)
        for f in row.fifos:
            numbers = (f.address, f.count, f.activate_push, f.activate_pop, f.length, f.read_length, f.write_length)
            yield f"  fifo {f.element.name} {_numbers(numbers)}"
        for d in row.dsrs:
            held = (
                d.dsr,
                d.save_address,
                d.is_async,
                d.activate,
                d.unblock,
                d.unblock_kind,
                d.on_control,
                d.microthread,
            )
            yield f"  dsr {_numbers(held)} {_numbers(d.dsd.tolist())}"
        yield from (f"  named {'input' if q[0] else 'output'} {q[1]} {q[2]}" for q in row.named_queues)
        yield from (f"  queue {'input' if q[0] else 'output'} {_numbers(q[1:])}" for q in row.queues)
        yield from (f"  function {json.dumps(name)} {k}" for name, k in row.functions.items())
        yield from (f"  variable {json.dumps(name)} {v[0]} {v[1]} {v[2].name}" for name, v in row.variables.items())
        yield from (f"  pointer {json.dumps(name)} {at}" for name, at in row.pointers.items())
        yield from (f"  teardown {color} {k}" for color, k in row.teardown.items())
        yield from (f"  empty {queue} {k}" for queue, k in row.empty_queue.items())
        yield from (f"  active {id}" for id in row.active)
        yield from (f"  blocked {kind.name} {id}" for kind, id in row.blocked)


def _none(value: int | None) -> str:
    return "-" if value is None else str(value)


def _symbol(s: SymbolRow, spans: dict[Span, int]) -> str:
    place = f"@{spans[s.span]}" if s.span in spans else f"{s.span.start} {s.span.end} {json.dumps(s.span.file.path)}"
    if s.initial is None:
        held = "unset"
    elif s.initial.ndim == 1:
        held = f"bytes {s.initial.tobytes().hex() or '-'}"
    else:
        held = f"lanes {s.initial.tobytes().hex() or '-'}"
    return f"{json.dumps(s.name)} {s.address} {s.bytes} {place} {held}"


# ---- reading -------------------------------------------------------------------------------------


def parse(text: str, files: Mapping[str, SourceFile]) -> Image:
    """The image that `show` wrote. `files` are the sources by path. Raises ValueError or KeyError for another text."""
    return _Reader(files).image(text)


class _Reader:
    """Tables under way; one method for each kind of line."""

    def __init__(self, files: Mapping[str, SourceFile]) -> None:
        self._files = files
        self._paths: list[str] = []
        self._spans: list[Span] = []
        self._tables: dict[str, list[Any]] = {name: [] for name in ("constant", "text", "shape", "vector")}
        self._code: list[list[int]] = []
        self._cost: list[int] = []
        self._span_of: list[int] = []
        self._functions: dict[int, Function] = {}
        self._classes: list[dict[str, Any]] = []
        self._lanes = 0

    def image(self, text: str) -> Image:
        for line in text.splitlines():
            said = _without_remark(line)
            if said.strip():
                self._line(said)
        rows = tuple(_class(c) for c in self._classes)
        lanes = np.zeros((self._lanes, sum(row.count for row in rows)), np.int64)
        for row, c in zip(rows, self._classes, strict=True):
            for k, values in c["lane"].items():
                lanes[k, row.first : row.first + row.count] = values
        return Image(
            np.array(self._code, np.int32).reshape(-1, 6), np.array(self._cost, np.int32),
            np.array(self._span_of, np.int32), tuple(self._spans), np.array(self._tables["constant"], np.int64), lanes,
            np.array(self._tables["vector"], np.int32).reshape(-1, V.SIZE),
            np.array(self._tables["shape"], np.int32).reshape(-1, 8),
            tuple(self._functions[k] for k in range(len(self._functions))), tuple(self._tables["text"]), rows,
        )  # fmt: skip

    def _line(self, line: str) -> None:
        words = _words(line)
        first = words[0]
        if line.startswith("  ") and self._classes:
            self._of_class(words)
        elif first == "file":
            self._paths.append(json.loads(words[2]))
        elif first == "span":
            path, start, end = map(int, words[2:])
            self._spans.append(Span(self._files[self._paths[path]], start, end))
        elif first in ("constant", "text", "shape", "vector"):
            self._tables[first].append(_entry(first, words[2:]))
        elif first == "lanes":
            self._lanes = int(words[1])
        elif first in ("fn", "task"):
            self._function(words)
        elif first == "class":
            made: dict[str, Any] = {name: [] for name in _LISTS}
            made.update(path=json.loads(words[1]), first=int(words[3]), count=int(words[5]), lane={})
            self._classes.append(made)
        elif first != "image":
            self._instruction(words[1:] if first.endswith(":") else words)

    def _span(self, words: Sequence[str]) -> Span:
        if words[0].startswith("@"):
            return self._spans[int(words[0][1:])]
        return Span(self._files[json.loads(words[2])], int(words[0]), int(words[1]))

    def _function(self, words: list[str]) -> None:
        end = next(k for k, w in enumerate(words) if w.endswith(")"))
        params = tuple(Kind[w.strip("()")] for w in words[3 : end + 1] if w.strip("()"))
        result = None if words[end + 1] == "-" else Kind[words[end + 1]]
        self._functions[int(words[1])] = Function(
            json.loads(words[2]), int(words[end + 5]), int(words[end + 3]), params, result, words[0] == "task",
            self._span(words[end + 6 :]),
        )  # fmt: skip

    def _instruction(self, words: list[str]) -> None:
        name, _, kind = words[0].partition(".")
        kinds: type[IntEnum] = MachineOp if name == "MACHINE" else Kind
        fields = [-1 if w == "_" else int(w.lstrip("rL")) for w in (x.rstrip(";") for x in words[1:5])]
        self._code.append([Op[name], kinds[kind], *fields])
        self._cost.append(int(words[5]))
        self._span_of.append(int(words[6][1:]))

    def _of_class(self, words: list[str]) -> None:
        c = self._classes[-1]
        match words[0]:
            case "memory":
                c["memory"], c["registers"] = int(words[1]), int(words[3])
                c["rpc"] = None if words[5] == "-" else int(words[5])
            case "x" | "y":
                c[words[0]] = np.array([int(w) for w in words[1:]], np.int64)
            case "lane":
                c["lane"][int(words[1])] = [int(w) for w in words[2:]]
            case "symbol":
                c["symbol"].append(self._symbol(words, c["count"]))
            case name:
                c[name].append(words[1:])

    def _symbol(self, words: list[str], count: int) -> SymbolRow:
        at, size = int(words[2]), int(words[3])
        rest = 5 if words[4].startswith("@") else 7
        held: NDArray[np.uint8] | None = None
        if words[rest] != "unset":
            raw = bytes.fromhex(words[rest + 1]) if words[rest + 1] != "-" else b""
            held = np.frombuffer(raw, np.uint8)
            held = held if words[rest] == "bytes" else held.reshape(count, size)
        return SymbolRow(json.loads(words[1]), at, size, held, self._span(words[4:rest]))


_LISTS = (
    "symbol", "bind", "fifo", "queue", "function", "variable", "pointer", "teardown", "empty", "active", "blocked",
    "dsr", "named",
)  # fmt: skip


def _without_remark(line: str) -> str:
    """`line` up to a `#` that stands in no string."""
    quoted = False
    for k, character in enumerate(line):
        if character == '"' and (k == 0 or line[k - 1] != "\\"):
            quoted = not quoted
        elif character == "#" and not quoted:
            return line[:k]
    return line


def _words(line: str) -> list[str]:
    """Words of a line; a JSON string is one."""
    found: list[str] = []
    rest = line.strip()
    while rest:
        if rest.startswith('"'):
            _, end = json.JSONDecoder().raw_decode(rest)
            found.append(rest[:end])
            rest = rest[end:].lstrip()
        else:
            word, _, rest = rest.partition(" ")
            found.append(word)
            rest = rest.lstrip()
    return found


def _entry(name: str, words: list[str]) -> Any:
    if name == "text":
        return json.loads(words[0])
    return int(words[0]) if name == "constant" else [int(w) for w in words]


def _class(c: dict[str, Any]) -> ClassRow:
    def pairs(name: str) -> dict[int, int]:
        return {int(a): int(b) for a, b in c[name]}

    return ClassRow(
        path=c["path"], first=c["first"], count=c["count"], x=c["x"], y=c["y"], memory_bytes=c["memory"],
        registers=c["registers"], symbols=tuple(c["symbol"]),
        tasks=tuple(TaskRow(kind, int(id), int(k)) for kind, id, k in c["bind"]),
        fifos=tuple(_fifo(words) for words in c["fifo"]),
        queues=tuple((way == "input", int(id), int(color), int(p)) for way, id, color, p in c["queue"]),
        functions={json.loads(name): int(k) for name, k in c["function"]},
        variables={json.loads(name): (int(at), int(size), Kind[kind]) for name, at, size, kind in c["variable"]},
        teardown=pairs("teardown"), empty_queue=pairs("empty"), active=tuple(int(x[0]) for x in c["active"]),
        blocked=tuple((BlockKind[kind], int(id)) for kind, id in c["blocked"]), rpc=c["rpc"],
        pointers={json.loads(name): int(at) for name, at in c["pointer"]},
        dsrs=tuple(_dsr(words) for words in c["dsr"]),
        named_queues=tuple((way == "input", int(id), int(color)) for way, id, color in c["named"]),
    )  # fmt: skip


def _dsr(words: list[str]) -> DsrRow:
    dsr, *settings = map(int, words[:8])
    return DsrRow(dsr, np.array([int(w) for w in words[8:]], np.int64), *settings)


def _fifo(words: list[str]) -> FifoRow:
    at, count, push, pop, length, read, write = map(int, words[1:])
    return FifoRow(at, Kind[words[0]], count, push, pop, length, read, write)
