"""Logins that `toolbus login` keeps: tokens of servers, each in a file that only its owner reads.

They are under `$XDG_STATE_HOME/toolbus/logins`, else `~/.local/state/toolbus/logins`. A login holds
for the exact address that it was made for.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import asynccontextmanager
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from toolbus.errors import LoadError
from toolbus.http.urls import is_loopback
from toolbus.settings.private_files import (
    UnfitFileError,
    lock_file,
    make_private_folders,
    read_secret_file,
    try_lock,
    writable_by_others,
    write_private,
)
from toolbus.settings.usage_error import UsageError
from toolbus.settings.user_folders import logins_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_PORTS = {"http": 80, "https": 443}
_PAUSE, _LONGEST = 0.05, 30.0
_LARGEST = 1_000_000
"""Bytes of a login; one has some thousand."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens for *server*, and how they are renewed; *expires_at* is in seconds of Unix time."""

    server: str
    issuer: str
    token_endpoint: str
    client_id: str
    client_secret: str | None = None
    auth_method: str | None = None
    resource: str | None = None
    scope: str | None = None
    access_token: str
    refresh_token: str | None = None
    expires_at: float | None = None

    def __repr__(self) -> str:
        # So that no traceback and no log shows a token.
        return f"Login({self.server!r})"


def server_address(text: str) -> str:
    """Return *text* as the address that logins go by; raises `UsageError`.

    Scheme and host are in lower case, without the scheme's own port; path and query stay.
    """
    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError:
        raise UsageError("expected the https address of a server") from None
    if url.scheme not in _PORTS or not host:
        raise UsageError(f"expected the https address of a server, not {text.partition('?')[0]!r}")
    if url.username is not None or url.fragment:
        raise UsageError("an address to log in at has no user and no fragment")
    if url.scheme == "http" and not is_loopback(host):
        raise UsageError(f"tokens would be sent unencrypted to {host!r}; use https")
    name = f"[{host}]" if ":" in host else host
    place = name if port in {None, _PORTS[url.scheme]} else f"{name}:{port}"
    return url._replace(netloc=place, path=url.path or "/").geturl()


def shown(address: str) -> str:
    """Return *address* for people: without a query, which may hold a secret."""
    return address.partition("?")[0]


class Logins:
    """The logins of one person, in *folder*, which is the default one if it is None."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or logins_folder()

    def read(self, address: str) -> Login | None:
        """Return the login at *address*, None without one; raises `LoadError`."""
        if not self._is_there():
            return None
        login = self._read(self._file(address))
        # A file that was put in the place of another one holds for its own address.
        return login if login is not None and login.server == address else None

    def all(self) -> list[Login]:
        """Return all logins, by address; raises `LoadError`."""
        files = self.folder.glob("*.json") if self._is_there() else ()
        logins = [self._read(file) for file in files]
        return sorted(filter(None, logins), key=lambda login: login.server)

    def write(self, login: Login) -> None:
        """Keep *login* in the place of the one before, whole or not at all; raises `LoadError`."""
        self._make()
        write_private(self._file(login.server), msgspec.json.encode(login))

    def remove(self, address: str) -> bool:
        """Forget the login at *address*; return whether there was one. Raises `LoadError`."""
        if not self._is_there():
            return False
        try:
            self._file(address).unlink()
        except FileNotFoundError:
            return False
        return True

    @asynccontextmanager
    async def locked(self, address: str) -> AsyncIterator[None]:
        """Let no other process renew the login at *address* meanwhile; raises `TimeoutError`.

        A refresh token may be good for one use: RFC 9700, 4.14.2.
        """
        self._make()
        with lock_file(self._file(address).with_suffix(".lock")) as lock:
            async with asyncio.timeout(_LONGEST):
                while not try_lock(lock):  # noqa: ASYNC110 - other processes have no event for us
                    await asyncio.sleep(_PAUSE)
            yield

    def _file(self, address: str) -> Path:
        return self.folder / f"{hashlib.sha256(address.encode()).hexdigest()[:32]}.json"

    def _read(self, file: Path) -> Login | None:
        """Return the login in *file*, None if it is gone; raises `LoadError`."""
        try:
            return msgspec.json.decode(read_secret_file(file, _LARGEST), type=Login)
        except FileNotFoundError:
            return None
        except UnfitFileError as error:
            raise LoadError(f"login {file}: {error.reason}") from None
        except OSError as error:
            reason = "it is a link, or cannot be read; delete it"
            raise LoadError(f"login {file}: {reason}") from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            # The error quotes nothing of the file.
            raise LoadError(f"login {file}: it is damaged; delete it, log in anew") from None

    def _make(self) -> None:
        """Make the folder if it is missing; raises `LoadError` for one that is not private."""
        make_private_folders(self.folder)
        self._is_there()

    def _is_there(self) -> bool:
        """Return whether there is a folder; raises `LoadError` for one that is not private."""
        try:
            status = self.folder.lstat()
        except FileNotFoundError:
            return False
        if not S_ISDIR(status.st_mode):
            raise LoadError(f"logins {self.folder}: it is a link, or not a folder; take it away")
        if status.st_uid != os.geteuid():
            raise LoadError(f"{self.folder} belongs to another user; take it away")
        if status.st_mode & 0o077:
            mended = f"log in anew after `chmod 700 {self.folder}`"
            raise LoadError(f"{self.folder} is open to others; {mended}")
        if reason := writable_by_others(Path(os.path.realpath(self.folder))):
            raise LoadError(f"logins {self.folder}: {reason}; make it yours alone")
        return True
