"""Programs that run the program whose words follow theirs: `sudo`, `env`, `timeout` …."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from toolbus.policy.commands import Redirection, Word
from toolbus.policy.shell.nested_shells import read_string

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.policy.shell.runs import Run
    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.walk import TextWalk

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class Wrapper(Struct, frozen=True):
    """The options of such a program; any other one makes unknown what it runs."""

    flags: str = ""
    """Letters of options without a value."""
    values: str = ""
    """Letters of options with a value."""
    long_flags: str = ""
    long_values: str = ""
    operands: int = 0
    """How many words stand between the options and the program."""
    assigns: bool = False
    """Whether ``NAME=value`` may stand before the program."""
    ends: tuple[str, ...] = ()
    """Options with which no program is run."""
    texts: tuple[str, ...] = ()
    """Options whose value a shell runs."""
    joined: bool = False
    """Whether a shell runs the words, with blanks between them."""
    elsewhere: tuple[str, ...] = ()
    """Options that change the folder; ``*`` if it always is another."""
    writes: tuple[str, ...] = ()
    """Options whose value is a file that it writes; ``*`` if the word before the program is."""
    idle: bool = False
    """Whether it runs nothing, or prints, if no program follows; else a shell that reads on."""


WRAPPERS = {
    "arch": Wrapper(
        flags="c",
        values="de",
        long_flags="x86_64 arm64 arm64e i386 32 64",
        long_values="arch",
        idle=True,
    ),
    "caffeinate": Wrapper(flags="dimsu", values="tw", idle=True),
    "chroot": Wrapper(
        long_flags="skip-chdir", long_values="groups userspec", operands=1, elsewhere=("*",)
    ),
    "chrt": Wrapper(
        flags="abdefimorRv",
        values="DPT",
        long_flags="all-tasks batch fifo idle other rr reset-on-fork verbose",
        operands=1,
        idle=True,
        ends=("-p", "-m", "--pid", "--max"),
    ),
    "doas": Wrapper(flags="n", values="aCu", ends=("-L", "-C")),
    "env": Wrapper(
        flags="i0v",
        values="uCSa",
        long_flags="ignore-environment null debug list-signal-handling",
        long_values="unset chdir split-string argv0",
        assigns=True,
        elsewhere=("-C", "--chdir"),
        idle=True,
    ),
    "flock": Wrapper(
        flags="censuoxF",
        values="wE",
        long_flags="close exclusive nonblock no-fork shared unlock verbose",
        long_values="timeout wait conflict-exit-code",
        operands=1,
        writes=("*",),
        idle=True,
    ),
    "gtimeout": Wrapper(flags="fpv", values="ks", operands=1),
    "ionice": Wrapper(
        flags="t",
        values="cn",
        long_flags="ignore",
        long_values="class classdata",
        ends=("-p", "-P", "-u", "--pid"),
        idle=True,
    ),
    "ltrace": Wrapper(flags="bcCfhiLrStTV", values="aAeFlnopsuwxX"),
    "nice": Wrapper(flags="0123456789", values="n", long_values="adjustment", idle=True),
    "nohup": Wrapper(idle=True),
    "nsenter": Wrapper(
        flags="aemnpuiUCFZ", values="tSG", long_values="target setuid setgid", elsewhere=("*",)
    ),
    "rlwrap": Wrapper(flags="acEinNorRvWz", values="bCDefghHlmMpPqstw"),
    "setpriv": Wrapper(long_flags="no-new-privs clear-groups keep-groups init-groups"),
    "setsid": Wrapper(flags="cfw", long_flags="ctty fork wait", idle=True),
    "stdbuf": Wrapper(values="ioe", long_values="input output error", idle=True),
    "strace": Wrapper(
        flags="cCdDfFhikNnqrtTvVwxyYzZ",
        values="abeEIoOpPsSuUX",
        long_flags="follow-forks summary summary-only seccomp-bpf",
        long_values="trace output string-limit",
        idle=True,
    ),
    "sudo": Wrapper(
        flags="AbBEHnNPkS",
        values="CghpRrTtUuD",
        long_flags="askpass background bell non-interactive preserve-groups set-home stdin",
        long_values="user group host prompt chroot chdir role type command-timeout close-from",
        assigns=True,
        ends=("-e", "-K", "-l", "-v", "-V", "--edit", "--list", "--validate", "--remove-timestamp"),
        elsewhere=("-D", "--chdir", "-R", "--chroot"),
        idle=True,
    ),
    "taskset": Wrapper(
        flags="ac", long_flags="all-tasks cpu-list", operands=1, ends=("-p", "--pid"), idle=True
    ),
    "time": Wrapper(
        flags="apvql",
        values="fo",
        long_flags="append portability verbose quiet",
        long_values="format output",
        writes=("-o", "--output"),
        idle=True,
    ),
    "timeout": Wrapper(
        flags="fpv",
        values="ks",
        long_flags="foreground preserve-status verbose",
        long_values="kill-after signal",
        operands=1,
    ),
    "unshare": Wrapper(
        flags="mnpuiUCTrfc",
        values="SGRw",
        long_flags="fork map-root-user map-current-user mount net pid user uts ipc",
        long_values="root wd setuid setgid",
        elsewhere=("-R", "-w", "--root", "--wd"),
    ),
    "watch": Wrapper(
        flags="bcCdegprtw",
        values="nq",
        long_flags="beep color differences errexit chgexit no-title precise",
        long_values="interval equexit",
        joined=True,
        idle=True,
    ),
    "xvfb-run": Wrapper(
        flags="al",
        values="efnpsw",
        long_flags="auto-servernum auto-display",
        long_values="error-file auth-file server-num xauth-protocol server-args wait",
        idle=True,
    ),
}
"""Sources: their manual pages (GNU coreutils, util-linux, sudo, OpenBSD doas, procps, strace)."""


class Parsed(Struct):
    """The words of a wrapper, sorted."""

    options: list[tuple[str, Word | None]]
    rest: tuple[Word, ...]


def read_wrapper(
    name: str, words: tuple[Word, ...], run: Run, walk: TextWalk, state: ShellState
) -> None:
    """Read what *name* runs that is given *words*."""
    wrapper = WRAPPERS[name]
    parsed = parse_words(name, wrapper, words, run, walk)
    if parsed is None:
        return
    options = {option for option, _ in parsed.options}
    if options & {"--help", "--version", *wrapper.ends}:
        return
    rest = parsed.rest
    inner = run.wrapped(name, len(walk.commands))
    settings = []
    while wrapper.assigns and rest and (match := _ASSIGNMENT.match(rest[0].text or rest[0].start)):
        settings.append((match[0][:-1], replace(rest[0], text=rest[0].text[match.end() :])))
        rest = rest[1:]
    inner = replace(inner, settings=(*inner.settings, *settings))
    inner = replace(inner, redirections=(*inner.redirections, *_written(wrapper, parsed, rest)))
    rest = rest[wrapper.operands :]
    if wrapper.elsewhere and ("*" in wrapper.elsewhere or options & set(wrapper.elsewhere)):
        state = state.copy()
        state.folder = None
    if rest:
        _run_rest(name, wrapper, rest, inner, walk, state)
    elif not wrapper.idle:
        walk.refuse(run.source, f"{name} starts a shell that reads what to run")


def _written(wrapper: Wrapper, parsed: Parsed, rest: tuple[Word, ...]) -> Iterator[Redirection]:
    """Yield the files that the wrapper itself opens, as if the shell opened them for it."""
    for option, value in parsed.options:
        if option in wrapper.writes and value is not None:
            yield Redirection(">", value)
    if "*" in wrapper.writes and len(rest) > wrapper.operands:
        yield Redirection(">>", rest[0])


def _run_rest(
    name: str, wrapper: Wrapper, rest: tuple[Word, ...], run: Run, walk: TextWalk, state: ShellState
) -> None:
    if wrapper.joined:
        read_string(joined(rest), "", run, walk, state)
    elif name == "flock" and rest[0].text in {"-c", "--command"}:
        read_string(rest[1] if len(rest) > 1 else Word(""), "", run, walk, state)
    else:
        walk.run_words(rest, run, walk, state.copy())


def joined(words: tuple[Word, ...]) -> Word:
    """Return *words* as one, with blanks between, as a shell is given them."""
    known = all(word.known and not word.pattern for word in words)
    return Word(" ".join(word.text for word in words), known=known)


def parse_words(
    name: str, wrapper: Wrapper, words: tuple[Word, ...], run: Run, walk: TextWalk
) -> Parsed | None:
    """Sort *words*, or return None where an option isn't known, which is noted then."""
    options: list[tuple[str, Word | None]] = []
    position = 0
    while position < len(words):
        word = words[position]
        text = word.text
        if not word.known and (word.several or word.start[:1] in {"", "-"}):
            walk.refuse(run.source, f"what {name} runs is known only when it runs")
            return None
        if not word.known or not text.startswith("-"):
            break
        position += 1
        if text == "--":
            break
        taken = _option(wrapper, text)
        if taken is None:
            walk.refuse(run.source, f"{text} of {name}, which isn't known here")
            return None
        names, value, needs = taken
        options += [(flag, None) for flag in names[:-1]]
        value_word = Word(value) if value is not None else None
        if needs:
            value_word = words[position] if position < len(words) else Word("")
            position += 1
        options.append((names[-1], value_word))
    return Parsed(options, words[position:])


