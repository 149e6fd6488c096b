"""The entry point of `toolbus`: the list of commands, and the exit code of a call."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.output.stream import Output
from toolbus.cli.parser import Command, make_parser, renamed
from toolbus.errors import LoadError, RegistrationError, ToolbusError, WrongPathError
from toolbus.settings.files import format_os_error
from toolbus.settings.hints import nearest
from toolbus.settings.spans import sanitize
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "anchor": "sign the heads of a store's chains",
    "approvals": "list and answer the questions that wait for a person",
    "check": "check a store for damage, and recover its readable part",
    "completion": "print a shell's completion script",
    "copy": "copy sessions from one store to another",
    "demo": "watch an agent work, and handlers intervene",
    "diff": "compare two sessions step by step",
    "doctor": "test the hooks installed in coding agents",
    "explain": "print the history of a message or call",
    "export": "write sessions as JSON Lines, or as a page",
    "forget": "delete the originals of a session, or old sessions",
    "guide": "read a page of the guide",
    "handlers": "print the handlers of each event, in running order",
    "hook": "answer one event of a coding agent's hooks",
    "hosts": "install hooks in coding agents, and remove them",
    "login": "log in to a remote MCP server",
    "logout": "delete the tokens of a login",
    "pin": "accept tools as they are now, and report changes",
    "policy": "write, check, test and suggest rules for calls",
    "proxy": "run handlers in front of an MCP server",
    "replay": "run recorded sessions through other handlers",
    "run": "let an agent with tools work on a prompt",
    "runs": "list, cancel and retry durable runs",
    "schema": "print the JSON schema of toolbus.toml or of a policy",
    "sessions": "list the sessions of a store",
    "setup": "activate a policy, redaction and hooks for coding agents",
    "show": "print the messages and interventions of a session",
    "submit": "put a durable run on a queue",
    "trust": "trust the toolbus.toml of a project",
    "ui": "show the sessions of a store in the browser",
    "worker": "run the durable runs of a queue",
}
"""The commands with their summaries; each is a module of this package, imported when called."""

_EXAMPLES = """\
examples:
  toolbus demo                       a run in a new folder, which is kept
  toolbus guide                      the topics of the guide
  toolbus handlers agent.py          the handlers of the agent in agent.py
  toolbus handlers                   the handlers of your toolbus.toml
  toolbus trust                      trust this project's toolbus.toml, too
  toolbus run "what is in here?" --tools files     work, with your model
  toolbus sessions agent.db          the sessions in the store agent.db
  toolbus ui agent.db                the same in the browser, and more
  toolbus show agent.db 3f9a         the session with an id that begins so
  toolbus explain agent.db 8c01      a message's history, with all reasons
  toolbus diff agent.db 3f9a 8c01    what two sessions did differently
  toolbus export agent.db -o a.jsonl         all sessions, as JSON Lines
  toolbus export --html agent.db 3f9a        one session, as a page to send
  toolbus replay a.jsonl --with policy.py    the effects of policy.py on them
  toolbus check agent.db             whether the store is damaged
  toolbus anchor agent.db --to anchors.jsonl     sign its chains, for later
  toolbus copy agent.db service=agents       its sessions, to PostgreSQL
  toolbus completion bash >> ~/.bashrc       complete commands in bash
  toolbus schema > toolbus.schema.json       for your editor
  toolbus pin toolbus.toml           accept the current tools of its servers
  toolbus policy init                rules to start with, for your project
  toolbus proxy --with policy.py -- ./server     an MCP server, with handlers
  toolbus hook pi tool_call < event.json     the answer to a coding agent
  toolbus setup claude-code          the same rules in a coding agent
  toolbus hosts status               the coding agents with hooks
  toolbus doctor                     whether those hooks work
  toolbus approvals                  the questions that wait for you
  toolbus submit app.py:agent "go" --store agent.db     a run for a worker
  toolbus worker app.py:agent --store agent.db          runs it, kill or not
  toolbus runs --store agent.db      the runs that wait, run or failed
  toolbus login https://example.com/mcp      for a proxy in front of it
  toolbus logout https://example.com/mcp     delete its tokens
  toolbus forget agent.db 3f9a       delete the values that handlers removed

