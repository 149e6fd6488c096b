"""Shells that are started with commands: as a string, or on their standard input."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Word
from toolbus.policy.shell.shell_state import ShellState
from toolbus.policy.shell.syntax import SyntaxRefusedError, parse

if TYPE_CHECKING:
    from toolbus.policy.shell.runs import Run
    from toolbus.policy.shell.walk import ShellScope, TextWalk

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


def read_shell(
    name: str, words: tuple[Word, ...], run: Run, walk: TextWalk, state: ShellState
) -> None:
    """Read what the shell *name* runs that is given *words*."""
    if words and words[0].text in _HARMLESS and words[0].known:
        return
    if name in _OTHERS:
        walk.refuse(run.source, f"{name} has a syntax of its own")
        return
    letters = ""
    while words and (option := _option_letters(words[0])) is not None:
        letters += option
        words = words[1 + option.count("o") + option.count("O") :]
        if option == "-":
            break
    if (words and re.match(r"[-+]", words[0].text)) or "O" in letters:
        walk.refuse(run.source, f"an option of {name} that isn't known here")
    elif "c" in letters:
        _read_string(name, words, run, walk, state)
    elif "s" in letters or not words:
        _read_input(name, words, run, walk, state)
    elif not words[0].known or words[0].several:
        walk.refuse(run.source, f"what {name} runs is known only when it runs")
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


def read_text(text: str, source: str, walk: TextWalk, state: ShellState, scope: ShellScope) -> None:
    """Read *text* as commands of the shell of *state*; *source* is where it stands."""
    with walk.deeper():
        try:
            tree = parse(text)
        except SyntaxRefusedError as error:
            walk.refuse(source, str(error))
            return
        with walk.nested(text.encode()):
            walk.read_list(tree.stmts, walk, state, scope)


def new_shell(run: Run, wrapper: str, state: ShellState) -> tuple[ShellState, ShellScope]:
    """Return the state and the scope of a shell that *wrapper* starts."""
    scope = run.inner_scope()
    scope = scope.through(wrapper) if wrapper else scope
    settings = tuple((name, value.word) for name, value in state.variables.items())
    scope = replace(scope, settings=(*scope.settings, *settings, *run.settings), calls=())
    inherited = frozenset(name for name, _ in scope.settings)
    fresh = ShellState(folder=state.folder, assumed=state.assumed, inherited=inherited)
    return fresh, scope


def read_string(
    word: Word, wrapper: str, run: Run, walk: TextWalk, state: ShellState, *words: Word
) -> None:
    """Read what *wrapper* has a new shell run: *word*, whose parameters are *words*.

    Without a *wrapper*, what *run* says of its scope names it already.
    """
    if not word.known or word.pattern:
        walk.refuse(run.source, f"what {wrapper or 'a shell'} runs is known only when it runs")
        return
    fresh, scope = new_shell(run, wrapper, state)
    fresh.positional = None if any(item.several for item in words) else words
    read_text(word.text, run.source, walk, fresh, scope)


def _read_string(
    name: str, words: tuple[Word, ...], run: Run, walk: TextWalk, state: ShellState
) -> None:
    if not words or words[0].several:
        walk.refuse(run.source, f"what {name} -c runs is known only when it runs")
        return
    if name not in {"bash", "rbash"} and _NOT_POSIX.search(words[0].text):
        walk.refuse(run.source, f"{name} may read it differently from bash")
    read_string(words[0], f"{name} -c", run, walk, state, *words[2:])


def _read_input(
    name: str, words: tuple[Word, ...], run: Run, walk: TextWalk, state: ShellState
) -> None:
    text = run.stdin if run.has_stdin else run.scope.stdin
    if text is None:
        walk.refuse(run.source, f"{name} runs what comes to its standard input")
        return
    if not run.has_stdin and not run.scope.piped:
        walk.refuse(run.source, f"{name} shares its input with other commands")
    if name not in {"bash", "rbash"} and _NOT_POSIX.search(text):
        walk.refuse(run.source, f"{name} may read it differently from bash")
    read_string(Word(text), name, replace(run, stdin=None, has_stdin=True), walk, state, *words)
