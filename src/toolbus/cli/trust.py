"""`toolbus trust`: let a project's configuration be in force."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.cli.handlers import (
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
from toolbus.config.trust import judge, read_trusted, revoke, trust
from toolbus.errors import ConfigurationError, LoadError
from toolbus.messages.records import encode
from toolbus.presence.person import require_person
from toolbus.settings.spans import Span, Style

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command

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

_DIGITS = 16
"""Of a digest, for a person's eye; all of them are compared."""


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


class TrustReport(Struct, frozen=True, kw_only=True):
    """What the configuration *file* names; *digests* are SHA-256 in hex, by real paths.

    *servers* are the commands and addresses of MCP servers that `toolbus run` opens, by name.
    """

    file: str
    trusted: bool
    components: tuple[ComponentSummary, ...]
    servers: dict[str, str]
    digests: dict[str, str]


class TrustState(Struct, frozen=True, kw_only=True):
    """Whether the configuration *file*, which was trusted, still is; *reason* says why not."""

    file: str
    trusted: bool
    reason: str = ""


def run_trust(
    output: Output, file: str | None, *, dry_run: bool = False, as_json: bool = False
) -> int:
    """Print what *file*, else the nearest configuration, names, and trust it; return 0.

    With *dry_run* nothing is stored. Nothing of it is imported. Raises `LoadError`.
    """
    snapshot = take_snapshot(_chosen(file))
    components = summarize(read_entries(snapshot.document))
    servers = {
        entry.name: entry.url or shlex.join(entry.command)
        for entry in read_servers(snapshot.document)
    }
    if not dry_run:
        trust(snapshot)
    path = snapshot.document.file
    is_trusted = not dry_run or read_trusted().get(str(path)) == snapshot.digests
    if as_json:
        report = TrustReport(
            file=str(path),
            trusted=is_trusted,
            components=components,
            servers=servers,
            digests=snapshot.digests,
        )
        output.write(f"{encode(report).decode()}\n")
        return 0
    screen = open_screen(output)
    screen.whole(str(path), style="strong")
    if components:
        show_components(components, screen)
    if servers:
        screen.line()
        screen.line(Span("MCP servers that `toolbus run` opens", "strong"))
        for name, address in servers.items():
            screen.whole(f"{name}: {address}", indent=2)
    screen.line()
    screen.line(Span("files", "strong"), right=[Span("SHA-256", "dim")])
    for name, digest in snapshot.digests.items():
        screen.whole(f"{digest[:_DIGITS]}  {short_place(name)}", indent=2)
    screen.line()
    files = "1 file" if len(snapshot.digests) == 1 else f"these {len(snapshot.digests)} files"
    text = f"trusted, until something changes in {files}" if is_trusted else "not trusted"
    screen.line(Span(f"✓ {text}" if is_trusted else text, "good" if is_trusted else "bad"))
    return 0


def list_trusted(output: Output, *, as_json: bool = False) -> int:
    """Print each configuration that was trusted, and whether it still is; return 0."""
    states = tuple([_state(file) for file in sorted(read_trusted())])
    if as_json:
        output.write(f"{encode(states).decode()}\n")
        return 0
    screen = open_screen(output)
    if not states:
        screen.line("nothing is trusted")
    for state in states:
        style: Style = "good" if state.trusted else "bad"
        screen.whole(state.file, style="strong")
        screen.prose("trusted" if state.trusted else f"not: {state.reason}", indent=2, style=style)
    return 0


def revoke_trust(output: Output, file: str | None) -> int:
    """Take back the trust in *file*, else in the nearest configuration; return 0, 1 without any."""
    chosen = _chosen(file)
    path, is_revoked = os.path.realpath(chosen), revoke(chosen)
    text = "is not trusted any more" if is_revoked else "was not trusted"
    open_screen(output).whole(f"{path} {text}")
    return 0 if is_revoked else 1


def _chosen(file: str | None) -> Path:
    path = find() if file is None else Path(file).expanduser()
    if path is None:
        raise LoadError("there is no toolbus.toml here or above in this project; name a file")
    return path


def _state(file: str) -> TrustState:
    try:
        snapshot, changed = judge(file)
    except ConfigurationError as error:
        return TrustState(file=file, trusted=False, reason=error.reason)
    reason = "" if snapshot is not None else f"{', '.join(changed or ())} changed"
    return TrustState(file=file, trusted=snapshot is not None, reason=reason)
