"""A policy as it stands in its file, or among the settings of `toolbus.toml`.

```toml
default = "ask"                 # what no rule speaks of: "ask", "deny" or "allow"
folder = "."                    # where relative paths of tools begin; from this file's folder on
project = "file"                # "session": ./ is the folder in which a session began, not this one

programs = ["programs.toml"]    # what programs do that are not known: programs/README.md
coding_agents = true            # the tools of coding agents are known: policy/tool_names.toml

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
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from toolbus.errors import ConfigurationError
from toolbus.policy.argument_names import tool_names
from toolbus.policy.paths.path_patterns import alternatives, is_relative
from toolbus.policy.programs.program_files import Programs
from toolbus.policy.projects import (
    FROM_SESSION,
    Project,
    process_folder,
    project_at,
)
from toolbus.policy.rules.building import RuleBuilder
from toolbus.policy.rules.records import PolicyRules
from toolbus.policy.rules.schemas import TableReader
from toolbus.policy.rules.tables import PolicyTable, ToolFacts, texts
from toolbus.policy.rules.values import read_path
from toolbus.settings.user_folders import config_folder
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


_WAY_OUT = f'`project = "{FROM_SESSION}"` is the folder in which a session began'
_LONGEST = 2**20
"""Bytes of a file; what is longer was not written by a person, nor could one read it."""


class PolicyFile:
    """The text of a policy's *file*, and its lines; raises `ConfigurationError`."""

    def __init__(self, file: Path, data: bytes | None = None) -> None:
        self.file = file
        self.text = decode_text(file, read_bytes(file, _LONGEST) if data is None else data)
        self.table = parse_toml(file, self.text)

    @cached_property
    def lines(self) -> dict[tuple[str | int, ...], int]:
        """The line of each key; found when it is needed, for that takes longer than reading."""
        return locate_keys(self.file, self.text)

    @cached_property
    def tables(self) -> PolicyTable:
        """The file's tables by the schema, as far as they can be read."""
        return _read_tables(self.table, TableReader())

    def line(self, *path: str | int) -> int | None:
        """Return the line of what *path* leads to, or of what it should be in."""
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
        path = misplaced_path(self.file, self.tables)
        return rules._replace(file=self.file, misplaced="" if path is None else path.text)

    def mistakes(self) -> list[ConfigurationError]:
        """Return why the file cannot be read, in the order of its lines; none if it can."""
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
    """Return the rules of *table*, in whose file's *folder* relative paths of patterns begin.

    If it says that they begin in the session's project, that is *session_project*, without one
    the current folder. Raises `MisfitError`, with the path of the first mistake, and
    `ConfigurationError` for a file of programs.
    """
    rules, mistakes = _read(table, folder, session_project)
    if mistakes:
        raise mistakes[0]
    return rules


def _read(
    table: Mapping[str, Any], folder: Path | None, session_project: Project | None
) -> tuple[PolicyRules, list[MisfitError | ConfigurationError]]:
    """Return the rules of *table*, and what is wrong with it: without that they are whole."""
    reader = TableReader()
    tables = _read_tables(table, reader)
    file_folder = Path.cwd() if folder is None else folder
    start, project, session = folder, Project(str(file_folder)), None
    if tables.project == FROM_SESSION:
        session = project = session_project or project_at(process_folder())
        start = Path(project.folder)
    files = tuple([file_folder / Path(name).expanduser() for name in tables.programs])
    programs, errors = None, []
    try:
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
    return rules, [*[_worded(table, each) for each in reader.mistakes], *errors]


def _read_tables(table: Mapping[str, Any], reader: TableReader) -> PolicyTable:
    known = PolicyTable.__struct_fields__
    for key in [key for key in table if key not in known]:
        way_out = 'its component "policy" names the policy'
        reader.mistakes.append(MisfitError(unknown_file_key(key, known, way_out), key))
    tables: PolicyTable = reader.read(
        {key: table[key] for key in known if key in table}, PolicyTable
    )
    return tables


def _worded(table: Mapping[str, Any], error: MisfitError) -> MisfitError:
    """Return *error* with the rule, call or tool of *table*, and the key, before its reason."""
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
    """Yield the words for *keys*, which lead to what is wrong; a reason names an unknown one."""
    if keys and error.reason.startswith(("unknown key", "unknown test", f"unknown {keys[-1]}")):
        del keys[-1]
    is_of_values = keys[:1] in [["arguments"], ["annotations"], ["context"]]
    yield from map(str.format, ("key {!r}", "{}", "test {!r}" if is_of_values else "{}"), keys)


def _tools(
    tables: PolicyTable, reader: TableReader, folder: Path | None
) -> Iterator[tuple[str, ToolFacts]]:
    for name, declared in tables.tools.items():
        for key in ("reads", "writes", "trees", "urls"):
            for path in getattr(declared, key) or ():
                with reader.keeping("tools", name, key):
                    read_path(path)
        yield name, replace(declared, folder=_folder(declared.folder, folder))
    if tables.coding_agents:
        yield from msgspec.convert(tool_names().tools, dict[str, ToolFacts]).items()


def _folder(value: str | None, folder: Path | None) -> str | None:
    if value is None:
        return None
    return os.path.normpath(os.path.join(folder or Path.cwd(), os.path.expanduser(value)))  # noqa: PTH111, PTH118 - as text


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


class MisplacedPath(NamedTuple):
    """A path of the rule number *position* under *key*; *text* is what to tell of it."""

    position: int
    key: str
    text: str


def misplaced_path(file: Path, tables: PolicyTable) -> MisplacedPath | None:
    """Return the first such path of the policy *tables* in *file*; None without."""
    personal = config_folder()
    folder = Path(os.path.realpath(file)).parent
    if personal is None or not folder.is_relative_to(personal) or tables.project is not UNSET:
        return None
    for position, rule in enumerate(tables.rule):
        for key in ("reads", "writes", "touches", "outside"):
            for text in texts(getattr(rule, key)):
                if any(map(is_relative, alternatives(text))):
                    where = f"{text!r} begins at {str(folder)!r}"
                    return MisplacedPath(position, key, f"{where}; {_WAY_OUT}")
    return None
