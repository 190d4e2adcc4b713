"""From the text of a `.rules` file to rules.

A file is cut at the lines that start a rule and each piece is read by itself, so every mistake is reported. Names are
checked by `scope`. Must not know egglog, nor what rules do.
"""

# Lark's trees and errors are untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, v_args
from lark.tree import Meta

from ..source import Diagnostic, DiagnosticError, Note, SourceFile, Span, did_you_mean
from .scope import check_scope
from .syntax import (
    CLASSES,
    Binary,
    Call,
    Cut,
    Expr,
    Index,
    Lit,
    Name,
    Prefix,
    Root,
    Rule,
    Star,
    Tup,
    Typed,
    TypePattern,
    Unary,
)

# Nested deeper than this is a mistake or an attack: the reader recurses on what it read.
MAX_NESTING = 60

_WORDS: dict[str, Any] = {"true": True, "false": False, "none": None, "inf": math.inf, "nan": math.nan}


def parse_rules(source: SourceFile) -> list[Rule]:
    """The rules of `source` in order. Raises DiagnosticError with everything that is wrong in it."""
    rules: list[Rule] = []
    wrong: list[Diagnostic] = []
    for piece in _pieces(source, wrong):
        try:
            rules.append(_read(piece))
        except DiagnosticError as error:
            wrong += error.diagnostics
    wrong += _twice(rules)
    for rule in rules:
        wrong += check_scope(rule)
    if any(d.severity == "error" for d in wrong):
        raise DiagnosticError(sorted(wrong, key=lambda d: d.span.start if d.span else 0))
    return rules


# ---- pieces --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    """The text of one rule: characters `start:end` of `source`, and the comment lines just above it."""

    source: SourceFile
    start: int
    end: int
    doc: str

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, self.start + start, self.start + end)


def _pieces(source: SourceFile, wrong: list[Diagnostic]) -> Iterator[_Piece]:
    start, doc, at = -1, "", 0
    comment: list[str] = []
    for line in source.text.splitlines(keepends=True):
        head = line.rstrip()
        if head.startswith("#"):
            comment.append(head[1:].removeprefix(" "))
        elif re.match(r"(rule|impl)\b", head):
            if start >= 0:
                yield _Piece(source, start, at, doc)
            start, doc, comment = at, "\n".join(comment), []
        elif head and not head[0].isspace():
            span = Span(source, at, at + len(head))
            wrong.append(_syntax(span, "a rule starts with `rule name @class:`; the lines of its body are indented"))
        elif head and start < 0:
            wrong.append(_syntax(source.line_span(source.position(at)[0]), "this line is indented but in no rule"))
        else:
            comment = [] if not head else comment
        at += len(line)
    if start >= 0:
        yield _Piece(source, start, at, doc)


def _syntax(span: Span, message: str, help: str | None = None) -> Diagnostic:
    return Diagnostic("E0301", message, span, help=help)


def _twice(rules: list[Rule]) -> list[Diagnostic]:
    first: dict[str, Rule] = {}
    found: list[Diagnostic] = []
    for rule in rules:
        if rule.name in first:
            note = Note("it is first given here", first[rule.name].span)
            found.append(Diagnostic("E0302", f"two rules are called {rule.name}", rule.span, (note,)))
        first.setdefault(rule.name, rule)
    return found


# ---- one piece -----------------------------------------------------------------------------------


