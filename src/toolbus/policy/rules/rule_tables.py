"""One `[[rule]]` of a file, made ready to judge.

| key | holds for |
|---|---|
| `name`, `verdict` | every rule has them; `verdict` is "allow", "ask", "deny" or "audit" |
| `tools` | names of tools, as globs |
| `annotations`, `arguments`, `context` | values, see `toolbus.policy.rules.value_tests` |
| `agent`, `lineage` | the id of the agent that speaks, of one above it, as globs |
| `when` | what CEL says of the call: see `toolbus.policy.rules.expressions` |
| `command` | commands: see `toolbus.policy.rules.command_patterns` |
| `effects` | some of read, write, network, destroy, run-code |
| `reads`, `writes`, `touches` | files that are read, changed, either, as in a `.gitignore` |
| `outside` | a file is changed that none of these patterns names; not of a rule that allows |
| `hosts` | hosts, as globs: see `toolbus.policy.paths.hosts` |
| `pushes` | branches that `git push` changes, as globs, however its words name them |
| `at_most`, `only_after`, `never_after`, `repeats` | see `toolbus.policy.history.limit_tables` |
| `prompt` | of a rule that allows: "skip" answers a coding agent's own prompt for what only reads |
| `reason`, `hint` | what the model is told: why, and what to do instead |
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from toolbus.policy.history.limit_tables import LIMIT_KEYS, read_limits
from toolbus.policy.paths.hosts import host_patterns
from toolbus.policy.paths.path_patterns import path_patterns
from toolbus.policy.rules.argument_paths import EVERY, read_path
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
from toolbus.policy.rules.records import EFFECTS, VERDICTS, PolicyRule
from toolbus.policy.rules.value_tests import read_tests
from toolbus.settings.hints import hint, unknown_key
from toolbus.toml.values import MisfitError, fit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from toolbus.policy.programs.program_files import Programs
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.records import CallCondition, PartCondition

T = TypeVar("T")
_VALUES = ("arguments", "annotations", "context")
_TEXTS = ("name", "verdict", "reason", "hint", "prompt")
CALL_KEYS = ("tools", "agent", "lineage", "annotations", "context", "arguments", "when")
PART_KEYS = ("command", "effects", "reads", "writes", "touches", "outside", "hosts", "pushes")
KEYS = (*_TEXTS, *CALL_KEYS, *PART_KEYS, *LIMIT_KEYS)


def read_rule(
    table: Mapping[str, Any],
    index: int,
    project: Project,
    calls: Collection[str] = (),
    *,
    programs: Programs | None = None,
) -> PolicyRule:
    """Return the rule that *table* is; relative path patterns begin at the *project*.

    Its limits may name *calls*; what its commands do, *programs* say.

    Raises `MisfitError`, with the path of what is wrong.
    """
    for key in table:
        if key not in KEYS:
            raise MisfitError(unknown_key(key, KEYS), key)
    texts = {key: _text(key, table[key]) for key in _TEXTS if key in table}
    for key in ("name", "verdict"):
        if not texts.get(key, "").strip():
            raise MisfitError(f"it has no `{key}`; every rule needs one", *([key] * (key in table)))
    verdict: Any = texts["verdict"]
    if verdict not in VERDICTS:
        raise MisfitError(f"unknown verdict {verdict!r}{hint(verdict, VERDICTS)}", "verdict")
    _check_prompt(table)
    conditions = _read_all(_call_condition, table, CALL_KEYS)
    parts = _PartReader(project, programs, verdict == "allow", "command" in table)
    of_parts = dict(_read_all(parts.read, table, PART_KEYS))
    command = of_parts.get("command")
    commands = command if isinstance(command, CommandNames) else None
    keys = frozenset(of_parts)
    if verdict == "allow" and keys and "effects" not in keys:
        of_parts["covered"] = CoveredEffects(keys, commands)
    if verdict == "allow" and keys & RESOURCES:
        of_parts["named"] = NamedResources(keys)
    return PolicyRule(
        name=texts["name"],
        verdict=verdict,
        number=index,
        call_conditions=tuple([condition for _, condition in conditions]),
        part_conditions=tuple(of_parts.values()),
        limits=read_limits(table, calls),
        reason=texts.get("reason", ""),
        hint=texts.get("hint", ""),
        programs=None if commands is None else commands.programs,
        argument=_needed_argument(table.get("arguments")),
        skips_prompt="prompt" in table,
    )


def _check_prompt(table: Mapping[str, Any]) -> None:
    """Raise `MisfitError` for a `prompt` that is unknown, or that its rule cannot answer."""
    prompt = table.get("prompt")
    if prompt is None:
        return
    if prompt != "skip":
        raise MisfitError(f'unknown prompt {prompt!r}; known: "skip"', "prompt")
    if table["verdict"] != "allow":
        raise MisfitError("key 'prompt': only a rule with verdict = \"allow\" skips one", "prompt")
    if limits := [key for key in LIMIT_KEYS if key in table]:
        reason = f"key 'prompt': a rule with {limits[0]!r} skips no prompt; leave one out"
        raise MisfitError(reason, "prompt")


def _needed_argument(tests: Any) -> str | None:
    """Return an argument without which *tests* never hold, None if there is none."""
    first = [read_path(path)[0] for path in tests or ()]
    return next((key for key in first if EVERY not in key), None)


def _read_all(
    read: Callable[[str, Any], Any], table: Mapping[str, Any], keys: tuple[str, ...]
) -> list[tuple[str, Any]]:
    """Return what *read* makes of each of *keys* that *table* has, with its key."""
    made: list[tuple[str, Any]] = []
    for key in keys:
        if key in table:
            try:
                made.append((key, read(key, table[key])))
            except MisfitError as error:
                raise MisfitError(f"key {key!r}: {error.reason}", key, *error.path) from None
    return made


def _call_condition(key: str, value: Any) -> CallCondition:
    if key == "when":
        from toolbus.policy.rules.expressions import Expression  # noqa: PLC0415 - loads CEL, for few

        return Expression(value)
    if key == "tools":
        return NamedTools(_names(value))
    if key in _VALUES:
        return ValuesAt(key, tuple(_tests(value)))
    return SpeakerNames(key, _names(value))


def _tests(value: Any) -> Iterator[Any]:
    if not isinstance(value, dict) or not value:
        raise MisfitError(f"expected a table of values by their paths, got {value!r}")
    for name, raw in value.items():
        try:
            yield name, read_path(name), read_tests(raw)
        except MisfitError as error:
            raise MisfitError(f"{name}: {error.reason}", name, *error.path) from None


class _PartReader(NamedTuple):
    """Reads conditions of parts: of a rule that *allows* or does not, with a command or without."""

    project: Project
    programs: Programs | None
    allows: bool
    has_command: bool

    def read(self, key: str, value: Any) -> PartCondition:
        """Return what *value* says under *key*; raises `MisfitError`."""
        names = _names(value)
        if key == "command":
            return CommandNames(tuple([CommandPattern(name, self.programs) for name in names]))
        if key == "effects":
            for name in names:
                if name not in EFFECTS:
                    raise MisfitError(f"unknown effect {name!r}{hint(name, EFFECTS)}")
            return Effects(frozenset(names))
        if key == "hosts":
            return ReachedHosts(_patterns(host_patterns, names))
        if key == "pushes":
            return PushedBranches(names)
        if key == "outside" and self.allows:
            raise MisfitError("a rule that allows names in `writes` which files it allows")
        fault = self.project.fault if self.allows or key == "outside" else ""
        project = None if fault else self.project.folder
        patterns = _patterns(partial(path_patterns, project=project), names)
        if key == "outside":
            return FilesElsewhere(patterns, fault)
        return TouchedFiles(key, patterns, self.has_command, fault)


def _patterns(read: Callable[[tuple[str, ...]], T], names: tuple[str, ...]) -> T:
    try:
        return read(names)
    except ValueError as error:
        raise MisfitError(str(error)) from None


def _names(value: Any) -> tuple[str, ...]:
    """Return *value*, a text or a list of them, as a tuple."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names:
        raise MisfitError(f"expected a text, or a list of texts, got {value!r}")
    fitted: tuple[str, ...] = fit(names, tuple[str, ...], Path())
    if not all(name.strip() for name in fitted):
        raise MisfitError(f"expected no empty text, got {value!r}")
    return fitted


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise MisfitError(f"key {key!r}: expected a text, got {value!r}", key)
    return value
