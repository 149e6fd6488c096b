"""`toolbus proxy`: handlers in front of an MCP server."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import re
import shutil
import sys
from contextlib import AsyncExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.cli.options import add_approval_wait, check_approval_wait
from toolbus.cli.parser import make_parser, megabytes, positive, seconds
from toolbus.components.components import AgentComponent
from toolbus.mcp.proxy.factory import ProxyOptions, follow_changes, make_proxy
from toolbus.mcp.transport.launch import LISTEN_TOKEN, TOKEN, launch
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from urllib.parse import SplitResult

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command, Parser
    from toolbus.mcp.group.settings import ServerSettings
    from toolbus.mcp.http.options import ListenOptions
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.session.request_log import RequestLog
    from toolbus.mcp.transport.launch import LaunchedServer
    from toolbus.mcp.transport.limits import ProxyLimits
    from toolbus.mcp.transport.remote import RemoteServer

logger = logging.getLogger("toolbus")

_PORTS = 2**16
_NAME = re.compile(r"[A-Za-z0-9._-]{1,40}")
_EPILOG = """\
examples:
  toolbus proxy -- uvx mcp-server-git             with your active configuration
  toolbus proxy --with policy.py -- uvx mcp-server-git        with its handlers
  toolbus proxy --config toolbus.toml             the servers of its [[server]]s
  toolbus proxy --store calls.db --session git -- uvx mcp-server-git
  toolbus proxy --with policy.py -- https://example.com/mcp    a remote server
  toolbus proxy --listen 8000 --with policy.py -- ./server    for HTTP clients

It takes the server's place in the settings of an MCP client, and exits with
the server's exit code. A remote server gets the bearer token in
TOOLBUS_PROXY_TOKEN, or that of `toolbus login`; clients of --listen show the
one in TOOLBUS_LISTEN_TOKEN. See `toolbus guide mcp`."""


def command() -> Command:
    """Return the parser and the function of this command."""
    parser = make_parser("toolbus proxy", "Put handlers in front of an MCP server.", _EPILOG)
    _add_arguments(parser)

    def run(parsed: argparse.Namespace, _output: Output) -> int:
        words = parsed.command[1:] if parsed.command[:1] == ["--"] else parsed.command
        check_approval_wait(parser, parsed)
        if parsed.session is not None and parsed.store is None:
            parser.error("--session needs the store where questions are kept; add --store STORE")
        if parsed.session is not None and parsed.listen is not None:
            parser.error("--session is for one client on pipes; leave it out, or --listen")
        # Objects of the start stay for good; `_serve` freezes them and enables the collector.
        gc.disable()
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
            return _run_proxy(words, options)
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
        help="a bus or components; repeatable",
    )
    parser.add_argument("--config", metavar="FILE", help="this toolbus.toml alone")
    parser.add_argument(
        "--no-config", action="store_true", help="read no toolbus.toml, not even yours"
    )
    parser.add_argument(
        "--store", metavar="STORE", help="file or database for sessions and questions"
    )
    parser.add_argument(
        "--log",
        nargs="?",
        const="-",
        metavar="FILE",
        help="log each request, without arguments (to standard error)",
    )
    _add_server(parser)
    _add_approvals(parser)
    _add_http(parser)


def _add_server(parser: Parser) -> None:
    parser.add_argument(
        "--timeout", type=seconds, metavar="S", help="seconds for a tool call (no limit)"
    )
    parser.add_argument(
        "--grace", type=seconds, default=5.0, metavar="S", help="seconds for a server to end (5)"
    )
    parser.add_argument(
        "--max-frame",
        type=megabytes,
        default=256,
        metavar="MB",
        help="size of the longest frame (256)",
    )
    parser.add_argument(
        "--header",
        dest="headers",
        metavar="'NAME: VALUE'",
        action="append",
        default=[],
        help="for a remote server; VALUE may hold env:VARIABLE; repeatable",
    )


def _add_approvals(parser: Parser) -> None:
    add_approval_wait(parser, usual=50)
    parser.add_argument(
        "--session",
        type=_session,
        metavar="NAME",
        help="with --store, share open questions with the next process of NAME",
    )


def _add_http(parser: Parser) -> None:
    group = parser.add_argument_group("for HTTP clients")
    group.add_argument(
        "--listen", type=_address, metavar="[HOST:]PORT", help="serve HTTP (0: any port)"
    )
    group.add_argument("--open", action="store_true", help="let other machines in without a token")
    group.add_argument("--path", type=_path, default="/mcp", help="path of the endpoint (/mcp)")
    group.add_argument(
        "--allow-host",
        dest="hosts",
        metavar="NAME[:PORT]",
        action="append",
        default=[],
        help="a name of this proxy; repeatable",
    )
    group.add_argument(
        "--allow-origin",
        dest="origins",
        metavar="URL",
        action="append",
        default=[],
        help="an origin of web pages; repeatable",
    )
    group.add_argument(
        "--idle", type=seconds, default=1800.0, metavar="S", help="end idle sessions (1800)"
    )
    group.add_argument(
        "--patience",
        type=seconds,
        default=30.0,
        metavar="S",
        help="seconds to send a request, or to read on (30)",
    )
    group.add_argument(
        "--max-sessions", type=positive, default=100, metavar="N", help="sessions at a time (100)"
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


class _Server(NamedTuple):
    """The server behind the proxy: a *command*, a remote *url*, or *group*, several servers."""

    command: Sequence[str]
    url: SplitResult | None
    group: Sequence[ServerSettings] = ()


class _Ready(NamedTuple):
    """A proxy before it serves, its server perhaps *launched*.

    *output* is the descriptor of the client.
    """

    server: _Server
    proxy: Proxy
    launched: LaunchedServer | None
    output: int


def _run_proxy(command: Sequence[str], options: ProxyOptions) -> int:
    """Run the server *command* or the remote one behind handlers; return its exit code.

    Without a command the servers of the configuration run. Raises `UsageError`.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="toolbus: %(message)s")
    # Standard output belongs to the client, so prints of handlers go to standard error.
    stdout = sys.stdout
    server = _find_server(command, options)
    _warn_of_exposed(server)
    _check_headers(server, options)
    log = _open_log(options.log, server)
    with redirect_stdout(sys.stderr):
        proxy = make_proxy(options, log)
        launched = _launch(server, proxy, options)
        # The server starts while this is loaded.
        import asyncio  # noqa: PLC0415

        return asyncio.run(_serve(_Ready(server, proxy, launched, stdout.fileno()), options))


