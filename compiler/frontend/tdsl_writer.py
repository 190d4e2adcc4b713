"""A Graph as `.tdsl` text that the language reads back to the same Graph (as `canonical` compares them).

One statement a node, but for what reads better where it is used: numbers, and the broadcasts that the language makes by
itself. Composites of the standard library are called, others written out. `while` and `cond` have no words in the
language. Must not know where the Graph comes from.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..graph import OPS, Array, Attr, DType, Graph, Node, TensorType, expand
from ..graph.ops.control import loop_counts
from ..graph.ops.movement import array_of
from ..language import reserved_names
from ..source import Diagnostic, DiagnosticError, Note
from .names import dotted

_INFIX = {"add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_CALLS = {
    "max": "maximum", "min": "minimum", "rem": "rem", "xor": "xor", "pow": "pow", "reduce_sum": "sum",
    "reduce_prod": "prod", "reduce_max": "max", "reduce_min": "min", "reduce_and": "all", "reduce_or": "any",
}  # fmt: skip
_SPREADS = ("add", "sub", "mul", "div", "rem", "max", "min", "and", "or", "xor", "pow", *_INFIX)
_MOST_LITERAL = 10_000
_SAID = 20
_WIDE = 118


def write_tdsl(graph: Graph, doc: str = "") -> str:
    """The text of `graph` as a model of its name. DiagnosticError (E1105) when the language has no words for an op."""
    graph = expand(graph)
    _refuse(graph)
    return _Writer(graph, doc).text()


def _refuse(graph: Graph) -> None:
    """Ops and literals that cannot be written, all at once."""
    found: dict[str, list[str]] = {}
    stack = [graph]
    while stack:
        g = stack.pop()
        for n in g.nodes:
            stack += n.regions
            why = _unwritable(n, g)
            if why:
                found.setdefault(why, []).append(n.loc.rpartition(":")[0] or n.op)
    if not found:
        return
    raise DiagnosticError([_fault(graph.name, why, places) for why, places in sorted(found.items())])


def _fault(name: str, why: str, places: Sequence[str]) -> Diagnostic:
    notes = tuple(Note(f"at {place}") for place in places[:_SAID])
    help = "build the model from its own file, as in `tdslc build model.onnx`"
    return Diagnostic("E1105", f"{name} cannot be written as .tdsl: {why}", notes=notes, help=help)


def _unwritable(n: Node, graph: Graph) -> str:
    if n.op in ("while", "cond"):
        return f"the language has no `{n.op}` on values that are known at run time only"
    if n.op == "param" and not _has_words(n, graph):
        return f"the parameter `{n.attr('name')}` has no such name in the language"
    if n.op == "constant" and n.type.size > _MOST_LITERAL:
        return f"a literal {n.type} has more than {_MOST_LITERAL} elements"
    return ""


def _has_words(n: Node, graph: Graph) -> bool:
    """Whether a param can be declared: by a dotted name, its `{i}` in a scope, and then only as rows of loops."""
    name = str(n.attr("name"))
    if not n.attr("stack"):
        return dotted(name) == name
    plain = name.replace("{i}", "0")
    scoped = name.count("{i}") == 1 and "{i}" not in name.rpartition(".")[2]
    return scoped and dotted(plain) == plain and all(_reads_rows(user, n.out) for user in graph.users[n.out])


def _reads_rows(node: Node, value: int) -> bool:
    """Whether `node` is a loop that hands each trip its row of `value`, and reads it in no other way."""
    if node.op != "loop":
        return False
    _, carry, xs = loop_counts(dict(node.attrs))
    return value not in (*node.args[:carry], *node.args[carry + xs :])


class _Writer:
    """A model being written: its lines, and how each value is written where it is read."""

    def __init__(self, graph: Graph, doc: str) -> None:
        self.graph, self.doc = graph, doc
        self.used: set[str] = {str(n.attr("name")) for n in graph.inputs}
        self.counts: dict[str, int] = {}
        self.declared: dict[str, None] = {}
        self.lines: list[str] = []

    def text(self) -> str:
        """The whole file."""
        self.body(self.graph, {n.out: str(n.attr("name")) for n in self.graph.inputs}, "    ")
        # Names of functions for parameters are the parameters' own last names.
        head = [json_doc(self.doc), ""] if self.doc else []
        for last in self.declared:
            head.append(f"fn {_declarer(last)}(shape: dims, to: dtype):")
            head += [f"    param {last}: to[..shape]", f"    return {last}", ""]
        return "\n".join((*head, *self.header(), *self.lines)) + "\n"

    def header(self) -> Iterator[str]:
        """`model name(inputs) -> (outputs):`, an argument a line where there are many."""
        inputs = [f"{n.attr('name')}: {_type(n.type)}" for n in self.graph.inputs]
        names = self.graph.output_names or ("",) * len(self.graph.outputs)
        typed = zip(names, self.graph.output_types, strict=True)
        results = [f"{name}: {_type(t)}" if name else _type(t) for name, t in typed]
        given = results[0] if len(results) == 1 and not names[0] else f"({', '.join(results)})"
        line = f"model {self.graph.name}({', '.join(inputs)}) -> {given}:"
        if len(line) <= _WIDE:
            yield line
            return
        yield f"model {self.graph.name}("
        yield from (f"    {text}," for text in inputs)
        yield ") -> ("
        yield from (f"    {text}," for text in results)
        yield "):"

    def fresh(self, op: str) -> str:
        """A new name for a value made by `op`."""
        base = re.sub(r"\W", "_", op.removeprefix("reduce_"))
        base = base if base[-1].isalpha() else f"{base}_"
        while True:
            self.counts[base] = self.counts.get(base, 0) + 1
            name = f"{base}{self.counts[base]}"
            if name not in self.used and name not in reserved_names():
                self.used.add(name)
                return name

    # ---- bodies ----

    def body(self, graph: Graph, names: dict[int, str], indent: str, results: Sequence[str] | None = None) -> None:
        """Statements of a graph; `results` are statements that end it in the place of `return`."""
        inlined = _Inlined(graph, names)
        for n in graph.nodes:
            if n.op == "input" or inlined.takes(n) or (n.op == "param" and n.attr("stack")):
                continue
            if n.op == "loop":
                self.loop(n, inlined, indent)
                continue
            outs = [self.fresh(n.op if n.op != "param" else str(n.attr("name")).rpartition(".")[2]) for _ in n.outs]
            names.update(zip(n.outs, outs, strict=True))
            self.lines.append(f"{indent}{', '.join(outs)} = {self.expression(n, inlined)}")
        if results is None:
            self.lines.append(f"{indent}return {', '.join(inlined.tensor(v) for v in graph.outputs)}")

    def expression(self, n: Node, inlined: _Inlined) -> str:
        """The right side of the statement that makes `n`."""
        if n.op == "param":
            return self.param(n)
        return expression(n, inlined)

    def row_source(self, text: str, indent: str) -> str:
        """A name for what a loop takes rows of."""
        if text.isidentifier():
            return text
        name = self.fresh("rows")
        self.lines.append(f"{indent}{name} = {text}")
        return name

    def kept(self, text: str, carried: Sequence[str], indent: str) -> str:
        """`text` as it is before the carried names change, under a name of its own if it reads any of them."""
        if not set(re.findall(r"\w+", text)) & set(carried):
            return text
        name = self.fresh("before")
        self.lines.append(f"{indent}{name} = {text}")
        return name

    def param(self, n: Node, index: str = "") -> str:
        """`param_weight([64, 3], f32) as "layers.0"`; a row of a stacked one as "layers.{index}"."""
        scope, _, last = str(n.attr("name")).replace("{i}", f"{{{index}}}").rpartition(".")
        self.declared[last] = None
        shape = n.type.shape[1:] if index else n.type.shape
        call = f"{_declarer(last)}({_list(shape)}, {n.type.dtype})"
        return f"{call} as {json.dumps(scope)}" if scope else call

    def loop(self, n: Node, inlined: _Inlined, indent: str) -> None:
        """A `repeat`: carried names are assigned together at its end."""
        trips, carry, xs = loop_counts(dict(n.attrs))
        region = n.regions[0]
        inside = [i.out for i in region.inputs]
        index = self.fresh("i")
        carried = [self.fresh("state") for _ in range(carry)]
        for name, a in zip(carried, n.args, strict=False):
            self.lines.append(f"{indent}{name} = {inlined.tensor(a)}")
        names = {inside[0]: index, **dict(zip(inside[1:], carried, strict=False))}
        declared: list[str] = []
        for k, (v, a) in enumerate(zip(inside[1 + carry :], n.args[carry:], strict=True)):
            source = inlined.graph.producers[a]
            if source.op == "param" and source.attr("stack"):
                names[v] = self.fresh(str(source.attr("name")).rpartition(".")[2])
                declared.append(f"{indent}    {names[v]} = {self.param(source, index)}")
            elif k < xs:
                names[v] = f"{self.row_source(inlined.named(a), indent)}[{index}]"
            else:
                names[v] = inlined.named(a)
        stacked = [self.fresh(f"ys_{index}") for _ in n.outs[carry:]]
        head = f"{', '.join(stacked)} = " if stacked else ""
        self.lines.append(f"{indent}{head}repeat {index} in range({trips}):")
        inner = indent + "    "
        at = len(self.lines)
        self.lines += declared
        self.body(region, names, inner, ())
        inside_names = _Inlined(region, names)
        after = [inside_names.tensor(v) for v in region.outputs]
        if carry:
            after[carry:] = [self.kept(text, carried, inner) for text in after[carry:]]
            self.lines.append(f"{inner}{', '.join(carried)} = {', '.join(after[:carry])}")
        if stacked:
            self.lines.append(f"{inner}yield {', '.join(after[carry:])}")
        if len(self.lines) == at:
            self.lines.append(f"{inner}pass")
        inlined.names.update(zip(n.outs, (*carried, *stacked), strict=True))


def _declarer(last: str) -> str:
    """The name of the fn that declares parameters called `last`."""
    return f"param_{last}"


def json_doc(text: str) -> str:
    """A doc string."""
    plain = text.replace("\\", "/").replace('"""', "'''").strip()
    return f'"""{plain}"""' if not plain.endswith('"') else f'"""{plain} """'


