"""A policy as it stands in its file, or among the settings of `toolbus.toml`.

```toml
default = "ask"                 # what no rule speaks of: "ask", "deny" or "allow"
folder = "."                    # where relative paths of tools begin; from this file's folder on
project = "file"                # "session": ./ is the folder in which a session began, not this one

programs = ["programs.toml"]    # what programs do that are not known: programs/README.md
coding_agents = true            # the tools of coding agents are known: toolbus.policy.agent_tools

[tools.read_file]               # what a tool does that is no shell
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
reason = "what is pushed belongs to others, too"
hint = "push to a branch of your own"
```
"""

from __future__ import annotations

import hashlib
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from toolbus.errors import ConfigurationError
from toolbus.policy.agent_tools import AGENT_TOOLS
from toolbus.policy.history.call_tables import read_calls
from toolbus.policy.programs.program_files import Programs
from toolbus.policy.projects import (
    FROM_FILE,
    FROM_SESSION,
    PROJECTS,
    Project,
    process_folder,
    project_at,
)
from toolbus.policy.rules.argument_paths import read_path
from toolbus.policy.rules.misplaced_paths import misplaced_path
from toolbus.policy.rules.records import DEFAULTS, EFFECTS, PolicyRules, ToolFacts
from toolbus.policy.rules.rule_tables import read_rule
from toolbus.settings.hints import hint, unknown_key
from toolbus.toml.files import (
    decode_text,
    locate_keys,
    parse_toml,
    read_bytes,
    unknown_file_key,
)
from toolbus.toml.values import MisfitError, fit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from toolbus.policy.rules.records import PolicyRule

T = TypeVar("T")
_KEYS = (
    *("default", "project", "folder", "programs", "coding_agents", "trust_annotations", "tools"),
    *("call", "rule"),
)
_LONGEST = 2**20
"""Bytes of a file; what is longer was not written by a person, nor could one read it."""


