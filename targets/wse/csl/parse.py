"""Text to syntax: the LALR parser of grammar/csl.lark and what turns its trees into `syntax` values.

`parse` gathers: after a mistake it goes on at the next declaration that starts a line. Must not know what anything
means.
"""

# Lark is untyped where trees and tokens are generic.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias, cast

import lark
from lark import Lark, Token, Tree, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from ....compiler.source import Diagnostic, SourceFile, Span
from . import syntax as s

# The tree is walked by recursion later on; deeper texts are refused here.
MAX_NESTING = 100
# Operators of one chain `a + b + c`, which also nests.
MAX_CHAIN = 200
_MAX_FAULTS = 20
# Of a number; the widest type has 64 bits.
_MAX_DIGITS = 100
_GRAMMAR = "csl.lark"
_NEXT_DECLARATION = re.compile(r"^(?:fn|task|param|const|var|export|comptime|layout|inline)\b", re.MULTILINE)
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_SKIPPED = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "0": "\0"}
_WORDS = frozenset(
    (
        "and", "break", "comptime", "const", "continue", "else", "enum", "export", "false", "fn", "for", "if", "inline",
        "layout", "or", "param", "return", "struct", "switch", "task", "true", "undefined", "var", "while",
    )
)  # fmt: skip

AnyTree: TypeAlias = "Tree[Any]"


def parse(file: SourceFile) -> tuple[s.ModuleText | None, list[Diagnostic]]:
    """The module that `file` holds, or None and everything found wrong with its syntax (E1001, E1002)."""
    problems = _bracket_faults(file)
    if problems:
        return None, problems
    tree, problems = _trees(file)
    if tree is None:
        return None, problems
    builder = _Builder(file)
    module = cast(s.ModuleText, builder.transform(tree))
    return (None, builder.problems) if builder.problems else (module, [])


def _trees(file: SourceFile) -> tuple[AnyTree | None, list[Diagnostic]]:
    text, problems = file.text, list[Diagnostic]()
    while len(problems) < _MAX_FAULTS:
        try:
            tree = _parser().parse(text)
            return (None, problems) if problems else (tree, [])
        except UnexpectedInput as fault:
            offset = (
                min(fault.pos_in_stream, len(text))
                if fault.pos_in_stream is not None and fault.pos_in_stream >= 0
                else len(text)
            )
            problems.append(_explain(fault, file, offset))
        line_end = text.find("\n", offset)
        following = None if line_end < 0 else _NEXT_DECLARATION.search(text, line_end)
        if following is None:
            break
        # Offsets stay: what comes before is made blank.
        text = "".join(c if c == "\n" else " " for c in text[: following.start()]) + text[following.start() :]
    return None, problems


@cache
def _parser() -> Lark:
    grammar = (files(_room("grammar")) / _GRAMMAR).read_text(encoding="utf-8")
    kept = _cache_file()
    try:
        return _lark(grammar, kept or False)
    except OSError:
        # The cache saves half a second; a full or read-only disk must not cost the run.
        return _lark(grammar, False)


def _lark(grammar: str, kept: str | bool) -> Lark:
    return Lark(
        grammar, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=True, cache=kept
    )


def _room(name: str) -> str:
    """The package of a top level room: `tdslc.grammar` from `tdslc.targets.wse.csl`."""
    return ".".join((*__name__.split(".")[:-4], name))


