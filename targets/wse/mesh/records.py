"""What programs wrote while they ran: lines of `<simprint>`, records of `<debug>`.

Must not know engines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .ir import Image
from .state import LogRecord

# Tags of `<debug>` (csl/lib/debug.csl) and formats of `<simprint>` (csl/lib/simprint.csl).
_BOOL, _U8, _I8, _U16, _I16, _F16, _U32, _I32, _F32, _STRING, _TIMESTAMP = range(11)
_DECIMAL, _HEX, _BINARY, _FLOAT = range(4)
_TIMESTAMP_WORDS = 3


def value_of(tag: int, bits: int) -> Any:
    """The number that a record of `tag` holds."""
    word = np.array([bits & 0xFFFFFFFF], np.uint32)
    half, byte = word.astype(np.uint16), word.astype(np.uint8)
    match tag:
        case _ if tag == _BOOL:
            return bool(bits)
        case _ if tag == _I8:
            return byte.view(np.int8)[0].item()
        case _ if tag == _I16:
            return half.view(np.int16)[0].item()
        case _ if tag == _F16:
            return half.view(np.float16)[0].item()
        case _ if tag == _I32:
            return word.view(np.int32)[0].item()
        case _ if tag == _F32:
            return word.view(np.float32)[0].item()
        case _:
            return word[0].item()


def records(log: list[LogRecord], image: Image) -> dict[tuple[int, str], list[Any]]:
    """Records of `<debug>` by (PE, key): text, numbers in their type, time stamps as one number of 48 bits."""
    made: dict[tuple[int, str], list[Any]] = {}
    stamps: dict[tuple[int, str], list[int]] = {}
    for r in log:
        if not r.is_trace:
            continue
        at = (r.pe, image.texts[r.text])
        if r.tag != _TIMESTAMP:
            made.setdefault(at, []).append(image.texts[r.value] if r.tag == _STRING else value_of(r.tag, r.value))
            continue
        words = stamps.setdefault(at, [])
        words.append(r.value)
        if len(words) == _TIMESTAMP_WORDS:
            made.setdefault(at, []).append(words[0] | words[1] << 16 | words[2] << 32)
            words.clear()
    return made


def printed(form: int, bits: int, value: int) -> str:
    """A number as `<simprint>` shows it."""
    if form == _HEX:
        return f"{value:0{bits // 4}x}"
    if form == _BINARY:
        return f"{value:0{bits}b}"
    if form == _FLOAT:
        return f"{value_of(_F16 if bits == 16 else _F32, value):g}"
    return str(value)


def lines(log: list[LogRecord], image: Image) -> list[tuple[int, int, str]]:
    """Lines that PEs printed, each as (cycle of its end, PE, text); a line that was never ended comes last."""
    open_lines: dict[int, str] = {}
    made: list[tuple[int, int, str]] = []
    for r in log:
        if r.is_trace:
            continue
        piece = image.texts[r.text] if r.text >= 0 else printed(r.tag, r.bits, r.value)
        *whole, rest = (open_lines.get(r.pe, "") + piece).split("\n")
        made += [(r.cycle, r.pe, line) for line in whole]
        open_lines[r.pe] = rest
    last = log[-1].cycle if log else 0
    return made + [(last, pe, line) for pe, line in sorted(open_lines.items()) if line]
