"""Text to syntax: the LALR parser of grammar/tdsl.lark and what turns its trees into `syntax` values.

`parse` gathers: after a mistake it goes on at the next declaration. Nothing here recurses, so no text can exhaust the
stack; what is nested too deeply for those who do recurse is refused. Must not know what anything means.
"""

from __future__ import annotations

import os
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias, cast

import lark
from lark import Lark, Token, Tree
from lark import v_args as _v_args  # pyright: ignore[reportUnknownVariableType]
from lark.exceptions import UnexpectedInput
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from ..source import Diagnostic, SourceFile
from . import syntax as s
from .layout import MAX_NESTING, Layout, LayoutFault, brackets, too_deep
from .mistakes import TOP_LEVEL, explain

# Operators of one chain `a + b + c`: these are walked without recursion, so more of them are allowed than levels.
MAX_CHAIN = 1000
_MAX_FAULTS = 20
_MAX_INT = 2**63 - 1
_GRAMMAR = "tdsl.lark"
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}

AnyTree: TypeAlias = "Tree[Any]"


def parse(file: SourceFile) -> tuple[s.ModuleText | None, list[Diagnostic]]:
    """The module that `file` holds, or None and everything found wrong with its syntax."""
    problems = brackets(file)
    if problems:
        return None, problems
    tree, problems = _trees(file)
    if tree is None:
        return None, problems
    builder = _Builder(file)
    module = cast(s.ModuleText, builder.transform(tree))
    return (None, builder.problems) if builder.problems else (module, [])


def _trees(file: SourceFile) -> tuple[AnyTree | None, list[Diagnostic]]:
    text = file.text if file.text.endswith("\n") else file.text + "\n"
    problems: list[Diagnostic] = []
    while len(problems) < _MAX_FAULTS:
        try:
            tree = _tree(text)
            return (None, problems) if problems else (tree, [])
        except LayoutFault as fault:
            offset, problem = fault.offset, fault.diagnostic(file)
        except UnexpectedInput as fault:
            offset, problem = explain(fault, file, _tree)
        problems.append(problem)
        line_end = text.find("\n", offset)
        following = None if line_end < 0 else TOP_LEVEL.search(text, line_end)
        if following is None:
            break
        text = _blanked(text, following.start())
    return None, problems


def _tree(text: str) -> AnyTree:
    return cast(AnyTree, _parser().parse(text))  # pyright: ignore[reportUnknownMemberType]


def _blanked(text: str, end: int) -> str:
    """`text` with everything before `end` made blank, so that offsets stay."""
    return "".join(c if c == "\n" else " " for c in text[:end]) + text[end:]


@cache
def _parser() -> Lark:
    grammar = (files(_room("grammar")) / _GRAMMAR).read_text(encoding="utf-8")
    kept = _cache_file()
    try:
        return _lark(grammar, kept or False)
    except OSError:
        # The cache saves a quarter of a second; a full or read-only disk must not cost the build.
        return _lark(grammar, False)


def _lark(grammar: str, kept: str | bool) -> Lark:
    return Lark(grammar, parser="lalr", lexer="contextual", postlex=Layout(), propagate_positions=True,
                maybe_placeholders=True, cache=kept)  # fmt: skip


def _room(name: str) -> str:
    """The package of a top level room: `tdslc.grammar` from `tdslc.compiler.language`."""
    return ".".join((*__name__.split(".")[:-3], name))


