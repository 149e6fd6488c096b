"""`toolbus policy`: write, check, explain and test a policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.parsing import Parser, add_action, make_parser

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

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
        from toolbus.inspect import policies  # noqa: PLC0415 - loads the policy's engine

        match parsed.action:
            case "init":
                return policies.write_policy(output, parsed.file, personal=parsed.personal)
            case "check":
                tools = policies.ToolSources(parsed.tools, tuple(parsed.mcp))
                return policies.check(output, parsed.file, tools, as_json=parsed.json)
            case "explain":
                asked = policies.AskedCall(
                    parsed.tool, parsed.command, parsed.arguments, parsed.folder, parsed.agent
                )
                return policies.explain(output, parsed.file, asked, as_json=parsed.json)
        table, folder = parsed.table, parsed.folder
        return policies.compare(output, parsed.file, table, folder, as_json=parsed.json)

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
