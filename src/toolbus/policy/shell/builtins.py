"""Builtins that change the shell, or have it run something."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.policy.commands import Word
from toolbus.policy.shell.arithmetic import check_name
from toolbus.policy.shell.nested_shells import read_text
from toolbus.policy.shell.shell_state import UNKNOWN, VariableValue
from toolbus.policy.shell.words import WordExpander
from toolbus.policy.shell.working_folder import change_folder, pop_folder, push_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.policy.shell.runs import Run
    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.walk import TextWalk

    Words = tuple[Word, ...]
    Builtin = Callable[[Words, Run, TextWalk, ShellState], ShellState | None]

_SETTABLE = frozenset(
    """-e -u -x -v -eu -eux -ex -eo -euo -euxo -exo -uo -o +e +u +x +v +o pipefail errexit
    nounset xtrace verbose""".split()
)
_GLOB_OPTIONS = frozenset(
    "dotglob extglob failglob globstar nocaseglob nocasematch nullglob".split()
)


def read_builtin(
    name: str, words: Words, run: Run, walk: TextWalk, state: ShellState
) -> ShellState | None:
    """Read what the builtin *name* does; return the state if it fails, or None if it is none."""
    if name not in BUILTINS:
        return None
    return BUILTINS[name](words, run, walk, state) or state


def _eval(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    if words and words[0] == Word("--"):
        words = words[1:]
    if any(not word.known or word.pattern for word in words):
        walk.refuse(run.source, "eval runs what it is given, which is known only then")
        return
    text = " ".join(word.text for word in words)
    read_text(text, run.source, walk, state, run.inner_scope().through("eval"))


def _source(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    walk.refuse(run.source, "it runs the commands of a file in this shell")
    state.folder = None
    for name in state.variables:
        state.variables[name] = UNKNOWN


def _trap(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    if words and words[0] == Word("--"):
        words = words[1:]
    if (
        not words
        or words[0].text in {"-", "", "-l", "-p"}
        or (len(words) == 1 and re.fullmatch(r"[A-Z0-9]+", words[0].text))
    ):
        return
    if not words[0].known or words[0].pattern:
        walk.refuse(run.source, "trap runs what it is given, which is known only then")
        return
    # It runs later, when the folder and the variables may be others.
    later = state.copy()
    later.folder = later.folder if len(walk.commands) == 1 else None
    for name in later.variables:
        later.variables[name] = UNKNOWN
    read_text(words[0].text, run.source, walk, later, run.inner_scope().through("trap"))


def _set(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    for position, word in enumerate(words):
        if not word.known:
            state.positional = None
            state.globs = state.splits = False
            walk.refuse(run.source, "what set changes is known only when it runs")
            return
        named = position > 0 and re.fullmatch(r"[-+][a-z]*o", words[position - 1].text)
        if not named and (word.text == "--" or not word.text.startswith(("-", "+"))):
            rest = words[position + (word.text == "--") :]
            usual = all(item.known and not item.pattern for item in rest)
            state.positional = rest if usual else None
            return
        if word.text in {"-f", "+f", "noglob"}:
            state.globs = False
        elif word.text not in _SETTABLE:
            walk.refuse(run.source, f"set {word.text} changes what commands mean")


def _shopt(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    if not words or words[0].text not in {"-s", "-u", "-su", "-o", "-so"}:
        return
    state.globs = False
    if not all(word.known and word.text in _GLOB_OPTIONS for word in words[1:]):
        walk.refuse(run.source, "an option that changes what commands mean")


def _read(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Forget the variables that ``read`` sets from what it reads."""
    _set_names(words, "dinNptu", run, walk, state)