def _cache_file() -> str | None:
    """Where the parser's tables are kept between runs (Lark checks that they are this grammar's), or None."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(home) / "tdslc"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder / f"tdsl-lark-{lark.__version__}") if os.access(folder, os.W_OK) else None


# ---- trees to syntax -----------------------------------------------------------------------------


class _Builder(Transformer_NonRecursive[Token, Any]):
    """One method a grammar rule. Children are syntax values, tokens, or None for what is not written."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__()
        self.file = file
        self.problems: list[Diagnostic] = []
        # Levels of nesting below an expression, and operators down its left edge; 0 is not stored.
        self.levels: dict[s.At, int] = {}
        self.chains: dict[s.At, int] = {}

    def _at(self, meta: Meta) -> s.At:
        return (0, 0) if meta.empty else (meta.start_pos, min(meta.end_pos, len(self.file.text)))

    def _fault(self, code: str, message: str, at: s.At, help: str | None = None) -> None:
        self.problems.append(Diagnostic(code, message, self.file.span(*at), help=help))

    def _deep(self, at: s.At, *inner: s.Expr | s.Arg | None) -> s.At:
        """Notes that an expression at `at` holds `inner`; refuses what is too deep, once."""
        below = max((self.levels.get(e.at, 0) for e in inner if e is not None), default=0) + 1
        if below == MAX_NESTING:
            self.problems.append(too_deep(self.file, *at))
        self.levels[at] = max(below, self.levels.get(at, 0))
        return at

    # -- top level --

    def start(self, meta: Meta, *tops: Any) -> s.ModuleText:
        docs = [t for t in tops if isinstance(t, s.Bare)]
        rest = tuple(t for t in tops if not isinstance(t, s.Bare))
        for stray in [d for d in docs if d is not tops[0]]:
            self._fault(
                "E0009", "a string stands here alone", stray.at, "comments start with `#`; a doc string comes first"
            )
        return s.ModuleText(self.file, _doc(docs[:1]), rest)

    def docline(self, meta: Meta, text: s.Literal) -> s.Bare:
        return s.Bare(text.at, text)

    def path(self, meta: Meta, *names: Token) -> tuple[str, ...]:
        return tuple(map(str, names))

    def import_module(self, meta: Meta, path: tuple[str, ...], name: Token | None) -> s.Import:
        return s.Import(self._trim(meta), path, str(name or path[-1]), ())

    def import_names(self, meta: Meta, path: tuple[str, ...], *names: Token) -> s.Import:
        return s.Import(self._trim(meta), path, "", tuple(map(_name, names)))

    def dim(self, meta: Meta, name: Token, value: s.Expr, low: s.Expr | None, high: s.Expr | None) -> s.DimDecl:
        return s.DimDecl(self._trim(meta), str(name), value, low, high)

    def dtype(self, meta: Meta, name: Token, value: Token, *choices: Token | None) -> s.DtypeDecl:
        return s.DtypeDecl(self._trim(meta), str(name), _name(value), tuple(_name(c) for c in choices if c is not None))

    def const(self, meta: Meta, name: Token, value: s.Expr) -> s.Const:
        return s.Const(self._trim(meta), str(name), value)

    def fn(
        self, meta: Meta, op: Token | None, name: Token, formals: tuple[s.Formal, ...] | None,
        results: tuple[tuple[s.Result, ...], bool] | None, body: s.Body,
    ) -> s.FnDecl:  # fmt: skip
        return self._declared(meta, "op" if op else "fn", name, formals, results, body)

    def model(
        self, meta: Meta, name: Token, formals: tuple[s.Formal, ...] | None,
        results: tuple[tuple[s.Result, ...], bool], body: s.Body,
    ) -> s.FnDecl:  # fmt: skip
        return self._declared(meta, "model", name, formals, results, body)

    def _declared(
        self, meta: Meta, kind: str, name: Token, formals: tuple[s.Formal, ...] | None,
        results: tuple[tuple[s.Result, ...], bool] | None, body: s.Body,
    ) -> s.FnDecl:  # fmt: skip
        start = self._at(meta)[0]
        colon = self.file.text.rfind(":", start, body[0].at[0]) if body else start
        given, several = results or (None, False)
        doc = _doc(body[:1])
        rest = body[1:] if doc or (body and _is_doc(body[0])) else body
        return s.FnDecl(
            (start, max(colon, start)), kind, str(name), _token_at(name), formals or (), given, several, doc, rest
        )

    def formals(self, meta: Meta, *formals: s.Formal) -> tuple[s.Formal, ...]:
        return formals

    def formal(self, meta: Meta, name: Token, type: s.TypeOf, default: s.Expr | None) -> s.Formal:
        return s.Formal(self._at(meta), str(name), type, default)

    def type(self, meta: Meta, name: Token, *dims: s.Expr | None) -> s.TypeOf:
        at = self._at(meta)
        bare = self.file.text[at[1] - 1] != "]"
        return s.TypeOf(at, str(name), None if bare else tuple(d for d in dims if d is not None))

    def spread(self, meta: Meta, name: Token | None) -> s.Spread:
        return s.Spread(self._at(meta), str(name or ""))

    def results(self, meta: Meta, *results: s.Result | s.TypeOf) -> tuple[tuple[s.Result, ...], bool]:
        one = results[0]
        if isinstance(one, s.TypeOf):
            return (s.Result(one.at, "", one),), False
        return tuple(r for r in results if isinstance(r, s.Result)), True

    def result(self, meta: Meta, name: Token | None, type: s.TypeOf) -> s.Result:
        return s.Result(self._at(meta), str(name or ""), type)

    # -- statements --

    def block(self, meta: Meta, *body: s.Stmt) -> s.Body:
        return body

    def assign(self, meta: Meta, targets: s.Expr, value: s.Expr) -> s.Assign:
        return s.Assign(self._at(meta), self._targets(targets), value)

    def _targets(self, targets: s.Expr | None) -> tuple[s.Name, ...]:
        if targets is None:
            return ()
        items = targets.items if isinstance(targets, s.ListOf) else (targets,)
        for item in items:
            if not isinstance(item, s.Name):
                self._fault("E0009", "only a name can be assigned to", item.at, _assign_help(item))
        return tuple(item for item in items if isinstance(item, s.Name))

    def augment(self, meta: Meta, target: s.Expr, op: Token, value: s.Expr) -> s.Assign:
        at = self._at(meta)
        return s.Assign(at, self._targets(target), s.Binary(at, op[:-1], _token_at(op), target, value))

    def bare(self, meta: Meta, value: s.Expr) -> s.Bare:
        return s.Bare(self._at(meta), value)

    def return_(self, meta: Meta, value: s.Expr | None) -> s.Return:
        return s.Return(self._at(meta), value)

    def yield_(self, meta: Meta, value: s.Expr) -> s.Yield:
        return s.Yield(self._at(meta), value)

    def param(self, meta: Meta, shared: Token | None, name: Token, type: s.TypeOf) -> s.ParamDecl:
        return s.ParamDecl(self._at(meta), str(name), _token_at(name), type, shared is not None)

    def assert_(self, meta: Meta, test: s.Expr, message: s.Literal) -> s.Assert:
        return s.Assert(self._at(meta), test, str(message.value))

    def pass_(self, meta: Meta) -> s.Pass:
        return s.Pass(self._at(meta))

    def if_(self, meta: Meta, test: s.Expr, body: s.Body, *rest: tuple[s.Expr | None, s.Body] | None) -> s.If:
        return s.If(test.at, ((test, body), *(arm for arm in rest if arm is not None)))

    def elif_(self, meta: Meta, test: s.Expr, body: s.Body) -> tuple[s.Expr | None, s.Body]:
        return test, body

    def else_(self, meta: Meta, body: s.Body) -> tuple[s.Expr | None, s.Body]:
        return None, body

    def for_(self, meta: Meta, *parts: Any) -> s.For:
        *names, over, body = parts
        over, scope = _scope_of_loop(over)
        return s.For((self._at(meta)[0], over.at[1]), tuple(map(str, names)), over, scope, body)

    def repeat(self, meta: Meta, targets: s.Expr | None, index: Token, over: s.Expr, body: s.Body) -> s.Repeat:
        over, scope = _scope_of_loop(over)
        at = (self._at(meta)[0], over.at[1])
        return s.Repeat(at, self._targets(targets), str(index), over, scope, body)

    # -- expressions --

    def exprs(self, meta: Meta, only: s.Expr) -> s.Expr:
        return only

    def several(self, meta: Meta, *items: s.Expr) -> s.ListOf:
        return s.ListOf(self._deep(self._at(meta), *items), items)

    def group(self, meta: Meta, inner: s.Expr) -> s.Expr:
        return inner

    def list(self, meta: Meta, *items: s.Expr | None) -> s.ListOf:
        given = tuple(i for i in items if i is not None)
        return s.ListOf(self._deep(self._at(meta), *given), given)

    def conditional(self, meta: Meta, yes: s.Expr, test: s.Expr, no: s.Expr) -> s.Conditional:
        return s.Conditional(self._deep(self._at(meta), yes, test, no), test, yes, no)

    def binary(self, meta: Meta, left: s.Expr, op: Token, right: s.Expr) -> s.Binary:
        at = self._at(meta)
        length = self.chains.get(left.at, 0) + 1 if isinstance(left, s.Binary) else 1
        self.chains[at] = length
        if length == MAX_CHAIN:
            self._fault("E0010", f"one expression has more than {MAX_CHAIN} operators in a row", _token_at(op),
                        "give its parts names, one statement each")  # fmt: skip
        # The left operand of a chain costs no level: chains are walked, not descended.
        self.levels[at] = max(self.levels.get(left.at, 0), self.levels.get(right.at, 0) + 1)
        if self.levels[at] == MAX_NESTING and self.levels.get(left.at, 0) < MAX_NESTING:
            self.problems.append(too_deep(self.file, *at))
        return s.Binary(at, str(op), _token_at(op), left, right)

    def compare(self, meta: Meta, left: s.Expr, op: Token, right: s.Expr, *more: Any) -> s.Binary:
        at = self._deep(self._at(meta), left, right)
        if more:
            self._fault("E0009", "comparisons do not chain", at, "write `a < b and b < c`")
        return s.Binary(at, str(op), _token_at(op), left, right)

    def unary(self, meta: Meta, op: Token, operand: s.Expr) -> s.Unary:
        return s.Unary(self._deep(self._at(meta), operand), str(op), operand)

    def call(self, meta: Meta, function: s.Expr, args: tuple[s.Arg, ...] | None, scope: s.Scope | None) -> s.Call:
        return s.Call(self._deep(self._at(meta), function, *(args or ())), function, args or (), scope)

    def scope(self, meta: Meta, shared: Token | None, text: s.Literal) -> s.Scope:
        return s.Scope(self._at(meta), str(text.value), shared is not None)

    def args(self, meta: Meta, *args: s.Arg) -> tuple[s.Arg, ...]:
        return args

    def arg(self, meta: Meta, name: Token | None, value: s.Expr) -> s.Arg:
        return s.Arg(self._deep(self._at(meta), value) if name else value.at, str(name or ""), value)

    def items(self, meta: Meta, *items: s.Expr) -> tuple[s.Expr, ...]:
        return items

    def slice(self, meta: Meta, start: s.Expr | None, stop: s.Expr | None, step: s.Expr | None) -> s.Slice:
        return s.Slice(self._deep(self._at(meta), start, stop, step), start, stop, step)

    def ellipsis(self, meta: Meta, dots: Token) -> s.Ellipsis:
        return s.Ellipsis(_token_at(dots))

    def index(self, meta: Meta, base: s.Expr, items: tuple[s.Expr, ...]) -> s.Index:
        return s.Index(self._deep(self._at(meta), base, *items), base, items)

    def attribute(self, meta: Meta, base: s.Expr, name: Token) -> s.Attribute:
        return s.Attribute(self._deep(self._at(meta), base), base, str(name), _token_at(name))

    def name(self, meta: Meta, name: Token) -> s.Name:
        return _name(name)

    def constant(self, meta: Meta, word: Token) -> s.Literal:
        return s.Literal(_token_at(word), {"true": True, "false": False, "none": None}[word])

    def integer(self, meta: Meta, digits: Token) -> s.Literal:
        at = _token_at(digits)
        value = int(digits.replace("_", "")) if len(digits) < 40 else _MAX_INT + 1
        if value > _MAX_INT:
            self._fault("E0009", "this integer does not fit 64 bits", at)
        return s.Literal(at, min(value, _MAX_INT))

    def floating(self, meta: Meta, digits: Token) -> s.Literal:
        at, value = _token_at(digits), float(digits.replace("_", ""))
        if value == float("inf"):
            self._fault("E0009", "this number is larger than any f64", at, "write `inf` for infinity")
        return s.Literal(at, value)

    def string(self, meta: Meta, quoted: Token) -> s.Literal:
        at = _token_at(quoted)
        width = 3 if quoted.type == "LONG_STRING" else 1
        bad = [m for m in _ESCAPE.findall(quoted[width:-width]) if m[1] not in _ESCAPES]
        if bad:
            self._fault("E0008", f"a string has no escape `{bad[0]}`", at, "write `\\\\` for a backslash")
        return s.Literal(at, _ESCAPE.sub(lambda m: _ESCAPES.get(m[0][1], ""), quoted[width:-width]))

    def _trim(self, meta: Meta) -> s.At:
        """A line's place without its line end."""
        start, end = self._at(meta)
        text = self.file.text[start:end].split("\n")[0].split("#")[0].rstrip()
        return start, start + len(text)


