"""What a script of `sed` does: the commands of sed(1), GNU and BSD, that do more than print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.commands import Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand

_PLAIN = frozenset("{}=dDgGhHnNpPxFz")
_GAP = re.compile(r"[\s;]*")
_ADDRESS = re.compile(r"\s*(?:\d+(?:~\d+)?|\$|[+~]\d+)")
_NEGATION = re.compile(r"[\s!]*")
_LINE = re.compile(r"[^\n]*")
_TEXT = re.compile(r"(?:\\.|[^\n\\])*", re.DOTALL)
# Behind a blank GNU sed 4.9 goes on with the next command.
_LABEL = re.compile(r"[ \t]*[^\s;]*")
_NUMBER = re.compile(r"[ \t]*\d*")
_FLAGS = re.compile(r"[gpiImM0-9 \t]*")
_REGEX_FLAGS = re.compile(r"[IM]*")


class SedScript(NamedTuple):
    """The files that a script *reads* and *writes*, and whether it *runs* commands."""

    reads: list[str]
    writes: list[str]
    runs: bool


class ScriptError(Exception):
    """A script is none that is understood here."""


def read_script(script: str) -> SedScript:
    """Return what *script* does; raises `ScriptError`.

    GNU ends an expression at its delimiter also between brackets, BSD does not: where that
    differs, both are what it may do.
    """
    readings = []
    for brackets in (False, True):
        try:
            readings.append(_SedWalk(script, brackets=brackets).read())
        except (ScriptError, IndexError):
            continue
    if not readings:
        raise ScriptError
    return SedScript(
        [file for reading in readings for file in reading.reads],
        [file for reading in readings for file in reading.writes],
        any(reading.runs for reading in readings),
    )


class _SedWalk:
    """One walk through a script."""

    def __init__(self, script: str, *, brackets: bool) -> None:
        self._script, self._brackets, self._position = script, brackets, 0
        self._result = SedScript([], [], runs=False)

    def read(self) -> SedScript:
        while self._skip(_GAP) is not None and self._position < len(self._script):
            if self._script[self._position] in "}#":
                self._skip(_LINE if self._next() == "#" else _GAP)
                continue
            self._addresses()
            self._command()
        return self._result

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._script, self._position)
        assert match is not None  # noqa: S101 - for mypy: all of them match nothing, too
        self._position = match.end()
        return match[0]

    def _next(self) -> str:
        self._position += 1
        return self._script[self._position - 1]

    def _addresses(self) -> None:
        self._address()
        while self._script[self._position : self._position + 1] == ",":
            self._position += 1
            self._address()
            self._skip(re.compile(r"\s*"))
        self._skip(_NEGATION)

    def _address(self) -> None:
        if match := _ADDRESS.match(self._script, self._position):
            self._position = match.end()
        else:
            self._skip(re.compile(r"\s*"))
            start = self._script[self._position : self._position + 1]
            if start not in {"/", "\\"} or not start:
                return
            self._position += 1
            self._delimited(self._next() if start == "\\" else "/", regex=True)
            self._skip(_REGEX_FLAGS)
        self._skip(re.compile(r"[ \t]*"))

    def _delimited(self, delimiter: str, *, regex: bool) -> None:
        """Go behind the next *delimiter* that is not escaped."""
        while (character := self._next()) != delimiter:
            if character == "\\":
                self._position += 1
            elif character == "[" and regex and self._brackets:
                self._bracket()

    def _bracket(self) -> None:
        if self._script[self._position] == "^":
            self._position += 1
        self._position = self._script.find("]", self._position + 1) + 1
        if not self._position:
            raise ScriptError

    def _command(self) -> None:
        command = self._next()
        match command:
            case _ if command in _PLAIN:
                pass
            case "a" | "i" | "c":
                self._skip(_TEXT)
            case "b" | "t" | "T" | ":" | "v":
                self._skip(_LABEL)
            case "q" | "Q" | "l" | "L":
                self._skip(_NUMBER)
            case "r" | "R" | "w" | "W":
                files = self._result.reads if command in "rR" else self._result.writes
                files.append(self._skip(_LINE).strip())
            case "s":
                self._substitution()
            case "y":
                delimiter = self._next()
                self._delimited(delimiter, regex=False)
                self._delimited(delimiter, regex=False)
            case "e":
                self._skip(_LINE)
                self._result = self._result._replace(runs=True)
            case _:
                raise ScriptError

    def _substitution(self) -> None:
        delimiter = self._next()
        self._delimited(delimiter, regex=True)
        self._delimited(delimiter, regex=False)
        while True:
            self._skip(_FLAGS)
            flag = self._script[self._position : self._position + 1]
            if flag == "e":
                self._position += 1
                self._result = self._result._replace(runs=True)
            elif flag == "w":
                self._position += 1
                self._result.writes.append(self._skip(_LINE).strip())
            elif flag in {"", ";", "\n", "}", "#"}:
                return
            else:
                raise ScriptError


def read_sed(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the scripts of a call of sed; return its files."""
    scripts = [value for option, value in parsed.values if "-e" in option.names]
    files = list(parsed.operands)
    in_place = parsed.option("-i", "-I", "--in-place")
    if in_place and files and files[0].text == "" and files[0].known:
        del files[0]  # BSD takes the suffix, even an empty one, as a word of its own.
    if not (scripts or parsed.helps or parsed.option("-f", "--file")):
        scripts, files = files[:1], files[1:]
    # Scripts are joined by lines, so that the text of `a` may go on in the next.
    for script in scripts:
        if not script.known:
            parsed.note("what this script of sed does cannot be known", script)
    known = "\n".join(script.text for script in scripts if script.known)
    _judge(parsed, Word(known))
    if in_place:
        for file in files:
            parsed.uses.write(file)
    return files


def _judge(parsed: ParsedCommand, script: Word) -> None:
    try:
        reading = read_script(script.text)
    except ScriptError:
        parsed.note("what this script of sed does is not known", script)
        return
    uses = parsed.uses
    for file in reading.reads:
        uses.read(Word(file))
    for file in reading.writes:
        uses.write(Word(file))
    if reading.runs:
        uses.take(script, "command")
