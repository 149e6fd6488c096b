"""The reader of a call's facts: from the command line of a shell, or the arguments of other tools.

The effects of a tool other than a shell come from the policy file, or from the tool's annotations
if the file trusts them (a server may claim anything: Model Context Protocol 2025-11-25,
server/tools). Untrusted annotations only tighten: `destructiveHint` counts as an effect that rules
may deny, `readOnlyHint` is ignored.
"""

from __future__ import annotations

import os
import posixpath
import re
import threading
from itertools import chain, dropwhile, product
from operator import is_
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from toolbus.events.subjects import matches
from toolbus.policy.commands import KEEPS_FILES, ONLY_READS, PathUse, Unreadable, Word
from toolbus.policy.facts import CallPart, CallReading
from toolbus.policy.part_words import MOST_RECIPIENTS, split_recipients
from toolbus.policy.paths.hosts import read_host
from toolbus.policy.paths.links import path_stability
from toolbus.policy.paths.repositories import with_repository_doubts
from toolbus.policy.paths.resolver import CallPlace, PathResolver, next_folder
from toolbus.policy.paths.targets import argument_word, find_targets, may_match_option
from toolbus.policy.programs.command_effects import effects_of, effects_with_results
from toolbus.policy.shell.command_reader import read_command
from toolbus.policy.shell.wrapped_programs import SHELLS, runs_others
from toolbus.policy.tool_arguments import named_values, shell_call, texts_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from toolbus.components.call_facts import CallFacts
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.messages.records import ToolCall
    from toolbus.policy.commands import Command, CommandEffects, CommandReading
    from toolbus.policy.paths.resolver import FolderChoice
    from toolbus.policy.programs.program_files import Programs
    from toolbus.policy.rules.records import PolicyRules
    from toolbus.policy.rules.tables import ToolFacts
    from toolbus.policy.tool_arguments import ShellCall

_MOST_REMEMBERED, _LONGEST_REMEMBERED = 1_000, 10_000
_FILE_KINDS = frozenset({"read", "write"})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|file:", re.IGNORECASE)
_CREATES_DATABASE = frozenset({("sqlite3",), ("duckdb",)})
"""Programs that create an empty database if the file to read is missing."""
_IN_MEMORY = frozenset({"", ":memory:"})
_NPX_FLAGS = frozenset({"--no", "--no-install", "-y", "--yes", "-q", "--quiet"})
_PACKAGE_TOOL = re.compile(r"[a-z][a-z0-9-]*")


class ParsedLine(NamedTuple):
    """A parsed command line: its reading, and the parts of a call derived from that.

    Judging the line *is_quick* if it needs no walk through folders.
    """

    reading: CommandReading
    parts: tuple[CallPart, ...]
    is_quick: bool


