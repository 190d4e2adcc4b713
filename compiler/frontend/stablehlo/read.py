"""Reads StableHLO texts: modules and functions, in the pretty and the generic form of each operation.

One reader serves all pretty forms, which differ in little: operands, words, `key = value`, a dictionary, then types. It
is therefore laxer than MLIR's own; what an operation needs is checked where it is imported. Must not know what
operations mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...source import SourceFile
from .attributes import (
    read_angled,
    read_conv_axes,
    read_dict,
    read_list,
    read_result_types,
    read_string,
    read_symbol,
    read_type,
    read_types,
    read_value,
    skip_balanced,
    skip_location,
)
from .scan import Cursor, malformed, scan
from .syntax import Argument, Attributes, Block, Function, Module, Operation, Symbol, TypeText, Value, Word

# How deep regions may lie in each other.
MAX_REGIONS = 48
# Names that print without the dialect they are of.
_SHORT = {"return": "func.return", "call": "func.call"}


def read_module(file: SourceFile) -> Module:
    """The module `file` writes, with or without `module { … }` around its functions. DiagnosticError (E1113)."""
    c = scan(file)
    found = _Found(file)
    _skip_aliases(c)
    if c.text == "module":
        c.take()
        if c.kind == "symbol":
            c.take()
        if c.skip("attributes"):
            found.attributes.update(read_dict(c))
        c.expect("{", "before the functions of a module")
        _functions(c, found, "}")
        c.expect("}", "after the functions of a module")
    elif c.text == '"builtin.module"':
        _generic_module(c, found)
    else:
        _functions(c, found, "")
    skip_location(c)
    _skip_aliases(c)
    if c.kind != "end":
        c.fail("expected nothing more after the module")
    return Module(file, found.functions, found.attributes, tuple(found.passed_over))


@dataclass(slots=True)
class _Found:
    file: SourceFile
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])
    passed_over: list[str] = field(default_factory=list[str])

    def add(self, f: Function) -> None:
        if f.name in self.functions:
            raise malformed(self.file, f"a second function @{f.name}", f.start, f.end)
        self.functions[f.name] = f


def _skip_aliases(c: Cursor) -> None:
    """Passes over `#loc = …`, `!name = …` and resource sections at the top level."""
    while True:
        if c.kind == "resources":
            c.take()
        elif c.kind in ("hash", "bang") and c.peek() == "=":
            c.at += 2
            if not skip_location(c):
                read_value(c)
        else:
            return


def _functions(c: Cursor, found: _Found, end: str) -> None:
    while True:
        _skip_aliases(c)
        if c.kind == "end" or (c.kind == "mark" and c.text == end):
            return
        if c.text in ("func.func", "func"):
            found.add(_function(c))
        elif c.text == "module":
            c.fail("expected a function; modules in modules are out of scope")
        elif c.kind in ("word", "string"):
            found.passed_over.append(c.text.strip('"'))
            _skip_other(c)
        else:
            c.fail("expected a function")


def _skip_other(c: Cursor) -> None:
    """Passes over an operation of another dialect that stands among functions."""
    c.take()
    while c.kind != "end" and c.text not in ("func.func", "func", "}"):
        if c.kind == "mark" and c.text in "([{<":
            skip_balanced(c)
        else:
            c.take()


# ---- functions -------------------------------------------------------------------------------------


def _function(c: Cursor) -> Function:
    start = c.start
    c.take()
    public = True
    while c.text in ("public", "private", "nested"):
        public = c.take() != "private"
    name = read_symbol(c).name
    arguments = _arguments(c)
    types, attributes = _results(c) if c.skip("->") else ((), ())
    if c.skip("attributes"):
        read_dict(c)
    body = _region(c, 0, arguments) if c.text == "{" else None
    skip_location(c)
    return Function(name, arguments, types, attributes, public, body, start, c.done)


def _arguments(c: Cursor) -> tuple[Argument, ...]:
    """`(%a: type {attributes} loc(…), …)`; of a declaration, types only."""
    c.expect("(", "before arguments")
    found: list[Argument] = []
    while not c.skip(")"):
        name = ""
        if c.kind == "value":
            name = c.take()
            c.expect(":", "before the type of an argument")
        type = read_type(c)
        attributes = read_dict(c) if c.text == "{" else {}
        skip_location(c)
        found.append(Argument(name, type, attributes))
        if not c.skip(",") and c.text != ")":
            c.fail("expected `,` or `)` between arguments")
    return tuple(found)


def _results(c: Cursor) -> tuple[tuple[str, ...], tuple[Attributes, ...]]:
    if not c.skip("("):
        return (read_type(c),), ({},)
    types, attributes = list[str](), list[Attributes]()
    while not c.skip(")"):
        types.append(read_type(c))
        attributes.append(read_dict(c) if c.text == "{" else {})
        if not c.skip(",") and c.text != ")":
            c.fail("expected `,` or `)` between results")
    return tuple(types), tuple(attributes)


def _generic_module(c: Cursor, found: _Found) -> None:
    """`"builtin.module"() ({ "func.func"() … })`."""
    op = _operation(c, 0)
    found.attributes.update(op.attributes)
    for inner in op.regions[0].operations if op.regions else ():
        if inner.name == "func.func":
            found.add(_from_generic(found.file, inner))
        else:
            found.passed_over.append(inner.name)


def _from_generic(file: SourceFile, op: Operation) -> Function:
    """A function from the operation `func.func` with its type and name as attributes."""
    name, type = op.attributes.get("sym_name"), op.attributes.get("function_type")
    if not isinstance(name, str) or not isinstance(type, TypeText):
        raise malformed(file, "expected a function with a name and a type", op.start, op.end)
    c = scan(SourceFile(file.path, type.text))
    takes = read_types(c)
    c.expect("->", "in the type of a function")
    gives = read_result_types(c)
    body = op.regions[0] if op.regions and (op.regions[0].arguments or op.regions[0].operations) else None
    public = op.attributes.get("sym_visibility") != "private"
    noted = _dicts(op.attributes.get("arg_attrs"), len(takes))
    own = body.arguments if body and len(body.arguments) == len(takes) else tuple(Argument("", t, {}) for t in takes)
    arguments = tuple(replace(a, attributes=d) for a, d in zip(own, noted, strict=True))
    if body:
        body = replace(body, arguments=arguments)
    return Function(
        name, arguments, gives, _dicts(op.attributes.get("res_attrs"), len(gives)), public, body, op.start, op.end
    )


def _dicts(value: Value | None, count: int) -> tuple[Attributes, ...]:
    none: Attributes = {}
    if not isinstance(value, tuple) or len(value) != count:
        return (none,) * count
    return tuple(d if isinstance(d, Mapping) else none for d in value)


# ---- regions ---------------------------------------------------------------------------------------


def _region(c: Cursor, depth: int, arguments: tuple[Argument, ...] | None = None) -> Block:
    """`{ operations }`, or `{ ^bb0(arguments): operations }`."""
    if depth > MAX_REGIONS:
        c.fail(f"regions lie more than {MAX_REGIONS} deep in each other")
    c.expect("{", "before a region")
    taken = arguments
    if c.kind == "caret":
        c.take()
        own = _arguments(c) if c.text == "(" else ()
        c.expect(":", "after the label of a block")
        taken = own if arguments is None else arguments
    operations: list[Operation] = []
    while not c.skip("}"):
        if c.kind == "caret":
            c.fail("expected `}`; regions of several blocks are out of scope")
        operations.append(_operation(c, depth))
    return Block(taken or (), tuple(operations))


def _regions(c: Cursor, depth: int) -> tuple[Block, ...]:
    """`({ … }, { … })`."""
    c.expect("(", "before regions")
    found: list[Block] = []
    while not c.skip(")"):
        found.append(_region(c, depth + 1))
        if not c.skip(",") and c.text != ")":
            c.fail("expected `,` or `)` between regions")
    return tuple(found)


# ---- operations ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Parts:
    """What is read of an operation so far. `bound` are second halves of `%a init: %b` and `%a = %b`."""

    name: str
    operands: list[str] = field(default_factory=list[str])
    bound: list[str] = field(default_factory=list[str])
    words: list[str] = field(default_factory=list[str])
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])
    regions: tuple[Block, ...] = ()
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()


def _operation(c: Cursor, depth: int) -> Operation:
    start = c.start
    results = _result_names(c)
    if c.kind == "string":
        p = _generic(c, depth)
    elif c.kind == "word" and ("." in c.text or c.text in _SHORT):
        p = _pretty(c, depth, len(results))
    else:
        c.fail("expected an operation")
    skip_location(c)
    given, stated = len(results), len(p.gives)
    if given > stated:
        raise malformed(c.file, f"{p.name} has {given} results but {stated} types for them", start, c.done)
    return Operation(
        p.name, tuple(p.operands), tuple(results), p.takes, p.gives, p.attributes, p.regions, start, c.done
    )  # fmt: skip


def _result_names(c: Cursor) -> list[str]:
    """`%a, %b:2 =` as %a, %b#0, %b#1."""
    names: list[str] = []
    if c.kind != "value":
        return names
    while True:
        name = c.expect_kind("value", "the name of a result")
        if c.skip(":"):
            count = c.expect_kind("number", "how many results there are")
            if not count.isdigit() or len(count) > 4:
                c.fail("expected how many results there are")
            names += [f"{name}#{i}" for i in range(int(count))]
        else:
            names.append(name)
        if not c.skip(","):
            break
    c.expect("=", "after the results of an operation")
    return names


