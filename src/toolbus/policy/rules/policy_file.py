"""The policy file: its text compiled into rules; `toolbus.toml` may hold the same settings.

```toml
default = "ask"                 # the verdict if no rule matches: "ask", "deny" or "allow"
folder = "."                    # base of relative paths of tools, relative to this file's folder
project = "file"                # base of relative paths in rules; "session": where a session began

programs = ["programs.toml"]    # further programs and their effects: programs/README.md
coding_agents = true            # use the shipped facts on agents' tools: policy/tool_names.toml

[tools.read_file]               # the effects of a tool other than a shell
effects = ["read"]
reads = ["path"]

[[rule]]
name = "reading is free"
verdict = "allow"
effects = ["read"]

[[rule]]
name = "no force-push"
verdict = "deny"
command = ["git push --force", "git push --delete"]
reason = "other people use the pushed branches, too"
hint = "push to your own branch"
```
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from toolbus.errors import ConfigurationError
from toolbus.policy.argument_names import tool_names
from toolbus.policy.history.limits import NamedCall, NeverAfter, OnlyAfter, Outcome, Quota, Repeats
from toolbus.policy.paths.hosts import host_patterns
from toolbus.policy.paths.path_patterns import alternatives, is_relative, path_patterns
from toolbus.policy.programs.program_files import Programs
from toolbus.policy.projects import FROM_SESSION, Project, process_folder, project_at
from toolbus.policy.rules import conditions
from toolbus.policy.rules.command_patterns import CommandPattern
from toolbus.policy.rules.exact_calls import exact_condition
from toolbus.policy.rules.flow_conditions import build_flow_condition
from toolbus.policy.rules.records import FLOW_KEYS, PolicyRule, PolicyRules
from toolbus.policy.rules.table_reader import TableReader
from toolbus.policy.rules.tables import (
    CallTable,
    OutcomeTable,
    PolicyTable,
    RuleTable,
    ToolFacts,
    texts,
)
from toolbus.policy.rules.values import WrongTypeError, build_tests, passes, read_path
from toolbus.settings.hints import hint
from toolbus.settings.user_folders import config_folder
from toolbus.toml.files import decode_text, locate_keys, parse_toml, read_bytes, unknown_file_key
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.history.limits import Limit, Measure
    from toolbus.policy.rules.records import CallCondition, PartCondition
    from toolbus.policy.rules.tables import ConditionTable, QuotaTable

LIMIT_KEYS = ("at_most", "only_after", "never_after", "repeats")
CALL_KEYS = ("tools", "agent", "lineage", "annotations", "context", "arguments", "when")
FILE_KEYS = ("reads", "writes", "touches", "outside")
PART_KEYS = ("command", "effects", *FILE_KEYS, "hosts", "pushes")
_MEASURES: tuple[Measure, ...] = ("calls", "bytes", "tool_seconds", "total")
_Row = TypeVar("_Row", RuleTable, CallTable)
_WAY_OUT = f'`project = "{FROM_SESSION}"` is the folder in which a session began'
LONGEST_POLICY = 2**20
"""Bytes of a policy file; a longer file is too large for a person to write or review."""


class PolicyFile:
    """The text of a policy *file*, and its lines; raises `ConfigurationError`."""

    def __init__(self, file: Path, data: bytes | None = None) -> None:
        self.file = file
        self.text = decode_text(file, read_bytes(file, LONGEST_POLICY) if data is None else data)
        self.table = parse_toml(file, self.text)

    @cached_property
    def lines(self) -> dict[tuple[str | int, ...], int]:
        """The line of each key; computed lazily because it takes longer than reading."""
        return locate_keys(self.file, self.text)

    @cached_property
    def tables(self) -> PolicyTable:
        """The tables of the file that match the schema."""
        return _read_tables(self.table, TableReader())

    def line(self, *path: str | int) -> int | None:
        """Return the line of the key at *path*, or of its nearest existing parent."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def read(self, project: Project | None = None) -> PolicyRules:
        """Return the rules for a session's *project*, as `read_table` takes it.

        Raises `ConfigurationError` with the line of the first mistake.
        """
        rules, mistakes = self._read(project)
        if mistakes:
            raise mistakes[0]
        path = find_base_warning(self.file, self.tables)
        return rules._replace(file=self.file, base_warning="" if path is None else path.text)

    def mistakes(self) -> list[ConfigurationError]:
        """Return the mistakes in the file, in the order of their lines."""
        return self._read(None)[1]

    def _read(self, project: Project | None) -> tuple[PolicyRules, list[ConfigurationError]]:
        folder = Path(os.path.abspath(self.file)).parent  # noqa: PTH100 - links stay as they are
        rules, mistakes = _read(self.table, folder, project)
        errors = [
            error
            if isinstance(error, ConfigurationError)
            else ConfigurationError(error.reason, str(self.file), self.line(*error.path))
            for error in mistakes
        ]
        return rules, sorted(errors, key=lambda error: error.line or 0)