class LineCache:
    """A thread-safe cache of parsed command lines."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, Programs | None], ParsedLine] = {}
        self._lock = threading.Lock()

    def get(self, line: str, programs: Programs | None = None) -> ParsedLine | None:
        """Return the parsed *line*, or None if it is not cached."""
        return self._lines.get((line, programs))

    def read(self, line: str, programs: Programs | None = None) -> ParsedLine:
        """Return *line* parsed by *programs*; may start a process, for some milliseconds."""
        known = self.get(line, programs)
        if known is None:
            known = _read_line(line, programs)
            if len(line) <= _LONGEST_REMEMBERED:
                with self._lock:
                    self._lines[line, programs] = known
                    while len(self._lines) > _MOST_REMEMBERED:
                        del self._lines[next(iter(self._lines))]
        return known


class CallReader:
    """Reads the facts of calls, given the tool tables of *rules*; lines are cached in *memory*."""

    def __init__(self, rules: PolicyRules, memory: LineCache) -> None:
        self._rules, self._memory = rules, memory

    def is_quick(self, call: ToolCall, tool: ToolSpec | None) -> bool:
        """Return whether judging *call* needs neither a process nor a walk through folders."""
        shell = shell_call(call, tool, self._rules.facts_of(call.name))
        if shell is None:
            return all(kind != "path" for kind, _ in named_values(call.arguments))
        known = None if shell.line is None else self._memory.get(shell.line, self._rules.programs)
        return known is not None and known.is_quick

    def facts(
        self,
        call: ToolCall,
        tool: ToolSpec | None,
        scope: Scope,
        folder: str | None = None,
        kept_in: tuple[str | None] | None = None,
        *,
        origins: CallFacts | None = None,
    ) -> CallReading:
        """Return the facts of *call*; starts a process for a line that is not cached.

        *folder* is the tool's working folder as its host knows it, an absolute path. *kept_in*, if
        given, holds the folder where the last call left a shell that keeps its folder. The facts
        about the words of the call are *origins*.
        """
        declared = self._rules.facts_of(call.name)
        folder = declared.folder or folder or self._rules.folder
        start = scope.project or self._project() or folder
        if kept_in is not None and declared.keeps_folder:
            (folder,) = kept_in
        facts = CallReading(
            call=call, scope=scope, tool=tool, folder=folder, parts=(), origins=origins
        )
        shell = shell_call(call, tool, declared)
        if shell is None:
            return replace(facts, parts=(self._tool_part(call, tool, declared),))
        return self._shell_facts(facts, shell, start)

    def _shell_facts(self, facts: CallReading, shell: ShellCall, start: str | None) -> CallReading:
        """Return *facts* with the parts of a *shell* call, in a session that began in *start*."""
        folder = facts.folder
        if shell.folder is not None:
            start = shell.folder if shell.folder.startswith("/") else folder
            folder = None if start is None else os.path.join(start, shell.folder)  # noqa: PTH118 - as text
        parts = self._shell_parts(shell)
        facts = replace(
            facts,
            folder=folder,
            line=shell.line or "",
            parts=parts,
            switched_off=shell.switched_off,
        )
        return with_repository_doubts(_with_existing_files(facts, self._rules.programs), start)

    def _shell_parts(self, shell: ShellCall) -> tuple[CallPart, ...]:
        reasons = tuple([_unknown_part(each) for each in shell.reasons])
        if shell.line is None:
            return reasons
        parts = (*self._memory.read(shell.line, self._rules.programs).parts, *reasons)
        # An empty command line is one part.
        return parts or (CallPart(source=shell.line, effects=frozenset({"read"})),)

    def next_folder(self, call: ToolCall, start: str | None) -> str | None:
        """Return a shell's folder after *call*, which began in *start*; None if unknown."""
        shell = shell_call(call, None, self._rules.facts_of(call.name))
        if shell is None or shell.line is None or shell.reasons:
            return None
        reading = self._memory.read(shell.line, self._rules.programs).reading
        return next_folder(reading, PathResolver(CallPlace(start)))

    def _project(self) -> str | None:
        project = self._rules.project
        return project.folder if project is not None and project.is_known else None

    def _tool_part(self, call: ToolCall, tool: ToolSpec | None, declared: ToolFacts) -> CallPart:
        effects, claimed = self._effects(call.name, tool, declared)
        paths: list[PathUse] = []
        hosts: list[Word] = []
        unknown: list[Unreadable] = []
        for kind, text in _argument_uses(call.arguments, declared, effects):
            if isinstance(text, Unreadable):
                unknown.append(text)
            elif file := _file_of(kind, text):
                use: Any = "read-tree" if kind == "host" else kind
                paths.append(PathUse(argument_word(file), use, "."))
            else:
                hosts.append(Word(text))
        if effects is None:
            reason = (
                f'the effects of this tool are unknown; declare `effects` in [tools."{call.name}"]'
            )
            unknown.append(Unreadable(call.name, reason))
        return CallPart(
            source=call.name,
            effects=effects or frozenset(),
            claimed=claimed,
            paths=tuple(paths),
            hosts=tuple(hosts),
            recipients=tuple(_recipients(call.arguments, declared, effects)),
            reaches=_reach(declared),
            unknown=tuple(unknown),
            is_tool=True,
        )

    def _effects(
        self, name: str, tool: ToolSpec | None, declared: ToolFacts
    ) -> tuple[frozenset[str] | None, frozenset[str]]:
        """Return the effects of a tool, None if unknown, and the effects that it only claims."""
        if declared.effects is not None:
            implied = {"network"} if "message" in declared.effects else set()
            return frozenset({"read", *declared.effects, *implied}), frozenset()
        annotations: Mapping[str, Any] = {} if tool is None else tool.annotations
        if annotations and matches(self._rules.trusted, name):
            return _annotated(annotations), frozenset()
        claims = {
            "write": annotations.get("readOnlyHint") is False,
            "destroy": annotations.get("destructiveHint") is True,
            "network": annotations.get("openWorldHint") is True,
        }
        return None, frozenset([effect for effect, is_claimed in claims.items() if is_claimed])