def _generic(c: Cursor, depth: int) -> _Parts:
    """`"name"(operands) <{properties}> ({regions}) {attributes} : (types) -> types`."""
    p = _Parts(read_string(c))
    c.expect("(", "before operands")
    while not c.skip(")"):
        p.operands.append(c.expect_kind("value", "an operand"))
        if not c.skip(",") and c.text != ")":
            c.fail("expected `,` or `)` between operands")
    if c.text == "[":
        c.fail("expected types; successors are out of scope")
    if c.skip("<"):
        p.attributes.update(read_dict(c))
        c.expect(">", "after properties")
    if c.text == "(":
        p.regions = _regions(c, depth)
    if c.text == "{":
        p.attributes.update(read_dict(c))
    c.expect(":", "before the types of an operation")
    p.takes = read_types(c)
    c.expect("->", "before the types of results")
    p.gives = read_result_types(c)
    return p


def _pretty(c: Cursor, depth: int, results: int) -> _Parts:
    word = c.take()
    p = _Parts(_SHORT.get(word, word))
    while c.text != ":" and not _ends(c):
        if c.text == "{" and c.kinds[c.at + 1] == "caret":
            p.regions += (_region(c, depth + 1),)
        else:
            _item(c, p)
    types: list[str] = []
    while c.skip(":"):
        types = _type_part(c, p)
    if p.name == "stablehlo.reduce":
        p.operands += p.bound
    if not p.gives and types:
        p.gives = tuple(types[len(types) - results :]) if results else ()
        p.takes = tuple(types) if len(types) == len(p.operands) else ()
    if c.text == "{" and p.name.startswith("check."):
        p.attributes.update(read_dict(c))
    _trailing(c, p, depth)
    _named_words(p)
    return p


