"""Programs that run another program or a shell text: `bash -c`, `sudo`, `xargs`, `ssh` …."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Command, Word
from toolbus.policy.programs.languages.find_expressions import end_of_command
from toolbus.policy.programs.parsed_command import ParsedCommand, is_one
from toolbus.policy.programs.program_files import shipped_programs
from toolbus.policy.shell.state import ShellState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from toolbus.policy.programs.command_spec import CommandSpec
    from toolbus.policy.shell.interpreter import Interpreter

    Words = tuple[Word, ...]

_READ_AS_BASH = frozenset("ash bash dash rbash sh".split())
_OTHERS = frozenset(
    """csh elvish fish ksh ksh93 lksh mksh nu oksh osh posh powershell pwsh rc tcsh xonsh yash
    ysh zsh""".split()
)
SHELLS = _READ_AS_BASH | _OTHERS
# Forms that bash reads as arithmetic or a test, and POSIX shells as programs to run.
_NOT_POSIX = re.compile(r"\(\(|\[\[|\$'|\$\"|\bfunction\b")
_WITHOUT_VALUE = frozenset(
    "--login --noediting --noprofile --norc --posix --restricted --verbose --protected".split()
)
_SOME = Word("…", known=False, several=True)
_IN_THIS_SHELL = frozenset({"builtin", "command", "exec", "jobs"})
_BUILTINS_TOO = frozenset({"builtin", "command"})


def read_shell(name: str, words: Words, shell: Interpreter) -> None:
    """Interpret the commands run by the shell *name* with *words*."""
    # Complex because each way to start a shell has a branch, in bash's order.
    if words[:1] in {(Word("--help"),), (Word("--version"),)}:
        return
    if name in _OTHERS:
        shell.refuse(f"the syntax of {name} differs from bash")
        return
    letters, words = _shell_options(words)
    script = words[0] if words else None
    if (script and script.text.startswith(("-", "+"))) or "O" in letters:
        shell.refuse(f"an unknown option of {name}")
    elif "c" in letters:
        _read_string(name, words, shell)
    elif "s" in letters or script is None:
        _read_input(name, words, shell)
    elif not script.known or script.several:
        shell.refuse(f"the script of {name} is known only at run time")
    # A script is a file, and running it is like running any program.


def _shell_options(words: Words) -> tuple[str, Words]:
    """Return the letters of a shell's options, and the remaining words."""
    letters = ""
    while words and (option := _option_letters(words[0])) is not None:
        letters += option
        words = words[1 + option.count("o") + option.count("O") :]
        if option == "-":
            break
    return letters, words


def _option_letters(word: Word) -> str | None:
    """Return the letters of an option, ``-`` for the end of options, None for no option."""
    if not word.known or word.pattern:
        return None
    if word.text in {"--", "-"}:
        return "-"
    if word.text in _WITHOUT_VALUE:
        return ""
    return word.text[1:] if re.fullmatch(r"-[a-zA-Z]+|\+[oO]", word.text) else None


def read_string(word: Word, wrapper: str, shell: Interpreter, *words: Word) -> None:
    """Interpret *word*, which *wrapper* passes to a new shell, with the parameters *words*."""
    if not word.known or word.pattern:
        shell.refuse(f"the text that {wrapper} runs is known only at run time")
        return
    state, scope = shell.state, shell.inner_scope().through(wrapper)
    settings = tuple(state.variables.items())
    scope = replace(scope, settings=(*scope.settings, *settings, *shell.run.settings), calls=())
    inherited = frozenset(name for name, _ in scope.settings)
    fresh = ShellState(folder=state.folder, assumed=state.assumed, inherited=inherited)
    fresh.positional = None if any(item.several for item in words) else words
    with shell.using(state=fresh, scope=scope):
        shell.read_text(word.text, shell.run.source)


def _read_string(name: str, words: Words, shell: Interpreter) -> None:
    if not words or words[0].several:
        shell.refuse(f"the text that {name} -c runs is known only at run time")
        return
    _refuse_unlike(name, words[0].text, shell)
    # A pattern in the place of the shell's name may also expand to parameters.
    certain = all(map(is_one, words[1:2]))
    read_string(words[0], f"{name} -c", shell, *(words[2:] if certain else (_SOME,)))


def _read_input(name: str, words: Words, shell: Interpreter) -> None:
    run, scope = shell.run, shell.scope
    text = run.stdin if run.has_stdin else scope.stdin
    if text is None:
        shell.refuse(f"{name} runs commands from its standard input")
        return
    if not run.has_stdin and not scope.piped:
        shell.refuse(f"{name} shares its input with other commands")
    _refuse_unlike(name, text, shell)
    # Its commands may read the rest of the text.
    with shell.using(run=replace(run, stdin=None, has_stdin=True, rewired=True)):
        read_string(Word(text), name, shell, *words)


def _refuse_unlike(name: str, text: str, shell: Interpreter) -> None:
    if name not in {"bash", "rbash"} and _NOT_POSIX.search(text):
        shell.refuse(f"{name} may read it differently from bash")


