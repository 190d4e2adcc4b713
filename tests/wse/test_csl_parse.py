"""CSL text to syntax."""

import os
from pathlib import Path

import pytest
from tdslc.compiler.source import SourceFile, read_source
from tdslc.targets.wse.csl import syntax as s
from tdslc.targets.wse.csl.parse import MAX_CHAIN, MAX_NESTING, parse

# A folder with other people's programs (say a clone of Cerebras/sdk-examples): every .csl file in it must parse.
PUBLIC = os.environ.get("TDSLC_CSL_FOLDER")


def decls(text: str) -> tuple[s.Decl, ...]:
    module, problems = parse(SourceFile("a.csl", text))
    assert module is not None, problems
    return module.decls


def expression(text: str) -> s.Expr:
    (decl,) = decls(f"const x = {text};")
    assert isinstance(decl, s.Variable) and decl.value is not None
    return decl.value


def body(text: str) -> tuple[s.Stmt, ...]:
    (decl,) = decls(f"fn f() void {{ {text} }}")
    assert isinstance(decl, s.Function)
    return decl.body.body


def tree(e: s.Expr | None) -> str:
    match e:
        case None:
            return "None"
        case s.Name(_, id):
            return id
        case s.Literal(_, value):
            return repr(value)
        case s.Binary(_, op, _, left, right):
            return f"({tree(left)} {op} {tree(right)})"
        case s.Unary(_, op, operand):
            return f"{op}{tree(operand)}"
        case s.Conditional(_, test, yes, no):
            return f"if {tree(test)} then {tree(yes)} else {tree(no)}"
        case s.Index(_, base, indices):
            return f"{tree(base)}[{','.join(map(tree, indices))}]"
        case s.Member(_, base, name):
            return f"{tree(base)}.{name}"
        case s.Deref(_, base):
            return f"{tree(base)}.*"
        case s.Call(_, callee, args):
            return f"{tree(callee)}({','.join(map(tree, args))})"
        case _:
            return type(e).__name__


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a & b == c", "((a & b) == c)"),
        ("a | b << c + d", "(a | (b << (c + d)))"),
        ("a or b and c == d", "(a or (b and (c == d)))"),
        ("-a.b[i, j].*", "-a.b[i,j].*"),
        ("(p.*)[0]", "p.*[0]"),
        ("if (a) b else if (c) d", "if a then b else if c then d else None"),
        ("!f(a, b,)", "!f(a,b)"),
        ("0x_ff + 0b101 + 1_0 + 0o17", "(((255 + 5) + 10) + 15)"),
        ("1.5e-3", "0.0015"),
        ("'\\n'", "10"),
        (r'"a\"b\x41"', "'a\"bA'"),
        ("&a[0]", "&a[0]"),
    ],
)
def test_expressions_bind_as_in_zig(text: str, expected: str) -> None:
    assert tree(expression(text)) == expected


def test_initialisers_types_and_tensor_accesses() -> None:
    assert isinstance(expression(".{}"), s.Init)
    named = expression("Point{ .x = 1, .y = .{ 2, 3 } }")
    assert isinstance(named, s.Init) and [i.name for i in named.items if isinstance(i, s.Field)] == ["x", "y"]
    array = expression("[2, N]f32{ 1, 2 }")
    assert isinstance(array, s.Init) and isinstance(array.type, s.ArrayType) and len(array.type.dims) == 2
    access = expression("|i, j|{N, 4} -> A[i, j]")
    assert isinstance(access, s.Tensor) and access.indices == ("i", "j") and tree(access.access) == "A[i,j]"
    pointer = expression("[*]const f32")
    assert isinstance(pointer, s.PointerType) and pointer.many and pointer.const
    assert isinstance(expression("fn (i16, f32) void"), s.FunctionType)
    assert isinstance(expression("{}"), s.Empty)


def test_statements_without_braces() -> None:
    (one,) = body("if (a) x = 1 else if (b) return else { y = 2; }")
    assert isinstance(one, s.If) and isinstance(one.yes, s.Assign) and isinstance(one.no, s.If)
    (loop,) = body("while (i < n) : (i += 1) f(i);")
    assert isinstance(loop, s.While) and isinstance(loop.step, s.Assign) and loop.step.op == "+"
    (each,) = body("for (@range(i16, 4)) |_, k| { break; }")
    assert isinstance(each, s.For) and (each.item, each.index) == ("_", "k")
    (switch,) = body("switch (x) { 0, 1 => f(), else => { g(); } }")
    assert isinstance(switch, s.Switch) and [p.cases is None for p in switch.prongs] == [False, True]


def test_declarations() -> None:
    text = "param p; param q: i16 = 3; export var v: [4]f32 align(16) = @zeros([4]f32); task t(x: u32) void {}"
    p, q, v, t = decls(f"{text} comptime {{ }} layout {{ }}")[:4]
    assert isinstance(p, s.Param) and p.type is None and p.default is None
    assert isinstance(q, s.Param) and q.default is not None
    assert isinstance(v, s.Variable) and v.exported and v.align is not None
    assert isinstance(t, s.Function) and t.is_task and t.formals[0].name == "x"


@pytest.mark.parametrize(
    "text",
    [
        "const x = " + "(" * (MAX_NESTING + 1) + "1" + ")" * (MAX_NESTING + 1) + ";",
        "const x = " + " + ".join(["1"] * (MAX_CHAIN + 2)) + ";",
    ],
    ids=["brackets", "chain"],
)
def test_deep_texts_are_refused(text: str) -> None:
    _, problems = parse(SourceFile("a.csl", text))
    assert [p.code for p in problems] == ["E1002"]


@pytest.mark.skipif(PUBLIC is None, reason="set TDSLC_CSL_FOLDER to a folder with public CSL programs")
def test_public_programs_parse() -> None:
    files = sorted(Path(PUBLIC or ".").rglob("*.csl"))
    assert files
    assert [str(path) for path in files if parse(read_source(path))[1]] == []
