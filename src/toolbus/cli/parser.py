"""The argument parser of all commands: options, errors with a way out, and types of values."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from toolbus.cli.output.stream import Output
from toolbus.settings.hints import hint, nearest

_LIKENESS = 0.65
"""The least likeness of a suggested option: all of them share the dashes."""

Command: TypeAlias = tuple["Parser", Callable[[argparse.Namespace, Output], int]]
"""A command's parser, and its body: a function of the parsed words that returns the exit code."""

_RENAMED = {("toolbus", "wiring"): "toolbus handlers"}
"""By program and former word the new name of a command or option, for this version's errors."""


def renamed(program: str, word: str) -> str:
    """Return a hint at the new name of *word*, a former command or option of *program*, or ""."""
    name = _RENAMED.get((program, word))
    return f"; it is called `{name}` now" if name else ""


class Parser(argparse.ArgumentParser):
    """A parser whose errors name the most similar option or action."""

    _words: tuple[str, ...] = ()

    def parse_all(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse *arguments*; exit with 2 at an unknown one."""
        self._words = tuple(arguments)
        # argparse ends a list of words at the first option, unless it is asked for all.
        has_list = any(action.nargs == "*" for action in self._get_positional_actions())
        parse = self.parse_known_intermixed_args if has_list else self.parse_known_args
        parsed, unknown = parse(arguments)
        for word in unknown:
            self._refuse_word(word, getattr(parsed, "action", None))
        return parsed

    def _refuse_word(self, word: str, chosen: str | None = None) -> NoReturn:
        """Report *word* as unknown, misplaced, or as an option of actions other than *chosen*."""
        option = word.partition("=")[0]
        actions = self._actions_by_name().items()
        owners = [name for name, parser in actions if option in parser.option_names()]
        if owners and chosen not in {None, *owners}:
            self.error(f"{chosen!r} has no option {option!r}; it belongs to {' and '.join(owners)}")
        if owners:
            names = " and ".join(owners)
            self.error(f"{option!r} is an option of {names}; give it after the action")
        kind = "option" if word.startswith("-") else "argument"
        parser = self._actions_by_name().get(chosen or "", self)
        known = [option for option in parser.option_names() if option.startswith("--")]
        near = renamed(self.prog, option) or nearest(option, known, _LIKENESS)
        parser.error(f"unknown {kind} {word!r}{near}")

    def _actions_by_name(self) -> dict[str, Parser]:
        return next(
            (
                dict(action.choices)
                for action in self._actions
                if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 - argparse has no public name
            ),
            {},
        )

    def next_words(self, before: Sequence[str]) -> list[str]:
        """Return the options, actions and choices allowed after the words *before*."""
        chosen = next((word for word in before if word in self._actions_by_name()), None)
        if chosen is not None:
            return self._actions_by_name()[chosen].next_words(before)
        option = self._option_string_actions.get(before[-1]) if before else None
        if option is not None and option.nargs != 0:
            return list(option.choices or ())
        choices = [
            str(word)
            for action in self._get_positional_actions()
            for word in action.choices or ()
            if str(word) not in before
        ]
        return [*choices, *self._option_string_actions]

    def option_names(self) -> list[str]:
        """Return the options of this parser, then those of its actions."""
        names = list(self._option_string_actions)
        for parser in self._actions_by_name().values():
            names += parser.option_names()
        return names

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:  # noqa: SLF001 - argparse has no public name
            # An unknown option before the action leaves its value in the action's place.
            for word in self._words[: self._words.index(value)]:
                if (
                    word.startswith("-")
                    and word.partition("=")[0] not in self._option_string_actions
                ):
                    self._refuse_word(word)
            near = nearest(value, action.choices) or f"; actions: {', '.join(action.choices)}"
            self.error(f"unknown action {value!r}{near}")
        if action.choices is not None and value not in action.choices:
            known = hint(str(value), map(str, action.choices))
            raise argparse.ArgumentError(action, f"unknown value {value!r}{known}")

    def error(self, message: str) -> NoReturn:
        """Exit with 2 after one line: the error, and the help to read."""
        message = message.replace("the following arguments are required:", "missing:")
        self.exit(2, f"error: {message}; see `{self.prog} --help`\n")


class CommandParser(Parser):
    """A parser of the words before `--`; the words after it become `command`."""

    def parse_all(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse as `Parser.parse_all` does; without `--` the command is empty."""
        words = list(arguments)
        end = words.index("--") if "--" in words else len(words)
        parsed = super().parse_all(words[:end])
        parsed.command = words[end + 1 :]
        return parsed


def make_parser(
    prog: str, description: str, epilog: str, parser_class: type[Parser] = Parser
) -> Parser:
    """Return a parser whose help ends with *epilog*, unwrapped."""
    return parser_class(
        prog=prog,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_action(
    actions: argparse._SubParsersAction[Parser], name: str, text: str, epilog: str | None = None
) -> Parser:
    """Return the parser of the action *name*; *text* opens its help, *epilog* closes it."""
    return actions.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def whole_number(expected: str, least: int = 1) -> Callable[[str], int]:
    """Return a parser of numbers from *least* on, whose error names the *expected* number."""

    def parse(text: str) -> int:
        if text.isascii() and text.isdigit() and int(text) >= least:
            return int(text)
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")

    return parse


def seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not (isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return number


def nonempty(text: str) -> str:
    """Parse a name; an empty one is often a variable that is not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a name, got an empty one")
    return text


def pause(text: str) -> float:
    """Parse a number of seconds, 0 or more."""
    return 0.0 if text.strip() in {"0", "0.0"} else seconds(text)


positive = whole_number("a number from 1 up")
megabytes = whole_number("a whole number of megabytes")


def program() -> tuple[str, ...]:
    """Return the words that started this program, for commands to copy."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return Path(sys.executable).name, "-m", "toolbus"
    if called.parent == Path() or str(called.parent) in os.get_exec_path():
        return (called.name or "toolbus",)
    return (os.path.relpath(called) if called.is_relative_to(Path.cwd()) else str(called),)
