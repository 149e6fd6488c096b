"""The scenarios of `specs/durable.md`."""

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from durable_engines import SLOT, until, until_ended
from toolbus import Agent, Ask, AssistantMessage, Deny, ToolCall, ToolMessage, tool
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import ANSWERED, find_question, questions_of
from toolbus.durable.engine import WorkflowCall
from toolbus.durable.holds import EXPIRES, await_answers, mark_expiry, wake
from toolbus.durable.runs import (
    PREFIX,
    DurableRun,
    RunIndex,
    read_run,
    swap_run,
    workflow_of,
)
from toolbus.durable.segment import durable
from toolbus.durable.slots import WorkerSlot
from toolbus.durable.submission import cancel, retry, submit
from toolbus.durable.worker import DEATHS, QueueWorker
from toolbus.errors import (
    MessageDenied,
    ModelError,
    RegistrationError,
    SessionBusyError,
    StoreError,
)
from toolbus.events import MESSAGE_APPEND_BEFORE, MODEL_CALL_BEFORE, RUN_BEFORE, TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore

PROGRAM = Path(__file__).parents[1] / "programs/kill_durable.py"


class World:
    """A store, engines, and agents whose model asks for *calls*, answer by answer."""

    def __init__(self, engines, calls=(("pay", "look"),)):
        self.engines, self.calls = engines, calls
        self.store = MemoryStore()
        self.index = RunIndex(self.store)
        self.ran, self.asked = Counter(), 0
        self.prepare = lambda agent: None
        self.work = lambda name: asyncio.sleep(0)
        self.broken = False

    def agent(self, session_id, store):
        """Return the agent of one session; `prepare` installs its handlers."""

        async def run(name):
            self.ran[name] += 1
            await self.work(name)
            return f"{name} ended"

        @tool
        async def pay() -> str:
            return await run("pay")

        @tool
        async def look() -> str:
            return await run("look")

        model = ScriptedModel(itertools.repeat(self._turn))
        options = {"store": store, "session_id": session_id, "approver": self.approvals()}
        agent = Agent(model, tools=[pay, look], **options)
        self.prepare(agent)
        return agent

    def approvals(self):
        return StoredApprovals()

    def _turn(self, request):
        self.asked += 1
        number = sum(message.role == "assistant" for message in request.messages)
        if self.broken and number:
            raise ModelError("scripted", "out of order")
        if number >= len(self.calls):
            return "Done."
        calls = [ToolCall(id=f"{name}-{number}", name=name) for name in self.calls[number]]
        return AssistantMessage(tool_calls=calls)

    async def worker(self, slot=SLOT, patience=60):
        """Return the engine of a new worker."""
        workflow = durable(self.agent, self.store, patience=patience)
        return await self.engines.open(workflow, slot=slot)

    async def submit(self, engine, session_id="s", **options):
        return await submit(
            self.agent, self.store, engine, "go", queue="q", session_id=session_id, **options
        )

    async def ended(self, engine, run):
        """Return the record of *run* after the engine's last workflow."""
        await until_ended(engine)
        return await read_run(self.store, run.session_id, run.id)

    async def results(self, session_id="s"):
        """Return the error types of the answers in a session by call, "" for results."""
        return {
            each.tool_call_id: each.tool_response.error_type or ""
            for each in await self.store.read(session_id)
            if isinstance(each, ToolMessage)
        }

    async def answer_all(self, session_id="s"):
        """Answer the pending questions of a session with yes, and return their number."""
        questions = [q for q in await questions_of(self.store, session_id) if q.state == "pending"]
        for question in questions:
            await answer(self.store, question.id, question.digest, approve=True, by="ann")
        return len(questions)


@pytest.fixture
def world(memory_engines):
    return World(memory_engines)


def asks_before_paying(agent):
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("?") if ctx.value.name == "pay" else None)


def asks_always(agent):
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("?"))


@asynccontextmanager
async def held(world, prepare=asks_before_paying):
    """Give a worker's engine, and a run that it has held."""
    world.prepare = prepare
    engine = await world.worker()
    run = await world.ended(engine, await world.submit(engine))
    assert run.word == "held"
    yield engine, run
    await world.engines.close()


