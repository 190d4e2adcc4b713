"""What a machine file becomes: frozen figures, each with its source, and a digest of the whole.

Knows spans only. Must not know what any figure means to a target.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

from ..source import Span

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Scalar = bool | int | float | str

# How a figure is known: read in a document, measured, worked out from others, guessed, or set by the user of this run.
SOURCE_KINDS = ("doc", "measured", "derived", "guess")
USER_SOURCE = "user: --set"


class FrozenDict(dict[K, V]):
    """A dict that cannot change after it is made, so that it can be hashed and shared."""

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # dict sets it to None
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type["FrozenDict[K, V]"], tuple[dict[K, V]]]:
        return FrozenDict, (dict(self),)

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("a FrozenDict cannot be changed")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore


@dataclass(frozen=True, slots=True)
class Machine(Generic[T]):
    """A machine description. `value` is the target's own dataclass; keys below are dotted (`dma.hbm_gbs`)."""

    name: str
    value: T
    # Every figure that the file or the user gives, by dotted key; a table of figures has one key per entry.
    figures: FrozenDict[str, Scalar]
    # The same keys: "doc: ...", "measured: ...", "derived: ...", "guess: ..." or USER_SOURCE.
    sources: FrozenDict[str, str]
    # sha256 (hex) of name, figures and sources, overrides included; comments and layout of the file do not matter.
    digest: str
    # The file as read, and the `--set` texts laid over it in order.
    text: str = field(repr=False)
    overrides: tuple[str, ...]
    _spans: FrozenDict[str, Span] = field(repr=False, compare=False)

    def kind(self, key: str) -> str:
        """How the figure `key` is known: one of `SOURCE_KINDS`, or "user". Raises KeyError for no figure."""
        return self.sources[key].partition(":")[0].strip()

    def is_guess(self, key: str) -> bool:
        """Whether the figure `key` is a guess. Raises KeyError for no figure."""
        return self.kind(key) == "guess"

    def span(self, key: str) -> Span:
        """Where the figure `key` is given: in the file, or in a `--set`. For diagnostics of the target's own checks."""
        return self._spans[key]


def frozen(items: Mapping[K, V]) -> FrozenDict[K, V]:
    """A frozen copy of `items`."""
    return FrozenDict(items)
