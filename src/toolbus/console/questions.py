"""Which calls a person is asked about, and the question: the call as it will run, all of it."""

from __future__ import annotations

import asyncio
from io import StringIO
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.approvals.display import value_rows
from toolbus.components.components import AgentComponent
from toolbus.components.marks import guard
from toolbus.console.edits import FileEdit, find_edit
from toolbus.console.reports import NOBODY
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Ask, Deny
from toolbus.messages.records import AssistantMessage, encode
from toolbus.terminal.differences import differences
from toolbus.terminal.output import Output
from toolbus.terminal.screen import open_screen
from toolbus.terminal.visible_text import brief, make_visible, quote_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.agent.agent import Agent
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.ledger.records import HandlerEntry
    from toolbus.console.keyboard import Keyboard
    from toolbus.console.reports import RunReport
    from toolbus.console.side_output import SideOutput
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import JsonObject, ToolCall
    from toolbus.terminal.screen import Screen
    from toolbus.tools.toolset import Toolset

NOT_READ_ONLY = "it may change something"
REFUSED = "the person refused this call"
_LONGEST_NAME = 40
_SHORTEST_PAGE = 5
_SHOWN = 60
"""Rows of a value that are shown at once; half of them are its first ones."""


class AskFirst(AgentComponent):
    """Asks about each call of a tool that is not known to only read.

    That a tool only reads counts if it stands in our process, by the choice of the person; what
    the servers behind *strangers* say of their tools does not.
    """

    def __init__(self, strangers: Sequence[Toolset] = ()) -> None:
        super().__init__()
        self._strangers = tuple(strangers)

    @guard(TOOL_CALL_BEFORE, on_error="closed")
    def ask(self, ctx: EventContext[ToolCall]) -> Ask | None:
        """Ask, unless the tool only reads."""
        name, spec = ctx.value.name, ctx.tool
        is_strange = any(tools.get(name) is not None for tools in self._strangers)
        # A handler may have put another tool in place of the one whose spec this is.
        if spec is None or spec.name != name or is_strange:
            return Ask(NOT_READ_ONLY)
        return None if spec.annotations.get("readOnlyHint") is True else Ask(NOT_READ_ONLY)


