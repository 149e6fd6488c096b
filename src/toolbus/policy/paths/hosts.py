"""Hosts that a URL or an address of another kind names, and patterns of a rule that name them.

| pattern | what it names |
|---|---|
| ``example.com`` | that host; ``example.com:8080`` only at that port |
| ``*.example.com`` | all hosts below it, and not itself |
| ``10.0.0.0/8``, ``::1`` | addresses, however they are written |
| ``loopback`` | this machine: ``localhost``, ``127.0.0.0/8``, ``::1``, ``0.0.0.0`` |
| ``private`` | what is not of the public internet: also private and link-local addresses |
| ``*`` | each host |

Where programs read an address in two ways, it names both hosts. **Limits.** Names are compared,
nothing is looked up: a public name may lead to a private address, an alias in `~/.ssh/config`, a
proxy, a redirect or a setting of git to another host. A name without a dot may be such an alias.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.policy.commands import Word


Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LONGEST_HOST = 300
"""Characters; a name in the DNS has 253 at most (RFC 1035, 2.3.4)."""

_NAME = re.compile(r"[a-z0-9_*-]+(?:\.[a-z0-9_*-]+)*")
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|\d+")
_BYTE = 256
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21, "ssh": 22, "git": 9418}
_LOCAL_NAMES = ("localhost", "ip6-localhost", "ip6-loopback", "localhost.localdomain")
_PRIVATE_ENDS = (".localhost", ".local", ".internal", ".home.arpa", ".lan", ".intranet")
# Such as parsers of URLs disagree about (WHATWG URL, "host-parsing"; RFC 3986, 3.2).
_ODD = re.compile(r"[\x00-\x20\x7f\\{}<>^`|\"]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


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
    """Return whether *address* is one of the public internet."""
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


class HostReading(NamedTuple):
    """What an address names: *hosts* as `canonical_hosts` writes them, none for a local file.

    With several, it depends on the program which it is. *path* is the file of a ``file:`` URL. A
    *doubt* says why it may be another host.
    """

    hosts: tuple[str, ...] = ()
    port: int | None = None
    path: str = ""
    doubt: str = ""


class HostRange(NamedTuple):
    """A pattern of a rule: *text* as written, and the names, networks and port that it has."""

    text: str
    names: tuple[str, ...]
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    port: int | None = None


class HostMatch(NamedTuple):
    """Whether an address is one of a rule's; the *host* and *pattern* that decided, or why not."""

    answer: Literal["no", "yes", "maybe"]
    host: str = ""
    pattern: str = ""
    reason: str = ""


def host_patterns(texts: Iterable[str]) -> tuple[HostRange, ...]:
    """Return the patterns *texts*; raises `ValueError` for what can be no host."""
    return tuple([_host_range(text) for text in texts])


def read_host(text: str) -> HostReading:
    """Return what *text* names: a URL, ``host``, ``host:port``, ``user@host:path``, an address."""
    if local := _local_path(text):
        return HostReading(path=local)
    scheme = _SCHEME.match(text)
    if scheme and (scheme[2] or scheme[1].lower() in {*_PORTS, "file"}):
        return _read_url(scheme[1].lower(), text[scheme.end() :], has_slashes=bool(scheme[2]))
    return _read_plain(text)


def reaches(word: Word, patterns: Sequence[HostRange]) -> HostMatch:
    """Return whether *word* names a host of *patterns*, for a rule that denies or asks."""
    reading = _read_word(word)
    for host in reading.hosts:
        for pattern in patterns:
            if _is_of(host, reading.port, pattern):
                return HostMatch("yes", host, pattern.text)
    if reading.doubt:
        return HostMatch("maybe", "", "", reading.doubt)
    for host in reading.hosts:
        if patterns and "." not in host and ":" not in host and host not in _LOCAL_NAMES:
            return HostMatch("maybe", host, "", f"{host!r} may be an alias of any host")
    return HostMatch("no")


def stays_among(word: Word, patterns: Sequence[HostRange]) -> HostMatch:
    """Return whether *word* names hosts of *patterns* only, for a rule that allows."""
    reading = _read_word(word)
    if reading.doubt:
        return HostMatch("maybe", "", "", reading.doubt)
    text = ""
    for host in reading.hosts:
        meant = next((each for each in patterns if _is_of(host, reading.port, each)), None)
        if meant is None:
            return HostMatch("no", host)
        text = meant.text
    return HostMatch("yes", "", text)


def _read_word(word: Word) -> HostReading:
    if word.known:
        text = _ESCAPED.sub(r"\1", word.text) if word.pattern else word.text
        return read_host(text)
    # What is not known may come behind the host: `https://example.com/$page`.
    scheme = _SCHEME.match(word.start)
    if scheme and scheme[2] and "/" in word.start[scheme.end() :]:
        return read_host(word.start)
    return HostReading(doubt=f"{word.text!r} is known only when it runs")


