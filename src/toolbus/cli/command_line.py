"""The command line: parse, call one function, give its exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from toolbus.cli.output.stream import Output
from toolbus.cli.parser import Command, make_parser
from toolbus.errors import LoadError, ToolbusError, WrongPathError
from toolbus.settings.files import worded
from toolbus.settings.hints import nearest
from toolbus.settings.spans import sanitize
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Each is imported when it is asked for: before a proxy or a hook there is somebody who waits.
COMMANDS = (
    "approvals",
    "check",
    "completion",
    "copy",
    "demo",
    "doctor",
    "explain",
    "export",
    "forget",
    "guide",
    "hook",
    "hosts",
    "login",
    "logout",
    "pin",
    "policy",
    "proxy",
    "replay",
    "run",
    "sessions",
    "setup",
    "show",
    "trust",
    "wiring",
)

_OVERVIEW = """\
commands:
  approvals   show what waits for a person, and answer it
  check       say what is still readable of a store, and write it to a new file
  completion  print what lets your shell complete commands and options
  copy        take sessions from one store to another
  demo        watch an agent work, and handlers intervene
  doctor      say whether our hooks in coding agents work, and what they reach
  explain     tell the life of a message or call, and who changed it
  export      write the sessions of a store as JSON Lines
  forget      delete the originals that a session kept, or old sessions
  guide       tell how to do things, a page a topic
  hook        answer one event of a coding agent's hooks
  hosts       install hooks in coding agents, and take them out again
  login       log in at an MCP server at an address
  logout      forget the tokens of a login
  pin         accept tools as they are now, and say when they change
  policy      write, check, explain and test rules for calls
  proxy       put handlers in front of an MCP server
  replay      run recorded sessions through other handlers
  run         let an agent work on a prompt, with tools
  sessions    list the sessions of a store
  setup       put a policy, redaction and hooks in force for coding agents
  show        read a session: what was said and done
  trust       let a project's toolbus.toml be in force
  wiring      print who handles what, in the order in which they run

examples:
  toolbus demo                       a run in a fresh folder, which is kept
  toolbus guide                      how to do things, for a start
  toolbus wiring agent.py            the handlers of the agent in agent.py
  toolbus wiring                     those that your toolbus.toml names
  toolbus trust                      that of this project, too, as it is now
  toolbus run "what is in here?" --tools files     work, with your model
  toolbus sessions agent.db          what the store agent.db holds
  toolbus show agent.db 3f9a         the session whose id begins so
  toolbus explain agent.db 8c01      what became of a message of it, and why
  toolbus export agent.db -o a.jsonl         all sessions, as JSON Lines
  toolbus replay a.jsonl --with policy.py    what policy.py would have done
  toolbus check agent.db             whether the store is whole
  toolbus copy agent.db service=agents       its sessions, on PostgreSQL
  toolbus completion bash >> ~/.bashrc       bash completes commands and options
  toolbus pin toolbus.toml           accept the tools of its servers, as they are
  toolbus policy init                rules to start with, for your own project
  toolbus proxy --with policy.py -- ./server     an MCP server, with handlers
  toolbus hook pi tool_call < event.json     what a coding agent is told
  toolbus setup claude-code          the same rules in a coding agent
  toolbus hosts status               where hooks are installed
  toolbus doctor                     whether they work there
  toolbus approvals                  what waits for your yes or no
  toolbus login https://example.com/mcp      for a proxy in front of it
  toolbus logout https://example.com/mcp     forget its tokens
  toolbus forget agent.db 3f9a       delete what its handlers took out

exit codes: 0 all is well, 1 something expected did not happen, 2 wrong use,
130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what *arguments*, else those of the process, say; return the exit code."""
    output = Output(sys.stdout)
    try:
        code = _run(sys.argv[1:] if arguments is None else list(arguments), output)
    except SystemExit as stop:
        # That is how argparse ends, after help and after wrong use.
        code = stop.code if isinstance(stop.code, int) else 0
    except (UsageError, LoadError, WrongPathError) as error:
        Output(sys.stderr).write(f"toolbus: {sanitize(str(error))}\n")
        code = 2
    except (ToolbusError, OSError) as error:
        reason = worded(error) if isinstance(error, OSError) else error
        Output(sys.stderr).write(f"toolbus: {sanitize(str(reason))}\n")
        code = 1
    except KeyboardInterrupt:
        Output(sys.stderr).write("\ntoolbus: interrupted\n")
        code = 130
    return _closed(output, code)


def _run(words: list[str], output: Output) -> int:
    if words and not words[0].startswith("-"):
        if words[0] not in COMMANDS:
            near = nearest(words[0], COMMANDS) or f"; there is {', '.join(COMMANDS)}"
            raise UsageError(f"unknown command {words[0]!r}{near}; see `toolbus --help`")
        parser, command = command_of(words[0])
        return command(parser.parse_all(words[1:]), output)
    parser = make_parser(
        "toolbus", "An event bus between an AI agent's model, tools and transcript.", _OVERVIEW
    )
    parser.usage = "toolbus COMMAND [options]"
    parser.add_argument("--version", action="store_true", help="print the version")
    if not parser.parse_all(words).version:
        parser.error("which command?")
    output.write(f"toolbus {_version()}\n")
    return 0


def command_of(name: str) -> Command:
    """Return the parser of the command *name*, and its function."""
    made: Command = import_module(f"toolbus.cli.{name}").command()
    return made


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow, for few

    try:
        return version("toolbus")
    except PackageNotFoundError:
        return "(not installed)"


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
