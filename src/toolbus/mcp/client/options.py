"""What `tools` takes, checked once."""

from __future__ import annotations

import re
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, TypedDict

from toolbus.errors import RegistrationError
from toolbus.mcp.client.servers import Address, StdioServer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import TextIO

    import httpx2

    from toolbus.mcp.client.servers import Server


class McpOptions(TypedDict, total=False):
    """What `tools` takes besides the server; the times are in seconds.

    *name* is what errors and logs call the server: the command or the address, if not given.
    For a command: *env*, laid over a part of ours that holds no secret (HOME, LOGNAME, PATH, SHELL,
    TERM, USER; `env=os.environ` gives it all); *cwd*; *stderr*, a file, where what the server
    writes to its standard error goes (ours, if none is given). For an address: *headers*, and
    *auth*, an `httpx2.Auth` as the SDK's OAuth has them.

    *prefix* is put before every name. *include* and *exclude* are a glob pattern of the server's
    own names, or several; what is excluded is never there. *timeout* is that of each call, 300 if
    not given, None for never; *connect_timeout* that of connecting and of each listing, 60 if
    not given. *reconnects* is how often a call tries to connect again to a server that was
    lost, 3 if not given. *mode* is the SDK's: "auto", "legacy", or a revision without handshake.
    """

    name: str
    env: Mapping[str, str]
    cwd: str | Path
    stderr: TextIO
    headers: Mapping[str, str]
    auth: httpx2.Auth
    prefix: str
    include: str | Sequence[str]
    exclude: str | Sequence[str]
    timeout: float | None
    connect_timeout: float
    reconnects: int
    mode: str


_PREFIX = re.compile(r"[A-Za-z0-9_./:-]*")
_FOR_COMMANDS, _FOR_ADDRESSES = {"env", "cwd", "stderr"}, {"headers", "auth"}


def server_of(server: str, args: Sequence[str], options: McpOptions) -> Server:
    """Return how to reach *server*; raises `RegistrationError` for what cannot work."""
    is_address = server.lower().startswith(("http://", "https://"))
    problems = chain(_misplaced(args, options, is_address=is_address), _wrong_values(options))
    if (problem := next(problems, None)) is not None:
        raise RegistrationError("toolbus.mcp.client.tools", problem)
    name = options.get("name")
    if is_address:
        headers = options.get("headers", {})
        return Address(server, headers=headers, auth=options.get("auth"), name=name)
    return StdioServer(
        server,
        args,
        env=options.get("env", {}),
        cwd=options.get("cwd"),
        stderr=options.get("stderr"),
        name=name,
    )


def _misplaced(args: Sequence[str], options: McpOptions, *, is_address: bool) -> Iterator[str]:
    known: Collection[str] = McpOptions.__annotations__
    if unknown := options.keys() - known:
        yield f"unknown options: {', '.join(sorted(unknown))}; known: {', '.join(known)}"
    if isinstance(args, str):
        yield f"the arguments are a list of words, not {args!r}; split it"
    if is_address and args:
        yield "an address takes no arguments; put them into the query, or name a command"
    other, kind = (_FOR_COMMANDS, "a command") if is_address else (_FOR_ADDRESSES, "an address")
    if misplaced := options.keys() & other:
        yield f"{', '.join(sorted(misplaced))} is for {kind}; leave it out"


def _wrong_values(options: McpOptions) -> Iterator[str]:
    if (timeout := options.get("timeout")) is not None and not _is_time(timeout):
        yield f"timeout must be a positive number of seconds, or None for never, not {timeout!r}"
    if not _is_time(timeout := options.get("connect_timeout", 1)):
        yield f"connect_timeout must be a positive number of seconds, not {timeout!r}"
    prefix = options.get("prefix", "")
    if not _PREFIX.fullmatch(prefix):
        yield f"a prefix has letters, digits or `_-./:`, unlike {prefix!r}"
    reconnects = options.get("reconnects", 0)
    if type(reconnects) is not int or reconnects < 0:
        yield f"reconnects must be a number of attempts, 0 or more, not {reconnects!r}"


def _is_time(seconds: object) -> bool:
    return isinstance(seconds, int | float) and seconds is not True and 0 < seconds < inf
