"""Programs that run others by rules of their own: `command`, `sudo`, `ssh` …."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.policy.commands import Word
from toolbus.policy.shell.item_runners import (
    read_entr,
    read_fd,
    read_find,
    read_parallel,
    read_xargs,
)
from toolbus.policy.shell.nested_shells import read_string
from toolbus.policy.shell.project_runners import RUNNERS, read_rtk, read_runner
from toolbus.policy.shell.wrappers import WRAPPERS, Wrapper, joined, parse_words, read_wrapper

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.policy.shell.runs import Run
    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.walk import TextWalk

    Words = tuple[Word, ...]
    Special = Callable[[str, Words, Run, TextWalk, ShellState], None]

_SSH = Wrapper(
    flags="46AaCfGgKkMNnqsTtVvXxYy", values="BbcDEeFIiJLlmOoPpQRSWw", operands=1, idle=True
)
_SU = Wrapper(
    flags="flmp",
    values="cgGswT",
    long_flags="fast login preserve-environment pty",
    long_values="command session-command group supp-group shell whitelist-environment",
)
_SCRIPT = Wrapper(
    flags="aefqV",
    values="cEIOBmoT",
    long_flags="append flush force quiet return",
    long_values="command echo log-in log-out log-io log-timing logging-format output-limit",
)


def read_special(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Read what *name* runs that is given *words*."""
    SPECIAL[name](name, words, run, walk, state)


def _shell_command(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Read ``command``, ``builtin`` and ``exec``, behind which no function is meant."""
    while words and words[0].known and re.fullmatch(r"-[pcl]+|--|-a", words[0].text):
        words = words[2:] if words[0].text == "-a" else words[1:]
    if not words or words[0].text in {"-v", "-V", "-pv", "-pV"}:
        return
    if words[0].known and words[0].text.startswith("-"):
        walk.refuse(run.source, f"{words[0].text} of {name}, which isn't known here")
        return
    inner = run.wrapped(name, len(walk.commands))
    if name != "exec":
        inner = replace(inner, shell=run.shell)
    walk.run_words(words, inner, walk, state)


def _applet(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    if words and not (words[0].known and words[0].text.startswith("-")):
        walk.run_words(words, run.wrapped(name, len(walk.commands)), walk, state.copy())


def _texted(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Read what stands behind ``-c`` of ``su`` or ``script``."""
    words = tuple(word for word in words if word != Word("-"))
    if name == "su":
        # Its options may stand behind the user's name.
        options = [index for index, word in enumerate(words) if word.text.startswith("-")]
        words = (*words[options[0] :], *words[: options[0]]) if options else words
    parsed = parse_words(name, _SU if name == "su" else _SCRIPT, words, run, walk)
    if parsed is None:
        return
    options_given = dict(parsed.options)
    text = options_given.get("-c") or options_given.get("--command")
    if text is not None:
        read_string(text, f"{name} -c", run, walk, state)
    elif name == "script" and len(parsed.rest) > 1:
        walk.run_words(parsed.rest[1:], run.wrapped(name, len(walk.commands)), walk, state.copy())
    else:
        walk.refuse(run.source, f"{name} starts a shell that reads what to run")


def _ssh(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    parsed = parse_words(name, _SSH, words, run, walk)
    if parsed is None:
        return
    if len(parsed.rest) < 2:  # noqa: PLR2004 - the host, and a command
        if run.has_stdin or run.scope.piped:
            walk.refuse(run.source, "a shell elsewhere runs what comes to its standard input")
        return
    there = state.copy()
    there.folder = None
    there.variables = {}
    rest = parsed.rest[1:]
    read_string(
        joined(rest), f"{name} {parsed.rest[0].text}", replace(run, settings=()), walk, there
    )


def _env(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Split what stands behind ``-S`` of ``env``, and read it as the words of another one."""
    for position, word in enumerate(words):
        match = re.match(r"-[iv0]*S|--s[a-z-]*(?:=|\Z)", word.text)
        if not (word.known and match):
            if not word.known or not word.text.startswith("-"):
                break
            continue
        text, after = word.text[match.end() :], position + 1
        if not text and after < len(words):
            text, after = words[after].text if words[after].known else "$", after + 1
        if re.search(r"[\\$'\"#]", text):
            walk.refuse(run.source, "what env -S makes of quotes isn't known here")
            return
        split = tuple(Word(part) for part in text.split())
        words = (*words[:position], *split, *words[after:])
        _env(name, words, run, walk, state)
        return
    if any(word.text.startswith("BASH_FUNC_") for word in words):
        walk.refuse(run.source, "a function for the programs that are run")
    read_wrapper(name, words, run, walk, state)


def _sudo(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Take away the options with which a shell of the user runs the words, as they are."""
    rest: list[Word] = []
    shell = False
    for position, word in enumerate(words):
        if not word.known or not word.text.startswith("-") or word.text == "--":
            rest += words[position:]
            break
        if word.text in {"-i", "-s", "--login", "--shell"}:
            shell = True
            continue
        rest.append(word)
        if word.text in {"-u", "-g", "-h", "-p", "-C", "-T", "-U", "-D", "-R", "-r", "-t"}:
            rest += words[position + 1 :]
            rest = [item for item in rest if item.text not in {"-i", "-s"}] if shell else rest
            break
    if shell and (len(rest) == 0 or any("$" in word.text for word in rest)):
        walk.refuse(run.source, "sudo starts a shell that reads what to run")
        return
    read_wrapper(name, tuple(rest), run, walk, state)


def _jobs(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    if len(words) > 1 and words[0].text == "-x":
        walk.run_words(words[1:], run.wrapped("jobs -x", len(walk.commands)), walk, state)


SPECIAL: dict[str, Special] = {
    "builtin": _shell_command,
    "busybox": _applet,
    "command": _shell_command,
    "entr": read_entr,
    "env": _env,
    "exec": _shell_command,
    "fd": read_fd,
    "fdfind": read_fd,
    "find": read_find,
    "gfind": read_find,
    "gxargs": read_xargs,
    "jobs": _jobs,
    "parallel": read_parallel,
    "rtk": read_rtk,
    "script": _texted,
    "ssh": _ssh,
    "su": _texted,
    "sudo": _sudo,
    "toybox": _applet,
    "xargs": read_xargs,
    **dict.fromkeys(RUNNERS, read_runner),
}
# A project runner does more than run another program: it may install first.
WRAPPER_NAMES = (frozenset(WRAPPERS) | frozenset(SPECIAL)) - frozenset(RUNNERS)
