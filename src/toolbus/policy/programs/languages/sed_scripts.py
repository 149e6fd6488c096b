"""The effects of `sed` scripts: commands of sed(1), GNU and BSD, that do more than print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.commands import Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand

_TEXT = r"(?:\\.|(?!(?P={0}))[^\\])*+"
_WITH_BRACKETS = r"(?:\\.|\[\^?+\]?+[^\]]*+\]|(?!(?P={0}))[^\\\[])*+"
_ADDRESS = r"(?:\d+(?:~\d+)?|\$|[+~]\d+|(?:(?P<{0}>/)|\\(?P<own_{0}>.)){1}[IM]*)"
# After the blank that ends a label, GNU sed 4.9 reads the next command.
_COMMAND = r"""[\s;]*+
    (?:{first}[ \t]*+(?:,\s*+{second}\s*+)?+)?+[\s!]*+
    (?:[{{}}=dDgGhHnNpPxFz]
    |\#[^\n]*
    |[aic](?:\\.|[^\n\\])*+
    |[btTv:][ \t]*+[^\s;]*+
    |[qQlL][ \t]*+\d*+
    |[rR](?P<read>[^\n]*)
    |[wW](?P<written>[^\n]*)
    |(?P<run>e)[^\n]*
    |y(?P<y>[^\\\n]){y}(?P=y){y}(?P=y)
    |s(?P<s>[^\\\n]){regex}(?P=s){s}(?P=s)[gpiImM0-9\ \t]*
        (?:(?P<run_result>e)[gpiImM0-9\ \t]*)?(?:w(?P<result>[^\n]*)|(?=[;\n}}\#]|\Z)))
    [\s;]*+"""


class ScriptError(Exception):
    """The script cannot be parsed."""


class SedScript(NamedTuple):
    """The files that a script *reads* and *writes*, and whether it *runs* commands."""

    reads: list[str]
    writes: list[str]
    runs: bool


def _grammar(regex: str) -> re.Pattern[str]:
    """Return the grammar of a command; *regex* matches the text before a delimiter."""

    def address(name: str) -> str:
        written = (
            f"(?:{regex.format(name)}(?P={name})|{regex.format('own_' + name)}(?P=own_{name}))"
        )
        return _ADDRESS.format(name, written)

    text = _COMMAND.format(
        first=address("first"),
        second=address("second"),
        regex=regex.format("s"),
        s=_TEXT.format("s"),
        y=_TEXT.format("y"),
    )
    return re.compile(text, re.VERBOSE | re.DOTALL)


# Old GNU sed ends an expression at a delimiter inside brackets, too; BSD and new GNU do not.
_GRAMMARS = (_grammar(_TEXT), _grammar(_WITH_BRACKETS))


def read_script(script: str) -> SedScript:
    """Return the possible effects of *script* in any version of sed; raises `ScriptError`."""
    # Complex because each field needs its own groups of each command.
    commands = [match for grammar in _GRAMMARS for match in _commands(grammar, script)]
    if script.strip() and not commands:
        raise ScriptError
    written = [text for match in commands for text in match.group("written", "result")]
    return SedScript(
        [match["read"].strip() for match in commands if match["read"] is not None],
        [text.strip() for text in written if text is not None],
        any(match["run"] or match["run_result"] for match in commands),
    )


def _commands(grammar: re.Pattern[str], script: str) -> list[re.Match[str]]:
    """Return the commands of *script*; none if *grammar* does not match."""
    commands: list[re.Match[str]] = []
    position = 0
    while position < len(script):
        match = grammar.match(script, position)
        if match is None:
            return []
        commands.append(match)
        position = match.end()
    return commands


def read_sed(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the scripts of a call of sed; return its files."""
    # Complex because scripts, files and suffixes differ between GNU and BSD sed.
    files = list(parsed.operands)
    in_place = parsed.option("-i", "-I", "--in-place")
    if in_place and files[:1] == [Word("")]:
        del files[0]  # BSD sed takes the suffix, even an empty one, as a separate word.
    scripts = [value for option, value in parsed.values if "-e" in option.names]
    if not (scripts or parsed.helps or parsed.option("-f", "--file")):
        scripts, files = files[:1], files[1:]
    _judge(parsed, scripts)
    for file in files if in_place else ():
        parsed.builder.write(file)
    for option, suffix in parsed.values:
        # A star makes it the name of the copy, a slash puts the copy in another folder.
        if not option.names.isdisjoint({"-i", "-I"}) and re.search("[*/]", suffix.text):
            parsed.builder.write(Word(suffix.text, known=False))
    return files


def _judge(parsed: ParsedCommand, scripts: Sequence[Word]) -> None:
    for script in scripts:
        if not script.known:
            parsed.note("this sed script is known only at run time", script)
    # Scripts are joined by newlines, because the text of `a` may continue in the next script.
    script = Word("\n".join(each.text for each in scripts if each.known))
    try:
        reading = read_script(script.text)
    except ScriptError:
        parsed.note("the effect of this sed script is unknown", script)
        return
    for file in reading.reads:
        parsed.builder.read(Word(file))
    for file in reading.writes:
        parsed.builder.write(Word(file))
    if reading.runs:
        parsed.builder.take(script, "command")