def _annotated(annotations: Mapping[str, Any]) -> frozenset[str]:
    """Return the effects that *annotations* declare, with the protocol's defaults."""
    effects = {"read"}
    if annotations.get("readOnlyHint") is not True:
        effects.add("write")
        if annotations.get("destructiveHint") is not False:
            effects.add("destroy")
    if annotations.get("openWorldHint") is not False:
        effects.add("network")
    return frozenset(effects)


def _argument_uses(
    arguments: Mapping[str, Any], declared: ToolFacts, effects: frozenset[str] | None
) -> Iterator[tuple[str, str | Unreadable]]:
    """Yield the files and addresses in *arguments*, each with its use.

    *declared* arguments count; without a declaration, the names of arguments decide.
    """
    reads, writes = declared.reads, declared.writes
    declarations = {"read": reads, "write": writes, "read-tree": declared.trees}
    if reads is writes is declared.trees is None:
        only_reads = effects is not None and effects <= KEEPS_FILES
        kinds = ("read-tree",) if only_reads else ("read-tree", "write")
        yield from [(kind, text) for text in _texts_of_kind(arguments, "path") for kind in kinds]
    for kind, names in declarations.items():
        yield from product([kind], texts_at(arguments, names or ()))
    urls = declared.urls
    addresses = _texts_of_kind(arguments, "host") if urls is None else texts_at(arguments, urls)
    yield from product(["host"], addresses)


def _reach(declared: ToolFacts) -> Literal["", "fixed", "public"]:
    if declared.public:
        return "public"
    return "fixed" if () in {declared.urls, declared.recipients} else ""


def _recipients(
    arguments: Mapping[str, Any], declared: ToolFacts, effects: frozenset[str] | None
) -> Iterator[Word]:
    """Yield the recipients in *arguments* if the tool sends messages, or may send any.

    Names that tell a recipient count beside the declared ones: a declared `to` hides no `bcc`.
    """
    if declared.recipients == ():
        return
    speaks = effects is None or "message" in effects
    telling = _texts_of_kind(arguments, "recipient") if speaks else []
    words: list[Word] = []
    for text in chain(texts_at(arguments, declared.recipients or ()), telling):
        if isinstance(text, Unreadable):
            words.append(Word(text.source, known=False))
        else:
            words += map(Word, split_recipients(text))
    yield from words[:MOST_RECIPIENTS]
    if len(words) > MOST_RECIPIENTS:
        yield Word("further recipients", known=False)


def _texts_of_kind(arguments: Mapping[str, Any], kind: str) -> list[str]:
    """Return the texts of *arguments* whose names indicate *kind*."""
    return [text for each, text in named_values(arguments) if each == kind]


def _file_of(kind: str, text: str) -> str:
    """Return the file that *text* names, "" if *text* is the address of a host."""
    return read_host(text).path if kind == "host" or _SCHEME.match(text) else text


def _read_line(line: str, programs: Programs | None) -> ParsedLine:
    reading = read_command(line, programs=programs)
    effects = effects_with_results(reading.commands, programs)
    paths_stable = path_stability(reading.commands, effects)
    parts = list(map(_part, reading.commands, effects, paths_stable))
    parts += [_unknown_part(each) for each in reading.unreadable]
    uses = [use for part in parts for use in part.paths]
    walks = any(use.kind not in _FILE_KINDS or use.word.pattern for use in uses)
    is_quick = not (walks or any(part.globs for part in parts))
    return ParsedLine(reading, tuple(parts), is_quick)


