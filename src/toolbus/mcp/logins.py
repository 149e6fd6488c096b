"""What `toolbus login` keeps: tokens of servers, each in a file that only its owner reads.

They are under `$XDG_STATE_HOME/toolbus/logins`, else `~/.local/state/toolbus/logins`. A login holds
for the exact address that it was made for.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import secrets
import stat
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from toolbus.errors import LoadError
from toolbus.mcp.proxy.addresses import is_loopback
from toolbus.settings.user_folders import logins_folder
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_PORTS = {"http": 80, "https": 443}
_PAUSE, _LONGEST = 0.05, 30.0
_OTHERS = 0o077
_OTHERS_WRITE = 0o022
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
        raise UsageError(f"whoever is on the way to {host!r} would read the tokens; use https")
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
        try:
            with self._opened(create=False) as descriptor:
                return self._read(descriptor, f"{_digest(address)}.json", address)
        except FileNotFoundError:
            return None

    def all(self) -> list[Login]:
        """Return all logins, by address; raises `LoadError`."""
        try:
            with self._opened(create=False) as descriptor:
                names = [name for name in os.listdir(descriptor) if name.endswith(".json")]  # noqa: PTH208 - of what is open
                logins = [self._read(descriptor, name, None) for name in names]
        except FileNotFoundError:
            return []
        return sorted(filter(None, logins), key=lambda login: login.server)

    def write(self, login: Login) -> None:
        """Keep *login* in the place of the one before, whole or not at all; raises `LoadError`."""
        name = f"{_digest(login.server)}.json"
        temporary = f".{name}.{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._opened(create=True) as descriptor:
            try:
                with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=descriptor), "wb") as file:
                    file.write(msgspec.json.encode(login))
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
                os.fsync(descriptor)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=descriptor)
                raise

    def remove(self, address: str) -> bool:
        """Forget the login at *address*; tell whether there was one. Raises `LoadError`."""
        try:
            with self._opened(create=False) as descriptor:
                os.unlink(f"{_digest(address)}.json", dir_fd=descriptor)
        except FileNotFoundError:
            return False
        return True

    @asynccontextmanager
    async def locked(self, address: str) -> AsyncIterator[None]:
        """Let no other process renew the login at *address* meanwhile; raises `TimeoutError`.

        A refresh token may be good for one use: RFC 9700, 4.14.2.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._opened(create=True) as descriptor:
            lock = os.open(f"{_digest(address)}.lock", flags, 0o600, dir_fd=descriptor)
        try:
            async with asyncio.timeout(_LONGEST):
                while not _try_lock(lock):  # noqa: ASYNC110 - other processes have no event for us
                    await asyncio.sleep(_PAUSE)
            yield
        finally:
            os.close(lock)

    def _read(self, descriptor: int, name: str, address: str | None) -> Login | None:
        """Return the login in the file *name*, None if it is for another address."""
        place = self.folder / name
        try:
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LoadError(f"login {place}: it is a link, or cannot be read; delete it") from error
        with os.fdopen(opened, "rb") as file:
            _check_own(os.fstat(opened), place, _OTHERS)
            try:
                login = msgspec.json.decode(file.read(), type=Login)
            except (msgspec.DecodeError, UnicodeDecodeError):
                # What it says stands in no error.
                raise LoadError(f"login {place}: it is damaged; delete it, log in anew") from None
        return login if address is None or login.server == address else None

    @contextmanager
    def _opened(self, *, create: bool) -> Iterator[int]:
        """Give the folder as a file descriptor; nothing on the way can be swapped then."""
        parent, name = self.folder.parent, self.folder.name
        if create:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(_Folder(parent, None, _OTHERS_WRITE)) as above:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=above.number)
            with closing(_Folder(Path(name), above.number, _OTHERS, self.folder)) as folder:
                yield folder.number


class _Folder:
    """An open folder that is its owner's, and no link; raises `LoadError`, `FileNotFoundError`."""

    def __init__(
        self, path: Path, descriptor: int | None, mask: int, place: Path | None = None
    ) -> None:
        place = place or path
        try:
            self.number = os.open(path, _DIRECTORY, dir_fd=descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = "it is a link, or no folder of yours; take it away"
            raise LoadError(f"logins {place}: {reason}") from error
        try:
            _check_own(os.fstat(self.number), place, mask)
        except LoadError:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.number)


def _check_own(status: os.stat_result, place: Path, mask: int) -> None:
    if status.st_uid != os.geteuid():
        raise LoadError(f"{place} belongs to somebody else; take it away")
    if stat.S_IMODE(status.st_mode) & mask:
        mode = "700" if stat.S_ISDIR(status.st_mode) else "600"
        raise LoadError(f"{place} is open to others; log in anew after `chmod {mode} {place}`")
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        raise LoadError(f"{place} is no file; take it away")


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _digest(address: str) -> str:
    return hashlib.sha256(address.encode()).hexdigest()[:32]
