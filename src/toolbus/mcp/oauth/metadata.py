"""Metadata of OAuth: those of a server at an address, and those that the relay gives its clients.

Protected resource metadata: RFC 9728. Authorization server metadata: RFC 8414, and OpenID Connect
Discovery 1.0. How MCP clients look for both: MCP 2025-11-25, basic/authorization.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlencode, urlsplit

import msgspec

from toolbus.http.client import Timeouts, TransportError
from toolbus.http.urls import authority, is_loopback, read_url
from toolbus.mcp.http.failures import JSON, HttpError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from toolbus.http.client import HttpClient

RESOURCE, SERVER = (
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-authorization-server",
)
_OPENID = "/.well-known/openid-configuration"
_WORD = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,500}")
"""A word of a scope (RFC 6749, 3.3), and an address, but not a sentence."""

FORM = "application/x-www-form-urlencoded"
_TIMEOUTS = Timeouts(10.0, 60.0)
_SIZE = 2**18
_OK, _BROKEN = 200, 500

_RESOURCE_MEMBERS = ("scopes_supported", "bearer_methods_supported")
_SERVER_MEMBERS = (
    *("registration_endpoint", "scopes_supported"),
    *("response_types_supported", "response_modes_supported", "code_challenge_methods_supported"),
    "client_id_metadata_document_supported",
)
"""What passes as it is. Texts for people do not, nor what would go past the relay with another
resource (PAR, device codes), is signed for the server's own address (`signed_metadata`, DPoP), or
would not know the tokens that the relay has marked (revocation, introspection)."""

GRANTS = frozenset({"authorization_code", "refresh_token", "client_credentials"})
_METHODS = frozenset({"none", "client_secret_basic", "client_secret_post"})
"""How clients may show who they are; a signed assertion would name the relay as its audience."""


class Authorization(NamedTuple):
    """How tokens for the upstream *resource* are had: of *issuer*, at its endpoints.

    *described* is the metadata of the resource, *metadata* that of the authorization server.
    """

    resource: str
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    described: Mapping[str, Any]
    metadata: Mapping[str, Any]

    def resource_metadata(self, address: str, issuer: str) -> dict[str, Any]:
        """Return RFC 9728's metadata for *address*, the relay's, with its *issuer*."""
        members = _allowed_members(self.described, _RESOURCE_MEMBERS)
        return {"resource": address, "authorization_servers": [issuer], **members}

    def server_metadata(self, issuer: str) -> dict[str, Any]:
        """Return RFC 8414's metadata for *issuer*, an address of the relay."""
        known = self.metadata
        grants = _texts(known.get("grant_types_supported", ["authorization_code"]))
        methods = known.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "grant_types_supported": [grant for grant in grants if grant in GRANTS],
            "token_endpoint_auth_methods_supported": [
                method for method in _texts(methods) if method in _METHODS
            ],
            **_allowed_members(known, _SERVER_MEMBERS),
        }


