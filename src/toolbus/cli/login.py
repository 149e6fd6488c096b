"""`toolbus login`: tokens for a remote MCP server that needs OAuth."""

from __future__ import annotations

import asyncio
import sys
import time
import webbrowser
from typing import TYPE_CHECKING

from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output
from toolbus.cli.parser import make_parser, positive
from toolbus.mcp.oauth.logins import Logins, display_url, server_url
from toolbus.settings.extras import needs_extra
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parser import Command
    from toolbus.mcp.oauth.logins import Login

_EPILOG = """\
examples:
  toolbus login https://example.com/mcp                in the browser
  toolbus login https://example.com/mcp --no-browser   print the URL to open
  toolbus login --list                                 your logins
  toolbus proxy -- https://example.com/mcp             uses the login
  toolbus logout https://example.com/mcp               delete its tokens

The browser returns to a port of 127.0.0.1, so it must run on this machine; from
another one forward that port. Tokens are in a file that only you can read, in
~/.local/state/toolbus/logins or below $XDG_STATE_HOME. They apply to exactly
this URL and are renewed when they expire. TOOLBUS_PROXY_TOKEN and `--header
'Authorization: …'` take precedence."""


def command() -> Command:
    """Return the parser and the function of this command."""
    parser = make_parser("toolbus login", "Log in to a remote MCP server.", _EPILOG)
    parser.add_argument("address", metavar="URL", nargs="?", help="as a proxy gets it")
    parser.add_argument("--no-browser", action="store_true", help="print the URL to open")
    parser.add_argument(
        "--timeout", type=positive, default=300, metavar="S", help="seconds to agree in (300)"
    )
    parser.add_argument("--list", action="store_true", help="list your logins")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.list == (parsed.address is not None):
            parser.error("give a URL, or --list")
        if parsed.list:
            return _list(output, as_json=parsed.json)
        return _log_in(parsed, output)

    return parser, run


def _log_in(parsed: argparse.Namespace, output: Output) -> int:
    address = server_url(parsed.address)
    try:
        from toolbus.mcp.client.login import log_in  # noqa: PLC0415 - the SDK is an extra
    except ImportError as error:
        raise UsageError(needs_extra("to log in needs the MCP SDK", "mcp")) from error
    # With --json the document alone goes to standard output.
    person = Output(sys.stderr) if parsed.json else output

    def lead(place: str) -> None:
        opened = not parsed.no_browser and webbrowser.open(place)
        person.write(f"{'your browser opens' if opened else 'open'} {place}\n")

    login = asyncio.run(log_in(address, lead, parsed.timeout))
    if login is not None:
        Logins().write(login)
    if parsed.json:
        print_json(output, {"address": address, "logged_in": login is not None})
    elif login is None:
        output.write(f"{display_url(address)} needs no login; nothing is stored\n")
    else:
        output.write(f"logged in at {display_url(address)}\n")
    return 0


def _list(output: Output, *, as_json: bool) -> int:
    logins = Logins().all()
    if as_json:
        listed = [
            {
                "address": login.server,
                "issuer": login.issuer,
                "scope": login.scope,
                "expires_at": login.expires_at,
                "renews": login.refresh_token is not None,
            }
            for login in logins
        ]
        print_json(output, listed)
        return 0
    screen = open_screen(output)
    if logins:
        screen.table([(login.server, login.issuer, _state(login)) for login in logins])
    else:
        screen.line("you have no logins")
    return 0


def _state(login: Login) -> str:
    if login.refresh_token is not None:
        return "renewed automatically"
    if login.expires_at is None:
        return "does not expire"
    minutes = int((login.expires_at - time.time()) // 60)
    return f"expires in {minutes} min" if minutes >= 0 else "expired; log in again"
