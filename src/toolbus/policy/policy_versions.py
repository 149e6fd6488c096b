"""A policy's file that changes while it is in force: nothing disappears, nothing loosens.

A file that is there and valid when it is read first is in force from then on. Of a later state:

- It is gone, cannot be read, is invalid or not trusted: what was in force stays so, and that is
  logged, and noted at each verdict.
- It is valid and trusted: sessions that begin from then on have it. For those under way it is in
  force *beside* all that was before, and the strictest verdict counts: so a new rule that denies or
  asks holds at once, and what would loosen waits for a new session.

It is trusted if the configuration that names it is, as it is now (`toolbus trust`), or is the
user's own. Where code names the file, nobody says so of a changed one: until the program starts
anew it only tightens, for all sessions, and not even that if others may write it. A program that is
started anew begins with the file as it is then, also for a session that it resumes.
"""

from __future__ import annotations

import logging
import os
import threading
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from toolbus.errors import ConfigurationError, LoadError
from toolbus.settings.private_files import signature, writable_by_others
from toolbus.toml.config_source import config_source
from toolbus.toml.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("toolbus")

LONGEST_POLICY = 2**20
"""Bytes of a policy's file; what is longer was not written by a person, nor could one read it."""

MOST_VERSIONS = 50
"""States of a file that one program takes up; each is judged by in the sessions that saw it."""

MOST_SESSIONS = 100_000
"""Sessions of which one program knows with which state they began."""

T = TypeVar("T")


class RulesInForce(NamedTuple, Generic[T]):
    """What holds for a session: all *versions*, the strictest verdict counts.

    *notice* says why the file as it is now is not among them, or "".
    """

    versions: tuple[T, ...]
    notice: str = ""


class PolicyVersions(Generic[T]):
    """The rules of *file* in all states that were in force.

    *read* makes rules of its bytes, or raises `LoadError`; *refuse* makes rules that deny every
    call, for a reason. What is wrong with the first state is such rules where a configuration names
    the file, and raises `LoadError` where code does.
    """

    def __init__(
        self, file: Path, read: Callable[[Path, bytes], T], refuse: Callable[[str], T]
    ) -> None:
        self.file = file
        self._read = read
        self._origin = config_source.get()
        self._lock = threading.Lock()
        self._signature = signature(file)
        self._starts: dict[str, int] = {}
        self._has_forgotten = False
        self._newest = 0
        self._notice = ""
        self._digest, first = self._read_first(refuse)
        self._versions = [first]

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that say what is in force: this one, and the configuration that names it."""
        return (self.file, *(() if self._origin is None else self._origin.files))

    @property
    def latest(self) -> T:
        """What new sessions begin with."""
        return self._versions[self._newest]

    def for_session(self, session_id: str) -> RulesInForce[T]:
        """Return what holds for a session, that of the outermost agent; it looks at the file."""
        with self._lock:
            is_new = session_id not in self._starts
            current = signature(self.file)
            # It may be trusted since, which the file itself does not show.
            if current != self._signature or (is_new and self._notice):
                self._signature = current
                self._take_up()
            if is_new:
                self._begin(session_id)
            return RulesInForce(tuple(self._versions[self._starts[session_id] :]), self._notice)

    def _begin(self, session_id: str) -> None:
        while len(self._starts) >= MOST_SESSIONS:
            # One that comes again may be older than all that are known: it gets everything.
            self._has_forgotten = True
            del self._starts[next(iter(self._starts))]
        self._starts[session_id] = 0 if self._has_forgotten else self._newest

    def _read_first(self, refuse: Callable[[str], T]) -> tuple[str, T]:
        digest = ""
        try:
            data = _read_bytes(self.file)
            digest = sha256(data).hexdigest()
            distrust = self._origin.check_first(self.file, data) if self._origin else None
            if distrust is None:
                return digest, self._read(self.file, data)
            reason = f"{self.file}: {distrust}"
        except LoadError as error:
            if self._origin is None:
                raise
            reason = str(error)
        reason = f"the policy cannot be used, so every call is denied: {reason}"
        logger.error(reason)
        return digest, refuse(reason)

    def _take_up(self) -> None:
        """Take the file as it is now, if it may be taken; else say why not, once."""
        notice = ""
        try:
            data = _read_bytes(self.file)
            digest = sha256(data).hexdigest()
            if digest != self._digest:
                self._check(data)
                self._versions.append(self._read(self.file, data))
                self._digest = digest
                self._announce()
        except (LoadError, OSError) as error:
            notice = f"{self.file} has changed and is NOT in force, the old rules stay: {error}"
        if notice and notice != self._notice:
            logger.error(notice)
        self._notice = notice

    def _check(self, data: bytes) -> None:
        if len(self._versions) >= MOST_VERSIONS:
            raise LoadError(f"it has changed {MOST_VERSIONS} times; start the program anew")
        if self._origin is None:
            reason = writable_by_others(Path(os.path.realpath(self.file)))
        else:
            reason = self._origin.check_changed(self.file, data)
        if reason is not None:
            raise LoadError(reason)

    def _announce(self) -> None:
        if self._origin is None:
            whose = "all sessions until the program starts anew"
        else:
            self._newest = len(self._versions) - 1
            whose = "the sessions that have begun; new ones have it as it is"
        logger.warning("%s has changed: only what is stricter in it holds for %s", self.file, whose)


def _read_bytes(file: Path) -> bytes:
    """Return what is in *file*; raises `ConfigurationError`."""
    # A pipe would be waited for.
    if file.exists() and not file.is_file():
        raise ConfigurationError("it is no regular file", str(file))
    return read_bytes(file, LONGEST_POLICY)
