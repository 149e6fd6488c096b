"""The life of one message or call on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.bus.ledger.wording import describe_change
from toolbus.inspect.finding import find_call, find_message, find_session
from toolbus.inspect.life import life_of
from toolbus.inspect.printing import print_json
from toolbus.inspect.writing import (
    describe_call,
    write_calls,
    write_differences,
    write_invocation,
    write_text,
    write_value,
)
from toolbus.store.archive import Archive
from toolbus.terminal.durations import duration_of
from toolbus.terminal.pager import paged
from toolbus.terminal.screen import UsageError, open_screen
from toolbus.terminal.spans import Span

if TYPE_CHECKING:
    import os

    from toolbus.inspect.calls import CallLife
    from toolbus.inspect.life import Life
    from toolbus.inspect.passages import Passage, Seen, Step
    from toolbus.messages.records import ToolCall
    from toolbus.terminal.output import Output
    from toolbus.terminal.screen import Screen


def explain(
    output: Output,
    path: str | os.PathLike[str],
    message: str | None = None,
    *,
    call: str | None = None,
    session: str | None = None,
    as_json: bool = False,
    pager: bool = True,
) -> int:
    """Print the life of the *message* or of the *call*, in *session* if given; return 0.

    Raises `UsageError` for an id that is unknown, or that several sessions have.
    """
    if (message is None) == (call is None):
        raise UsageError("explain what? give one message id, or `--call` and the id of a call")
    with Archive(path) as archive:
        within = find_session(archive, session) if session is not None else None
        find = find_message if call is None else find_call
        life = life_of(archive, find(archive, message or call or "", within))
    if as_json:
        print_json(output, life)
        return 0
    with paged(output, wanted=pager) as through:
        _Telling(open_screen(through)).life(life)
    return 0


class _Telling:
    """Tells a life on *screen*."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def life(self, life: Life) -> None:
        self._head(life)
        if life.call:
            self._call(life.call)
        for passage in life.passages:
            self._passage(passage)
        if life.returned or (life.call and life.call.ran):
            self._section("as the tool answered" if life.call else "as it came")
            self._seen(life, life.returned, "as the model read it")
        self._section("as it was stored")
        self._stored(life)
        self._section("as the model read it")
        self._seen(life, life.read, "as it was stored")
        if life.read:
            self._screen.prose("a session that is resumed reads what was stored", indent=2)
        for passage in life.requests:
            self._passage(passage)
        for damage in life.damage:
            self._screen.prose(f"! {damage}", style="bad")

    def _head(self, life: Life) -> None:
        what = f"{life.role} message" if life.role else "call" if life.call else "no message"
        where = f"session {life.session}" + (f", message {life.seq}" if life.seq else "")
        self._screen.line(f"{what} ", Span(life.id, "strong"), right=[Span(where, "dim")])

    def _call(self, call: CallLife) -> None:
        took = [Span(duration_of(call.duration_ns), "dim")] if call.duration_ns else []
        status = call.status or "no answer"
        style = Span(status, "good" if status == "ok" else "bad")
        self._screen.line(f"answers call {call.id}: ", style, right=took)
        self._section("as the model asked")
        self._asked(call.asked, f"in message {call.asked_in}" if call.asked_in else "")
        self._section("as it ran")
        if call.ran is None:
            self._screen.line("it did not run" if call.status else "not known", indent=2)
        elif call.asked and _same(call.asked, call.ran):
            self._screen.line("as the model asked", indent=2)
        else:
            self._asked(call.ran, "")

    def _asked(self, call: ToolCall | None, where: str) -> None:
        if call is None:
            self._screen.line("by no message: a call inside another, or of a program", indent=2)
            return
        right = [Span(where, "dim")] if where else []
        self._screen.line(*describe_call(call), right=right, indent=2)

    def _passage(self, passage: Passage) -> None:
        self._section(
            f"{passage.event}: {passage.outcome}", f"all {duration_of(passage.duration_ns)}"
        )
        width = max([len(step.name) for step in passage.steps], default=0)
        for step in passage.steps:
            self._step(step, width)

    def _step(self, step: Step, width: int) -> None:
        did = step.status.replace("_", " ")
        if step.before and step.after:
            did += f" {describe_change(step.fields, step.before.size, step.after.size)}"
        words: list[Span | str] = [
            Span(f"{step.name:<{width}}", "strong"),
            f"  {step.kind:<11} {step.priority:>4}  ",
            did,
        ]
        write_invocation(self._screen, step, words, indent=2)
        if step.before and step.after:
            write_differences(self._screen, step.before, step.after, indent=4)

    def _stored(self, life: Life) -> None:
        if life.stored is None:
            why = "it cannot be read" if life.seq else "nothing: it is in no message"
            self._screen.line(why, indent=2)
            return
        write_text(self._screen, life.stored.text, indent=2, full=True)
        write_calls(self._screen, life.stored, indent=2)

    def _seen(self, life: Life, seen: Seen | None, else_as: str) -> None:
        if seen is not None:
            write_value(self._screen, seen, indent=2)
        elif life.stored is not None:
            self._screen.line(else_as, indent=2)
        else:
            self._screen.line("nothing", indent=2)

    def _section(self, title: str, right: str = "") -> None:
        self._screen.line()
        self._screen.line(Span(title, "strong"), right=[Span(right, "dim")] if right else [])


def _same(asked: ToolCall, ran: ToolCall) -> bool:
    return (asked.name, asked.arguments) == (ran.name, ran.arguments)
