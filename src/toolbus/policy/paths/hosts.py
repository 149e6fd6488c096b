"""Hosts in URLs and other addresses, and the patterns of hosts in rules.

| pattern | matches |
|---|---|
| ``example.com`` | that host; ``example.com:8080`` only at that port |
| ``*.example.com`` | all hosts below it, not itself |
| ``10.0.0.0/8``, ``::1`` | addresses, in any notation |
| ``loopback`` | this machine: ``localhost``, ``127.0.0.0/8``, ``::1``, ``0.0.0.0`` |
| ``private`` | hosts outside the public internet, including private and link-local addresses |
| ``*`` | every host |

An address that programs parse in two ways names both hosts. **Limits.** Names are compared without
a DNS look-up: a public name may lead to a private address, and an alias in `~/.ssh/config`, a
proxy, a redirect or a git setting to another host. A name without a dot may be such an alias. A
name outside ASCII requires approval, because programs differ in how they encode it.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.policy.commands import Word


Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LONGEST_HOST = 300
"""Characters; a name in the DNS has 253 at most (RFC 1035, 2.3.4)."""

_NAME = re.compile(r"[a-z0-9_*-]+(?:\.[a-z0-9_*-]+)*")
_NUMBER = re.compile(r"0x[0-9a-f]*|\d+")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21, "ssh": 22, "git": 9418}
_LOCAL_NAMES = ("localhost", "ip6-localhost", "ip6-loopback", "localhost.localdomain")
_PRIVATE_ENDS = (".localhost", ".local", ".internal", ".home.arpa", ".lan", ".intranet")
# URL parsers disagree on these characters (WHATWG URL, "host-parsing"; RFC 3986, 3.2).
_ODD = re.compile(r"[\x00-\x20\x7f\\{}<>^`|\"]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class HostReading(NamedTuple):
    """The *hosts* in an address, as `canonical_host` writes them; none for a local file.

    With several hosts, the program decides. *path* is the file of a ``file:`` URL. A *doubt* says
    why it may be another host.
    """

    hosts: tuple[str, ...] = ()
    port: int | None = None
    path: str = ""
    doubt: str = ""


class HostPattern(NamedTuple):
    """A host pattern of a rule: *text* as written, and its name, network and port."""

    text: str
    name: str
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    port: int | None = None


class HostMatch(NamedTuple):
    """Whether an address matches a rule, with the deciding *host* and *pattern*, or a *reason*."""

    answer: Literal["no", "yes", "maybe"]
    host: str = ""
    pattern: str = ""
    reason: str = ""


def host_patterns(texts: Iterable[str]) -> tuple[HostPattern, ...]:
    """Return the patterns for *texts*; raises `ValueError` for an invalid host."""
    return tuple([_host_range(text) for text in texts])


def reaches(word: Word, patterns: Sequence[HostPattern]) -> HostMatch:
    """Return whether *word* may name a host of *patterns*, for a deny or ask rule."""
    reading = read_word(word)
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


def stays_among(word: Word, patterns: Sequence[HostPattern]) -> HostMatch:
    """Return whether *word* only names hosts of *patterns*, for an allow rule."""
    reading = read_word(word)
    if reading.doubt:
        return HostMatch("maybe", "", "", reading.doubt)
    text = ""
    for host in reading.hosts:
        meant = next((each for each in patterns if _is_of(host, reading.port, each)), None)
        if meant is None:
            return HostMatch("no", host)
        text = meant.text
    return HostMatch("yes", "", text)


def read_host(text: str) -> HostReading:
    """Return the hosts in *text*: a URL, ``host``, ``host:port``, ``user@host:path``, an IP."""
    is_path = text.startswith(("/", "./", "../", "~")) and not text.startswith("//")
    if is_path or text in {"", ".", ".."}:
        return HostReading(path=text)
    scheme = _SCHEME.match(text)
    if scheme and (scheme[2] or scheme[1].lower() in {*_PORTS, "file"}):
        return _read_url(scheme[1].lower(), text[scheme.end() :], has_slashes=bool(scheme[2]))
    return _read_plain(text.removeprefix("//"))


def canonical_host(text: str) -> str:
    """Return the canonical form of the host *text*, "" if it is not a host.

    Numbers are read by `inet_aton` (inet(3)): ``0x7f.1`` is ``127.0.0.1``. An IPv6 address that
    embeds an IPv4 address becomes that address.
    """
    text = text.strip("[]") if text.startswith("[") else text
    if not text or len(text) > LONGEST_HOST:
        return ""
    if ":" in text:
        return _from_ipv6(text)
    name = text.lower().removesuffix(".")
    if not _NAME.fullmatch(name):
        return ""
    if not _NUMBER.fullmatch(name.rpartition(".")[2]):
        return name
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return ""


def _from_ipv6(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return ""
    embedded = address.ipv4_mapped or address.sixtofour
    if address in _NAT64:
        embedded = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return str(embedded or address)


def read_word(word: Word) -> HostReading:
    """Return the hosts in *word*, which may be known only in part."""
    if word.known:
        text = _ESCAPED.sub(r"\1", word.text) if word.pattern else word.text
        return read_host(text)
    # The unknown piece may come after the host: `https://example.com/$page`.
    scheme = _SCHEME.match(word.start)
    if scheme and scheme[2] and "/" in word.start[scheme.end() :]:
        return read_host(word.start)
    return HostReading(doubt=f"{word.text!r} is known only at run time")


def _read_url(scheme: str, rest: str, *, has_slashes: bool) -> HostReading:
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    behind = rest[len(authority) :]
    if scheme == "file":
        if authority.lower() not in {"", "localhost"}:
            return HostReading(doubt=f"'file://{authority}' names a file on another host")
        return HostReading(path=_percent_decoded(re.split(r"[?#]", behind, maxsplit=1)[0]))
    if not has_slashes or _ODD.search(authority) or "@" in behind.split("/")[0]:
        doubt = f"programs parse {f'{scheme}:{rest}'!r} differently"
        return _reading([authority], doubt=doubt)
    return _read_authority(authority, _PORTS.get(scheme.removeprefix("git+")))


def _read_plain(text: str) -> HostReading:
    """Read an address without a scheme: some programs parse it as a URL, others as scp does."""
    if ":" in text and "[" not in text and canonical_host(text):
        return _reading([text])
    first = re.split(r"[/?#]", text, maxsplit=1)[0]
    if _ODD.search(text):
        return _reading([], doubt=f"programs parse {text!r} differently")
    copied = re.fullmatch(r"([^\[\]:]*(?:\[[^\[\]]*\])?):(.*\D.*)", first)
    if copied is None:
        return _read_authority(first, None)
    # A URL parser may take `host:path` for `user:password@host`.
    others = [first.rpartition("@")[2].partition(":")[0]] if "@" in copied[2] else []
    return _reading([copied[1].rpartition("@")[2], *others])


def _read_authority(authority: str, default_port: int | None) -> HostReading:
    user, _, place = authority.rpartition("@")
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(\d*))?", place)
    if match is None or "@" in user:
        name = match[1] if match else ""
        return _reading([name], doubt=f"programs parse {authority!r} differently")
    return _reading([match[1]], int(match[2][:6]) if match[2] else default_port)


def _reading(names: Sequence[str], port: int | None = None, doubt: str = "") -> HostReading:
    """Return the reading of an address with these host *names*; an invalid name is a doubt."""
    hosts = [canonical_host(_percent_decoded(name)) for name in names]
    if odd := [name for name, host in zip(names, hosts, strict=True) if not host]:
        doubt = doubt or f"{odd[0]!r} is not a plain host name"
    return HostReading(tuple(dict.fromkeys(filter(None, hosts))), port, doubt=doubt)


def _percent_decoded(text: str) -> str:
    from urllib.parse import unquote  # noqa: PLC0415 - slow to import, and rarely needed

    return unquote(text) if "%" in text else text


def _host_range(text: str) -> HostPattern:
    name, port = text.strip(), None
    if name in {"*", "private", "loopback"}:
        return HostPattern(text, name)
    if match := re.fullmatch(r"([^:]+|\[.*\]):(\d{1,5})", name):
        name, port = match[1], int(match[2])
    if "/" in name:
        try:
            return HostPattern(text, "", ipaddress.ip_network(name, strict=False), port)
        except ValueError:
            way_out = "give a host such as 'example.com', '*.example.com' or '10.0.0.0/8'"
            raise ValueError(f"{text!r} is not a host; {way_out}") from None
    prefix = "*." if name.startswith("*.") else ""
    host = canonical_host(_in_ascii(name.removeprefix(prefix)))
    if not host or "*" in host:
        way_out = "a star is only allowed before a domain: '*.example.com'"
        raise ValueError(f"{text!r} is not a host; {way_out}")
    return HostPattern(text, f"{prefix}{host}", None, port)


def _in_ascii(name: str) -> str:
    """Return *name* in ASCII for the DNS (RFC 3490), "" if it is invalid."""
    try:
        return name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return ""


def _is_of(host: str, port: int | None, pattern: HostPattern) -> bool:
    if pattern.port is not None and port is not None and port != pattern.port:
        return False
    address = _address(host)
    if pattern.network is not None:
        return address is not None and address in pattern.network
    if pattern.name == "loopback":
        return _is_loopback(host, address)
    if pattern.name == "private":
        return _is_private(host, address)
    name = pattern.name
    return name in {"*", host} or (name.startswith("*.") and host.endswith(name[1:]))


def _is_loopback(host: str, address: Address | None) -> bool:
    if address is not None:
        return address.is_loopback or address.is_unspecified
    return host in _LOCAL_NAMES or host.endswith(".localhost")


def _is_private(host: str, address: Address | None) -> bool:
    if address is not None:
        return not address.is_global or address.is_multicast
    return host in _LOCAL_NAMES or host.endswith(_PRIVATE_ENDS)


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
