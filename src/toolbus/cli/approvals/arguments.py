"""The arguments of `toolbus approvals` and its subcommands."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from toolbus.cli.options import STORE_HELP, store_address
from toolbus.cli.parser import Parser, add_action, make_parser
from toolbus.history.durations import seconds_in
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command

_EPILOG = """\
examples:
  toolbus approvals                         open questions, the oldest first
  toolbus approvals --watch                 ... and new ones, until Ctrl-C
  toolbus approvals --store agent.db --all  closed questions as well
  toolbus approvals show 8c01               one whole question
  toolbus approvals approve 8c01            show it page by page, then ask
  toolbus approvals approve 8c01 --for 1h   and allow similar calls for an hour
  toolbus approvals review --watch          answer questions one by one
  toolbus approvals deny 8c01 --reason "use the copy in /tmp"
  toolbus approvals settle 8c01 --never-ran     after a killed process
  toolbus approvals grants                  the active grants
  toolbus approvals revoke 77aa             end a grant

ID is the id of a question or the beginning of it. A question is about one
call: its tool and arguments, the guard that asks, and its rules. The first
answer counts, for this call alone, and only once.

states:
  pending    no answer yet
  approved   answered with yes; the call has not run yet
  taken      the call is running
  unknown    the process was killed while the call was running. It may have run,
             and does not run again; record the result with settle
  hosted     the coding agent asks its own user. It cannot be answered here, and
             toolbus does not learn the answer; approve --session or --for
             allows similar calls without a question
  done       the call ran
  unheard    no result was reported, so the user most likely refused it

Only a person answers, at a terminal without an agent. The model reads the
reason of a no. Exit code 1: the answer did not count."""

_SERVE = """\
The key is in the secret_file of your own toolbus.toml, by default in
~/.config/toolbus/approvals.secret. Only you may read it: "whsec_" and 24 to 64
random bytes in base64. Policies let no tool read a file of that folder whose
name ends with .secret or .key. To make a key:

  (umask 077; printf whsec_ > ~/.config/toolbus/approvals.secret
   openssl rand -base64 32 >> ~/.config/toolbus/approvals.secret)

A table [approvals.webhook] with `url` and `secret_file` in your toolbus.toml
sends each question to that URL, signed by the Standard Webhooks specification.
`data` has the `text` to show, `id`, `digest` and `whole`; a yes counts only if
`whole` is true.

