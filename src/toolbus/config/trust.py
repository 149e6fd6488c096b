"""The effective configuration: the user's own, and a project's if the user trusts it.

The user's own is `toolbus/toolbus.toml` in `$XDG_CONFIG_HOME`, else in `~/.config`. `trusted.json`
beside it lists the trusted files of projects, each with the digests of itself and of all local
files that it names. A project's file that is not trusted, or has changed, is not even parsed.
Limits: trusted code can do anything, and a file that a component opens itself may change after
the check.
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from toolbus.config.documents import NAME, NAMES, find, read_document, search_places
from toolbus.config.entries import named_uses
from toolbus.errors import ConfigurationError, LoadError
from toolbus.settings.private_files import (
    UnfitFileError,
    locked,
    make_private_folders,
    read_secret_file,
    writable_by_others,
    write_private,
)
from toolbus.settings.spans import sanitize
from toolbus.settings.user_folders import config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.config.documents import Document
    from toolbus.config.snapshots import Snapshot

TRUSTED = "trusted.json"
PERSONAL_SETTINGS = frozenset({"base_url", "vault"})
"""Settings that no project may set, for any component; a component's class may add its own."""

_LONGEST = 20_000_000
"""The most bytes of the list; an entry has a few hundred."""

_Digests = dict[str, str]


class _TrustList(msgspec.Struct, kw_only=True):
    """The content of `trusted.json`: the digests of each configuration, by its real path."""

    version: int = 1
    files: dict[str, _Digests] = {}  # msgspec copies the default.


class EffectiveConfig(NamedTuple):
    """The active configurations of a folder; *refusal* says why the project's is not active.

    *has_changed* is true if it was trusted before.
    """

    personal: Document | None = None
    project: Snapshot | None = None
    refusal: str = ""
    has_changed: bool = False

    def warn(self) -> None:
        """Report on standard error, once, a file that is not active."""
        if self.refusal:
            whose = f"; your own {self.personal.file} is active" if self.personal else ""
            _warn(f"{self.refusal}{whose}")


class TrustDecision(NamedTuple):
    """The *snapshot* of a trusted file; else the *changed* files, None if it was never trusted."""

    snapshot: Snapshot | None
    changed: tuple[str, ...] | None = None


def effective_config(file: Path | None = None) -> EffectiveConfig:
    """Return the user's own configuration, and *file* or the nearest one here, if trusted.

    Raises `ConfigurationError` for a file that other users may change.
    """
    personal = own_document()
    file = find() if file is None else file
    if file is None or (personal is not None and os.path.realpath(file) == str(personal.file)):
        return EffectiveConfig(personal)
    snapshot, changed = check_trust(file)
    if snapshot is not None:
        return EffectiveConfig(personal, snapshot)
    path = os.path.realpath(file)
    why = "is not trusted"
    if changed is not None:
        why = f"is no longer trusted: {', '.join(changed)} changed"
    way_out = f"read it, then: toolbus trust {shlex.quote(path)}"
    refusal = sanitize(f"{path} {why}, so it is not active; {way_out}")
    return EffectiveConfig(personal, None, refusal, changed is not None)


def find_or_missed(folder: Path) -> Path | None:
    """Return the file that `find` finds from *folder*, a real path, or a nearer trusted file.

    The trusted file may be missing; an untrusted one does not take its place.
    """
    file, trusted = find(folder), read_trusted()
    for place in search_places(folder):
        for name in NAMES:
            if str(place / name) in trusted:
                return place / name
        if file is not None and place == file.parent:
            return file
    return file


def check_trust(file: Path | str) -> TrustDecision:
    """Return whether the real path of *file* is trusted, with the snapshot that was checked.

    Raises `ConfigurationError` for an unreadable file, and for one that other users may change or
    that names such a file.
    """
    from toolbus.config.snapshots import read_private, take_snapshot  # noqa: PLC0415 - for few

    file = Path(os.path.realpath(file))
    data = read_private(file, file)
    known = read_trusted().get(str(file))
    if known is None:
        return TrustDecision(None)
    # A file with another digest is not parsed.
    if sha256(data).hexdigest() != known.get(str(file)):
        return TrustDecision(None, (file.name,))
    snapshot = take_snapshot(file, data)
    digests = snapshot.digests
    changed = sorted([path for path in {*digests, *known} if digests.get(path) != known.get(path)])
    names = [os.path.relpath(path, file.parent) for path in changed]
    return TrustDecision(None, tuple(names)) if changed else TrustDecision(snapshot)


