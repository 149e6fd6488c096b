"""The logins of `toolbus login`: tokens of servers, each in a private file.

The files are in `$XDG_STATE_HOME/toolbus/logins`, or `~/.local/state/toolbus/logins`. A login is
valid only for the exact URL of its server.
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
"""The maximum bytes of a login; typical are some thousand."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens for *server* and the data to renew them; *expires_at* is a Unix time."""

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
        # Keeps tokens out of tracebacks and logs.
        return f"Login({self.server!r})"


def server_url(text: str) -> str:
    """Return *text* as the normalized URL that identifies a login; raises `UsageError`.

    Scheme and host are in lower case, without the default port; path and query are kept.
    """
    # The result is the name of a login, so a part that cannot be normalized is refused.
    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError:
        raise UsageError("expected the https URL of a server") from None
    if url.scheme not in _PORTS or not host:
        raise UsageError(f"expected the https URL of a server, got {text.partition('?')[0]!r}")
    if url.username is not None or url.fragment:
        raise UsageError("expected a URL without user and fragment")
    if url.scheme == "http" and not is_loopback(host):
        raise UsageError(f"tokens would be sent unencrypted to {host!r}; use https")
    name = f"[{host}]" if ":" in host else host
    netloc = name if port in {None, _PORTS[url.scheme]} else f"{name}:{port}"
    return url._replace(netloc=netloc, path=url.path or "/").geturl()


def display_url(address: str) -> str:
    """Return *address* for display, without its query, which may hold a secret."""
    return address.partition("?")[0]


class Logins:
    """The user's logins in *folder*, None for the default folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or logins_folder()

    def read(self, address: str) -> Login | None:
        """Return the login at *address*, None without one; raises `LoadError`."""
        if not self._has_folder():
            return None
        login = self._read(self._file(address))
        # A renamed file is still valid only for its own server.
        return login if login is not None and login.server == address else None

    def all(self) -> list[Login]:
        """Return all logins, sorted by URL; raises `LoadError`."""
        files = self.folder.glob("*.json") if self._has_folder() else ()
        logins = [self._read(file) for file in files]
        return sorted(filter(None, logins), key=lambda login: login.server)

    def write(self, login: Login) -> None:
        """Write *login* atomically, replacing an earlier one; raises `LoadError`."""
        self._make_folder()
        write_private(self._file(login.server), msgspec.json.encode(login))

    def remove(self, address: str) -> bool:
        """Delete the login at *address*; return whether there was one. Raises `LoadError`."""
        if not self._has_folder():
            return False
        try:
            self._file(address).unlink()
        except FileNotFoundError:
            return False
        return True

    @asynccontextmanager
    async def locked(self, address: str) -> AsyncIterator[None]:
        """Lock the login at *address* against a renewal elsewhere; raises `TimeoutError`.

        A refresh token may be valid for a single use: RFC 9700, 4.14.2.
        """
        self._make_folder()
        with lock_file(self._file(address).with_suffix(".lock")) as lock:
            async with asyncio.timeout(_LONGEST):
                while not try_lock(lock):  # noqa: ASYNC110 - processes share no event
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
            reason = "the file is a link or unreadable; delete it"
            raise LoadError(f"login {file}: {reason}") from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            # Without the cause, so that nothing of the file is quoted.
            raise LoadError(
                f"login {file}: the file is damaged; delete it and log in again"
            ) from None

    def _make_folder(self) -> None:
        """Create the folder if it is missing; raises `LoadError` if it is not private."""
        make_private_folders(self.folder)
        self._has_folder()

    def _has_folder(self) -> bool:
        """Return whether the folder exists; raises `LoadError` if it is not private."""
        try:
            status = self.folder.lstat()
        except FileNotFoundError:
            return False
        if not S_ISDIR(status.st_mode):
            raise LoadError(f"logins {self.folder}: a link, or not a folder; remove it")
        if status.st_uid != os.geteuid():
            raise LoadError(f"{self.folder} belongs to another user; remove it")
        if status.st_mode & 0o077:
            fix = f"run `chmod 700 {self.folder}` and log in again"
            raise LoadError(f"{self.folder} is accessible to other users; {fix}")
        if reason := writable_by_others(Path(os.path.realpath(self.folder))):
            raise LoadError(f"logins {self.folder}: {reason}; make it private")
        return True
