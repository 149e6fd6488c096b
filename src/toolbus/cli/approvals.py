"""`toolbus approvals`: questions that wait for a person, and their answers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from toolbus.cli.options import store_address
from toolbus.cli.output.durations import seconds_in
from toolbus.cli.parser import Parser, add_action, make_parser
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.cli.questions.approving import ApprovalTarget

_EPILOG = """\
of all:
  --store STORE         a file, postgresql://… or service=NAME; if not given,
                        the one where hooks of coding agents keep theirs
of list, show and grants:
  --json                write JSON: one object a line

examples:
  toolbus approvals                         what waits, the oldest first
  toolbus approvals --watch                 ... and what comes, until Ctrl-C
  toolbus approvals --store agent.db --all  those that are over as well
  toolbus approvals show 8c01               one of them whole
  toolbus approvals approve 8c01            shows it page by page, and asks
  toolbus approvals approve 8c01 --for 1h   and calls like it for an hour
  toolbus approvals review --watch          asks you one by one, as they come
  toolbus approvals deny 8c01 --reason "use the copy in /tmp"
  toolbus approvals settle 8c01 --never-ran     after a killed process
  toolbus approvals grants                  what is approved before it is asked
  toolbus approvals revoke 77aa             takes such a grant back

A question is named by its id, or by how that begins. It is about one call, as
it would run: tool, arguments and their digest, who asks, and by which rules.
The first answer counts, for this call alone, and is used up once.

pending: nobody has answered. approved: the call has not run yet. taken: it
runs. unknown: its process was killed after it was taken, so the call may have
run; it never runs again by itself. Look, and settle it: --ran or --never-ran.
hosted: a coding agent asks its person itself, so nobody answers it here, and
what was said is not known; approve --session or --for lets calls like it run
unasked. done: the call ran. unheard: the agent told of no result, so the call
was refused, most likely.

Only a person answers: at a terminal, and at none in which an agent runs. A
reason is read by the model. It ends with 1 if an answer did not count."""

_SERVE = """\
The key of both ends is the secret_file of your own toolbus.toml, and if that
names none ~/.config/toolbus/approvals.secret. Only you may read it: "whsec_"
and 24 to 64 random bytes in base64. Policies let no tool read a file of that
folder whose name ends with .secret or .key. To make one:

  (umask 077; printf whsec_ > ~/.config/toolbus/approvals.secret
   openssl rand -base64 32 >> ~/.config/toolbus/approvals.secret)

With a table [approvals.webhook] of `url` and `secret_file` in your toolbus.toml
each question is sent there, signed as Standard Webhooks says: `data` has the
`text` to be shown, `id`, `digest`, and `whole`; without that no yes is taken.

An answer is a POST of {"id", "digest", "decision": "approve" or "deny", "by",
"reason"}, signed likewise; its webhook-id is answer_ID_DIGEST. It counts once,
for five minutes. Speak TLS in front of this if it comes from elsewhere."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser(
        "toolbus approvals", "Answer what waits for a person, from any terminal.", _EPILOG
    )
    _add_common(parser, None)
    _add_reading(parser, default=False)
    parser.add_argument("--watch", action="store_true", help="go on with what comes")
    actions = parser.add_subparsers(
        dest="action",
        metavar="ACTION",
        parser_class=Parser,
    )
    _add_actions(actions)

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.watch and (parsed.action not in {None, "list", "review"} or parsed.all):
            parser.error("--watch lists or reviews what is open and comes; leave out the rest")
        address = store_address(parsed.store)
        match parsed.action:
            case "approve" | "deny" | "settle" | "revoke":
                return _do(parsed, address, output)
            case "serve":
                try:
                    from toolbus.cli.questions.answer_serving import serve_answers  # noqa: PLC0415
                except ImportError as error:  # Of the extra.
                    raise UsageError(str(error)) from error
                return serve_answers(output, address, parsed.listen)
            case "review":
                from toolbus.cli.questions.reviewing import review  # noqa: PLC0415 - loads the house

                return review(output, address, watch=parsed.watch)
        return _read(parsed, address, output)

    return parser, run


