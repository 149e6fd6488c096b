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
```
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from toolbus.errors import ConfigurationError
from toolbus.events.catalogue import Scope
from toolbus.messages.records import ToolCall
from toolbus.policy.call_reading import CallReader, LineMemory
from toolbus.policy.history.counting import judge_first
from toolbus.policy.judging import CallJudge
from toolbus.policy.rules import DEFAULTS
from toolbus.policy.wording import because, failure, named
from toolbus.settings.hints import hint
from toolbus.settings.toml_files import decode_text, locate_keys, parse_toml, read_bytes
from toolbus.settings.values import MisfitError, fit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.findings import CallVerdict
    from toolbus.policy.rules import PolicyRules

_TABLES = "call"
_LONGEST = 2**26


class TableRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call and the *verdict* that is expected; *line* is where it stands."""

    verdict: str
    command: str | None = None
    tool: str = "shell"
    arguments: dict[str, Any] = {}
    agent: str = ""
    context: dict[str, Any] = {}
    rule: str | None = None
    source: str = ""
    line: int = 0

    @property
    def call(self) -> ToolCall:
        """The call that is judged."""
        command = {} if self.command is None else {"command": self.command}
        return ToolCall(id="row", name=self.tool, arguments={**self.arguments, **command})


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
        scope = Scope(agent_id=row.agent, context=row.context)
        facts = reader.facts(reader.read(row.call, None, scope), folder)
        judgement = judge_first(judge, facts)
        yield _result(row, judgement)


def _result(row: TableRow, judgement: CallVerdict) -> RowResult:
    verdict = judgement.verdict
    if judgement.failed is not None:
        decided, why = named(judgement.failed), failure(judgement.failed)
        rules = {judgement.failed.rule.name} if judgement.failed.rule else set()
    else:
        findings = [part.decided for part in judgement.decided]
        decided, why = named(findings[0]), because(findings[0])
        rules = {finding.rule.name for finding in findings if finding.rule}
    difference = ""
    if verdict != row.verdict:
        difference = f"expected {row.verdict}, got {verdict}"
    elif row.rule is not None and row.rule not in rules:
        difference = f"expected rule {row.rule!r}, got {decided}"
    return RowResult(row, verdict, decided, why, difference)


def _tables(file: Path, text: str) -> Iterator[tuple[Any, int]]:
    """Yield each row of *text* as it was written, and its line."""
    if file.suffix == ".toml":
        table = parse_toml(file, text)
        for key in table:
            if key != _TABLES:
                raise ConfigurationError(f"unknown key {key!r}{hint(key, [_TABLES])}", str(file))
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
    known = tuple([name for name in TableRow.__struct_fields__ if name != "line"])
    if not isinstance(table, dict):
        raise ConfigurationError(f"expected a table, got {table!r}", str(file), line)
    for key in table:
        if key not in known:
            raise ConfigurationError(f"unknown key {key!r}{hint(key, known)}", str(file), line)
    try:
        row: TableRow = fit({**table, "line": line}, TableRow, Path())
    except MisfitError as error:
        place = ".".join(map(str, error.path))
        raise ConfigurationError(f"{place or 'a row'}: {error.reason}", str(file), line) from None
    if row.verdict not in DEFAULTS:
        reason = f"unknown verdict {row.verdict!r}{hint(row.verdict, DEFAULTS)}"
        raise ConfigurationError(reason, str(file), line)
    if row.command is None and row.tool == "shell" and not row.arguments:
        raise ConfigurationError("a row has a `command`, or a `tool`", str(file), line)
    return row