# ---- what is written where it is read ------------------------------------------------------------


class _Inlined:
    """How values of one graph are written: names, and numbers and broadcasts in the place where they are read."""

    def __init__(self, graph: Graph, names: dict[int, str]) -> None:
        self.graph, self.names = graph, names
        self.spread = self._spread()

    def takes(self, n: Node) -> bool:
        """Whether `n` needs no statement: all who read it write it in place."""
        return n.op == "full" or n.outs[0] in self.spread

    def _spread(self) -> set[int]:
        """Broadcasts that their one reader makes by itself; where a reader cannot, its operands are named."""
        users, outputs = self.graph.users, set(self.graph.outputs)
        made = [n for n in self.graph.nodes if n.op == "broadcast" and _right_aligned(n) and n.out not in outputs]
        self.spread = {n.out for n in made if [r.op in _SPREADS for r in users[n.out]] == [True]}
        readers = {r.outs[0]: r for v in self.spread for r in users[v]}
        while True:
            wrong = [r for r in readers.values() if self._common(r) != self.graph.types[r.out].shape]
            lost = self.spread & {a for r in wrong for a in r.args}
            if not lost:
                return self.spread
            self.spread -= lost

    def _common(self, reader: Node) -> tuple[int, ...] | None:
        """The shape that the language would broadcast the operands of `reader` to, as they will be written."""
        shapes = [s for a in reader.args if (s := self._written(a)) is not None]
        if not shapes:
            return None
        rank = max(map(len, shapes))
        out: list[int] = []
        for i in range(-rank, 0):
            sizes = {int(s[i]) for s in shapes if len(s) >= -i} - {1}
            if len(sizes) > 1:
                return None
            out.append(sizes.pop() if sizes else 1)
        return tuple(out)

    def _written(self, v: int) -> tuple[int, ...] | None:
        """The shape of operand `v` if it is written in place; None for a number."""
        n = self.graph.producers[v]
        if n.op == "full" and v not in self.names and _number_of(n) is not None:
            return None
        return self.graph.types[n.args[0] if v in self.spread else v].shape

    def operand(self, v: int, reader: Node) -> str:
        """`v` as an operand of an elementwise op: a number, what is broadcast, or a name."""
        n = self.graph.producers[v]
        if n.op == "full" and v not in self.names and self._scalar_fits(reader):
            number = _number_of(n)
            if number is not None:
                return number
        if v in self.spread:
            return self.named(n.args[0])
        return self.named(v)

    def _scalar_fits(self, reader: Node) -> bool:
        """Whether numbers may stand for literals: the other operands give the shape and dtype."""
        # The language squares by a product where a tensor is raised to the number 2.
        fits = reader.op in (*_SPREADS, "select") and reader.op != "pow"
        return fits and self._common_for(reader) == self.graph.types[reader.out].shape

    def _common_for(self, reader: Node) -> tuple[int, ...] | None:
        if reader.op != "select":
            return self._common(reader)
        values = [a for a in reader.args[1:] if self.graph.producers[a].op != "full"]
        return self.graph.types[reader.out].shape if values else None

    def named(self, v: int) -> str:
        """`v` where a tensor is wanted: its name, or a literal."""
        if v in self.names:
            return self.names[v]
        n = self.graph.producers[v]
        assert n.op == "full", f"{n.op} has no name"
        return _full(n)

    def tensor(self, v: int) -> str:
        """`v` as a tensor of its own."""
        return self.named(v)


