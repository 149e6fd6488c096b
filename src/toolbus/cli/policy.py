"""`toolbus policy`: write, check, explain and test a policy."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from contextlib import AsyncExitStack
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output
from toolbus.cli.parser import Parser, add_action, make_parser
from toolbus.config.documents import NAME
from toolbus.config.targets import load
from toolbus.errors import ConfigurationError, LoadError, ToolServerError
from toolbus.events.catalogue import Scope
from toolbus.messages.records import ToolCall, encode
from toolbus.policy.call_reader import CallReader, LineMemory
from toolbus.policy.projects import process_folder, project_at
from toolbus.policy.rules.policy_file import PolicyFile, read_policy
from toolbus.policy.tools import explanation, verdict_tables
from toolbus.policy.tools.diagnostics import Remark, check_policy
from toolbus.settings.files import reason_of
from toolbus.settings.spans import Span, sanitize
from toolbus.settings.usage_error import UsageError
from toolbus.settings.user_folders import config_folder

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parser import Command
    from toolbus.events.catalogue import ToolSpec
    from toolbus.policy.rules.records import PolicyRules

_EPILOG = """\
of check, explain and test:
  --json                write one JSON document

examples:
  toolbus policy init                    write policy.toml, to start with
  toolbus policy init --personal         ... your own, for every project
  toolbus policy check policy.toml       what is wrong with it, line by line
  toolbus policy check policy.toml --tools agent.py      ... and with its tools
  toolbus policy check policy.toml --mcp "npx -y @scope/server"
  toolbus policy explain policy.toml --command 'cd x && git push -f'
  toolbus policy explain policy.toml --tool read --arguments '{"path": "x"}'
  toolbus policy test policy.toml calls.toml     calls and their verdicts

A policy is put in force by a toolbus.toml:

  [[component]]
  use = "policy"
  settings = { file = "policy.toml" }

A table of calls is a file of TOML or JSON Lines; in TOML a row of it is

  [[call]]
  command = "git push --force"
  verdict = "deny"
  after = ["pytest", { tool = "pay", outcome = "error", seconds_ago = 60 }]

`after` names the earlier calls of the same session, in their order: each has
run. A call among them that the policy denies makes the row fail.

