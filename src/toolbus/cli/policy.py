"""`toolbus policy`: creation, check, explanation, test and growth of a policy."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.cli.assembly import open_servers
from toolbus.cli.options import STORE_HELP
from toolbus.cli.output.blocks import count_things, print_json
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output, busy_line
from toolbus.cli.parser import Parser, add_action, make_parser
from toolbus.cli.suggest import suggest
from toolbus.config.documents import NAME
from toolbus.config.targets import load
from toolbus.events.catalogue import Scope
from toolbus.messages.records import ToolCall
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.projects import process_folder, project_at
from toolbus.policy.rules.policy_file import PolicyFile, read_policy
from toolbus.policy.shared_facts import StatedFacts
from toolbus.policy.tools import explanation, verdict_tables
from toolbus.policy.tools.diagnostics import Diagnostic, check_policy
from toolbus.settings.files import reason_of
from toolbus.settings.spans import Span, Style, sanitize
from toolbus.settings.usage_error import UsageError
from toolbus.settings.user_folders import config_folder

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.parser import Command
    from toolbus.events.catalogue import ToolSpec
    from toolbus.policy.rules.records import PolicyRules
    from toolbus.policy.tools.explanation import Explanation, PartExplanation, RuleExplanation

_EPILOG = """\
options of check, explain, test and suggest:
  --json                write one JSON document

examples:
  toolbus policy init                    write policy.toml, a starting point
  toolbus policy init --personal         ... your own, for all projects
  toolbus policy check policy.toml       its mistakes, line by line
  toolbus policy check policy.toml --tools agent.py --mcp "npx -y @scope/server"
  toolbus policy explain policy.toml --command 'cd x && git push -f'
  toolbus policy explain policy.toml --tool read --arguments '{"path": "x"}'
  toolbus policy test policy.toml calls.toml     compare verdicts with a table
  toolbus policy suggest                 rules for what you keep allowing
  toolbus policy suggest --write         ... and add those that you take

A toolbus.toml activates a policy:

  [[component]]
  use = "policy"
  settings = { file = "policy.toml" }

A table of calls is TOML, or JSON Lines of the same keys; `after` names earlier
calls of the session, in order, and the policy must allow each:

  [[call]]
  command = "git push --force"
  verdict = "deny"
  after = ["pytest", { tool = "pay", outcome = "error", seconds_ago = 60 }]

For rules on the origin of words a call also has `in_view` and `carries`, tables
of words by label and by kind of value, and `named`, a list of addresses.

A policy judges calls; it is not a sandbox. See `toolbus guide policy`.

exit codes: 0 no problems; 1 problems, or another verdict; 2 usage error, or a
file that cannot be read"""

_SUGGEST_EPILOG = """\
examples:
  toolbus policy suggest               the store of the hooks, the active policy
  toolbus policy suggest agent.db --policy policy.toml
  toolbus policy suggest --write       take (y) or leave (n) each rule

Rules come from what you keep allowing; see `toolbus guide policy-suggest`.

