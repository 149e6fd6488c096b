"""The effects of commands, derived from the tables of programs."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import CommandEffects, PathUse, TreeRules, Unreadable, Word
from toolbus.policy.programs.effects_builder import EffectsBuilder
from toolbus.policy.programs.languages.readers import READERS
from toolbus.policy.programs.parsed_command import ParsedCommand, is_one
from toolbus.policy.programs.program_files import shipped_programs
from toolbus.policy.programs.variables import judge_variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolbus.policy.commands import Command
    from toolbus.policy.programs.command_spec import CommandData, CommandSpec, Kind
    from toolbus.policy.programs.program_files import Programs

_FOLDERS = frozenset(
    {
        *("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"),
        *("/opt/homebrew/bin", "/opt/homebrew/sbin", "/opt/local/bin", "/snap/bin"),
    }
)
"""Folders whose programs are trusted to be what their names say."""
_TOOL_FOLDERS = re.compile(r"(?!.*\.\.)(?:[^/].*/)?(?:\.?venv/bin|node_modules/\.bin|vendor/bin)")
_TOOL_FILES = frozenset({"./gradlew", "./mvnw"})
"""Folders of a project's own tools: relative, so that the working folder identifies the project."""
_FILES = frozenset({"path", "tree", "write", "destroy", "move", "script"})
_RESULT, _STAND_IN = "{}", Word("./{found}")


def effects_of(command: Command, programs: Programs | None = None) -> CommandEffects:
    """Return the effects of *command*; unknown pieces are in `CommandEffects.unknown`.

    A wrapper (``sudo``, ``xargs``, ``bash -c``) only has the effects of its own options: the
    wrapped command is a separate command.
    """
    if command.program.known and not command.program.text:
        return _assignment_effects(command)
    is_own = _is_own_tool(command.program.text)
    known = _find(command, programs or shipped_programs(), is_own=is_own)
    if isinstance(known, str):
        return _unknown_effects(command, known)
    name, spec = known
    parsed = ParsedCommand(command, name, spec)
    if is_own:
        # The project owns the file, whatever its name.
        parsed.builder.effects.add("run-code")
        parsed.builder.read(command.program)
    if parsed.module is not None and parsed.module.text in spec.data.modules:
        return _module_effects(command, parsed, programs)
    builder = parsed.builder
    effects = _argument_effects(parsed)
    folder = builder.folder
    _add_redirections(command, builder)
    effects |= builder.effects
    _judge_settings(command, builder, runs_code="run-code" in effects)
    return CommandEffects(
        frozenset(effects or {"read"}),
        tuple(_without_matches(command, builder.paths)),
        tuple(builder.hosts),
        tuple(builder.unknown),
        tuple(parsed.action),
        frozenset(parsed.options),
        folder,
        tuple(parsed.globs),
        tuple(builder.branches),
    )


def _judge_settings(command: Command, builder: EffectsBuilder, *, runs_code: bool) -> None:
    """Add the variables that may change the behaviour of the program."""
    program = posixpath.basename(command.program.text)
    for name, value in dict(command.settings).items():
        # Variables set earlier reach the program only if they are in its environment.
        in_front = f"{name}=" in command.source
        if reason := judge_variable(
            name, value, in_front=in_front, runs_code=runs_code, program=program
        ):
            builder.unknown.append(Unreadable(f"{name}={value.text}", reason))


def _is_own_tool(program: str) -> bool:
    return program in _TOOL_FILES or bool(_TOOL_FOLDERS.fullmatch(posixpath.dirname(program)))


def _find(command: Command, programs: Programs, *, is_own: bool) -> tuple[str, CommandSpec] | str:
    """Return the canonical name and spec of the program of *command*, or why it is unknown."""
    word = command.program
    if not word.known or word.pattern:
        return f"the program {word.text} is known only at run time"
    folder, name = posixpath.split(word.text)
    known = programs.find(name)
    # The words of a builtin do not apply to a file with its name.
    if folder and folder not in _FOLDERS and not (is_own and known and not known[1].data.raw):
        return f"{word.text} may be any program, whatever its name"
    return known or f"`{name}` is an unknown program"


def _module_effects(
    command: Command, parsed: ParsedCommand, programs: Programs | None
) -> CommandEffects:
    """Return the effects of a module with the name of a program: ``python -m pip``."""
    assert parsed.module is not None  # noqa: S101 - for mypy: the caller checks it
    words = tuple(parsed.operands)
    inner = effects_of(replace(command, program=parsed.module, words=words), programs)
    builder = parsed.builder
    return replace(
        inner,
        # A module in the working folder takes precedence over an installed module.
        effects=inner.effects | builder.effects | {"run-code"},
        unknown=(*builder.unknown, *inner.unknown),
        options=inner.options | parsed.options,
    )


def _assignment_effects(command: Command) -> CommandEffects:
    """Return the effects of a command that only sets variables or opens files."""
    builder = EffectsBuilder(command)
    _add_redirections(command, builder)
    _judge_settings(command, builder, runs_code=True)
    effects = frozenset(builder.effects or {"read"})
    return CommandEffects(
        effects, tuple(builder.paths), tuple(builder.hosts), tuple(builder.unknown)
    )


def _unknown_effects(command: Command, reason: str) -> CommandEffects:
    builder = EffectsBuilder(command)
    if command.program.known and "/" in command.program.text:
        builder.read(command.program)
    _add_redirections(command, builder)
    unknown = Unreadable(command.source or command.program.text, reason)
    # A rule may name a program that is unknown otherwise.
    name = posixpath.basename(command.program.text) if command.program.known else ""
    texts = [word.text for word in command.words if word.known]
    operands = [text for text in texts if text[:1] != "-"]
    return CommandEffects(
        frozenset({"run-code", *builder.effects}),
        tuple(builder.paths),
        tuple(builder.hosts),
        (unknown, *builder.unknown),
        (name, *operands) if name else (),
        frozenset(text.partition("=")[0] for text in texts if text[:1] == "-"),
    )