def _ends(c: Cursor) -> bool:
    """Whether what comes next is no part of the operation being read: another one, or the end of the region."""
    if c.kind in ("end", "caret") or c.text == "}":
        return True
    if c.kind == "value":  # `%x = …`, `%x:2 = …`, `%x, %y = …` begin an operation of their own
        return c.texts[c.at - 1] not in (",", "(") and (c.peek() == "=" or _begins(c))
    return c.kind == "word" and (c.text in _SHORT or (c.text == "loc" and c.peek() == "("))


def _begins(c: Cursor) -> bool:
    """Whether `%x, %y:2 = name` stands here."""
    at = c.at
    while c.kinds[at] == "value":
        at += 1
        if c.texts[at] == ":" and c.kinds[min(at + 1, len(c.kinds) - 1)] == "number":
            at += 2
        if c.texts[at] == "=":
            return True
        if c.texts[at] != ",":
            return False
        at += 1
    return False


def _item(c: Cursor, p: _Parts) -> None:
    """One part of a pretty form."""
    match c.kind:
        case "value":
            p.operands.append(c.take())
            if c.text == "[":
                _subscript(c, p)
        case "symbol":
            p.attributes["callee"] = read_symbol(c)
        case "string":
            p.attributes["name"] = read_string(c)
        case "dense" | "number":
            p.attributes["value"] = read_value(c, typed=False)
        case "hash":
            p.attributes["value"] = read_value(c)
        case "word":
            _word(c, p)
        case "mark":
            _mark(c, p)
        case _:
            c.fail(f"cannot read {p.name}")


def _mark(c: Cursor, p: _Parts) -> None:
    if c.text == "{":
        p.attributes.update(read_dict(c))
    elif c.text == "<" and c.peek() == "{":
        c.take()
        p.attributes.update(read_dict(c))
        c.expect(">", "after properties")
    elif c.text == "(":
        _group(c, p)
    elif not c.skip(","):
        c.fail(f"cannot read {p.name}")