# Every method gets (meta, *children); a decorator would cost the class its type.
_v_args(meta=True, inline=True)(_Builder)


def _token_at(token: Token) -> s.At:
    return token.start_pos or 0, token.end_pos or 0


def _name(token: Token) -> s.Name:
    return s.Name(_token_at(token), str(token))


def _is_doc(stmt: object) -> bool:
    return isinstance(stmt, s.Bare) and isinstance(stmt.value, s.Literal) and isinstance(stmt.value.value, str)


def _doc(stmts: Any) -> str:
    """The doc string that `stmts` starts with, its margin taken off; "" when there is none."""
    if not stmts or not _is_doc(stmts[0]):
        return ""
    lines = str(stmts[0].value.value).strip().split("\n")
    return "\n".join([lines[0].strip(), *(line.strip() for line in lines[1:])])


def _scope_of_loop(over: s.Expr) -> tuple[s.Expr, s.Scope | None]:
    """`range(n) as "x"` in a loop's header scopes the loop, not the call of range."""
    if isinstance(over, s.Call) and over.scope is not None:
        return s.Call((over.at[0], over.scope.at[0] - 1), over.function, over.args, None), over.scope
    return over, None


def _assign_help(item: s.Expr) -> str | None:
    match item:
        case s.Index():
            return "tensors do not change: build the new one with `where`, `concat` or `stack`"
        case s.Attribute():
            return "attributes cannot be set"
        case _:
            return None
