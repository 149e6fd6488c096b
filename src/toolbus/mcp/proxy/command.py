"""`toolbus proxy`: handlers in front of an MCP server that somebody else wrote."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import sys
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.components.components import AgentComponent
from toolbus.errors import RegistrationError
from toolbus.mcp.proxy.factory import ProxyOptions, following, make_proxy
from toolbus.mcp.transport.launch import LISTEN_TOKEN, TOKEN, launch
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
    from urllib.parse import SplitResult

    from toolbus.mcp.group.settings import ServerSettings
    from toolbus.mcp.http.options import ListenOptions
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.session.request_log import RequestLog
    from toolbus.mcp.transport.launch import LaunchedServer
    from toolbus.mcp.transport.limits import ProxyLimits
    from toolbus.mcp.transport.remote import RemoteServer


logger = logging.getLogger("toolbus")


def run_proxy(command: Sequence[str], options: ProxyOptions) -> int:
    """Run the server *command*, or the one at its address, behind handlers; return its exit code.

    Without a command it is the servers that the configuration names. Raises `UsageError`.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="toolbus: %(message)s")
    # Standard output belongs to the client: what handlers print goes elsewhere.
    stdout = sys.stdout
    servers = _read_servers(command, options)
    urls = [_url_of(command), *[server.url for server in servers]]
    if any(urls):
        _warn_of_exposed(url for url in urls if url is not None)
    _check_headers(command, options)
    log = _open_log(options.log, None if servers else command[0])
    with redirect_stdout(sys.stderr):
        proxy = make_proxy(options, log)
        launched = None if servers else _launch(command, proxy, options)
        # Not before the server starts: it does so while all this is loaded.
        import asyncio  # noqa: PLC0415

        ready = _Ready(command, servers, proxy, launched, stdout.fileno())
        return asyncio.run(_serve(ready, options))


class _Ready(NamedTuple):
    """A *command*, perhaps *launched*, or *servers* that are served; *output* is the client's."""

    command: Sequence[str]
    servers: Sequence[ServerSettings]
    proxy: Proxy
    launched: LaunchedServer | None
    output: int


def _read_servers(command: Sequence[str], options: ProxyOptions) -> Sequence[ServerSettings]:
    servers: Sequence[ServerSettings] = ()
    if options.config is not None:
        from toolbus.mcp.group.settings import left_out, read_settings  # noqa: PLC0415 - not for all

        servers = read_settings(options.config)
        if (sentence := left_out(servers)) is not None:
            logger.warning("%s", sentence)
    if command and servers:
        raise UsageError(f"{options.config} names servers already; leave out {command[0]!r}")
    if not (command or servers):
        way_out = "give its command after --, or a [[server]] in the configuration"
        raise UsageError(f"which server? {way_out}")
    return servers


def _warn_of_exposed(urls: Iterable[SplitResult]) -> None:
    from toolbus.http.urls import is_exposed, without_query  # noqa: PLC0415 - not for all

    for url in urls:
        if is_exposed(url):
            logger.warning(
                "%s is not encrypted: requests, results and tokens can be read and changed on"
                " their way; use https",
                without_query(url),
            )


def _check_headers(command: Sequence[str], options: ProxyOptions) -> None:
    """Raise `UsageError` for headers that no server would get, or that say a thing twice."""
    if options.headers and _url_of(command) is None:
        raise UsageError("--header is for a server at an address; a command has its environment")
    if "authorization" in dict(options.headers) and os.environ.get(TOKEN):
        raise UsageError(f"--header 'Authorization' and {TOKEN} say the same thing; give one")


def _open_log(file: str | None, program: str | None) -> RequestLog | None:
    """Return the log in *file*, "-" for standard error, of requests to *program* or to several."""
    if file is None:
        return None
    from toolbus.mcp.session.request_log import RequestLog, open_log  # noqa: PLC0415 - not for all

    url = None if program is None else _url_of([program])
    server = program if url is None else url.hostname
    try:
        return RequestLog(open_log(None if file == "-" else Path(file)), server)
    except OSError as error:
        raise UsageError(f"cannot log to {file!r}: {error.strerror}") from error


def _launch(command: Sequence[str], proxy: Proxy, options: ProxyOptions) -> LaunchedServer | None:
    """Start the server, if nothing that is asked for can fail any more; None: it is too early.

    A failure is reported before a server has effects.
    """
    installs = [type(component).install for component in proxy.components]
    acquire = any(install is not AgentComponent.install for install in installs)
    late = acquire or options.store is not None or options.listening is not None
    if late or "://" in command[0]:
        return None
    with _reporting_failed_start(command):
        return launch(command)


