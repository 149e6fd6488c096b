"""Programs that reach others: what they send and write there and here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.policy.commands import Word
from toolbus.policy.programs.languages.language_data import language_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand


_METHODS = frozenset({"delete", "patch", "post", "put"})
_QUERY = re.compile(r"query\s*=\s*(?:query\b|\{)")
_MUTATION = re.compile(r"\b(?:mutation|subscription)\b")
_OVERRIDE = re.compile(r"method-override", re.IGNORECASE)
# Names and states, as `get` prints them without -o: no value of a secret.
_SHORT_OUTPUTS = frozenset({"", "name", "wide"})
_SECRETS = re.compile(r"secrets?(?:[./].*)?", re.IGNORECASE)
# Programs without an option that writes or runs.
_ONLY_READ = frozenset(
    {
        *("arch", "basename", "cat", "cmp", "cut", "df", "diff", "dirname", "du"),
        *("echo", "egrep", "false", "fgrep", "free", "getent", "grep", "head", "id"),
        *("ls", "md5sum", "nproc", "od", "printf", "ps", "pwd", "readlink", "realpath"),
        *("sha256sum", "stat", "strings", "tail", "test", "tr", "true", "uname", "uptime"),
        *("wc", "which", "whoami"),
    }
)


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
        _write_by_url(parsed)
    return parsed.operands


def _write_by_url(parsed: ParsedCommand) -> None:
    """Add the files to which curl gives the names of what it fetches."""
    if parsed.option("-J", "--remote-header-name"):
        parsed.uses.write(Word("a name that the server gives", known=False))
    for url in parsed.operands:
        name = url.text.partition("?")[0].rpartition("/")[2]
        parsed.uses.write(Word(name, known=url.known and not {*name} & {*"{}[]"}))


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
    yield from filter(None, map(_pushed_by, refspecs))


def _pushed_by(refspec: Word) -> Word | None:
    """Return the branch that *refspec* changes, None if it only leaves one out."""
    if not refspec.known or refspec.pattern:
        return Word(refspec.text, known=False)
    source, colon, target = refspec.text.removeprefix("+").rpartition(":")
    name = target or source
    if colon and not name:
        return Word("*", pattern=True)  # All that both sides have.
    if not colon and name in {"HEAD", "@"}:
        return Word("the current branch", known=False)
    name = name.removeprefix("refs/").removeprefix("heads/")
    return None if name.startswith("^") else Word(name, pattern="*" in name)


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


def read_github_api(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a request of `gh api`: with a field or an input it is a POST where no method stands.

    A query of GraphQL reads though it is one; a mutation does not. Source: ``gh help api``.
    """
    options = [(option.names, value) for option, value in parsed.values]
    if any("--header" in names and _changes_method(value) for names, value in options):
        parsed.note("a header can name another method")
    if parsed.option("--method"):
        return parsed.operands
    fields = [value for names, value in options if names & {"--field", "--raw-field"}]
    if (fields or parsed.option("--input")) and not _only_queries(parsed, fields):
        parsed.uses.effects.add("write")
    return parsed.operands


def _changes_method(value: Word) -> bool:
    return not value.known or _OVERRIDE.search(value.text) is not None


def _only_queries(parsed: ParsedCommand, fields: Sequence[Word]) -> bool:
    endpoints = [word.text.strip("/") if word.known else "" for word in parsed.operands]
    is_known = all(field.known for field in fields) and not parsed.option("--input")
    if endpoints != ["graphql"] or not is_known:
        return False
    queries = [field.text for field in fields if field.text.startswith("query=")]
    return len(queries) == 1 and bool(_QUERY.match(queries[0])) and not _MUTATION.search(queries[0])


def read_auth0_api(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a request of `auth0 api`: a method may stand before the path; data make it a POST."""
    method = parsed.operands[0] if parsed.operands else None
    if method is not None and not method.known:
        parsed.note("the method of the request cannot be known", method)
    elif method is not None and method.text.lower() in _METHODS:
        parsed.uses.effects.add("destroy" if method.text.lower() == "delete" else "write")
    return parsed.operands


def read_azure(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a command of `az`, which has no operands: what stands behind a verb is one of a group.

    So ``az search list`` reads, and ``az search service delete``, where ``search`` is no verb, may
    not be taken for it. The values of options stand behind an option.
    """
    words = parsed.command.words
    for index, word in enumerate(words):
        if parsed.operands and word is parsed.operands[0]:
            before = words[index - 1].text if index else ""
            if not before.startswith("-") or "=" in before:
                parsed.note("what this argument does is not known", word)
    return parsed.operands


def read_kubectl_get(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `kubectl get`: with -o the values of secrets are printed."""
    outputs = [
        value for option, value in parsed.values if option.names & {"--output", "--template"}
    ]
    prints = any(not word.known or word.text not in _SHORT_OUTPUTS for word in outputs)
    if prints and any(not word.known or _names_secret(word) for word in parsed.operands):
        parsed.note("with this output it prints secrets")
    for option, value in parsed.values:
        if "--raw" in option.names and (not value.known or "secret" in value.text):
            parsed.note("it prints secrets", value)
    return parsed.operands


def _names_secret(word: Word) -> bool:
    return any(_SECRETS.fullmatch(kind) for kind in word.text.split(","))


def read_kubectl_exec(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `kubectl exec`: what runs stands behind ``--``."""
    words = parsed.command.words
    marks = [index for index, word in enumerate(words) if word.known and word.text == "--"]
    if marks:
        _run_elsewhere(parsed, words[marks[0] + 1 :])
    else:
        parsed.note("what it runs does not stand behind --")
    return ()


def read_docker_exec(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `docker exec`: what runs stands behind the container."""
    _run_elsewhere(parsed, parsed.operands[1:])
    return ()


def _run_elsewhere(parsed: ParsedCommand, words: Sequence[Word]) -> None:
    """Judge a command of a container by its program alone: its files are not those of here."""
    if not words:
        parsed.note("what it runs is not named")
    elif not (all(word.known for word in words) and words[0].text in _ONLY_READ):
        parsed.uses.effects |= {"write", "run-code"}
        parsed.note("what it runs in the container may do more than read", words[0])


def read_tsc(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge tsc: an option may be taken back by ``false``, and ``@FILE`` has further options."""
    for word in parsed.operands:
        if not word.known or word.text.startswith("@") or word.text.lower() == "false":
            parsed.note("it may change what tsc writes", word)
    return parsed.operands


def read_pacman(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge pacman by its operation and the letters behind it. Source: pacman(8)."""
    effects, option = parsed.uses.effects, parsed.option
    if parsed.instead is not None:
        return ()
    if option("-S", "--sync"):
        effects.add("network")
        looks = option("-s", "--search", "-i", "--info", "-l", "--list", "-g", "--groups", "-p")
        if not looks or option("-y", "--refresh", "-c", "--clean", "-u", "-w"):
            effects |= {"write", "run-code"}
    elif option("-F", "--files"):
        effects |= {"write", "network"} if option("-y", "--refresh") else {"read"}
    elif option("-R", "--remove"):
        effects |= {"destroy", "run-code"}
    elif option("-U", "--upgrade", "-D", "--database"):
        effects |= {"write", "network", "run-code"}
    elif not option("-Q", "--query", "-T", "--deptest"):
        parsed.note("what pacman does without an operation is not known")
    return ()


def read_rpm(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge rpm: -i installs where nothing is queried. Source: rpm(8)."""
    if parsed.option("-i") and not parsed.option("-q", "--query", "-V", "--verify"):
        parsed.uses.effects |= {"write", "run-code"}
    return parsed.operands
