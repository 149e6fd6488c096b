"""The address of a database: it has no secrets, and TLS verifies the server's name."""

from __future__ import annotations

import os
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.errors import WrongPathError
from toolbus.store.postgres.driver import psycopg

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECRETS = (
    "password",
    "sslpassword",
    "scram_client_key",
    "scram_server_key",
    "oauth_client_secret",
)
_WAYS_OUT = (
    "put it into the file of PGPASSFILE (or ~/.pgpass), into a service of pg_service.conf, "
    "or into PGPASSWORD"
)
_NO_ADDRESS = (
    "not an address of a database; give postgresql://USER@HOST/DATABASE or service=NAME, "
    "with %XX for special characters of a URL"
)
_UNNAMED = "postgresql"
"""The label of an address that must not be shown."""


class DatabaseAddress(NamedTuple):
    """An address for libpq, `conninfo`, and for display, `label`; neither contains a secret."""

    conninfo: str
    label: str


def parse_address(text: str, environment: Mapping[str, str] = os.environ) -> DatabaseAddress:
    """Return the address in *text*, in one of libpq's two forms.

    Unless *text*, the *environment* or the service configures TLS, it verifies the names of hosts
    other than this machine (`sslmode=verify-full`). Raises `WrongPathError` for text that is not an
    address, and for a password in it, which process lists would show.
    https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING
    """
    try:
        words = psycopg.conninfo.conninfo_to_dict(text)
    except (psycopg.Error, UnicodeError):
        # Without the cause: libpq quotes the text, which may contain a password.
        raise WrongPathError(_UNNAMED, _NO_ADDRESS) from None
    facts = {name: str(value) for name, value in words.items() if value is not None}
    for name in _SECRETS:
        if name in facts:
            reason = f"the address contains a secret ({name!r}), which process lists and logs show"
            raise WrongPathError(_label({**facts, name: ""}), f"{reason}; {_WAYS_OUT}")
    known = _service(facts, environment) | facts
    if "sslmode" not in known and not environment.get("PGSSLMODE"):
        hosts = _hosts(known, environment)
        if not all(_is_here(host) for host in hosts):
            facts["sslmode"] = "verify-full"
    return DatabaseAddress(psycopg.conninfo.make_conninfo(**facts), _label(facts))


def _label(facts: Mapping[str, str]) -> str:
    if service := facts.get("service"):
        return f"service={service}"
    host, port = facts.get("host", facts.get("hostaddr", "")), facts.get("port", "")
    user = f"{facts['user']}@" if facts.get("user") else ""
    # A socket's folder would look like the path of the URL.
    place = "" if host.startswith("/") else host + (f":{port}" if port else "")
    return f"postgresql://{user}{place}/{facts.get('dbname', '')}"


def _hosts(facts: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Return the hosts in *facts*, "" for the default, which is a local socket."""
    # libpq connects to a numeric address, and only verifies the host name then.
    for name, variable in (("hostaddr", "PGHOSTADDR"), ("host", "PGHOST")):
        if hosts := facts.get(name) or environment.get(variable):
            return hosts.split(",")
    return ["?"] if facts.get("service") and "host" not in facts else [""]


def _is_here(host: str) -> bool:
    """Return whether *host* is certainly this machine."""
    if host in {"", "localhost"} or host.startswith(("/", "@")):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _service(facts: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the entry of the named service in the file of services, if any.

    https://www.postgresql.org/docs/current/libpq-pgservice.html
    """
    name = facts.get("service") or environment.get("PGSERVICE")
    if not name:
        return {}
    folder = environment.get("PGSYSCONFDIR")
    files = [Path(environment.get("PGSERVICEFILE") or Path.home() / ".pg_service.conf")]
    files += [Path(folder, "pg_service.conf")] if folder else []
    for file in files:
        if (entries := _section(file, name)) is not None:
            return {"service": name} | entries
    return {"service": name}


def _section(file: Path, name: str) -> dict[str, str] | None:
    """Return the entries `NAME=VALUE` below `[name]` in *file*; None without that section."""
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    entries: dict[str, str] | None = None
    for line in map(str.strip, lines):
        if line.startswith("["):
            if entries is not None:
                break
            entries = {} if line == f"[{name}]" else None
        elif entries is not None and "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            entries[key.strip()] = value.strip()
    return entries