def _local_path(text: str) -> str:
    is_path = text.startswith(("/", "./", "../", "~")) and not text.startswith("//")
    return text if is_path or text in {"", ".", ".."} else ""


def _read_url(scheme: str, rest: str, *, has_slashes: bool) -> HostReading:
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    behind = rest[len(authority) :]
    if scheme == "file":
        if authority.lower() not in {"", "localhost"}:
            return HostReading(doubt=f"'file://{authority}' names a file of another host")
        return HostReading(path=_percent_decoded(re.split(r"[?#]", behind, maxsplit=1)[0]))
    if not has_slashes or not authority or _ODD.search(authority) or "@" in behind.split("/")[0]:
        return HostReading(
            _hosts(authority), doubt=f"programs read {f'{scheme}:{rest}'!r} in several ways"
        )
    return _read_authority(authority, _PORTS.get(scheme.removeprefix("git+")))


def _read_plain(text: str) -> HostReading:
    """Read what has no scheme: one program takes it for a URL, another one as scp does."""
    text = text.removeprefix("//")
    if _ODD.search(text):
        return HostReading(doubt=f"programs read {text!r} in several ways")
    if canonical_hosts(text) and ":" in text and "[" not in text:
        return HostReading(canonical_hosts(text))
    first = re.split(r"[/?#]", text, maxsplit=1)[0]
    reading = _read_authority(first, None)
    bracket = first.partition("]")
    colon = bracket[2] if bracket[1] else first
    if ":" in colon and not re.fullmatch(r".*:\d*", first):
        copied = first[: len(first) - len(colon)] + colon.partition(":")[0]
        hosts = _hosts(copied.rpartition("@")[2])
        both = reading.hosts if "@" in first.rpartition(":")[2] else ()
        doubt = "" if hosts else f"{text!r} names no host"
        return HostReading(tuple(dict.fromkeys([*hosts, *both])), doubt=doubt)
    return reading


def _read_authority(authority: str, default_port: int | None) -> HostReading:
    user, _, place = authority.rpartition("@")
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(\d*))?", place)
    hosts = _hosts(match[1]) if match else ()
    if match is None or not hosts or "@" in user:
        return HostReading(hosts, doubt=f"programs read {authority!r} in several ways")
    port = int(match[2][:6]) if match[2] else default_port
    return HostReading(hosts, port)


def _hosts(name: str) -> tuple[str, ...]:
    return canonical_hosts(_percent_decoded(name))


def _percent_decoded(text: str) -> str:
    from urllib.parse import unquote  # noqa: PLC0415 - it takes long to load, and few need it

    return unquote(text) if "%" in text else text


def _host_range(text: str) -> HostRange:
    name, port = text.strip(), None
    if name in {"*", "private", "loopback"}:
        return HostRange(text, (name,))
    if match := re.fullmatch(r"([^:]+|\[.*\]):(\d{1,5})", name):
        name, port = match[1], int(match[2])
    if "/" in name:
        try:
            return HostRange(text, (), ipaddress.ip_network(name, strict=False), port)
        except ValueError:
            way_out = "give a host such as 'example.com', '*.example.com' or '10.0.0.0/8'"
            raise ValueError(f"{text!r} is no host; {way_out}") from None
    prefix = "*." if name.startswith("*.") else ""
    names = canonical_hosts(name.removeprefix(prefix))
    if not names or any("*" in each for each in names):
        way_out = "a star stands in front of a domain only: '*.example.com'"
        raise ValueError(f"{text!r} is no host; {way_out}")
    return HostRange(text, tuple([f"{prefix}{each}" for each in names]), None, port)


def _is_of(host: str, port: int | None, pattern: HostRange) -> bool:
    if pattern.port is not None and port is not None and port != pattern.port:
        return False
    address = _address(host)
    if pattern.network is not None:
        return address is not None and address in pattern.network
    return any(_is_named(name, host, address) for name in pattern.names)


def _is_named(name: str, host: str, address: Address | None) -> bool:
    if name == "loopback":
        if address is not None:
            return address.is_loopback or address.is_unspecified
        return host in _LOCAL_NAMES or host.endswith(".localhost")
    if name == "private":
        return _is_private(host, address)
    return name in {"*", host} or (name.startswith("*.") and host.endswith(name[1:]))


def _is_private(host: str, address: Address | None) -> bool:
    if address is not None:
        return not is_public(address)
    return host in _LOCAL_NAMES or host.endswith(_PRIVATE_ENDS)


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
