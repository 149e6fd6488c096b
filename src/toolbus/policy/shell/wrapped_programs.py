"""Programs that run another one, or a text for a shell: `bash -c`, `sudo`, `xargs`, `ssh` …."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Command, Word
from toolbus.policy.programs.parsed_command import ParsedCommand, joined
from toolbus.policy.programs.program_files import shipped_programs
from toolbus.policy.shell.shell_state import ShellState

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from toolbus.policy.programs.command_level import CommandLevel
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
_SOME = Word("…", known=False, several=True)
_IN_THIS_SHELL = frozenset({"builtin", "command", "exec", "jobs"})
_COMMAND = frozenset({"-c", "--command"})
_FINDERS = frozenset({"find", "gfind"})


def read_shell(name: str, words: Words, shell: Interpreter) -> None:
    """Read what the shell *name* runs that is given *words*."""
    # The ways to start a shell: with a text, with its input, with a script.
    if words and words[0].text in _HARMLESS and words[0].known:
        return
    if name in _OTHERS:
        shell.refuse(f"{name} has a syntax of its own")
        return
    letters, words = _shell_options(words)
    if (words and words[0].text.startswith(("-", "+"))) or "O" in letters:
        shell.refuse(f"an option of {name} that isn't known here")
    elif "c" in letters:
        _read_string(name, words, shell)
    elif "s" in letters or not words:
        _read_input(name, words, shell)
    elif not words[0].known or words[0].several:
        shell.refuse(f"what {name} runs is known only when it runs")
    # A script is a file: what it runs is as known as what any program does.


def _shell_options(words: Words) -> tuple[str, Words]:
    """Return the letters of the options of a shell, and the words behind them."""
    letters = ""
    while words and (option := _option_letters(words[0])) is not None:
        letters += option
        words = words[1 + option.count("o") + option.count("O") :]
        if option == "-":
            break
    return letters, words


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


def runs_others(name: str) -> bool:
    """Return whether the program *name* may run a command that is judged by itself."""
    known = shipped_programs().find(name)
    return name in _FINDERS or (known is not None and known[1].wraps)


def read_wrapped(name: str, words: Words, shell: Interpreter) -> None:
    """Read what the program *name* runs that is given *words*."""
    if name in _FINDERS:
        _read_find(words, shell)
        return
    known = _known_wrapper(name, shell)
    if known is None:
        return
    if name == "env":
        words = _split_env(words, shell)
    parsed = ParsedCommand(Command(Word(name), words, folder=shell.state.folder), *known)
    program, texts = _program_of(parsed), _texts_of(parsed)
    # Behind its own help a program of the project may read on.
    if parsed.instead is not None and not parsed.helps:
        return
    if not (program or texts):
        if parsed.level.data.opens_shell:
            shell.refuse(f"{name} starts a shell that reads what to run")
    elif not parsed.is_certain:
        shell.refuse(f"what {name} runs is not certain: a word before it is not known")
    else:
        _read_inside(parsed, program, texts, shell)


def _known_wrapper(name: str, shell: Interpreter) -> tuple[str, CommandLevel] | None:
    """Return what is known of *name*; a file of one's own hides no wrapper that is shipped."""
    for programs in (shell.programs, shipped_programs()):
        known = programs.find(name) if programs is not None else None
        if known is not None and known[1].wraps:
            return known
    return None


def _read_inside(
    parsed: ParsedCommand, program: Words, texts: list[Word], shell: Interpreter
) -> None:
    """Read *program* and the *texts* for a shell, where and as *parsed* runs them."""
    name, label = parsed.action[0], _label(parsed)
    there, run = shell.state, shell.run
    if name not in _IN_THIS_SHELL:
        there = there.copy()
    if parsed.level.data.elsewhere:
        there.folder, there.variables, run = None, {}, replace(run, settings=())
    elif parsed.uses.folder != there.folder:
        there.folder = None
    changes: dict[str, Any] = {"settings": (*run.settings, *parsed.settings)}
    if name in {"builtin", "command"}:
        changes["shell"] = run.shell
    elif name == "xargs":
        changes.update(stdin=None, has_stdin=True)
    with shell.using(state=there, run=run):
        for text in texts:
            read_string(text, label, shell)
        if program:
            with shell.wrapped(label, **changes):
                shell.run_words(program)


def _label(parsed: ParsedCommand) -> str:
    if parsed.action[0] == "ssh":
        return f"ssh {parsed.operands[0].text}"
    words = parsed.action[:1] if parsed.action[0] == "rtk" else parsed.action
    return " ".join([*words, parsed.runs_by]).rstrip()


def _program_of(parsed: ParsedCommand) -> Words:
    """Return the words of the program that is run, as far as they can be known."""
    rule = _PROGRAMS.get(parsed.action[0])
    return rule(parsed, parsed.wrapped) if rule is not None else parsed.wrapped


def _texts_of(parsed: ParsedCommand) -> list[Word]:
    """Return the texts that a shell runs, as far as they can be known."""
    texts, wrapped = parsed.shell_texts, parsed.wrapped
    match parsed.action[0]:
        case "parallel" if wrapped:
            return [_text_of_parallel(wrapped)]
        case "flock" if wrapped and wrapped[0].text in _COMMAND:
            return [*wrapped[1:2]] or [Word("")]
        case "entr" if texts:
            # What follows the text are its parameters.
            is_alone = len(parsed.operands) == 1
            return [_with_unknown(texts[0], "/_") if is_alone else Word("", known=False)]
    return texts


