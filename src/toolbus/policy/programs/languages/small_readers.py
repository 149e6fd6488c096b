"""Programs whose arguments mean what others decide: tar, dd, test, curl, git push, ssh."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.policy.commands import Word
from toolbus.policy.programs.languages.language_data import language_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand

_EVALUATED = re.compile(r"[\[$`]")
_FZF_RUNS = re.compile(r"execute|become|reload|transform|preview\(|preview:|unbind-run|bg-")


def read_tar(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a call of tar, by its mode; return no operands."""
    uses = parsed.uses
    archives = [value for option, value in parsed.values if "-f" in option.names]
    files = parsed.operands
    creates = parsed.option("-c", "-r", "-u", "-A", "--delete")
    if not creates and not parsed.option("-t", "-d", "-x"):
        if parsed.instead is None:
            parsed.note("what tar does without one of -c, -t and -x is not known")
        return ()
    for archive in archives:
        _archive(parsed, archive, "write" if creates else "read")
    if creates and not parsed.option("--delete"):
        for file in files:
            uses.tree(file)
    if parsed.option("-x") and not parsed.option("-O"):
        uses.write(Word("."))
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


def read_dd(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the operands of dd; return none."""
    for word in parsed.operands:
        name, equals, value = word.text.partition("=")
        if not word.known and name not in {"bs", "count", "skip", "seek"}:
            parsed.note(f"what {word.text} is to dd cannot be known", word)
        elif name == "if":
            parsed.uses.read(Word(value))
        elif name == "of":
            parsed.uses.write(Word(value))
            if value.startswith("/dev/") and "write" in parsed.uses.effects:
                parsed.uses.destroy(Word(value))
        elif not equals:
            parsed.note(f"what {word.text} is to dd is not known", word)
    return ()


def read_test(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `test`, `[` and `[[`: names of variables and numbers are evaluated, so may run."""
    words = parsed.operands
    arithmetic = any(word.text in {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"} for word in words)
    variable = any(word.text in {"-v", "-R", "-N"} for word in words)
    for word in words:
        # An array's index is arithmetic, in which `$(…)` of a value is run.
        if (variable or arithmetic) and word.known and _EVALUATED.search(word.text.strip("[]")):
            parsed.note("what it evaluates may hold a command", word)
    return ()


def read_curl(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge what curl tells servers, and the names of the files that it writes; return URLs."""
    uses = parsed.uses
    for option, value in parsed.values:
        if "-Q" in option.names:
            verb = value.text.lstrip("-+*").partition(" ")[0].upper()
            if not value.known or verb not in language_data().ftp_queries:
                uses.effects.add("write")
    if parsed.option("-O", "--remote-name", "--remote-name-all"):
        if parsed.option("-J", "--remote-header-name"):
            uses.write(Word("a name that the server gives", known=False))
        for url in parsed.operands:
            name = url.text.partition("?")[0].rpartition("/")[2]
            uses.write(Word(name, known=url.known and not {*name} & {*"{}[]"}))
    return parsed.operands


def read_push(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge what `git push` is to push: ``+`` forces, and nothing before a colon deletes."""
    for refspec in parsed.operands[1:]:
        if not refspec.known:
            continue
        if refspec.text.startswith("+"):
            parsed.options |= {"-f", "--force"}
            parsed.uses.effects.add("destroy")
        if refspec.text.lstrip("+").startswith(":"):
            parsed.options |= {"-d", "--delete"}
            parsed.uses.effects.add("destroy")
    return parsed.operands


def read_checkout(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `git checkout`: behind ``--`` are files, whose changes are lost."""
    words = parsed.command.words
    marks = [index for index, word in enumerate(words) if word.text == "--" and word.known]
    files = words[marks[0] + 1 :] if marks else ()
    if not files and [word.text for word in parsed.operands] == ["."]:
        files = tuple(parsed.operands)
    for file in files:
        parsed.uses.destroy(file)
    return () if files else parsed.operands


def read_fzf(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the actions of keys of fzf: some run commands."""
    for option, value in parsed.values:
        if "--bind" in option.names and (not value.known or _FZF_RUNS.search(value.text)):
            parsed.uses.take(value, "command")
    return parsed.operands


def read_yq(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge an expression of yq: its functions named load… read files."""
    for word in parsed.operands[:1]:
        if word.known and "load" in word.text:
            parsed.uses.read(Word("a file that yq names", known=False))
    return parsed.operands


def read_ssh_target(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge where rsync and scp copy: what has a colon is on another machine."""
    uses = parsed.uses
    words = parsed.operands
    for index, word in enumerate(words):
        is_remote = word.known and (":" in word.text.partition("/")[0] or "://" in word.text)
        is_target = index == len(words) - 1 and index > 0
        if is_remote:
            uses.effects.add("network")
            uses.hosts.append(word)
            if is_target:
                uses.effects.add("write")
        elif is_target:
            uses.write(word)
        elif not parsed.option("-r", "-a", "--recursive", "--archive", "-R"):
            uses.read(word)
        else:
            uses.tree(word)
    return ()
