"""OAuth of a server through a relay, which sends the client's token to that server only.

A client knows the relay's URL as the resource, and refuses metadata of another resource (RFC 9728,
3.3). The authorization server issues tokens for the server's URL (RFC 8707). So the relay acts as
an authorization server that replaces the one by the other, and forwards everything else. All
credentials are bound to the server, because another server may be behind the relay tomorrow:
tokens carry a mark, and codes, refresh tokens and client secrets are sent to a URL derived from
the server's.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

import msgspec

from toolbus.http.client import TransportError
from toolbus.http.urls import authority, read_url
from toolbus.mcp.http.failures import JSON, HttpError
from toolbus.mcp.http.requests import is_preflight
from toolbus.mcp.oauth.metadata import FORM, GRANTS, RESOURCE, SERVER, ask, digest_of, discover

if TYPE_CHECKING:
    from toolbus.http.client import HttpClient
    from toolbus.http.server import HttpRequest
    from toolbus.mcp.oauth.metadata import Authorization

    Fields = list[tuple[str, str]]

logger = logging.getLogger("toolbus")

ISSUERS = "/oauth/"
"""The path prefix of the relay's own authorization server, followed by a digest."""

_MARK = "toolbus-"
_FRESH = 60.0
"""Seconds for which metadata are cached; a login fetches them several times."""

_SIZE = 2**18
_PARAMS = 64
_OK = 200
_METADATA_PARAM = re.compile(r'\bresource_metadata\s*=\s*("[^"]*"|[^\s,]+)', re.IGNORECASE)
_TOKEN_MEMBERS = ("access_token", "token_type", "expires_in", "scope", "refresh_token")
_CODE = re.compile(r"[a-z_]{1,50}")
_NO_STORE = [("cache-control", "no-store"), ("referrer-policy", "no-referrer")]


class OAuthGateway:
    """The OAuth gateway of the server at *url*, over *wire*, for clients of the relay's *path*."""

    def __init__(self, wire: HttpClient, url: SplitResult, path: str) -> None:
        self._wire, self._url, self._path = wire, url, path
        self._mark = f"{_MARK}{digest_of(url.geturl())}."
        self._named: SplitResult | None = None
        self._known: tuple[float, Authorization | None] | None = None
        self._lock = asyncio.Lock()
        self._warned = False

    def serves(self, path: str) -> bool:
        """Return whether *path* belongs to OAuth."""
        return path != self._path and path.startswith((RESOURCE, SERVER, ISSUERS))

    # --- requests to the server, and challenges ------------------------------------------------

    def restore_token(self, request: HttpRequest) -> None:
        """Replace the marked token in *request* by the authorization server's own.

        Raises `HttpError` for a token of another server.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token.startswith(_MARK):
            return
        if not token.startswith(self._mark):
            where = f'resource_metadata="{_view(request, self._path).metadata}"'
            shown = [("www-authenticate", f'Bearer error="invalid_token", {where}')]
            raise HttpError(401, "the token is for another server; log in again", shown)
        plain = f"{scheme} {token.removeprefix(self._mark)}"
        request.headers["authorization"] = plain
        request.fields = [
            (name, plain if name == "authorization" else value) for name, value in request.fields
        ]

    def challenges(self, request: HttpRequest, fields: Fields) -> Fields:
        """Return the *fields* of a response with challenges that name the relay's metadata."""
        return [
            (name, self._challenge(request, value) if name == "www-authenticate" else value)
            for name, value in fields
        ]

    def _challenge(self, request: HttpRequest, value: str) -> str:
        if (match := _METADATA_PARAM.search(value)) is None:
            return value
        named = read_url(match[1].strip('"'))
        origin = None if named is None else (named.scheme, authority(named))
        # RFC 9728, 3.3: the server's metadata are on its own origin.
        if named is not None and origin == (self._url.scheme, authority(self._url)):
            self._named = named._replace(fragment="")
        own_param = f'resource_metadata="{_view(request, self._path).metadata}"'
        return _METADATA_PARAM.sub(own_param, value)

    # --- requests answered by the relay --------------------------------------------------------

    async def answer(self, request: HttpRequest) -> None:
        """Answer *request*, whose path belongs to OAuth; raises `HttpError`."""
        if is_preflight(request):
            await request.answer(204, _cors(request))
            return
        known = await self._authorization()
        if known is None:
            raise HttpError(404, "the server has no OAuth metadata")
        view = _view(request, self._path)
        issuer_path = ISSUERS + digest_of(self._url.geturl(), known.issuer)
        issuer = view.origin + issuer_path
        match request.method, request.path:
            case "GET", path if path in {RESOURCE, RESOURCE + self._path.rstrip("/")}:
                await _send_json(request, known.resource_metadata(view.resource, issuer))
            case "GET", path if path in {SERVER, SERVER + issuer_path}:
                await _send_json(request, known.server_metadata(issuer))
            case "GET", path if path == f"{issuer_path}/authorize":
                await self._authorize(request, known, view)
            case "POST", path if path == f"{issuer_path}/token":
                await self._token(request, known, view)
            case _:
                # Also for a digest of another server that was behind the relay before.
                raise HttpError(404, "unknown OAuth path")

    async def _authorization(self) -> Authorization | None:
        async with self._lock:
            if self._known is None or self._known[0] < time.monotonic():
                known = await discover(self._wire, self._url, self._named)
                self._known = time.monotonic() + _FRESH, known
                self._warn(known)
            return self._known[1]

    def _warn(self, known: Authorization | None) -> None:
        says = known is not None and known.metadata.get(
            "authorization_response_iss_parameter_supported"
        )
        if known is not None and says is True and not self._warned:
            self._warned = True
            text = "%s names itself in its redirects (RFC 9207), so clients that check this cannot"
            text += " log in through a relay; use the proxy over pipes with `toolbus login`"
            logger.warning(text, known.issuer)

    async def _authorize(self, request: HttpRequest, known: Authorization, view: _View) -> None:
        """Redirect the browser to the authorization server: RFC 6749, 4.1.1; RFC 8707, 2.1."""
        pairs = _for_resource(request.query, known, view)
        end = urlsplit(known.authorization_endpoint)
        query = "&".join(filter(None, (end.query, urlencode(pairs))))
        location = end._replace(query=query, fragment="").geturl()
        await request.answer(302, [("location", location), *_NO_STORE])

    async def _token(self, request: HttpRequest, known: Authorization, view: _View) -> None:
        """Request a token from the authorization server: RFC 6749, 4.1.3 and 6; RFC 8707, 2.2."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != FORM or len(request.body) > _SIZE:
            raise HttpError(400, f"expected {FORM} of at most {_SIZE} bytes")
        pairs = _for_resource(request.body.decode("latin-1"), known, view)
        if dict(pairs).get("grant_type") not in GRANTS:
            await _send_json(request, {"error": "unsupported_grant_type"}, 400)
            return
        shown = [
            ("authorization", value) for name, value in request.fields if name == _AUTHORIZATION
        ]
        try:
            endpoint = urlsplit(known.token_endpoint)
            status, document = await ask(self._wire, endpoint, pairs, shown)
        except TransportError:
            # Without the cause, whose text may hold a token.
            raise HttpError(502, "the authorization server did not respond") from None
        await _send_json(request, *self._token_response(status, document or {}))

    def _token_response(self, status: int, document: dict[str, Any]) -> tuple[dict[str, Any], int]:
        if status == _OK and isinstance(document.get("access_token"), str):
            members = {name: document[name] for name in _TOKEN_MEMBERS if name in document}
            return members | {"access_token": self._mark + document["access_token"]}, _OK
        # Only the code: handlers have not seen the server's prose.
        code = document.get("error")
        known = isinstance(code, str) and _CODE.fullmatch(code)
        refused = 400 <= status < 500  # noqa: PLR2004 - HTTP's
        return {"error": code if known else "server_error"}, status if refused else 502


_AUTHORIZATION = "authorization"


class _View(NamedTuple):
    """The relay's URLs as seen by a client."""

    origin: str
    resource: str
    metadata: str


