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
A name in another script than ASCII is asked about: programs differ in what they make of it.
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
# Such as parsers of URLs disagree about (WHATWG URL, "host-parsing"; RFC 3986, 3.2).
_ODD = re.compile(r"[\x00-\x20\x7f\\{}<>^`|\"]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class HostReading(NamedTuple):
    """The *hosts* that an address names, as `canonical_host` writes them; none for a local file.

    With several, it depends on the program which it is. *path* is the file of a ``file:`` URL. A
    *doubt* says why it may be another host.
    """

    hosts: tuple[str, ...] = ()
    port: int | None = None
    path: str = ""
    doubt: str = ""


class HostPattern(NamedTuple):
    """A pattern of a rule: *text* as written, and the name, network and port that it has."""

    text: str
    name: str
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    port: int | None = None


class HostMatch(NamedTuple):
    """Whether an address is one of a rule's; the *host* and *pattern* that decided, or why not."""

    answer: Literal["no", "yes", "maybe"]
    host: str = ""
    pattern: str = ""
    reason: str = ""


def host_patterns(texts: Iterable[str]) -> tuple[HostPattern, ...]:
    """Return the patterns *texts*; raises `ValueError` for what can be no host."""
    return tuple([_host_range(text) for text in texts])


def reaches(word: Word, patterns: Sequence[HostPattern]) -> HostMatch:
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


def stays_among(word: Word, patterns: Sequence[HostPattern]) -> HostMatch:
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


def read_host(text: str) -> HostReading:
    """Return what *text* names: a URL, ``host``, ``host:port``, ``user@host:path``, an address."""
    is_path = text.startswith(("/", "./", "../", "~")) and not text.startswith("//")
    if is_path or text in {"", ".", ".."}:
        return HostReading(path=text)
    scheme = _SCHEME.match(text)
    if scheme and (scheme[2] or scheme[1].lower() in {*_PORTS, "file"}):
        return _read_url(scheme[1].lower(), text[scheme.end() :], has_slashes=bool(scheme[2]))
    return _read_plain(text.removeprefix("//"))


def canonical_host(text: str) -> str:
    """Return the host that *text* names, "" if it can name none.

    Numbers are what `inet_aton` (inet(3)) makes of them: ``0x7f.1`` is ``127.0.0.1``. An IPv6
    address that stands for an IPv4 one is that.
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


def _read_word(word: Word) -> HostReading:
    if word.known:
        text = _ESCAPED.sub(r"\1", word.text) if word.pattern else word.text
        return read_host(text)
    # What is not known may come behind the host: `https://example.com/$page`.
    scheme = _SCHEME.match(word.start)
    if scheme and scheme[2] and "/" in word.start[scheme.end() :]:
        return read_host(word.start)
    return HostReading(doubt=f"{word.text!r} is known only when it runs")


def _read_url(scheme: str, rest: str, *, has_slashes: bool) -> HostReading:
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    behind = rest[len(authority) :]
    if scheme == "file":
        if authority.lower() not in {"", "localhost"}:
            return HostReading(doubt=f"'file://{authority}' names a file of another host")
        return HostReading(path=_percent_decoded(re.split(r"[?#]", behind, maxsplit=1)[0]))
    if not has_slashes or _ODD.search(authority) or "@" in behind.split("/")[0]:
        doubt = f"programs read {f'{scheme}:{rest}'!r} in several ways"
        return _reading([authority], doubt=doubt)
    return _read_authority(authority, _PORTS.get(scheme.removeprefix("git+")))


def _read_plain(text: str) -> HostReading:
    """Read what has no scheme: one program takes it for a URL, another one as scp does."""
    if ":" in text and "[" not in text and canonical_host(text):
        return _reading([text])
    first = re.split(r"[/?#]", text, maxsplit=1)[0]
    if _ODD.search(text):
        return _reading([], doubt=f"programs read {text!r} in several ways")
    copied = re.fullmatch(r"((?:[^\[\]:]*@)?(?:\[[^\[\]]*\]|[^:\[\]]*)):(.*\D.*)", first)
    if copied is None:
        return _read_authority(first, None)
    # `host:path`, which a URL's reader may take for `user:word@host`.
    others = [first.rpartition("@")[2].partition(":")[0]] if "@" in copied[2] else []
    return _reading([copied[1].rpartition("@")[2], *others])


def _read_authority(authority: str, default_port: int | None) -> HostReading:
    user, _, place = authority.rpartition("@")
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(\d*))?", place)
    if match is None or "@" in user:
        name = match[1] if match else ""
        return _reading([name], doubt=f"programs read {authority!r} in several ways")
    return _reading([match[1]], int(match[2][:6]) if match[2] else default_port)


def _reading(names: Sequence[str], port: int | None = None, doubt: str = "") -> HostReading:
    """Return what an address with these *names* of hosts is; a doubt where one can be no host."""
    hosts = [canonical_host(_percent_decoded(name)) for name in names]
    if odd := [name for name, host in zip(names, hosts, strict=True) if not host]:
        doubt = doubt or f"{odd[0]!r} is not a plain name of a host"
    return HostReading(tuple(dict.fromkeys(filter(None, hosts))), port, doubt=doubt)


def _percent_decoded(text: str) -> str:
    from urllib.parse import unquote  # noqa: PLC0415 - it takes long to load, and few need it

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
        way_out = "a star stands in front of a domain only: '*.example.com'"
        raise ValueError(f"{text!r} is not a host; {way_out}")
    return HostPattern(text, f"{prefix}{host}", None, port)


def _in_ascii(name: str) -> str:
    """Return *name* as the DNS has it (RFC 3490), "" if it can have none."""
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