exit codes: 0 success, 1 findings or failure, 2 usage error, 130 interrupted"""


_NO_FEATURES = frozenset({"all", "dev", "mutation"})
"""Extras that only name other extras, or serve the development of toolbus."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of *arguments*, by default the process's own; return the exit code."""
    _open_streams()
    output = Output(sys.stdout)
    try:
        code = _run(sys.argv[1:] if arguments is None else list(arguments), output)
    except SystemExit as stop:
        # argparse exits so after help and after a usage error.
        code = stop.code if isinstance(stop.code, int) else 0
    except (UsageError, LoadError, RegistrationError, WrongPathError) as error:
        code = _report(error, 2)
    except (ToolbusError, OSError) as error:
        code = _report(error, 1)
    except KeyboardInterrupt:
        Output(sys.stderr).write("\ntoolbus: interrupted\n")
        code = 130
    if arguments is None:
        # The process ends. With msgspec 0.22 and pydantic loaded, the collection at the exit of
        # Python 3.11 crashes now and then, and the exit code is lost; frozen objects are skipped.
        gc.freeze()
    return _closed(output, code)


def _open_streams() -> None:
    """Open /dev/null for each closed standard stream, or a store would get its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - open to the end
            setattr(sys, name, stream)


def _report(error: Exception, code: int) -> int:
    text = format_os_error(error) if isinstance(error, OSError) else str(error)
    Output(sys.stderr).write(f"error: {sanitize(text)}\n")
    return code


def _run(words: list[str], output: Output) -> int:
    if words and not words[0].startswith("-"):
        if words[0] not in COMMANDS:
            hint = renamed("toolbus", words[0]) or nearest(words[0], COMMANDS)
            hint = hint or f"; commands: {', '.join(COMMANDS)}"
            raise UsageError(f"unknown command {words[0]!r}{hint}; see `toolbus --help`")
        parser, command = command_of(words[0])
        return command(parser.parse_all(words[1:]), output)
    parser = make_parser(
        "toolbus", "An event bus between an AI agent's model, tools and transcript.", _overview()
    )
    parser.usage = "toolbus COMMAND [options]"
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    parser.add_argument("--verbose", action="store_true", help="with --version: the extras, too")
    parsed = parser.parse_all(words)
    if not parsed.version:
        parser.error("the command is missing")
    output.write(f"toolbus {_version()}\n")
    if parsed.verbose and _is_installed("toolbus"):
        output.write("".join([f"  {extra}\n" for extra in _extras()]))
    return 0


def _overview() -> str:
    lines = [f"  {name:<10}  {summary}\n" for name, summary in COMMANDS.items()]
    return f"commands:\n{''.join(lines)}\n{_EXAMPLES}"


def command_of(name: str) -> Command:
    """Return the parser and the body of the command *name*."""
    made: Command = import_module(f"toolbus.cli.{name}").command()
    return made


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow, for few

    try:
        return version("toolbus")
    except PackageNotFoundError:
        return "(not installed)"


def _extras() -> list[str]:
    """Return a line for each extra: its name, and its packages that are not installed."""
    import re  # noqa: PLC0415 - slow, for few
    from importlib.metadata import metadata, requires  # noqa: PLC0415 - slow, for few

    lines = []
    for extra in sorted(set(metadata("toolbus").get_all("Provides-Extra", [])) - _NO_FEATURES):
        marker = re.compile(rf"extra == ['\"]{extra}['\"]")
        ours = [each for each in requires("toolbus") or () if marker.search(each)]
        names = {re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in ours} - {"toolbus"}
        missing = ", ".join([name for name in sorted(names) if not _is_installed(name)])
        lines.append(f"{extra}: {f'missing {missing}' if missing else 'installed'}")
    return lines


def _is_installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, metadata  # noqa: PLC0415 - slow, for few

    try:
        metadata(package)
    except PackageNotFoundError:
        return False
    return True


def _closed(output: Output, code: int) -> int:
    """Return the exit code, and keep Python from failing at exit over a closed stdout."""
    try:
        sys.stdout.flush()
    except OSError as error:
        output.lost = output.lost or error
    if output.lost is None:
        return code
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # A reader that leaves early is not a failure; a full disk is.
    if isinstance(output.lost, BrokenPipeError):
        return code
    Output(sys.stderr).write(f"error: the output cannot be written: {output.lost.strerror}\n")
    return 1
