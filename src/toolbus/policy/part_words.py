"""The words of a part of a call by the names of its arguments, and the part's destinations."""

from __future__ import annotations

import posixpath
import re
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.commands import CHANGES, ONLY_READS, Word
from toolbus.policy.paths.hosts import host_patterns, reaches, read_host, read_word
from toolbus.policy.programs.program_files import language_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from toolbus.components.call_facts import CallFacts
    from toolbus.policy.commands import PathUse
    from toolbus.policy.facts import CallPart, CallReading

_MOST_ADDRESSES = 1_000
MOST_RECIPIENTS = 1_000
"""Recipients of one call that are read."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}+://[^\s<>\"'`|\\^{}()\[\]]+")
_LEADING = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://")
_LOOPBACK = host_patterns(["loopback"])
_USUAL_REMOTES = frozenset({"origin", "upstream"})
_SPEAKS = frozenset({"message", "run-code"})
"""Effects by which a text may reach the addresses in it: a client loads the image of a message."""
_TARGETED = frozenset({"message", "destroy"})
_FETCHERS = frozenset({"curl", "wget"})
_SHARED_ENDS = frozenset({"co", "com", "org", "net", "ac", "gov", "edu", "or", "ne", "go"})
"""Labels before a country below which names are registered."""
_READING_METHODS = frozenset({"GET", "HEAD"})
_INSTALLS = frozenset(
    {"install", "i", "add", "get", "require", "run", "dlx", "x", "exec", "create", "init"}
    | {"download", "wheel", "update", "upgrade"}
)
"""Commands whose other words are packages, if they run code."""
_LISTS = frozenset({"-r", "--requirement", "-c", "--constraint"})
"""Options before files that list packages."""
_PIPS = frozenset({"pip", "pip3", "uv"})
_VERSION = re.compile(r"(?<=.)@[\w.^~*-]*\Z|[=<>~!^\[].*\Z", re.DOTALL)


class Target(NamedTuple):
    """The *text* of a target; an address is one whole."""

    text: str
    is_address: bool = False


class Destination(NamedTuple):
    """A host or a recipient at *address*, "" if it is unknown; *why* it counts, unless it is named.

    Unless *is_certain*, it may be the address of a named one.
    """

    address: str
    why: str
    is_certain: bool = True


def words_of(part: CallPart, reading: CallReading) -> dict[str, str]:
    """Return the words of *part* by the paths of its arguments; by "" for a command.

    Items of a list share its path. A command with a doubtful word, or with the output of another
    command as its input, has the words of the whole line.
    """
    if part.is_tool:
        return reading.argument_texts
    parts = reading.parts if _is_open(part) else (part,)
    return {"": "\n".join([text for each in parts for text in _part_texts(each)])}


def with_whole(texts: Mapping[str, str], part: CallPart) -> Iterator[tuple[str, str]]:
    """Yield *texts* of *part*, and those of a tool joined: values and words may be split."""
    yield from texts.items()
    if part.is_tool:
        values = [text for text in texts.values() if not is_recipient(text, part)]
        lines = "\n".join(values)
        for whole in {lines: None, lines.replace("\n", ""): None}:
            if whole and whole not in values:
                yield "", whole


def sent_files(part: CallPart, reading: CallReading) -> list[PathUse]:
    """Return the files that *part* may send: its own, and those of the line that it depends on."""
    if "network" not in part.effects:
        return []
    parts = reading.parts if not part.is_tool and _is_open(part) else (part,)
    return [use for each in parts for use in each.paths if use.kind not in CHANGES]


def stands_in_view(address: str, facts: CallFacts | None) -> bool:
    """Return whether the whole *address* stands in a text in view; not if that is unknown."""
    whole, quotes = without_scheme(address), () if facts is None else facts.quoted(address)
    return any(without_scheme(quote.text) == whole for quote in quotes)


def without_scheme(address: str) -> str:
    """Return *address* without its scheme and final slash, which quotes may lack."""
    return _LEADING.sub("", address).rstrip("/")


def is_recipient(text: str, part: CallPart) -> bool:
    """Return whether *text* is nothing but recipients of *part*."""
    recipients = part.recipient_names
    return bool(recipients) and recipients.issuperset(split_recipients(text))


def instructions_of(part: CallPart, reading: CallReading) -> dict[str, str]:
    """Return the words of *part* that may tell a program what to do.

    These are not the settings of its environment, nor the files that it writes. Managers of
    packages and runners of tests run code of the project, or that of packages: of their words only
    packages and addresses count, but none that a person named.
    """
    files = {use.word.text for use in part.paths if use.kind in CHANGES}
    command = part.command
    if command is None or _is_open(part):
        texts = words_of(part, reading)
        return {path: text for path, text in texts.items() if text not in files}
    words = [word.text for word in (command.program, *command.words)]
    if not part.unknown and part.programs & language_words("managers", "programs"):
        words = list(_packages(part, words, reading))
    line = " ".join([word for word in words if word not in files])
    return {"": "\n".join([line, command.stdin or ""])}


def _packages(part: CallPart, words: list[str], reading: CallReading) -> Iterator[str]:
    """Yield the packages, addresses and variables in the *words* of a manager of packages."""
    installs = _INSTALLS.issuperset(part.action[1:][-1:])
    for option, word in pairwise(words):
        is_list = option in _LISTS and part.programs & _PIPS
        is_package = (installs or "=" in word) and word[:1] != "-" and not is_list
        is_named = word in part.action or _is_named(_package_of(word), reading)
        if not is_named and (is_package or _is_address(word)):
            yield word


def _is_address(word: str) -> bool:
    return "://" in word or word[:1] in {"/", "~"}


def _package_of(word: str) -> str:
    """Return the address, or the name of the package without a version, in *word*."""
    value = word.partition("=")[2] if word[:1] == "-" else word
    return value if "://" in value else _VERSION.sub("", value)


def targets_of(part: CallPart, reading: CallReading) -> list[Target]:
    """Return the paths, hosts and new recipients of *part*.

    All words of a message or a destruction that names none are its target.
    New addresses in the text of a message, and in the body of a request, are targets as well.
    """
    # A deletion names a part of its address.
    is_whole = not deletes(part, reading)
    targets = [
        *map(Target, _changed_paths(part)),
        *[Target(word.text, is_address=is_whole) for word in part.hosts],
        *[Target(word.text) for word in part.recipients if not _is_named(word.text, reading)],
    ]
    if not targets and not part.recipients and part.effects & _TARGETED:
        return [Target(text) for text in words_of(part, reading).values()]
    return [*targets, *_new_links(part, reading)]


def _changed_paths(part: CallPart) -> Iterable[str]:
    """Return the paths of changed files, as they are written below their folder and in short."""
    uses = [use for use in part.paths if use.kind in CHANGES]
    # After a `cd` the path of a stranger is in two words, and `..` may stand between others.
    paths = [posixpath.join(use.folder or "", use.word.text) for use in uses]
    return dict.fromkeys([*paths, *map(posixpath.normpath, paths)])


def _new_links(part: CallPart, reading: CallReading) -> Iterator[Target]:
    """Yield the addresses in the words of a tool with network, but its hosts and named ones."""
    if part.is_tool and "network" in part.effects and reading.origins is not None:
        hosts = {word.text for word in part.hosts}
        for address in reading.addresses:
            if address not in hosts and not _is_named(address, reading):
                yield Target(address, is_address=True)


def _is_named(address: str, reading: CallReading) -> bool:
    return reading.origins is not None and reading.origins.is_named(address)


def destinations(part: CallPart, reading: CallReading) -> Iterator[Destination]:
    """Yield the hosts and recipients of *part* but this machine; none if they are fixed."""
    yield from _unnamed(part)
    yield from chain.from_iterable(map(_hosts, part.hosts))
    yield from map(_recipient, part.recipients)
    for address in reading.addresses if part.effects & _SPEAKS else ():
        # Nothing of the model's own is in a link that stands in view.
        if not stands_in_view(address, reading.origins):
            yield from _hosts(Word(address))


def _unnamed(part: CallPart) -> Iterator[Destination]:
    """Yield the destination of *part* if no word names it."""
    is_public = " ".join(part.action[:2]) in language_words("public", "commands")
    if is_public or part.reaches == "public":
        yield Destination("", "anyone may read it")
    is_open = part.is_tool and not part.reaches and "network" in part.effects
    if is_open and not (part.hosts or part.recipients):
        yield Destination("", "no argument names its destination")


def addresses_in(reading: CallReading) -> Iterator[str]:
    """Yield the addresses in the words of a tool's call, or of a whole line.

    After the first thousand an unreadable one stands for the rest.
    """
    texts: Iterable[str] = reading.argument_texts.values()
    if not any(part.is_tool for part in reading.parts):
        texts = [text for each in reading.parts for text in _part_texts(each)]
    for number, match in enumerate(_ADDRESS.finditer("\n".join(dict.fromkeys(texts)))):
        yield match[0] if number < _MOST_ADDRESSES else "x://\\"
        if number == _MOST_ADDRESSES:
            return


def may_only_read(part: CallPart, reading: CallReading) -> bool:
    """Return whether *part* sends at most its addresses: a GET without a body."""
    are_known = all(word.known and not word.pattern for word in part.hosts)
    if not part.hosts or not are_known or part.recipients or part.unknown:
        return False
    return _only_fetches(part) or _only_addresses(part, reading)


def _only_fetches(part: CallPart) -> bool:
    command = part.command
    if command is None:
        return False
    has_input = bool(command.settings) or command.stdin is not None or command.piped
    is_plain = part.options <= language_words("curl", "plain_options")
    return part.programs <= _FETCHERS and is_plain and not has_input


def deletes(part: CallPart, reading: CallReading) -> bool:
    """Return whether *part* is a request with the method DELETE."""
    if part.is_tool:
        method = reading.call.arguments.get("method")
        return bool(part.hosts) and isinstance(method, str) and method.upper() == "DELETE"
    words = [] if part.command is None else [word.text for word in part.command.words]
    return part.programs <= _FETCHERS and any(word.endswith("DELETE") for word in words)


def _only_addresses(part: CallPart, reading: CallReading) -> bool:
    """Return whether all texts of a tool's call are addresses and at most a method that reads."""
    if not part.is_tool:
        return False
    texts = reading.argument_texts
    addresses = {word.text for word in part.hosts}
    others = {text.upper() for text in texts.values() if text and text not in addresses}
    allowed = ONLY_READS | {"write"} if others else ONLY_READS
    return others <= _READING_METHODS and part.effects <= allowed and not part.paths