def runs_others(name: str) -> bool:
    """Return whether the program *name* may run another command that is judged separately."""
    known = shipped_programs().find(name)
    return known is not None and known[1].wraps


def read_wrapped(name: str, words: Words, shell: Interpreter) -> None:
    """Interpret the commands run by the program *name* with *words*."""
    known = _known_wrapper(name, shell)
    if known is None:
        return
    if known[1].data.reader == "find":
        _read_find(words, shell)
        return
    parsed = ParsedCommand(Command(Word(name), words, folder=shell.state.folder), *known)
    # A project's own program may parse on after a help option.
    if parsed.instead is not None and not parsed.helps:
        return
    if not (parsed.wrapped or parsed.shell_texts):
        if parsed.spec.data.opens_shell:
            shell.refuse(f"{name} starts an interactive shell")
    elif not parsed.is_certain:
        shell.refuse(f"the command that {name} runs is uncertain: a word before it is unknown")
    else:
        _read_inside(parsed, shell)


def _known_wrapper(name: str, shell: Interpreter) -> tuple[str, CommandSpec] | None:
    """Return the name and spec of the wrapper *name*; a user's file cannot hide a shipped one."""
    for programs in (shell.programs, shipped_programs()):
        known = programs.find(name) if programs is not None else None
        if known is not None and known[1].wraps:
            return known
    return None


def _read_inside(parsed: ParsedCommand, shell: Interpreter) -> None:
    """Interpret the program and shell texts that *parsed* runs, in its folder and environment."""
    name, data, label = parsed.action[0], parsed.spec.data, _label(parsed)
    places = (*data.places, *parsed.places)
    there, run = shell.state, shell.run
    if name not in _IN_THIS_SHELL:
        there = there.copy()
    if data.elsewhere:
        there.folder, there.variables, run = None, {}, replace(run, settings=())
    elif parsed.builder.folder != there.folder:
        there.folder = None
    changes: dict[str, Any] = {"settings": (*run.settings, *parsed.settings)}
    if name in _BUILTINS_TOO:
        changes["shell"] = run.shell
    elif data.appends:
        # `xargs -a` leaves it the input.
        changes.update(stdin=None, has_stdin=True, rewired=True)
    with shell.using(state=there, run=run):
        for text in parsed.shell_texts:
            read_string(_filled(text, places), label, shell)
        if parsed.wrapped:
            with shell.wrapped(label, **changes):
                shell.run_words(_with_input(parsed, places))


def _label(parsed: ParsedCommand) -> str:
    if parsed.spec.operands[0] == "host":
        return " ".join([parsed.action[0], *(word.text for word in parsed.operands[:1])])
    words = parsed.action[:-1] if parsed.spec.data.runs_itself else parsed.action
    return " ".join([*words, parsed.runs_by]).rstrip()


def _with_input(parsed: ParsedCommand, places: Sequence[str]) -> Words:
    """Return the words of the wrapped command with unknown input at *places* or at the end."""
    filled = tuple(_filled(word, places) for word in parsed.wrapped)
    is_placed = bool(parsed.places) or filled != parsed.wrapped
    is_behind = parsed.spec.data.appends and (parsed.appends or not is_placed)
    return (*filled, _SOME) if is_behind else filled


def _filled(word: Word, places: Sequence[str]) -> Word:
    """Return *word*, as unknown if it contains a placeholder of *places*."""
    starts = [word.text.index(place) for place in places if place and place in word.text]
    if not starts:
        return word
    start = "" if word.pattern else word.text[: min(starts)]
    return Word(word.text, known=False, start=start)


def _read_find(words: Words, shell: Interpreter) -> None:
    """Interpret the commands after ``-exec`` and similar actions."""
    start = _first_folder(words)
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word.text not in {"-exec", "-execdir", "-ok", "-okdir"} or not word.known:
            continue
        end = end_of_command(words, position)
        begin, where = start, shell.state.copy()
        if word.text.endswith("dir"):
            where.folder, begin = None, "./"
        several = end < len(words) and words[end].text == "+"
        filled = tuple(_found_by(item, begin, several=several) for item in words[position:end])
        if filled:
            with shell.using(state=where), shell.wrapped(f"find {word.text}"):
                shell.run_words(filled)
        position = end + 1


def _first_folder(words: Words) -> str:
    """Return the certain beginning of all names printed by find, or ""."""
    roots = []
    for word in words:
        if not word.known or word.pattern:
            return ""
        if word.text.startswith(("-", "(", "!")):
            break
        roots.append(word.text)
    if len(roots) > 1:
        return ""
    root = roots[0] if roots else "."
    return root if root.endswith("/") else root + "/" if root == "." else root


def _found_by(word: Word, start: str, *, several: bool) -> Word:
    """Return *word* with "{}" replaced by an unknown name that begins with *start*."""
    if "{}" not in word.text or not word.known:
        return word
    before = word.text.partition("{}")[0]
    return Word(word.text, known=False, several=several, start="" if several else before + start)
