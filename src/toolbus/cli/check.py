"""`toolbus check`: the damage of a store, its recovery, and the check of its chains."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.cli.options import KEY_HELP, STORE_HELP, store_address, store_key
from toolbus.cli.output.blocks import count_things, print_json
from toolbus.cli.output.screen import Screen, open_screen
from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.cli.parser import make_parser
from toolbus.errors import WrongPathError
from toolbus.history.descriptions import utc_time
from toolbus.settings.spans import Span
from toolbus.store.check.anchors import AnchorList, read_anchors
from toolbus.store.check.chain_check import SessionChain, check_chains, read_heads
from toolbus.store.check.recovery import recover
from toolbus.store.check.session_check import check_file, check_reader
from toolbus.store.store_factory import is_postgres, open_reader

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from toolbus.cli.parser import Command
    from toolbus.store.check.session_check import CheckReport, ProgressCallback, SessionState

_EPILOG = """\
examples:
  toolbus check sessions.db                     its content and damage
  toolbus check                                 the store of the hooks
  toolbus check sessions.db --recover new.db    its readable part, to new.db
  toolbus check sessions.db --json | jq .problems    one JSON document
  toolbus check sessions.db --chain             changed and removed records
  toolbus check sessions.db --chain --anchor list.jsonl   of `toolbus anchor`

The file is never changed. Exit codes: 0 no problems, 1 damage, a chain or list
that does not fit, or a call with a second or misplaced answer, 2 not a store, a
store of a newer toolbus, or no such list.

The content of a cut file or a destroyed page is lost, with everything that is
reachable only from there; a file without its head cannot be read. So keep
copies:
  sqlite3 sessions.db ".backup copy.db\""""

_MAX_PROBLEMS = 20
"""The problems that a person reads; --json has all."""


class ChainReport(Struct, frozen=True, kw_only=True):
    """The chains of a store's sessions; *is_whole* without problems."""

    path: str
    is_whole: bool
    notes: tuple[str, ...]
    problems: tuple[str, ...]
    sessions: tuple[SessionChain, ...]


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus check", "Check a store for damage, and recover it.", _EPILOG)
    parser.add_argument("store", metavar="STORE", nargs="?", help=STORE_HELP)
    parser.add_argument("--recover", metavar="NEW.db", help="write the readable part to a new file")
    parser.add_argument("--chain", action="store_true", help="check the chains of sessions instead")
    parser.add_argument("--anchor", metavar="FILE", help="with --chain: a list of `toolbus anchor`")
    parser.add_argument("--key", metavar="KEY", help=f"the key of the list: {KEY_HELP}")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.anchor is not None and not parsed.chain:
            parser.error("--anchor needs --chain")
        if parsed.chain and parsed.recover is not None:
            parser.error("--recover writes new chains; leave out --chain")
        with ProgressLine(Output(sys.stderr)) as line:

            def progress(done: int, total: int) -> None:
                line.show(f"{total:,} messages and records", done / total)

            where = store_address(parsed.store)
            report: CheckReport | ChainReport
            if parsed.chain:
                report = _chain_report(where, parsed.anchor, parsed.key, progress)
            else:
                report = _report(where, parsed.recover, progress)
        if parsed.json:
            print_json(output, report)
        elif isinstance(report, ChainReport):
            _show_chains(report, open_screen(output))
        else:
            _show(report, open_screen(output))
        return 0 if report.is_whole else 1

    return parser, run


def _report(where: str, new: str | None, progress: ProgressCallback) -> CheckReport:
    if not is_postgres(where):
        return recover(where, new, progress) if new is not None else check_file(where, progress)
    if new is not None:
        reason = "--recover needs a file; `toolbus copy` copies whole sessions"
        raise WrongPathError(where, reason)
    with open_reader(where, live=True) as reader:
        return check_reader(where, reader, progress)


def _chain_report(
    where: str, file: str | None, key: str | None, progress: ProgressCallback
) -> ChainReport:
    # The list is read first: a head that is anchored meanwhile would be missing.
    anchors = AnchorList(b"")
    if file is not None:
        anchors = read_anchors(Path(file), store_key(key, make=False))
    with open_reader(where, live=True) as reader:
        chains = tuple(check_chains(reader, progress, anchors.seen))
        forgotten = {name: time_ns for name, _, time_ns in read_heads(reader, forgotten=True)}
    problems = [
        f"session {chain.session_id!r}: {each}" for chain in chains for each in chain.breaks
    ]
    sessions = {chain.name: chain.session_id for chain in chains if chain.name}
    problems += [f"{file}: {finding}" for finding in anchors.findings(sessions, forgotten)]
    return ChainReport(
        path=where,
        is_whole=not problems,
        notes=tuple(_chain_notes(chains, forgotten, anchors)),
        problems=tuple(problems),
        sessions=chains,
    )


