"""`toolbus explain`: the life of a message or a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser
from toolbus.cli.store_names import store_address

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus explain agent.db 8c01                  the message whose id begins so
  toolbus explain agent.db --call call-1         a tool call
  toolbus explain agent.db --call call-1 --session 3f9a   of one of several
  toolbus explain hooks --call claude-code:3f9a/t1    of a coding agent
  toolbus explain agent.db 8c01 --json | jq .call         one JSON document

`toolbus show` prints the ids. Differences are shown field by field if the
session keeps originals, by digests and sizes if not. The file is only read."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser(
        "toolbus explain", "Tell the life of a message or call, and who changed it.", _EPILOG
    )
    parser.add_argument(
        "database", metavar="STORE", help="its file, postgresql://…, service=NAME or hooks"
    )
    parser.add_argument("message", metavar="MESSAGE_ID", nargs="?", help="or how that begins")
    parser.add_argument("--call", metavar="CALL_ID", help="explain a tool call instead")
    parser.add_argument("--session", metavar="SESSION", help="look in this session only")
    parser.add_argument("--json", action="store_true", help="write one JSON document")
    parser.add_argument("--no-pager", action="store_true", help="write all at once")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.inspect.explaining import explain  # noqa: PLC0415 - loads half of the house

        return explain(
            output,
            store_address(parsed.database),
            parsed.message,
            call=parsed.call,
            session=parsed.session,
            as_json=parsed.json,
            pager=not parsed.no_pager,
        )

    return parser, run
