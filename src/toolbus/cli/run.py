"""`toolbus run`: an agent from the command line."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import (
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    contextmanager,
    redirect_stdout,
)
from typing import TYPE_CHECKING, NamedTuple

from toolbus.agent.agent import Agent
from toolbus.cli.assembly import (
    find_components,
    find_configuration,
    find_model,
    find_model_price,
    find_session_id,
    open_servers,
)
from toolbus.cli.options import MODEL, add_approval_wait, add_model_options, check_approval_wait
from toolbus.cli.output.deferred_output import DeferredOutput, OutputLogHandler
from toolbus.cli.output.run_report import JsonRunReport, RunReport
from toolbus.cli.output.stream import Output
from toolbus.cli.parser import make_parser, positive
from toolbus.cli.questions.ask_on_write import AskOnWrite
from toolbus.cli.questions.keyboard import is_at_terminal
from toolbus.cli.questions.run_prompt import find_terminal_user
from toolbus.components.capabilities import CallAllower
from toolbus.config.approvals import ApprovalSettings
from toolbus.errors import RegistrationError, ToolbusError
from toolbus.events.catalogue import RunResult
from toolbus.messages.records import AssistantMessage
from toolbus.models.protocol import close_model
from toolbus.settings.spans import sanitize
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Iterator, Sequence

    from toolbus.approvals.stored import StoredApprovals
    from toolbus.cli.parser import Command, Parser
    from toolbus.cli.questions.keyboard import Keyboard
    from toolbus.config.configuration import Configuration
    from toolbus.store.protocol import Store

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

Your configuration is in force as for `toolbus handlers`, whatever the options
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

INTERRUPTED, WAITS = 130, 3
_KEYS = "Enter sends, Alt-Enter begins a line, Ctrl-C stops the model, Ctrl-D ends"


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus run", "Run an agent on a prompt, with tools.", _EPILOG)
    _add_options(parser)

    def run(parsed: argparse.Namespace, output: Output) -> int:
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


class RunOptions(NamedTuple):
    """What `toolbus run` is asked for; *resume* is "" for the latest session of the store.

    Without a *prompt* a session that waits for a person goes on, else the person types prompts.
    *approval_wait*, in seconds, is how long a call waits for an answer from elsewhere; None: as the
    configuration says.
    """

    prompt: str | None
    model: str
    tools: Sequence[str] = ()
    servers: Sequence[str] = ()
    config: str | None = None
    store: str | None = None
    resume: str | None = None
    system: str | None = None
    max_turns: int = 50
    base_url: str | None = None
    key_env: str | None = None
    price: str | None = None
    as_json: bool = False
    yes: bool = False
    trust_hints: bool = False
    approval_wait: float | None = None


class Conversation(NamedTuple):
    """An agent that is open, and those who tell of it and answer it."""

    agent: Agent
    report: RunReport
    side: DeferredOutput
    keyboard: Keyboard | None
    stored_id: str | None
    model_name: str
    stored: StoredApprovals | None


def run_agent(output: Output, options: RunOptions) -> int:
    """Run an agent on a prompt; return the exit code. Raises `UsageError`, `ToolbusError`."""
    # Standard output belongs to the model's text: what handlers print goes elsewhere.
    with redirect_stdout(sys.stderr):
        code = asyncio.run(_run(output, options))
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return code


async def _run(output: Output, options: RunOptions) -> int:
    async with _opened(output, options) as conversation:
        if options.prompt:
            return await _turn(conversation, options.prompt)
        if options.resume is not None:
            is_typed = is_at_terminal(conversation.side) and not options.as_json
            if await _goes_on(conversation.agent, is_typed=is_typed):
                code = await _turn(conversation, None)
                if code != 0 or not is_typed:
                    return code
        await _converse(conversation)
        return 0


async def _goes_on(agent: Agent, *, is_typed: bool) -> bool:
    """Tell whether the session goes on without a prompt; raises `UsageError` if nothing can.

    A person who types is asked for a prompt, unless a question of the session waits.
    """
    if await agent.pending():
        return True
    if is_typed:
        return False
    latest = agent.messages[-1] if agent.messages else None
    if latest is None or (isinstance(latest, AssistantMessage) and not latest.tool_calls):
        name = agent.scope.session_id
        raise UsageError(f"nothing waits in session {name!r}; give a prompt to go on with it")
    return True


async def _converse(conversation: Conversation) -> None:
    """Run on each prompt that the person types, until Ctrl-D; Ctrl-C stops a run and no more."""
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
            side.write("stopped; the session goes on with your next prompt\n")


async def _turn(conversation: Conversation, prompt: str | None) -> int:
    """Run on *prompt*, None: go on, until the end or Ctrl-C; return the exit code."""
    agent, report, stored_id = conversation.agent, conversation.report, conversation.stored_id
    run = asyncio.ensure_future(_streamed(agent, prompt))
    with _interrupting(run, conversation):
        await asyncio.wait({run})
    report.end_line()
    if run.cancelled():
        report.stopped(stored_id)
        return INTERRUPTED
    try:
        result: RunResult = run.result()
    except ToolbusError as error:
        report.failed(str(error))
        return 1
    report.end(result, stored_id)
    return {"ok": 0, "pending": WAITS}.get(result.status, 1)


async def _streamed(agent: Agent, prompt: str | None) -> RunResult:
    """Run on *prompt*; the report hears of the pieces where they are released, in their order."""
    stream = agent.resume_stream() if prompt is None else agent.stream(prompt)
    async with aclosing(stream) as pieces:
        items = [item async for item in pieces if isinstance(item, RunResult)]
    return items[-1]


@contextmanager
def _interrupting(run: asyncio.Future[RunResult], conversation: Conversation) -> Iterator[None]:
    """Let Ctrl-C answer a question by no, and else stop *run*, as SIGTERM does.

    What waits for a person in a store stays there: the run ends as pending.
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
    options: RunOptions, store: Store | None, config: Configuration | None
) -> StoredApprovals | None:
    """Return what keeps questions in *store*, where others answer them as well."""
    if store is None:
        return None
    settings = config.approvals if config else ApprovalSettings()
    wait = options.approval_wait
    return settings.make(store, "agent", settings.wait or 0.0 if wait is None else wait)


