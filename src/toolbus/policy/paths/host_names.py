"""A host as it is compared: in lower case, as ASCII, an address in its one short form."""

from __future__ import annotations

import ipaddress
import re
import unicodedata

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LONGEST_HOST = 300
"""Characters; a name in the DNS has 253 at most (RFC 1035, 2.3.4)."""

_NAME = re.compile(r"[a-z0-9_*-]+(?:\.[a-z0-9_*-]+)*")
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|\d+")
_BYTE = 256
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def canonical_hosts(text: str) -> tuple[str, ...]:
    """Return the hosts that *text* may name, none if it can name none.

    There are several where the rules for other scripts differ (IDNA 2003 makes "ss" of "ß", UTS 46
    does not). Numbers are what `inet_aton` makes of them: ``0x7f.1`` is ``127.0.0.1``. An IPv6
    address that stands for an IPv4 one is that.
    """
    text = text.strip("[]") if text.startswith("[") else text
    if not text or len(text) > LONGEST_HOST:
        return ()
    if ":" in text:
        return _from_ipv6(text)
    wide = unicodedata.normalize("NFKC", text).translate(_DOTS)
    names = dict.fromkeys([_ascii(_bare(wide.casefold())), _ascii(wide.lower())])
    return tuple(dict.fromkeys([host for name in names for host in _from_name(name)]))


def is_public(address: Address) -> bool:
    """Tell whether *address* is one of the public internet."""
    return address.is_global and not address.is_multicast


def _from_name(name: str) -> list[str]:
    name = name.removesuffix(".")
    if not _NAME.fullmatch(name):
        return []
    parts = name.split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return [name]
    address = _from_numbers(parts)
    return [] if address is None else [address]


def _from_numbers(parts: list[str]) -> str | None:
    """Read 1 to 4 numbers as `inet_aton` (inet(3)): octal, decimal or hex, the last one is long."""
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    *first, rest = numbers
    free = 4 - len(first)
    if free < 1 or any(each >= _BYTE for each in first) or rest >= _BYTE**free:
        return None
    value = rest + sum(each << (24 - 8 * index) for index, each in enumerate(first))
    return str(ipaddress.IPv4Address(value))


def _number(text: str) -> int:
    if text[:2] == "0x":
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") else 10)


def _from_ipv6(text: str) -> tuple[str, ...]:
    try:
        address = ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return ()
    embedded = address.ipv4_mapped or address.sixtofour
    if address in _NAT64:
        embedded = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return (str(embedded or address),)


def _bare(text: str) -> str:
    """Return *text* without what has no width, which IDNA 2003 leaves out."""
    return "".join([each for each in text if unicodedata.category(each) != "Cf"])


def _ascii(name: str) -> str:
    if name.isascii():
        return name
    labels = name.split(".")
    return ".".join(
        [each if each.isascii() else f"xn--{each.encode('punycode').decode()}" for each in labels]
    )
