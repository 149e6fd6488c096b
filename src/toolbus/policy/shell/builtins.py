"""Builtins and assignments, which change the shell or its folder, or run commands in it."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Word
from toolbus.policy.shell.arithmetic import words_in
from toolbus.policy.shell.state import DYNAMIC, NUMBER, UNKNOWN
from toolbus.policy.shell.syntax import ArithmeticExpansion

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.policy.shell.interpreter import Interpreter
    from toolbus.policy.shell.state import ShellState
    from toolbus.policy.shell.syntax import Assignment, Declaration

    Words = tuple[Word, ...]
    Builtin = Callable[[Words, Interpreter], ShellState | None]


# Characters allowed after an array; with any other bash takes the array as text.
_ENDS = frozenset([b"", b" ", b"\t", b"\n", b";", b"&", b"|", b")", b"<", b">", b"`"])
_SETTABLE = frozenset(
    """-e -u -x -v -eu -eux -ex -eo -euo -euxo -exo -uo -o +e +u +x +v +o pipefail errexit
    nounset xtrace verbose""".split()
)
_HARMLESS_TRAPS = (Word("-"), Word(""), Word("-l"), Word("-p"))


def change_folder(words: tuple[Word, ...], state: ShellState) -> ShellState:
    """Follow ``cd`` in *state*; return the state after its failure."""
    failure, previous = state.copy(), state.folder
    if words and words[0] in {Word("--"), Word("-L")}:
        words = words[1:]
    _set_folder(_target(words, state), state, words[0].text if words else "~")
    state.previous = previous
    failure.failed = failure.failed or state.folder or "?"
    return failure


def _target(words: tuple[Word, ...], state: ShellState) -> str | None:
    if not words:
        home = state.value("HOME")
        return home.text if home and home.known else None
    if words == (Word("-"),):
        return state.previous
    is_option = words[0].text.startswith("-")
    return None if is_option or len(words) > 1 else join_folder(words[0], state)


def push_folder(words: tuple[Word, ...], state: ShellState) -> ShellState:
    """Follow ``pushd FOLDER``; its other forms and ``popd`` lead to an unknown folder."""
    if len(words) == 1 and not words[0].text.startswith(("-", "+")):
        return change_folder(words, state)
    failure = state.copy()
    _set_folder(None, state)
    failure.failed = failure.failed or "?"
    return failure


def join_folder(word: Word, state: ShellState) -> str | None:
    """Return the folder of *word* relative to *state*, None if unknown.

    As in bash, ``x/..`` is the current folder, even if x is a link.
    """
    target = word.text
    if not word.known or "CDPATH" in state.variables or not target:
        return None
    if word.pattern:
        is_home = target.startswith("~") and not re.search(r"[*?\[\\]|\.\.", target)
        return posixpath.normpath(target) if is_home else None
    if target.startswith("/"):
        return posixpath.normpath(target).replace("//", "/")
    return _join_relative("./" + target if target.startswith("~") else target, state.folder)


def _join_relative(target: str, folder: str | None) -> str | None:
    is_home = folder is not None and folder.startswith("~")
    if folder is None or (is_home and ".." in target):
        return None
    joined = posixpath.normpath(posixpath.join(folder, target))
    return "./" + joined if joined.startswith("~") and not is_home else joined


def _set_folder(target: str | None, state: ShellState, word: str = "") -> None:
    # A successful `cd` ends the effect of an earlier failure.
    state.folder, state.failed = target, None
    if not target or word.startswith(("/", "~")):
        state.assumed = ()


def read_builtin(name: str, words: Words, shell: Interpreter) -> ShellState | None:
    """Interpret the builtin *name*; return the state after its failure, None for no builtin."""
    if name not in BUILTINS:
        return None
    return BUILTINS[name](words, shell) or shell.state


def _eval(words: Words, shell: Interpreter) -> None:
    if words and words[0] == Word("--"):
        words = words[1:]
    if any(not word.known or word.pattern for word in words):
        shell.refuse("eval runs a text that is known only at run time")
        return
    text = " ".join(word.text for word in words)
    with shell.using(scope=shell.inner_scope().through("eval")):
        shell.read_text(text, shell.run.source)


def _source(words: Words, shell: Interpreter) -> None:
    shell.refuse("it runs the commands of a file in this shell")
    shell.state.folder = None
    shell.state.forget()


def _trap(words: Words, shell: Interpreter) -> None:
    if words[:1] == (Word("--"),):
        words = words[1:]
    if not words or words[0] in _HARMLESS_TRAPS:
        return
    shell.refuse("trap runs its command later, when variables and folder may differ")
    if words[0].known and not words[0].pattern:
        later = shell.state.copy()
        later.folder = None
        later.forget()
        with shell.using(state=later, scope=shell.inner_scope().through("trap")):
            shell.read_text(words[0].text, shell.run.source)


def _set(words: Words, shell: Interpreter) -> None:
    # Complex because options, "--" and parameters are distinguished only by position.
    before = ""
    for position, word in enumerate(words):
        if not word.known:
            shell.state.positional = None
            shell.state.globs = shell.state.splits = False
            shell.refuse("the effect of set is known only at run time")
            return
        is_option = word.text[:1] in {"-", "+"} and word.text != "--"
        if not is_option and not re.fullmatch(r"[-+][a-z]*o", before):
            rest = words[position + (word.text == "--") :]
            shell.state.positional = rest if all(item.known for item in rest) else None
            return
        before = word.text
        if before in {"-f", "+f", "noglob"}:
            shell.state.globs = False
        elif before not in _SETTABLE:
            shell.refuse(f"set {before} changes the meaning of commands")


def _shopt(words: Words, shell: Interpreter) -> None:
    shell.state.globs = shell.state.globs and not words
    _refuse(words, shell)


def _read(words: Words, shell: Interpreter) -> None:
    """Mark the variables set by ``read`` as unknown."""
    _set_names(words, "dinNptu", shell)


def _set_names(words: Words, with_value: str, shell: Interpreter) -> None:
    is_value = options_end = False
    for word in words:
        if is_value:
            is_value = False
            continue
        if not word.known or word.pattern:
            shell.refuse("the variable that it sets is known only at run time")
            return
        if word.text.startswith("-") and not options_end:
            options_end = word.text == "--"
            value = re.search(f"[{with_value}]", word.text)
            is_value = value is not None and value.end() == len(word.text)
            if re.match(r"-[a-zA-Z]*a.", word.text) and "a" not in with_value:
                shell.refuse("an array's name is joined to its option")
            continue
        shell.words.arithmetic.check_name(word.text)
        shell.state.assign(word.text.partition("[")[0], UNKNOWN)


def _unset(words: Words, shell: Interpreter) -> None:
    for word in words:
        if not word.known:
            shell.refuse("the variable that it unsets is known only at run time")
        elif not word.text.startswith("-"):
            shell.words.arithmetic.check_name(word.text)
            shell.state.assign(word.text.partition("[")[0], UNKNOWN)
            if word.text in shell.state.functions:
                shell.state.functions[word.text] = None


def _named_option(words: Words, shell: Interpreter) -> None:
    """Check the variable of ``printf -v``, ``test -v``, ``wait -p``."""
    for option, word in zip(words, (*words[1:], Word("_")), strict=False):
        if option.text[:2] not in {"-v", "-R", "-p"}:
            continue
        name = Word(option.text[2:]) if len(option.text) > 2 else word  # noqa: PLR2004
        if not name.known:
            shell.refuse("the variable that it names is known only at run time")
            continue
        shell.words.arithmetic.check_name(name.text)
        shell.state.assign(name.text.partition("[")[0], UNKNOWN)


def _printf(words: Words, shell: Interpreter) -> None:
    if words and not words[0].known and words[0].start[:1] in {"", "-"}:
        shell.refuse("printf may set a variable, and runs commands in its name")
    _named_option(words, shell)


def _alias(words: Words, shell: Interpreter) -> None:
    if any(not word.known or "=" in word.text for word in words):
        shell.refuse("an alias changes the meaning of commands")


def _refuse(words: Words, shell: Interpreter) -> None:
    if words:
        shell.refuse("it changes the shell, or runs commands from elsewhere")


def _shift(words: Words, shell: Interpreter) -> None:
    count = words[0].text if words else "1"
    if count.isdecimal():
        shell.state.shift(int(count))
    else:
        shell.state.positional = None


def declare(command: Declaration, shell: Interpreter) -> ShellState:
    """Interpret ``declare``, ``export``, ``local`` …, fully only for values of the last two."""
    program = command.variant.value
    words = [Word(program)]
    if program not in {"export", "local"}:
        shell.refuse("a declaration that may change the meaning of a variable")
    for argument in command.args:
        if argument.name is None:
            words += shell.words.expand([argument.value] if argument.value else [])
            if words[-1] not in {Word("-p"), Word(program)}:
                shell.refuse("an option that may change the meaning of a variable")
        elif argument.naked:
            words.append(Word(argument.name.value))
            if program != "export":
                shell.state.assign(argument.name.value, UNKNOWN)
        else:
            words.append(_declare_value(program, argument, shell))
    shell.add_command(tuple(words))
    return shell.state


def _declare_value(program: str, argument: Assignment, shell: Interpreter) -> Word:
    """Apply the assignment *argument*; return it as a word of *program*."""
    before = shell.state.variables.get(argument.name.value if argument.name else "")
    name, value = assign(argument, shell)
    if program == "local":
        _check_local(value, shell, may_be_array=before == UNKNOWN or name in DYNAMIC)
    source = shell.source(argument)
    start = name + ("+=" if argument.append else "=")
    braces = re.search(r"(?<!\$)\{", source)
    if braces or (program == "local" and not shell.scope.calls):
        # Braces expand to several words here; outside of a function `local` fails.
        shell.state.assign(name, UNKNOWN)
    if value.known and not braces:
        return Word(start + value.text, pattern=value.pattern)
    return Word(source, known=False, start=start)


def _check_local(value: Word, shell: Interpreter, *, may_be_array: bool) -> None:
    if may_be_array and (not value.known or value.text.startswith("(")):
        shell.refuse("a value that bash may evaluate again, running commands in it")


def assign(assignment: Assignment, shell: Interpreter) -> tuple[str, Word]:
    """Apply *assignment*; return its name and value."""
    state = shell.state
    name = assignment.name.value if assignment.name else ""
    _refuse_doubtful(assignment, name, shell)
    if assignment.index is not None or assignment.array is not None:
        return name, _assign_array(assignment, name, shell)
    word = shell.words.single(assignment.value, assigned=True)
    if assignment.append:
        word = _appended(state.variables.get(name), word, shell.source(assignment))
    if word.pattern and re.search(r"[*?\[]", word.text):
        word = replace(word, known=False, pattern=False)
    if word.known and re.search(r"\[.*(?:\$\(|`)", word.text):
        shell.refuse("a value that runs commands when used in arithmetic", assignment)
    state.assign(name, word if word.known else _unknown(assignment))
    return name, word


def _unknown(assignment: Assignment) -> Word:
    parts = assignment.value.parts if assignment.value and not assignment.append else ()
    return NUMBER if [type(part) for part in parts] == [ArithmeticExpansion] else UNKNOWN


def _refuse_doubtful(assignment: Assignment, name: str, shell: Interpreter) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        shell.refuse("shfmt reads an assignment, and bash a program's name", assignment)
    follows = shell.data[assignment.end.offset : assignment.end.offset + 1]
    if assignment.array is not None and follows not in _ENDS:
        shell.refuse("shfmt reads an array, and bash a text", assignment)


def _appended(before: Word | None, word: Word, source: str) -> Word:
    if before is None or not before.known or not word.known or before.pattern or word.pattern:
        return Word(source, known=False)
    return Word(before.text + word.text)


def _assign_array(assignment: Assignment, name: str, shell: Interpreter) -> Word:
    """Interpret the elements of an array, whose value is unknown afterwards."""
    shell.words.arithmetic.check(assignment.index)
    if assignment.array is None:
        shell.words.single(assignment.value, assigned=True)
    else:
        for element in assignment.array.get("Elems", ()):
            shell.words.arithmetic.check(element.get("Index"))
            shell.words.expand(words_in(element.get("Value")))
        shell.words.arithmetic.check_name(name)
    shell.state.assign(name, UNKNOWN)
    return Word(shell.source(assignment), known=False)


BUILTINS: dict[str, Builtin] = {
    ".": _source,
    "[": _named_option,
    "alias": _alias,
    "bind": _refuse,
    "cd": lambda words, shell: change_folder(words, shell.state),
    "chdir": lambda words, shell: change_folder(words, shell.state),
    "compgen": _refuse,
    "complete": _refuse,
    "declare": _refuse,
    "enable": _refuse,
    "eval": _eval,
    "export": _refuse,
    "fc": _refuse,
    "getopts": lambda words, shell: _read(words[1:2], shell),
    "hash": _refuse,
    "let": _refuse,
    "local": _refuse,
    "mapfile": _refuse,
    "popd": lambda _words, shell: push_folder((), shell.state),
    "printf": _printf,
    "pushd": lambda words, shell: push_folder(words, shell.state),
    "read": _read,
    "readarray": _refuse,
    "readonly": _refuse,
    "set": _set,
    "shift": _shift,
    "shopt": _shopt,
    "source": _source,
    "test": _named_option,
    "trap": _trap,
    "typeset": _refuse,
    "unset": _unset,
    "wait": _named_option,
}
