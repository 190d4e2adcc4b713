"""Lowered functions compute what Python's integers and NumPy's floats say, for every kind and construct."""

import operator
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tdslc.targets.wse.chip import load
from tdslc.targets.wse.mesh.ir import Image
from tdslc.targets.wse.mesh.lower import lower
from tdslc.targets.wse.mesh.verify import verify
from wse_case import placed
from wse_eval import Fault, Machine

_WAFER = load("wse3").value
_INTS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")


def lowered(text: str, folder: Path) -> Image:
    """The image of one PE that runs `text`."""
    image = lower(placed(text, folder), _WAFER)
    assert verify(image) == []
    return image


def machine(program: str, folder: Path) -> Machine:
    """A PE whose functions named in `// EXPORT: a b` lines can be called."""
    names = [n for line in program.splitlines() if line.startswith("// EXPORT:") for n in line.split()[2:]]
    exports = "".join(f"  @export_symbol({name});\n" for name in names)
    return Machine(lowered(f"{program}\ncomptime {{\n{exports}}}\n", folder))


def functions(body: dict[str, str]) -> str:
    """A program of exported functions, by name what stands after it."""
    head = "// EXPORT: " + " ".join(body)
    return "\n".join([head, *(f"fn {name}{rest}" for name, rest in body.items())])


# ---- numbers -------------------------------------------------------------------------------------

_OPS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "and": "&", "or": "|", "xor": "^"}
_TESTS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_PYTHON = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def _dtype(name: str) -> np.dtype:
    return np.dtype({"i": f"int{name[1:]}", "u": f"uint{name[1:]}", "f": f"float{name[1:]}"}[name[0]])


def _wrapped(value: int, name: str) -> int:
    return int(np.array(value & (1 << int(name[1:])) - 1, np.uint64).astype(_dtype(name)))


@pytest.fixture(scope="module")
def arithmetic(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Machine]:
    """Makes machines with a function for each operation and kind."""
    made: dict[str, str] = {}
    for kind in (*_INTS, "f16", "f32"):
        for name, op in _OPS.items():
            if kind[0] != "f" or op in "+-*/":
                made[f"{name}_{kind}"] = f"(a: {kind}, b: {kind}) {kind} {{ return a {op} b; }}"
        for name, op in _TESTS.items():
            made[f"{name}_{kind}"] = f"(a: {kind}, b: {kind}) bool {{ return a {op} b; }}"
        made[f"neg_{kind}"] = f"(a: {kind}) {kind} {{ return -a; }}"
        if kind[0] != "f":
            made[f"not_{kind}"] = f"(a: {kind}) {kind} {{ return ~a; }}"
            made[f"shl_{kind}"] = f"(a: {kind}, b: u16) {kind} {{ return a << b; }}"
            made[f"shr_{kind}"] = f"(a: {kind}, b: u16) {kind} {{ return a >> b; }}"
        for other in (*_INTS, "f16", "f32", "bool"):
            if other != kind:
                made[f"to_{kind}_{other}"] = f"(a: {kind}) {other} {{ return @as({other}, a); }}"
    image = machine(functions(made), tmp_path_factory.mktemp("numbers")).image

    def make() -> Machine:
        return Machine(image)

    return make


