"""`toolbus proxy`: handlers in front of an MCP server."""

from __future__ import annotations

import argparse
import gc
import os
import re
from typing import TYPE_CHECKING

from toolbus.cli.options import add_approval_wait, check_approval_wait
from toolbus.cli.parser import make_parser, megabytes, positive, seconds

if TYPE_CHECKING:
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command, Parser
    from toolbus.mcp.http.options import ListenOptions

_PORTS = 2**16
_NAME = re.compile(r"[A-Za-z0-9._-]{1,40}")
_EPILOG = """\
examples:
  toolbus proxy -- uvx mcp-server-git                       what is in force
  toolbus proxy --with policy.py -- uvx mcp-server-git      its handlers at work
  toolbus proxy --config toolbus.toml -- npx -y @scope/server .
  toolbus proxy --with policy.py:Strict --store calls.db -- ./server
  toolbus proxy --with policy.py -- https://example.com/mcp      at an address
  toolbus proxy --listen 8000 --with policy.py -- ./server      for HTTP clients
  toolbus proxy --config toolbus.toml         the servers that it names, as one

It stands where the settings of an MCP client named the server. Calls pass
TOOL_CALL_BEFORE, results TOOL_CALL_AFTER and MESSAGE_APPEND_BEFORE, the list of
tools TOOLS_PROVIDE. Handlers are those of components, or of one bus; without
--with and --config those of your own toolbus.toml and of the nearest one, if
you trust it (`toolbus trust`). Without any the proxy changes nothing.
It ends with the exit code of the server. A server at an address gets the bearer
token that stands in the environment as TOOLBUS_PROXY_TOKEN, and what --header
says, in the place of a client's headers of those names. Whoever runs `ps` sees
the words of a command, so a secret stands in a variable, and here its name:
  --header 'X-Api-Key: env:ACME_KEY'    --header 'Authorization: Basic env:ACME'
No redirect is followed, so they reach the origin of the address and no other.
A server with OAuth wants `toolbus login ADDRESS` before; clients that come over
HTTP log in to it by themselves, through the proxy.

What a guard asks is put to the person in front of a client that shows forms.
With --store it is a question as well, for `toolbus approvals`: a call waits for
the answer, less than the minute that most clients wait, and then names its
question; the same call again is run by a yes. That counts for one call. A
client that starts its proxy anew asks anew, unless --session gives a NAME: then
one proxy after the other goes on with what waits, for this client, account and
folder; a grant "for the session" lasts until it is revoked. While one runs,
another one of that name has questions of its own.

The handlers of a --config that changes are in force for new sessions of clients
over HTTP, once `toolbus trust FILE` has seen it; other sessions keep theirs.

Several servers stand in the configuration, each with a name that begins the
names of its tools and prompts (files_read, wiki_search), also for handlers:
  [[server]]                          [[server]]
  name = "files"                      name = "wiki"
  command = "npx"                     url = "https://example.com/mcp"
  args = ["-y", "@scope/server"]      headers = { X-Api-Key = "env:WIKI_KEY" }
  env = { KEY = "env:FILES_KEY" }
A command gets its `env`, HOME, LOGNAME, PATH, SHELL, TERM and USER, and no
other variable. A server that fails is reported and left out; the others go on.
A revision of MCP that all of them speak is spoken, with a handshake or, since
2026-07-28, without. Ids of tasks begin with a server's name as well.

With --listen it speaks streamable HTTP to any number of clients, in front of an
address as a relay, in front of a command with a process for each session. Only
this machine can reach it, unless a host is given. Clients must show, as a
bearer token, what stands in the environment as TOOLBUS_LISTEN_TOKEN. A host
that others reach needs one, unless --open lets everybody in."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus proxy", "Stand in front of an MCP server.", _EPILOG)
    _add_arguments(parser)

    def run(parsed: argparse.Namespace, _output: Output) -> int:
        words = parsed.command[1:] if parsed.command[:1] == ["--"] else parsed.command
        if not words and parsed.config is None:
            parser.error("which server? give its command after --, or --config with [[server]]")
        check_approval_wait(parser, parsed)
        if parsed.session is not None and parsed.store is None:
            parser.error("--session needs the store where questions are kept; add --store STORE")
        if parsed.session is not None and parsed.listen is not None:
            parser.error("--session is for one client on pipes; leave it out, or --listen")
        # All that is loaded stays; `run_proxy` has the collector look again at what comes after.
        gc.disable()
        from toolbus.mcp.proxy.command import run_proxy  # noqa: PLC0415 - loads the whole house
        from toolbus.mcp.proxy.factory import ProxyOptions  # noqa: PLC0415 - as above

        options = ProxyOptions(
            targets=parsed.targets,
            config=parsed.config,
            search=not parsed.no_config,
            store=parsed.store,
            log=parsed.log,
            timeout=parsed.timeout,
            frame=parsed.max_frame * 2**20,
            grace=parsed.grace,
            listening=_listening(parsed),
            headers=_headers(parsed.headers),
            approval_wait=parsed.approval_wait,
            session=parsed.session,
        )
        try:
            return run_proxy(words, options)
        finally:
            gc.enable()

    return parser, run


def _add_arguments(parser: Parser) -> None:
    parser.usage = (
        "toolbus proxy [options] -- COMMAND [ARGUMENT ...]\n"
        "       toolbus proxy [options] --config FILE"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument(
        "--with",
        dest="targets",
        metavar="FILE.py[:name]",
        action="append",
        default=[],
        help="handlers; may be given several times",
    )
    parser.add_argument("--config", metavar="FILE", help="what this toolbus.toml names")
    parser.add_argument(
        "--no-config", action="store_true", help="look for no toolbus.toml, not even your own"
    )
    parser.add_argument(
        "--store", metavar="STORE", help="keep sessions and ledgers in this file or database"
    )
    parser.add_argument(
        "--log",
        nargs="?",
        const="-",
        metavar="FILE",
        help="a line for each request, without arguments, on standard error or in FILE",
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="S", help="seconds a tool call may take (no limit)"
    )
    parser.add_argument(
        "--grace", type=seconds, default=5.0, metavar="S", help="seconds a server has to end (5)"
    )
    parser.add_argument(
        "--max-frame", type=megabytes, default=256, metavar="MB", help="longest frame (256)"
    )

    parser.add_argument(
        "--header",
        dest="headers",
        metavar="'NAME: VALUE'",
        action="append",
        default=[],
        help="for a server at an address; may be given several times",
    )
    _add_approvals(parser)
    _add_http(parser)


def _add_approvals(parser: Parser) -> None:
    add_approval_wait(parser, usual=50)
    parser.add_argument(
        "--session",
        type=_session,
        metavar="NAME",
        help="questions outlast this process: those of the next one of this name, with --store",
    )


def _add_http(parser: Parser) -> None:
    group = parser.add_argument_group("for HTTP clients")
    group.add_argument(
        "--listen", type=_address, metavar="[HOST:]PORT", help="be an HTTP server (0: any port)"
    )
    group.add_argument(
        "--open", action="store_true", help="let in whoever reaches HOST, without a token"
    )
    group.add_argument("--path", type=_path, default="/mcp", help="where MCP is (/mcp)")
    group.add_argument(
        "--allow-host",
        dest="hosts",
        metavar="NAME[:PORT]",
        action="append",
        default=[],
        help="a name of this proxy besides localhost",
    )
    group.add_argument(
        "--allow-origin",
        dest="origins",
        metavar="URL",
        action="append",
        default=[],
        help="where pages may come from besides localhost",
    )
    group.add_argument(
        "--idle", type=seconds, default=1800.0, metavar="S", help="end unused sessions (1800)"
    )
    group.add_argument(
        "--patience", type=seconds, default=30.0, metavar="S", help="to send, or to read on (30)"
    )
    group.add_argument(
        "--max-sessions", type=positive, default=100, metavar="N", help="at the same time (100)"
    )


def _headers(words: list[str]) -> tuple[tuple[str, str], ...]:
    if not words:
        return ()
    from toolbus.mcp.transport.extra_headers import read_headers  # noqa: PLC0415 - not for all

    return read_headers(words, os.environ)


def _listening(parsed: argparse.Namespace) -> ListenOptions | None:
    from toolbus.mcp.http.options import ListenOptions  # noqa: PLC0415 - as above

    if parsed.listen is None:
        return None
    host, port = parsed.listen
    return ListenOptions(
        host=host,
        port=port,
        path=parsed.path,
        hosts=tuple(parsed.hosts),
        origins=tuple(parsed.origins),
        idle=parsed.idle,
        sessions=parsed.max_sessions,
        seconds=parsed.patience,
        open=parsed.open,
    )


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdigit() and int(port) < _PORTS) or (colon and not host):
        raise argparse.ArgumentTypeError(f"expected a port, or a host and a port, not {text!r}")
    return host or "127.0.0.1", int(port)


def _session(text: str) -> str:
    if not _NAME.fullmatch(text):
        reason = f"expected a name of at most 40 letters, digits, '.', '_' and '-', not {text!r}"
        raise argparse.ArgumentTypeError(reason)
    return text


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"expected a path that begins with /, not {text!r}")
    return text
