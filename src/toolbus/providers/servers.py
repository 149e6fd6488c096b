"""The server of a model, and its key, which is only sent where the user intended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from toolbus.errors import RegistrationError
from toolbus.providers.keys import ApiKey, find_key

if TYPE_CHECKING:
    from pathlib import Path


class Provider(NamedTuple):
    """A provider: its URL, and the variables for another URL and for its key.

    Its SDK sends the headers in *headers_variable*, one a line, and *own_headers* to any server.
    """

    base_url: str
    url_variable: str
    key_variable: str
    headers_variable: str
    own_headers: tuple[str, ...]


class ModelServer(NamedTuple):
    """A server: its URL without a trailing slash, and the key that is sent there, if any.

    *omitted* are headers of the environment that must not be sent there, in lower case.
    """

    base_url: str
    key: ApiKey | None
    omitted: tuple[str, ...] = ()


OPENAI = Provider(
    "https://api.openai.com/v1",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_CUSTOM_HEADERS",
    ("openai-organization", "openai-project"),
)
ANTHROPIC = Provider(
    "https://api.anthropic.com",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_CUSTOM_HEADERS",
    (),
)


def find_server(
    provider: Provider, base_url: str | None, key_env: str | None, key_file: str | Path | None
) -> ModelServer:
    """Return the server for models of *provider*; raises `RegistrationError`.

    The provider's own variables apply to its own URL, or to the URL in the environment. A
    *base_url* in code or in a configuration only gets a key named beside it, and no headers of the
    environment; otherwise its author could collect them.
    """
    address = base_url or os.environ.get(provider.url_variable) or provider.base_url
    address = address.rstrip("/")
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise RegistrationError(f"base_url {address!r}", "expected a URL, `https://host/v1`")
    if parts.username is not None:
        # Without the URL itself, which contains a password.
        reason = "it contains a user name; give the key with `key_env=` or `key_file=`"
        raise RegistrationError(f"base_url of {parts.hostname!r}", reason)
    is_given = base_url is not None and address != provider.base_url
    variable = key_env or (None if is_given else provider.key_variable)
    key = find_key(variable, key_file)
    if key is None and (key_env is not None or address == provider.base_url):
        reason = f"set {variable}, or name a private file with `key_file=`"
        raise RegistrationError(f"no key for {parts.hostname!r}", reason)
    return ModelServer(address, key, _headers_of_environment(provider) if is_given else ())


def _headers_of_environment(provider: Provider) -> tuple[str, ...]:
    lines = os.environ.get(provider.headers_variable, "").split("\n")
    names = [line.partition(":")[0].strip().lower() for line in lines if ":" in line]
    return *provider.own_headers, *names
