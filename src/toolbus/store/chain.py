"""The chains of a session: each link is a digest of its predecessor and of one record's body."""

from __future__ import annotations

from hashlib import sha256
from os import urandom

from toolbus.errors import StoreError

KINDS = ("message", "record", "question")
"""The kinds with a chain: messages, batches of ledger records, and writes of questions."""

MESSAGES, BATCHES, QUESTIONS = range(3)
"""The numbers of the kinds."""

QUESTION_NAMES = ("question:", "grant:")
"""The beginnings of the names of states whose writes are chained."""

ALL_STATES = "*"
"""The name in the link of a deletion of all states, which covers all earlier names."""

SALT, LINK, COUNT = 16, 32, 8
"""The bytes of a salt, a link, and the number of questions; a record's *seal* is salt and link."""

NOTHING = bytes(LINK)
"""The commitment to a deleted state; no head in a session's column."""

ANCHOR = b'{"toolbus_anchor":'
"""The first bytes of a list of anchors, by which policies recognize it."""

_SIZE = SALT + LINK * len(KINDS) + COUNT


def commitment(salt: bytes, body: bytes) -> bytes:
    """Return the digest that commits to *body*, and reveals nothing of it without *salt*."""
    return sha256(salt + body).digest()


def next_link(previous: bytes, committed: bytes, label: str) -> bytes:
    """Return the link after *previous* of the record *label* with the commitment *committed*."""
    return sha256(previous + committed + label.encode()).digest()


def genesis(name: bytes, session_id: str, kind: int) -> bytes:
    """Return the predecessor of the first link: a chain fits no other session, and no middle."""
    return sha256(name + f"{KINDS[kind]}:{session_id}".encode()).digest()


def salted_state(name: str, body: bytes | None) -> tuple[bytes | None, bytes]:
    """Return the salt and the commitment of a write of the state *name*; b"" without a chain."""
    if not name.startswith(QUESTION_NAMES):
        return None, b""
    if body is None:
        return None, NOTHING
    return (salt := urandom(SALT)), commitment(salt, body)


def head_of(kind: int) -> slice:
    """Return the place of the head of *kind* in a session's column."""
    return slice(SALT + LINK * kind, SALT + LINK * (kind + 1))


def is_column(value: object) -> bool:
    """Return whether *value* is a session's column; a damaged file may have anything."""
    return isinstance(value, bytes) and len(value) == _SIZE


class Chains:
    """The chains of the session *session_id*, in the *column* of its row; None before any link.

    The column has a random name, so that the heads can be published without the session's id, the
    last link of each kind, and the number of written questions.
    """

    __slots__ = ("_session_id", "column")

    def __init__(self, session_id: str, column: bytes | None) -> None:
        self._session_id, self.column = session_id, column

    def extend(self, kind: int, committed: bytes, label: str) -> bytes:
        """Add the link of the record *label* to the chain of its *kind*; return the link."""
        column, head = self._opened(), head_of(kind)
        previous = column[head]
        if previous == NOTHING:
            previous = genesis(column[:SALT], self._session_id, kind)
        link = next_link(previous, committed, label)
        self.column = column[: head.start] + link + column[head.stop :]
        return link

    def extend_questions(self, name: str, committed: bytes) -> tuple[int, str, bytes]:
        """Add the link of a write of the state *name*; return its number, name and seal."""
        self.column = self._opened()
        count = int.from_bytes(self.column[-COUNT:], "big") + 1
        link = self.extend(QUESTIONS, committed, f"{count}:{name}")
        self.column = self.column[:-COUNT] + count.to_bytes(COUNT, "big")
        return count, name, committed + link

    def _opened(self) -> bytes:
        if self.column is None:
            return urandom(SALT) + bytes(_SIZE - SALT)
        if not is_column(self.column):
            reason = "the chain in the session's row is damaged; see `toolbus check --chain`"
            raise StoreError(self._session_id, reason)
        return self.column