def _right_aligned(n: Node) -> bool:
    dims, shape = n.attr("dims"), n.attr("shape")
    assert isinstance(dims, tuple) and isinstance(shape, tuple)
    return dims == tuple(range(len(shape) - len(dims), len(shape)))


def _number_of(n: Node) -> str | None:
    """A literal as the number that may stand for it; None for a bool."""
    return None if n.type.dtype.kind == "bool" else _number(n.attr("value"), n.type.dtype)


def _full(n: Node) -> str:
    value, d = n.attr("value"), n.type.dtype
    if d.kind == "bool":
        return f"full({_list(n.type.shape)}, {str(bool(value)).lower()}, bool)"
    return f"full({_list(n.type.shape)}, {_number(value, d)}, {d})"


def _number(value: Attr, d: DType) -> str:
    """A number of `d`."""
    assert isinstance(value, int | float)
    if d.is_float:
        return _float(float(value))
    whole = int(value)
    return f"({whole + 1} - 1)" if whole == -(2**63) else str(whole)


def _float(x: float) -> str:
    """`nan`, `-inf`, or what Python's repr gives, which reads back to the same double."""
    if math.isnan(x):
        return "nan"
    return ("inf" if x > 0 else "-inf") if math.isinf(x) else repr(x)


# ---- expressions ---------------------------------------------------------------------------------