exit codes: 0 done, also if you take no rule; 1 ended by Ctrl-D, nothing is
written; 2 usage error, or a file that cannot be used"""

_OF_FILE = 'folder = "."        # the project: the folder of this file\n'
_OF_SESSION = 'project = "session"         # ./ is the folder in which a session began\n'
_READING = 'name = "reading"'

_STYLES: dict[str, Style] = {"allow": "good", "ask": "asked", "deny": "bad"}
_SIGNS: dict[str, Span] = {
    "allowed": Span("✓", "good"),
    "asked": Span("?", "asked"),
    "denied": Span("✗", "bad"),
    "failed": Span("!", "bad"),
    "audited": Span("·", "changed"),
    "not run": Span("·", "dim"),
}


class PolicyReport(Struct, frozen=True, kw_only=True):
    """The number of rules in the policy *file*, and its problems."""

    file: str
    rules: int
    remarks: tuple[Diagnostic, ...]


def command() -> Command:
    """Return the parser and the function of this command."""
    parser = make_parser(
        "toolbus policy", "Write, check, explain, test and extend a policy.", _EPILOG
    )
    actions = parser.add_subparsers(
        dest="action", metavar="init|check|explain|test|suggest", required=True, parser_class=Parser
    )
    _add_init(add_action(actions, "init", "write a policy as a starting point"))
    _add_check(add_action(actions, "check", "list the mistakes of a policy"))
    _add_explain(add_action(actions, "explain", "explain the verdict on a call"))
    _add_test(add_action(actions, "test", "compare the verdicts on calls with a table"))
    title = "propose rules for calls that you keep allowing"
    _add_suggest(add_action(actions, "suggest", title, _SUGGEST_EPILOG))
    runs = {"init": _init, "check": _check, "explain": _explain, "test": _test, "suggest": suggest}

    def run(parsed: argparse.Namespace, output: Output) -> int:
        return runs[parsed.action](parsed, output)

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
    parser.add_argument("file", metavar="FILE", type=Path, help="the policy")
    parser.add_argument(
        "--tools",
        metavar="TARGET",
        help="compare with the tools of FILE.py[:name] or a toolbus.toml",
    )
    parser.add_argument(
        "--mcp",
        metavar="SERVER",
        action="append",
        default=[],
        help="... of an MCP server: a command in quotes, or a URL",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON document")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="the policy")
    parser.add_argument("--tool", metavar="NAME", default="shell", help="the tool (shell)")
    parser.add_argument("--command", metavar="LINE", help="a shell command")
    parser.add_argument("--arguments", metavar="JSON", help="the arguments, as a JSON object")
    parser.add_argument("--agent", metavar="ID", default="", help="the calling agent")
    _add_folder(parser)


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="the policy")
    parser.add_argument("table", metavar="TABLE", type=Path, help="calls and verdicts")
    _add_folder(parser)


def _add_suggest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stores", metavar="STORE", nargs="*", help=STORE_HELP)
    parser.add_argument(
        "--policy", metavar="FILE", type=Path, help="default: that of the active configuration"
    )
    parser.add_argument("--write", action="store_true", help="ask for each rule, and add it")
    parser.add_argument("--json", action="store_true", help="write one JSON document")


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", metavar="DIR", type=Path, help="folder of the session and of its tools"
    )
    parser.add_argument("--json", action="store_true", help="write one JSON document")


# --- init ----------------------------------------------------------------------------------------


def _init(parsed: argparse.Namespace, output: Output) -> int:
    """Write a new policy, for all projects if it is personal, or lies beside the user's own."""
    # The file's place decides both its content and the name by which a configuration finds it.
    folder = config_folder()
    file: Path = parsed.file or (_own_policy(folder) if parsed.personal else Path("policy.toml"))
    path = Path(os.path.realpath(file.parent)) / file.name
    named_in, name = "a toolbus.toml", os.path.relpath(path)
    is_inside = folder is not None and path.is_relative_to(folder)
    if folder is not None and (parsed.personal or is_inside):
        named_in = str(folder / NAME)
        name = os.path.relpath(path, folder) if is_inside else str(path)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(starting_policy(personal=parsed.personal or is_inside))
    except FileExistsError:
        raise UsageError(f"{str(file)!r} exists; name another file") from None
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {reason_of(error)}") from None
    screen = open_screen(output)
    screen.whole(f"{file} is written; read it, then name it in {named_in}:")
    settings = f'settings = {{ file = "{name}" }}'
    component = "[[component]]"
    # Its rules on the origin of words ask about more calls without `flow`.
    for line in ("", component, 'use = "flow"', "", component, 'use = "policy"', settings):
        screen.whole(line, indent=2 if line else 0)
    return 0


