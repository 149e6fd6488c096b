"""`toolbus explain`: the history of one message or call, with every handler's effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.options import STORE_HELP, is_store, store_address
from toolbus.cli.output.blocks import (
    describe_call,
    print_json,
    without_quoted,
    write_calls,
    write_differences,
    write_invocation,
    write_text,
    write_value,
)
from toolbus.cli.output.pager import paged
from toolbus.cli.output.screen import open_screen
from toolbus.cli.parser import make_parser
from toolbus.history.descriptions import describe_change, describe_priority
from toolbus.history.durations import duration_of
from toolbus.history.lookup import find_match, find_session
from toolbus.history.message_history import NEVER_RAN, history_of, is_same_call
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.history.message_history import (
        CallHistory,
        DispatchView,
        HandlerView,
        MessageHistory,
        ValueView,
    )
    from toolbus.messages.records import ToolCall
    from toolbus.store.sql_reader import IdKind

_EPILOG = """\
examples:
  toolbus explain agent.db 8c01                  the message whose id begins so
  toolbus explain agent.db --call call-1         a tool call
  toolbus explain agent.db --call call-1 --session 3f9a   one of several
  toolbus explain --call claude-code:3f9a/t1     a call of a coding agent
  toolbus explain agent.db 8c01 --json | jq .call         one JSON document
  toolbus explain agent.db --sources call-1      whose words a call has

`toolbus show` prints the ids. Differences are printed field by field if the
session keeps originals, else as digests and sizes. The file is only read.
Sources are found in the stored texts, in which values may be hidden. Texts
without a stored label get one by your component `flow`, or its defaults."""

_ROOMY = 70
"""The least width of a line with a handler's kind and priority."""


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser(
        "toolbus explain", "Print the history of a message or call, handler by handler.", _EPILOG
    )
    parser.add_argument("store", metavar="STORE", nargs="?", help=STORE_HELP)
    parser.add_argument("message", metavar="MESSAGE_ID", nargs="?", help="its id, or the beginning")
    parser.add_argument("--call", metavar="CALL_ID", help="explain a tool call instead")
    parser.add_argument(
        "--sources", metavar="CALL_ID", help="print the texts in view of a call, and its quotes"
    )
    parser.add_argument(
        "--with", dest="target", metavar="FILE", help="the labels' settings; default: yours here"
    )
    parser.add_argument("--session", metavar="SESSION", help="search only this session")
    parser.add_argument("--json", action="store_true", help="write one JSON document")
    parser.add_argument("--no-pager", action="store_true", help="do not page the output")

    return parser, _run


def _run(parsed: argparse.Namespace, output: Output) -> int:
    store, message = _place(parsed)
    with open_reader(store_address(store)) as reader:
        session = None if parsed.session is None else find_session(reader, parsed.session)
        if parsed.sources is not None:
            # Its modules take time to import.
            from toolbus.cli.explain_sources import explain_sources  # noqa: PLC0415

            explain_sources(reader, session, parsed, output)
        else:
            kind: IdKind = "call" if message is None else "message"
            match = find_match(reader, kind, message or parsed.call, session)
            _explain(history_of(reader, match), parsed, output)
    return 0