def expression(n: Node, v: _Inlined) -> str:
    """The expression that makes node `n`."""
    if n.op in _WRITERS:
        return _WRITERS[n.op](n, v)
    if n.op in _INFIX:
        left, right = (v.operand(a, n) for a in n.args)
        return f"{_signed(left)} {_INFIX[n.op]} {_signed(right)}"
    if n.op in _CALLS:
        more = f", axis={_list(_ints(n, 'axes'))}" if n.op.startswith("reduce_") else ""
        return f"{_CALLS[n.op]}({', '.join(v.operand(a, n) for a in n.args)}{more})"
    return _by_name(n, v)


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _by_name(n: Node, v: _Inlined) -> str:
    """An op of the table under its own name, attributes by name where they are not the default."""
    row = OPS[n.op]
    parts = [v.named(a) for a in n.args]
    parts += [f"{s.name}={_attr(n.attr(s.name))}" for s in row.attrs if s.required or n.attr(s.name) != s.default]
    return f"{n.op}({', '.join(parts)})"


def _attr(value: Attr) -> str:
    match value:
        case bool() | None:
            return {True: "true", False: "false", None: "none"}[value]
        case float():
            return _float(value)
        case str():
            return json.dumps(value)
        case tuple():
            return f"[{', '.join(map(_attr, value))}]"
        case DType() | int():
            return str(value)
        case Array():
            return _array(value)