async def test_a_run_ends_as_its_agent_does(world):
    engine = await world.worker()

    run = await world.ended(engine, await world.submit(engine))

    async with world.agent("other", MemoryStore()) as agent:
        await agent.run("go")
    messages = await world.store.read("s")
    assert [(each.role, each.text) for each in messages] == [
        (each.role, each.text) for each in agent.messages
    ]
    assert (run.word, run.failure) == ("ok", "")
    await world.engines.close()
    last = json.loads(world.engines.journal.read_text().splitlines()[-1])
    names = [name for name, _ in last["steps"]]
    assert names == ["model", "tool", "tool", "model"]


async def test_calls_of_one_answer_run_together(world):
    together = asyncio.Barrier(2)
    world.work = lambda name: together.wait()
    engine = await world.worker()

    run = await world.ended(engine, await world.submit(engine))

    assert run.word == "ok"
    await world.engines.close()


def delegating(world, calls=1):
    """Return a function that makes agents whose tool is an agent, with *calls* of its own tool."""

    @tool
    async def sweep() -> str:
        world.ran["sweep"] += 1
        return "swept"

    def turn_below(request):
        if request.messages[-1].role == "tool":
            return "Swept."
        return AssistantMessage(tool_calls=[ToolCall(name="sweep")] * calls)

    def delegate(request):
        if request.messages[-1].role == "tool":
            return "Done."
        call = ToolCall(id="down", name="cleaner", arguments={"prompt": "sweep"})
        return AssistantMessage(tool_calls=[call])

    def agent(session_id, store):
        cleaner = Agent(ScriptedModel(itertools.repeat(turn_below)), tools=[sweep])
        model, options = ScriptedModel(itertools.repeat(delegate)), {"store": store}
        tools, options["approver"] = [cleaner.as_tool("cleaner")], world.approvals()
        made = Agent(model, tools=tools, session_id=session_id, **options)
        world.prepare(made)
        return made

    return agent


async def test_a_sub_agent_has_its_own_workflow(world):
    world.agent = delegating(world)
    engine = await world.worker()

    run = await world.ended(engine, await world.submit(engine))

    assert (run.word, world.ran) == ("ok", {"sweep": 1})
    assert await world.results() == {"down": ""}
    await world.engines.close()
    lines = [json.loads(line) for line in world.engines.journal.read_text().splitlines()]
    last = {line["call"]["id"]: line["steps"] for line in lines}
    names = {name: [step for step, _ in steps] for name, steps in last.items()}
    above, below = sorted(names)
    assert below.startswith(above)
    assert names == {name: ["model", "tool", "model"] for name in (above, below)}


async def test_handlers_see_the_context_of_runs(world):
    seen = {}

    def prepare(agent):
        for event in (RUN_BEFORE, MODEL_CALL_BEFORE, TOOL_CALL_BEFORE):
            agent.on(event, lambda ctx: seen.update({ctx.event.name: ctx.scope.context}))

    world.prepare = prepare
    engine = await world.worker()

    await world.ended(engine, await world.submit(engine, context={"user": "ann"}))

    names = [event.name for event in (RUN_BEFORE, MODEL_CALL_BEFORE, TOOL_CALL_BEFORE)]
    assert seen == {name: {"user": "ann"} for name in names}
    await world.engines.close()


async def test_a_refused_prompt_is_not_queued(world):
    engine = await world.worker()
    guards = [(RUN_BEFORE, Deny("no")), (RUN_BEFORE, Ask("?")), (MESSAGE_APPEND_BEFORE, Deny("no"))]

    for event, verdict in guards:
        world.prepare = lambda agent, event=event, verdict=verdict: agent.guard(
            event, lambda ctx: verdict
        )
        with pytest.raises(MessageDenied):
            await world.submit(engine)

    assert await world.store.read("s") == ()
    assert await engine.workflows() == ()
    assert await world.index.states(PREFIX) == []
    await world.engines.close()


async def test_a_second_submission_changes_nothing(world):
    engine = await world.worker()

    first = await world.submit(engine, run_id="mine")
    second = await world.submit(engine, run_id="mine")
    run = await world.ended(engine, first)
    third = await world.submit(engine, run_id="mine")
    await until_ended(engine)

    roles = [each.role for each in await world.store.read("s")]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    assert (second.id, third) == ("mine", run)
    assert world.ran == {"pay": 1, "look": 1}
    await world.engines.close()


