"""Exact calls: the key `exactly` of allow rules, which names one call and allows whatever it does.

```toml
exactly = ["git push origin docs", "cd web && npm publish --dry-run"]   # commands and their folders
exactly = { channel = "#ops", text = "deployed" }   # all arguments, in a rule with `tools`
```

A command has the same program and the same words in the same order, in the project's folder or the
one after `cd`. Nothing else may change it: no variable, no input, no file but `/dev/null`, no other
program that runs it, no `exec` that opens files for the line, no descriptor but the outputs 1 and
2, and no link on its folder or the paths that it names. Of its words the meaning may be unknown,
but not of the files around it, such as the settings of a repository.

Nor may its shell have an argument of unknown meaning, also none that is false, as `sandbox = false`
may remove a limit; null counts as absent. `ignore` in the shell's `[tools]` makes one known.

A table of arguments is about the project of the policy: a call with relative paths must begin in
the project's folder. In a policy for several projects (`project = "session"`) a table would hold in
each of them, so it is refused; `arguments` is the key for such a rule.

A word or an argument `{path}` stands for one path. Such a rule also has `reads` or `writes`, which
limit it. An argument `{text}` stands for any text, such as the words that are written.

A rule with `exactly` allows all effects, unless it has other keys. As every allow rule it lifts no
rule that asks or denies.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from toolbus.policy.paths.path_patterns import is_in
from toolbus.policy.paths.targets import find_targets
from toolbus.policy.programs.command_effects import effects_of
from toolbus.policy.rules.command_patterns import command_of
from toolbus.policy.rules.records import MatchResult, PartCondition
from toolbus.policy.rules.tables import texts
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from toolbus.policy.commands import Command, CommandEffects
    from toolbus.policy.facts import CallPart, CallReading
    from toolbus.policy.programs.program_files import Programs
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.tables import ConditionTable

PATH, TEXT = "{path}", "{text}"
"""The words for any path and any text."""

RUNNERS = frozenset({"nice", "nohup", "time", "timeout"})
"""Programs that run others as they are."""

_SIGNS = frozenset("();<>|&")
_READS = frozenset({"read"})
_encode = msgspec.json.Encoder(order="sorted", enc_hook=repr).encode


def exact_condition(
    table: ConditionTable,
    project: Project,
    programs: Programs | None,
    *,
    allows: bool,
    of_session: bool = False,
) -> PartCondition:
    """Return the condition that a part is one that *table* names; raises `MisfitError`.

    *project* may be *of_session*, one of several for which the policy is.
    """
    if not allows:
        raise MisfitError("only an allow rule can have it; use `command` or `arguments`")
    if isinstance(table.exactly, Mapping):
        _check_table(table.exactly, table, of_session=of_session)
        text = exact_arguments(table.exactly)
        condition = _on_arguments(table.exactly, project)
        open_texts = [text] * (f'"{PATH}"' in text)
    else:
        commands = [ExactCommand(each, project, programs) for each in texts(table.exactly)]
        condition = _on_commands(commands)
        open_texts = [each.text for each in commands if PATH in each.words]
    if open_texts and not (table.reads or table.writes or table.touches):
        raise MisfitError(f"{open_texts[0]!r} needs `reads` or `writes` for its paths")
    return condition


class ExactCommand:
    """The command *text* of `exactly`, in a folder of *project*; raises `MisfitError`."""

    def __init__(self, text: str, project: Project, programs: Programs | None = None) -> None:
        self.text, self._project, self._programs = text, project, programs
        folder, self.words = _folder_and_words(text)
        self.folder = os.path.normpath(os.path.join(project.folder, folder))  # noqa: PTH118 - as text

    @cached_property
    def _effects(self) -> CommandEffects:
        """The effects of the command whatever files exist."""
        return effects_of(command_of(list(self.words)), self._programs)

    @property
    def runs_code(self) -> bool:
        """Whether it is a known program that runs code."""
        return "run-code" in self._effects.effects and not self._effects.unknown

    @property
    def takes_path(self) -> bool:
        """Whether it reads or changes a file in the place of each `{path}`."""
        paths = [use.word.text for use in self._effects.paths]
        return PATH in paths or PATH not in self.words

    def has_words_of(self, part: CallPart) -> bool:
        """Return whether the words of *part* are the same, with a path of it for each `{path}`."""
        words, paths = words_of(part), {use.word.text for use in part.paths}
        return len(words) == len(self.words) and all(
            word == wanted or (wanted == PATH and word in paths and not word.startswith("-"))
            for word, wanted in zip(words, self.words, strict=True)
        )

    def is_run_by(self, part: CallPart, facts: CallReading) -> MatchResult:
        """Return whether *part*, which has its words, certainly is this command."""
        command = part.command
        if command is None:
            return MatchResult("no", "it is not a readable command")
        reason = (
            self._project.path_warning
            or influence_on(part, command)
            or self._doubt(part, facts)
            or _folder_mismatch(command.folder, self.folder, self._project, facts)
            or moved_path(part, facts)
        )
        return MatchResult("no" if reason else "yes", reason)

    def _doubt(self, part: CallPart, facts: CallReading) -> str:
        """Return what is unknown about *part* besides the command's words, "" if nothing is."""
        known = {each.reason for each in self._effects.unknown}
        doubts = [each.reason for each in part.unknown if each.reason not in known]
        doubts += [f"the shell's argument {name!r} is unknown" for name in facts.switched_off]
        return next(iter(doubts), "")