def _option(wrapper: Wrapper, text: str) -> tuple[list[str], str | None, bool] | None:
    """Return the options in *text*, the value that is joined to the last, whether one follows."""
    ends = wrapper.ends
    if text in ends or text == "-":
        return [text], None, False
    if text.startswith("--") or text[1:] in wrapper.long_flags.split():
        return _long_option(wrapper, text)
    names: list[str] = []
    for index, letter in enumerate(text[1:], 1):
        names.append("-" + letter)
        if letter in wrapper.values:
            value = text[index + 1 :]
            return names, value or None, not value
        if letter not in wrapper.flags and "-" + letter not in ends:
            return None
    return names, None, False


def _long_option(wrapper: Wrapper, text: str) -> tuple[list[str], str | None, bool] | None:
    name, sign, value = text.lstrip("-").partition("=")
    flags, values = wrapper.long_flags.split(), wrapper.long_values.split()
    ends = [option.lstrip("-") for option in wrapper.ends if option.startswith("--")]
    every = [*flags, *values, *ends, "help", "version"]
    matching = [full for full in every if full == name] or [
        full for full in every if full.startswith(name)
    ]
    if len(set(matching)) != 1:
        return None
    full = matching[0]
    if full in values:
        return ["--" + full], value if sign else None, not sign
    return (["--" + full], None, False) if not sign else None