@cache
def _parser() -> Lark:
    grammar = files("tdslc.grammar").joinpath("rules.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def _read(piece: _Piece) -> Rule:
    _refuse_nesting(piece)
    try:
        tree = _parser().parse(piece.text)
    except UnexpectedInput as error:
        raise DiagnosticError(_explain(piece, error)) from None
    rule = _Reader(piece).transform(tree)
    assert isinstance(rule, Rule)
    unknown = [c for c in rule.classes if c not in CLASSES]
    if unknown or not rule.classes:
        message = f"no class is called @{unknown[0]}" if unknown else "a rule says what it may change"
        near = did_you_mean(unknown[0], CLASSES) if unknown else None
        help = near or f"classes are {', '.join('@' + c for c in CLASSES)}"
        raise DiagnosticError(Diagnostic("E0303", message, rule.span, help=help))
    return rule


def _refuse_nesting(piece: _Piece) -> None:
    depth, runs = 0, 0
    for i, c in enumerate(re.sub(r"#[^\n]*", lambda m: " " * len(m[0]), piece.text)):
        depth += (c in "([") - (c in ")]")
        runs = runs + 1 if c in "-" else 0 if not c.isspace() else runs
        if depth > MAX_NESTING or runs > MAX_NESTING:
            raise DiagnosticError(_syntax(piece.span(i, i + 1), f"nested more than {MAX_NESTING} deep"))
    if len(re.findall(r"[-+*/%]|\bor\b|\band\b|\bnot\b", piece.text)) > 4 * MAX_NESTING:
        raise DiagnosticError(_syntax(piece.span(0, len(piece.text.split("\n")[0])), "a rule of too many operators"))


_WANTED = {
    "ARROW": "`=>` or `<=>` and the right side",
    "COLON": "`:`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "NAME": "a name",
    "CLASS": "a class such as @exact",
    "EQUAL": "`=`",
    "COMMA": "`,`",
}


def _explain(piece: _Piece, error: UnexpectedInput) -> Diagnostic:
    """A syntax error in words of the rule language."""
    if isinstance(error, UnexpectedCharacters):
        at = error.pos_in_stream or 0
        return _syntax(piece.span(at, at + 1), f"`{piece.text[at]}` means nothing in a rule")
    assert isinstance(error, UnexpectedToken | UnexpectedEOF)
    expected = {str(x) for x in error.expected}
    token = error.token if isinstance(error, UnexpectedToken) else Token("$END", "")
    if token.type == "$END":
        body = piece.text.rstrip()
        end = len(body)
        wanted = next((w for k, w in _WANTED.items() if k in expected), "more")
        return _syntax(piece.span(max(end - 1, 0), end), f"the rule ends where {wanted} is missing")
    at = token.start_pos or 0
    span = piece.span(at, at + len(token))
    if token == "=" and "ARROW" in expected:
        return _syntax(span, "`=` does not join two sides", "write `=>`, or `<=>` for both directions")
    wanted = next((w for k, w in _WANTED.items() if k in expected), None)
    return _syntax(span, f"`{token}` does not fit here" + (f"; {wanted} is missing before it" if wanted else ""))


@v_args(meta=True)
class _Reader(Transformer[Token, Any]):
    """Parse tree to syntax; spans are places in the whole file."""

    def __init__(self, piece: _Piece) -> None:
        super().__init__()
        self.piece = piece

    def at(self, meta: Meta) -> Span:
        return self.piece.span(meta.start_pos, meta.end_pos)

    def rule(self, meta: Meta, items: list[Any]) -> Rule:
        return self.any_rule(items[0], "", items[1:])

    def impl(self, meta: Meta, items: list[Any]) -> Rule:
        return self.any_rule(items[0], str(items[1]), items[2:])

    def any_rule(self, name: Token, target: str, items: list[Any]) -> Rule:
        classes = tuple(str(t)[1:] for t in items if isinstance(t, Token))
        parts: dict[str, list[Any]] = {k: [] for k in ("for", "equation", "where", "let", "test", "cost")}
        for kind, value in (i for i in items if isinstance(i, tuple)):
            parts[kind] += value
        left, arrow, right = parts["equation"]
        start = name.start_pos or 0
        return Rule(
            str(name),
            classes,
            left,
            right,
            arrow == "<=>",
            tuple(parts["for"]),
            tuple(parts["let"]),
            tuple(parts["where"]),
            tuple(parts["test"]),
            target,
            tuple(parts["cost"]),
            self.piece.doc,
            self.piece.span(start, start + len(name)),
        )

    def for_clause(self, meta: Meta, items: list[Any]) -> Any:
        return ("for", [(str(items[0]), str(items[1]))])

    def equation(self, meta: Meta, items: list[Any]) -> Any:
        return ("equation", [items[0], str(items[1]), items[2]])

    def roots(self, meta: Meta, items: list[Any]) -> tuple[Root, ...]:
        return tuple(items)

    def root(self, meta: Meta, items: list[Any]) -> Root:
        return Root("", items[0])

    def named_root(self, meta: Meta, items: list[Any]) -> Root:
        return Root(str(items[0]), items[1])

    def where(self, meta: Meta, items: list[Any]) -> Any:
        return ("where", items)

    def let(self, meta: Meta, items: list[Any]) -> Any:
        return ("let", [(str(items[0]), items[1])])

    def test(self, meta: Meta, items: list[Any]) -> Any:
        return ("test", [(str(items[0]), items[1])])

    def quantity(self, meta: Meta, items: list[Any]) -> Any:
        return (str(items[0]), items[1])

    def cost(self, meta: Meta, items: list[Any]) -> Any:
        return ("cost", items)

    def either(self, meta: Meta, items: list[Any]) -> Expr:
        return Binary("or", items[0], items[1], self.at(meta))

    def both(self, meta: Meta, items: list[Any]) -> Expr:
        return Binary("and", items[0], items[1], self.at(meta))

    def negate(self, meta: Meta, items: list[Any]) -> Expr:
        return Unary("not", items[1], self.at(meta))

    def binary(self, meta: Meta, items: list[Any]) -> Expr:
        return Binary(str(items[1]), items[0], items[2], self.at(meta))

    def minus(self, meta: Meta, items: list[Any]) -> Expr:
        return Unary("-", items[0], self.at(meta))

    def index(self, meta: Meta, items: list[Any]) -> Expr:
        return Index(items[0], items[1], self.at(meta))

    def cut(self, meta: Meta, items: list[Any]) -> Expr:
        return Cut(items[0], items[1], items[2], self.at(meta))

    def number(self, meta: Meta, items: list[Any]) -> Expr:
        text = str(items[0])
        return Lit(int(text) if text.isdigit() else float(text), self.at(meta))

    def string(self, meta: Meta, items: list[Any]) -> Expr:
        return Lit(str(items[0])[1:-1] if "\\" in items[0] else json.loads(items[0]), self.at(meta))

    def qualified(self, meta: Meta, items: list[Any]) -> str:
        return ".".join(map(str, items))

    def name(self, meta: Meta, items: list[Any]) -> Expr:
        name = items[0]
        return Lit(_WORDS[name], self.at(meta)) if name in _WORDS else Name(name, self.at(meta))

    def call(self, meta: Meta, items: list[Any]) -> Expr:
        given: list[Any] = items[1] or []
        positional = tuple(a for a in given if not isinstance(a, tuple))
        named: tuple[tuple[str, Expr], ...] = tuple(a for a in given if isinstance(a, tuple))  # pyright: ignore
        return Call(items[0], positional, named, self.at(meta))

    def args(self, meta: Meta, items: list[Any]) -> list[Any]:
        return [i for i in items if i is not None]

    def empty_tuple(self, meta: Meta, items: list[Any]) -> Expr:
        return Tup((), self.at(meta))

    def tuple(self, meta: Meta, items: list[Any]) -> Expr:
        return Tup(tuple(i for i in items if i is not None), self.at(meta))

    def star(self, meta: Meta, items: list[Any]) -> Expr:
        return Star(items[0], self.at(meta))

    def typed(self, meta: Meta, items: list[Any]) -> Expr:
        return Typed(str(items[0]), items[1], self.at(meta))

    def keyword(self, meta: Meta, items: list[Any]) -> Any:
        return (str(items[0]), items[1])

    def type(self, meta: Meta, items: list[Any]) -> TypePattern:
        names, *dims = items
        bracketed = self.piece.text[meta.start_pos : meta.end_pos].rstrip().endswith("]")
        found = next((d for d in dims if d is not None), ())
        return TypePattern(names, found if bracketed else None)

    def dtypes(self, meta: Meta, items: list[Any]) -> Any:
        return tuple(map(str, items))

    def dims(self, meta: Meta, items: list[Any]) -> Any:
        return tuple(items)

    def prefix(self, meta: Meta, items: list[Any]) -> Prefix:
        return Prefix(str(items[0]), self.at(meta))
