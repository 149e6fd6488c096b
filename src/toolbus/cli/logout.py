"""`toolbus logout`: forget the tokens of an MCP server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from toolbus.cli.parser import make_parser

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command

_EPILOG = """\
examples:
  toolbus logout https://example.com/mcp     forget its tokens
  toolbus logout "$SERVER" --json            say in JSON whether there were any
  toolbus login --list                       where you are logged in
  toolbus logout http://127.0.0.1:8000/mcp   one on this machine

The file with the tokens is deleted. The server is not told: until they end they
hold for whoever has a copy; it may have a page on which you can take them back."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus logout", "Forget the tokens of an MCP server.", _EPILOG)
    parser.add_argument("address", metavar="ADDRESS", help="as `toolbus login --list` prints it")

    parser.add_argument("--json", action="store_true", help="print what was done as JSON")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.mcp.oauth.logins import Logins, server_address, shown  # noqa: PLC0415 - for few

        address = server_address(parsed.address)
        removed = Logins().remove(address)
        if parsed.json:
            output.write(json.dumps({"address": address, "removed": removed}) + "\n")
        else:
            done = "logged out of" if removed else "you are not logged in at"
            output.write(f"{done} {shown(address)}\n")
        return 0 if removed else 1

    return parser, run
