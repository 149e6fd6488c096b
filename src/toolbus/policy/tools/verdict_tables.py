"""Tables of calls and the verdicts that a policy should have on them: TOML or JSON Lines.

```toml
[[call]]
command = "git push --force"        # of the tool "shell", unless `tool` names another
verdict = "deny"
rule = "no force-push"              # which rule shall decide; optional

[[call]]
tool = "read_file"
arguments = { path = ".env" }
verdict = "deny"

[[call]]
after = ["pytest", { command = "make", outcome = "error" }, { tool = "pay", seconds_ago = 60 }]
command = "make deploy"
verdict = "deny"
```

The calls of `after` are the session's earlier ones, in their order: each has run and ended before
the next, with the `outcome` "success" or "error" and the result `text`, `seconds_ago` before the
row's own call (0). A row whose earlier call the policy denies differs: that call never runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Struct

from toolbus.errors import ConfigurationError
from toolbus.events.catalogue import Scope
from toolbus.messages.records import ToolCall, ToolMessage, ToolResponse
from toolbus.policy.call_reader import CallReader, LineMemory
from toolbus.policy.history.counted_calls import CountedCall, call_key, decide, end_call, shell_key
from toolbus.policy.history.session_record import SessionRecord
from toolbus.policy.rules.judge import CallJudge
from toolbus.policy.rules.table_reader import TableReader
from toolbus.policy.rules.tables import Default, Ending
from toolbus.policy.rules.verdict_texts import because, failure, named
from toolbus.toml.files import (
    decode_text,
    locate_keys,
    parse_toml,
    read_bytes,
    unknown_file_key,
)
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from toolbus.policy.rules.records import CallVerdict, PolicyRules

_TABLES = "call"
_LONGEST = 2**26


class TableCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call, as a table names it."""

    command: str | None = None
    tool: str = "shell"
    arguments: dict[str, Any] = {}

    def call(self, call_id: str) -> ToolCall:
        """Return the call."""
        command = {} if self.command is None else {"command": self.command}
        return ToolCall(id=call_id, name=self.tool, arguments={**self.arguments, **command})

    @property
    def shown(self) -> str:
        """The call, for people."""
        return self.command if self.command is not None else f"{self.tool} {self.arguments}"


