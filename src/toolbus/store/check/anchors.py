"""A list of anchors: signed lines with the heads of a store's chains, kept outside of the store."""

from __future__ import annotations

import fcntl
import hmac
import os
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from toolbus.settings.private_files import writable_by_others
from toolbus.settings.usage_error import UsageError
from toolbus.store.chain import ANCHOR, KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_SIGNATURE = b',"signature":"'
_LONGEST = 2**27
"""The maximum bytes of a line, enough for half a million sessions."""


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A line: the heads of those *chains*, by random name, that differ from the lines before it.

    *previous* is the signature of the line before, "" in the first one. *forgotten* has the chains
    deleted since.
    """

    toolbus_anchor: int = 1
    time: str
    store: str
    previous: str = ""
    chains: dict[bytes, tuple[bytes | None, ...]]
    forgotten: tuple[bytes, ...] = ()


class AnchorList:
    """The lines whose signatures and order are right; *problem* is the reason for their end.

    They are *lines* in *size* bytes, the *newest* has *signature*, and *forgotten* has the line of
    each deleted chain. *is_torn* tells whether an unfinished line follows.
    """

    def __init__(self, key: bytes) -> None:
        self.problem, self.is_torn = "", False
        self.lines, self.size, self.signature = 0, 0, ""
        self.newest = Anchor(time="", store="", chains={})
        # The key serves other purposes, too; none of their signatures is one of a line.
        self._key = hmac.digest(key, b"toolbus anchor", sha256)
        self.heads: dict[bytes, tuple[bytes | None, ...]] = {}
        self.forgotten: dict[bytes, int] = {}
        self._unseen: dict[tuple[bytes, int, bytes], int] = {}

    def next_line(self, now: Anchor) -> bytes:
        """Return the signed line about all chains of *now*: its differences from the lines."""
        changed = {name: each for name, each in now.chains.items() if self.heads.get(name) != each}
        gone = tuple([name for name in now.forgotten if name not in self.forgotten])
        fields = {"previous": self.signature, "chains": changed, "forgotten": gone}
        line = msgspec.json.encode(msgspec.structs.replace(now, **fields)).removesuffix(b"}")
        return line + self._ending(line)

    def read(self, stream: BinaryIO) -> None:
        """Take the lines of *stream* after those taken before."""
        stream.seek(max(0, self.size - 1))
        if self.lines and stream.read(1) != b"\n":
            self.problem = f"line {self.lines} was changed or removed after it was written"
        while not self.problem and (line := stream.readline(_LONGEST)):
            self.take(line)

    def take(self, line: bytes) -> None:
        """Add *line*, or set `problem`; nothing is parsed before its signature is verified."""
        self.is_torn = line.startswith(ANCHOR) and not line.endswith(b"\n")
        if self.is_torn:
            return
        number, signed = f"line {self.lines + 1}", line.rpartition(_SIGNATURE)[0]
        if not hmac.compare_digest(line, signed + self._ending(signed)):
            self.problem = self._wrong_signature(line)
            return
        try:
            anchor = msgspec.json.decode(signed + b"}", type=Anchor)
        except msgspec.MsgspecError:
            self.problem = f"{number} was written by a newer toolbus"
            return
        if anchor.previous != self.signature:
            self.problem = f"{number} does not follow the line before: lines were removed or moved"
            return
        self.size += len(line)
        self.lines, self.newest = self.lines + 1, anchor
        self.signature = signature_of(line)
        self.heads |= anchor.chains
        self.forgotten |= dict.fromkeys(anchor.forgotten, self.lines)
        for name, heads in anchor.chains.items():
            for kind, head in enumerate(heads):
                if head is not None:
                    self._unseen.setdefault((name, kind, head), self.lines)

    def seen(self, name: bytes, kind: int, link: bytes) -> None:
        """Note a link of the store."""
        self._unseen.pop((name, kind, link), None)

    def findings(
        self, sessions: Mapping[bytes, str], forgotten: Collection[bytes]
    ) -> Iterator[str]:
        """Yield the contradictions to a store, all of whose links were `seen`.

        *sessions* has its session ids by chain, *forgotten* the chains of its deleted sessions.
        """
        if self.problem or self.is_torn:
            yield self.problem or f"line {self.lines + 1} is unfinished"
        lost = self._lost(forgotten)
        for name, (word, line) in lost.items():
            if name in sessions:
                reason = f"session {sessions[name]!r} lacks the head of its {word} chain"
                yield f"{reason} in line {line}: since that line a {word} was changed or removed"
        if removed := [line for name, (_, line) in lost.items() if name not in sessions]:
            chains = "a chain" if len(removed) == 1 else f"{len(removed):,} chains"
            reason = "removed without `toolbus forget`, or the store is another one"
            yield f"{chains} without a session, first in line {removed[0]}: {reason}"
        for name in self.forgotten.keys() & sessions.keys():
            text = f"session {sessions[name]!r} was forgotten by line {self.forgotten[name]}"
            yield f"{text}, and is in the store again"

    def _lost(self, forgotten: Collection[bytes]) -> dict[bytes, tuple[str, int]]:
        """Return the kind and line of the first unseen head of each chain not *forgotten*."""
        lost: dict[bytes, tuple[str, int]] = {}
        for (name, kind, _), line in self._unseen.items():
            if name not in forgotten:
                lost.setdefault(name, (KINDS[kind], line))
        return lost

    def _wrong_signature(self, line: bytes) -> str:
        if not (self.lines or line.startswith(ANCHOR)):
            return "it is not a list of `toolbus anchor`"
        other = "" if self.lines else ", or another key signed it"
        return f"line {self.lines + 1} has a wrong signature: it was changed{other}"

    def _ending(self, signed: bytes) -> bytes:
        signature = hmac.digest(self._key, signed, sha256).hex()
        return _SIGNATURE + signature.encode() + b'"}\n'


def signature_of(line: bytes) -> str:
    """Return the signature at the end of *line*."""
    return line.rpartition(_SIGNATURE)[2].decode().removesuffix('"}\n')


def read_anchors(file: Path, key: bytes) -> AnchorList:
    """Return the list in *file*; raises `UsageError`, also for a link, and `OSError`."""
    anchors = AnchorList(key)
    with _open_file(file, os.O_RDONLY) as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)  # Another process may be adding a line.
        anchors.read(stream)
    if not (anchors.lines or anchors.problem or anchors.is_torn):
        anchors.problem = "the list has no lines"
    return anchors


def extend_file(file: Path, anchors: AnchorList, now: Anchor) -> None:
    """Read new lines of *file*, created if missing, into *anchors*; append one about *now* to both.

    Raises `UsageError`, also if others may write the file, and `OSError`.
    """
    with _open_file(file, os.O_RDWR | os.O_CREAT | os.O_APPEND) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        anchors.read(stream)
        reason = anchors.problem or writable_by_others(Path(os.path.realpath(file)))
        if (
            not reason
            and anchors.heads
            and anchors.heads.keys().isdisjoint([*now.chains, *now.forgotten])
        ):
            reason = "it is the list of another store: none of its chains is in this one"
        if reason:
            raise UsageError(f"list {str(file)!r}: {reason}")
        line = anchors.next_line(now)
        stream.truncate(anchors.size)  # A killed process leaves an unfinished line.
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())
        anchors.take(line)


def _open_file(file: Path, flags: int) -> BinaryIO:
    # O_NONBLOCK, so that opening a pipe does not wait for its other end.
    try:
        number = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"list {str(file)!r}: {str(error.strerror).lower()}") from error
    if not S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise UsageError(f"list {str(file)!r}: it is not a regular file")
    return os.fdopen(number, "r+b" if flags & os.O_RDWR else "rb")
