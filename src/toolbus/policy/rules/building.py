"""Tables of a policy made ready to judge: rules with their conditions and limits, named calls."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from toolbus.policy.history.limits import NamedCall, NeverAfter, OnlyAfter, Outcome, Quota, Repeats
from toolbus.policy.paths.hosts import host_patterns
from toolbus.policy.paths.path_patterns import path_patterns
from toolbus.policy.rules.call_conditions import NamedTools, SpeakerNames, ValuesAt
from toolbus.policy.rules.command_patterns import CommandNames, CommandPattern
from toolbus.policy.rules.part_conditions import (
    RESOURCES,
    CoveredEffects,
    Effects,
    FilesElsewhere,
    NamedResources,
    PushedBranches,
    ReachedHosts,
    TouchedFiles,
)
from toolbus.policy.rules.records import PolicyRule
from toolbus.policy.rules.schemas import located
from toolbus.policy.rules.tables import OutcomeTable, texts
from toolbus.policy.rules.values import EVERY, WrongTypeError, build_tests, holds, read_path
from toolbus.settings.hints import hint
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from toolbus.policy.history.limits import Limit, Measure
    from toolbus.policy.programs.program_files import Programs
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.records import CallCondition, PartCondition
    from toolbus.policy.rules.tables import CallTable, ConditionTable, QuotaTable, RuleTable, Value
    from toolbus.policy.rules.values import ValueTest

T = TypeVar("T")
LIMIT_KEYS = ("at_most", "only_after", "never_after", "repeats")
PART_KEYS = ("command", "effects", "reads", "writes", "touches", "outside", "hosts", "pushes")
_MEASURES: tuple[Measure, ...] = ("calls", "bytes", "tool_seconds", "total")


class RuleBuilder(NamedTuple):
    """Builds rules whose relative paths begin at a *project*, and whose commands *programs* tell.

    Its methods raise `MisfitError`, with the path of what is wrong in a table.
    """

    project: Project
    programs: Programs | None = None

    def rule(self, table: RuleTable, number: int, calls: Collection[str]) -> PolicyRule:
        """Return the rule number *number*; its limits may name *calls*."""
        _check_prompt(table)
        rule = PolicyRule(
            name=table.name,
            verdict=table.verdict,
            number=number,
            limits=tuple(_limits(table, calls)),
            reason=table.reason or "",
            hint=table.hint or "",
            skips_prompt=table.prompt is not None,
        )
        return self._with_conditions(rule, table)

    def call(self, table: CallTable, number: int) -> NamedCall:
        """Return the call that rules can name."""
        # As a rule that denies it speaks of what may fit, and tells whether it surely does.
        rule = PolicyRule(name=table.name, verdict="deny", number=number)
        return NamedCall(self._with_conditions(rule, table), _outcome(table))

    def _with_conditions(self, rule: PolicyRule, table: ConditionTable) -> PolicyRule:
        parts: dict[str, PartCondition] = {}
        for key in PART_KEYS:
            names = texts(getattr(table, key))
            if names:
                with located(key):
                    has_command = table.command is not None
                    parts[key] = self._part(key, names, every=rule.allows, has_command=has_command)
        command = parts.get("command")
        commands = command if isinstance(command, CommandNames) else None
        keys = frozenset(parts)
        if rule.allows and keys and "effects" not in keys:
            parts["covered"] = CoveredEffects(keys, commands)
        if rule.allows and keys & RESOURCES:
            parts["named"] = NamedResources(keys)
        return replace(
            rule,
            call_conditions=tuple(_call_conditions(table, every=rule.allows)),
            part_conditions=tuple(parts.values()),
            programs=None if commands is None else commands.programs,
            argument=_needed_argument(table.arguments or {}),
        )

    def _part(
        self, key: str, names: tuple[str, ...], *, every: bool, has_command: bool
    ) -> PartCondition:
        match key:
            case "command":
                patterns = [CommandPattern(name, self.programs) for name in names]
                return CommandNames(tuple(patterns), every)
            case "effects":
                return Effects(frozenset(names), every)
            case "hosts":
                return ReachedHosts(_patterns(host_patterns, names), every)
            case "pushes":
                return PushedBranches(names, every)
            case "outside" if every:
                raise MisfitError("a rule that allows names in `writes` which files it allows")
        fault = self.project.fault if every or key == "outside" else ""
        folder = None if fault else self.project.folder
        files = _patterns(partial(path_patterns, project=folder), names)
        if key == "outside":
            return FilesElsewhere(files, fault)
        return TouchedFiles(key, files, every, has_command, fault)


def _check_prompt(table: RuleTable) -> None:
    """Raise `MisfitError` for a `prompt` that its rule cannot answer."""
    if table.prompt is None:
        return
    if table.verdict != "allow":
        raise MisfitError('only a rule with verdict = "allow" skips one', "prompt")
    if limits := [key for key in LIMIT_KEYS if getattr(table, key) is not None]:
        raise MisfitError(f"a rule with {limits[0]!r} skips no prompt; leave one out", "prompt")


def _needed_argument(tests: Mapping[str, Value]) -> str | None:
    """Return an argument without which *tests* never hold, None if there is none."""
    first = [read_path(path)[0] for path in tests]
    return next((key for key in first if EVERY not in key), None)


def _call_conditions(table: ConditionTable, *, every: bool) -> Iterator[CallCondition]:
    if table.tools is not None:
        yield NamedTools(texts(table.tools))
    for who, names in (("agent", table.agent), ("lineage", table.lineage)):
        if names is not None:
            yield SpeakerNames(who, texts(names))
    for source in ("annotations", "context", "arguments"):
        values = getattr(table, source)
        if values is not None:
            with located(source):
                yield ValuesAt(source, tuple(_tests(values)), every)
    if table.when is not None:
        from toolbus.policy.rules.expressions import read_expression  # noqa: PLC0415 - loads CEL

        with located("when"):
            yield read_expression(table.when)


def _tests(
    values: Mapping[str, Value],
) -> Iterator[tuple[str, tuple[str, ...], tuple[ValueTest, ...]]]:
    for path, value in values.items():
        with located(path):
            yield path, read_path(path), build_tests(value)


def _patterns(read: Callable[[tuple[str, ...]], T], names: tuple[str, ...]) -> T:
    try:
        return read(names)
    except ValueError as error:
        raise MisfitError(str(error)) from None


def _limits(table: RuleTable, calls: Collection[str]) -> Iterator[Limit]:
    if table.at_most is not None:
        with located("at_most"):
            yield from _quotas(table.at_most)
    for key, kind in (("only_after", OnlyAfter), ("never_after", NeverAfter)):
        names = texts(getattr(table, key))
        for name in names:
            if name not in calls:
                raise MisfitError(f"there is no [[call]] {name!r}{hint(name, calls)}", key)
        if names:
            yield kind(names)
    if table.repeats is not None:
        yield Repeats(table.repeats)


def _quotas(table: QuotaTable) -> Iterator[Quota]:
    amounts = [(each, getattr(table, each)) for each in _MEASURES]
    if all(amount is None for _, amount in amounts):
        raise MisfitError(f"it says nothing to count; there is {', '.join(_MEASURES)}")
    if (table.of is None) != (table.total is None):
        raise MisfitError("`total` and `of`, the argument that is added up, need each other")
    with located("of"):
        path = () if table.of is None else read_path(table.of)
    for measure, amount in amounts:
        if amount is not None:
            added = path if measure == "total" else ()
            yield Quota(measure, amount, table.seconds, table.per == "run", added)


def _outcome(table: CallTable) -> Outcome | None:
    if table.outcome is None or isinstance(table.outcome, str):
        return None if table.outcome is None else Outcome(table.outcome)
    with located("outcome"):
        return _worded_outcome(table.outcome)


def _worded_outcome(table: OutcomeTable) -> Outcome:
    if table == OutcomeTable():
        raise MisfitError("expected a `status`, a `text` or both, got an empty table")
    with located("text"):
        tests = () if table.text is UNSET else build_tests(table.text)
        try:
            holds(tests, "")
        except WrongTypeError as error:
            raise MisfitError(f"the text of a result is not such a value: {error}") from None
    return Outcome(table.status or "", tests)