def _ints(n: Node, name: str) -> tuple[int, ...]:
    value = n.attr(name)
    assert isinstance(value, tuple)
    return value  # pyright: ignore[reportReturnType]


def _list(sizes: Sequence[int]) -> str:
    return f"[{', '.join(str(int(d)) for d in sizes)}]"


def _type(t: TensorType) -> str:
    return f"{t.dtype}{_list(t.shape)}"


def _array(value: Array) -> str:
    array = array_of(value)
    d = value.type.dtype

    def nested(part: object) -> str:
        if isinstance(part, list):
            return f"[{', '.join(map(nested, part))}]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if d.kind == "bool":
            return str(bool(part)).lower()
        return _number(float(part) if d.is_float else int(part), d)  # type: ignore[arg-type]

    return f"{d}({nested(array.tolist())})"


def _div(n: Node, v: _Inlined) -> str:
    left, right = (v.operand(a, n) for a in n.args)
    return f"{_signed(left)} / {_signed(right)}" if n.type.dtype.is_float else f"div({left}, {right})"


def _logic(word: str, call: str) -> Callable[[Node, _Inlined], str]:
    def write(n: Node, v: _Inlined) -> str:
        parts = [v.operand(a, n) for a in n.args]
        return f" {word} ".join(parts) if n.type.dtype.kind == "bool" else f"{call}({', '.join(parts)})"

    return write


def _not(n: Node, v: _Inlined) -> str:
    x = v.named(n.args[0])
    return f"not {x}" if n.type.dtype.kind == "bool" else f"bit_not({x})"


def _broadcast(n: Node, v: _Inlined) -> str:
    shape = _list(_ints(n, "shape"))
    if _right_aligned(n):
        return f"broadcast_to({v.named(n.args[0])}, {shape})"
    return f"broadcast({v.named(n.args[0])}, shape={shape}, dims={_list(_ints(n, 'dims'))})"


def _slice(n: Node, v: _Inlined) -> str:
    """`x[:, 2:5]`, or by name where indexing would leave the slice out."""
    x = v.graph.types[n.args[0]]
    rows = list(zip(_ints(n, "starts"), _ints(n, "stops"), _ints(n, "steps"), x.shape, strict=True))
    parts = [_range(*row) for row in rows]
    while parts and parts[-1] == ":":
        parts.pop()
    if not parts or any(a >= d > 0 for a, _, _, d in rows):
        return _by_name(n, v)
    return f"{v.named(n.args[0])}[{', '.join(parts)}]"


def _range(start: int, stop: int, step: int, size: int) -> str:
    first = str(int(start)) if start else ""
    last = str(int(stop)) if stop != size else ""
    return f"{first}:{last}" + (f":{step}" if step != 1 else "")


