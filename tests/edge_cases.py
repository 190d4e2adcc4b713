"""The cases of tests/graph/edges: what each op is shown on. Their format: tests/graph/test_edges.py."""

import ast
import itertools
from collections.abc import Iterator

import numpy as np
from golden import TESTS, read_case
from tdslc.compiler.graph import DTYPES, OPS, Attr, DType, NDArray
from tdslc.compiler.graph.dtypes import int_range, rounded

FOLDER = TESTS / "graph" / "edges"
FLOAT_SPECIALS = ["-inf", "-2.5", "-1", "-0", "0", "0.5", "1", "3", "inf", "nan"]


def edge_cases(op: str) -> Iterator[tuple[list[NDArray], dict[str, Attr]]]:
    """Operands and attributes of every case of `op`, those among them that its row refuses; tables as one case each."""
    path = FOLDER / f"{op}.txt"
    if not path.exists():
        return
    case = read_case(path)
    for name in case.get("table", "").split():
        d, words = DTYPES[name], specials(DTYPES[name])
        if len(OPS[op].operands) == 1:
            yield [values(d, words)], {}
            continue
        pairs = list(itertools.product(words, repeat=2))
        yield [values(d, [p[i] for p in pairs]) for i in range(2)], {}
    for line in case.input.splitlines():
        if line.strip():
            yield parsed(line)


def specials(d: DType) -> list[str]:
    if d.is_float:
        return FLOAT_SPECIALS
    if d.kind == "bool":
        return ["0", "1"]
    low, high = int_range(d)
    return [str(n) for n in sorted({low, low + 1, -3, -1, 0, 1, 2, high - 1, high}) if low <= n <= high]


def values(d: DType, words: list[str]) -> NDArray:
    if d.is_float:
        return rounded(np.array([float(w) for w in words]), d)
    return np.array([int(w) for w in words], np.uint64 if d.kind == "uint" else np.int64).astype(d.numpy)


def parsed(line: str) -> tuple[list[NDArray], dict[str, Attr]]:
    """The operands and attributes of a case of one line."""
    operands: list[NDArray] = []
    attrs: dict[str, Attr] = {}
    for part in filter(None, map(str.strip, line.split("|"))):
        if ":" in part:
            operands.append(operand(part))
        else:
            name, _, value = part.partition("=")
            attrs[name.strip()] = attribute(value.strip())
    return operands, attrs


def operand(part: str) -> NDArray:
    head, _, words = part.partition(":")
    name, _, shape = head.strip().rstrip("]").partition("[")
    return values(DTYPES[name], words.split()).reshape(ast.literal_eval(f"[{shape}]"))


def attribute(word: str) -> Attr:
    if word in DTYPES:
        return DTYPES[word]
    return float(word) if word.lstrip("-") in ("nan", "inf", "0.0") else ast.literal_eval(word)