def _mapfile(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    if any(word.text.startswith("-") and re.search("[Cc]", word.text) for word in words):
        walk.refuse(run.source, "it runs a command for some of the lines")
    _set_names(words, "dnOsuCc", run, walk, state)


def _set_names(words: Words, with_value: str, run: Run, walk: TextWalk, state: ShellState) -> None:
    expander = WordExpander(walk, state, run.scope)
    is_value = options_end = False
    for word in words:
        if is_value:
            is_value = False
            continue
        if not word.known or word.pattern:
            walk.refuse(run.source, "which variable it sets is known only when it runs")
            return
        if word.text.startswith("-") and not options_end:
            options_end = word.text == "--"
            value = re.search(f"[{with_value}]", word.text)
            is_value = value is not None and value.end() == len(word.text)
            if re.match(r"-[a-zA-Z]*a.", word.text) and "a" not in with_value:
                walk.refuse(run.source, "an array's name in one word with its option")
            continue
        check_name(word.text, expander)
        state.assign(word.text.partition("[")[0], UNKNOWN)


def _unset(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    expander = WordExpander(walk, state, run.scope)
    for word in words:
        if not word.known:
            walk.refuse(run.source, "which variable it unsets is known only when it runs")
        elif not word.text.startswith("-"):
            check_name(word.text, expander)
            state.assign(word.text.partition("[")[0], UNKNOWN)
            if word.text in state.functions:
                state.functions[word.text] = None


def _named_option(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Check the variable of ``printf -v``, ``test -v``, ``wait -p``."""
    expander = WordExpander(walk, state, run.scope)
    for option, word in zip(words, (*words[1:], Word("_")), strict=False):
        if option.text[:2] not in {"-v", "-R", "-p"}:
            continue
        name = Word(option.text[2:]) if len(option.text) > 2 else word  # noqa: PLR2004
        if not name.known:
            walk.refuse(run.source, "which variable it means is known only when it runs")
            continue
        check_name(name.text, expander)
        state.assign(name.text.partition("[")[0], UNKNOWN)


def _printf(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    if words and not words[0].known and words[0].start[:1] in {"", "-"}:
        walk.refuse(run.source, "printf may be told to set a variable, and runs what its name has")
    _named_option(words, run, walk, state)


def _declare(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Read ``declare`` where bash takes its words for plain ones: behind ``builtin``."""
    for word in words:
        name, sign, value = word.text.partition("=")
        if not word.known or word.text.startswith(("-", "+")):
            walk.refuse(run.source, "a declaration whose words are known only when it runs")
            return
        check_name(name, WordExpander(walk, state, run.scope))
        if value.startswith("("):
            walk.refuse(run.source, "a value that bash may read again, and run what it finds there")
        state.assign(name, VariableValue(Word(value)) if sign and not word.pattern else UNKNOWN)


def _alias(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    if any(not word.known or "=" in word.text for word in words):
        walk.refuse(run.source, "an alias gives names another meaning")


def _hidden(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    if words:
        walk.refuse(run.source, "it changes the shell, or runs commands from elsewhere")


def _shift(words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    if state.positional is None:
        return
    count = words[0].text if words else "1"
    state.positional = state.positional[int(count) :] if count.isdecimal() else None


BUILTINS: dict[str, Builtin] = {
    ".": _source,
    "[": _named_option,
    "alias": _alias,
    "bind": _hidden,
    "cd": change_folder,
    "chdir": change_folder,
    "compgen": _hidden,
    "complete": _hidden,
    "declare": _declare,
    "enable": _hidden,
    "eval": _eval,
    "export": _declare,
    "fc": _hidden,
    "getopts": lambda words, run, walk, state: _read(words[1:2], run, walk, state),
    "hash": _hidden,
    "let": _hidden,
    "local": _declare,
    "mapfile": _mapfile,
    "popd": pop_folder,
    "printf": _printf,
    "pushd": push_folder,
    "read": _read,
    "readarray": _mapfile,
    "readonly": _declare,
    "set": _set,
    "shift": _shift,
    "shopt": _shopt,
    "source": _source,
    "test": _named_option,
    "trap": _trap,
    "typeset": _declare,
    "unset": _unset,
    "wait": _named_option,
}
