"""`toolbus logout`: deletion of the tokens of a remote MCP server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.output.blocks import print_json
from toolbus.cli.parser import make_parser
from toolbus.mcp.oauth.logins import Logins, display_url, server_url

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command

_EPILOG = """\
examples:
  toolbus logout https://example.com/mcp     delete its tokens
  toolbus logout http://127.0.0.1:8000/mcp   of a server on this machine
  toolbus logout "$SERVER" --json            for programs
  toolbus login --list                       your logins

The server is not told: until the tokens expire, any copy of them works. Its
website may have a page to revoke them.

exit codes: 0 deleted; 1 there were none; 2 usage error"""


def command() -> Command:
    """Return the parser and the function of this command."""
    parser = make_parser("toolbus logout", "Delete the tokens of a remote MCP server.", _EPILOG)
    parser.add_argument("address", metavar="URL", help="as `toolbus login --list` prints it")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        address = server_url(parsed.address)
        removed = Logins().remove(address)
        if parsed.json:
            print_json(output, {"address": address, "removed": removed})
        else:
            done = "logged out of" if removed else "you are not logged in at"
            output.write(f"{done} {display_url(address)}\n")
        return 0 if removed else 1

    return parser, run
