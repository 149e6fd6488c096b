"""Versions of a policy file that changes while active: no rule disappears or loosens.

A file that exists and is valid when first read becomes active. After a later change:

- If the file is gone, unreadable, invalid or untrusted, the old rules stay active. The problem is
  logged, and noted at each verdict.
- If the file is valid and trusted, new sessions use it. In running sessions it is active *beside*
  all earlier versions, and the strictest verdict counts: a new deny or ask rule applies at once,
  and a looser rule waits for a new session.

The file is trusted if the configuration that names it is trusted in its current state (`toolbus
trust`) or is the user's own. If code names the file, no configuration vouches for a change: until
the program restarts, the change only tightens, in all sessions, and is ignored if other users may
write the file. A restarted program uses the current file, also in a session that it resumes.
"""

from __future__ import annotations

import logging
import os
import threading
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from toolbus.errors import ConfigurationError, LoadError
from toolbus.policy.rules.policy_file import LONGEST_POLICY
from toolbus.settings.private_files import signature, writable_by_others
from toolbus.toml.config_source import config_source
from toolbus.toml.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("toolbus")

MOST_VERSIONS = 50
"""Versions of a file that one program loads; sessions that saw them are judged by each."""

MOST_SESSIONS = 100_000
"""Sessions whose first version one program remembers."""

T = TypeVar("T")


class ActiveRules(NamedTuple, Generic[T]):
    """The *versions* that apply to a session; the strictest verdict counts.

    *notice* says why the file's current state is not among them, or "".
    """

    versions: tuple[T, ...]
    notice: str = ""


class PolicyVersions(Generic[T]):
    """The rules of *file* in all versions that were active.

    *read* parses its bytes into rules or raises `LoadError`; *refuse* builds rules that deny every
    call with a reason. If the first version is unusable, a configuration that names the file gets
    such rules, and code gets the `LoadError`.
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
        """The files that determine the active rules: this file and its configuration."""
        return (self.file, *(() if self._origin is None else self._origin.files))

    @property
    def latest(self) -> T:
        """The version for new sessions."""
        return self._versions[self._newest]

    def for_session(self, session_id: str) -> ActiveRules[T]:
        """Return the rules of a session (of the outermost agent); checks the file for changes."""
        with self._lock:
            is_new = session_id not in self._starts
            current = signature(self.file)
            # Trust may have been given since, without a change of the file.
            if current != self._signature or (is_new and self._notice):
                self._signature = current
                self._load_change()
            if is_new:
                self._begin(session_id)
            return ActiveRules(tuple(self._versions[self._starts[session_id] :]), self._notice)

    def _begin(self, session_id: str) -> None:
        while len(self._starts) >= MOST_SESSIONS:
            # A forgotten session that returns may be the oldest: it gets all versions.
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

    def _load_change(self) -> None:
        """Load the current file if allowed; else log the reason once."""
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
            notice = (
                f"{self.file} has changed and is NOT active; the old rules still apply: {error}"
            )
        if notice and notice != self._notice:
            logger.error(notice)
        self._notice = notice

    def _check(self, data: bytes) -> None:
        if len(self._versions) >= MOST_VERSIONS:
            raise LoadError(f"it has changed {MOST_VERSIONS} times; restart the program")
        if self._origin is None:
            reason = writable_by_others(Path(os.path.realpath(self.file)))
        else:
            reason = self._origin.check_changed(self.file, data)
        if reason is not None:
            raise LoadError(reason)

    def _announce(self) -> None:
        if self._origin is None:
            whose = "all sessions until the program restarts"
        else:
            self._newest = len(self._versions) - 1
            whose = "running sessions; new sessions use the whole file"
        logger.warning("%s has changed: only its stricter rules apply to %s", self.file, whose)


def _read_bytes(file: Path) -> bytes:
    """Return the bytes of *file*; raises `ConfigurationError`."""
    # Reading a pipe would block.
    if file.exists() and not file.is_file():
        raise ConfigurationError("it is not a regular file", str(file))
    return read_bytes(file, LONGEST_POLICY)