def digest_of(*texts: str) -> str:
    """Return 32 hexadecimal digits that stand for *texts*."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


async def discover(
    wire: HttpClient, url: SplitResult, named: SplitResult | None
) -> Authorization | None:
    """Return how tokens for the server at *url* are had, None if it does not say.

    *named* is where a challenge of the server said that its metadata is. Raises `HttpError`, with
    502, for a server that cannot be asked, or whose metadata are for another one.
    """
    described = await _resource_of(wire, url, named)
    origin = f"{url.scheme}://{authority(url)}"
    resource = f"{origin}{url.path or '/'}" + (f"?{url.query}" if url.query else "")
    if described is None:
        # MCP 2025-03-26: the server is its own authorization server.
        issuer, described = origin, {}
    else:
        resource = str(described.get("resource"))
        _check_resource(resource, url)
        issuer = next(iter(_texts(described.get("authorization_servers"))), origin)
    metadata = await _server_of(wire, issuer, url)
    if metadata is None:
        if described:
            raise _bad(f"its authorization server {issuer!r} has no metadata")
        return None
    ends = [metadata.get(f"{name}_endpoint") for name in ("authorization", "token")]
    for end in ends:
        _check_secure(end, url)
    if metadata.get("require_pushed_authorization_requests") is True:
        raise _bad(f"{issuer!r} wants pushed requests (RFC 9126), which cannot pass a relay")
    return Authorization(resource, issuer, str(ends[0]), str(ends[1]), described, metadata)


async def _resource_of(
    wire: HttpClient, url: SplitResult, named: SplitResult | None
) -> dict[str, Any] | None:
    bare = url._replace(query="", fragment="")
    inserted = [bare._replace(path=RESOURCE + url.path)] if url.path not in {"", "/"} else []
    for place in [*([named] if named else []), *inserted, bare._replace(path=RESOURCE)]:
        if (document := await _get(wire, place)) is not None:
            return document
    return None


async def _server_of(wire: HttpClient, issuer: str, url: SplitResult) -> dict[str, Any] | None:
    _check_secure(issuer, url)
    for place in _places(urlsplit(issuer)):
        if (document := await _get(wire, place)) is not None:
            stated = str(document.get("issuer"))
            # RFC 8414, 3.3; a root is the same with and without its slash.
            if stated != issuer and {stated, issuer} != {
                issuer.rstrip("/"),
                f"{issuer.rstrip('/')}/",
            }:
                raise _bad(f"the metadata of {issuer!r} are those of another issuer")
            return document
    return None


def _places(issuer: SplitResult) -> Iterator[SplitResult]:
    """Give where the metadata of *issuer* may be: RFC 8414, 3.1 and 5."""
    path = issuer.path.rstrip("/")
    for place in (SERVER + path, _OPENID + path, *([path + _OPENID] if path else [])):
        yield issuer._replace(path=place, query="", fragment="")


async def _get(wire: HttpClient, url: SplitResult) -> dict[str, Any] | None:
    """Return the JSON object at *url*, None if there is none; no credentials are sent."""
    try:
        status, document = await ask(wire, url)
    except TransportError as error:
        raise _bad(str(error)) from error
    if status >= _BROKEN:
        # That it cannot say it now is not that it has none.
        raise _bad(f"its metadata have HTTP status {status}")
    return document if status == _OK else None


async def ask(
    wire: HttpClient,
    url: SplitResult,
    form: Iterable[tuple[str, str]] | None = None,
    fields: Iterable[tuple[str, str]] = (),
) -> tuple[int, dict[str, Any] | None]:
    """Get *url*, or post *form* to it; return the status and the JSON object of the answer.

    The object is None if the answer has none. *fields* are sent besides. Raises `TransportError`.
    """
    headers = [("accept", JSON), ("accept-encoding", "identity"), *fields]
    method, body = "GET", b""
    if form is not None:
        method, body = "POST", urlencode([*form]).encode()
        headers.append(("content-type", FORM))
    reply = await wire.send(url, method, headers, body, _TIMEOUTS)
    try:
        document = msgspec.json.decode(await reply.body(_SIZE))
    except (msgspec.DecodeError, UnicodeDecodeError):
        document = None
    finally:
        reply.close()
    return reply.status, document if isinstance(document, dict) else None


def _check_resource(resource: str, url: SplitResult) -> None:
    """Raise `HttpError` unless *resource* is *url*, or above it on its origin, as clients check."""
    stated = read_url(resource)
    if stated is None:
        raise _bad("its metadata are those of another resource")
    same = (stated.scheme.lower(), stated.netloc.lower()) == (url.scheme, authority(url).lower())
    if not same or not f"{url.path.rstrip('/')}/".startswith(f"{stated.path.rstrip('/')}/"):
        raise _bad("its metadata are those of another resource")


def _check_secure(text: object, url: SplitResult) -> None:
    """Raise `HttpError` unless *text* is an https address; beside a local server http will do."""
    place = read_url(text) if isinstance(text, str) else None
    local = place and is_loopback(url.hostname or "") and is_loopback(place.hostname or "")
    if place is None or not (place.scheme == "https" or local):
        raise _bad("an address in its metadata is not https")


def _allowed_members(stated: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the members *names* of *stated* that are words, lists of words, or true or false."""
    members: dict[str, Any] = {}
    for name in names:
        match stated.get(name):
            case bool() as value:
                members[name] = value
            case str() as value if _WORD.fullmatch(value):
                members[name] = value
            case list() as value:
                members[name] = [item for item in _texts(value) if _WORD.fullmatch(item)]
    return members


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _bad(reason: str) -> HttpError:
    return HttpError(502, f"the server's OAuth cannot be passed on: {reason}")