def read_policy(file: Path | str, project: Project | None = None) -> PolicyRules:
    """Return the rules of *file* for a session's *project*, as `read_table` takes it.

    Raises `ConfigurationError`, and `LoadError` for an extra.
    """
    return PolicyFile(Path(file).expanduser()).read(project)


def read_table(
    table: Mapping[str, Any], folder: Path | None = None, session_project: Project | None = None
) -> PolicyRules:
    """Return the rules of *table*; relative patterns begin in *folder*, that of its file.

    With `project = "session"` they begin in *session_project*, by default the current folder.
    Raises `MisfitError` with the path of the first mistake, and `ConfigurationError` for a file of
    programs.
    """
    rules, mistakes = _read(table, folder, session_project)
    if mistakes:
        raise mistakes[0]
    return rules


def _read(
    table: Mapping[str, Any], folder: Path | None, session_project: Project | None
) -> tuple[PolicyRules, list[MisfitError | ConfigurationError]]:
    """Return the rules of *table*, and its mistakes; the rules are complete without mistakes."""
    reader = TableReader()
    tables = _read_tables(table, reader)
    file_folder = Path.cwd() if folder is None else folder
    start, project, session = folder, Project(str(file_folder)), None
    if tables.project == FROM_SESSION:
        session = project = session_project or project_at(process_folder())
        start = Path(project.folder)
    files = tuple([file_folder / os.path.expanduser(name) for name in tables.programs])  # noqa: PTH111 - never raises
    programs, errors = None, []
    try:
        with reader.collecting("programs"):
            programs = Programs(files) if files else None
    except ConfigurationError as error:
        errors.append(error)
    builder = RuleBuilder(reader, tables, project, programs)
    rules = PolicyRules(
        rules=tuple(builder.rules()),
        calls=tuple(builder.calls()),
        default=tables.default,
        tools=tuple(_tools(tables, reader, start)),
        trusted=tables.trust_annotations,
        folder=_folder(tables.folder, start),
        project=session,
        programs=programs,
        program_files=files,
        digest=_digest(table, project, programs),
    )
    return rules, [*[_with_place(table, each) for each in reader.mistakes], *errors]


def _read_tables(table: Mapping[str, Any], reader: TableReader) -> PolicyTable:
    known = PolicyTable.__struct_fields__
    for key in [key for key in table if key not in known]:
        way_out = 'its component "policy" names the policy'
        reader.mistakes.append(MisfitError(unknown_file_key(key, known, way_out), key))
    tables: PolicyTable = reader.read(
        {key: table[key] for key in known if key in table}, PolicyTable
    )
    return tables


def _with_place(table: Mapping[str, Any], error: MisfitError) -> MisfitError:
    """Return *error* with its rule, call or tool in *table*, and its key, before the reason."""
    match error.path:
        case ["rule" | "call" as kind, int() as index, *inner]:
            row = table[kind][index]
            name = row.get("name") if isinstance(row, Mapping) else None
            place = f"{kind} {name!r}" if isinstance(name, str) else f"{kind} {index + 1}"
            words = [place, *_keys(error, [key for key in inner if isinstance(key, str)])]
        case ["tools", str() as name, *_]:
            words = [f"tool {name!r}"]
        case _:
            words = []
    return MisfitError(": ".join([*words, error.reason]), *error.path)


def _keys(error: MisfitError, keys: list[str]) -> Iterator[str]:
    """Yield the words for *keys*, the path of *error*; its reason names an unknown key itself."""
    if keys and error.reason.startswith(("unknown key", "unknown test", f"unknown {keys[-1]}")):
        del keys[-1]
    is_of_values = keys[:1] in [["arguments"], ["annotations"], ["context"]]
    yield from map(str.format, ("key {!r}", "{}", "test {!r}" if is_of_values else "{}"), keys)


