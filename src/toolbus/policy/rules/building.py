"""Rules and named calls made of their tables: conditions and limits that are ready to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from toolbus.policy.history.limits import NamedCall, NeverAfter, OnlyAfter, Outcome, Quota, Repeats
from toolbus.policy.paths.hosts import host_patterns
from toolbus.policy.paths.path_patterns import path_patterns
from toolbus.policy.rules import conditions
from toolbus.policy.rules.command_patterns import CommandPattern
from toolbus.policy.rules.records import PolicyRule
from toolbus.policy.rules.tables import CallTable, OutcomeTable, RuleTable, texts
from toolbus.policy.rules.values import WrongTypeError, build_tests, holds, read_path
from toolbus.settings.hints import hint
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.policy.history.limits import Limit, Measure
    from toolbus.policy.programs.program_files import Programs
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.records import CallCondition, PartCondition
    from toolbus.policy.rules.schemas import TableReader
    from toolbus.policy.rules.tables import ConditionTable, PolicyTable, QuotaTable

LIMIT_KEYS = ("at_most", "only_after", "never_after", "repeats")
PART_KEYS = ("command", "effects", "reads", "writes", "touches", "outside", "hosts", "pushes")
_MEASURES: tuple[Measure, ...] = ("calls", "bytes", "tool_seconds", "total")
_Row = TypeVar("_Row", RuleTable, CallTable)


class RuleBuilder:
    """Builds the rules and calls of *tables*, and leaves mistakes to their *reader*.

    Relative paths of rules begin at a *project*; *programs* are the shipped ones and the policy's.
    """

    def __init__(
        self,
        reader: TableReader,
        tables: PolicyTable,
        project: Project,
        programs: Programs | None = None,
    ) -> None:
        self._reader, self._tables, self._project = reader, tables, project
        self._programs = programs
        self._wrong = {m.path[:end] for m in reader.mistakes for end in range(1, len(m.path) + 1)}

    def rules(self) -> Iterator[PolicyRule]:
        """Yield the rules."""
        for number, table in self._rows("rule", self._tables.rule):
            rule = PolicyRule(
                name=table.name,
                verdict=table.verdict,
                number=number,
                limits=tuple(self._limits(table, number)),
                reason=table.reason or "",
                hint=table.hint or "",
                skips_prompt=table.prompt is not None,
            )
            with self._reader.keeping("rule", number, "prompt"):
                if ("rule", number, "verdict") not in self._wrong:
                    _check_prompt(table)
            yield self._with_conditions(rule, table, "rule")

    def calls(self) -> Iterator[NamedCall]:
        """Yield the calls that rules can name."""
        for number, table in self._rows("call", self._tables.call):
            # As a rule that denies it speaks of what may fit, and tells whether it surely does.
            rule = PolicyRule(name=table.name, verdict="deny", number=number)
            outcome = None
            if ("call", number, "outcome") not in self._wrong:
                with self._reader.keeping("call", number, "outcome"):
                    outcome = _outcome(table)
            yield NamedCall(self._with_conditions(rule, table, "call"), outcome)

    def _rows(self, kind: str, rows: tuple[_Row, ...]) -> Iterator[tuple[int, _Row]]:
        """Yield the *rows* that can be read, with their numbers; one name twice is a mistake."""
        seen: set[str] = set()
        for number, row in enumerate(rows):
            if row is UNSET:
                continue
            if row.name in seen and (kind, number) not in self._wrong:
                reason = f"two {kind}s are called so; rename one"
                self._reader.mistakes.append(MisfitError(reason, kind, number, "name"))
            seen.add(row.name)
            yield number, row

    def _with_conditions(self, rule: PolicyRule, table: ConditionTable, kind: str) -> PolicyRule:
        place, allows = (kind, rule.number), rule.allows
        calls: list[CallCondition] = []
        for key in ("tools", "agent", "lineage", "annotations", "context", "arguments", "when"):
            if getattr(table, key) is not None and (*place, key) not in self._wrong:
                with self._reader.keeping(*place, key):
                    calls.append(_call_condition(key, table, every=allows))
        commands = tuple(self._commands(texts(table.command), place))
        parts = [conditions.on_commands(commands, every=allows)] if commands else []
        keys = frozenset([key for key in PART_KEYS if getattr(table, key) is not None])
        for key in PART_KEYS:
            if key in keys - {"command"}:
                with self._reader.keeping(*place, key):
                    parts.append(self._part_condition(key, table, every=allows))
        implied = _implied_conditions(keys, commands) if allows else ()
        return replace(
            rule,
            call_conditions=tuple(calls),
            part_conditions=(*parts, *implied),
            programs=frozenset([each.program for each in commands]) if commands else None,
        )

    def _commands(self, names: tuple[str, ...], place: tuple[str, int]) -> Iterator[CommandPattern]:
        with self._reader.keeping(*place, "command"):
            for name in names:
                yield CommandPattern(name, self._programs)

    def _part_condition(self, key: str, table: ConditionTable, *, every: bool) -> PartCondition:
        names = texts(getattr(table, key))
        match key:
            case "effects":
                return conditions.on_effects(names, every=every)
            case "hosts":
                return conditions.on_hosts(host_patterns(names), every=every)
            case "pushes":
                return conditions.on_pushes(names, every=every)
            case "outside" if every:
                raise MisfitError("a rule that allows names in `writes` which files it allows")
        fault = self._project.fault if every or key == "outside" else ""
        files = path_patterns(names, project=None if fault else self._project.folder)
        if key == "outside":
            return conditions.on_changes_elsewhere(names, files, fault)
        if every:
            has_command = table.command is not None
            return conditions.AllowedFiles(key, files, has_command, fault).condition(names)
        return conditions.on_touched_files(key, names, files)

    def _limits(self, table: RuleTable, number: int) -> Iterator[Limit]:
        if table.at_most is not None and ("rule", number, "at_most") not in self._wrong:
            with self._reader.keeping("rule", number, "at_most"):
                yield from _quotas(table.at_most)
        calls = [call.name for _, call in self._rows("call", self._tables.call)]
        for key, kind in (("only_after", OnlyAfter), ("never_after", NeverAfter)):
            names = texts(getattr(table, key))
            for name in names:
                if name not in calls:
                    reason = f"there is no [[call]] {name!r}{hint(name, calls)}"
                    self._reader.mistakes.append(MisfitError(reason, "rule", number, key))
            if names:
                yield kind(names)
        if table.repeats is not None:
            yield Repeats(table.repeats)


def _check_prompt(table: RuleTable) -> None:
    """Raise `MisfitError` for a `prompt` that its rule cannot answer."""
    if table.prompt is None:
        return
    if table.verdict != "allow":
        raise MisfitError('only a rule with verdict = "allow" skips one')
    if limits := [key for key in LIMIT_KEYS if getattr(table, key) is not None]:
        raise MisfitError(f"a rule with {limits[0]!r} skips no prompt; leave one out")


def _implied_conditions(
    keys: frozenset[str], commands: tuple[CommandPattern, ...]
) -> Iterator[PartCondition]:
    """Yield the conditions of a rule that allows which follow from its *keys*."""
    if keys and "effects" not in keys:
        yield conditions.on_covered_effects(keys, commands)
    if keys & conditions.RESOURCES:
        yield conditions.on_named_resources(keys)


def _call_condition(key: str, table: ConditionTable, *, every: bool) -> CallCondition:
    if key == "tools":
        return conditions.on_tools(texts(table.tools))
    if key in {"agent", "lineage"}:
        return conditions.on_speaker(key, texts(getattr(table, key)))
    if key == "when":
        from toolbus.policy.rules.expressions import on_expression  # noqa: PLC0415 - loads CEL

        return on_expression(table.when or "")
    values = []
    for path, value in getattr(table, key).items():
        try:
            values.append(conditions.ValuesAt(path, read_path(path), build_tests(value)))
        except MisfitError as error:
            raise MisfitError(error.reason, path, *error.path) from None
    written = tuple([f"{path} = {value!r}" for path, value in getattr(table, key).items()])
    return conditions.on_values(key, tuple(values), written, every=every)


def _quotas(table: QuotaTable) -> Iterator[Quota]:
    amounts = [(each, getattr(table, each)) for each in _MEASURES]
    if all(amount is None for _, amount in amounts):
        raise MisfitError(f"it says nothing to count; there is {', '.join(_MEASURES)}")
    if (table.of is None) != (table.total is None):
        raise MisfitError("`total` and `of`, the argument that is added up, need each other")
    path = () if table.of is None else read_path(table.of)
    for measure, amount in amounts:
        if amount is not None:
            added = path if measure == "total" else ()
            yield Quota(measure, amount, table.seconds, table.per == "run", added)


def _outcome(table: CallTable) -> Outcome | None:
    outcome = table.outcome
    if outcome is None or isinstance(outcome, str):
        return None if outcome is None else Outcome(outcome)
    if outcome == OutcomeTable():
        raise MisfitError("expected a `status`, a `text` or both, got an empty table")
    try:
        tests = () if outcome.text is UNSET else build_tests(outcome.text)
        holds(tests, "")
    except MisfitError as error:
        raise MisfitError(error.reason, "text", *error.path) from None
    except WrongTypeError as error:
        reason = f"the text of a result is not such a value: {error}"
        raise MisfitError(reason, "text") from None
    return Outcome(outcome.status or "", tests)
