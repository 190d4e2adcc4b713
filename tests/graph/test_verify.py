"""The verifier says every breach in a sentence."""

from collections.abc import Sequence

import pytest
from graph_examples import sample
from tdslc.compiler.graph import DTYPES, Array, Attr, Builder, Dim, Graph, Node, TensorType, make_attrs, verify

F32, I32, BOOL = DTYPES["f32"], DTYPES["i32"], DTYPES["bool"]
T = TensorType(F32, (2,))
INDEX = TensorType(I32, ())


def node(
    op: str, args: Sequence[int], outs: Sequence[int], attrs: dict[str, Attr] | None = None, *types: TensorType
) -> Node:
    return Node(op, tuple(args), make_attrs(attrs or {}), types or (T,) * len(outs), tuple(outs))


def leaf(out: int, name: str = "x", t: TensorType = T, op: str = "input") -> Node:
    more: dict[str, Attr] = {"stack": 0} if op == "param" else {}
    return node(op, (), (out,), {"name": name, "dtype": t.dtype, "shape": t.shape, **more}, t)


def graph(*nodes: Node, outputs: Sequence[int] = (), names: Sequence[str] = ()) -> Graph:
    return Graph("g", nodes, tuple(outputs), tuple(names))


def inside(*regions: Graph) -> Node:
    return Node("wrap", (0,), (), (T,), (1,), regions)


def test_the_sample_is_well_formed() -> None:
    assert verify(sample()) == []


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (graph(node("neg", (0,), (1,))), "%1 = neg reads %0, which is not made before it"),
        (graph(leaf(0), node("neg", (0,), (0,))), "%0 = neg makes %0 a second time"),
        (graph(leaf(0), node("neg", (0,), (1, 1))), "%1 = neg makes %1 a second time"),
        (graph(leaf(0), node("neg", (0,), ())), "%? = neg makes 0 values of 0 types"),
        (graph(leaf(0), Node("neg", (0,), (), (T, T), (1,))), "%1 = neg makes 1 values of 2 types"),
        (graph(leaf(0), node("no op", (0,), (1,))), "%1 = no op: 'no op' is not a word"),
        (graph(leaf(0), node("nothing", (0,), (1,))), "%1 = nothing: no op is called nothing"),
        (graph(leaf(0), node("neg", (0,), (1,), {"axis": 1})), "%1 = neg: attributes are ['axis']"),
        (graph(leaf(0), node("transpose", (0,), (1,))), "%1 = transpose: attributes are []"),
        (
            graph(leaf(0), node("transpose", (0,), (1,), {"perm": 0})),
            "%1 = transpose: perm must be of kind ints, got 0",
        ),
        (
            graph(Node("input", (), (("name", "x"), ("dtype", F32), ("shape", (2,))), (T,), (0,))),
            "%0 = input: attributes are not sorted",
        ),
        (
            graph(leaf(0), node("neg", (0,), (1,), None, TensorType(F32, (3,)))),
            "%1 = neg is typed f32[3], but neg gives f32[2]",
        ),
        (graph(leaf(0), node("neg", (0, 0), (1,))), "%1 = neg: neg takes 1 operand (x), got 2"),
        (graph(leaf(0, t=TensorType(F32, (Dim(2, "a=b"),)))), "%0 = input: 'a=b' is not a dim's expression"),
        (graph(leaf(0), leaf(1)), "two leaves are called x"),
        (graph(leaf(0), leaf(1, op="param")), "two leaves are called x"),
        (graph(leaf(0), outputs=[1]), "output %1 is never made"),
        (graph(leaf(0), outputs=[0, 0], names=["y"]), "1 output names for 2 outputs"),
        (
            graph(node("constant", (), (0,), {"value": Array(T, b"1234")})),
            "%0 = constant: a literal f32[2] has 8 bytes, got 4",
        ),
        (
            graph(node("constant", (), (0,), {"value": Array(TensorType(BOOL, (1,)), b"2")}, TensorType(BOOL, (1,)))),
            "%0 = constant: a literal bool is a byte of 0 or 1",
        ),
        (graph(leaf(0), inside()), "%1 = wrap: no op is called wrap"),
        (
            graph(leaf(0), inside(graph(leaf(0), outputs=[0]), graph(leaf(0), outputs=[0]))),
            "%1 = wrap: no op is called wrap",
        ),
        (
            graph(leaf(0), inside(graph(leaf(0), leaf(1, "w", op="param"), outputs=[0]))),
            "%1 = wrap: in its region: %1 = param is a param in a region",
        ),
        (
            graph(leaf(0), inside(graph(node("neg", (0,), (1,)), outputs=[1]))),
            "%1 = wrap: in its region: %1 = neg reads %0, which is not made before it",
        ),
        (
            graph(leaf(0), Node("neg", (0,), (), (T,), (1,), (graph(leaf(0), outputs=[0]),))),
            "%1 = neg: neg takes no region, got 1",
        ),
    ],
)
def test_breaches(broken: Graph, message: str) -> None:
    assert verify(broken) == [message]


def test_every_breach_is_told() -> None:
    faults = verify(graph(leaf(0), node("neg", (0, 0), (1,)), node("nothing", (0,), (2,)), outputs=[7]))
    assert [f.split(":")[0] for f in faults] == ["%1 = neg", "%2 = nothing", "output %7 is never made"]


# ---- loops ---------------------------------------------------------------------------------------


def loop(body: Graph, n: int = 3, carry: int = 1, xs: int = 0, t: TensorType = T) -> Graph:
    attrs: dict[str, Attr] = {"n": n, "carry": carry, "xs": xs}
    return graph(leaf(0, t=t), Node("loop", (0,), make_attrs(attrs), (T,), (1,), (body,)))


def body(t: TensorType = T, out: TensorType | None = None, index: TensorType = INDEX) -> Graph:
    b = Builder("body")
    b.input("i", index)
    c = b.input("c", t)
    return b.finish([c if out is None else b.full(0, out.dtype, out.shape)])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (loop(body(index=TensorType(F32, ()))), "the body takes (f32[], f32[2]) but is given (i32[], f32[2])"),
        (loop(body(TensorType(F32, (3,)))), "the body takes (i32[], f32[3]) but is given (i32[], f32[2])"),
        (loop(body(out=TensorType(F32, (3,)))), "carried value 0 enters as f32[2] and leaves as f32[3]"),
        (loop(body(), n=-1), "1 carried values and 0 xs do not fit 1 operands"),
        (loop(body(), carry=2), "2 carried values and 0 xs do not fit 1 operands"),
        (loop(body(), carry=0, xs=1), "xs need 3 elements along axis 0, got f32[2]"),
        (
            loop(Graph("b", body().nodes, ())),
            "the body returns 0 values; it must return the 1 carried and one at least",
        ),
    ],
)
def test_loops(broken: Graph, message: str) -> None:
    assert verify(broken) == [f"%1 = loop: {message}"]


def test_a_loop_is_fine() -> None:
    assert verify(loop(body())) == []
