"""An agent made of options, and its run in a terminal or a pipe."""

from __future__ import annotations

import asyncio
import logging
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
from toolbus.components.capabilities import CallAllower
from toolbus.config.approvals import ApprovalSettings
from toolbus.console.asking_first import AskFirst
from toolbus.console.assembly import (
    find_components,
    find_configuration,
    find_model,
    find_model_price,
    find_session_id,
    open_servers,
)
from toolbus.console.keyboard import is_at_terminal
from toolbus.console.persons import find_person
from toolbus.console.reports import JsonRunReport, RunReport
from toolbus.console.side_output import SideLog, SideOutput
from toolbus.errors import RegistrationError, ToolbusError
from toolbus.events.catalogue import RunResult
from toolbus.messages.records import AssistantMessage
from toolbus.models.protocol import close_model
from toolbus.settings.spans import sanitize
from toolbus.terminal.output import Output
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from toolbus.approvals.stored import StoredApprovals
    from toolbus.config.configuration import Configuration
    from toolbus.console.keyboard import Keyboard
    from toolbus.store.protocol import Store

INTERRUPTED, WAITS = 130, 3
_KEYS = "Enter sends, Alt-Enter begins a line, Ctrl-C stops the model, Ctrl-D ends"


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
    side: SideOutput
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
        from toolbus.console.line_editor import LineEditor  # noqa: PLC0415 - it needs an extra
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
    direct, side = Output(sys.stderr), SideOutput(sys.stderr)
    logging.basicConfig(handlers=[SideLog(side)], level=logging.WARNING, format="%(message)s")
    report = (JsonRunReport if options.as_json else RunReport)(output, side)
    async with AsyncExitStack() as opened:
        person = find_person(opened, direct)
        model = find_model(options.model, options.base_url, options.key_env)
        opened.push_async_callback(close_model, model)
        config = find_configuration(options.config)
        components = find_components(options.tools, config)
        report.price = find_model_price(options.price, config, options.model)
        session_id = find_session_id(options.store, options.resume)
        store = None
        if options.store is not None:
            from toolbus.store.opening import open_store  # noqa: PLC0415 - not for all

            store = open_store(options.store)
            opened.push_async_callback(store.close)
        entries = () if config is None else config.servers
        servers = await open_servers(opened, options.servers, entries, side)
        strangers = () if options.trust_hints else servers
        personal = () if config is None else config.personal
        judges = [each for each in personal if isinstance(each, CallAllower)]
        asking = [] if options.yes else [AskFirst(strangers, judges)]
        try:
            stored = _stored(options, store, config)
            deciders = person.deciders(side, report, stored)
            agent = Agent(
                model,
                tools=servers,
                components=[*components, *asking, report],
                store=store,
                session_id=session_id,
                system=options.system,
                approver=deciders.approver,
                max_turns=options.max_turns,
            )
        except RegistrationError as error:
            raise UsageError(str(error)) from error
        report.store = options.store
        deciders.watch(await opened.enter_async_context(agent))
        stored_id = None if store is None else agent.scope.session_id
        report.start(session=stored_id, resumed=session_id is not None, model=model.name)
        yield Conversation(agent, report, side, person.keyboard, stored_id, model.name, stored)
