"""The token of a stored login, renewed when needed, for requests to its server."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec

from toolbus.errors import LoadError
from toolbus.http.client import TransportError
from toolbus.mcp.oauth.logins import Logins, server_url
from toolbus.mcp.oauth.metadata import ask
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from urllib.parse import SplitResult

    from toolbus.http.client import HttpClient, HttpReply, Timeouts
    from toolbus.mcp.oauth.logins import Login

_EARLY = 30.0
"""Seconds before its expiry at which a token is renewed."""

_OK, _UNAUTHORIZED, _BROKEN = 200, 401, 500
_NO_ANSWER = "the authorization server of the login did not respond"


class StoredLogin:
    """The login at *url*, read from its file for each request, and renewed over *wire*."""

    def __init__(self, url: SplitResult, wire: HttpClient, logins: Logins | None = None) -> None:
        try:
            self._address = server_url(url.geturl())
        except UsageError:
            # There can be no login for an invalid URL.
            self._address = ""
        self._wire, self._logins = wire, logins or Logins()
        self._lock = asyncio.Lock()

    async def send(
        self,
        url: SplitResult,
        method: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        waits: Timeouts,
    ) -> HttpReply:
        """Send a request with the token, as `HttpClient.send`; retry with a renewed token.

        A request refused with 401 had no effects: RFC 9110, 15.5.2.
        """
        fields, token = list(headers), await self.token()
        reply = await self._wire.send(url, method, [*fields, *_bearer(token)], body, waits)
        if reply.status != _UNAUTHORIZED:
            return reply
        renewed = await self.renewed(token)
        if renewed is None:
            return reply
        reply.close()
        return await self._wire.send(url, method, [*fields, *_bearer(renewed)], body, waits)

    async def token(self) -> str | None:
        """Return the current token, None without a login; raises `TransportError`."""
        login = self._read()
        if login is None:
            return None
        if login.expires_at is not None and login.expires_at - _EARLY < time.time():
            renewed = await self.renewed(login.access_token)
            # A token that has expired by this clock may be valid by the server's.
            return renewed or login.access_token
        return login.access_token

    async def renewed(self, stale: str | None) -> str | None:
        """Return a token newer than *stale*, or None; raises `TransportError`."""
        if self._read() is None:
            return None
        try:
            async with self._lock, self._logins.locked(self._address):
                login = self._read()
                if login is None or login.access_token != stale:
                    return None if login is None else login.access_token
                return await self._renew(login)
        except TimeoutError:
            raise TransportError("another process holds the lock on the login") from None
        except (LoadError, OSError) as error:
            raise TransportError(f"cannot store the renewed login: {error}") from error

    def _read(self) -> Login | None:
        try:
            return self._logins.read(self._address) if self._address else None
        except LoadError as error:
            raise TransportError(str(error)) from error

    async def _renew(self, login: Login) -> str | None:
        """Return a new token for the refresh token: RFC 6749, 6."""
        if login.refresh_token is None:
            return None
        answer = await self._ask(login)
        token, lasts = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or str(answer.get("token_type", "")).lower() != "bearer":
            return None
        refresh = answer.get("refresh_token")
        changed = msgspec.structs.replace(
            login,
            access_token=token,
            refresh_token=refresh if isinstance(refresh, str) else login.refresh_token,
            expires_at=time.time() + lasts if isinstance(lasts, int | float) else None,
        )
        self._logins.write(changed)
        return token

    async def _ask(self, login: Login) -> dict[str, Any]:
        """Return the authorization server's response, empty if it refuses."""
        # RFC 6749, 2.3.1, puts the client's secret in a header or in the form.
        form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token or ""}
        form["client_id"] = login.client_id
        if login.resource is not None:
            form["resource"] = login.resource
        fields, secret = [], login.client_secret
        if secret is not None and login.auth_method == "client_secret_basic":
            pair = f"{quote(login.client_id, safe='')}:{quote(secret, safe='')}"
            fields.append(("authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"))
        elif secret is not None and login.auth_method == "client_secret_post":
            form["client_secret"] = secret
        try:
            endpoint = urlsplit(login.token_endpoint)
            status, answer = await ask(self._wire, endpoint, form.items(), fields)
        except TransportError:
            raise TransportError(_NO_ANSWER) from None
        if status >= _BROKEN:
            raise TransportError(_NO_ANSWER)
        return answer if answer is not None and status == _OK else {}


def _bearer(token: str | None) -> list[tuple[str, str]]:
    return [] if token is None else [("authorization", f"Bearer {token}")]