@asynccontextmanager
async def _opened(output: Output, options: RunOptions) -> AsyncIterator[Conversation]:
    """Open all that *options* name, in an order in which nothing runs if something is missing."""
    direct, side = Output(sys.stderr), DeferredOutput(sys.stderr)
    logging.basicConfig(
        handlers=[OutputLogHandler(side)], level=logging.WARNING, format="%(message)s"
    )
    report = (JsonRunReport if options.as_json else RunReport)(output, side)
    async with AsyncExitStack() as opened:
        user = find_terminal_user(opened, direct)
        model = find_model(options.model, options.base_url, options.key_env)
        opened.push_async_callback(close_model, model)
        config = find_configuration(options.config)
        components = find_components(options.tools, config)
        report.price = find_model_price(options.price, config, options.model)
        session_id = find_session_id(options.store, options.resume)
        store = None
        if options.store is not None:
            from toolbus.store.store_factory import open_store  # noqa: PLC0415 - not for all

            store = open_store(options.store)
            opened.push_async_callback(store.close)
        entries = () if config is None else config.servers
        servers = await open_servers(opened, options.servers, entries, side)
        strangers = () if options.trust_hints else servers
        personal = () if config is None else config.personal
        judges = [each for each in personal if isinstance(each, CallAllower)]
        asking = [] if options.yes else [AskOnWrite(strangers, judges)]
        try:
            stored = _stored(options, store, config)
            approver, watch = user.approver(side, report, stored)
            agent = Agent(
                model,
                tools=servers,
                components=[*components, *asking, report],
                store=store,
                session_id=session_id,
                system=options.system,
                approver=approver,
                max_turns=options.max_turns,
            )
        except RegistrationError as error:
            raise UsageError(str(error)) from error
        report.store = options.store
        watch(await opened.enter_async_context(agent))
        stored_id = None if store is None else agent.scope.session_id
        report.start(session=stored_id, resumed=session_id is not None, model=model.name)
        yield Conversation(agent, report, side, user.keyboard, stored_id, model.name, stored)