An answer is a POST of {"id", "digest", "decision": "approve" or "deny", "by",
"reason"}, signed likewise; its webhook-id is answer_ID_DIGEST. It counts once,
within five minutes. For other machines, put a server with TLS in front."""


def command() -> Command:
    """Return the parser of the command, and its function."""
    parser = make_parser(
        "toolbus approvals", "List and answer questions about calls, from any terminal.", _EPILOG
    )
    _add_store(parser, None)
    _add_reading(parser, default=False)
    parser.add_argument("--watch", action="store_true", help="and new questions")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=Parser)
    _add_reading_actions(actions)
    _add_answers(actions)

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.watch and (parsed.action not in {None, "list", "review"} or parsed.all):
            parser.error("--watch is an option of list and review, without --all")
        try:
            address = store_address(parsed.store)
        except UsageError as error:
            raise UsageError(f"{error} by --store STORE") from error
        match parsed.action:
            case "approve" | "deny" | "settle" | "revoke" | "review":
                return _answer(parsed, address, output)
            case "serve":
                try:
                    from toolbus.cli.approvals.serve import serve_answers  # noqa: PLC0415
                except ImportError as error:  # Of the extra.
                    raise UsageError(str(error)) from error
                return serve_answers(output, address, parsed.listen)
        return _read(parsed, address, output)

    return parser, run


def _add_reading_actions(actions: argparse._SubParsersAction[Parser]) -> None:
    hidden = argparse.SUPPRESS
    for name, text in (("list", "list the questions"), ("grants", "list the active grants")):
        reading = add_action(actions, name, text)
        _add_store(reading, hidden)
        _add_reading(reading, default=hidden)
        if name == "list":
            reading.add_argument(
                "--watch", action="store_true", default=hidden, help="and new questions"
            )
    show = _add_named(actions, "show", "show one whole question")
    show.add_argument("--json", action="store_true", default=hidden, help="write JSON")
    show.add_argument("--no-pager", action="store_true", help="write without a pager")
    _add_verbose(show)


def _add_answers(actions: argparse._SubParsersAction[Parser]) -> None:
    hidden = argparse.SUPPRESS
    review = add_action(actions, "review", "answer the pending questions one by one")
    _add_store(review, hidden)
    review.add_argument("--watch", action="store_true", default=hidden, help="and new questions")
    approve = _add_named(actions, "approve", "let the call run")
    which = approve.add_mutually_exclusive_group()
    which.add_argument(
        "--session",
        action="store_const",
        dest="grant",
        const="session",
        help="and all calls of this tool in its session for which this guard asks by this rule",
    )
    which.add_argument(
        "--for", type=_span, dest="grant", metavar="TIME", help="the same, for 90s, 30m, 1h or 2d"
    )
    _add_verbose(approve)
    deny = _add_named(actions, "deny", "refuse the call")
    deny.add_argument("--reason", metavar="TEXT", default="", help="a reason for the model")
    settle = _add_named(actions, "settle", "record the result of a call after a killed process")
    outcome = settle.add_mutually_exclusive_group(required=True)
    for word, text in (("ran", "the call ran"), ("never-ran", "the call did not run")):
        outcome.add_argument(
            f"--{word}", action="store_const", dest="outcome", const=word, help=text
        )
    serve = add_action(actions, "serve", "accept signed answers of a webhook", _SERVE)
    _add_store(serve, hidden)
    serve.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8787", help="where (127.0.0.1:8787)"
    )
    _add_named(actions, "revoke", "end a grant")


def _add_named(actions: argparse._SubParsersAction[Parser], name: str, text: str) -> Parser:
    """Add a subcommand about one question or grant."""
    parser = add_action(actions, name, text)
    _add_store(parser, argparse.SUPPRESS)
    parser.add_argument("id", metavar="ID", help="the id, or the beginning of it")
    return parser


def _add_store(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument("--store", metavar="STORE", default=default, help=STORE_HELP)


def _add_reading(parser: argparse.ArgumentParser, *, default: bool | str) -> None:
    parser.add_argument("--all", action="store_true", default=default, help="closed ones as well")
    parser.add_argument(
        "--json", action="store_true", default=default, help="write JSON: one object a line"
    )


def _add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="with the id, exact times and the digest"
    )


def _read(parsed: argparse.Namespace, address: str, output: Output) -> int:
    from toolbus.cli.approvals import lists  # noqa: PLC0415 - slow to import

    closed, as_json = parsed.all, parsed.json
    match parsed.action:
        case "show":
            pager, details = not parsed.no_pager, parsed.verbose
            return lists.show_question(
                output, address, parsed.id, as_json=as_json, pager=pager, details=details
            )
        case "grants":
            return lists.list_grants(output, address, closed=closed, as_json=as_json)
    if parsed.watch:
        return lists.watch_questions(output, address, as_json=as_json)
    return lists.list_questions(output, address, closed=closed, as_json=as_json)


def _answer(parsed: argparse.Namespace, address: str, output: Output) -> int:
    from toolbus.cli.approvals import answers  # noqa: PLC0415 - slow to import

    if parsed.action == "review":
        return answers.review(output, address, watch=parsed.watch)
    target = answers.ApprovalTarget(address, parsed.id)
    match parsed.action:
        case "approve":
            target = target._replace(grant=parsed.grant, details=parsed.verbose)
            return answers.approve(output, target)
        case "deny":
            return answers.deny(output, target._replace(reason=parsed.reason))
        case "settle":
            return answers.settle(output, target, parsed.outcome)
    return answers.revoke(output, target)


def _span(text: str) -> float:
    """Return the seconds of a duration such as 90s, 30m, 1h or 2d."""
    seconds = seconds_in(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"expected a time such as 90s, 30m or 1h, not {text!r}")
    return seconds
