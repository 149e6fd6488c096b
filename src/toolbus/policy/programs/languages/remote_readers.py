"""Programs that reach others: what they send and write there and here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.policy.commands import Word
from toolbus.policy.programs.languages.language_data import language_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand


def read_curl(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge what curl tells servers, and the names of the files that it writes; return URLs."""
    uses = parsed.uses
    for option, value in parsed.values:
        if "-b" in option.names and "=" not in value.text:
            uses.read(value)  # Cookies, or the name of their file.
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
    parsed.uses.branches += _pushed(parsed)
    return parsed.operands


def _pushed(parsed: ParsedCommand) -> Iterator[Word]:
    """Yield the branches that `git push` changes; git-push(1), <refspec>."""
    refspecs = parsed.operands[1:]
    if parsed.option("--all", "--branches", "--mirror"):
        yield Word("*", pattern=True)
    elif not refspecs and not parsed.option("--tags"):
        yield Word("the branch that git chooses", known=False)
    for refspec in refspecs:
        if not refspec.known or refspec.pattern:
            yield Word(refspec.text, known=False)
            continue
        source, colon, target = refspec.text.removeprefix("+").rpartition(":")
        name = target or source
        if colon and not name:
            yield Word("*", pattern=True)  # All that both sides have.
        elif not colon and name in {"HEAD", "@"}:
            yield Word("the current branch", known=False)
        elif not name.startswith("^"):
            for prefix in ("refs/", "heads/"):
                name = name.removeprefix(prefix)
            yield Word(name, pattern="*" in name)


def read_diff(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `git diff` of two places, one outside: it goes through folders; return operands."""
    if any(word.text.startswith(("/", "..", "~")) for word in parsed.operands):
        parsed.kinds = parsed.kinds or ("tree",)
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


def read_restore(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `git restore`: of the index alone nothing is lost."""
    staged = parsed.option("-S", "--staged") and not parsed.option("-W", "--worktree")
    if staged:
        parsed.instead = frozenset({"write"})
    return () if staged else parsed.operands


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


def read_wget(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge where `wget` writes what it fetches; return URLs."""
    uses = parsed.uses
    targets = [value for option, value in parsed.values if "-O" in option.names]
    for target in targets:
        uses.take(target, "write", of_option=True)
    if targets and all(word.known and word.text in {"-", "/dev/null"} for word in targets):
        parsed.instead = frozenset({"read", "network"})
    elif not targets and parsed.instead is None:
        for url in parsed.operands:
            name = url.text.partition("?")[0].rpartition("/")[2] or "index.html"
            uses.write(Word(name, known=url.known and not parsed.option("--content-disposition")))
    return parsed.operands


def read_openssl(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a command of openssl that prints what a file holds; return no operands.

    Without ``-noout`` it also prints the thing itself, which may be a key.
    """
    if not parsed.option("-noout", "-info", "-print_certs"):
        parsed.note("it prints what the file holds, or makes something new")
    elif parsed.option("-new", "-newkey") and parsed.instead is None:
        parsed.uses.effects.add("write")
    return ()