def influence_on(part: CallPart, command: Command) -> str:
    """Return the influence on *command*, the command of *part*, besides its words; "" for none."""
    words = (command.program, *command.words)
    has_input = command.stdin is not None or command.piped
    only_reads = part.effects <= _READS and not part.unknown
    opened = [each for each in command.redirections if each.target.text != "/dev/null"]
    influences = {
        "a word is known only at run time": any(not word.known or word.pattern for word in words),
        "a variable is set": bool(command.settings),
        "it opens a file": bool(opened),
        "an `exec` or a copied descriptor may open a file": command.rewired,
        "it has an input": has_input and not (command.piped and only_reads),
        "another program runs it": not RUNNERS.issuperset(command.inside),
        "its folder depends on an earlier `cd`": bool(command.assumed),
    }
    return next((reason for reason, is_there in influences.items() if is_there), "")


def moved_path(part: CallPart, facts: CallReading) -> str:
    """Return why a path of *part* may lead to another file than its words say, "" if none does."""
    for use in part.paths:
        targets = find_targets(use, facts.resolver)
        if targets.doubt or any(len(each.names) > 1 for each in targets.paths):
            return targets.doubt or f"{use.word.text!r} leads through a link"
    is_stable = part.paths_stable or not part.paths
    return "" if is_stable else "another part of the command may change its files"


def _folder_mismatch(
    folder: str | None, expected: str, project: Project, facts: CallReading
) -> str:
    """Return why *folder*, as of a command, is not the one *expected*, "" if it is.

    A link of the *project* that leads to the folder may be new, so none counts.
    """
    resolve = facts.resolver.resolve
    choice, wanted, plain = facts.resolver.folders(folder), resolve(expected), expected
    if is_in(expected, project.folder):
        inner = os.path.relpath(expected, project.folder)
        plain = os.path.normpath(os.path.join(resolve(project.folder).path, inner))  # noqa: PTH118 - as text
    if choice.doubt or wanted.doubt:
        return choice.doubt or wanted.doubt
    if wanted.path != plain:
        return f"{expected!r} leads through a link"
    places = {resolve(path).path for path in choice.paths}
    return "" if places == {plain} else f"it runs in another folder than {expected!r}"


def words_of(part: CallPart) -> tuple[str, ...]:
    """Return the texts of the program of *part* and of its words; empty for no command."""
    command = part.command
    return () if command is None else tuple([w.text for w in (command.program, *command.words)])


