"""The chains of a session: each link is a digest of its predecessor and of one record's body."""

from __future__ import annotations

from hashlib import sha256
from os import urandom
from struct import Struct
from typing import NamedTuple

KINDS = ("message", "record", "question")
"""The kinds with a chain: messages, batches of ledger records, and writes of questions."""

MESSAGES, BATCHES, QUESTIONS = range(3)
"""The numbers of the kinds."""

QUESTION_NAMES = ("question:", "grant:")
"""The beginnings of the names of states whose writes are chained."""

ALL_STATES = "*"
"""The name in the link of a deletion of all states, which covers all earlier names."""

SALT, LINK = 16, 32
"""The bytes of a salt and of a link; a record's *seal* is one of each."""

NOTHING = bytes(LINK)
"""The commitment to a deleted state; no head in a session's column."""

# The name, the heads of the three chains, and the number of written questions.
_COLUMN = Struct(">16s32s32s32sQ")


def commitment(salt: bytes, body: bytes) -> bytes:
    """Return the digest that commits to *body*, and reveals nothing of it without *salt*."""
    return sha256(salt + body).digest()


def next_link(previous: bytes, committed: bytes, label: str) -> bytes:
    """Return the link after *previous* of the record *label* with the commitment *committed*."""
    return sha256(previous + committed + label.encode()).digest()


def genesis(name: bytes, session_id: str, kind: int) -> bytes:
    """Return the predecessor of the first link: a chain fits no other session, and no middle."""
    return sha256(name + f"{KINDS[kind]}:{session_id}".encode()).digest()


class Salted(NamedTuple):
    """A fresh *salt*, and the commitment to a body with it."""

    salt: bytes
    committed: bytes


def salted(body: bytes) -> Salted:
    """Return the commitment to *body* with a fresh salt."""
    salt = urandom(SALT)
    return Salted(salt, commitment(salt, body))


def salted_state(name: str, body: bytes | None) -> tuple[bytes | None, bytes]:
    """Return the salt and the commitment of a write of the state *name*; b"" without a chain."""
    if not name.startswith(QUESTION_NAMES):
        return None, b""
    return (None, NOTHING) if body is None else salted(body)


class Chains:
    """The chains of the session *session_id*, from its column, which is None before any link.

    *name* is random, so that the heads can be published without the session's id; *heads* has the
    last link of each kind, and *questions* is the number of written questions.
    """

    __slots__ = ("_session_id", "heads", "name", "questions")

    def __init__(self, session_id: str, column: bytes | None) -> None:
        self._session_id = session_id
        if column is None or len(column) != _COLUMN.size:
            # A damaged column must not stop the session; the check finds the beginning.
            column = urandom(SALT) + bytes(_COLUMN.size - SALT)
        self.name, *self.heads, self.questions = _COLUMN.unpack(column)

    def seal(self, kind: int, salted: Salted, label: str) -> bytes:
        """Add the link of the record *label* to the chain of its *kind*; return its seal."""
        return salted.salt + self._extend(kind, salted.committed, label)

    def _extend(self, kind: int, committed: bytes, label: str) -> bytes:
        head = self.heads[kind]
        previous = genesis(self.name, self._session_id, kind) if head == NOTHING else head
        self.heads[kind] = link = next_link(previous, committed, label)
        return link

    def extend_questions(self, name: str, committed: bytes) -> tuple[int, str, bytes]:
        """Add the link of a write of the state *name*; return its number, name and seal."""
        self.questions += 1
        link = self._extend(QUESTIONS, committed, f"{self.questions}:{name}")
        return self.questions, name, committed + link

    def column(self) -> bytes | None:
        """Return the session's column."""
        is_new = self.heads == [NOTHING] * len(KINDS)
        return None if is_new else _COLUMN.pack(self.name, *self.heads, self.questions)
