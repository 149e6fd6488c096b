"""`toolbus hosts`: install our hooks in coding agents, and take them out again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toolbus.cli.output.stream import Output
from toolbus.cli.parser import Parser, add_action, make_parser
from toolbus.presence.person import require_person

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parser import Command

_EPILOG = """\
hosts:
  claude-code, codex, copilot, gemini-cli, vibe, opencode, pi,
  cursor (untried: its documentation was read, and it was not run)

of install and uninstall:
  --user                the configuration of yours in all projects (default)
  --project             that of yours in this project
  --yes                 ask nobody
  --dry-run             show it, and write nothing
of install:
  --config FILE         judge by FILE, instead of by what is in force
of all three:
  --json                write one JSON document

examples:
  toolbus hosts install claude-code              shows what it writes, and asks;
                                                 v shows every line of it
  toolbus hosts install codex gemini-cli --dry-run
  toolbus hosts install pi --project --yes
  toolbus hosts status                           what is installed, and whether
                                                 it is whole
  toolbus hosts uninstall claude-code
  toolbus doctor                                 whether it works, here

What stands in a host's file stays there, with its comments and its layout; run
twice, it writes nothing; and `uninstall` takes out what is ours, byte for byte.
What is ours is known by its command; of your files no copy is kept. A file of
yours may be a symlink, and what it leads to is edited; in a project a symlink
is refused.

It ends with 1 if nothing is judged by the hooks: no configuration is in force,
or it names no component that judges. `toolbus setup` writes one. Your own that
was in force when hooks were installed has to stay: once it is empty or gone,
every event is stopped, until it is back or the hooks are installed again.

Only a person installs them, or takes them out: at a terminal, and at none in
which an agent runs. A script that sets up a machine makes one with script(1).

The hooks run the Python that runs this command. When that, or the package, is
gone, they stop every call: so take them out before you uninstall toolbus, and
after an upgrade install them again. By hand: delete what names a hook.py of
toolbus in the host's file of hooks; of Vibe and of Codex's config.toml what
stands between the marks `# >>> toolbus` and `# <<< toolbus`; of OpenCode and
pi the file toolbus.js or toolbus.ts."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser(
        "toolbus hosts", "Install hooks in coding agents, and take them out again.", _EPILOG
    )
    actions = parser.add_subparsers(
        dest="action", metavar="install|uninstall|status", required=True, parser_class=Parser
    )
    install = add_action(actions, "install", "write our hooks into a host's configuration")
    _add_writing(install)
    install.add_argument("--config", metavar="FILE", help="the configuration that counts")
    _add_writing(add_action(actions, "uninstall", "take our hooks out again"))
    status = add_action(actions, "status", "say what is installed")
    status.add_argument("hosts", metavar="HOST", nargs="*", help="all of them, if none is given")
    status.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.hosts.install import pages  # noqa: PLC0415 - loads half of the house
        from toolbus.hosts.install.host_files import host_files  # noqa: PLC0415 - as above

        if parsed.action == "status":
            return pages.show_status(output, parsed.hosts, as_json=parsed.json)
        options = pages.InstallOptions(
            hosts=tuple(parsed.hosts),
            project=parsed.project,
            config=getattr(parsed, "config", None),
            yes=parsed.yes,
            dry_run=parsed.dry_run,
            as_json=parsed.json,
        )
        for host in parsed.hosts:
            host_files(host)  # A misspelt name is told before a missing terminal.
        if not parsed.dry_run:
            require_person()
        errors = Output(sys.stderr)
        if parsed.action == "install":
            return pages.run_install(output, errors, options)
        return pages.run_uninstall(output, errors, options)

    return parser, run


def _add_writing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hosts", metavar="HOST", nargs="+", help="claude-code, codex, pi, …")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for you, in all projects (default)")
    where.add_argument("--project", action="store_true", help="for you, in this project")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--yes", action="store_true", help="ask nobody")
    how.add_argument("--dry-run", action="store_true", help="show it, and write nothing")
    parser.add_argument("--json", action="store_true", help="write one JSON document")