It judges commands; it is no sandbox: `pydoc toolbus.policy.policy` says what
that means. It ends with 1 if something is wrong, or a verdict is another."""

_OF_FILE = 'folder = "."        # the project: where this file is\n'
_READING = 'name = "reading"'
_OF_SESSION = 'project = "session"         # ./ is the folder in which a session began\n'


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus policy", "Write, check, explain and test a policy.", _EPILOG)
    actions = parser.add_subparsers(
        dest="action", metavar="init|check|explain|test", required=True, parser_class=Parser
    )
    _add_init(add_action(actions, "init", "write a policy to start with"))
    _add_check(add_action(actions, "check", "say what is wrong with a policy"))
    _add_explain(add_action(actions, "explain", "say why a call gets its verdict"))
    _add_test(add_action(actions, "test", "compare the verdicts of calls with a table"))

    def run(parsed: argparse.Namespace, output: Output) -> int:
        match parsed.action:
            case "init":
                return write_policy(output, parsed.file, personal=parsed.personal)
            case "check":
                tools = ToolSources(parsed.tools, tuple(parsed.mcp))
                return check(output, parsed.file, tools, as_json=parsed.json)
            case "explain":
                asked = AskedCall(
                    parsed.tool, parsed.command, parsed.arguments, parsed.folder, parsed.agent
                )
                return explain(output, parsed.file, asked, as_json=parsed.json)
        table, folder = parsed.table, parsed.folder
        return compare(output, parsed.file, table, folder, as_json=parsed.json)

    return parser, run


def _add_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=Path,
        help="a new file (policy.toml; with --personal in ~/.config/toolbus)",
    )
    parser.add_argument(
        "--personal",
        action="store_true",
        help="your own, for all projects: ./ is the folder in which a session began",
    )


def _add_check(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument(
        "--tools", metavar="TARGET", help="FILE.py[:name] or a toolbus.toml that has the tools"
    )
    parser.add_argument(
        "--mcp", metavar="SERVER", action="append", default=[], help="a command or an address"
    )
    parser.add_argument("--json", action="store_true", help="write one JSON document")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("--tool", metavar="NAME", default="shell", help="the tool (shell)")
    parser.add_argument("--command", metavar="LINE", help="the command of a shell")
    parser.add_argument("--arguments", metavar="JSON", help="the arguments, as a JSON object")
    _add_folder(parser)
    parser.add_argument("--agent", metavar="ID", default="", help="who calls")
    parser.add_argument("--json", action="store_true", help="write one JSON document")


def _add_test(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("table", metavar="TABLE", type=Path, help="calls and verdicts")
    _add_folder(parser)
    parser.add_argument("--json", action="store_true", help="write one JSON document")


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", metavar="DIR", type=Path, help="where the tool works, and a session began"
    )


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="the policy")


class ToolSources(NamedTuple):
    """Where the tools are that rules are compared with: a *target*, commands of MCP *servers*."""

    target: str | None = None
    servers: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.target or self.servers)


class AskedCall(NamedTuple):
    """A call to explain: of *tool*, with a *command* or *arguments* in JSON, from *folder*."""

    tool: str = "shell"
    command: str | None = None
    arguments: str | None = None
    folder: Path | None = None
    agent: str = ""


class PolicyReport(Struct, frozen=True, kw_only=True):
    """What is wrong with the policy *file*, and how many rules it has."""

    file: str
    rules: int
    remarks: tuple[Remark, ...]


def write_policy(output: Output, file: Path | None = None, *, personal: bool = False) -> int:
    """Write the policy to start with to *file*, which must not be there; return 0.

    One in the folder of the person's own settings, or any that is *personal*, is for the project
    of each session; a personal one without a *file* is put there.
    """
    personal_folder = config_folder()
    file = file or (_own_policy(personal_folder) if personal else Path("policy.toml"))
    path = Path(os.path.realpath(file.parent)) / file.name
    named_in, name = "a toolbus.toml", os.path.relpath(path)
    is_inside = personal_folder is not None and path.is_relative_to(personal_folder)
    if personal_folder is not None and (personal or is_inside):
        named_in = str(personal_folder / NAME)
        name = os.path.relpath(path, personal_folder) if is_inside else str(path)
    text = starting_policy(personal=personal or is_inside)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"{str(file)!r} is there already; name another file") from None
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {reason_of(error)}") from None
    screen = open_screen(output)
    screen.whole(f"{file} is written; read it, then name it in {named_in}:")
    settings = f"settings = {{ file = {name!r} }}"
    for line in ("", "[[component]]", 'use = "policy"', settings):
        screen.whole(line.replace("'", '"'), indent=2 if line else 0)
    return 0


def starting_policy(*, personal: bool, skips_prompts: bool = False) -> str:
    """Return the policy to start with; a *personal* one is for the project of each session.

    With *skips_prompts* its rule on reading answers a coding agent's own prompt.
    """
    text = files("toolbus.policy").joinpath("starting_policy.toml").read_text("utf-8")
    text = text.replace(_OF_FILE, _OF_SESSION) if personal else text
    return text.replace(_READING, f'prompt = "skip"\n{_READING}') if skips_prompts else text


def _own_policy(folder: Path | None) -> Path:
    if folder is None:
        raise UsageError("there is no home folder for a policy of your own; name a file")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / "policy.toml"


def check(output: Output, file: Path, tools: ToolSources, *, as_json: bool = False) -> int:
    """Print what is wrong with *file*; return 0, 1 if something is, 2 if it cannot be read.

    Raises `LoadError`.
    """
    policy = PolicyFile(file)
    if mistakes := policy.mistakes():
        return _show_mistakes(output, policy, mistakes, as_json=as_json)
    specs = asyncio.run(_specs(tools)) if tools else None
    remarks = check_policy(policy, specs)
    count = len(policy.table.get("rule", ()))
    if as_json:
        report = PolicyReport(file=str(file), rules=count, remarks=tuple(remarks))
        output.write(f"{encode(report).decode()}\n")
        return 1 if remarks else 0
    screen = open_screen(output)
    for line, kind, text in remarks:
        screen.whole(
            f"{file}:{line or 1}: {kind}: {text}", style="bad" if kind == "error" else "changed"
        )
    rules = "1 rule" if count == 1 else f"{count} rules"
    if not remarks:
        screen.line(Span(f"✓ {rules}, and nothing to say about them", "good"))
    return 1 if remarks else 0


def _show_mistakes(
    output: Output, policy: PolicyFile, mistakes: list[ConfigurationError], *, as_json: bool
) -> int:
    """Write why *policy* cannot be read, each reason as the error that it is; return 2."""
    if as_json:
        remarks = tuple([Remark(each.line, "error", each.reason) for each in mistakes])
        report = PolicyReport(file=str(policy.file), rules=0, remarks=remarks)
        output.write(f"{encode(report).decode()}\n")
    for each in mistakes:
        Output(sys.stderr).write(f"error: {sanitize(str(each))}\n")
    return 2


def explain(output: Output, file: Path, asked: AskedCall, *, as_json: bool = False) -> int:
    """Print why the call *asked* about gets its verdict; return 0. Raises `LoadError`."""
    rules, folder = _rules_in(file, asked.folder)
    reader = CallReader(rules, LineMemory())
    facts = reader.facts(_call(asked), None, Scope(agent_id=asked.agent), folder)
    explained = explanation.explain(rules, facts)
    if as_json:
        output.write(f"{encode(explained).decode()}\n")
    else:
        explanation.show(explained, open_screen(output))
    return 0


def compare(
    output: Output,
    file: Path,
    table: Path,
    folder: Path | None = None,
    *,
    as_json: bool = False,
) -> int:
    """Print which rows of *table* get another verdict; return 0, or 1 if one does.

    *folder* is where the tools work, as `explain` takes it.
    """
    (rules, working), rows = _rules_in(file, folder), verdict_tables.read_rows(table)
    results = list(verdict_tables.check_rows(rules, rows, working))
    different = [result for result in results if result.difference]
    if as_json:
        output.write(f"{encode(results).decode()}\n")
        return 1 if different else 0
    screen = open_screen(output)
    for result in different:
        row = result.row
        screen.whole(f"{table}:{row.line}: {row.shown}", style="strong")
        screen.whole(result.difference, indent=2, style="bad")
        screen.whole(f"{result.decided_by}: {result.why}", indent=2, style="dim")
    count = f"{len(results) - len(different)} of {len(results)} verdicts are as expected"
    screen.line(Span(count, "bad" if different else "good"))
    project = None if rules.project is None else rules.project.folder
    explanation.show_project(project, rules.fault, screen)
    return 1 if different else 0


def _rules_in(file: Path, folder: Path | None) -> tuple[PolicyRules, str | None]:
    """Return the rules of *file* for a session in *folder*, and where its tools work.

    Without a folder that is unknown, and of rules for a session's project the current one.
    """
    start = os.path.realpath(process_folder() if folder is None else folder)
    rules = read_policy(file, project_at(start))
    if folder is None:
        return rules, process_folder() if rules.works_here else None
    return rules, os.path.abspath(folder)  # noqa: PTH100 - links stay


def _call(asked: AskedCall) -> ToolCall:
    if (asked.command is None) == (asked.arguments is None):
        raise UsageError("which call? give --command LINE, or --arguments JSON")
    if asked.arguments is None:
        return ToolCall(id="call", name=asked.tool, arguments={"command": asked.command})
    try:
        arguments = json.loads(asked.arguments)
    except ValueError as error:
        raise UsageError(f"--arguments is no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise UsageError(f"--arguments is no JSON object: {asked.arguments!r}")
    return ToolCall(id="call", name=asked.tool, arguments=arguments)


async def _specs(sources: ToolSources) -> list[ToolSpec]:
    """Return what tools say of themselves; raises `LoadError` and `ToolServerError`."""
    specs = [] if sources.target is None else list(load(sources.target).host.tools.specs)
    async with AsyncExitStack() as opened:
        for server in sources.servers:
            try:
                from toolbus.mcp.client import tools  # noqa: PLC0415 - it needs an extra

                name, *words = shlex.split(server) or [""]
                toolset = await opened.enter_async_context(tools(name, words))
            except (ImportError, ValueError, ToolServerError) as error:
                raise LoadError(f"--mcp {server!r}: {error}") from error
            specs += toolset.specs
    return specs