class ApprovalPrompt:
    """Puts questions to the person at *keyboard*; without one, each is answered by a refusal.

    They are written to *output*, and what others write to *side* waits meanwhile. What only the
    tool gets, such as a secret in place of its placeholder, is put in after the question. A call
    of *files* shows what it makes of its file, which must be that when it is written.
    """

    def __init__(
        self, output: Output, side: SideOutput, keyboard: Keyboard | None, report: RunReport
    ) -> None:
        self._output, self._side = output, side
        self.keyboard, self._report = keyboard, report
        self.agent: Agent | None = None

    def watch(self, agent: Agent) -> None:
        """Show of calls of *agent* what the model wrote, and what they make of files."""
        self.agent = agent

    async def decide(self, ask: Ask, call: ToolCall | None, scope: Scope) -> bool | Deny:
        """Return True if the person says yes, else why not."""
        if self.keyboard is None:
            refusal: Deny | None = Deny(NOBODY, ask.prompt)
        else:
            try:
                with self._side.held():
                    refusal = await self._settle(self.keyboard, ask, call, scope)
            except asyncio.CancelledError:
                self._output.write("\nno answer is awaited here any more\n")
                raise
        self._report.question(ask, call, refusal)
        return True if refusal is None else refusal

    async def _settle(
        self, keyboard: Keyboard, ask: Ask, call: ToolCall | None, scope: Scope
    ) -> Deny | None:
        """Ask until the answer is about the file as it is."""
        edit = await self._edit_of(call, scope)
        while True:
            refusal = await self._answer(keyboard, ask, call, edit)
            if refusal is not None or edit is None:
                return refusal
            latest = await self._edit_of(call, scope)
            if latest == edit:
                edit.confirm()
                return None
            edit = latest
            self._output.write("\nthe file has changed meanwhile, so this is another question\n")

    async def _edit_of(self, call: ToolCall | None, scope: Scope) -> FileEdit | None:
        """Return what *call* makes of a file; of an agent below this one nobody knows the files."""
        if call is None or self.agent is None or scope.lineage:
            return None
        return await asyncio.to_thread(find_edit, self.agent, call)

    async def _answer(
        self, keyboard: Keyboard, ask: Ask, call: ToolCall | None, edit: FileEdit | None
    ) -> Deny | None:
        # Standard output may be a file, so the width is that of the terminal where it is asked.
        screen = open_screen(self._output)
        screen.width = min(screen.width, keyboard.columns)
        self._output.write("\n")
        is_cut = self._write(screen, ask, call, edit, full=False)
        is_seen = not is_cut
        name = "this run" if call is None else brief(call.name)
        while True:
            keys = "y, n, n and a reason" if is_seen else "n, n and a reason"
            see = ", v to see all" if is_cut else ""
            line = await keyboard.ask(f"allow {name}? [{keys}{see}] ")
            word, _, reason = (line or "n").strip().partition(" ")
            match word.lower():
                case "y" | "yes" if not reason and is_seen:
                    return None
                case "y" | "yes" if not reason:
                    self._output.write("not all of it was shown; v shows it\n")
                case "n" | "no":
                    return Deny(f"{REFUSED}: {reason.strip()}" if reason.strip() else REFUSED)
                case "v" if is_cut:
                    is_seen = await self._show_pages(keyboard, ask, call, edit) or is_seen

    async def _show_pages(
        self, keyboard: Keyboard, ask: Ask, call: ToolCall | None, edit: FileEdit | None
    ) -> bool:
        """Show the whole question, page by page; return whether the person saw the last one."""
        text = StringIO()
        screen = open_screen(Output(text, is_terminal=self._output.is_terminal))
        screen.width = min(screen.width, keyboard.columns)
        self._write(screen, ask, call, edit, full=True)
        rows = text.getvalue().rstrip("\n").split("\n")
        size = max(keyboard.rows - 2, _SHORTEST_PAGE)
        for start in range(0, len(rows), size):
            self._output.write("\n".join(rows[start : start + size]) + "\n")
            if start + size < len(rows):
                line = await keyboard.ask("Enter shows the next page, q ends: ")
                if line is None or line.strip():
                    return False
        return True

    def _write(
        self, screen: Screen, ask: Ask, call: ToolCall | None, edit: FileEdit | None, *, full: bool
    ) -> bool:
        """Write the question; return whether something of it is not shown."""
        title = "may this run begin?" if call is None else f"the model calls {brief(call.name)}"
        screen.whole(title, style="asked")
        is_cut = _write_value(screen, "why asked", ask.prompt, full=full)
        if call is None:
            return is_cut
        values: JsonObject | dict[str, Any] = call.arguments
        if call.raw is not None:
            values = {"arguments, which are no JSON object": call.raw}
        for name, value in values.items():
            is_cut = _write_value(screen, name, value, full=full) or is_cut
        if not values:
            screen.whole("no arguments", indent=2, style="dim")
        self._write_changes(screen, call)
        if edit is not None:
            screen.whole(f"what becomes of the file: {edit.summary}", indent=2, style="changed")
            for name, text in (("why", edit.problem), ("difference", edit.difference)):
                is_cut = (bool(text) and _write_value(screen, name, text, full=full)) or is_cut
        return is_cut

    def _write_changes(self, screen: Screen, call: ToolCall) -> None:
        """Write what handlers changed of the call that the model wrote."""
        requested = self._requested(call.id)
        if requested is None:
            return
        before = {"tool": requested.name, "arguments": requested.arguments}
        after = {"tool": call.name, "arguments": call.arguments}
        changes = list(differences(before, after))
        if changes:
            who = (
                ", ".join([brief(name) for name in self._changers(call.id)]) or "the tool's schema"
            )
            screen.whole(f"not as the model wrote it; changed by {who}", indent=2, style="changed")
        for change in changes:
            _write_name(screen, change.path, indent=4)
            are_texts = isinstance(change.before, str) and isinstance(change.after, str)
            for sign, value in (("the model", change.before), ("now", change.after)):
                if value is UNSET:
                    screen.whole(f"{sign}: nothing", indent=6, style="strong")
                else:
                    # As JSON a text "5" and the number 5 are not the same.
                    shown = value if are_texts else encode(value).decode()
                    _write_value(screen, sign, shown, full=True, indent=6)

    def _requested(self, call_id: str) -> ToolCall | None:
        """Return the call as the transcript has it, None for one that no model asked for."""
        for message in reversed(() if self.agent is None else tuple(self.agent.messages)):
            if isinstance(message, AssistantMessage):
                calls = [call for call in message.tool_calls if call.id == call_id]
                return calls[0] if calls else None
        return None

    def _changers(self, call_id: str) -> list[str]:
        records = () if self.agent is None else self.agent.ledger
        entries: Sequence[HandlerEntry] = ()
        for record in records:
            if record.event == TOOL_CALL_BEFORE.name and record.call_id == call_id:
                entries = record.entries
        return [entry.name for entry in entries if entry.status == "changed"]


def _write_value(screen: Screen, name: str, value: object, *, full: bool, indent: int = 2) -> bool:
    """Write a value under its name; return whether some rows of it are not shown."""
    note, rows = value_rows(value, screen.width - indent - 2)
    _write_name(screen, name, note, indent=indent)
    hidden = 0 if full or len(rows) <= _SHOWN else len(rows) - _SHOWN
    for index, row in enumerate(rows):
        if not hidden or index < _SHOWN // 2 or index >= len(rows) - _SHOWN // 2:
            screen.whole(row, indent=indent + 2)
        elif index == _SHOWN // 2:
            screen.whole(f"[{hidden:,} rows are not shown]", indent=indent + 2, style="changed")
    return bool(hidden)


def _write_name(screen: Screen, name: str, note: str = "", *, indent: int) -> None:
    """Write a name; one that might fill a row, as only an attacker's does, as a value."""
    suffix = f" ({note})" if note else ""
    line = make_visible(name, one_line=True).text
    if len(line) <= min(_LONGEST_NAME, screen.width // 2):
        screen.prose(f"{line}{suffix}", indent=indent, style="strong")
        return
    screen.prose(f"a name of {len(name):,} characters{suffix}", indent=indent, style="changed")
    for row in quote_rows(line, screen.width - indent - 2):
        screen.whole(row, indent=indent + 2)