class PolicyFile:
    """The text of a policy's *file*, and where in it what stands; raises `ConfigurationError`."""

    def __init__(self, file: Path, data: bytes | None = None) -> None:
        self.file = file
        self.text = decode_text(file, read_bytes(file, _LONGEST) if data is None else data)
        self.table = parse_toml(file, self.text)

    @cached_property
    def lines(self) -> dict[tuple[str | int, ...], int]:
        """The line of each key; found when it is needed, for that takes longer than reading."""
        return locate_keys(self.file, self.text)

    def line(self, *path: str | int) -> int | None:
        """Return the line of what *path* leads to, or of what it should be in."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def read(self, project: Project | None = None) -> PolicyRules:
        """Return the rules for a session's *project*, as `read_table` takes it.

        Raises `ConfigurationError` with the line of what is wrong.
        """
        folder = Path(os.path.abspath(self.file)).parent  # noqa: PTH100 - links stay as they are
        try:
            rules = read_table(self.table, folder, project)
        except MisfitError as error:
            raise ConfigurationError(error.reason, str(self.file), self.line(*error.path)) from None
        path = misplaced_path(self.file, self.table)
        return rules._replace(file=self.file, misplaced="" if path is None else path.text)


def read_policy(file: Path | str, project: Project | None = None) -> PolicyRules:
    """Return the rules of *file* for a session's *project*, as `read_table` takes it.

    Raises `ConfigurationError`, and `LoadError` for an extra.
    """
    return PolicyFile(Path(file).expanduser()).read(project)


def read_table(
    table: Mapping[str, Any], folder: Path | None = None, session_project: Project | None = None
) -> PolicyRules:
    """Return the rules of *table*, in whose file's *folder* relative paths of patterns begin.

    If it says that they begin in the session's project, that is *session_project*, without one
    the current folder. Raises `MisfitError`, with the path of what is wrong.
    """
    for key in table:
        if key not in _KEYS:
            raise MisfitError(
                unknown_file_key(key, _KEYS, 'its component "policy" names the policy'), key
            )
    default = _one_of(DEFAULTS, table.get("default", "ask"), "default")
    of_session = _one_of(PROJECTS, table.get("project", FROM_FILE), "project") == FROM_SESSION
    file_folder = Path.cwd() if folder is None else folder
    project = Project(str(file_folder))
    if of_session:
        project = session_project or project_at(process_folder())
    start = Path(project.folder) if of_session else folder
    calls = read_calls(_tables(table, "call"), project)
    names = [call.name for call in calls]
    files = _program_files(table.get("programs", ()), file_folder)
    programs = Programs(files) if files else None
    return PolicyRules(
        rules=_read_rules(_tables(table, "rule"), project, names, programs),
        calls=calls,
        default=default,
        tools=(*_read_tools(table.get("tools", {}), start), *_agent_tools(table)),
        trusted=_trusted(table.get("trust_annotations", ())),
        folder=_folder(table.get("folder"), start),
        project=project if of_session else None,
        programs=programs,
        program_files=files,
        digest=_digest(table, project, programs),
    )


def _one_of(known: tuple[T, ...], value: Any, key: str) -> T:
    if value not in known:
        raise MisfitError(f"unknown {key} {value!r}{hint(str(value), map(str, known))}", key)
    chosen: T = value
    return chosen


def digest_in_force(versions: Sequence[PolicyRules]) -> str:
    """Return the digest of all *versions* that are in force beside each other."""
    if len(versions) == 1:
        return versions[0].digest
    return hashlib.sha256("\n".join([rules.digest for rules in versions]).encode()).hexdigest()


def _digest(table: Mapping[str, Any], project: Project, programs: Programs | None) -> str:
    """Return the digest of what *table* says: neither layout, comments nor defaults change it."""
    defaults = {"default": "ask", "rule": (), "call": (), "tools": {}, "trust_annotations": ()}
    facts = {**defaults, **table, "folder": table.get("folder"), "project": project.folder}
    if table.get("project") == FROM_SESSION:
        facts["of_session"] = project.fault
    facts["programs"] = [] if programs is None else programs.file_tables
    body = msgspec.json.encode(facts, order="sorted", enc_hook=repr)
    return hashlib.sha256(body).hexdigest()


def _folder(value: Any, folder: Path | None, *path: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise MisfitError(f"expected the path of a folder, got {value!r}", *path, "folder")
    return os.path.normpath(os.path.join(folder or Path.cwd(), os.path.expanduser(value)))  # noqa: PTH111, PTH118 - as text


def _program_files(value: Any, folder: Path) -> tuple[Path, ...]:
    try:
        files: tuple[Path, ...] = fit(value, tuple[Path, ...], folder)
    except MisfitError as error:
        reason = f"expected files that say what programs do: {error.reason}"
        raise MisfitError(reason, "programs", *error.path) from None
    return files


def _trusted(value: Any) -> tuple[str, ...]:
    try:
        patterns: tuple[str, ...] = fit(value, tuple[str, ...], Path())
    except MisfitError as error:
        reason = f"expected names of tools, whose annotations are believed: {error.reason}"
        raise MisfitError(reason, "trust_annotations", *error.path) from None
    return patterns


def _tables(table: Mapping[str, Any], key: str) -> Sequence[dict[str, Any]]:
    tables = table.get(key, ())
    if not isinstance(tables, list | tuple) or not all(isinstance(each, dict) for each in tables):
        raise MisfitError(f"{key!r} is no array of tables; write [[{key}]]", key)
    return tables


def _read_rules(
    tables: Sequence[dict[str, Any]],
    project: Project,
    calls: Collection[str],
    programs: Programs | None,
) -> tuple[PolicyRule, ...]:
    rules: list[PolicyRule] = []
    names: dict[str, int] = {}
    for index, table in enumerate(tables):
        try:
            rule = read_rule(table, index, project, calls, programs=programs)
        except MisfitError as error:
            name = table.get("name")
            which = f"rule {name!r}" if isinstance(name, str) else f"rule {index + 1}"
            raise MisfitError(f"{which}: {error.reason}", "rule", index, *error.path) from None
        if rule.name in names:
            reason = f"two rules are called {rule.name!r}; what is asked and recorded names one"
            raise MisfitError(f"{reason}; rename one", "rule", index, "name")
        names[rule.name] = index
        rules.append(rule)
    return tuple(rules)


def _read_tools(tables: Any, folder: Path | None) -> tuple[tuple[str, ToolFacts], ...]:
    if not isinstance(tables, dict):
        raise MisfitError("'tools' is no table; write [tools.NAME]", "tools")
    return tuple([(name, _tool_facts(name, table, folder)) for name, table in tables.items()])


def _agent_tools(table: Mapping[str, Any]) -> tuple[tuple[str, ToolFacts], ...]:
    value = table.get("coding_agents", False)
    if not isinstance(value, bool):
        raise MisfitError(f"expected true or false, got {value!r}", "coding_agents")
    return AGENT_TOOLS if value else ()


def _tool_facts(name: str, table: Any, folder: Path | None) -> ToolFacts:
    known = ToolFacts.__struct_fields__
    if not isinstance(table, dict):
        raise MisfitError(f"tool {name!r}: expected a table, got {table!r}", "tools", name)
    for key in table:
        if key not in known:
            raise MisfitError(f"tool {name!r}: {unknown_key(key, known)}", "tools", name, key)
    try:
        declared: ToolFacts = fit(table, ToolFacts, Path())
    except MisfitError as error:
        reason = f"tool {name!r}: {error.reason}"
        raise MisfitError(reason, "tools", name, *error.path) from None
    for effect in declared.effects or ():
        if effect not in EFFECTS:
            reason = f"tool {name!r}: unknown effect {effect!r}{hint(effect, EFFECTS)}"
            raise MisfitError(reason, "tools", name, "effects")
    for path in (
        *(declared.reads or ()),
        *(declared.writes or ()),
        *(declared.trees or ()),
        *(declared.urls or ()),
    ):
        read_path(path)
    return msgspec.structs.replace(declared, folder=_folder(declared.folder, folder, "tools", name))