def _ints(name: str) -> st.SearchStrategy[int]:
    info = np.iinfo(_dtype(name))
    edges = st.sampled_from([int(info.min), int(info.max), 0, 1, int(info.max) // 2])
    return edges | st.integers(int(info.min), int(info.max))


@given(st.data(), st.sampled_from(_INTS))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_integers_wrap(arithmetic: Callable[[], Machine], data: st.DataObject, kind: str) -> None:
    m = arithmetic()
    a, b = data.draw(_ints(kind)), data.draw(_ints(kind))
    for name, op in _OPS.items():
        if op in "/%":
            continue
        assert m.call(f"{name}_{kind}", a, b) == _wrapped(_PYTHON[op](a, b), kind), name
    for name, op in _TESTS.items():
        assert bool(m.call(f"{name}_{kind}", a, b)) == _PYTHON[op](a, b), name
    assert m.call(f"neg_{kind}", a) == _wrapped(-a, kind)
    assert m.call(f"not_{kind}", a) == _wrapped(~a, kind)
    by = data.draw(st.integers(0, int(kind[1:]) - 1))
    assert m.call(f"shl_{kind}", a, by) == _wrapped(a << by, kind)
    assert m.call(f"shr_{kind}", a, by) == a >> by


@given(st.data(), st.sampled_from(_INTS))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_division_goes_towards_zero(arithmetic: Callable[[], Machine], data: st.DataObject, kind: str) -> None:
    m = arithmetic()
    a, b = data.draw(_ints(kind)), data.draw(_ints(kind))
    if b == 0:
        for name in ("div", "rem"):
            with pytest.raises(Fault):
                m.call(f"{name}_{kind}", a, b)
        return
    quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
    assert m.call(f"div_{kind}", a, b) == _wrapped(quotient, kind)
    assert m.call(f"rem_{kind}", a, b) == _wrapped(a - quotient * b, kind)


@given(st.data(), st.sampled_from(["f16", "f32"]))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_floats(arithmetic: Callable[[], Machine], data: st.DataObject, kind: str) -> None:
    m, dtype = arithmetic(), _dtype(kind)
    a, b = (dtype.type(data.draw(st.floats(width=int(kind[1:])))) for _ in "ab")
    with np.errstate(all="ignore"):
        expected = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}
    for name, value in expected.items():
        np.testing.assert_array_equal(m.call(f"{name}_{kind}", a, b), value)
    for name, op in _TESTS.items():
        assert bool(m.call(f"{name}_{kind}", a, b)) == bool(_PYTHON[op](a, b)), name
    np.testing.assert_array_equal(m.call(f"neg_{kind}", a), -a)


@given(st.data(), st.sampled_from(_INTS), st.sampled_from((*_INTS, "f16", "f32", "bool")))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_integer_conversions(arithmetic: Callable[[], Machine], data: st.DataObject, source: str, target: str) -> None:
    if source == target:
        return
    a = data.draw(_ints(source))
    got = arithmetic().call(f"to_{source}_{target}", a)
    if target == "bool":
        assert bool(got) == (a != 0)
    elif target[0] == "f":
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, np.array(a, _dtype(source)).astype(_dtype(target)))
    else:
        assert got == _wrapped(a, target)


