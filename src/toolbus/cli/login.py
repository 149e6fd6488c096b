"""`toolbus login`: get tokens of an MCP server that wants to know who asks."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from toolbus.cli.parser import make_parser, positive
from toolbus.settings.extras import needs_extra
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command, Parser
    from toolbus.mcp.oauth.logins import Login

_EPILOG = """\
examples:
  toolbus login https://example.com/mcp                in the browser
  toolbus login https://example.com/mcp --no-browser   print what to open
  toolbus login --list                                 where you are logged in
  toolbus proxy -- https://example.com/mcp             uses the login
  toolbus logout https://example.com/mcp               forget its tokens

The browser comes back to a port of this machine, 127.0.0.1, so it has to run
here; from elsewhere forward that port. The tokens stand in a file that only you
can read, below $XDG_STATE_HOME/toolbus/logins or ~/.local/state/toolbus/logins,
hold for this very address, and are renewed when they end. TOOLBUS_PROXY_TOKEN
and `--header 'Authorization: …'` come before them."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus login", "Log in at an MCP server at an address.", _EPILOG)
    parser.add_argument(
        "address", metavar="ADDRESS", nargs="?", help="https://…, as a proxy gets it"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address to open")
    parser.add_argument(
        "--timeout", type=positive, default=300, metavar="S", help="seconds to agree in (300)"
    )
    parser.add_argument("--list", action="store_true", help="print where you are logged in")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        return _run(parser, parsed, output)

    return parser, run


def _run(parser: Parser, parsed: argparse.Namespace, output: Output) -> int:
    if parsed.list == (parsed.address is not None):
        parser.error("give an ADDRESS, or --list")
    if parsed.list:
        return _list(output, as_json=parsed.json)
    import asyncio  # noqa: PLC0415 - the list needs none of it

    from toolbus.mcp.oauth.logins import Logins, server_address, shown  # noqa: PLC0415 - as above

    address = server_address(parsed.address)
    try:
        from toolbus.mcp.client.login import log_in  # noqa: PLC0415 - the SDK is an extra
    except ImportError as error:
        raise UsageError(needs_extra("to log in needs the MCP SDK", "mcp")) from error

    def lead(place: str) -> None:
        _lead(output, place, browser=not parsed.no_browser)

    login = asyncio.run(log_in(address, lead, parsed.timeout))
    if login is None:
        output.write(f"{shown(address)} asks for no login; nothing is kept\n")
    else:
        Logins().write(login)
        output.write(f"logged in at {shown(address)}\n")
    return 0


def _lead(output: Output, place: str, *, browser: bool) -> None:
    import sys  # noqa: PLC0415 - as above
    import webbrowser  # noqa: PLC0415 - as above

    opened = browser and webbrowser.open(place)
    output.write(f"{'your browser opens' if opened else 'open'} {place}\n")
    sys.stdout.flush()


def _list(output: Output, *, as_json: bool) -> int:
    from toolbus.mcp.oauth.logins import Logins  # noqa: PLC0415 - as above

    logins = Logins().all()
    if as_json:
        logins_json = [
            {
                "address": login.server,
                "issuer": login.issuer,
                "scope": login.scope,
                "expires_at": login.expires_at,
                "renews": login.refresh_token is not None,
            }
            for login in logins
        ]
        output.write(json.dumps(logins_json, indent=2) + "\n")
        return 0
    for login in logins:
        output.write(f"{login.server}  of {login.issuer}, {_state(login)}\n")
    if not logins:
        output.write("you are logged in nowhere\n")
    return 0


def _state(login: Login) -> str:
    if login.refresh_token is not None:
        return "renewed when it ends"
    if login.expires_at is None:
        return "without an end"
    minutes = int((login.expires_at - time.time()) // 60)
    return f"ends in {minutes} min" if minutes >= 0 else "ended; log in anew"