def _add_actions(actions: argparse._SubParsersAction[Parser]) -> None:
    hidden = argparse.SUPPRESS
    for name, text in (("list", "list the questions"), ("grants", "list the grants in force")):
        reading = add_action(actions, name, text)
        _add_common(reading, hidden)
        _add_reading(reading, default=hidden)
        if name == "list":
            reading.add_argument(
                "--watch", action="store_true", default=hidden, help="and what comes"
            )
    review = add_action(actions, "review", "answer what waits, one by one")
    _add_common(review, hidden)
    review.add_argument("--watch", action="store_true", default=hidden, help="and what comes")
    show = add_action(actions, "show", "show one question whole")
    show.add_argument("--json", action="store_true", default=hidden, help="write JSON")
    show.add_argument("--no-pager", action="store_true", help="write all at once")
    approve = add_action(actions, "approve", "let the call run")
    which = approve.add_mutually_exclusive_group()
    which.add_argument(
        "--session",
        action="store_const",
        dest="grant",
        const="session",
        help="and all calls of this tool in its session about which this guard asks by this rule",
    )
    which.add_argument(
        "--for", type=_span, dest="grant", metavar="TIME", help="the same, for 90s, 30m, 1h or 2d"
    )
    deny = add_action(actions, "deny", "refuse the call")
    deny.add_argument("--reason", metavar="TEXT", default="", help="what the model reads")
    settle = add_action(actions, "settle", "say what became of a call whose process was killed")
    outcome = settle.add_mutually_exclusive_group(required=True)
    for word, text in (("ran", "it had its effect"), ("never-ran", "it had none")):
        outcome.add_argument(
            f"--{word}", action="store_const", dest="outcome", const=word, help=text
        )
    serve = add_action(actions, "serve", "take signed answers of a webhook", _SERVE)
    _add_common(serve, hidden)
    serve.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8787", help="where (127.0.0.1:8787)"
    )
    revoke = add_action(actions, "revoke", "take a grant back")
    for named in (show, approve, deny, settle, revoke):
        _add_common(named, hidden)
        named.add_argument("id", metavar="ID", help="its id, or how that begins")


def _add_common(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument("--store", metavar="STORE", default=default, help="where they are kept")


def _add_reading(parser: argparse.ArgumentParser, *, default: bool | str) -> None:
    parser.add_argument(
        "--all", action="store_true", default=default, help="those that are over as well"
    )
    parser.add_argument("--json", action="store_true", default=default, help="write JSON")


def _read(parsed: argparse.Namespace, address: str, output: Output) -> int:
    from toolbus.cli.questions import question_lists  # noqa: PLC0415 - loads half of the house

    match parsed.action:
        case "show":
            pager = not parsed.no_pager
            return question_lists.show_question(
                output, address, parsed.id, as_json=parsed.json, pager=pager
            )
        case "grants":
            return question_lists.list_grants(
                output, address, closed=parsed.all, as_json=parsed.json
            )
    if parsed.watch:
        return question_lists.watch_questions(output, address, as_json=parsed.json)
    return question_lists.list_questions(output, address, closed=parsed.all, as_json=parsed.json)


def _do(parsed: argparse.Namespace, address: str, output: Output) -> int:
    from toolbus.cli.questions import approving  # noqa: PLC0415 - loads half of the house

    asked: ApprovalTarget = approving.ApprovalTarget(address, parsed.id)
    match parsed.action:
        case "approve":
            return approving.approve(output, asked._replace(grant=parsed.grant))
        case "deny":
            return approving.deny(output, asked._replace(reason=parsed.reason))
        case "settle":
            return approving.settle(output, asked, parsed.outcome)
    return approving.revoke(output, asked)


def _span(text: str) -> float:
    """Return the seconds that *text* is, such as 90s, 30m, 1h or 2d."""
    seconds = seconds_in(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"expected a time such as 90s, 30m or 1h, not {text!r}")
    return seconds
