"""`toolbus diff`: the differences of two sessions, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.options import STORE_HELP, is_store, store_address
from toolbus.cli.output.blocks import count_things, print_json, write_difference
from toolbus.cli.output.pager import paged
from toolbus.cli.output.screen import open_screen
from toolbus.cli.parser import make_parser
from toolbus.history.lookup import find_session
from toolbus.history.session_differences import compare_sessions
from toolbus.history.session_figures import compare_figures
from toolbus.history.timeline import join_parts, read_parts
from toolbus.history.value_texts import json_text
from toolbus.redaction.placeholders import evened
from toolbus.settings.spans import Span
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.history.session_differences import SessionComparison, StepPair
    from toolbus.history.timeline import Timeline

_EPILOG = """\
examples:
  toolbus diff agent.db 3f9a 8c01             two sessions of a store
  toolbus diff claude-code:3f9a codex:17      two sessions of coding agents
  toolbus diff old.db 3f9a 3f9a --other new.db  one id in two stores
  toolbus diff agent.db 3f9a 8c01 --json | jq .counts   one JSON document

A step is a message with text, or a call. Equal steps are aligned in order, then
calls of one tool, and messages of one role, between them: "-" is a step of the
first session only, "+" of the second, and "~" a step of both that differs. Its
fields stand below: arguments, verdict (status, reason, handlers) and result.
Placeholders of hidden values count as equal. Stores are only read.
Exit codes: 0 no step differs, though tokens and times may, 1 a step differs, or
a store is unreadable, 2 usage error."""

_MAX_FIELDS = 8
_SIGNS = {"first": Span("-", "bad"), "second": Span("+", "good"), "changed": Span("~", "changed")}


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus diff", "Compare two sessions step by step.", _EPILOG)
    parser.add_argument("store", metavar="STORE", nargs="?", help=STORE_HELP)
    parser.add_argument("first", metavar="SESSION", help="the first: its id, or the beginning")
    parser.add_argument("second", metavar="SESSION", help="the second")
    parser.add_argument("--other", metavar="STORE", help="the store of the second session")
    parser.add_argument("--json", action="store_true", help="write one JSON document")
    parser.add_argument("--no-pager", action="store_true", help="do not page the output")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.store is None and is_store(parsed.first):
            parser.error(f"two sessions of {parsed.first!r} are expected")
        other = parsed.store if parsed.other is None else parsed.other
        first, second = _timeline(parsed.store, parsed.first), _timeline(other, parsed.second)
        comparison = compare_sessions(first, second, evened)
        if parsed.json:
            print_json(output, comparison)
        else:
            with paged(output, wanted=not parsed.no_pager) as through:
                _write(open_screen(through), comparison)
        return 0 if comparison.is_same else 1

    return parser, run


def _timeline(store: str | None, session: str) -> Timeline:
    with open_reader(store_address(store), live=True) as reader:
        return join_parts(read_parts(reader, find_session(reader, session)))


def _write(screen: Screen, comparison: SessionComparison) -> None:
    screen.line(Span("- ", "bad"), "session ", Span(comparison.first.id, "strong"))
    screen.line(Span("+ ", "good"), "session ", Span(comparison.second.id, "strong"))
    screen.line()
    rows = [("", "-", "+"), *compare_figures(comparison.first, comparison.second)]
    screen.table(rows, indent=2, numbers=True)
    screen.line()
    equal = 0
    for pair in comparison.pairs:
        if pair.outcome == "same":
            equal += 1
            continue
        _write_equal(screen, equal)
        _write_pair(screen, pair)
        equal = 0
    if comparison.is_same:
        screen.line(Span("no step differs", "good"))
    else:
        _write_equal(screen, equal)


def _write_equal(screen: Screen, count: int) -> None:
    if count:
        screen.line(Span(f"  {count_things(count, 'equal step')}", "dim"))


def _write_pair(screen: Screen, pair: StepPair) -> None:
    """Write the line of a step that differs, and below it the fields."""
    step = pair.first or pair.second
    if step is None:
        return
    subject = "call" if step.kind == "call" else f"{step.kind} message"
    words: list[Span | str] = [_SIGNS[pair.outcome], f" {subject} "]
    if pair.outcome == "changed":
        ids = dict.fromkeys([each.id for each in (pair.first, pair.second) if each])
        words += [Span(step.facts["tool"], "strong"), " "] if step.kind == "call" else []
        screen.line(*words, ", ".join(pair.aspects), right=[Span(" → ".join(ids), "dim")])
    elif step.kind == "call":
        arguments = json_text(step.facts.get("arguments", {}))
        words += [Span(step.facts["tool"], "strong"), f" {arguments}"]
        screen.line(*words, right=[Span(step.facts["status"], "dim")])
    else:
        screen.line(*words, " ".join(map(str, step.facts.values())), right=[Span(step.id, "dim")])
    for difference in pair.differences[:_MAX_FIELDS]:
        write_difference(screen, difference, indent=4)
    if (remaining := len(pair.differences) - _MAX_FIELDS) > 0:
        screen.line(Span(f"… and {remaining} more fields", "dim"), indent=4)
