"""`toolbus run`: an agent from the command line."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import AsyncExitStack, aclosing, contextmanager, redirect_stdout
from typing import TYPE_CHECKING, NamedTuple

from toolbus.agent.agent import Agent
from toolbus.cli.assembly import (
    find_components,
    find_model,
    find_model_price,
    find_session_id,
    open_servers,
    split_names,
)
from toolbus.cli.options import MODEL, add_approval_wait, add_model_options, check_approval_wait
from toolbus.cli.output.deferred_output import DeferredOutput, OutputLogHandler
from toolbus.cli.output.run_report import JsonRunReport, RunReport
from toolbus.cli.output.stream import Output
from toolbus.cli.parser import make_parser, positive
from toolbus.cli.questions.keyboard import is_at_terminal
from toolbus.cli.questions.run_prompt import AskOnWrite, find_terminal_user
from toolbus.components.capabilities import CallAllower
from toolbus.config import configuration
from toolbus.config.approvals import ApprovalSettings
from toolbus.errors import ToolbusError
from toolbus.events.catalogue import RunResult
from toolbus.messages.records import AssistantMessage
from toolbus.models.protocol import close_model
from toolbus.settings.spans import sanitize
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from toolbus.approvals.stored import StoredApprovals
    from toolbus.cli.parser import Command, Parser
    from toolbus.cli.questions.keyboard import Keyboard
    from toolbus.config.configuration import Configuration
    from toolbus.store.protocol import Store
    from toolbus.tools.toolset import Toolset

_EPILOG = """\
examples:
  toolbus run "what is in this folder?" --model anthropic:NAME --tools files
  toolbus run "make the tests pass" --tools shell,files --store s.db
  toolbus run "and now the docs" --tools files --store s.db --resume
  toolbus run --tools shell,files --store s.db             type prompts
  git diff | toolbus run --model openai:NAME --system "Review this."
  toolbus run "what changed?" --mcp "npx -y @scope/server ." --json | jq

Your active configuration applies. Calls that may change something need your
approval, unless a rule of your own policy allows them; with --yes only the
configuration's questions, and file tools outside of this folder, do.
See `toolbus guide run`.

