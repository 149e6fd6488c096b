"""The login at a server by the SDK's OAuth flow: discovery, registration, PKCE, tokens.

See MCP 2025-11-25, basic/authorization. The SDK compares `state`, issuer (RFC 8414, 3.3, and RFC
9207) and resource (RFC 9728), and does not follow redirects to another origin.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
from mcp.client.auth import (
    OAuthClientProvider,
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
)
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from mcp.types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl

from toolbus.errors import ToolServerError
from toolbus.http.server import HttpServer, RequestError, listen_on
from toolbus.http.urls import is_loopback
from toolbus.mcp.oauth.logins import Login, display_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

    from toolbus.http.server import HttpRequest

_CODE = re.compile(r'"error"\s*:\s*"([a-z_]{1,50})"')
_STATUS = re.compile(r"(?:failed|HTTP)[ :(]+(\d{3})")
_PLAIN = re.compile(r"[a-z_]{1,50}")
_SAFE_PREFIXES = (
    "Protected resource ",
    "Authorization server metadata issuer mismatch",
    "Authorization response",
)
_UNAUTHORIZED = 401
_CALLBACK, _SECONDS = "/callback", 10.0
_PAGE_HEADERS = (
    ("content-type", "text/html; charset=utf-8"),
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
    ("content-security-policy", "default-src 'none'"),
)
_DONE = "toolbus has received the answer. You can close this page."
_NO = "This is not the login that toolbus is waiting for."
_BEGIN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": LATEST_PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "toolbus", "version": "0"},
    },
}


async def log_in(address: str, show_url: Callable[[str], None], seconds: float) -> Login | None:
    """Log in at the server *address*; return None if the server requires no login.

    *show_url* is called with the URL where the user approves, within *seconds*. Raises
    `ToolServerError`, never with a token in it.
    """
    async with _open_loopback() as loopback:
        flow = _Flow(address, loopback, show_url, seconds)
        try:
            with _silenced():
                return await flow.run()
        except ToolServerError:
            raise
        except TimeoutError:
            raise _failed(address, f"not approved within {seconds:g} s") from None
        except (OAuthFlowError, httpx2.HTTPError, ValueError) as error:
            # Without the cause, whose text may hold a token.
            raise _failed(address, _reason(error)) from None


class _Flow:
    """One login, which also implements the SDK's token storage, in memory."""

    def __init__(
        self, address: str, loopback: _Loopback, show_url: Callable[[str], None], seconds: float
    ) -> None:
        self._address, self._loopback, self._show_url, self._seconds = (
            address,
            loopback,
            show_url,
            seconds,
        )
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None
        # RFC 8252, 8.4: an installed program cannot keep a client secret.
        metadata = OAuthClientMetadata(
            client_name="toolbus",
            redirect_uris=[AnyUrl(loopback.address)],
            token_endpoint_auth_method="none",  # noqa: S106 - the name of a method
        )
        self._provider = OAuthClientProvider(
            address, metadata, self, self._redirect, self._callback
        )

    async def run(self) -> Login | None:
        """Send `initialize` to the server, and log in if it requires that."""
        fields = {"accept": "application/json, text/event-stream"}
        hooks = {"request": [self._check_secure]}
        timeout = httpx2.Timeout(30.0)
        async with httpx2.AsyncClient(
            auth=self._provider, timeout=timeout, event_hooks=hooks
        ) as http:
            async with http.stream("POST", self._address, json=_BEGIN, headers=fields) as reply:
                status, session = reply.status_code, reply.headers.get("mcp-session-id")
            if session is not None:
                with suppress(httpx2.HTTPError):
                    await http.delete(self._address, headers={"mcp-session-id": session})
        if self._tokens is None:
            if status >= 400:  # noqa: PLR2004 - HTTP's
                raise _failed(self._address, f"the server answered with HTTP status {status}")
            return None
        if status == _UNAUTHORIZED:
            raise _failed(self._address, "the server refused its own token")
        return self._login(self._tokens)

    def _login(self, tokens: OAuthToken) -> Login:
        context = self._provider.context
        metadata, client = context.oauth_metadata, self._client
        assert metadata is not None  # noqa: S101 - checked before the redirect
        assert client is not None  # noqa: S101 - as above
        lasts = tokens.expires_in
        has_resource = context.protected_resource_metadata is not None
        return Login(
            server=self._address,
            issuer=str(metadata.issuer),
            token_endpoint=str(metadata.token_endpoint),
            client_id=client.client_id,
            client_secret=client.client_secret,
            auth_method=client.token_endpoint_auth_method,
            resource=context.get_resource_url() if has_resource else None,
            scope=tokens.scope,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token,
            expires_at=None if lasts is None else time.time() + lasts,
        )

    async def _check_secure(self, request: httpx2.Request) -> None:
        """Refuse unencrypted requests, and requests from a remote server to this machine."""
        url, local = request.url, is_loopback(urlsplit(self._address).hostname or "")
        if not (
            url.scheme == "https" or (url.scheme == "http" and local and is_loopback(url.host))
        ):
            raise _failed(self._address, f"the login leads to {url.host!r} without https")

    async def _redirect(self, url: str) -> None:
        metadata = self._provider.context.oauth_metadata
        if metadata is None:
            raise _failed(self._address, "the authorization server has no metadata (RFC 8414)")
        # MCP 2025-11-25, basic/authorization, "Authorization Code Protection".
        if "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise _failed(self._address, "the authorization server does not declare PKCE support")
        await self._check_secure(httpx2.Request("GET", url))
        self._loopback.state = parse_qs(urlsplit(url).query)["state"][0]
        self._show_url(url)

    async def _callback(self) -> AuthorizationCodeResult:
        async with asyncio.timeout(self._seconds):
            query = await self._loopback.answer
        if "code" not in query:
            code = query.get("error", "")
            reason = code if _PLAIN.fullmatch(code) else "no reason given"
            raise _failed(self._address, f"the authorization server refused: {reason}")
        return AuthorizationCodeResult(
            code=query["code"], state=query.get("state"), iss=query.get("iss")
        )

    # --- the SDK's storage ---------------------------------------------------------------------

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens, None before they are set."""
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store *tokens*."""
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registered client, None before it is set."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the registered client."""
        self._client = client_info


