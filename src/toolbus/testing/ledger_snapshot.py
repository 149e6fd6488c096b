"""A ledger as readable, reproducible text, and its comparison with a stored snapshot."""

from __future__ import annotations

import re
from difflib import unified_diff
from typing import TYPE_CHECKING

from toolbus.bus.ledger.records import sign_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry

UPDATE = "--toolbus-update"


def ledger_text(records: Iterable[DispatchRecord], *, idle: bool = False) -> str:
    """Return the actions of handlers, a paragraph per dispatch, without times, digests and ids.

    Dispatches without handlers are omitted unless *idle*. Agents are distinguished by depth only:
    dispatches of sub-agents are marked.

    >>> def no(ctx):
    ...     return Deny("no")
    >>> def deploy() -> str:
    ...     return "deployed"
    >>> agent = Agent(ScriptedModel([]), tools=[deploy])
    >>> handle = agent.guard(events.TOOL_CALL_BEFORE, no)
    >>> outcome = asyncio.run(agent.call_tool("deploy"))
    >>> "no" in ledger_text(agent.ledger)
    True
    """
    shown = [record for record in records if record.entries or idle]
    return "\n".join([line for record in shown for line in _record(record)])


class LedgerSnapshot:
    """A comparison of one test's ledgers with snapshots in *folder*; the pytest plugin creates it.

    Calling it raises `AssertionError` with the differences; with *update* it writes the snapshot.
    """

    def __init__(self, folder: Path, test: str, *, update: bool = False) -> None:
        self._folder, self._test, self._update = folder, test, update
        self._count = 0

    def __call__(self, records: Iterable[DispatchRecord], *, idle: bool = False) -> None:
        """Compare the text of *records* with the snapshot."""
        self._count += 1
        path, text = self._folder / self._file_name(), f"{ledger_text(records, idle=idle)}\n"
        if self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        elif not path.exists():
            msg = f"there is no snapshot {path}; review this ledger and run `pytest {UPDATE}`:"
            raise AssertionError(f"{msg}\n{text}")
        elif (expected := path.read_text("utf-8")) != text:
            lines = unified_diff(
                expected.splitlines(), text.splitlines(), "kept", "now", lineterm=""
            )
            msg = f"the ledger differs from {path}; if this is intended, run `pytest {UPDATE}`:"
            raise AssertionError("\n".join([msg, *lines]))

    def _file_name(self) -> str:
        plain = re.sub(r"[^\w.-]+", "-", self._test).strip("-")[:120]
        return f"{plain}.txt" if self._count == 1 else f"{plain}-{self._count}.txt"


def _record(record: DispatchRecord) -> Iterator[str]:
    depth = len(record.scope.lineage)
    where = f" (sub-agent, {depth} deep)" if depth else ""
    yield f"{record.event}: {record.outcome}{where}"
    if record.reason:
        yield from _indented(record.reason, 6)
    width = max((len(entry.name) for entry in record.entries), default=0)
    for entry in record.entries:
        yield from _entry(entry, width, record.reason)


def _entry(entry: HandlerEntry, width: int, above: str | None) -> Iterator[str]:
    sign = " " if entry.status in {"ran", "queued"} else sign_of(entry.status).text
    status = entry.status.replace("_", " ")
    fields = f" {', '.join(entry.fields)}" if entry.fields else ""
    line = f"  {sign} {entry.name:{width}}  {entry.kind:11}  {entry.priority:>4}  {status}{fields}"
    yield line.rstrip()
    if entry.reason and entry.reason != above:
        yield from _indented(entry.reason, 6)


def _indented(text: str, depth: int) -> list[str]:
    return [f"{' ' * depth}{line}".rstrip() for line in text.splitlines()]
