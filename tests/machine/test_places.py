import tomllib

from tdslc.compiler.machine.places import find_places
from tdslc.compiler.source import SourceFile
from toy_machine import TEXT

AWKWARD = '''\
# a = 1
"a.b".c . 'd e' = """x = 1
[no]\\""" "" # not a key"""
[ t . "\\u0041" ] # header
k = [ { x = 1 }, "]", # a ] in a comment
  2, ]
i = { p.q = 1, r = { s = "}" } }
l = \'\'\'
m = 1\'\'\'
date = 1979-05-27 07:32:00Z
[[arr]]
n = 1
'''


def values(raw: dict[str, object], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], object]:
    found: dict[tuple[str, ...], object] = {}
    for key, value in raw.items():
        found |= values(value, (*path, key)) if isinstance(value, dict) else {(*path, key): value}
    return found


def test_each_key_is_where_its_value_is() -> None:
    for text in (TEXT, AWKWARD):
        places = find_places(SourceFile("t", text))
        for path, value in values(tomllib.loads(text)).items():
            if path == ("arr",):
                continue
            assert tomllib.loads(f"v = {places[path].value.text}")["v"] == value
            key = places[path].key.text
            assert values(tomllib.loads(f"{key} = 1")).keys() == {path[-len(values_path(key)) :]}


def values_path(key: str) -> tuple[str, ...]:
    return next(iter(values(tomllib.loads(f"{key} = 1"))))


def test_headers_have_places() -> None:
    places = find_places(SourceFile("t", AWKWARD))
    assert places["t", "A"].key.text == '[ t . "\\u0041" ]'
    assert places["arr",].key.text == "[[arr]]"