def _is_open(part: CallPart) -> bool:
    """Return whether *part* may have further words, from other commands of its line."""
    command = part.command
    return command is None or command.piped or not all(word.known for word in command.words)


def _part_texts(part: CallPart) -> Iterator[str]:
    command = part.command
    if command is None:
        yield part.source
        return
    words = [command.program, *command.words, *[word for _, word in command.settings]]
    words += [each.target for each in command.redirections]
    yield " ".join([word.text for word in words])
    if command.stdin is not None:
        yield command.stdin


def split_recipients(text: str) -> list[str]:
    """Return the recipients in the list *text*: `Lind, Petra <p@example.com>` is one."""
    items: list[str] = []
    for item in re.split(r"[,;\n]", text):
        name = f"{items.pop()}," if items and "<" in item and not {"@", "<"} & {*items[-1]} else ""
        items.append(f"{name}{item}")
    return [item.strip() for item in items if item.strip()]


def _hosts(word: Word) -> Iterator[Destination]:
    reading = read_word(word)
    is_url = word.known and not word.pattern and "://" in word.text
    for host in reading.hosts:
        if word.text not in _USUAL_REMOTES and reaches(Word(host), _LOOPBACK).answer != "yes":
            yield Destination(word.text if is_url else host, _reason(host))
    if reading.doubt:
        why = "a host that it reaches is known only at run time"
        yield Destination("", why, is_certain=False)


def _recipient(word: Word) -> Destination:
    if not word.known:
        return Destination("", "its recipient cannot be read", is_certain=False)
    address = word.text.rpartition("<")[2].rstrip(">")
    hosts = read_host(address).hosts if "@" in address or "://" in address else ()
    return Destination(word.text, _reason(*hosts[:1]))


def _reason(host: str = "a recipient") -> str:
    """Return why *host* counts, with its registered end if it can be told: labels may be values."""
    labels = host.split(".")
    is_shared = labels[-2:-1] and labels[-2] in _SHARED_ENDS and len(labels[-1]) == 2  # noqa: PLR2004
    end = labels[-3:] if is_shared else labels[-2:]
    shown = ".".join(["…", *end] if len(end) < len(labels) else end)
    return f"it reaches {shown}, which nobody named"
