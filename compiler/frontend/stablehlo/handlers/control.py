"""Control: while, if, case, calls, composites, custom calls by name."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph import Builder, TensorType, forms
from ....graph.dtypes import BOOL, I32
from ..call import Call, Handler
from ..syntax import Symbol

# Custom calls whose one result is their one operand: they annotate.
_IDENTITIES = {
    "Sharding": "shardings are passed over: the model is imported for one device",
    "annotate_device_placement": "device placements are passed over",
    "LayoutConstraint": "layout constraints are passed over",
}
_COLLECTIVE = "import the program of one device, before it is partitioned"


def _while(call: Call) -> Sequence[int]:
    args = call.arity(1, 1 << 12)
    (cond, body), captures = call.scope.closed([(call.block(0), call.types), (call.block(1), call.types)], call.op.name)
    if [str(t) for t in cond.output_types] != ["bool[]"]:
        call.refuse("has a condition that does not give one i1")
    if body.output_types != call.types:
        call.refuse("has a body that does not give the types it takes")
    return forms.while_loop(call.b, args, captures, cond, body)


def _if(call: Call) -> Sequence[int]:
    (test,) = call.arity(1)
    if call.type().dtype != BOOL or call.type().rank:
        call.refuse(f"is decided by {call.type()}, not by an i1")
    (then, otherwise), captures = call.scope.closed([(call.block(0), ()), (call.block(1), ())], call.op.name)
    return call.b.add("cond", (test, *captures), regions=(then, otherwise))


def _case(call: Call) -> Sequence[int]:
    (index,) = call.arity(1)
    if call.type().dtype != I32 or call.type().rank or not call.op.regions:
        call.refuse(f"is decided by {call.type()} among {len(call.op.regions)} branches")
    branches, captures = call.scope.closed([(block, ()) for block in call.op.regions], call.op.name)
    return forms.case(call.b, index, captures, branches)


def _scan(call: Call) -> Sequence[int]:
    """chlo.scan: its region takes an element of each input along `dimension` and the carries, and gives the like."""
    b, n = call.b, _inputs(call)
    xs, inits, axis = call.args[:n], call.args[n:], call.int("dimension")
    if any(not 0 <= axis < b.types[x].rank or b.types[x].shape[axis] != call.type().shape[axis] for x in xs):
        call.refuse(f"scans axis {axis} of {', '.join(str(b.types[x]) for x in xs)}")
    back = call.flag("is_reverse")
    rows = [forms.moveaxis(b, x, axis, 0) for x in xs]
    rows = [b.one("reverse", r, axes=(0,)) for r in rows] if back else rows
    elements = [b.types[r].with_shape(b.types[r].shape[1:]) for r in rows]
    if len(call.gives) < len(inits):
        call.refuse(f"gives {len(call.gives)} results and carries {len(inits)}")
    outs, carries = len(call.gives) - len(inits), [b.types[v] for v in inits]
    rows_out = [t.with_shape(d for i, d in enumerate(t.shape) if i != axis) for t in call.gives[:outs]]
    region = call.region([*elements, *carries], [*rows_out, *carries])
    inner = Builder("scan", b.loc)
    inner.input("i", TensorType(I32, ()))
    carried = [inner.input(f"c{i}", b.types[v]) for i, v in enumerate(inits)]
    given = [inner.input(f"x{i}", t) for i, t in enumerate(elements)]
    made = inner.inline(region, (*given, *carried))
    body = inner.finish((*made[outs:], *made[:outs]))
    attrs = {"n": int(call.type().shape[axis]), "carry": len(inits), "xs": len(rows)}
    done = b.add("loop", (*inits, *rows), attrs, regions=(body,))
    ys = [b.one("reverse", y, axes=(0,)) if back else y for y in done[len(inits) :]]
    return (*(forms.moveaxis(b, y, 0, axis) for y in ys), *done[: len(inits)])


def _inputs(call: Call) -> int:
    """How many of the operands are inputs; the rest are initial values."""
    sizes = call.value("operandSegmentSizes", "operand_segment_sizes")
    n = call.as_ints(sizes, "operandSegmentSizes")[0] if sizes is not None else call.int("inits")
    if not 1 <= n <= len(call.args):
        call.refuse(f"has {n} inputs among {len(call.args)} operands")
    return n


def _call(call: Call) -> Sequence[int]:
    return _inlined(call, call.value("callee"))


def _composite(call: Call) -> Sequence[int]:
    """A composite is its decomposition; its name tells other compilers of a shortcut."""
    return _inlined(call, call.value("decomposition"))


def _inlined(call: Call, name: object) -> Sequence[int]:
    found = call.scope.session.module.functions.get(name.name) if isinstance(name, Symbol) else None
    if found is None:
        call.refuse(f"calls {f'@{name.name}' if isinstance(name, Symbol) else 'nothing'}, which the text does not hold",
                    "give the text of the whole module", "E1104")  # fmt: skip
    return call.scope.call(found, call.args)


def _custom_call(call: Call) -> Sequence[int]:
    name = call.word("call_target_name")
    if name not in _IDENTITIES or len(call.args) != 1:
        help = "export the model without it, e.g. for JAX's CPU platform"
        call.refuse(f"@{name or '?'} is code of another runtime", help, "E1105")
    call.scope.session.notes[_IDENTITIES[name]] = None
    return call.args


def _refused(why: str, help: str) -> Handler:
    def run(call: Call) -> Sequence[int]:
        call.refuse(why, help, "E1105")

    return run


_COLLECTIVES = (
    "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "collective_reduce",
    "reduce_scatter", "cross-replica-sum",
)  # fmt: skip
_EFFECTS = ("infeed", "outfeed", "send", "recv", "after_all", "create_token", "async_start", "async_done")

TABLE: dict[str, Handler] = {
    "stablehlo.while": _while,
    "stablehlo.if": _if,
    "stablehlo.case": _case,
    "chlo.scan": _scan,
    "func.call": _call,
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.rng": _refused("makes numbers by no stated algorithm", "use rng_bit_generator, or an input"),
    **{f"stablehlo.{name}": _refused("speaks to other devices", _COLLECTIVE) for name in _COLLECTIVES},
    **{f"stablehlo.{name}": _refused("has side effects", "export the pure part of the model") for name in _EFFECTS},
    **{f"stablehlo.{name}": _refused("works on quantised types, which are out of scope", "export integer operations")
       for name in ("uniform_quantize", "uniform_dequantize")},
    **{f"stablehlo.{name}": _refused("works on complex numbers, which are out of scope", "use real and imaginary parts")
       for name in ("complex", "real", "imag", "fft")},
}  # fmt: skip
