"""Programs with a subcommand that runs another program: `uv run`, `bundle exec`, `rtk`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.policy.commands import Word
from toolbus.policy.shell.wrappers import Wrapper, parse_words

if TYPE_CHECKING:
    from toolbus.policy.shell.runs import Run
    from toolbus.policy.shell.shell_state import ShellState
    from toolbus.policy.shell.walk import TextWalk

    Words = tuple[Word, ...]

_PLAIN = Wrapper()
_UV = Wrapper(
    flags="qvn",
    long_flags="""quiet verbose offline no-progress no-cache no-config native-tls
    no-python-downloads managed-python no-managed-python""",
    long_values="cache-dir color directory project config-file python-preference",
)
_UV_RUN = Wrapper(
    flags="qvnmsU",
    values="pifPC",
    long_flags="""quiet verbose offline no-progress no-cache no-config native-tls module script
    no-sync locked frozen active isolated exact no-project no-dev no-editable no-env-file only-dev
    dev all-extras all-groups all-packages no-default-groups reinstall upgrade no-build no-binary
    no-python-downloads managed-python no-managed-python""",
    long_values="""with with-editable with-requirements extra no-extra group no-group only-group
    package python directory project env-file index default-index index-url extra-index-url
    find-links refresh-package upgrade-package cache-dir config-setting config-file color
    index-strategy resolution prerelease exclude-newer link-mode python-platform
    python-preference""",
)
_CONDA_RUN = Wrapper(
    flags="v",
    values="np",
    long_flags="no-capture-output live-stream verbose",
    long_values="name prefix cwd",
)
_RTK = Wrapper(
    flags="vu",
    long_flags="verbose ultra-compact skip-env",
    ends=("-h", "-V", "--help", "--version"),
)
# Of these rtk runs the program of that name; others are words of its own.
_SHORTENED = frozenset(
    {
        *("cargo", "curl", "docker", "eslint", "find", "gh", "git", "go", "golangci-lint", "grep"),
        *("kubectl", "ls", "mypy", "next", "npm", "pip", "playwright", "pnpm", "prettier"),
        *("prisma", "proxy", "pytest", "ruff", "tree", "tsc", "vitest", "wc", "wget"),
    }
)


class Runner(Struct, frozen=True):
    """A *subcommand* with its options, and those that may stand before it."""

    subcommand: str
    options: Wrapper = _PLAIN
    before: Wrapper = _PLAIN


RUNNERS = {
    "bundle": Runner("exec", Wrapper(long_flags="keep-file-descriptors")),
    "conda": Runner("run", _CONDA_RUN),
    "mamba": Runner("run", _CONDA_RUN),
    "pdm": Runner("run", Wrapper(flags="s", long_flags="site-packages")),
    "pipenv": Runner("run", before=Wrapper(flags="qv", long_flags="quiet verbose")),
    "pnpm": Runner(
        "exec",
        before=Wrapper(
            flags="rw", values="CF", long_flags="recursive workspace-root", long_values="dir filter"
        ),
    ),
    "poetry": Runner(
        "run",
        before=Wrapper(
            flags="qvn",
            values="CP",
            long_flags="quiet verbose no-interaction no-plugins",
            long_values="directory project",
        ),
    ),
    "rye": Runner("run"),
    "uv": Runner("run", _UV_RUN, _UV),
}
"""Sources: the reference of each program's command line."""


def read_runner(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Read what the program *name* runs, if its subcommand is the one that runs programs."""
    runner = RUNNERS[name]
    if not any(word.text == runner.subcommand or not word.known for word in words):
        return
    before = parse_words(name, runner.before, words, run, walk)
    if before is None or not before.rest or before.rest[0].text != runner.subcommand:
        return
    wrapper = f"{name} {runner.subcommand}"
    parsed = parse_words(wrapper, runner.options, before.rest[1:], run, walk)
    if parsed is None or not parsed.rest:
        return
    names = {option for option, _ in [*before.options, *parsed.options]}
    rest = parsed.rest
    if names & {"-m", "--module"}:
        rest = (Word("python"), Word("-m"), *rest)
    elif names & {"-s", "--script"} or rest[0].text.endswith(".py"):
        rest = (Word("python"), *rest)
    inside = state.copy()
    if names & {"--directory", "--cwd", "-C"}:
        inside.folder = None
    walk.run_words(rest, run.wrapped(wrapper, len(walk.commands)), walk, inside)


def read_rtk(name: str, words: Words, run: Run, walk: TextWalk, state: ShellState) -> None:
    """Read what rtk runs to shorten what it prints."""
    parsed = parse_words(name, _RTK, words, run, walk)
    rest = parsed.rest if parsed is not None else ()
    if rest and rest[0].text in _SHORTENED:
        rest = rest[1:] if rest[0].text == "proxy" else rest
        if rest:
            walk.run_words(rest, run.wrapped(name, len(walk.commands)), walk, state.copy())