class _Loopback:
    """The redirect target of one login, at *host* on this machine: RFC 8252, 7.3 and 8.3."""

    def __init__(self, host: str) -> None:
        self.host, self.address = host, f"http://{host}{_CALLBACK}"
        self.state: str | None = None
        """The expected state: another page could guess the URL, but not the state."""
        self.answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def serve(self, request: HttpRequest) -> None:
        """Answer a browser, and resolve *answer* with its parameters."""
        query = await self._query_of(request)
        text = _DONE if query is not None else _NO
        body = f"<!doctype html><title>toolbus</title><p>{text}</p>".encode()
        await request.answer(400 if query is None else 200, _PAGE_HEADERS, body)
        if query is not None and not self.answer.done():
            self.answer.set_result(query)

    async def _query_of(self, request: HttpRequest) -> dict[str, str] | None:
        """Return the parameters of *request*, None if it is not the expected answer."""
        try:
            await request.read(0, _SECONDS)
        except RequestError:
            return None
        wanted = "GET", _CALLBACK, self.host
        if (request.method, request.path, request.headers.get("host")) != wanted:
            return None
        pairs = parse_qsl(request.query, keep_blank_values=True)
        query = dict(pairs)
        if self.state is None or len(query) < len(pairs):
            return None
        brought = query.get("state", "").encode()
        return query if secrets.compare_digest(brought, self.state.encode()) else None


@asynccontextmanager
async def _open_loopback() -> AsyncIterator[_Loopback]:
    """Serve a redirect target on 127.0.0.1 during the block."""
    bound = listen_on("127.0.0.1", 0)
    loopback = _Loopback(f"127.0.0.1:{bound.getsockname()[1]}")
    server = HttpServer(loopback.serve, seconds=_SECONDS)
    await server.start(bound)
    try:
        yield loopback
    finally:
        await server.close(1.0)


@contextmanager
def _silenced() -> Iterator[None]:
    """Disable the SDK's logs: an unreadable response in them may hold a token."""
    loggers = [logging.getLogger(f"mcp.client.auth.{name}") for name in ("oauth2", "utils")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _failed(address: str, reason: str) -> ToolServerError:
    return ToolServerError(display_url(address), f"login failed: {reason}", "login")


def _reason(error: Exception) -> str:
    """Return the reason of a failed login, without texts of servers, which may hold a token."""
    text = str(error)
    if isinstance(error, httpx2.HTTPError):
        return f"the connection failed: {type(error).__name__}"
    if type(error) is OAuthFlowError and text.startswith(_SAFE_PREFIXES):
        return re.sub(r"[^\x20-\x7e]", "?", text)[:300]
    code, status = _CODE.search(text), _STATUS.search(text)
    reason = "the authorization server issued no token"
    if isinstance(error, OAuthRegistrationError):
        reason = "the authorization server does not register clients dynamically"
    elif not isinstance(error, OAuthTokenError):
        reason = "the authorization server sent an invalid response"
    return reason + "".join([f", {match[1]}" for match in (status, code) if match])