def _group(c: Cursor, p: _Parts) -> None:
    """`(%a, %b)`, `(%a init: %b)`, `(%arg = %a, …)`, `(%a, k = 3)`."""
    c.take()
    while not c.skip(")"):
        if c.kind == "word":
            _word(c, p)
        else:
            name = c.expect_kind("value", "an operand")
            if c.skip("="):
                p.bound.append(name)
                p.operands.append(c.expect_kind("value", "an operand"))
            else:
                p.operands.append(name)
                if c.skip("init"):
                    c.expect(":", "after `init`")
                    p.bound.append(c.expect_kind("value", "an initial value"))
        if not c.skip(",") and c.text != ")":
            c.fail("expected `,` or `)` between operands")


def _subscript(c: Cursor, p: _Parts) -> None:
    """`[0:4, 1:8:2]` of a slice, `[0]` of a tuple."""
    c.take()
    rows: list[Value] = []
    while not c.skip("]"):
        row = [_whole(c)]
        while c.skip(":"):
            row.append(_whole(c))
        rows.append(tuple(row))
        if not c.skip(",") and c.text != "]":
            c.fail("expected `,` or `]` between ranges")
    p.attributes["ranges"] = tuple(rows)


def _whole(c: Cursor) -> Value:
    value = read_value(c, typed=False)
    if not isinstance(value, int):
        c.fail("expected a whole number before this")
    return value


def _word(c: Cursor, p: _Parts) -> None:
    if c.peek() == "<" and c.text in ("dense_resource", "sparse"):
        p.attributes["value"] = read_value(c, typed=False)
        return
    name = c.take()
    if name == "applies":
        p.attributes["applies"] = c.expect_kind("word", "the operation that is applied")
    elif name == "inits":
        p.attributes[name] = len(p.operands)
    elif not c.skip("="):
        p.words.append(name)
    elif name == "dim_numbers":
        p.attributes[name] = read_conv_axes(c)
    elif name == "algorithm" and c.text == "<":
        p.attributes[name] = read_angled(c)
    else:
        value = read_value(c, typed=False)
        if c.text == "x" and c.peek() == "[":
            c.take()
            value = (value, read_list(c))
        p.attributes[name] = value


def _type_part(c: Cursor, p: _Parts) -> list[str]:
    """`type, …`, `(types) -> types` or `types -> types`; the types listed when nothing says which are results."""
    if c.text == "(":
        p.takes = read_types(c)
        if not c.skip("->"):  # `() `: nothing at all
            return list(p.takes)
        p.gives = read_result_types(c)
        return []
    listed = [read_type(c)]
    while c.skip(","):
        listed.append(read_type(c))
    if c.skip("->"):
        p.takes, p.gives = tuple(listed), read_result_types(c)
    return listed


def _trailing(c: Cursor, p: _Parts, depth: int) -> None:
    """The regions of pretty `while` and `reduce`."""
    if p.name == "stablehlo.while":
        _while(c, p, depth)
    elif p.name == "stablehlo.reduce" and c.skip("reducer"):
        pairs: list[tuple[Argument, ...]] = []
        while c.text == "(":
            pairs.append(_arguments(c))
        if any(len(pair) != 2 for pair in pairs):
            c.fail("expected pairs of arguments before the reducer")
        firsts, seconds = (tuple(pair[i] for pair in pairs) for i in (0, 1))
        p.regions = (_region(c, depth + 1, (*firsts, *seconds)),)


def _while(c: Cursor, p: _Parts, depth: int) -> None:
    if c.skip("attributes"):
        p.attributes.update(read_dict(c))
    if c.text != "cond":
        return
    c.take()
    arguments = tuple(Argument(name, type, {}) for name, type in zip(p.bound, p.gives or p.takes, strict=False))
    if len(arguments) != len(p.bound):
        c.fail("expected as many types as carried values before the condition")
    cond = _region(c, depth + 1, arguments)
    c.expect("do", "before the body of a while")
    p.regions = (cond, _region(c, depth + 1, arguments))


def _named_words(p: _Parts) -> None:
    """Words that stand alone mean an attribute each."""
    for word in p.words:
        match p.name, word:
            case "stablehlo.compare", "FLOAT" | "TOTALORDER" | "SIGNED" | "UNSIGNED":
                p.attributes["compare_type"] = Word(word)
            case "stablehlo.compare" | "chlo.broadcast_compare", _:
                p.attributes["comparison_direction"] = Word(word)
            case "stablehlo.reduce", "across":
                pass  # `across dimensions = [...]`
            case _:
                p.attributes[word] = Word("unit")
    callee = p.attributes.get("callee")
    if p.name == "stablehlo.custom_call" and isinstance(callee, Symbol):
        p.attributes["call_target_name"] = callee.name
