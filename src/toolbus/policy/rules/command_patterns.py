"""Patterns of commands in a rule's `command`: a program, its subcommand, options in any order.

`git push --force` matches every `git push` with this option in any form: `-f`, in a cluster,
abbreviated, in any position, after `git -C dir`. Words may be globs (`npm run *`).

**A deny or ask rule** applies to a command that may match: if options or subcommands are unknown or
in a variable, the answer is "maybe".

**An allow rule** applies only to a certain match. Unless the rule has `effects`, the command may do
no more than the plain command in the rule: `git log` does not allow `git log --output=x`, `curl`
does not allow `curl -o`, and `make test` does not allow `make test deploy`. With an unknown program
or option, the rule allows exactly its own words, in the call's starting folder: the author of the
rule knows their effect.
"""

from __future__ import annotations

import posixpath
import shlex
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from toolbus.policy.commands import Command, Word
from toolbus.policy.programs.command_effects import effects_of
from toolbus.policy.rules.records import MatchResult
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from toolbus.policy.commands import CommandEffects
    from toolbus.policy.facts import CallPart
    from toolbus.policy.programs.program_files import Programs

_OPERATORS = frozenset("|;&<>()`\n")
_ANY_FILE = "/any/file"
_OF_TARGETS = frozenset(
    ["ant", "gmake", "gradle", "gradlew", "invoke", "just", "make", "mvn", "ninja", "rake", "tox"]
)
"""Programs whose operands are targets: `make test deploy`."""
_YES = MatchResult("yes")


class CommandPattern:
    """The command *text* of a rule; raises `MisfitError` unless it names one command."""

    def __init__(self, text: str, programs: Programs | None = None) -> None:
        self.text, self._programs = text, programs
        try:
            self._texts = shlex.split(text)
        except ValueError as error:
            raise MisfitError(f"{text!r} cannot be read: {error}") from None
        if not self._texts or _OPERATORS.intersection(text):
            way_out = "write its program, subcommand and options, several commands as a list"
            raise MisfitError(f"expected one command, got {text!r}; {way_out}")
        self.program = posixpath.basename(self._texts[0])
        if not self.program or self.program.startswith("-"):
            raise MisfitError(f"{text!r} does not begin with a program; put the program first")
        self._words = [word for word in self._texts[1:] if not _is_option(word)]
        self._options = [word for word in self._texts[1:] if _is_option(word)]

    @cached_property
    def effects(self) -> frozenset[str]:
        """The effects of the command with exactly these words."""
        return self._plain.effects

    @property
    def reads_any(self) -> bool:
        """Whether it reads a file named after these words."""
        known = self._effects_of([*self._texts, _ANY_FILE])
        return any(use.word.text == _ANY_FILE for use in known.paths)

    @property
    def unknown(self) -> str:
        """Why one of its words is unknown, "" if all are known."""
        for each in self._plain.unknown:
            if (
                each.source in self._texts[1:]
                or each.reason == f"`{self.program}` is an unknown program"
            ):
                return each.reason
        return ""

    @cached_property
    def _plain(self) -> CommandEffects:
        return self._effects_of(self._texts)

    @cached_property
    def _spellings(self) -> list[frozenset[str]]:
        """The names of each option: as written in the rule, and in full."""
        words = [self.program, *self._words]
        plain = self._effects_of(words).options
        return [
            (self._effects_of([*words, each]).options - plain) | {each} for each in self._options
        ]

    def _effects_of(self, texts: list[str]) -> CommandEffects:
        return effects_of(command_of(texts), self._programs)

    def may_be(self, part: CallPart) -> MatchResult:
        """Return whether *part* may be this command, for a deny or ask rule."""
        command = part.command
        if command is None or self.program not in part.programs:
            return MatchResult("no", f"it is not {self.program}")
        doubt = ""
        for answer in (self._has_words(part, command), self._has_options(part, command)):
            if answer.answer == "no":
                return answer
            doubt = doubt or answer.why
        return MatchResult("maybe", doubt) if doubt else _YES

    def surely_is(self, part: CallPart) -> MatchResult:
        """Return whether *part* certainly is this command, for an allow rule."""
        command = part.command
        if command is None or self.program not in part.programs:
            return MatchResult("no", f"it is not {self.program}")
        texts = [command.program.text, *[word.text for word in command.words]]
        if self._texts == texts and _is_plain(command):
            return _YES
        if part.unknown:
            return MatchResult("no", f"{part.unknown[0].reason}: {part.unknown[0].source}")
        if reason := self._difference(part, texts[1:]):
            return MatchResult("no", reason)
        return _YES

    def _difference(self, part: CallPart, texts: list[str]) -> str:
        """Return how *part*, with the words *texts*, differs from this command, or ""."""
        known = list(part.action[1:])
        if not _all_match(self._words[: len(known)], known[: len(self._words)]):
            return f"it is not {' '.join([self.program, *self._words])}"
        if len(self._words) > len(known) and not _begins(texts, self._texts[1:]):
            return f"its words are not {' '.join(self._words)}"
        for option, spellings in zip(self._options, self._spellings, strict=True):
            if not spellings & part.options:
                return f"it has no {option}"
        if self._words and part.programs & _OF_TARGETS and (others := self._others(texts)):
            return f"it also builds {others[0]}"
        return ""

    def _others(self, texts: list[str]) -> list[str]:
        """Return the additional targets among *texts*."""
        operands = [text for text in texts if not (_is_option(text) or text == "--")]
        wanted = [text for text in operands if "=" not in text and not text.isdigit()]
        return [text for text in wanted if not any(fnmatchcase(text, w) for w in self._words)]

    def _has_words(self, part: CallPart, command: Command) -> MatchResult:
        """Return whether subcommands and first operands match the rule."""
        known = list(part.action[1:])[: len(self._words)]
        rest = self._words[len(known) :]
        operands = [word for word in command.words if not _is_option(word.text)]
        if not _all_match(self._words[: len(known)], known):
            if part.unknown and _in_order(self._words, operands):
                return MatchResult("maybe", f"it may be {self.text}: {part.unknown[0].reason}")
            return MatchResult("no", f"it is {' '.join(part.action)}")
        if not rest or _in_order(rest, operands):
            return _YES
        unsure = [word.text for word in operands if not word.known or word.pattern]
        if unsure:
            return MatchResult("maybe", f"{unsure[0]} may be {' '.join(rest)}")
        return MatchResult("no", f"it has no {' '.join(rest)}")

    def _has_options(self, part: CallPart, command: Command) -> MatchResult:
        """Return whether all options of the rule are present, or may be."""
        doubt = ""
        for option, spellings in zip(self._options, self._spellings, strict=True):
            if spellings & part.options or _is_written(spellings, part, command):
                continue
            unsure = [word.text for word in command.words if _may_be_option(word)]
            if not unsure:
                return MatchResult("no", f"it has no {option}")
            doubt = doubt or f"{unsure[0]} may be {option}"
        return MatchResult("maybe", doubt) if doubt else _YES


