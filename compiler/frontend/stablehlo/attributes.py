"""Reads types and attributes of an MLIR text. Must not know operations."""

from __future__ import annotations

import json

from .scan import Cursor
from .syntax import ConvAxes, Dense, Opaque, Symbol, TypeText, Value, Word

# How deep types, lists and dictionaries may lie in each other.
MAX_NESTED = 64

_OPENERS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_CLOSERS = frozenset(_OPENERS.values())
# Types that are words and take parameters in angle brackets.
_TYPE_WORDS = frozenset(("tuple", "memref", "vector", "complex"))


def read_type(c: Cursor, depth: int = 0) -> str:
    """One type, or a function type, as text."""
    if depth > MAX_NESTED:
        c.fail(f"types lie more than {MAX_NESTED} deep in each other")
    start = c.start
    if c.kind == "tensor":
        return c.take()
    if c.text == "(":
        read_types(c, depth + 1)
        c.expect("->", "after the operands of a function type")
        read_result_types(c, depth + 1)
    elif c.kind in ("word", "bang"):
        c.take()
        if c.text == "<":
            skip_balanced(c)
    else:
        c.fail("expected a type")
    return c.file.text[start : c.done]


def read_types(c: Cursor, depth: int = 0) -> tuple[str, ...]:
    """`(type, …)`; attributes of each are passed over."""
    c.expect("(", "before types")
    found: list[str] = []
    while not c.skip(")"):
        found.append(read_type(c, depth))
        if c.text == "{":
            skip_balanced(c)
        skip_location(c)
        if not c.skip(",") and c.text != ")":
            c.fail("expected `,` or `)` between types")
    return tuple(found)


def read_result_types(c: Cursor, depth: int = 0) -> tuple[str, ...]:
    """What stands after `->`: one type or several in parentheses."""
    return read_types(c, depth) if c.text == "(" else (read_type(c, depth),)


def skip_balanced(c: Cursor) -> str:
    """Passes over a bracket and all up to its partner; the text passed."""
    start, open_ = c.start, list[str]()
    while True:
        text, mark = c.text, c.kind == "mark"
        if mark and text in _OPENERS:
            open_.append(_OPENERS[text])
        elif mark and text in _CLOSERS and open_ and text == open_[-1]:
            open_.pop()
        elif c.kind == "end" or (mark and text in _CLOSERS):
            c.fail(f"expected `{open_[-1] if open_ else ''}`")
        c.take()
        if not open_:
            return c.file.text[start : c.done]


def skip_location(c: Cursor) -> str:
    """Passes over `loc(...)` where one stands; its text."""
    if c.text != "loc" or c.peek() != "(":
        return ""
    c.take()
    return skip_balanced(c)


def read_string(c: Cursor) -> str:
    """A string literal's value; MLIR's own escapes (`\\0A`) stay as written."""
    text = c.expect_kind("string", "a string")
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]


def read_symbol(c: Cursor) -> Symbol:
    name = c.expect_kind("symbol", "a `@name`")[1:]
    while c.text == ":" and c.peek() == ":":  # a nested reference: the last part is the name
        c.at += 2
        name = c.expect_kind("symbol", "a `@name`")[1:]
    return Symbol(name[1:-1] if name.startswith('"') else name)


def read_value(c: Cursor, depth: int = 0, typed: bool = True) -> Value:
    """One attribute. `typed`: a `: type` may follow numbers and dense literals and belongs to them."""
    if depth > MAX_NESTED:
        c.fail(f"attributes lie more than {MAX_NESTED} deep in each other")
    match c.kind:
        case "number":
            return _number(c, typed)
        case "string":
            found: Value = read_string(c)
            _skip_type(c, typed)
            return found
        case "symbol":
            return read_symbol(c)
        case "dense":
            return _dense(c, typed)
        case "hash":
            return _dialect(c, depth)
        case "tensor" | "bang":
            return TypeText(read_type(c, depth))
        case "word":
            return _word(c, depth, typed)
        case _:
            return _bracketed(c, depth)


def _bracketed(c: Cursor, depth: int) -> Value:
    if c.text == "[":
        return read_list(c, depth)
    if c.text == "{":
        return read_dict(c, depth)
    if c.text != "(":
        c.fail("expected an attribute")
    return TypeText(read_type(c, depth))


def _skip_type(c: Cursor, typed: bool) -> str:
    return read_type(c) if typed and c.skip(":") else ""


def _number(c: Cursor, typed: bool) -> int | float:
    at, text = c.at, c.take()
    plain = "0x" not in text and any(ch in text for ch in ".eE")
    if len(text) > 400:
        c.at = at
        c.fail("expected a number of fewer digits")
    _skip_type(c, typed)
    return float(text) if plain else int(text, 0) if "0x" in text else int(text)