async def test_a_run_id_belongs_to_one_session(world):
    engine = await world.worker()
    await world.ended(engine, await world.submit(engine, run_id="mine"))

    with pytest.raises(RegistrationError, match="another session"):
        await world.submit(engine, "t", run_id="mine")

    assert await world.store.read("t") == ()
    await world.engines.close()


async def test_a_failed_run_is_tried_again(world):
    world.broken = True
    engine = await world.worker()
    failed = await world.ended(engine, await world.submit(engine))

    world.broken = False
    await retry(world.store, engine, failed)
    run = await world.ended(engine, failed)

    assert failed.word == "failed"
    assert failed.failure.startswith("ModelError: ")
    assert (run.word, run.segment, run.failure) == ("ok", 2, "")
    assert world.ran == {"pay": 1, "look": 1}
    await world.engines.close()


async def test_a_session_has_one_open_run(world):
    async with held(world) as (engine, first):
        with pytest.raises(SessionBusyError, match=first.id):
            await world.submit(engine)
        roles = [each.role for each in await world.store.read("s")]

        await world.answer_all()
        await wake(world.store, engine, world.index)
        await world.ended(engine, first)
        second = await world.ended(engine, await world.submit(engine))

        assert roles.count("user") == 1
        assert second.word == "ok"


async def test_two_submissions_at_once_are_one(world):
    engine = await world.worker()

    works = [world.submit(engine) for _ in range(3)]
    results = await asyncio.gather(*works, return_exceptions=True)
    await until_ended(engine)

    kinds = Counter(type(each) for each in results)
    assert kinds == {DurableRun: 1, SessionBusyError: 2}
    assert [each.role for each in await world.store.read("s")].count("user") == 1
    assert len(await world.index.states(PREFIX)) == 1
    await world.engines.close()


async def test_a_submission_at_half_is_finished(world):
    engine = await world.worker()
    half = DurableRun(id="r", session_id="s", queue="q", word="submitting")
    assert await swap_run(world.store, None, half)
    await await_answers(world.store, half)
    with pytest.raises(SessionBusyError, match="run r"):
        await world.submit(engine)

    run = await world.ended(engine, await world.submit(engine, run_id="r"))

    assert (run.word, run.id) == ("ok", "r")
    await world.engines.close()


async def test_a_run_ends_at_its_deadline(world):
    world.work = lambda name: asyncio.Event().wait()
    engine = await world.worker()
    late = await world.ended(engine, await world.submit(engine, timeout=0.1))
    statuses = set((await world.results()).values())
    world.work = lambda name: asyncio.sleep(0)

    stored = await read_run(world.store, "s", late.id)
    await retry(world.store, engine, late)
    again = await world.ended(engine, late)
    over = await world.ended(engine, await world.submit(engine, "t", timeout=0))

    assert (stored.word, statuses, again.word, over.word) == (
        "timeout",
        {"cancelled"},
        "ok",
        "timeout",
    )
    assert world.ran == {"pay": 1, "look": 1}
    await world.engines.close()


async def test_a_function_without_an_agent_fails_the_run(world):
    engine = await world.worker()
    agent, run = world.agent, DurableRun(id="r", session_id="s", queue="q")
    others = [(lambda *_: None, "not 'NoneType'"), (lambda _, store: agent("x", store), "pass on")]

    for make, reason in others:
        world.agent = make
        with pytest.raises(RegistrationError, match=reason):
            await world.submit(engine)

    await swap_run(world.store, None, run)
    engine = await world.worker()
    await engine.enqueue(workflow_of(run))
    failed = await world.ended(engine, run)

    assert failed.word == "failed"
    assert "pass on `session_id`" in failed.failure
    await world.engines.close()


async def test_an_exit_of_code_fails_its_run(world):
    def leave(agent):
        agent.on(MODEL_CALL_BEFORE, lambda ctx: sys.exit(3))

    world.prepare = leave
    engine = await world.worker()
    failed = await world.ended(engine, await world.submit(engine))

    world.prepare = lambda agent: None
    run = await world.ended(engine, await world.submit(engine, "t"))

    assert (failed.word, failed.failure, run.word) == ("failed", "SystemExit: 3", "ok")
    await world.engines.close()


