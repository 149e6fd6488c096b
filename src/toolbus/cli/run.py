"""`toolbus run`: an agent from the command line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from toolbus.cli.approval_options import add_approval_wait, check_approval_wait
from toolbus.cli.model_options import MODEL, add_model_options
from toolbus.cli.parsing import make_parser, positive

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command, Parser
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus run "what is in this folder?" --model anthropic:NAME --tools files
  toolbus run "make the tests pass" --tools shell,files --store s.db
  toolbus run "and now the docs" --tools files --store s.db --resume
  toolbus run --tools shell,files --store s.db      type prompts
  toolbus run --tools shell,files --store s.db --resume    go on where it waits
  git diff | toolbus run --model openai:NAME --system "Review this."
  toolbus run "what changed?" --mcp "npx -y @scope/server ." --json | jq

A model is anthropic:NAME, openai:NAME or openai-responses:NAME, with the key
in ANTHROPIC_API_KEY or OPENAI_API_KEY (for another server give --base-url, and
--key-env with its key's variable, or set *_BASE_URL beside the key), or
replay:FILE, the answers of a session in a store, an export or a file with a
message a line (FILE#SESSION: of one of several); it warns where it is asked
something else than was recorded. An answer written by hand is such a line:

  {"role": "assistant", "id": "1", "content": "Done."}
  {"role": "assistant", "id": "2", "tool_calls": [{"id": "a", "name": "shell",
    "arguments": {"command": "ls"}}]}     in one line

Without --model it is that of TOOLBUS_MODEL.

Without a prompt it is read from a pipe; at a terminal you type prompts, with a
history (extra "run"): Alt-Enter begins a line, Ctrl-C stops the model and keeps
the session, Ctrl-D ends.

Each call of a tool that is not known to only read is asked about, with all its
arguments, page by page: y, n, or n and a reason that the model reads; session
or "for 1h" is a yes to calls like it as well, and ? tells more. Only a person
answers, at a terminal in which no agent runs. With --store a question may be
answered from elsewhere, too, see `toolbus approvals`: the first answer counts.
Without a terminal the run waits for that for --approval-wait seconds, then it
ends as pending, and --resume without a prompt goes on, at any time; a prompt
instead withdraws what waits. Without a terminal and a store a call is denied.
Of the tools of MCP servers all are asked about: that one "only reads"
is what its server says of itself; --trust-hints believes it. A call that a rule
of your own policy allows (not its default, and no policy of the project's) is
not asked about. With --yes only your configuration asks, and file tools that
leave this folder: the right setting with a policy that you rely on. Without
one the model may then run, overwrite and delete whatever you may, as often as
it likes; a shell's command may go anywhere.

Your configuration is in force as for `toolbus wiring`, whatever the options
say; a [[server]] of it is opened as --mcp is, its tools called NAME_TOOL.
What a run costs is told if a [[price]] of it names the model, or with --price:
both are for a million tokens, as your provider has them.

Text goes to standard output as the model says it, or as soon as no handler may
still change or refuse it; calls, questions and counts to standard error. It
ends with 0 if the model came to its end, with 1 if the run was denied, failed
or had too many turns, with 3 if it waits for a person, with 130 after Ctrl-C.
With --store SIGTERM while a call waits leaves the question there, and so does
Ctrl-C without a terminal: 3. At the question itself it is Ctrl-D that does, and
Ctrl-C is a no.

--json writes an object a line on standard output, each with its "kind":
  start     session (null without --store), resumed, model
  text      turn, text: a piece; those of one turn put together are an answer
  call      id, name, arguments; raw, if they are no JSON object
  question  prompt, approved, by; reason, if not; id, name, arguments of a call
  result    id, name, is_error, text
  end       status, reason, text, turns, usage, cost, session; pending, the
            ids of questions, if it waits for a person"""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus run", "Run an agent on a prompt, with tools.", _EPILOG)
    _add_options(parser)

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.console.running import RunOptions, run_agent  # noqa: PLC0415 - loads the house

        model = parsed.model or os.environ.get(MODEL)
        if not model:
            parser.error(f"which model? give --model PROVIDER:NAME, or set {MODEL}")
        options = RunOptions(
            prompt=_prompt(parsed.prompt),
            model=model,
            tools=[name for names in parsed.tools for name in names.split(",") if name],
            servers=parsed.mcp,
            config=parsed.config,
            store=parsed.store,
            resume=parsed.resume,
            system=parsed.system,
            max_turns=parsed.max_turns,
            as_json=parsed.json,
            base_url=parsed.base_url,
            key_env=parsed.key_env,
            price=parsed.price,
            yes=parsed.yes,
            trust_hints=parsed.trust_hints,
            approval_wait=parsed.approval_wait,
        )
        check_approval_wait(parser, parsed)
        is_typed = options.prompt is None and sys.stdin.isatty() and sys.stderr.isatty()
        goes_on = not options.prompt and options.resume is not None
        if not (options.prompt or is_typed or goes_on):
            parser.error("which prompt? give one in quotes, or on standard input")
        if is_typed and parsed.json and not goes_on:
            parser.error("--json needs the prompt, in quotes or on standard input")
        return run_agent(output, options)

    return parser, run


def _add_options(parser: Parser) -> None:
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="what you want")
    add_model_options(parser)
    parser.add_argument(
        "--tools",
        action="append",
        default=[],
        metavar="NAMES",
        help="shell, files, or other components, with commas",
    )
    parser.add_argument(
        "--mcp",
        action="append",
        default=[],
        metavar="SERVER",
        help="the tools of an MCP server: a command in quotes, or an address",
    )
    parser.add_argument("--config", metavar="FILE", help="a configuration, in place of yours")
    _add_session_options(parser)
    parser.add_argument("--system", metavar="TEXT", help="the system message of a new session")
    parser.add_argument(
        "--max-turns", type=positive, default=50, metavar="N", help="model calls at most (50)"
    )
    parser.add_argument(
        "--price",
        metavar="PRICES",
        help="of the model, such as input=3,output=15,cache_read=0.3,currency=EUR",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")
    parser.add_argument(
        "--yes", action="store_true", help="ask only about what the configuration asks about"
    )
    parser.add_argument(
        "--trust-hints", action="store_true", help="believe what MCP servers say of their tools"
    )


def _add_session_options(parser: Parser) -> None:
    parser.add_argument(
        "--store", metavar="STORE", help="keep the session in this file or database"
    )
    parser.add_argument(
        "--resume",
        metavar="SESSION",
        nargs="?",
        const="",
        help="go on with a session of the store, else with its latest",
    )
    add_approval_wait(parser, usual=0)


def _prompt(text: str | None) -> str | None:
    """Return the prompt, which a pipe gives if the command line does not; None at a terminal."""
    if text is not None:
        return text.strip()
    if sys.stdin is None or sys.stdin.isatty():
        return None
    return sys.stdin.buffer.read().decode(errors="replace").strip()