def exact_arguments(arguments: Any) -> str:
    """Return *arguments* as JSON with sorted keys, equal only for equal values of equal types."""
    return _encode(arguments).decode()


def _on_commands(commands: list[ExactCommand]) -> PartCondition:
    others = MatchResult("no", "its words are not exactly those of the rule")

    def test(part: CallPart) -> MatchResult | None:
        return None if any(each.has_words_of(part) for each in commands) else others

    def look(part: CallPart, facts: CallReading) -> MatchResult:
        answers = [each.is_run_by(part, facts) for each in commands if each.has_words_of(part)]
        return next((each for each in answers if each.answer == "yes"), answers[0])

    return PartCondition("exactly", tuple([each.text for each in commands]), test, True, look)  # noqa: FBT003 - every


def _check_table(arguments: Mapping[str, Any], table: ConditionTable, *, of_session: bool) -> None:
    """Raise `MisfitError` unless *table* may name calls by all their *arguments*."""
    if table.tools is None:
        raise MisfitError("a table of arguments needs `tools`, the tool that gets them")
    if of_session:
        way_out = "use `arguments`, or the policy of the project"
        raise MisfitError(f"a table of arguments would hold in every project; {way_out}")
    _check_values(arguments)


def _check_values(value: Any) -> None:
    """Raise `MisfitError` for a value that no call can have, as JSON has none of its type."""
    match value:
        case Mapping():
            for each in value.values():
                _check_values(each)
        case list() | tuple():
            for each in value:
                _check_values(each)
        case float() if not math.isfinite(value):
            raise MisfitError(f"no argument is {value}")
        case None | str() | int() | float():
            pass
        case _:
            raise MisfitError(f'no argument is a date or a time; quote it as a text: "{value}"')


def _on_arguments(arguments: Mapping[str, Any], project: Project) -> PartCondition:
    text = exact_arguments(arguments)

    def look(part: CallPart, facts: CallReading) -> MatchResult:
        if not part.is_tool:
            return MatchResult("no", "it is a command: name it by its words")
        if not _is_like(facts.call.arguments, arguments, {use.word.text for use in part.paths}):
            return MatchResult("no", "its arguments are not exactly those of the rule")
        is_relative = any(not use.word.text.startswith("/") for use in part.paths)
        elsewhere = (
            _folder_mismatch(part.folder, project.folder, project, facts) if is_relative else ""
        )
        reason = elsewhere or moved_path(part, facts)
        return MatchResult("no" if reason else "yes", reason)

    return PartCondition("exactly", (text,), lambda _: None, True, look)  # noqa: FBT003 - every


def _is_like(value: Any, wanted: Any, paths: set[str]) -> bool:
    """Return whether *value* of a call is the *wanted* one, with any of *paths* for `{path}`."""
    match wanted, value:
        case (str() as word, str()) if word in {PATH, TEXT}:
            return word == TEXT or value in paths
        case Mapping(), Mapping():
            return wanted.keys() == value.keys() and all(
                _is_like(value[name], each, paths) for name, each in wanted.items()
            )
        case ((list() | tuple()), (list() | tuple())):
            return len(wanted) == len(value) and all(
                _is_like(item, each, paths) for item, each in zip(value, wanted, strict=True)
            )
    return exact_arguments(value) == exact_arguments(wanted)


def _folder_and_words(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the folder of *text*, relative to the project, and its words."""
    lexer = shlex.shlex(text, posix=False, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words, signs = shlex.split(text), [each for each in lexer if _SIGNS.issuperset(each)]
    except ValueError as error:
        raise MisfitError(f"{text!r} cannot be read: {error}") from None
    match words, signs:
        case [_, *_], []:
            return ".", tuple(words)
        case ["cd", folder, "&&", *inner], ["&&"] if inner:
            return folder, tuple(inner)
    way_out = "write one command, after `cd FOLDER &&` if need be, and quote whole words"
    raise MisfitError(f"expected one command, got {text!r}; {way_out}")
