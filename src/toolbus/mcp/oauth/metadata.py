"""OAuth metadata of a remote server, and the relay's own metadata derived from them.

Protected resource metadata: RFC 9728. Authorization server metadata: RFC 8414, and OpenID Connect
Discovery 1.0. Discovery by MCP clients: MCP 2025-11-25, basic/authorization.
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
"""The form of a scope (RFC 6749, 3.3) or a URL, which excludes sentences."""

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
"""The members that are copied. Left out are prose, features that would bypass the relay with
another resource (PAR, device codes), signatures for the server's own URL (`signed_metadata`,
DPoP), and endpoints that would not know marked tokens (revocation, introspection)."""

GRANTS = frozenset({"authorization_code", "refresh_token", "client_credentials"})
_METHODS = frozenset({"none", "client_secret_basic", "client_secret_post"})
"""The ways to authenticate a client; a signed assertion would have the wrong audience."""


class Authorization(NamedTuple):
    """The authorization server *issuer* of the upstream *resource*, with its endpoints.

    *described* is the metadata of the resource, *metadata* that of the authorization server.
    """

    resource: str
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    described: Mapping[str, Any]
    metadata: Mapping[str, Any]

    def resource_metadata(self, address: str, issuer: str) -> dict[str, Any]:
        """Return the RFC 9728 metadata of the relay at *address*, with its *issuer*."""
        members = _allowed_members(self.described, _RESOURCE_MEMBERS)
        return {"resource": address, "authorization_servers": [issuer], **members}

    def server_metadata(self, issuer: str) -> dict[str, Any]:
        """Return the RFC 8414 metadata of *issuer*, a URL of the relay."""
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
    """Return a digest of *texts* as 32 hexadecimal digits."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


async def discover(
    wire: HttpClient, url: SplitResult, named: SplitResult | None
) -> Authorization | None:
    """Return the authorization server for *url*, None if the server has no metadata.

    *named* is the URL of the metadata in a challenge of the server. Raises `HttpError` with 502 for
    an unreachable server, or metadata of another resource.
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
            raise _bad_metadata(f"the authorization server {issuer!r} has no metadata")
        return None
    ends = [metadata.get(f"{name}_endpoint") for name in ("authorization", "token")]
    for end in ends:
        _check_secure(end, url)
    if metadata.get("require_pushed_authorization_requests") is True:
        raise _bad_metadata(
            f"{issuer!r} wants pushed requests (RFC 9126), which cannot pass a relay"
        )
    return Authorization(resource, issuer, str(ends[0]), str(ends[1]), described, metadata)


async def _resource_of(
    wire: HttpClient, url: SplitResult, named: SplitResult | None
) -> dict[str, Any] | None:
    bare = url._replace(query="", fragment="")
    inserted = [bare._replace(path=RESOURCE + url.path)] if url.path not in {"", "/"} else []
    for location in [*([named] if named else []), *inserted, bare._replace(path=RESOURCE)]:
        if (document := await _get(wire, location)) is not None:
            return document
    return None


async def _server_of(wire: HttpClient, issuer: str, url: SplitResult) -> dict[str, Any] | None:
    _check_secure(issuer, url)
    for location in _metadata_urls(urlsplit(issuer)):
        if (document := await _get(wire, location)) is not None:
            stated = str(document.get("issuer"))
            # RFC 8414, 3.3; a root is the same with and without its slash.
            if stated != issuer and {stated, issuer} != {
                issuer.rstrip("/"),
                f"{issuer.rstrip('/')}/",
            }:
                raise _bad_metadata(f"the metadata of {issuer!r} name another issuer")
            return document
    return None


def _metadata_urls(issuer: SplitResult) -> Iterator[SplitResult]:
    """Yield the possible URLs of the metadata of *issuer*: RFC 8414, 3.1 and 5."""
    path = issuer.path.rstrip("/")
    for location in (SERVER + path, _OPENID + path, *([path + _OPENID] if path else [])):
        yield issuer._replace(path=location, query="", fragment="")


async def _get(wire: HttpClient, url: SplitResult) -> dict[str, Any] | None:
    """Return the JSON object at *url*, or None; no credentials are sent."""
    try:
        status, document = await ask(wire, url)
    except TransportError as error:
        raise _bad_metadata(str(error)) from error
    if status >= _BROKEN:
        # A temporary failure does not mean that there are no metadata.
        raise _bad_metadata(f"the metadata have HTTP status {status}")
    return document if status == _OK else None


async def ask(
    wire: HttpClient,
    url: SplitResult,
    form: Iterable[tuple[str, str]] | None = None,
    fields: Iterable[tuple[str, str]] = (),
) -> tuple[int, dict[str, Any] | None]:
    """GET *url*, or POST *form* to it; return the status and the JSON object of the response.

    The object is None for any other body. *fields* are extra headers. Raises `TransportError`.
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
    """Raise `HttpError` unless *resource* is *url* or above it on its origin, as clients check."""
    stated = read_url(resource)
    if stated is None:
        raise _bad_metadata("the metadata name another resource")
    same = (stated.scheme.lower(), stated.netloc.lower()) == (url.scheme, authority(url).lower())
    if not same or not f"{url.path.rstrip('/')}/".startswith(f"{stated.path.rstrip('/')}/"):
        raise _bad_metadata("the metadata name another resource")


def _check_secure(text: object, url: SplitResult) -> None:
    """Raise `HttpError` unless *text* is an https URL; for a local server, http is accepted."""
    parsed = read_url(text) if isinstance(text, str) else None
    local = parsed and is_loopback(url.hostname or "") and is_loopback(parsed.hostname or "")
    if parsed is None or not (parsed.scheme == "https" or local):
        raise _bad_metadata("a URL in the metadata is not https")


def _allowed_members(stated: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the members *names* of *stated* that are words, lists of words, or booleans."""
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


def _bad_metadata(reason: str) -> HttpError:
    return HttpError(502, f"cannot relay the server's OAuth: {reason}")