def names_command(
    patterns: tuple[CommandPattern, ...], part: CallPart, *, every: bool
) -> MatchResult:
    """Return whether *part* matches one of *patterns*: certainly, for an allow rule (*every*)."""
    if part.command is None:
        return MatchResult("no", "it is not a readable command")
    programs = sorted({pattern.program for pattern in patterns})
    near, doubt = MatchResult("no", f"it is not {' or '.join(programs)}"), None
    for pattern in patterns:
        answer = pattern.surely_is(part) if every else pattern.may_be(part)
        if answer.answer == "yes":
            return MatchResult("yes", f"it is {pattern.text}")
        if answer.answer == "maybe":
            doubt = doubt or answer
        elif pattern.program in part.programs:
            near = answer
    return doubt or near


def plain_effects(patterns: tuple[CommandPattern, ...], part: CallPart) -> frozenset[str]:
    """Return the effects that *patterns* permit to *part*, for an allow rule."""
    surely = [each for each in patterns if each.surely_is(part).answer == "yes"]
    return frozenset().union(*[pattern.effects for pattern in surely])


def command_of(texts: list[str]) -> Command:
    """Return the command with the words *texts*."""
    words = tuple([Word(text) for text in texts[1:]])
    return Command(Word(texts[0]), words, source=shlex.join(texts))


def _is_option(text: str) -> bool:
    return text.startswith("-") and text not in {"-", "--"}


def _is_plain(command: Command) -> bool:
    """Return whether only its words determine the effect of *command*."""
    words = (command.program, *command.words)
    return (
        all(word.known and not word.pattern for word in words)
        and not (command.settings or command.redirections or command.stdin or command.piped)
        and not command.rewired
        and command.folder == "."
        and command.paths_stable
    )


def _all_match(patterns: list[str], texts: list[str]) -> bool:
    return all(fnmatchcase(text, pattern) for pattern, text in zip(patterns, texts, strict=False))


def _begins(texts: list[str], patterns: list[str]) -> bool:
    return len(texts) >= len(patterns) and _all_match(patterns, texts)


def _in_order(patterns: list[str], operands: list[Word]) -> bool:
    """Return whether *patterns* match a subsequence of *operands*."""
    remaining = iter(operands)
    return all(
        any(word.known and fnmatchcase(word.text, pattern) for word in remaining)
        for pattern in patterns
    )


def _may_be_option(word: Word) -> bool:
    """Return whether *word* may expand to an option, as a glob may match a file named `-rf`."""
    if not word.known:
        return word.several or not word.start or word.start.startswith("-")
    return word.pattern and word.text[:1] in {"-", "*", "?", "["}


def _is_written(spellings: frozenset[str], part: CallPart, command: Command) -> bool:
    """Return whether one of *spellings* is among the words of unknown meaning.

    Such words follow `--`, or belong to unknown programs and options.
    """
    texts = [word.text for word in command.words if word.known]
    if not part.unknown:
        texts = texts[texts.index("--") + 1 :] if "--" in texts else []
    return any(_spells(text, spellings) for text in filter(_is_option, texts))


def _spells(text: str, spellings: frozenset[str]) -> bool:
    """Return whether *text* spells an option of *spellings*, abbreviated or in a cluster."""
    name = text.partition("=")[0]
    if name.startswith("--"):
        return any(each.startswith(name) for each in spellings)
    return name in spellings or any(f"-{letter}" in spellings for letter in name[1:])
