"""`toolbus trust`: let a project's configuration be in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser
from toolbus.terminal.person import require_person

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus trust --dry-run        only show what the nearest toolbus.toml names
  toolbus trust                  show it, and trust it
  toolbus trust work/our.toml    the same with another file
  toolbus trust --list           what is trusted, and what has changed since
  toolbus trust --revoke         trust the nearest one no more

A configuration names code, and whoever reads it runs that. So your own, in
~/.config/toolbus/toolbus.toml, is always in force, and one that a project
ships only once you trust it: it, the files it names and what they import from
beside them, byte for byte. Change one, and it is untrusted again. Nothing is
imported to find that out. A file that you name (--config, --with) needs no
trust; one that others may write gets none.

A trusted project stands behind your own configuration: its handlers come after
yours, and what is yours it cannot switch off. But its code is code: read it.

Only a person trusts, or takes it back: at a terminal, and at none in which an
agent runs. A script that sets up a machine makes one with script(1)."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser(
        "toolbus trust", "Show what a project's configuration names, and trust it.", _EPILOG
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="the nearest one, if not given")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--dry-run", action="store_true", help="show it, and store nothing")
    which.add_argument("--list", action="store_true", help="list what is trusted")
    which.add_argument("--revoke", action="store_true", help="take the trust back")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.inspect.trusting import list_trusted, revoke_trust, run_trust  # noqa: PLC0415 - loads the house

        if parsed.list:
            if parsed.file:
                parser.error("--list lists all; give it no file")
            return list_trusted(output, as_json=parsed.json)
        if not parsed.dry_run:
            require_person()
        if parsed.revoke:
            if parsed.json:
                parser.error("--revoke prints no data; leave out --json")
            return revoke_trust(output, parsed.file)
        return run_trust(output, parsed.file, dry_run=parsed.dry_run, as_json=parsed.json)

    return parser, run