def trust(snapshot: Snapshot) -> None:
    """Trust *snapshot*: store its digests."""
    with _changing() as trusted:
        trusted[str(snapshot.document.file)] = snapshot.digests


def revoke(file: Path | str) -> bool:
    """Revoke the trust in *file*, by its real path and by its name; return whether it had any.

    By its name as well, since a link may have replaced the trusted file.
    """
    names = {os.path.realpath(file), os.path.abspath(file)}  # noqa: PTH100 - beside the other
    with _changing() as trusted:
        known = names & trusted.keys()
        for name in known:
            del trusted[name]
    return bool(known)


def read_trusted() -> dict[str, _Digests]:
    """Return the digests of all trusted configurations, by their real paths."""
    folder = config_folder()
    if folder is None:
        return {}
    return _read(folder / TRUSTED) if folder.is_dir() else {}


def own_document() -> Document | None:
    """Return the user's own configuration, or None; raises `ConfigurationError`."""
    folder = config_folder()
    if folder is None or not (folder / NAME).is_file():
        return None
    return read_owned(folder / NAME)


def read_owned(file: Path | str) -> Document:
    """Return the document of *file*.

    Raises `ConfigurationError` if other users may change it or the code that it names.
    """
    file = Path(os.path.realpath(file))
    try:
        reason = writable_by_others(file)
    except OSError:
        reason = None  # Reading it raises a better error.
    if reason:
        raise ConfigurationError(f"refused: {reason}; make it yours alone", str(file))
    document = read_document(file)
    for use in named_uses(document):
        source = use if use.endswith(".py") else use.rpartition(":")[0]
        named = file.parent / Path(source).expanduser()
        if not (source.endswith(".py") and named.is_file()):
            continue  # A missing file is reported when it is loaded.
        if reason := writable_by_others(Path(os.path.realpath(named))):
            named_reason = f"refused: it names {str(named)!r}, and {reason}; make it yours alone"
            raise ConfigurationError(named_reason, str(file))
    return document


@contextmanager
def _changing() -> Iterator[dict[str, _Digests]]:
    """Yield the trusted digests, and write their changes atomically, under a lock."""
    folder = config_folder()
    if folder is None:
        raise LoadError("no home folder to store the trust in; set XDG_CONFIG_HOME")
    make_private_folders(folder)
    with locked(folder / f"{TRUSTED}.lock"):
        files = _read(folder / TRUSTED)
        yield files
        encoded = msgspec.json.encode(_TrustList(files=files))
        write_private(folder / TRUSTED, msgspec.json.format(encoded, indent=2) + b"\n")


def _read(file: Path) -> dict[str, _Digests]:
    """Return the digests in *file*, none if it is missing; it must be private to its owner."""
    try:
        trusted = msgspec.json.decode(read_secret_file(file, _LONGEST), type=_TrustList)
    except FileNotFoundError:
        return {}
    except UnfitFileError as error:
        reason = f"refused: {error.reason}; delete it, and trust the files again"
        raise ConfigurationError(reason, str(file)) from None
    except OSError as error:
        # A symlink raises this: "too many levels of symbolic links".
        raise ConfigurationError(f"it cannot be opened: {error.strerror}", str(file)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = f"expected a list of trusted files: {error}; delete it, and trust the files again"
        raise ConfigurationError(reason, str(file)) from None
    if trusted.version != 1:
        reason = f"version {trusted.version} is newer than version 1; update toolbus"
        raise ConfigurationError(reason, str(file))
    return trusted.files


@cache
def _warn(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"toolbus: {text}\n")