def _with_existing_files(facts: CallReading, programs: Programs | None) -> CallReading:
    """Return *facts* adjusted to existing files: npx tools, databases, names like options."""
    parts: list[CallPart] = []
    is_changed = False  # Whether an earlier part may create or remove a file.
    for part in facts.parts:
        adjusted = part
        if part.action == ("npx",) and not is_changed:
            adjusted = _with_local_tool(part, facts.resolver, programs)
        if adjusted.globs:
            adjusted = _with_globs(adjusted, facts.resolver, is_changed=is_changed)
        if adjusted.action in _CREATES_DATABASE:
            adjusted = _with_new_database(adjusted, facts.resolver)
        is_changed = is_changed or bool(adjusted.effects - ONLY_READS or adjusted.unknown)
        parts.append(adjusted)
    are_same = all(map(is_, parts, facts.parts))
    return facts if are_same else replace(facts, parts=tuple(parts))


def _with_globs(part: CallPart, resolver: PathResolver, *, is_changed: bool) -> CallPart:
    """Return *part*, with patterns that may expand to options marked unknown."""
    doubtful = [
        Unreadable(word.text, "a matching file may be named like an option")
        for word in part.globs
        if is_changed or may_match_option(word, part.folder, resolver)
    ]
    return replace(part, unknown=(*part.unknown, *doubtful))


def _with_local_tool(part: CallPart, resolver: PathResolver, programs: Programs | None) -> CallPart:
    """Return *part* with `npx` replaced by the project's own tool, if that is installed."""
    command = part.command
    if command is None or command.program.text != "npx":
        return part
    words = tuple(dropwhile(lambda word: word.known and word.text in _NPX_FLAGS, command.words))
    tool = _installed_tool(words, resolver.folders(part.folder))
    if tool is None:
        return part
    known = effects_of(replace(command, program=tool, words=words[1:]), programs)
    # With subcommands, a rule that denies `npx TOOL` would not find the tool's name.
    return _part(command, known, part.paths_stable) if len(known.action) == 1 else part


def _installed_tool(words: Sequence[Word], choice: FolderChoice) -> Word | None:
    """Return the file of the tool named by *words*, if each folder of *choice* has it."""
    first = words[0] if words else Word("")
    name = first.text if first.known and not first.pattern else ""
    if not _PACKAGE_TOOL.fullmatch(name) or name in SHELLS or runs_others(name) or choice.doubt:
        return None
    file = f"node_modules/.bin/{name}"
    are_there = [posixpath.isfile(posixpath.join(folder, file)) for folder in choice.paths]
    return Word(file) if all(are_there) else None


def _with_new_database(part: CallPart, resolver: PathResolver) -> CallPart:
    """Return *part*, with a missing database counted as a written file."""
    if "-readonly" in part.options:
        return part
    writes = [
        PathUse(use.word, "write", use.folder)
        for use in part.paths
        if use.kind == "read" and use.word.text not in _IN_MEMORY and not _is_there(use, resolver)
    ]
    effects = part.effects | ({"write"} if writes else set())
    return replace(part, effects=effects, paths=(*part.paths, *writes))


def _is_there(use: PathUse, resolver: PathResolver) -> bool:
    targets = [resolved.path for resolved in find_targets(use, resolver).paths]
    return bool(targets) and all(map(posixpath.exists, targets))


def _part(command: Command, known: CommandEffects, paths_stable: bool) -> CallPart:  # noqa: FBT001 - one of three sequences
    return CallPart(
        source=command.source,
        command=command,
        action=known.action,
        options=known.options,
        effects=known.effects,
        paths=known.paths,
        hosts=known.hosts,
        branches=known.branches,
        unknown=known.unknown,
        folder=known.folder,
        globs=known.globs,
        paths_stable=paths_stable,
    )


def _unknown_part(unreadable: Unreadable) -> CallPart:
    return CallPart(source=unreadable.source, unknown=(unreadable,))
