"""Readers of arguments that need code, by their names in the data files."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, TypeAlias

from toolbus.policy.commands import Word
from toolbus.policy.programs.languages.awk_programs import read_awk
from toolbus.policy.programs.languages.curl_options import read_curl
from toolbus.policy.programs.languages.find_expressions import read_find
from toolbus.policy.programs.languages.sed_scripts import read_sed
from toolbus.policy.programs.languages.sql_statements import read_sql
from toolbus.policy.programs.program_files import language_words
from toolbus.policy.programs.variables import judge_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from toolbus.policy.programs.parsed_command import ParsedCommand

ArgumentReader: TypeAlias = "Callable[[ParsedCommand], Sequence[Word]]"
"""Adds to `ParsedCommand.builder`; returns the operands that are left to be judged by kind."""

_QUIET_LESS = re.compile(r"\++(?:\d*[gGFp%]?|[/?][^!|]*)")
_ENVIRONMENT = re.compile(r"""\$ENV\b|(?<![.\w"'$@])env(?![\w"']|\s*:)""")
"""Forms of jq that read the environment, but not keys as in `.env` and `{env: 1}`."""
_FILE_NAME = re.compile(r"[./~-]*\w[\w./~-]*")
_YQ_ENVIRONMENT = re.compile(r"env\s*\(|envsubst")
_FZF_RUNS = re.compile(r"execute|become|reload|transform|preview\(|preview:|unbind-run|bg-")
_QUERY = re.compile(r"query\s*=\s*(?:query\b|\{)")
_MUTATION = re.compile(r"\b(?:mutation|subscription)\b")
_OVERRIDE = re.compile(r"method-override", re.IGNORECASE)
# Outputs of `get` without values of secrets.
_SHORT_OUTPUTS = frozenset({"", "name", "wide"})
_SECRETS = re.compile(r"secrets?(?:[./].*)?", re.IGNORECASE)
_EVALUATED = re.compile(r"[\[$`]")


def read_tar(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a call of tar by its mode; return no operands."""
    # Complex because modes and options may be combined, and each adds effects.
    builder = parsed.builder
    creates = parsed.option("-c", "-r", "-u", "-A", "--delete")
    if not creates and not parsed.option("-t", "-d", "-x"):
        if parsed.instead is None:
            parsed.note("the effect of tar without -c, -t or -x is unknown")
        return ()
    for option, value in parsed.values:
        if "-f" in option.names:
            _archive(parsed, value, "write" if creates else "read")
    for file in parsed.operands if creates and not parsed.option("--delete") else ():
        builder.tree(file)
    if parsed.option("-x") and not parsed.option("-O"):
        builder.fill(Word("."))
    return ()


def _archive(parsed: ParsedCommand, archive: Word, kind: str) -> None:
    builder = parsed.builder
    folder, builder.folder = builder.folder, parsed.command.folder
    if ":" in archive.text and not parsed.option("--force-local"):
        parsed.note("an archive with a colon in its name is on another machine", archive)
    if kind == "read":
        builder.read(archive)
    else:
        builder.write(archive)
    builder.folder = folder


def read_lsof(parsed: ParsedCommand) -> Sequence[Word]:
    """Add the hosts of ``-i``, which are looked up; return the operands."""
    for option, value in parsed.values:
        _, at_sign, host = value.text.partition("@")
        if "-i" in option.names and (not value.known or at_sign):
            parsed.builder.take(Word(host, known=value.known), "host")
            parsed.builder.effects.add("network")
    return parsed.operands


def read_gzip(parsed: ParsedCommand) -> Sequence[Word]:
    """Add the files that a compressor unpacks: names without the last suffix; return operands."""
    if parsed.instead is None:
        for word in parsed.operands:
            if word.known and not word.pattern and posixpath.splitext(word.text)[1]:
                parsed.builder.write(Word(posixpath.splitext(word.text)[0]))
    return parsed.operands


def read_date(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `date`: an operand other than a format sets the clock; return none."""
    if any(not word.text.startswith("+") for word in parsed.operands):
        parsed.builder.effects.add("write")
    return ()


def read_less(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the initial commands of `less`, such as ``+!command``; return files."""
    for word in parsed.operands:
        if word.text.startswith("+") and not _QUIET_LESS.fullmatch(word.text):
            parsed.note("the effect of this initial command of less is unknown", word)
    return [word for word in parsed.operands if not word.text.startswith("+")]


def read_fzf(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the actions of keys of fzf: some run commands."""
    for option, value in parsed.values:
        if "--bind" in option.names and (not value.known or _FZF_RUNS.search(value.text)):
            parsed.builder.take(value, "command")
    return parsed.operands


def read_jq(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a filter of jq: `import` and `include` read files of data and code."""
    for word in () if parsed.option("-f", "--from-file") else parsed.operands[:1]:
        if word.known and re.search(r"\b(?:import|include)\b", word.text):
            parsed.builder.read(Word("a file that jq names", known=False))
        if not word.known or _ENVIRONMENT.search(word.text):
            parsed.builder.read_environment()
    return parsed.operands


def read_ps(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `ps`: letters without a dash are options, and `e` shows the environment."""
    letters = [word.text for word in parsed.operands if word.text.isalpha() or not word.known]
    if parsed.option("-E") or any("e" in text for text in letters):
        parsed.builder.read_environment()
    return ()


def read_yq(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge an expression of yq: `load…` functions read files, `env…` the environment."""
    expressions = [value for option, value in parsed.values if "--expression" in option.names]
    for word in (*expressions, *parsed.operands[:1]):
        if word.known and "load" in word.text:
            parsed.builder.read(Word("a file that yq names", known=False))
        if not word.known or _ENVIRONMENT.search(word.text) or _YQ_ENVIRONMENT.search(word.text):
            parsed.builder.read_environment()
        if _FILE_NAME.fullmatch(word.text):
            parsed.builder.read(word)  # The word is an expression only if no such file exists.
    return parsed.operands


def read_sysctl(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `sysctl`: ``name=value`` sets; return none."""
    if any("=" in word.text or not word.known for word in parsed.operands):
        parsed.builder.effects.add("write")
    return ()


def read_push(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the refspecs of `git push`: ``+`` forces, and an empty source deletes."""
    for refspec in parsed.operands[1:]:
        if not refspec.known:
            continue
        if refspec.text.startswith("+"):
            parsed.options |= {"-f", "--force"}
            parsed.builder.effects.add("destroy")
        if refspec.text.lstrip("+").startswith(":"):
            parsed.options |= {"-d", "--delete"}
            parsed.builder.effects.add("destroy")
    parsed.builder.branches += _pushed(parsed)
    return parsed.operands


def _pushed(parsed: ParsedCommand) -> Iterator[Word]:
    """Yield the branches that `git push` changes; git-push(1), <refspec>."""
    refspecs = parsed.operands[1:]
    if parsed.option("--all", "--branches", "--mirror"):
        yield Word("*", pattern=True)
    elif not refspecs and not parsed.option("--tags"):
        yield Word("the branch that git selects", known=False)
    yield from filter(None, map(_pushed_by, refspecs))


def _pushed_by(refspec: Word) -> Word | None:
    """Return the branch that *refspec* changes, None for an exclusion."""
    if not refspec.known or refspec.pattern:
        return Word(refspec.text, known=False)
    source, colon, target = refspec.text.removeprefix("+").rpartition(":")
    name = target or source
    if colon and not name:
        return Word("*", pattern=True)  # All branches that exist on both sides.
    if not colon and name in {"HEAD", "@"}:
        return Word("the current branch", known=False)
    name = name.removeprefix("refs/").removeprefix("heads/")
    return None if name.startswith("^") else Word(name, pattern="*" in name)


def read_diff(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `git diff` of two paths, one outside: it is recursive; return operands."""
    if any(word.text.startswith(("/", "..", "~")) for word in parsed.operands):
        parsed.kinds = parsed.kinds or ("tree",)
    return parsed.operands


def read_checkout(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `git checkout`: changes of files after ``--`` are lost."""
    words = parsed.command.words
    marks = [index for index, word in enumerate(words) if word.text == "--" and word.known]
    files = words[marks[0] + 1 :] if marks else ()
    if not files and [word.text for word in parsed.operands] == ["."]:
        files = tuple(parsed.operands)
    for file in files:
        parsed.builder.destroy(file)
    return () if files else parsed.operands


def read_restore(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `git restore`: restoring only the index loses nothing."""
    staged = parsed.option("-S", "--staged") and not parsed.option("-W", "--worktree")
    if staged:
        parsed.instead = frozenset({"write"})
    return () if staged else parsed.operands


def read_ssh_target(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the paths of rsync and scp: a path with a colon is on another machine."""
    builder = parsed.builder
    words = parsed.operands
    for index, word in enumerate(words):
        is_remote = word.known and (":" in word.text.partition("/")[0] or "://" in word.text)
        is_target = index == len(words) - 1 and index > 0
        if is_remote:
            builder.effects.add("network")
            builder.hosts.append(word)
            if is_target:
                builder.effects.add("write")
        elif is_target:
            builder.write(word)
        elif not parsed.option("-r", "-a", "--recursive", "--archive", "-R"):
            builder.read(word)
        else:
            builder.tree(word)
    return ()


def read_wget(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge where `wget` writes; return URLs."""
    # Complex because of three targets: standard output, named files, or names from the URLs.
    builder = parsed.builder
    targets = [value for option, value in parsed.values if "-O" in option.names]
    for target in targets:
        builder.take(target, "write", of_option=True)
    if targets and all(word.known and word.text in {"-", "/dev/null"} for word in targets):
        parsed.instead = frozenset({"read", "network"})
    elif not targets and parsed.instead is None:
        for url in parsed.operands:
            name = url.text.partition("?")[0].rpartition("/")[2] or "index.html"
            builder.write(
                Word(name, known=url.known and not parsed.option("--content-disposition"))
            )
    return parsed.operands


def read_github_api(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a request of `gh api`: without a method, a field or an input makes it a POST.

    A GraphQL query is a POST that only reads; a mutation is not. Source: ``gh help api``.
    """
    options = [(option.names, value) for option, value in parsed.values]
    if any("--header" in names and _changes_method(value) for names, value in options):
        parsed.note("a header may override the method")
    if parsed.option("--method"):
        return parsed.operands
    fields = [value for names, value in options if names & {"--field", "--raw-field"}]
    if (fields or parsed.option("--input")) and not _only_queries(parsed, fields):
        parsed.builder.effects.add("write")
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


def read_azure(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a command of `az`, which has no operands: a word after a verb belongs to a group.

    ``az search list`` reads; ``az search service delete``, where ``search`` is not a verb, must not
    count as reading. Values of options follow an option.
    """
    words = parsed.command.words
    for index, word in enumerate(words):
        if parsed.operands and word is parsed.operands[0]:
            before = words[index - 1].text if index else ""
            if not before.startswith("-") or "=" in before:
                parsed.note("the effect of this argument is unknown", word)
    return parsed.operands


def read_kubectl_get(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `kubectl get`: with -o it prints the values of secrets."""
    # Complex because three checks each take an unknown word as the worst case.
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


def read_set(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `set`: without arguments it prints all variables."""
    if not parsed.command.words:
        parsed.builder.read_environment()
    return ()


def read_export(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `export` and `declare`: later commands may inherit the variable.

    Without a name they print variables, unless they print functions.
    """
    if not parsed.operands and not parsed.option("-f", "-F"):
        parsed.builder.read_environment()
    for word in parsed.operands:
        name, sign, value = word.text.partition("=")
        if sign and (reason := judge_variable(name, Word(value, word.known), in_front=False)):
            parsed.note(reason, word)
    return parsed.operands


def read_env(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the variables that `env` sets; the wrapped command is judged separately."""
    if not parsed.wrapped and parsed.instead is None:
        parsed.builder.read_environment()
    for name, value in parsed.settings if parsed.wrapped or parsed.shell_texts else ():
        if reason := judge_variable(name, value, in_front=True):
            parsed.note(reason, value)
    return ()


def read_shell(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the mode of bash: ``-c`` texts are parsed as commands, otherwise it runs a script."""
    if parsed.options == {"-n"} and parsed.operands and parsed.operands[0].text[:1] != "+":
        # It only checks the syntax, unless a further option revokes that.
        parsed.kinds, parsed.instead = ("path",), frozenset({"read"})
        return parsed.operands[:1]
    if parsed.option("-i", "-l", "--login") and not parsed.option("-c") and not parsed.operands:
        parsed.note("an interactive shell runs typed commands")
    return () if parsed.option("-c", "-s") else parsed.operands[:1]


def read_interpreter(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge an interpreter: without a file, its standard input is the code."""
    is_module = parsed.option("-m", "--test", "--run")
    if is_module:
        parsed.builder.effects.add("run-code")
    if parsed.instead is not None and not parsed.helps:
        # It only checks the syntax, and prints invalid lines.
        parsed.kinds = ("path",)
        return parsed.operands
    if is_module or parsed.option("-c", "-e", "--eval", "-p", "-pe"):
        return ()
    if not parsed.operands or parsed.operands[0].text == "-":
        parsed.builder.effects.add("run-code")
        if parsed.instead is None:
            parsed.note("it runs code from standard input")
        return ()
    return parsed.operands[:1]


def read_make(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge the variables set for make: a variable may be a command."""
    for word in parsed.operands:
        name, sign, value = word.text.partition("=")
        if sign and (name.endswith("!") or re.search(r"\$[({]|`", value)):
            parsed.note("it sets a value that make runs or expands", word)
        elif sign and name.rstrip("+:?!") in {
            "SHELL",
            "MAKE",
            "CC",
            "CXX",
            "MAKEFLAGS",
            ".SHELLFLAGS",
        }:
            parsed.note("it sets a program that make runs", word)
    return ()


def read_test(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge `test`, `[` and `[[`: evaluating variable names and numbers may run commands."""
    words = parsed.operands
    arithmetic = any(word.text in {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"} for word in words)
    variable = any(word.text in {"-v", "-R", "-N"} for word in words)
    for word in words:
        # An array's index is arithmetic, which runs `$(…)` in a value.
        if (variable or arithmetic) and word.known and _EVALUATED.search(word.text.strip("[]")):
            parsed.note("evaluating it may run a command", word)
    return ()


def read_response_files(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge ``@file``, a file of further arguments; return operands."""
    for word in parsed.operands:
        if (word.text if word.known else word.start).startswith("@"):
            parsed.note("that file contains further arguments", word)
            parsed.builder.read(Word(word.text[1:], word.known))
    return parsed.operands


def read_exec(parsed: ParsedCommand) -> Sequence[Word]:
    """Judge a command in a container by its program alone: its files are in the container."""
    words = parsed.operands[1:]
    if not words:
        parsed.note("it names no command to run")
    elif not (
        all(word.known for word in words)
        and words[0].text in language_words("container", "only_read")
    ):
        parsed.builder.effects |= {"write", "run-code"}
        parsed.note("the command in the container may do more than read", words[0])
    return ()


READERS: Mapping[str, ArgumentReader] = {
    "awk": read_awk,
    "azure": read_azure,
    "checkout": read_checkout,
    "curl": read_curl,
    "date": read_date,
    "env": read_env,
    "exec": read_exec,
    "export": read_export,
    "find": read_find,
    "fzf": read_fzf,
    "git-diff": read_diff,
    "github-api": read_github_api,
    "gzip": read_gzip,
    "interpreter": read_interpreter,
    "jq": read_jq,
    "kubectl-get": read_kubectl_get,
    "less": read_less,
    "lsof": read_lsof,
    "make": read_make,
    "ps": read_ps,
    "push": read_push,
    "remote-copy": read_ssh_target,
    "response-files": read_response_files,
    "restore": read_restore,
    "sed": read_sed,
    "set": read_set,
    "shell": read_shell,
    "sql": read_sql,
    "sysctl": read_sysctl,
    "tar": read_tar,
    "test": read_test,
    "wget": read_wget,
    "yq": read_yq,
}