def _find_server(command: Sequence[str], options: ProxyOptions) -> _Server:
    group: Sequence[ServerSettings] = ()
    if options.config is not None:
        from toolbus.mcp.group.settings import left_out, read_settings  # noqa: PLC0415 - not for all

        group = read_settings(options.config)
        if (sentence := left_out(group)) is not None:
            logger.warning("%s", sentence)
    if command and group:
        raise UsageError(f"{options.config} names servers already; leave out {command[0]!r}")
    if not (command or group):
        raise UsageError("which server? give its command after --, or --config with [[server]]")
    if len(command) != 1 or "://" not in command[0]:
        return _Server(command, None, group)
    from toolbus.http.urls import read_url  # noqa: PLC0415 - not for all

    return _Server(command, read_url(command[0]))


def _warn_of_exposed(server: _Server) -> None:
    urls = [url for url in (server.url, *[each.url for each in server.group]) if url is not None]
    if urls:
        from toolbus.http.urls import is_exposed, without_query  # noqa: PLC0415 - not for all

        for url in filter(is_exposed, urls):
            logger.warning(
                "%s is not encrypted: requests, results and tokens can be read and changed on"
                " their way; use https",
                without_query(url),
            )


def _check_headers(server: _Server, options: ProxyOptions) -> None:
    """Raise `UsageError` for headers without a remote server, or a token given twice."""
    if options.headers and server.url is None:
        raise UsageError("--header is for a remote server; a command has its environment")
    if "authorization" in dict(options.headers) and os.environ.get(TOKEN):
        raise UsageError(f"--header 'Authorization' and {TOKEN} are both given; use one")


def _open_log(file: str | None, server: _Server) -> RequestLog | None:
    """Return the log in *file*, "-" for standard error, of requests to *server*."""
    if file is None:
        return None
    from toolbus.mcp.session.request_log import RequestLog, open_log  # noqa: PLC0415 - not for all

    name = None if server.group else server.command[0]
    try:
        stream = open_log(None if file == "-" else Path(file))
    except OSError as error:
        raise UsageError(f"cannot log to {file!r}: {error.strerror}") from error
    return RequestLog(stream, name if server.url is None else server.url.hostname)