def _place(parsed: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return the store and the message of a command; raises `UsageError` unless it has one id."""
    store, message = parsed.store, parsed.message
    if message is None and store is not None and not is_store(store):
        store, message = None, store
    if [message, parsed.call, parsed.sources].count(None) != 2:  # noqa: PLR2004 - of three
        raise UsageError("give one message id, or `--call` or `--sources` and the id of a call")
    if parsed.target is not None and parsed.sources is None:
        raise UsageError("`--with` is for `--sources`, whose labels may come from it")
    return store, message


def _explain(history: MessageHistory, parsed: argparse.Namespace, output: Output) -> None:
    if parsed.json:
        print_json(output, history)
        return
    with paged(output, wanted=not parsed.no_pager) as through:
        HistoryWriter(open_screen(through)).write(history)


class HistoryWriter:
    """The text of a history on *screen*."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def write(self, history: MessageHistory) -> None:
        """Write all parts, from the request of the call to the text that the model read."""
        self._head(history)
        if history.call:
            self._call(history.call)
        for dispatch in history.dispatches:
            self._dispatch(dispatch)
        if history.returned or (history.call and history.call.ran):
            self._section("as the tool answered" if history.call else "as it came")
            self._value(history, history.returned, "as the model read it")
        self._section("as it was stored")
        self._stored(history)
        self._section("as the model read it")
        self._value(history, history.read, "as it was stored")
        if history.read:
            self._screen.prose("a resumed session reads the stored version", indent=2)
        for dispatch in history.requests:
            self._dispatch(dispatch)
        for damage in history.damage:
            self._screen.prose(f"! {damage}", style="bad")

    def _head(self, history: MessageHistory) -> None:
        title = "call" if history.call else "refused message"
        title = f"{history.role} message" if history.role else title
        where = f"session {history.session}" + (f", message {history.seq}" if history.seq else "")
        self._screen.line(f"{title} ", Span(history.id, "strong"), right=[Span(where, "dim")])

    def _call(self, call: CallHistory) -> None:
        took = [Span(duration_of(call.duration_ns), "dim")] if call.duration_ns else []
        status = call.status or "no answer"
        style = Span(status, "good" if status == "ok" else "bad")
        self._screen.line(f"answers call {call.id}: ", style, right=took)
        self._section("as the model asked")
        self._requested(call.asked, f"in message {call.asked_in}" if call.asked_in else "")
        self._section("as it ran")
        if call.ran is None:
            text = "it did not run" if call.status in NEVER_RAN else "not known"
            self._screen.line(text, indent=2)
        elif call.asked and is_same_call(call.asked, call.ran):
            self._screen.line("as the model asked", indent=2)
        else:
            self._requested(call.ran, "")

    def _requested(self, call: ToolCall | None, where: str) -> None:
        if call is None:
            text = "not in a message: a call inside another call, or of a program"
            self._screen.line(text, indent=2)
            return
        right = [Span(where, "dim")] if where else []
        self._screen.line(*describe_call(call), right=right, indent=2)

    def _dispatch(self, dispatch: DispatchView) -> None:
        is_note = dispatch.outcome == "observed" and dispatch.reason is not None
        if not (dispatch.handlers or is_note):
            return
        took = "" if is_note else f"all {duration_of(dispatch.duration_ns)}"
        self._section(f"{dispatch.event}: {dispatch.outcome}", took)
        if is_note:
            self._screen.line(dispatch.reason or "", indent=2)
        handlers = without_quoted(dispatch.handlers)
        names = max([len(handler.name) for handler in handlers], default=0)
        for handler in handlers:
            self._handler(handler, names)

    def _handler(self, handler: HandlerView, names: int) -> None:
        effect = handler.status.replace("_", " ")
        if handler.before and handler.after:
            sizes = handler.before.size, handler.after.size
            effect += f" {describe_change(handler.fields, *sizes)}"
        priority = describe_priority(handler.priority)
        words: list[Span | str] = [
            Span(f"{handler.name:<{names}}", "strong"),
            "  ",
            *([f"{handler.kind:<11} {priority}  "] if self._screen.width >= _ROOMY else []),
            effect,
        ]
        write_invocation(self._screen, handler, words, indent=2)
        if handler.before and handler.after:
            write_differences(self._screen, handler.before, handler.after, indent=4)

    def _stored(self, history: MessageHistory) -> None:
        if history.stored is None:
            text = "it cannot be read" if history.seq else "nothing: it is in no message"
            self._screen.line(text, indent=2)
            return
        write_text(self._screen, history.stored.text, indent=2, full=True)
        write_calls(self._screen, history.stored, indent=2)

    def _value(self, history: MessageHistory, view: ValueView | None, else_as: str) -> None:
        if view is not None:
            write_value(self._screen, view, indent=2)
        elif history.stored is not None:
            self._screen.line(else_as, indent=2)
        else:
            self._screen.line("nothing", indent=2)

    def _section(self, title: str, right: str = "") -> None:
        self._screen.line()
        self._screen.line(Span(title, "strong"), right=[Span(right, "dim")] if right else [])