class EarlierCall(TableCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that the session made before, and how it ended."""

    outcome: Ending = "success"
    text: str = ""
    seconds_ago: Annotated[float, msgspec.Meta(ge=0)] = 0

    def ended(self, call: ToolCall) -> ToolMessage:
        """Return the result of *call*, which is this one."""
        response = ToolResponse(
            self.text, is_error=self.outcome == "error", parameters=call.arguments
        )
        return ToolMessage(tool_call_id=call.id, tool_name=call.name, tool_response=response)


class TableRow(TableCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call and the *verdict* that is expected, in the *line* of its file, whatever that says.

    It is made *after* other calls, each a command line or a table.
    """

    verdict: Default
    after: Annotated[
        tuple[str | EarlierCall, ...], msgspec.Meta(description="an array of calls")
    ] = ()
    agent: str = ""
    context: dict[str, Any] = {}
    rule: str | None = None
    source: str = ""
    line: int = 0

    @property
    def earlier(self) -> list[EarlierCall]:
        """The calls before."""
        return [EarlierCall(command=each) if isinstance(each, str) else each for each in self.after]


class RowResult(Struct, frozen=True):
    """What a policy said of a *row*: *difference* says how it is not what was expected, or ""."""

    row: TableRow
    verdict: str
    decided_by: str
    why: str
    difference: str


def read_rows(file: Path) -> list[TableRow]:
    """Return the rows of *file*, `.toml` or JSON Lines; raises `ConfigurationError`."""
    text = decode_text(file, read_bytes(file, _LONGEST))
    rows = [_row(file, table, line) for table, line in _tables(file, text)]
    if not rows:
        raise ConfigurationError(f"it has no row; write [[{_TABLES}]]", str(file))
    return rows


def check_rows(
    rules: PolicyRules, rows: Sequence[TableRow], folder: str | None = None
) -> Iterator[RowResult]:
    """Yield what *rules* say of each of *rows*, of calls of tools that work in *folder*."""
    reader, judge = CallReader(rules, LineMemory()), CallJudge(rules)
    for row in rows:
        session = _TriedSession(
            judge, reader, Scope(agent_id=row.agent, context=row.context), folder
        )
        denied = next(filter(None, map(session.run, row.earlier)), "")
        yield _result(row, session.judge(row.call("row"), 0)[0], denied)


class _TriedSession:
    """The session of one row: its *record* holds the calls that ran in it."""

    def __init__(
        self, judge: CallJudge, reader: CallReader, scope: Scope, folder: str | None
    ) -> None:
        self._judge, self._reader, self._scope, self._folder = judge, reader, scope, folder
        self._record, self._count = SessionRecord(None), 0

    def judge(self, call: ToolCall, now: float) -> tuple[CallVerdict, str | None]:
        """Return the verdict on *call*, which has begun unless it is denied, and its folder."""
        kept_in = self._record.shell_folder(shell_key(self._scope, call.name))
        facts = self._reader.facts(call, None, self._scope, self._folder, kept_in)
        counted = CountedCall.of(self._judge, self._judge.judge(facts), self._scope)
        return decide([counted], self._record, now)[0], facts.folder

    def run(self, earlier: EarlierCall) -> str:
        """Let *earlier* begin and end; return why it cannot, "" if it ran."""
        self._count += 1
        call, now = earlier.call(f"earlier-{self._count}"), -earlier.seconds_ago
        verdict, folder = self.judge(call, now)
        if verdict.verdict == "deny":
            return f"call {self._count} of `after` never runs, for it is denied: {earlier.shown}"
        ended = earlier.ended(call)
        next_folder = None
        if earlier.outcome == "success":
            next_folder = self._reader.next_folder(call, folder)
        key = call_key(self._scope, call.id)
        end_call([self._judge.rules], self._record, key, ended, now, folder=next_folder)
        return ""


def _result(row: TableRow, judgement: CallVerdict, denied: str) -> RowResult:
    verdict, failed = judgement.verdict, judgement.failed
    findings = [part.decided for part in judgement.decided] if failed is None else [failed]
    decided = named(findings[0])
    why = because(findings[0]) if failed is None else failure(failed)
    rules = {finding.rule.name for finding in findings if finding.rule}
    difference = denied
    if not denied and verdict != row.verdict:
        difference = f"expected {row.verdict}, got {verdict}"
    elif not denied and row.rule is not None and row.rule not in rules:
        difference = f"expected rule {row.rule!r}, got {decided}"
    return RowResult(row, verdict, decided, why, difference)


def _tables(file: Path, text: str) -> Iterator[tuple[Any, int]]:
    """Yield each row of *text* as it was written, and its line."""
    if file.suffix == ".toml":
        table = parse_toml(file, text)
        for key in table:
            if key != _TABLES:
                raise ConfigurationError(
                    unknown_file_key(key, [_TABLES], "expected a table of calls"), str(file)
                )
        lines = locate_keys(file, text)
        rows = table.get(_TABLES, [])
        if not isinstance(rows, list):
            raise ConfigurationError(f"{_TABLES!r} is no array; write [[{_TABLES}]]", str(file))
        yield from [(row, lines.get((_TABLES, index), 1)) for index, row in enumerate(rows)]
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield msgspec.json.decode(line.encode()), number
            except msgspec.DecodeError as error:
                raise ConfigurationError(f"this is no JSON: {error}", str(file), number) from None


def _row(file: Path, table: Any, line: int) -> TableRow:
    try:
        reader = TableReader()
        row: TableRow = reader.read(table, Annotated[TableRow, msgspec.Meta(description="a table")])
        if reader.mistakes:
            raise reader.mistakes[0]
        _check_row(row)
    except MisfitError as error:
        steps = list(error.path)
        if error.reason.startswith(("unknown key", "unknown verdict")):
            del steps[-1]
        place = "".join([".".join(map(str, steps)), ": "]) if steps else ""
        raise ConfigurationError(f"{place}{error.reason}", str(file), line) from None
    return msgspec.structs.replace(row, line=line)


def _check_row(row: TableRow) -> None:
    """Raise `MisfitError` for calls without a command or tool, or in another order than said."""
    for number, each in enumerate([row, *row.earlier]):
        if each.command is None and each.tool == "shell" and not each.arguments:
            which = f"call {number} of `after`" if number else "a row"
            raise MisfitError(f"{which} has a `command`, or a `tool`")
    ages = [each.seconds_ago for each in row.earlier]
    if ages != sorted(ages, reverse=True):
        raise MisfitError("`after` names calls in their order, so `seconds_ago` never grows")