def _cache_file() -> str | None:
    """Where the parser's tables are kept between runs (Lark checks that they are this grammar's), or None."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(home) / "tdslc"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder / f"csl-lark-{lark.__version__}") if os.access(folder, os.W_OK) else None


# ---- mistakes ------------------------------------------------------------------------------------


def _bracket_faults(file: SourceFile) -> list[Diagnostic]:
    """Brackets that do not match or nest too deeply: told first, as the parser would tell of their consequences."""
    open_: list[tuple[str, int]] = []
    text = _SKIPPED.sub(lambda m: " " * len(m[0]), file.text)
    for found in re.finditer(r"[()\[\]{}]", text):
        bracket, at = found[0], found.start()
        if bracket in _BRACKETS:
            open_.append((bracket, at))
            if len(open_) > MAX_NESTING:
                return [Diagnostic("E1002", f"brackets are nested more than {MAX_NESTING} deep", file.span(at, at + 1))]
        elif not open_ or _BRACKETS[open_[-1][0]] != bracket:
            what = (
                f"`{open_[-1][0]}` is open here and `{bracket}` closes it" if open_ else f"`{bracket}` closes nothing"
            )
            return [Diagnostic("E1001", what, file.span(at, at + 1))]
        else:
            open_.pop()
    return [Diagnostic("E1001", f"`{b}` is never closed", file.span(at, at + 1)) for b, at in open_[-1:]]


def _explain(fault: UnexpectedInput, file: SourceFile, offset: int) -> Diagnostic:
    """What stopped the parser at `offset`, in the terms of who wrote it."""
    if isinstance(fault, UnexpectedCharacters):
        return Diagnostic("E1001", f"`{file.text[offset]}` has no meaning in CSL", file.span(offset, offset + 1))
    expected: set[str] = set(fault.accepts or fault.expected) if isinstance(fault, UnexpectedToken) else set[str]()
    ended = isinstance(fault, UnexpectedEOF) or (isinstance(fault, UnexpectedToken) and fault.token.type == "$END")
    word = "" if ended else str(cast(UnexpectedToken, fault).token)
    here = file.span(offset, min(offset + max(len(word), 1), len(file.text))) if not ended else _end(file)
    before = _before(file, here.start)
    if "SEMICOLON" in expected and (ended or _starts_line(file, here.start) or word == "}"):
        return Diagnostic("E1001", "a `;` is missing at the end of this statement", before)
    if word in _WORDS and "NAME" in expected and "BUILTIN" not in expected:
        return Diagnostic("E1001", f"`{word}` has a meaning of its own and cannot be a name", here)
    if word == "=" and "COMPARE" in expected:
        return Diagnostic("E1001", "`=` stands where a value is due", here, help="write `==` to compare")
    if "STRUCT" in expected and "INT" not in expected:
        return Diagnostic("E1001", f"a type is missing before {_told(word, ended)}", here)
    if {"COMMA", "PLUS"} <= expected and re.fullmatch(r'[\w."@\']+', word):
        return Diagnostic("E1001", f"an operator or a comma is missing before {_told(word, ended)}", here)
    if {"NAME", "INT"} <= expected:
        return Diagnostic("E1001", f"a value is missing before {_told(word, ended)}", here)
    return Diagnostic("E1001", f"{_told(word, ended)} cannot stand here", here, help=_could(expected))


def _told(word: str, ended: bool) -> str:
    return "the end of the text" if ended else f"`{word}`"


_SHOWN = {
    "SEMICOLON": "`;`", "LPAR": "`(`", "RPAR": "`)`", "LBRACE": "`{`", "RBRACE": "`}`", "RSQB": "`]`", "COMMA": "`,`",
    "COLON": "`:`", "EQUAL": "`=`", "NAME": "a name", "BAR": "`|`", "__ANON_0": "`->`", "__ANON_1": "`=>`",
}  # fmt: skip


def _could(expected: set[str]) -> str | None:
    """What could stand instead, when that is a short list."""
    names = [_SHOWN[e] for e in sorted(expected) if e in _SHOWN]
    if not names or len(expected) > 4:
        return None
    return f"expected {' or '.join(names)}"


def _starts_line(file: SourceFile, offset: int) -> bool:
    return not file.text[file.text.rfind("\n", 0, offset) + 1 : offset].strip()


def _end(file: SourceFile) -> Span:
    size = len(file.text.rstrip())
    return file.span(size, size)


def _before(file: SourceFile, offset: int) -> Span:
    """The last character of code before `offset`."""
    text = re.sub(r"//[^\n]*", lambda m: " " * len(m[0]), file.text[:offset]).rstrip()
    return file.span(max(len(text) - 1, 0), len(text))


# ---- trees to syntax -----------------------------------------------------------------------------


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _ESCAPES.get(m[2], m[2]), text)


def _token_at(token: Token) -> s.At:
    return cast(int, token.start_pos), cast(int, token.end_pos)


@v_args(meta=True, inline=True)
class _Builder(Transformer_NonRecursive[Token, Any]):
    """One method a grammar rule. Children are syntax values, tokens, or None for what is not written."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__()
        self.file = file
        self.problems: list[Diagnostic] = []
        self.chains: dict[int, int] = {}

    def _at(self, meta: Meta) -> s.At:
        return (0, 0) if meta.empty else (meta.start_pos, meta.end_pos)

    def _named(self, name: Token) -> str:
        """A name that is being given; the lexer takes words for names where only a name can stand."""
        if str(name) in _WORDS:
            self._fault(f"`{name}` has a meaning of its own and cannot be a name", _token_at(name))
        return str(name)

    def _fault(self, message: str, at: s.At, help: str | None = None) -> None:
        self.problems.append(Diagnostic("E1001", message, self.file.span(*at), help=help))

    def start(self, meta: Meta, *items: s.Decl) -> s.ModuleText:
        return s.ModuleText(self.file, items)

    # -- declarations --

    def param(
        self, meta: Meta, name: Token, type: s.Expr | None, equal: Token | None, default: s.Expr | None
    ) -> s.Param:
        return s.Param(self._at(meta), self._named(name), _token_at(name), type, default)

    def variable(
        self, meta: Meta, kind: Token, name: Token, type: s.Expr | None, align: s.Expr | None, equal: Token | None,
        value: s.Expr | None,
    ) -> s.Variable:  # fmt: skip
        if kind == "const" and value is None:
            self._fault(
                f"the constant `{name}` has no value",
                _token_at(name),
                "write `const name = value;`, or `var` for one that changes",
            )
        return s.Variable(self._at(meta), self._named(name), _token_at(name), kind == "var", type, align, value, False)

    def exported(self, meta: Meta, item: s.Variable | s.Function) -> s.Variable | s.Function:
        if isinstance(item, s.Function):
            return item
        return s.Variable(
            self._at(meta), item.name, item.name_at, item.mutable, item.type, item.align, item.value, True
        )

    def function(
        self, meta: Meta, inline: Token | None, kind: Token, name: Token, formals: tuple[s.Formal, ...] | None,
        result: s.Expr, body: s.Block,
    ) -> s.Function:  # fmt: skip
        head = (self._at(meta)[0], result.at[1])
        return s.Function(head, self._named(name), _token_at(name), kind == "task", formals or (), result, body)

    def formals(self, meta: Meta, *formals: s.Formal) -> tuple[s.Formal, ...]:
        return formals

    def formal(self, meta: Meta, comptime: Token | None, name: Token, type: s.Expr) -> s.Formal:
        return s.Formal(self._at(meta), self._named(name), type, comptime is not None)

    def comptime_block(self, meta: Meta, word: Token, block: s.Block) -> s.ComptimeBlock:
        return s.ComptimeBlock(self._at(meta), block)

    def layout(self, meta: Meta, block: s.Block) -> s.Layout:
        return s.Layout(self._at(meta), block)

    # -- statements --

    def block(self, meta: Meta, *body: s.Stmt) -> s.Block:
        return s.Block(self._at(meta), body)

    def assign(self, meta: Meta, target: s.Expr, op: Token, value: s.Expr) -> s.Assign:
        return s.Assign(self._at(meta), target, None if op == "=" else str(op)[:-1], value)

    def bare(self, meta: Meta, value: s.Expr) -> s.Bare:
        return s.Bare(self._at(meta), value)

    def return_(self, meta: Meta, word: Token, value: s.Expr | None) -> s.Return:
        return s.Return(self._at(meta), value)

    def break_(self, meta: Meta, word: Token) -> s.Break:
        return s.Break(self._at(meta))

    def continue_(self, meta: Meta, word: Token) -> s.Continue:
        return s.Continue(self._at(meta))

    def if_(self, meta: Meta, test: s.Expr, yes: s.Stmt, no: s.Stmt | None = None) -> s.If:
        return s.If(self._at(meta), test, yes, no)

    def while_(self, meta: Meta, inline: Token | None, test: s.Expr, step: s.Stmt | None, body: s.Stmt) -> s.While:
        return s.While(self._at(meta), test, step, body, inline is not None)

    def for_(self, meta: Meta, inline: Token | None, items: s.Expr, *rest: Any) -> s.For:
        names = [str(token) for token in rest[:-1] if isinstance(token, Token) and token.type == "NAME"]
        return s.For(
            self._at(meta), items, names[0], names[1] if len(names) > 1 else None, rest[-1], inline is not None
        )

    def switch(self, meta: Meta, value: s.Expr, *prongs: s.Prong | None) -> s.Switch:
        return s.Switch(self._at(meta), value, tuple(p for p in prongs if p is not None))

    def prong(self, meta: Meta, cases: tuple[s.Expr, ...] | Token, body: s.Stmt) -> s.Prong:
        return s.Prong(self._at(meta), None if isinstance(cases, Token) else cases, body)

    def cases(self, meta: Meta, *cases: s.Expr) -> tuple[s.Expr, ...]:
        return cases

    # -- expressions --

    def conditional(self, meta: Meta, test: s.Expr, yes: s.Expr, no: s.Expr | None) -> s.Conditional:
        return s.Conditional(self._at(meta), test, yes, no)

    def binary(self, meta: Meta, left: s.Expr, op: Token, right: s.Expr) -> s.Binary:
        at = self._at(meta)
        chain = self.chains.get(left.at[1], 0) + 1 if isinstance(left, s.Binary) else 1
        self.chains[at[1]] = chain
        if chain == MAX_CHAIN:
            self.problems.append(
                Diagnostic("E1002", f"more than {MAX_CHAIN} operators in one chain", self.file.span(*at))
            )
        return s.Binary(at, str(op), _token_at(op), left, right)

    def unary(self, meta: Meta, op: Token, operand: s.Expr) -> s.Expr:
        at = self._at(meta)
        if op == "comptime":
            return s.Comptime(at, operand)
        return s.Unary(at, str(op), operand)

    def call(self, meta: Meta, callee: s.Expr, *args: s.Expr | None) -> s.Call:
        return s.Call(self._at(meta), callee, tuple(a for a in args if a is not None))

    def builtin(self, meta: Meta, name: Token, *args: s.Expr | None) -> s.Builtin:
        return s.Builtin(self._at(meta), str(name)[1:], _token_at(name), tuple(a for a in args if a is not None))

    def index(self, meta: Meta, base: s.Expr, *indices: s.Expr | None) -> s.Index:
        return s.Index(self._at(meta), base, tuple(i for i in indices if i is not None))

    def member(self, meta: Meta, base: s.Expr, name: Token) -> s.Member:
        return s.Member(self._at(meta), base, str(name), _token_at(name))

    def deref(self, meta: Meta, base: s.Expr, dot: Token) -> s.Deref:
        return s.Deref(self._at(meta), base)

    def init(self, meta: Meta, type: s.Expr, *items: s.Field | s.Expr | None) -> s.Init:
        return self._init(meta, type, items)

    def anonymous(self, meta: Meta, *items: s.Field | s.Expr | None) -> s.Init:
        return self._init(meta, None, items)

    def _init(self, meta: Meta, type: s.Expr | None, given: tuple[s.Field | s.Expr | None, ...]) -> s.Init:
        items = tuple(i for i in given if i is not None)
        named = [isinstance(i, s.Field) for i in items]
        if any(named) and not all(named):
            self._fault("some of these values have names and some have none", self._at(meta))
        seen = set[str]()
        for item in items:
            if isinstance(item, s.Field) and item.name in seen:
                self._fault(f"`.{item.name}` is given twice", item.at)
            if isinstance(item, s.Field):
                seen.add(item.name)
        return s.Init(self._at(meta), type, items)

    def field(self, meta: Meta, name: Token, equal: Token, value: s.Expr) -> s.Field:
        return s.Field(self._at(meta), str(name), value)

    def tensor(self, meta: Meta, indices: tuple[str, ...], extents: tuple[s.Expr, ...], access: s.Expr) -> s.Tensor:
        if len(indices) != len(extents):
            self._fault(f"{len(indices)} indices and {len(extents)} extents", self._at(meta))
        return s.Tensor(self._at(meta), indices, extents, access)

    def tensor_indices(self, meta: Meta, *names: Token) -> tuple[str, ...]:
        return tuple(str(n) for n in names if n.type == "NAME")

    def tensor_extents(self, meta: Meta, *extents: s.Expr | None) -> tuple[s.Expr, ...]:
        return tuple(e for e in extents if e is not None)

    def name(self, meta: Meta, name: Token) -> s.Name:
        return s.Name(self._at(meta), str(name))

    def integer(self, meta: Meta, text: Token) -> s.Literal:
        if len(text) > _MAX_DIGITS:
            self._fault(f"a number of more than {_MAX_DIGITS} digits", self._at(meta))
            return s.Literal(self._at(meta), 0)
        return s.Literal(
            self._at(meta), int(str(text).replace("_", ""), 0 if str(text)[:2] in ("0x", "0b", "0o") else 10)
        )

    def floating(self, meta: Meta, text: Token) -> s.Literal:
        return s.Literal(self._at(meta), float(str(text).replace("_", "")))

    def string(self, meta: Meta, text: Token) -> s.Literal:
        return s.Literal(self._at(meta), _unescaped(str(text)[1:-1]))

    def character(self, meta: Meta, text: Token) -> s.Literal:
        value = _unescaped(str(text)[1:-1])
        if len(value.encode()) != 1:
            self._fault("a character stands for one byte", self._at(meta))
        return s.Literal(self._at(meta), value.encode()[0] if value else 0)

    def boolean(self, meta: Meta, word: Token) -> s.Literal:
        return s.Literal(self._at(meta), str(word) == "true")

    def undefined(self, meta: Meta, word: Token) -> s.Undefined:
        return s.Undefined(self._at(meta))

    def empty(self, meta: Meta) -> s.Empty:
        return s.Empty(self._at(meta))

    def group(self, meta: Meta, value: s.Expr) -> s.Expr:
        return value

    # -- types --

    def array_type(self, meta: Meta, *parts: s.Expr | None) -> s.ArrayType:
        given = tuple(p for p in parts if p is not None)
        return s.ArrayType(self._at(meta), given[:-1], given[-1])

    def many_pointer(self, meta: Meta, star: Token, const: Token | None, to: s.Expr) -> s.PointerType:
        return s.PointerType(self._at(meta), to, True, const is not None)

    def pointer(self, meta: Meta, star: Token, const: Token | None, to: s.Expr) -> s.PointerType:
        return s.PointerType(self._at(meta), to, False, const is not None)

    def function_type(self, meta: Meta, kind: Token, *parts: s.Expr | Token | None) -> s.FunctionType:
        types = [p for p in parts if p is not None and not isinstance(p, Token)]
        return s.FunctionType(self._at(meta), tuple(types[:-1]), types[-1], kind == "task")

    def struct_type(self, meta: Meta, *fields: s.TypedName | None) -> s.StructType:
        return s.StructType(self._at(meta), tuple(f for f in fields if f is not None))

    def struct_field(self, meta: Meta, name: Token, type: s.Expr) -> s.TypedName:
        return s.TypedName(self._at(meta), str(name), type)

    def enum_type(self, meta: Meta, base: s.Expr, *members: tuple[str, s.Expr | None]) -> s.EnumType:
        return s.EnumType(self._at(meta), base, members)

    def member_value(
        self, meta: Meta, name: Token, equal: Token | None, value: s.Expr | None
    ) -> tuple[str, s.Expr | None]:
        return str(name), value