def starting_policy(*, personal: bool, skips_prompts: bool = False) -> str:
    """Return the text of a new policy; a *personal* policy applies to the project of each session.

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


# --- check ---------------------------------------------------------------------------------------


def _check(parsed: argparse.Namespace, output: Output) -> int:
    """Print the mistakes of a policy; return 0, 1 if there are any, 2 if it cannot be read."""
    # Each outcome has an exit code and two forms, JSON and lines, which must agree.
    policy = PolicyFile(parsed.file)
    if mistakes := policy.mistakes():
        if parsed.json:
            remarks = tuple([Diagnostic(each.line, "error", each.reason) for each in mistakes])
            print_json(output, PolicyReport(file=str(policy.file), rules=0, remarks=remarks))
        for each in mistakes:
            Output(sys.stderr).write(f"error: {sanitize(str(each))}\n")
        return 2
    specs = None
    if parsed.tools or parsed.mcp:
        with busy_line("reading tools"):
            specs = asyncio.run(_specs(parsed))
    remarks = tuple(check_policy(policy, specs))
    count = len(policy.table.get("rule", ()))
    if parsed.json:
        print_json(output, PolicyReport(file=str(policy.file), rules=count, remarks=remarks))
        return 1 if remarks else 0
    screen = open_screen(output)
    for line, kind, text in remarks:
        style: Style = "bad" if kind == "error" else "changed"
        screen.whole(f"{policy.file}:{line or 1}: {kind}: {text}", style=style)
    if not remarks:
        screen.line(Span(f"✓ {count_things(count, 'rule')}, no problems", "good"))
    return 1 if remarks else 0


async def _specs(parsed: argparse.Namespace) -> list[ToolSpec]:
    """Return the specs of the tools to compare with."""
    specs = [] if parsed.tools is None else list(load(parsed.tools).host.tools.specs)
    async with AsyncExitStack() as opened:
        for toolset in await open_servers(opened, parsed.mcp, (), Output(sys.stderr)):
            specs += toolset.specs
    return specs


# --- explain -------------------------------------------------------------------------------------


def _explain(parsed: argparse.Namespace, output: Output) -> int:
    rules, folder = _rules_in(parsed.file, parsed.folder)
    reader = CallReader(rules, LineCache())
    facts = reader.facts(
        _call(parsed), None, Scope(agent_id=parsed.agent), folder, origins=StatedFacts()
    )
    explained = explanation.explain(rules, facts)
    if parsed.json:
        print_json(output, explained)
    else:
        _show_explanation(explained, open_screen(output))
    return 0


def _rules_in(file: Path, folder: Path | None) -> tuple[PolicyRules, str | None]:
    """Return the rules of *file* for a session in *folder*, and the folder of its tools.

    Without *folder* that of the tools is unknown, or the current one for rules on a session's
    project.
    """
    start = os.path.realpath(process_folder() if folder is None else folder)
    rules = read_policy(file, project_at(start))
    if folder is None:
        return rules, process_folder() if rules.works_here else None
    return rules, os.path.abspath(folder)  # noqa: PTH100 - keeps symlinks


def _call(parsed: argparse.Namespace) -> ToolCall:
    if (parsed.command is None) == (parsed.arguments is None):
        raise UsageError("which call? give --command LINE, or --arguments JSON")
    if parsed.arguments is None:
        return ToolCall(id="call", name=parsed.tool, arguments={"command": parsed.command})
    try:
        arguments = json.loads(parsed.arguments)
    except ValueError as error:
        raise UsageError(f"--arguments: expected JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise UsageError(f"--arguments: expected a JSON object, got {parsed.arguments!r}")
    return ToolCall(id="call", name=parsed.tool, arguments=arguments)


def _show_explanation(explained: Explanation, screen: Screen) -> None:
    for part in explained.parts:
        _show_part(part, screen)
        screen.line()
    if explained.failure:
        screen.prose(explained.failure, style="bad")
    where = explained.folder or "an unknown folder"
    text = f"{explained.verdict}  {explained.tool} in {where}"
    screen.whole(text, style=_STYLES[explained.verdict])
    if explained.in_view:
        screen.prose(explained.in_view, style="dim")
    _show_project(explained.project, explained.path_warning, screen)


def _show_project(folder: str | None, path_warning: str, screen: Screen) -> None:
    """Write the *folder* taken as the session's project, and a *path_warning*."""
    if folder is not None:
        screen.whole(f"assuming a session that began in {folder}", style="dim")
    if path_warning:
        screen.prose(path_warning, style="asked")


def _show_part(part: PartExplanation, screen: Screen) -> None:
    screen.whole(part.source or "(nothing)", style="strong")
    if part.inside:
        screen.whole(f"run by {' > '.join(part.inside)}", indent=2, style="dim")
    screen.whole(f"does: {', '.join(part.effects) or 'unknown effects'}", indent=2)
    for path in part.paths:
        where = "" if path.folder in {".", None} else f" relative to {path.folder}"
        screen.whole(f"{path.kind}: {path.path}{where}", indent=2)
    for host in part.hosts:
        screen.whole(f"reaches: {host}", indent=2)
    for unknown in part.unknown:
        screen.whole(f"unknown: {unknown}", indent=2, style="asked")
    for rule in part.rules:
        _show_rule(rule, screen)
    decided = f"{part.verdict}, by {part.decided_by}: {part.why}".removesuffix(": ")
    screen.whole(decided, indent=2, style=_STYLES[part.verdict])


def _show_rule(rule: RuleExplanation, screen: Screen) -> None:
    sign = _SIGNS[rule.status]
    text = f"{sign.text} {rule.rule}  {rule.status}"
    text += f" ({rule.key})" if rule.key else ""
    text += f": {rule.why}" if rule.why else ""
    screen.whole(text, indent=2, style=sign.style)


# --- test ----------------------------------------------------------------------------------------


def _test(parsed: argparse.Namespace, output: Output) -> int:
    """Print the rows of a table with another verdict; return 0, or 1 if there are any."""
    rules, folder = _rules_in(parsed.file, parsed.folder)
    rows = verdict_tables.read_rows(parsed.table)
    results = list(verdict_tables.check_rows(rules, rows, folder))
    different = [result for result in results if result.difference]
    code = 1 if different else 0
    if parsed.json:
        print_json(output, results)
        return code
    screen = open_screen(output)
    for result in different:
        screen.whole(f"{parsed.table}:{result.row.line}: {result.row.shown}", style="strong")
        screen.whole(result.difference, indent=2, style="bad")
        screen.whole(f"{result.decided_by}: {result.why}", indent=2, style="dim")
    count = f"{len(results) - len(different)} of {len(results)} verdicts are as expected"
    screen.line(Span(count, "bad" if different else "good"))
    project = None if rules.project is None else rules.project.folder
    _show_project(project, rules.path_warning, screen)
    return code
