"""Shells that are started with commands: as a string, or on their standard input."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Word
from toolbus.policy.shell.shell_state import ShellState

if TYPE_CHECKING:
    from toolbus.policy.shell.interpreter import Interpreter

    Words = tuple[Word, ...]

_READ_AS_BASH = frozenset("ash bash dash rbash sh".split())
_OTHERS = frozenset(
    """csh elvish fish ksh ksh93 lksh mksh nu oksh osh posh powershell pwsh rc tcsh xonsh yash
    ysh zsh""".split()
)
SHELLS = _READ_AS_BASH | _OTHERS
# What bash takes for a computation or a test, and the shells of POSIX for programs that they run.
_NOT_POSIX = re.compile(r"\(\(|\[\[|\$'|\$\"|\bfunction\b")
_WITHOUT_VALUE = frozenset(
    "--login --noediting --noprofile --norc --posix --restricted --verbose --protected".split()
)
_HARMLESS = frozenset("--help --version".split())


def read_shell(name: str, words: Words, shell: Interpreter) -> None:
    """Read what the shell *name* runs that is given *words*."""
    if words and words[0].text in _HARMLESS and words[0].known:
        return
    if name in _OTHERS:
        shell.refuse(f"{name} has a syntax of its own")
        return
    letters = ""
    while words and (option := _option_letters(words[0])) is not None:
        letters += option
        words = words[1 + option.count("o") + option.count("O") :]
        if option == "-":
            break
    if (words and re.match(r"[-+]", words[0].text)) or "O" in letters:
        shell.refuse(f"an option of {name} that isn't known here")
    elif "c" in letters:
        _read_string(name, words, shell)
    elif "s" in letters or not words:
        _read_input(name, words, shell)
    elif not words[0].known or words[0].several:
        shell.refuse(f"what {name} runs is known only when it runs")
    # A script is a file: what it runs is as known as what any program does.


def _option_letters(word: Word) -> str | None:
    """Return the letters of an option, ``-`` if it is the last one; None if it is no option."""
    if not word.known or word.pattern:
        return None
    if word.text in {"--", "-"}:
        return "-"
    if word.text in _WITHOUT_VALUE:
        return ""
    return word.text[1:] if re.fullmatch(r"-[a-zA-Z]+|\+[oO]", word.text) else None


def read_string(word: Word, wrapper: str, shell: Interpreter, *words: Word) -> None:
    """Read what *wrapper* has a new shell run: *word*, whose parameters are *words*."""
    if not word.known or word.pattern:
        shell.refuse(f"what {wrapper} runs is known only when it runs")
        return
    state, scope = shell.state, shell.inner_scope().through(wrapper)
    settings = tuple((name, value.word) for name, value in state.variables.items())
    scope = replace(scope, settings=(*scope.settings, *settings, *shell.run.settings), calls=())
    inherited = frozenset(name for name, _ in scope.settings)
    fresh = ShellState(folder=state.folder, assumed=state.assumed, inherited=inherited)
    fresh.positional = None if any(item.several for item in words) else words
    with shell.using(state=fresh, scope=scope):
        shell.read_text(word.text, shell.run.source)


def _read_string(name: str, words: Words, shell: Interpreter) -> None:
    if not words or words[0].several:
        shell.refuse(f"what {name} -c runs is known only when it runs")
        return
    _refuse_unlike(name, words[0].text, shell)
    read_string(words[0], f"{name} -c", shell, *words[2:])


def _read_input(name: str, words: Words, shell: Interpreter) -> None:
    run, scope = shell.run, shell.scope
    text = run.stdin if run.has_stdin else scope.stdin
    if text is None:
        shell.refuse(f"{name} runs what comes to its standard input")
        return
    if not run.has_stdin and not scope.piped:
        shell.refuse(f"{name} shares its input with other commands")
    _refuse_unlike(name, text, shell)
    with shell.using(run=replace(run, stdin=None, has_stdin=True)):
        read_string(Word(text), name, shell, *words)


def _refuse_unlike(name: str, text: str, shell: Interpreter) -> None:
    if name not in {"bash", "rbash"} and _NOT_POSIX.search(text):
        shell.refuse(f"{name} may read it differently from bash")
