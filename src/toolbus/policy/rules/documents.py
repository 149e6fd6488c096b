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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from toolbus.errors import ConfigurationError
from toolbus.policy.agent_tools import AGENT_TOOLS
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
from toolbus.policy.rules.schemas import fit_schema, located
from toolbus.policy.rules.tables import PolicyTable, texts
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
    from collections.abc import Collection, Sequence

    from toolbus.policy.history.limits import NamedCall
    from toolbus.policy.rules.records import PolicyRule
    from toolbus.policy.rules.tables import ToolFacts

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
        """What the file says, by the schema; raises `MisfitError`."""
        return fit_policy(self.table)

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
            rules = _read(self.tables, self.table, folder, project)
        except MisfitError as error:
            raise ConfigurationError(error.reason, str(self.file), self.line(*error.path)) from None
        path = misplaced_path(self.file, self.tables)
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
    return _read(fit_policy(table), table, folder, session_project)


def fit_policy(table: Mapping[str, Any]) -> PolicyTable:
    """Return *table* by the schema; raises `MisfitError`, whose reason names rule and key."""
    known = PolicyTable.__struct_fields__
    for key in table:
        if key not in known:
            way_out = 'its component "policy" names the policy'
            raise MisfitError(unknown_file_key(key, known, way_out), key)
    with _worded(table):
        fitted: PolicyTable = fit_schema(table, PolicyTable)
    return fitted


def _read(
    tables: PolicyTable,
    written: Mapping[str, Any],
    folder: Path | None,
    session_project: Project | None,
) -> PolicyRules:
    file_folder = Path.cwd() if folder is None else folder
    start, project, session = folder, Project(str(file_folder)), None
    if tables.project == FROM_SESSION:
        session = project = session_project or project_at(process_folder())
        start = Path(project.folder)
    files = tuple([file_folder / Path(name).expanduser() for name in tables.programs])
    programs = Programs(files) if files else None
    _check_names("rule", [table.name for table in tables.rule])
    _check_names("call", [table.name for table in tables.call])
    with _worded(written):
        # What commands of a named call do, the shipped programs say.
        calls = tuple(_calls(RuleBuilder(project), tables))
        names = [call.name for call in calls]
        return PolicyRules(
            rules=tuple(_rules(RuleBuilder(project, programs), tables, names)),
            calls=calls,
            default=tables.default,
            tools=tuple(_tools(tables, start)),
            trusted=tables.trust_annotations,
            folder=_folder(tables.folder, start),
            project=session,
            programs=programs,
            program_files=files,
            digest=_digest(written, project, programs),
        )


@contextmanager
def _worded(table: Mapping[str, Any]) -> Iterator[None]:
    """Put the rule, call or tool of *table*, and the key, before the reason of a `MisfitError`."""
    try:
        yield
    except MisfitError as error:
        reason = f"{_place(table, error)}{error.reason}"
        raise MisfitError(reason, *error.path) from None


def _place(table: Mapping[str, Any], error: MisfitError) -> str:
    """Return the words for the path of *error*, whose reason names an unknown key itself."""
    match error.path:
        case ["rule" | "call" as kind, int() as index, *inner]:
            row = table[kind][index]
            name = row.get("name") if isinstance(row, Mapping) else None
            place = f"{kind} {name!r}" if isinstance(name, str) else f"{kind} {index + 1}"
            keys = [key for key in inner if isinstance(key, str)]
        case ["tools", str() as name, *_]:
            return f"tool {name!r}: "
        case _:
            return ""
    if keys and error.reason.startswith(("unknown key", "unknown test", f"unknown {keys[-1]}")):
        del keys[-1]
    is_of_values = keys[:1] in [["arguments"], ["annotations"], ["context"]]
    shapes = ("key {!r}", "{}", "test {!r}" if is_of_values else "{}")
    return "".join([f"{each}: " for each in (place, *map(str.format, shapes, keys))])


def _check_names(kind: str, names: Iterable[str]) -> None:
    """Raise `MisfitError` if two of *names* are the same; what is asked and recorded names one."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            raise MisfitError(f"two {kind}s are called {name!r}; rename one", kind, index, "name")
        seen.add(name)


def _calls(builder: RuleBuilder, tables: PolicyTable) -> Iterator[NamedCall]:
    for index, table in enumerate(tables.call):
        with located("call", index):
            yield builder.call(table, index)


def _rules(
    builder: RuleBuilder, tables: PolicyTable, calls: Collection[str]
) -> Iterator[PolicyRule]:
    for index, table in enumerate(tables.rule):
        with located("rule", index):
            yield builder.rule(table, index, calls)


def _tools(tables: PolicyTable, folder: Path | None) -> Iterator[tuple[str, ToolFacts]]:
    for name, declared in tables.tools.items():
        lists = (declared.reads, declared.writes, declared.trees, declared.urls)
        with located("tools", name):
            for path in [path for paths in lists for path in paths or ()]:
                read_path(path)
        yield name, replace(declared, folder=_folder(declared.folder, folder))
    if tables.coding_agents:
        yield from AGENT_TOOLS


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