exit codes: 0 the model finished; 1 the run was denied, failed or had too many
turns; 2 usage error; 3 it waits for a person; 130 interrupted"""

INTERRUPTED, WAITS = 130, 3
_KEYS = "Enter sends, Alt-Enter begins a line, Ctrl-C stops the model, Ctrl-D ends"


def command() -> Command:
    """Return the parser and the function of this command."""
    parser = make_parser("toolbus run", "Run an agent on a prompt, with tools.", _EPILOG)
    _add_options(parser)

    def run(parsed: argparse.Namespace, output: Output) -> int:
        parsed.model = parsed.model or os.environ.get(MODEL)
        if not parsed.model:
            parser.error(f"which model? give --model PROVIDER:NAME, or set {MODEL}")
        check_approval_wait(parser, parsed)
        parsed.prompt = _prompt(parsed.prompt)
        is_typed = parsed.prompt is None and sys.stdin.isatty() and sys.stderr.isatty()
        is_resumed = not parsed.prompt and parsed.resume is not None
        if not (parsed.prompt or is_typed or is_resumed):
            parser.error("which prompt? give one in quotes, or on standard input")
        if is_typed and parsed.json and not is_resumed:
            parser.error("--json needs the prompt, in quotes or on standard input")
        # Standard output belongs to the model's text, so prints of handlers go elsewhere.
        with redirect_stdout(sys.stderr):
            code = asyncio.run(_run(output, parsed))
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return code

    return parser, run


def _add_options(parser: Parser) -> None:
    parser.usage = "toolbus run [PROMPT] [options]"
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="by default standard input")
    add_model_options(parser)
    parser.add_argument(
        "--tools",
        action="append",
        default=[],
        metavar="NAMES",
        help="shell, files or other components, with commas",
    )
    parser.add_argument(
        "--mcp",
        action="append",
        default=[],
        metavar="SERVER",
        help="an MCP server: a command in quotes, or a URL",
    )
    parser.add_argument("--config", metavar="FILE", help="a configuration in place of yours")
    _add_session_options(parser)
    parser.add_argument("--system", metavar="TEXT", help="system message of a new session")
    parser.add_argument(
        "--max-turns", type=positive, default=50, metavar="N", help="most model calls (50)"
    )
    parser.add_argument(
        "--price",
        metavar="PRICES",
        help="per million tokens: input=3,output=15,currency=EUR",
    )
    parser.add_argument("--json", action="store_true", help="write JSON Lines")
    parser.add_argument("--yes", action="store_true", help="ask only where the configuration asks")
    parser.add_argument(
        "--trust-hints", action="store_true", help="believe MCP servers that a tool only reads"
    )


def _add_session_options(parser: Parser) -> None:
    parser.add_argument("--store", metavar="STORE", help="file or database of the session")
    parser.add_argument(
        "--resume",
        metavar="SESSION",
        nargs="?",
        const="",
        help="continue a session of the store (its latest)",
    )
    add_approval_wait(parser, usual=0)


def _prompt(text: str | None) -> str | None:
    """Return the prompt, by default from a pipe; None at a terminal."""
    if text is not None:
        return text.strip()
    if sys.stdin is None or sys.stdin.isatty():
        return None
    return sys.stdin.buffer.read().decode(errors="replace").strip()


class Conversation(NamedTuple):
    """An open agent, its report, and the person at its terminal."""

    agent: Agent
    report: RunReport
    side: DeferredOutput
    keyboard: Keyboard | None
    model_name: str
    stored: StoredApprovals | None


async def _run(output: Output, options: argparse.Namespace) -> int:
    async with AsyncExitStack() as opened:
        conversation = await _open(opened, output, options)
        if options.prompt:
            return await _turn(conversation, options.prompt)
        if options.resume is not None:
            is_typed = is_at_terminal(conversation.side) and not options.json
            if await _can_resume(conversation.agent, is_typed=is_typed):
                code = await _turn(conversation, None)
                if code != 0 or not is_typed:
                    return code
        await _converse(conversation)
        return 0


async def _can_resume(agent: Agent, *, is_typed: bool) -> bool:
    """Return whether the session continues without a prompt; raises `UsageError` if it cannot.

    A person who types is asked for a prompt, unless a question of the session waits.
    """
    if await agent.pending():
        return True
    if is_typed:
        return False
    latest = agent.messages[-1] if agent.messages else None
    if latest is None or (isinstance(latest, AssistantMessage) and not latest.tool_calls):
        name = agent.scope.session_id
        raise UsageError(f"nothing waits in session {name!r}; give a prompt to continue it")
    return True


async def _converse(conversation: Conversation) -> None:
    """Run on each prompt that the person types, until Ctrl-D; Ctrl-C stops only a run."""
    try:
        from toolbus.cli.line_editor import LineEditor  # noqa: PLC0415 - it needs an extra
    except ImportError as error:
        raise UsageError(f"{error}; or give the prompt in quotes") from error
    editor, side = LineEditor(), conversation.side
    side.write(f"model {sanitize(conversation.model_name)}; {_KEYS}\n")
    while True:
        with side.held():
            prompt = await editor.read()
        if prompt is None:
            return
        if prompt and await _turn(conversation, prompt) == INTERRUPTED:
            side.write("stopped; your next prompt continues the session\n")


async def _turn(conversation: Conversation, prompt: str | None) -> int:
    """Run on *prompt*, None: resume, until the end or Ctrl-C; return the exit code."""
    report = conversation.report
    run = asyncio.ensure_future(_streamed(conversation.agent, prompt))
    with _interrupting(run, conversation):
        await asyncio.wait({run})
    report.end_line()
    if run.cancelled():
        report.stopped()
        return INTERRUPTED
    try:
        result: RunResult = run.result()
    except ToolbusError as error:
        report.failed(str(error))
        return 1
    report.end(result)
    return {"ok": 0, "pending": WAITS}.get(result.status, 1)


async def _streamed(agent: Agent, prompt: str | None) -> RunResult:
    """Run on *prompt* and return the result; handlers of the report write its pieces."""
    stream = agent.resume_stream() if prompt is None else agent.stream(prompt)
    async with aclosing(stream) as pieces:
        items = [item async for item in pieces if isinstance(item, RunResult)]
    return items[-1]


@contextmanager
def _interrupting(run: asyncio.Future[RunResult], conversation: Conversation) -> Iterator[None]:
    """Have Ctrl-C answer a question with no, else stop *run*, as SIGTERM does.

    A question in a store stays there: the run ends as pending.
    """
    loop, keyboard, stored = asyncio.get_running_loop(), conversation.keyboard, conversation.stored

    def interrupt() -> None:
        if not (keyboard and keyboard.interrupt()) and not (stored and stored.stop_waiting()):
            run.cancel()

    def terminate() -> None:
        if not (stored and stored.stop_waiting()):
            loop.remove_signal_handler(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)


def _stored(
    options: argparse.Namespace, store: Store | None, config: Configuration | None
) -> StoredApprovals | None:
    """Return approvals in *store*, where other processes answer them as well; None without it."""
    if store is None:
        return None
    settings = config.approvals if config else ApprovalSettings()
    wait = options.approval_wait
    return settings.make(store, "agent", settings.wait or 0.0 if wait is None else wait)


async def _open(
    opened: AsyncExitStack, output: Output, options: argparse.Namespace
) -> Conversation:
    """Open all parts that *options* name; a missing part is an error before anything runs."""
    direct, side = Output(sys.stderr), DeferredOutput(sys.stderr)
    logging.basicConfig(
        handlers=[OutputLogHandler(side)], level=logging.WARNING, format="%(message)s"
    )
    report = (JsonRunReport if options.json else RunReport)(output, side)
    user = find_terminal_user(opened, direct)
    model = find_model(options.model, options.base_url, options.key_env)
    opened.push_async_callback(close_model, model)
    file = options.config
    config = configuration.read_nearest() if file is None else configuration.read(file)
    components = find_components(split_names(options.tools), config)
    report.price = find_model_price(options.price, config, options.model)
    session_id = find_session_id(options.store, options.resume)
    store = None
    if options.store is not None:
        store = await opened.enter_async_context(open_store(options.store))
    entries = () if config is None else config.servers
    servers = await open_servers(opened, options.mcp, entries, side)
    if not options.yes:
        components.append(_ask_on_write(servers, config, trusts_hints=options.trust_hints))
    stored = _stored(options, store, config)
    agent = Agent(
        model,
        tools=servers,
        components=[*components, report],
        store=store,
        session_id=session_id,
        system=options.system,
        approver=user.approver(side, report, stored),
        max_turns=options.max_turns,
    )
    report.agent = await opened.enter_async_context(agent)
    if store is not None:
        report.store, report.session = options.store, agent.scope.session_id
    report.start(resumed=session_id is not None, model=model.name)
    return Conversation(agent, report, side, user.keyboard, model.name, stored)


def _ask_on_write(
    servers: Sequence[Toolset], config: Configuration | None, *, trusts_hints: bool
) -> AskOnWrite:
    """Return the guard of calls that may write; rules of the person's own policy allow calls."""
    personal = () if config is None else config.personal
    allowers = [each for each in personal if isinstance(each, CallAllower)]
    return AskOnWrite(() if trusts_hints else servers, allowers)
