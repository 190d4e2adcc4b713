"""Where each key of a TOML text stands. `tomllib` reads the values but tells no positions.

Only for texts that `tomllib` accepted: the scanner trusts the syntax (TOML 1.0) and looks for keys alone.
"""

import re
import tomllib
from dataclasses import dataclass

from ..source import SourceFile, Span

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:[^"\\\n]|\\.)*"|'
    r"'[^'\n]*'",
    re.DOTALL,
)
_BARE = re.compile(r"[^,\]}\n#]+")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A key and its value in the text; a table header has itself for value."""

    key: Span
    value: Span


def find_places(file: SourceFile) -> dict[Path, Place]:
    """The place of every key, inline tables entered and arrays not, and of every table header, by full path."""
    text, places = file.text, dict[Path, Place]()
    table: Path = ()
    at = _skip(_BLANK, text, 0)
    while at < len(text):
        if text[at] == "[":
            array = text.startswith("[[", at)
            table, end = _key_path(text, at + 1 + array)
            end = text.index("]", end) + 1 + array
            places.setdefault(table, Place(file.span(at, end), file.span(at, end)))
        else:
            end = _pair(file, at, table, places)
        at = _skip(_BLANK, text, end)
    return places


def _pair(file: SourceFile, at: int, table: Path, places: dict[Path, Place]) -> int:
    """Record `key = value` at `at` inside `table`; the offset after it."""
    path, key_end = _key_path(file.text, at)
    start = _skip(_SPACE, file.text, file.text.index("=", key_end) + 1)
    end = _value(file, start, table + path, places)
    places[table + path] = Place(file.span(at, key_end), file.span(start, end))
    return end


def _key_path(text: str, at: int) -> tuple[Path, int]:
    """The dotted key at `at` and the offset after it."""
    path: list[str] = []
    while True:
        match = _KEY.match(text, _skip(_SPACE, text, at))
        assert match is not None, "a key that tomllib accepted"
        path.append(_key_name(match[0]))
        dot = _skip(_SPACE, text, match.end())
        if not text.startswith(".", dot):
            return tuple(path), match.end()
        at = dot + 1


def _key_name(written: str) -> str:
    if written[0] == '"':
        return str(tomllib.loads(f"key = {written}")["key"])
    return written[1:-1] if written[0] == "'" else written


def _value(file: SourceFile, at: int, path: Path, places: dict[Path, Place]) -> int:
    """The offset after the value at `at`; keys of an inline table are recorded under `path`."""
    text = file.text
    if text[at] == "{":
        at = _skip(_BLANK, text, at + 1)
        while text[at] != "}":
            at = _skip(_BLANK, text, _pair(file, at, path, places))
            at = _skip(_BLANK, text, at + (text[at] == ","))
        return at + 1
    if text[at] == "[":
        at = _skip(_BLANK, text, at + 1)
        while text[at] != "]":
            # What an array holds has no path: no schema has arrays.
            at = _skip(_BLANK, text, _value(file, at, path, {}))
            at = _skip(_BLANK, text, at + (text[at] == ","))
        return at + 1
    string = _STRING.match(text, at)
    if string is not None:
        return string.end()
    bare = _BARE.match(text, at)
    assert bare is not None, "a value that tomllib accepted"
    return at + len(bare[0].rstrip())


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()
