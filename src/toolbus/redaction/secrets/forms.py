"""The forms in which a value may stand in a text: escaped for JSON or URLs, base64, hexadecimal."""

from __future__ import annotations

import re
from base64 import b64encode

_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_SHORTEST = 8
_SIGN = re.compile(r"[^A-Za-z0-9_]")

LONGEST = 16
"""How many times as long as a value its longest form may be, more or less."""


def expression(value: str) -> str:
    """Return an expression, in RE2's syntax, for *value* in each of its forms.

    JSON may stand inside JSON, so any number of backslashes will do. Of base64 all three
    alignments are in it, each without the letters that depend on what stands beside the value.
    """
    data = value.encode()
    escaped = "".join([f"%{byte:02x}" for byte in data])
    return "|".join(
        [
            _SIGN.sub(_mixed, value),
            f"(?i:{escaped})",
            f"(?i:{data.hex()})",
            *[_armoured(core) for core in _cores(data)],
        ]
    )


def _mixed(sign: re.Match[str]) -> str:
    """Return *sign* as it stands, or escaped in one of the ways in which that is usual."""
    letter = sign[0]
    if letter == "-":
        return r"\-"
    codes = "".join([f"%{byte:02x}" for byte in letter.encode()])
    units = "".join([rf"\\+u{unit:04x}" for unit in _units(letter)])
    plain = [re.escape(letter), f"(?i:{codes})", f"(?i:{units})"]
    if letter in _ESCAPES:
        plain.append(rf"\\+{_ESCAPES[letter]}")
    elif letter in '/"\\':
        plain.append(rf"\\+{re.escape(letter)}")
    elif letter == " ":
        plain.append(r"\+")
    return f"(?:{'|'.join(plain)})"


def _units(text: str) -> list[int]:
    """Return *text* in UTF-16, which is what JSON escapes."""
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[index : index + 2]) for index in range(0, len(data), 2)]


def _cores(data: bytes) -> list[str]:
    """Return what is the same in the base64 of every text in which *data* stands."""
    cores = []
    for shift in range(3):
        # A letter tells six bits: those that begin in what stands before or end behind are cut.
        start = -(-8 * shift // 6)
        end = 8 * (shift + len(data)) // 6
        core = b64encode(bytes(shift) + data + bytes(3)).decode()[start:end]
        if len(core) >= _SHORTEST:
            cores.append(core)
    return cores


def _armoured(core: str) -> str:
    """Return an expression for base64 in either alphabet, which may be escaped itself."""
    either = {"+": r"(?:[+-]|%2[bB])", "/": r"(?:\\*/|_|%2[fF])"}
    return "".join([either.get(letter, letter) for letter in core])