@pytest.mark.full
@pytest.mark.parametrize("mode", ["alone", "below"])
def test_a_kill_at_any_write_loses_nothing(quick_folder, mode):
    done = subprocess.run(
        [sys.executable, PROGRAM, quick_folder / "s.db", quick_folder, mode],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    kills = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(kills) > 30
    for facts in kills:
        assert facts["word"] == "ok", facts
        assert facts["open"] == 0, facts
        for call, kinds in facts["answers"].items():
            assert len(kinds) == 1, facts
            times = facts["ran"].get(call, 0)
            if call == "down":
                continue  # Its tools are those of the sub-agent.
            assert times == 1 or (kinds == ["interrupted"] and times == 0), facts
    assert any("interrupted" in kinds for facts in kills for kinds in facts["answers"].values())


async def test_an_ended_segment_is_not_run_again(world):
    engine = await world.worker()
    run = await world.ended(engine, await world.submit(engine))
    asked = world.asked

    # The same segment for an engine without a record of it.
    world.engines.forget()
    engine = await world.worker(slot="worker:q:2")
    await engine.enqueue(workflow_of(run))
    words = await until_ended(engine)

    assert list(words.values()) == ["ok"]
    assert world.asked == asked
    await world.engines.close()


async def test_a_held_run_occupies_no_worker(world):
    async with held(world) as (engine, run):
        (question,) = await questions_of(world.store, "s")

        assert await engine.workflows() == ()
        assert run.questions == (question.id,)
        assert world.ran == {"look": 1}


async def test_an_answer_starts_the_next_segment(world):
    async with held(world) as (engine, run):
        assert await wake(world.store, engine, world.index) == 0

        await world.answer_all()
        woken = await wake(world.store, engine, world.index)
        ended = await world.ended(engine, run)

        assert (woken, ended.word, ended.segment) == (1, "ok", 2)
        assert world.ran == {"look": 1, "pay": 1}
        assert await world.index.states(ANSWERED) == []


async def test_two_answers_start_one_segment(world):
    async with held(world, asks_always) as (engine, run):
        assert await world.answer_all() == 2

        await asyncio.gather(*[wake(world.store, engine, RunIndex(world.store)) for _ in range(2)])
        ended = await world.ended(engine, run)

        segments = await engine.workflows(("ended",))
        assert [each.arguments for each in segments] == [(run.id, "1"), (run.id, "2")]
        assert ended.word == "ok"
        assert world.ran == {"look": 1, "pay": 1}


def asks_before_sweeping(agent):
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("?") if ctx.value.name == "sweep" else None)


async def test_answers_to_a_sub_agent_s_questions_count(world):
    world.agent = delegating(world, calls=2)
    async with held(world, asks_before_sweeping) as (engine, run):
        for question_id in run.questions:
            question = await find_question(world.store, question_id)
            await answer(world.store, question.id, question.digest, approve=True, by="ann")
        assert len(run.questions) == 2

        woken = await wake(world.store, engine, world.index)
        ended = await world.ended(engine, run)

        assert (woken, ended.word) == (1, "ok")
        assert world.ran == {"sweep": 2}


async def test_an_answer_in_mid_segment_counts(world):
    async with held(world, asks_always) as (engine, run):
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def work(name):
            begun.set()
            await may_end.wait()

        world.work = work
        first, second = await questions_of(world.store, "s")
        await answer(world.store, first.id, first.digest, approve=True, by="ann")
        woken = [await wake(world.store, engine, world.index)]
        await begun.wait()

        await answer(world.store, second.id, second.digest, approve=True, by="ann")
        woken.append(await wake(world.store, engine, world.index))
        may_end.set()
        again = await world.ended(engine, run)
        woken.append(await wake(world.store, engine, world.index))
        ended = await world.ended(engine, run)

        assert (woken, again.word, ended.word) == ([1, 0, 1], "held", "ok")
        assert world.ran == {"pay": 1, "look": 1}