async def _serve(ready: _Ready, options: ProxyOptions) -> int:
    from toolbus.mcp.proxy.stdio import run_link, run_stdio  # noqa: PLC0415 - as above
    from toolbus.mcp.transport.limits import ProxyLimits  # noqa: PLC0415 - as above

    command, servers, proxy, launched, output = ready
    async with AsyncExitStack() as opened:
        if options.store is not None:
            await opened.enter_async_context(_keeping(ready, options, options.store))
        gc.freeze()
        gc.enable()
        await opened.enter_async_context(proxy)
        if options.config is not None:
            await opened.enter_async_context(following(options.config, options, proxy))
        limits = ProxyLimits(options.frame, options.grace)
        if options.listening is not None:
            return await _listen(ready, limits, options, options.listening)
        if (url := _url_of(command)) is not None:
            return await run_link(proxy, _remote_server(url, limits, options), limits, output)
        with _reporting_failed_start(command):
            return await run_stdio(
                proxy, command, limits, output=output, launched=launched, servers=servers
            )


@asynccontextmanager
async def _keeping(ready: _Ready, options: ProxyOptions, target: str) -> AsyncIterator[None]:
    """Have the proxy keep transcripts and questions in the store *target*, until the block ends."""
    from toolbus.store.store_factory import open_store  # noqa: PLC0415 - not for all

    proxy, store = ready.proxy, open_store(target)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(store.close)
        try:
            proxy.keep_in(store)
        except RegistrationError as error:
            raise UsageError(str(error)) from error
        if options.session is not None:
            from toolbus.mcp.session.named_sessions import named_session  # noqa: PLC0415 - as above

            session = named_session(store, options.session, [*ready.command, str(options.config)])
            proxy.client_approvals.named = await opened.enter_async_context(session)
        yield


def _remote_server(url: SplitResult, limits: ProxyLimits, options: ProxyOptions) -> RemoteServer:
    try:
        from toolbus.mcp.oauth.logins import Logins  # noqa: PLC0415 - as above
        from toolbus.mcp.transport.remote import RemoteServer  # noqa: PLC0415 - h11 is an extra
    except ImportError as error:
        raise UsageError(str(error)) from error
    token, headers = os.environ.get(TOKEN), options.headers
    shown = token is not None or "authorization" in dict(headers)
    return RemoteServer(url, limits, token, headers, None if shown else Logins())


def _url_of(command: Sequence[str]) -> SplitResult | None:
    if len(command) != 1 or "://" not in command[0]:
        return None
    from toolbus.http.urls import read_url  # noqa: PLC0415 - not for all

    return read_url(command[0])


async def _listen(
    ready: _Ready, limits: ProxyLimits, options: ProxyOptions, listening: ListenOptions
) -> int:
    try:
        from toolbus.mcp.http.listener import run_listener  # noqa: PLC0415 - h11 is an extra
    except ImportError as error:
        raise UsageError(str(error)) from error
    command, url = ready.command, _url_of(ready.command)
    if url is None and command and shutil.which(command[0]) is None:
        # It would be started only when a client comes.
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
            servers=ready.servers,
            client_token=shown,
        )
    except OSError as error:
        where = f"{listening.host}:{listening.port}"
        reason = os.strerror(error.errno) if error.errno else error
        raise UsageError(f"cannot listen on {where}: {reason}") from error


def _check_open(listening: ListenOptions) -> None:
    """Raise `UsageError` if more than this machine came in without a token, and nobody said so."""
    from toolbus.http.urls import is_loopback  # noqa: PLC0415 - not for all

    if is_loopback(listening.host):
        return
    if not listening.open:
        ways = f"set {LISTEN_TOKEN}, or let everybody in with --open"
        raise UsageError(f"who is not on this machine needs a token: {ways}")
    logger.warning("everybody who reaches %s may use the proxy", listening.host)


@contextmanager
def _reporting_failed_start(command: Sequence[str]) -> Iterator[None]:
    """Make wrong use of a server that cannot be started."""
    try:
        yield
    except (FileNotFoundError, PermissionError) as error:
        raise UsageError(f"cannot start {command[0]!r}: {error.strerror}") from error
