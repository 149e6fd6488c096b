"""The command line: parse, call one function, give its exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn, TypeAlias

from toolbus.errors import ToolbusError
from toolbus.terminal import Output, UsageError

Command: TypeAlias = tuple[argparse.ArgumentParser, Callable[[argparse.Namespace, Output], int]]

_OVERVIEW = """\
commands:
  demo     watch an agent work, and handlers intervene
  wiring   print who handles what, in the order in which they run

examples:
  toolbus demo                       a run in a fresh folder, which is kept
  toolbus demo --without Secrets     the same without one of its handlers
  toolbus wiring agent.py            the handlers of the agent in agent.py
  toolbus demo --json | jq .totals   for programs

exit codes: 0 all is well, 1 something expected did not happen, 2 wrong use,
130 interrupted"""

_DEMO = """\
examples:
  toolbus demo                           a new world, drawn at random
  toolbus demo --seed 7                  the world of seed 7, each time the same
  toolbus demo --dir look --seed 7       keep its files in the folder look
  toolbus demo --without NoDestruction   see what happens without that handler
  toolbus demo --json | jq .checks       one JSON document

It needs git and a POSIX shell; no key, no network, no server. It ends with 0 if
every intervention happened, with 1 if one is missing, and names that one."""

_WIRING = """\
examples:
  toolbus wiring agent.py            the only agent, bus or component there
  toolbus wiring agent.py:bus        what is called bus there
  toolbus wiring agent.py:make       what the function make returns
  toolbus wiring agent.py --json     one JSON document

The file is run as `import` runs it. A component, or its class, is installed
on an empty bus."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what *arguments*, else those of the process, say; return the exit code."""
    output = Output(sys.stdout)
    try:
        code = _run(sys.argv[1:] if arguments is None else list(arguments), output)
    except SystemExit as stop:
        # That is how argparse ends, after help and after wrong use.
        code = stop.code if isinstance(stop.code, int) else 0
    except UsageError as error:
        Output(sys.stderr).write(f"toolbus: {error}\n")
        code = 2
    except (ToolbusError, OSError) as error:
        Output(sys.stderr).write(f"toolbus: {error}\n")
        code = 1
    except KeyboardInterrupt:
        Output(sys.stderr).write("\ntoolbus: interrupted\n")
        code = 130
    return _closed(output, code)


class Parser(argparse.ArgumentParser):
    """A parser that names the option that was probably meant."""

    def parse_all(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse *arguments*; exits with 2 if there is one that nobody knows."""
        found, strange = self.parse_known_args(arguments)
        for word in strange:
            kind = "option" if word.startswith("-") else "argument"
            known = [option for option in self._option_string_actions if option.startswith("--")]
            self.error(f"unknown {kind} {word!r}{_nearest(word.partition('=')[0], known)}")
        return found

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, and where to read on."""
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def _run(words: list[str], output: Output) -> int:
    if words and not words[0].startswith("-"):
        if words[0] not in _COMMANDS:
            near = _nearest(words[0], tuple(_COMMANDS)) or f"; there is {', '.join(_COMMANDS)}"
            raise UsageError(f"unknown command {words[0]!r}{near}; see `toolbus --help`")
        parser, command = _COMMANDS[words[0]]()
        return command(parser.parse_all(words[1:]), output)
    parser = _parser(
        "toolbus", "An event bus between an AI agent's model, tools and transcript.", _OVERVIEW
    )
    parser.usage = "toolbus COMMAND [options]"
    parser.add_argument("--version", action="store_true", help="print the version")
    if not parser.parse_all(words).version:
        parser.error("which command?")
    output.write(f"toolbus {_version()}\n")
    return 0


def _demo() -> tuple[Parser, Callable[[argparse.Namespace, Output], int]]:
    parser = _parser(
        "toolbus demo", "Watch an agent work on real files, and handlers intervene.", _DEMO
    )
    parser.add_argument("--dir", help="an empty or new folder for the files of the run")
    parser.add_argument("--seed", type=_seed, metavar="N", help="draw the same world again")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="leave out a handler's component",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(found: argparse.Namespace, output: Output) -> int:
        from toolbus.demo import run_demo  # noqa: PLC0415 - loads the whole house

        return run_demo(
            output,
            folder=found.dir,
            seed=found.seed,
            without=found.without,
            as_json=found.json,
            program=_program(),
        )

    return parser, run


def _wiring() -> tuple[Parser, Callable[[argparse.Namespace, Output], int]]:
    parser = _parser(
        "toolbus wiring", "Print who handles what, in the order in which they run.", _WIRING
    )
    parser.add_argument("target", metavar="FILE.py[:name]", help="an agent, a bus or a component")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(found: argparse.Namespace, output: Output) -> int:
        from toolbus.wiring import show_wiring  # noqa: PLC0415 - loads the whole house

        return show_wiring(output, found.target, as_json=found.json)

    return parser, run


_COMMANDS = {"demo": _demo, "wiring": _wiring}


def _parser(prog: str, description: str, epilog: str) -> Parser:
    return Parser(
        prog=prog,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a whole number, not {text!r}")
    return int(text)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow, for few

    try:
        return version("toolbus")
    except PackageNotFoundError:
        return "(not installed)"


def _nearest(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, 1, 0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def _program() -> tuple[str, ...]:
    """Return how the person called us, for commands that can be copied."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return Path(sys.executable).name, "-m", "toolbus"
    if called.parent == Path() or str(called.parent) in os.get_exec_path():
        return (called.name or "toolbus",)
    return (os.path.relpath(called) if called.is_relative_to(Path.cwd()) else str(called),)


def _closed(output: Output, code: int) -> int:
    """Return the exit code, and see to it that Python does not stumble over a lost stdout."""
    try:
        sys.stdout.flush()
    except OSError as error:
        output.lost = output.lost or error
    if output.lost is None:
        return code
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # A reader that has seen enough is no failure; a full disk is.
    if isinstance(output.lost, BrokenPipeError):
        return code
    Output(sys.stderr).write(f"toolbus: the output cannot be written: {output.lost.strerror}\n")
    return 1