def _constant(n: Node, v: _Inlined) -> str:
    value = n.attr("value")
    assert isinstance(value, Array)
    if not value.type.rank or not value.type.size:
        number = 0 if not value.type.size else array_of(value).reshape(()).item()
        number = bool(number) if value.type.dtype.kind == "bool" else number
        shown = str(number).lower() if isinstance(number, bool) else _number(number, value.type.dtype)
        return f"full({_list(value.type.shape)}, {shown}, {value.type.dtype})"
    return _array(value)


def _window(n: Node) -> str:
    low, high = _ints(n, "low"), _ints(n, "high")
    pads = f", pad=[{', '.join(_list(p) for p in zip(low, high, strict=True))}]" if any((*low, *high)) else ""
    dilations = _ints(n, "dilations")
    more = f", dilation={_list(dilations)}" if any(d != 1 for d in dilations) else ""
    return f", stride={_list(_ints(n, 'strides'))}{pads}{more}"


def _conv(n: Node, v: _Inlined) -> str:
    more = "" if n.attr("groups") == 1 else f", groups={n.attr('groups')}"
    more += "" if n.attr("precision") == "highest" else f', precision="{n.attr("precision")}"'
    more += "" if n.attr("dtype") is None else f", dtype={n.attr('dtype')}"
    more += ", channels_last=true" if n.attr("channels_last") else ""
    return f"conv({v.named(n.args[0])}, {v.named(n.args[1])}{_window(n)}{more})"


def _reduce_window(n: Node, v: _Inlined) -> str:
    call = {"max": "max_pool", "sum": "sum_pool"}.get(str(n.attr("op")))
    if call is None:
        return _by_name(n, v)
    return f"{call}({v.named(n.args[0])}, {_list(_ints(n, 'window'))}{_window(n)})"


def _matmul(n: Node, v: _Inlined) -> str:
    a, c = (v.named(x) for x in n.args)
    if n.attr("dtype") is None and n.attr("precision") == "highest":
        return f"{a} @ {c}"
    more = "" if n.attr("dtype") is None else f", dtype={n.attr('dtype')}"
    more += "" if n.attr("precision") == "highest" else f', precision="{n.attr("precision")}"'
    return f"matmul({a}, {c}{more})"


def _select(n: Node, v: _Inlined) -> str:
    test, x, y = n.args
    return f"where({v.named(test)}, {v.operand(x, n)}, {v.operand(y, n)})"


def _pad(n: Node, v: _Inlined) -> str:
    value = n.attr("value")
    shown = str(value).lower() if isinstance(value, bool) else _number(value, n.type.dtype)
    more = "" if value == 0 and not isinstance(value, bool) and shown != "-0.0" else f", value={shown}"
    return f"pad({v.named(n.args[0])}, low={_list(_ints(n, 'low'))}, high={_list(_ints(n, 'high'))}{more})"


_WRITERS: Mapping[str, Callable[[Node, _Inlined], str]] = {
    "div": _div,
    "and": _logic("and", "bit_and"),
    "or": _logic("or", "bit_or"),
    "not": _not,
    "neg": lambda n, v: f"-{v.named(n.args[0])}",
    "convert": lambda n, v: f"{n.type.dtype}({v.named(n.args[0])})",
    "broadcast": _broadcast,
    "reshape": lambda n, v: f"reshape({v.named(n.args[0])}, {_list(n.type.shape)})",
    "transpose": lambda n, v: f"transpose({v.named(n.args[0])}, {_list(_ints(n, 'perm'))})",
    "slice": _slice,
    "concat": lambda n, v: f"concat([{', '.join(v.named(a) for a in n.args)}], axis={n.attr('axis')})",
    "reverse": lambda n, v: f"reverse({v.named(n.args[0])}, axis={_list(_ints(n, 'axes'))})",
    "constant": _constant,
    "full": lambda n, v: _full(n),
    "iota": lambda n, v: f"iota({_list(n.type.shape)}, axis={n.attr('axis')}, dtype={n.type.dtype})",
    "conv": _conv,
    "reduce_window": _reduce_window,
    "matmul": _matmul,
    "select": _select,
    "pad": _pad,
}
