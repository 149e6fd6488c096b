"""Which commands leave alone what paths lead to: they make no link and rename nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.policy.programs.program_files import shipped_programs
from toolbus.policy.shell.wrapped_programs import SHELLS

if TYPE_CHECKING:
    from toolbus.policy.commands import Command

_STEADY = frozenset(
    """: [ basename bg cat cd cmp column command comm curl cut date declare df diff dirname dirs
    du echo egrep env exit export expr false fg fgrep file fold getopts grep head hostname id
    jobs join jq kill less local ls md5sum mkdir more nl nproc paste popd printenv printf ps
    pushd pwd read readlink readonly realpath return rg seq set sha1sum sha256sum shift shopt
    sleep sort stat tail tee test times touch tr tree trap true tty type typeset umask uname
    uniq unset wait wc whereis which who whoami yq break
    continue eval getopts hash help history let mapfile readarray shift ulimit""".split()
)
# Of git: neither files of the work tree nor links are changed.
_STEADY_GIT = frozenset(
    """add blame branch commit describe diff fetch grep log ls-files ls-remote ls-tree push
    remote reflog rev-list rev-parse shortlog show status tag""".split()
)
# What find runs is a command of its own.
_FIND_ACTIONS = ("-delete", "-fprint", "-fls")


def moves_paths(command: Command) -> bool:
    """Return whether *command* may change what a path leads to, for those after it."""
    program = command.program
    # Of each of these programs something else tells it.
    place, _, name = program.text.rpartition("/")
    if not program.text:
        return False  # Variables are set, or files opened.
    if not program.known or program.pattern or place not in {"", "/bin", "/usr/bin"}:
        return True
    match name:
        case "find" | "fd":
            return any(not w.known or w.text.startswith(_FIND_ACTIONS) for w in command.words)
        case "git":
            return not command.words or command.words[0].text not in _STEADY_GIT
        case "sed":
            return any(word.text.startswith(("-i", "--in-place")) for word in command.words)
    return name not in _STEADY and name not in SHELLS and not _only_wraps(name)


def _only_wraps(name: str) -> bool:
    """Return whether what the program *name* runs, and nothing else, may move paths."""
    known = shipped_programs().find(name)
    # A subcommand that runs another program may install first: `uv run`.
    return known is not None and known[1].wraps and not known[1].has_commands