def _run_by_rtk(parsed: ParsedCommand, words: Words) -> Words:
    is_program = parsed.level.data.raw and parsed.action[-1] != "proxy"
    return (Word(parsed.action[-1]), *words) if is_program else words


def _run_as_python(parsed: ParsedCommand, words: Words) -> Words:
    """Put the interpreter in front of a module or a file of Python."""
    if not words or parsed.action[1:] != ["run"]:
        return words
    if parsed.option("-m"):
        return (Word("python"), Word("-m"), *words)
    is_file = parsed.option("--script") or words[0].text.endswith(".py")
    return (Word("python"), *words) if is_file else words


def _split_env(words: Words, shell: Interpreter) -> Words:
    """Split what stands behind ``-S`` of ``env``; a lone dash is ``-i``."""
    if any(word.text.startswith("BASH_FUNC_") for word in words):
        shell.refuse("a function for the programs that are run")
    for position, word in enumerate(words):
        if not word.known or word.text[:1] != "-" or word.text == "--":
            break
        before, behind = words[:position], words[position + 1 :]
        if word.text == "-":
            return (*before, Word("-i"), *_split_env(behind, shell))
        if match := re.match(r"-[iv0]*S|--s[a-z-]*(?:=|\Z)", word.text):
            attached = (Word(word.text[match.end() :]),) if match.end() < len(word.text) else ()
            return (*before, *_split_text((*attached, *behind), shell))
    return words


def _split_text(words: Words, shell: Interpreter) -> Words:
    """Split the first of *words* as ``env -S`` does, and go on with all of them."""
    text = words[0] if words else Word("")
    if not text.known or re.search(r"[\\$'\"#]", text.text):
        shell.refuse("what env -S makes of quotes isn't known here")
        return ()
    return _split_env((*map(Word, text.text.split()), *words[1:]), shell)


def _filled_by_xargs(parsed: ParsedCommand, words: Words) -> Words:
    """Put what xargs reads to the place that ``-I`` names, or else behind *words*."""
    if not words:
        return ()
    places = [
        value.text for option, value in parsed.values if not option.names.isdisjoint(("-I", "-J"))
    ]
    if parsed.option("-i"):
        named = [value.text for option, value in parsed.values if "-i" in option.names]
        places += named or ["{}"]
    if not places:
        return (*words, _SOME)
    for place in places:
        words = tuple(_with_unknown(word, place) for word in words)
    # The last one of these options counts: then what xargs reads stands behind all the same.
    return (*words, _SOME) if parsed.option("-n", "-L", "-l") else words


def _with_unknown(word: Word, place: str) -> Word:
    if place and place in word.text:
        start = word.text.partition(place)[0] if not word.pattern else ""
        return Word(word.text, known=False, start=start)
    return word


def _filled_by_fd(_parsed: ParsedCommand, words: Words) -> Words:
    if not words:
        return ()
    ends = [index for index, word in enumerate(words[:-1]) if word.text == ";"]
    if ends or any(word.several for word in words):
        return (Word("…", known=False),)  # Behind an end other commands may follow.
    filled = tuple(
        Word(item.text, known=False) if re.search(r"\{[/.]{0,2}\}", item.text) else item
        for item in words
        if item.text != ";"
    )
    return filled if any(not item.known for item in filled) else (*filled, _SOME)


def _text_of_parallel(words: Words) -> Word:
    """Return what parallel has a shell run; a variable that nobody sets stands for its input."""
    marks = [index for index, word in enumerate(words) if word.text.startswith(":::")]
    text = joined(words[: marks[0]] if marks else words)
    if not text.text or not text.known or re.search(r"\{[^}\s]+\}|['\"\\]", text.text):
        return Word(text.text, known=False)
    argument = '"$PARALLEL_ARGUMENT"'
    filled = text.text.replace("{}", argument)
    return Word(filled if filled != text.text else f"{filled} {argument}")


def _read_find(words: Words, shell: Interpreter) -> None:
    """Read what stands behind ``-exec`` and the like."""
    start = _first_folder(words)
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word.text not in {"-exec", "-execdir", "-ok", "-okdir"} or not word.known:
            continue
        end = position
        while end < len(words) and words[end].text not in {";", "+"}:
            end += 1
        begin, where = start, shell.state.copy()
        if word.text.endswith("dir"):
            where.folder, begin = None, "./"
        several = end < len(words) and words[end].text == "+"
        filled = tuple(_filled(item, begin, several=several) for item in words[position:end])
        if filled:
            with shell.using(state=where), shell.wrapped(f"find {word.text}"):
                shell.run_words(filled)
        position = end + 1


def _first_folder(words: Words) -> str:
    """Return what all names that find prints begin with, if that is certain."""
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


def _filled(word: Word, start: str, *, several: bool) -> Word:
    if "{}" not in word.text or not word.known:
        return word
    before = word.text.partition("{}")[0]
    return Word(word.text, known=False, several=several, start="" if several else before + start)


# Whose words are filled in, or follow others, before they run.
_PROGRAMS: dict[str, Callable[[ParsedCommand, Words], Words]] = {
    "entr": lambda _parsed, words: tuple(_with_unknown(word, "/_") for word in words),
    "fd": _filled_by_fd,
    "flock": lambda _parsed, words: () if words and words[0].text in _COMMAND else words,
    "parallel": lambda _parsed, _words: (),
    "pdm": _run_as_python,
    "rtk": _run_by_rtk,
    "uv": _run_as_python,
    "xargs": _filled_by_xargs,
}