async def test_a_wake_up_at_half_is_finished(world):
    async with held(world) as (engine, run):
        await world.answer_all()
        (marker,) = await world.index.states(ANSWERED)
        queued = replace(run, word="queued", segment=2, woken_by=marker.name)
        assert await swap_run(world.store, run, queued)

        await wake(world.store, engine, world.index)
        ended = await world.ended(engine, run)

        assert (ended.word, ended.segment) == ("ok", 2)
        assert await world.index.states(ANSWERED) == []


async def test_an_expired_question_is_a_refusal(world):
    world.approvals = lambda: StoredApprovals(expires_after=0.05)
    async with held(world) as (engine, run):
        (question,) = await questions_of(world.store, "s")
        await until(lambda: asyncio.sleep(0, time.time_ns() > question.expires_ns))

        woken = await wake(world.store, engine, world.index)
        ended = await world.ended(engine, run)

        assert (woken, ended.word) == (1, "ok")
        assert await world.results() == {"look-0": "", "pay-0": "denied"}
        assert world.ran == {"look": 1}


async def test_a_held_run_ends_at_its_deadline(world):
    world.prepare = asks_before_paying
    engine = await world.worker()
    run = await world.ended(engine, await world.submit(engine, timeout=600))
    (marker,) = await world.index.states(EXPIRES)
    late = replace(run, ends_ns=time.time_ns())
    assert await swap_run(world.store, run, late)
    await mark_expiry(world.store, late)

    woken = await wake(world.store, engine, world.index)
    ended = await world.ended(engine, run)
    (question,) = await questions_of(world.store, "s")

    assert (run.word, woken, ended.word) == ("held", 1, "timeout")
    assert marker.name == f"{EXPIRES}{run.ends_ns:020d}:1"
    assert question.state == "withdrawn"
    world.prepare = lambda agent: None
    await retry(world.store, engine, ended)
    assert (await world.ended(engine, run)).word == "ok"
    assert len(await world.results()) == 2
    await world.engines.close()


async def test_waiting_questions_cost_two_lookups(world, tmp_path):
    engine = await world.worker()
    async with SqliteStore(tmp_path / "s.db") as store:
        for number in range(100):
            name = f"{EXPIRES}{2**62 + number:020d}:1"
            body = b'{"session_id":"s","run_id":"r"}'
            await store.swap_state("s", name, None, body)
        index = CountingIndex(store)

        woken = await wake(store, engine, index)

        assert (woken, index.rows, index.lookups) == (0, 0, 2)
        index.close()
    await world.engines.close()


class CountingIndex(RunIndex):
    """Counts its lookups and the rows that they find."""

    rows = lookups = 0

    async def states(self, *arguments):
        found = await super().states(*arguments)
        self.lookups += 1
        self.rows += len(found)
        return found


async def test_a_segment_that_runs_twice_writes_once(world):
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(name):
        begun.set()
        await may_end.wait()

    world.work = work
    first = await world.worker()
    run = await world.submit(first)
    await begun.wait()
    world.engines.forget()
    second = await world.worker(slot="worker:q:2")
    await second.enqueue(workflow_of(run))
    await asyncio.sleep(0.05)

    may_end.set()
    words = [await until_ended(engine) for engine in (first, second)]

    assert [list(each.values()) for each in words] == [["ok"], ["ok"]]
    assert world.ran == {"pay": 1, "look": 1}
    assert await world.results() == {"pay-0": "", "look-0": ""}
    await world.engines.close()


async def test_a_session_in_use_ends_the_segment(world):
    engine = await world.worker(patience=0.1)
    run = DurableRun(id="r", session_id="s", queue="q")
    async with world.agent("s", world.store) as agent:
        await agent.append("go")
    await swap_run(world.store, None, run)
    await world.store.open_session("s", "somebody", 60)

    await engine.enqueue(workflow_of(run))
    ended = await world.ended(engine, run)
    await world.store.extend_lease("s", "somebody", 0)
    await retry(world.store, engine, ended)
    again = await world.ended(engine, run)

    assert (ended.word, again.word) == ("busy", "ok")
    await world.engines.close()


class FailingStore(MemoryStore):
    """A store that fails while its appends, or its readers, are down."""

    appends_until, has_readers = 0.0, True

    async def append(self, session_id, request):
        if time.monotonic() < self.appends_until:
            raise StoreError("memory", "it is down")
        await super().append(session_id, request)

    def reader(self):
        if not self.has_readers:
            raise StoreError("memory", "it is down")
        return super().reader()


