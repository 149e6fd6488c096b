"""JSON as nobody should write it: values with members said twice, and odd ways to write them."""

import json
from typing import NamedTuple

NUMBERS = (
    *(b"-0", b"-0.0", b"1E5", b"1.0", b"1e22", b"1e23", b"5e-324", b"1e-400", b"-1e-7"),
    *(b"9007199254740993", b"-9007199254740993", b"18446744073709551616", b"4503599627370497.5"),
    *(b"0.1000000000000000055511151231257827", b"123456789012345678901234567890", b"9" * 400),
    *(b"100000000000000000000000", b"0." + b"1" * 400, b"1e400", b"-2e308", b"9" * 5000),
)
NO_NUMBERS = (
    *(b"NaN", b"Infinity", b"-Infinity", b"01", b"+1", b".5", b"1.", b"0x10", b"1_0", b"1n"),
    *(b"undefined", b"'1'", b"-", b"1e", b"nan", b"True", b"\xef\xbc\x91"),
)
TEXTS = (
    *(b"\\ud83d", b"\\ude00", b"\\ude00\\ud83d", b"\\ud83d\\ude00", b"\xf0\x9f\x98\x80"),
    *(b"\\u0000", b"\\n", b"\\r", b"\\r\\n", b"\\u0085", b"\\u2028", b"\\/", b"\\u00e9", b"\x7f"),
    *(
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"\xe2\x80\xa9",
        b"\xef\xbb\xbf",
        b"\xe2\x80\x8b",
        b"e\xcc\x81",
    ),
)
NO_TEXTS = (
    *(
        b"\xed\xa0\xbd",
        b"\xed\xa0\xbd\xed\xb8\x80",
        b"\xc0\xaf",
        b"\xff",
        b"\xe2\x82",
        b"\xf5\x80\x80\x80",
    ),
    *(b"\x00", b"\n", b"\r", b"\x0b", b"\x0c", b"\x1e", b"\t", b"\\'", b"\\x41", b"\\ud83", b"\\"),
)
"""Bytes between quotes: what JSON allows there, and what it does not, or is no UTF-8."""

SPACES = (b" ", b"\t", b"\r", b"\r", b"\r\r", b"\r\t")
NO_SPACES = (
    b"\n",
    b"\r\n",
    b"\x0b",
    b"\x0c",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\xc2\xa0",
    b"\x00",
    b"\xef\xbb\xbf",
)
ALIKE = {"s": "\u017f", "k": "\u212a", "K": "\u212a", "S": "\u017f"}


class Raw(NamedTuple):
    """Bytes that stand for a value as they are."""

    data: bytes


class Members(list):
    """An object: pairs of a name and a value, of which several may have one name."""

    def get(self, name):
        return next((value for key, value in self if key == name), None)

    def put(self, name, value):
        """Let the member *name* be *value*, where it stood or at the end."""
        for index, (key, _) in enumerate(self):
            if key == name:
                self[index] = (name, value)
                return
        self.append((name, value))


def tree(value):
    """Return the JSON *value* with its objects as `Members`, all of it new."""
    if isinstance(value, Members):
        return Members([(name, tree(one)) for name, one in value])
    if isinstance(value, dict):
        return Members([(name, tree(one)) for name, one in value.items()])
    return [tree(one) for one in value] if isinstance(value, list) else value


def objects(value):
    """Return all objects in *value*, itself too."""
    inner = [one for _, one in value] if isinstance(value, Members) else value
    found = [value] if isinstance(value, Members) else []
    if isinstance(value, list):
        for one in inner:
            found.extend(objects(one))
    return found


class Writer:
    """Writes values in a style that *random* has drawn, the same for one frame."""

    def __init__(self, random):
        self._random = random
        self._spaced = random.choice((0, 0, 0, 0.1, 0.6))
        self._spaces = random.sample(SPACES, random.randrange(1, 3))
        self._escaped = random.choice((0, 0, 0, 0.05, 0.5))
        self._odd = random.choice((0, 0, 0, 0, 0.02, 0.1))
        self._raw = random.random() < 0.5

    def write(self, value):
        """Return *value* as bytes."""
        match value:
            case Raw(data):
                return data
            case Members():
                pairs = [self._text(k) + self._gap(b":") + self.write(v) for k, v in value]
                return self._gap(b"{") + self._gap(b",").join(pairs) + self._gap(b"}")
            case list():
                inner = [self.write(one) for one in value]
                return self._gap(b"[") + self._gap(b",").join(inner) + self._gap(b"]")
            case str():
                return self._text(value)
        return json.dumps(value).encode()

    def _gap(self, sign):
        return self._space() + sign + self._space()

    def _space(self):
        return self._random.choice(self._spaces) if self._random.random() < self._spaced else b""

    def _text(self, text):
        if not self._escaped and not self._odd and self._raw:
            return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")
        said = b"".join([self._sign(one) for one in text])
        if self._odd and self._random.random() < self._odd:
            at = self._random.choice((0, len(said))) if b"\\" in said else self._at(said)
            said = said[:at] + odd_text(self._random) + said[at:]
        return b'"' + said + b'"'

    def _at(self, said):
        return self._random.randrange(len(said) + 1) if said.isascii() else len(said)

    def _sign(self, sign):
        if self._escaped and self._random.random() < self._escaped and ord(sign) < 0x10000:
            code = f"\\u{ord(sign):04x}"
            return (code.upper().replace("\\U", "\\u") if self._raw else code).encode()
        return json.dumps(sign, ensure_ascii=not self._raw)[1:-1].encode("utf-8", "surrogatepass")


def odd_number(random):
    """Return what some reader takes for a number, mostly rightly."""
    return random.choice(NUMBERS if random.random() < 0.8 else NO_NUMBERS)


def odd_text(random):
    """Return what some reader takes for a part of a text, mostly rightly."""
    return random.choice(TEXTS if random.random() < 0.8 else NO_TEXTS)


def quoted(random):
    """Return an odd text in its quotes."""
    return b'"' + random.choice((b"", b"a")) + odd_text(random) + b'"'


def varied(random, name):
    """Return a name that some reader takes for *name*."""
    ways = (
        str.upper,
        str.title,
        lambda one: "".join([ALIKE.get(sign, sign) for sign in one]),
        lambda one: "".join([random.choice((sign, sign.upper())) for sign in one]),
        lambda one: one + random.choice((" ", "\0", "\u200b", "\ufeff", "\n", "_")),
        lambda one: random.choice(("__proto__", "constructor", "\ufeff" + one, one[:-1], "")),
    )
    return random.choice(ways)(name)