@given(
    st.floats(), st.integers(-70000, 70000), st.sampled_from(["f16", "f32"]), st.sampled_from((*_INTS, "f16", "f32"))
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_float_conversions(arithmetic: Callable[[], Machine], x: float, eighths: int, source: str, target: str) -> None:
    if source == target:
        return
    m, name = arithmetic(), f"to_{source}_{target}"
    with np.errstate(over="ignore"):
        a = _dtype(source).type(x if target[0] == "f" else eighths / 8)
        if target[0] == "f":
            np.testing.assert_array_equal(m.call(name, a), a.astype(_dtype(target)))
            return
    info = np.iinfo(_dtype(target))
    if int(info.min) <= float(a) <= int(info.max):
        assert m.call(name, a) == int(a)


# ---- control flow --------------------------------------------------------------------------------


def test_loops(tmp_path: Path) -> None:
    m = machine(
        functions({
            "sum": "(n: u16) u16 { var s: u16 = 0; for (@range(u16, n)) |i| { s += i; } return s; }",
            "down": "(n: i16) i16 { var s: i16 = 0; for (@range(i16, n, -3, -2)) |i, k| {"
            " s += i * @as(i16, k); } return s; }",
            "odd": "(n: i16) i16 { var s: i16 = 0; var i: i16 = 0; while (i < n) : (i += 1) {"
            " if (i % 2 == 0) continue; if (i > 20) break; s += i; } return s; }",
            "forever": "(n: i16) i16 { var i: i16 = 0; while (true) { i += 7; if (i > n) return i; } return 0; }",
            "nested": "(n: i16) i16 { var s: i16 = 0; for (@range(i16, n)) |i| { var j: i16 = 0;"
            " while (j < n) : (j += 1) { if (j > i) break; if (j == 2) continue; s += i * 10 + j; } } return s; }",
            "fib": "(n: i16) i32 { var a: i32 = 0; var b: i32 = 1; for (@range(i16, n)) |i| {"
            " const c = a + b; a = b; b = c; } return a; }",
        }),
        tmp_path,
    )  # fmt: skip
    assert m.call("sum", 10) == 45
    assert m.call("sum", 0) == 0
    assert m.call("down", 7) == sum(i * k for k, i in enumerate(range(7, -3, -2)))
    assert m.call("odd", 100) == sum(i for i in range(21) if i % 2)
    assert m.call("forever", 20) == 21
    assert m.call("nested", 5) == sum(i * 10 + j for i in range(5) for j in range(i + 1) if j != 2)
    assert m.call("fib", 30) == 832040


def test_lazy(tmp_path: Path) -> None:
    m = machine(
        "var calls: i16 = 0;\nfn yes(x: bool) bool { calls += 1; return x; }\n"
        + functions({
            "both": "(a: bool, b: bool) i16 { calls = 0; const r = yes(a) and yes(b);"
            " return if (r) calls + 10 else calls; }",
            "either": "(a: bool, b: bool) i16 { calls = 0; const r = yes(a) or yes(b);"
            " return if (r) calls + 10 else calls; }",
            "same": "(a: bool, b: bool) bool { var x = a; x = b and x; x = x or a; return !x; }",
            "pick": "(a: i16, b: i16) i16 { var x = a; x = if (a < b) x + 1 else x * 2; return x; }",
            "name": "(a: i16) i16 { switch (a) { 1, 2 => return 12, 3 => { return 30; }, else => return a } }",
        }),
        tmp_path,
    )  # fmt: skip
    for a in (False, True):
        for b in (False, True):
            assert m.call("both", a, b) == (1 if not a else 2) + 10 * (a and b)
            assert m.call("either", a, b) == (1 if a else 2) + 10 * (a or b)
            assert bool(m.call("same", a, b)) == (not ((b and a) or a))
    assert (m.call("pick", 3, 4), m.call("pick", 4, 3)) == (4, 8)
    assert [m.call("name", a) for a in (1, 2, 3, 9)] == [12, 12, 30, 9]


# ---- memory --------------------------------------------------------------------------------------


def test_arrays(tmp_path: Path) -> None:
    m = machine(
        "var g = [4]i16{ 1, 2, 3, 4 };\nvar grid: [2, 3]f32;\nconst table = [3]u32{ 10, 20, 30 };\n"
        + functions({
            "reverse": "() void { var a: [4]i16 = g; for (@range(u16, 4)) |i| { g[i] = a[3 - i]; } }",
            "at": "(i: i16) i16 { return g[i]; }",
            "element": "(i: u16) u32 { return table[i]; }",
            "zeros": "(n: u16) f32 { var a = @zeros([40]f32); for (@range(u16, n)) |i| { a[i] += 1.5; }"
            " var s: f32 = 0.0; for (a) |x| { s += x; } return s; }",
            "put": "(i: u16, j: u16, x: f32) f32 { grid[i, j] = x; return grid[i, 2] + x; }",
            "made": "(x: i16) i16 { const a = [3]i16{ x, x + 1, x * 2 }; var s: i16 = 0; "
            " for (a) |y| { s = s * 3 + y; } return s; }",
            "swap": "(x: i16, y: i16) i16 { var a = [2]i16{ x, y }; a = [2]i16{ a[1], a[0] };"
            " return a[0] * 100 + a[1]; }",
        }) + "\n// EXPORT: g\n",
        tmp_path,
    )  # fmt: skip
    m.call("reverse")
    assert m.read("g").tolist() == [4, 3, 2, 1]
    assert m.call("at", 3) == 1
    for i in (-1, 4, 32767):
        with pytest.raises(Fault):
            m.call("at", i)
    assert m.call("element", 2) == 30
    assert m.call("zeros", 40) == 60.0
    m.call("put", 1, 2, 2.5)
    assert m.call("put", 1, 0, 4.0) == 6.5
    assert m.call("made", 5) == ((5 * 3) + 6) * 3 + 10
    assert m.call("swap", 7, 9) == 907


def test_pointers(tmp_path: Path) -> None:
    m = machine(
        "var g = [4]i16{ 1, 2, 3, 4 };\n"
        "fn add(p: *i16, by: i16) void { p.* += by; }\nfn second(p: [*]i16) *i16 { return &p[1]; }\n"
        "fn fill(p: *[3]u16, x: u16) void { (p.*)[0] = x; (p.*)[1] = x + 1; (p.*)[2] = x + 2; }\n"
        + functions({
            "local": "(x: i16) i16 { var y = x; add(&y, 5); add(&y, x); return y; }",
            "formal": "(x: i16) i16 { const p = &x; return p.* * 2; }",
            "global": "(i: u16) i16 { add(&g[i], 100); second(&g).* += 1; return g[i]; }",
            "filled": "(x: u16) u16 { var a: [3]u16; fill(&a, x); return a[0] * a[1] + a[2]; }",
            "through": "(x: i16) i16 { var y = x; var p = &y; var q = &p; q.*.* += 1; p = &g[0];"
            " q.*.* = 50; return y; }",
            "behind": "(i: i16) i16 { const p = @ptrcast([*]i16, &g[2]); return p[i]; }",
            "size": "(x: f32) u32 { return @bitcast(u32, x) ^ @bitcast(u32, [2]u16{ 1, 2 }); }",
        }),
        tmp_path,
    )  # fmt: skip
    assert m.call("local", 7) == 19
    assert m.call("formal", -8) == -16
    assert m.call("global", 3) == 104
    assert m.call("global", 1) == 104
    assert m.call("filled", 5) == 37
    assert m.call("through", 3) == 4
    assert m.call("behind", -2) == 50
    assert m.call("size", 1.0) == 0x3F800000 ^ 0x00020001


def test_structs(tmp_path: Path) -> None:
    m = machine(
        "const pair = struct { a: i16, b: f32 };\nconst outer = struct { p: pair, n: u32, q: pair };\n"
        "const deep = struct { xs: [3]i16, y: i16 };\nvar held: outer;\n"
        "fn swap(x: outer) outer { return outer{ .p = x.q, .n = x.n + 1, .q = x.p }; }\n"
        "fn grown(d: deep) deep { var e = d; e.xs[1] += d.y; e.y = e.xs[1]; return e; }\n"
        + functions({
            "fields": "(x: i16) f32 { var s = pair{ .a = x, .b = 2.5 }; s.a += 1; s.b = s.b * @as(f32, s.a);"
            " return s.b; }",
            "crossed": "(x: i16, y: i16) i16 { var s = struct { a: i16, b: i16 }{ .a = x, .b = y };"
            " const T = @type_of(s); s = T{ .a = s.b, .b = s.a }; return s.a * 100 + s.b; }",
            "passed": "(x: i16) i16 { const o = outer{ .p = pair{ .a = x, .b = 1.0 }, .n = 4,"
            " .q = pair{ .a = 9, .b = 3.0 } };"
            " held = swap(swap(swap(o))); const r = held; return r.p.a * 100 + @as(i16, held.n) * 10 + held.q.a; }",
            "deeper": "(x: i16) i16 { var d = deep{ .xs = [3]i16{ 1, x, 3 }, .y = 7 }; const e = grown(grown(d));"
            " return e.y + d.y + grown(d).xs[1]; }",
            "pointed": "(x: i16) i16 { var s = pair{ .a = x, .b = 1.0 }; const p = &s.a; p.* += 3; return s.a; }",
            "chosen": "(x: bool) i16 { const a = pair{ .a = 1, .b = 1.0 }; var b = pair{ .a = 2, .b = 1.0 };"
            " b = if (x) a else b; return b.a; }",
        }),
        tmp_path,
    )  # fmt: skip
    assert m.call("fields", 3) == 10.0
    assert m.call("crossed", 3, 4) == 403
    assert m.call("passed", 5) == 900 + 70 + 5
    # grown(d): xs[1] = x + 7, y = x + 7; grown of that: xs[1] = 2x + 14.
    assert m.call("deeper", 2) == (2 * 2 + 14) + 7 + (2 + 7)
    assert m.call("pointed", 4) == 7
    assert (m.call("chosen", True), m.call("chosen", False)) == (1, 2)


def test_calls(tmp_path: Path) -> None:
    m = machine(
        "fn sub(a: i16, b: i16) i16 { return a - b; }\n"
        "fn total(a: [3]i16, k: i16) i16 { return (a[0] + a[1] + a[2]) * k; }\n"
        "var g = [3]i16{ 1, 2, 3 };\nfn spoil(a: [3]i16) i16 { g[0] = 50; return a[0]; }\n"
        + functions({
            "nested": "(x: i16) i16 { return sub(sub(x, 1), sub(sub(2, x), x)); }",
            "whole": "(x: i16) i16 { return total([3]i16{ x, 1, total(g, 2) }, 3); }",
            "kept": "() i16 { return spoil(g) * 100 + g[0]; }",
        }),
        tmp_path,
    )  # fmt: skip
    assert m.call("nested", 5) == (5 - 1) - ((2 - 5) - 5)
    assert m.call("whole", 5) == (5 + 1 + 12) * 3
    assert m.call("kept") == 150


def test_asserts_and_enums(tmp_path: Path) -> None:
    m = machine(
        "const color_kind = enum(u8) { red = 3, green, blue = 9 };\nvar kind = color_kind.green;\n"
        + functions({
            "check": "(x: i16) i16 { @assert(x > 3); return x; }",
            "code": "() u8 { return @get_int(kind); }",
            "is": "(x: u8) bool { kind = @as(color_kind, x); return kind == color_kind.blue; }",
        }),
        tmp_path,
    )  # fmt: skip
    assert m.call("check", 4) == 4
    with pytest.raises(Fault):
        m.call("check", 3)
    assert m.call("code") == 4
    assert bool(m.call("is", 9))
    assert not bool(m.call("is", 3))


# ---- random programs -----------------------------------------------------------------------------


@st.composite
def _expression(draw: st.DrawFn, depth: int) -> tuple[str, str]:
    """(CSL, Python) of an i32 expression over a, b and t[...]."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(
            st.sampled_from([("a", "a"), ("b", "b")])
            | st.integers(-9, 9).map(lambda n: (f"@as(i32, {n})", str(n)))
            | st.integers(0, 3).map(lambda n: (f"t[{n}]", f"t[{n}]"))
        )
    left, right = draw(_expression(depth=depth - 1)), draw(_expression(depth=depth - 1))
    kind = draw(st.integers(0, 5))
    if kind == 0:
        test = draw(_expression(depth=depth - 1))
        op = draw(st.sampled_from(["<", "==", ">="]))
        return (
            f"(if ({test[0]} {op} a) {left[0]} else {right[0]})",
            f"({left[1]} if {test[1]} {op} a else {right[1]})",
        )
    if kind == 1:
        return f"twice({left[0]}, {right[0]})", f"w(w(2 * {left[1]}) - {right[1]})"
    if kind == 2:
        op, word = draw(st.sampled_from([("and", "and"), ("or", "or")]))
        return (
            f"(if ({left[0]} < {right[0]} {op} b > a) {left[0]} else b)",
            f"({left[1]} if {left[1]} < {right[1]} {word} b > a else b)",
        )
    op = draw(st.sampled_from(["+", "-", "*", "&", "|", "^"]))
    return f"({left[0]} {op} {right[0]})", f"w({left[1]} {op} {right[1]})"


@st.composite
def _block(draw: st.DrawFn, depth: int, indent: int) -> tuple[list[str], list[str]]:
    """(CSL, Python) of statements over a, b, the array t and a loop."""
    csl, python = [], []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.integers(0, 5)) if depth else draw(st.integers(0, 2))
        e = draw(_expression(depth=2))
        pad = " " * indent
        if kind <= 1:
            target = draw(st.sampled_from(["a", "b", "t[0]", "t[3]"]))
            csl.append(f"{target} = {e[0]};")
            python.append(f"{pad}{target} = {e[1]}")
        elif kind == 2:
            csl.append(f"t[@as(u16, {e[0]} & 3)] += 1;")
            python += [f"{pad}k_ = {e[1]} & 3", f"{pad}t[k_] = w(t[k_] + 1)"]
        elif kind == 3:
            yes, no = draw(_block(depth=depth - 1, indent=indent + 1)), draw(_block(depth=depth - 1, indent=indent + 1))
            csl += [f"if ({e[0]} < b) {{", *yes[0], "} else {", *no[0], "}"]
            python += [f"{pad}if {e[1]} < b:", *yes[1], f"{pad}else:", *no[1]]
        else:
            inner = draw(_block(depth=depth - 1, indent=indent + 1))
            leave = draw(st.sampled_from(["break", "continue"]))
            n = draw(st.integers(0, 3))
            csl += [
                f"for (@range(i32, {n})) |k{depth}| {{",
                f"if ({e[0]} == 1) {leave};",
                f"a += k{depth};",
                *inner[0],
                "}",
            ]
            python += [
                f"{pad}for k{depth} in range({n}):",
                f"{pad} if {e[1]} == 1: {leave}",
                f"{pad} a = w(a + k{depth})",
            ]
            python += inner[1]
    return csl, python


def _w(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


@given(_block(depth=3, indent=1), st.integers(-20, 20), st.integers(-20, 20))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(tmp_path_factory: pytest.TempPathFactory, block: tuple, a: int, b: int) -> None:
    csl, python = block
    text = "fn twice(x: i32, y: i32) i32 { const z = 2 * x; return z - y; }\n" + functions(
        {"run": f"(a_: i32, b_: i32) i32 {{ var a = a_; var b = b_;"
         f" var t = [4]i32{{ 1, 2, 3, 4 }};\n{chr(10).join(csl)}\n"
         "return a ^ b ^ t[0] ^ t[1] ^ t[2] ^ t[3]; }"}
    )  # fmt: skip
    scope: dict[str, object] = {"w": _w}
    exec(
        "def run(a, b):\n t = [1, 2, 3, 4]\n" + "\n".join(python) + "\n return a ^ b ^ t[0] ^ t[1] ^ t[2] ^ t[3]", scope
    )
    m = machine(text, tmp_path_factory.mktemp("random"))
    m.budget = 1_000_000
    assert m.call("run", a, b) == scope["run"](a, b)  # type: ignore[operator]
