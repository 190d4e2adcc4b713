"""One operation as its handler sees it: operands as values of the builder, attributes by any of their names.

Must not know how names are resolved, nor any operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from ...graph import Builder, Graph, TensorType
from .literals import Unreadable, decode
from .syntax import Block, Dense, Operation, Value, Word
from .types import NoTensor, tensor_type

if TYPE_CHECKING:
    from .scope import Scope

# The most entries an attribute of integers may have: as many as a tensor has axes, or pairs of them.
_MOST_ENTRIES = 4096


class Refused(Exception):
    """An operation that cannot be imported; the importer adds which one."""

    def __init__(self, why: str, help: str | None = None, code: str = "E1106") -> None:
        super().__init__(why)
        self.why, self.help, self.code = why, help, code


@dataclass(slots=True)
class Call:
    """An operation, its operands and the types that the text states for its results."""

    op: Operation
    args: tuple[int, ...]
    gives: tuple[TensorType, ...]
    scope: Scope = field(repr=False)

    @property
    def b(self) -> Builder:
        return self.scope.b

    def type(self, i: int = 0) -> TensorType:
        """The type of operand `i`."""
        if i >= len(self.args):
            self.refuse(f"needs {i + 1} operands, got {len(self.args)}")
        return self.b.types[self.args[i]]

    @property
    def types(self) -> tuple[TensorType, ...]:
        return tuple(self.b.types[a] for a in self.args)

    @property
    def gives_one(self) -> TensorType:
        if len(self.gives) != 1:
            self.refuse(f"states {len(self.gives)} results and has one")
        return self.gives[0]

    def refuse(self, why: str, help: str | None = None, code: str = "E1106") -> NoReturn:
        raise Refused(why, help, code)

    def arity(self, least: int, most: int | None = None) -> tuple[int, ...]:
        """The operands; refused when there are fewer or more."""
        if not least <= len(self.args) <= (least if most is None else most):
            self.refuse(f"takes {least}{f' to {most}' if most else ''} operands, got {len(self.args)}")
        return self.args

    # ---- attributes, by the name in the generic or in the pretty form ------------------------------

    def has(self, *names: str) -> bool:
        return any(n in self.op.attributes for n in names)

    def value(self, *names: str) -> Value | None:
        """The attribute under the first of these names that is there."""
        for name in names:
            if name in self.op.attributes:
                return self.op.attributes[name]
        return None

    def ints(self, *names: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """Integers from `[1, 2]`, `array<i64: 1, 2>` or `dense<[1, 2]>`; refused when absent and without default."""
        found = self.value(*names)
        if found is None:
            if default is None:
                self.refuse(f"needs the attribute {names[0]}")
            return tuple(default)
        return self.as_ints(found, names[0])

    def as_ints(self, found: Value | None, name: str) -> tuple[int, ...]:
        """`found` as integers; refused when it is something else."""
        if isinstance(found, Dense):
            t = tensor_type(found.type)
            if isinstance(t, NoTensor) or t.dtype.is_float or t.size > _MOST_ENTRIES:
                self.refuse(f"{name} must be integers, got dense<{found.body[:20]}>")
            return tuple(int(v) for v in _filled(self, found, t, name))
        if not isinstance(found, tuple) or not all(isinstance(v, int) for v in found) or len(found) > _MOST_ENTRIES:
            self.refuse(f"{name} must be integers")
        return tuple(int(v) for v in found if isinstance(v, int))

    def flags(self, *names: str, default: Sequence[bool]) -> tuple[bool, ...]:
        return tuple(bool(v) for v in self.ints(*names, default=default))

    def int(self, *names: str, default: int | None = None) -> int:
        found = self.value(*names)
        if found is None and default is not None:
            return default
        if not isinstance(found, int):
            self.refuse(f"{names[0]} must be an integer" if found is not None else f"needs the attribute {names[0]}")
        return int(found)

    def flag(self, *names: str, default: bool = False) -> bool:
        found = self.value(*names)
        return (
            True
            if isinstance(found, Word) and found.text in ("unit", "true")
            else bool(self.int(*names, default=default))
        )

    def word(self, *names: str, default: str = "") -> str:
        """An enumerator or string."""
        found = self.value(*names)
        if isinstance(found, Word):
            return found.text
        return found if isinstance(found, str) else default

    def fields(self, *names: str) -> Mapping[str, Value]:
        """A dictionary such as `#stablehlo.gather<...>`."""
        found = self.value(*names)
        if not isinstance(found, Mapping):
            self.refuse(f"needs the attribute {names[0]}")
        return found

    # ---- regions -----------------------------------------------------------------------------------

    def block(self, i: int = 0) -> Block:
        if len(self.op.regions) <= i:
            self.refuse(f"has {len(self.op.regions)} regions, needs {i + 1}")
        return self.op.regions[i]

    def region(self, takes: Sequence[TensorType], gives: Sequence[TensorType], i: int = 0) -> Graph:
        """Region `i` as a graph of operands of the types `takes` and nothing else, that gives the types `gives`."""
        graph, captures = self.scope.region(self.block(i), takes, self.op.name)
        if captures:
            self.refuse(f"has a region that reads {captures[0]}, a value from outside that is no literal")
        if graph.output_types != tuple(gives):
            made, wanted = (", ".join(map(str, types)) or "nothing" for types in (graph.output_types, gives))
            self.refuse(f"has a region that gives {made} where {wanted} is needed")
        return graph


def _filled(call: Call, found: Dense, t: TensorType, name: str) -> Sequence[int]:
    try:
        array = decode(found.body, t)
    except Unreadable as error:
        call.refuse(f"{name}: {error}")
    return [array.item()] * t.size if not array.ndim else array.reshape(-1).tolist()


Results: TypeAlias = "int | Sequence[int]"
Handler: TypeAlias = "Callable[[Call], Results]"
