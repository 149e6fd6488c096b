"""What `find … -exec` hands to a command: the files that it finds, which its own words tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import PathUse, TreeRules, Word
from toolbus.policy.programs.effects import effects_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.commands import Command, CommandEffects
    from toolbus.policy.programs.program_files import Programs

_RESULT, _STAND_IN = "{}", Word("./{found}")


def effects_with_results(
    commands: Sequence[Command], programs: Programs | None = None
) -> list[CommandEffects]:
    """Return what each of *commands*, all of one text, does; of found files by what `find` says.

    A command that `find -exec` runs reads the tree that `find` goes through, as far as that one's
    `-name` lets it; what it writes or destroys may be anything below.
    """
    effects = [effects_of(command, programs) for command in commands]
    for index, command in enumerate(commands):
        if command.inside[-1:] == ("find -exec",) and _takes_results(command):
            trees = _trees_before(commands[:index], effects, command.inside[:-1])
            if trees:
                effects[index] = _of_found(command, trees, programs)
    return effects


def _takes_results(command: Command) -> bool:
    return any(word.text == _RESULT and not word.known for word in command.words)


def _trees_before(
    commands: Sequence[Command], effects: Sequence[CommandEffects], inside: tuple[str, ...]
) -> list[PathUse]:
    """Return the trees of the `find` that runs what follows, none if they are not known."""
    for index in reversed(range(len(commands))):
        if commands[index].inside == inside and effects[index].action[:1] == ("find",):
            trees = [use for use in effects[index].paths if use.kind == "read-tree"]
            is_known = all(use.word.known and use.word.text[:1] != "-" for use in trees)
            return trees if is_known else []
    return []


def _of_found(
    command: Command, trees: Sequence[PathUse], programs: Programs | None
) -> CommandEffects:
    """Return what *command* does if it gets a file, and that of every file in *trees*."""
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
