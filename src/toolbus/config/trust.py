"""Which configurations are in force: the user's own, and a project's if the user trusts it.

The user's own is `toolbus/toolbus.toml` in `$XDG_CONFIG_HOME`, else in `~/.config`. Trust in
others stands in `trusted.json` beside it: of each file the digests of itself and of all local
files that it names. A project's file that is not trusted, or has changed, is not even parsed.
What this cannot do: keep trusted code from doing whatever code can, or see that a file which a
component opens itself is changed after it was judged.
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
"""Settings that no project gives, whatever the component; a component's class may add to them."""

_LONGEST = 20_000_000
"""Bytes of the list; one entry has some hundred."""

_Digests = dict[str, str]


class _TrustList(msgspec.Struct, kw_only=True):
    """What `trusted.json` holds: by the real path of a configuration its digests."""

    version: int = 1
    files: dict[str, _Digests] = {}  # msgspec makes a new one each time.


class EffectiveConfig(NamedTuple):
    """What holds in the current folder; *refusal* says why the nearest file does not.

    *has_changed* is true if it was trusted once.
    """

    personal: Document | None = None
    project: Snapshot | None = None
    refusal: str = ""
    has_changed: bool = False

    def warn(self) -> None:
        """Tell the person, once, that a file is there and not in force."""
        if self.refusal:
            whose = f"; your own {self.personal.file} is in force" if self.personal else ""
            _warn(f"{self.refusal}{whose}")


class Judgement(NamedTuple):
    """A *snapshot* if it is trusted; else the names of what *changed*, None if it never was."""

    snapshot: Snapshot | None
    changed: tuple[str, ...] | None = None


def effective_config(file: Path | None = None) -> EffectiveConfig:
    """Return what is in force: the user's own, and *file*, else the nearest one here, if trusted.

    Raises `ConfigurationError` for what others may change.
    """
    personal = own_document()
    file = find() if file is None else file
    if file is None or (personal is not None and os.path.realpath(file) == str(personal.file)):
        return EffectiveConfig(personal)
    snapshot, changed = judge(file)
    if snapshot is not None:
        return EffectiveConfig(personal, snapshot)
    path = os.path.realpath(file)
    why = "is not trusted"
    if changed is not None:
        why = f"is not trusted any more, for {', '.join(changed)} changed"
    way_out = f"read it, then: toolbus trust {shlex.quote(path)}"
    refusal = sanitize(f"{path} {why}, so nothing of it is in force; {way_out}")
    return EffectiveConfig(personal, None, refusal, changed is not None)


def find_or_missed(folder: Path) -> Path | None:
    """Return what `find` does from *folder*, a real path, or what is trusted nearer or beside it.

    That may be gone, and what nobody trusts does not take its place.
    """
    file, trusted = find(folder), read_trusted()
    for place in search_places(folder):
        for name in NAMES:
            if str(place / name) in trusted:
                return place / name
        if file is not None and place == file.parent:
            return file
    return file


def judge(file: Path | str) -> Judgement:
    """Return whether *file* is trusted, by its real path, and as it was read for that.

    Raises `ConfigurationError` if it cannot be read, or others may change what it names.
    """
    from toolbus.config.snapshots import read_private, take_snapshot  # noqa: PLC0415 - for few

    file = Path(os.path.realpath(file))
    data = read_private(file, file)
    known = read_trusted().get(str(file))
    if known is None:
        return Judgement(None)
    # What does not even have its own digest is not looked into.
    if sha256(data).hexdigest() != known.get(str(file)):
        return Judgement(None, (file.name,))
    snapshot = take_snapshot(file, data)
    digests = snapshot.digests
    changed = sorted([path for path in {*digests, *known} if digests.get(path) != known.get(path)])
    names = [os.path.relpath(path, file.parent) for path in changed]
    return Judgement(None, tuple(names)) if changed else Judgement(snapshot)


def trust(snapshot: Snapshot) -> None:
    """Store the digests of *snapshot*: as it is, it is trusted from now on."""
    with _changing() as trusted:
        trusted[str(snapshot.document.file)] = snapshot.digests


def revoke(file: Path | str) -> bool:
    """Take back the trust in *file*, by its real path; return whether there was any.

    By its name as well: a link may stand where a trusted file stood.
    """
    names = {os.path.realpath(file), os.path.abspath(file)}  # noqa: PTH100 - beside the other
    with _changing() as trusted:
        known = names & trusted.keys()
        for name in known:
            del trusted[name]
    return bool(known)


def read_trusted() -> dict[str, _Digests]:
    """Return the digests of all that is trusted, by the real path of the configuration."""
    folder = config_folder()
    if folder is None:
        return {}
    return _read(folder / TRUSTED) if folder.is_dir() else {}


def own_document() -> Document | None:
    """Return the user's own configuration, if there is one; raises `ConfigurationError`."""
    folder = config_folder()
    if folder is None or not (folder / NAME).is_file():
        return None
    return read_owned(folder / NAME)


def read_owned(file: Path | str) -> Document:
    """Return what *file* says, which nobody but its owner may change, nor the code that it names.

    Raises `ConfigurationError`.
    """
    file = Path(os.path.realpath(file))
    try:
        reason = writable_by_others(file)
    except OSError:
        reason = None  # Reading it says what is wrong.
    if reason:
        raise ConfigurationError(f"refused: {reason}; make it yours alone", str(file))
    document = read_document(file)
    for use in named_uses(document):
        source = use if use.endswith(".py") else use.rpartition(":")[0]
        named = file.parent / Path(source).expanduser()
        if not (source.endswith(".py") and named.is_file()):
            continue  # What is not there is told when it is loaded.
        if reason := writable_by_others(Path(os.path.realpath(named))):
            named_reason = f"refused: it names {str(named)!r}, and {reason}; make it yours alone"
            raise ConfigurationError(named_reason, str(file))
    return document


@contextmanager
def _changing() -> Iterator[dict[str, _Digests]]:
    """Give what is trusted, and write it, changed, in one step; others wait so long."""
    folder = config_folder()
    if folder is None:
        raise LoadError("there is no home folder to keep trust in; set XDG_CONFIG_HOME")
    make_private_folders(folder)
    with locked(folder / f"{TRUSTED}.lock"):
        files = _read(folder / TRUSTED)
        yield files
        encoded = msgspec.json.encode(_TrustList(files=files))
        write_private(folder / TRUSTED, msgspec.json.format(encoded, indent=2) + b"\n")


def _read(file: Path) -> dict[str, _Digests]:
    """Return what *file* says, nothing if it is not there; only its owner may have written it."""
    try:
        trusted = msgspec.json.decode(read_secret_file(file, _LONGEST), type=_TrustList)
    except FileNotFoundError:
        return {}
    except UnfitFileError as error:
        reason = f"refused: {error.reason}; delete it, and trust anew"
        raise ConfigurationError(reason, str(file)) from None
    except OSError as error:
        # A symlink is one of those: it says "too many levels of symbolic links".
        raise ConfigurationError(f"it cannot be opened: {error.strerror}", str(file)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = f"this is not a list of trusted files: {error}; delete it, and trust anew"
        raise ConfigurationError(reason, str(file)) from None
    if trusted.version != 1:
        reason = f"it is of version {trusted.version}, a newer toolbus's; update this one"
        raise ConfigurationError(reason, str(file))
    return trusted.files


@cache
def _warn(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"toolbus: {text}\n")