async def test_a_long_segment_outlasts_a_failing_store(world):
    world.store = FailingStore()

    async def work(name):
        await asyncio.sleep(0.4)
        world.store.appends_until = time.monotonic() + 0.2

    world.work = work
    engine = await world.worker(patience=0.3)

    run = await world.ended(engine, await world.submit(engine))

    assert run.word == "ok"
    assert world.ran == {"pay": 1, "look": 1}
    await world.engines.close()


async def test_a_run_that_cannot_be_read_waits(world):
    world.store = FailingStore()
    world.store.has_readers = False
    engine = await world.worker(patience=0.1)
    submitted = await world.submit(engine)

    await asyncio.sleep(1.5)
    world.store.has_readers = True
    run = await world.ended(engine, submitted)

    assert run.word == "ok"
    await world.engines.close()


async def test_a_superseded_segment_does_nothing(world):
    async with held(world) as (_, run):
        await swap_run(
            world.store, run, DurableRun(id=run.id, session_id="s", queue="q", segment=5)
        )
        before = await world.store.read("s")

        world.engines.forget()
        engine = await world.worker()
        await engine.enqueue(workflow_of(run))
        words = await until_ended(engine)

        assert list(words.values()) == ["superseded"]
        assert await world.store.read("s") == before


async def test_a_stop_lets_calls_end(world):
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(name):
        begun.set()
        await may_end.wait()

    world.work = work
    engine = await world.worker()
    run = await world.submit(engine)
    await begun.wait()

    stopped = asyncio.ensure_future(engine.stop(10))
    await asyncio.sleep(0.01)
    may_end.set()
    await stopped
    (left,) = await engine.workflows()
    await engine.close()
    engine = await world.worker(slot="worker:q:2")
    await renewing(world, engine).renew_runs(SLOT, dead=False)
    ended = await world.ended(engine, run)

    assert (left.state, ended.word, ended.deaths) == ("running", "ok", 0)
    assert await world.results() == {"pay-0": "", "look-0": ""}
    await world.engines.close()


async def test_a_cancelled_run_answers_its_calls(world):
    async with held(world) as (engine, waiting):
        begun = asyncio.Event()

        async def work(name):
            begun.set()
            await asyncio.Event().wait()

        world.work, world.prepare = work, lambda agent: None
        running = await world.submit(engine, session_id="t")
        await begun.wait()

        cancelled = [await cancel(world.store, engine, run) for run in (waiting, running)]
        await until_ended(engine)
        await until(lambda: asyncio.sleep(0, begun.is_set()))

        async def has_answers():
            return len(await world.results("t")) == 2

        await until(has_answers)
        assert [run.word for run in cancelled] == ["cancelled", "cancelled"]
        assert set((await world.results("t")).values()) == {"cancelled"}
        (question,) = await questions_of(world.store, "s")
        assert question.state == "withdrawn"
        assert await wake(world.store, engine, world.index) == 0
        assert (await read_run(world.store, "t", running.id)).word == "cancelled"


async def test_a_cancellation_withdraws_questions_below(world):
    world.agent = delegating(world)
    async with held(world, asks_before_sweeping) as (engine, run):
        await cancel(world.store, engine, run)

        question = await find_question(world.store, run.questions[0])
        assert question.state == "withdrawn"
        assert question.session_id != run.session_id


async def test_a_cancellation_at_half_is_finished(world):
    begun = asyncio.Event()

    async def work(name):
        begun.set()
        await asyncio.Event().wait()

    world.work = work
    engine = await world.worker()
    run = await world.submit(engine)
    await begun.wait()
    half = replace(run, word="cancelled")
    assert await swap_run(world.store, run, half)

    assert await cancel(world.store, engine, half) == half
    await until_ended(engine)

    async def has_answers():
        return len(await world.results()) == 2

    await until(has_answers)
    assert set((await world.results()).values()) == {"cancelled"}
    await world.engines.close()


async def test_a_broken_marker_stops_no_other(world, caplog):
    async with held(world) as (engine, run):
        await world.store.swap_state("s", f"{ANSWERED}broken", None, b'"a secret"')
        await world.answer_all()

        woken = await wake(world.store, engine, world.index)

        assert woken == 1
        assert "broken" in caplog.text
        assert "secret" not in caplog.text
        assert await world.index.states(ANSWERED) == []
        await world.ended(engine, run)