class RuleBuilder:
    """Builds the rules and calls of *tables*, and collects mistakes in *reader*.

    *project* is the base of relative paths; *programs* are the shipped and the policy's programs.
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
            with self._reader.collecting("rule", number, "prompt"):
                if ("rule", number, "verdict") not in self._wrong:
                    _check_prompt(table)
            yield self._with_conditions(rule, table, "rule")

    def calls(self) -> Iterator[NamedCall]:
        """Yield the calls that rules can name."""
        for number, table in self._rows("call", self._tables.call):
            # A deny rule matches possible calls, and tells certain ones apart.
            rule = PolicyRule(name=table.name, verdict="deny", number=number)
            outcome = None
            if ("call", number, "outcome") not in self._wrong:
                with self._reader.collecting("call", number, "outcome"):
                    outcome = _outcome(table)
            yield NamedCall(self._with_conditions(rule, table, "call"), outcome)

    def _rows(self, kind: str, rows: tuple[_Row, ...]) -> Iterator[tuple[int, _Row]]:
        """Yield the readable *rows* with their numbers; a repeated name is a mistake."""
        seen: set[str] = set()
        for number, row in enumerate(rows):
            if row is UNSET:
                continue
            if row.name in seen and (kind, number) not in self._wrong:
                reason = f"two {kind}s have this name; rename one"
                self._reader.mistakes.append(MisfitError(reason, kind, number, "name"))
            seen.add(row.name)
            yield number, row

    def _with_conditions(self, rule: PolicyRule, table: ConditionTable, kind: str) -> PolicyRule:
        place, allows = (kind, rule.number), rule.allows
        calls: list[CallCondition] = []
        for key in self._keys(CALL_KEYS, table, place):
            with self._reader.collecting(*place, key):
                calls.append(_call_condition(key, table, every=allows))
        keys = frozenset(self._keys(PART_KEYS, table, place))
        commands = tuple(self._commands(texts(table.command), place))
        parts = [conditions.on_commands(commands, every=allows)] if commands else []
        for key in [key for key in PART_KEYS[1:] if key in keys]:
            with self._reader.collecting(*place, key):
                parts.append(self._part_condition(key, table, every=allows))
        for key in self._keys(("exactly", *FLOW_KEYS), table, place):
            with self._reader.collecting(*place, key):
                parts.append(self._further_condition(key, table, allows=allows))
        implied = _implied_conditions(keys, commands) if allows else ()
        return replace(
            rule,
            call_conditions=tuple(calls),
            part_conditions=(*parts, *implied),
            programs=frozenset([each.program for each in commands]) if commands else None,
        )

    def _keys(
        self, keys: tuple[str, ...], table: ConditionTable, place: tuple[str, int]
    ) -> list[str]:
        """Return the valid keys of *table* among *keys*."""
        known = [key for key in keys if table.value(key) is not None]
        return [key for key in known if (*place, key) not in self._wrong]

    def _commands(self, names: tuple[str, ...], place: tuple[str, int]) -> Iterator[CommandPattern]:
        with self._reader.collecting(*place, "command"):
            for name in names:
                yield CommandPattern(name, self._programs)

    def _further_condition(self, key: str, table: ConditionTable, *, allows: bool) -> PartCondition:
        if key == "exactly":
            of_session = self._tables.project == FROM_SESSION
            return exact_condition(
                table, self._project, self._programs, allows=allows, of_session=of_session
            )
        return build_flow_condition(key, table.value(key), allows=allows)

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
                raise MisfitError("an allow rule cannot have `outside`; name its files in `writes`")
        path_warning = self._project.path_warning if every or key == "outside" else ""
        files = path_patterns(names, project=None if path_warning else self._project.folder)
        if key == "outside":
            return conditions.on_changes_elsewhere(names, files, path_warning)
        if every:
            has_command = table.command is not None
            return conditions.AllowedFiles(key, files, has_command, path_warning).condition(names)
        return conditions.on_touched_files(key, names, files)

    def _limits(self, table: RuleTable, number: int) -> Iterator[Limit]:
        if table.at_most is not None and ("rule", number, "at_most") not in self._wrong:
            with self._reader.collecting("rule", number, "at_most"):
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
        raise MisfitError('only a rule with verdict = "allow" can skip a prompt')
    if limits := [key for key in LIMIT_KEYS if getattr(table, key) is not None]:
        raise MisfitError(f"a rule with {limits[0]!r} cannot skip a prompt; leave one out")


def _implied_conditions(
    keys: frozenset[str], commands: tuple[CommandPattern, ...]
) -> Iterator[PartCondition]:
    """Yield the implied conditions of an allow rule with *keys*."""
    if keys and "effects" not in keys:
        yield conditions.on_covered_effects(keys, commands)
    if keys & conditions.RESOURCES:
        yield conditions.on_named_resources(keys)


def _call_condition(key: str, table: ConditionTable, *, every: bool) -> CallCondition:
    if key == "tools":
        return conditions.on_tools(texts(table.tools))
    if key in {"agent", "lineage"}:
        return conditions.on_agent(key, texts(getattr(table, key)))
    if key == "when":
        from toolbus.policy.rules.expressions import on_expression  # noqa: PLC0415 - loads CEL

        return on_expression(table.when or "")
    values = []
    for path, value in getattr(table, key).items():
        try:
            values.append(conditions.WantedValues(path, read_path(path), build_tests(value)))
        except MisfitError as error:
            raise MisfitError(error.reason, path, *error.path) from None
    written = tuple([f"{path} = {value!r}" for path, value in getattr(table, key).items()])
    return conditions.on_values(key, tuple(values), written, every=every)


def _quotas(table: QuotaTable) -> Iterator[Quota]:
    amounts = [(each, getattr(table, each)) for each in _MEASURES]
    if all(amount is None for _, amount in amounts):
        raise MisfitError(f"it has nothing to count; expected {', '.join(_MEASURES)}")
    if (table.of is None) != (table.total is None):
        raise MisfitError("`total` and `of`, the argument to add up, need each other")
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
        passes(tests, "")
    except MisfitError as error:
        raise MisfitError(error.reason, "text", *error.path) from None
    except WrongTypeError as error:
        reason = f"this test cannot apply to the text of a result: {error}"
        raise MisfitError(reason, "text") from None
    return Outcome(outcome.status or "", tests)


def _tools(
    tables: PolicyTable, reader: TableReader, folder: Path | None
) -> Iterator[tuple[str, ToolFacts]]:
    for name, declared in tables.tools.items():
        for key in ("reads", "writes", "trees", "urls"):
            for path in getattr(declared, key) or ():
                with reader.collecting("tools", name, key):
                    read_path(path)
        yield name, replace(declared, folder=_folder(declared.folder, folder))
    if tables.coding_agents:
        yield from msgspec.convert(tool_names().tools, dict[str, ToolFacts]).items()


def _folder(value: str | None, folder: Path | None) -> str | None:
    if value is None:
        return None
    return os.path.normpath(os.path.join(folder or Path.cwd(), os.path.expanduser(value)))  # noqa: PTH111, PTH118 - as text


def combined_digest(versions: Sequence[PolicyRules]) -> str:
    """Return the digest of all *versions* that are active together."""
    if len(versions) == 1:
        return versions[0].digest
    return hashlib.sha256("\n".join([rules.digest for rules in versions]).encode()).hexdigest()


def _digest(table: Mapping[str, Any], project: Project, programs: Programs | None) -> str:
    """Return the digest of *table*'s content; layout, comments and defaults do not change it."""
    defaults = {"default": "ask", "rule": (), "call": (), "tools": {}, "trust_annotations": ()}
    facts = {**defaults, **table, "folder": table.get("folder"), "project": project.folder}
    if table.get("project") == FROM_SESSION:
        facts["of_session"] = project.path_warning
    facts["programs"] = [] if programs is None else programs.file_tables
    body = msgspec.json.encode(facts, order="sorted", enc_hook=repr)
    return hashlib.sha256(body).hexdigest()


class BaseWarning(NamedTuple):
    """A warning *text* on the base of a path, in rule number *position* under *key*."""

    position: int
    key: str
    text: str


def find_base_warning(file: Path, tables: PolicyTable) -> BaseWarning | None:
    """Return the warning on the first relative path of a personal policy without `project`."""
    personal = config_folder()
    folder = Path(os.path.realpath(file)).parent
    if personal is None or not folder.is_relative_to(personal) or tables.project is not UNSET:
        return None
    for position, rule in enumerate(tables.rule):
        for key in FILE_KEYS:
            for text in texts(getattr(rule, key)):
                if any(map(is_relative, alternatives(text))):
                    where = f"{text!r} begins at {str(folder)!r}"
                    return BaseWarning(position, key, f"{where}; {_WAY_OUT}")
    return None
