"""A command's words, parsed into subcommands, options and operands by its program's spec."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Command, Unreadable, Word
from toolbus.policy.programs.command_spec import HELP, RUN_INSIDE
from toolbus.policy.programs.effects_builder import EffectsBuilder

if TYPE_CHECKING:
    from toolbus.policy.programs.command_spec import CommandSpec, Kind, Option

_RUN = frozenset({"code", "command", "script", *RUN_INSIDE})
_TRUE = frozenset({"true", "1", "yes", "True"})
_FALSE = frozenset({"0", "false", "no", "off"})
_NUMBER = re.compile(r"-\d+")
# env accepts any word with "=": a function of bash is BASH_FUNC_x%%.
_ASSIGNMENT = re.compile(r"[^=]+=")
# A shell pattern that may match a name with a leading dash.
_MAY_MATCH_DASH = re.compile(r"[*?\[]|[@!+]\(")


class ParsedCommand:
    """A command as parsed by its program; *spec* is the selected subcommand.

    *operands* are the words that are neither options nor subcommands, *values* the given options
    with their values, in order.
    """

    def __init__(self, command: Command, name: str, spec: CommandSpec) -> None:
        self.command, self.spec = command, spec
        self.action = [name]
        self.options: set[str] = set()
        self.operands: list[Word] = []
        self.values: list[tuple[Option, Word]] = []
        self.builder = EffectsBuilder(command)
        self._tree_rules()
        self.instead: frozenset[str] | None = None
        self.helps = False
        """Whether a given option only prints the usage."""
        self.kinds: tuple[Kind, ...] | None = None
        self.final: Kind | None = None
        self.ended = False
        self.module: Word | None = None
        self.settings: list[tuple[str, Word]] = []
        """Variables that it sets for the wrapped command."""
        self.wrapped: tuple[Word, ...] = ()
        """The words of the wrapped command."""
        self.shell_texts: list[Word] = []
        """Texts that it passes to a shell."""
        self.runs_by = ""
        """The option that introduces the wrapped command, or ""."""
        self.places: list[str] = []
        """Placeholders in the wrapped command that the program replaces."""
        self.appends = False
        """Whether the program certainly appends words to the wrapped command."""
        self.is_certain = True
        """Whether the meaning of every word before the wrapped command is known."""
        self.globs: list[Word] = []
        """Patterns that expand to options if files have such names."""
        self._takes_next = self._may_be_value = False
        self._before: list[Word] = []
        self._groups: tuple[str, ...] = ()
        self._rest = list(reversed(command.words))
        self._parse()
        self._take_wrapped()
        if self.helps:
            self.instead = frozenset(HELP)
        if self._groups and not self.operands:
            self.action += self._groups
            # A group may also be a command of its own.
            if self.instead is None and self._groups[-1] in self.spec.data.groups:
                self.note(f"the effect of `{' '.join(self.action)}` alone is unknown")

    def note(self, reason: str, word: Word | None = None) -> None:
        """Note that *word*, or the whole command, is unknown for *reason*."""
        source = word.text if word else self.command.source or self.command.program.text
        self.builder.unknown.append(Unreadable(source, reason))

    def option(self, *names: str) -> bool:
        """Return whether an option with one of *names* was given."""
        return not self.options.isdisjoint(names)

    def _tree_rules(self) -> None:
        self.builder.tree_hidden = self.spec.data.hidden
        self.builder.tree_ignored = self.spec.data.ignored
        self.builder.reads_files = self.spec.reads_files

    def _parse(self) -> None:
        if self.spec.data.raw:
            self._take_raw()
        elif self.spec.data.bundle:
            self._bundle()
        while self._rest:
            word = self._rest.pop()
            self._may_be_value, self._takes_next = self._takes_next, False
            if self.ended:
                self._operand(word)
            elif not word.known:
                self._unknown_word(word)
            elif word.text == "--":
                self.ended = True
            elif word.text[:1] == "-" and (word.text != "-" or "-" in self.spec.options):
                self._option(word)
            else:
                self._note_glob(word)
                self._operand(word)

    def _take_wrapped(self) -> None:
        """Store the wrapped command, or the text for a shell, after the other operands."""
        kinds = self.kinds or self.spec.operands
        place = next((index for index, kind in enumerate(kinds) if kind in RUN_INSIDE), None)
        if place is None or len(self.operands) <= place:
            return
        # After a word that may expand to several, any word may be the program.
        self.is_certain = self.is_certain and all(map(is_one, self.operands[:place]))
        inside = tuple(self.operands[place:])
        if kinds[place] == "wrapped":
            self.wrapped = (*self._words_before(inside[0]), *inside)
        else:
            self.shell_texts.append(joined(inside))

    def _words_before(self, program: Word) -> tuple[Word, ...]:
        """Return the words that are inserted before *program*."""
        data = self.spec.data
        if data.runs_itself:
            return (Word(self.action[-1]),)
        interpreters = data.interpreters.items()
        by_name = [Word(name) for end, name in interpreters if program.text.endswith(end)]
        return tuple(self._before or by_name)

    def _bundle(self) -> None:
        """Parse a first word of options without a dash; their values are the next words."""
        if not self._rest or not self._rest[-1].known or self._rest[-1].text[:1] in {"", "-"}:
            return
        word = self._rest.pop()
        for letter in word.text:
            self._long("-" + letter, None, word)

    def _take_rest(self) -> None:
        self.operands += reversed(self._rest)
        self._rest.clear()

    def _take_raw(self) -> None:
        for word in self._rest:
            self._note_glob(word)
        self._take_rest()

    def _note_glob(self, word: Word) -> None:
        may_be_option = word.pattern and _MAY_MATCH_DASH.match(word.text)
        if may_be_option and not self.spec.takes_any_option:
            self.globs.append(word)

    def _operand(self, word: Word) -> None:
        spec = self.spec
        if spec.has_commands and not self.operands and self._subcommand(word):
            return
        if spec.data.assigns and (match := _ASSIGNMENT.match(_certain_start(word))):
            value = word.text.partition("=")[2]
            self.settings.append((match[0][:-1], replace(word, text=value, start="")))
            self.ended = True
            return
        kinds = self.kinds or spec.operands
        kind = kinds[min(len(self.operands), len(kinds) - 1)]
        self.operands.append(word)
        # The remaining words are the arguments of the run program.
        if spec.data.stop or kind in _RUN:
            self._take_rest()

    def _subcommand(self, word: Word) -> bool:
        """Select the subcommand *word*, if there is one."""
        known = self.spec.subcommand(self._groups, word.text) if word.known else None
        if known and not self._goes_on(word.text):
            self.action += [*self._groups, known[0]]
            self._groups = ()
            self.spec = known[1]
            # An option before the subcommand may not apply to it: `docker -v run` runs.
            self.helps = False
            self._tree_rules()
            if self.spec.data.raw:
                self._take_raw()
            return True
        if word.known and self.spec.leads_on(self._groups, word.text):
            self._groups += (word.text,)
            return True
        if self.spec.data.operands is None:
            path = " ".join((*self.action, *self._groups, word.text))
            self.note(f"`{path}` is an unknown subcommand", word)
            self.action += [*self._groups, word.text]
        return False

    def _goes_on(self, text: str) -> bool:
        """Return whether *text*, a subcommand, begins the path of a longer subcommand here."""
        if not self._rest or not self.spec.leads_on(self._groups, text):
            return False
        behind, groups = self._rest[-1], (*self._groups, text)
        return behind.known and (
            self.spec.subcommand(groups, behind.text) is not None
            or self.spec.leads_on(groups, behind.text)
        )

    def _unknown_word(self, word: Word) -> None:
        """Parse an unknown word: an operand, or perhaps an option."""
        name, equals, _ = word.start.partition("=")
        if equals and name[:1] == "-" and not word.several:
            self.is_certain = False
            self._long(name, Word(word.text.partition("=")[2], known=False), word)
            return
        if word.several or word.start[:1] in {"", "-"}:
            self.is_certain = False
            if self.spec.takes_any_option:
                self.builder.may_read(word)
            else:
                self.note(f"{word.text} may be an option", word)
        self._operand(word)

    def _option(self, word: Word) -> None:
        spec, text = self.spec, word.text
        if spec.has_commands and spec.is_command(text) and not self.operands:
            self._operand(word)
            return
        name, equals, value = text.partition("=")
        if spec.words or text.startswith("--") or _is_listed(name, spec):
            self._long(name, Word(value) if equals else None, word)
        elif spec.numbers and _NUMBER.fullmatch(text):
            self.options.add(text)
        else:
            self._cluster(word)

    def _long(self, name: str, value: Word | None, word: Word) -> None:
        option = self.spec.options.get(name)
        if option is None:
            self._unlisted(name, value, word)
        elif option.takes is None or value is not None or option.attached:
            is_fitting = value is None or option.takes not in {None, "wrapped"}
            self.is_certain = self.is_certain and is_fitting
            self._apply(option, name, value, alone=word.text.partition("=")[0] == name)
        else:
            self._apply(option, name, self._next())

    def _cluster(self, word: Word) -> None:
        """Parse clustered short options; a value is the rest of the word, or the next word.

        After an unlisted letter the rest may be its value or more options.
        """
        text = word.text
        for index in range(1, len(text)):
            name = "-" + text[index]
            option = self.spec.options.get(name)
            if option is None:
                self._unlisted(name, None, word)
                self._may_be_value = True
            elif option.takes is None:
                self._apply(option, name, None, alone=len(text) == 2)  # noqa: PLR2004 - one letter
            else:
                rest = text[index + 1 :]
                if rest or option.attached:
                    value = Word(rest, pattern=word.pattern) if rest else None
                    self.is_certain = self.is_certain and option.takes != "wrapped"
                else:
                    value = self._next()
                self._apply(option, name, value)
                return

    def _next(self) -> Word | None:
        """Return the value after an option; it also stays an operand if the option is uncertain."""
        if not self._rest:
            return None
        if self._may_be_value:
            self._takes_next = True
            return self._rest[-1]
        return self._rest.pop()

    def _unlisted(self, name: str, value: Word | None, word: Word) -> None:
        self.options.add(name)
        if value is not None:
            self.builder.prefixed(value, self.spec.file_prefixes)
        if self.spec.any_flag:
            self._pass_unlisted(name, value, word)
            return
        self._guess(name, value)
        self.note(f"{name} is an unknown option of `{' '.join(self.action)}`", word)

    def _pass_unlisted(self, name: str, value: Word | None, word: Word) -> None:
        """Accept an unlisted option of a program with an incomplete list."""
        self.is_certain = False
        self._takes_next = value is None
        alike = self.spec.abbreviated(name) if len(name) > 2 else ()  # noqa: PLR2004 - a long one
        taken_back = self.spec.options.get(name.replace("--no-", "--", 1))
        if taken_back is not None and taken_back.instead is not None:
            self.note(f"{name} may revoke an earlier option", word)
        elif not all(option.is_harmless for option in alike):
            self.note(f"{name} may abbreviate an option with other effects", word)

    def _guess(self, name: str, value: Word | None) -> None:
        """Treat *name* as an abbreviation of each listed long option with this prefix.

        The program may also have an unlisted option with this prefix.
        """
        alike = self.spec.abbreviated(name) if name.startswith("--") else []
        self.is_certain = self.is_certain and len({option.names for option in alike}) == 1
        for option in alike:
            self.options |= option.names
            if option.takes is not None and value is None and not option.attached:
                value = self._next()
            self._take_value(option, value)
            if self.is_certain:
                self._run_by(option, name, value)

    def _take_value(self, option: Option, value: Word | None) -> None:
        if option.takes is None or value is None:
            return
        self.is_certain = self.is_certain and is_one(value)
        if value.several:
            self.note("it may expand to several words, including options", value)
        self.values.append((option, value))
        self.builder.take(value, option.takes, of_option=True)

    def _apply(self, option: Option, name: str, value: Word | None, *, alone: bool = False) -> None:
        if option.pair:
            value = self._next()
        self.options |= {name, *option.names}
        if _known_text(value) not in option.harmless:
            self.builder.effects.update(option.effects)
        if option.asks:
            self.note(option.asks)
        self._change_operands(option, name, value, alone=alone)
        self.builder.tree_hidden |= option.hidden
        self.builder.tree_ignored |= option.ignored
        self.builder.tree_links |= option.links
        self._before += map(Word, option.before)
        self.appends |= option.appends
        self._take_value(option, value)
        if option.takes is not None and value is not None:
            self.builder.prefixed(value, self.spec.file_prefixes)
        self._run_by(option, name, value)

    def _change_operands(
        self, option: Option, name: str, value: Word | None, *, alone: bool
    ) -> None:
        """Apply the kinds of operands with *option*, and its *instead* effects."""
        if not self._may_be_value:
            self._replace(option, name, value, alone=alone)
            self.kinds = _merged(self.kinds, option.operands)
            self.final = option.final or self.final
        # After an unlisted option it only adds effects, and revokes none.
        elif option.operands or option.final or option.takes == "module":
            self.note(f"{name} may be an option or a value")

    def _run_by(self, option: Option, name: str, value: Word | None) -> None:
        """Store the command that *option*, written as *name*, introduces: *value* and the rest."""
        match option.takes:
            case "module" if not self._may_be_value:
                self.module = value
                self._take_rest()
            case "shell":
                self.runs_by = name
                self.shell_texts.append(value or Word(""))
            case "wrapped":
                self.runs_by = name
                self.wrapped = (value or Word(""), *reversed(self._rest))
                self._rest.clear()
                self._end_wrapped()
            case "place":
                place = value or Word("{}")
                self.places.append(place.text)
                self.is_certain = self.is_certain and place.known

    def _end_wrapped(self) -> None:
        """End the wrapped command of an option at a semicolon."""
        if self.wrapped[-1].text == ";":
            self.wrapped = self.wrapped[:-1]
        if any(word.text == ";" or may_be_sign(word) for word in self.wrapped):
            self.is_certain = False

    def _replace(self, option: Option, name: str, value: Word | None, *, alone: bool) -> None:
        """Apply the *instead* effects of *option*: a dry run, or its help."""
        if option.instead is None:
            return
        if not _holds(option, value) or self._is_switched_off():
            self.note(f"{name} may not apply", value)
        elif not option.helps:
            self.instead = frozenset((*option.instead, *(self.instead or ())))
        elif alone and not self.operands:
            # After an operand many programs, including those of macOS, take it as an operand.
            self.helps = True

    def _is_switched_off(self) -> bool:
        """Return whether the next word may be the value ``false`` of an option without values."""
        return bool(self._rest) and self._rest[-1].text.lower() in _FALSE


def joined(words: tuple[Word, ...]) -> Word:
    """Return *words* joined by blanks into one word for a shell."""
    known = all(word.known and not word.pattern for word in words)
    return Word(" ".join(word.text for word in words), known=known)


def _certain_start(word: Word) -> str:
    return word.text if word.known else word.start


def may_be_sign(word: Word) -> bool:
    """Return whether *word* may expand to ``;`` or ``+``, which end a command of find and fd."""
    if word.pattern:
        return word.text[:1] in {*"*?["}
    return not word.known and word.start in {"", ";", "+"}


def is_one(word: Word) -> bool:
    """Return whether *word* certainly expands to one argument."""
    return not word.several and not (word.pattern and re.search(r"[*?\[]", word.text))


def _merged(
    before: tuple[Kind, ...] | None, added: tuple[Kind, ...] | None
) -> tuple[Kind, ...] | None:
    """Return the kinds of operands with two options: `grep -r -e x` reads folders, no pattern."""
    if before is None or added is None:
        return added or before
    if added[-1] in {"path", "revision", "tree"} and before[-1] in {"tree", "write", "move"}:
        added = (*added[:-1], before[-1])
    return added[1:] if len(added) > 1 and added[0] == "text" != before[0] else added


def _holds(option: Option, value: Word | None) -> bool:
    """Return whether *value* switches on *option*, which has *instead* effects."""
    if value is None or (option.takes is not None and not option.harmless):
        return True
    return _known_text(value) in (option.harmless or _TRUE)


def _known_text(value: Word | None) -> str | None:
    return value.text.removeprefix("=") if value is not None and value.known else None


def _is_listed(name: str, spec: CommandSpec) -> bool:
    """Return whether *spec* lists *name* as a long option with one dash."""
    return len(name) > len("-x") and name in spec.options