def renewing(world, engine):
    return QueueWorker(world.store, engine, "q", WorkerSlot(world.store, "worker:q:2"))


async def left_in_mid_call(world):
    """Return a run whose worker was killed in the middle of its calls."""
    world.work = lambda name: asyncio.Event().wait()
    engine = await world.worker()
    run = await world.submit(engine)
    await until(lambda: asyncio.sleep(0, world.ran))
    await engine.close()
    return run


async def test_a_broken_record_stops_no_other(world, caplog):
    world.work = lambda name: asyncio.Event().wait()
    engine = await world.worker()
    broken, run = [await world.submit(engine, name) for name in ("b", "s")]
    await until(lambda: asyncio.sleep(0, world.ran["pay"] == 2))
    await engine.close()
    name = f"{PREFIX}{broken.id}"
    body = await world.store.read_state("b", name)
    assert await world.store.swap_state("b", name, body, b'"a secret"')

    world.work = lambda name: asyncio.sleep(0)
    engine = await world.worker(slot="worker:q:2")
    await renewing(world, engine).renew_lost()

    async def has_ended():
        return (await read_run(world.store, "s", run.id)).word == "ok"

    await until(has_ended)
    assert workflow_of(broken).id in caplog.text
    assert "secret" not in caplog.text
    await world.engines.close()


async def test_runs_of_another_version_are_renewed(world, caplog):
    async def other_version(steps, arguments):
        await asyncio.Event().wait()

    old = await world.engines.open(other_version, version="toolbus-0")
    run = await world.submit(old)
    ended_before = [await world.submit(old, name) for name in ("ok", "cancelled")]
    for each in ended_before:
        assert await swap_run(world.store, each, replace(each, word=each.session_id))
    await old.enqueue(WorkflowCall(id="lost", arguments=("gone", "1"), queue="q"))
    await old.stop(0)
    await old.close()

    engine = await world.worker(slot="worker:q:2")
    await renewing(world, engine).renew_lost()
    ended = await world.ended(engine, run)

    assert (ended.word, ended.segment, ended.deaths) == ("ok", 2, 1)
    assert len(await engine.workflows(("cancelled",))) == 4
    assert caplog.text.count("has no run") == 1
    for each in ended_before:
        assert (await read_run(world.store, each.session_id, each.id)).segment == 1
    await world.engines.close()


async def test_a_renewal_at_half_is_finished(world):
    run = await left_in_mid_call(world)
    assert await swap_run(world.store, run, replace(run, segment=2))

    world.work = lambda name: asyncio.sleep(0)
    engine = await world.worker(slot="worker:q:2")
    await renewing(world, engine).renew_lost()
    ended = await world.ended(engine, run)

    assert (ended.word, ended.segment) == ("ok", 2)
    await world.engines.close()


async def test_a_write_with_a_lost_answer_counts(world, monkeypatch):
    run = await left_in_mid_call(world)
    swap = world.store.swap_state

    async def without_answer(session_id, name, old, new):
        # The second try of a write whose first answer was lost finds it done.
        return await swap(session_id, name, old, new) and not name.startswith(PREFIX)

    world.work = lambda name: asyncio.sleep(0)
    engine = await world.worker(slot="worker:q:2")
    monkeypatch.setattr(world.store, "swap_state", without_answer)
    await renewing(world, engine).renew_lost()
    ended = await world.ended(engine, run)

    assert (ended.word, ended.segment) == ("ok", 2)
    await world.engines.close()


async def test_a_run_that_kills_workers_fails(world):
    run = await left_in_mid_call(world)
    assert await swap_run(world.store, run, replace(run, deaths=DEATHS - 1))

    engine = await world.worker(slot="worker:q:2")
    await renewing(world, engine).renew_lost()
    failed = await world.ended(engine, run)
    world.work = lambda name: asyncio.sleep(0)
    await retry(world.store, engine, failed)
    again = await world.ended(engine, run)

    assert (failed.word, failed.segment) == ("failed", 1)
    assert str(DEATHS) in failed.failure
    assert again.word == "ok"
    await world.engines.close()