def _view(request: HttpRequest, path: str) -> _View:
    # A forged header misleads only its sender: nothing of it is kept.
    forwarded = request.headers.get("x-forwarded-proto", "").strip().lower()
    scheme = "https" if forwarded == "https" else "http"
    origin = f"{scheme}://{request.headers.get('host', '')}"
    return _View(origin, origin + path, origin + RESOURCE + path.rstrip("/"))


def _for_resource(text: str, known: Authorization, view: _View) -> list[tuple[str, str]]:
    """Return the parameters in *text* with the server's resource in place of the relay's.

    Raises `HttpError` if they name another resource than the relay.
    """
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_PARAMS
        )
    except ValueError:
        raise HttpError(400, "invalid parameters") from None
    asked = {value.rstrip("/") for name, value in pairs if name == "resource"}
    if asked - {view.resource.rstrip("/")}:
        raise HttpError(400, "expected this relay as the resource")
    others = [pair for pair in pairs if pair[0] != "resource"]
    if len({name for name, _ in others}) < len(others):
        # RFC 6749, 3.1 and 3.2: parameters must not be repeated.
        raise HttpError(400, "a parameter is repeated")
    return [*others, ("resource", known.resource)]


async def _send_json(request: HttpRequest, document: dict[str, Any], status: int = _OK) -> None:
    fields = [("content-type", JSON), *_NO_STORE, *_cors(request)]
    await request.answer(status, fields, msgspec.json.encode(document))


def _cors(request: HttpRequest) -> Fields:
    """Return the CORS fields for the page of *request*, whose origin has been checked."""
    origin = request.headers.get("origin")
    if origin is None:
        return []
    allowed = [("access-control-allow-origin", origin), ("vary", "origin")]
    if is_preflight(request):
        allowed += [
            ("access-control-allow-methods", "GET, POST"),
            ("access-control-allow-headers", "authorization, content-type, mcp-protocol-version"),
        ]
    return allowed
