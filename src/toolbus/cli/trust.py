"""`toolbus trust`: trust in the configurations of projects, and its end."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.cli.output.blocks import count_things, print_json
from toolbus.cli.output.component_list import (
    ComponentSummary,
    short_place,
    show_components,
    summarize,
)
from toolbus.cli.output.screen import open_screen
from toolbus.cli.parser import make_parser
from toolbus.config.documents import find
from toolbus.config.entries import read_entries
from toolbus.config.servers import read_servers
from toolbus.config.snapshots import take_snapshot
from toolbus.config.trust import check_trust, read_trusted, revoke, trust
from toolbus.errors import ConfigurationError, LoadError
from toolbus.presence.person import require_person
from toolbus.settings.spans import Span, Style

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.config.servers import ServerEntry

_EPILOG = """\
examples:
  toolbus trust --dry-run        show the components of the nearest toolbus.toml
  toolbus trust                  show them, and trust the file
  toolbus trust work/our.toml    the same with another file
  toolbus trust --list           all trusted files, and changes since
  toolbus trust --revoke         stop trusting the nearest file

A configuration names code, and loading it runs that code. Your own,
~/.config/toolbus/toolbus.toml, is always active. A project's is active only
while you trust it: this file, the files it names and their local imports, byte
for byte; nothing is imported to check them. A file named by --config or --with
needs no trust. A file that other users can write is never trusted.

Handlers of a trusted project run after yours and cannot switch them off. But
its code is code: read it first.

Only a person at a terminal in which no agent runs trusts or revokes.

exit codes: 0 done; 1 nothing to revoke; 2 usage error"""

_DIGITS = 16
"""Digits of a digest that a person sees; all are compared."""


class TrustReport(Struct, frozen=True, kw_only=True):
    """The contents of the configuration *file*; *digests* are SHA-256 in hex, by real paths.

    *servers* are the commands and URLs of the MCP servers that `toolbus run` opens, by name, with
    their variables and headers.
    """

    file: str
    trusted: bool
    components: tuple[ComponentSummary, ...]
    servers: dict[str, str]
    digests: dict[str, str]


class TrustState(Struct, frozen=True, kw_only=True):
    """Whether a configuration *file* is still trusted; *reason* says why not."""

    file: str
    trusted: bool
    reason: str = ""


def command() -> Command:
    """Return the parser and the function of this command."""
    summary = "Show the components of a project's configuration, and trust it."
    parser = make_parser("toolbus trust", summary, _EPILOG)
    parser.add_argument("file", metavar="FILE", nargs="?", help="by default the nearest one")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--dry-run", action="store_true", help="show it, and store nothing")
    which.add_argument("--list", action="store_true", help="list the trusted files")
    which.add_argument("--revoke", action="store_true", help="stop trusting the file")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.list:
            if parsed.file:
                parser.error("--list lists all files; leave out FILE")
            return _list(output, as_json=parsed.json)
        if not parsed.dry_run:
            require_person()
        path = _chosen(parsed.file)
        if parsed.revoke:
            return _revoke(output, path, as_json=parsed.json)
        return _trust(output, path, dry_run=parsed.dry_run, as_json=parsed.json)

    return parser, run


def _chosen(file: str | None) -> Path:
    path = find() if file is None else Path(file).expanduser()
    if path is None:
        raise LoadError("there is no toolbus.toml here or above in this project; name a file")
    return path


def _trust(output: Output, path: Path, *, dry_run: bool, as_json: bool) -> int:
    """Show the configuration *path* and, unless *dry_run*, trust it, without importing it."""
    snapshot = take_snapshot(path)
    # A file that could not be active is not trusted.
    entries = read_entries(snapshot.document, is_project=True)
    if not dry_run:
        trust(snapshot)
    file = str(snapshot.document.file)
    report = TrustReport(
        file=file,
        trusted=not dry_run or read_trusted().get(file) == snapshot.digests,
        components=summarize(entries),
        servers={entry.name: _summary(entry) for entry in read_servers(snapshot.document)},
        digests=snapshot.digests,
    )
    if as_json:
        print_json(output, report)
    else:
        _show(report, open_screen(output))
    return 0


def _summary(entry: ServerEntry) -> str:
    """Return the command of *entry* behind its variables, or its URL before its headers.

    The resources that it claims follow.
    """
    claims = f" (claims {shlex.join(entry.resources)})" if entry.resources else ""
    if entry.url:
        words = [entry.url, *map(shlex.quote, map(": ".join, entry.headers.items()))]
        return " ".join(words) + claims
    return shlex.join([*map("=".join, entry.env.items()), *entry.command]) + claims


def _show(report: TrustReport, screen: Screen) -> None:
    screen.whole(report.file, style="strong")
    if report.components:
        show_components(report.components, screen)
    if report.servers:
        screen.line()
        screen.line(Span("MCP servers that `toolbus run` opens", "strong"))
        for name, address in report.servers.items():
            screen.whole(f"{name}: {address}", indent=2)
    screen.line()
    screen.line(Span("files", "strong"), right=[Span("SHA-256", "dim")])
    for name, digest in report.digests.items():
        screen.whole(f"{digest[:_DIGITS]}  {short_place(name)}", indent=2)
    screen.line()
    if report.trusted:
        files = count_things(len(report.digests), "file")
        screen.line(Span(f"✓ trusted, until one of {files} changes", "good"))
    else:
        screen.line(Span("not trusted", "bad"))


def _list(output: Output, *, as_json: bool) -> int:
    """Print each configuration that was trusted, and whether it still is."""
    states = [_state(file) for file in sorted(read_trusted())]
    if as_json:
        print_json(output, states)
        return 0
    screen = open_screen(output)
    if not states:
        screen.line("no file is trusted")
    for state in states:
        style: Style = "good" if state.trusted else "bad"
        screen.whole(state.file, style="strong")
        text = "trusted" if state.trusted else f"not trusted: {state.reason}"
        screen.prose(text, indent=2, style=style)
    return 0


def _state(file: str) -> TrustState:
    try:
        snapshot, changed = check_trust(file)
    except ConfigurationError as error:
        return TrustState(file=file, trusted=False, reason=error.reason)
    reason = "" if snapshot is not None else f"{', '.join(changed or ())} changed"
    return TrustState(file=file, trusted=snapshot is not None, reason=reason)


def _revoke(output: Output, path: Path, *, as_json: bool) -> int:
    """Stop trusting *path*; return 1 if it was not trusted."""
    file, is_revoked = os.path.realpath(path), revoke(path)
    if as_json:
        print_json(output, TrustState(file=file, trusted=False))
    else:
        text = "is no longer trusted" if is_revoked else "was not trusted"
        open_screen(output).whole(f"{file} {text}")
    return 0 if is_revoked else 1