def _dense(c: Cursor, typed: bool) -> Dense:
    at, text = c.start, c.take()
    return Dense(text[len("dense<") : -1], _skip_type(c, typed), at)


def read_list(c: Cursor, depth: int = 0) -> tuple[Value, ...]:
    """`[a, b, …]`."""
    c.expect("[", "before a list")
    found: list[Value] = []
    while not c.skip("]"):
        found.append(Word(c.take()) if c.text in ("?", "*") else read_value(c, depth + 1))
        if not c.skip(",") and c.text != "]":
            c.fail("expected `,` or `]` in a list")
    return tuple(found)


def read_dict(c: Cursor, depth: int = 0) -> dict[str, Value]:
    """`{name = value, name, …}`; a name without a value is `unit`."""
    c.expect("{", "before attributes")
    found = _entries(c, "}", depth)
    c.expect("}", "after attributes")
    return found


def _entries(c: Cursor, end: str, depth: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    while c.text != end:
        name = read_string(c) if c.kind == "string" else c.expect_kind("word", "the name of an attribute")
        found[name] = read_value(c, depth + 1) if c.skip("=") else Word("unit")
        if not c.skip(",") and c.text != end:
            c.fail(f"expected `,` or `{end}` between attributes")
    return found


def _word(c: Cursor, depth: int, typed: bool) -> Value:
    text = c.text
    if text in ("true", "false"):
        c.take()
        _skip_type(c, typed)
        return text == "true"
    if text == "array" and c.peek() == "<":
        return _array(c, depth)
    if text in _TYPE_WORDS:
        return TypeText(read_type(c, depth))
    if text == "loc":
        return Opaque(skip_location(c))
    c.take()
    if c.text == "<":  # affine_map<…>, dense_resource<…>, sparse<…>
        return Opaque(text + skip_balanced(c))
    return Word(text)


def _array(c: Cursor, depth: int) -> tuple[Value, ...]:
    """`array<i64: 1, 2>`."""
    c.at += 2
    c.expect_kind("word", "the element type of an array")
    found: list[Value] = []
    if c.skip(":"):
        while c.text != ">":
            found.append(read_value(c, depth + 1, typed=False))
            if not c.skip(",") and c.text != ">":
                c.fail("expected `,` or `>` in an array")
    c.expect(">", "after an array")
    return tuple(found)


def _dialect(c: Cursor, depth: int) -> Value:
    """`#stablehlo<kind VALUE>`, `#stablehlo.name<key = value, …>`; of other dialects only the text."""
    name = c.take()[1:]
    if c.text != "<":
        return Opaque(name)
    if not name.startswith(("stablehlo", "chlo", "mhlo")) or name.startswith("mhlo.sharding"):
        return Opaque(name + skip_balanced(c))
    if name.endswith(".conv"):
        c.take()
        axes = read_conv_axes(c)
        c.expect(">", "after the dimension numbers of a convolution")
        return axes
    return read_angled(c, depth)


def read_angled(c: Cursor, depth: int = 0) -> Value:
    """`<key = value, …>` as a dictionary, `<kind VALUE>` as its last word; anything else as text."""
    at = c.at
    c.expect("<", "before a parameter")
    if c.kind == "word" and c.peek() in ("=", ">", ","):
        if c.peek() == ">":
            word = Word(c.take())
            c.take()
            return word
        found = _entries(c, ">", depth)
        c.expect(">", "after parameters")
        return found
    if c.skip(">"):
        return {}
    if c.kind == "word" and c.kinds[c.at + 1] == "word" and c.peek(2) == ">":
        c.take()
        word = Word(c.take())
        c.take()
        return word
    c.at = at
    return Opaque(skip_balanced(c))


def read_conv_axes(c: Cursor) -> ConvAxes:
    operand = _axis_names(c)
    if not c.skip("x"):
        c.fail("expected `x` between the axes of operand and kernel")
    kernel = _axis_names(c)
    c.expect("->", "before the axes of the result")
    return ConvAxes(operand, kernel, _axis_names(c))


def _axis_names(c: Cursor) -> tuple[str, ...]:
    c.expect("[", "before the axes of a convolution")
    found: list[str] = []
    while not c.skip("]"):
        if c.kind not in ("word", "number", "mark") or (c.kind == "mark" and c.text != "?"):
            c.fail("expected the name of an axis")
        found.append(c.take())
        if not c.skip(",") and c.text != "]":
            c.fail("expected `,` or `]` between axes")
    return tuple(found)
