"""Pydantic AI in a DBOS workflow on SQLite: deferred tools, and `DBOS.recv` for the answers.

https://ai.pydantic.dev/durable_execution/dbos (tools with effects are steps) and
https://docs.dbos.dev/python/examples/agent-inbox (the workflow waits for a person in `DBOS.recv`).
"""

from __future__ import annotations

import asyncio
from typing import Any

from dbos import DBOS, DBOSClient, DBOSConfig, SetWorkflowID
from pydantic_ai import DeferredToolRequests, DeferredToolResults
from pydantic_ai.durable_exec.dbos import DBOSDurability

from benchmarks.approvals.protocol import Answer, Outcome, Question, Setup
from benchmarks.approvals.systems import pydantic_ai
from benchmarks.harness import CannotError

_LONG_S = 7 * 24 * 3600.0
_TOPIC = "answers"


class System(pydantic_ai.System):
    """A workflow for each session."""

    def start(self, setup: Setup) -> Outcome:
        """Start the workflow and leave it when it waits."""
        pydantic_ai.can(Setup(setup.place, setup.turns))
        return asyncio.run(_start(setup))

    def questions(self, setup: Setup) -> tuple[Question, ...]:
        """Return the event that the workflow has set."""
        return _questions(_client(setup), setup)

    def resume(self, setup: Setup, answers: dict[str, Answer]) -> Outcome:
        """Send the answers, and recover the workflow in this process."""
        client = _client(setup)
        if answers:
            if {one.handle for one in _questions(client, setup)} > answers.keys():
                raise CannotError("a run goes on when all of its questions are answered")
            given = {key: pydantic_ai.decision(one) for key, one in answers.items()}
            client.send(setup.session, given, topic=_TOPIC)
        return asyncio.run(_recover(setup))

    def known(self, setup: Setup, call_id: str) -> str:
        """Return the steps of the workflow that have ended."""
        steps = _client(setup).list_workflow_steps(setup.session)
        names = [str(one["function_name"]).rsplit(".", 1)[-1] for one in steps]
        return "ran" if "write" in names else f"ended steps: {', '.join(sorted(set(names)))}"


def _config(setup: Setup) -> DBOSConfig:
    return {
        "name": "approvals",
        "system_database_url": f"sqlite:///{setup.place}/dbos.sqlite",
        "run_admin_server": False,
        "log_level": "CRITICAL",
    }


def _client(setup: Setup) -> DBOSClient:
    return DBOSClient(system_database_url=f"sqlite:///{setup.place}/dbos.sqlite")


def _questions(client: DBOSClient, setup: Setup) -> tuple[Question, ...]:
    found = client.get_event(setup.session, "questions", timeout_seconds=5)
    return tuple(Question(*one) for one in found or ())


def _workflow(setup: Setup) -> Any:
    DBOS(config=_config(setup))
    agent = pydantic_ai.make_agent(setup, (DBOSDurability(),), DBOS.step())

    @DBOS.workflow(name="converse")
    async def converse(prompt: str) -> str:
        result = await agent.run(prompt)
        while isinstance(result.output, DeferredToolRequests):
            asked = [list(one) for one in pydantic_ai.asked(result.output)]
            await DBOS.set_event_async("questions", asked)
            wait_s = setup.lasts_s or _LONG_S
            given = await DBOS.recv_async(_TOPIC, timeout_seconds=wait_s)
            if given is None:
                given = {one.tool_call_id: False for one in result.output.approvals}
            result = await agent.run(
                message_history=result.all_messages(),
                deferred_tool_results=DeferredToolResults(approvals=given),
            )
        await DBOS.set_event_async("questions", [])
        return str(result.output)

    DBOS.launch()
    return converse


async def _start(setup: Setup) -> Outcome:
    converse = _workflow(setup)
    with SetWorkflowID(setup.session):
        handle = await DBOS.start_workflow_async(converse, "go")
    questions = await DBOS.get_event_async(setup.session, "questions", timeout_seconds=20)
    if questions:
        return Outcome("pending", "", tuple(Question(*one) for one in questions))
    return Outcome("ended", await handle.get_result())


async def _recover(setup: Setup) -> Outcome:
    # The launch itself recovers what this executor had not ended.
    _workflow(setup)
    handle = await DBOS.retrieve_workflow_async(setup.session)
    result = asyncio.create_task(handle.get_result())
    try:
        return Outcome("ended", await asyncio.wait_for(result, 20))
    except TimeoutError:
        questions = await DBOS.get_event_async(setup.session, "questions", timeout_seconds=1)
        return Outcome("pending", "", tuple(Question(*one) for one in questions or ()))
