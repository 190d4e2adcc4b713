"""Reading a machine file: TOML laid under a target's schema, `--set` laid over it, every mistake told at once."""

import hashlib
import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from ..source import Diagnostic, DiagnosticError, SourceFile, Span, did_you_mean, nearest, read_source
from .places import Path, Place, find_places
from .schema import Bounds, Leaf, Table, keys_of, table_of
from .value import SOURCE_KINDS, USER_SOURCE, Machine, Scalar, frozen

T = TypeVar("T")
Raw = dict[str, Any]

# A name becomes part of a folder's name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Names of entries stand in dotted keys, so they have no dots of their own.
_ENTRY = re.compile(r"[A-Za-z0-9_-]+")
_TOML_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
# No figure of a machine lies outside, and sums and quotients of some figures inside stay finite.
_BOUNDS = Bounds(1e-9, 1e15)
_ONE = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
_MANY = {bool: "true or false", int: "whole numbers", float: "numbers", str: "strings"}


@dataclass(slots=True)
class _Reading:
    """A reading under way: the raw values, where they stand, and what has been found so far."""

    raw: Raw
    places: dict[Path, Place]
    file: SourceFile
    set_by_user: set[Path] = field(default_factory=set[Path])
    problems: list[Diagnostic] = field(default_factory=list[Diagnostic])
    unknown: set[str] = field(default_factory=set[str])
    figures: dict[str, Scalar] = field(default_factory=dict[str, Scalar])
    spans: dict[str, Span] = field(default_factory=dict[str, Span])

    def problem(self, code: str, message: str, span: Span, help: str | None = None) -> None:
        self.problems.append(Diagnostic(code, message, span, help=help))

    def key_span(self, path: Path) -> Span:
        """Where `path`, or else the nearest table around it, is named."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places[path].key if path else self.file.span(0, 0)

    def value_span(self, path: Path) -> Span:
        return self.places[path].value if path in self.places else self.key_span(path)

    def by_user(self, path: Path) -> bool:
        return any(path[:n] in self.set_by_user for n in range(1, len(path) + 1))


def load_machine(
    schema: type[T], source: str | os.PathLike[str] | SourceFile, overrides: Sequence[str] = ()
) -> Machine[T]:
    """The machine that the TOML text `source` (a path, or a text already read) describes.

    `schema` is the target's frozen dataclass (`schema.py` tells what it may hold). Beside its keys the text has `name`
    and a table `[source]` with one tag per figure, `"dma.hbm_gbs" = "doc: TpuInfo"`: a dict of figures may have one
    for all. Each override is a text `key=value`, the value as in TOML, quotes around strings optional; the last one of
    a key counts, and its source is "user: --set". Raises DiagnosticError with everything that is wrong.
    """
    table = table_of(schema)
    file = source if isinstance(source, SourceFile) else read_source(source)
    raw = _parse(file)
    reading = _Reading(raw, find_places(file), file)
    for text in overrides:
        _override(reading, table, text)
    name = _name(reading)
    value = _read_table(reading, table, raw, ())
    sources = _sources(reading, table)
    if reading.problems:
        raise DiagnosticError(reading.problems)
    return Machine(
        name=name,
        value=cast(T, value),
        figures=frozen(reading.figures),
        sources=frozen(sources),
        digest=_digest(name, reading.figures, sources),
        text=file.text,
        overrides=tuple(overrides),
        _spans=frozen(reading.spans),
    )


def _parse(file: SourceFile) -> Raw:
    try:
        return tomllib.loads(file.text)
    except RecursionError:
        raise DiagnosticError(Diagnostic("E0501", "nested too deeply for a machine file", file.span(0, 0))) from None
    except ValueError as error:
        message = str(error)
        found = _TOML_POSITION.search(message)
        offset = _offset(file, found)
        said = message[: found.start()] if found else message
        raise DiagnosticError(
            Diagnostic("E0501", f"not TOML: {said[:1].lower()}{said[1:]}", file.span(offset, offset))
        ) from None


def _offset(file: SourceFile, found: re.Match[str] | None) -> int:
    """The offset that the end of a tomllib message tells."""
    if found is None:
        return 0
    if found[1] is None:
        return len(file.text)
    line = int(found[1])
    return min(file.line_starts[line - 1] + int(found[2]) - 1, len(file.text))


def _override(reading: _Reading, table: Table, text: str) -> None:
    """Lay `key=value` over the raw values; what it does wrong is told like what a file does wrong."""
    said = SourceFile("--set", text)
    key, equals, written = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        reading.problem("E0508", "a setting is `key=value`", said.span(), "for example `--set clock_ghz=1.2`")
        return
    key_span = said.span(0, len(key))
    if not isinstance(_node(table, path), Leaf):
        problem = f"`{'.'.join(path)}` is not a figure of this machine"
        reading.problem("E0502", problem, key_span, _settable_help(table, ".".join(path)))
        return
    value_span = said.span(len(key) + 1)
    try:
        value = _setting(table, path, written.strip())
    except (ValueError, RecursionError):
        message = f"`{written.strip()}` is not a value" if written.strip() else "no value after `=`"
        reading.problem("E0508", message, value_span, "values are written as in TOML")
        return
    holder = reading.raw
    for part in path[:-1]:
        inner: object = holder.setdefault(part, {})
        if not isinstance(inner, dict):
            return  # The file has something else where the table belongs, which is told when it is read.
        holder = cast(Raw, inner)
    holder[path[-1]] = value
    reading.places[path] = Place(key_span, value_span)
    reading.set_by_user.add(path)


def _settable_help(table: Table, key: str) -> str:
    """What may have been meant by `key`: a figure of the table of that name, one given without its table, a slip."""
    known = keys_of(table)
    inside = [k for k in known if k.startswith(key + ".")]
    if inside:
        return f"it is a table; set one of {', '.join(inside)}"
    whole = next((k for k in known if k.endswith("." + key)), None)
    return f"did you mean `{whole}`?" if whole else did_you_mean(key, known) or f"known keys: {', '.join(known)}"


def _node(table: Table, path: Path) -> Leaf | Table | None:
    """What the schema has at `path`; an entry of a dict is the leaf of one entry."""
    node: Leaf | Table | None = table
    for depth, part in enumerate(path):
        if isinstance(node, Leaf):
            last = depth == len(path) - 1
            return Leaf(node.kind, node.bounds, node.choices) if node.entries is not None and last else None
        node = dict(node.fields).get(part) if node is not None else None
    return node


def _setting(table: Table, path: Path, written: str) -> object:
    """The value `written` means: TOML, or a bare string where a string is wanted. Raises ValueError."""
    node = _node(table, path)
    wants_text = isinstance(node, Leaf) and node.kind is str and node.entries is None
    if wants_text and not written.startswith(('"', "'")):
        return written
    if "\n" in written:
        raise ValueError("more than one line")
    return tomllib.loads(f"value = {written}")["value"]


def _name(reading: _Reading) -> str:
    name = reading.raw.get("name")
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    if "name" not in reading.raw:
        help = 'a machine has a name: `name = "mychip"`'
        reading.problem("E0503", "`name` is missing", reading.file.span(0, 0), help)
        return ""
    reading.problem(
        "E0509",
        "`name` must be a string of at most 64 letters, digits, '.', '_' and '-' that starts with a letter or digit",
        reading.value_span(("name",)),
    )
    return ""


def _read_table(reading: _Reading, table: Table, raw: object, path: Path) -> object:
    """The value of `table` from `raw`, what the text has under `path`; None when a problem was found in it."""
    if not isinstance(raw, dict):
        reading.problem("E0504", f"`{'.'.join(path)}` must be a table", reading.value_span(path))
        return None
    given = cast(Raw, raw)
    own = {"name", "source"} if not path else set[str]()
    missing = [name for name, node in table.fields if name not in given and not node.optional]
    missing = _unknown_keys(reading, [k for k in given if k not in own], dict(table.fields), missing, path)
    values: dict[str, object] = {}
    for name, node in table.fields:
        here = (*path, name)
        if name in given:
            values[name] = _read_node(reading, node, given[name], here)
        elif not node.optional and name in missing and here != ("name",):
            _missing(reading, node, here)
    return None if reading.problems else table.type(**values)


def _read_node(reading: _Reading, node: Leaf | Table, raw: object, path: Path) -> object:
    if isinstance(node, Table):
        return _read_table(reading, node, raw, path)
    if node.entries is not None:
        return _read_entries(reading, node, raw, path)
    value = _scalar(reading, node, raw, path)
    if path != ("name",):
        _keep(reading, path, value)
    return value


def _read_entries(reading: _Reading, leaf: Leaf, raw: object, path: Path) -> object:
    if not isinstance(raw, dict):
        message = f"`{'.'.join(path)}` must be a table of {_MANY[leaf.kind]} by name, not {_given(raw)}"
        reading.problem("E0504", message, reading.value_span(path))
        return None
    given = cast(Raw, raw)
    allowed = dict.fromkeys(leaf.entries or filter(_ENTRY.fullmatch, given), leaf)
    _unknown_keys(reading, list(given), allowed, [], path)
    values: dict[str, Scalar | None] = {}
    for key in given:
        if key in allowed:
            values[key] = _scalar(reading, leaf, given[key], (*path, key))
            _keep(reading, (*path, key), values[key])
    return frozen(values)


def _keep(reading: _Reading, path: Path, value: Scalar | None) -> None:
    if value is not None:
        reading.figures[".".join(path)] = value
        reading.spans[".".join(path)] = reading.value_span(path)


def _unknown_keys(
    reading: _Reading, given: Iterable[str], known: Mapping[str, object], missing: list[str], path: Path
) -> list[str]:
    """Tell each given key that is not known; returns the keys missing still, misspelt ones taken as meant."""
    for key in given:
        if key in known:
            continue
        meant = nearest(key, missing) or nearest(key, known)
        missing = [name for name in missing if name != meant]
        full = ".".join((*path, key))
        where = f"`[{'.'.join(path)}]`" if path else "a machine file"
        help = f"did you mean `{meant}`?" if meant else f"known keys: {', '.join(known)}"
        reading.problem("E0502", f"`{full}` is not a key of {where}", reading.key_span((*path, key)), help)
        reading.unknown.add(full)
    return missing


def _missing(reading: _Reading, node: Leaf | Table, path: Path) -> None:
    key, span = ".".join(path), reading.key_span(path)
    if isinstance(node, Table):
        reading.problem("E0503", f"table `[{key}]` is missing", span, f"it holds {', '.join(keys_of(node))}")
    elif node.entries is not None:
        reading.problem("E0503", f"`{key}` is missing", span, f"it is a table of {_MANY[node.kind]} by name")
    else:
        reading.problem("E0503", f"`{key}` is missing", span, f"it is {_wanted(node)}")


def _scalar(reading: _Reading, leaf: Leaf, raw: object, path: Path) -> Scalar | None:
    """`raw` as the kind of figure `leaf` wants, or None after a problem was told."""
    key, span = ".".join(path), reading.value_span(path)
    value = _typed(leaf.kind, raw)
    if value is None:
        reading.problem("E0504", f"`{key}` must be {_wanted(leaf)}, not {_given(raw)}", span)
        return None
    if leaf.choices and value not in leaf.choices:
        help = did_you_mean(str(value), leaf.choices)
        reading.problem("E0510", f"`{key}` must be {_wanted(leaf)}, not {_given(raw)}", span, help)
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and not _within(leaf, value):
        reading.problem("E0505", f"`{key}` must be {_range(leaf, value)}, not {_given(raw)}", span)
        return None
    return value


def _typed(kind: type, raw: object) -> Scalar | None:
    """`raw` as `kind`; a whole number may stand for a float, nothing else is converted."""
    if kind is float and isinstance(raw, int) and not isinstance(raw, bool):
        try:
            return float(raw)
        except OverflowError:
            return math.inf
    return cast(Scalar, raw) if type(raw) is kind else None


def _within(leaf: Leaf, value: float) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    bounds = leaf.bounds or _BOUNDS
    return bounds.low <= value <= min(bounds.high, _BOUNDS.high)


def _range(leaf: Leaf, value: float) -> str:
    kind = _ONE[leaf.kind]
    if leaf.bounds is None and not 0 < value < math.inf:
        return f"{kind} greater than 0"
    bounds = leaf.bounds or (Bounds(1) if leaf.kind is int else _BOUNDS)
    if math.isinf(bounds.high) and value < bounds.low:
        return f"{kind} of at least {bounds.low:g}"
    return f"{kind} from {bounds.low:g} to {min(bounds.high, _BOUNDS.high):g}"


def _wanted(leaf: Leaf) -> str:
    return "one of " + ", ".join(f'"{choice}"' for choice in leaf.choices) if leaf.choices else _ONE[leaf.kind]


def _given(raw: object) -> str:
    """What the file has, short enough to be quoted."""
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, int) and raw.bit_length() > 100:
        return "a number of more than 30 digits"
    if isinstance(raw, (int, float)):
        return str(raw)
    if isinstance(raw, str):
        return f'"{raw}"' if len(raw) <= 40 else f'"{raw[:37]}..."'
    if isinstance(raw, dict):
        return "a table"
    return "an array" if isinstance(raw, list) else "a date or time"


def _sources(reading: _Reading, table: Table) -> dict[str, str]:
    """The source of each figure; tells tags that are missing, malformed or of no figure."""
    tags = dict(_tags(reading))
    used: set[str] = set()
    untagged: list[str] = []
    sources: dict[str, str] = {}
    for key in reading.figures:
        path = tuple(key.split("."))
        node = _node(table, path[:-1])
        whole = ".".join(path[:-1]) if isinstance(node, Leaf) else key
        found = key if key in tags else whole
        used.add(found)
        if reading.by_user(path):
            sources[key] = USER_SOURCE
        elif found in tags:
            sources[key] = tags[found]
        else:
            untagged.append(key)
    _untagged(reading, untagged)
    known = set(keys_of(table)) | set(reading.figures)
    for key in tags:
        if key not in used and key not in known and key not in reading.unknown:
            problem = f"a source for `{key}`, which is no figure of this machine"
            reading.problem("E0507", problem, reading.key_span(_tag_path(reading, key)), did_you_mean(key, known))
    return sources


def _untagged(reading: _Reading, keys: list[str]) -> None:
    """Tell each of `keys` that it has no source; all at once when they are many, as in a file without [source]."""
    kinds = ", ".join(SOURCE_KINDS)
    for key in keys if len(keys) <= 3 else keys[:1]:
        all_keys = f"{len(keys)} figures have no source: {', '.join(keys)}"
        message = all_keys if len(keys) > 3 else f"`{key}` has no source"
        help = f'add `"{key}" = "guess: why"` to [source]; the kinds are {kinds}'
        reading.problem("E0506", message, reading.key_span(tuple(key.split("."))), help)


def _tags(reading: _Reading) -> Iterable[tuple[str, str]]:
    """The well formed tags of `[source]` by dotted key; the others are told."""
    raw = reading.raw.get("source", {})
    if not isinstance(raw, dict):
        reading.problem("E0504", "`source` must be a table", reading.value_span(("source",)))
        return
    for path, tag in _leaves(cast(Raw, raw), ()):
        key = ".".join(path)
        span = reading.value_span(("source", *path))
        kind, colon, reason = tag.partition(":") if isinstance(tag, str) else ("", "", "")
        if kind.strip() not in SOURCE_KINDS or not colon or not reason.strip():
            form = f"a source is `kind: reason`, the kind one of {', '.join(SOURCE_KINDS)}"
            reading.problem("E0507", f"the source of `{key}` is not of the form `kind: reason`", span, form)
            yield key, "guess: malformed"
        else:
            yield key, f"{kind.strip()}: {reason.strip()}"


def _leaves(raw: Raw, path: Path) -> Iterable[tuple[Path, object]]:
    for key, value in raw.items():
        if isinstance(value, dict):
            yield from _leaves(cast(Raw, value), (*path, key))
        else:
            yield (*path, key), value


def _tag_path(reading: _Reading, key: str) -> Path:
    """Where the tag of `key` stands: written as one quoted key or as a dotted one."""
    dotted = ("source", *key.split("."))
    return dotted if dotted in reading.places else ("source", key)


def _digest(name: str, figures: Mapping[str, Scalar], sources: Mapping[str, str]) -> str:
    content = json.dumps([name, figures, sources], sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(content.encode()).hexdigest()