def _chain_notes(
    chains: Sequence[SessionChain], forgotten: dict[bytes, int], anchors: AnchorList
) -> Iterator[str]:
    older = [chain for chain in chains if chain.unchained]
    if anchors.lines:
        moment = anchors.newest.time.replace("T", " ").replace("+00:00", " UTC")
        newest = f"the last one of {moment}, signature {anchors.signature}"
        yield f"{count_things(anchors.lines, 'anchored line')}, {newest}"
    if forgotten:
        moment = utc_time(max(forgotten.values()))
        yield f"{count_things(len(forgotten), 'session')} forgotten, the last one on {moment} UTC"
    if anchors.lines and (since := forgotten.keys() - anchors.forgotten):
        yield f"{count_things(len(since), 'session')} forgotten since the last line"
    if older:
        why = "an older toolbus wrote them, or their links were removed"
        yield f"{count_things(len(older), 'session')} with records before the chain: {why}"


def _show_chains(report: ChainReport, screen: Screen) -> None:
    sessions = count_things(len(report.sessions), "session")
    screen.line(Span(report.path, "strong"), right=[Span(sessions, "dim")])
    _show_notes(report.notes, screen)
    _show_problems(report.problems, screen)
    if report.is_whole:
        screen.line(Span("✓ ", "good"), "all chains fit")


def _show_notes(notes: Sequence[str], screen: Screen) -> None:
    for note in notes:
        screen.prose(f"note: {note}", style="dim")


def _show_problems(problems: Sequence[str], screen: Screen) -> None:
    for problem in problems[:_MAX_PROBLEMS]:
        screen.prose(f"✗ {problem}", style="bad")
    if (rest := len(problems) - _MAX_PROBLEMS) > 0:
        note = f"  and {count_things(rest, 'more problem')}; see them with --json"
        screen.line(Span(note, "dim"))


def _show(report: CheckReport, screen: Screen) -> None:
    pages = f"{count_things(report.pages, 'page')}, " if report.pages else ""
    facts = f"version {report.version}, {pages}{report.bytes:,} bytes"
    screen.line(Span(report.path, "strong"), right=[Span(facts, "dim")])
    listed = [each for each in report.sessions if each.messages or each.records or each.lost]
    if listed:
        screen.table([_row(state) for state in listed], indent=2, numbers=True)
    _show_notes(report.notes, screen)
    _show_problems(report.problems, screen)
    _show_verdict(report, screen)


def _row(state: SessionState) -> list[Span | str]:
    lost = {"message": 0, "record": 0}
    for rows in state.lost:
        lost[rows.kind] += rows.count
    open_ends = [
        count_things(number, f"{what} without {other}", f"{what}s without {other}")
        for number, what, other in (
            (state.unanswered, "call", "result"),
            (state.unasked, "result", "call"),
        )
        if number
    ]
    return [
        state.id,
        count_things(state.messages, "message"),
        count_things(state.records, "record"),
        count_things(state.states, "state") if state.states else "",
        Span(", ".join([f"{count_things(n, kind)} lost" for kind, n in lost.items() if n]), "bad"),
        Span(", ".join(open_ends), "dim"),
    ]


def _show_verdict(report: CheckReport, screen: Screen) -> None:
    if report.is_whole:
        screen.line(Span("✓ ", "good"), "no damage found")
    elif not report.sessions:
        screen.line(Span("✗ ", "bad"), "nothing is readable; restore it from a copy")
    elif is_postgres(report.path):
        screen.line(Span("✗ ", "bad"), "damaged; copy the sessions that are whole:")
        screen.command("toolbus", "copy", report.path, "NEW.db")
    elif report.recovered is None:
        screen.line(Span("✗ ", "bad"), "damaged; write the readable part to a new file:")
        screen.command("toolbus", "check", report.path, "--recover", "NEW.db")
    if report.saved is not None:
        kinds = ("session", "message", "record", "original", "state")
        saved = [count_things(getattr(report.saved, f"{kind}s"), kind) for kind in kinds]
        screen.whole(f"{', '.join(saved)} were written to {report.recovered}")
