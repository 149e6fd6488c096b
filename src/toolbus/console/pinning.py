"""`toolbus pin`: write what tools say of themselves into a lock file, or compare with it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import redirect_stdout
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from toolbus.console.keyboard import is_at_terminal
from toolbus.console.pin_sources import PinSources, nearest_lock, read_pins
from toolbus.console.typed_answers import YES
from toolbus.errors import ConfigurationError, LoadError
from toolbus.messages.records import encode
from toolbus.policy.pins.lock_files import LOCK_NAME, read_lock, write_lock
from toolbus.policy.pins.look_alikes import describe_source, reveal, skeleton
from toolbus.policy.pins.pin_differences import (
    PinChange,
    compare_pins,
    whole_rows,
)
from toolbus.policy.pins.pinned_items import ToolPins
from toolbus.settings.spans import Span
from toolbus.terminal.files import replacing
from toolbus.terminal.output import Output
from toolbus.terminal.person import person_terminal
from toolbus.terminal.screen import UsageError, open_screen
from toolbus.terminal.visible_text import make_visible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from toolbus.settings.spans import Style
    from toolbus.terminal.screen import Screen

_STYLES: dict[str, Style] = {"changed": "changed", "new": "good", "gone": "bad"}


class PinOptions(NamedTuple):
    """What `toolbus pin` is asked for."""

    sources: PinSources
    lock: str | None = None
    is_check: bool = False
    yes: bool = False
    as_json: bool = False


class PinComparison(NamedTuple):
    """What *file* says, None without one that can be read, what is said now, and what differs."""

    file: Path
    before: ToolPins | None
    after: ToolPins
    changes: list[PinChange]


class PinReport(Struct, frozen=True, kw_only=True):
    """What differs from what the *lock* file says; *written* tells whether it says that now."""

    lock: str
    written: bool
    changes: tuple[PinChange, ...]


def run_pin(output: Output, options: PinOptions) -> int:
    """Write the lock file, or compare with it: then 1 if something differs. Return the exit code.

    Raises `LoadError`, `UsageError` and `ToolServerError`.
    """
    file = nearest_lock(options.lock, options.sources.targets, LOCK_NAME)
    before = _read_before(file, options)
    # What servers and handlers print is none of ours.
    with redirect_stdout(sys.stderr):
        after = asyncio.run(read_pins(options.sources))
    changes = compare_pins(before or ToolPins(), after)
    compared = PinComparison(file, before, after, changes)
    if options.is_check or (before is not None and not changes):
        _show(output, compared, options, written=False)
        return 1 if changes else 0
    return _write(output, compared, options)


def _read_before(file: Path, options: PinOptions) -> ToolPins | None:
    """Return what is pinned; None if nothing is, or it cannot be read and is to be written anew."""
    if not file.exists():
        if options.is_check:
            raise LoadError(f"{file}: there is no such file; first pin the tools, without --check")
        return None
    try:
        return read_lock(file)
    except ConfigurationError as error:
        if options.is_check:
            raise LoadError(f"{error}; nothing can be compared with it") from error
        Output(sys.stderr).write(f"toolbus: {reveal(str(error))}\n")
        return None


def _write(output: Output, compared: PinComparison, options: PinOptions) -> int:
    file, _, after, changes = compared
    screen = open_screen(Output(sys.stderr) if options.as_json else output)
    if not options.as_json:
        _show_changes(screen, changes)
    _warn(screen, after)
    if not options.yes and not _is_allowed(file):
        screen.whole("nothing is written", style="bad")
        return 1
    with replacing(file, force=True) as stream:
        stream.write(write_lock(after))
    if options.as_json:
        _show(output, compared, options, written=True)
        return 0
    count = _counted(
        sum(len(each.tools) for each in (after.program, *after.servers.values())), "tool"
    )
    screen.line(Span(f"✓ {count} pinned in {file}", "good"))
    return 0


def _is_allowed(file: Path) -> bool:
    """Ask the person whether *file* is to be written; without a terminal raises `UsageError`."""
    if not is_at_terminal(Output(sys.stderr)):
        raise UsageError("nobody can be asked here; add --yes to write it, or --check to compare")
    if not file.exists():
        return True
    name = make_visible(str(file), one_line=True).text
    with person_terminal() as terminal:
        answer = terminal.ask(f"write this over {name}? [y, n] ")
    return (answer or "n").strip().lower() in YES


def _show(output: Output, compared: PinComparison, options: PinOptions, *, written: bool) -> None:
    file, _, _, changes = compared
    if options.as_json:
        report = PinReport(lock=str(file), written=written, changes=tuple(changes))
        output.write(f"{encode(report).decode()}\n")
        return
    screen = open_screen(output)
    _show_changes(screen, changes)
    if changes:
        screen.line(Span(f"{_counted(len(changes), 'difference')} from {file}", "bad"))
    else:
        screen.line(Span(f"✓ all is as it was pinned in {file}", "good"))


def _show_changes(screen: Screen, changes: Sequence[PinChange]) -> None:
    for change in changes:
        what = change.kind if not change.name else f"{change.kind} {reveal(change.name)!r}"
        note = f" ({change.note})" if change.note else ""
        title = f"{describe_source(change.server)}: {what} is {change.change}{note}"
        screen.whole(title, style=_STYLES[change.change])
        for row in chain.from_iterable(map(whole_rows, change.differences)):
            screen.whole(row, indent=2)


def _warn(screen: Screen, pins: ToolPins) -> None:
    """Tell of names that look alike: whoever pins both will not tell them apart either."""
    by_look: dict[str, list[str]] = {}
    for server, pinned in {"": pins.program, **pins.servers}.items():
        for name in pinned.tools:
            text = f"{reveal(name)!r} of {describe_source(server)}"
            by_look.setdefault(skeleton(name), []).append(text)
    for alike in by_look.values():
        if len(alike) > 1:
            screen.whole(f"these look alike: {', '.join(alike)}", style="changed")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
