"""`toolbus proxy`: handlers in front of an MCP server."""

from __future__ import annotations

import argparse
import gc
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser

if TYPE_CHECKING:
    from toolbus.cli.parsing import Command, Parser
    from toolbus.terminal import Output

_EPILOG = """\
examples:
  toolbus proxy -- uvx mcp-server-git                       change nothing
  toolbus proxy --with policy.py -- uvx mcp-server-git      its handlers at work
  toolbus proxy --config toolbus.toml -- npx -y @scope/server .
  toolbus proxy --with policy.py:Strict --store calls.db -- ./server
  toolbus proxy --with policy.py -- https://example.com/mcp      at an address

It stands where the settings of an MCP client named the server. Calls pass
TOOL_CALL_BEFORE, results TOOL_CALL_AFTER and MESSAGE_APPEND_BEFORE, the list of
tools TOOLS_PROVIDE. Handlers are those of components, or of one bus.
It ends with the exit code of the server. A server at an address gets the bearer
token that stands in the environment as TOOLBUS_PROXY_TOKEN."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus proxy", "Stand in front of an MCP server.", _EPILOG)
    _add_arguments(parser)

    def run(found: argparse.Namespace, _output: Output) -> int:
        words = found.command[1:] if found.command[:1] == ["--"] else found.command
        if not words:
            parser.error("which server? give its command after --")
        # All that is loaded stays; `run_proxy` has the collector look again at what comes after.
        gc.disable()
        from toolbus.proxying import Options, run_proxy  # noqa: PLC0415 - loads the whole house

        options = Options(
            targets=found.targets,
            config=found.config,
            store=found.store,
            timeout=found.timeout,
            frame=found.max_frame * 2**20,
            grace=found.grace,
        )
        try:
            return run_proxy(words, options)
        finally:
            gc.enable()

    return parser, run


def _add_arguments(parser: Parser) -> None:
    parser.usage = "toolbus proxy [options] -- COMMAND [ARGUMENT ...]"
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
    parser.add_argument("--store", type=Path, metavar="FILE.db", help="keep sessions and ledgers")
    parser.add_argument(
        "--timeout", type=_seconds, metavar="S", help="seconds a tool call may take (no limit)"
    )
    parser.add_argument(
        "--grace", type=_seconds, default=5.0, metavar="S", help="seconds a server has to end (5)"
    )
    parser.add_argument(
        "--max-frame", type=_megabytes, default=256, metavar="MB", help="longest frame (256)"
    )


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0
    if not (isfinite(found) and found > 0):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, not {text!r}")
    return found


def _megabytes(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a whole number of megabytes, not {text!r}")
    return int(text)
