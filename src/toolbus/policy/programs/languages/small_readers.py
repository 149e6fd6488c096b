"""Programs whose arguments mean what others decide: tar, cp, dd, date, less, fzf, yq, sysctl."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from toolbus.policy.commands import Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand

_QUIET_LESS = re.compile(r"\++(?:\d*[gGFp%]?|[/?][^!|]*)")
_ENVIRONMENT = re.compile(r"""\$ENV\b|(?<![.\w"'$@])env(?![\w"']|\s*:)""")
"""What of jq reads the environment: no key of that name, as in `.env` and `{env: 1}`."""
_FZF_RUNS = re.compile(r"execute|become|reload|transform|preview\(|preview:|unbind-run|bg-")


def read_tar(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a call of tar, by its mode; return no operands."""
    uses = parsed.uses
    creates = parsed.option("-c", "-r", "-u", "-A", "--delete")
    if not creates and not parsed.option("-t", "-d", "-x"):
        if parsed.instead is None:
            parsed.note("what tar does without one of -c, -t and -x is not known")
        return ()
    for option, value in parsed.values:
        if "-f" in option.names:
            _archive(parsed, value, "write" if creates else "read")
    for file in parsed.operands if creates and not parsed.option("--delete") else ():
        uses.tree(file)
    if parsed.option("-x") and not parsed.option("-O"):
        uses.fill(Word("."))
    return ()


def _archive(parsed: ParsedCommand, archive: Word, kind: str) -> None:
    uses = parsed.uses
    folder, uses.folder = uses.folder, parsed.command.folder
    if ":" in archive.text and not parsed.option("--force-local"):
        parsed.note("an archive with a colon in its name is on another machine", archive)
    if kind == "read":
        uses.read(archive)
    else:
        uses.write(archive)
    uses.folder = folder


def read_lsof(parsed: ParsedCommand) -> Sequence[Word]:
    """Note the hosts that ``-i`` names, which are looked up; return the operands."""
    for option, value in parsed.values:
        _, at_sign, host = value.text.partition("@")
        if "-i" in option.names and (not value.known or at_sign):
            parsed.uses.take(Word(host, known=value.known), "host")
            parsed.uses.effects.add("network")
    return parsed.operands


def read_gzip(parsed: ParsedCommand) -> Sequence[Word]:
    """Add what a compressor unpacks to: the names without their last suffix; return operands."""
    if parsed.instead is None:
        for word in parsed.operands:
            if word.known and not word.pattern and posixpath.splitext(word.text)[1]:
                parsed.uses.write(Word(posixpath.splitext(word.text)[0]))
    return parsed.operands


def read_response_files(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge ``@file`` of GNU's binutils, which holds more arguments; return operands."""
    for word in parsed.operands:
        if word.text.startswith("@"):
            parsed.note("which arguments it has is in that file", word)
            parsed.uses.read(Word(word.text[1:], word.known))
    return parsed.operands


def read_cp(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge what `cp` makes other names of, by which it can be written; return operands."""
    if parsed.option("-l", "--link"):
        has_target = parsed.option("-t", "--target-directory")
        for word in parsed.operands if has_target else parsed.operands[:-1]:
            parsed.uses.take(word, "move")
    return parsed.operands


def read_dd(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the operands of dd; return none."""
    for word in parsed.operands:
        name, equals, value = word.text.partition("=")
        if not word.known and name not in {"bs", "count", "skip", "seek"}:
            parsed.note(f"what {word.text} is to dd cannot be known", word)
        elif name == "if":
            # A tilde behind the sign is one of the shell's, and stands in a pattern.
            parsed.uses.read(Word(value, pattern=word.pattern))
        elif name == "of":
            parsed.uses.write(Word(value, pattern=word.pattern))
            if value.startswith("/dev/") and "write" in parsed.uses.effects:
                parsed.uses.destroy(Word(value))
        elif not equals:
            parsed.note(f"what {word.text} is to dd is not known", word)
    return ()


def read_date(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `date`: an operand that is no format sets the clock; return none."""
    if any(not word.text.startswith("+") for word in parsed.operands):
        parsed.uses.effects.add("write")
    return ()


def read_less(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the commands with which `less` begins, ``+!command`` for one; return files."""
    for word in parsed.operands:
        if word.text.startswith("+") and not _QUIET_LESS.fullmatch(word.text):
            parsed.note("what less does at its start is not known", word)
    return [word for word in parsed.operands if not word.text.startswith("+")]


def read_fzf(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the actions of keys of fzf: some run commands."""
    for option, value in parsed.values:
        if "--bind" in option.names and (not value.known or _FZF_RUNS.search(value.text)):
            parsed.uses.take(value, "command")
    return parsed.operands


def read_jq(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a filter of jq: `import` and `include` read files of data and code."""
    for word in () if parsed.option("-f", "--from-file") else parsed.operands[:1]:
        if word.known and re.search(r"\b(?:import|include)\b", word.text):
            parsed.uses.read(Word("a file that jq names", known=False))
        if not word.known or _ENVIRONMENT.search(word.text):
            parsed.uses.read_environment()
    return parsed.operands


def read_ps(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `ps`: letters without a dash are options, of which `e` shows the environment."""
    letters = [word.text for word in parsed.operands if word.text.isalpha() or not word.known]
    if parsed.option("-E") or any("e" in text for text in letters):
        parsed.uses.read_environment()
    return ()


def read_yq(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge an expression of yq: its functions named load… read files."""
    for word in parsed.operands[:1]:
        if word.known and "load" in word.text:
            parsed.uses.read(Word("a file that yq names", known=False))
    return parsed.operands


def read_sysctl(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `sysctl`: ``name=value`` sets; return none."""
    if any("=" in word.text or not word.known for word in parsed.operands):
        parsed.uses.effects.add("write")
    return ()


def read_service(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `service NAME status`, which only tells; return none."""
    if [word.text for word in parsed.operands[1:]] == ["status"]:
        parsed.instead = frozenset({"read"})
    return ()


def read_scutil(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `scutil`, which without an option reads commands; return none."""
    if not parsed.options:
        parsed.note("it reads what to do from its input")
    return ()


def read_dscl(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a verb of `dscl`, which may have a dash; return none."""
    verbs = [word.text.lstrip("-") for word in parsed.command.words[1:2]]
    if not verbs or verbs[0] not in {"read", "readall", "readpl", "readpli", "list", "search"}:
        parsed.note("what dscl changes is not known")
    return ()