def _argument_effects(parsed: ParsedCommand) -> set[str]:
    """Return the effects of the subcommand on its operands, given its options."""
    data, builder = parsed.spec.data, parsed.builder
    by_options, builder.effects = builder.effects, set()
    options_paths = len(builder.paths)
    if data.asks and parsed.instead is None:
        parsed.note(data.asks)
    if data.environment and parsed.instead is None:
        builder.read_environment()
    operands = READERS[data.reader](parsed) if data.reader else parsed.operands
    _take_operands(parsed, operands)
    if parsed.instead is not None:
        builder.effects &= parsed.instead
        builder.paths[options_paths:] = [
            use for use in builder.paths[options_paths:] if use.kind in {"read", "read-tree"}
        ]
        return {*parsed.instead, *by_options}
    return {*parsed.spec.effects, *by_options, *_count_effects(data, len(operands))}


def _count_effects(data: CommandData, count: int) -> Iterator[str]:
    """Yield the effects that depend on the number of operands."""
    for bound, effects in data.more_than.items():
        yield from effects if count > int(bound) else ()
    for bound, effects in data.fewer_than.items():
        yield from effects if count < int(bound) else ()


def _take_operands(parsed: ParsedCommand, operands: Sequence[Word]) -> None:
    spec, builder = parsed.spec, parsed.builder
    files = 0
    for word, kinds in _with_kinds(parsed, operands):
        for kind in kinds:
            builder.take(word, kind)
            files += kind in _FILES
        builder.prefixed(word, spec.file_prefixes)
        builder.written(word, spec.data.written_prefixes)
    default = "tree" if "tree" in (parsed.kinds or ()) else spec.data.default
    if default and not files and not (spec.data.input and _has_input(parsed.command)):
        builder.take(Word("."), default)


def _with_kinds(
    parsed: ParsedCommand, operands: Sequence[Word]
) -> Iterator[tuple[Word, Iterable[Kind]]]:
    """Yield each operand with its possible kinds."""
    kinds = parsed.kinds or parsed.spec.operands
    final = parsed.final or parsed.spec.data.final
    final_index = len(operands) - 1 if final != "none" else 0
    several = False
    for index, word in enumerate(operands):
        is_final = final is not None and 0 < index == final_index
        kind = final if is_final and final else kinds[min(index, len(kinds) - 1)]
        several = several or not is_one(word)
        # After a word that may expand to several, an operand may be in any position.
        yield word, dict.fromkeys((kind, *(kinds[index:] if several else ())))


def _has_input(command: Command) -> bool:
    return (
        command.piped
        or command.stdin is not None
        or any(each.operator == "<" for each in command.redirections)
    )


def _add_redirections(command: Command, builder: EffectsBuilder) -> None:
    builder.folder = command.folder
    for redirection in command.redirections:
        if redirection.operator in {"<", "<>"}:
            builder.read(redirection.target)
        if redirection.operator != "<":
            builder.write(redirection.target)


def _without_matches(command: Command, paths: Iterable[PathUse]) -> Iterable[PathUse]:
    """Return *paths* without found files that a command of `find` reads: `find` covers those."""
    if not any(wrapper.startswith("find -") for wrapper in command.inside):
        return paths
    return (use for use in paths if not (use.word.text == "{}" and use.kind.startswith("read")))


def effects_with_results(
    commands: Sequence[Command], programs: Programs | None = None
) -> list[CommandEffects]:
    """Return the effects of each command of a text, with files found by `find` resolved.

    A command run by `find -exec` reads the tree that `find` walks, limited by its `-name`; it may
    write or destroy anything below.
    """
    effects = [effects_of(command, programs) for command in commands]
    for index, command in enumerate(commands):
        if command.inside[-1:] == ("find -exec",) and _takes_results(command):
            trees = _trees_before(commands[:index], effects, command.inside[:-1])
            if trees:
                effects[index] = _found_effects(command, trees, programs)
    return effects


def _takes_results(command: Command) -> bool:
    return any(word.text == _RESULT and not word.known for word in command.words)


def _trees_before(
    commands: Sequence[Command], effects: Sequence[CommandEffects], inside: tuple[str, ...]
) -> list[PathUse]:
    """Return the trees walked by the `find` that runs the next command; none if unknown."""
    for index in reversed(range(len(commands))):
        if commands[index].inside == inside and effects[index].action[:1] == ("find",):
            trees = [use for use in effects[index].paths if use.kind == "read-tree"]
            is_known = all(use.word.known and use.word.text[:1] != "-" for use in trees)
            return trees if is_known else []
    return []


def _found_effects(
    command: Command, trees: Sequence[PathUse], programs: Programs | None
) -> CommandEffects:
    """Return the effects of *command* on a found file, applied to every file in *trees*."""
    words = tuple([_STAND_IN if word.text == _RESULT else word for word in command.words])
    known = effects_of(replace(command, words=words), programs)
    paths: list[PathUse] = []
    for use in known.paths:
        if use.word != _STAND_IN:
            paths.append(use)
            continue
        for tree in trees:
            rules = tree.tree if use.kind == "read" else TreeRules()
            kind = "read-tree" if use.kind == "read" else use.kind
            paths.append(PathUse(tree.word, kind, tree.folder, rules))
    return replace(known, paths=tuple(paths))