def _launch(server: _Server, proxy: Proxy, options: ProxyOptions) -> LaunchedServer | None:
    """Start a command early; return None if a later step can still fail.

    So each failure is reported before a server has effects.
    """
    installs = [type(component).install for component in proxy.components]
    acquire = any(install is not AgentComponent.install for install in installs)
    is_late = acquire or options.store is not None or options.listening is not None
    if is_late or server.group or server.url is not None:
        return None
    with _reporting_failed_start(server.command):
        return launch(server.command)


async def _serve(ready: _Ready, options: ProxyOptions) -> int:
    from toolbus.mcp.proxy.stdio import run_link, run_stdio  # noqa: PLC0415 - as above
    from toolbus.mcp.transport.limits import ProxyLimits  # noqa: PLC0415 - as above

    server, proxy, launched, output = ready
    async with AsyncExitStack() as opened:
        if options.store is not None:
            await _keep(opened, ready, options, options.store)
        gc.freeze()
        gc.enable()
        await opened.enter_async_context(proxy)
        if options.config is not None:
            await opened.enter_async_context(follow_changes(options.config, options, proxy))
        limits = ProxyLimits(options.frame, options.grace)
        if options.listening is not None:
            return await _listen(ready, limits, options, options.listening)
        if server.url is not None:
            remote = _remote_server(server.url, limits, options)
            return await run_link(proxy, remote, limits, output)
        with _reporting_failed_start(server.command):
            return await run_stdio(
                proxy,
                server.command,
                limits,
                output=output,
                launched=launched,
                servers=server.group,
            )


async def _keep(opened: AsyncExitStack, ready: _Ready, options: ProxyOptions, target: str) -> None:
    """Keep transcripts and questions of the proxy in the store *target*, as long as *opened* is."""
    from toolbus.store.store_factory import open_store  # noqa: PLC0415 - not for all

    store = await opened.enter_async_context(open_store(target))
    ready.proxy.keep_in(store)
    if options.session is not None:
        from toolbus.mcp.session.named_sessions import named_session  # noqa: PLC0415 - as above

        words = [*ready.server.command, str(options.config)]
        session = named_session(store, options.session, words)
        ready.proxy.client_approvals.named = await opened.enter_async_context(session)


def _remote_server(url: SplitResult, limits: ProxyLimits, options: ProxyOptions) -> RemoteServer:
    try:
        from toolbus.mcp.oauth.logins import Logins  # noqa: PLC0415 - as above
        from toolbus.mcp.transport.remote import RemoteServer  # noqa: PLC0415 - h11 is an extra
    except ImportError as error:
        raise UsageError(str(error)) from error
    token, headers = os.environ.get(TOKEN), options.headers
    shown = token is not None or "authorization" in dict(headers)
    return RemoteServer(url, limits, token, headers, None if shown else Logins())


async def _listen(
    ready: _Ready, limits: ProxyLimits, options: ProxyOptions, listening: ListenOptions
) -> int:
    try:
        from toolbus.mcp.http.listener import run_listener  # noqa: PLC0415 - h11 is an extra
    except ImportError as error:
        raise UsageError(str(error)) from error
    command, url, group = ready.server
    if url is None and command and shutil.which(command[0]) is None:
        # The server starts with its first client, too late for this error.
        raise UsageError(f"cannot start {command[0]!r}: there is no such program")
    token, shown = os.environ.get(TOKEN), os.environ.get(LISTEN_TOKEN) or None
    if shown is None:
        _check_open(listening)
    try:
        return await run_listener(
            ready.proxy,
            url or command,
            limits,
            listening,
            token=token,
            headers=options.headers,
            servers=group,
            client_token=shown,
        )
    except OSError as error:
        where = f"{listening.host}:{listening.port}"
        reason = os.strerror(error.errno) if error.errno else error
        raise UsageError(f"cannot listen on {where}: {reason}") from error


def _check_open(listening: ListenOptions) -> None:
    """Raise `UsageError` if other machines need no token, unless `--open` allows that."""
    from toolbus.http.urls import is_loopback  # noqa: PLC0415 - not for all

    if is_loopback(listening.host):
        return
    if not listening.open:
        ways = f"set {LISTEN_TOKEN}, or require none with --open"
        raise UsageError(f"clients of other machines need a token: {ways}")
    logger.warning("every client that reaches %s may use the proxy", listening.host)


@contextmanager
def _reporting_failed_start(command: Sequence[str]) -> Iterator[None]:
    """Turn the failed start of a server into a `UsageError`."""
    try:
        yield
    except (FileNotFoundError, PermissionError) as error:
        raise UsageError(f"cannot start {command[0]!r}: {error.strerror}") from error
